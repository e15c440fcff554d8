//! Every way that jumps can go. A walk stops at a jump that goes several ways, and each of them is
//! followed from there; where a walk comes to a jump in a state in which another stood there before,
//! it goes on as that one did. A loop is done with when a turn ends in the state in which it began,
//! which says by induction all that further turns could: so any number of turns, and any branches
//! that may follow each other, are proven, and not those alone that somebody tried.
//!
//! Cost: tasks times the states in which jumps are reached: few where branches and bodies come
//! together again. Branches on many streams that never do have a state for each of their
//! combinations: of those so many are followed as fit [`ROOM`], and each way of each jump in any
//! case.
use super::walk::{Stop, Walk};
use crate::PlanFault;

use std::collections::{HashSet, VecDeque};
use std::rc::Rc;

/// Nodes of all states that are followed, and states at most.
const ROOM: usize = 1 << 22;
const STATES: usize = 4096;

/// A jump that was reached, and the way that is taken next.
struct Turn<'m> {
    walk: Rc<Walk<'m>>,
    queue: usize,
    task: usize,
    way: usize,
}

/// Follows every way from the beginning of a walk.
pub(super) fn all(mut start: Walk<'_>) -> Result<(), PlanFault> {
    let most = (ROOM / start.nodes().max(1)).clamp(16, STATES);
    let mut seen: HashSet<u64> = HashSet::new();
    // Ways that were not taken yet, and those that another state took before.
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
