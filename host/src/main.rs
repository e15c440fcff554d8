//! The `ge` command.
use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(ge::commands::main(std::env::args_os().collect()))
}
