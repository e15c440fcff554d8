//! `CDist`: the distances between the rows of two matrices.
use crate::declare::ort_op;
use crate::shared::{Outs, apply};
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};

/// |a|² + |b|² - 2ab, or its root.
fn distances(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let root = match n.str_or("metric", "sqeuclidean") {
        "sqeuclidean" => false,
        "euclidean" => true,
        other => return Err(n.refuse(format!("metric {other} is not computed; euclidean and sqeuclidean are"))),
    };
    let rows = [n.input(0)?, n.input(1)?];
    let [left, right] = rows.map(|x| {
        let (square, axes) = (apply(b, "Mul", &[x, x]), b.ints("axes", &[1]));
        b.node("ReduceSum").input(square).input(axes).attr("keep_dims", true).build()
    });
    let right = b.node("TransposeD").input(right).attr("perm", vec![1i64, 0]).build();
    let product = b.node("BatchMatMulV2").inputs(&rows).attr("adj_x2", true).build();
    let twice = b.node("Muls").input(product).attr("value", 2.0).build();
    let squares = apply(b, "Add", &[left, right]);
    let squares = apply(b, "Sub", &[squares, twice]);
    // Rounding can make the distance of equal rows negative.
    let d = b.node("Relu").name(if root { "" } else { n.name.as_str() }).input(squares).build();
    Ok(vec![if root { b.node("Sqrt").name(&n.name).input(d).build() } else { d }])
}
ort_op!("CDist", 2, ["metric"], distances);
