//! Digests of libraries, kept beside the entries of a model cache: a hit must not read hundreds of
//! megabytes to learn that no library has changed. A digest holds for a file as long as its path,
//! size, times, inode and device are the same.
use crate::{Diagnostic, Result};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The file in the cache's folder.
pub(super) const FILE: &str = "libraries.digests";
/// What its temporary files begin with.
const TEMPORARY: &str = ".ge-cache-";
/// A file that changed so recently may change again within the same tick of the file system's
/// clock.
const SETTLED: Duration = Duration::from_secs(2);

/// What tells one state of a file from another without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    bytes: u64,
    inode: u64,
    device: u64,
    /// Seconds and nanoseconds since 1970.
    modified: (i64, i64),
    /// The inode's own time, which no program can set back.
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
    /// Whether the file has been as it is for long enough that a later change must show in its
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

/// SHA-256 of each file, in order; of a file that is as it was when it was last read, the digest of
/// then.
///
/// # Errors
/// A file cannot be read. That the digests cannot be kept is no error: the next compilation reads
/// the files again.
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
        // What is gone says nothing any more, and would only make the file grow.
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

    /// Sets the file's time back, and waits until nothing new can hide behind the same time.
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
        // What is kept is what is used: the file is not read again.
        let text = std::fs::read_to_string(folder.join(FILE)).expect("kept");
        let other = first.chars().rev().collect::<String>();
        std::fs::write(folder.join(FILE), text.replace(&first, &other)).expect("written");
        assert_eq!(of(folder, &file), other);
        // The same size, and even the time set back: the inode's own time tells.
        let time = std::fs::metadata(&file).and_then(|m| m.modified()).expect("a time");
        std::fs::write(&file, b"secnd").expect("written");
        std::fs::File::options().append(true).open(&file).and_then(|f| f.set_modified(time)).expect("set");
        let second = of(folder, &file);
        assert!(second != first && second != other);
        // A damaged list is read as none.
        std::fs::write(folder.join(FILE), b"{").expect("written");
        assert_eq!(of(folder, &file), second);
    }
}
