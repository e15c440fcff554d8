//! The `ge` command.
use std::process::ExitCode;

/// Graphs are many small parts, made and freed all the time. Plugins keep the system's allocator:
/// what crosses the border is freed by the side that made it.
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
