//! Interned names: operator types and attribute keys as small numbers.
use crate::abi::StableAbi;
use std::collections::HashMap;
use std::sync::{OnceLock, RwLock};

/// An interned name. One table a process: the host's, which plugins reach by the host's services.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, StableAbi)]
pub struct Key(u32);

#[derive(Default)]
struct Table {
    by_name: HashMap<&'static str, u32>,
    names: Vec<&'static str>,
}

fn table() -> &'static RwLock<Table> {
    static TABLE: OnceLock<RwLock<Table>> = OnceLock::new();
    TABLE.get_or_init(RwLock::default)
}

/// Interns in this library's own table. Used by the host, and by a library that has no host yet.
pub(crate) fn intern_local(name: &str) -> u32 {
    if let Some(&k) = table().read().unwrap_or_else(|e| e.into_inner()).by_name.get(name) {
        return k;
    }
    let mut t = table().write().unwrap_or_else(|e| e.into_inner());
    if let Some(&k) = t.by_name.get(name) {
        return k;
    }
    let k = u32::try_from(t.names.len()).unwrap_or(u32::MAX);
    let s: &'static str = Box::leak(name.to_owned().into_boxed_str());
    t.names.push(s);
    t.by_name.insert(s, k);
    k
}

/// The name of a key in this library's own table.
pub(crate) fn name_local(key: u32) -> &'static str {
    table().read().unwrap_or_else(|e| e.into_inner()).names.get(key as usize).copied().unwrap_or("?")
}

impl Key {
    /// The key of a name.
    pub fn new(name: &str) -> Key {
        Key(match crate::services::host_or_none() {
            Some(h) => h.intern(name),
            None => intern_local(name),
        })
    }
    /// The name of the key.
    pub fn as_str(self) -> &'static str {
        match crate::services::host_or_none() {
            Some(h) => h.key_name(self.0),
            None => name_local(self.0),
        }
    }
    /// The number, for tables by key.
    pub const fn index(self) -> u32 {
        self.0
    }
    /// From a number that came from `index`.
    pub const fn from_index(index: u32) -> Key {
        Key(index)
    }
}

impl From<&str> for Key {
    fn from(s: &str) -> Key {
        Key::new(s)
    }
}
impl PartialEq<str> for Key {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}
impl PartialEq<&str> for Key {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}
impl core::fmt::Display for Key {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.pad(self.as_str())
    }
}
impl core::fmt::Debug for Key {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.as_str())
    }
}
