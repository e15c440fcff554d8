//! Writes a tuning stop: one text in `ge.tuningPath`, named after the model, with large constants
//! in a side file.
use super::constants::Constants;
use crate::{Diagnostic, Result};
use ge_ir::text::{PrintOptions, print};
use std::io;
use std::path::{Path, PathBuf};

/// Writes the graph of a tuning stop. Returns the path of the text.
///
/// # Errors
/// Fails if the folder cannot be created or written.
pub fn write(folder: &Path, name: &str, model: &ge_ir::Model) -> Result<PathBuf> {
    let fail = |e: io::Error| {
        Diagnostic::error(format!("cannot write the graph of the tuning stop into `{}`: {e}", folder.display()))
            .subject("ge.tuningPath")
            .raise(ge_codes::UNWRITABLE)
    };
    std::fs::create_dir_all(folder).map_err(fail)?;
    let mut constants = Constants::new(folder, &format!("{name}.weights"));
    let mut text = Vec::new();
    print(model, &mut text, &mut PrintOptions { side_files: Some(&mut constants), ..PrintOptions::default() })
        .and_then(|()| constants.publish())
        .map_err(fail)?;
    let path = folder.join(format!("{name}.ge"));
    crate::files::write_atomic(&path, &text)?;
    Ok(path)
}
