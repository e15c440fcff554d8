//! Outputs that are sequences, optionals or strings: writing them to files, comparing them with
//! what was expected, and showing them as text.
use super::inputs::items::{list, numbers};
use super::inputs::read_npy;
use crate::session::model::Item;
use crate::{Diagnostic, Error, Result};
use ge_model::IoInfo;
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::{DType, TensorDesc};
use std::path::Path;

/// Describes an output as JSON.
pub fn output(o: &IoInfo, made: Option<&Item>) -> serde_json::Value {
    let mut out = serde_json::json!({"name": o.name, "dtype": o.desc.dtype.name(), "shape": o.desc.shape.sizes()});
    match made {
        Some(Item::Tensor(t)) => {
            out["dtype"] = t.dtype.name().into();
            out["shape"] = t.dims.to_vec().into();
        }
        Some(Item::Sequence(l)) => {
            let one = |t: &HostTensor| serde_json::json!({"dtype": t.dtype.name(), "shape": t.dims.to_vec()});
            out["sequence"] = l.iter().map(one).collect();
        }
        Some(Item::Nothing) => out["nothing"] = true.into(),
        None => {}
    }
    out
}

/// The error for a tensor that `.npy` cannot hold.
pub fn no_form(what: &str, t: &HostTensor) -> Error {
    Error::unsupported(match t.dtype {
        DType::STRING => format!("{what} has a string that is no UTF-8, which has no form in .npy"),
        d => format!("{what} holds {d}, which has no form in .npy"),
    })
}

/// Writes sequences as folders `output_K` with `0.npy` … Files that an earlier run left under the
/// name of an output are removed.
///
/// # Errors
/// Fails if a file cannot be written or if `.npy` cannot represent a type.
pub fn write(dir: &Path, outputs: &[Item]) -> Result<()> {
    for (k, i) in outputs.iter().enumerate() {
        let (folder, file) = (dir.join(format!("output_{k}")), dir.join(format!("output_{k}.npy")));
        let fail = |p: &Path, e: std::io::Error| Error::failed(format!("cannot write `{}`: {e}", p.display()));
        let list = match i {
            Item::Tensor(_) => continue,
            Item::Nothing => &[],
            Item::Sequence(l) => l.as_slice(),
        };
        if file.exists() {
            std::fs::remove_file(&file).map_err(|e| fail(&file, e))?;
        }
        for n in numbers(&folder).into_iter().filter(|n| *n >= list.len()) {
            let old = folder.join(format!("{n}.npy"));
            std::fs::remove_file(&old).map_err(|e| fail(&old, e))?;
        }
        if matches!(i, Item::Nothing) {
            // The folder stays if it holds files that are not ours.
            let _ = std::fs::remove_dir(&folder);
            continue;
        }
        std::fs::create_dir_all(&folder).map_err(|e| fail(&folder, e))?;
        for (n, t) in list.iter().enumerate() {
            let path = folder.join(format!("{n}.npy"));
            let bytes = ge_runtime::npy::write(t).ok_or_else(|| no_form(&format!("output {k}"), t))?;
            std::fs::write(&path, bytes).map_err(|e| fail(&path, e))?;
        }
    }
    Ok(())
}

/// Name, actual tensor and expected tensor of each pair.
type Pairs<'i> = Vec<(String, &'i HostTensor, HostTensor)>;

/// Reads the expected tensors for an output that is not a single tensor; otherwise describes how
/// the output as a whole differs.
///
/// # Errors
/// Fails if a file cannot be read.
pub fn expected<'i>(
    dir: &Path,
    k: usize,
    i: &'i Item,
    o: &IoInfo,
) -> Result<std::result::Result<Pairs<'i>, Diagnostic>> {
    let (folder, file) = (dir.join(format!("output_{k}")), dir.join(format!("output_{k}.npy")));
    let differs = |found: String, expected: String| {
        let d = Diagnostic::error(format!("output `{}` is of another form", o.name));
        Ok(Err(d.code(ge_codes::OTHER_SHAPE).found(found, expected)))
    };
    let there = match (folder.is_dir(), file.exists()) {
        (true, _) => format!("a sequence of {}", numbers(&folder).len()),
        (_, true) => "a tensor".to_owned(),
        _ => "nothing".to_owned(),
    };
    match i {
        Item::Sequence(l) if folder.is_dir() => {
            let dtype = l.first().map_or(DType::UNKNOWN, |t| t.dtype);
            let want = list(&folder, &TensorDesc { dtype, ..TensorDesc::unknown() })?;
            if want.len() != l.len() {
                return differs(format!("a sequence of {}", l.len()), there);
            }
            Ok(Ok(l.iter().zip(want).enumerate().map(|(n, (t, w))| (format!("{}[{n}]", o.name), t, w)).collect()))
        }
        Item::Sequence(l) => differs(format!("a sequence of {}", l.len()), there),
        Item::Nothing if there == "nothing" => Ok(Ok(Vec::new())),
        Item::Nothing => differs("nothing".into(), there),
        Item::Tensor(t) => Ok(Ok(vec![(o.name.clone(), t, read_npy(&file, t.dtype)?)])),
    }
}

/// Describes the first string that differs.
pub fn other_text(name: &str, t: &HostTensor, want: &HostTensor) -> Option<Diagnostic> {
    let (a, b) = (ge_runtime::npy_text::texts(t)?, ge_runtime::npy_text::texts(want)?);
    let at = a.iter().zip(&b).position(|(a, b)| a != b)?;
    let text = |b: &[u8]| format!("{:?}", String::from_utf8_lossy(b));
    let d = Diagnostic::error(format!("output `{name}` differs at element {at}")).code(ge_codes::OTHER_VALUES);
    Some(d.found(text(a[at]), text(b[at])))
}
