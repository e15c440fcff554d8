//! Processing of one unit of a recurrence by several threads. Each thread computes the gates and
//! states of some of the hidden units, and after every step they exchange the results.
//!
//! The first thread to arrive leads. The steps are divided into parts. When a part begins, the
//! leader counts the threads that have arrived and publishes their number, so that nobody waits for
//! a thread that has not arrived. A late thread joins at the next part. Data is shared only through
//! atomic cells. The bits do not depend on which threads took part.
use crate::cores;
use crate::rnn::pack::LANES;
use crate::view::block_range;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long a leader waits for others before the first part.
const LOOK: Duration = Duration::from_micros(2);
/// Number of spins before a waiting thread yields the processor.
const SPINS: usize = 4096;
/// Value of `Team::part` when all steps are done.
const OVER: u64 = u64::MAX;

/// The numbers of a block of hidden units: one cache line, which one thread writes.
#[repr(align(64))]
struct Line([AtomicU32; LANES]);

/// A word that threads wait for, in its own cache line.
#[repr(align(64))]
struct Apart<A>(A);

/// State shared by the threads that process one unit.
pub struct Team {
    /// Maximum number of members.
    cores: usize,
    /// Blocks of hidden units in a row.
    blocks: usize,
    /// The states of the last two exchanges, used alternately.
    given: [Vec<Line>; 2],
    /// Cell states at the end of a part.
    cells: Vec<Line>,
    /// Number of threads that have arrived besides the leader.
    came: AtomicUsize,
    /// Number of the current part (upper half) and of its members (lower half), or [`OVER`].
    part: Apart<AtomicU64>,
    /// The steps of that part, and the numbers of exchanges and of arrivals at meetings before it.
    from: AtomicUsize,
    to: AtomicUsize,
    turn: AtomicUsize,
    held: AtomicUsize,
    /// Number of arrivals at meetings so far.
    arrived: Apart<AtomicUsize>,
    /// Set when a member leaves before the end.
    broken: AtomicBool,
}

/// A member of a team left before the end; that member's own error tells why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a block that worked on the same sequences failed")]
pub struct Broken;

impl Team {
    /// A team for `rows` sequences of `hidden` units, with at most as many members as there are
    /// cores.
    pub fn new(rows: usize, hidden: usize) -> Team {
        Team::of(rows, hidden, cores())
    }

    /// A team with at most `cores` members.
    pub(crate) fn of(rows: usize, hidden: usize, cores: usize) -> Team {
        let blocks = hidden.div_ceil(LANES);
        let line = |_| Line([const { AtomicU32::new(0) }; LANES]);
        let lines = || (0..rows * blocks).map(line).collect::<Vec<_>>();
        Team {
            cores,
            blocks,
            given: [lines(), lines()],
            cells: lines(),
            came: AtomicUsize::new(0),
            part: Apart(AtomicU64::new(0)),
            from: AtomicUsize::new(0),
            to: AtomicUsize::new(0),
            turn: AtomicUsize::new(0),
            held: AtomicUsize::new(0),
            arrived: Apart(AtomicUsize::new(0)),
            broken: AtomicBool::new(false),
        }
    }

    /// The leading member. Each team needs exactly one.
    pub fn lead(&self) -> Member<'_> {
        Member { team: Some(self), rank: 0, members: 1, part: 0, turn: 0, held: 0, over: false }
    }

    /// Another member. If there is no core left for it, the others would only wait for it, so it
    /// gets nothing to do.
    pub fn join(&self) -> Member<'_> {
        let rank = self.came.fetch_add(1, Ordering::AcqRel) + 1;
        Member { team: Some(self), rank, members: 0, part: 0, turn: 0, held: 0, over: rank >= self.cores }
    }

    fn wait(&self, mut until: impl FnMut() -> bool) -> Result<(), Broken> {
        let mut n = 0usize;
        while !until() {
            n += 1;
            if n.is_multiple_of(64) && self.broken.load(Ordering::Acquire) {
                return Err(Broken);
            }
            if n < SPINS { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
        Ok(())
    }
}

fn put(to: &[Line], from: &[f32]) {
    for (to, from) in to.iter().zip(from.as_chunks::<LANES>().0) {
        for (to, from) in to.0.iter().zip(from) {
            to.store(from.to_bits(), Ordering::Relaxed);
        }
    }
}

/// Publishes the blocks `own` of each row of `blocks` blocks.
fn put_share(to: &[Line], own: &Range<usize>, blocks: usize, from: &[f32]) {
    for (to, from) in to.chunks_exact(blocks.max(1)).zip(from.chunks_exact(blocks.max(1) * LANES)) {
        put(&to[own.clone()], &from[own.start * LANES..own.end * LANES]);
    }
}

fn get(from: &[Line], to: &mut [f32]) {
    for (to, from) in to.as_chunks_mut::<LANES>().0.iter_mut().zip(from) {
        for (to, from) in to.iter_mut().zip(&from.0) {
            *to = f32::from_bits(from.load(Ordering::Relaxed));
        }
    }
}

/// A thread that processes a unit, alone or in a team. If it is dropped before the end, the others
/// get [`Broken`].
pub struct Member<'t> {
    team: Option<&'t Team>,
    /// Rank in the team; 0 is the leader.
    rank: usize,
    /// Number of members of the current part.
    members: usize,
    /// Number of the last part that was begun.
    part: u64,
    turn: usize,
    held: usize,
    over: bool,
}

impl Member<'_> {
    /// A member that processes a unit alone.
    pub fn alone() -> Member<'static> {
        Member { team: None, rank: 0, members: 1, part: 0, turn: 0, held: 0, over: false }
    }

    /// Whether it is the leader, which writes everything that is written only once.
    pub(crate) fn leads(&self) -> bool {
        self.rank == 0
    }

    /// Its share of the blocks of hidden units in the current part.
    pub(crate) fn share(&self, blocks: usize) -> Range<usize> {
        block_range(blocks, self.rank, self.members)
    }

    /// Begins the next part and returns its steps, `None` after the last part. The leader chooses
    /// them: from `next` on, at most `most` steps, up to `end`. `h` and `c` are the states before
    /// the part; members that did not take part in the previous one receive them here.
    ///
    /// A member that has not done any part yet gets nothing to do, instead of an error, if another
    /// member left before the end: that other one reports the error.
    ///
    /// # Errors
    /// Returns `Broken` if another member left before the end.
    pub(crate) fn begin(
        &mut self,
        [next, end, most]: [usize; 3],
        h: &mut [f32],
        c: &mut [f32],
    ) -> Result<Option<Range<usize>>, Broken> {
        let Some(team) = self.team else {
            return Ok((next < end).then(|| next..end.min(next + most)));
        };
        if self.leads() {
            if next >= end {
                self.over = true;
                team.part.0.store(OVER, Ordering::Release);
                return Ok(None);
            }
            if self.part == 0 && team.cores > 1 {
                let since = Instant::now();
                while team.came.load(Ordering::Acquire) == 0 && since.elapsed() < LOOK {
                    std::hint::spin_loop();
                }
            }
            let members = (team.came.load(Ordering::Acquire) + 1).min(team.cores);
            if self.members == 1 && members > 1 {
                put(&team.given[(self.turn + 1) % 2], h);
                put(&team.cells, c);
            }
            (self.members, self.part) = (members, self.part + 1);
            let to = end.min(next + most);
            team.from.store(next, Ordering::Relaxed);
            team.to.store(to, Ordering::Relaxed);
            team.turn.store(self.turn, Ordering::Relaxed);
            team.held.store(self.held, Ordering::Relaxed);
            team.part.0.store(self.part << 32 | members as u64, Ordering::Release);
            return Ok(Some(next..to));
        }
        if self.over {
            return Ok(None);
        }
        let mut word = 0;
        let begun = team.wait(|| {
            word = team.part.0.load(Ordering::Acquire);
            word == OVER || (word >> 32 > self.part && word & u64::from(u32::MAX) > self.rank as u64)
        });
        match begun {
            Err(Broken) if self.part == 0 => word = OVER,
            other => other?,
        }
        if word == OVER {
            self.over = true;
            return Ok(None);
        }
        (self.part, self.members) = (word >> 32, (word & u64::from(u32::MAX)) as usize);
        self.turn = team.turn.load(Ordering::Relaxed);
        self.held = team.held.load(Ordering::Relaxed);
        get(&team.given[(self.turn + 1) % 2], h);
        get(&team.cells, c);
        Ok(Some(team.from.load(Ordering::Relaxed)..team.to.load(Ordering::Relaxed)))
    }

    /// Publishes its numbers of a state, the blocks `own` in each row, and copies those of the
    /// others.
    ///
    /// # Errors
    /// Returns `Broken` if another member left before the end.
    pub(crate) fn exchange(&mut self, own: &Range<usize>, state: &mut [f32]) -> Result<(), Broken> {
        let Some(team) = self.team.filter(|_| self.members > 1) else { return Ok(()) };
        let given = &team.given[self.turn % 2];
        self.turn += 1;
        put_share(given, own, team.blocks, state);
        self.meet(team)?;
        let rows = given.chunks_exact(team.blocks.max(1)).zip(state.chunks_exact_mut(team.blocks.max(1) * LANES));
        for (given, state) in rows {
            get(&given[..own.start], &mut state[..own.start * LANES]);
            get(&given[own.end..], &mut state[own.end * LANES..]);
        }
        Ok(())
    }

    /// Ends a part by publishing its numbers of the cell states, which [`Member::begin`]
    /// distributes.
    ///
    /// # Errors
    /// Returns `Broken` if another member left before the end.
    pub(crate) fn end(&mut self, own: &Range<usize>, c: &mut [f32]) -> Result<(), Broken> {
        let Some(team) = self.team.filter(|_| self.members > 1) else { return Ok(()) };
        put_share(&team.cells, own, team.blocks, c);
        self.meet(team)?;
        if self.leads() {
            get(&team.cells, c);
        }
        Ok(())
    }

    /// Waits until all members of the part have arrived.
    fn meet(&mut self, team: &Team) -> Result<(), Broken> {
        self.held += self.members;
        let all = self.held;
        team.arrived.0.fetch_add(1, Ordering::AcqRel);
        team.wait(|| team.arrived.0.load(Ordering::Acquire) >= all)
    }
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        if let (Some(team), false) = (self.team, self.over) {
            team.broken.store(true, Ordering::Release);
        }
    }
}
