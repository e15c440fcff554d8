//! Decides which configurations are trusted. A `plugins.toml` names libraries whose code runs, so a
//! file that merely lies in the working folder (for example in a downloaded folder) is not used
//! without the user's consent. `--plugins`, `$GE_PLUGINS` and the files of the executable count as
//! consent. `ge plugin trust FILE` gives it permanently: it stores path and digest of the file.
use crate::config::Config;
use crate::digest::hex;
use crate::services;
use ge_plugin_api::Result;
use ge_plugin_api::diagnostic::Diagnostic;
use ge_plugin_api::services::Level;
use sha2::{Digest, Sha256};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Once;

/// The file that records trusted configurations: one line for each, with digest and path.
pub fn store() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let config = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")))?;
    Some(config.join("ge/trusted"))
}

/// The line that records a configuration.
fn line_of(file: &Path) -> std::io::Result<String> {
    let path = std::fs::canonicalize(file)?;
    Ok(format!("{} {}", hex(&Sha256::digest(std::fs::read(&path)?)), path.display()))
}

/// Trusts a configuration in its present state and returns its canonical path. A changed file must
/// be trusted again.
///
/// # Errors
/// Returns `GE-E0305` if the file cannot be read (exit 2), `GE-E0502` if it is no configuration,
/// `GE-E0523` if the record cannot be written.
pub fn trust(file: &Path) -> Result<PathBuf> {
    let unreadable = |e: std::io::Error| {
        Diagnostic::error(format!("cannot read `{}`: {e}", file.display()))
            .help("name a plugins.toml that exists")
            .raise(ge_codes::UNREADABLE)
    };
    let line = line_of(file).map_err(unreadable)?;
    Config::read(file)?;
    let path = std::fs::canonicalize(file).map_err(unreadable)?;
    let unkept = |at: &Path, e: String| {
        Diagnostic::error(format!("cannot keep in `{}` what is trusted: {e}", at.display()))
            .help("set $XDG_CONFIG_HOME to a folder that can be written, or name the configuration by `--plugins` each time")
            .raise(ge_codes::TRUST)
    };
    let at = store().ok_or_else(|| unkept(Path::new("~/.config/ge/trusted"), "there is no home folder".into()))?;
    let failed = |e: std::io::Error| unkept(&at, e.to_string());
    let old = std::fs::read_to_string(&at).unwrap_or_default();
    if old.lines().any(|l| l == line) {
        return Ok(path);
    }
    std::fs::create_dir_all(at.parent().unwrap_or(Path::new("."))).map_err(failed)?;
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(&at).map_err(failed)?;
    writeln!(file, "{line}").map_err(failed)?;
    Ok(path)
}

/// Whether the user has trusted a configuration in its present state.
pub fn is_trusted(file: &Path) -> bool {
    trusted(file, &[])
}

/// Whether a configuration in the working folder may be used: it belongs to the executable, or the
/// user has trusted it.
pub(crate) fn trusted(file: &Path, own: &[PathBuf]) -> bool {
    let Ok(path) = std::fs::canonicalize(file) else { return false };
    if own.iter().any(|o| std::fs::canonicalize(o).is_ok_and(|o| o == path)) {
        return true;
    }
    let kept = store().and_then(|s| std::fs::read_to_string(s).ok()).unwrap_or_default();
    line_of(file).is_ok_and(|line| kept.lines().any(|l| l == line))
}

/// Logs once that a configuration is skipped, and what to do.
pub(crate) fn say_skipped(file: &Path) {
    static SAID: Once = Once::new();
    let file = file.display();
    SAID.call_once(|| {
        services::say(
            Level::WARN,
            &format!("`{file}` of this folder is not trusted and is skipped: `ge plugin trust {file}` trusts it, `--plugins {file}` takes it once"),
        );
    });
}

/// The note in an error about a configuration that was skipped.
pub(crate) fn note(file: &Path) -> String {
    format!("{} is not trusted: `ge plugin trust {}` trusts it", file.display(), file.display())
}
