//! `AllReduceParallelPass` (`ge.hcomParallel`): data successors of a fused AllReduce run in
//! parallel to the next one, on one new stream for each stream they were on. Source: 004 §4.1.1,
//! facts 1.4 (7), DESIGN 9.
use super::LogicalStreamPass;
use super::context::{Context, NONE, label_of};
use crate::error::Result;
use crate::feature::parallel_group::group_of;
use std::collections::HashMap;

/// See the module documentation.
pub struct AllReduceParallelPass;
impl LogicalStreamPass for AllReduceParallelPass {
    const NAME: &'static str = "AllReduceParallelPass";
    fn run(cx: &mut Context<'_>) -> Result<()> {
        if !cx.options.hcom_parallel {
            return Ok(());
        }
        let graph = cx.graph;
        let mut moved = vec![false; graph.id_bound()];
        let mut of: HashMap<u32, u32> = HashMap::new();
        for reduce in graph.nodes() {
            let fused = reduce.attrs().int("fusion").is_some_and(|f| f > 0);
            let user = reduce.attrs().str("_user_stream_label").is_some_and(|l| !l.is_empty());
            if !matches!(reduce.op(), "HcomAllReduce" | "HorovodCallbackAllreduce") || !fused || user {
                continue;
            }
            let label = label_of(reduce);
            let mut todo = data_users(reduce);
            let mut seen = vec![false; graph.id_bound()];
            while let Some(id) = todo.pop() {
                if std::mem::replace(&mut seen[id.index()], true) {
                    continue;
                }
                let Some(n) = graph.get(id) else { continue };
                let own = label_of(n);
                // The walk stops at another label.
                if own.is_some() && own != label {
                    continue;
                }
                todo.extend(data_users(n));
                let old = cx.stream(id);
                let bound = group_of(n).is_some() || n.attrs().int("NewStreamId").is_some();
                if n.op().starts_with("Hcom")
                    || cx.independent(cx.engine(id))
                    || old == NONE
                    || moved[id.index()]
                    || bound
                {
                    continue;
                }
                let s = match of.get(&old) {
                    Some(s) => *s,
                    None => {
                        let s = cx.take();
                        of.insert(old, s);
                        s
                    }
                };
                moved[id.index()] = true;
                cx.node_stream[id.index()] = s;
            }
        }
        Ok(())
    }
}

/// Readers in descending id order, so that popping from the end takes the smallest id first.
fn data_users(n: &ge_ir::Node) -> Vec<ge_ir::NodeId> {
    let mut v: Vec<_> = (0..n.outputs().len()).flat_map(|k| n.uses(k).iter().map(|u| u.node)).collect();
    v.sort_unstable_by(|a, b| b.cmp(a));
    v.dedup();
    v
}
