//! Progress of a task: numbered steps with the time since the start, and cargo's own progress bar
//! as plain lines.
//!
//! Cargo draws its bar only on a terminal. Elsewhere (a log, a pipe, CI) it prints nothing between
//! "Compiling a" and "Compiling b", and with `--quiet` nothing at all. [`Bar`] makes cargo draw the
//! bar anyway and prints it as a line every few seconds.
use std::io::{Read, Write};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Pause between two lines of progress.
const PAUSE: Duration = Duration::from_secs(5);
/// Prefixes of cargo's lines about single crates.
const COUNTED: [&str; 3] = ["Compiling ", "Checking ", "Documenting "];

/// When the program started.
fn start() -> Instant {
    static START: OnceLock<Instant> = OnceLock::new();
    *START.get_or_init(Instant::now)
}

/// Seconds since the start, the prefix of our own lines.
fn clock() -> String {
    format!("[{:>4} s]", start().elapsed().as_secs())
}

/// Prints a line with the clock on stderr.
pub(crate) fn say(text: &str) {
    eprintln!("{} {text}", clock());
}

/// Counts the steps of one task.
pub(crate) struct Steps {
    task: &'static str,
    done: usize,
    all: usize,
}

impl Steps {
    /// Starts a task with `all` steps.
    pub(crate) fn new(task: &'static str, all: usize) -> Steps {
        start();
        Steps { task, done: 0, all }
    }
    /// Announces the next step.
    pub(crate) fn next(&mut self, what: &str) {
        self.done += 1;
        say(&format!("{} {}/{}: {what}", self.task, self.done, self.all));
    }
    /// Reports what the task took: wall time, and the processor time of all programs that it ran.
    pub(crate) fn end(self) {
        let cpu = children_seconds().map_or_else(String::new, |s| format!(", {s} s of processor time"));
        say(&format!("{} done in {} s{cpu}", self.task, start().elapsed().as_secs()));
    }
}

/// Processor seconds (user and system) of the programs that have ended. Linux reports them in
/// hundredths of a second.
fn children_seconds() -> Option<u64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the program's name in parentheses; fields 16 and 17 are the times of
    // children.
    let fields: Vec<u64> = stat.rsplit(')').next()?.split_whitespace().map(|f| f.parse().unwrap_or(0)).collect();
    Some((fields.get(13)? + fields.get(14)?) / 100)
}

/// Kind of a piece of cargo's stderr.
#[derive(Debug, PartialEq)]
enum Piece {
    /// The bar: number of compiled units, total number, and the units in progress.
    At { done: usize, all: usize, now: String },
    /// The bar while packages are fetched.
    Fetch(String),
    /// A line for the user.
    Line(String),
    /// Nothing to show.
    Blank,
}

/// Text without the control sequences of a terminal.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' && chars.peek() == Some(&'[') {
            chars.next();
            while chars.next().is_some_and(|c| !c.is_ascii_alphabetic()) {}
        } else {
            out.push(c);
        }
    }
    out
}

/// Parses one piece, which ended with a line feed or, for the bar, with a carriage return.
fn piece(text: &str, line: bool) -> Piece {
    let text = plain(text);
    let text = text.trim_end();
    if text.trim().is_empty() {
        return if line { Piece::Line(String::new()) } else { Piece::Blank };
    }
    // "    Building [====>     ] 12/240: syn, ge-compiler(build)"
    let bar = text.trim_start().split_once(" [").and_then(|(word, rest)| {
        let (inside, rest) = rest.split_once(']')?;
        let drawn = inside.chars().all(|c| matches!(c, '=' | '>' | ' '));
        (word.chars().all(char::is_alphabetic) && drawn).then_some((word, rest.trim_start()))
    });
    let Some((word, rest)) = bar else {
        return if line { Piece::Line(text.to_owned()) } else { Piece::Blank };
    };
    let counted = || {
        let (numbers, now) = rest.split_once(':').unwrap_or((rest, ""));
        let (done, all) = numbers.trim().split_once('/')?;
        Some(Piece::At { done: done.parse().ok()?, all: all.parse().ok()?, now: now.trim().to_owned() })
    };
    match word {
        "Building" => counted().unwrap_or(Piece::Blank),
        _ => Piece::Fetch(format!("{word} {rest}")),
    }
}

/// Reads cargo's stderr to its end and prints it; the bar becomes a line every few seconds.
pub(crate) struct Bar {
    said: Instant,
    last: usize,
}

impl Bar {
    pub(crate) fn new() -> Bar {
        Bar { said: Instant::now(), last: 0 }
    }
    /// Shows everything that arrives.
    pub(crate) fn follow(mut self, mut from: impl Read) {
        let (mut kept, mut block) = (Vec::new(), [0u8; 4096]);
        while let Ok(n @ 1..) = from.read(&mut block) {
            for &b in &block[..n] {
                if b == b'\n' || b == b'\r' {
                    self.show(piece(&String::from_utf8_lossy(&kept), b == b'\n'));
                    kept.clear();
                } else {
                    kept.push(b);
                }
            }
        }
        if !kept.is_empty() {
            self.show(piece(&String::from_utf8_lossy(&kept), true));
        }
    }
    fn show(&mut self, piece: Piece) {
        let due = self.said.elapsed() >= PAUSE;
        match piece {
            // The bar shows the same, and also how many are left.
            Piece::Line(line) if COUNTED.iter().any(|w| line.trim_start().starts_with(w)) => {}
            Piece::Line(line) => {
                // A closed stderr is no reason to end the build.
                let _ = writeln!(std::io::stderr(), "{line}");
            }
            Piece::At { done, all, now } if due && done != self.last => {
                say(&format!("  compiled {done} of {all}; now {}", shortened(&now)));
                (self.said, self.last) = (Instant::now(), done);
            }
            Piece::At { all, now, .. } if self.said.elapsed() >= 4 * PAUSE => {
                say(&format!("  compiled {} of {all}; still {}", self.last, shortened(&now)));
                self.said = Instant::now();
            }
            Piece::Fetch(what) if due => {
                say(&format!("  {what}"));
                self.said = Instant::now();
            }
            Piece::At { .. } | Piece::Fetch(_) | Piece::Blank => {}
        }
    }
}

/// A list, shortened to fit on a line.
fn shortened(text: &str) -> String {
    if text.chars().count() <= 80 { text.to_owned() } else { text.chars().take(79).chain(['…']).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_is_read_whatever_it_is_drawn_with() {
        let at = |text: &str| piece(text, false);
        let now = "syn, ge-om(build)".to_owned();
        assert_eq!(at("    Building [===>      ] 12/240: syn, ge-om(build)"), Piece::At { done: 12, all: 240, now });
        let bar = at("\u{1b}[1m\u{1b}[36m    Building\u{1b}[0m [=========>] 239/240: ge(bin)\u{1b}[K");
        assert_eq!(bar, Piece::At { done: 239, all: 240, now: "ge(bin)".to_owned() });
        assert_eq!(at("  Downloading [=>  ] 3 crates"), Piece::Fetch("Downloading 3 crates".to_owned()));
        assert_eq!(at("\u{1b}[K"), Piece::Blank);
    }

    #[test]
    fn warnings_and_errors_pass() {
        for text in ["warning: unused variable: `x`", "error[E0308]: types", "  --> a.rs:1:2 [E1] 3/4: x", ""] {
            assert_eq!(piece(text, true), Piece::Line(text.to_owned()));
        }
    }
}
