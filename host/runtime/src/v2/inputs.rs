//! Checks the inputs of a run: the type, the declared sizes, equal sizes for equal symbols, sizes
//! that are computed from symbols, ranges, and values that were fixed at compile time.
use super::Given;
use crate::error::RuntimeError;
use crate::fixed::FixedInputs;
use ge_model::CompiledModel;
use ge_plugin_api::kernel::TensorView;
use ge_plugin_api::types::tensor::Container;
use ge_plugin_api::types::{DType, Expr, TensorDesc};

/// Checks an input that is a sequence or an optional; `None` for a plain tensor.
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

/// Type and sizes of a tensor, and its number of bytes if that must be checked against them.
fn tensor<'g>(given: &'g Given<'_>) -> Option<(DType, &'g [u64], Option<usize>)> {
    match given {
        Given::Tensor(t) => Some((t.dtype, t.dims, Some(t.bytes.len()))),
        Given::State(s) => Some((s.dtype(), s.dims(), None)),
        Given::Sequence(_) | Given::Nothing => None,
    }
}

/// The bytes of a tensor.
fn bytes<'g>(given: &'g Given<'_>) -> Option<&'g [u8]> {
    match given {
        Given::Tensor(t) => Some(t.bytes),
        Given::State(s) => Some(s.bytes()),
        Given::Sequence(_) | Given::Nothing => None,
    }
}

/// The requirements on the sizes of a model's inputs, computed once.
pub(crate) struct Checks {
    inputs: Vec<Vec<Size>>,
    letters: Vec<String>,
    /// Sizes that are expressions over symbols of inputs: the input, its dimension, the expression.
    formulas: Vec<(usize, usize, Expr)>,
    /// Values that were fixed at compile time.
    fixed: FixedInputs,
}

/// The requirements on one size.
#[derive(Clone, Copy)]
struct Size {
    fixed: Option<u64>,
    range: Option<(u64, u64)>,
    /// Index of its symbol.
    letter: Option<usize>,
}

impl Checks {
    pub(crate) fn new(m: &CompiledModel) -> Checks {
        let mut letters: Vec<&str> = Vec::new();
        let mut inputs = Vec::with_capacity(m.inputs.len());
        for i in &m.inputs {
            let mut sizes = Vec::new();
            for (k, d) in i.desc.shape.dims().iter().enumerate() {
                let range = m.ranges.get(&range_key(&i.name, k, d.symbol_name())).copied();
                let letter = d.symbol_name().map(|l| {
                    letters.iter().position(|o| *o == l).unwrap_or_else(|| {
                        letters.push(l);
                        letters.len() - 1
                    })
                });
                sizes.push(Size { fixed: d.size(), range, letter });
            }
            inputs.push(sizes);
        }
        let mut formulas = Vec::new();
        for (at, i) in m.inputs.iter().enumerate() {
            let known = |e: &Expr| !e.is_symbol() && e.value(&|s| letters.contains(&s).then_some(1)).is_some();
            let named = i.desc.shape.dims().iter().map(|d| d.symbol_name().and_then(Expr::parse));
            formulas.extend(named.enumerate().filter_map(|(k, e)| Some((at, k, e.filter(known)?))));
        }
        let letters = letters.into_iter().map(str::to_owned).collect();
        Checks { inputs, letters, formulas, fixed: FixedInputs::of(m) }
    }

    /// Whether all inputs have the values that were fixed at compile time. Plans and ways do not
    /// depend on these values, so every run compares them.
    pub(crate) fn fixed_values_hold(&self, given: &[TensorView<'_>]) -> bool {
        self.fixed.hold(|k| given.get(k).map(|t| t.bytes))
    }

    /// Checks the sizes that are computed from the sizes of symbols.
    fn computed(
        &self,
        m: &CompiledModel,
        given: &[Given<'_>],
        size_of: &dyn Fn(&str) -> Option<i64>,
    ) -> Result<(), RuntimeError> {
        for (at, k, e) in &self.formulas {
            let size = given.get(*at).and_then(tensor).and_then(|(_, dims, _)| dims.get(*k));
            let (Some(size), Some(want)) = (size, e.value(size_of)) else { continue };
            if i64::try_from(*size) != Ok(want) {
                return Err(RuntimeError::Input {
                    name: m.inputs.get(*at).map_or_else(String::new, |i| i.name.clone()),
                    found: format!("{size} for dimension {k} (`{e}`)"),
                    expected: format!("{want}, which `{e}` is for these inputs"),
                });
            }
        }
        Ok(())
    }

    /// Checks the inputs of a run.
    ///
    /// # Errors
    /// Returns the name of the first input that does not fit, and what was expected.
    pub(crate) fn check(&self, m: &CompiledModel, given: &[Given<'_>]) -> Result<(), RuntimeError> {
        if given.len() != m.inputs.len() {
            let names: Vec<&str> = m.inputs.iter().map(|i| i.name.as_str()).collect();
            return Err(RuntimeError::Input {
                name: "(all)".into(),
                found: format!("{} inputs", given.len()),
                expected: format!("{}: {}", names.len(), names.join(", ")),
            });
        }
        // For each symbol, the first input that has it, with its dimension and size.
        let mut letters: Vec<Option<(usize, usize, u64)>> = vec![None; self.letters.len()];
        for (at, (t, want)) in given.iter().zip(&m.inputs).enumerate() {
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
            let all = || dims.iter().try_fold(1u64, |a, d| a.checked_mul(*d));
            let count = if dims.contains(&0) { Some(0) } else { all() };
            let bytes = count.and_then(|c| dtype.bytes_of(c));
            if let Some(has) = has.filter(|has| dtype != DType::STRING && bytes != Some(*has as u64)) {
                return wrong(format!("{has} bytes for {dims:?}"), format!("{bytes:?} bytes"));
            }
            let name = |k: usize| shape.dims().get(k).and_then(|d| d.symbol_name()).unwrap_or_default();
            for (k, (want, size)) in self.inputs[at].iter().zip(dims).enumerate() {
                if let Some(fixed) = want.fixed.filter(|s| s != size) {
                    return wrong(
                        format!("{dims:?}: {size} for dimension {k}"),
                        format!("{fixed} for dimension {k}, as in {shape}"),
                    );
                }
                if let Some((low, high)) = want.range.filter(|r| !(r.0..=r.1).contains(size)) {
                    let of = want.letter.map_or(String::new(), |_| format!(" (`{}`)", name(k)));
                    return wrong(format!("{dims:?}: {size} for dimension {k}{of}"), format!("{low} to {high}"));
                }
                let Some(letter) = want.letter else { continue };
                let (of, dim, first) = *letters[letter].get_or_insert((at, k, *size));
                if first != *size {
                    let (letter, of) = (name(k), &m.inputs[of].name);
                    return wrong(
                        format!("{size} for dimension {k} (`{letter}`)"),
                        format!("{first}, which `{letter}` is in dimension {dim} of `{of}`"),
                    );
                }
            }
        }
        self.computed(m, given, &|s| {
            let letter = self.letters.iter().position(|l| l == s)?;
            i64::try_from((*letters.get(letter)?)?.2).ok()
        })?;
        self.fixed.check(m, |k| given.get(k).and_then(bytes))
    }
}

/// The key of a range: the symbol, or the position of a size without one.
pub(crate) fn range_key(input: &str, dim: usize, letter: Option<&str>) -> String {
    letter.map_or_else(|| format!("{input}:{dim}"), str::to_owned)
}
