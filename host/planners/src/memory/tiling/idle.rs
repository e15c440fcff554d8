//! Reconstructs the memory that buffers leave idle in a packing with almost no waste. In a packing
//! without waste, as much memory begins as ends at each instant. If a buffer is smaller than its
//! place, too little begins at its first instant, and too little ends, by the same amount, at its
//! last. If it ends before its place is taken over, too little ends at that later instant, by its
//! size. Both errors of a cause are looked for: a chain of causes that removes the errors of all
//! instants that it touches is accepted if it is the only one of its length.

use super::super::problem::narrow;
use super::super::separate::signed;

/// Greatest number of causes in a chain.
const LONGEST_CHAIN: usize = 4;
/// Number of chains that are compared from one instant.
const MOST_CHAINS: usize = 8;

/// Rectangles of memory and time, one for each block or piece.
#[derive(Debug, Clone, Default)]
pub(super) struct Places {
    /// First instant of each rectangle.
    pub(super) lower: Vec<u32>,
    /// First instant after each rectangle.
    pub(super) upper: Vec<u32>,
    /// Size in units.
    pub(super) size: Vec<u64>,
    /// Greatest size in units that it may have.
    pub(super) most: Vec<u64>,
    /// How long a place may be kept beyond its end, in the caller's time.
    pub(super) kept: Vec<u64>,
}

/// Why memory is idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    /// The place of a block is larger than the block by this many units.
    Smaller { block: u32, by: u64 },
    /// The place of a block is kept from one instant until another.
    Earlier { block: u32, from: u32, until: u32 },
}

struct Search<'a> {
    /// The places as given by the caller.
    given: &'a Places,
    places: Places,
    /// The caller's time of each instant.
    times: &'a [u64],
    /// Blocks that begin, and blocks that end, at each instant.
    begins: Vec<Vec<u32>>,
    ends: Vec<Vec<u32>>,
    /// For each instant, the units that end minus the units that begin.
    surplus: Vec<i64>,
    /// Blocks that end where nothing else happens, as (instant, block).
    alone: Vec<(u32, u32)>,
    /// Longest time for which the place of one of them may be kept.
    longest: u64,
    /// Whether one of several equally short chains may be accepted.
    any: bool,
    steps: u64,
    most_steps: u64,
}

/// Grows the places by the idle memory beside and after them; also returns the steps taken:
/// instants and blocks examined. With `any`, the chain of least waste is accepted if several are
/// equally short. A search that runs out of steps keeps what it has found.
pub(super) fn with_idle(given: &Places, times: &[u64], any: bool, most_steps: u64) -> (Places, u64) {
    let mut search = Search::new(given, times, any, most_steps);
    for most in 1..=LONGEST_CHAIN {
        search.list_alone();
        let last = search.surplus.len().saturating_sub(1);
        for at in 1..last {
            if search.steps > most_steps {
                break;
            }
            search.explain(narrow(at), most);
        }
    }
    (search.places, search.steps)
}

impl<'a> Search<'a> {
    fn new(given: &'a Places, times: &'a [u64], any: bool, most_steps: u64) -> Self {
        let instants = times.len();
        let (mut begins, mut ends) = (vec![Vec::new(); instants], vec![Vec::new(); instants]);
        let mut surplus = vec![0; instants];
        for at in 0..given.size.len() {
            let (lower, upper) = (given.lower[at] as usize, given.upper[at] as usize);
            begins[lower].push(narrow(at));
            ends[upper].push(narrow(at));
            surplus[lower] -= signed(given.size[at]);
            surplus[upper] += signed(given.size[at]);
        }
        let places = given.clone();
        Self { given, places, times, begins, ends, surplus, alone: Vec::new(), longest: 0, any, steps: 0, most_steps }
    }

    fn is_alone(&self, block: u32) -> bool {
        let end = self.places.upper[block as usize] as usize;
        end + 1 < self.ends.len() && self.begins[end].is_empty() && self.ends[end].len() == 1
    }

    fn list_alone(&mut self) {
        let all = (0..narrow(self.given.size.len())).filter(|&block| self.is_alone(block));
        self.alone = all.map(|block| (self.places.upper[block as usize], block)).collect();
        self.alone.sort_unstable();
        self.longest = self.alone.iter().map(|&(_, block)| self.given.kept[block as usize]).max().unwrap_or(0);
    }

    /// Blocks that ended alone before an instant and whose place may have been kept until then.
    fn ended_before(&mut self, instant: u32, most_size: u64) -> Vec<u32> {
        let mut found = Vec::new();
        let now = self.times[instant as usize];
        let before = self.alone.partition_point(|&(end, _)| end < instant);
        for &(end, block) in self.alone[..before].iter().rev() {
            self.steps += 1;
            let past = now - self.times[end as usize];
            if past > self.longest {
                break;
            }
            let still = self.places.upper[block as usize] == end && self.is_alone(block);
            if still && past <= self.given.kept[block as usize] && self.places.size[block as usize] <= most_size {
                found.push(block);
            }
        }
        found
    }

    /// Accepts the single shortest chain of at most `most` causes that explains an instant.
    fn explain(&mut self, at: u32, most: usize) {
        let Some(chain) = self.shortest(at, most) else { return };
        chain.iter().for_each(|&cause| self.assume(cause, true));
    }

    /// The single shortest chain that explains an instant.
    fn shortest(&mut self, at: u32, most: usize) -> Option<Vec<Cause>> {
        if self.surplus[at as usize] == 0 {
            return None;
        }
        let (mut chain, mut found) = (Vec::new(), Vec::new());
        self.follow(at, most, &mut chain, &mut found);
        for chain in &mut found {
            chain.sort_unstable();
        }
        let key = |chain: &Vec<Cause>| (chain.len(), self.waste(chain));
        found.sort_by(|a, b| (key(a), a).cmp(&(key(b), b)));
        found.dedup();
        let shortest = found.first().map_or(0, Vec::len);
        let alike = found.iter().filter(|chain| chain.len() == shortest).count();
        found.into_iter().next().filter(|_| alike == 1 || self.any)
    }

    /// The memory that the causes of a chain leave idle, in units times the caller's time.
    fn waste(&self, chain: &[Cause]) -> u128 {
        let idle = |cause: &Cause| {
            let (units, from, until) = match *cause {
                Cause::Smaller { block, by } => {
                    (by, self.places.lower[block as usize], self.places.upper[block as usize])
                }
                Cause::Earlier { block, from, until } => (self.places.size[block as usize], from, until),
            };
            u128::from(units) * u128::from(self.times[until as usize] - self.times[from as usize])
        };
        chain.iter().map(idle).sum()
    }

    /// Finds all chains that continue from an instant. Each cause removes the error of its instant
    /// and leaves one at the next, until no error is left.
    fn follow(&mut self, at: u32, most: usize, chain: &mut Vec<Cause>, found: &mut Vec<Vec<Cause>>) {
        let surplus = self.surplus[at as usize];
        self.steps += 1;
        if surplus == 0 {
            found.push(chain.clone());
            return;
        }
        if chain.len() == most || found.len() > MOST_CHAINS || self.steps > self.most_steps {
            return;
        }
        let by = surplus.unsigned_abs();
        let touching = if surplus > 0 { &self.begins[at as usize] } else { &self.ends[at as usize] };
        for block in touching.clone() {
            self.steps += 1;
            let other = if surplus > 0 { self.places.upper[block as usize] } else { self.given.lower[block as usize] };
            let grown = self.places.size[block as usize] + by;
            let twice = chain.iter().any(|cause| matches!(*cause, Cause::Smaller { block: one, .. } if one == block));
            let inside = other > 0 && other as usize + 1 < self.surplus.len();
            if twice || !inside || self.surplus[other as usize] == 0 || grown > self.given.most[block as usize] {
                continue;
            }
            self.with(Cause::Smaller { block, by }, other, most, chain, found);
        }
        if surplus < 0 {
            for block in self.ended_before(at, by) {
                let from = self.places.upper[block as usize];
                self.with(Cause::Earlier { block, from, until: at }, at, most, chain, found);
            }
        }
    }

    fn with(&mut self, cause: Cause, next: u32, most: usize, chain: &mut Vec<Cause>, found: &mut Vec<Vec<Cause>>) {
        self.assume(cause, true);
        chain.push(cause);
        self.follow(next, most, chain, found);
        chain.pop();
        self.assume(cause, false);
    }

    /// Assumes that a cause is true, or retracts the assumption.
    fn assume(&mut self, cause: Cause, is_true: bool) {
        match cause {
            Cause::Smaller { block, by } => {
                let block = block as usize;
                let (lower, upper) = (self.given.lower[block] as usize, self.places.upper[block] as usize);
                let change = if is_true { signed(by) } else { -signed(by) };
                self.surplus[lower] -= change;
                self.surplus[upper] += change;
                self.places.size[block] =
                    if is_true { self.places.size[block] + by } else { self.places.size[block] - by };
            }
            Cause::Earlier { block, from, until } => {
                let (from, until) = if is_true { (from, until) } else { (until, from) };
                let size = signed(self.places.size[block as usize]);
                self.surplus[from as usize] -= size;
                self.surplus[until as usize] += size;
                self.ends[from as usize].retain(|&other| other != block);
                self.ends[until as usize].push(block);
                self.places.upper[block as usize] = until;
            }
        }
    }
}
