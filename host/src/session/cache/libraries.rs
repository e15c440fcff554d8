//! Digests of libraries, stored beside the entries of a model cache, so that a cache hit does not
//! have to read hundreds of megabytes to see that no library changed. A digest stays valid as long
//! as the file's path, size, times, inode and device are the same.
use crate::{Diagnostic, Result};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Name of the digest file in the cache folder.
pub(super) const FILE: &str = "libraries.digests";
/// Prefix of its temporary files.
const TEMPORARY: &str = ".ge-cache-";
/// A file that changed within this time may change again within the same tick of the file system's
/// clock.
const SETTLED: Duration = Duration::from_secs(2);

/// Identifies one state of a file without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    bytes: u64,
    inode: u64,
    device: u64,
    /// Seconds and nanoseconds since 1970.
    modified: (i64, i64),
    /// Change time of the inode, which no program can set back.
    changed: (i64, i64),
}

impl Stamp {
    fn of(path: &Path) -> std::io::Result<Stamp> {
        let m = std::fs::metadata(path)?;
        Ok(Stamp {
            bytes: m.len(),
            inode: m.ino(),
            device: m.dev(),
            modified: (m.mtime(), m.mtime_nsec()),
            changed: (m.ctime(), m.ctime_nsec()),
        })
    }
    /// Whether the file has been unchanged for long enough that a later change must show in its
    /// times.
    fn settled(&self) -> bool {
        let latest = self.modified.max(self.changed);
        let at = u64::try_from(latest.0).map(Duration::from_secs).unwrap_or_default();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        at + SETTLED < now
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Kept {
    #[serde(flatten)]
    stamp: Stamp,
    sha256: String,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Book {
    schema: u32,
    libraries: BTreeMap<PathBuf, Kept>,
}

/// SHA-256 of each file, in order. For a file that did not change since it was last read, the
/// stored digest is used.
///
/// # Errors
/// Fails if a file cannot be read. Failing to store the digests is not an error: the next
/// compilation then reads the files again.
pub fn digests(folder: &Path, files: &[(String, PathBuf)]) -> Result<Vec<String>> {
    let at = folder.join(FILE);
    let book = std::fs::read(&at).ok().and_then(|t| serde_json::from_slice::<Book>(&t).ok());
    let mut book = book.filter(|b| b.schema == 1).unwrap_or_default();
    let unreadable = |what: &str, e: std::io::Error| {
        Diagnostic::error(format!("cannot read {what} for the key of the model cache: {e}")).raise(ge_codes::UNREADABLE)
    };
    let look = |(what, path): &(String, PathBuf)| -> Result<(Stamp, Option<String>)> {
        let before = Stamp::of(path).map_err(|e| unreadable(what, e))?;
        if let Some(k) = book.libraries.get(path).filter(|k| k.stamp == before) {
            return Ok((before, Some(k.sha256.clone())));
        }
        Ok((before, None))
    };
    let looked: Vec<(Stamp, Option<String>)> = files.iter().map(look).collect::<Result<_>>()?;
    let read = |((what, path), (_, kept)): (&(String, PathBuf), &(Stamp, Option<String>))| match kept {
        Some(d) => Ok(d.clone()),
        None => ge_plugin::digest(path).map_err(|e| unreadable(what, e)),
    };
    let digests: Vec<String> = files.par_iter().zip(looked.par_iter()).map(read).collect::<Result<_>>()?;
    let mut new = false;
    for (((_, path), (stamp, kept)), sha256) in files.iter().zip(&looked).zip(&digests) {
        let still = || Stamp::of(path).is_ok_and(|now| now == *stamp);
        if kept.is_none() && stamp.settled() && still() {
            book.libraries.insert(path.clone(), Kept { stamp: *stamp, sha256: sha256.clone() });
            new = true;
        }
    }
    if new {
        // Drop entries of deleted files, which would only make the digest file grow.
        book.libraries.retain(|path, _| path.exists());
        book.schema = 1;
        let _ = write(folder, &at, &book);
    }
    Ok(digests)
}

fn write(folder: &Path, at: &Path, book: &Book) -> std::io::Result<()> {
    let mut f = ge_om::temporary_in(folder, TEMPORARY)?;
    std::io::Write::write_all(&mut f, &serde_json::to_vec_pretty(book)?)?;
    f.persist(at).map_err(|e| e.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(folder: &Path, file: &Path) -> String {
        digests(folder, &[("it".into(), file.to_owned())]).expect("readable").remove(0)
    }

    /// Sets the file's time back and waits until a later change must show in the times.
    fn settle(file: &Path) {
        let old = SystemTime::now() - Duration::from_secs(3600);
        std::fs::File::options().append(true).open(file).and_then(|f| f.set_modified(old)).expect("set");
        std::thread::sleep(SETTLED + Duration::from_millis(1100));
    }

    #[test]
    fn a_digest_holds_while_the_file_is_the_same_and_no_longer() {
        let dir = tempfile::tempdir().expect("a folder");
        let (folder, file) = (dir.path(), dir.path().join("lib.so"));
        std::fs::write(&file, b"first").expect("written");
        let first = of(folder, &file);
        assert!(!folder.join(FILE).exists(), "a file that has just been written may change without a trace");
        settle(&file);
        assert_eq!(of(folder, &file), first);
        // The stored digest is used: the file is not read again.
        let text = std::fs::read_to_string(folder.join(FILE)).expect("kept");
        let other = first.chars().rev().collect::<String>();
        std::fs::write(folder.join(FILE), text.replace(&first, &other)).expect("written");
        assert_eq!(of(folder, &file), other);
        // The size is the same and the modification time is set back, but the inode's change time
        // differs.
        let time = std::fs::metadata(&file).and_then(|m| m.modified()).expect("a time");
        std::fs::write(&file, b"secnd").expect("written");
        std::fs::File::options().append(true).open(&file).and_then(|f| f.set_modified(time)).expect("set");
        let second = of(folder, &file);
        assert!(second != first && second != other);
        // A damaged digest file counts as empty.
        std::fs::write(folder.join(FILE), b"{").expect("written");
        assert_eq!(of(folder, &file), second);
    }
}
