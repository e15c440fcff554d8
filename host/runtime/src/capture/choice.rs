//! Choices of which both branches were computed: what the branch not taken gave is left out, as if
//! only the other had run.
use super::Captured;
use ge_model::CompiledModel;
use ge_model::choice::left_aside;
use std::collections::{HashMap, HashSet};

/// Removes the values of nodes that the source would not have computed. `input` gives the value of
/// an input of the run as a condition, if it is one.
pub(crate) fn leave_out(m: &CompiledModel, captured: &mut Vec<Captured>, input: impl Fn(usize) -> Option<bool>) {
    let known: HashMap<(u32, u32, u32), bool> =
        captured.iter().filter_map(|c| Some(((c.graph, c.node, c.output), condition(c.tensor.bytes())?))).collect();
    let mut aside: HashSet<(u32, u32)> = HashSet::new();
    for (gi, g) in (0u32..).zip(&m.graphs) {
        let given = |node: u32| {
            let n = g.nodes.get(node as usize).filter(|n| gi == 0 && n.op == "Data")?;
            input(usize::try_from(n.attrs.int("index")?).ok()?)
        };
        let holds = |node: u32, output: u32| known.get(&(gi, node, output)).copied().or_else(|| given(node));
        aside.extend(left_aside(&g.nodes, holds).into_iter().map(|n| (gi, n)));
    }
    captured.retain(|c| !aside.contains(&(c.graph, c.node)));
}

/// The value of a tensor of one bool.
pub(crate) fn condition(bytes: &[u8]) -> Option<bool> {
    let [one] = bytes else { return None };
    Some(*one != 0)
}
