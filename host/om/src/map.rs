//! Maps a file read-only; the only place of this crate with `unsafe`.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::path::Path;

use bytes::Bytes;
use memmap2::Mmap;

/// The bytes of a file, mapped. The map lives as long as any part of the result.
///
/// While it lives the file must not be changed in place: the bytes would change below their
/// readers, and bytes that are cut off raise `SIGBUS`. Files of ours are replaced by rename, which
/// leaves a mapped file as it is.
///
/// # Errors
/// What the system says to opening, measuring or mapping the file.
pub fn map_file(path: &Path) -> io::Result<Bytes> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    if metadata.len() == 0 {
        return Ok(Bytes::new());
    }
    // SAFETY: the map is private to this process and read-only, and `Bytes` keeps it alive as long
    // as any slice of it. What remains is that someone changes the file in place meanwhile; the doc
    // comment above demands that nobody does, our own writer never does (temporary file and
    // rename), and every number that is read from the map is copied before it is checked, so that a
    // change makes wrong results, never a wrong access.
    let map = unsafe { Mmap::map(&file)? };
    Ok(Bytes::from_owner(map))
}
