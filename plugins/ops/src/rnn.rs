//! Recurrent networks: one operator per kind of cell, with ONNX's semantics under CANN's names.
//!
//! `CommonRNN(x, w, r, b?, sequence_lens?, initial_h?) -> y, y_h`, `CommonGRU` (the same inputs),
//! `CommonLSTM(..., initial_c?, p?) -> y, y_h, y_c`. `x [S,B,I]` (layout 1: `[B,S,I]`),
//! `w [D,G·H,I]`, `r [D,G·H,H]`, `b [D,2·G·H]`, `initial_* [D,B,H]` (layout 1: `[B,D,H]`),
//! `p [D,3·H]`. Gates: one for RNN, z r h for GRU, i o f c for LSTM. `y [S,D,B,H]` (layout 1:
//! `[B,S,D,H]`), `y_h`, `y_c [D,B,H]` (layout 1: `[B,D,H]`). Attributes: `hidden_size`, `direction`
//! forward|reverse|bidirectional, `activations`, `activation_alpha`, `activation_beta`, `clip`,
//! `layout`; for GRU `linear_before_reset`, for LSTM `input_forget`. With `packed`, `w` and `r` are
//! `[D, P]`: each direction has the form that `engines/kernels/src/rnn/pack.rs` describes, with the
//! last block of sixteen hidden units padded; `hidden_size` must then be given.
//!
//! Beyond the length that `sequence_lens` gives, `y` is 0; `y_h` and `y_c` are the state after the
//! last step. A sequence of length 0 has no step: its state is the initial one. The standard leaves
//! this open; onnxruntime gives 0.
use crate::dims;
use crate::read;
use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::ops::{AttrKind, InferCtx, OpDef};
use ge_plugin_api::register_ops;
use ge_plugin_api::types::dtype::FLOATS;
use ge_plugin_api::types::{DType, Dim, Shape, TensorDesc};

/// Hidden units per block of packed weights.
const BLOCK: u64 = 16;

fn recurrent(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let packed = c.node.flag("packed");
    let rank = if packed { 2 } else { 3 };
    read::rank_in(c, 0, "x", 3, 3)?;
    read::rank_in(c, 1, "w", rank, rank)?;
    read::rank_in(c, 2, "r", rank, rank)?;
    let at = |i: usize, k: usize| c.opt_input(i).and_then(|d| d.shape.dims().get(k).copied()).unwrap_or(Dim::UNKNOWN);
    let batch_first = read::int(c, "layout", 0) == 1;
    let (s, b) = if batch_first { (at(0, 1), at(0, 0)) } else { (at(0, 0), at(0, 1)) };
    let dirs: i64 = if read::text(c, "direction", "forward") == "bidirectional" { 2 } else { 1 };
    let d = dims::equal("input 1 `w`: directions", dims::from_i64(dirs), at(1, 0))?;
    let given = c.node.int("hidden_size").map_or(Dim::UNKNOWN, dims::from_i64);
    let h = if packed { given } else { dims::equal("input 2 `r`: hidden size", given, at(2, 2))? };
    let gates: i64 = match c.node.op() {
        "CommonLSTM" => 4,
        "CommonGRU" => 3,
        _ => 1,
    };
    if packed {
        let padded = h.size().and_then(|h| h.checked_next_multiple_of(BLOCK)).map_or(Dim::UNKNOWN, Dim::known);
        let rows = dims::mul(padded, dims::from_i64(gates));
        dims::equal("input 1 `w`: packed numbers", dims::mul(rows, at(0, 2)), at(1, 1))?;
        dims::equal("input 2 `r`: packed numbers", dims::mul(rows, h), at(2, 1))?;
    } else {
        dims::equal("input 1 `w`: gates by hidden size", dims::mul(h, dims::from_i64(gates)), at(1, 1))?;
        dims::equal("input 1 `w`: input size", at(0, 2), at(1, 2))?;
    }
    let t = c.input(0)?.dtype;
    let y = if batch_first { [b, s, d, h] } else { [s, d, b, h] };
    let state = if batch_first { [b, d, h] } else { [d, b, h] };
    let mut out = vec![TensorDesc::new(t, Shape::new(y)), TensorDesc::new(t, Shape::new(state))];
    if gates == 4 {
        out.push(TensorDesc::new(t, Shape::new(state)));
    }
    Ok(out)
}

fn defs() -> Vec<OpDef> {
    let common = |name: &str| {
        OpDef::new(name, recurrent)
            .input("x", FLOATS, "T")
            .input("w", FLOATS, "T")
            .input("r", FLOATS, "T")
            .opt("b", FLOATS, "T")
            .opt("sequence_lens", &[DType::I32], "")
            .opt("initial_h", FLOATS, "T")
    };
    let attrs = |d: OpDef| {
        d.opt_attr("hidden_size", AttrKind::INT)
            .attr("direction", AttrKind::STRING, "forward")
            .choices(&["forward", "reverse", "bidirectional"])
            .opt_attr("activations", AttrKind::STRINGS)
            .opt_attr("activation_alpha", AttrKind::FLOATS)
            .opt_attr("activation_beta", AttrKind::FLOATS)
            .opt_attr("clip", AttrKind::FLOAT)
            .attr("layout", AttrKind::INT, 0i64)
            .range(0.0, 1.0)
            .attr("packed", AttrKind::BOOL, false)
    };
    vec![
        attrs(common("CommonRNN").output("y", FLOATS, "T").output("y_h", FLOATS, "T")),
        attrs(common("CommonGRU").output("y", FLOATS, "T").output("y_h", FLOATS, "T")).attr(
            "linear_before_reset",
            AttrKind::INT,
            0i64,
        ),
        attrs(
            common("CommonLSTM")
                .opt("initial_c", FLOATS, "T")
                .opt("p", FLOATS, "T")
                .output("y", FLOATS, "T")
                .output("y_h", FLOATS, "T")
                .output("y_c", FLOATS, "T"),
        )
        .attr("input_forget", AttrKind::INT, 0i64),
    ]
}
register_ops!(defs);
