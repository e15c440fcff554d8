//! The conformance suite of `ge plugin check LIB`: a library is probed in a child process, so that
//! one that dies or hangs is a result like any other.
//!
//! The binary has a hidden subcommand that calls `probe_main`; `check` starts it and reads what it
//! prints: a line `begin NAME` before each item and `ok NAME` or `fail NAME: reason` after it.

/// What is tried on operators.
mod ops;
/// What is tried on everything else.
mod rest;

use crate::config::{At, Config, Entry};
use crate::crash::signal_name;
use crate::open::open;
use crate::options::in_range;
use crate::registry::{Registry, Status};
use crate::set::{PluginSet, Want, look_at};
use ge_plugin_api::diagnostic::Diagnostic;
use ge_plugin_api::diagnostic::ErrorKind;
use ge_plugin_api::services::{OptionKind, OptionSpec};
use ge_plugin_api::{Error, Result};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// One item of the suite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckItem {
    /// What was tried.
    pub name: String,
    /// Why it failed; None: it passed.
    pub failure: Option<String>,
}

/// What the suite found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// The library.
    pub path: PathBuf,
    /// Items in the order tried; a library that died or hung has that as its last item.
    pub items: Vec<CheckItem>,
}

impl CheckReport {
    /// Whether everything passed.
    pub fn passed(&self) -> bool {
        !self.items.is_empty() && self.items.iter().all(|i| i.failure.is_none())
    }
    /// The failures as one error of kind PLUGIN, or nothing.
    pub fn error(&self) -> Option<Error> {
        let all: Vec<_> = self
            .items
            .iter()
            .filter_map(|i| {
                let why = i.failure.as_ref()?;
                Some(ge_codes::PROBE.say(format!("`{}`: {}: {why}", self.path.display(), i.name)))
            })
            .collect();
        if all.is_empty() { None } else { Some(Error::all(ErrorKind::PLUGIN, all)) }
    }
}

/// A library may be silent this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Probes a library in a child process: `program arguments… LIB` must come to [`probe_main`].
///
/// # Errors
/// A library that is not there is a usage error (exit 2); so is a child that cannot be started
/// (exit 1). What the library does is in the report.
pub fn check(library: &Path, program: &Path, arguments: &[&OsStr]) -> Result<CheckReport> {
    if !library.exists() {
        return Err(Diagnostic::error(format!("`{}` does not exist", library.display()))
            .help("name a plugin's library (libge_NAME.so)")
            .raise(ge_codes::UNREADABLE));
    }
    let failed =
        |e: std::io::Error| Error::failed(format!("cannot start `{}` to probe the plugin: {e}", program.display()));
    let mut child = Command::new(program)
        .args(arguments)
        .arg(library)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let (lines, said) = mpsc::channel();
    if let Some(out) = child.stdout.take() {
        std::thread::spawn(move || {
            for line in BufReader::new(out).split(b'\n').map_while(core::result::Result::ok) {
                if lines.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    break;
                }
            }
        });
    }
    // What a dying library writes is not for the user, but a full pipe would hold it up.
    if let Some(mut err) = child.stderr.take() {
        std::thread::spawn(move || std::io::copy(&mut err.by_ref().take(1 << 20), &mut std::io::sink()));
    }
    let mut report = CheckReport { path: library.to_owned(), items: Vec::new() };
    let mut under_way: Option<String> = None;
    let mut ended = false;
    let hung = loop {
        match said.recv_timeout(PATIENCE) {
            Ok(line) => match line.split_once(' ') {
                Some(("begin", name)) => under_way = Some(name.to_owned()),
                Some(("ok", name)) => {
                    under_way = None;
                    report.items.push(CheckItem { name: name.to_owned(), failure: None });
                }
                Some(("fail", rest)) => {
                    under_way = None;
                    let (name, why) = rest.split_once(": ").unwrap_or((rest, "failed"));
                    report.items.push(CheckItem { name: name.to_owned(), failure: Some(why.to_owned()) });
                }
                _ if line == "end" => ended = true,
                _ => {}
            },
            Err(mpsc::RecvTimeoutError::Disconnected) => break false,
            Err(mpsc::RecvTimeoutError::Timeout) => break true,
        }
    };
    if hung {
        let _ = child.kill();
    }
    let status = child.wait().map_err(failed)?;
    let name = under_way.unwrap_or_else(|| "end of the process".into());
    let failure = match (hung, status.signal(), status.code()) {
        (true, ..) => Some(format!("it does not return within {} s", PATIENCE.as_secs())),
        (false, Some(signal), _) => Some(format!("it takes the process down ({})", signal_name(signal))),
        (false, None, Some(0 | 5)) if ended => None,
        (false, None, code) => Some(format!("it ends the process with exit code {}", code.unwrap_or(0))),
    };
    if let Some(why) = failure {
        report.items.push(CheckItem { name, failure: Some(why) });
    }
    Ok(report)
}

/// What an item finds.
pub(crate) type Found = core::result::Result<(), String>;

/// Runs items and prints them.
pub(crate) struct Probe {
    failed: bool,
}

impl Probe {
    fn line(&self, text: &str) {
        let _ = crate::stdio::write(format!("{}\n", text.replace('\n', " ")).as_bytes());
    }
    /// One item.
    pub(crate) fn item(&mut self, name: &str, f: impl FnOnce() -> Found) -> bool {
        self.line(&format!("begin {name}"));
        match f() {
            Ok(()) => {
                self.line(&format!("ok {name}"));
                true
            }
            Err(why) => {
                self.failed = true;
                self.line(&format!("fail {name}: {why}"));
                false
            }
        }
    }
}

/// The child's side: runs the suite on a library and prints it. 0 where all passed, 5 otherwise.
pub fn probe_main(library: &Path) -> i32 {
    // What the library prints is none of the suite's lines.
    crate::stdio::claim();
    // The host's own threads stand before anything is counted.
    rayon::broadcast(|_| ());
    let mut probe = Probe { failed: false };
    run(library, &mut probe);
    probe.line("end");
    if probe.failed { 5 } else { 0 }
}

fn run(library: &Path, probe: &mut Probe) {
    let text = |e: Error| e.to_string();
    let mut manifest = None;
    let mut path = library.to_owned();
    if !probe.item("library and manifest", || {
        path = std::fs::canonicalize(library).map_err(|e| e.to_string())?;
        let looked = look_at(&path).map_err(text)?;
        looked.manifest.gate(&path).map_err(text)?;
        manifest = Some(looked.manifest);
        Ok(())
    }) {
        return;
    }
    let Some(manifest) = manifest else { return };
    let threads = thread_count();
    if !probe.item("version and layout", || open(&manifest.name, &path, manifest.abi).map(|_| ()).map_err(text)) {
        return;
    }
    if !probe.item("options", || {
        check_options(&open(&manifest.name, &path, manifest.abi).and_then(|o| o.schema()).map_err(text)?)
    }) {
        return;
    }
    let mut registry = None;
    if !probe.item("start-up and contents", || {
        let r = alone(&manifest.name, &path).map_err(text)?;
        registry = Some(r);
        Ok(())
    }) {
        return;
    }
    let Some(registry) = registry else { return };
    probe.item("threads at start-up", || same_threads(threads));
    ops::probe(&registry, probe);
    rest::probe(&registry, probe);
    probe.item("threads at the end", || same_threads(threads));
}

/// The plugin alone, with default options.
fn alone(name: &str, path: &Path) -> Result<Registry> {
    let entry = Entry {
        name: name.to_owned(),
        at: At::default(),
        path: Some(path.to_owned()),
        version: semver::VersionReq::STAR,
        enabled: true,
        optional: false,
        exclude_engines: Vec::new(),
        overrides: Vec::new(),
        sha256: None,
        options: Vec::new(),
    };
    let config = Config { file: path.to_owned(), search: Vec::new(), entries: vec![entry] };
    let r = PluginSet::load_config(&config, &Want::All)?;
    match r.plugins().first().map(|p| &p.status) {
        Some(Status::Refused(e)) => Err(e.clone()),
        _ => Ok(r),
    }
}

fn thread_count() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}
fn same_threads(before: usize) -> Found {
    let now = thread_count();
    if now <= before {
        return Ok(());
    }
    Err(format!("it leaves {} threads running: use the host's `parallel_for`", now - before))
}

fn check_options(schema: &[OptionSpec]) -> Found {
    let mut seen = BTreeSet::new();
    for s in schema {
        if s.key.is_empty() || !seen.insert(s.key.as_str()) {
            return Err(format!("option `{}` has no name, or stands twice", s.key));
        }
        if s.kind == OptionKind::INT && s.min > s.max {
            return Err(format!("option `{}` takes no value: {} to {}", s.key, s.min, s.max));
        }
        if s.kind.known_name().is_none() {
            return Err(format!("option `{}` is of an unknown kind", s.key));
        }
        if !in_range(s, &s.default) {
            return Err(format!("the default of option `{}` is none of its values", s.key));
        }
    }
    Ok(())
}

/// Whether an error of a call is the plugin's fault: a panic, a lie, an internal error. Refusals in
/// words are right answers.
pub(crate) fn fault(e: &Error) -> Option<String> {
    let bad = e.kind == ErrorKind::PANIC || e.kind == ErrorKind::PLUGIN;
    bad.then(|| e.to_string())
}
