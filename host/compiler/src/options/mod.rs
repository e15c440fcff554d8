//! The options of one compilation: one table gives names, kinds, defaults, help and the typed value
//! that each stage reads.
//!
//! A stage reads `options.level`, never a name: a name that is misspelt does not compile, and one
//! that is given from outside is refused by [`Options::set`].
mod kind;
mod table;
mod values;

pub use kind::Kind;
pub use table::{FOREIGN, Options, TABLE};
pub use values::{
    Aim, BuildMode, BuildStep, CoreType, Effort, EventReuse, ExternalWeight, Level, MemoryPolicy, NodeOrder, Precision,
    PrecisionV2, StreamMode, SyncBy, Value,
};

/// What an option belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// It decides about the model, and so belongs to the key of the model cache.
    Model,
    /// It says where things are put and what is told, not what is made.
    Process,
}

/// One option.
#[derive(Clone, Copy, Debug)]
pub struct Decl {
    /// Name, as `--set` and JSON files have it.
    pub name: &'static str,
    /// Values.
    pub kind: Kind,
    /// Default.
    pub default: &'static str,
    /// What it belongs to.
    pub scope: Scope,
    /// The stage, or the part of the host, that reads it.
    pub reader: &'static str,
    /// One line of help.
    pub help: &'static str,
}

/// An option by name.
pub fn find(name: &str) -> Option<&'static Decl> {
    TABLE.iter().find(|d| d.name == name)
}

/// An option that switches passes, and what it says.
#[derive(Clone, Copy)]
pub struct Switch {
    /// The option's name.
    pub name: &'static str,
    /// Whether the passes bound to it may run.
    pub is_on: fn(&Options) -> bool,
}

/// Why a value cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetError {
    /// No option has this name.
    #[error("unknown option `{name}`")]
    UnknownName {
        /// The name.
        name: String,
    },
    /// The option does not take this value.
    #[error("option `{name}` is `{value}`: {expected} is expected")]
    Value {
        /// The option.
        name: &'static str,
        /// The value.
        value: String,
        /// What it takes.
        expected: String,
    },
}

/// Checks a value against the table.
///
/// # Errors
/// A name that is not there, a value that the option does not take.
pub fn check(name: &str, value: &str) -> Result<&'static Decl, SetError> {
    let d = find(name).ok_or_else(|| SetError::UnknownName { name: name.to_owned() })?;
    match d.kind.refuse(value) {
        None => Ok(d),
        Some(expected) => Err(SetError::Value { name: d.name, value: value.to_owned(), expected }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_default_is_legal_and_every_name_stands_once() {
        for d in TABLE {
            assert_eq!(d.kind.refuse(d.default), None, "{}", d.name);
            assert!(!d.help.is_empty() && !d.reader.is_empty(), "{}", d.name);
        }
        let names: BTreeSet<&str> = TABLE.iter().map(|d| d.name).chain(FOREIGN.iter().map(|f| f.0)).collect();
        assert_eq!(names.len(), TABLE.len() + FOREIGN.len());
        assert!(FOREIGN.iter().all(|(_, why)| !why.is_empty()));
    }

    #[test]
    fn values_are_typed_and_unknown_names_are_refused() {
        let mut o = Options::default();
        assert_eq!((o.level, o.stream_mode, o.constant_folding), (Level::O3, StreamMode::Engine, true));
        o.set("ge.oo.level", "O1").expect("a level");
        o.set("ge.x.stream_mode", "parallel:4").expect("a width");
        o.set("ge.streamMaxParallelNum", "AIcoreEngine:2,DNN_HCCL:1").expect("counts");
        assert_eq!((o.level, o.stream_mode), (Level::O1, StreamMode::Parallel(4)));
        assert_eq!(o.stream_max_parallel_num["AIcoreEngine"], 2);
        assert_eq!(o.set("ge.oo.levle", "O1"), Err(SetError::UnknownName { name: "ge.oo.levle".into() }));
        assert!(matches!(o.set("ge.oo.level", "O2"), Err(SetError::Value { name: "ge.oo.level", .. })));
    }

    /// Every name of an option that sources spell out stands in the table: what reads text of an OM
    /// cannot misspell it.
    #[test]
    fn names_in_sources_are_those_of_the_table() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut open = vec![root];
        let mut seen = 0;
        while let Some(dir) = open.pop() {
            for e in std::fs::read_dir(&dir).expect("a folder").map(|e| e.expect("readable").path()) {
                if e.is_dir() {
                    open.push(e);
                    continue;
                }
                if e.extension().is_none_or(|x| x != "rs") || e.ends_with("options/mod.rs") {
                    continue;
                }
                let text = std::fs::read_to_string(&e).expect("a source is text");
                // Names of protobuf messages begin alike.
                let named = |p: &&str| p.starts_with("ge.") && p.len() > 5 && !p.starts_with("ge.proto.");
                for part in text.split('"').filter(named) {
                    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_');
                    if part.chars().all(plain) && !part.ends_with('.') && part.matches('.').count() < 4 {
                        let is_file = [".ge", ".om", ".toml", ".json", ".ge.plugin"].iter().any(|f| part.ends_with(f));
                        let known = find(part).is_some() || FOREIGN.iter().any(|f| f.0 == part);
                        // Prefixes stand for several options.
                        let begins = TABLE.iter().any(|d| d.name.starts_with(part));
                        assert!(is_file || known || begins, "{}: `{part}` is no option", e.display());
                        seen += usize::from(known);
                    }
                }
            }
        }
        assert!(seen > 40, "{seen} names were found");
    }
}
