//! `MlSvmRegressor(x, vectors [v, features], coefficients, rho) -> y [rows, 1]` and
//! `MlSvmClassifier(x, vectors, coefficients, rho, a, b) -> label [rows], scores`: support vector
//! machines as in libsvm. With `a` and `b`, the scores are probabilities from pairwise coupling;
//! otherwise they are the decisions of the pairs. Without vectors, the model is linear, whatever
//! its kernel function is, and the coefficients are its rows.
use crate::classify::{Second, greatest};
use crate::labels::Labels;
use crate::post::{Post, logistic};
use crate::rows::{Block, CHUNK, Feature, Rows};
use crate::shared::{NUMBERS, Outs, columns, ints, list, reals, rows};
use crate::sums::products;
use crate::vectors::Vectors;
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder, NodeBuilder};
use ge_plugin_api::kernel::KernelCtx;
use ge_plugin_api::ops::{AttrKind, InferCtx, OpDef};
use ge_plugin_api::types::{DType, Shape, TensorDesc};
use ge_plugin_api::{Error, Result, map_op, register_kernel, register_op};

const KERNELS: [&str; 4] = ["LINEAR", "POLY", "RBF", "SIGMOID"];

/// Begins a node with the attributes that both operators share, as constants.
fn begun<'b, 'a>(n: &ForeignNode, b: &'b mut GraphBuilder<'a>, op: &str, more: &[&str]) -> Result<NodeBuilder<'b, 'a>> {
    let kernel = n.str_or("kernel_type", "LINEAR");
    if !KERNELS.contains(&kernel) {
        return Err(n.refuse(format!("attribute `kernel_type` is `{kernel}`, expected one of {}", KERNELS.join(", "))));
    }
    let post = Post::of(n)?;
    let mut inputs = vec![n.input(0)?];
    for name in ["support_vectors", "coefficients", "rho"].iter().chain(more) {
        inputs.push(list(b, name, &reals(n, name).unwrap_or_default()));
    }
    let mut params = reals(n, "kernel_params").unwrap_or_default();
    params.resize(3, 0.0);
    let node = b.node(op).name(&n.name).inputs(&inputs).attr("kernel", kernel).attr("params", params);
    Ok(node.attr("post", post.as_str()))
}

fn regressor(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let count = n.int_or("n_supports", 0);
    let node = begun(n, b, "MlSvmRegressor", &[])?;
    Ok(vec![node.attr("vectors", count).attr("one_class", n.int_or("one_class", 0)).build()])
}
map_op!("onnx", "ai.onnx.ml", "SVMRegressor", 1..=u32::MAX, regressor);

fn classifier(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let labels = Labels::of(n, "classlabels_ints", "classlabels_strings");
    let (classes, per_class) = (labels.numbers.len(), ints(n, "vectors_per_class"));
    if classes < 2 || !(per_class.is_empty() || per_class.len() == classes) {
        return Err(n.refuse(format!("{classes} labels for {} classes", per_class.len())));
    }
    let node = begun(n, b, "MlSvmClassifier", &["prob_a", "prob_b"])?;
    let outputs = node.attr("labels", labels.numbers.clone()).attr("per_class", per_class).build_n(2);
    labels.spelled(n, b, outputs)
}
map_op!("onnx", "ai.onnx.ml", "SVMClassifier", 1..=u32::MAX, classifier);

fn infer_regressor(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    Ok(vec![TensorDesc::new(DType::F32, columns(c, 1)?)])
}

/// Number of scores per row: one per class for probabilities, else one per pair of classes; two for
/// two classes.
fn width(classes: usize, linear: bool, probabilities: bool) -> usize {
    if probabilities || linear || classes == 2 { classes } else { classes * classes.saturating_sub(1) / 2 }
}
fn infer_classifier(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let classes = c.node.ints("labels").map_or(0, <[i64]>::len);
    let linear = c.node.ints("per_class").is_none_or(<[i64]>::is_empty);
    let probabilities = c.input(4)?.shape.dims().first().and_then(|d| d.size()).is_some_and(|n| n > 0);
    let scores = TensorDesc::new(DType::F32, columns(c, width(classes, linear, probabilities))?);
    Ok(vec![TensorDesc::new(DType::I64, Shape::new([rows(c)?])), scores])
}
fn def(name: &str, infer: ge_plugin_api::ops::InferFn) -> OpDef {
    let reals = &[DType::F64];
    OpDef::new(name, infer)
        .input("x", NUMBERS, "")
        .input("vectors", reals, "")
        .input("coefficients", reals, "")
        .input("rho", reals, "")
}
fn shared(d: OpDef) -> OpDef {
    d.attr("kernel", AttrKind::STRING, "LINEAR").choices(&KERNELS).attr("params", AttrKind::FLOATS, vec![0.0; 3]).attr(
        "post",
        AttrKind::STRING,
        "NONE",
    )
}
register_op!(|| shared(def("MlSvmRegressor", infer_regressor).output("y", &[DType::F32], ""))
    .attr("vectors", AttrKind::INT, 0i64)
    .attr("one_class", AttrKind::INT, 0i64));
register_op!(|| shared(
    def("MlSvmClassifier", infer_classifier)
        .input("a", &[DType::F64], "")
        .input("b", &[DType::F64], "")
        .output("label", &[DType::I64], "")
        .output("scores", &[DType::F32], "")
)
.required_attr("labels", AttrKind::INTS)
.attr("per_class", AttrKind::INTS, Vec::<i64>::new()));

fn run_regressor(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Rows::of(ctx.input(0)?)?;
    let (vectors, coefficients, rho) = (ctx.input(1)?, ctx.input(2)?, ctx.input(3)?);
    let (vectors, w) = (vectors.values::<f64>()?, coefficients.values::<f64>()?);
    let rho = rho.values::<f64>()?.first().copied().unwrap_or(0.0);
    let post = Post::read(ctx.attrs.str("post"))?;
    let count = ctx.attrs.int("vectors").and_then(|v| usize::try_from(v).ok()).unwrap_or(0);
    let one_class = ctx.attrs.int("one_class") == Some(1);
    let fits = if count > 0 { vectors.len() == count * x.width && w.len() == count } else { w.len() == x.width };
    if !fits || x.width == 0 {
        return Err(Error::failed(format!("input 0 has {} features, the model takes another number", x.width)));
    }
    let vectors = Vectors::of(ctx, vectors, count);
    let mut y = ctx.alloc_output(0, &[x.count as u64, 1])?;
    let finish = |sums: &[f64], out: &mut [f64]| {
        for (out, sum) in out.chunks_exact_mut(1).zip(sums) {
            out[0] = sum + rho;
            if one_class {
                out[0] = if out[0] > 0.0 { 1.0 } else { -1.0 };
            }
            post.apply(out);
        }
        Ok(())
    };
    let y = y.values::<f32>()?;
    if count > 0 {
        return x.in_blocks(1, vectors.rows(), y, |rows: &Block<'_, f32>, out| {
            vectors.values(rows, |values| {
                let mut sums = vec![0.0; rows.count];
                products(values, w, count, &mut sums);
                finish(&sums, out)
            })
        });
    }
    match x.dtype() {
        DType::F64 => x.in_blocks(1, CHUNK, y, |rows: &Block<'_, f64>, out| finish(&sums(rows, w, 1), out)),
        _ => x.in_blocks(1, CHUNK, y, |rows: &Block<'_, f32>, out| finish(&sums(rows, w, 1), out)),
    }
}
register_kernel!("OnnxMlEngine", "MlSvmRegressor", [DType::F32, DType::F64, DType::I64, DType::I32], run_regressor);

/// Probabilities of `k` classes from those of the pairs (Wu, Lin and Weng, "Probability estimates
/// for multi-class classification by pairwise coupling", JMLR 5, 2004, algorithm 2).
pub fn coupled(pairs: &[f64], k: usize) -> Vec<f64> {
    let r = |i: usize, j: usize| pairs[i * k + j];
    let mut q = vec![0.0; k * k];
    for t in 0..k {
        for j in (0..k).filter(|j| *j != t) {
            q[t * k + t] += r(j, t) * r(j, t);
            q[t * k + j] = -r(j, t) * r(t, j);
        }
    }
    let mut p = vec![1.0 / k as f64; k];
    for _ in 0..k.max(100) {
        let mut qp: Vec<f64> = (0..k).map(|t| (0..k).map(|j| q[t * k + j] * p[j]).sum()).collect();
        let mut pqp: f64 = p.iter().zip(&qp).map(|(p, q)| p * q).sum();
        if qp.iter().all(|v| (v - pqp).abs() < 0.005 / k as f64) {
            break;
        }
        for t in 0..k {
            let diff = (pqp - qp[t]) / q[t * k + t];
            p[t] += diff;
            pqp = (pqp + diff * (diff * q[t * k + t] + 2.0 * qp[t])) / (1.0 + diff) / (1.0 + diff);
            for j in 0..k {
                qp[j] = (qp[j] + diff * q[t * k + j]) / (1.0 + diff);
                p[j] /= 1.0 + diff;
            }
        }
    }
    p
}

/// Decisions of all pairs of classes, and the votes of each class.
fn decisions(values: &[f32], w: &[f64], rho: &[f64], starts: &[usize]) -> (Vec<f64>, Vec<f64>) {
    let classes = starts.len() - 1;
    let (mut all, mut votes) = (Vec::with_capacity(rho.len()), vec![0.0; classes]);
    let part = |row: usize, class: usize| -> f64 {
        let range = starts[class]..starts[class + 1];
        let mut sum = [0.0];
        products(&values[range.clone()], &w[row * values.len()..][range.clone()], range.len(), &mut sum);
        sum[0]
    };
    for i in 0..classes {
        for j in i + 1..classes {
            let s = part(j - 1, i) + part(i, j) + rho[all.len()];
            votes[if s > 0.0 { i } else { j }] += 1.0;
            all.push(s);
        }
    }
    (all, votes)
}

/// The products of rows with the rows of a linear model.
fn sums<X: Feature>(rows: &Block<'_, X>, w: &[f64], columns: usize) -> Vec<f64> {
    let mut out = vec![0.0; rows.count * columns];
    products(rows.values, w, rows.width, &mut out);
    out
}

fn run_classifier(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Rows::of(ctx.input(0)?)?;
    let of = |i: usize| ctx.input(i);
    let (vectors, w, rho, a, b) = (of(1)?, of(2)?, of(3)?, of(4)?, of(5)?);
    let (vectors, w, rho) = (vectors.values::<f64>()?, w.values::<f64>()?, rho.values::<f64>()?);
    let (a, b) = (a.values::<f64>()?, b.values::<f64>()?);
    let post = Post::read(ctx.attrs.str("post"))?;
    let labels = ctx.attrs.ints("labels").unwrap_or_default().to_vec();
    let per_class: Vec<usize> = ctx.attrs.ints("per_class").unwrap_or_default().iter().map(|v| *v as usize).collect();
    let (classes, linear) = (labels.len(), per_class.is_empty());
    let pairs = classes * classes.saturating_sub(1) / 2;
    let count: usize = per_class.iter().sum();
    let fits = if linear {
        w.len() == classes * x.width && !rho.is_empty()
    } else {
        vectors.len() == count * x.width && w.len() == count * (classes - 1) && rho.len() == pairs
    };
    let coupling = !a.is_empty();
    if classes < 2 || x.width == 0 || !fits || (coupling && (a.len() != pairs || b.len() != pairs)) {
        return Err(Error::failed(format!("input 0 has {} features, the model takes another number", x.width)));
    }
    let mut starts = vec![0];
    per_class.iter().for_each(|n| starts.push(starts[starts.len() - 1] + n));
    let wide = width(classes, linear, coupling);
    // Each result row holds the scores, followed by the index of the label.
    let mut all = vec![0f32; x.count * (wide + 1)];
    let from_sums = |sums: &[f64], out: &mut [f64]| {
        for (sums, out) in sums.chunks_exact(classes).zip(out.chunks_exact_mut(wide + 1)) {
            out.iter_mut().zip(sums).for_each(|(s, sum)| *s = sum + rho[0]);
            out[wide] = greatest(&out[..wide]) as f64;
            post.apply(&mut out[..wide]);
        }
        Ok(())
    };
    let from_values = |values: &[f32], out: &mut [f64]| {
        let (scores, votes) = decisions(values, w, rho, &starts);
        out[wide] = greatest(&votes) as f64;
        if coupling {
            let mut shares = vec![0.0; classes * classes];
            let mut pair = 0;
            for i in 0..classes {
                for j in i + 1..classes {
                    let p = (1.0 - logistic(scores[pair] * a[pair] + b[pair])).clamp(1e-7, 1.0 - 1e-7);
                    (shares[i * classes + j], shares[j * classes + i]) = (p, 1.0 - p);
                    pair += 1;
                }
            }
            out[..wide].copy_from_slice(&coupled(&shares, classes));
            post.apply(&mut out[..wide]);
        } else if classes == 2 {
            out[..2].copy_from_slice(&Second::Sign.of(scores[0], post).1);
        } else {
            out[..wide].copy_from_slice(&scores);
            post.apply(&mut out[..wide]);
        }
    };
    let width = wide + 1;
    match x.dtype() {
        DType::F64 if linear => {
            x.in_blocks(width, CHUNK, &mut all, |r: &Block<'_, f64>, out| from_sums(&sums(r, w, classes), out))?;
        }
        _ if linear => {
            x.in_blocks(width, CHUNK, &mut all, |r: &Block<'_, f32>, out| from_sums(&sums(r, w, classes), out))?;
        }
        _ => {
            let vectors = Vectors::of(ctx, vectors, count);
            x.in_blocks(width, vectors.rows(), &mut all, |rows: &Block<'_, f32>, out| {
                vectors.values(rows, |values| {
                    for (i, out) in out.chunks_exact_mut(width).enumerate() {
                        from_values(&values[i * count..(i + 1) * count], out);
                    }
                    Ok(())
                })
            })?;
        }
    }
    let row = |r: &[f32]| labels[(r[wide] as usize).min(classes - 1)];
    let chosen: Vec<i64> = all.chunks_exact(width).map(row).collect();
    ctx.alloc_output(0, &[x.count as u64])?.values::<i64>()?.copy_from_slice(&chosen);
    let mut scores = ctx.alloc_output(1, &[x.count as u64, wide as u64])?;
    let scores = scores.values::<f32>()?.chunks_exact_mut(wide).zip(all.chunks_exact(width));
    scores.for_each(|(scores, all)| scores.copy_from_slice(&all[..wide]));
    Ok(())
}
register_kernel!("OnnxMlEngine", "MlSvmClassifier", [DType::F32, DType::F64, DType::I64, DType::I32], run_classifier);

#[cfg(test)]
mod tests {
    use super::coupled;

    #[test]
    fn pairs_that_agree_give_their_shares() {
        // r(i, j) = p(i) / (p(i) + p(j)) for the probabilities 0.5, 0.3, 0.2.
        let p = [0.5, 0.3, 0.2];
        let pairs: Vec<f64> = (0..9).map(|k| p[k / 3] / (p[k / 3] + p[k % 3])).collect();
        assert!(coupled(&pairs, 3).iter().zip(p).all(|(a, b)| (a - b).abs() < 5e-3));
    }
}
