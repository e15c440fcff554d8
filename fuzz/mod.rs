//! Fuzz targets: everything that reads bytes from outside gets modified files and must either
//! accept or refuse them; it must not panic or hang.
//!
//! The tests run a fixed number of cases per target, the same ones in every run. To search longer,
//! on the same stable toolchain:
//!
//! ```text
//! GE_FUZZ_SECONDS=600 cargo test -p ge-tests --test suite -- fuzz::onnx
//! GE_FUZZ_SEED=1234                # another sequence of cases
//! ```
//!
//! A failing input is written to `target/tmp/fuzz`. Once its cause is fixed, it belongs in
//! `fuzz/corpus/TARGET`, whose files are tested first in every run. A target is a function in
//! `targets.rs`.

/// How inputs are modified.
mod mutate;
/// The code that is fuzzed.
mod targets;

use mutate::Mutator;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Number of cases per target in the normal test run.
const CASES: u64 = 10_000;
/// A case that takes longer counts as a hang.
const SLOW: Duration = Duration::from_secs(10);

/// Code that reads bytes.
pub struct Target<'a> {
    /// Name of the target and of its folder in `fuzz/corpus`.
    pub name: &'a str,
    /// Valid inputs.
    pub seeds: Vec<Vec<u8>>,
    /// Byte sequences that have a meaning in its format.
    pub words: &'a [&'a [u8]],
    /// Reads an input; panics if the result is wrong.
    pub read: &'a dyn Fn(&[u8]),
}

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let mut files: Vec<PathBuf> = match std::fs::read_dir(ge_tests::root().join("fuzz/corpus").join(name)) {
        Ok(entries) => entries.map(|e| e.unwrap().path()).collect(),
        Err(_) => Vec::new(),
    };
    files.sort();
    files.iter().map(|f| std::fs::read(f).unwrap()).collect()
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|v| v.parse().unwrap_or_else(|_| panic!("{variable} is `{v}`, no number")))
}

/// Reads one input; a panic or a hang is reported with a file that reproduces it.
fn case(target: &Target<'_>, input: &[u8], which: &str) {
    let start = Instant::now();
    let done = catch_unwind(AssertUnwindSafe(|| (target.read)(input)));
    let slow = start.elapsed() > SLOW;
    if done.is_ok() && !slow {
        return;
    }
    let folder = ge_tests::target().with_file_name("tmp").join("fuzz");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join(format!("{}-{}", target.name, which.replace(' ', "-")));
    std::fs::write(&file, input).unwrap();
    let what = if done.is_err() { "panics" } else { "takes over ten seconds" };
    panic!("{} {what} on {which}, which is in {}", target.name, file.display());
}

/// Runs the corpus, then modified seeds.
pub fn fuzz(target: &Target<'_>) {
    assert!(!target.seeds.is_empty(), "{} has no seeds", target.name);
    let known = corpus(target.name);
    for (i, input) in known.iter().chain(&target.seeds).enumerate() {
        case(target, input, &format!("known input {i}"));
    }
    let first = number("GE_FUZZ_SEED").unwrap_or(0);
    let until = number("GE_FUZZ_SECONDS").map(|s| Instant::now() + Duration::from_secs(s));
    let all: Vec<&[u8]> = target.seeds.iter().chain(&known).map(Vec::as_slice).collect();
    let mut n = 0;
    while until.map_or(n < CASES, |u| Instant::now() < u) {
        let input = Mutator::new(first.wrapping_add(n), &all, target.words).input();
        case(target, &input, &format!("case {}", first.wrapping_add(n)));
        n += 1;
    }
}
