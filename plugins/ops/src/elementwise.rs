//! Element-wise operators. Each has one output `y` with the broadcast shape (NumPy rules) and,
//! unless something else is said, the type of input 0.
//!
//! * Maps of one tensor: see `maps.rs`.
//! * `Invert` (bitwise not), `LogicalNot`; `IsNan`, `IsInf {detect_negative, detect_positive}` and
//!   `IsFinite` return bool.
//! * Binary `x1, x2`: `Add Sub Mul Maximum Minimum`; `RealDiv` (floats), `Div` (integers truncate
//!   toward zero), `FloorDiv`, `Mod` (C's fmod: sign of x1), `FloorMod` (sign of x2), `Pow` (the
//!   types may differ; the result has x1's), `Atan2`, `SquaredDifference`, `BitwiseAnd/Or/Xor`,
//!   `LeftShift`, `RightShift`, `LogicalAnd/Or/Xor`;
//!   `Equal NotEqual Less LessEqual Greater GreaterEqual` return bool. `PRelu(x, weight)`: weight
//!   broadcasts to x.
//! * `AddN(x...) {N}`: sum of tensors of equal shapes. `SelectV2(condition, then, else)` and
//!   `Select`: all three inputs are broadcast.
//! * `ClipByValue(x, clip_value_min, clip_value_max)` = min(max(x, lo), hi) with scalar bounds.
//! * `Cast(x) {dst_type, saturate = true}`; `CastLike(x, target)`: to the type of target;
//!   `Bitcast(x) {type}`.
use crate::maps::unary;
use crate::read;
use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::ops::{AttrKind, InferCtx, OpDef, flags::*, infer};
use ge_plugin_api::register_ops;
use ge_plugin_api::types::dtype::{ANY, FLOATS, NUMERIC};
use ge_plugin_api::types::{DType, Dim, Shape, TensorDesc};

/// All integer types of 8 to 64 bits.
pub const INTEGERS: &[DType] =
    &[DType::I8, DType::I16, DType::I32, DType::I64, DType::U8, DType::U16, DType::U32, DType::U64];
/// The boolean type alone.
pub const BOOL: &[DType] = &[DType::BOOL];

fn test_op(name: &str) -> OpDef {
    OpDef::new(name, to_bool).input("x", FLOATS_AND_8, "").output("y", BOOL, "").flags(ELEMENTWISE)
}
fn binary(name: &str, types: &[DType]) -> OpDef {
    OpDef::new(name, infer::broadcast)
        .input("x1", types, "T")
        .input("x2", types, "T")
        .output("y", types, "T")
        .flags(ELEMENTWISE | INPLACE)
}
fn comparison(name: &str, types: &[DType]) -> OpDef {
    OpDef::new(name, infer::compare)
        .input("x1", types, "T")
        .input("x2", types, "T")
        .output("y", BOOL, "")
        .flags(ELEMENTWISE)
}
const FLOATS_AND_8: &[DType] = &[
    DType::F32,
    DType::F16,
    DType::BF16,
    DType::F64,
    DType::F8E4M3FN,
    DType::F8E4M3FNUZ,
    DType::F8E5M2,
    DType::F8E5M2FNUZ,
    DType::F8E8M0,
    DType::F4E2M1,
];

fn to_bool(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let mut d = c.like(0)?;
    d.dtype = DType::BOOL;
    Ok(vec![d])
}
fn prelu(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let d = c.like(0)?;
    let all = infer::broadcast_shapes(&d.shape, &c.input(1)?.shape)?;
    if let (Some(a), Some(b)) = (all.sizes(), d.shape.sizes()) {
        if a != b {
            return Err(read::bad(
                "input 1 `weight`",
                &c.input(1)?.shape,
                format!("a shape that broadcasts to {}", d.shape),
            ));
        }
    }
    Ok(vec![d])
}
fn select(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let mut d = c.like(1)?;
    d.shape = infer::broadcast_shapes(&infer::broadcast_shapes(&c.input(0)?.shape, &d.shape)?, &c.input(2)?.shape)?;
    Ok(vec![d])
}
fn add_n(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let mut d = c.like(0)?;
    for i in 1..c.input_count() {
        d.shape = crate::dims::equal_shapes(&format!("input {i} `x`"), &d.shape, &c.input(i)?.shape)?;
    }
    Ok(vec![d])
}
fn cast(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let mut d = c.like(0)?;
    d.dtype =
        read::dtype(c, "dst_type").ok_or_else(|| read::bad("attribute `dst_type`", "nothing", "an element type"))?;
    Ok(vec![d])
}
fn cast_like(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let mut d = c.like(0)?;
    d.dtype = c.input(1)?.dtype;
    Ok(vec![d])
}
fn bitcast(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let mut d = c.like(0)?;
    let to = read::dtype(c, "type").ok_or_else(|| read::bad("attribute `type`", "nothing", "an element type"))?;
    let (Some(from_bits), Some(to_bits)) = (d.dtype.bits(), to.bits()) else {
        return Err(read::bad("attribute `type`", to, "a type of fixed width"));
    };
    if !d.shape.is_unranked() && from_bits != to_bits {
        let mut dims = d.shape.dims().to_vec();
        if from_bits > to_bits && from_bits % to_bits == 0 {
            dims.push(Dim::known(from_bits / to_bits));
        } else if let Some(last) = dims.pop().filter(|l| l.size().is_none_or(|s| s == to_bits / from_bits)) {
            let _ = last;
        } else {
            return Err(read::bad(
                "input 0 `x`",
                &d.shape,
                format!("a last dimension of {}", to_bits / from_bits.max(1)),
            ));
        }
        d.shape = Shape::new(dims);
    }
    d.dtype = to;
    Ok(vec![d])
}

fn defs() -> Vec<OpDef> {
    let mut v = crate::maps::defs();
    v.push(unary("Invert", INTEGERS));
    v.push(unary("LogicalNot", BOOL));
    v.push(test_op("IsNan"));
    v.push(test_op("IsFinite"));
    v.push(test_op("IsInf").attr("detect_negative", AttrKind::BOOL, true).attr(
        "detect_positive",
        AttrKind::BOOL,
        true,
    ));
    for name in ["Add", "Mul", "Maximum", "Minimum"] {
        v.push(binary(name, NUMERIC).flags(COMMUTATIVE));
    }
    for name in ["Sub", "Div", "FloorDiv", "Mod", "FloorMod", "SquaredDifference"] {
        let further = match name {
            "SquaredDifference" => FULL_PRECISION,
            "Mod" | "FloorMod" => NEEDS_FRACTION,
            _ => 0,
        };
        v.push(binary(name, NUMERIC).flags(further));
    }
    for name in ["RealDiv", "Atan2"] {
        v.push(binary(name, FLOATS));
    }
    v.push(
        OpDef::new("Pow", infer::broadcast)
            .input("x1", NUMERIC, "T")
            .input("x2", NUMERIC, "")
            .output("y", NUMERIC, "T")
            .flags(ELEMENTWISE | INPLACE | FULL_PRECISION),
    );
    for name in ["BitwiseAnd", "BitwiseOr", "BitwiseXor"] {
        v.push(binary(name, INTEGERS).flags(COMMUTATIVE));
    }
    for name in ["LeftShift", "RightShift"] {
        v.push(binary(name, INTEGERS));
    }
    for name in ["LogicalAnd", "LogicalOr", "LogicalXor"] {
        v.push(binary(name, BOOL).flags(COMMUTATIVE));
    }
    for name in ["Equal", "NotEqual"] {
        v.push(comparison(name, ANY).flags(COMMUTATIVE));
    }
    for name in ["Less", "LessEqual", "Greater", "GreaterEqual"] {
        v.push(comparison(name, NUMERIC));
    }
    v.push(
        OpDef::new("PRelu", prelu)
            .input("x", NUMERIC, "T")
            .input("weight", NUMERIC, "T")
            .output("y", NUMERIC, "T")
            .flags(ELEMENTWISE | INPLACE),
    );
    v.push(
        OpDef::new("AddN", add_n)
            .dynamic("x", NUMERIC, "T")
            .output("y", NUMERIC, "T")
            .required_attr("N", AttrKind::INT)
            .range(1.0, 1e6)
            .flags(ELEMENTWISE | INPLACE),
    );
    for name in ["SelectV2", "Select"] {
        v.push(
            OpDef::new(name, select)
                .input("condition", BOOL, "")
                .input("then", ANY, "T")
                .input("else", ANY, "T")
                .output("result", ANY, "T")
                .flags(ELEMENTWISE),
        );
    }
    v.push(
        OpDef::new("ClipByValue", infer::same)
            .input("x", NUMERIC, "T")
            .input("clip_value_min", NUMERIC, "T")
            .input("clip_value_max", NUMERIC, "T")
            .output("y", NUMERIC, "T")
            .flags(ELEMENTWISE | INPLACE),
    );
    v.push(
        OpDef::new("Cast", cast)
            .input("x", ANY, "")
            .output("y", ANY, "")
            .required_attr("dst_type", AttrKind::TYPE)
            .attr("saturate", AttrKind::BOOL, true)
            .attr("round_mode", AttrKind::STRING, "up")
            .flags(ELEMENTWISE | TRANS_OP),
    );
    v.push(
        OpDef::new("CastLike", cast_like)
            .input("x", ANY, "")
            .input("target", ANY, "T")
            .output("y", ANY, "T")
            .attr("saturate", AttrKind::BOOL, true)
            .attr("round_mode", AttrKind::STRING, "up")
            .flags(ELEMENTWISE),
    );
    v.push(
        OpDef::new("Bitcast", bitcast)
            .input("x", ANY, "")
            .output("y", ANY, "")
            .required_attr("type", AttrKind::TYPE)
            .flags(VIEW),
    );
    v
}
register_ops!(|| crate::value_ranges::given(defs()));
