//! `MlNormalizer(x [rows, features]) {norm = "MAX" | "L1" | "L2"} -> y`: divides each row by its
//! greatest number, by the sum of its absolute values or by its Euclidean length; a row whose
//! divisor is zero stays unchanged.
use crate::rows::{Block, Feature, Rows};
use crate::shared::{NUMBERS, Outs};
use crate::sums::folded;
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::kernel::KernelCtx;
use ge_plugin_api::ops::{AttrKind, InferCtx, OpDef};
use ge_plugin_api::types::{DType, TensorDesc};
use ge_plugin_api::{Result, map_op, register_kernel, register_op};

fn map(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let norm = n.str_or("norm", "MAX");
    if !["MAX", "L1", "L2"].contains(&norm) {
        return Err(n.refuse(format!("attribute `norm` is `{norm}`, expected MAX, L1 or L2")));
    }
    Ok(vec![b.node("MlNormalizer").name(&n.name).input(n.input(0)?).attr("norm", norm).build()])
}
map_op!("onnx", "ai.onnx.ml", "Normalizer", 1..=u32::MAX, map);

fn infer(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    Ok(vec![TensorDesc::new(DType::F32, c.input(0)?.shape.clone())])
}
register_op!(|| OpDef::new("MlNormalizer", infer)
    .input("x", NUMBERS, "T")
    .output("y", &[DType::F32], "")
    .attr("norm", AttrKind::STRING, "MAX")
    .choices(&["MAX", "L1", "L2"]));

fn run(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = ctx.input(0)?;
    let dims = x.dims.to_vec();
    let rows = Rows::of(x)?;
    let norm = match ctx.attrs.str("norm").unwrap_or("MAX") {
        "L1" => Norm::Sizes,
        "L2" => Norm::Length,
        _ => Norm::Greatest,
    };
    let mut y = ctx.alloc_output(0, &dims)?;
    let y = y.values::<f32>()?;
    match rows.dtype() {
        DType::F64 => rows.to_singles(y, |rows: &Block<'_, f64>, y| normalise(rows.values, rows.width, norm, y)),
        _ => rows.to_singles(y, |rows: &Block<'_, f32>, y| normalise(rows.values, rows.width, norm, y)),
    }
}

/// What a row is divided by.
#[derive(Clone, Copy, Debug)]
enum Norm {
    Greatest,
    Sizes,
    Length,
}

ge_kernels::multiversion! {
    /// Divides each row of `width` numbers by its norm.
    fn normalise<X: Feature>(x: &[X], width: usize, norm: Norm, y: &mut [f32]) {
        match norm {
            Norm::Greatest => by_width(x, width, y, greatest_of, |most| most),
            Norm::Sizes => by_width(x, width, y, |x| folded(x, x, |a, _| a.abs()), |sum| sum),
            Norm::Length => by_width(x, width, y, |x| folded(x, x, |a, b| a * b), f64::sqrt),
        }
    }
}

/// Divides each row by what `of` gives for it, after `end`.
#[inline(always)]
fn by_width<X: Feature>(x: &[X], width: usize, y: &mut [f32], of: impl Fn(&[X]) -> f64, end: impl Fn(f64) -> f64) {
    // The compiler processes several rows at a time if it knows that they are short.
    match width {
        1 => few::<X, 1>(x, y, of, end),
        2 => few::<X, 2>(x, y, of, end),
        3 => few::<X, 3>(x, y, of, end),
        4 => few::<X, 4>(x, y, of, end),
        8 => few::<X, 8>(x, y, of, end),
        _ => {
            for (x, y) in x.chunks_exact(width.max(1)).zip(y.chunks_exact_mut(width.max(1))) {
                quotients(x, end(of(x)), y);
            }
        }
    }
}

/// [`by_width`] for rows of `N` numbers.
#[inline(always)]
fn few<X: Feature, const N: usize>(x: &[X], y: &mut [f32], of: impl Fn(&[X]) -> f64, end: impl Fn(f64) -> f64) {
    for (x, y) in x.as_chunks::<N>().0.iter().zip(y.as_chunks_mut::<N>().0) {
        quotients(x, end(of(x)), y);
    }
}

/// `y[i] = x[i] / by`, or `x[i]` if `by` is zero. Unless `by` is at the ends of the range, which
/// the norm of singles never is, the quotient is the product with the reciprocal. That is right to
/// 1.5 units in the last place of f64, which f32 does not have.
#[inline(always)]
fn quotients<X: Feature>(x: &[X], by: f64, y: &mut [f32]) {
    let by = if by == 0.0 { 1.0 } else { by };
    if size_of::<X>() == size_of::<f32>() || (1e-300..1e300).contains(&by.abs()) {
        let one = 1.0 / by;
        y.iter_mut().zip(x).for_each(|(y, v)| *y = (v.wide() * one) as f32);
    } else {
        y.iter_mut().zip(x).for_each(|(y, v)| *y = (v.wide() / by) as f32);
    }
}

/// Numbers that are compared side by side.
const PARTS: usize = 8;

/// The greatest number of a row, negative infinity if there is none. NaN is left out.
#[inline(always)]
fn greatest_of<X: Feature>(x: &[X]) -> f64 {
    let higher = |a: f64, b: f64| if b > a { b } else { a };
    let (blocks, rest) = x.as_chunks::<PARTS>();
    let most = rest.iter().fold(f64::NEG_INFINITY, |most, v| higher(most, v.wide()));
    if blocks.is_empty() {
        return most;
    }
    let mut parts = [f64::NEG_INFINITY; PARTS];
    for block in blocks {
        for (part, v) in parts.iter_mut().zip(block) {
            *part = higher(*part, v.wide());
        }
    }
    let halves: [f64; PARTS / 2] = std::array::from_fn(|k| higher(parts[k], parts[k + PARTS / 2]));
    higher(higher(higher(halves[0], halves[2]), higher(halves[1], halves[3])), most)
}

register_kernel!("OnnxMlEngine", "MlNormalizer", [DType::F32, DType::F64, DType::I64, DType::I32], run);

#[cfg(test)]
mod tests {
    use super::*;
    use ge_kernels::simd::{Level, with_level};

    /// A row by the definition.
    fn plain(x: &[f64], norm: Norm) -> Vec<f64> {
        let by = match norm {
            Norm::Greatest => x.iter().fold(f64::NEG_INFINITY, |a, b| if *b > a { *b } else { a }),
            Norm::Sizes => x.iter().map(|v| v.abs()).sum(),
            Norm::Length => x.iter().map(|v| v * v).sum::<f64>().sqrt(),
        };
        x.iter().map(|v| v / if by == 0.0 { 1.0 } else { by }).collect()
    }

    fn agrees<X: Feature + Default>(x: &[X], width: usize) {
        for norm in [Norm::Greatest, Norm::Sizes, Norm::Length] {
            let wide: Vec<f64> = x.iter().map(|v| v.wide()).collect();
            let want: Vec<f64> = wide.chunks(width.max(1)).flat_map(|x| plain(x, norm)).collect();
            let run = |level| {
                let mut y = vec![7.0f32; x.len()];
                with_level(level, || normalise(x, width, norm, &mut y));
                y
            };
            let y = run(Level::Scalar);
            for (y, want) in y.iter().zip(&want) {
                let near = (f64::from(*y) - want).abs() <= want.abs() * 1e-7 + 1e-45;
                assert!(
                    near || y.is_nan() && want.is_nan() || f64::from(*y) == *want,
                    "{norm:?}, {width}: {y} for {want}"
                );
            }
            let bits = |y: Vec<f32>| y.into_iter().map(f32::to_bits).collect::<Vec<_>>();
            let want = bits(y);
            assert!(Level::available().into_iter().all(|level| bits(run(level)) == want), "{norm:?}, {width}");
        }
    }

    #[test]
    fn rows_of_any_length_are_divided_by_their_norm() {
        for width in (0..20).chain([64, 1000]) {
            let mut x: Vec<f32> = (0..9 * width).map(|i| (i * 37 % 101) as f32 / 3.0 - 16.0).collect();
            if width > 0 {
                // Rows of zeros, of the smallest number, of negative numbers, and not finite ones.
                x[..width].fill(0.0);
                x[width..2 * width].fill(-f32::from_bits(1));
                x[2 * width] = f32::INFINITY;
                x[4 * width - 1] = f32::NEG_INFINITY;
                x[4 * width..5 * width].iter_mut().for_each(|v| *v = -1.0 - v.abs());
                x[5 * width..6 * width].fill(f32::MAX);
            }
            agrees(&x, width);
            let wide: Vec<f64> = x.iter().map(|v| f64::from(*v)).collect();
            agrees(&wide, width);
        }
    }

    #[test]
    fn doubles_are_divided_at_the_ends_of_the_range() {
        let tiny = 4e-310;
        let mut y = [9.0; 3];
        normalise(&[tiny, -tiny / 2.0, 0.0], 3, Norm::Greatest, &mut y);
        assert_eq!(y, [1.0, -0.5, 0.0]);
        normalise(&[1.0f32, f32::INFINITY, 0.0], 3, Norm::Greatest, &mut y);
        assert!(y[0] == 0.0 && y[1].is_nan() && y[2] == 0.0);
        // NaN is left out of the greatest number.
        let row = [-30.0f32, f32::NAN, -10.0];
        normalise(&row, 3, Norm::Greatest, &mut y);
        assert!(y[0] == 3.0 && y[1].is_nan() && y[2] == 1.0);
    }
}
