//! Packs buffers that hand their memory over exactly: if the buffers that end at an instant are
//! together as large as those that begin, the new ones take over exactly the range of the old ones.
//! A PQ-tree keeps all vertical orders that are consistent with all these instants, so that a
//! packing without waste, if there is one, is found in one sweep through time. If the sizes do not
//! match, free memory of earlier instants is added or some memory is left over. This is a choice,
//! and a beam of trees follows the best alternatives. The sweep ends when no order fits any more.

use super::pq_tree::{Leaf, Log, Tree};
use super::problem::{Problem, narrow};

/// Number of choices of free ranges tried for one instant and tree.
const MOST_TRIALS: usize = 300;
/// Number of trees that one tree may become at one instant.
const MOST_BRANCHES: usize = 8;
/// Number of choices of free ranges that are ranked at all.
const MOST_CHOICES: usize = 20_000;
/// Two hand-overs at one instant are distinguished only if at most this many blocks begin or end
/// there.
const MOST_SPLIT: usize = 12;
/// Percentage of instants at which exactly as much memory begins as ends.
pub(super) fn exact_share(problem: &Problem) -> usize {
    let mut change = vec![(0_u64, 0_u64); problem.stretches() + 1];
    for at in 0..problem.len() {
        change[problem.lower[at] as usize].0 += problem.size[at];
        change[problem.upper[at] as usize].1 += problem.size[at];
    }
    let exact = change.iter().filter(|(begun, ended)| begun == ended && *begun > 0).count();
    exact * 100 / change.len().max(1)
}

/// One tree of the beam and the cost of its choices so far.
#[derive(Clone)]
struct State {
    tree: Tree,
    cost: u64,
}

struct Sweep<'a> {
    problem: &'a Problem,
    log: Log,
    next_key: u32,
    steps: u64,
}

/// Marks a block that a sweep did not reach.
pub(super) const NOT_PLACED: u64 = u64::MAX;

/// Computes offsets by one sweep with a beam of `width` trees over an arena of `height` units,
/// forwards or `backwards` in time. Also returns the steps taken, which count the leaves examined.
/// The sweep ends at an instant for which no tree has room; blocks that begin there or later are
/// [`NOT_PLACED`]. The offsets are `None` if this happens in the first half of the instants or if
/// the steps exceed `most_steps`.
pub(super) fn hand_over(
    problem: &Problem,
    height: u64,
    width: usize,
    backwards: bool,
    most_steps: u64,
) -> (Option<Vec<u64>>, u64) {
    let instants = problem.stretches() + 1;
    let (mut begins, mut ends) = (vec![Vec::new(); instants], vec![Vec::new(); instants]);
    for at in 0..problem.len() {
        begins[problem.lower[at] as usize].push(narrow(at));
        ends[problem.upper[at] as usize].push(narrow(at));
    }
    if backwards {
        std::mem::swap(&mut begins, &mut ends);
        begins.reverse();
        ends.reverse();
    }
    let mut sweep = Sweep { problem, log: Log::default(), next_key: 1, steps: 0 };
    let mut beam = vec![State { tree: Tree::leaf(0, None, height), cost: 0 }];
    for (instant, (begun, ended)) in begins.iter().zip(&ends).enumerate() {
        let mut next: Vec<State> = Vec::new();
        for state in &beam {
            sweep.instant(state, begun, ended, &mut next);
        }
        if next.is_empty() {
            if instant < instants / 2 {
                return (None, sweep.steps);
            }
            break;
        }
        if next.len() > 1 {
            // Among trees of equal cost the fingerprint decides, which mixes late and early
            // choices.
            let print = |state: State| (state.cost, state.tree.fingerprint(), state);
            let mut ranked: Vec<(u64, u64, State)> = next.into_iter().map(print).collect();
            ranked.sort_by_key(|&(cost, print, _)| (cost, print));
            ranked.dedup_by_key(|&mut (_, print, _)| print);
            ranked.truncate(width);
            next = ranked.into_iter().map(|(_, _, state)| state).collect();
        }
        beam = next;
        if sweep.steps > most_steps {
            return (None, sweep.steps);
        }
    }
    let best = beam.into_iter().min_by_key(|state| state.cost);
    let offsets = best.map(|state| {
        let mut offsets = vec![NOT_PLACED; problem.len()];
        state.tree.unfold(&mut sweep.log, &mut offsets);
        offsets
    });
    (offsets, sweep.steps)
}

impl Sweep<'_> {
    fn key(&mut self) -> u32 {
        self.next_key = self.next_key.wrapping_add(1);
        self.next_key
    }

    fn size(&self, blocks: &[u32]) -> u64 {
        blocks.iter().map(|&block| self.problem.size[block as usize]).sum()
    }

    /// Adds all trees that one tree may become at an instant.
    fn instant(&mut self, state: &State, begun: &[u32], ended: &[u32], next: &mut Vec<State>) {
        let (mut tree, cost) = (state.tree.clone(), state.cost);
        let (mut before, mut now) = (Vec::new(), Vec::new());
        tree.leaves(&mut before);
        tree.end(ended, &mut self.log);
        tree.leaves(&mut now);
        self.steps += 2 * now.len() as u64;
        // Leaves keep their order, so the leaves just freed are those that changed.
        let changed = |(old, new): &(&Leaf, &Leaf)| !old.free && new.free;
        let fresh: Vec<Leaf> = before.iter().zip(&now).filter(changed).map(|(_, new)| *new).collect();
        if begun.is_empty() {
            if fresh.len() > 1 {
                let total = fresh.iter().map(|leaf| leaf.height).sum();
                if let Some(tree) = self.placed(&tree, &fresh, &[], total) {
                    next.push(State { tree, cost });
                }
                next.push(State { tree, cost: cost + 1 });
            } else {
                next.push(State { tree, cost });
            }
            return;
        }
        let mut found = self.place(&tree, begun, &fresh, MOST_BRANCHES);
        if found.is_empty() {
            let within = self.with_enclosed(&tree, &fresh);
            if within.len() > fresh.len() {
                found = self.place(&tree, begun, &within, MOST_BRANCHES);
            }
        }
        if found.is_empty() {
            found = self.place_parts(&tree, begun, &fresh);
        }
        next.extend(found.into_iter().map(|found| State { cost: cost + found.cost, ..found }));
    }

    /// The ranges just freed, and all free memory that the tree now shows between them.
    fn with_enclosed(&mut self, tree: &Tree, fresh: &[Leaf]) -> Vec<Leaf> {
        let mut leaves = Vec::new();
        tree.leaves(&mut leaves);
        self.steps += leaves.len() as u64;
        let is_fresh = |leaf: &Leaf| fresh.iter().any(|other| other.key == leaf.key);
        let (Some(first), Some(last)) = (leaves.iter().position(is_fresh), leaves.iter().rposition(is_fresh)) else {
            return Vec::new();
        };
        leaves[first..=last].iter().copied().filter(|leaf| leaf.free).collect()
    }

    /// The free leaves of `tree` except those in `but`, oldest first.
    fn free(&mut self, tree: &Tree, but: &[Leaf]) -> Vec<Leaf> {
        let mut leaves = Vec::new();
        tree.leaves(&mut leaves);
        self.steps += leaves.len() as u64;
        leaves.retain(|leaf| leaf.free && but.iter().all(|other| other.key != leaf.key));
        leaves.sort_by_key(|leaf| leaf.key);
        leaves
    }

    /// The tree with `blocks` and the rest of `total` in place of the `free` leaves; `None` if
    /// these leaves cannot be contiguous.
    fn placed(&mut self, tree: &Tree, free: &[Leaf], blocks: &[u32], total: u64) -> Option<Tree> {
        let mut keys: Vec<u32> = free.iter().map(|leaf| leaf.key).collect();
        keys.sort_unstable();
        let rest = total - self.size(blocks);
        let mut leaves: Vec<Tree> = Vec::with_capacity(blocks.len() + 1);
        for &block in blocks {
            let key = self.key();
            leaves.push(Tree::leaf(key, Some(block), self.problem.size[block as usize]));
        }
        if rest > 0 {
            leaves.push(Tree::leaf(self.key(), None, rest));
        }
        let make = |past, _| Tree::over(leaves.clone(), past);
        let copy = tree.clone();
        self.steps += copy.mark(&keys)?;
        copy.replace(&mut self.log, &make)
    }

    /// All blocks that begin take over all ranges that ended, with as little additional free memory
    /// as possible.
    fn place(&mut self, tree: &Tree, blocks: &[u32], fresh: &[Leaf], most: usize) -> Vec<State> {
        let need = self.size(blocks);
        let have: u64 = fresh.iter().map(|leaf| leaf.height).sum();
        let mut found = Vec::new();
        if have >= need
            && !fresh.is_empty()
            && let Some(tree) = self.placed(tree, fresh, blocks, have)
        {
            found.push(State { tree, cost: 0 });
            return found;
        }
        let free = self.free(tree, fresh);
        let mut trials = 0;
        for (rest, _, chosen) in choices(&free, have, need) {
            trials += 1;
            if found.len() >= most || trials > MOST_TRIALS {
                break;
            }
            let mut leaves = fresh.to_vec();
            leaves.extend(chosen.iter().map(|&at| free[at]));
            let cost = chosen.len() as u64;
            if rest == 0 {
                let tree = self.placed(tree, &leaves, blocks, need);
                found.extend(tree.map(|tree| State { tree, cost }));
                continue;
            }
            // One of the free ranges is cut, so that the rest can still be moved independently.
            let mut any = false;
            for &at in &chosen {
                if free[at].height > rest
                    && let Some(tree) = self.cut(tree, &leaves, free[at], rest, blocks)
                {
                    found.push(State { tree, cost: cost + 2 });
                    any = true;
                }
            }
            if !any {
                let tree = self.placed(tree, &leaves, blocks, need + rest);
                found.extend(tree.map(|tree| State { tree, cost: cost + 3 }));
            }
        }
        found
    }

    fn cut(&mut self, tree: &Tree, leaves: &[Leaf], cut: Leaf, rest: u64, blocks: &[u32]) -> Option<Tree> {
        let (taken, left) = (self.key(), self.key());
        let mut tree = tree.clone();
        tree.cut(cut.key, cut.height - rest, (taken, left));
        let mut parts: Vec<Leaf> = leaves.iter().copied().filter(|leaf| leaf.key != cut.key).collect();
        parts.push(Leaf { key: taken, height: cut.height - rest, free: true });
        let need = self.size(blocks);
        self.placed(&tree, &parts, blocks, need)
    }

    /// Tries two hand-overs at one instant: parts of equal size on both sides.
    fn place_parts(&mut self, tree: &Tree, blocks: &[u32], fresh: &[Leaf]) -> Vec<State> {
        let mut found = Vec::new();
        if blocks.len() < 2 || fresh.len() < 2 || blocks.len().max(fresh.len()) > MOST_SPLIT {
            return found;
        }
        let mut sums: Vec<(u64, u32)> = (1..(1_u32 << fresh.len()) - 1)
            .map(|mask| (picked(fresh, mask).map(|leaf| leaf.height).sum(), mask))
            .collect();
        sums.sort_unstable();
        let mut trials = 0;
        for mask in 1..(1_u32 << blocks.len()) - 1 {
            let part: Vec<u32> = picked(blocks, mask).copied().collect();
            let need = self.size(&part);
            let from = sums.partition_point(|&(sum, _)| sum < need);
            for &(sum, ended) in &sums[from..] {
                if sum != need || trials > MOST_TRIALS {
                    break;
                }
                trials += 1;
                let under: Vec<Leaf> = picked(fresh, ended).copied().collect();
                let Some(half) = self.placed(tree, &under, &part, need) else { continue };
                let rest: Vec<u32> = picked(blocks, !mask).copied().collect();
                let other: Vec<Leaf> = picked(fresh, !ended).copied().collect();
                found.extend(self.place(&half, &rest, &other, 2));
                if found.len() >= MOST_BRANCHES {
                    return found;
                }
            }
        }
        found
    }
}

/// The free ranges that may be added: for each choice the memory left over, the number of ranges,
/// and their indices.
fn choices(free: &[Leaf], have: u64, need: u64) -> Vec<(u64, usize, Vec<usize>)> {
    let mut choices = Vec::new();
    for one in 0..free.len() {
        let sum = have + free[one].height;
        if sum >= need {
            choices.push((sum - need, 1, vec![one]));
        }
        for two in one + 1..free.len() {
            let sum = sum + free[two].height;
            if sum >= need {
                choices.push((sum - need, 2, vec![one, two]));
            }
            if free.len() <= 24 {
                for (three, leaf) in free.iter().enumerate().skip(two + 1) {
                    if sum + leaf.height == need {
                        choices.push((0, 3, vec![one, two, three]));
                    }
                }
            }
        }
        if choices.len() > MOST_CHOICES {
            break;
        }
    }
    let total: u64 = have + free.iter().map(|leaf| leaf.height).sum::<u64>();
    for out in 0..free.len() {
        let sum = total - free[out].height;
        if free.len() > 3 && sum >= need {
            let all_but = (0..free.len()).filter(|&at| at != out).collect();
            choices.push((sum - need, free.len() - 1, all_but));
        }
    }
    if free.len() > 2 && total >= need {
        choices.push((total - need, free.len(), (0..free.len()).collect()));
    }
    if need > have {
        exact_sums(free, need - have, &mut choices);
    }
    choices.sort();
    choices.dedup();
    choices
}

/// Adds sets of more than three free ranges that sum to exactly `wanted`, as far as a bounded
/// search finds them.
fn exact_sums(free: &[Leaf], wanted: u64, choices: &mut Vec<(u64, usize, Vec<usize>)>) {
    let mut order: Vec<usize> = (0..free.len()).collect();
    order.sort_by_key(|&at| (std::cmp::Reverse(free[at].height), at));
    let mut behind = vec![0_u64; free.len() + 1];
    for rank in (0..free.len()).rev() {
        behind[rank] = behind[rank + 1] + free[order[rank]].height;
    }
    let mut found = 0;
    let mut looked = 0;
    // Each entry: the next rank to decide, the amount still wanted, and the ranges taken.
    let mut stack = vec![(0_usize, wanted, Vec::new())];
    while let Some((rank, wanted, taken)) = stack.pop() {
        looked += 1;
        if looked > 2000 || found > 50 {
            return;
        }
        if wanted == 0 {
            if taken.len() > 3 {
                found += 1;
                let mut taken = taken;
                taken.sort_unstable();
                choices.push((0, taken.len(), taken));
            }
            continue;
        }
        if rank == free.len() || behind[rank] < wanted {
            continue;
        }
        let height = free[order[rank]].height;
        stack.push((rank + 1, wanted, taken.clone()));
        if height <= wanted {
            let mut with = taken;
            with.push(order[rank]);
            stack.push((rank + 1, wanted - height, with));
        }
    }
}

fn picked<T>(from: &[T], mask: u32) -> impl Iterator<Item = &T> {
    from.iter().enumerate().filter(move |(at, _)| mask >> at & 1 == 1).map(|(_, item)| item)
}
