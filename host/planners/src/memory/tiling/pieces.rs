//! All pieces of a packing, in lists by the instants at which they begin and end. Changes can be
//! undone.

use super::super::problem::{Problem, narrow};
use super::super::separate::signed;
use super::idle::Places;
use super::latest::Latest;
use super::piece::{Made, Piece, Wheel};

/// How much of its place a block may leave idle, in percent: of its size beside it, and of its
/// lifetime after it.
const MOST_IDLE: u64 = 54;

/// A change of the pieces, with the data needed to undo it.
#[derive(Debug, Clone)]
enum Change {
    /// A whole piece was added to the lists.
    Listed(u32),
    /// A piece was removed from the lists.
    Unlisted(u32),
    /// A piece had this value before.
    Was(u32, Piece),
    /// A new piece number was taken.
    Numbered,
    /// The number of a piece that was taken apart was reused.
    NumberedAgain(u32),
}

/// All pieces, and those that begin and end at each instant.
#[derive(Debug, Clone)]
pub(super) struct Pieces {
    all: Vec<Piece>,
    /// Whole pieces that begin at each instant.
    pub(super) begins: Vec<Vec<u32>>,
    /// Whole pieces that end at each instant.
    pub(super) ends: Vec<Vec<u32>>,
    /// The caller's time of each instant.
    pub(super) times: Vec<u64>,
    /// For each instant at which exactly one piece ends and nothing else happens: the latest time
    /// at which its place may end.
    alone: Latest,
    /// Pieces that are not part of another, and the index of each in this list.
    whole: Vec<u32>,
    place: Vec<u32>,
    /// Memory in the places of whole pieces in which nothing lives, in units times the caller's
    /// time.
    idle: u128,
    /// Changes since the remembered state, if there is one.
    changes: Option<Vec<Change>>,
    /// Changes of the load of all whole pieces since the remembered state, each as (instant, units
    /// added from then on).
    load_changes: Vec<(u32, i64)>,
    /// Numbers of pieces that were taken apart and may be reused.
    unused: Vec<u32>,
    /// Numbers of pieces that were taken apart since the remembered state.
    apart: Vec<u32>,
}

impl Pieces {
    /// Makes one piece for each block.
    pub(super) fn new(problem: &Problem) -> Self {
        let times = problem.times();
        let (begins, ends) = (vec![Vec::new(); times.len()], vec![Vec::new(); times.len()]);
        let alone = Latest::new(times.len());
        let mut pieces = Self {
            all: Vec::new(),
            begins,
            ends,
            times,
            alone,
            whole: Vec::new(),
            place: Vec::new(),
            idle: 0,
            changes: None,
            load_changes: Vec::new(),
            unused: Vec::new(),
            apart: Vec::new(),
        };
        for block in 0..problem.len() {
            let (lower, upper) = (problem.lower[block], problem.upper[block]);
            pieces.add(lower, upper, problem.size[block], Made::Block(narrow(block)));
        }
        pieces
    }

    /// The rectangles of some pieces.
    pub(super) fn places(&self, of: &[u32]) -> Places {
        let mut places = Places::default();
        for &piece in of {
            let Piece { lower, upper, size, most, .. } = *self.of(piece);
            places.most.push(most);
            places.lower.push(lower);
            places.upper.push(upper);
            places.size.push(size);
            places.kept.push(self.kept(piece));
        }
        places
    }

    /// Enlarges the rectangles of pieces; their beginnings stay.
    pub(super) fn grow(&mut self, which: &[u32], places: &Places) {
        for (&piece, (&upper, &size)) in which.iter().zip(places.upper.iter().zip(&places.size)) {
            let before = *self.of(piece);
            if (before.upper, before.size) != (upper, size) {
                self.unlist(piece);
                self.change(piece, Piece { upper, size, ..before });
                self.list(piece);
            }
        }
    }

    pub(super) fn of(&self, piece: u32) -> &Piece {
        &self.all[piece as usize]
    }

    /// The instants at which a piece begins and ends.
    pub(super) fn ends_of(&self, piece: u32) -> [u32; 2] {
        [self.of(piece).lower, self.of(piece).upper]
    }

    /// How long the place of a piece may be kept beyond its end, in the caller's time.
    pub(super) fn kept(&self, piece: u32) -> u64 {
        let Piece { upper, latest, .. } = *self.of(piece);
        latest.saturating_sub(self.times[upper as usize])
    }

    /// The greatest size in units that the place of a new piece may have. Equal heights are taken
    /// as correct, because two pieces are unlikely to leave the same amount idle.
    pub(super) fn most(&self, made: Made) -> u64 {
        let most = |piece: u32| self.of(piece).most;
        let agree = |one: &[u32], two: &[u32]| {
            let sum = |all: &[u32]| all.iter().map(|&piece| self.of(piece).least).sum::<u64>();
            sum(one) == sum(two)
        };
        let sum = |all: &[u32]| all.iter().map(|&piece| self.of(piece)).map(|piece| piece.most).sum::<u64>();
        match made {
            Made::Block(_) => u64::MAX,
            Made::Stack(two) => sum(&two),
            Made::Row([one, two]) if agree(&[one], &[two]) => self.of(one).least,
            Made::Row([one, two]) => most(one).min(most(two)),
            Made::Wheel(Wheel { early, low, middle, high, late }) => {
                sum(&[early, low]).min(sum(&[low, middle, high])).min(sum(&[late, high]))
            }
        }
    }

    /// The latest time at which the place of a new piece may end. Equal ends are taken as correct.
    fn latest(&self, made: Made) -> u64 {
        let both = |one: u32, two: u32| {
            let (one, two) = (self.of(one), self.of(two));
            if one.ended == two.ended { self.times[one.ended as usize] } else { one.latest.min(two.latest) }
        };
        match made {
            Made::Block(_) => u64::MAX,
            Made::Stack([one, two]) => both(one, two),
            Made::Row([_, second]) => self.of(second).latest,
            Made::Wheel(Wheel { high, late, .. }) => both(high, late),
        }
    }

    /// The area of a piece up to an instant, in units times the caller's time.
    pub(super) fn area_until(&self, piece: u32, instant: u32) -> u128 {
        let Piece { lower, upper, size, .. } = *self.of(piece);
        let life = self.times[upper.min(instant) as usize] - self.times[lower as usize];
        u128::from(size) * u128::from(life)
    }

    /// The part of a piece's place in which nothing lives, in units times the caller's time.
    pub(super) fn idle(&self, piece: u32) -> u128 {
        self.area_until(piece, u32::MAX).saturating_sub(self.of(piece).content)
    }

    /// Whether a piece ends at an instant at which nothing else happens.
    pub(super) fn is_alone(&self, piece: u32) -> bool {
        let end = self.of(piece).upper as usize;
        end + 1 < self.times.len() && self.begins[end].is_empty() && self.ends[end].len() == 1
    }

    /// Whether the place of a piece may end at an instant: it does, or its end is not known.
    pub(super) fn may_end(&self, piece: u32, instant: u32) -> bool {
        let Piece { upper, ended, latest, .. } = *self.of(piece);
        if upper == instant {
            return true;
        }
        (ended != upper || self.is_alone(piece)) && instant > ended && self.times[instant as usize] <= latest
    }

    /// Pieces that end where nothing else happens and whose place may have been kept until a later
    /// instant; the one that ended last comes first.
    pub(super) fn ended_before(&self, instant: u32) -> impl Iterator<Item = u32> {
        let now = self.times[instant as usize];
        let mut end = instant as usize;
        std::iter::from_fn(move || {
            end = self.alone.last_before(end, now)?;
            self.ends[end].first().copied()
        })
    }

    /// Adds a piece; the pieces that it is made from leave the lists.
    pub(super) fn add(&mut self, lower: u32, upper: u32, size: u64, made: Made) {
        let number = match self.unused.last() {
            Some(&number) => number,
            None => narrow(self.all.len()),
        };
        let (mut content, fingerprint) = (0, self.fingerprint(made));
        for &part in made.parts().iter() {
            let before = *self.of(part);
            content += before.content;
            self.unlist(part);
            self.change(part, Piece { taken: true, parent: number, ..before });
        }
        let (mut most, mut latest) = (self.most(made).max(size), self.latest(made));
        if matches!(made, Made::Block(_)) {
            let (end, life) = (self.times[upper as usize], self.times[upper as usize] - self.times[lower as usize]);
            content = u128::from(size) * u128::from(life);
            most = size.saturating_add(size.saturating_mul(MOST_IDLE) / 100 + 1);
            latest = end.saturating_add(life.saturating_mul(MOST_IDLE) / 100 + 1);
        }
        let (ended, least) = (upper, size);
        let piece = Piece {
            lower,
            upper,
            ended,
            size,
            made,
            least,
            most,
            latest,
            content,
            taken: false,
            parent: u32::MAX,
            fingerprint,
        };
        if self.unused.pop().is_some() {
            self.note(Change::NumberedAgain(number));
            self.change(number, piece);
        } else {
            self.note(Change::Numbered);
            self.all.push(piece);
            self.place.push(u32::MAX);
        }
        self.list(number);
    }

    /// A number that is equal for pieces made from the same blocks in the same way.
    pub(super) fn fingerprint(&self, made: Made) -> u64 {
        let mix = |value: u64| {
            let value = (value ^ value >> 31).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            (value ^ value >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9)
        };
        let kind = match made {
            Made::Block(block) => return mix(u64::from(block) + 4),
            Made::Stack(_) => 1,
            Made::Row(_) => 2,
            Made::Wheel(_) => 3,
        };
        mix(made.parts().iter().fold(kind, |sum: u64, &part| sum.wrapping_add(self.of(part).fingerprint)))
    }

    /// Takes a whole piece apart into the pieces that it was made from.
    pub(super) fn dissolve(&mut self, piece: u32) {
        self.unlist(piece);
        let before = *self.of(piece);
        self.change(piece, Piece { taken: true, ..before });
        self.apart.push(piece);
        for &part in before.made.parts().iter() {
            let part_before = *self.of(part);
            self.change(part, Piece { taken: false, ..part_before });
            self.list(part);
        }
    }

    /// Shrinks the place of a whole piece to what its parts need.
    pub(super) fn shrink(&mut self, piece: u32) {
        self.unlist(piece);
        let before = *self.of(piece);
        self.change(piece, Piece { upper: before.ended, size: before.least, ..before });
        self.list(piece);
    }

    /// Remembers the current state for [`Self::take_back`].
    pub(super) fn remember(&mut self) {
        self.changes = Some(Vec::new());
        self.load_changes.clear();
        self.unused.append(&mut self.apart);
    }

    /// Returns to the state remembered last.
    pub(super) fn take_back(&mut self) {
        for change in self.changes.take().into_iter().flatten().rev() {
            match change {
                Change::Listed(piece) => self.unlist(piece),
                Change::Unlisted(piece) => self.list(piece),
                Change::Was(piece, before) => self.all[piece as usize] = before,
                Change::NumberedAgain(number) => self.unused.push(number),
                Change::Numbered => {
                    self.all.pop();
                    self.place.pop();
                }
            }
        }
        self.apart.clear();
    }

    /// Changes of the load of all whole pieces since the state remembered last, each as (instant,
    /// units added from then on).
    pub(super) fn load_changes(&mut self) -> &mut Vec<(u32, i64)> {
        &mut self.load_changes
    }

    fn note(&mut self, change: Change) {
        if let Some(changes) = &mut self.changes {
            changes.push(change);
        }
    }

    fn change(&mut self, piece: u32, to: Piece) {
        let before = std::mem::replace(&mut self.all[piece as usize], to);
        self.note(Change::Was(piece, before));
    }

    fn list(&mut self, piece: u32) {
        let Piece { lower, upper, .. } = *self.of(piece);
        self.begins[lower as usize].push(piece);
        self.ends[upper as usize].push(piece);
        self.place[piece as usize] = narrow(self.whole.len());
        self.whole.push(piece);
        self.idle += self.idle(piece);
        self.note_load(piece, 1);
        self.see_who_is_alone(lower, upper);
        self.note(Change::Listed(piece));
    }

    fn unlist(&mut self, piece: u32) {
        let Piece { lower, upper, .. } = *self.of(piece);
        self.begins[lower as usize].retain(|&other| other != piece);
        self.ends[upper as usize].retain(|&other| other != piece);
        let place = self.place[piece as usize] as usize;
        self.whole.swap_remove(place);
        if let Some(&moved) = self.whole.get(place) {
            self.place[moved as usize] = narrow(place);
        }
        self.idle -= self.idle(piece);
        self.note_load(piece, -1);
        self.see_who_is_alone(lower, upper);
        self.note(Change::Unlisted(piece));
    }

    fn note_load(&mut self, piece: u32, sign: i64) {
        if self.changes.is_some() {
            let Piece { lower, upper, size, .. } = *self.of(piece);
            let units = sign * signed(size);
            self.load_changes.extend([(lower, units), (upper, -units)]);
        }
    }

    fn see_who_is_alone(&mut self, lower: u32, upper: u32) {
        for instant in [lower, upper] {
            let end = instant as usize;
            let one = self.ends[end].first().copied().filter(|&piece| self.is_alone(piece));
            self.alone.set(end, one.map_or(0, |piece| self.of(piece).latest));
        }
    }

    /// Pieces that are not part of another, ascending.
    pub(super) fn whole(&self) -> Vec<u32> {
        let mut whole = self.whole.clone();
        whole.sort_unstable();
        whole
    }

    /// Number of pieces that are not part of another.
    pub(super) fn whole_count(&self) -> usize {
        self.whole.len()
    }

    /// The piece at an index among those that are not part of another.
    pub(super) fn whole_at(&self, place: usize) -> u32 {
        self.whole[place]
    }

    /// Memory in the places of whole pieces in which nothing lives, in units times the caller's
    /// time.
    pub(super) fn whole_idle(&self) -> u128 {
        self.idle
    }

    /// Computes the offset of each block from those of the whole pieces.
    pub(super) fn unfold(&self, whole: &[u32], bottoms: &[u64], blocks: usize) -> Vec<u64> {
        let mut offsets = vec![0; blocks];
        let mut stack: Vec<(u32, u64)> = whole.iter().copied().zip(bottoms.iter().copied()).collect();
        while let Some((piece, bottom)) = stack.pop() {
            let Piece { size, made, .. } = *self.of(piece);
            let top = |part: u32| bottom + size - self.of(part).size;
            match made {
                Made::Block(block) => offsets[block as usize] = bottom,
                Made::Stack([under, over]) => {
                    stack.extend([(under, bottom), (over, bottom + self.of(under).size)]);
                }
                Made::Row(two) => stack.extend(two.map(|part| (part, bottom))),
                Made::Wheel(Wheel { early, low, middle, high, late }) => stack.extend([
                    (early, top(early)),
                    (low, bottom),
                    (middle, bottom + self.of(low).size),
                    (high, top(high)),
                    (late, bottom),
                ]),
            }
        }
        offsets
    }
}

#[cfg(test)]
mod tests {
    use super::super::planted::planted;
    use super::{Made, Pieces};
    use crate::memory::problem::Problem;

    /// The whole pieces with their rectangles, the pieces that begin and end at each instant, and
    /// the idle memory.
    fn state(pieces: &Pieces) -> (Vec<(u32, [u32; 2], u64)>, Vec<Vec<u32>>, u128) {
        let rectangle = |piece| (piece, pieces.ends_of(piece), pieces.of(piece).size);
        let sorted = |list: &Vec<u32>| {
            let mut list = list.clone();
            list.sort_unstable();
            list
        };
        let touching = pieces.begins.iter().chain(&pieces.ends).map(sorted).collect();
        (pieces.whole().into_iter().map(rectangle).collect(), touching, pieces.whole_idle())
    }

    #[test]
    fn what_is_taken_back_leaves_nothing_behind() {
        let problem = Problem::new(&planted(60, 200, 1), true).expect("a problem");
        let mut pieces = Pieces::new(&problem);
        let end = *problem.upper.iter().max().expect("blocks");
        pieces.add(0, end, 1_000_000, Made::Row([0, 1]));
        pieces.add(0, end, 2_000_000, Made::Stack([2, 3]));
        let before = state(&pieces);
        for _ in 0..2 {
            pieces.remember();
            let first = pieces.whole_at(pieces.whole_count() - 1);
            pieces.dissolve(first);
            pieces.add(0, end, 3_000_000, Made::Stack([4, 5]));
            pieces.shrink(6);
            assert_ne!(state(&pieces), before);
            pieces.take_back();
            assert_eq!(state(&pieces), before);
        }
    }
}
