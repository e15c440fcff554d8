//! The model cache in front of the build (003 §7, DESIGN 5): `ge.graph_compiler_cache_dir`.
//!
//! A key is a SHA-256 over parts that each have a name: the graph, its constants, every option,
//! every plugin with version and library. An entry is an OM file and, written after it, a list of
//! the parts; both appear under their names whole or not at all, so that a process killed at any
//! point, or two at once, leave entries that are whole. What is not whole is built anew.
mod key;
mod libraries;
mod store;

pub use key::CacheKey;
pub use libraries::digests;
pub use store::{Cache, Entry, State};

/// What the cache said, for one line on stderr.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The model was there.
    Hit {
        /// Its key.
        key: String,
    },
    /// It had to be built.
    Miss {
        /// The part of the key that differs from the nearest entry, or what is wrong with the
        /// entry.
        why: String,
    },
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Outcome::Hit { key } => write!(f, "cache hit {key}"),
            Outcome::Miss { why } => write!(f, "cache miss: {why}"),
        }
    }
}
