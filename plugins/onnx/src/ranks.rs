//! Ranks of values during the import. They only help to choose between forms of an operator (matrix
//! or batch of matrices, which axis is the last); inference checks every choice again.
use crate::ops::direct;
use ge_plugin_api::frontend::ForeignNode;
use ge_plugin_api::types::{Dim, Shape, TensorDesc};

fn rank(n: &ForeignNode, i: usize) -> Option<usize> {
    n.desc(i)?.shape.rank()
}
fn length(n: &ForeignNode, i: usize, attr: &str) -> Option<usize> {
    match n.attrs.ints(attr) {
        Some(v) => Some(v.len()),
        None => n.constant(i).and_then(|t| t.count()).and_then(|c| usize::try_from(c).ok()),
    }
}

/// The rank of the input with the most axes, if all ranks are known.
fn widest(n: &ForeignNode) -> Option<usize> {
    (0..n.inputs.len()).map(|i| rank(n, i)).try_fold(0, |a, r| Some(a.max(r?)))
}

/// The rank of output `i`, if it follows from the operator and the ranks of the inputs.
pub fn output_rank(n: &ForeignNode, i: usize) -> Option<usize> {
    match n.op.as_str() {
        // Statistics, one for each channel.
        "BatchNormalization" if i > 0 => Some(1),
        op if direct::is_elementwise(op) => widest(n),
        "Clip"
        | "Cast"
        | "Dropout"
        | "Softmax"
        | "LogSoftmax"
        | "Hardmax"
        | "BatchNormalization"
        | "InstanceNormalization"
        | "LayerNormalization"
        | "GroupNormalization"
        | "RMSNormalization"
        | "LRN"
        | "Conv"
        | "ConvTranspose"
        | "MaxPool"
        | "AveragePool"
        | "GlobalAveragePool"
        | "GlobalMaxPool"
        | "LpPool"
        | "Transpose"
        | "Pad"
        | "Slice"
        | "Split"
        | "Concat"
        | "Tile"
        | "CumSum"
        | "TopK"
        | "Resize"
        | "Upsample"
        | "DepthToSpace"
        | "SpaceToDepth"
        | "QuantizeLinear"
        | "DequantizeLinear"
        | "QLinearConv"
        | "ConvInteger"
        | "Trilu"
        | "ReverseSequence"
        | "ScatterElements"
        | "ScatterND"
        | "Scatter" => rank(n, 0),
        "GatherElements" => rank(n, 1),
        "Mod" | "Max" | "Min" | "Sum" | "Mean" => widest(n),
        "MatMul" | "MatMulInteger" => match (rank(n, 0)?, rank(n, 1)?) {
            (a @ 2.., b @ 2..) => Some(a.max(b)),
            _ => None,
        },
        "Gemm" | "Flatten" => Some(2),
        "Reshape" => length(n, 1, "shape"),
        "Expand" => Some(rank(n, 0)?.max(length(n, 1, "")?)),
        "ConstantOfShape" => length(n, 0, ""),
        "Shape" | "Range" => Some(1),
        "Size" => Some(0),
        "Gather" => (rank(n, 0)? + rank(n, 1)?).checked_sub(1),
        "Unsqueeze" => Some(rank(n, 0)? + length(n, 1, "axes")?),
        "Squeeze" => rank(n, 0)?.checked_sub(length(n, 1, "axes")?),
        "OneHot" => Some(rank(n, 0)? + 1),
        op if op.starts_with("Reduce") || op == "ArgMax" || op == "ArgMin" => {
            let keep = n.int_or("keepdims", 1) != 0;
            match (keep, op) {
                (true, _) => rank(n, 0),
                (false, "ArgMax" | "ArgMin") => rank(n, 0)?.checked_sub(1),
                (false, _) => rank(n, 0)?.checked_sub(length(n, 1, "axes")?),
            }
        }
        "LSTM" | "GRU" | "RNN" => None,
        _ => None,
    }
}

/// A descriptor that states only the rank.
pub fn desc_of_rank(rank: Option<usize>) -> TensorDesc {
    let mut d = TensorDesc::unknown();
    if let Some(r) = rank.filter(|&r| r <= 64) {
        d.shape = Shape::new(std::iter::repeat_n(Dim::UNKNOWN, r));
    }
    d
}
