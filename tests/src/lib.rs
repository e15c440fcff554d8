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
