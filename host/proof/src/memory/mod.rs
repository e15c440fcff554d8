//! Checks that memory is overwritten only when every use of its earlier contents is over
//! (ReuseChecker, facts 2.6 h).
mod blocks;
mod held;
mod lent;

use super::PlanFault;
use super::run::Run;
use super::stand::Stand;
use blocks::{Block, Blocks};
use ge_model::CompiledModel;
use held::Held;
use lent::Lent;

/// Checks rule 6, and that values within one run do not overlap (rule 12).
///
/// A block is compared only with the last block in its range: earlier ones are over before that one
/// begins, provided that it runs. A block that a switch may skip therefore does not hide earlier
/// blocks from later ones, except from those that run under the same switch.
///
/// # Errors
/// Returns the first two blocks of which one may be written while the other is in use.
pub(crate) fn check(m: &CompiledModel, run: &Run) -> Result<(), PlanFault> {
    let stands = &run.stands;
    for (gi, g) in m.graphs.iter().enumerate() {
        let mut blocks = Blocks::gather(gi, &g.nodes);
        blocks.apart(&g.nodes)?;
        let lent = if gi == 0 { Lent::of(m) } else { Lent::default() };
        blocks.list.sort_by_key(|b| b.first);
        let mut held = Held::default();
        for b in 0..blocks.list.len() {
            let block = &blocks.list[b];
            if block.size == 0 {
                continue;
            }
            let (memory, from, to) = (block.memory, block.offset, block.offset + block.size);
            let mut below = held.take(memory, from, to);
            for (at, _, old) in &mut below {
                for o in old.iter().map(|o| &blocks.list[*o]) {
                    if let Some(fault) = unordered(m, (gi, &stands[gi], &lent), o, block, *at) {
                        return Err(fault);
                    }
                }
                old.retain(|o| !hides(run, &stands[gi], block, &blocks.list[*o]));
            }
            held.put(memory, (from, to), b, below);
        }
    }
    Ok(())
}

/// Whether `new` runs whenever a user of `old` does, so that whatever follows `new` follows them.
fn hides(run: &Run, stands: &[Vec<Stand>], new: &Block, old: &Block) -> bool {
    fn streams<'a>(stands: &'a [Vec<Stand>], nodes: &'a [u32]) -> impl Iterator<Item = usize> + 'a {
        nodes.iter().flat_map(|n| &stands[*n as usize]).map(|s| s.stream)
    }
    let runs_with = |u: usize| streams(stands, &new.firsts).any(|f| run.conditions[f].is_subset(&run.conditions[u]));
    streams(stands, &new.firsts).any(|f| run.conditions[f].is_empty()) || streams(stands, &old.users).all(runs_with)
}

/// Returns a fault unless every use of `old` is over before `new` is first touched.
fn unordered(
    m: &CompiledModel,
    (gi, stands, lent): (usize, &[Vec<Stand>], &Lent),
    old: &Block,
    new: &Block,
    offset: u64,
) -> Option<PlanFault> {
    // Work on other streams of a node does not touch its outputs, but may use a workspace.
    let own = |f: u32, s: &Stand| Some(s.stream as u32) == m.graphs[gi].nodes[f as usize].stream;
    let touching = |f: &u32| {
        let all = &stands[*f as usize];
        let alone = if new.work { None } else { all.iter().find(|s| own(*f, s)) };
        alone.map_or(all.as_slice(), std::slice::from_ref)
    };
    let mut firsts = new.firsts.iter().flat_map(touching).peekable();
    // A block without a task exists from the start, so nothing may have used its memory before.
    let ok = firsts.peek().is_some()
        && lent.allows(old, new)
        && firsts.all(|f| old.users.iter().flat_map(|u| &stands[*u as usize]).all(|s| f.start[s.stream] > s.last));
    if ok {
        return None;
    }
    let name = |i: u32| m.graphs[gi].nodes[i as usize].name.clone();
    Some(PlanFault::Overlap {
        first: name(old.first),
        second: name(new.first),
        memory: ge_plugin_api::device::MemoryKind(new.memory).name().to_owned(),
        offset,
    })
}
