//! Progress on stderr: a first line within 0.2 s, then one whenever a stage ends or 2 s have passed; a bar only on a terminal.
use std::io::{IsTerminal, Write};
use std::sync::Mutex;
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
pub struct Progress {
    mode: ProgressMode,
    terminal: bool,
    total: usize,
    start: Instant,
    state: Mutex<State>,
}

struct State {
    step: usize,
    stage: &'static str,
    last: Option<Instant>,
    open_line: bool,
}

impl Progress {
    /// Progress over `total` stages.
    pub fn new(mode: ProgressMode, quiet: bool, total: usize) -> Progress {
        let mode = if quiet { ProgressMode::None } else { mode };
        let state = State { step: 0, stage: "", last: None, open_line: false };
        Progress {
            mode,
            terminal: std::io::stderr().is_terminal(),
            total,
            start: Instant::now(),
            state: Mutex::new(state),
        }
    }
    /// A stage begins.
    pub fn stage(&self, name: &'static str, nodes: usize) {
        let mut s = self.state.lock().unwrap_or_else(|e| e.into_inner());
        s.step = ge_compiler::stages::STAGES.iter().position(|n| *n == name).unwrap_or(s.step) + 1;
        s.stage = name;
        self.line(&mut s, nodes as u64, nodes as u64);
    }
    /// Work within a stage.
    pub fn at(&self, done: u64, total: u64) {
        let mut s = self.state.lock().unwrap_or_else(|e| e.into_inner());
        self.line(&mut s, done, total);
    }
    fn line(&self, s: &mut State, done: u64, total: u64) {
        let pause = if self.terminal { Duration::from_millis(80) } else { Duration::from_millis(900) };
        if self.mode == ProgressMode::None || s.last.is_some_and(|l| l.elapsed() < pause) {
            return;
        }
        // Short work is silent off a terminal: a first sign after 0.15 s is early enough.
        if !self.terminal && self.mode == ProgressMode::Auto && self.start.elapsed() < Duration::from_millis(150) {
            return;
        }
        s.last = Some(Instant::now());
        let text = format!(
            "[{}/{}] {} {} of {} nodes {:.1} s",
            s.step,
            self.total,
            s.stage,
            group(done),
            group(total),
            self.start.elapsed().as_secs_f32()
        );
        let mut err = std::io::stderr().lock();
        let rewrite = self.terminal && self.mode == ProgressMode::Auto;
        let _ = if rewrite { write!(err, "\r\u{1b}[K{text}") } else { writeln!(err, "{text}") };
        let _ = err.flush();
        s.open_line = rewrite;
    }
    /// Ends a rewritten line.
    pub fn finish(&self) {
        let mut s = self.state.lock().unwrap_or_else(|e| e.into_inner());
        if std::mem::take(&mut s.open_line) {
            let mut err = std::io::stderr().lock();
            let _ = write!(err, "\r\u{1b}[K");
            let _ = err.flush();
        }
    }
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
