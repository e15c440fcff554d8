//! One depth-first descent through the possible plans.

use std::collections::HashSet;
use std::ops::Range;

use super::super::problem::narrow;
use super::order::{Choice, Disputes};
use super::sets::remove;
use super::state::{Setting, State};

/// The result for a set of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// All blocks are placed.
    Fits,
    /// No plan has these blocks with the others where they are.
    Impossible,
    OutOfSteps,
}

pub(super) struct Descent<'a> {
    pub(super) setting: &'a Setting<'a>,
    pub(super) state: State<'a>,
    pub(super) choice: Choice,
    /// Position of each block in the order of trials.
    pub(super) rank: Vec<u32>,
    pub(super) disputes: Disputes,
    pub(super) most_steps: u64,
    /// Fingerprints of parts that other descents found impossible; `found` has those of this
    /// descent.
    pub(super) known: &'a HashSet<u64>,
    pub(super) found: HashSet<u64>,
    /// Number of fingerprints that this descent may add.
    pub(super) most_found: usize,
    /// Recorded for tests.
    #[cfg(test)]
    pub(super) dead_ends: Vec<DeadEnd>,
}

/// The placed blocks, with their offsets, that prevent the others from being placed.
#[cfg(test)]
pub(super) type DeadEnd = Vec<(usize, u64)>;

impl Descent<'_> {
    /// Places all blocks, if possible.
    pub(super) fn run(&mut self) -> Verdict {
        let blocks: Vec<u32> = (0..narrow(self.setting.problem.len())).collect();
        if !self.state.settle() {
            return Verdict::Impossible;
        }
        self.parts(&blocks, None, 0..self.setting.sections.members.len())
    }

    /// Places the blocks of some sections except one block. Each stretch of time that no block
    /// crosses is handled separately.
    fn parts(&mut self, blocks: &[u32], but: Option<u32>, sections: Range<usize>) -> Verdict {
        let mut stretches: Vec<Range<usize>> = Vec::new();
        let (mut from, mut is_open) = (sections.start, false);
        for section in sections.clone() {
            is_open |= self.state.left(section) > 0;
            if section + 1 == sections.end || self.state.is_cut_behind(section) {
                if is_open {
                    stretches.push(from..section + 1);
                }
                (from, is_open) = (section + 1, false);
            }
        }
        let mut parts: Vec<(Vec<u32>, Range<usize>)> = Vec::with_capacity(stretches.len());
        for stretch in stretches {
            let lives = |block: u32| stretch.contains(&self.setting.sections.of(block as usize).start);
            let inside = blocks.iter().copied().filter(|&block| Some(block) != but && lives(block)).collect();
            parts.push((inside, stretch));
        }
        // Small parts fail soonest.
        parts.sort_by_key(|(inside, _)| inside.len());
        for (inside, stretch) in parts {
            let verdict = self.part(&inside, stretch);
            if verdict != Verdict::Fits {
                return verdict;
            }
        }
        Verdict::Fits
    }

    /// Places blocks that are connected in time. A block that may lie lowest lies at that place or
    /// on another block that is still to be placed. If there is no plan, the state's conflict
    /// contains the placed blocks that cause this.
    fn part(&mut self, blocks: &[u32], sections: Range<usize>) -> Verdict {
        if self.state.steps > self.most_steps {
            return Verdict::OutOfSteps;
        }
        let print = self.state.fingerprint(blocks);
        if self.known.contains(&print) || self.found.contains(&print) {
            self.state.blame_bases(blocks);
            #[cfg(test)]
            self.note_dead_end();
            return Verdict::Impossible;
        }
        let before = self.state.mark();
        loop {
            let block = self.next(blocks);
            let mut reason = vec![0; self.state.conflict.len()];
            if self.state.is_supported(block) {
                let mark = self.state.mark();
                self.state.place(block);
                if self.state.settle() {
                    let verdict = self.parts(blocks, Some(narrow(block)), sections.clone());
                    if verdict != Verdict::Impossible {
                        return verdict;
                    }
                }
                self.state.undo(mark);
                self.disputes.add(&self.state.conflict);
                reason.copy_from_slice(&self.state.conflict);
                // If this block is not part of the reason, moving it does not help.
                if !remove(&mut reason, block) {
                    break;
                }
            }
            if !self.state.lift(block, &reason) {
                break;
            }
        }
        self.state.undo(before);
        if self.found.len() < self.most_found {
            self.found.insert(print);
        }
        #[cfg(test)]
        self.note_dead_end();
        Verdict::Impossible
    }

    #[cfg(test)]
    fn note_dead_end(&mut self) {
        let reason = super::sets::each(&self.state.conflict).map(|block| (block, self.state.low[block]));
        self.dead_ends.push(reason.collect());
    }

    /// The next block to place, chosen from those that may lie lowest.
    fn next(&mut self, blocks: &[u32]) -> usize {
        let state = &mut self.state;
        state.steps += blocks.len() as u64;
        let lowest = blocks.iter().map(|&block| state.low[block as usize]).min().unwrap_or(0);
        let mut best = ((u64::MAX, u64::MAX, u32::MAX), 0);
        for &block in blocks {
            let block = block as usize;
            if state.low[block] != lowest {
                continue;
            }
            let sections = self.setting.sections.of(block);
            let key = match self.choice {
                Choice::Fullest => {
                    state.steps += sections.len() as u64;
                    let left = sections.map(|section| state.left(section)).max();
                    (u64::MAX - left.unwrap_or(0), 0)
                }
                Choice::Earliest => (sections.start as u64, 0),
                Choice::Disputed => (sections.start as u64, u64::MAX - self.disputes.of(block)),
            };
            best = best.min(((key.0, key.1, self.rank[block]), block));
        }
        best.1
    }
}
