//! Sequences and optionals as files: a sequence is a folder `input_K` with `0.npy`, `1.npy` … in
//! order; an optional is a file or such a folder, and an empty optional has neither.
use super::{Given, Wanted, array, defaults, not_given};
use crate::session::model::{Item, fixed_value};
use crate::{Diagnostic, Error, ErrorKind, Result};
use ge_model::CompiledModel;
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::tensor::Container;
use ge_plugin_api::types::{DType, TensorDesc};
use std::path::{Path, PathBuf};

/// Reads all inputs of a model. Problems with several inputs are reported together.
///
/// # Errors
/// Fails if an input is not given or if its files do not match its kind.
pub fn gather(m: &CompiledModel, given: &Given<'_>) -> Result<Vec<Item>> {
    let wanted = defaults::wanted(m, given)?;
    let own: Vec<_> = m.fixed_inputs().into_iter().chain(m.default_inputs()).collect();
    let value = |k: usize| own.iter().find(|f| f.0 == k).map(|f| f.1);
    let tensor = |k: usize| m.inputs[k].desc.container == Container::TENSOR;
    let named = given.named(&wanted)?;
    let tensors = given.collect(&wanted, &|k| !tensor(k) || value(k).is_some())?;
    let mut out = Vec::with_capacity(wanted.len());
    let mut bad: Vec<Diagnostic> = Vec::new();
    let mut kind = ErrorKind::USAGE;
    for (k, (w, t)) in wanted.iter().zip(tensors).enumerate() {
        let text = named.iter().find(|n| n.0 == w.name).map(|n| n.1);
        match (t, value(k)) {
            (Some(t), _) => out.push(Item::Tensor(t)),
            (None, Some(v)) => out.push(Item::Tensor(fixed_value(v)?)),
            (None, None) => match item(w, text, given.dir, w.file.unwrap_or(k)) {
                Ok(i) => out.push(i),
                Err(e) if matches!(e.kind, ErrorKind::USAGE | ErrorKind::DAMAGED) => {
                    // One damaged file makes the whole failure one of damage.
                    if e.kind == ErrorKind::DAMAGED {
                        kind = e.kind;
                    }
                    bad.extend(e.diagnostics);
                }
                Err(e) => return Err(e),
            },
        }
    }
    if bad.is_empty() { Ok(out) } else { Err(Error::all(kind, bad)) }
}

fn item(w: &Wanted<'_>, text: Option<&str>, dir: Option<&Path>, k: usize) -> Result<Item> {
    let (folder, file): (Option<PathBuf>, Option<PathBuf>) = match (text.map(PathBuf::from), dir) {
        (Some(p), _) if p.is_dir() => (Some(p), None),
        (Some(p), _) => (None, Some(p)),
        (None, Some(d)) => (Some(d.join(format!("input_{k}"))), Some(d.join(format!("input_{k}.npy")))),
        (None, None) => (None, None),
    };
    let folder = folder.filter(|f| f.is_dir());
    // A file given by name must exist.
    let file = file.filter(|f| text.is_some() || f.exists());
    let is_list = matches!(w.desc.container, Container::SEQ | Container::OPT_SEQ);
    match (folder, file) {
        (Some(f), _) if is_list => list(&f, w.desc).map(Item::Sequence),
        (None, Some(f)) if w.desc.container == Container::OPT => one(&f, w.desc).map(Item::Tensor),
        (None, None) if matches!(w.desc.container, Container::OPT | Container::OPT_SEQ) => Ok(Item::Nothing),
        (None, None) => Err(not_given(w.name, &form(w.desc, k)).of(ErrorKind::USAGE)),
        (folder, file) => {
            let found = folder.or(file).map_or_else(String::new, |p| p.display().to_string());
            Err(Diagnostic::error(format!("input `{}` is not of this form", w.name))
                .subject(w.name)
                .found(format!("`{found}`"), form(w.desc, k))
                .raise(ge_codes::INPUT))
        }
    }
}

/// Describes how the files of an input look.
fn form(d: &TensorDesc, k: usize) -> String {
    match d.container {
        Container::OPT => format!("an optional {}: `input_{k}.npy`, or no file", d.dtype),
        Container::OPT_SEQ => {
            format!("an optional sequence of {}: a folder `input_{k}` with 0.npy …, or none", d.dtype)
        }
        _ => format!("a sequence of {}: a folder `input_{k}` with 0.npy, 1.npy …", d.dtype),
    }
}

/// Reads a tensor from a file. If the model states no type, the file's own type is used.
fn one(path: &Path, d: &TensorDesc) -> Result<HostTensor> {
    let bytes = array::bytes(path)?;
    let own = if d.dtype == DType::UNKNOWN { ge_runtime::npy::dtype_of(&bytes) } else { None };
    array::read(&path.display().to_string(), &bytes, own.unwrap_or(d.dtype))
}

/// Reads the tensors of a folder: `0.npy`, `1.npy` … in order.
///
/// # Errors
/// Fails if a number is missing.
pub fn list(folder: &Path, d: &TensorDesc) -> Result<Vec<HostTensor>> {
    let file = |k: usize| folder.join(format!("{k}.npy"));
    let numbers = numbers(folder);
    let lost = (0..numbers.len()).find(|k| !numbers.contains(k));
    if let Some(k) = lost {
        return Err(Diagnostic::error(format!("`{}` is left out of a sequence", file(k).display()))
            .found(format!("{} files", numbers.len()), "0.npy, 1.npy … one after the other")
            .raise(ge_codes::INPUT));
    }
    (0..numbers.len()).map(|k| one(&file(k), d)).collect()
}

/// The numbers of a sequence's files, in ascending order.
pub fn numbers(folder: &Path) -> Vec<usize> {
    let all = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let number = |name: String| name.strip_suffix(".npy")?.parse::<usize>().ok();
    let mut out: Vec<usize> = all.filter_map(|e| number(e.file_name().into_string().ok()?)).collect();
    out.sort_unstable();
    out
}
