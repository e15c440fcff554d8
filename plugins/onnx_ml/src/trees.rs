//! `MlTrees(x [rows, features], nodes [n, 4 or 5], leaves [l, 2], targets [m], weights [l, k] or
//! [m], roots [t], sets [s, 2], members) {targets, aggregate, base_values, post, tests, features} ->
//! y [rows, targets]`: combines the weights of the leaves that a row reaches, over all trees; y is f64 for
//! features of f64, else f32. `features` is the least number of features that the nodes need.
//!
//! [`crate::forest`] says what the words of a node are. A leaf is a range of `targets` and
//! `weights`. If all leaves have as many weights, these are the rows of `weights` and `leaves` is
//! empty; if they are those of the targets 0, 1, 2, ..., `targets` is empty, too. A set is a range
//! of `members`.
use crate::forest::{EQ, Forest, LAST_FEATURE, LEQ, LT, MEMBER, MISSING, NARROW, Sets, Tests, WIDE};
use crate::leaves::{Aggregate, Leaves, Scores, Weights};
use crate::post::Post;
use crate::rows::{Block, Feature, Rows};
use crate::shared::{NUMBERS, columns, list};
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::kernel::{KernelCtx, TensorView};
use ge_plugin_api::ops::{AttrKind, InferCtx, OpDef};
use ge_plugin_api::types::{ConstTensor, DType, TensorDesc, ValueRef};
use ge_plugin_api::{Error, Result, register_kernel, register_op};

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
    fn plain(self) -> Branch {
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
    fn words(&self, narrow: bool) -> Vec<i32> {
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
    let mut follows = vec![false; nodes.len()];
    for t in nodes.iter() {
        if let Some(at) = follower(nodes, t) {
            follows[at] = true;
        }
    }
    for i in (0..nodes.len()).filter(|i| !follows[*i]) {
        let (mut members, mut last) = (vec![nodes[i].split], nodes[i]);
        while let Some(at) = follower(nodes, &last).filter(|_| members.len() <= nodes.len()) {
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
fn table<T: ge_plugin_api::types::Scalar>(b: &mut GraphBuilder<'_>, name: &str, dims: &[u64], v: &[T]) -> ValueRef {
    ConstTensor::of(dims, v).map_or(ValueRef::ABSENT, |t| b.made_constant(name, t))
}

fn infer(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let targets = c.node.int("targets").and_then(|t| usize::try_from(t).ok()).unwrap_or(0);
    let dtype = match c.input(0)?.dtype {
        t @ (DType::F64 | DType::UNKNOWN) => t,
        _ => DType::F32,
    };
    Ok(vec![TensorDesc::new(dtype, columns(c, targets)?)])
}
register_op!(|| OpDef::new("MlTrees", infer)
    .input("x", NUMBERS, "")
    .input("nodes", &[DType::I32], "")
    .input("leaves", &[DType::I32], "")
    .input("targets", &[DType::I32], "")
    .input("weights", &[DType::F32, DType::F64], "")
    .input("roots", &[DType::I32], "")
    .input("sets", &[DType::I32], "")
    .input("members", &[DType::F64], "")
    .output("y", &[DType::F32, DType::F64], "")
    .required_attr("targets", AttrKind::INT)
    .attr("aggregate", AttrKind::STRING, "SUM")
    .choices(&["SUM", "AVERAGE", "MIN", "MAX"])
    .attr("base_values", AttrKind::FLOATS, Vec::<f64>::new())
    .attr("post", AttrKind::STRING, "NONE")
    .attr("tests", AttrKind::STRING, "ANY")
    .choices(&Tests::NAMES)
    .attr("features", AttrKind::INT, 0i64));

/// Number of rows that one part of the parallel loop takes through all trees.
const ROWS: usize = 256;

/// What a kernel does with the rows of features.
struct Job<'a> {
    leaves: Leaves<'a>,
    roots: &'a [i32],
    sets: Sets<'a>,
    tests: Tests,
    aggregate: Aggregate,
    base: &'a [f64],
    post: Post,
    /// Number of scores per row.
    targets: usize,
    /// The least number of features that a row must have.
    features: usize,
}

impl<'a> Job<'a> {
    fn of(ctx: &KernelCtx<'a>) -> Result<Job<'a>> {
        let attrs = ctx.attrs;
        let number = |key: &str| attrs.int(key).and_then(|t| usize::try_from(t).ok()).unwrap_or(0);
        let [ranges, targets, roots, sets] = [2, 3, 5, 6].map(|i| ctx.input(i).and_then(|t| t.values::<i32>()));
        let (weights, sets) = (ctx.input(4)?, Sets { ranges: sets?, members: ctx.input(7)?.values()? });
        let each = weights.dims.get(1).map_or(0, |k| *k as usize);
        let weights = match weights.dtype {
            DType::F32 => Weights::F32(weights.values()?),
            _ => Weights::F64(weights.values()?),
        };
        let name = attrs.str("aggregate").unwrap_or("SUM");
        let aggregate = Aggregate::named(name).ok_or_else(|| {
            Error::failed(format!("attribute `aggregate`: found `{name}`, expected SUM, AVERAGE, MIN or MAX"))
        })?;
        Ok(Job {
            leaves: Leaves { ranges: ranges?, each, targets: targets?, weights },
            roots: roots?,
            sets,
            tests: Tests::named(attrs.str("tests").unwrap_or_default()),
            aggregate,
            base: attrs.floats("base_values").unwrap_or_default(),
            post: Post::read(attrs.str("post"))?,
            targets: number("targets"),
            features: number("features"),
        })
    }

    /// The final scores of consecutive rows, over nodes of `W` words.
    fn scores<X: Feature, const W: usize>(&self, nodes: &[i32], rows: &Block<'_, X>, out: &mut [f64]) -> Result<()> {
        let forest = Forest { nodes: nodes.as_chunks::<W>().0, roots: self.roots, sets: self.sets, tests: self.tests };
        let mut scores = Scores::new(self.leaves, self.aggregate, self.targets, out);
        forest.each(rows, |row, leaf| scores.add(row, leaf))?;
        scores.end(self.roots.len());
        for out in out.chunks_exact_mut(self.targets.max(1)) {
            // A single base value belongs to the first target only.
            out.iter_mut().zip(self.base).for_each(|(y, b)| *y += b);
            self.post.apply(out);
        }
        Ok(())
    }

    /// The scores of all rows. Features of f32 are compared in f32 if the splits are f32, too.
    fn run<Y: crate::rows::Rounded>(&self, x: &Rows<'_>, nodes: TensorView<'_>, y: &mut [Y]) -> Result<()> {
        let words = nodes.values::<i32>()?;
        let (wide, targets) = (x.dtype() == DType::F64, self.targets);
        if x.width < self.features {
            return Err(Error::failed(format!(
                "input 0 has {} features, the trees take at least {}",
                x.width, self.features
            )));
        }
        match *nodes.dims {
            [_, w] if w == NARROW as u64 && !wide => {
                x.in_blocks(targets, ROWS, y, |rows, out| self.scores::<f32, NARROW>(words, rows, out))
            }
            [_, w] if w == NARROW as u64 => {
                x.in_blocks(targets, ROWS, y, |rows, out| self.scores::<f64, NARROW>(words, rows, out))
            }
            [_, w] if w == WIDE as u64 => {
                x.in_blocks(targets, ROWS, y, |rows, out| self.scores::<f64, WIDE>(words, rows, out))
            }
            _ => Err(Error::failed(format!(
                "input 1: found nodes {:?}, expected [nodes, {NARROW} or {WIDE}]; compile the model again",
                nodes.dims
            ))),
        }
    }
}

fn run(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (x, nodes) = (Rows::of(ctx.input(0)?)?, ctx.input(1)?);
    let job = Job::of(ctx)?;
    let mut y = ctx.alloc_output(0, &[x.count as u64, job.targets as u64])?;
    match y.dtype {
        DType::F64 => job.run(&x, nodes, y.values::<f64>()?),
        _ => job.run(&x, nodes, y.values::<f32>()?),
    }
}
register_kernel!("OnnxMlEngine", "MlTrees", [DType::F32, DType::F64, DType::I64, DType::I32], run);

#[cfg(test)]
mod tests {
    use super::*;

    /// Trees over two targets, whose leaves have the weights 1, 2, 4, and 8 with 16.5.
    fn job<'a>(roots: &'a [i32], tests: Tests, aggregate: Aggregate) -> Job<'a> {
        let weights = Weights::F64(&[1.0, 2.0, 4.0, 8.0, 16.5]);
        let leaves = Leaves { ranges: &[0, 1, 1, 2, 2, 3, 3, 5], each: 0, targets: &[0, 1, 0, 1, 0], weights };
        let sets = Sets { ranges: &[0, 2], members: &[-0.5, 0.25] };
        Job { leaves, roots, sets, tests, aggregate, base: &[], post: Post::None, targets: 2, features: 0 }
    }

    fn scores(job: &Job<'_>, nodes: &[Branch], values: &[f64]) -> Result<Vec<f64>> {
        let words: Vec<i32> = nodes.iter().flat_map(|n| n.plain().words(true)).collect();
        let rows = Block { values, count: values.len() / 2, width: 2 };
        let mut out = vec![0.0; 2 * rows.count];
        job.scores::<f64, NARROW>(&words, &rows, &mut out)?;
        Ok(out)
    }

    fn branch(feature: i32, mode: Mode, split: f64, yes: i32, no: i32) -> Branch {
        Branch { feature, mode, missing: false, split, yes, no, set: 0 }
    }

    #[test]
    fn tables_that_go_round_or_nowhere_are_errors() {
        let score = |node: Branch, x: f64| {
            let job = job(&[0], Tests::Any, Aggregate::Sum);
            scores(&job, &[node], &[x, 0.0]).map_err(|e| e.message().to_owned())
        };
        let good = branch(0, Mode::Leq, 0.5, -1, -2);
        assert_eq!(score(good, 0.0), Ok(vec![1.0, 0.0]));
        assert_eq!(score(good, f64::NAN), Ok(vec![0.0, 2.0]));
        assert_eq!(score(Branch { missing: true, ..good }, f64::NAN), Ok(vec![1.0, 0.0]));
        assert!(score(Branch { yes: 0, ..good }, 0.0).is_err_and(|e| e.contains("goes round")));
        assert!(score(Branch { yes: 7, ..good }, 0.0).is_err_and(|e| e.contains("not there")));
        assert!(score(Branch { feature: 3, ..good }, 0.0).is_err_and(|e| e.contains("not there")));
        assert!(score(Branch { yes: -9, ..good }, 0.0).is_err_and(|e| e.contains("not there")));
    }

    /// What the standard says of one comparison.
    fn holds(t: &Branch, x: f64) -> bool {
        let holds = match t.mode {
            Mode::Leq => x <= t.split,
            Mode::Lt => x < t.split,
            Mode::Gte => x >= t.split,
            Mode::Gt => x > t.split,
            Mode::Eq => x == t.split,
            Mode::Neq => x != t.split,
            Mode::Member => [-0.5, 0.25].contains(&x),
        };
        holds || (t.missing && x.is_nan())
    }

    #[test]
    fn every_comparison_leads_where_the_standard_says() {
        for (mode, missing) in Mode::ALL.into_iter().flat_map(|m| [(m, false), (m, true)]) {
            let node = Branch { missing, ..branch(0, mode, 0.25, -1, -2) };
            for x in [-1.0, -0.5, 0.0, 0.25, 0.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
                let got = scores(&job(&[0], Tests::Any, Aggregate::Sum), &[node], &[x, 0.0]).unwrap();
                let expected = if holds(&node, x) { [1.0, 0.0] } else { [0.0, 2.0] };
                assert_eq!(got, expected, "{mode:?} {x}, missing {missing}");
            }
        }
    }

    #[test]
    fn a_chain_of_equals_becomes_one_set() {
        // Feature 0 is 1, 2 or 4: leaf 0; the last has another leaf, and so a test of its own.
        let chain = [
            branch(0, Mode::Eq, 2.0, -1, 1),
            branch(0, Mode::Eq, 1.0, -1, 2),
            branch(0, Mode::Eq, 4.0, -1, 3),
            branch(0, Mode::Eq, 3.0, -2, -3),
        ];
        let (mut nodes, mut sets) = (chain.to_vec(), Vec::new());
        join_equals(&mut nodes, &mut sets);
        assert_eq!((nodes[0].mode, nodes[0].no, nodes[0].yes), (Mode::Member, 3, -1));
        assert_eq!((nodes[3].mode, &sets[..]), (Mode::Eq, &[vec![2.0, 1.0, 4.0]][..]));
        let one = |nodes: &[Branch], x: f64| {
            let mut job = job(&[0], Tests::Any, Aggregate::Sum);
            job.sets = Sets { ranges: &[0, 3], members: &[1.0, 2.0, 4.0] };
            scores(&job, nodes, &[x, 0.0]).unwrap()
        };
        for x in [0.0, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, f64::NAN] {
            assert_eq!(one(&nodes, x), one(&chain, x), "{x}");
        }
    }

    #[test]
    fn many_rows_get_what_each_gets_alone() {
        // The trees have different depths, so that a row waits for another; the last is a leaf.
        let nodes = [
            branch(0, Mode::Leq, 0.5, 1, -1),
            branch(1, Mode::Leq, -0.5, -2, -3),
            Branch { missing: true, ..branch(1, Mode::Leq, 0.25, -1, 3) },
            branch(0, Mode::Leq, 0.0, -4, -2),
        ];
        let mut rows: Vec<f64> = (0..100).map(|i| f64::from(i * 37 % 41) / 20.0 - 1.0).collect();
        (rows[7], rows[30]) = (f64::NAN, f64::NAN);
        for how in [Aggregate::Sum, Aggregate::Average, Aggregate::Min, Aggregate::Max] {
            for tests in [Tests::Leq, Tests::Any] {
                let job = job(&[0, 2, -2], tests, how);
                let all = scores(&job, &nodes, &rows).unwrap();
                for (row, got) in rows.chunks_exact(2).zip(all.chunks_exact(2)) {
                    assert_eq!(got, scores(&job, &nodes, row).unwrap(), "{how:?} of {row:?}");
                }
            }
        }
    }

    #[test]
    fn scores_keep_f64_until_they_are_rounded_to_the_output() {
        let x = [0.0f64, 1.0];
        let bytes: Vec<u8> = x.iter().flat_map(|v| v.to_le_bytes()).collect();
        let x = ge_plugin_api::kernel::HostTensor::from_bytes(DType::F64, &[2, 1], &bytes).unwrap();
        let leaves = Leaves { ranges: &[], each: 1, targets: &[], weights: Weights::F64(&[1.0, 1e-12]) };
        let job = Job { leaves, targets: 1, ..job(&[-1, -2], Tests::Any, Aggregate::Sum) };
        let nodes = TensorView { dtype: DType::I32, dims: &[0, NARROW as u64], bytes: &[] };
        let mut y = [0.0f64; 2];
        job.run(&Rows::of(x.view()).unwrap(), nodes, &mut y).unwrap();
        assert_eq!(y, [1.0 + 1e-12; 2]);
        let wider = Job { features: 2, ..job };
        let told = wider.run(&Rows::of(x.view()).unwrap(), nodes, &mut y).unwrap_err();
        assert_eq!(told.message(), "input 0 has 1 features, the trees take at least 2");
    }
}
