//! `MergeInputMemcpyPass`: copies the inputs of a `Merge`, so that the paths to it do not share
//! memory.
//!
//! Before: `%m = Merge(%a, %b)`   After: `%ca = MemcpyAsync(%a)  %cb = MemcpyAsync(%b)  %m =
//! Merge(%ca, %cb)`
//! When: the node has two or more inputs.
//! Refuses: inputs that are copies already; a single path, which `MergePass` removes.
//! Keeps: everything but the edges into the `Merge`.
//! Source: 003 §2.2, facts 4.4 (1_1, 1). Cost: the inputs of each `Merge`.
use crate::error::Result;
use crate::pass::declare::{At, node_pass};
use crate::pass::{PassContext, Rewriter};
use ge_ir::ValueRef;
use ge_plugin_api::types::AttrMap;

node_pass!(
    MergeInputMemcpyPass,
    O0,
    ["Merge", "RefMerge"],
    "`Merge(a, b)` -> `Merge(MemcpyAsync(a), MemcpyAsync(b))`",
    needs "two or more inputs",
    keeps "everything but the edges into the `Merge`",
    visit,
);

fn visit(cx: &mut PassContext<'_>, at: &At<'_>, r: &mut Rewriter<'_>) -> Result<()> {
    let n = at.n;
    if n.inputs().len() < 2 {
        cx.refuse(n.name(), "one way leads to it");
        return Ok(());
    }
    for (i, v) in n.inputs().iter().enumerate() {
        let Some(p) = at.producer(i).filter(|p| p.op() != "MemcpyAsync") else { continue };
        let mut attrs = AttrMap::default();
        attrs.set("_inserted_by", "MergeInputMemcpyPass");
        let desc = at.g.desc(*v).cloned().unwrap_or_default();
        let c = r.patch.add("MemcpyAsync", &format!("{}_{}_copy", n.name(), p.name()), &[*v], vec![desc], attrs);
        r.patch.set_input(n.id(), i as u32, ValueRef::new(c, 0));
        r.count();
    }
    Ok(())
}
