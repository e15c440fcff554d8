//! Graph inputs that behave as values: those that a loop gives to its graphs, and those that these
//! graphs pass on to the graphs that they call. Each write to such an input makes a new value,
//! which later nodes read. A called graph returns the new value of each such input that it writes.
use super::summary::{State, Summary, states};
use super::{EffectRules, by_reference};
use ge_ir::{Graph, Model, Node};
use std::collections::{BTreeMap, BTreeSet};

/// The inputs of this kind, by graph index; graphs without any are left out.
#[derive(Default)]
pub(super) struct Own {
    /// Graphs that only loops call: all of their inputs are of this kind.
    carried: BTreeSet<usize>,
    /// For graphs that those graphs call: the inputs of this kind, in the order in which they are
    /// returned.
    lent: BTreeMap<usize, BTreeSet<usize>>,
}

impl Own {
    /// Whether input `k` of a graph is of this kind.
    pub fn has(&self, graph: usize, k: usize) -> bool {
        self.carried.contains(&graph) || self.lent.get(&graph).is_some_and(|l| l.contains(&k))
    }
    /// The inputs whose new values a called graph returns after its outputs.
    pub fn returned(&self, graph: usize) -> impl Iterator<Item = usize> + '_ {
        self.lent.get(&graph).into_iter().flatten().copied()
    }
}

/// Finds the inputs of this kind in a model in which each graph is named only once (V14).
pub(super) fn inputs(model: &Model, rules: &EffectRules<'_>, summaries: &[Summary]) -> Own {
    let mut own = Own { carried: carried(model), ..Own::default() };
    let mut todo: Vec<usize> = own.carried.iter().copied().collect();
    while let Some(gi) = todo.pop() {
        let g = &model.graphs()[gi];
        let states = states(g, gi == 0, rules);
        for n in g.nodes() {
            let Some(first) = by_reference(n) else { continue };
            let subs: Vec<usize> = n.subgraphs().into_iter().filter_map(|s| model.graph_index(s)).collect();
            for (i, v) in n.inputs().iter().enumerate().skip(first) {
                let Some(State::Input(k)) = states.get(v) else { continue };
                let given = i - first;
                let written = subs.iter().any(|s| summaries[*s].written_inputs.contains(&given));
                if !written || !own.has(gi, *k) {
                    continue;
                }
                for s in &subs {
                    if own.lent.entry(*s).or_default().insert(given) {
                        todo.push(*s);
                    }
                }
            }
        }
    }
    own
}

/// The graphs that only loops call.
fn carried(model: &Model) -> BTreeSet<usize> {
    let of = |is_loop: bool| {
        let callers = model.graphs().iter().flat_map(Graph::nodes);
        let callers = callers.filter(move |n| matches!(n.op(), "While" | "StatelessWhile" | "For") == is_loop);
        callers.flat_map(Node::subgraphs).filter_map(|s| model.graph_index(s)).collect::<BTreeSet<_>>()
    };
    &of(true) - &of(false)
}
