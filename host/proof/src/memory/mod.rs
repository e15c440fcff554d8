//! Memory is written anew only when every use of what lay there is over (ReuseChecker, facts 2.6
//! h).
mod blocks;
mod lent;

use super::PlanFault;
use super::stand::Stand;
use blocks::{Block, Blocks};
use ge_model::CompiledModel;
use lent::Lent;
use std::collections::BTreeMap;

/// Rule 6, and that values within one run lie beside each other (rule 12).
///
/// # Errors
/// The first two blocks of which one may be written while the other is in use.
pub(crate) fn check(m: &CompiledModel, stands: &[Vec<Vec<Stand>>]) -> Result<(), PlanFault> {
    for (gi, g) in m.graphs.iter().enumerate() {
        let mut blocks = Blocks::gather(gi, &g.nodes);
        blocks.apart(&g.nodes)?;
        let lent = if gi == 0 { Lent::of(m) } else { Lent::default() };
        blocks.list.sort_by_key(|b| b.first);
        let mut held: BTreeMap<(u8, u64), (u64, usize)> = BTreeMap::new();
        for b in 0..blocks.list.len() {
            let block = &blocks.list[b];
            if block.size == 0 {
                continue;
            }
            let (memory, from, to) = (block.memory, block.offset, block.offset + block.size);
            // What lies in the range: from the block before it on.
            let start = held
                .range(..=(memory, from))
                .next_back()
                .filter(|((k, _), (end, _))| *k == memory && *end > from)
                .map(|(k, _)| *k);
            let keys: Vec<(u8, u64)> =
                start.into_iter().chain(held.range((memory, from + 1)..(memory, to)).map(|(k, _)| *k)).collect();
            for key in keys {
                let Some((end, old)) = held.remove(&key) else { continue };
                if let Some(fault) = unordered(m, (gi, &stands[gi], &lent), &blocks.list[old], block, key.1.max(from)) {
                    return Err(fault);
                }
                if key.1 < from {
                    held.insert(key, (from, old));
                }
                if end > to {
                    held.insert((memory, to), (end, old));
                }
            }
            held.insert((memory, from), (to, b));
        }
    }
    Ok(())
}

/// A fault if not every use of `old` is over before `new` is first touched.
fn unordered(
    m: &CompiledModel,
    (gi, stands, lent): (usize, &[Vec<Stand>], &Lent),
    old: &Block,
    new: &Block,
    offset: u64,
) -> Option<PlanFault> {
    // What works beside its node touches no output, but a workspace may be for it.
    let own = |f: u32, s: &Stand| Some(s.stream as u32) == m.graphs[gi].nodes[f as usize].stream;
    let touching = |f: &u32| {
        let all = &stands[*f as usize];
        let alone = if new.work { None } else { all.iter().find(|s| own(*f, s)) };
        alone.map_or(all.as_slice(), std::slice::from_ref)
    };
    let mut firsts = new.firsts.iter().flat_map(touching).peekable();
    // What is there without a task is there from the start: nothing may have lain under it.
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
