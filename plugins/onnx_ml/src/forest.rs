//! The tables of a forest as its kernel reads them, and the leaves that rows reach: several paths
//! are followed at a time, so that none waits for the comparisons of another.
//!
//! A node is a few words of 32 bits: the split, as f32 in one word or as f64 in two (the lower one
//! first); the test, which is a feature and the bits below; and the next node if the test holds and
//! if it does not. A negative node is the leaf `-1 - node`. For [`MEMBER`], the first word is the
//! number of a set.
use crate::rows::{Block, Feature};
use ge_plugin_api::{Error, Result};

/// Words of a node whose split is f32.
pub const NARROW: usize = 4;
/// Words of a node whose split is f64.
pub const WIDE: usize = 5;

/// Bit of a test: NaN satisfies it.
pub const MISSING: u32 = 1 << 31;
/// Place of the comparison within a test.
const COMPARISON: u32 = 29;
/// The greatest feature that a test can name.
pub const LAST_FEATURE: u32 = (1 << COMPARISON) - 1;
/// Comparison `<=`.
pub const LEQ: u32 = 0;
/// Comparison `<`.
pub const LT: u32 = 1 << COMPARISON;
/// Comparison `==`.
pub const EQ: u32 = 2 << COMPARISON;
/// Whether the feature is a member of a set.
pub const MEMBER: u32 = 3 << COMPARISON;

/// Which comparisons a forest has; the usual ones take less work when they are known to be the only
/// ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tests {
    /// Only `<=`.
    Leq,
    /// Only `<`.
    Lt,
    /// Any.
    Any,
}

impl Tests {
    /// Values of the attribute.
    pub const NAMES: [&'static str; 3] = ["ANY", "LEQ", "LT"];

    /// The comparisons with this name.
    pub fn named(name: &str) -> Tests {
        match name {
            "LEQ" => Tests::Leq,
            "LT" => Tests::Lt,
            _ => Tests::Any,
        }
    }

    /// The name of the comparisons of these tests.
    pub fn name(tests: impl Iterator<Item = u32> + Clone) -> &'static str {
        let all = |only: u32| tests.clone().all(|t| t & !LAST_FEATURE & !MISSING == only);
        match (all(LEQ), all(LT)) {
            (true, _) => "LEQ",
            (_, true) => "LT",
            _ => "ANY",
        }
    }
}

/// The members of sets, in ascending order within each.
#[derive(Clone, Copy)]
pub struct Sets<'a> {
    /// The range of each set.
    pub ranges: &'a [i32],
    /// The members of all sets.
    pub members: &'a [f64],
}

impl Sets<'_> {
    /// Whether `x` is in the set of this number; `None` without such a set.
    fn holds(&self, set: i32, x: f64) -> Option<bool> {
        let at = 2 * usize::try_from(set).ok()?;
        let [from, to] = *self.ranges.get(at..at + 2)? else { return None };
        let set = self.members.get(usize::try_from(from).ok()?..usize::try_from(to).ok()?)?;
        let at = set.partition_point(|m| *m < x);
        Some(set.get(at) == Some(&x))
    }
}

/// The nodes of all trees, `W` words each.
#[derive(Clone, Copy)]
pub struct Forest<'a, const W: usize> {
    /// All nodes.
    pub nodes: &'a [[i32; W]],
    /// The root of each tree; negative: a leaf.
    pub roots: &'a [i32],
    /// The sets of tests of membership.
    pub sets: Sets<'a>,
    /// Which comparisons there are.
    pub tests: Tests,
}

/// Number of paths that are followed together.
const LANES: usize = 8;

fn nowhere() -> Error {
    Error::failed("a tree leads to a node, a feature or a set that is not there")
}

impl<const W: usize> Forest<'_, W> {
    /// Calls `f(row, leaf)` for each row and each tree, with the trees in order.
    ///
    /// # Errors
    /// Fails if the tables lead nowhere or in a circle, and if `f` fails.
    pub fn each<X: Feature>(&self, rows: &Block<'_, X>, f: impl FnMut(usize, usize) -> Result<()>) -> Result<()> {
        // Which comparison a node has cannot be predicted, so all are made.
        let any = |node: &[i32; W], test: u32, x: X, split: X| {
            let all = u32::from(x <= split) | u32::from(x < split) << 1 | u32::from(x == split) << 2;
            match test & !LAST_FEATURE & !MISSING {
                // A set that is not there has no members; the tables are checked when made.
                MEMBER => self.sets.holds(node[0], x.wide()).unwrap_or(false),
                one => all >> (one >> COMPARISON) & 1 != 0,
            }
        };
        let missing = |test: u32, x: X| (test & MISSING != 0) & x.is_nan();
        match (self.tests, rows.values.iter().any(|x| x.is_nan())) {
            (Tests::Leq, false) => self.all(rows, f, |_, _, x, split| x <= split),
            (Tests::Lt, false) => self.all(rows, f, |_, _, x, split| x < split),
            (Tests::Any, false) => self.all(rows, f, any),
            (Tests::Leq, true) => self.all(rows, f, |_, test, x, split| (x <= split) | missing(test, x)),
            (Tests::Lt, true) => self.all(rows, f, |_, test, x, split| (x < split) | missing(test, x)),
            (Tests::Any, true) => {
                self.all(rows, f, |node, test, x, split| any(node, test, x, split) | missing(test, x))
            }
        }
    }

    /// [`Forest::each`] for tests of one form.
    fn all<X: Feature>(
        &self,
        rows: &Block<'_, X>,
        mut f: impl FnMut(usize, usize) -> Result<()>,
        holds: impl Fn(&[i32; W], u32, X, X) -> bool,
    ) -> Result<()> {
        // A lane is one row in one tree; the lanes of small batches belong to several trees.
        let (mut at, mut of) = ([-1i32; LANES], [0usize; LANES]);
        let mut open = 0;
        for root in self.roots {
            for row in 0..rows.count {
                (at[open], of[open]) = (*root, row);
                open += 1;
                if open == LANES {
                    self.walk(rows, &mut at, &of, &holds)?;
                    at.iter().zip(&of).try_for_each(|(at, row)| f(*row, !*at as usize))?;
                    open = 0;
                }
            }
        }
        at[open..].fill(-1);
        self.walk(rows, &mut at, &of, &holds)?;
        at[..open].iter().zip(&of).try_for_each(|(at, row)| f(*row, !*at as usize))
    }

    /// Leads each lane from its node to a leaf.
    fn walk<X: Feature>(
        &self,
        rows: &Block<'_, X>,
        at: &mut [i32; LANES],
        of: &[usize; LANES],
        holds: impl Fn(&[i32; W], u32, X, X) -> bool,
    ) -> Result<()> {
        let starts = of.map(|row| row * rows.width);
        // A path that is longer than the number of nodes must be a cycle.
        for _ in 0..=self.nodes.len() {
            if at.iter().fold(-1, |all, at| all & at) < 0 {
                return Ok(());
            }
            for (at, start) in at.iter_mut().zip(&starts) {
                let node = self.nodes.get((*at).max(0) as usize).ok_or_else(nowhere)?;
                let test = node[W - 3] as u32;
                let x = *rows.values.get(start + (test & LAST_FEATURE) as usize).ok_or_else(nowhere)?;
                let next = node[W - 2 + usize::from(!holds(node, test, x, X::split(node)))];
                *at = if *at < 0 { *at } else { next };
            }
        }
        Err(Error::failed("a tree goes round"))
    }
}
