//! `SameTransdataBreadthFusionPass`: branches that change the layout of one value in the same way
//! share the change; casts then come after it.
//!
//! Before: `%a = Cast(%x)  %b = TransData(%a)  %c = TransData(%x)` to one format
//! After: `%c = TransData(%x)  %b = Cast(%c)`
//! When: a `TransData` reads a cast of a value that another `TransData` converts to the same
//! format, and both types have the same block size.
//! Refuses: casts with other readers, control edges, types with another block size.
//! Keeps: names of the `TransData` nodes; the value that their readers see.
//! Source: 003 §2.2, facts 4.4 (1_1, 8). Cost: the readers of each value once.
use crate::error::Result;
use crate::pass::declare::graph_pass;
use crate::pass::{PassContext, Rewriter};
use ge_ir::{Key, Model, Node};
use ge_plugin_api::patch::Edit;
use ge_plugin_api::types::format::c0;

graph_pass!(
    SameTransdataBreadthFusionPass,
    O3,
    "`TransData(Cast(x))` beside `TransData(x)` -> `Cast(TransData(x))`",
    needs "one format, one block size, a cast that nobody else reads",
    keeps "names of the `TransData` nodes",
    run,
);

fn plain(n: &Node) -> bool {
    n.controls().is_empty() && n.control_users().is_empty()
}

fn run(cx: &mut PassContext<'_>, model: &Model, gi: usize) -> Result<Vec<Edit>> {
    let g = &model.graphs()[gi];
    let mut r = Rewriter::new(g);
    for t in g.nodes().filter(|n| n.op() == "TransData") {
        cx.visits += 1;
        let (Some(x), Some(own)) = (t.input(0), t.outputs().first()) else { continue };
        for u in g.users(x).iter().filter(|u| u.node != t.id()) {
            let Some(cast) = g.get(u.node).filter(|c| c.op() == "Cast" && !r.is_gone(c.id())) else { continue };
            let sole = match cast.uses(0) {
                [u] => g.get(u.node).filter(|b| b.op() == "TransData"),
                _ => None,
            };
            let Some(b) = sole else {
                cx.refuse(cast.name(), "others read it, or no TransData");
                continue;
            };
            let Some(end) = b.outputs().first().filter(|d| d.format == own.format) else { continue };
            if !plain(cast) || !plain(b) {
                cx.refuse(b.name(), "control edges hang on it or on the cast before it");
                continue;
            }
            if c0(end.dtype) != c0(own.dtype) || end.shape != own.shape {
                cx.refuse(b.name(), format!("{} lies in blocks of another size than {}", end.dtype, own.dtype));
                continue;
            }
            r.patch.push(Edit::SetOp(b.id(), Key::new("Cast")));
            r.patch.push(Edit::SetInputs(b.id(), vec![t.value(0)].into()));
            for key in ["src_format", "dst_format", "groups"] {
                if b.attr(key).is_some() {
                    r.patch.push(Edit::RemoveAttr(b.id(), Key::new(key)));
                }
            }
            r.patch.set_attr(b.id(), "dst_type", end.dtype);
            r.remove(cast.id());
        }
    }
    Ok(r.finish(cx))
}
