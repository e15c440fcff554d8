//! What fits an input: its type, the sizes that it states, the same size for the same letter, and
//! the range of each.
use super::Given;
use crate::error::RuntimeError;
use ge_model::CompiledModel;
use ge_plugin_api::types::tensor::Container;
use ge_plugin_api::types::{DType, TensorDesc};
use std::collections::HashMap;

/// What an input of a container may be; None: a tensor.
fn contained(want: &TensorDesc, given: &Given<'_>) -> Option<Result<(), (String, String)>> {
    let name = |d: &TensorDesc| match d.container {
        Container::SEQ => format!("a sequence of {}", d.dtype),
        Container::OPT => format!("an optional {}", d.dtype),
        Container::OPT_SEQ => format!("an optional sequence of {}", d.dtype),
        _ => format!("{}{}", d.dtype, d.shape),
    };
    let fits = |d: &DType| want.dtype == DType::UNKNOWN || want.dtype == *d;
    let (ok, found) = match (want.container, given) {
        (Container::TENSOR, Given::Tensor(_) | Given::State(_)) => return None,
        (c, Given::Tensor(_) | Given::State(_)) => {
            let (dtype, dims, _) = tensor(given)?;
            (c == Container::OPT && fits(&dtype), format!("{dtype}{dims:?}"))
        }
        (c, Given::Sequence(l)) => {
            let other = l.iter().find(|t| !fits(&t.dtype));
            let of = other.or(l.first()).map_or_else(String::new, |t| format!(" of {}", t.dtype));
            (matches!(c, Container::SEQ | Container::OPT_SEQ) && other.is_none(), format!("a sequence{of}"))
        }
        (c, Given::Nothing) => (matches!(c, Container::OPT | Container::OPT_SEQ), "nothing".to_owned()),
    };
    Some(if ok { Ok(()) } else { Err((found, name(want))) })
}

/// Type and sizes of a tensor, and how many bytes there are where they have to be as many as it
/// says.
fn tensor<'g>(given: &'g Given<'_>) -> Option<(DType, &'g [u64], Option<usize>)> {
    match given {
        Given::Tensor(t) => Some((t.dtype, t.dims, Some(t.bytes.len()))),
        Given::State(s) => Some((s.dtype(), s.dims(), None)),
        Given::Sequence(_) | Given::Nothing => None,
    }
}

/// Checks the inputs of a run.
///
/// # Errors
/// An input that does not fit, by name, with what was expected.
pub(crate) fn check(m: &CompiledModel, given: &[Given<'_>]) -> Result<(), RuntimeError> {
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
        match contained(&want.desc, t) {
            None => {}
            Some(Ok(())) => continue,
            Some(Err((found, expected))) => return wrong(found, expected),
        }
        let Some((dtype, dims, has)) = tensor(t) else { continue };
        let shape = &want.desc.shape;
        let ranked = shape.rank().is_none_or(|r| r == dims.len());
        if dtype != want.desc.dtype || !ranked {
            return wrong(format!("{dtype}{dims:?}"), format!("{}{shape}", want.desc.dtype));
        }
        let bytes = ge_plugin_api::types::Shape::of(dims).count().and_then(|c| dtype.bytes_of(c));
        if let Some(has) = has.filter(|has| dtype != DType::STRING && bytes != Some(*has as u64)) {
            return wrong(format!("{has} bytes for {dims:?}"), format!("{bytes:?} bytes"));
        }
        for (k, (d, size)) in shape.dims().iter().zip(dims).enumerate() {
            if d.size().is_some_and(|s| s != *size) {
                return wrong(
                    format!("{:?}: {size} for dimension {k}", dims),
                    format!("{d} for dimension {k}, as in {shape}"),
                );
            }
            let range = m.ranges.get(&range_key(&want.name, k, d.symbol_name()));
            if let Some((low, high)) = range.filter(|r| !(r.0..=r.1).contains(size)) {
                let of = d.symbol_name().map_or(String::new(), |s| format!(" (`{s}`)"));
                return wrong(format!("{:?}: {size} for dimension {k}{of}", dims), format!("{low} to {high}"));
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
