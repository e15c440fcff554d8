//! Follows every path that jumps can take. A walk stops at a jump with several targets, and each
//! target is followed from there. A walk that reaches a jump in a state that was seen there before
//! is not followed again. A loop is finished when an iteration ends in the state in which it began,
//! because by induction this covers all further iterations. So the proof covers any number of
//! iterations and any sequence of branches.
//!
//! Cost: the number of tasks times the number of states in which jumps are reached. There are few
//! states where branches and bodies join again. Branches on many streams that never join have a
//! state for each combination; of these, as many are followed as fit in [`ROOM`], and every target
//! of every jump at least once.
use super::walk::{Stop, Walk};
use crate::PlanFault;

use std::collections::{HashSet, VecDeque};
use std::rc::Rc;

/// Maximum total number of nodes in all states that are followed, and maximum number of states.
const ROOM: usize = 1 << 22;
const STATES: usize = 4096;

/// A jump that was reached, and the target to follow next.
struct Turn<'m> {
    walk: Rc<Walk<'m>>,
    queue: usize,
    task: usize,
    way: usize,
}

/// Follows every path from the beginning of a walk.
pub(super) fn all(mut start: Walk<'_>) -> Result<(), PlanFault> {
    let most = (ROOM / start.nodes().max(1)).clamp(16, STATES);
    let mut seen: HashSet<u64> = HashSet::new();
    // Targets that were never followed, and targets that were followed from another state.
    let (mut fresh, mut again): (VecDeque<Turn<'_>>, VecDeque<Turn<'_>>) = Default::default();
    let mut taken: HashSet<(usize, usize)> = HashSet::new();
    let (mut ended, mut endless) = (false, None);
    let mut stop = start.advance()?;
    let mut walk = start;
    loop {
        match stop {
            Stop::End => ended = true,
            Stop::Switch { queue, task } => {
                walk.forget();
                endless.get_or_insert_with(|| walk.endless(task));
                if seen.insert(walk.state()) {
                    let walk = Rc::new(walk);
                    for way in 0..walk.ways(task) {
                        let turn = Turn { walk: walk.clone(), queue, task, way };
                        match taken.contains(&(task, way)) {
                            true => again.push_back(turn),
                            false => fresh.push_back(turn),
                        }
                    }
                }
            }
        }
        let next = loop {
            match fresh.pop_front().or_else(|| again.pop_front()) {
                None => return endless.filter(|_| !ended).map_or(Ok(()), Err),
                Some(turn) if taken.insert((turn.task, turn.way)) || seen.len() <= most => break turn,
                Some(_) => {}
            }
        };
        walk = Rc::try_unwrap(next.walk).unwrap_or_else(|shared| Walk::clone(&shared));
        walk.take(next.queue, next.task, next.way)?;
        stop = walk.advance()?;
    }
}
