//! Memory conflicts. in: the optimised graph, out: the same with an `Identity` wherever two memory rules meet that one place
//! cannot keep (003 `MemConflictProc`, facts 2.10).
use crate::error::{CompileError, Result};
use ge_ir::{Model, NodeId, ValueRef};
use ge_plugin_api::patch::Patch;
use ge_plugin_api::types::AttrMap;

/// A graph output must have memory of its own: one that is an input, a constant, a view of one, or given out twice is copied.
pub fn run(model: &mut Model, views: &dyn Fn(&ge_ir::Node) -> bool) -> Result<()> {
    let g = model.root();
    let Some(out) = g.net_output() else { return Ok(()) };
    let out_id = out.id();
    let mut p = Patch::starting_at(g.next_id());
    let mut given: Vec<ValueRef> = Vec::new();
    for (i, &v) in out.inputs().iter().enumerate() {
        let Some(source) = root_of(model, v, views) else { continue };
        let Some(n) = g.get(source.node) else { continue };
        let own =
            !matches!(n.op(), "Data" | "RefData" | "AippData" | "Const" | "Constant" | "FileConstant" | "Variable");
        if own && !given.contains(&source) {
            given.push(source);
            continue;
        }
        let desc = g.desc(v).cloned().unwrap_or_default();
        let name = format!("{}_output_{i}_copy", n.name());
        let mut attrs = AttrMap::default();
        attrs.set("_inserted_by", "MemConflictProc");
        let id = p.add("Identity", &name, &[v], vec![ge_ir::TensorDesc { attrs: AttrMap::default(), ..desc }], attrs);
        p.set_input(out_id, i as u32, ValueRef::new(id, 0));
    }
    if p.is_empty() {
        return Ok(());
    }
    model
        .apply(0, p.into_edits().into())
        .map_err(|source| CompileError::Patch { who: "MemConflictProc".into(), source })?;
    model.compact();
    Ok(())
}

/// The value whose memory a value shares through views (same graph).
pub fn root_of(model: &Model, mut v: ValueRef, views: &dyn Fn(&ge_ir::Node) -> bool) -> Option<ValueRef> {
    let g = model.root();
    for _ in 0..=g.id_bound() {
        let n = g.get(v.node)?;
        match n.input(0) {
            Some(up) if v.output == 0 && views(n) => v = up,
            _ => return Some(v),
        }
    }
    None
}

/// The first node id that a view's chain starts from (for messages).
pub fn root_node(model: &Model, v: ValueRef, views: &dyn Fn(&ge_ir::Node) -> bool) -> Option<NodeId> {
    root_of(model, v, views).map(|v| v.node)
}
