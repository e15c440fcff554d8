//! Offsets of all outputs under a stream plan: placed one by one in the plan's order, and for
//! graphs that are not too large also by the memory assigners. The smallest arena is used.

use super::dag::{Dag, StreamAssignment};
use super::memory::{Fit, PlanOrder, places};
use crate::memory::{AssignOptions, Block, MemoryEffort, StreamConflicts, StreamUse, Watch, assign_blocks};

/// Greatest number of pairs of tensors for which the memory assigners are also used.
const ASSIGNED_PAIRS: usize = 1_000_000;

/// Node and offset of each output of non-zero size, and the size of the arena in bytes.
pub fn offsets(dag: &Dag, a: &StreamAssignment) -> (Vec<(u32, u64)>, u64) {
    let order = PlanOrder::new(dag, a);
    let first = places(dag, a, &order, Fit::First);
    let best = places(dag, a, &order, Fit::Best);
    let (of, arena) = if best.1 < first.1 { best } else { first };
    let (sized, blocks, uses) = blocks_of(dag, a);
    if sized.len() * sized.len() / 2 <= ASSIGNED_PAIRS {
        let ordered = |x: u32, y: u32| order.ordered(x, y);
        let conflicts = StreamConflicts::new(&blocks, uses, &ordered);
        let options = AssignOptions { effort: MemoryEffort::Default, capacity: None, memory_priority: false };
        if let Ok(plan) = assign_blocks(&blocks, Some(&conflicts), &options, &Watch::none())
            && plan.arena < arena
        {
            return (sized.into_iter().zip(plan.offsets).collect(), plan.arena);
        }
    }
    (sized.into_iter().map(|v| (v, of[v as usize])).collect(), arena)
}

/// The outputs of non-zero size, as blocks for the memory assigners.
fn blocks_of(dag: &Dag, a: &StreamAssignment) -> (Vec<u32>, Vec<Block>, Vec<StreamUse>) {
    let mut at = vec![0u64; dag.len()];
    for (&v, k) in a.order.iter().zip(0u64..) {
        at[v as usize] = k;
    }
    let sized: Vec<u32> = (0..dag.len() as u32).filter(|v| dag.nodes[*v as usize].out_bytes > 0).collect();
    let uses = |v: u32| -> Vec<u32> {
        match (dag.nodes[v as usize].keep, dag.succ.row(v)) {
            (true, _) => Vec::new(),
            (_, []) => vec![v],
            (_, users) => users.to_vec(),
        }
    };
    let block = |&v: &u32| Block {
        id: u64::from(v),
        lower: at[v as usize],
        upper: uses(v).iter().map(|&u| at[u as usize]).max().unwrap_or(dag.len() as u64) + 1,
        size: dag.nodes[v as usize].out_bytes,
        align: 1,
        stream: a.stream[v as usize],
        reuse: true,
        fixed: None,
    };
    let blocks = sized.iter().map(block).collect();
    let uses = sized.iter().map(|&v| StreamUse { first: vec![v], last: uses(v) }).collect();
    (sized, blocks, uses)
}
