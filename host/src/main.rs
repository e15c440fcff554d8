//! The `ge` command.
use std::process::ExitCode;

/// The global allocator. Graphs consist of many small parts which plugins and the host allocate and
/// free all the time. The crate's feature `override` also replaces the program's `malloc` and
/// `free`, so libraries use this allocator too. Even so, whatever crosses the plugin ABI is freed
/// by the side that allocated it: in a program that embeds the host, plugins use the system's
/// allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The allocator's option for how long freed memory stays with the program (mimalloc 2's
/// `mi_option_purge_delay`), and its value in milliseconds. With it, the outputs of a run reuse the
/// memory of the previous run's outputs instead of pages that the system has to clear again.
const PURGE_DELAY: (libmimalloc_sys::mi_option_t, i64) = (15, 1000);

/// Size in bytes of the block that the allocator hands to a thread at a time (a mimalloc 2
/// segment).
const SEGMENT: usize = 32 << 20;

/// Advises the system to put the first segment of this thread in large pages: a compilation writes
/// to all of it within milliseconds, and each small page costs a page fault. Large pages for more
/// than that would cost larger models more (memory, and pages to clear) than they save.
fn take_large_pages() {
    let here = std::hint::black_box(Box::new(0u8));
    let segment = std::ptr::from_ref(&*here).addr() & !(SEGMENT - 1);
    // SAFETY: `MADV_HUGEPAGE` is only advice; it does not change the contents of the pages.
    unsafe { libc::madvise(segment as *mut libc::c_void, SEGMENT, libc::MADV_HUGEPAGE) };
}

fn main() -> ExitCode {
    // SAFETY: the option exists in the linked version, and no other thread runs yet.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY.0, PURGE_DELAY.1 as _) };
    let args: Vec<std::ffi::OsString> = std::env::args_os().collect();
    // The probe of `ge plugin check` must die the way the plugin makes it die: its parent reports
    // it.
    if args.get(1).is_none_or(|a| a != ge::commands::PROBE) {
        ge_plugin::crash::arm();
    }
    if args.get(1).is_some_and(|a| a == "compile") {
        take_large_pages();
    }
    ExitCode::from(ge::commands::main(args))
}
