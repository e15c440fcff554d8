//! Inputs with a default value (in ONNX: an initializer with an input's name). They are constants
//! of the compiled model unless they are given when it is compiled. A run that gives a value for
//! such a constant is rejected; the error names the option that makes it an input.
use super::{Given, Wanted, name_and_text};
use crate::options::constant_inputs;
use crate::{Diagnostic, Result};
use ge_model::CompiledModel;
use ge_plugin_api::types::{AttrMap, TensorDesc};
use ge_runtime::npz::{Npz, is_npz};
use std::path::Path;

/// The inputs of a model, each with the number of its file in the given folder. Files are numbered
/// in the order of the inputs; inputs with a default have no number, unless the folder has files
/// for all of them.
///
/// # Errors
/// Fails if something is given for inputs that are constants of this model, or if the folder has
/// files for some inputs with a default but not for others.
pub fn wanted<'m>(m: &'m CompiledModel, given: &Given<'_>) -> Result<Vec<Wanted<'m>>> {
    refuse(m, given)?;
    let defaults: Vec<usize> = m.default_inputs().into_iter().map(|d| d.0).collect();
    numbered(m.inputs.iter().map(|i| (i.name.as_str(), &i.desc)).collect(), &defaults, given)
}

/// Numbers inputs given by name and descriptor, as [`wanted`] does; `defaults`: indices of those
/// with a default.
///
/// # Errors
/// Fails if the folder has files for some inputs with a default but not for others.
pub fn numbered<'m>(
    inputs: Vec<(&'m str, &'m TensorDesc)>,
    defaults: &[usize],
    given: &Given<'_>,
) -> Result<Vec<Wanted<'m>>> {
    let (all, required) = (inputs.len(), inputs.len() - defaults.len());
    let whole = defaults.is_empty() || given.dir.is_none_or(|d| !d.is_dir() || has(d, all - 1));
    if !whole && given.dir.is_some_and(|d| has(d, required)) {
        let names: Vec<&str> = defaults.iter().filter_map(|k| Some(inputs.get(*k)?.0)).collect();
        return Err(Diagnostic::error("a folder has files of some inputs with a default, and it is not said of which")
            .subject(names.join(", "))
            .found(format!("input_{required}.npy, and no input_{}.npy", all - 1), format!("{required} or {all} files"))
            .help("give those with a default by `--input NAME=FILE.npy`")
            .raise(ge_codes::INPUT));
    }
    let mut next = 0;
    let one = |(k, (name, desc)): (usize, (&'m str, &'m TensorDesc))| {
        let file = (whole || !defaults.contains(&k)).then_some(next);
        next += usize::from(file.is_some());
        Wanted { name, desc, file }
    };
    Ok(inputs.into_iter().enumerate().map(one).collect())
}

/// Names of those constants of a graph that are inputs of the original model and for which
/// something is given.
///
/// # Errors
/// Fails if a file cannot be read.
pub fn asked(attrs: &AttrMap, inputs: usize, given: &[&Given<'_>]) -> Result<Vec<String>> {
    let mut out = Vec::new();
    let list = ge_model::defaulted(attrs);
    for g in given {
        out.extend(of(&list, inputs, g)?.into_iter().map(|(name, _)| name.to_owned()));
    }
    Ok(out)
}

fn refuse(m: &CompiledModel, given: &Given<'_>) -> Result<()> {
    let bad = of(&m.constant_inputs(), m.inputs.len(), given)?;
    if bad.is_empty() { Ok(()) } else { Err(constant_inputs(&bad, "a value")) }
}

/// Entries of a list for which something is given: by name, or as files of a folder that has one
/// file per input.
fn of<'l>(list: &[(&'l str, &'l str)], inputs: usize, given: &Given<'_>) -> Result<Vec<(&'l str, &'l str)>> {
    if list.is_empty() {
        return Ok(Vec::new());
    }
    let all = inputs + list.len();
    let names = || list.iter().map(|(name, _)| *name);
    let named =
        |name: &str| given.by_name.named.iter().any(|n| name_and_text(n, names()).is_some_and(|(n, _)| n == name));
    let archive = match given.dir.filter(|d| d.is_file()).map(super::array::bytes).transpose()? {
        Some(bytes) if is_npz(&bytes) => Npz::read(&bytes).ok(),
        _ => None,
    };
    let within = |name: &str| archive.as_ref().is_some_and(|z| z.names().any(|n| n == name));
    let whole = given.dir.is_some_and(|d| d.is_dir() && (0..all).all(|k| has(d, k)) && !has(d, all));
    Ok(list.iter().copied().filter(|(name, _)| whole || named(name) || within(name)).collect())
}

/// Whether a folder has a file or a folder for an input.
fn has(dir: &Path, k: usize) -> bool {
    dir.join(format!("input_{k}.npy")).exists() || dir.join(format!("input_{k}")).is_dir()
}
