//! Events of a plan: one for each cross-stream edge that no other path of streams and events implies.
use super::plan::{SyncPair, SyncPlan, SyncPoint};
use crate::error::Result;
use crate::ids::{EventId, NodeKey, StreamId};
use crate::streams::order::{parents_of, predecessors};
use crate::streams::{ExecutionOrder, StreamPlan};
use ge_ir::Model;

/// Inserts the events that give exactly the order asked for, in one walk with vector clocks.
pub fn insert(model: &Model, streams: &StreamPlan, order: &ExecutionOrder) -> Result<SyncPlan> {
    let parents = parents_of(model);
    let n = order.line().len();
    let s = order.stream_count();
    // known[i]: for every stream how many of its nodes are over when node i starts, by stream order and kept events alone.
    let mut known = vec![0u32; n * s];
    let mut last: Vec<Option<usize>> = vec![None; s];
    let mut tail: Vec<Option<usize>> = vec![None; s];
    let mut plan = SyncPlan::default();
    let net_output = model.root().net_output().map(|o| NodeKey::new(0, o.id()));
    let mut through: Vec<Vec<usize>> = vec![Vec::new(); n];
    for i in 0..n {
        let key = order.line()[i];
        // Producers with a stream, looking through nodes without one.
        let mut senders: Vec<usize> = Vec::new();
        for p in predecessors(model, key, &parents) {
            let p = order.position(p);
            if p >= i {
                continue;
            }
            match order.stand(p) {
                Some(_) => senders.push(p),
                None => senders.extend_from_slice(&through[p]),
            }
        }
        let Some((StreamId(mine), _)) = order.stand(i) else {
            senders.sort_unstable();
            senders.dedup();
            through[i] = keep_last_of_stream(&senders, order);
            continue;
        };
        if Some(key) == net_output {
            // END_GRAPH must not pass unfinished work of any stream.
            senders.extend(tail.iter().flatten());
        }
        let mine = mine as usize;
        let mut clock = vec![0u32; s];
        if let Some(p) = last[mine] {
            clock.copy_from_slice(&known[p * s..(p + 1) * s]);
            clock[mine] = clock[mine].max(order.stand(p).map_or(0, |(_, pos)| pos + 1));
        }
        senders.sort_unstable_by(|a, b| b.cmp(a));
        senders.dedup();
        for p in senders {
            let Some((StreamId(from), pos)) = order.stand(p) else { continue };
            let from = from as usize;
            if clock[from] > pos {
                continue;
            }
            plan.inserted += 1;
            plan.pairs.push(SyncPair {
                id: EventId(plan.pairs.len() as u32),
                notify: false,
                send: SyncPoint { node: order.line()[p], stream: StreamId(from as u32) },
                recv: SyncPoint { node: key, stream: StreamId(mine as u32) },
            });
            for (c, o) in clock.iter_mut().zip(&known[p * s..(p + 1) * s]) {
                *c = (*c).max(*o);
            }
            clock[from] = clock[from].max(pos + 1);
        }
        known[i * s..(i + 1) * s].copy_from_slice(&clock);
        last[mine] = Some(i);
        tail[mine] = Some(i);
    }
    let _ = streams;
    plan.event_num = plan.pairs.len() as u32;
    Ok(plan)
}

fn keep_last_of_stream(senders: &[usize], order: &ExecutionOrder) -> Vec<usize> {
    let mut best: Vec<(u32, usize)> = Vec::new();
    for &p in senders {
        if let Some((StreamId(s), _)) = order.stand(p) {
            match best.iter_mut().find(|(t, _)| *t == s) {
                Some(b) => b.1 = b.1.max(p),
                None => best.push((s, p)),
            }
        }
    }
    best.into_iter().map(|(_, p)| p).collect()
}
