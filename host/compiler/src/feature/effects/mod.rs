//! Effects: who reads and writes variables, in which order.
//!
//! Prototypes say which inputs an operator writes
//! (`flags::written`). When a graph comes in, `explicit` walks each graph in its order and writes
//! down what that order means for every variable that the model writes: a control edge from each
//! write to the accesses behind it and from each read to the write behind it, and a copy
//! (`Identity`) for each value that is read before it is written over. From then on the order is in the edges, and no pass has to know of variables. What was found is kept as `EffectOrder`
//! for the proof at the end (`ge-proof`).
//!
//! - A variable is its name: Variables of one name in all graphs of a model are one.
//! - An operator's reference output is the variable itself: who reads it reads the variable at its
//!   own place in the order.
//! - A called graph and a branch write the variable that they are given; a loop carries a value of
//!   its own, and what they write of that they give back.

/// What each graph of a model reads and writes.
mod summary;
/// Writing the order into one graph.
mod writer;
/// Variables of subgraphs in the graphs around them.
mod declare;
/// Inputs of graphs that are values.
mod own;
/// Effects as values.
mod values;

pub use values::{has_states, to_values};

use crate::error::Result;
use crate::toolbox::Toolbox;
use ge_ir::{Graph, Model, Node};
use ge_model::EffectOrder;
use ge_plugin_api::ops::flags;

/// Who the nodes of this feature are from.
pub const WHO: &str = "EffectOrder";

/// Writes the order of effects into the edges of a model that comes in, and as [`EffectOrder`] into
/// its root's attributes. A model that writes no variable stays as it is, as does one that has been
/// here before.
///
/// # Errors
/// Variables of one name that differ; one variable given twice to a graph that writes it.
pub fn explicit(model: &mut Model, toolbox: &Toolbox) -> Result<()> {
    if model.root().attrs().get(ge_model::effects::ORDER).is_some() {
        return Ok(());
    }
    declare::run(model)?;
    let rules = EffectRules { toolbox };
    let summaries = summary::all(model, &rules);
    if summaries.iter().all(|s| s.writes.is_empty() && s.written_inputs.is_empty()) {
        return Ok(());
    }
    let own = own::inputs(model, &rules, &summaries);
    let written: std::collections::BTreeSet<String> = summaries.iter().flat_map(|s| s.writes.iter().cloned()).collect();
    let mut order = EffectOrder::default();
    let mut names = writer::Names::of(model);
    for gi in 0..model.graphs().len() {
        let whole = writer::Whole { model, rules: &rules, summaries: &summaries, written: &written, own: &own };
        if let Some(graph) = writer::rewrite(&whole, gi, &mut names, &mut order)? {
            model.graphs_mut()[gi] = graph;
        }
    }
    order.to_attrs(model.root_mut().attrs_mut());
    Ok(())
}

/// What prototypes say of state.
struct EffectRules<'t> {
    toolbox: &'t Toolbox,
}

impl EffectRules<'_> {
    /// Whether a node writes an input.
    fn writes(&self, n: &Node, input: usize) -> bool {
        flags::written(self.toolbox.op_flags(n.op_key())).any(|k| k == input)
            || (input == 0 && n.attrs().flag("reference"))
    }
    /// Whether output k of a node is its input k: the same variable.
    fn refers(&self, n: &Node, output: usize) -> bool {
        n.op() == "RefIdentity" && output == 0 || self.writes(n, output)
    }
    /// Whether a node asks only which variable its input is.
    fn names_input(&self, n: &Node) -> bool {
        n.op() == "RefIdentity" || self.toolbox.op_flags(n.op_key()) & flags::NAMES_INPUT != 0
    }
    /// Whether the values of a node are bytes of its own, made by a task.
    fn computes(&self, n: &Node) -> bool {
        n.op() != "NetOutput"
            && n.subgraphs().is_empty()
            && self.toolbox.op_flags(n.op_key()) & flags::VIEW == 0
            && !n.outputs().is_empty()
    }
}

/// Whether a graph has control flow of the first kind, whose edges may not cross the borders of its
/// frames.
fn has_frames(g: &Graph) -> bool {
    let of = ["Enter", "RefEnter", "Switch", "RefSwitch", "Merge", "RefMerge", "NextIteration", "RefNextIteration"];
    g.nodes().any(|n| of.contains(&n.op()))
}

/// Whether the inputs of a node with subgraphs are those of its graphs, not copies that a loop
/// carries, and which of the graph's is the first.
fn by_reference(n: &Node) -> Option<usize> {
    match n.op() {
        "PartitionedCall" | "StatefulPartitionedCall" => Some(0),
        "If" | "StatelessIf" | "Case" | "StatelessCase" => Some(1),
        _ => None,
    }
}
