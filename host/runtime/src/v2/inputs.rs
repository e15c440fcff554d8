//! What fits an input: its type, the sizes that it states, the same size for the same letter, and
//! the range of each.
use crate::error::RuntimeError;
use ge_model::CompiledModel;
use ge_plugin_api::kernel::TensorView;
use ge_plugin_api::types::DType;
use std::collections::HashMap;

/// Checks the inputs of a run.
///
/// # Errors
/// An input that does not fit, by name, with what was expected.
pub(crate) fn check(m: &CompiledModel, given: &[TensorView<'_>]) -> Result<(), RuntimeError> {
    if given.len() != m.inputs.len() {
        let names: Vec<&str> = m.inputs.iter().map(|i| i.name.as_str()).collect();
        return Err(RuntimeError::Input {
            name: "(all)".into(),
            found: format!("{} inputs", given.len()),
            expected: format!("{}: {}", names.len(), names.join(", ")),
        });
    }
    // The first input that had each letter, its dimension and its size.
    let mut letters: HashMap<&str, (&str, usize, u64)> = HashMap::new();
    for (t, want) in given.iter().zip(&m.inputs) {
        let wrong =
            |found: String, expected: String| Err(RuntimeError::Input { name: want.name.clone(), found, expected });
        let shape = &want.desc.shape;
        let ranked = shape.rank().is_none_or(|r| r == t.dims.len());
        if t.dtype != want.desc.dtype || !ranked {
            return wrong(format!("{}{:?}", t.dtype, t.dims), format!("{}{shape}", want.desc.dtype));
        }
        let bytes = ge_plugin_api::types::Shape::of(t.dims).count().and_then(|c| t.dtype.bytes_of(c));
        if t.dtype != DType::STRING && bytes != Some(t.bytes.len() as u64) {
            return wrong(format!("{} bytes for {:?}", t.bytes.len(), t.dims), format!("{bytes:?} bytes"));
        }
        for (k, (d, size)) in shape.dims().iter().zip(t.dims).enumerate() {
            if d.size().is_some_and(|s| s != *size) {
                return wrong(
                    format!("{:?}: {size} for dimension {k}", t.dims),
                    format!("{d} for dimension {k}, as in {shape}"),
                );
            }
            let range = m.ranges.get(&range_key(&want.name, k, d.symbol_name()));
            if let Some((low, high)) = range.filter(|r| !(r.0..=r.1).contains(size)) {
                let of = d.symbol_name().map_or(String::new(), |s| format!(" (`{s}`)"));
                return wrong(format!("{:?}: {size} for dimension {k}{of}", t.dims), format!("{low} to {high}"));
            }
            let Some(letter) = d.symbol_name() else { continue };
            let (of, at, first) = *letters.entry(letter).or_insert((&want.name, k, *size));
            if first != *size {
                return wrong(
                    format!("{size} for dimension {k} (`{letter}`)"),
                    format!("{first}, which `{letter}` is in dimension {at} of `{of}`"),
                );
            }
        }
    }
    Ok(())
}

/// What a range is known by: a letter, or the place of a size without one.
pub(crate) fn range_key(input: &str, dim: usize, letter: Option<&str>) -> String {
    letter.map_or_else(|| format!("{input}:{dim}"), str::to_owned)
}
