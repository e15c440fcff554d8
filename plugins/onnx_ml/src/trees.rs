//! Trees as mappings build them, and the constants that they become for `ml_trees`.
use crate::forest::{EQ, LAST_FEATURE, LEQ, LT, MEMBER, MISSING, NARROW, Tests, WIDE};
use crate::shared::list;
use ge_plugin_api::Result;
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::types::{ConstTensor, Scalar, ValueRef};

/// A comparison of the standard, as numbered in `TreeEnsemble`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// `<=`
    Leq = 0,
    /// `<`
    Lt = 1,
    /// `>=`
    Gte = 2,
    /// `>`
    Gt = 3,
    /// `==`
    Eq = 4,
    /// `!=`
    Neq = 5,
    /// Member of a set.
    Member = 6,
}

impl Mode {
    /// All comparisons, in the order of their numbers.
    pub const ALL: [Mode; 7] = [Mode::Leq, Mode::Lt, Mode::Gte, Mode::Gt, Mode::Eq, Mode::Neq, Mode::Member];
}

/// One comparison.
#[derive(Clone, Copy, Debug)]
pub struct Branch {
    /// Index of the feature.
    pub feature: i32,
    /// How the feature is compared.
    pub mode: Mode,
    /// Whether NaN satisfies the comparison.
    pub missing: bool,
    /// Value that the feature is compared with.
    pub split: f64,
    /// Next node if it holds; negative: a leaf.
    pub yes: i32,
    /// Next node if it does not hold; negative: a leaf.
    pub no: i32,
    /// The number of its set.
    pub set: i32,
}

impl Branch {
    /// The comparison with `<=`, `<`, `==` or membership that leads each feature to the same node.
    pub(crate) fn plain(self) -> Branch {
        let swapped = |mode, missing| Branch { mode, missing, yes: self.no, no: self.yes, ..self };
        match self.mode {
            Mode::Gte => swapped(Mode::Lt, !self.missing),
            Mode::Gt => swapped(Mode::Leq, !self.missing),
            // NaN differs from every number.
            Mode::Neq => swapped(Mode::Eq, false),
            Mode::Leq | Mode::Lt | Mode::Eq | Mode::Member => self,
        }
    }

    /// The test of a plain comparison; see [`crate::forest`].
    fn test(&self) -> u32 {
        let mode = match self.mode {
            Mode::Lt => LT,
            Mode::Eq => EQ,
            Mode::Member => MEMBER,
            _ => LEQ,
        };
        self.feature as u32 | mode | if self.missing { MISSING } else { 0 }
    }

    /// Whether f32 holds the split.
    fn narrow(&self) -> bool {
        self.mode == Mode::Member || is_f32(self.split)
    }

    /// The words of the node of a plain comparison.
    pub(crate) fn words(&self, narrow: bool) -> Vec<i32> {
        let split = match (self.mode, narrow) {
            (Mode::Member, true) => vec![self.set],
            (Mode::Member, false) => vec![self.set, 0],
            (_, true) => vec![(self.split as f32).to_bits() as i32],
            (_, false) => vec![self.split.to_bits() as i32, (self.split.to_bits() >> 32) as i32],
        };
        [split, vec![self.test() as i32, self.yes, self.no]].concat()
    }
}

/// Whether f32 holds the number.
fn is_f32(v: f64) -> bool {
    v.is_nan() || f64::from(v as f32) == v
}

/// Trees as built by a mapping.
#[derive(Clone, Debug, Default)]
pub struct Trees {
    /// All nodes that compare.
    pub nodes: Vec<Branch>,
    /// Each leaf's range of weights.
    pub leaves: Vec<(i32, i32)>,
    /// Targets and weights.
    pub weights: Vec<(i32, f64)>,
    /// Root of each tree; negative: a leaf.
    pub roots: Vec<i32>,
    /// The members of each set.
    pub sets: Vec<Vec<f64>>,
}

impl Trees {
    /// Makes the node that computes the trees for `targets` outputs. `name`: the foreign node's
    /// name if no node follows.
    ///
    /// # Errors
    /// Fails if a feature is negative or if an index does not exist.
    pub fn build(
        &self,
        n: &ForeignNode,
        b: &mut GraphBuilder<'_>,
        x: ValueRef,
        (targets, aggregate, base): (usize, &str, Vec<f64>),
        post: Option<&str>,
    ) -> Result<ValueRef> {
        let there = |at: i32| match at {
            0.. => (at as usize) < self.nodes.len(),
            _ => ((-1 - at) as usize) < self.leaves.len(),
        };
        let sound = |t: &Branch| {
            let set = t.mode != Mode::Member || usize::try_from(t.set).is_ok_and(|s| s < self.sets.len());
            (0..=LAST_FEATURE as i32).contains(&t.feature) && there(t.yes) && there(t.no) && set
        };
        if !self.nodes.iter().all(sound) || !self.roots.iter().all(|r| there(*r)) {
            return Err(n.refuse("a node names a feature or a node that is not there"));
        }
        if self.weights.iter().any(|w| w.0 < 0 || w.0 as usize >= targets) {
            return Err(n.refuse(format!("a leaf has a weight for a target beyond the {targets} that there are")));
        }
        let mut nodes: Vec<Branch> = self.nodes.iter().map(|t| t.plain()).collect();
        let mut sets = self.sets.clone();
        join_equals(&mut nodes, &mut sets);
        let mut tables = vec![table_of(&nodes, b)];
        tables.extend(self.leaves_of(targets, b));
        tables.push(list(b, "roots", &self.roots));
        tables.extend(tables_of(&sets, b));
        let mut built = b.node("MlTrees").input(x).inputs(&tables).attr("targets", targets as i64);
        built = built.attr("aggregate", aggregate).attr("base_values", base);
        built = built.attr("tests", Tests::name(nodes.iter().map(Branch::test)));
        built = built.attr("features", nodes.iter().map(|t| i64::from(t.feature) + 1).max().unwrap_or(0));
        if let Some(post) = post {
            built = built.name(&n.name).attr("post", post);
        }
        Ok(built.build())
    }

    /// The constants `leaves`, `targets` and `weights`.
    fn leaves_of(&self, targets: usize, b: &mut GraphBuilder<'_>) -> Vec<ValueRef> {
        let of: Vec<i32> = self.weights.iter().map(|w| w.0).collect();
        let weights: Vec<f64> = self.weights.iter().map(|w| w.1).collect();
        let each = self.leaves.first().map_or(0, |l| (l.1 - l.0).max(0));
        let even = each > 0 && self.leaves.iter().zip(0..).all(|(l, i)| *l == (i * each, (i + 1) * each));
        let in_order = even && each as usize <= targets && of.iter().zip((0..each).cycle()).all(|(t, k)| *t == k);
        let ranges: Vec<i32> = self.leaves.iter().filter(|_| !even).flat_map(|l| [l.0, l.1]).collect();
        let dims = match even {
            true => vec![self.leaves.len() as u64, each as u64],
            false => vec![weights.len() as u64],
        };
        let weights = match weights.iter().all(|w| is_f32(*w)) {
            true => table(b, "weights", &dims, &weights.iter().map(|w| *w as f32).collect::<Vec<_>>()),
            false => table(b, "weights", &dims, &weights),
        };
        let ranges = table(b, "leaves", &[ranges.len() as u64 / 2, 2], &ranges);
        vec![ranges, list(b, "targets", if in_order { &[] } else { &of }), weights]
    }
}

/// The constant with the words of all nodes.
fn table_of(nodes: &[Branch], b: &mut GraphBuilder<'_>) -> ValueRef {
    let narrow = nodes.iter().all(Branch::narrow);
    let words: Vec<i32> = nodes.iter().flat_map(|t| t.words(narrow)).collect();
    let width = if narrow { NARROW } else { WIDE };
    table(b, "nodes", &[nodes.len() as u64, width as u64], &words)
}

/// The constants `sets` and `members`.
fn tables_of(sets: &[Vec<f64>], b: &mut GraphBuilder<'_>) -> [ValueRef; 2] {
    let (mut ranges, mut members) = (Vec::new(), Vec::new());
    for set in sets {
        let from = members.len();
        members.extend(set.iter().copied().filter(|m| !m.is_nan()));
        members[from..].sort_by(f64::total_cmp);
        ranges.extend([from as i32, members.len() as i32]);
    }
    [table(b, "sets", &[sets.len() as u64, 2], &ranges), list(b, "members", &members)]
}

/// Makes one test of membership of each chain of `==` with the same feature that lead to the same
/// node, as exporters write a split by categories.
fn join_equals(nodes: &mut [Branch], sets: &mut Vec<Vec<f64>>) {
    let follower = |nodes: &[Branch], t: &Branch| {
        let at = usize::try_from(t.no).ok().filter(|_| t.mode == Mode::Eq && !t.missing)?;
        let next = &nodes[at];
        let same = next.mode == Mode::Eq && !next.missing && next.feature == t.feature && next.yes == t.yes;
        same.then_some(at)
    };
    // A node that follows several others begins a chain of its own, so that no set is stored twice.
    let mut before = vec![0usize; nodes.len()];
    for t in nodes.iter() {
        if let Some(at) = follower(nodes, t) {
            before[at] += 1;
        }
    }
    for i in (0..nodes.len()).filter(|i| before[*i] != 1) {
        let (mut members, mut last) = (vec![nodes[i].split], nodes[i]);
        while let Some(at) = follower(nodes, &last).filter(|at| before[*at] == 1) {
            last = nodes[at];
            members.push(last.split);
        }
        if members.len() > 1 {
            nodes[i] = Branch { mode: Mode::Member, no: last.no, set: sets.len() as i32, ..nodes[i] };
            sets.push(members);
        }
    }
}

/// A constant with these sizes.
fn table<T: Scalar>(b: &mut GraphBuilder<'_>, name: &str, dims: &[u64], v: &[T]) -> ValueRef {
    ConstTensor::of(dims, v).map_or(ValueRef::ABSENT, |t| b.made_constant(name, t))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn equal(split: f64, yes: i32, no: i32) -> Branch {
        Branch { feature: 0, mode: Mode::Eq, missing: false, split, yes, no, set: 0 }
    }

    #[test]
    fn a_chain_of_equals_becomes_one_set() {
        // Feature 0 is 2, 1 or 4: leaf 0; 3 leads to another leaf and has a test of its own.
        let mut nodes = [equal(2.0, -1, 1), equal(1.0, -1, 2), equal(4.0, -1, 3), equal(3.0, -2, -3)];
        let mut sets = Vec::new();
        join_equals(&mut nodes, &mut sets);
        assert_eq!((nodes[0].mode, nodes[0].yes, nodes[0].no), (Mode::Member, -1, 3));
        assert_eq!((nodes[3].mode, sets), (Mode::Eq, vec![vec![2.0, 1.0, 4.0]]));
    }

    #[test]
    fn chains_that_share_their_end_store_it_once() {
        let mut nodes = [equal(1.0, -1, 2), equal(2.0, -1, 2), equal(3.0, -1, 3), equal(4.0, -1, -2)];
        let mut sets = Vec::new();
        join_equals(&mut nodes, &mut sets);
        assert_eq!(nodes.map(|n| n.mode), [Mode::Eq, Mode::Eq, Mode::Member, Mode::Eq]);
        assert_eq!((nodes[2].no, sets), (-2, vec![vec![3.0, 4.0]]));
    }
}
