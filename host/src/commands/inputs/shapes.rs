//! The sizes of random inputs: `--shape` and `--shapes` of what is measured, and `--input-shape` where
//! it has numbers for an input whose sizes are open in the model.
use crate::commands::flags::CompileFlags;
use crate::session::{import, model};
use crate::{Diagnostic, Error, Result};
use ge_model::CompiledModel;
use ge_plugin_api::kernel::HostTensor;
use std::path::Path;

/// Sizes of one or several inputs, all of them numbers.
#[derive(Debug, Default)]
pub struct Sizes {
    /// As the user wrote them.
    pub text: String,
    of: Vec<(String, Vec<u64>)>,
}

/// Sizes from `x:8,3,224,224;y:8`.
///
/// # Errors
/// A text that is none, or a size that is left open: a run has numbers.
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

/// Sizes from a file, a line each; empty lines and those behind `#` are left out.
///
/// # Errors
/// A file that cannot be read or has none, and what [`parse`] refuses, with the line.
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
    /// Those of `--input-shape` that are numbers alone.
    ///
    /// # Errors
    /// A text that is none.
    pub fn asked(flags: &CompileFlags) -> Result<Sizes> {
        let Some(text) = &flags.input_shape else { return Ok(Sizes::default()) };
        let all = import::parse_input_shapes(text)?.input_shapes;
        let known = all.iter().filter(|s| !s.unranked).filter_map(|s| {
            let dims = s.dims.iter().map(|d| u64::try_from(*d).ok()).collect::<Option<Vec<u64>>>()?;
            Some((s.name.to_string(), dims))
        });
        Ok(Sizes { text: text.trim().to_owned(), of: known.collect() })
    }

    /// Random inputs of these sizes; inputs that are not named get what they would have without.
    ///
    /// # Errors
    /// A name that is no input's.
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
