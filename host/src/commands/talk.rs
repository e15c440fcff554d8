//! Output of the commands: results go to stdout, messages to stderr.
use super::flags::Global;
use crate::options::OptionMap;
use crate::{Error, Result};
use std::io::Write;

/// Writes to stdout. A closed pipe is not an error; any other failure is.
pub fn print(text: &str) -> Result<()> {
    match ge_plugin::stdio::write(text.as_bytes()) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        Err(e) => Err(Error::failed(format!("cannot write to stdout: {e}"))),
    }
}

/// Writes one JSON document to stdout.
pub fn print_json(v: &serde_json::Value) -> Result<()> {
    let text = serde_json::to_string(v).map_err(|e| Error::internal(e.to_string()))?;
    print(&format!("{text}\n"))
}

/// Prints a message on stderr, unless `--quiet` is set.
pub fn say(global: &Global, text: &str) {
    if !global.quiet {
        let _ = writeln!(std::io::stderr().lock(), "{text}");
    }
}

/// Notes options of the original that have no effect here.
pub fn say_foreign(global: &Global, options: &OptionMap) {
    for (name, why) in options.foreign() {
        say(global, &format!("note: option `{name}` has no effect: {why}"));
    }
}

/// Prints the plugin loader's warnings on stderr.
pub fn say_warnings(global: &Global, registry: &ge_plugin::Registry) {
    for w in registry.warnings() {
        say(global, &format!("warning[{}]: {}", w.code, w.message));
        if !w.help.is_empty() {
            say(global, &format!("  help: {}", w.help));
        }
    }
}
