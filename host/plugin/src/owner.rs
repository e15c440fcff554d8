//! The plugin behind a handle, and how its errors name it: who owns the function pays.
use ge_plugin_api::diagnostic::Diagnostic;
use ge_plugin_api::{Error, ErrorKind};
use std::fmt;

/// The plugin behind a handle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Name.
    pub name: String,
    /// Version.
    pub version: String,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "plugin `{}` {}", self.name, self.version)
    }
}

/// Whether an error says already which plugin failed in which call: who owns the function pays, not
/// who called it.
fn blamed(e: &Error) -> bool {
    let fault = matches!(e.kind, ErrorKind::PANIC | ErrorKind::PLUGIN);
    fault
        && e.diagnostics
            .first()
            .is_some_and(|d| [ge_codes::CALL, ge_codes::LIES, ge_codes::TASK_RULES].iter().any(|c| c.is(d)))
}

impl Owner {
    /// Names plugin and call in an error of one of its functions. A panic or an internal error is
    /// the plugin's failure (exit 5); other kinds are its answer about the user's model and keep
    /// their meaning.
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
    /// As [`named`](Owner::named), for calls whose every error is the plugin's failure.
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
            // The guard's own words name the call already.
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
