//! `ge completions SHELL`: prints the completion script to stdout.
use crate::Result;
use clap::Args;

#[derive(Args, Debug)]
pub struct CompletionsArgs {
    /// bash, zsh, fish, elvish or powershell
    shell: clap_complete::Shell,
}

/// Runs the command.
pub fn run(args: &CompletionsArgs, command: &mut clap::Command) -> Result<u8> {
    let mut out = Vec::new();
    clap_complete::generate(args.shell, command, "ge", &mut out);
    crate::commands::talk::print(&String::from_utf8_lossy(&out))?;
    Ok(0)
}
