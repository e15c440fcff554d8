//! A side file for the large constants of graph texts. Each constant is written once, however many
//! texts refer to it.
use ge_ir::text::SideFileSink;
use ge_plugin_api::types::{Blob, FileRange};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The side file. It is created with the first constant, gets its name when [`Constants::publish`]
/// is called, and may grow after that.
pub struct Constants {
    folder: PathBuf,
    name: String,
    hidden: Option<tempfile::NamedTempFile>,
    public: Option<File>,
    at: u64,
    /// Offset in the file by address and length in memory. The blobs are held so that no address is
    /// reused.
    known: HashMap<(usize, usize), (u64, Blob)>,
}

impl Constants {
    /// Prepares a file with this name in a folder.
    pub fn new(folder: &Path, name: &str) -> Constants {
        let known = HashMap::new();
        Constants { folder: folder.to_path_buf(), name: name.to_owned(), hidden: None, public: None, at: 0, known }
    }
    /// Moves the file to its name, with all constants written so far.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn publish(&mut self) -> io::Result<()> {
        if let Some(file) = self.hidden.take() {
            file.as_file().sync_all()?;
            self.public = Some(file.persist(self.folder.join(&self.name)).map_err(|e| e.error)?);
        }
        Ok(())
    }
}

impl SideFileSink for Constants {
    fn place(&mut self, bytes: &Blob, _: &FileRange) -> io::Result<FileRange> {
        let key = (bytes.as_ptr() as usize, bytes.len());
        let offset = match self.known.get(&key) {
            Some((offset, _)) => *offset,
            None => {
                match (&mut self.public, &mut self.hidden) {
                    (Some(f), _) => f.write_all(bytes)?,
                    (None, Some(f)) => f.write_all(bytes)?,
                    (None, none) => {
                        none.insert(ge_om::temporary_in(&self.folder, ".ge-constants-")?).write_all(bytes)?;
                    }
                }
                let offset = self.at;
                self.at += bytes.len() as u64;
                self.known.insert(key, (offset, bytes.clone()));
                offset
            }
        };
        Ok(FileRange { path: self.name.as_str().into(), offset })
    }
}
