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
pub(crate) struct Meetings(Mutex<Vec<Meeting>>);

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
    pub(crate) fn come(
        &self,
        of: [usize; 2],
        seat: usize,
        seats: usize,
        team: impl FnOnce() -> Team,
    ) -> (Arc<Team>, bool) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn come(m: &Meetings, of: usize, seat: usize) -> bool {
        m.come([of, 0], seat, 4, || Team::new(1, 16)).1
    }

    #[test]
    fn each_launch_has_one_first_whatever_the_order() {
        let m = Meetings::default();
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]] {
            let first: Vec<bool> = order.iter().map(|seat| come(&m, 7, *seat)).collect();
            assert_eq!(first, [true, false, false, false], "{order:?}");
        }
        assert!(come(&m, 7, 0) && come(&m, 8, 0) && !come(&m, 7, 1));
    }

    #[test]
    fn a_launch_that_was_given_up_takes_nothing_from_the_next() {
        // Every way to abandon a launch, followed by complete launches in every order.
        let orders = || {
            let four = 0..4usize;
            let all = four.clone().flat_map(|a| (0..4usize).map(move |b| (a, b)));
            let all = all.flat_map(|(a, b)| (0..4usize).map(move |c| [a, b, c, 6usize.wrapping_sub(a + b + c)]));
            all.filter(|o| four.clone().all(|s| o.contains(&s))).collect::<Vec<_>>()
        };
        assert_eq!(orders().len(), 24);
        for left in orders() {
            for come_before in 1..4 {
                for next in orders() {
                    let m = Meetings::default();
                    assert!(come(&m, 7, left[0]));
                    left[1..come_before].iter().for_each(|s| assert!(!come(&m, 7, *s)));
                    for _ in 0..3 {
                        let firsts = next.iter().filter(|s| come(&m, 7, **s)).count();
                        assert_eq!(firsts, 1, "{left:?} {come_before} {next:?}");
                    }
                }
            }
        }
    }
}
