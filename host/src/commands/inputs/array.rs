//! Arrays from files: `.npy`, `.npz` and folders of them. Errors name the input that an array is
//! for.
use super::Wanted;
use crate::{Diagnostic, Result};
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::DType;
use ge_runtime::npz::{Npz, is_npz};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Whether a text is meant as a file name, whether or not the file exists.
pub fn is_file_name(text: &str) -> bool {
    let ends = [".npy", ".npz", ".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp"];
    text.contains('/') || ends.iter().any(|e| text.to_lowercase().ends_with(e))
}

/// Reads the bytes of a file.
pub fn bytes(path: &Path) -> Result<Vec<u8>> {
    crate::files::read(path)
        .map_err(|e| Diagnostic::error(format!("cannot read `{}`: {e}", path.display())).raise(ge_codes::UNREADABLE))
}

/// Reads a tensor of this type from the bytes of a `.npy` file.
pub fn read(shown: &str, bytes: &[u8], want: DType) -> Result<HostTensor> {
    ge_runtime::npy::read(bytes, want).map_err(|e| {
        let code = if e.damaged { ge_codes::DAMAGED_ARRAY } else { ge_codes::INPUT };
        Diagnostic::error(format!("`{shown}`: {e}")).at(shown.to_owned(), 0, 0).raise(code)
    })
}

/// The error for an array whose type is not that of its input, with the NumPy line that fixes it.
pub fn other_type(w: &Wanted<'_>, shown: &str, own: DType) -> crate::Error {
    let numpy = numpy_name(w.desc.dtype);
    let mend = match numpy {
        Some(n) => format!("convert it in NumPy, `x = x.astype(numpy.{n})`, or here, by `--cast`"),
        None => format!("{} has no name in NumPy: save its raw bits, or convert here by `--cast`", w.desc.dtype),
    };
    Diagnostic::error(format!("input `{}` has another type than the model takes", w.name))
        .subject(format!("`{shown}`"))
        .found(
            numpy_name(own).unwrap_or_else(|| own.name()).to_owned(),
            numpy.unwrap_or_else(|| w.desc.dtype.name()).to_owned(),
        )
        .help(mend)
        .raise(ge_codes::INPUT)
}

/// NumPy's name of a type.
fn numpy_name(d: DType) -> Option<&'static str> {
    Some(match d {
        DType::F32 => "float32",
        DType::F64 => "float64",
        DType::F16 => "float16",
        DType::I8 => "int8",
        DType::I16 => "int16",
        DType::I32 => "int32",
        DType::I64 => "int64",
        DType::U8 => "uint8",
        DType::U16 => "uint16",
        DType::U32 => "uint32",
        DType::U64 => "uint64",
        DType::BOOL => "bool_",
        DType::COMPLEX64 => "complex64",
        DType::COMPLEX128 => "complex128",
        _ => return None,
    })
}

/// Source of the inputs that are not given by name.
pub enum Folder {
    /// No source.
    None,
    /// `input_K.npy` files in a folder.
    Dir(PathBuf),
    /// The arrays of a `.npz` file.
    Archive {
        /// The file, for messages.
        shown: String,
        /// Its arrays.
        arrays: Npz,
        /// The key of each input's array, by the input's name.
        keys: BTreeMap<String, String>,
    },
    /// A single array, for a model with one input.
    One(String, Vec<u8>),
}

impl Folder {
    /// Opens the source that `--inputs` names.
    ///
    /// # Errors
    /// Fails if a file cannot be read, if it is of none of these kinds, or if it has an array that
    /// is not an input.
    pub fn open(path: Option<&Path>, wanted: &[Wanted<'_>]) -> Result<Folder> {
        let Some(path) = path else { return Ok(Folder::None) };
        if !path.is_file() {
            if !path.exists() {
                bytes(path)?;
            }
            return Ok(Folder::Dir(path.to_owned()));
        }
        let (shown, data) = (path.display().to_string(), bytes(path)?);
        if is_npz(&data) {
            let z = Npz::read(&data).map_err(|e| {
                Diagnostic::error(format!("`{shown}`: {e}")).at(shown.clone(), 0, 0).raise(ge_codes::DAMAGED_ARRAY)
            })?;
            let keys = keys(&shown, &z, wanted)?;
            // An unknown array is probably a misspelt input name, except that outputs of a model
            // may be stored beside its inputs.
            let known = |n: &str| keys.values().any(|k| k == n) || n.starts_with("output_");
            if let Some(other) = z.names().find(|n| !known(n)) {
                return Err(crate::options::unknown_name("input", other, wanted.iter().map(|w| w.name)));
            }
            return Ok(Folder::Archive { shown, arrays: z, keys });
        }
        if let [_] = wanted {
            return Ok(Folder::One(shown, data));
        }
        Err(Diagnostic::error(format!("`--inputs {shown}` is one file, and the model has {} inputs", wanted.len()))
            .found("a file", "a folder with input_0.npy …, or a .npz file of arrays by name")
            .help("give it by its input's name: `--input NAME=FILE.npy`")
            .raise(ge_codes::INPUT))
    }

    /// Where the array of an input should be, for messages.
    pub fn place(&self, w: &Wanted<'_>) -> String {
        match (self, w.file) {
            (Folder::Dir(dir), Some(k)) => format!(" as `{}`", dir.join(format!("input_{k}.npy")).display()),
            _ => String::new(),
        }
    }

    /// The bytes of an input's array, with its name for messages; `None` if the source has none.
    ///
    /// # Errors
    /// Fails if its file cannot be read.
    pub fn tensor(&self, w: &Wanted<'_>) -> Result<Option<(String, Vec<u8>)>> {
        match self {
            Folder::None => Ok(None),
            Folder::Dir(dir) => {
                let Some(k) = w.file else { return Ok(None) };
                let path = dir.join(format!("input_{k}.npy"));
                if !path.exists() {
                    return Ok(None);
                }
                Ok(Some((path.display().to_string(), bytes(&path)?)))
            }
            Folder::Archive { shown, arrays, keys } => {
                let found = keys.get(w.name).and_then(|key| Some((key, arrays.get(key)?)));
                Ok(found.map(|(key, data)| (format!("{shown} ({key})"), data.to_vec())))
            }
            Folder::One(shown, data) => Ok(Some((shown.clone(), data.clone()))),
        }
    }
}

/// The key of each input's array in a `.npz` file: the input's name, or its number as in `input_0`
/// or `arr_0`. What is the name of an input is the number of none.
///
/// # Errors
/// Fails if the file has two arrays for one input.
fn keys(shown: &str, z: &Npz, wanted: &[Wanted<'_>]) -> Result<BTreeMap<String, String>> {
    let mut out = BTreeMap::new();
    for w in wanted {
        let is_name = |key: &String| wanted.iter().any(|w| w.name == key);
        let numbered = w.file.into_iter().flat_map(|k| [format!("input_{k}"), format!("arr_{k}")]);
        let all = std::iter::once(w.name.to_owned()).chain(numbered.filter(|key| !is_name(key)));
        let mut there = all.filter(|key| z.get(key).is_some());
        let Some(key) = there.next() else { continue };
        if let Some(other) = there.next() {
            return Err(Diagnostic::error(format!("`{shown}` has two arrays for input `{}`", w.name))
                .subject(w.name)
                .found(format!("`{key}` and `{other}`"), "one of them")
                .help("save each input once, by its name")
                .raise(ge_codes::INPUT));
        }
        out.insert(w.name.to_owned(), key);
    }
    Ok(out)
}
