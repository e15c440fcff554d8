//! The folder of a cache: entries found, kept, listed, verified and thrown out.
use super::Outcome;
use super::key::{CacheKey, digest};
use crate::session::{decode_om, open_om, write_om};
use crate::{Diagnostic, Result};
use ge_model::CompiledModel;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// So many entries are compared to say what differs.
const COMPARED: usize = 1000;
/// The name of every model in a cache.
const NAME: &str = "cached";
/// What a temporary file's name begins with.
const TEMPORARY: &str = ".ge-cache-";
/// How temporary files of `ge` begin and end.
const TEMPORARIES: (&str, &str) = (".ge-", ".tmp");
/// A temporary file that is older was left by a process that is gone.
const STALE: Duration = Duration::from_secs(3600);

/// What stands beside an entry's OM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Manifest {
    schema: u32,
    version: String,
    key: String,
    model: String,
    om_bytes: u64,
    om_checksum: String,
    /// Offset and bytes of each weight, which may be written into files of their own.
    weights: Vec<(u64, u64)>,
    /// The same of each part of known shape.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    part_weights: Vec<Vec<(u64, u64)>>,
    parts: BTreeMap<String, String>,
}

/// How an entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Whole.
    Good,
    /// Of another version of ge.
    Old,
    /// Not whole, or not what it says.
    Damaged(String),
    /// Left by a process that ended while writing.
    Leftover,
}

/// One entry, or a file that is no entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Key, or the file's name.
    pub key: String,
    /// Name of the model that was compiled first.
    pub model: String,
    /// Version that wrote it.
    pub version: String,
    /// Bytes of its files.
    pub bytes: u64,
    /// When it was last used.
    pub used: SystemTime,
    /// How it is.
    pub state: State,
}

/// A cache in a folder.
pub struct Cache {
    dir: PathBuf,
}

impl Cache {
    /// Of a folder, which is made.
    ///
    /// # Errors
    /// It cannot be made, or is no folder.
    pub fn open(dir: &Path) -> Result<Cache> {
        std::fs::create_dir_all(dir).map_err(|e| {
            Diagnostic::error(format!("cannot use `{}` as folder of the model cache: {e}", dir.display()))
                .subject("ge.graph_compiler_cache_dir")
                .raise(ge_codes::UNREADABLE)
        })?;
        Ok(Cache { dir: dir.to_owned() })
    }
    /// Of a folder that is there.
    ///
    /// # Errors
    /// It is not.
    pub fn existing(dir: &Path) -> Result<Cache> {
        if !dir.is_dir() {
            return Err(Diagnostic::error(format!("`{}` is no folder", dir.display()))
                .help("give the folder that `ge.graph_compiler_cache_dir` names")
                .raise(ge_codes::UNREADABLE));
        }
        Ok(Cache { dir: dir.to_owned() })
    }
    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
    fn om(&self, key: &str) -> PathBuf {
        self.dir.join(format!("{key}.om"))
    }
    fn manifest(&self, key: &str) -> PathBuf {
        self.dir.join(format!("{key}.json"))
    }

    /// The model of a key under a name and its root graph's, or what differs.
    pub fn find(&self, key: &CacheKey, name: &str, graph: &str) -> std::result::Result<CompiledModel, Outcome> {
        let path = self.manifest(key.digest());
        if !path.exists() {
            return Err(Outcome::Miss { why: self.difference(key) });
        }
        match self.read(key.digest()) {
            Ok((_, mut model)) => {
                name.clone_into(&mut model.name);
                if let Some(g) = model.graphs.first_mut() {
                    graph.clone_into(&mut g.name);
                }
                // The time of last use, by which `prune` chooses; a cache that is read-only works
                // as well.
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

    /// What differs from the entry that has the most in common, the newest among equals.
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

    /// Keeps a model under its key: the OM first, then its list.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn put(&self, key: &CacheKey, model: &CompiledModel) -> Result<()> {
        self.sweep();
        let path = self.om(key.digest());
        // Whoever builds a key writes the same bytes: the name, which is the file's, is given back
        // when the entry is used.
        let mut plain = model.clone();
        NAME.clone_into(&mut plain.name);
        if let Some(g) = plain.graphs.first_mut() {
            NAME.clone_into(&mut g.name);
        }
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

    /// Removes what processes that are gone have left.
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
    /// Keys that have a list. Files of other names are somebody else's: the folder may not be a
    /// cache's alone.
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

    /// All entries, each read and verified, and what is left over, by name.
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

    /// Removes what cannot be used, then the entries that were not used for longest until the rest
    /// has at most `limit` bytes. What was removed.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn prune(&self, limit: Option<u64>) -> Result<Vec<Entry>> {
        let (mut good, mut gone): (Vec<Entry>, Vec<Entry>) =
            self.entries().into_iter().partition(|e| e.state == State::Good);
        // Another process may be writing what has just begun.
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
            // The list first: an OM without a list is no entry.
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
        // Digests of libraries serve entries: without any they are litter.
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

/// Where the weights of a model lie.
fn places(m: &CompiledModel) -> Vec<(u64, u64)> {
    m.weights.iter().map(|(at, b)| (*at, b.len() as u64)).collect()
}
/// Takes the one run of weights of a model that was read apart again. None: they do not lie there.
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
