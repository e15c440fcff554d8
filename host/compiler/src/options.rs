//! The options of one compilation: one flat map with every default filled in, as the host's declared table resolved it.
use std::collections::BTreeMap;

/// Resolved options by name. The host validates them; the compiler reads them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    values: BTreeMap<String, String>,
}

impl Options {
    /// From resolved values.
    pub fn new(values: BTreeMap<String, String>) -> Options {
        Options { values }
    }
    /// A value; empty where not given.
    pub fn get(&self, name: &str) -> &str {
        self.values.get(name).map_or("", String::as_str)
    }
    /// Whether a value is `1` or `true`.
    pub fn is_on(&self, name: &str) -> bool {
        matches!(self.get(name), "1" | "true" | "True")
    }
    /// Sets a value (tests and the API's graph scope).
    pub fn set(&mut self, name: &str, value: &str) {
        self.values.insert(name.to_owned(), value.to_owned());
    }
    /// All values, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().map(|(k, v)| (k.as_str(), v.as_str()))
    }
}
