//! A partial plan: which blocks are placed, and how low every other block may still lie.
//!
//! Blocks are placed from below, each at 0 or on another block. `base` is the top of the placed
//! blocks beneath a block; `low` may be higher because of what has been derived about this partial
//! plan. Both only rise, and all changes can be undone. For each `low`, the placed blocks that
//! imply it are known, so that a dead end can name the blocks that led to it.

use super::super::problem::{Neighbours, Problem, narrow};
use super::sections::Sections;
use super::sets::{Sets, insert, remove, unite, words};

/// Data shared by all searches of a problem.
pub(super) struct Setting<'a> {
    pub(super) problem: &'a Problem,
    pub(super) lists: &'a Neighbours,
    pub(super) sections: Sections,
    neighbours: Sets,
    pub(super) capacity: u64,
}

impl<'a> Setting<'a> {
    pub(super) fn new(problem: &'a Problem, lists: &'a Neighbours, capacity: u64) -> Self {
        let neighbours = Sets::neighbours(lists, problem.len());
        Self { problem, lists, sections: Sections::new(problem), neighbours, capacity }
    }
}

/// A change, recorded so that it can be undone.
#[derive(Debug, Clone, Copy)]
enum Change {
    Placed(u32),
    /// The reason of the previous `low` is on the stack of reasons.
    Raised {
        block: u32,
        low: u64,
    },
    Based {
        block: u32,
        base: u64,
        beneath: u32,
    },
}

pub(super) struct State<'a> {
    setting: &'a Setting<'a>,
    /// Offset of each placed block; for the others, a lower bound of their offset.
    pub(super) low: Vec<u64>,
    /// The placed blocks that imply each `low`.
    reasons: Sets,
    /// Top of the placed blocks that are live together with a block, and the block that reaches it.
    base: Vec<u64>,
    beneath: Vec<u32>,
    placed: Vec<bool>,
    all_placed: Vec<u64>,
    /// A pseudo-random number for the kind and base of each block.
    prints: Vec<u64>,
    /// Units still to be placed in each section.
    left: Vec<u64>,
    /// Number of unplaced blocks that are live in both a section and the next.
    crossing: Vec<u32>,
    /// The blocks of each section, sorted by `low` as of the last look, and the number of them that
    /// are placed.
    members: Vec<Vec<u32>>,
    placed_in: Vec<u32>,
    /// Upper bound of `low` for the blocks of each section.
    highest: Vec<u64>,
    changes: Vec<Change>,
    old_reasons: Vec<u64>,
    /// Sections to examine again, starting at index `looked`.
    queue: Vec<u32>,
    queued: Vec<bool>,
    looked: usize,
    /// The placed blocks that cause the last dead end.
    pub(super) conflict: Vec<u64>,
    /// Buffers for a reason and for the reasons of the blocks of a section.
    reason: Vec<u64>,
    suffixes: Vec<u64>,
    /// Number of blocks and sections examined so far.
    pub(super) steps: u64,
}

/// Stands for "no placed block".
const NONE: u32 = u32::MAX;

/// A pseudo-random number for a block kind with a base.
fn print(kind: u32, base: u64) -> u64 {
    let mix = |number: u64| (number ^ (number >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    let both = u64::from(kind + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ base.wrapping_mul(0xA076_1D64_78BD_642F);
    let mixed = mix(mix(both));
    mixed ^ (mixed >> 32)
}

impl<'a> State<'a> {
    /// Makes a state in which nothing is placed.
    pub(super) fn new(setting: &'a Setting<'a>) -> Self {
        let (problem, sections) = (setting.problem, &setting.sections);
        let (blocks, count) = (problem.len(), sections.members.len());
        let (mut left, mut crossing) = (vec![0; count], vec![0; count]);
        for block in 0..blocks {
            let of = sections.of(block);
            left[of.clone()].iter_mut().for_each(|left| *left += problem.size[block]);
            crossing[of.start..of.end - 1].iter_mut().for_each(|crossing| *crossing += 1);
        }
        Self {
            setting,
            low: vec![0; blocks],
            reasons: Sets::new(blocks),
            base: vec![0; blocks],
            beneath: vec![NONE; blocks],
            placed: vec![false; blocks],
            all_placed: vec![0; words(blocks)],
            prints: sections.kind.iter().map(|&kind| print(kind, 0)).collect(),
            left,
            crossing,
            members: sections.members.clone(),
            placed_in: vec![0; count],
            highest: vec![0; count],
            changes: Vec::new(),
            old_reasons: Vec::new(),
            // Even before anything is placed, a section may contain too much.
            queue: (0..).take(count).collect(),
            queued: vec![true; count],
            looked: 0,
            conflict: vec![0; words(blocks)],
            reason: vec![0; words(blocks)],
            suffixes: Vec::new(),
            steps: 0,
        }
    }

    /// Units still to be placed in a section.
    #[inline]
    pub(super) fn left(&self, section: usize) -> u64 {
        self.left[section]
    }

    /// Whether no unplaced block is live in both a section and the next.
    #[inline]
    pub(super) fn is_cut_behind(&self, section: usize) -> bool {
        self.crossing[section] == 0
    }

    /// Whether a block at its `low` would lie at 0 or on a placed block.
    #[inline]
    pub(super) fn is_supported(&self, block: usize) -> bool {
        self.low[block] == self.base[block]
    }

    /// A fingerprint of everything that decides whether these blocks can be placed: their kinds and
    /// bases. Everything else known about their `low` follows from these.
    pub(super) fn fingerprint(&self, blocks: &[u32]) -> u64 {
        blocks.iter().fold(0, |sum, &block| sum.wrapping_add(self.prints[block as usize]))
    }

    /// Sets the conflict for a dead end in which these blocks cannot be placed on their bases.
    pub(super) fn blame_bases(&mut self, blocks: &[u32]) {
        self.conflict.fill(0);
        for &block in blocks {
            if self.beneath[block as usize] != NONE {
                insert(&mut self.conflict, self.beneath[block as usize] as usize);
            }
        }
    }

    /// Returns a mark for [`State::undo`].
    pub(super) fn mark(&self) -> usize {
        self.changes.len()
    }

    /// Undoes all changes since a mark.
    pub(super) fn undo(&mut self, mark: usize) {
        let Setting { problem, sections, .. } = self.setting;
        for change in self.changes.drain(mark..).rev() {
            match change {
                Change::Placed(block) => {
                    let block = block as usize;
                    self.placed[block] = false;
                    remove(&mut self.all_placed, block);
                    let of = sections.of(block);
                    self.crossing[of.start..of.end - 1].iter_mut().for_each(|crossing| *crossing += 1);
                    for section in of {
                        self.left[section] += problem.size[block];
                        self.placed_in[section] -= 1;
                    }
                }
                Change::Raised { block, low } => {
                    self.low[block as usize] = low;
                    let reason = self.reasons.of_mut(block as usize);
                    let from = self.old_reasons.len() - reason.len();
                    reason.copy_from_slice(&self.old_reasons[from..]);
                    self.old_reasons.truncate(from);
                }
                Change::Based { block, base, beneath } => {
                    let block = block as usize;
                    (self.base[block], self.beneath[block]) = (base, beneath);
                    self.prints[block] = print(sections.kind[block], base);
                }
            }
        }
        self.forget_queue();
    }

    fn forget_queue(&mut self) {
        for section in self.queue.drain(..) {
            self.queued[section as usize] = false;
        }
        self.looked = 0;
    }

    /// Records that a block lies at `low` or above, as implied by the placed blocks in `reason`.
    fn raise(&mut self, block: usize, low: u64, reason: &[u64]) {
        self.changes.push(Change::Raised { block: narrow(block), low: self.low[block] });
        self.old_reasons.extend_from_slice(self.reasons.of(block));
        self.reasons.of_mut(block).copy_from_slice(reason);
        self.low[block] = low;
        for section in self.setting.sections.of(block) {
            self.highest[section] = self.highest[section].max(low);
            if !self.queued[section] {
                self.queued[section] = true;
                self.queue.push(narrow(section));
            }
        }
    }

    /// Places a block at its `low`.
    pub(super) fn place(&mut self, block: usize) {
        let Setting { problem, lists, sections, .. } = self.setting;
        self.placed[block] = true;
        insert(&mut self.all_placed, block);
        self.changes.push(Change::Placed(narrow(block)));
        let of = sections.of(block);
        self.crossing[of.start..of.end - 1].iter_mut().for_each(|crossing| *crossing -= 1);
        for section in of {
            self.left[section] -= problem.size[block];
            self.placed_in[section] += 1;
        }
        let top = self.low[block] + problem.size[block];
        let mut reason = std::mem::take(&mut self.reason);
        reason.fill(0);
        insert(&mut reason, block);
        self.steps += lists.of(block).len() as u64;
        for &other in lists.of(block) {
            let at = other as usize;
            if self.placed[at] || self.base[at] >= top {
                continue;
            }
            let (base, beneath) = (self.base[at], self.beneath[at]);
            self.changes.push(Change::Based { block: other, base, beneath });
            (self.base[at], self.beneath[at]) = (top, narrow(block));
            self.prints[at] = print(sections.kind[at], top);
            if self.low[at] < top {
                self.raise(at, top, &reason);
            }
        }
        self.reason = reason;
    }

    /// Records that a block, which may lie as low as any remaining block, does not lie at its `low`
    /// but on another block still to be placed; this follows from its own reasons and `more`. If
    /// there is no such block, this is a dead end. Returns whether all remaining blocks still have
    /// room.
    pub(super) fn lift(&mut self, block: usize, more: &[u64]) -> bool {
        let Setting { problem, lists, neighbours, .. } = self.setting;
        let mut reason = std::mem::take(&mut self.reason);
        reason.copy_from_slice(more);
        unite(&mut reason, self.reasons.of(block));
        let around = neighbours.of(block).iter().zip(&self.all_placed);
        reason.iter_mut().zip(around).for_each(|(word, (around, placed))| *word |= around & placed);
        self.steps += lists.of(block).len() as u64;
        let open = lists.of(block).iter().map(|&other| other as usize).filter(|&other| !self.placed[other]);
        let low = open.clone().map(|other| self.low[other] + problem.size[other]).min();
        if let Some(low) = low {
            for other in open.filter(|&other| problem.size[other] < low) {
                unite(&mut reason, self.reasons.of(other));
            }
            self.raise(block, low, &reason);
        } else {
            self.conflict.copy_from_slice(&reason);
        }
        self.reason = reason;
        low.is_some() && self.settle()
    }

    /// Derives the consequences of all changes; returns whether all remaining blocks still have
    /// room.
    pub(super) fn settle(&mut self) -> bool {
        while let Some(&section) = self.queue.get(self.looked) {
            self.looked += 1;
            self.queued[section as usize] = false;
            if !self.look_at(section as usize) {
                self.forget_queue();
                return false;
            }
        }
        self.queue.clear();
        self.looked = 0;
        true
    }

    /// Whether a section has room for its remaining blocks. Consider the blocks that lie at some
    /// `low` or above: the first of them must leave room for all others. If only one of them can be
    /// the first, all others lie on it.
    fn look_at(&mut self, section: usize) -> bool {
        let Setting { problem, capacity, .. } = *self.setting;
        self.steps += 1;
        let left = self.left[section];
        let spare = capacity.checked_sub(left);
        if left == 0 || spare.is_some_and(|spare| self.highest[section] <= spare) {
            return true;
        }
        self.sort(section);
        // Placed blocks sort before all others.
        let open = &self.members[section][self.placed_in[section] as usize..];
        let (low, size) = (&self.low, &problem.size);
        self.highest[section] = open.last().map_or(0, |&block| low[block as usize]);
        let (mut sum, mut next, mut is_one_first) = (0, 0, false);
        for (at, &block) in open.iter().enumerate().rev() {
            let block = block as usize;
            sum += size[block];
            if low[block] + sum > capacity {
                self.conflict.fill(0);
                open[at..].iter().for_each(|&other| unite(&mut self.conflict, self.reasons.of(other as usize)));
                return false;
            }
            is_one_first |= next + sum > capacity && next < low[block] + size[block];
            next = low[block];
            if spare.is_some_and(|spare| next <= spare) {
                break;
            }
        }
        if is_one_first {
            self.put_first(section);
        }
        true
    }

    /// Sorts the blocks of a section by insertion; they are nearly sorted already.
    fn sort(&mut self, section: usize) {
        let (low, all) = (&self.low, &mut self.members[section]);
        self.steps += all.len() as u64;
        for at in 1..all.len() {
            let block = all[at];
            let mut to = at;
            while to > 0 && low[all[to - 1] as usize] > low[block as usize] {
                all[to] = all[to - 1];
                to -= 1;
            }
            all[to] = block;
        }
    }

    /// Raises the blocks of a section that must lie on a block placed before them.
    fn put_first(&mut self, section: usize) {
        let Setting { problem, capacity, .. } = *self.setting;
        let members = std::mem::take(&mut self.members[section]);
        let open = &members[self.placed_in[section] as usize..];
        let words = self.reason.len();
        let mut suffixes = std::mem::take(&mut self.suffixes);
        suffixes.clear();
        suffixes.resize((open.len() + 1) * words, 0);
        for (at, &block) in open.iter().enumerate().rev() {
            let (here, behind) = suffixes[at * words..].split_at_mut(words);
            here.copy_from_slice(&behind[..words]);
            unite(here, self.reasons.of(block as usize));
        }
        let mut reason = std::mem::take(&mut self.reason);
        reason.fill(0);
        let (mut sum, mut floor) = (self.left[section], 0);
        for (at, &block) in open.iter().enumerate() {
            let block = block as usize;
            if self.low[block] < floor {
                self.raise(block, floor, &reason);
            }
            let top = self.low[block] + problem.size[block];
            if let Some(&next) = open.get(at + 1)
                && top > floor
                && self.low[next as usize].max(floor) + sum > capacity
            {
                floor = top;
                unite(&mut reason, &suffixes[at * words..][..words]);
            }
            sum -= problem.size[block];
        }
        self.reason = reason;
        self.suffixes = suffixes;
        self.members[section] = members;
    }
}
