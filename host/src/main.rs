//! The `ge` command.
use std::process::ExitCode;

/// Graphs are many small parts, made and freed all the time, by plugins as well as by the host: the
/// program's `malloc` and `free` are this allocator's too (its feature `override`), so that libraries
/// use it without knowing. What crosses the border is freed by the side that made it all the same: in
/// a program that embeds the host plugins have the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The allocator's option for how long memory that is free stays with the program (mimalloc 2's
/// `mi_option_purge_delay`), and milliseconds for it: the outputs of a run lie where those of the
/// last one lay, instead of in pages that the system has to clear anew.
const PURGE_DELAY: (libmimalloc_sys::mi_option_t, i64) = (15, 1000);

/// A part of the allocator's memory that is as large as what it gives out to a thread at a time
/// (mimalloc 2's segments).
const SEGMENT: usize = 32 << 20;

/// Lets the memory that this thread allocates first lie in large pages: a compilation writes to all
/// of it within milliseconds, and each small page is a fault of its own. More than that would cost
/// larger models more, in memory and in pages to be cleared, than it saves.
fn take_large_pages() {
    let here = std::hint::black_box(Box::new(0u8));
    let segment = std::ptr::from_ref(&*here).addr() & !(SEGMENT - 1);
    // SAFETY: advice about pages of the allocator's arena changes what no byte of them is.
    unsafe { libc::madvise(segment as *mut libc::c_void, SEGMENT, libc::MADV_HUGEPAGE) };
}

fn main() -> ExitCode {
    // SAFETY: the option is one of this version's, set before there are other threads.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY.0, PURGE_DELAY.1 as _) };
    let args: Vec<std::ffi::OsString> = std::env::args_os().collect();
    // The probe of `ge plugin check` is to die as the plugin makes it die: its parent reports that.
    if args.get(1).is_none_or(|a| a != ge::commands::PROBE) {
        ge_plugin::crash::arm();
    }
    if args.get(1).is_some_and(|a| a == "compile") {
        take_large_pages();
    }
    ExitCode::from(ge::commands::main(args))
}
