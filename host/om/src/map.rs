//! Maps a file read-only; only this module and `pages` of the crate have `unsafe`.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::path::Path;

use bytes::Bytes;
use memmap2::Mmap;

use crate::pages::Mapped;

/// Maps a file and returns its bytes. The mapping lives as long as any slice of the result.
///
/// While it lives, the file must not be changed in place: readers would see the bytes change, and
/// access to bytes that were cut off raises `SIGBUS`. Our writer replaces files by rename, which
/// leaves a mapped file unchanged.
///
/// # Errors
/// Returns the system's error if opening, measuring or mapping fails; also fails if `path` is not a
/// regular file.
pub fn map_file(path: &Path) -> io::Result<Bytes> {
    // To open a pipe that nobody writes to would wait for ever.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.len() == 0 {
        return Ok(Bytes::new());
    }
    // SAFETY: the mapping is private to this process and read-only, and `Bytes` keeps it alive as
    // long as any slice of it. The remaining risk is a change of the file in place. The doc comment
    // above forbids that, and our own writer never does it (temporary file and rename). Every
    // number read from the mapping is copied before it is checked, so a change can cause wrong
    // results but no wrong access.
    let map = unsafe { Mmap::map(&file)? };
    Ok(Bytes::from_owner(Mapped::new(map)))
}
