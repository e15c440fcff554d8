//! Atomic writing of files.
use crate::{Diagnostic, Result};
use std::io::Write;
use std::path::Path;

/// Writes a file completely or not at all (through a temporary file in the same folder).
///
/// # Errors
/// Fails if the folder or the disk does not allow the write.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<()> {
    let fail = |e: std::io::Error| {
        Diagnostic::error(format!("cannot write `{}`: {e}", path.display())).raise(ge_codes::UNWRITABLE)
    };
    // A device or a pipe is written directly: it cannot be replaced.
    if path.exists() && !path.is_file() {
        return std::fs::write(path, bytes).map_err(fail);
    }
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = ge_om::temporary_in(folder, ".ge-").map_err(fail)?;
    file.write_all(bytes).and_then(|()| file.as_file().sync_all()).map_err(fail)?;
    file.persist(path).map_err(|e| fail(e.error))?;
    Ok(())
}
