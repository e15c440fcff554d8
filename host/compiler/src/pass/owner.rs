//! An engine's graph optimizer may change only the nodes that the engine takes. Before `place`
//! these are the nodes of the types in its op store, after it the nodes placed on it. It may
//! replace another engine's node only by a node that it takes itself.
use crate::toolbox::{EngineEntry, Toolbox};
use ge_ir::Graph;
use ge_plugin_api::diagnostic::{Diagnostic, Error};
use ge_plugin_api::engine::Hook;
use ge_plugin_api::patch::Edit;
use ge_plugin_api::types::{Key, NodeId};
use std::collections::HashMap;

/// Refuses edits that change nodes of other engines.
///
/// # Errors
/// Fails at the first such edit; the error names engine, plugin, node and hook (GE-E0521, exit 5).
pub(super) fn check(e: &EngineEntry, hook: Hook, toolbox: &Toolbox, g: &Graph, edits: &[Edit]) -> Result<(), Error> {
    if edits.is_empty() {
        return Ok(());
    }
    let types = e.object.op_types()?;
    let takes = |op: Key| types.iter().any(|t| t == "*" || *t == op.as_str());
    let own = |id: NodeId| {
        g.get(id).is_none_or(|n| match n.attrs().str("_engine") {
            Some(engine) => engine == e.info.name.as_str(),
            None => takes(n.op_key()),
        })
    };
    let mut added: HashMap<NodeId, Key> = HashMap::new();
    for edit in edits {
        let refused = match edit {
            // The edits that follow are for another graph, whose nodes cannot be looked up here.
            Edit::InGraph(name) if name.as_str() != g.name() => return Ok(()),
            Edit::AddNode(n) => {
                added.insert(n.id, n.op);
                None
            }
            Edit::SetOp(id, op) if !own(*id) => Some((*id, format!("makes it a {}", op.as_str()))),
            Edit::SetOp(id, op) if g.get(*id).is_some() && !takes(*op) => {
                Some((*id, format!("makes it a {}, which the engine does not take", op.as_str())))
            }
            Edit::SetOutput(id, ..) | Edit::SetOutputs(id, _) if !own(*id) => Some((*id, "changes its outputs".into())),
            Edit::SetAttr(id, ge_plugin_api::types::Attr { key, .. }) | Edit::RemoveAttr(id, key) if !own(*id) => {
                let proto = g.get(*id).and_then(|n| toolbox.op(n.op_key()));
                let means = proto.is_some_and(|o| o.proto.attrs.iter().any(|a| a.name.as_str() == key.as_str()));
                means.then(|| (*id, format!("changes its attribute `{}`", key.as_str())))
            }
            Edit::ReplaceUses(from, to) if !own(from.node) => {
                let by = added.get(&to.node).filter(|op| !takes(**op));
                by.map(|op| (from.node, format!("puts a {} in its place, which the engine does not take", op.as_str())))
            }
            _ => None,
        };
        if let Some((id, what)) = refused {
            let n = g.get(id);
            let (name, op) = n.map_or(("", ""), |n| (n.name(), n.op()));
            let whose = n.and_then(|n| n.attrs().str("_engine")).map_or(String::new(), |e| format!(" of engine {e}"));
            return Err(Diagnostic::error(format!(
                "engine {} of {} at {hook} changes `{name}` ({op}){whose}, which is not its own: it {what}",
                e.info.name,
                e.object.owner()
            ))
            .node(name, op)
            .help("the engine's author: change nodes that the op store takes, before they are placed, or that are placed on the engine; a rewrite of the whole graph is a pass")
            .raise(ge_codes::PLUGIN_EDIT));
        }
    }
    Ok(())
}
