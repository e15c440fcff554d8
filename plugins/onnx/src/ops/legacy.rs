//! Operators of opsets 1 to 6 that differ from later ones: broadcasting by the attributes
//! `broadcast` and `axis`, statistics outputs, `is_test`.
use super::{Outs, rank, scalar};
use ge_plugin_api::abi::ROption;
use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::map_op;
use ge_plugin_api::types::{DType, ValueRef};

/// The second operand with trailing ones, so that NumPy's rules align it at `axis`; without `axis`
/// it is already aligned at the end.
fn placed(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Result<ValueRef> {
    let second = n.input(1)?;
    let Some(axis) = n.attrs.int("axis").filter(|_| n.int_or("broadcast", 0) != 0) else { return Ok(second) };
    let (Some(r0), Some(r1)) = (rank(n, 0), rank(n, 1)) else {
        return Err(n.refuse("broadcast at an axis of an input whose rank is not known"));
    };
    let axis = usize::try_from(if axis < 0 { axis + r0 as i64 } else { axis }).unwrap_or(usize::MAX);
    match axis.checked_add(r1).and_then(|used| r0.checked_sub(used)) {
        Some(0) => Ok(second),
        Some(behind) => {
            let axes: Vec<i64> = (r1..r1 + behind).map(|a| a as i64).collect();
            Ok(b.node("Unsqueeze").input(second).attr("axes", axes).build())
        }
        None => Err(n.refuse(format!("axis {axis} leaves no place for {r1} dimensions in {r0}"))),
    }
}
macro_rules! binary {
    ($($f:ident $name:literal $to:literal;)+) => {$(
        fn $f(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
            let second = placed(n, b)?;
            Ok(vec![b.node($to).name(&n.name).input(n.input(0)?).input(second).build()])
        }
        map_op!("onnx", "ai.onnx", $name, 1..=6, $f);
    )+};
}
binary! {
    add "Add" "Add";
    sub "Sub" "Sub";
    mul "Mul" "Mul";
    div "Div" "Div";
    pow "Pow" "Pow";
    and "And" "LogicalAnd";
    or "Or" "LogicalOr";
    xor "Xor" "LogicalXor";
    equal "Equal" "Equal";
    less "Less" "Less";
    greater "Greater" "Greater";
}

/// PRelu with a single slope or one per channel.
fn prelu(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let mut slope = n.input(1)?;
    let one = n.desc(1).and_then(|d| d.shape.count()) == Some(1);
    if !one && rank(n, 1) == Some(1) {
        let r = rank(n, 0).ok_or_else(|| n.refuse("the rank of its input is not known"))?;
        if r > 2 {
            let axes: Vec<i64> = (1..r as i64 - 1).collect();
            slope = b.node("Unsqueeze").input(slope).attr("axes", axes).build();
        }
    }
    Ok(vec![b.node("PRelu").name(&n.name).input(n.input(0)?).input(slope).build()])
}
map_op!("onnx", "ai.onnx", "PRelu", 1..=6, prelu);

fn batch_norm(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    if n.int_or("is_test", 0) == 0 && n.output_count() > 1 {
        return Err(n.refuse("training (is_test = 0) in an operator set before 7"));
    }
    if n.int_or("spatial", 1) == 0 {
        return super::norm::norm_by_place(n, b);
    }
    let d = b.node("BNInfer").name(&n.name).inputs(&n.inputs).attr("epsilon", n.float_or("epsilon", 1e-5));
    Ok(vec![d.build()])
}
map_op!("onnx", "ai.onnx", "BatchNormalization", 1..=6, batch_norm);

fn dropout(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    if n.output_count() > 1 {
        return Err(n.refuse("the mask of a Dropout in an operator set before 7"));
    }
    Ok(vec![b.node("Identity").name(&n.name).input(n.input(0)?).build()])
}
map_op!("onnx", "ai.onnx", "Dropout", 1..=6, dropout);

/// The sizes may be an input, in the type of the data.
fn split(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let mut n = n.clone();
    if let Some(sizes) = n.opt_input(1) {
        n.inputs[1] = b.node("Cast").input(sizes).attr("dst_type", DType::I64).build();
        n.constants[1] = ROption::RNone;
    }
    super::slice::split(&n, b)
}
map_op!("onnx", "ai.onnx", "Split", 1..=1, split);

/// Tiled along one axis, which an input gives: the repeats are 1 for all other axes.
fn tile(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let x = n.input(0)?;
    let mut whole = |v: ValueRef| b.node("Cast").input(v).attr("dst_type", DType::I64).build();
    let (tiles, axis) = (whole(n.input(1)?), whole(n.input(2)?));
    let shape = b.node("Shape").input(x).attr("dtype", DType::I64).build();
    let rank = b.node("Size").input(shape).build();
    let one = scalar(b, "one", 1i64);
    let repeats = b.node("OneHot").input(axis).input(rank).input(tiles).input(one).attr("axis", -1i64).build();
    Ok(vec![b.node("Tile").name(&n.name).input(x).input(repeats).build()])
}
map_op!("onnx", "ai.onnx", "Tile", 1..=5, tile);

/// Cast stated its type as a word.
fn cast(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let to = match n.str_or("to", "").to_ascii_uppercase().as_str() {
        "FLOAT" => DType::F32,
        "FLOAT16" => DType::F16,
        "DOUBLE" => DType::F64,
        "INT8" => DType::I8,
        "INT16" => DType::I16,
        "INT32" => DType::I32,
        "INT64" => DType::I64,
        "UINT8" => DType::U8,
        "UINT16" => DType::U16,
        "UINT32" => DType::U32,
        "UINT64" => DType::U64,
        "BOOL" => DType::BOOL,
        other => return Err(n.refuse(format!("attribute `to` names the type `{other}`"))),
    };
    Ok(vec![b.node("Cast").name(&n.name).input(n.input(0)?).attr("dst_type", to).build()])
}
map_op!("onnx", "ai.onnx", "Cast", 1..=5, cast);
