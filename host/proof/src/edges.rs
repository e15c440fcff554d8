//! Proves that streams and events keep every edge, and that the model ends after all of its work.
use super::PlanFault;
use super::run::Run;
use super::stand::{Stand, is_record, value_inputs};
use ge_model::CompiledModel;
use ge_plugin_api::task::TaskType;

/// Checks rules 4 and 5.
///
/// # Errors
/// Returns the first edge that nothing guarantees, or a stream that may not have finished.
pub(crate) fn check(m: &CompiledModel, run: &Run) -> Result<(), PlanFault> {
    edges(m, run)?;
    end(m, run)
}

/// Checks for every edge that the producer is over when the consumer starts, also through nodes
/// without tasks.
fn edges(m: &CompiledModel, run: &Run) -> Result<(), PlanFault> {
    for (gi, g) in m.graphs.iter().enumerate() {
        // For nodes without tasks: for each stream the last task (and its node) that must be over.
        let mut through: Vec<Vec<(usize, u32, u32)>> = vec![Vec::new(); g.nodes.len()];
        for (i, n) in g.nodes.iter().enumerate() {
            let mine = &run.stands[gi][i];
            let mut need: Vec<(usize, u32, u32)> = Vec::new();
            for p in n.inputs.iter().flatten().map(|v| v.node).chain(n.controls.iter().copied()) {
                let stands = &run.stands[gi][p as usize];
                if stands.is_empty() {
                    need.extend_from_slice(&through[p as usize]);
                } else {
                    need.extend(stands.iter().map(|s| (s.stream, s.last, p)));
                }
            }
            let Some(main) = mine.iter().find(|s| Some(s.stream as u32) == n.stream).or(mine.first()) else {
                // Keep only the latest task of each stream.
                need.sort_unstable_by_key(|(s, last, _)| (*s, std::cmp::Reverse(*last)));
                need.dedup_by_key(|(s, ..)| *s);
                through[i] = need;
                continue;
            };
            for (stream, last, p) in need {
                if main.start[stream] <= last {
                    return Err(PlanFault::Edge { from: g.nodes[p as usize].name.clone(), to: n.name.clone() });
                }
            }
            // Work on other streams of the node reads the values of some inputs.
            for k in value_inputs(n) {
                let Some(p) = n.inputs.get(k).copied().flatten().map(|v| v.node) else { continue };
                let before = &run.stands[gi][p as usize];
                let passed = through[p as usize].iter().filter(|_| before.is_empty()).map(|t| (t.0, t.1));
                let ends: Vec<(usize, u32)> = before.iter().map(|s| (s.stream, s.last)).chain(passed).collect();
                let over = |t: &Stand| ends.iter().all(|(stream, last)| t.start[*stream] > *last);
                if !mine.iter().filter(|t| t.stream != main.stream).all(over) {
                    return Err(PlanFault::Edge { from: g.nodes[p as usize].name.clone(), to: n.name.clone() });
                }
            }
        }
    }
    Ok(())
}

fn end(m: &CompiledModel, run: &Run) -> Result<(), PlanFault> {
    let Some((own, clock)) = &run.end else { return Ok(()) };
    for (q, over) in clock.iter().enumerate() {
        // Tasks after END_GRAPH on its own stream, and records that nothing waits for, are not work
        // of a node.
        let work = m.tasks.iter().filter(|t| t.stream as usize == q).rposition_work();
        // Streams that a switch may leave asleep are not joined by the end.
        if q != *own && run.conditions[q].is_empty() && work.is_some_and(|w| *over <= w) && run.lengths[q] > 0 {
            return Err(PlanFault::End { stream: q });
        }
    }
    Ok(())
}

trait Work {
    /// Position of the last task that is not a record.
    fn rposition_work(self) -> Option<u32>;
}
impl<'a, I: Iterator<Item = &'a ge_model::TaskInfo>> Work for I {
    fn rposition_work(self) -> Option<u32> {
        self.enumerate().filter(|(_, t)| !is_record(TaskType(t.kind))).last().map(|(i, _)| i as u32)
    }
}
