//! Views: an output that is its input's memory with another shape.
use ge_plugin_api::types::{DType, Format, TensorDesc};

/// Formats whose elements are stored in the order of their shape.
fn plain(f: Format) -> bool {
    matches!(
        f,
        Format::ND
            | Format::NCHW
            | Format::NHWC
            | Format::HWCN
            | Format::NCDHW
            | Format::NDHWC
            | Format::DHWCN
            | Format::NCL
    )
}

/// Why `y` cannot share the memory of `x`; `None` if it can. Unknown sizes are not a reason.
pub fn refusal(x: &TensorDesc, y: &TensorDesc) -> Option<String> {
    let bytes = match (x.data_bytes(), y.data_bytes()) {
        (Some(a), Some(b)) if a != b => Some(format!("input 0 has {a} bytes, output 0 has {b}")),
        _ => None,
    };
    order_refusal(x, y).or(bytes)
}

/// The same for an output that may be smaller or larger than its input, where both begin at the
/// same address. The types must be equal.
pub fn room_refusal(x: &TensorDesc, y: &TensorDesc) -> Option<String> {
    let types = (x.dtype != y.dtype).then(|| format!("input 0 is {}, output 0 is {}", x.dtype, y.dtype));
    order_refusal(x, y).or(types)
}

/// Why the elements of the two are not in the same order; `None` if they are.
fn order_refusal(x: &TensorDesc, y: &TensorDesc) -> Option<String> {
    for (name, d) in [("input 0", x), ("output 0", y)] {
        if !plain(d.format) {
            return Some(format!(
                "{name} is in {}: only a plain format keeps its elements in order under another shape",
                d.format
            ));
        }
    }
    if (x.dtype == DType::STRING) != (y.dtype == DType::STRING) {
        return Some(format!("input 0 is {}, output 0 is {}", x.dtype, y.dtype));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use ge_plugin_api::types::Shape;

    fn desc(dtype: DType, dims: &[u64]) -> TensorDesc {
        TensorDesc::new(dtype, Shape::of(dims))
    }

    #[test]
    fn only_the_same_bytes_in_the_same_order_are_a_view() {
        let x = desc(DType::F32, &[2, 3, 5]);
        assert_eq!(refusal(&x, &desc(DType::F32, &[6, 5])), None);
        assert_eq!(refusal(&x, &desc(DType::I32, &[30])), None);
        assert_eq!(refusal(&x, &TensorDesc::new(DType::F32, Shape::unranked())), None);
        assert_eq!(refusal(&x, &desc(DType::F32, &[6, 4])).as_deref(), Some("input 0 has 120 bytes, output 0 has 96"));
        assert!(
            refusal(&x, &desc(DType::F32, &[30]).with_format(Format::NC1HWC0)).is_some_and(|r| r.contains("NC1HWC0"))
        );
        assert_eq!(room_refusal(&x, &desc(DType::F32, &[6, 4])), None);
        assert_eq!(room_refusal(&desc(DType::F32, &[6, 4]), &x), None);
        assert!(room_refusal(&x, &desc(DType::I32, &[30])).is_some_and(|r| r.contains("i32")));
        assert!(refusal(&desc(DType::STRING, &[30]), &desc(DType::F32, &[30])).is_some());
    }
}
