//! Forms teams of blocks of one launch that work together if they run at the same time. A device
//! runs each block once, in any order, on any number of threads. So the first block that arrives
//! must be able to do all the work alone, and a block that arrives after the work is done has
//! nothing to do.
//!
//! A launch is identified by the memory that it writes: launches of a kernel that write the same
//! memory run one after another. A launch that was given up leaves blocks that never arrive. The
//! next launch on the same memory then finds a seat that has already been taken, and starts a new
//! meeting. This detects every abandoned meeting, because at least its first seat was taken and is
//! taken again. So each launch has exactly one block that comes first.
use ge_kernels::rnn::Team;
use std::sync::{Arc, Mutex, PoisonError};

/// The open meetings of a kernel.
#[derive(Default)]
pub struct Meetings(Mutex<Vec<Meeting>>);

struct Meeting {
    /// The memory that the launch writes, and which part of the work is done at this meeting.
    of: [usize; 2],
    /// The seats whose blocks have arrived, one bit each.
    came: u64,
    team: Arc<Team>,
}

impl Meetings {
    /// Joins a meeting with `seats` seats (at most 64) as `seat`. Returns the team, and whether
    /// this is the first block to arrive.
    pub fn come(&self, of: [usize; 2], seat: usize, seats: usize, team: impl FnOnce() -> Team) -> (Arc<Team>, bool) {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bit = 1u64 << seat;
        let all = u64::MAX >> (64 - seats.clamp(1, 64));
        let at = open.iter().position(|m| m.of == of);
        if let Some(at) = at
            && open[at].came & bit == 0
        {
            open[at].came |= bit;
            let team = open[at].team.clone();
            if open[at].came == all {
                open.swap_remove(at);
            }
            return (team, false);
        }
        if let Some(at) = at {
            open.swap_remove(at);
        }
        let team = Arc::new(team());
        if bit != all {
            open.push(Meeting { of, came: bit, team: team.clone() });
        }
        (team, true)
    }
}
