//! `LpNormalization {axis, p}`: divides the lanes along an axis by their sum of absolute values or
//! by their Euclidean length. Sums are in doubles, and each element is rounded once. A lane whose
//! divisor is zero becomes zero.
use crate::args::{Arg, count, filled, int_attr, out};
use crate::kernels::reduce::fold::kept_shape;
use crate::kernels::reduce::walk::Walk;
use crate::kernels::shape::view::checked_axis;
use crate::op::Op;
use crate::par::{self, GRAIN};
use crate::store::types::FLOAT;
use ge_kernels::view::{Elem, Kind};
use ge_kernels::{multiversion, with_kind};
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;

fn run_lp(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (x, p) = (Arg::of(ctx, 0)?, int_attr(ctx, "p", 2));
    let axis = if x.rank() == 0 { None } else { Some(checked_axis(ctx, "axis", -1, x.rank())?) };
    let (width, inner): (usize, usize) = axis.map_or((1, 1), |a| (x.shape[a], x.shape[a + 1..].iter().product()));
    with_kind!(x.kind()?, [F32, F64, F16, Bf16], T => {
        let (v, o) = (x.values::<T>()?, out::<T>(ctx, 0, &x.shape)?);
        if inner == 1 {
            let width = width.max(1);
            return par::chunks(o, (GRAIN / width).max(1) * width, |start, o| {
                rows(&v[start..][..o.len()], width, p == 1, o);
                Ok(())
            });
        }
        let over: Vec<usize> = axis.into_iter().collect();
        let walk = Walk::new(&x.shape, &over);
        let mut norms = filled(count(&kept_shape(&x.shape, &over, false))?, 0f64)?;
        if p == 1 {
            walk.by(v, &mut norms, 0.0, |s, e: T| s + e.to_f64().abs(), |a, b| a + b);
        } else {
            walk.by(v, &mut norms, 0.0, |s, e: T| s + e.to_f64() * e.to_f64(), |a, b| a + b);
            norms.iter_mut().for_each(|n| *n = n.sqrt());
        }
        walk.map(v, &norms, o, |v, n| T::from_f64(if n != 0.0 { v.to_f64() / n } else { 0.0 }));
        Ok(())
    }, else x.refused())
}

/// Numbers of a row that are added side by side.
const PARTS: usize = 8;

/// The sum of `of` over a row, in parts that are added in a fixed order.
#[inline(always)]
fn sum<T: Elem>(row: &[T], of: impl Fn(f64) -> f64) -> f64 {
    let (blocks, rest) = row.as_chunks::<PARTS>();
    let tail = rest.iter().fold(0.0, |s, v| s + of(v.to_f64()));
    if blocks.is_empty() {
        return tail;
    }
    let mut parts = [0.0; PARTS];
    for block in blocks {
        for (part, v) in parts.iter_mut().zip(block) {
            *part += of(v.to_f64());
        }
    }
    let halves: [f64; PARTS / 2] = std::array::from_fn(|k| parts[k] + parts[k + PARTS / 2]);
    (halves[0] + halves[2]) + (halves[1] + halves[3]) + tail
}

multiversion! {
    /// Divides rows of `width` numbers by their sums of absolute values (`sizes`) or by their
    /// lengths.
    fn rows<T: Elem>(x: &[T], width: usize, sizes: bool, o: &mut [T]) {
        for (row, o) in x.chunks_exact(width).zip(o.chunks_exact_mut(width)) {
            let by = if sizes { sum(row, f64::abs) } else { sum(row, |v| v * v).sqrt() };
            if by == 0.0 {
                o.fill(T::default());
            } else if T::KIND == Kind::F64 {
                o.iter_mut().zip(row).for_each(|(o, v)| *o = T::from_f64(v.to_f64() / by));
            } else {
                // The reciprocal of what shorter types add up to is a normal double. The product is
                // right to 1.5 units in its last place, of which the shorter type has none.
                let by = 1.0 / by;
                o.iter_mut().zip(row).for_each(|(o, v)| *o = T::from_f64(v.to_f64() * by));
            }
        }
    }
}

/// Operator rows of this file.
pub const OPS: &[Op] = &[Op::new("LpNormalization", run_lp, &[FLOAT]).gives(&[FLOAT])];

#[cfg(test)]
mod tests {
    use crate::testing::{attrs, call, t};
    use ge_kernels::simd::{Level, with_level};
    use ge_plugin_api::types::DType;

    /// Rows of any length, and the same numbers as columns, agree with the definition.
    #[test]
    fn rows_and_columns_of_any_length_agree_with_the_definition() {
        for width in [0usize, 1, 3, 7, 8, 9, 32, 100, 1001] {
            let rows = 5;
            let mut x: Vec<f32> = (0..rows * width).map(|i| (i * 37 % 101) as f32 / 3.0 - 16.0).collect();
            if width > 0 {
                // Rows of zeros, of the smallest numbers, and with numbers that are not finite.
                x[..width].fill(0.0);
                x[width..2 * width].fill(-f32::from_bits(1));
                (x[2 * width], x[4 * width - 1]) = (f32::INFINITY, f32::NAN);
            }
            let turned: Vec<f32> = (0..rows * width).map(|i| x[i % rows * width + i / rows]).collect();
            for p in [1i64, 2] {
                let norm = |row: &[f32]| {
                    let v = row.iter().map(|v| f64::from(*v));
                    if p == 1 { v.map(f64::abs).sum() } else { v.map(|v| v * v).sum::<f64>().sqrt() }
                };
                let of = |v: f32, n: f64| if n == 0.0 { 0.0 } else { (f64::from(v) / n) as f32 };
                let want: Vec<f32> =
                    (0..rows * width).map(|i| of(x[i], norm(&x[i / width * width..][..width]))).collect();
                let made = |dims: [u64; 2], x: &[f32], axis: i64| {
                    let given = attrs(&[("axis", axis.into()), ("p", p.into())]);
                    let made = call("LpNormalization", &[Some(&t(&dims, x))], &given, &[DType::F32]).unwrap();
                    made[0].view().values::<f32>().unwrap().to_vec()
                };
                let near = |y: f32, want: f32| {
                    y.is_nan() && want.is_nan()
                        || (f64::from(y) - f64::from(want)).abs() <= f64::from(want.abs()) * 1e-7
                };
                for level in Level::available() {
                    let y = with_level(level, || made([rows as u64, width as u64], &x, 1));
                    assert!(y.iter().zip(&want).all(|(y, w)| near(*y, *w)), "{level:?}, p {p}: {y:?} for {want:?}");
                }
                let columns = made([width as u64, rows as u64], &turned, 0);
                for (i, y) in columns.iter().enumerate() {
                    assert!(near(*y, want[i % rows * width + i / rows]), "p {p}, column {}: {y}", i % rows);
                }
            }
        }
    }

    /// The same bits on every instruction set, and for doubles near the ends of their range.
    #[test]
    fn every_instruction_set_gives_the_same_bits() {
        let x: Vec<f64> = (0..77).map(|i| f64::from(i * 37 % 77 - 30) * 1e-310).collect();
        let x = t(&[7, 11], &x);
        let run = |level| {
            with_level(level, || {
                let given = attrs(&[("axis", 1i64.into()), ("p", 1i64.into())]);
                call("LpNormalization", &[Some(&x)], &given, &[DType::F64]).unwrap()[0].bytes().to_vec()
            })
        };
        let want = run(Level::Scalar);
        assert!(Level::available().into_iter().all(|level| run(level) == want));
        assert!(want.chunks_exact(8).all(|v| f64::from_le_bytes(v.try_into().unwrap()).abs() <= 1.0));
    }
}
