//! Inputs of graphs that are values: what a loop gives to its graphs, and what those hand on to the
//! graphs that they call. Each write of one makes a new value, which those behind it read; a graph
//! that is called gives back what it has made of those that it writes.
use super::summary::{State, Summary, states};
use super::{EffectRules, by_reference};
use ge_ir::{Graph, Model, Node};
use std::collections::{BTreeMap, BTreeSet};

/// Of each graph that has any.
#[derive(Default)]
pub(super) struct Own {
    /// Graphs that loops alone call: all of their inputs.
    carried: BTreeSet<usize>,
    /// Inputs of graphs that such graphs call, in the order in which they are given back.
    lent: BTreeMap<usize, BTreeSet<usize>>,
}

impl Own {
    /// Whether input `k` of a graph is a value.
    pub fn has(&self, graph: usize, k: usize) -> bool {
        self.carried.contains(&graph) || self.lent.get(&graph).is_some_and(|l| l.contains(&k))
    }
    /// The inputs that a called graph gives back, behind its outputs.
    pub fn returned(&self, graph: usize) -> impl Iterator<Item = usize> + '_ {
        self.lent.get(&graph).into_iter().flatten().copied()
    }
}

/// Those of a model, whose graphs are named once each (V14).
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

/// The graphs that are called, by loops alone.
fn carried(model: &Model) -> BTreeSet<usize> {
    let of = |is_loop: bool| {
        let callers = model.graphs().iter().flat_map(Graph::nodes);
        let callers = callers.filter(move |n| matches!(n.op(), "While" | "StatelessWhile" | "For") == is_loop);
        callers.flat_map(Node::subgraphs).filter_map(|s| model.graph_index(s)).collect::<BTreeSet<_>>()
    };
    &of(true) - &of(false)
}
