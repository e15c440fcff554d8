//! `Pow`. Floating-point results are computed in double precision and rounded once. Integers use
//! wrapping squaring; a negative exponent gives zero, except for the bases 1 and -1.
use super::zip::{BLOCK, zip_values};
use crate::args::Arg;
use crate::op::Op;
use crate::store::types::NUM;
use ge_kernels::view::{Elem, lines};
use ge_kernels::with_kind;
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;

fn run(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (a, b) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?);
    if a.kind()?.is_int() && b.kind()?.is_int() {
        let e = b.i64s()?;
        return with_kind!(a.kind()?, [I8, I16, I32, I64, U8, U16, U32, U64], T => {
            zip_values::<T, i64, T>(ctx, (&a, a.values()?), (&b, &e), &whole)
        }, else a.refused());
    }
    let e = b.f64s()?;
    with_kind!(a.kind()?, [F32, F64, F16, Bf16, I8, I16, I32, I64, U8, U16, U32, U64], T => {
        zip_values::<T, f64, T>(ctx, (&a, a.values()?), (&b, &e), &doubles)
    }, else a.refused())
}

/// The exponent that all elements of a line share; `None` if they differ.
fn common<E: Elem>(e: &[E]) -> Option<E> {
    e.first().copied().filter(|first| e.iter().all(|v| v == first))
}

fn doubles<T: Elem>(o: &mut [T], x: &[T], e: &[f64]) {
    // Exponents that need only a few operations. Each gives the correctly rounded power, except for
    // the third power, whose error is less than a unit in the last place.
    let map = |o: &mut [T], f: fn(f64) -> f64| lines::map(o, x, |v: T| T::from_f64(f(v.to_f64())));
    match common(e) {
        Some(1.0) => o.copy_from_slice(x),
        Some(2.0) => lines::map(o, x, |v: T| T::from_f64(v.to_f64() * v.to_f64())),
        Some(3.0) => lines::map(o, x, |v: T| T::from_f64(v.to_f64() * v.to_f64() * v.to_f64())),
        Some(-1.0) => lines::map(o, x, |v: T| T::from_f64(1.0 / v.to_f64())),
        // As a power, the root of minus zero is zero, and that of minus infinity is infinity.
        Some(0.5) => map(o, |v| if v == f64::NEG_INFINITY { f64::INFINITY } else { (v + 0.0).sqrt() }),
        _ => lines::zip(o, x, e, |v: T, e| T::from_f64(v.to_f64().powf(e))),
    }
}

fn whole<T: Elem>(o: &mut [T], x: &[T], e: &[i64]) {
    let Some(first) = common(e).filter(|e| *e >= 0) else {
        return lines::zip(o, x, e, |v: T, e| T::from_i64(power(v.to_i64(), e)));
    };
    match first {
        1 => return o.copy_from_slice(x),
        2 => return lines::map(o, x, |v: T| T::from_i64(v.to_i64().wrapping_mul(v.to_i64()))),
        _ => {}
    }
    for (o, x) in o.chunks_mut(BLOCK).zip(x.chunks(BLOCK)) {
        let (mut result, mut square) = ([1i64; BLOCK], [0i64; BLOCK]);
        let (result, square) = (&mut result[..x.len()], &mut square[..x.len()]);
        lines::map(square, x, |v: T| v.to_i64());
        let mut e = first;
        while e > 0 {
            if e & 1 == 1 {
                lines::update(result, square, i64::wrapping_mul);
            }
            square.iter_mut().for_each(|v| *v = v.wrapping_mul(*v));
            e >>= 1;
        }
        lines::map(o, result, T::from_i64);
    }
}

fn power(mut a: i64, mut e: i64) -> i64 {
    if e < 0 {
        return match a {
            1 => 1,
            -1 => 1 - 2 * (e & 1),
            _ => 0,
        };
    }
    let mut r = 1i64;
    while e > 0 {
        if e & 1 == 1 {
            r = r.wrapping_mul(a);
        }
        a = a.wrapping_mul(a);
        e >>= 1;
    }
    r
}

/// Operator rows of this file.
pub const OPS: &[Op] = &[Op::new("Pow", run, &[NUM]).gives(&[NUM])];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_common_exponent_gives_what_each_by_itself_does() {
        let x = [0.0, -0.0, 1.0, -1.5, 2.25, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-310];
        for e in [-1.0, 0.0, 0.5, 1.0, 2.0, 3.0, 1.7] {
            let (mut one, mut each) = ([9.0; 9], [9.0; 9]);
            doubles(&mut one, &x, &[e; 9]);
            each.iter_mut().zip(&x).for_each(|(o, x)| *o = x.powf(e));
            for ((a, b), x) in one.iter().zip(&each).zip(&x) {
                let near = (a - b).abs() <= b.abs() * f64::EPSILON && a.is_sign_negative() == b.is_sign_negative();
                assert!(
                    near || a == b && (*a != 0.0 || a.to_bits() == b.to_bits()) || a.is_nan() && b.is_nan(),
                    "{x}^{e}: {a} {b}"
                );
            }
        }
        let x: Vec<i64> = (-3..40).collect();
        for e in [0, 1, 2, 5, 63, 200, -1, -2] {
            let (mut one, want) = (vec![9i64; x.len()], x.iter().map(|v| power(*v, e)).collect::<Vec<_>>());
            whole(&mut one, &x, &vec![e; x.len()]);
            assert_eq!(one, want, "{e}");
        }
    }
}
