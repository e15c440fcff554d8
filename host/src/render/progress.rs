//! Progress on stderr: a first line within 0.2 s, then one whenever a stage ends or 2 s have
//! passed; a bar only on a terminal.
//!
//! `beat` is called a few times a second by whoever watches (`super::watch`), so that a line comes
//! also while the work itself says nothing, and names the call into a plugin that lasts.
use ge_plugin::watch::AtWork;
use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ProgressMode {
    /// A rewritten line on a terminal, plain lines after half a second elsewhere.
    Auto,
    /// Plain lines.
    Plain,
    /// Nothing.
    None,
}

/// The progress of one command.
pub struct Progress(Arc<Shown>);

/// The progress that is shown, for the one who watches.
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

/// Work is silent so long before its first line off a terminal.
const FIRST: Duration = Duration::from_millis(150);
/// Nothing is said for so long at most off a terminal.
const SILENT: Duration = Duration::from_millis(1800);
/// A call that lasts so long is worth a word.
const LONG_CALL: Duration = Duration::from_millis(200);

static LATEST: Mutex<Weak<Shown>> = Mutex::new(Weak::new());

/// The progress that was begun last, while it lives.
pub fn latest() -> Option<Arc<Shown>> {
    LATEST.lock().unwrap_or_else(PoisonError::into_inner).upgrade()
}

impl Progress {
    /// Progress over `total` stages.
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
    /// A stage begins.
    pub fn stage(&self, name: &'static str, nodes: usize) {
        let mut s = self.0.locked();
        let stages = ge_compiler::pipeline::STAGES;
        let place = if self.0.total == stages.len() { stages.iter().position(|n| *n == name) } else { None };
        s.step = place.unwrap_or(s.step) + 1;
        s.stage = name;
        (s.of, s.unit) = ((nodes as u64, nodes as u64), "nodes");
        self.0.line(&mut s);
    }
    /// Work within a stage, in steps of its own.
    pub fn at(&self, done: u64, total: u64) {
        self.0.at(done, total);
    }
    /// Ends a rewritten line.
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
    /// Work within a stage, in steps of its own.
    pub fn at(&self, done: u64, total: u64) {
        let mut s = self.locked();
        (s.of, s.unit) = ((done, total), "steps");
        self.line(&mut s);
    }
    fn rewrites(&self) -> bool {
        self.terminal && self.mode == ProgressMode::Auto
    }
    /// A line if one is due after work has said something.
    fn line(&self, s: &mut State) {
        let pause = if self.terminal { Duration::from_millis(80) } else { Duration::from_millis(900) };
        if s.last.is_some_and(|l| l.elapsed() < pause) {
            return;
        }
        // Short work is silent off a terminal: a first sign after 0.15 s is early enough.
        if !self.terminal && self.mode == ProgressMode::Auto && self.start.elapsed() < FIRST {
            return;
        }
        self.write(s, None);
    }
    /// A line if one is due though the work has said nothing; `call`: what a plugin is at, the
    /// longest first.
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
    /// Words on a line of their own, clear of a line that is rewritten.
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

/// One line.
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

/// A number with thousands separated.
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
