//! Stable codes of the diagnostics of loading, each with the exit code its kind stands for.
use ge_plugin_api::Error;
use ge_plugin_api::diagnostic::{Diagnostic, ErrorKind};

/// A stable code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub &'static str);

impl Code {
    /// No `plugins.toml` where one was asked for, or nowhere.
    pub const NO_CONFIG: Code = Code("GE-E0501");
    /// `plugins.toml` does not parse, or a key or value in it is wrong.
    pub const BAD_CONFIG: Code = Code("GE-E0502");
    /// The library of an entry is not there, or cannot be read.
    pub const NOT_FOUND: Code = Code("GE-E0503");
    /// The file is no ELF library, or is cut or damaged.
    pub const NOT_A_LIBRARY: Code = Code("GE-E0504");
    /// The library is for another machine.
    pub const OTHER_MACHINE: Code = Code("GE-E0505");
    /// A library, but no plugin of ge: no manifest or no root symbol.
    pub const NOT_A_PLUGIN: Code = Code("GE-E0506");
    /// The manifest is damaged or says something else than the entry.
    pub const BAD_MANIFEST: Code = Code("GE-E0507");
    /// The plugin's version does not meet the entry's requirement.
    pub const VERSION: Code = Code("GE-E0508");
    /// Made for another version of the plugin interface.
    pub const API_VERSION: Code = Code("GE-E0509");
    /// Its panics would end the host.
    pub const PANIC_ABORT: Code = Code("GE-E0510");
    /// The same library or plugin twice.
    pub const TWICE: Code = Code("GE-E0511");
    /// Two plugins give the same name.
    pub const SAME_NAME: Code = Code("GE-E0512");
    /// An option that the plugin does not take, or a value out of its range.
    pub const OPTION: Code = Code("GE-E0513");
    /// The system's loader refuses the library.
    pub const OPEN: Code = Code("GE-E0514");
    /// Its types are laid out otherwise than the host's.
    pub const LAYOUT: Code = Code("GE-E0515");
    /// It failed at start-up.
    pub const START: Code = Code("GE-E0516");
    /// What it gives is not what it says it gives.
    pub const LIES: Code = Code("GE-E0517");
    /// A call into a plugin failed.
    pub const CALL: Code = Code("GE-E0518");
    /// The library is not the one whose digest `plugins.toml` gives.
    pub const DIGEST: Code = Code("GE-E0519");
    /// A probe of a plugin found a fault, or died.
    pub const PROBE: Code = Code("GE-E0520");

    /// A task list breaks a rule.
    pub const TASKS: Code = Code("GE-E0522");

    /// A diagnostic with this code.
    pub fn say(self, message: impl Into<String>) -> Diagnostic {
        Diagnostic::error(message).code(self.0)
    }
    /// An error of kind PLUGIN (exit 5) with this code.
    pub fn error(self, message: impl Into<String>) -> Error {
        self.say(message).of(ErrorKind::PLUGIN)
    }
}
