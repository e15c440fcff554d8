//! The folder of a cache: finding, storing, listing, verifying and removing entries.
use super::Outcome;
use super::key::{CacheKey, digest};
use crate::session::{decode_om, open_om, write_om};
use crate::{Diagnostic, Result};
use ge_model::CompiledModel;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Number of entries that are compared at most to say what differs.
const COMPARED: usize = 1000;
/// Model name stored in every cache entry.
const NAME: &str = "cached";
/// Prefix of the cache's temporary files.
const TEMPORARY: &str = ".ge-cache-";
/// Prefix and suffix of the temporary files of `ge`.
const TEMPORARIES: (&str, &str) = (".ge-", ".tmp");
/// An older temporary file was left by a process that no longer runs.
const STALE: Duration = Duration::from_secs(3600);

/// The list that stands beside an entry's OM file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Manifest {
    schema: u32,
    version: String,
    key: String,
    model: String,
    om_bytes: u64,
    om_checksum: String,
    /// Offset and size in bytes of each weight block; the weights may be written to separate files.
    weights: Vec<(u64, u64)>,
    /// The same for each part of known shape.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    part_weights: Vec<Vec<(u64, u64)>>,
    parts: BTreeMap<String, String>,
}

/// State of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Complete and usable.
    Good,
    /// Written by another version of ge.
    Old,
    /// Incomplete, or its contents do not match the list; with the reason.
    Damaged(String),
    /// A temporary file left by a process that ended while writing.
    Leftover,
}

/// An entry, or a leftover file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Key of the entry, or name of the leftover file.
    pub key: String,
    /// Name of the model that was compiled into it first.
    pub model: String,
    /// Version of ge that wrote it.
    pub version: String,
    /// Total size of its files in bytes.
    pub bytes: u64,
    /// Time of the last use.
    pub used: SystemTime,
    /// Whether it can be used.
    pub state: State,
}

/// A model cache in a folder.
pub struct Cache {
    dir: PathBuf,
}

impl Cache {
    /// Opens a cache folder and creates it if needed.
    ///
    /// # Errors
    /// Fails if the folder cannot be created or is not a folder.
    pub fn open(dir: &Path) -> Result<Cache> {
        std::fs::create_dir_all(dir).map_err(|e| {
            Diagnostic::error(format!("cannot use `{}` as folder of the model cache: {e}", dir.display()))
                .subject("ge.graph_compiler_cache_dir")
                .raise(ge_codes::UNREADABLE)
        })?;
        Ok(Cache { dir: dir.to_owned() })
    }
    /// Opens an existing cache folder.
    ///
    /// # Errors
    /// Fails if there is no such folder.
    pub fn existing(dir: &Path) -> Result<Cache> {
        if !dir.is_dir() {
            return Err(Diagnostic::error(format!("`{}` is no folder", dir.display()))
                .help("give the folder that `ge.graph_compiler_cache_dir` names")
                .raise(ge_codes::UNREADABLE));
        }
        Ok(Cache { dir: dir.to_owned() })
    }
    /// The cache folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
    fn om(&self, key: &str) -> PathBuf {
        self.dir.join(format!("{key}.om"))
    }
    fn manifest(&self, key: &str) -> PathBuf {
        self.dir.join(format!("{key}.json"))
    }

    /// The cached model of a key, renamed to the given model and root graph names; on a miss, the
    /// reason.
    pub fn find(&self, key: &CacheKey, name: &str, graph: &str) -> std::result::Result<CompiledModel, Outcome> {
        let path = self.manifest(key.digest());
        if !path.exists() {
            return Err(Outcome::Miss { why: self.difference(key) });
        }
        match self.read(key.digest()) {
            Ok((_, mut model)) => {
                model.rename(name, graph);
                // Record the time of last use, which `prune` goes by. Errors are ignored so that a
                // read-only cache works.
                if let Ok(f) = std::fs::File::options().append(true).open(&path) {
                    let _ = f.set_modified(SystemTime::now());
                }
                Ok(model)
            }
            Err(State::Damaged(why)) => Err(Outcome::Miss { why: format!("damaged entry ({why})") }),
            Err(_) => Err(Outcome::Miss { why: "entry of another version".into() }),
        }
    }

    /// Reads and verifies an entry.
    fn read(&self, key: &str) -> std::result::Result<(Manifest, CompiledModel), State> {
        let bad = |why: String| State::Damaged(why);
        let text = std::fs::read(self.manifest(key)).map_err(|e| bad(format!("its list cannot be read: {e}")))?;
        let m: Manifest = serde_json::from_slice(&text).map_err(|_| bad("its list is torn".into()))?;
        if m.schema != 1 || m.version != env!("CARGO_PKG_VERSION") {
            return Err(State::Old);
        }
        if m.key != key || digest(&m.parts) != key {
            return Err(bad("its list is of another key".into()));
        }
        let path = self.om(key);
        let file = open_om(&path).map_err(|e| bad(format!("its OM cannot be used: {}", first(&e))))?;
        if file.bytes().len() as u64 != m.om_bytes || checksum(&file) != m.om_checksum {
            return Err(bad("its OM is of another model".into()));
        }
        let mut model = decode_om(&path, &file).map_err(|e| bad(format!("its OM cannot be used: {}", first(&e))))?;
        let lost = || bad("its weights are not where its list says".into());
        split(&mut model, &m.weights).ok_or_else(lost)?;
        for (k, part) in model.parts.iter_mut().enumerate() {
            split(part, m.part_weights.get(k).ok_or_else(lost)?).ok_or_else(lost)?;
        }
        Ok((m, model))
    }

    /// Describes how the key differs from the most similar entry; among equals, the newest counts.
    fn difference(&self, key: &CacheKey) -> String {
        let mut manifests: Vec<(SystemTime, Manifest)> = self
            .keys()
            .into_iter()
            .filter_map(|k| {
                let path = self.manifest(&k);
                let used = std::fs::metadata(&path).and_then(|m| m.modified()).ok()?;
                Some((used, serde_json::from_slice(&std::fs::read(path).ok()?).ok()?))
            })
            .collect();
        manifests.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.key.cmp(&b.1.key)));
        let nearest = manifests.iter().take(COMPARED).map(|(_, m)| key.differing(&m.parts)).min_by_key(Vec::len);
        nearest.and_then(|d| d.into_iter().next()).unwrap_or_else(|| "graph".to_owned())
    }

    /// Stores a model under its key: first the OM, then the list.
    ///
    /// # Errors
    /// Fails if the folder cannot be written.
    pub fn put(&self, key: &CacheKey, model: &CompiledModel) -> Result<()> {
        self.sweep();
        let path = self.om(key.digest());
        // The bytes depend only on the key: the model's name comes from the file name, so it is
        // replaced here and restored when the entry is used.
        let mut plain = model.clone();
        plain.rename(NAME, NAME);
        write_om(&plain, &path)?;
        let file = open_om(&path)?;
        let manifest = Manifest {
            schema: 1,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            key: key.digest().to_owned(),
            model: model.name.clone(),
            om_bytes: file.bytes().len() as u64,
            om_checksum: checksum(&file),
            weights: places(model),
            part_weights: model.parts.iter().map(places).collect(),
            parts: key.parts().clone(),
        };
        let text = serde_json::to_vec_pretty(&manifest).map_err(|e| crate::Error::internal(e.to_string()))?;
        let fail = |e: std::io::Error| {
            Diagnostic::error(format!("cannot write into the model cache `{}`: {e}", self.dir.display()))
                .raise(ge_codes::UNWRITABLE)
        };
        let mut f = ge_om::temporary_in(&self.dir, TEMPORARY).map_err(fail)?;
        std::io::Write::write_all(&mut f, &text).and_then(|()| f.as_file().sync_all()).map_err(fail)?;
        f.persist(self.manifest(key.digest())).map_err(|e| fail(e.error))?;
        Ok(())
    }

    /// Removes files left by processes that no longer run.
    fn sweep(&self) {
        for (path, used) in self.leftovers() {
            if SystemTime::now().duration_since(used).is_ok_and(|age| age > STALE) {
                let _ = std::fs::remove_file(path);
            }
        }
    }

    fn names(&self) -> Vec<String> {
        let Ok(list) = std::fs::read_dir(&self.dir) else { return Vec::new() };
        let mut out: Vec<String> = list.filter_map(|e| e.ok()?.file_name().into_string().ok()).collect();
        out.sort();
        out
    }
    /// Keys that have a list. Files with other names are ignored: the folder may hold more than the
    /// cache.
    fn keys(&self) -> Vec<String> {
        let key = |n: String| n.strip_suffix(".json").filter(|k| is_key(k)).map(str::to_owned);
        self.names().into_iter().filter_map(key).collect()
    }
    fn leftovers(&self) -> Vec<(PathBuf, SystemTime)> {
        let names = self.names();
        let list = |k: &str| names.binary_search(&format!("{k}.json")).is_ok();
        let lonely = |n: &&String| n.strip_suffix(".om").is_some_and(|k| is_key(k) && !list(k));
        let temporary = |n: &&String| n.starts_with(TEMPORARIES.0) && n.ends_with(TEMPORARIES.1);
        names
            .iter()
            .filter(|n| temporary(n) || lonely(n))
            .map(|n| self.dir.join(n))
            .filter_map(|p| std::fs::metadata(&p).and_then(|m| m.modified()).ok().map(|t| (p, t)))
            .collect()
    }

    /// All entries, each read and verified, then the leftovers; each group sorted by name.
    pub fn entries(&self) -> Vec<Entry> {
        let size = |p: &Path| std::fs::metadata(p).map_or(0, |m| m.len());
        let mut out = Vec::new();
        for key in self.keys() {
            let used = std::fs::metadata(self.manifest(&key)).and_then(|m| m.modified());
            let said: Option<Manifest> =
                std::fs::read(self.manifest(&key)).ok().and_then(|t| serde_json::from_slice(&t).ok());
            out.push(Entry {
                model: said.as_ref().map_or(String::new(), |m| m.model.clone()),
                version: said.map_or(String::new(), |m| m.version),
                bytes: size(&self.om(&key)) + size(&self.manifest(&key)),
                used: used.unwrap_or(SystemTime::UNIX_EPOCH),
                state: self.read(&key).map_or_else(|s| s, |_| State::Good),
                key,
            });
        }
        for (path, used) in self.leftovers() {
            out.push(Entry {
                key: path.file_name().map_or(String::new(), |n| n.to_string_lossy().into_owned()),
                model: String::new(),
                version: String::new(),
                bytes: size(&path),
                used,
                state: State::Leftover,
            });
        }
        out
    }

    /// Removes unusable entries, then the least recently used ones until the rest has at most
    /// `limit` bytes. Returns what was removed.
    ///
    /// # Errors
    /// Fails if a file cannot be removed.
    pub fn prune(&self, limit: Option<u64>) -> Result<Vec<Entry>> {
        let (mut good, mut gone): (Vec<Entry>, Vec<Entry>) =
            self.entries().into_iter().partition(|e| e.state == State::Good);
        // Keep recent leftovers: another process may still be writing them.
        let young = |e: &Entry| {
            e.state == State::Leftover
                && SystemTime::now().duration_since(e.used).is_ok_and(|a| a < Duration::from_secs(60))
        };
        gone.retain(|e| !young(e));
        good.sort_by(|a, b| b.used.cmp(&a.used).then_with(|| a.key.cmp(&b.key)));
        let mut sum = 0u64;
        for e in good {
            sum += e.bytes;
            if limit.is_some_and(|l| sum > l) {
                gone.push(e);
            }
        }
        for e in &gone {
            // Remove the list first: an OM without a list is not an entry.
            let files = match e.state {
                State::Leftover => vec![self.dir.join(&e.key)],
                _ => vec![self.manifest(&e.key), self.om(&e.key)],
            };
            for f in files {
                match std::fs::remove_file(&f) {
                    Err(err) if err.kind() != std::io::ErrorKind::NotFound => {
                        return Err(Diagnostic::error(format!("cannot remove `{}`: {err}", f.display()))
                            .raise(ge_codes::UNWRITABLE));
                    }
                    _ => {}
                }
            }
        }
        // Library digests serve only the entries, so the file goes with the last entry.
        if self.keys().is_empty() {
            let _ = std::fs::remove_file(self.dir.join(super::libraries::FILE));
        }
        Ok(gone)
    }
}

/// Whether a name is a key: 64 hex digits.
fn is_key(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

fn checksum(file: &ge_om::OmFile) -> String {
    String::from_utf8_lossy(&file.header().checksum).trim_end_matches('\0').to_owned()
}

/// Offset and size of each weight block of a model.
fn places(m: &CompiledModel) -> Vec<(u64, u64)> {
    m.weights.iter().map(|(at, b)| (*at, b.len() as u64)).collect()
}
/// Splits the single weight block of a model that was read back into its parts. `None` if the parts
/// lie outside the block.
fn split(m: &mut CompiledModel, places: &[(u64, u64)]) -> Option<()> {
    let Some((_, all)) = m.weights.pop() else { return Some(()) };
    for &(at, bytes) in places {
        let end = at.checked_add(bytes).filter(|e| *e <= all.len() as u64)?;
        m.weights.push((at, all.slice(at as usize..end as usize)));
    }
    Some(())
}

fn first(e: &crate::Error) -> String {
    e.diagnostics.first().map_or_else(|| e.to_string(), |d| d.message.to_string())
}
