//! A model from stdin (`-`): it is written to a temporary file while the command runs, because
//! model files are mapped into memory.
use crate::{Diagnostic, Error, Result};
use ge_plugin_api::abi::{ROption, RString};
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};

/// The model from stdin, in a temporary folder. The file is named `stdin`.
struct Piped {
    // Removed with its contents when the command ends.
    _folder: tempfile::TempDir,
    file: PathBuf,
}

impl Piped {
    /// The error without the path of the file, which nobody knows and which is gone after it.
    fn named(&self, mut e: Error) -> Error {
        let path = self.file.display().to_string();
        let told = |text: &mut RString| {
            if text.contains(&path) {
                *text = text.replace(&path, NAME).into();
            }
        };
        for d in &mut e.diagnostics {
            [&mut d.message, &mut d.found, &mut d.expected, &mut d.help].into_iter().for_each(told);
            d.notes.iter_mut().for_each(told);
            if let ROption::RSome(place) = &mut d.place {
                told(&mut place.file);
            }
        }
        e
    }
}

const NAME: &str = "stdin";

/// Calls `run` with the path of a model; if that is `-`, with the path of a file that has what
/// stdin gave.
///
/// # Errors
/// Returns the error of `run`, in which the model from stdin is called `stdin`. Fails if stdin is a
/// terminal, is empty or cannot be read, or if the temporary folder cannot be written.
pub fn with<T>(path: &Path, run: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
    if path != Path::new("-") {
        return run(path);
    }
    let piped = spool()?;
    run(&piped.file).map_err(|e| piped.named(e))
}

fn spool() -> Result<Piped> {
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
    Ok(Piped { _folder: folder, file })
}
