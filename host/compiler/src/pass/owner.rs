//! An engine's graph optimizer may change only the nodes that the engine takes. Before `place`
//! these are the nodes of the types in its op store, after it the nodes placed on it. It may
//! replace another engine's node only by a node that it takes itself.
use crate::toolbox::{EngineEntry, Toolbox};
use ge_ir::{Graph, Model, Node};
use ge_plugin_api::diagnostic::{Diagnostic, Error};
use ge_plugin_api::engine::Hook;
use ge_plugin_api::patch::Edit;
use ge_plugin_api::types::{Attr, Key, NodeId};
use std::collections::HashMap;

/// Refuses edits that change nodes of other engines. `gi` is the index of the graph that the first
/// edits are for.
///
/// # Errors
/// Fails at the first such edit; the error names engine, plugin, node and hook (GE-E0521, exit 5).
pub(super) fn check(
    e: &EngineEntry,
    hook: Hook,
    toolbox: &Toolbox,
    model: &Model,
    gi: usize,
    edits: &[Edit],
) -> Result<(), Error> {
    if edits.is_empty() {
        return Ok(());
    }
    let types = e.object.op_types()?;
    let rule = Rule {
        engine: e.info.name.as_str(),
        takes: &|op| types.iter().any(|t| t == "*" || *t == op.as_str()),
        means: &|n, key| {
            toolbox.op(n.op_key()).is_some_and(|o| o.proto.attrs.iter().any(|a| a.name.as_str() == key.as_str()))
        },
    };
    let Some((n, what)) = rule.first_refused(model, gi, edits) else { return Ok(()) };
    let whose = n.attrs().str("_engine").map_or(String::new(), |e| format!(" of engine {e}"));
    Err(Diagnostic::error(format!(
        "engine {} of {} at {hook} changes `{}` ({}){whose}, which is not its own: it {what}",
        e.info.name,
        e.object.owner(),
        n.name(),
        n.op()
    ))
    .node(n.name(), n.op())
    .help("the engine's author: change nodes that the op store takes, before they are placed, or that are placed on the engine; a rewrite of the whole graph is a pass")
    .raise(ge_codes::PLUGIN_EDIT))
}

/// What decides whether an engine may make an edit.
struct Rule<'r> {
    engine: &'r str,
    /// Whether the engine takes nodes of an operator type.
    takes: &'r dyn Fn(Key) -> bool,
    /// Whether an attribute belongs to a node's prototype.
    means: &'r dyn Fn(&Node, Key) -> bool,
}

impl Rule<'_> {
    /// The first node that an edit must not change, and what the edit does.
    fn first_refused<'m>(&self, model: &'m Model, gi: usize, edits: &[Edit]) -> Option<(&'m Node, String)> {
        let mut graph = model.graphs().get(gi);
        // Types of the nodes that the edits add, by graph (`None`: a new graph) and id.
        let mut added: HashMap<(Option<&str>, NodeId), Key> = HashMap::new();
        for edit in edits {
            match edit {
                Edit::InGraph(name) => graph = model.graph(name.as_str()),
                Edit::AddNode(n) => {
                    added.insert((graph.map(Graph::name), n.id), n.op);
                }
                _ => {
                    let new = |id: NodeId| added.get(&(graph.map(Graph::name), id)).copied();
                    let found = graph.and_then(|g| self.refused(g, edit, &new));
                    if found.is_some() {
                        return found;
                    }
                }
            }
        }
        None
    }

    /// The node of a graph that an edit must not change, and what the edit does.
    fn refused<'m>(
        &self,
        g: &'m Graph,
        edit: &Edit,
        added: &dyn Fn(NodeId) -> Option<Key>,
    ) -> Option<(&'m Node, String)> {
        let of_others = |id: NodeId| g.get(id).filter(|n| !self.owns(n));
        let foreign = |op: Key| !(self.takes)(op);
        match edit {
            Edit::SetOp(id, op) => match of_others(*id) {
                Some(n) => Some((n, format!("makes it a {}", op.as_str()))),
                None => {
                    let n = g.get(*id).filter(|_| foreign(*op))?;
                    Some((n, format!("makes it a {}, which the engine does not take", op.as_str())))
                }
            },
            Edit::SetOutput(id, ..) | Edit::SetOutputs(id, _) => Some((of_others(*id)?, "changes its outputs".into())),
            Edit::SetAttr(id, Attr { key, .. }) | Edit::RemoveAttr(id, key) => {
                let n = of_others(*id).filter(|n| (self.means)(n, *key))?;
                Some((n, format!("changes its attribute `{}`", key.as_str())))
            }
            Edit::ReplaceUses(from, to) => {
                let n = of_others(from.node)?;
                let op = added(to.node).filter(|op| foreign(*op))?;
                Some((n, format!("puts a {} in its place, which the engine does not take", op.as_str())))
            }
            _ => None,
        }
    }

    /// Whether a node is the engine's own.
    fn owns(&self, n: &Node) -> bool {
        match n.attrs().str("_engine") {
            Some(engine) => engine == self.engine,
            None => (self.takes)(n.op_key()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ge_plugin_api::patch::NewNode;
    use ge_plugin_api::types::ValueRef;

    const TEXT: &str = "graph @main(%x: f32[4]) {
  %r = Relu(%x) : f32[4]
  %c = PartitionedCall(%r) {f = @sub} : f32[4]
  return %c
}
graph @sub(%x: f32[4]) {
  %e = Exp(%x) : f32[4]
  return %e
}";

    fn model() -> Model {
        ge_ir::text::parse(TEXT, "m.ge", &ge_ir::text::NoFiles).expect("a model")
    }
    fn refused(edits: &[Edit]) -> Option<String> {
        let model = model();
        let rule = Rule { engine: "Acme", takes: &|op| op.as_str() == "Relu", means: &|_, _| true };
        rule.first_refused(&model, 0, edits).map(|(n, what)| format!("`{}`: {what}", n.name()))
    }
    fn into(graph: &str) -> Edit {
        Edit::InGraph(graph.into())
    }

    /// Edits of the engine's graph are checked after edits of other graphs too, and those of other
    /// graphs by the nodes of those graphs.
    #[test]
    fn edits_of_all_graphs_are_checked() {
        let model = model();
        let id = |graph: usize, op: &str| {
            let g = &model.graphs()[graph];
            *g.order().iter().find(|id| g.get(**id).is_some_and(|n| n.op() == op)).expect("a node")
        };
        let (relu, call, exp) = (id(0, "Relu"), id(0, "PartitionedCall"), id(1, "Exp"));
        let neg = |id: NodeId| Edit::SetOp(id, Key::new("Neg"));
        let same = |id: NodeId| Edit::SetOp(id, Key::new("Relu"));
        let own = |id: NodeId| Edit::SetOutputs(id, Default::default());
        assert_eq!(refused(&[own(relu), into("sub"), into("new"), own(exp), into("main"), own(relu)]), None);
        let found = refused(&[into("sub"), into("main"), neg(relu)]);
        assert_eq!(found.as_deref(), Some("`r`: makes it a Neg, which the engine does not take"));
        assert_eq!(refused(&[into("new"), into("main"), same(call)]).as_deref(), Some("`c`: makes it a Relu"));
        assert_eq!(refused(&[into("sub"), own(exp)]).as_deref(), Some("`e`: changes its outputs"));
        // A node that was added before the other graph is still known after it.
        let node = NodeId(100);
        let add = |op: &str| {
            Edit::AddNode(NewNode {
                id: node,
                op: Key::new(op),
                name: Default::default(),
                inputs: Default::default(),
                controls: Default::default(),
                outputs: Default::default(),
                attrs: Default::default(),
            })
        };
        let replace = Edit::ReplaceUses(ValueRef::new(call, 0), ValueRef::new(node, 0));
        let around = |op: &str| [add(op), into("sub"), add("Relu"), into("main"), replace.clone()];
        let text = "`c`: puts a Neg in its place, which the engine does not take";
        assert_eq!(refused(&around("Neg")).as_deref(), Some(text));
        assert_eq!(refused(&around("Relu")), None);
    }
}
