//! The watcher: a thread that keeps the progress line alive, reports calls into plugins that take
//! long and, on Ctrl-C, names calls that do not return.
use super::progress;
use ge_plugin::watch::{AtWork, at_work, tick};
use std::io::Write;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Interval between two looks.
const EVERY: Duration = Duration::from_millis(100);

static QUIET: AtomicBool = AtomicBool::new(false);
static WARN_S: AtomicU64 = AtomicU64::new(10);

/// Starts the watcher, once per process. If `quiet`, it does not report long calls.
pub fn start(quiet: bool) {
    static STARTED: Once = Once::new();
    QUIET.store(quiet, Ordering::Relaxed);
    STARTED.call_once(|| {
        let at = |done, total| {
            if let Some(shown) = progress::latest() {
                shown.at(done, total);
            }
        };
        ge_plugin::services::set_progress_sink(Some(std::sync::Arc::new(at)));
        let thread = std::thread::Builder::new().name("ge-watch".into());
        // If the thread cannot be started, everything still works, only with less output.
        let _ = thread.spawn(watch);
    });
}

/// Sets the time in seconds after which a call counts as long (`ge.x.plugin_call_warn_s`); 0:
/// never.
pub fn warn_after(seconds: u64) {
    WARN_S.store(seconds, Ordering::Relaxed);
}

fn watch() {
    let begin = Instant::now();
    let mut told = Told::default();
    loop {
        std::thread::sleep(EVERY);
        tick(begin.elapsed());
        let calls = at_work();
        let shown = progress::latest();
        let limit = Duration::from_secs(WARN_S.load(Ordering::Relaxed));
        for text in told.due(&calls, limit) {
            if !QUIET.load(Ordering::Relaxed) {
                say(&text);
            }
        }
        if let Some(shown) = shown {
            shown.beat(calls.first());
        }
    }
}

fn say(text: &str) {
    match progress::latest() {
        Some(shown) => shown.say(text),
        None => drop(writeln!(std::io::stderr().lock(), "{text}")),
    }
}

/// What has been reported about which call: each call is reported when it passes the limit and each
/// time its duration has doubled since.
#[derive(Default)]
struct Told(Vec<(u64, Duration)>);

impl Told {
    fn due(&mut self, calls: &[AtWork], limit: Duration) -> Vec<String> {
        self.0.retain(|t| calls.iter().any(|c| c.id == t.0));
        let mut texts = Vec::new();
        for c in calls.iter().filter(|c| !limit.is_zero() && c.time >= limit) {
            match self.0.iter_mut().find(|t| t.0 == c.id) {
                Some((_, next)) if c.time < *next => continue,
                Some((_, next)) => *next = c.time * 2,
                None => self.0.push((c.id, c.time * 2)),
            }
            texts.push(format!(
                "warning: {c} has taken {} s and goes on; Ctrl-C ends it, `ge.x.plugin_call_warn_s` says after how many seconds this line comes",
                c.time.as_secs()
            ));
        }
        texts
    }
}

/// Names on stderr the calls that have not returned.
pub fn say_who_is_at_work() {
    for c in at_work() {
        say(&format!("interrupted: {c} did not come back, after {:.1} s", c.time.as_secs_f32()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_call_is_told_when_it_passes_the_limit_and_when_its_time_doubles() {
        let at = |id: u64, s: u64| AtWork {
            plugin: "nn".into(),
            part: "AIcoreEngine".into(),
            call: "supports".into(),
            node: None,
            time: Duration::from_secs(s),
            id,
        };
        let (mut told, limit) = (Told::default(), Duration::from_secs(10));
        assert!(told.due(&[at(1, 9)], limit).is_empty());
        let first = told.due(&[at(1, 10), at(2, 3)], limit);
        assert_eq!(first.len(), 1);
        assert!(first[0].starts_with("warning: plugin `nn` in AIcoreEngine.supports has taken 10 s and goes on"));
        assert!(told.due(&[at(1, 19), at(2, 12)], limit).len() == 1, "the second call alone");
        assert_eq!(told.due(&[at(1, 20), at(2, 13)], limit).len(), 1, "the first call again");
        assert!(told.due(&[at(1, 60)], Duration::ZERO).is_empty());
        assert_eq!(told.due(&[at(3, 11)], limit).len(), 1, "another call");
    }
}
