//! Control flow. Subgraphs are attributes. The host infers these operators (DESIGN 3.2); the
//! prototypes declare their inputs, outputs and attributes.
//!
//! * `If(cond, input...) {then_branch, else_branch}`;
//!   `Case(branch_index, input...) {branches = [@a, @b]}`.
//! * `While(input...) {cond, body}`: `cond` computes one bool from the inputs, `body` the next
//!   inputs; the outputs are the final values.
//! * `For(start, limit, delta, input...) {body}`; `PartitionedCall(input...) {f}`.
//! * ONNX's `Loop` and similar nodes are imported as `While`. `StatelessIf`, `StatelessWhile` and
//!   `StatelessCase` mean the same as the operators without that prefix.
use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::ops::{AttrKind, InferCtx, OpDef};
use ge_plugin_api::register_ops;
use ge_plugin_api::types::TensorDesc;
use ge_plugin_api::types::dtype::{ANY, INDEX};

/// The outputs that the node already states; the host refines them from the subgraphs.
fn stated(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    Ok(c.node.outputs().to_vec())
}

fn defs() -> Vec<OpDef> {
    let io = |d: OpDef| d.dynamic("input", ANY, "").dynamic_output("output", ANY, "");
    let mut v = Vec::new();
    for p in ["", "Stateless"] {
        v.push(
            io(OpDef::new(&format!("{p}If"), stated).input("cond", ANY, ""))
                .subgraph("then_branch")
                .subgraph("else_branch"),
        );
        v.push(
            io(OpDef::new(&format!("{p}Case"), stated).input("branch_index", INDEX, ""))
                .required_attr("branches", AttrKind::ANY),
        );
        v.push(io(OpDef::new(&format!("{p}While"), stated)).subgraph("cond").subgraph("body"));
    }
    v.push(
        io(OpDef::new("For", stated).input("start", INDEX, "").input("limit", INDEX, "").input("delta", INDEX, ""))
            .subgraph("body"),
    );
    v.push(io(OpDef::new("PartitionedCall", stated)).subgraph("f"));
    v
}
register_ops!(defs);
