//! A product of matrices with tiles: up to thirty-two rows by any number of panels of sixteen
//! columns. It sums into two by two tiles at a time, or into one by four.
use super::{BYTES, Dot, ROWS, Shapes, Tiles};

/// Maximum number of rows that are multiplied with panels together.
pub(crate) const TOGETHER: usize = 2 * ROWS;

/// Length along k of one step, in numbers.
pub(crate) const fn depth<E>() -> usize {
    BYTES / size_of::<E>()
}

/// The first operand: rows `stride` apart, of which `whole` steps are read in place. If the last
/// step is not one of these, it is in `rest`, one step per row, with zeros beyond k.
pub(crate) struct Left<'a, E> {
    pub(crate) data: &'a [E],
    pub(crate) stride: usize,
    pub(crate) whole: usize,
    pub(crate) rest: &'a [E],
}

impl<E> Left<'_, E> {
    /// Step `s` of the rows from `i` on, and the distance between the rows.
    #[inline(always)]
    fn step(&self, i: usize, s: usize) -> (&[E], usize) {
        if s < self.whole {
            (&self.data[i * self.stride + s * depth::<E>()..], self.stride)
        } else {
            (&self.rest[i * depth::<E>()..], depth::<E>())
        }
    }
}

/// The second operand: panels of sixteen columns, `panel` numbers apart, of which `whole` steps of
/// sixteen groups are read in place. If the last step is not one of these, it is in `rest`, one
/// tile per panel, with zeros beyond k.
pub(crate) struct Right<'a, E> {
    pub(crate) data: &'a [E],
    pub(crate) panel: usize,
    pub(crate) whole: usize,
    pub(crate) rest: &'a [E],
}

impl<E> Right<'_, E> {
    /// Count of numbers in a tile.
    pub(crate) const TILE: usize = ROWS * depth::<E>();

    #[inline(always)]
    fn step(&self, p: usize, s: usize) -> &[E] {
        if s < self.whole { &self.data[p * self.panel + s * Self::TILE..] } else { &self.rest[p * Self::TILE..] }
    }
}

/// The shapes of the tiles for `rows` rows, at most [`TOGETHER`]: four tiles of sums, then those of
/// the operands.
pub(crate) fn shapes(rows: usize) -> Shapes {
    let (first, whole) = ((rows.min(ROWS), BYTES), (ROWS, BYTES));
    match rows.checked_sub(ROWS).filter(|r| *r > 0) {
        Some(second) => {
            let second = (second, BYTES);
            [first, first, second, second, first, second, whole, whole]
        }
        None => [first, first, first, first, first, whole, whole, whole],
    }
}

/// Multiplies `rows` rows, for which the tiles have been configured, with `panels` panels over
/// `steps` steps of k. Rows of `to` are `width` apart.
pub(crate) fn product<T: Tiles, D: Dot>(
    t: &mut T,
    [rows, panels, steps]: [usize; 3],
    a: &Left<'_, D::A>,
    b: &Right<'_, D::B>,
    to: &mut [D::C],
    width: usize,
) {
    let mut p = 0;
    while p < panels {
        let to = &mut to[p * ROWS..];
        p += match (rows > ROWS, panels - p) {
            (true, 1) => group::<T, D, 2, 1>(t, steps, a, b, p, to, width),
            (true, _) => group::<T, D, 2, 2>(t, steps, a, b, p, to, width),
            (_, 1) => group::<T, D, 1, 1>(t, steps, a, b, p, to, width),
            (_, 2 | 3) => group::<T, D, 1, 2>(t, steps, a, b, p, to, width),
            _ => group::<T, D, 1, 4>(t, steps, a, b, p, to, width),
        };
    }
}

/// Multiplies `R` tiles of rows with `P` panels and returns `P`. Tiles 0 to 3 hold sums, 4 and 5
/// hold A, 6 and 7 hold B (5 too if there is a single tile of rows).
#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn group<T: Tiles, D: Dot, const R: usize, const P: usize>(
    t: &mut T,
    steps: usize,
    a: &Left<'_, D::A>,
    b: &Right<'_, D::B>,
    p: usize,
    to: &mut [D::C],
    width: usize,
) -> usize {
    let wide = ROWS * width;
    t.zero::<0>();
    t.zero::<1>();
    t.zero::<2>();
    t.zero::<3>();
    let row = depth::<D::B>();
    for s in 0..steps {
        let (first, stride) = a.step(0, s);
        t.load::<4, _>(first, stride);
        t.load::<6, _>(b.step(p, s), row);
        t.dot::<D, 0, 4, 6>();
        if R > 1 {
            let (second, stride) = a.step(ROWS, s);
            t.load::<5, _>(second, stride);
            t.dot::<D, 2, 5, 6>();
        }
        if P > 1 {
            t.load::<7, _>(b.step(p + 1, s), row);
            t.dot::<D, 1, 4, 7>();
        }
        if R > 1 && P > 1 {
            t.dot::<D, 3, 5, 7>();
        }
        if P > 2 {
            t.load::<5, _>(b.step(p + 2, s), row);
            t.dot::<D, 2, 4, 5>();
            t.load::<6, _>(b.step(p + 3, s), row);
            t.dot::<D, 3, 4, 6>();
        }
    }
    t.store::<0, _>(to, width);
    if P > 1 {
        t.store::<1, _>(&mut to[16..], width);
    }
    if R > 1 {
        t.store::<2, _>(&mut to[wide..], width);
    }
    if R > 1 && P > 1 {
        t.store::<3, _>(&mut to[wide + 16..], width);
    }
    if P > 2 {
        t.store::<2, _>(&mut to[32..], width);
        t.store::<3, _>(&mut to[48..], width);
    }
    P
}

/// Tiles configured for a number of rows; they are reused while that number stays the same.
pub(crate) struct Shaped<T>(Option<(usize, T)>);

impl<T: Tiles> Shaped<T> {
    /// No tiles are configured yet.
    pub(crate) fn none() -> Shaped<T> {
        Shaped(None)
    }

    /// The tiles configured for `rows` rows, at most [`TOGETHER`].
    pub(crate) fn of(&mut self, rows: usize) -> &mut T {
        if self.0.as_ref().is_some_and(|(r, _)| *r != rows) {
            // A thread has only one set of tiles: the old one is released first.
            self.0 = None;
        }
        &mut self.0.get_or_insert_with(|| (rows, T::configure(&shapes(rows)))).1
    }
}
