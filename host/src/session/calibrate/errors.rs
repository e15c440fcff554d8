//! How far the outputs of a model in narrow types are from those of the model in its own types.
use crate::session::model::Item;
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::{Blob, ConstTensor, DType};

/// Largest error of an output, and of a node that is not to blame, relative to the greatest number
/// of the tensor.
pub const TOLERANCE: f64 = 1e-2;
/// Lead of a row's greatest number over its second, relative to the tensor's greatest number, from
/// which on its position must not change. Smaller leads are within the allowed error.
const LEAD: f64 = TOLERANCE;

/// Errors of the outputs over all input sets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Errors {
    /// Largest absolute difference to f32.
    pub max_abs: f64,
    /// Largest difference to f32, relative to the greatest number of the output.
    pub max_rel: f64,
    /// Number of rows (of the last axis) whose greatest number is at another position than in f32.
    pub classes: usize,
    /// Number of integers, booleans and strings that are not those of the model in f32.
    pub unequal: usize,
    /// Number of outputs, or elements of sequences, that have other sizes than in f32.
    pub sizes: usize,
}

impl Errors {
    /// The greater errors of the two, with both counts.
    pub(super) fn or(self, e: Errors) -> Errors {
        Errors {
            max_abs: self.max_abs.max(e.max_abs),
            max_rel: self.max_rel.max(e.max_rel),
            classes: self.classes + e.classes,
            unequal: self.unequal + e.unequal,
            sizes: self.sizes + e.sizes,
        }
    }
    /// Whether the errors are within the allowed limits.
    pub(super) fn is_fine(self) -> bool {
        self.max_rel <= TOLERANCE && self.classes == 0 && self.unequal == 0 && self.sizes == 0
    }
}

/// How much an output differs from its f32 version. Sequences are compared element by element.
pub(super) fn of_items(low: &Item, wide: &Item) -> Errors {
    match (low, wide) {
        (Item::Tensor(l), Item::Tensor(w)) => of_tensors(l, w, true),
        (Item::Sequence(l), Item::Sequence(w)) if l.len() == w.len() => {
            l.iter().zip(w).map(|(l, w)| of_tensors(l, w, true)).fold(Errors::default(), Errors::or)
        }
        (Item::Nothing, Item::Nothing) => Errors::default(),
        _ => Errors { sizes: 1, ..Errors::default() },
    }
}

/// How much a tensor differs from its f32 version; `rows`: whether the places of the greatest
/// numbers count. Two equal infinities, or two NaNs, count as equal.
pub(super) fn of_tensors(low: &HostTensor, wide: &HostTensor, rows: bool) -> Errors {
    if low.dims != wide.dims {
        return Errors { sizes: 1, ..Errors::default() };
    }
    let (Some(a), Some(b)) = (numbers(low), numbers(wide)) else {
        return Errors { unequal: unequal(low, wide), ..Errors::default() };
    };
    let most = b.iter().map(|v| v.abs()).filter(|v| v.is_finite()).fold(0.0, f64::max);
    let mut max_abs = 0.0f64;
    for (x, y) in a.iter().zip(&b) {
        let apart = if x == y || (x.is_nan() && y.is_nan()) { 0.0 } else { (x - y).abs() };
        max_abs = max_abs.max(if apart.is_nan() { f64::INFINITY } else { apart });
    }
    let max_rel = if max_abs == 0.0 { 0.0 } else { max_abs / most.max(f64::MIN_POSITIVE) };
    let real = is_real(wide.dtype);
    let width = wide.dims.last().and_then(|d| usize::try_from(*d).ok()).filter(|w| rows && real && *w > 1);
    let classes = width.map_or(0, |w| {
        let pairs = a.chunks_exact(w).zip(b.chunks_exact(w));
        pairs.filter(|(x, y)| leads(y) > LEAD * most && greatest(x) != greatest(y)).count()
    });
    Errors { max_abs, max_rel, classes, ..Errors::default() }
}

/// Whether numbers of a type are compared by their distance.
fn is_real(t: DType) -> bool {
    matches!(t, DType::F32 | DType::F16 | DType::BF16 | DType::F64)
}

/// The numbers of a tensor, if they are compared by their distance; of complex ones, both parts.
fn numbers(t: &HostTensor) -> Option<Vec<f64>> {
    let (dtype, dims) = match t.dtype {
        DType::COMPLEX64 => (DType::F32, [&t.dims[..], &[2]].concat()),
        DType::COMPLEX128 => (DType::F64, [&t.dims[..], &[2]].concat()),
        d if is_real(d) => (d, t.dims.to_vec()),
        _ => return None,
    };
    ConstTensor::new(dtype, &dims, Blob::copy_of(t.bytes()))?.to_f64(usize::MAX)
}

/// Number of elements that are not the same. If their places in memory are unknown, all count.
fn unequal(low: &HostTensor, wide: &HostTensor) -> usize {
    let count = |a: &[&[u8]], b: &[&[u8]]| a.iter().zip(b).filter(|(a, b)| a != b).count();
    let all = usize::try_from(wide.dims.iter().product::<u64>()).unwrap_or(usize::MAX).max(1);
    if low.dtype != wide.dtype {
        return all;
    }
    if low.dtype == DType::STRING {
        let texts = ge_runtime::npy_text::texts;
        return texts(low).zip(texts(wide)).map_or(all, |(a, b)| count(&a, &b));
    }
    match low.dtype.bits() {
        Some(bits) if bits >= 8 => {
            let elements = |t| HostTensor::bytes(t).chunks_exact(bits as usize / 8).collect::<Vec<_>>();
            count(&elements(low), &elements(wide))
        }
        _ if low.bytes() == wide.bytes() => 0,
        _ => all,
    }
}

fn greatest(row: &[f64]) -> Option<usize> {
    row.iter().enumerate().reduce(|m, v| if v.1 > m.1 { v } else { m }).map(|v| v.0)
}

/// Lead of the greatest number of a row over the second.
fn leads(row: &[f64]) -> f64 {
    let (first, second) = row
        .iter()
        .fold((f64::NEG_INFINITY, f64::NEG_INFINITY), |(a, b), &v| if v > a { (v, a) } else { (a, b.max(v)) });
    first - second
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(v: &[f32], dims: &[u64]) -> HostTensor {
        let bytes: Vec<u8> = v.iter().flat_map(|x| x.to_le_bytes()).collect();
        HostTensor::from_bytes(DType::F32, dims, &bytes).expect("a tensor")
    }
    fn integers(v: &[i64]) -> HostTensor {
        let bytes: Vec<u8> = v.iter().flat_map(|x| x.to_le_bytes()).collect();
        HostTensor::from_bytes(DType::I64, &[v.len() as u64], &bytes).expect("a tensor")
    }

    #[test]
    fn errors_are_told_in_parts_of_the_greatest_number() {
        let e = of_tensors(&tensor(&[1.0, -8.0, 3.0], &[3]), &tensor(&[1.5, -10.0, 3.0], &[3]), true);
        assert_eq!((e.max_abs, e.max_rel, e.classes), (2.0, 0.2, 0));
        let e = of_tensors(&tensor(&[f32::NAN, 1.0], &[2]), &tensor(&[2.0, 1.0], &[2]), false);
        assert_eq!((e.max_abs, e.max_rel), (f64::INFINITY, f64::INFINITY));
        let inf = f32::NEG_INFINITY;
        assert_eq!(of_tensors(&tensor(&[inf], &[1]), &tensor(&[inf], &[1]), false), Errors::default());
    }

    #[test]
    fn a_class_changes_where_the_lead_was_clear() {
        let was = tensor(&[0.1, 0.9, 0.5, 0.5001], &[2, 2]);
        assert_eq!(of_tensors(&tensor(&[0.9, 0.1, 0.5, 0.5001], &[2, 2]), &was, true).classes, 1);
        assert_eq!(of_tensors(&tensor(&[0.1, 0.9, 0.5001, 0.5], &[2, 2]), &was, true).classes, 0, "a near tie");
    }

    #[test]
    fn integers_must_be_equal_and_sizes_the_same() {
        let e = of_tensors(&integers(&[1000, 2, 3]), &integers(&[1001, 2, 4]), true);
        assert_eq!((e.unequal, e.max_rel, e.is_fine()), (2, 0.0, false));
        assert!(of_tensors(&integers(&[1, 2]), &integers(&[1, 2]), true).is_fine());
        assert_eq!(of_tensors(&integers(&[1]), &integers(&[1, 2]), true).sizes, 1);
        assert_eq!(of_tensors(&tensor(&[], &[2, 0]), &tensor(&[0.0; 2], &[2, 1]), true).sizes, 1);
    }

    #[test]
    fn sequences_are_compared_element_by_element() {
        let list = |v: &[f32]| Item::Sequence(v.iter().map(|x| tensor(&[*x], &[1])).collect());
        assert_eq!(of_items(&list(&[1.0, 2.0]), &list(&[1.0, 4.0])).max_rel, 0.5);
        assert_eq!(of_items(&list(&[1.0]), &list(&[1.0, 4.0])).sizes, 1);
        assert_eq!(of_items(&Item::Nothing, &list(&[])).sizes, 1);
        assert!(of_items(&Item::Nothing, &Item::Nothing).is_fine());
    }
}
