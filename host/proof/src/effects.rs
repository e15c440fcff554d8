//! Effects: tasks keep the order of reads and writes of variables in the imported graph, in every
//! schedule.
//!
//! It reads the order that was recorded when the graph was imported (`EffectOrder`) and the
//! position that each node of the compiled model had then (`_effect`); it knows nothing of the
//! stages in between. Branches that are never taken and nodes that were folded have no tasks.
use super::PlanFault;
use super::stand::Stand;
use ge_model::effects::{EffectOrder, Path, Relation, places};
use ge_model::{CompiledModel, GraphInfo};
use std::collections::BTreeMap;

/// A node with tasks, and its position in the imported graph.
struct Leaf<'m> {
    node: usize,
    path: Path,
    name: &'m str,
    writes: bool,
}

/// Checks the root graph, which contains bodies as labels and jumps. Cost: linear in the accesses
/// of each variable, with the reads between two writes counted twice.
pub(crate) fn check(m: &CompiledModel, stands: &[Vec<Vec<Stand>>]) -> Result<(), PlanFault> {
    let order = EffectOrder::of(m);
    let (Some(g), Some(stands)) = (m.graphs.first(), stands.first()) else { return Ok(()) };
    if order.effects.is_empty() {
        return Ok(());
    }
    let index = order.index();
    let mut of: BTreeMap<&str, Vec<Leaf<'_>>> = BTreeMap::new();
    for (i, n) in g.nodes.iter().enumerate().filter(|(i, _)| !stands[*i].is_empty()) {
        for path in places(n) {
            let Some((graph, node)) = path.last() else { continue };
            for e in index.of(graph, node) {
                // A graph's input may be any variable of the graph around it.
                let variable = if e.variable.starts_with('#') { "#" } else { e.variable.as_str() };
                let of = of.entry(variable).or_default();
                of.push(Leaf { node: i, path: path.clone(), name: &n.name, writes: e.writes });
            }
        }
    }
    let given = of.remove("#").unwrap_or_default();
    for leaves in of.values() {
        let all: Vec<&Leaf<'_>> = leaves.iter().chain(&given).collect();
        one(g, stands, &all, &|a, b| index.relation(a, b))?;
    }
    let all: Vec<&Leaf<'_>> = given.iter().collect();
    one(g, stands, &all, &|a, b| index.relation(a, b))
}

/// Checks the accesses of one variable.
fn one(
    g: &GraphInfo,
    stands: &[Vec<Stand>],
    all: &[&Leaf<'_>],
    relation: &dyn Fn(&Path, &Path) -> Relation,
) -> Result<(), PlanFault> {
    for (i, a) in all.iter().enumerate() {
        for b in all.iter().skip(i + 1).filter(|b| b.node != a.node && (a.writes || b.writes)) {
            let (first, second) = match relation(&a.path, &b.path) {
                Relation::Before => (a, b),
                Relation::After => (b, a),
                Relation::Free => continue,
            };
            let starts = |s: &&Stand| Some(s.stream as u32) == g.nodes[second.node].stream;
            let start = stands[second.node].iter().find(starts).or(stands[second.node].first());
            let over = |s: &Stand| start.is_none_or(|t| t.start[s.stream] > s.last);
            if !stands[first.node].iter().all(over) {
                return Err(PlanFault::Effect { first: first.name.to_owned(), second: second.name.to_owned() });
            }
        }
    }
    Ok(())
}
