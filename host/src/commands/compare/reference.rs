//! Reference files: a `.npz` file, a single `.npy` file, or a folder of `.npy` files. They may come
//! from `ge run --dump-tensors` or `ge run --outputs`, or from another tool that saved tensors
//! under the names of nodes or outputs.
use super::keys::element;
use super::unreadable;
use crate::commands::inputs::items::numbers;
use crate::commands::tensors::INDEX;
use crate::{Diagnostic, Result};
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::DType;
use ge_runtime::npy::{self, NpyError};
use ge_runtime::npz::{self, Npz};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A set of reference tensors.
pub struct Reference {
    path: PathBuf,
    from: Source,
}

enum Source {
    One(Vec<u8>),
    Archive(Npz),
    Folder(Vec<Entry>),
}

/// A tensor of the files.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// The turn that it is of, if the files say so.
    pub turn: Option<u64>,
    /// Node and output index, if the files say so.
    pub node: Option<(String, u32)>,
    /// Its file in a folder.
    file: String,
}

impl Entry {
    /// A tensor of which only the name is known.
    pub fn named(name: &str) -> Entry {
        Entry { name: name.to_owned(), ..Entry::default() }
    }
}

impl Reference {
    /// Opens reference files; `None` if the path is a model.
    pub fn open(path: &Path) -> Result<Option<Reference>> {
        let path = path.to_path_buf();
        if path.is_dir() {
            let from = Source::Folder(folder(&path)?);
            return Ok(Some(Reference { path, from }));
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

    /// The only tensor, without a name, if the path is a single `.npy` file.
    pub fn only(&self) -> Option<Entry> {
        matches!(self.from, Source::One(_)).then(Entry::default)
    }

    /// The available tensors.
    pub fn entries(&self) -> Vec<Entry> {
        match &self.from {
            Source::One(_) => Vec::new(),
            Source::Archive(z) => z.names().map(Entry::named).collect(),
            Source::Folder(entries) => entries.clone(),
        }
    }

    /// Reads a tensor: in the type of the computed tensor if the file may hold that, else in the
    /// file's own type.
    pub fn tensor(&self, entry: &Entry, like: &HostTensor) -> Result<HostTensor> {
        let name = entry.name.as_str();
        match &self.from {
            Source::One(bytes) => self.read(name, bytes, like),
            Source::Archive(z) => {
                let missing = || unreadable(&self.path, format!("there is no tensor `{name}`"));
                self.read(name, z.get(name).ok_or_else(missing)?, like)
            }
            Source::Folder(_) => {
                let file = self.path.join(&entry.file);
                let bytes = std::fs::read(&file).map_err(|e| unreadable(&file, e))?;
                self.read(name, &bytes, like)
            }
        }
    }

    /// The error for a single tensor compared with a model of several outputs.
    pub fn several_outputs(&self) -> crate::Error {
        Diagnostic::error(format!("`{}` is one tensor, the model has several outputs", self.path.display()))
            .help("save them as output_0.npy, output_1.npy … in a folder, or as a .npz file")
            .raise(ge_codes::NOTHING_TO_COMPARE)
    }

    /// The error for a name that matches several tensors of the model.
    pub fn ambiguous(&self, name: &str, tensors: &[String]) -> crate::Error {
        Diagnostic::error(format!("`{name}` of `{}` may mean several tensors of the model", self.path.display()))
            .subject(name)
            .found(tensors.join(" and "), "one of them")
            .help("save it under the name that the model has for it, or as `NODE:OUTPUT`")
            .raise(ge_codes::NOTHING_TO_COMPARE)
    }

    fn read(&self, name: &str, bytes: &[u8], like: &HostTensor) -> Result<HostTensor> {
        let own = npy::dtype_of(bytes).unwrap_or(like.dtype);
        let dtype = if npy::descr(own) == npy::descr(like.dtype) { like.dtype } else { own };
        let dtype = if dtype == DType::UNKNOWN { like.dtype } else { dtype };
        npy::read(bytes, dtype).map_err(|e| damaged(&self.path, name, &e))
    }
}

/// The tensors of a folder: those in the list that `ge run --dump-tensors` writes, and other files
/// by their own names.
fn folder(path: &Path) -> Result<Vec<Entry>> {
    let list = path.join(INDEX);
    let text = match std::fs::read(&list) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => b"{}".to_vec(),
        Err(e) => return Err(unreadable(&list, e)),
    };
    let index: serde_json::Value = serde_json::from_slice(&text).map_err(|e| {
        Diagnostic::error(format!("`{}` is no list of tensors: {e}", list.display())).raise(ge_codes::DAMAGED_ARRAY)
    })?;
    let mut entries: Vec<Entry> = Vec::new();
    let mut known = BTreeSet::new();
    for row in index["tensors"].as_array().into_iter().flatten() {
        // The list may only name files in its own folder.
        if let (Some(name), Some(file)) = (row["tensor"].as_str(), row["file"].as_str())
            && !file.contains('/')
            && path.join(file).is_file()
        {
            known.insert(file.to_owned());
            let output = row["output"].as_u64().and_then(|o| u32::try_from(o).ok());
            let node = row["node"].as_str().map(str::to_owned).zip(output);
            entries.push(Entry { name: name.into(), turn: row["turn"].as_u64(), node, file: file.into() });
        }
    }
    let mut names: BTreeSet<String> = entries.iter().map(|e| e.name.clone()).collect();
    let mut add = |name: String, file: String| {
        if names.insert(name.clone()) {
            entries.push(Entry { file, ..Entry::named(&name) });
        }
    };
    let files = std::fs::read_dir(path).map_err(|e| unreadable(path, e))?;
    for f in files.flatten() {
        let Some(file) = f.file_name().to_str().map(str::to_owned) else { continue };
        if let Some(name) = file.strip_suffix(".npy").filter(|_| !known.contains(&file)) {
            add(name.to_owned(), file.clone());
        }
        // A sequence is a folder with `0.npy` and so on.
        for n in numbers(&f.path()) {
            add(element(&file, Some(n)), format!("{file}/{n}.npy"));
        }
    }
    entries.sort();
    Ok(entries)
}

fn damaged(path: &Path, name: &str, e: &NpyError) -> crate::Error {
    let entry = if name.is_empty() { String::new() } else { format!(" ({name})") };
    let code = if e.damaged { ge_codes::DAMAGED_ARRAY } else { ge_codes::NOTHING_TO_COMPARE };
    Diagnostic::error(format!("`{}`{entry}: {e}", path.display())).at(path.display().to_string(), 0, 0).raise(code)
}
