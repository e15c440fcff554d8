//! Effects: what the imported graph said of reads and writes of variables holds for the tasks, in
//! every schedule.
//!
//! It reads the order that was written when the graph came in
//! (`EffectOrder`) and where each node of the compiled model stood then (`_effect`); of what stages
//! did in between it knows nothing. A branch that is never taken and a node that was folded have no
//! tasks.
use super::PlanFault;
use super::stand::Stand;
use ge_model::effects::{EffectOrder, Path, Relation, places};
use ge_model::{CompiledModel, GraphInfo};
use std::collections::BTreeMap;

/// A node with tasks, and where it stood.
struct Leaf<'m> {
    node: usize,
    path: Path,
    name: &'m str,
    writes: bool,
}

/// Proves it for the root graph: bodies stand there as labels and jumps. Cost: the accesses of each
/// variable, and the reads between each two writes twice.
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
                // What a graph knows as its input may be any variable of the graph around it.
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

/// The accesses of one variable.
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
