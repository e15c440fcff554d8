//! A product of matrices with tiles: up to thirty-two rows by any number of panels of sixteen
//! columns. It sums into two by two tiles at a time, or into one by four.
use super::{BYTES, Dot, ROWS, Shapes, Tiles};
use std::ops::Range;

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
    /// The address of step `s` of the rows from `i` on, and the distance between the rows.
    ///
    /// # Safety
    /// Rows and steps must be those that [`Left::check`] confirmed.
    #[inline(always)]
    unsafe fn step(&self, i: usize, s: usize) -> (*const E, usize) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            if s < self.whole {
                (self.data.as_ptr().add(i * self.stride + s * depth::<E>()), self.stride)
            } else {
                (self.rest.as_ptr().add(i * depth::<E>()), depth::<E>())
            }
        }
    }

    /// Panics if `rows` rows of `steps` steps are not all there.
    fn check(&self, rows: usize, steps: usize) {
        let inside = self.whole.min(steps);
        assert!(steps <= self.whole + 1 && (inside == steps || rows * depth::<E>() <= self.rest.len()));
        assert!(inside == 0 || (rows - 1) * self.stride + inside * depth::<E>() <= self.data.len());
    }
}

/// The second operand: panels of sixteen columns, of which a tile is read at a time.
pub(crate) trait Second<E> {
    /// Called before the tiles of panel `p` and these steps are read. A product of all rows that
    /// are multiplied together reads each tile once.
    fn prepare(&mut self, p: usize, steps: Range<usize>);
    /// The address of the tile of panel `p` and step `s`.
    ///
    /// # Safety
    /// Panel and step must be those that [`Second::check`] confirmed.
    unsafe fn tile(&self, p: usize, s: usize) -> *const E;
    /// Panics if `panels` panels of `steps` steps are not all there.
    fn check(&self, panels: usize, steps: usize);
}

/// Panels that are laid out as tiles, `panel` numbers apart, of which `whole` steps of sixteen
/// groups are read in place. If the last step is not one of these, it is in `rest`, one tile per
/// panel, with zeros beyond k.
pub(crate) struct Right<'a, E> {
    pub(crate) data: &'a [E],
    pub(crate) panel: usize,
    pub(crate) whole: usize,
    pub(crate) rest: &'a [E],
}

/// Count of numbers in a tile.
pub(crate) const fn tile_len<E>() -> usize {
    ROWS * depth::<E>()
}

impl<E> Second<E> for Right<'_, E> {
    #[inline(always)]
    fn prepare(&mut self, _: usize, _: Range<usize>) {}

    #[inline(always)]
    unsafe fn tile(&self, p: usize, s: usize) -> *const E {
        // SAFETY: guaranteed by the caller.
        unsafe {
            if s < self.whole {
                self.data.as_ptr().add(p * self.panel + s * tile_len::<E>())
            } else {
                self.rest.as_ptr().add(p * tile_len::<E>())
            }
        }
    }

    fn check(&self, panels: usize, steps: usize) {
        let inside = self.whole.min(steps);
        assert!(steps <= self.whole + 1 && (inside == steps || panels * tile_len::<E>() <= self.rest.len()));
        assert!(inside == 0 || (panels - 1) * self.panel + inside * tile_len::<E>() <= self.data.len());
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

/// Maximum number of steps of k that are done for all panels before the next ones if the panels are
/// many: the rows of A then stay in the first-level cache, while the panels pass by it.
pub(crate) const STEPS: usize = 16;

/// Multiplies `rows` rows, for which the tiles have been configured, with `panels` panels over
/// `steps` steps of k, of which at most `most` are done for all panels before the next ones. Rows
/// of `to` are `width` apart.
pub(crate) fn product<T: Tiles, D: Dot>(
    t: &mut T,
    [rows, panels, steps]: [usize; 3],
    most: usize,
    a: &Left<'_, D::A>,
    b: &mut impl Second<D::B>,
    to: &mut [D::C],
    width: usize,
) {
    if rows == 0 || panels == 0 {
        return;
    }
    a.check(rows, steps);
    b.check(panels, steps);
    let some = steps.div_ceil(steps.div_ceil(most.max(1)).max(1));
    let mut begin = 0;
    while begin == 0 || begin < steps {
        let own = begin..(begin + some).min(steps);
        let mut p = 0;
        while p < panels {
            let (to, own) = (&mut to[p * ROWS..], own.clone());
            p += match (rows > ROWS, panels - p) {
                (true, 1) => group::<T, D, 2, 1>(t, own, a, b, p, to, width),
                (true, _) => group::<T, D, 2, 2>(t, own, a, b, p, to, width),
                (_, 1) => group::<T, D, 1, 1>(t, own, a, b, p, to, width),
                (_, 2 | 3) => group::<T, D, 1, 2>(t, own, a, b, p, to, width),
                _ => group::<T, D, 1, 4>(t, own, a, b, p, to, width),
            };
        }
        begin += some.max(1);
    }
}

/// Multiplies `R` tiles of rows with `P` panels over the steps `steps` and returns `P`. Tiles 0 to
/// 3 hold sums, which later steps than the first add to; 4 and 5 hold A, 6 and 7 hold B (5 too if
/// there is a single tile of rows).
#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn group<T: Tiles, D: Dot, const R: usize, const P: usize>(
    t: &mut T,
    steps: Range<usize>,
    a: &Left<'_, D::A>,
    b: &mut impl Second<D::B>,
    p: usize,
    to: &mut [D::C],
    width: usize,
) -> usize {
    let wide = ROWS * width;
    if steps.start == 0 {
        t.zero::<0>();
        t.zero::<1>();
        t.zero::<2>();
        t.zero::<3>();
    } else {
        t.load::<0, _>(to, width);
        if P > 1 {
            t.load::<1, _>(&to[16..], width);
        }
        if R > 1 {
            t.load::<2, _>(&to[wide..], width);
        }
        if R > 1 && P > 1 {
            t.load::<3, _>(&to[wide + 16..], width);
        }
        if P > 2 {
            t.load::<2, _>(&to[32..], width);
            t.load::<3, _>(&to[48..], width);
        }
    }
    let row = depth::<D::B>();
    for p in p..p + P {
        b.prepare(p, steps.clone());
    }
    for s in steps {
        // SAFETY: `product` checked both operands.
        unsafe {
            t.load_once::<6, _>(b.tile(p, s), row);
            let (first, stride) = a.step(0, s);
            t.load_from::<4, _>(first, stride);
            t.dot::<D, 0, 4, 6>();
            if P > 1 {
                t.load_once::<7, _>(b.tile(p + 1, s), row);
                t.dot::<D, 1, 4, 7>();
            }
            if R > 1 {
                let (second, stride) = a.step(ROWS, s);
                t.load_from::<5, _>(second, stride);
                t.dot::<D, 2, 5, 6>();
            }
            if R > 1 && P > 1 {
                t.dot::<D, 3, 5, 7>();
            }
            if P > 2 {
                t.load_once::<5, _>(b.tile(p + 2, s), row);
                t.dot::<D, 2, 4, 5>();
                t.load_once::<6, _>(b.tile(p + 3, s), row);
                t.dot::<D, 3, 4, 6>();
            }
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
