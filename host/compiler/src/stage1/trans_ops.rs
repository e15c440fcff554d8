//! Shared by the passes on changes of layout and type: which nodes change only the layout, and
//! which casts are lossless.
use super::permute_pass::permutation;
use ge_ir::{DType, Format, Graph, Node};

/// Whether a node changes only the layout of a value, which the user does not see: `TransData`, or
/// a transpose between two formats of four named axes that moves each axis to the position of its
/// letter.
pub fn is_layout_change(g: &Graph, n: &Node) -> bool {
    match n.op() {
        "TransData" => true,
        "Transpose" | "TransposeD" => {
            let (Some(x), Some(y)) = (g.input_desc(n, 0), n.outputs().first()) else { return false };
            named_axes(x.format)
                && named_axes(y.format)
                && x.format != y.format
                && permutation(g, n).is_some_and(|p| p == moves(x.format, y.format))
        }
        _ => false,
    }
}

/// Whether a format consists of four named axes.
pub fn named_axes(f: Format) -> bool {
    matches!(f, Format::NCHW | Format::NHWC | Format::HWCN)
}

/// The permutation from one format of four named axes to another.
pub fn moves(from: Format, to: Format) -> Vec<usize> {
    to.name().chars().filter_map(|c| from.name().find(c)).collect()
}

/// Whether a node changes only layout or type.
pub fn is_trans_op(g: &Graph, n: &Node) -> bool {
    n.op() == "Cast" || is_layout_change(g, n)
}

/// Whether every value of the first type is also a value of the second.
pub fn loses_nothing(from: DType, to: DType) -> bool {
    let wider: &[DType] = match from {
        DType::F16 | DType::BF16 => &[DType::F32, DType::F64],
        DType::F32 => &[DType::F64],
        DType::I8 => &[DType::I16, DType::I32, DType::I64, DType::F16, DType::F32, DType::F64],
        DType::U8 => &[
            DType::U16,
            DType::U32,
            DType::U64,
            DType::I16,
            DType::I32,
            DType::I64,
            DType::F16,
            DType::F32,
            DType::F64,
        ],
        DType::I16 => &[DType::I32, DType::I64, DType::F32, DType::F64],
        DType::I32 => &[DType::I64, DType::F64],
        _ => &[],
    };
    from == to || wider.contains(&to)
}
