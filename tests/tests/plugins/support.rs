//! A folder with a `plugins.toml`, and what loading it gives.
use ge_plugin::{LoadRequest, PluginSet, Registry, Want};
use ge_plugin_api::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub struct Dir(tempfile::TempDir);

impl Dir {
    pub fn new() -> Dir {
        Dir(tempfile::tempdir().unwrap())
    }
    pub fn path(&self) -> &Path {
        self.0.path()
    }
    pub fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let p = self.path().join(name);
        std::fs::write(&p, bytes).unwrap();
        p
    }
    /// Writes `plugins.toml` with these entries.
    pub fn config(&self, entries: &str) -> PathBuf {
        self.file("plugins.toml", format!("schema = 1\nsearch = [\".\"]\n{entries}").as_bytes())
    }
    pub fn load(&self, entries: &str) -> Result<Registry, Error> {
        PluginSet::load(&LoadRequest { config: Some(self.config(entries)), want: Want::All })
    }
    /// Loads the same in a process of its own, with the handlers of the binary; returns its exit
    /// code and what it printed.
    pub fn load_apart(&self, entries: &str) -> (Option<i32>, String) {
        self.probe(entries, "load", &[])
    }
    pub fn probe(&self, entries: &str, what: &str, variables: &[(&str, &str)]) -> (Option<i32>, String) {
        let out: Output = Command::new(env!("CARGO_BIN_EXE_ge-plugin-probe"))
            .arg(what)
            .arg(self.config(entries))
            .env_remove("RUST_BACKTRACE")
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        let said =
            format!("{}{}({})", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr), out.status);
        (out.status.code(), said)
    }
}

/// The message of a refusal's first diagnostic. Checks its code, that it names the entry, and that
/// it gives a remedy.
#[track_caller]
pub fn refusal(r: Result<Registry, Error>, code: &str) -> String {
    let e = r.map(|r| format!("{r:?}")).unwrap_err();
    assert_eq!(e.kind, ge_plugin_api::ErrorKind::PLUGIN, "{e}");
    let d = &e.diagnostics[0];
    assert_eq!(d.code.as_str(), code, "{}", d.message);
    assert!(d.notes.iter().any(|n| n.contains("entry `")), "names no entry: {d:?}");
    assert!(!d.help.is_empty(), "gives no remedy: {d:?}");
    assert!(!d.message.contains('\n') && d.message.len() < 600, "{}", d.message);
    let note = d.notes.iter().find(|n| n.contains("entry `")).unwrap();
    assert!(note.contains("plugins.toml:") && note.contains("libge_"), "{note}");
    d.message.to_string()
}

/// Bytes of the fixture plugin.
pub fn good() -> Vec<u8> {
    std::fs::read(ge_tests::fixtures::bad_plugin()).unwrap()
}

/// The fixture plugin with one text of its manifest replaced by another of the same length.
pub fn patched(from: &str, to: &str) -> Vec<u8> {
    let mut b = good();
    assert_eq!(from.len(), to.len());
    let mut found = 0;
    let at = b.windows(MARK.len()).position(|w| w == MARK).unwrap();
    for i in at.saturating_sub(32)..at + 300 {
        if b[i..].starts_with(from.as_bytes()) {
            b[i..i + to.len()].copy_from_slice(to.as_bytes());
            found += 1;
        }
    }
    assert_eq!(found, 1, "{from}");
    b
}
/// Start of the fixture's manifest.
const MARK: &[u8] = b"name = \"bad\"\nversion = ";
