//! Reading and writing of whole files.
use crate::{Diagnostic, Result};
use std::io::{self, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Reads a file that the user names. A named pipe is refused, because reading it may wait for ever;
/// what the shell has opened (`/dev/stdin`, `/dev/fd/63`) is read.
///
/// # Errors
/// Fails if the file cannot be read.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let opened = ["/dev", "/proc"].iter().any(|f| path.starts_with(f));
    if !opened && std::fs::metadata(path)?.file_type().is_fifo() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a named pipe, not a file"));
    }
    std::fs::read(path)
}

/// Checks that [`write_atomic`] can write a file, before work is done whose result it takes. Leaves
/// the file as it is.
///
/// # Errors
/// Fails if the folder does not allow the write.
pub fn check_writable(path: &Path) -> Result<()> {
    if path.exists() && !path.is_file() {
        return Ok(());
    }
    temporary_for(path).map(drop)
}

/// A temporary file in the folder of a file.
fn temporary_for(path: &Path) -> Result<tempfile::NamedTempFile> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    ge_om::temporary_in(folder, ".ge-").map_err(|e| unwritable(path, &e))
}

fn unwritable(path: &Path, e: &io::Error) -> crate::Error {
    Diagnostic::error(format!("cannot write `{}`: {e}", path.display())).raise(ge_codes::UNWRITABLE)
}

/// Writes a file completely or not at all (through a temporary file in the same folder).
///
/// # Errors
/// Fails if the folder or the disk does not allow the write.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<()> {
    let fail = |e: io::Error| unwritable(path, &e);
    // A device or a pipe is written directly: it cannot be replaced.
    if path.exists() && !path.is_file() {
        return std::fs::write(path, bytes).map_err(fail);
    }
    let mut file = temporary_for(path)?;
    file.write_all(bytes).and_then(|()| file.as_file().sync_all()).map_err(fail)?;
    file.persist(path).map_err(|e| fail(e.error))?;
    Ok(())
}
