//! The plugin behind a handle, and how errors name it: the owner of a failing function is blamed.
use ge_plugin_api::diagnostic::Diagnostic;
use ge_plugin_api::{Error, ErrorKind};
use std::fmt;

/// The plugin behind a handle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Name of the plugin.
    pub name: String,
    /// Version of the plugin.
    pub version: String,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "plugin `{}` {}", self.name, self.version)
    }
}

/// Whether an error already says which plugin failed in which call. The owner of the function is
/// blamed, not its caller.
fn blamed(e: &Error) -> bool {
    let fault = matches!(e.kind, ErrorKind::PANIC | ErrorKind::PLUGIN);
    fault
        && e.diagnostics
            .first()
            .is_some_and(|d| [ge_codes::CALL, ge_codes::LIES, ge_codes::TASK_RULES].iter().any(|c| c.is(d)))
}

impl Owner {
    /// Adds plugin and call to an error of one of the plugin's functions. A panic, plugin or
    /// internal error becomes a failure of the plugin (exit 5). Other kinds are answers about the
    /// user's model and keep their meaning.
    pub fn named(&self, call: &str, e: Error) -> Error {
        if blamed(&e) {
            return e;
        }
        match e.kind {
            ErrorKind::CANCELLED => e,
            ErrorKind::PANIC | ErrorKind::PLUGIN | ErrorKind::INTERNAL => self.failed(call, e),
            _ => {
                let said = format!("said by {self} in {call}");
                e.with(|d| d.note(said))
            }
        }
    }
    /// Like [`named`](Owner::named), for calls in which every error is a failure of the plugin.
    pub fn failed(&self, call: &str, mut e: Error) -> Error {
        if e.kind == ErrorKind::CANCELLED || blamed(&e) {
            return e;
        }
        if e.kind != ErrorKind::PANIC {
            e.kind = ErrorKind::PLUGIN;
        }
        let panicked = e.kind == ErrorKind::PANIC;
        e.with(|mut d| {
            let did = if panicked { "panicked" } else { "failed" };
            let told = d.message.to_string();
            // The panic guard's message already names the call.
            let told = told
                .split_once(": ")
                .filter(|_| panicked && told.starts_with("panic in "))
                .map_or(told.as_str(), |t| t.1);
            d.message = format!("{self} {did} in {call}: {told}").into();
            if d.code.is_empty() {
                d.code = ge_codes::CALL.text().into();
            }
            if d.help.is_empty() {
                d.help =
                    "report it to the plugin's maker; `enabled = false` in plugins.toml leaves the plugin out".into();
            }
            d
        })
    }
    pub(crate) fn lies(
        &self,
        call: &str,
        what: impl Into<String>,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> Diagnostic {
        ge_codes::LIES.say(format!("{self} answered wrongly in {call}: {}", what.into())).found(found, expected)
    }
}
