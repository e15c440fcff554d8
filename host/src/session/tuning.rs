//! A tuning stop on disk: one text in `ge.tuningPath`, under the model's name, large constants in a file beside it.
use crate::{Diagnostic, ErrorKind, Result};
use ge_ir::text::{PrintOptions, SideFileSink, print};
use ge_plugin_api::types::{Blob, FileRange};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Constants of the text, in one file.
struct Constants {
    file: tempfile::NamedTempFile,
    name: String,
    at: u64,
}

impl SideFileSink for Constants {
    fn place(&mut self, bytes: &Blob, _: &FileRange) -> io::Result<FileRange> {
        let range = FileRange { path: self.name.as_str().into(), offset: self.at };
        self.file.write_all(bytes)?;
        self.at += bytes.len() as u64;
        Ok(range)
    }
}

/// Writes the graph of a stop; the text's path.
///
/// # Errors
/// The folder cannot be made or written.
pub fn write(folder: &Path, name: &str, model: &ge_ir::Model) -> Result<PathBuf> {
    let fail = |e: io::Error| {
        Diagnostic::error(format!("cannot write the graph of the tuning stop into `{}`: {e}", folder.display()))
            .code("GE-E0403")
            .subject("ge.tuningPath")
            .of(ErrorKind::FAILED)
    };
    std::fs::create_dir_all(folder).map_err(fail)?;
    let file = tempfile::NamedTempFile::new_in(folder).map_err(fail)?;
    let mut constants = Constants { file, name: format!("{name}.weights"), at: 0 };
    let mut text = Vec::new();
    print(model, &mut text, &mut PrintOptions { side_files: Some(&mut constants), ..PrintOptions::default() })
        .map_err(fail)?;
    if constants.at > 0 {
        constants.file.as_file().sync_all().map_err(fail)?;
        constants.file.persist(folder.join(&constants.name)).map_err(|e| fail(e.error))?;
    }
    let path = folder.join(format!("{name}.ge"));
    crate::commands::write_atomic(&path, &text)?;
    Ok(path)
}
