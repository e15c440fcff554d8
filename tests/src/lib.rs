//! What the integration tests share: fixture libraries, the real binary, the reference models.

/// Fixture plugins and hosts, built once in a workspace of their own.
pub mod fixtures;
/// The real binary and the reference models.
pub mod binary;

pub use binary::{expect_code, ge, models, root, target, trained, trained_all};

/// Whether the long forms of tests are asked for (`GE_LONG`).
pub fn long() -> bool {
    std::env::var_os("GE_LONG").is_some()
}

/// How much of something a long form takes: what `GE_LONG` says, and `usual` where it is 1 or no
/// number; None where the long form is not asked for.
pub fn long_of(usual: u64) -> Option<u64> {
    let told = std::env::var_os("GE_LONG")?;
    Some(told.to_str().and_then(|v| v.parse().ok()).filter(|n| *n > 1).unwrap_or(usual))
}
