//! `MlTrees(x [rows, features], nodes [n, 4 or 5], leaves [l, 2], targets [m], weights [l, k] or
//! [m], roots [t], sets [s, 2], members) {targets, aggregate, base_values, post, tests, features} ->
//! y [rows, targets]`: combines the weights of the leaves that a row reaches, over all trees; y is f64 for
//! features of f64, else f32. `features` is the least number of features that the nodes need.
//!
//! [`crate::forest`] says what the words of a node are. A leaf is a range of `targets` and
//! `weights`. If all leaves have as many weights, these are the rows of `weights` and `leaves` is
//! empty; if they are those of the targets 0, 1, 2, ..., `targets` is empty, too. A set is a range
//! of `members`.
use crate::forest::{Forest, NARROW, Sets, Tests, WIDE};
use crate::leaves::{Aggregate, Leaves, Scores, Weights};
use crate::post::Post;
use crate::rows::{Block, Feature, Rounded, Rows};
use crate::shared::{NUMBERS, columns};
use ge_plugin_api::kernel::{KernelCtx, TensorView};
use ge_plugin_api::ops::{AttrKind, InferCtx, OpDef};
use ge_plugin_api::types::{DType, TensorDesc};
use ge_plugin_api::{Error, Result, register_kernel, register_op};

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
    fn run<Y: Rounded>(&self, x: &Rows<'_>, nodes: TensorView<'_>, y: &mut [Y]) -> Result<()> {
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
            _ => Err(unknown_form(&nodes)),
        }
    }
}

/// The error for nodes of another form, as in the OM of another version.
fn unknown_form(nodes: &TensorView<'_>) -> Error {
    let found = nodes.dims;
    Error::failed(format!(
        "input 1: found nodes {found:?}, expected [nodes, {NARROW} or {WIDE}]: compile the model again"
    ))
}

fn run(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (x, nodes) = (Rows::of(ctx.input(0)?)?, ctx.input(1)?);
    if ![NARROW as u64, WIDE as u64].contains(nodes.dims.last().unwrap_or(&0)) {
        return Err(unknown_form(&nodes));
    }
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
    use crate::trees::{Branch, Mode};

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
