//! What the leaves that a row reaches add to its scores.
use ge_plugin_api::{Error, Result};

/// How the weights of several trees are combined into one score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregate {
    /// The sum of the weights.
    Sum,
    /// The mean of the weights over all trees.
    Average,
    /// The smallest weight.
    Min,
    /// The greatest weight.
    Max,
}

impl Aggregate {
    /// The aggregate with this name in the standard.
    pub fn named(name: &str) -> Option<Aggregate> {
        Some(match name {
            "SUM" => Aggregate::Sum,
            "AVERAGE" => Aggregate::Average,
            "MIN" => Aggregate::Min,
            "MAX" => Aggregate::Max,
            _ => return None,
        })
    }
}

/// The weights of leaves.
#[derive(Clone, Copy)]
pub enum Weights<'a> {
    /// Weights that f32 holds.
    F32(&'a [f32]),
    /// Any weights.
    F64(&'a [f64]),
}

impl Weights<'_> {
    fn get(&self, i: usize) -> Option<f64> {
        match self {
            Weights::F32(w) => w.get(i).map(|w| f64::from(*w)),
            Weights::F64(w) => w.get(i).copied(),
        }
    }
}

/// The weights of all leaves, as the kernel reads them.
#[derive(Clone, Copy)]
pub struct Leaves<'a> {
    /// The range of each leaf's weights; empty: leaf `l` has the weights from `l * each`.
    pub ranges: &'a [i32],
    /// Number of weights of every leaf, if there are no ranges.
    pub each: usize,
    /// The target of each weight; empty: the weights of a leaf are those of targets 0, 1, 2, ...
    pub targets: &'a [i32],
    /// The weights of all leaves.
    pub weights: Weights<'a>,
}

fn wrong() -> Error {
    Error::failed("a leaf has weights that are not there")
}

impl Leaves<'_> {
    /// The places of a leaf's weights.
    fn range(&self, leaf: usize) -> Result<std::ops::Range<usize>> {
        if self.ranges.is_empty() {
            return Ok(leaf * self.each..(leaf + 1) * self.each);
        }
        let Some([from, to]) = self.ranges.get(2 * leaf..2 * leaf + 2) else { return Err(wrong()) };
        let place = |i: i32| usize::try_from(i).map_err(|_| wrong());
        Ok(place(*from)?..place(*to)?)
    }

    /// Calls `f(target, weight)` for each weight of a leaf.
    fn each(&self, leaf: usize, mut f: impl FnMut(usize, f64) -> Result<()>) -> Result<()> {
        for (k, i) in self.range(leaf)?.enumerate() {
            let target = match self.targets {
                [] => k,
                of => of.get(i).and_then(|t| usize::try_from(*t).ok()).ok_or_else(wrong)?,
            };
            f(target, self.weights.get(i).ok_or_else(wrong)?)?;
        }
        Ok(())
    }
}

/// The scores of several rows while the leaves that they reach are combined.
pub struct Scores<'a> {
    leaves: Leaves<'a>,
    aggregate: Aggregate,
    /// Number of scores per row.
    targets: usize,
    out: &'a mut [f64],
    /// For the least and the greatest weight: whether a score has a weight already.
    seen: Vec<bool>,
}

impl<'a> Scores<'a> {
    /// Scores without a leaf, in `out`, which holds zeros.
    pub fn new(leaves: Leaves<'a>, aggregate: Aggregate, targets: usize, out: &'a mut [f64]) -> Scores<'a> {
        let compared = matches!(aggregate, Aggregate::Min | Aggregate::Max);
        Scores { leaves, aggregate, targets, seen: vec![false; if compared { out.len() } else { 0 }], out }
    }

    /// Combines a leaf with the scores of a row.
    ///
    /// # Errors
    /// Fails if the leaf's weights or their targets are not there.
    pub fn add(&mut self, row: usize, leaf: usize) -> Result<()> {
        let first = row * self.targets;
        let own = self.out.get_mut(first..first + self.targets).ok_or_else(wrong)?;
        match self.aggregate {
            Aggregate::Sum | Aggregate::Average => self.leaves.each(leaf, |target, weight| {
                *own.get_mut(target).ok_or_else(wrong)? += weight;
                Ok(())
            }),
            least_or_greatest => self.leaves.each(leaf, |target, weight| {
                let score = own.get_mut(target).ok_or_else(wrong)?;
                let seen = std::mem::replace(&mut self.seen[first + target], true);
                *score = match least_or_greatest {
                    _ if !seen => weight,
                    Aggregate::Min => score.min(weight),
                    _ => score.max(weight),
                };
                Ok(())
            }),
        }
    }

    /// Ends the combination of this many trees.
    pub fn end(self, trees: usize) {
        if self.aggregate == Aggregate::Average {
            let trees = trees.max(1) as f64;
            self.out.iter_mut().for_each(|v| *v /= trees);
        }
    }
}
