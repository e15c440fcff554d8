//! `Hardmax {axis}`, `MVNV2 {axes, eps}`: normalisations by numbers computed for each lane along
//! the axes. Sums are in doubles, and each element is rounded once.
use crate::args::{Arg, axes, count, filled, float_attr, ints_attr, out};
use crate::kernels::reduce::fold::kept_shape;
use crate::kernels::reduce::search::search;
use crate::kernels::reduce::walk::Walk;
use crate::kernels::shape::view::checked_axis;
use crate::op::Op;
use crate::store::types::FLOAT;
use ge_kernels::view::Elem;
use ge_kernels::with_kind;
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;

fn run_hardmax(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    let (n, inner): (usize, usize) = match x.rank() {
        0 => (1, 1),
        r => {
            let a = checked_axis(ctx, "axis", -1, r)?;
            (x.shape[a], x.shape[a + 1..].iter().product())
        }
    };
    with_kind!(x.kind()?, [F32, F64, F16, Bf16], T => {
        let (v, o) = (x.values::<T>()?, out::<T>(ctx, 0, &x.shape)?);
        if v.is_empty() {
            return Ok(());
        }
        // The first of the greatest elements; a NaN counts as the greatest, as in the reference
        // implementation of ONNX.
        let mut best = filled(v.len() / n, 0i64)?;
        search(v, (n, inner), |a: T, b: T| if b > a { b } else { a }, false, &mut best);
        o.fill(T::default());
        for (i, place) in best.into_iter().enumerate() {
            o[(i / inner * n + place as usize) * inner + i % inner] = T::from_f64(1.0);
        }
        Ok(())
    }, else x.refused())
}
fn run_mvn(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    let given = ints_attr(ctx, "axes").unwrap_or(&[0, 2, 3]);
    let over = if x.rank() == 0 { vec![] } else { axes("attribute `axes`", given, x.rank())? };
    let eps = float_attr(ctx, "eps", 1e-9);
    let walk = Walk::new(&x.shape, &over);
    let lanes = count(&kept_shape(&x.shape, &over, false))?;
    let each = over.iter().map(|&a| x.shape[a]).product::<usize>() as f64;
    with_kind!(x.kind()?, [F32, F64, F16, Bf16], T => {
        // Epsilon has the type of x, as in the standard's function: in a half type it rounds to
        // zero, and a lane of equal numbers gives 0/0.
        let eps = T::from_f64(eps).to_f64();
        let v = x.values::<T>()?;
        let mut means = filled(lanes, 0f64)?;
        walk.by(v, &mut means, 0.0, |s, e: T| s + e.to_f64(), |a, b| a + b);
        means.iter_mut().for_each(|m| *m /= each);
        let mut spread = filled(lanes, 0f64)?;
        let square = |e: T, mean: f64| (e.to_f64() - mean) * (e.to_f64() - mean);
        walk.by_place((v, &means), &mut spread, 0.0, |s, e, mean| s + square(e, mean), |a, b| a + b);
        let both: Vec<(f64, f64)> = means.iter().zip(&spread).map(|(m, s)| (*m, (s / each).sqrt() + eps)).collect();
        let o = out::<T>(ctx, 0, &x.shape)?;
        walk.map(v, &both, o, |v, (mean, spread)| T::from_f64((v.to_f64() - mean) / spread));
        Ok(())
    }, else x.refused())
}

const fn f(name: &'static str, run: crate::op::Run) -> Op {
    Op::new(name, run, &[FLOAT]).gives(&[FLOAT])
}
/// Operator rows of this file.
pub const OPS: &[Op] = &[f("Hardmax", run_hardmax), f("MVNV2", run_mvn)];

#[cfg(test)]
mod tests {
    use crate::testing::{attrs, call, t};
    use ge_plugin_api::types::DType;

    /// What the reference implementation of ONNX gives: the first NaN, wherever it is.
    #[test]
    fn hardmax_takes_the_first_nan_as_the_greatest() {
        const N: f32 = f32::NAN;
        const I: f32 = f32::INFINITY;
        let rows =
            [[N, 1., 2.], [1., N, 2.], [3., N, 2.], [1., 2., N], [N, N, 1.], [1., N, N], [-I, N, -I], [I, N, 1.]];
        let first = [0, 1, 1, 2, 0, 1, 1, 1];
        let hot = |k: usize, place: usize| if first[k] == place { 1.0 } else { 0.0 };
        let want: Vec<f32> = (0..8).flat_map(|k| (0..3).map(move |p| hot(k, p))).collect();
        let columns: Vec<f32> = (0..3).flat_map(|p| rows.iter().map(move |r| r[p])).collect();
        let turned: Vec<f32> = (0..3).flat_map(|p| (0..8).map(move |k| hot(k, p))).collect();
        for (dims, x, axis, want) in [([8, 3], rows.concat(), -1i64, want), ([3, 8], columns, 0, turned)] {
            let made =
                call("Hardmax", &[Some(&t(&dims, &x))], &attrs(&[("axis", axis.into())]), &[DType::F32]).unwrap();
            assert_eq!(made[0].view().values::<f32>().unwrap(), want, "axis {axis}");
        }
    }
}
