//! The model cache in front of the build (003 §7, DESIGN 5): `ge.graph_compiler_cache_dir`.
//!
//! A key is a SHA-256 over named parts: the graph, its constants, every option, and every plugin
//! with version and library. An entry is an OM file and, written after it, a list of the parts.
//! Both files are created atomically, so that entries stay intact if a process is killed at any
//! point or if two write at once. An incomplete entry is built again.
mod key;
mod libraries;
mod store;

pub use key::CacheKey;
pub use libraries::digests;
pub use store::{Cache, Entry, State};

/// Result of a cache look-up, for one line on stderr.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The model was found.
    Hit {
        /// The key of the model.
        key: String,
    },
    /// The model had to be built.
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
