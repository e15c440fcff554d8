//! `OptimizeIneffectiveMultiStreamPass`: a node without neighbours on its stream moves to another
//! stream if no node there lies between its last input and its first output on that stream. Source:
//! 004 §4.1.1, facts 1.4 (9), DESIGN 9.
use super::LogicalStreamPass;
use super::context::{Context, NONE};
use crate::error::Result;
use std::collections::{BTreeMap, BTreeSet};

/// See the module documentation.
pub struct OptimizeIneffectiveMultiStreamPass;
impl LogicalStreamPass for OptimizeIneffectiveMultiStreamPass {
    const NAME: &'static str = "OptimizeIneffectiveMultiStreamPass";
    fn run(cx: &mut Context<'_>) -> Result<()> {
        let graph = cx.graph;
        let mut on: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        let mut closed: BTreeSet<u32> = BTreeSet::new();
        for n in graph.nodes() {
            let s = cx.stream(n.id());
            if s == NONE {
                continue;
            }
            on.entry(s).or_default().insert(cx.rank[n.id().index()]);
            if Context::is_bound(n) || cx.independent(cx.engine(n.id())) {
                closed.insert(s);
            }
        }
        for n in graph.nodes() {
            let own = cx.stream(n.id());
            if own == NONE || Context::is_bound(n) || cx.independent(cx.engine(n.id())) {
                continue;
            }
            let rank = |id: &ge_ir::NodeId| cx.rank[id.index()];
            let mut last_in: BTreeMap<u32, u32> = BTreeMap::new();
            let mut first_out: BTreeMap<u32, u32> = BTreeMap::new();
            for p in cx.ins(n) {
                let e = last_in.entry(cx.stream(p)).or_insert(0);
                *e = (*e).max(rank(&p));
            }
            for u in cx.outs(n) {
                let e = first_out.entry(cx.stream(u)).or_insert(u32::MAX);
                *e = (*e).min(rank(&u));
            }
            if last_in.contains_key(&own) || first_out.contains_key(&own) {
                continue;
            }
            let target = last_in.iter().find_map(|(s, i)| {
                let o = first_out.get(s)?;
                let free = *s != NONE
                    && !closed.contains(s)
                    && on.get(s).is_some_and(|set| set.range(i + 1..).next() == Some(o));
                free.then_some(*s)
            });
            if let Some(s) = target {
                let r = cx.rank[n.id().index()];
                if let Some(set) = on.get_mut(&own) {
                    set.remove(&r);
                }
                on.entry(s).or_default().insert(r);
                cx.node_stream[n.id().index()] = s;
            }
        }
        Ok(())
    }
}
