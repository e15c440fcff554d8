//! A unit of a recurrence done by several threads: each computes the gates and states of some of the
//! hidden units, and behind every step they give each other what they computed.
//!
//! Who comes first leads. The steps are done part by part; when a part begins, the leader counts
//! who has come and tells how many they are, so that nobody waits for a thread that has not come,
//! and one that comes late joins with the next part. Numbers cross in atomic cells alone. The bits
//! do not depend on who came.
use crate::cores;
use crate::rnn::pack::LANES;
use crate::view::block_range;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long a leader looks out for others before the first part.
const LOOK: Duration = Duration::from_micros(2);
/// Turns of a wait before it gives the processor to others.
const SPINS: usize = 4096;
/// Value of `Team::part` when all steps are done.
const OVER: u64 = u64::MAX;

/// Numbers of a block of hidden units: a cache line, which one thread writes.
#[repr(align(64))]
struct Line([AtomicU32; LANES]);

/// A word that threads wait for, in a cache line of its own.
#[repr(align(64))]
struct Apart<A>(A);

/// What the threads that do one unit share.
pub struct Team {
    /// Members at most.
    cores: usize,
    /// Blocks of hidden units of a row.
    blocks: usize,
    /// States as they were given last and before that, in turn.
    given: [Vec<Line>; 2],
    /// Cell states at the end of a part.
    cells: Vec<Line>,
    /// Who has come besides the leader.
    came: AtomicUsize,
    /// Number of the part that began (upper half), and of who does it; [`OVER`].
    part: Apart<AtomicU64>,
    /// Of that part: its steps, and how often states were given and meetings held before it.
    from: AtomicUsize,
    to: AtomicUsize,
    turn: AtomicUsize,
    held: AtomicUsize,
    /// Arrivals at meetings so far.
    arrived: Apart<AtomicUsize>,
    /// A member left in the middle.
    broken: AtomicBool,
}

/// A member of a team left in the middle: its own error tells why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a block that worked on the same sequences failed")]
pub struct Broken;

impl Team {
    /// A team for `rows` sequences of `hidden` units, of as many members as there are cores.
    pub fn new(rows: usize, hidden: usize) -> Team {
        Team::of(rows, hidden, cores())
    }

    /// A team of so many members at most.
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

    /// The member that leads: one for each team, and it has to come.
    pub fn lead(&self) -> Member<'_> {
        Member { team: Some(self), rank: 0, members: 1, part: 0, turn: 0, held: 0, over: false }
    }

    /// Another member. One that has no core of its own would only be waited for: it finds nothing to
    /// do.
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

/// The blocks `own` of each row of `blocks`.
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

/// One who works on a unit, alone or with a team. Dropped in the middle, the others get [`Broken`].
pub struct Member<'t> {
    team: Option<&'t Team>,
    /// 0 leads.
    rank: usize,
    /// How many do the part that began.
    members: usize,
    /// Number of the last part that was begun.
    part: u64,
    turn: usize,
    held: usize,
    over: bool,
}

impl Member<'_> {
    /// Who does a unit alone.
    pub fn alone() -> Member<'static> {
        Member { team: None, rank: 0, members: 1, part: 0, turn: 0, held: 0, over: false }
    }

    /// Whether it leads: the leader writes what is written once.
    pub(crate) fn leads(&self) -> bool {
        self.rank == 0
    }

    /// Its share of the blocks of hidden units in the part that began.
    pub(crate) fn share(&self, blocks: usize) -> Range<usize> {
        block_range(blocks, self.rank, self.members)
    }

    /// Begins the next part: its steps, None behind the last. The leader says from `next` on, with
    /// at most `most` steps up to `end`; `h` and `c` are the states before the part, which those get
    /// that did not do the one before.
    ///
    /// Who has done no part yet finds nothing to do where another member left in the middle: it is
    /// for that one to tell.
    ///
    /// # Errors
    /// Where another member left in the middle.
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

    /// Gives its numbers of a state, those of the blocks `own` in each row, and takes the others'.
    ///
    /// # Errors
    /// Where another member left in the middle.
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

    /// Ends a part: gives its numbers of the cell states, which [`Member::begin`] hands out.
    ///
    /// # Errors
    /// Where another member left in the middle.
    pub(crate) fn end(&mut self, own: &Range<usize>, c: &mut [f32]) -> Result<(), Broken> {
        let Some(team) = self.team.filter(|_| self.members > 1) else { return Ok(()) };
        put_share(&team.cells, own, team.blocks, c);
        self.meet(team)?;
        if self.leads() {
            get(&team.cells, c);
        }
        Ok(())
    }

    /// Waits until all that do the part are here.
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
