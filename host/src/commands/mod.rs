//! The commands of `ge`: each parses its arguments, calls the library and renders the result. One
//! file per command.
mod compile;
mod inputs;
mod outputs;
mod run;
mod inspect;
mod numbers;
mod opt;
pub mod golden;
mod plan;
mod plugin;
mod completions;
mod tensors;
mod calibration;
mod reduced;
mod check;
mod explain;
mod bench;
mod cache;
mod compare;
mod specialise;
mod steps;
mod stdin;
mod unused;
mod flags;
mod talk;
mod tune;

use crate::render::{exit_code, print_error};
use crate::{Diagnostic, Error, ErrorKind, Result};
use clap::{CommandFactory, Parser, Subcommand};
use flags::{Colour, Global};
use ge_plugin_api::services::Level;
use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::Path;
use talk::print_json;

#[derive(Parser, Debug)]
#[command(
    name = "ge",
    version,
    about = "A graph compiler and runner for Ascend NPUs, with a simulator built in",
    disable_help_subcommand = true,
    after_help = "Exit codes: 0 done, 1 the job failed or the answer is no, 2 usage, 3 unsupported, 4 damaged file, 5 plugin failed, 6 device failed, 70 a bug of ge, 130 interrupted\n\nFirst steps:\n  ge compile model.onnx -o model.om\n  ge run model.om --random 1"
)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Compiles a model to an OM file
    Compile(compile::CompileArgs),
    /// Runs a model or an OM file
    Run(Box<run::RunArgs>),
    /// Shows what is in a model or an OM file
    Inspect(inspect::InspectArgs),
    /// Runs passes or stages on a graph in text form
    Opt(opt::OptArgs),
    /// Plans memory or streams of a file, without a model
    #[command(subcommand)]
    Plan(plan::PlanCommand),
    /// Lists and checks plugins
    #[command(subcommand)]
    Plugin(plugin::PluginCommand),
    /// Lists, verifies and prunes a model cache
    #[command(subcommand)]
    Cache(cache::CacheCommand),
    /// Measures latency, throughput, load and compile time
    Bench(bench::BenchArgs),
    /// Measures how kernels are best divided on this machine
    Tune(tune::TuneArgs),
    /// Compares two models, or a model and reference files, node by node
    Compare(compare::CompareArgs),
    /// Says whether this ge runs an OM file: yes, rebuild or no, and why
    Check(check::CheckArgs),
    /// Explains an error code, with an example
    Explain(explain::ExplainArgs),
    /// Prints a completion script for a shell
    #[command(after_help = "Example:\n  ge completions bash")]
    Completions(completions::CompletionsArgs),
}

/// The first argument of the child process that `ge plugin check` starts. It is not a clap command,
/// so neither help nor completions offer it.
pub const PROBE: &str = "__probe-plugin";
/// Passed to the child in place of a configuration: it then compiles and runs nothing.
pub(crate) const NO_RUN: &str = "--no-run";

/// Parses a command line of `ge opt`, as given in the `# RUN:` line of a golden file.
///
/// # Errors
/// Fails if the words cannot be split, if it is another command, or if a flag is unknown.
fn parse_opt(line: &str) -> std::result::Result<opt::OptArgs, String> {
    let mut words = shlex::split(line).ok_or_else(|| format!("an open quote in `{line}`"))?;
    // The file itself is the input.
    words.push("golden.ge".into());
    match Cli::try_parse_from(words).map_err(|e| e.to_string())?.command {
        Command::Opt(a) => Ok(a),
        _ => Err(format!("`{line}` is no `ge opt`")),
    }
}

/// Runs the command line and returns the exit code.
pub fn main(args: Vec<OsString>) -> u8 {
    // A panic message goes into the error made from the panic, so it is not printed separately.
    ge_plugin_api::abi::guard::install_panic_hook();
    if let [_, word, config, library] = args.as_slice()
        && word == PROBE
    {
        let named = Some(Path::new(config)).filter(|c| !c.as_os_str().is_empty());
        let mut more = |name: &str, path: &Path, p: &mut ge_plugin::conformance::Probe| {
            if config != NO_RUN {
                crate::conformance::probe(name, path, named, p);
            }
        };
        return u8::try_from(ge_plugin::conformance::probe_main(Path::new(library), &mut more)).unwrap_or(5);
    }
    let cli = match Cli::try_parse_from(&args) {
        Ok(c) => c,
        Err(e) => return not_parsed(&args, &e),
    };
    // Output that plugins print must not mix with the output of this command.
    ge_plugin::stdio::claim();
    let colour = match cli.global.color {
        Colour::Always => true,
        Colour::Never => false,
        Colour::Auto => std::io::stderr().is_terminal() && colours_wanted(|name| std::env::var_os(name)),
    };
    // A second Ctrl-C, or work that ignores the first one, still ends the program within a second.
    let _ = ctrlc::set_handler(|| {
        ge_plugin::services::set_cancelled(true);
        std::thread::spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(900));
            crate::render::watch::say_who_is_at_work();
            interrupted();
        });
    });
    crate::render::watch::start(cli.global.quiet);
    if !cli.global.quiet {
        // Warnings of plugins are for every user; their other messages appear only with
        // `--verbose`.
        let least = if cli.global.verbose > 0 { Level::INFO } else { Level::WARN };
        ge_plugin::services::set_log_sink(Some(std::sync::Arc::new(move |level: Level, text: &str| {
            if level.code() <= least.code() {
                let name = if level == Level::WARN { "warning" } else { level.name() };
                let _ = writeln!(std::io::stderr().lock(), "{name}: {text}");
            }
        })));
    }
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| dispatch(&cli)));
    match result {
        Ok(Ok(code)) => code,
        Ok(Err(e)) => report(&cli.global, &e, colour),
        Err(payload) => {
            let what = ge_plugin_api::abi::guard::panic_error("ge", payload);
            let e =
                Error::new(ErrorKind::INTERNAL, format!("ge has failed in a way it should not: {}", what.message()));
            report(&cli.global, &e, colour)
        }
    }
}

/// Reports a command line that cannot be parsed, or prints the help or version that it asks for.
/// Returns the exit code.
fn not_parsed(args: &[OsString], e: &clap::Error) -> u8 {
    // Help and version go to stdout with 0; everything else is a usage error.
    let code = if e.use_stderr() { 2 } else { 0 };
    let is_json = args.iter().take_while(|a| *a != "--").any(|a| a == "--json");
    if code != 0 && is_json {
        let text = e.render().to_string();
        let (what, rest) = text.split_once("\n\n").unwrap_or((&text, ""));
        let what = what.trim().trim_start_matches("error: ");
        let d = Diagnostic::error(what).help(rest.trim().replace("\n\n", "\n"));
        let _ = print_json(&crate::render::diagnostic::error_json(&d.of(ErrorKind::USAGE)));
    }
    let _ = e.print();
    code
}

/// Whether the environment wants colours: `NO_COLOR` counts if it is not empty (no-color.org), and
/// a dumb terminal has no colours.
fn colours_wanted(var: impl Fn(&str) -> Option<OsString>) -> bool {
    var("NO_COLOR").is_none_or(|v| v.is_empty()) && var("TERM").is_none_or(|t| t != "dumb")
}

#[allow(clippy::exit, reason = "a computation that does not look at the cancel flag must still end")]
fn interrupted() {
    std::process::exit(130);
}

fn report(global: &Global, e: &Error, colour: bool) -> u8 {
    // The tests run with debug assertions, so every error they make must agree with the table of
    // codes.
    debug_assert!(ge_codes::contradiction(e).is_none(), "code and exit code contradict each other: {e:?}");
    if global.json {
        let _ = print_json(&crate::render::diagnostic::error_json(e));
    }
    print_error(e, colour);
    exit_code(e.kind)
}

fn dispatch(cli: &Cli) -> Result<u8> {
    match &cli.command {
        Command::Compile(a) => compile::run(&cli.global, a),
        Command::Run(a) => run::run(&cli.global, a),
        Command::Inspect(a) => inspect::run(&cli.global, a),
        Command::Opt(a) => opt::run(&cli.global, a),
        Command::Plan(a) => plan::run(&cli.global, a),
        Command::Plugin(a) => plugin::run(&cli.global, a),
        Command::Cache(c) => cache::run(&cli.global, c),
        Command::Bench(a) => bench::run(&cli.global, a),
        Command::Tune(a) => tune::run(&cli.global, a),
        Command::Compare(a) => compare::run(&cli.global, a),
        Command::Check(a) => check::run(&cli.global, a),
        Command::Explain(a) => explain::run(&cli.global, a),
        Command::Completions(a) => completions::run(a, &mut Cli::command()),
    }
}

#[cfg(test)]
mod tests {
    use super::colours_wanted;

    #[test]
    fn an_empty_no_color_changes_nothing_and_a_dumb_terminal_has_no_colours() {
        let of = |no: Option<&str>, term: Option<&str>| {
            colours_wanted(|name| if name == "NO_COLOR" { no } else { term }.map(Into::into))
        };
        assert!(of(None, None) && of(Some(""), Some("xterm")));
        assert!(!of(Some("1"), Some("xterm")) && !of(None, Some("dumb")));
    }
}
