//! Effects: which nodes read and write variables, and in which order.
//!
//! Prototypes say which inputs an operator writes (`flags::written`). When a graph is imported,
//! `explicit` walks each graph in its order and turns that order into edges, for every variable
//! that the model writes: a control edge from each write to the later accesses and from each read
//! to the next write, and a copy (`Identity`) for each value that is read before it is overwritten.
//! From then on the edges hold the order, and passes need no knowledge of variables. The order is
//! also kept as `EffectOrder` for the proof at the end (`ge-proof`).
//!
//! - A variable is identified by its name: all Variables of one name in a model are one variable.
//! - A reference output of an operator is the variable itself: a node that reads the output reads
//!   the variable at that node's own place in the order.
//! - A called graph or a branch writes the variable that it is given. A loop carries values of its
//!   own; its graphs return what they write to them.

/// What each graph of a model reads and writes.
mod summary;
/// Writes the order into one graph.
mod writer;
/// Declares variables of subgraphs in the graphs around them.
mod declare;
/// Inputs of graphs whose writes make new values.
mod own;
/// Turns effects into values.
mod values;

pub use values::{has_states, to_values};

use crate::error::Result;
use crate::toolbox::Toolbox;
use ge_ir::{Graph, Model, Node};
use ge_model::EffectOrder;
use ge_plugin_api::ops::flags;

/// Name by which the inserted nodes of this feature are known.
pub const WHO: &str = "EffectOrder";

/// Writes the order of effects into the edges of an imported model, and as [`EffectOrder`] into the
/// attributes of its root. A model that writes no variable, or that already has the order, does not
/// change.
/// here before.
///
/// Fails if Variables of one name differ, or if one variable is given in two ways to a graph that
/// writes it.
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

/// What prototypes say about state.
struct EffectRules<'t> {
    toolbox: &'t Toolbox,
}

impl EffectRules<'_> {
    /// Whether a node writes input `input`.
    fn writes(&self, n: &Node, input: usize) -> bool {
        flags::written(self.toolbox.op_flags(n.op_key())).any(|k| k == input)
            || (input == 0 && n.attrs().flag("reference"))
    }
    /// Whether output `output` of a node is the same variable as the input with that index.
    fn refers(&self, n: &Node, output: usize) -> bool {
        n.op() == "RefIdentity" && output == 0 || self.writes(n, output)
    }
    /// Whether a node only asks which variable its input is, without reading its value.
    fn names_input(&self, n: &Node) -> bool {
        n.op() == "RefIdentity" || self.toolbox.op_flags(n.op_key()) & flags::NAMES_INPUT != 0
    }
    /// Whether the outputs of a node are new bytes, made by a task of the node.
    fn computes(&self, n: &Node) -> bool {
        n.op() != "NetOutput"
            && n.subgraphs().is_empty()
            && self.toolbox.op_flags(n.op_key()) & flags::VIEW == 0
            && !n.outputs().is_empty()
    }
}

/// Whether a graph has v1 control flow, whose frames no new edge may cross.
fn has_frames(g: &Graph) -> bool {
    let of = ["Enter", "RefEnter", "Switch", "RefSwitch", "Merge", "RefMerge", "NextIteration", "RefNextIteration"];
    g.nodes().any(|n| of.contains(&n.op()))
}

/// For a node that passes its inputs themselves to its graphs: the index of the first passed input.
/// `None` for other nodes, such as loops, which pass copies that they carry.
fn by_reference(n: &Node) -> Option<usize> {
    match n.op() {
        "PartitionedCall" | "StatefulPartitionedCall" => Some(0),
        "If" | "StatelessIf" | "Case" | "StatelessCase" => Some(1),
        _ => None,
    }
}
