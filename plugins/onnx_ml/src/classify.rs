//! `MlClassify(scores [rows, classes]) {labels, second, post} -> label [rows], scores [rows,
//! classes]`: the label of the greatest score (the first of equal ones), and the scores after their
//! transform.
//!
//! If two labels have a single score, it is that of the second label, and `second` says how it is
//! used. 1: it is a probability (all weights are positive); the second label is chosen above one
//! half, and the scores are one minus it and itself. 2: it is signed; the second label is chosen
//! above zero, and the scores are its negative and itself. 3: chosen above zero, but the scores are
//! one minus it and itself (a linear model with one row). The logistic transform always gives two
//! probabilities; the other transforms change nothing, as in onnxruntime. If 0 or 1 is the only
//! label and has one score, the label is 1 above zero, else 0.
use crate::labels::Labels;
use crate::post::{Post, logistic};
use crate::rows::Rows;
use crate::shared::{columns, rows};
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::kernel::KernelCtx;
use ge_plugin_api::ops::{AttrKind, InferCtx, OpDef};
use ge_plugin_api::types::{DType, Shape, TensorDesc, ValueRef};
use ge_plugin_api::{Error, Result, register_kernel, register_op};

/// How a single score is used for two classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Second {
    /// Each class has its own score.
    No = 0,
    /// The score is a probability.
    Share = 1,
    /// The second class is chosen if the score is above zero.
    Sign = 2,
    /// Like `Sign`, but the other score is one minus this score.
    Rest = 3,
}

impl Second {
    /// Value of the attribute.
    fn code(self) -> i64 {
        self as i64
    }
    fn read(code: Option<i64>) -> Second {
        match code {
            Some(1) => Second::Share,
            Some(2) => Second::Sign,
            Some(3) => Second::Rest,
            _ => Second::No,
        }
    }
    /// The class and the two scores that follow from a single score.
    pub fn of(self, score: f64, post: Post) -> (usize, [f64; 2]) {
        let scores = match (post, self) {
            (Post::Logistic, _) => [logistic(-score), logistic(score)],
            (_, Second::Sign) => [-score, score],
            _ => [1.0 - score, score],
        };
        (usize::from(score > if self == Second::Share { 0.5 } else { 0.0 }), scores)
    }
}

/// Makes the label and the scores of a classifier, under the foreign node's name.
pub fn build(
    n: &ForeignNode,
    b: &mut GraphBuilder<'_>,
    scores: ValueRef,
    labels: Labels,
    second: Second,
) -> Result<Vec<ValueRef>> {
    let post = Post::of(n)?;
    if second != Second::No && post == "PROBIT" {
        return Err(n.refuse("`post_transform` PROBIT of one score for two classes is not computed"));
    }
    labels.need_another(n)?;
    let node = b.node("MlClassify").name(&n.name).input(scores).attr("labels", labels.numbers.clone());
    let outputs = node.attr("second", second.code()).attr("post", post.as_str()).build_n(2);
    labels.spelled(n, b, outputs)
}

fn infer(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let classes = c.node.ints("labels").map_or(0, <[i64]>::len);
    let scores = TensorDesc::new(DType::F32, columns(c, classes)?);
    Ok(vec![TensorDesc::new(DType::I64, Shape::new([rows(c)?])), scores])
}
register_op!(|| OpDef::new("MlClassify", infer)
    .input("scores", &[DType::F32, DType::F64], "T")
    .output("label", &[DType::I64], "")
    .output("scores", &[DType::F32], "")
    .required_attr("labels", AttrKind::INTS)
    .attr("second", AttrKind::INT, 0i64)
    .attr("post", AttrKind::STRING, "NONE"));

/// Index of the greatest score; the first of equal ones.
pub fn greatest(scores: &[f64]) -> usize {
    let mut at = 0;
    for (i, s) in scores.iter().enumerate() {
        if *s > scores[at] {
            at = i;
        }
    }
    at
}

fn run(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Rows::of(ctx.input(0)?)?;
    let post = Post::read(ctx.attrs.str("post"))?;
    let second = Second::read(ctx.attrs.int("second"));
    let labels = ctx.attrs.ints("labels").unwrap_or_default().to_vec();
    let expected = if second == Second::No { labels.len() } else { 1 };
    if x.width != expected || labels.is_empty() || (second != Second::No && labels.len() != 2) {
        return Err(Error::failed(format!("{} scores a row for {} labels", x.width, labels.len())));
    }
    let mut buffer = Vec::new();
    let scores = x.block::<f64>(0..x.count, &mut buffer)?;
    let (mut chosen, mut all) = (vec![0; x.count], vec![0.0; x.count * labels.len()]);
    let each = chosen.iter_mut().zip(all.chunks_exact_mut(labels.len())).enumerate();
    for (i, (label, out)) in each {
        let row = scores.row(i);
        *label = match second {
            Second::No => {
                out.copy_from_slice(row);
                post.apply(out);
                if labels.len() == 1 { i64::from(row[0] > 0.0) } else { labels[greatest(row)] }
            }
            _ => {
                let (at, both) = second.of(row[0], post);
                out.copy_from_slice(&both);
                labels[at]
            }
        };
    }
    let dims = [x.count as u64, labels.len() as u64];
    ctx.alloc_output(0, &dims[..1])?.values::<i64>()?.copy_from_slice(&chosen);
    let mut y = ctx.alloc_output(1, &dims)?;
    y.values::<f32>()?.iter_mut().zip(&all).for_each(|(y, v)| *y = *v as f32);
    Ok(())
}
register_kernel!("OnnxMlEngine", "MlClassify", [DType::F32, DType::F64], run);
