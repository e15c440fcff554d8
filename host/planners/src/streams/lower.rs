//! Changes that aim at the memory peak of a plan: a value that is live there is produced later or
//! read sooner, the node for which the arena grew comes later, or two nodes that meet there share a
//! stream. Each change is tried by scheduling again and kept if it helps.

use super::model::Model;
use super::point::{Point, Random};

/// Makes one or two random changes. `mean` is the run time of an average node and serves as the
/// unit of priorities.
pub(crate) fn lower(m: &Model<'_>, p: &mut Point, rng: &mut Random, mean: u64) {
    for _ in 0..=rng.below(2) {
        let top = p.peak[0];
        // Of two random values, take the larger.
        let mut pick = || p.peak[rng.below(p.peak.len() as u64) as usize];
        let (a, b) = (pick(), pick());
        let bytes = |v: u32| m.dag.nodes[v as usize].out_bytes;
        let held = if bytes(a) >= bytes(b) { a } else { b };
        let readers = m.dag.succ.row(held);
        match rng.below(5) {
            0 | 1 => {
                // Produce the value as late as its first reader allows, and also the values that
                // only this node reads.
                let mut v = held;
                for _ in 0..=rng.below(4) {
                    let first = m.dag.succ.row(v).iter().map(|&h| p.tail[h as usize]).max().unwrap_or(0);
                    let late = first + 1 + rng.below(4 * mean.max(1));
                    p.tail[v as usize] = p.tail[v as usize].min(late);
                    match m.dag.pred.row(v).iter().copied().find(|q| m.dag.succ.row(*q).len() == 1) {
                        Some(q) => v = q,
                        None => break,
                    }
                }
            }
            2 => {
                // Move its readers, and what they wait for, before the peak.
                let mut todo: Vec<(u32, u64)> = readers.iter().map(|&h| (h, p.tail[top as usize] + 1)).collect();
                let mut left = 24;
                while let Some((v, least)) = todo.pop() {
                    if p.tail[v as usize] >= least || left == 0 {
                        continue;
                    }
                    left -= 1;
                    p.tail[v as usize] = least;
                    todo.extend(m.dag.pred.row(v).iter().map(|&q| (q, least + mean.max(1))));
                }
            }
            3 => {
                // Move the node at the peak after the readers.
                let last = readers.iter().map(|&h| p.tail[h as usize]).min().unwrap_or(0);
                p.tail[top as usize] = p.tail[top as usize].min(last.saturating_sub(1 + rng.below(2 * mean.max(1))));
            }
            _ => {
                if !p.leans.is_empty() && !readers.is_empty() {
                    let to = p.leans[readers[rng.below(readers.len() as u64) as usize] as usize];
                    let v = if rng.below(2) == 0 { top } else { held };
                    p.leans[v as usize] = to;
                }
            }
        }
    }
}
