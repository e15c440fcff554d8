//! `SkipLayerNormalization`, `SkipSimplifiedLayerNormalization`, `SimplifiedLayerNormalization`,
//! `EmbedLayerNormalization`: sums followed by a built-in normalisation.
use crate::shared::{Outs, apply, cast, named, only, plus, scalar, unsqueezed};
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::map_op;
use ge_plugin_api::types::{DType, Dim, Shape, TensorDesc, ValueRef};

/// Makes the normalisation over the last axis under the foreign node's name; returns result, mean
/// and inverse deviation.
fn layer(
    n: &ForeignNode,
    b: &mut GraphBuilder<'_>,
    x: ValueRef,
    gamma: ValueRef,
    beta: Option<ValueRef>,
) -> Vec<ValueRef> {
    b.node("LayerNormV3")
        .name(&n.name)
        .input(x)
        .input(gamma)
        .opt_input(beta)
        .attr("begin_norm_axis", -1i64)
        .attr("begin_params_axis", -1i64)
        .attr("epsilon", n.float_or("epsilon", 1e-12))
        .build_n(3)
}

/// The sum of input, residual and bias before a normalisation.
fn residual(n: &ForeignNode, b: &mut GraphBuilder<'_>, bias: usize) -> ge_plugin_api::Result<ValueRef> {
    let sum = apply(b, "Add", &[n.input(0)?, n.input(1)?]);
    Ok(plus(b, sum, n.opt_input(bias)))
}

fn skip_layer(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let sum = residual(n, b, 4)?;
    let mut out = layer(n, b, sum, n.input(2)?, n.opt_input(3));
    out.push(sum);
    Ok(out)
}
map_op!("onnx", "com.microsoft", "SkipLayerNormalization", 1..=u32::MAX, skip_layer);

/// Makes the division by the root mean square; `epsilon` is the operator's default.
fn root_mean_square(
    n: &ForeignNode,
    b: &mut GraphBuilder<'_>,
    x: ValueRef,
    gamma: ValueRef,
    epsilon: f64,
) -> Vec<ValueRef> {
    b.node("RmsNorm")
        .name(&n.name)
        .input(x)
        .input(gamma)
        .attr("begin_norm_axis", n.int_or("axis", -1))
        .attr("epsilon", n.float_or("epsilon", epsilon))
        .build_n(2)
}

fn skip_simplified(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    if n.output_names.iter().skip(1).take(2).any(|o| !o.is_empty()) {
        return Err(n.refuse("outputs 1 and 2 (mean, inverse deviation) are not computed"));
    }
    let sum = residual(n, b, 3)?;
    let y = root_mean_square(n, b, sum, n.input(2)?, 1e-12).remove(0);
    Ok(vec![y, ValueRef::ABSENT, ValueRef::ABSENT, sum])
}
map_op!("onnx", "com.microsoft", "SkipSimplifiedLayerNormalization", 1..=u32::MAX, skip_simplified);

fn simplified(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    Ok(root_mean_square(n, b, n.input(0)?, n.input(1)?, 1e-5))
}
// Exporters write this operator without a domain.
map_op!("onnx", "ai.onnx", "SimplifiedLayerNormalization", 1..=u32::MAX, simplified);
map_op!("onnx", "com.microsoft", "SimplifiedLayerNormalization", 1..=u32::MAX, simplified);

/// Rows of a table, by ids.
fn rows(b: &mut GraphBuilder<'_>, table: ValueRef, ids: ValueRef) -> ValueRef {
    let axis = scalar(b, "axis", 0i64);
    apply(b, "GatherV2", &[table, ids, axis])
}

/// Embeds words, positions and, if given, segments, adds them and normalises the sum. Output 1 is
/// the number of tokens of each row that the mask keeps (0 without a mask); output 2 is the sum
/// before the normalisation.
fn embed(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    only(n, "mask_index_type", 0)?;
    let (ids, position) = (n.input(0)?, n.input(3)?);
    let words = rows(b, n.input(2)?, ids);
    let positions = match n.opt_input(8) {
        Some(p) => rows(b, position, p),
        None => {
            // The first rows of the table, as many as there are ids in a row.
            let length =
                b.node("Shape").input(ids).attr("dtype", DType::I64).attr("start", 1i64).attr("end", 2i64).build();
            let (begin, axes) = (b.ints("begin", &[0]), b.ints("axes", &[0]));
            let first = apply(b, "StridedSliceV2", &[position, begin, length, axes]);
            unsqueezed(b, first, &[0])
        }
    };
    let mut sum = apply(b, "Add", &[words, positions]);
    if let (Some(segments), Some(table)) = (n.opt_input(1), n.opt_input(4)) {
        let segments = rows(b, table, segments);
        sum = apply(b, "Add", &[sum, segments]);
    }
    let y = layer(n, b, sum, n.input(5)?, n.opt_input(6)).remove(0);
    let wanted = |k: usize| n.output_names.get(k).is_some_and(|o| !o.is_empty());
    let mut out = vec![y];
    if wanted(1) || wanted(2) {
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
        out.push(sum);
    }
    Ok(out)
}
map_op!("onnx", "com.microsoft", "EmbedLayerNormalization", 1..=u32::MAX, embed);

/// Adds a bias over channels, then an image's residual: `BiasAdd(x, bias, skip)`.
fn bias_add(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let sum = apply(b, "Add", &[n.input(0)?, n.input(1)?]);
    Ok(vec![named(n, b, "Add", &[sum, n.input(2)?])])
}
map_op!("onnx", "com.microsoft", "BiasAdd", 1..=u32::MAX, bias_add);

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
