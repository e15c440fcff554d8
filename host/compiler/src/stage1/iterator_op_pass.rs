//! `IteratorOpPass`: copies the value of an iterator before the next element replaces it.
//!
//! Before: `%d = GetNext() ...`   After: `%c = MemcpyAsync(%d)`, reads of `%d` read `%c`
//! When: an output of `GetNext` has a reader other than a copy.
//! Refuses: outputs without readers.
//! Keeps: names and order; control edges stay with the iterator.
//! Source: facts 4.4 (1_3). Cost: the readers of each iterator.
use crate::error::Result;
use crate::pass::declare::{At, node_pass};
use crate::pass::{PassContext, Rewriter};
use ge_ir::ValueRef;
use ge_plugin_api::types::AttrMap;

node_pass!(
    IteratorOpPass,
    O1,
    ["GetNext", "IteratorGetNext", "DynamicGetNext"],
    "`GetNext()` -> `MemcpyAsync(GetNext())`",
    needs "an output that others than a copy read",
    keeps "names and order",
    visit,
);

fn visit(cx: &mut PassContext<'_>, at: &At<'_>, r: &mut Rewriter<'_>) -> Result<()> {
    let n = at.n;
    for (k, d) in n.outputs().iter().enumerate() {
        let readers = n.uses(k);
        if readers.is_empty() {
            cx.refuse(n.name(), format!("nobody reads output {k}"));
            continue;
        }
        if readers.iter().all(|u| at.g.get(u.node).is_some_and(|p| p.op() == "MemcpyAsync")) {
            continue;
        }
        let mut attrs = AttrMap::default();
        attrs.set("_inserted_by", "IteratorOpPass");
        let name = format!("{}_{k}_copy", n.name());
        let c = r.patch.add("MemcpyAsync", &name, &[n.value(k as u32)], vec![d.clone()], attrs);
        for u in readers {
            r.patch.set_input(u.node, u.input, ValueRef::new(c, 0));
        }
        r.count();
    }
    Ok(())
}
