//! `InlineSubgraphPass`: inlines a function into the graph that calls it.
//!
//! Before: `%y = PartitionedCall(%x) {f = @f}`   After: the nodes of `@f` over `%x`
//! When: the call has no mark that keeps its graph separate.
//! Refuses: calls that a partition has made or that are planned separately
//! (`_dynamic_shape_partitioned`, `_ffts_plus_sub_graph`, `_stage_level`, `_keep_subgraph`);
//! control edges at the borders of the graph.
//! Keeps: names of the graph's nodes, the order of control edges.
//! Source: 003 §1.3, facts 4.2 (unfolding of subgraphs). Cost: the nodes of the graph.
use crate::error::Result;
use crate::pass::declare::{At, node_pass};
use crate::pass::inline::inline;
use crate::pass::{PassContext, Rewriter};
use ge_ir::AttrValue;

node_pass!(
    InlineSubgraphPass,
    O1,
    ["PartitionedCall", "StatefulPartitionedCall"],
    "`PartitionedCall(x) {f}` -> the nodes of `f`",
    needs "no mark that keeps the graph apart",
    keeps "names of the graph's nodes, the order of control edges",
    visit,
);

const APART: &[&str] = &["_dynamic_shape_partitioned", "_ffts_plus_sub_graph", "_stage_level", "_keep_subgraph"];

fn visit(cx: &mut PassContext<'_>, at: &At<'_>, r: &mut Rewriter<'_>) -> Result<()> {
    let n = at.n;
    let Some(f) = n.attr("f").and_then(|v| if let AttrValue::Graph(g) = v { at.model.graph(g) } else { None }) else {
        return Ok(());
    };
    if let Some(mark) = APART.iter().find(|k| n.attr(**k).is_some() || f.attrs().get(**k).is_some()) {
        cx.refuse(n.name(), format!("`{mark}` keeps its graph apart"));
        return Ok(());
    }
    if let Err(why) = inline(r, n, f, n.inputs()) {
        cx.refuse(n.name(), why);
    }
    Ok(())
}
