//! `MlTrees(x [rows, features], nodes [n, 7], splits [n], leaves [l, 2], targets [m], weights [m],
//! roots [t], members [s]) {targets, aggregate, base_values, post} -> y [rows, targets]`: combines
//! the weights of the leaves that a row reaches, over all trees; y is f64 for features of f64, else
//! f32.
//!
//! A node holds: feature; comparison (0 `<=`, 1 `<`, 2 `>=`, 3 `>`, 4 `==`, 5 `!=`, 6 member of a
//! set); whether NaN satisfies the comparison; the next nodes if it holds and if it does not; and
//! the range of its set in `members`. A negative node index is the leaf `-1 - index`; a leaf is a
//! range of `targets` and `weights`.
use crate::forest::Tree;
use crate::linear::row_blocks;
use crate::post::Post;
use crate::shared::{NUMBERS, Rows, columns};
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::kernel::KernelCtx;
use ge_plugin_api::ops::{AttrKind, InferCtx, OpDef};
use ge_plugin_api::types::{ConstTensor, DType, TensorDesc, ValueRef};
use ge_plugin_api::{Error, Result, register_kernel, register_op};

/// Number of integers per node in the table.
pub const NODE: usize = 7;

/// One comparison.
#[derive(Clone, Copy, Debug)]
pub struct Branch {
    /// Index of the feature.
    pub feature: i32,
    /// Number of the comparison, as listed above.
    pub mode: i32,
    /// Whether NaN satisfies the comparison.
    pub missing: bool,
    /// Value that the feature is compared with.
    pub split: f64,
    /// Next node if it holds; negative: a leaf.
    pub yes: i32,
    /// Next node if it does not hold; negative: a leaf.
    pub no: i32,
    /// Range of its set in `members`.
    pub set: (i32, i32),
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
    /// The members of all sets.
    pub members: Vec<f64>,
}

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
        let sound = |t: &Branch| t.feature >= 0 && there(t.yes) && there(t.no);
        if !self.nodes.iter().all(sound) || !self.roots.iter().all(|r| there(*r)) {
            return Err(n.refuse("a node names a feature or a node that is not there"));
        }
        if self.weights.iter().any(|w| w.0 < 0 || w.0 as usize >= targets) {
            return Err(n.refuse(format!("a leaf has a weight for a target beyond the {targets} that there are")));
        }
        let flat = |t: &Branch| [t.feature, t.mode, i32::from(t.missing), t.yes, t.no, t.set.0, t.set.1];
        let nodes: Vec<i32> = self.nodes.iter().flat_map(flat).collect();
        let splits: Vec<f64> = self.nodes.iter().map(|t| t.split).collect();
        let leaves: Vec<i32> = self.leaves.iter().flat_map(|l| [l.0, l.1]).collect();
        let of: Vec<i32> = self.weights.iter().map(|w| w.0).collect();
        let weights: Vec<f64> = self.weights.iter().map(|w| w.1).collect();
        let mut node = Vec::new();
        let mut put = |name: &str, t: Option<ConstTensor>| {
            node.push(t.map_or(ValueRef::ABSENT, |t| b.made_constant(name, t)));
        };
        put("nodes", ConstTensor::of(&[self.nodes.len() as u64, NODE as u64], &nodes));
        put("splits", ConstTensor::of(&[splits.len() as u64], &splits));
        put("leaves", ConstTensor::of(&[self.leaves.len() as u64, 2], &leaves));
        put("targets", ConstTensor::of(&[of.len() as u64], &of));
        put("weights", ConstTensor::of(&[weights.len() as u64], &weights));
        put("roots", ConstTensor::of(&[self.roots.len() as u64], &self.roots));
        put("members", ConstTensor::of(&[self.members.len() as u64], &self.members));
        let mut built = b.node("MlTrees").input(x).inputs(&node).attr("targets", targets as i64);
        built = built.attr("aggregate", aggregate).attr("base_values", base);
        if let Some(post) = post {
            built = built.name(&n.name).attr("post", post);
        }
        Ok(built.build())
    }
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
    .input("splits", &[DType::F64], "")
    .input("leaves", &[DType::I32], "")
    .input("targets", &[DType::I32], "")
    .input("weights", &[DType::F64], "")
    .input("roots", &[DType::I32], "")
    .input("members", &[DType::F64], "")
    .output("y", &[DType::F32, DType::F64], "")
    .required_attr("targets", AttrKind::INT)
    .attr("aggregate", AttrKind::STRING, "SUM")
    .choices(&["SUM", "AVERAGE", "MIN", "MAX"])
    .attr("base_values", AttrKind::FLOATS, Vec::<f64>::new())
    .attr("post", AttrKind::STRING, "NONE"));

/// The tables as a kernel reads them.
pub struct Tables<'a> {
    /// Nodes; [`NODE`] integers each.
    pub nodes: &'a [i32],
    /// Value that each node compares with.
    pub splits: &'a [f64],
    /// Each leaf's range of weights.
    pub leaves: &'a [i32],
    /// The target of each weight.
    pub targets: &'a [i32],
    /// The weights.
    pub weights: &'a [f64],
    /// Root of each tree.
    pub roots: &'a [i32],
    /// The members of all sets.
    pub members: &'a [f64],
}

impl Tables<'_> {
    /// The leaf that a row reaches; fails if the tables lead nowhere.
    fn leaf(&self, root: i32, row: &[f64]) -> Result<usize> {
        let wrong = || Error::failed("a tree leads to a node or a feature that is not there");
        let mut at = root;
        // A path that is longer than the number of nodes must be a cycle.
        for _ in 0..=self.splits.len() {
            let Ok(i) = usize::try_from(at) else { return usize::try_from(-1 - i64::from(at)).map_err(|_| wrong()) };
            let node = self.nodes.get(i * NODE..(i + 1) * NODE).ok_or_else(wrong)?;
            let split = *self.splits.get(i).ok_or_else(wrong)?;
            let x = *usize::try_from(node[0]).ok().and_then(|f| row.get(f)).ok_or_else(wrong)?;
            let holds = match node[1] {
                0 => x <= split,
                1 => x < split,
                2 => x >= split,
                3 => x > split,
                4 => x == split,
                5 => x != split,
                _ => {
                    let range = (usize::try_from(node[5]), usize::try_from(node[6]));
                    let (Ok(from), Ok(to)) = range else { return Err(wrong()) };
                    self.members.get(from..to).ok_or_else(wrong)?.contains(&x)
                }
            };
            at = if holds || (node[2] != 0 && x.is_nan()) { node[3] } else { node[4] };
        }
        Err(Error::failed("a tree goes round"))
    }

    /// The scores of consecutive rows, with the trees in order.
    fn scores(&self, rows: &[f64], width: usize, aggregate: Aggregate, out: &mut [f64], targets: usize) -> Result<()> {
        out.fill(0.0);
        if targets == 0 {
            return Ok(());
        }
        let count = out.len() / targets;
        let mut seen = vec![false; if matches!(aggregate, Aggregate::Min | Aggregate::Max) { out.len() } else { 0 }];
        let mut add = |row: usize, leaf: usize| -> Result<()> {
            let wrong = || Error::failed("a leaf has weights that are not there");
            let range = self.leaves.get(2 * leaf..2 * leaf + 2).ok_or_else(wrong)?;
            let range =
                usize::try_from(range[0]).map_err(|_| wrong())?..usize::try_from(range[1]).map_err(|_| wrong())?;
            let (of, weights) = (self.targets.get(range.clone()), self.weights.get(range));
            let (Some(of), Some(weights)) = (of, weights) else { return Err(wrong()) };
            let own = &mut out[row * targets..(row + 1) * targets];
            for (t, w) in of.iter().zip(weights) {
                let t = usize::try_from(*t).ok().filter(|t| *t < targets).ok_or_else(wrong)?;
                let first = |seen: &mut Vec<bool>| !std::mem::replace(&mut seen[row * targets + t], true);
                own[t] = match aggregate {
                    Aggregate::Sum | Aggregate::Average => own[t] + w,
                    Aggregate::Min if !first(&mut seen) => own[t].min(*w),
                    Aggregate::Max if !first(&mut seen) => own[t].max(*w),
                    Aggregate::Min | Aggregate::Max => *w,
                };
            }
            Ok(())
        };
        let mut tree = Tree::default();
        for (number, root) in self.roots.iter().enumerate() {
            // Converting a tree costs about as much as evaluating a few rows.
            if count >= FEW && tree.read(self, number, width) {
                let mut done = Ok(());
                tree.each(rows, width, |row, leaf| {
                    if done.is_ok() {
                        done = add(row, leaf as usize);
                    }
                });
                done?;
                continue;
            }
            for row in 0..count {
                let leaf = self.leaf(*root, &rows[row * width..(row + 1) * width])?;
                add(row, leaf)?;
            }
        }
        if aggregate == Aggregate::Average {
            let trees = self.roots.len().max(1) as f64;
            out.iter_mut().for_each(|v| *v /= trees);
        }
        Ok(())
    }
}

/// With fewer rows, trees are evaluated node by node.
const FEW: usize = 16;
/// Number of rows that one part of the parallel loop takes through all trees.
const ROWS: usize = 256;

fn run(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Rows::of(ctx.input(0)?)?;
    let of = |i: usize| ctx.input(i);
    let (nodes, splits, leaves, targets) = (of(1)?, of(2)?, of(3)?, of(4)?);
    let (weights, roots, members) = (of(5)?, of(6)?, of(7)?);
    let tables = Tables {
        nodes: nodes.values()?,
        splits: splits.values()?,
        leaves: leaves.values()?,
        targets: targets.values()?,
        weights: weights.values()?,
        roots: roots.values()?,
        members: members.values()?,
    };
    let post = Post::read(ctx.attrs.str("post"))?;
    let name = ctx.attrs.str("aggregate").unwrap_or("SUM");
    let aggregate = Aggregate::named(name).ok_or_else(|| {
        Error::failed(format!("attribute `aggregate`: found `{name}`, expected SUM, AVERAGE, MIN or MAX"))
    })?;
    let count = ctx.attrs.int("targets").and_then(|t| usize::try_from(t).ok()).unwrap_or(0);
    let base = ctx.attrs.floats("base_values").unwrap_or_default().to_vec();
    let y = row_blocks(&x, count, ROWS, |rows, out| {
        tables.scores(rows, x.width, aggregate, out, count)?;
        for out in out.chunks_exact_mut(count.max(1)) {
            // A single base value belongs to the first target only.
            out.iter_mut().zip(&base).for_each(|(y, b)| *y += b);
            post.apply(out);
        }
        Ok(())
    })?;
    let dims = [x.count as u64, count as u64];
    let mut to = ctx.alloc_output(0, &dims)?;
    match to.dtype {
        DType::F64 => to.values::<f64>()?.iter_mut().zip(&y).for_each(|(t, v)| *t = f64::from(*v)),
        _ => to.values::<f32>()?.copy_from_slice(&y),
    }
    Ok(())
}
register_kernel!("OnnxMlEngine", "MlTrees", [DType::F32, DType::F64, DType::I64, DType::I32], run);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_that_go_round_or_nowhere_are_errors() {
        let tables = |nodes: &'static [i32]| Tables {
            nodes,
            splits: &[0.5],
            leaves: &[0, 1, 1, 2],
            targets: &[0, 0],
            weights: &[1.0, 2.0],
            roots: &[0],
            members: &[],
        };
        let score = |t: &Tables<'_>, x: f64| {
            let mut out = [0.0];
            t.scores(&[x], 1, Aggregate::Sum, &mut out, 1).map(|()| out[0]).map_err(|e| e.message().to_owned())
        };
        let good = tables(&[0, 0, 1, -1, -2, 0, 0]);
        assert_eq!((score(&good, 0.0), score(&good, 1.0), score(&good, f64::NAN)), (Ok(1.0), Ok(2.0), Ok(1.0)));
        assert!(score(&tables(&[0, 0, 0, 0, -1, 0, 0]), 0.0).is_err_and(|e| e.contains("goes round")));
        assert!(score(&tables(&[0, 0, 0, 7, -1, 0, 0]), 0.0).is_err_and(|e| e.contains("not there")));
        assert!(score(&tables(&[3, 0, 0, -1, -1, 0, 0]), 0.0).is_err_and(|e| e.contains("not there")));
        assert!(score(&tables(&[0, 0, 0, -9, -1, 0, 0]), 0.0).is_err_and(|e| e.contains("not there")));
    }

    #[test]
    fn many_rows_get_what_each_gets_alone() {
        // Two trees with two comparisons; in the second one, NaN satisfies the comparison. The
        // third uses two kinds of comparisons and is evaluated node by node.
        let nodes = [
            [0, 0, 0, 1, -1, 0, 0],
            [1, 0, 0, -2, -3, 0, 0],
            [1, 3, 1, -1, 3, 0, 0],
            [0, 3, 0, -4, -2, 0, 0],
            [0, 1, 0, 5, -1, 0, 0],
            [1, 2, 0, -3, -4, 0, 0],
        ];
        let flat: Vec<i32> = nodes.concat();
        let tables = Tables {
            nodes: &flat,
            splits: &[0.5, -0.5, 0.25, 0.0, 0.75, -0.25],
            leaves: &[0, 1, 1, 2, 2, 4, 4, 5],
            targets: &[0, 1, 0, 1, 1],
            weights: &[1.0, 2.0, 4.0, 8.0, 16.5],
            roots: &[0, 2, 4],
            members: &[],
        };
        let mut rows: Vec<f64> = (0..100).map(|i| f64::from(i * 37 % 41) / 20.0 - 1.0).collect();
        (rows[7], rows[30]) = (f64::NAN, f64::NAN);
        for how in [Aggregate::Sum, Aggregate::Average, Aggregate::Min, Aggregate::Max] {
            let mut all = vec![0.0; 100];
            tables.scores(&rows, 2, how, &mut all, 2).unwrap();
            for (row, got) in rows.chunks_exact(2).zip(all.chunks_exact(2)) {
                let mut alone = [0.0; 2];
                tables.scores(row, 2, how, &mut alone, 2).unwrap();
                assert_eq!(got, alone, "{how:?} of {row:?}");
            }
        }
    }
}
