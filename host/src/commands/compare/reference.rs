//! Reference files: a `.npz` file, one `.npy` file, or a folder of `.npy` files, as `ge run --dump-tensors` and
//! `ge run --outputs` write them, or as another tool saved them under the names of nodes or outputs.
use super::unreadable;
use crate::commands::tensors::file_name;
use crate::{Diagnostic, ErrorKind, Result};
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::DType;
use ge_runtime::npy::{self, NpyError};
use ge_runtime::npz::{self, Npz};
use std::path::{Path, PathBuf};

/// Where reference tensors come from.
pub struct Reference {
    path: PathBuf,
    from: Source,
}

enum Source {
    One(Vec<u8>),
    Archive(Npz),
    Folder,
}

impl Reference {
    /// Opens reference files; None where the path is a model.
    pub fn open(path: &Path) -> Result<Option<Reference>> {
        let path = path.to_path_buf();
        if path.is_dir() {
            return Ok(Some(Reference { path, from: Source::Folder }));
        }
        let mut head = [0; 6];
        let read = |head: &mut [u8]| std::io::Read::read(&mut std::fs::File::open(&path)?, head);
        let n = read(&mut head).map_err(|e| unreadable(&path, e))?;
        let head = &head[..n];
        if !(head == b"\x93NUMPY" || npz::is_npz(head)) {
            return Ok(None);
        }
        let bytes = std::fs::read(&path).map_err(|e| unreadable(&path, e))?;
        let from = if head == b"\x93NUMPY" {
            Source::One(bytes)
        } else {
            Source::Archive(Npz::read(&bytes).map_err(|e| damaged(&path, "", &e))?)
        };
        Ok(Some(Reference { path, from }))
    }

    /// Names of what is there.
    pub fn names(&self) -> Vec<String> {
        match &self.from {
            Source::One(_) => vec![self.path.display().to_string()],
            Source::Archive(z) => z.names().map(str::to_owned).collect(),
            Source::Folder => {
                let files = std::fs::read_dir(&self.path).into_iter().flatten().flatten();
                let mut names: Vec<String> =
                    files.filter_map(|f| Some(f.file_name().to_str()?.strip_suffix(".npy")?.to_owned())).collect();
                names.sort();
                names
            }
        }
    }

    /// The tensor of a node's output.
    pub fn node(&self, name: &str, k: u32, like: &HostTensor) -> Result<Option<HostTensor>> {
        let file = file_name(name, k);
        let mut names = vec![file.strip_suffix(".npy").unwrap_or(&file).to_owned(), format!("{name}:{k}")];
        if k == 0 {
            names.push(name.to_owned());
        }
        self.first(&names, like)
    }

    /// The tensor of a graph output; the one file of the user stands for the only output.
    pub fn output(&self, name: &str, k: u32, only: bool, like: &HostTensor) -> Result<Option<HostTensor>> {
        match &self.from {
            Source::One(bytes) if only => Ok(Some(self.tensor("", bytes, like)?)),
            Source::One(_) => Err(Diagnostic::error(format!(
                "`{}` is one tensor, the model has several outputs",
                self.path.display()
            ))
            .code("GE-E0804")
            .help("save them as output_0.npy, output_1.npy … in a folder, or as a .npz file")
            .of(ErrorKind::USAGE)),
            _ => self.first(&[format!("output_{k}"), name.to_owned()], like),
        }
    }

    fn first(&self, names: &[String], like: &HostTensor) -> Result<Option<HostTensor>> {
        for name in names {
            match &self.from {
                Source::One(_) => {}
                Source::Archive(z) => {
                    if let Some(bytes) = z.get(name) {
                        return self.tensor(name, bytes, like).map(Some);
                    }
                }
                Source::Folder => {
                    let file = self.path.join(format!("{name}.npy"));
                    // A node's name may have separators: it names a file of this folder alone.
                    if file.parent() == Some(&self.path) && file.is_file() {
                        let bytes = std::fs::read(&file).map_err(|e| unreadable(&file, e))?;
                        return self.tensor(name, &bytes, like).map(Some);
                    }
                }
            }
        }
        Ok(None)
    }

    /// Reads a tensor: of the computed one's type where the file may hold that, else of the file's own type.
    fn tensor(&self, name: &str, bytes: &[u8], like: &HostTensor) -> Result<HostTensor> {
        let own = npy::dtype_of(bytes).unwrap_or(like.dtype);
        let dtype = if npy::descr(own) == npy::descr(like.dtype) { like.dtype } else { own };
        let dtype = if dtype == DType::UNKNOWN { like.dtype } else { dtype };
        npy::read(bytes, dtype).map_err(|e| damaged(&self.path, name, &e))
    }
}

fn damaged(path: &Path, name: &str, e: &NpyError) -> crate::Error {
    let entry = if name.is_empty() { String::new() } else { format!(" ({name})") };
    let kind = if e.damaged { ErrorKind::DAMAGED } else { ErrorKind::USAGE };
    Diagnostic::error(format!("`{}`{entry}: {e}", path.display()))
        .code("GE-E0405")
        .at(path.display().to_string(), 0, 0)
        .of(kind)
}
