//! A model from stdin (`-`): it is written to a temporary file while the command runs, because
//! model files are mapped into memory.
use crate::{Diagnostic, Error, Result};
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};

/// The model from stdin, in a temporary folder. The file is named `stdin`.
pub struct Piped {
    // Removed with its contents when the command ends.
    _folder: tempfile::TempDir,
    file: PathBuf,
}

impl Piped {
    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.file
    }
}

const NAME: &str = "stdin";

/// Reads stdin if the path is `-`; returns `None` for any other path.
///
/// # Errors
/// Fails if stdin is a terminal, is empty or cannot be read, or if the temporary folder cannot be
/// written.
pub fn spool(path: &Path) -> Result<Option<Piped>> {
    if path != Path::new("-") {
        return Ok(None);
    }
    let mut stdin = std::io::stdin().lock();
    if stdin.is_terminal() {
        return Err(Error::usage("`-` reads the model from stdin, which is a terminal: give a file, or a pipe"));
    }
    let fail = |what: &str, e: std::io::Error| {
        Diagnostic::error(format!("cannot {what} the model from stdin: {e}")).raise(ge_codes::UNREADABLE)
    };
    let folder = tempfile::Builder::new().prefix("ge-").tempdir().map_err(|e| fail("keep", e))?;
    let file: PathBuf = folder.path().join(NAME);
    let mut out = std::fs::File::create(&file).map_err(|e| fail("keep", e))?;
    let bytes = std::io::copy(&mut stdin.by_ref(), &mut out).map_err(|e| fail("read", e))?;
    if bytes == 0 {
        return Err(Error::usage("`-` reads the model from stdin, and nothing came"));
    }
    Ok(Some(Piped { _folder: folder, file }))
}
