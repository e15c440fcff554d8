//! Libraries whose layout was found right, so that a start does not look at it again: holding all
//! types of a library against the host's is half of what opening it takes.
//!
//! A verdict is about files, not about names: device, inode, size and times of the library and of
//! the executable. The time of change (ctime) is set by the kernel on every write, and by nobody
//! else, so a library that was replaced or written to is another one.
use crate::digest::hex;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

static KEPT: AtomicBool = AtomicBool::new(false);

/// Verdicts are kept between starts. Only the binary asks for it.
pub fn keep() {
    KEPT.store(true, Ordering::Relaxed);
}

/// Verdicts that are kept, at most: the latest.
const MOST: usize = 256;

/// The file that keeps them, a line each.
pub fn store() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
    Some(cache.join("ge/layouts"))
}

fn file(path: &Path) -> Option<String> {
    let m = std::fs::metadata(path).ok()?;
    let (size, changed) = (m.size(), (m.ctime(), m.ctime_nsec()));
    Some(format!("{}:{} {size} {}.{} {}.{}", m.dev(), m.ino(), m.mtime(), m.mtime_nsec(), changed.0, changed.1))
}

/// What a verdict about a library is about, as the file is now; None: none is kept.
pub(crate) fn key(library: &Path) -> Option<String> {
    if !KEPT.load(Ordering::Relaxed) {
        return None;
    }
    static OWN: OnceLock<Option<String>> = OnceLock::new();
    let own = OWN.get_or_init(|| file(&std::env::current_exe().ok()?)).as_ref()?;
    Some(hex(&Sha256::digest(format!("{own}\n{}\n{}", library.display(), file(library)?))))
}

/// Those of earlier starts, and those of this one that are not kept yet.
#[derive(Default)]
struct Verdicts {
    read: Option<BTreeSet<String>>,
    new: Vec<String>,
}

fn verdicts() -> MutexGuard<'static, Verdicts> {
    static ALL: Mutex<Verdicts> = Mutex::new(Verdicts { read: None, new: Vec::new() });
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

fn lines() -> Vec<String> {
    let text = store().and_then(|s| std::fs::read_to_string(s).ok()).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Whether the layout was found right.
pub(crate) fn is_right(key: &str) -> bool {
    verdicts().read.get_or_insert_with(|| lines().into_iter().collect()).contains(key)
}

/// The layout was found right just now.
pub(crate) fn note(key: String) {
    verdicts().new.push(key);
}

/// Keeps what was noted. Where that cannot be, the next start looks again.
pub(crate) fn write() {
    let new = std::mem::take(&mut verdicts().new);
    let Some(at) = store().filter(|_| !new.is_empty()) else { return };
    let mut all = lines();
    all.retain(|l| !new.contains(l));
    all.extend(new);
    let text: String = all[all.len().saturating_sub(MOST)..].iter().map(|l| format!("{l}\n")).collect();
    let part = at.with_extension(format!("{}", std::process::id()));
    let written = at.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(&part, text));
    if written.and_then(|()| std::fs::rename(&part, &at)).is_err() {
        let _ = std::fs::remove_file(&part);
    }
}
