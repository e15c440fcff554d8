//! What the integration tests share: fixture libraries, the real binary, the reference models.

/// Fixture plugins and hosts, built once in a workspace of their own.
pub mod fixtures;
/// Runs the real `ge` binary and locates the reference models.
pub mod binary;
/// Random numbers for random models.
mod chance;

pub use binary::{expect_code, ge, models, root, target, trained, trained_all};
pub use chance::Chance;

/// Whether `GE_LONG` asks for the long forms of the tests.
pub fn long() -> bool {
    std::env::var_os("GE_LONG").is_some()
}

/// Size of the long form of a test: the number in `GE_LONG`, or `usual` if that is not a number
/// above 1. `None`: the long form is not asked for.
pub fn long_of(usual: u64) -> Option<u64> {
    let told = std::env::var_os("GE_LONG")?;
    Some(told.to_str().and_then(|v| v.parse().ok()).filter(|n| *n > 1).unwrap_or(usual))
}
