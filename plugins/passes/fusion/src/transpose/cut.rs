//! Decides in which of two layouts each operator of a group works, so that the fewest numbers are
//! transposed. This is a minimum cut (computed by `petgraph`'s version of Dinic's algorithm).
//!
//! An operator on the source's side works in layout 1. A value that is produced in one layout and
//! read in the other is transposed only once, however many nodes read it: for each value, two more
//! nodes say whether somebody reads it in layout 0, and in layout 1. An operator that leaves its
//! own layout has a small cost, so that among equal cuts the one with the fewest changes is taken.
use super::amount;
use super::frames::{Class, Group, Producer, Want};
use petgraph::algo::dinics;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::EdgeRef;

/// Cost of transposing one number, in units of changing one operator's layout.
const NUMBER: u64 = 4;
/// More than any cut costs.
const ENDLESS: u64 = 1 << 60;

/// The layout of each operator of the group; `None` if nothing is gained.
pub(super) fn best(group: &Group<'_, '_>) -> Option<Vec<bool>> {
    let layouts = least(group);
    let given = group.transposes.iter().filter_map(|id| group.g.node(*id).outputs().first()).map(amount);
    (transposed(group, &layouts) < given.fold(0, u64::saturating_add)).then_some(layouts)
}

/// How many numbers are transposed with these layouts.
fn transposed(group: &Group<'_, '_>, layouts: &[bool]) -> u64 {
    let of = |c: &Class| {
        let given = match c.producer {
            Producer::Constant => return 0,
            Producer::Member(m) => layouts[m],
            Producer::Other => c.values[0].1,
        };
        let other = c.wants.iter().any(|w| match w {
            Want::Layout(l) => *l != given,
            Want::Member(m) => layouts[*m] != given,
        });
        if other { c.amount } else { 0 }
    };
    group.classes.iter().map(of).fold(0, u64::saturating_add)
}

fn least(group: &Group<'_, '_>) -> Vec<bool> {
    let mut net: DiGraph<(), u64> = DiGraph::new();
    let (source, sink) = (net.add_node(()), net.add_node(()));
    let own: Vec<NodeIndex> = group.members.iter().map(|_| net.add_node(())).collect();
    for (node, natural) in own.iter().zip(&group.natural) {
        let (from, to) = if *natural { (source, *node) } else { (*node, sink) };
        net.add_edge(from, to, 1);
    }
    for c in &group.classes {
        let cost = c.amount * NUMBER;
        let given = match c.producer {
            Producer::Constant => continue,
            Producer::Member(m) => own[m],
            Producer::Other if c.values[0].1 => source,
            Producer::Other => sink,
        };
        let (zero, one) = (net.add_node(()), net.add_node(()));
        net.add_edge(given, zero, cost);
        net.add_edge(one, given, cost);
        for w in &c.wants {
            let reader = match w {
                Want::Layout(true) => source,
                Want::Layout(false) => sink,
                Want::Member(m) => own[*m],
            };
            if reader != source {
                net.add_edge(zero, reader, ENDLESS);
            }
            if reader != sink {
                net.add_edge(reader, one, ENDLESS);
            }
        }
    }
    let (_, flows) = dinics(&net, source, sink);
    // The nodes that can be reached from the source over edges with spare capacity.
    let mut seen = vec![false; net.node_count()];
    seen[source.index()] = true;
    let mut queue = vec![source];
    while let Some(at) = queue.pop() {
        let there = net.edges(at).filter(|e| flows[e.id().index()] < *e.weight()).map(|e| e.target());
        let back = net.edges_directed(at, petgraph::Incoming).filter(|e| flows[e.id().index()] > 0).map(|e| e.source());
        for next in there.chain(back) {
            if !std::mem::replace(&mut seen[next.index()], true) {
                queue.push(next);
            }
        }
    }
    own.iter().map(|n| seen[n.index()]).collect()
}
