//! Interned names: operator types and attribute keys as small numbers.
use crate::abi::StableAbi;
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{OnceLock, RwLock};

/// An interned name. Each process has one table of names, which belongs to the host; plugins reach
/// it through the host's services.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, StableAbi)]
pub struct Key(u32);

/// Names by key, in blocks of doubling length that never move, so that reading one takes no lock.
struct Names([OnceLock<Box<[OnceLock<&'static str>]>>; BLOCKS]);

/// Number of keys in the first block.
const FIRST: u64 = 256;
/// Number of blocks needed for every `u32`.
const BLOCKS: usize = 25;

impl Names {
    /// The block of a key and its index in that block.
    fn place(key: u32) -> (usize, usize) {
        let x = u64::from(key) + FIRST;
        let block = x.ilog2() - FIRST.ilog2();
        (block as usize, (x - (FIRST << block)) as usize)
    }
    fn get(&self, key: u32) -> Option<&'static str> {
        let (block, at) = Names::place(key);
        self.0.get(block)?.get()?.get(at)?.get().copied()
    }
    fn set(&self, key: u32, name: &'static str) {
        let (block, at) = Names::place(key);
        let Some(slot) = self.0.get(block) else { return };
        let all = slot.get_or_init(|| (0..FIRST << block).map(|_| OnceLock::new()).collect());
        if let Some(one) = all.get(at) {
            // If it is already set, it is the same name: a key has only one.
            let _ = one.set(name);
        }
    }
}

/// Names in this library's own table: the host's table, or that of a library without a host yet.
static OWN: Names = Names([const { OnceLock::new() }; BLOCKS]);
/// Names of host keys that this library has already asked for.
static ASKED: Names = Names([const { OnceLock::new() }; BLOCKS]);

fn keys() -> &'static RwLock<HashMap<&'static str, u32>> {
    static KEYS: OnceLock<RwLock<HashMap<&'static str, u32>>> = OnceLock::new();
    KEYS.get_or_init(RwLock::default)
}

/// Names that a thread has recently looked up, with their keys, so that looking one up again costs
/// neither a lock nor a hash. A name's slot follows from its address and length, as most names are
/// literals.
struct Recent([Cell<(&'static str, u32)>; RECENT]);

/// Number of names that a thread keeps.
const RECENT: usize = 128;

impl Recent {
    const fn new() -> Recent {
        Recent([const { Cell::new(("", 0)) }; RECENT])
    }
    fn get(&self, name: &str, miss: impl FnOnce() -> (&'static str, u32)) -> u32 {
        let slot = &self.0[(name.as_ptr().addr() / 4 + name.len()) % RECENT];
        let (known, key) = slot.get();
        if known == name && !name.is_empty() {
            return key;
        }
        let found = miss();
        slot.set(found);
        found.1
    }
}

thread_local! {
    static OF_HOST: Recent = const { Recent::new() };
    static OF_LIBRARY: Recent = const { Recent::new() };
}

/// Interns a name in this library's own table. The host uses it, and so does a library without a
/// host yet.
pub(crate) fn intern_local(name: &str) -> u32 {
    OF_LIBRARY.with(|r| {
        r.get(name, || {
            let key = look_up(name);
            (name_local(key), key)
        })
    })
}

fn look_up(name: &str) -> u32 {
    if let Some(&k) = keys().read().unwrap_or_else(|e| e.into_inner()).get(name) {
        return k;
    }
    let mut t = keys().write().unwrap_or_else(|e| e.into_inner());
    if let Some(&k) = t.get(name) {
        return k;
    }
    let k = u32::try_from(t.len()).unwrap_or(u32::MAX);
    let s: &'static str = Box::leak(name.to_owned().into_boxed_str());
    OWN.set(k, s);
    t.insert(s, k);
    k
}

/// The name of a key in this library's own table; `?` if the key is unknown.
pub(crate) fn name_local(key: u32) -> &'static str {
    OWN.get(key).unwrap_or("?")
}

impl Key {
    /// The key of a name; a new name is interned.
    pub fn new(name: &str) -> Key {
        Key(match crate::services::host_or_none() {
            Some(h) => OF_HOST.with(|r| {
                r.get(name, || {
                    let key = Key(h.intern(name));
                    (key.as_str(), key.0)
                })
            }),
            None => intern_local(name),
        })
    }
    /// The name of the key; `?` if the key is unknown.
    pub fn as_str(self) -> &'static str {
        match crate::services::host_or_none() {
            Some(h) => ASKED.get(self.0).unwrap_or_else(|| {
                let name = h.key_name(self.0);
                if name != "?" {
                    ASKED.set(self.0, name);
                }
                name
            }),
            None => name_local(self.0),
        }
    }
    /// The number of the key, for tables indexed by key.
    pub const fn index(self) -> u32 {
        self.0
    }
    /// The key of a number that [`Key::index`] returned.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_a_place_of_its_own() {
        let mut last = (0, usize::MAX);
        for key in 0..100_000 {
            let (block, at) = Names::place(key);
            let next = if at == 0 { (last.0 + usize::from(key > 0), 0) } else { (last.0, last.1 + 1) };
            assert_eq!((block, at), next, "{key}");
            last = (block, at);
        }
        assert!(Names::place(u32::MAX).0 < BLOCKS);
    }

    #[test]
    fn names_come_back_by_key() {
        let keys: Vec<(Key, String)> =
            (0..2000).map(|i| format!("names_come_back_{i}")).map(|n| (Key::new(&n), n)).collect();
        for (k, n) in keys {
            assert_eq!(k.as_str(), n);
            assert_eq!(Key::new(&n), k);
        }
        assert_eq!(Key::from_index(u32::MAX).as_str(), "?");
    }
}
