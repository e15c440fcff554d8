//! `SkipLayerNormalization`, `SkipSimplifiedLayerNormalization`, `SimplifiedLayerNormalization`,
//! `EmbedLayerNormalization`: sums followed by a built-in normalisation.
use crate::declare::{ort_op, reads};
use crate::shared::{Outs, apply, cast, known_type, named, only, plus, scalar, size, unsqueezed};
use ge_plugin_api::Result;
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::map_op;
use ge_plugin_api::types::{DType, Dim, Shape, TensorDesc, ValueRef};

/// The types that a normalisation reads, computes with and gives.
#[derive(Clone, Copy)]
struct Types {
    /// The type to which inputs are converted; `None` if they have it.
    wide: Option<DType>,
    /// The type to which the result is converted; `None` if it has it.
    given: Option<DType>,
    /// Whether mean and inverse deviation are f64 and must become f32.
    long: bool,
}

impl Types {
    /// Those of an operator that adds values of input `i`'s type and normalises the sum. A sum of
    /// 16-bit numbers may be beyond their range, so it is formed in f32.
    fn of_sum(n: &ForeignNode, i: usize) -> Types {
        let own = known_type(n, i);
        let narrow = own.filter(|t| matches!(*t, DType::F16 | DType::BF16));
        Types { wide: narrow.map(|_| DType::F32), given: narrow, long: own == Some(DType::F64) }
    }
    /// A value in the type that is computed with.
    fn wide(self, b: &mut GraphBuilder<'_>, x: ValueRef) -> ValueRef {
        self.wide.map_or(x, |t| cast(b, x, t))
    }
    /// A value in the type that is given.
    fn given(self, b: &mut GraphBuilder<'_>, x: ValueRef) -> ValueRef {
        self.given.map_or(x, |t| cast(b, x, t))
    }
    /// The results of a normalisation: the first in the type that is given and under the foreign
    /// node's name, the statistics in f32.
    fn results(self, n: &ForeignNode, b: &mut GraphBuilder<'_>, out: &[ValueRef]) -> Vec<ValueRef> {
        let y = match self.given {
            Some(t) => b.node("Cast").name(&n.name).input(out[0]).attr("dst_type", t).build(),
            None => out[0],
        };
        let mut statistic = |v: &ValueRef| if self.long { cast(b, *v, DType::F32) } else { *v };
        let statistics: Vec<ValueRef> = out[1..].iter().map(&mut statistic).collect();
        [vec![y], statistics].concat()
    }
    /// The name of the node that normalises.
    fn name(self, n: &ForeignNode) -> &str {
        if self.given.is_some() { "" } else { &n.name }
    }
}

/// Makes the normalisation over the last axis; returns result, mean and inverse deviation.
fn layer(
    n: &ForeignNode,
    b: &mut GraphBuilder<'_>,
    types: Types,
    x: ValueRef,
    gamma: ValueRef,
    beta: Option<ValueRef>,
) -> Vec<ValueRef> {
    let (gamma, beta) = (types.wide(b, gamma), beta.map(|v| types.wide(b, v)));
    let out = b
        .node("LayerNormV3")
        .name(types.name(n))
        .input(x)
        .input(gamma)
        .opt_input(beta)
        .attr("begin_norm_axis", -1i64)
        .attr("begin_params_axis", -1i64)
        .attr("epsilon", n.float_or("epsilon", 1e-12))
        .build_n(3);
    types.results(n, b, &out)
}

/// The sum of input, residual and bias before a normalisation.
fn residual(n: &ForeignNode, b: &mut GraphBuilder<'_>, types: Types, bias: usize) -> Result<ValueRef> {
    let parts = [n.input(0)?, n.input(1)?].map(|x| types.wide(b, x));
    let bias = n.opt_input(bias).map(|x| types.wide(b, x));
    let sum = apply(b, "Add", &parts);
    Ok(plus(b, sum, bias))
}

/// Whether output `i` is used.
fn wanted(n: &ForeignNode, i: usize) -> bool {
    n.output_names.get(i).is_some_and(|o| !o.is_empty())
}

fn skip_layer(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let types = Types::of_sum(n, 0);
    let sum = residual(n, b, types, 4)?;
    let mut out = layer(n, b, types, sum, n.input(2)?, n.opt_input(3));
    out.push(if wanted(n, 3) { types.given(b, sum) } else { sum });
    Ok(out)
}
ort_op!("SkipLayerNormalization", 5, ["epsilon"], skip_layer);

/// Makes the division by the root mean square; returns result and inverse root. `epsilon` is the
/// operator's default.
fn root_mean_square(
    n: &ForeignNode,
    b: &mut GraphBuilder<'_>,
    types: Types,
    x: ValueRef,
    gamma: ValueRef,
    epsilon: f64,
) -> Vec<ValueRef> {
    let gamma = types.wide(b, gamma);
    let out = b
        .node("RmsNorm")
        .name(types.name(n))
        .input(x)
        .input(gamma)
        .attr("begin_norm_axis", n.int_or("axis", -1))
        .attr("epsilon", n.float_or("epsilon", epsilon))
        .build_n(2);
    types.results(n, b, &out)
}

/// Zeros in f32, as many as `x` has numbers.
fn zeros_like(b: &mut GraphBuilder<'_>, x: ValueRef) -> ValueRef {
    let shape = b.node("Shape").input(x).attr("dtype", DType::I64).build();
    let zero = scalar(b, "zero", 0f32);
    apply(b, "BroadcastTo", &[zero, shape])
}

fn skip_simplified(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let types = Types::of_sum(n, 0);
    let sum = residual(n, b, types, 3)?;
    let out = root_mean_square(n, b, types, sum, n.input(2)?, 1e-12);
    // No mean is subtracted; onnxruntime gives zeros.
    let mean = if wanted(n, 1) { zeros_like(b, out[1]) } else { ValueRef::ABSENT };
    let sum = if wanted(n, 3) { types.given(b, sum) } else { sum };
    Ok(vec![out[0], mean, out[1], sum])
}
ort_op!("SkipSimplifiedLayerNormalization", 4, ["epsilon"], skip_simplified);

/// The result has the type of the scale (input 1), the inverse root is f32.
fn simplified(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    only(n, "stash_type", 1)?;
    let (own, scale) = (known_type(n, 0), known_type(n, 1));
    let long = own == Some(DType::F64) || scale == Some(DType::F64);
    let mixed = own.zip(scale).is_some_and(|(x, scale)| x != scale);
    let types = match mixed {
        true => Types { wide: Some(if long { DType::F64 } else { DType::F32 }), given: scale, long },
        false => Types { wide: None, given: None, long },
    };
    let x = types.wide(b, n.input(0)?);
    Ok(root_mean_square(n, b, types, x, n.input(1)?, 1e-5))
}
ort_op!("SimplifiedLayerNormalization", 2, ["axis", "epsilon", "stash_type"], simplified);
// Exporters write this operator without a domain.
map_op!("onnx", "ai.onnx", "SimplifiedLayerNormalization", 1..=u32::MAX, |n, b| {
    reads(n, 2, &["axis", "epsilon", "stash_type"])?;
    simplified(n, b)
});

/// Rows of a table, by ids.
fn rows(b: &mut GraphBuilder<'_>, table: ValueRef, ids: ValueRef) -> ValueRef {
    let axis = scalar(b, "axis", 0i64);
    apply(b, "GatherV2", &[table, ids, axis])
}

/// The rows of a table of positions for `ids [batch, length]`: the first ones, as many as there are
/// ids in a row.
fn first_positions(n: &ForeignNode, b: &mut GraphBuilder<'_>, ids: ValueRef, table: ValueRef) -> Result<ValueRef> {
    if let (Some(length), Some(rows)) = (size(n, 0, 1), size(n, 3, 0))
        && length > rows
    {
        return Err(n.refuse(format!(
            "rows of {length} ids need as many positions, and input 3 `position_embedding` has {rows} rows"
        )));
    }
    let length = b.node("Shape").input(ids).attr("dtype", DType::I64).attr("start", 1i64).attr("end", 2i64).build();
    let count = b.node("Squeeze").input(length).attr("axis", vec![0i64]).build();
    let (zero, one) = (scalar(b, "first", 0i64), scalar(b, "step", 1i64));
    let numbers = apply(b, "Range", &[zero, count, one]);
    let first = rows(b, table, numbers);
    Ok(unsqueezed(b, first, &[0]))
}

/// Embeds words, positions and, if given, segments, adds them and normalises the sum. Output 1 is
/// the number of tokens of each row that the mask keeps (0 without a mask), whatever
/// `mask_index_type` says; output 2 is the sum before the normalisation.
fn embed(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let types = Types::of_sum(n, 2);
    let (ids, position) = (n.input(0)?, n.input(3)?);
    let words = rows(b, n.input(2)?, ids);
    let positions = match n.opt_input(8) {
        Some(p) => rows(b, position, p),
        None => first_positions(n, b, ids, position)?,
    };
    let parts = [words, positions].map(|x| types.wide(b, x));
    let mut sum = apply(b, "Add", &parts);
    if let (Some(segments), Some(table)) = (n.opt_input(1), n.opt_input(4)) {
        let segments = rows(b, table, segments);
        let segments = types.wide(b, segments);
        sum = apply(b, "Add", &[sum, segments]);
    }
    let y = layer(n, b, types, sum, n.input(5)?, n.opt_input(6)).remove(0);
    let mut out = vec![y];
    if wanted(n, 1) || wanted(n, 2) {
        let mask = match n.opt_input(7) {
            Some(m) => m,
            None => apply(b, "Sub", &[ids, ids]),
        };
        let one = scalar(b, "one", 1i32);
        let mask = cast(b, mask, DType::I32);
        let kept = apply(b, "Equal", &[mask, one]);
        let (kept, axes) = (cast(b, kept, DType::I32), b.ints("tokens", &[1]));
        // A following attention recognises row lengths by their rank.
        let lengths = TensorDesc::new(DType::I32, Shape::new([Dim::UNKNOWN]));
        let counted = b.node("ReduceSum").inputs(&[kept, axes]).attr("keep_dims", false).output(lengths);
        out.push(counted.build());
        out.push(types.given(b, sum));
    }
    Ok(out)
}
ort_op!("EmbedLayerNormalization", 9, ["epsilon", "mask_index_type"], embed);

/// Adds a bias over channels, then an image's residual: `BiasAdd(x, bias, skip)`.
fn bias_add(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let sum = apply(b, "Add", &[n.input(0)?, n.input(1)?]);
    Ok(vec![named(n, b, "Add", &[sum, n.input(2)?])])
}
ort_op!("BiasAdd", 3, [], bias_add);

#[cfg(test)]
mod tests {
    use super::*;
    use ge_plugin_api::patch::Edit;
    use ge_plugin_api::types::NodeId;

    #[test]
    fn each_operator_has_its_own_default_epsilon() {
        let epsilon = |map: fn(&ForeignNode, &mut GraphBuilder<'_>) -> Outs| {
            let inputs: Vec<ValueRef> = (1..4).map(|i| ValueRef::new(NodeId(i), 0)).collect();
            let n = ForeignNode { name: "y".into(), inputs: inputs.into(), ..ForeignNode::default() };
            let mut b = GraphBuilder::new(None);
            map(&n, &mut b).expect("maps");
            b.into_patch().edits().iter().find_map(|e| match e {
                Edit::AddNode(n) => n.attrs.float("epsilon"),
                _ => None,
            })
        };
        assert_eq!(epsilon(skip_layer), Some(1e-12));
        assert_eq!(epsilon(skip_simplified), Some(1e-12));
        assert_eq!(epsilon(simplified), Some(1e-5));
    }
}
