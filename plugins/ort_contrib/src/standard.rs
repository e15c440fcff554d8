//! Operators that are those of `ai.onnx` under this domain, from before the standard had them:
//! `ExpandDims`, `GatherND`, `GridSample`, `Pad`, `Range`, `Trilu`, `Unique`. The standard's own
//! mapping makes their nodes.
use crate::declare::ort_op;
use crate::shared::{Outs, apply, known_type, real, reshaped, scalar};
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::services::host_or_none;
use ge_plugin_api::types::{TensorDesc, ValueRef};

/// Maps a node as the operator `op` of `ai.onnx` at an operator set version.
fn standard(n: &ForeignNode, b: &mut GraphBuilder<'_>, op: &str, version: u32) -> Outs {
    let all = host_or_none().map(|h| h.mappings("onnx")).unwrap_or_default();
    for m in all {
        let i = m.info()?;
        if i.op == op && i.domain == "ai.onnx" && (i.since..=i.until).contains(&version) {
            let node = ForeignNode { op: op.into(), domain: "ai.onnx".into(), version, ..n.clone() };
            return m.map(&node, b);
        }
    }
    Err(n.refuse(format!("no enabled plugin maps {op} of ai.onnx {version}, which it equals")))
}

/// The node with other inputs. What was known of them is known no more.
fn with_inputs(n: &ForeignNode, inputs: Vec<ValueRef>) -> ForeignNode {
    let unknown: Vec<TensorDesc> = inputs.iter().map(|_| TensorDesc::unknown()).collect();
    ForeignNode {
        input_descs: unknown.into(),
        constants: Default::default(),
        input_names: Default::default(),
        inputs: inputs.into(),
        ..n.clone()
    }
}

ort_op!("GatherND", 2, [], |n, b| standard(n, b, "GatherND", 12));
ort_op!("GridSample", 2, ["align_corners", "mode", "padding_mode"], |n, b| standard(n, b, "GridSample", 16));
ort_op!("Trilu", 2, ["upper"], |n, b| standard(n, b, "Trilu", 14));

/// Adds an axis at a place that is a constant.
fn expand_dims(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let axis = n.constant(1).and_then(|t| t.to_i64(1)).and_then(|v| v.first().copied());
    let axis = axis.ok_or_else(|| n.refuse("input 1 `axis` must be one constant number"))?;
    Ok(vec![b.node("Unsqueeze").name(&n.name).input(n.input(0)?).attr("axes", vec![axis]).build()])
}
ort_op!("ExpandDims", 2, [], expand_dims);

/// The pads may be one row of a matrix, and the value is a tensor with one element.
fn pad(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let pads = reshaped(b, n.input(1)?, "pads", &[-1]);
    let value = n.opt_input(2).map(|v| reshaped(b, v, "value", &[]));
    let inputs = [n.input(0)?, pads].into_iter().chain(value).collect();
    standard(&with_inputs(n, inputs), b, "Pad", 13)
}
ort_op!("Pad", 3, ["mode"], pad);

/// Start, limit and step may be tensors with one element; a step that is left out is 1.
fn range(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let start = n.input(0)?;
    let step = match (n.opt_input(2), known_type(n, 0)) {
        (Some(step), _) => step,
        (None, Some(t)) if t.is_float() => real(b, "step", 1.0, t),
        (None, _) => {
            let one = scalar(b, "one", 1i64);
            apply(b, "CastLike", &[one, start])
        }
    };
    let ends: Vec<ValueRef> = [start, n.input(1)?, step].into_iter().map(|v| reshaped(b, v, "scalar", &[])).collect();
    standard(&with_inputs(n, ends), b, "Range", 11)
}
ort_op!("Range", 3, [], range);

/// The distinct numbers in the order in which they first occur, where each number of the input is
/// among them, and how often each occurs.
fn unique(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let mut node = n.clone();
    node.attrs.set("sorted", 0i64);
    node.output_names = ["values", "first", "places", "counts"].into_iter().map(Into::into).collect();
    match standard(&node, b, "Unique", 11)?[..] {
        [values, _, places, counts] => Ok(vec![values, places, counts]),
        _ => Err(n.refuse("Unique of ai.onnx gave no four outputs")),
    }
}
ort_op!("Unique", 1, [], unique);
