//! Progress on stderr: a first line within 0.2 s, then one whenever a stage ends or 2 s have
//! passed. A progress bar is shown only on a terminal.
//!
//! The watcher (`super::watch`) calls `beat` a few times a second, so that lines also appear while
//! the work itself reports nothing, and so that a long call into a plugin is named.
use ge_plugin::watch::AtWork;
use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ProgressMode {
    /// A rewritten line on a terminal; elsewhere plain lines, the first after 0.15 s.
    Auto,
    /// Plain lines.
    Plain,
    /// Nothing.
    None,
}

/// The progress of one command.
pub struct Progress(Arc<Shown>);

/// The progress state that the watcher shares.
pub struct Shown {
    mode: ProgressMode,
    terminal: bool,
    total: usize,
    start: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    step: usize,
    stage: &'static str,
    of: (u64, u64),
    unit: &'static str,
    last: Option<Instant>,
    open_line: bool,
    finished: bool,
}

/// Time without any output at the start when stderr is not a terminal.
const FIRST: Duration = Duration::from_millis(150);
/// Maximum time without output when stderr is not a terminal.
const SILENT: Duration = Duration::from_millis(1800);
/// A call into a plugin that lasts this long is named.
const LONG_CALL: Duration = Duration::from_millis(200);

static LATEST: Mutex<Weak<Shown>> = Mutex::new(Weak::new());

/// The most recently started progress, while it exists.
pub fn latest() -> Option<Arc<Shown>> {
    LATEST.lock().unwrap_or_else(PoisonError::into_inner).upgrade()
}

impl Progress {
    /// Starts progress over `total` stages.
    pub fn new(mode: ProgressMode, quiet: bool, total: usize) -> Progress {
        let mode = if quiet { ProgressMode::None } else { mode };
        let shown = Arc::new(Shown {
            mode,
            terminal: std::io::stderr().is_terminal(),
            total,
            start: Instant::now(),
            state: Mutex::default(),
        });
        *LATEST.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&shown);
        Progress(shown)
    }
    /// Reports that a stage begins.
    pub fn stage(&self, name: &'static str, nodes: usize) {
        let mut s = self.0.locked();
        let stages = ge_compiler::pipeline::STAGES;
        let place = if self.0.total == stages.len() { stages.iter().position(|n| *n == name) } else { None };
        s.step = place.unwrap_or(s.step) + 1;
        s.stage = name;
        (s.of, s.unit) = ((nodes as u64, nodes as u64), "nodes");
        self.0.line(&mut s);
    }
    /// Reports progress within a stage: `done` of `total` steps.
    pub fn at(&self, done: u64, total: u64) {
        self.0.at(done, total);
    }
    /// Finishes: clears a rewritten line and prints nothing more.
    pub fn finish(&self) {
        let mut s = self.0.locked();
        s.finished = true;
        clear(&mut s);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}

fn clear(s: &mut State) {
    if std::mem::take(&mut s.open_line) {
        let mut err = std::io::stderr().lock();
        let _ = write!(err, "\r\u{1b}[K");
        let _ = err.flush();
    }
}

impl Shown {
    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Reports progress within a stage: `done` of `total` steps.
    pub fn at(&self, done: u64, total: u64) {
        let mut s = self.locked();
        (s.of, s.unit) = ((done, total), "steps");
        self.line(&mut s);
    }
    fn rewrites(&self) -> bool {
        self.terminal && self.mode == ProgressMode::Auto
    }
    /// Prints a line if one is due after the work has reported something.
    fn line(&self, s: &mut State) {
        let pause = if self.terminal { Duration::from_millis(80) } else { Duration::from_millis(900) };
        if s.last.is_some_and(|l| l.elapsed() < pause) {
            return;
        }
        // Short work stays silent off a terminal; a first line after 0.15 s is early enough.
        if !self.terminal && self.mode == ProgressMode::Auto && self.start.elapsed() < FIRST {
            return;
        }
        self.write(s, None);
    }
    /// Prints a line if one is due although the work has reported nothing. `call`: the longest
    /// plugin call in progress.
    pub fn beat(&self, call: Option<&AtWork>) {
        let mut s = self.locked();
        let due = match s.last {
            _ if s.stage.is_empty() || s.finished => false,
            None => self.start.elapsed() >= FIRST,
            Some(l) if self.rewrites() => l.elapsed() >= Duration::from_millis(200),
            Some(l) => l.elapsed() >= SILENT,
        };
        if due {
            self.write(&mut s, call.filter(|c| c.time >= LONG_CALL));
        }
    }
    /// Prints text on a line of its own, clearing a rewritten line first.
    pub fn say(&self, text: &str) {
        let mut s = self.locked();
        clear(&mut s);
        let _ = writeln!(std::io::stderr().lock(), "{text}");
    }
    fn write(&self, s: &mut State, call: Option<&AtWork>) {
        if self.mode == ProgressMode::None || s.finished {
            return;
        }
        s.last = Some(Instant::now());
        let text = text((s.step, self.total), s.stage, (s.of.0, s.of.1, s.unit), self.start.elapsed(), call);
        let mut err = std::io::stderr().lock();
        s.open_line = self.rewrites();
        let _ = if s.open_line { write!(err, "\r\u{1b}[K{text}") } else { writeln!(err, "{text}") };
        let _ = err.flush();
    }
}

/// Formats one progress line.
fn text(
    (step, steps): (usize, usize),
    stage: &str,
    (done, all, unit): (u64, u64, &str),
    time: Duration,
    call: Option<&AtWork>,
) -> String {
    let of = if all == 0 { String::new() } else { format!(" {} of {} {unit}", group(done), group(all)) };
    let mut line = format!("[{step}/{steps}] {stage}{of} {:.1} s", time.as_secs_f32());
    if let Some(c) = call {
        line.push_str(&format!(": {c}"));
    }
    line
}

/// Formats a number with separated thousands.
pub fn group(n: u64) -> String {
    let s = n.to_string();
    let mut out = String::new();
    for (i, c) in s.chars().enumerate() {
        if i > 0 && (s.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_the_call_that_lasts() {
        let call = AtWork {
            plugin: "nn".into(),
            part: "AIcoreEngine".into(),
            call: "variants".into(),
            node: Some(("conv1".into(), "Conv2D".into())),
            time: Duration::from_secs(3),
            id: 1,
        };
        assert_eq!(text((1, 16), "import", (0, 0, "nodes"), Duration::from_millis(240), None), "[1/16] import 0.2 s");
        let line = |c| text((3, 16), "original", (1203, 8000, "nodes"), Duration::from_millis(2100), c);
        assert_eq!(line(None), "[3/16] original 1,203 of 8,000 nodes 2.1 s");
        assert_eq!(
            line(Some(&call)),
            "[3/16] original 1,203 of 8,000 nodes 2.1 s: plugin `nn` in AIcoreEngine.variants of `conv1` (Conv2D)"
        );
    }
}
