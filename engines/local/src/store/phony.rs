//! `PhonyConcat` and `PhonySplit`: parts that lie side by side in one whole (document 000).
use ge_plugin_api::types::TensorDesc;

/// Why `parts` cannot lie side by side in `whole`; None: they can. The order of bytes is the business of the pass that made the
/// node; here types and sizes are checked. `what` names the parts.
pub fn refusal(what: &str, parts: &[&TensorDesc], whole: &TensorDesc) -> Option<String> {
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
        let d = |dtype, n| TensorDesc::new(dtype, Shape::of(&[n]));
        let (a, b, w) = (d(DType::F16, 3), d(DType::F16, 5), d(DType::F16, 8));
        assert_eq!(refusal("inputs", &[&a, &b], &w), None);
        assert_eq!(
            refusal("inputs", &[&a, &a], &w).as_deref(),
            Some("its inputs have 12 bytes together, the whole has 16")
        );
        assert_eq!(refusal("outputs", &[], &w).as_deref(), Some("it has no outputs"));
        assert_eq!(
            refusal("inputs", &[&a, &d(DType::F32, 5)], &w).as_deref(),
            Some("inputs 1 is f32, the whole is f16")
        );
    }
}
