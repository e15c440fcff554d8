//! The `ge` command.
use std::process::ExitCode;

/// Graphs are many small parts, made and freed all the time, by plugins as well as by the host: the
/// program's `malloc` and `free` are this allocator's too (its feature `override`), so that libraries
/// use it without knowing. What crosses the border is freed by the side that made it all the same: in
/// a program that embeds the host plugins have the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args: Vec<std::ffi::OsString> = std::env::args_os().collect();
    // The probe of `ge plugin check` is to die as the plugin makes it die: its parent reports that.
    if args.get(1).is_none_or(|a| a != ge::commands::PROBE) {
        ge_plugin::crash::arm();
        ge_plugin::verdicts::keep();
    }
    ExitCode::from(ge::commands::main(args))
}
