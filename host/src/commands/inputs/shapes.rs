//! Sizes of random inputs: from `--shape` and `--shapes` of `ge bench`, and from `--input-shape`
//! where it has numbers for an input with open sizes.
use crate::commands::flags::CompileFlags;
use crate::session::{import, model};
use crate::{Diagnostic, Error, Result};
use ge_model::CompiledModel;
use ge_plugin_api::kernel::HostTensor;
use std::path::Path;

/// Sizes of one or several inputs; all are numbers.
#[derive(Debug, Default)]
pub struct Sizes {
    /// The text as the user wrote it.
    pub text: String,
    of: Vec<(String, Vec<u64>)>,
}

/// Parses sizes such as `x:8,3,224,224;y:8`.
///
/// # Errors
/// Fails if the text cannot be parsed or leaves a size open: a run needs numbers.
pub fn parse(text: &str) -> Result<Sizes> {
    let asked = import::parse_input_shapes(text).map_err(|e| {
        e.with(|mut d| {
            d.message = d.message.replace("`--input-shape` has an entry", "a shape to measure has an entry").into();
            d.help("for example `--shape \"x:1,3,224,224;mask:1,128\"`: whole numbers alone")
        })
    })?;
    let mut of = Vec::with_capacity(asked.input_shapes.len());
    for s in &asked.input_shapes {
        let dims: Option<Vec<u64>> = s.dims.iter().map(|d| u64::try_from(*d).ok()).collect();
        let Some(dims) = dims.filter(|_| !s.unranked) else {
            return Err(Error::usage(format!(
                "`{text}` leaves a size of input `{}` open: a run is measured at numbers",
                s.name
            )));
        };
        of.push((s.name.to_string(), dims));
    }
    if of.is_empty() {
        return Err(Error::usage("a shape to measure is empty: for example `--shape \"x:1,3,224,224\"`"));
    }
    Ok(Sizes { text: text.trim().to_owned(), of })
}

/// Reads sizes from a file, one set per line. Empty lines and comments after `#` are skipped.
///
/// # Errors
/// Fails if the file cannot be read or has no sizes, or if [`parse`] rejects a line; the error
/// names the line.
pub fn read(file: &Path) -> Result<Vec<Sizes>> {
    let name = file.display();
    let text = std::fs::read_to_string(file).map_err(|e| {
        Diagnostic::error(format!("cannot read the shapes in `{name}`: {e}")).raise(ge_codes::UNREADABLE)
    })?;
    let lines = text.lines().enumerate().map(|(i, l)| (i + 1, l.trim()));
    let lines = lines.filter(|(_, l)| !l.is_empty() && !l.starts_with('#'));
    let all = lines.map(|(i, l)| parse(l).map_err(|e| e.with(|d| d.note(format!("line {i} of `{name}`")))));
    let all = all.collect::<Result<Vec<Sizes>>>()?;
    if all.is_empty() {
        return Err(Error::usage(format!("`{name}` has no shapes: one a line, as `x:1,3,224,224`")));
    }
    Ok(all)
}

impl Sizes {
    /// The sizes of those inputs in `--input-shape` that have only numbers.
    ///
    /// # Errors
    /// Fails if the text cannot be parsed.
    pub fn asked(flags: &CompileFlags) -> Result<Sizes> {
        let Some(text) = &flags.input_shape else { return Ok(Sizes::default()) };
        let all = import::parse_input_shapes(text)?.input_shapes;
        let known = all.iter().filter(|s| !s.unranked).filter_map(|s| {
            let dims = s.dims.iter().map(|d| u64::try_from(*d).ok()).collect::<Option<Vec<u64>>>()?;
            Some((s.name.to_string(), dims))
        });
        Ok(Sizes { text: text.trim().to_owned(), of: known.collect() })
    }

    /// Makes random inputs of these sizes. Inputs that are not named get their usual random values.
    ///
    /// # Errors
    /// Fails if no input has a given name.
    pub fn inputs(&self, m: &CompiledModel, seed: u64) -> Result<Vec<HostTensor>> {
        let names = || m.inputs.iter().map(|i| i.name.as_str());
        if let Some((name, _)) = self.of.iter().find(|(n, _)| names().all(|i| i != n)) {
            return Err(crate::options::unknown_name("input", name, names()));
        }
        model::sized_inputs(m, seed, &|name| self.of.iter().find(|(n, _)| n == name).map(|(_, d)| d.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_numbers() {
        assert_eq!(parse("x:8,3; y:2").unwrap().of, [("x".to_owned(), vec![8, 3]), ("y".to_owned(), vec![2])]);
        assert!(parse("x:").unwrap().of[0].1.is_empty());
        for wrong in ["", "x", "x:?", "x:1,?", "x:N,3", "x:1..4", "x:-1", "x:1;x:2"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
