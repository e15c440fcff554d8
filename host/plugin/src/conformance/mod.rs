//! The conformance suite of `ge plugin check LIB`. The library is probed in a child process, so
//! that a crash or a hang is a result like any other.
//!
//! The binary has a hidden subcommand that calls `probe_main`; `check` starts it and reads its
//! output: a line `begin RULE NAME` before each item, and `ok` or `fail REASON` after it.

/// Checks of operators.
mod ops;
pub use ops::attributes;
/// Checks of everything else.
mod rest;

use crate::config::{Config, Entry};
use crate::crash::signal_name;
use crate::open::open;
use crate::options::in_range;
use crate::registry::{Registry, Status};
use crate::rules::rules;
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
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

rules! { "A rule of the suite."
    C1 "the library is whole, for this machine, and its manifest can be read",
    C2 "its interface has the version and the layout of the host's",
    C3 "each option has a name, a kind and a default among its values",
    C4 "it starts, and brings what its manifest says",
    C5 "inference answers every node of the prototype's types, twice the same, and never panics",
    C6 "engines refuse with a reason, answer twice the same, and keep to the rules of task lists",
    C7 "passes record the same edits twice, which the host can apply",
    C8 "front ends and mappings refuse what is none of theirs, and make operators that there are",
    C9 "devices describe their SoCs, refuse what they do not know, and give back the bytes that were copied to them",
    C10 "cancelled calls and kernels return within a second",
    C11 "kernels stay within their arguments, write their outputs wholly, each block its own part, and give the numbers of another engine, twice the same and on every SoC",
    C12 "graphs of other plugins' operators give the same numbers with the plugin as without it",
    C13 "no thread is left running, and none ends with a panic",
    C14 "nothing is printed: what is to be told goes through `services::log`",
    C15 "no file is left in the working folder or the folder for temporary files, and none open",
    C16 "host kernels give the shapes of inference and the numbers of another plugin's host kernels, twice the same",
}

/// The result of one item of the suite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckItem {
    /// The rule that it checks.
    pub rule: Rule,
    /// What was checked.
    pub name: String,
    /// Additional information, such as the number of samples or the engine compared with.
    pub detail: String,
    /// Why it failed; `None` if it passed.
    pub failure: Option<String>,
}

/// The result of the suite.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Path of the library.
    pub path: PathBuf,
    /// Items in the order in which they were checked. If the library crashed or hung, the last item
    /// says so.
    pub items: Vec<CheckItem>,
}

impl CheckReport {
    /// Whether there are items and all of them passed.
    pub fn passed(&self) -> bool {
        !self.items.is_empty() && self.items.iter().all(|i| i.failure.is_none())
    }
    /// The failures as one error of kind PLUGIN; `None` if there are none.
    pub fn error(&self) -> Option<Error> {
        let all: Vec<_> = self
            .items
            .iter()
            .filter_map(|i| {
                let why = i.failure.as_ref()?;
                let d = ge_codes::PROBE.say(format!("`{}`: {}: {why}", self.path.display(), i.name));
                Some(d.note(format!("rule {} of the suite: {}", i.rule.id(), i.rule.title())))
            })
            .collect();
        if all.is_empty() { None } else { Some(Error::all(ErrorKind::PLUGIN, all)) }
    }
}

/// How long the child may print nothing before the library counts as hung.
const PATIENCE: Duration = Duration::from_secs(60);

/// Probes a library in a child process: `program arguments… LIB` must call [`probe_main`].
///
/// # Errors
/// A library that does not exist is a usage error (exit 2); a child that cannot be started fails
/// with exit 1. Failures of the library are in the report.
pub fn check(library: &Path, program: &Path, arguments: &[&OsStr]) -> Result<CheckReport> {
    if !library.exists() {
        return Err(Diagnostic::error(format!("`{}` does not exist", library.display()))
            .help("name a plugin's library (libge_NAME.so)")
            .raise(ge_codes::UNREADABLE));
    }
    let failed =
        |e: std::io::Error| Error::failed(format!("cannot start `{}` to probe the plugin: {e}", program.display()));
    let library = std::fs::canonicalize(library).map_err(failed)?;
    let library = library.as_path();
    let folder = Folder::new().map_err(failed)?;
    let mut child = Command::new(program)
        .args(arguments)
        .arg(library)
        .current_dir(&folder.0)
        .env("TMPDIR", &folder.0)
        // The backtrace of a caught panic does not count as output of the plugin.
        .env_remove("RUST_BACKTRACE")
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
    // The user need not see what a dying library writes, but a full pipe would block it.
    if let Some(mut err) = child.stderr.take() {
        std::thread::spawn(move || std::io::copy(&mut err.by_ref().take(1 << 20), &mut std::io::sink()));
    }
    let mut report = CheckReport { path: library.to_owned(), items: Vec::new() };
    let mut under_way: Option<(Rule, String)> = None;
    let mut detail = String::new();
    let mut ended = false;
    let hung = loop {
        match said.recv_timeout(PATIENCE) {
            Ok(line) => match line.split_once(' ') {
                Some(("begin", rest)) => {
                    let (id, name) = rest.split_once(' ').unwrap_or((rest, ""));
                    under_way = Some((Rule::of(id).unwrap_or(Rule::C1), name.to_owned()));
                }
                Some(("note", text)) => detail = text.to_owned(),
                Some((end @ ("ok" | "fail"), why)) => {
                    if let Some((rule, name)) = under_way.take() {
                        let failure = (end == "fail").then(|| why.to_owned());
                        report.items.push(CheckItem { rule, name, detail: std::mem::take(&mut detail), failure });
                    }
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
    let (rule, name) = under_way.unwrap_or_else(|| (Rule::C4, "end of the process".into()));
    let failure = match (hung, status.signal(), status.code()) {
        (true, ..) => Some(format!("it does not return within {} s", PATIENCE.as_secs())),
        (false, Some(signal), _) => Some(format!("it takes the process down ({})", signal_name(signal))),
        (false, None, Some(0 | 5)) if ended => None,
        (false, None, code) => Some(format!("it ends the process with exit code {}", code.unwrap_or(0))),
    };
    if let Some(why) = failure {
        report.items.push(CheckItem { rule, name, detail: String::new(), failure: Some(why) });
    }
    // Files left behind by a crashed library are not worth reporting.
    if ended && !hung && report.items.iter().any(|i| i.rule == Rule::C15) {
        let left = folder.left();
        let failure = (!left.is_empty()).then(|| format!("it leaves {}", left.join(", ")));
        let name = "files in the working folder".to_owned();
        report.items.push(CheckItem { rule: Rule::C15, name, detail: String::new(), failure });
    }
    Ok(report)
}

/// A new empty folder, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new() -> std::io::Result<Folder> {
        let name = |k: u32| std::env::temp_dir().join(format!("ge-plugin-check-{}-{k}", std::process::id()));
        let mut k = 0;
        loop {
            match std::fs::create_dir(name(k)) {
                Ok(()) => return Ok(Folder(name(k))),
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists && k < 1000 => k += 1,
                Err(e) => return Err(e),
            }
        }
    }
    fn left(&self) -> Vec<String> {
        let all = std::fs::read_dir(&self.0).into_iter().flatten().flatten();
        let mut names: Vec<String> = all.map(|f| format!("`{}`", f.file_name().to_string_lossy())).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The result of an item: additional information, or why it fails.
pub type Found = core::result::Result<String, String>;
/// The result of an item of this crate: why it fails.
pub(crate) type Plain = core::result::Result<(), String>;

/// Runs items and prints their results.
pub struct Probe {
    failed: bool,
    /// Bytes of plugin output that were already reported.
    printed: u64,
}

impl Probe {
    fn line(&self, text: &str) {
        let _ = crate::stdio::write(format!("{}\n", text.replace('\n', " ")).as_bytes());
    }
    /// Runs one item and returns whether it passed.
    pub fn item(&mut self, rule: Rule, name: &str, f: impl FnOnce() -> Found) -> bool {
        self.line(&format!("begin {} {name}", rule.id()));
        match f() {
            Ok(detail) => {
                if !detail.is_empty() {
                    self.line(&format!("note {detail}"));
                }
                self.line("ok ");
                true
            }
            Err(why) => {
                self.failed = true;
                self.line(&format!("fail {why}"));
                false
            }
        }
    }
    pub(crate) fn plain(&mut self, rule: Rule, name: &str, f: impl FnOnce() -> Plain) -> bool {
        self.item(rule, name, || f().map(|()| String::new()))
    }
}

/// Part of the log line of a library whose own thread has panicked (`abi::guard`).
const OWN_THREAD: &str = " of its own panicked: ";

/// Such log lines.
static PANICKED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The child's side: runs the suite on a library and prints the results. Returns 0 if everything
/// passed, 5 otherwise. `more` runs the caller's additional checks, with the plugin's name.
pub fn probe_main(library: &Path, more: &mut dyn FnMut(&str, &Path, &mut Probe)) -> i32 {
    // The library's output must not mix with the suite's lines.
    crate::stdio::claim();
    // Start the host's own threads before any threads are counted.
    rayon::broadcast(|_| ());
    let mut probe = Probe { failed: false, printed: 0 };
    crate::stdio::collect();
    crate::services::set_log_sink(Some(Arc::new(|_, line| {
        if line.contains(OWN_THREAD) {
            PANICKED.lock().unwrap_or_else(PoisonError::into_inner).push(line.to_owned());
        }
    })));
    run(library, &mut probe, more);
    probe.line("end");
    if probe.failed { 5 } else { 0 }
}

fn run(library: &Path, probe: &mut Probe, more: &mut dyn FnMut(&str, &Path, &mut Probe)) {
    let text = |e: Error| e.to_string();
    let mut manifest = None;
    let mut path = library.to_owned();
    if !probe.plain(Rule::C1, "library and manifest", || {
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
    if !probe
        .plain(Rule::C2, "version and layout", || open(&manifest.name, &path, manifest.abi).map(|_| ()).map_err(text))
    {
        return;
    }
    if !probe.plain(Rule::C3, "options", || {
        check_options(&open(&manifest.name, &path, manifest.abi).and_then(|o| o.schema()).map_err(text)?)
    }) {
        return;
    }
    let mut registry = None;
    if !probe.plain(Rule::C4, "start-up and contents", || {
        let r = alone(&manifest.name, &path).map_err(text)?;
        registry = Some(r);
        Ok(())
    }) {
        return;
    }
    let Some(registry) = registry else { return };
    probe.plain(Rule::C13, "threads at start-up", || same_threads(threads));
    let files = open_files();
    ops::probe(&registry, probe);
    rest::probe(&registry, probe);
    // A library that already fails is not run together with others, so that one fault is reported
    // once.
    if !probe.failed {
        more(&manifest.name, &path, probe);
    }
    probe.plain(Rule::C13, "threads at the end", || {
        same_threads(threads)?;
        match PANICKED.lock().unwrap_or_else(PoisonError::into_inner).first() {
            Some(line) => Err(line.clone()),
            None => Ok(()),
        }
    });
    probe.plain(Rule::C15, "open files", || {
        let more: Vec<String> = open_files().difference(&files).cloned().collect();
        if more.is_empty() { Ok(()) } else { Err(format!("it leaves {} open", more.join(", "))) }
    });
    let printed = crate::stdio::collected();
    let before = std::mem::replace(&mut probe.printed, printed.len() as u64);
    probe.plain(Rule::C14, "standard output and standard error", || {
        let new = printed.get(before as usize..).unwrap_or_default();
        let first = String::from_utf8_lossy(new);
        match first.lines().next() {
            Some(line) => Err(format!("it prints, first `{line}`: use `services::log`")),
            None => Ok(()),
        }
    });
}

/// Files that this process has open, except pipes, devices and `/proc`.
fn open_files() -> BTreeSet<String> {
    let all = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let names = all.filter_map(|f| Some(std::fs::read_link(f.path()).ok()?.display().to_string()));
    names.filter(|n| n.starts_with('/') && !n.starts_with("/proc/") && !n.starts_with("/dev/")).collect()
}

/// A registry that contains only this plugin, with default options.
///
/// # Errors
/// Fails if the plugin is refused.
pub fn alone(name: &str, path: &Path) -> Result<Registry> {
    let entry = Entry::of(name, path);
    let config = Config { file: path.to_owned(), search: Vec::new(), trusted_keys: Vec::new(), entries: vec![entry] };
    let r = PluginSet::load_config(&config, &Want::All)?;
    match r.plugins().first().map(|p| &p.status) {
        Some(Status::Refused(e)) => Err(e.clone()),
        _ => Ok(r),
    }
}

fn thread_count() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}
fn same_threads(before: usize) -> Plain {
    let now = thread_count();
    if now <= before {
        return Ok(());
    }
    Err(format!("it leaves {} threads running: use the host's `parallel_for`", now - before))
}

fn check_options(schema: &[OptionSpec]) -> Plain {
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

/// Whether an error of a call is the plugin's fault: a panic, a wrong answer or another plugin
/// failure. Other errors are refusals, which are valid answers.
pub(crate) fn fault(e: &Error) -> Option<String> {
    let bad = e.kind == ErrorKind::PANIC || e.kind == ErrorKind::PLUGIN;
    bad.then(|| e.to_string())
}
