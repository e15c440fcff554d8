//! `PhonyConcat` and `PhonySplit`: parts that are stored side by side in one whole (document 000).
use ge_plugin_api::types::TensorDesc;

/// Why `parts` cannot be stored side by side in `whole`; `None` if they can. `what` names the
/// parts; `axes` are the dimensions along which they are counted, outermost first. Parts must have
/// equal shapes and sizes that are multiples of 32 bytes, and all axes before the last of `axes`
/// must have size one, and the axes must ascend: then the k-th part is at k times its size (facts
/// 6).
pub fn refusal(what: &str, parts: &[&TensorDesc], whole: &TensorDesc, axes: &[i64]) -> Option<String> {
    if let Some(k) = parts.iter().position(|p| !p.shape.is_static()) {
        return Some(format!("{what} {k} has a shape that is not known"));
    }
    if let (Some(first), true) = (parts.first(), parts.len() > 1) {
        if let Some(k) = parts.iter().position(|p| p.shape != first.shape) {
            return Some(format!("{what} {k} is {}, {what} 0 is {}", parts[k].shape, first.shape));
        }
        if let Some(b) = first.data_bytes().filter(|b| b % 32 != 0) {
            return Some(format!("its {what} have {b} bytes each, not a multiple of 32"));
        }
        let sizes = first.shape.sizes().unwrap_or_default();
        let axes: Vec<usize> = axes.iter().filter_map(|a| first.shape.axis(*a)).collect();
        if let Some(w) = axes.windows(2).find(|w| w[0] > w[1]) {
            return Some(format!(
                "its {what} do not follow each other: axis {} is counted outside of axis {}",
                w[0], w[1]
            ));
        }
        let last = axes.last().copied().unwrap_or(0);
        if let Some(at) = sizes.iter().take(last).position(|s| *s != 1) {
            return Some(format!("axis {at} of its {what} has size {} before axis {last}", sizes[at]));
        }
    }
    if parts.is_empty() {
        return Some(format!("it has no {what}"));
    }
    if let Some(k) = parts.iter().position(|p| p.dtype != whole.dtype) {
        return Some(format!("{what} {k} is {}, the whole is {}", parts[k].dtype, whole.dtype));
    }
    let sum = parts.iter().try_fold(0u64, |a, p| p.data_bytes().and_then(|b| a.checked_add(b)));
    match (sum, whole.data_bytes()) {
        (Some(a), Some(b)) if a != b => Some(format!("its {what} have {a} bytes together, the whole has {b}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ge_plugin_api::types::{DType, Shape};

    #[test]
    fn parts_fill_the_whole() {
        let d = |dtype, n: &[u64]| TensorDesc::new(dtype, Shape::of(n));
        let (a, w) = (d(DType::F16, &[2, 16]), d(DType::F16, &[4, 16]));
        assert_eq!(refusal("inputs", &[&a, &a], &w, &[0]), None);
        let why = |parts: &[&TensorDesc], whole: &TensorDesc, axes: &[i64]| refusal("inputs", parts, whole, axes);
        assert_eq!(
            why(&[&a, &a, &a], &w, &[0]).as_deref(),
            Some("its inputs have 192 bytes together, the whole has 128")
        );
        assert_eq!(refusal("outputs", &[], &w, &[0]).as_deref(), Some("it has no outputs"));
        assert!(why(&[&a, &d(DType::F16, &[3, 16])], &w, &[0]).is_some_and(|r| r.starts_with("inputs 1 is ")));
        let b = d(DType::F16, &[3, 5]);
        assert!(why(&[&b, &b], &d(DType::F16, &[6, 5]), &[0]).is_some_and(|r| r.contains("not a multiple of 32")));
        assert!(why(&[&a, &a], &d(DType::F16, &[2, 32]), &[1]).is_some_and(|r| r.contains("axis 0")));
        assert_eq!(why(&[&d(DType::F16, &[1, 16]); 4], &d(DType::F16, &[2, 32]), &[0, 1]), None);
        let back = why(&[&d(DType::F16, &[1, 16]); 4], &d(DType::F16, &[2, 32]), &[1, 0]);
        assert!(back.is_some_and(|r| r.contains("axis 1 is counted outside of axis 0")));
        assert!(why(&[&a, &d(DType::F32, &[2, 16])], &w, &[0]).is_some());
    }
}
