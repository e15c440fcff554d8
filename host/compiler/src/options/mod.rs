//! The options of one compilation. One table gives their names, kinds, defaults, help texts and the
//! typed values that the stages read.
//!
//! A stage reads `options.level` and never uses a name: a misspelt field does not compile, and
//! [`Options::set`] refuses an unknown name that a user gives.
mod kind;
mod table;
mod values;

pub use kind::Kind;
pub use table::{FOREIGN, Options, TABLE};
pub use values::{
    Aim, BuildMode, BuildStep, CoreType, Effort, EventReuse, ExternalWeight, Level, MemoryPolicy, NodeOrder, Precision,
    PrecisionV2, StreamMode, SyncBy, Value,
};

/// What an option affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// It affects the compiled model, and so belongs to the key of the model cache.
    Model,
    /// It says where files are put or what is reported, and does not affect the model.
    Process,
}

/// One option.
#[derive(Clone, Copy, Debug)]
pub struct Decl {
    /// Name, as `--set` and JSON files use it.
    pub name: &'static str,
    /// Values that the option accepts.
    pub kind: Kind,
    /// Default value, as text.
    pub default: &'static str,
    /// What the option affects.
    pub scope: Scope,
    /// The stages or parts of the host that read the option.
    pub reader: &'static str,
    /// One line of help.
    pub help: &'static str,
}

/// The declaration of an option by name; `None` if there is no such option.
pub fn find(name: &str) -> Option<&'static Decl> {
    TABLE.iter().find(|d| d.name == name)
}

/// An option that switches passes, and how its value is read.
#[derive(Clone, Copy)]
pub struct Switch {
    /// Name of the option.
    pub name: &'static str,
    /// Whether the passes bound to the option may run.
    pub is_on: fn(&Options) -> bool,
}

/// Why a value cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetError {
    /// No option has this name.
    #[error("unknown option `{name}`")]
    UnknownName {
        /// The unknown name.
        name: String,
    },
    /// The option does not accept this value.
    #[error("option `{name}` is `{value}`: {expected} is expected")]
    Value {
        /// Name of the option.
        name: &'static str,
        /// The refused value.
        value: String,
        /// Description of the values that the option accepts.
        expected: String,
    },
}

/// Checks a value against the table. Returns the declaration of the option.
///
/// # Errors
/// Fails if there is no option of this name, or if the option does not accept the value.
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

    /// An empty value is refused like any other text that is no number, and sets nothing.
    #[test]
    fn an_empty_value_is_no_number() {
        for d in TABLE.iter().filter(|d| matches!(d.kind, Kind::Int(..))) {
            let mut o = Options::default();
            let e = o.set(d.name, "").expect_err("no number");
            assert!(matches!(&e, SetError::Value { name, .. } if *name == d.name), "{e}");
            assert!(e.to_string().contains("a whole number from"), "{e}");
            assert_eq!(o, Options::default());
        }
    }

    /// Every option name that the sources spell out is in the table, so that code that reads an
    /// OM's text cannot misspell it.
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
                // Names of protobuf messages begin in the same way.
                let named = |p: &&str| p.starts_with("ge.") && p.len() > 5 && !p.starts_with("ge.proto.");
                for part in text.split('"').filter(named) {
                    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_');
                    if part.chars().all(plain) && !part.ends_with('.') && part.matches('.').count() < 4 {
                        let is_file = [".ge", ".om", ".toml", ".json", ".ge.plugin"].iter().any(|f| part.ends_with(f));
                        let known = find(part).is_some() || FOREIGN.iter().any(|f| f.0 == part);
                        // A prefix stands for several options.
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
