//! `Cumsum CumsumD Cumprod CumprodD`: running totals along an axis. Floating-point totals are kept
//! in doubles and rounded once when they are written; integers wrap.
use super::search::axis_of;
use crate::args::{Arg, filled, flag, out};
use crate::op::{Op, Run};
use crate::store::types::{INDEX, NUM};
use ge_kernels::view::{Elem, lines};
use ge_kernels::with_kind;
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;

/// Parameters of running totals.
#[derive(Clone, Copy)]
struct How {
    /// Number of elements along the axis.
    n: usize,
    /// Number of elements after the axis: totals that run in parallel.
    inner: usize,
    /// Whether the total of an element excludes the element itself.
    exclusive: bool,
    /// Whether totals run from the end.
    reverse: bool,
}

/// Number of parallel totals that stay in the first-level cache.
const BLOCK: usize = 2048;
/// Fewer parallel totals than this are computed one by one.
const FEW: usize = 16;

impl How {
    /// The indices along the axis, in the order in which they are added.
    fn order(self) -> impl Iterator<Item = usize> {
        (0..self.n).map(move |k| if self.reverse { self.n - 1 - k } else { k })
    }
    fn run<T: Elem, A: Copy>(
        self,
        o: &mut [T],
        x: &[T],
        unit: A,
        add: impl Fn(A, T) -> A + Copy,
        end: impl Fn(A) -> T + Copy,
    ) -> Result<()> {
        let part = self.n * self.inner;
        if part == 0 {
            return Ok(());
        }
        let mut sums = filled(self.inner.min(BLOCK), unit)?;
        for (o, x) in o.chunks_exact_mut(part).zip(x.chunks_exact(part)) {
            if self.inner < FEW {
                (0..self.inner).for_each(|i| self.column(o, x, i, unit, add, end));
                continue;
            }
            for from in (0..self.inner).step_by(BLOCK) {
                let len = BLOCK.min(self.inner - from);
                let sums = &mut sums[..len];
                sums.fill(unit);
                for k in self.order() {
                    let at = k * self.inner + from;
                    let (o, x) = (&mut o[at..at + len], &x[at..at + len]);
                    if self.exclusive {
                        lines::map(o, sums, end);
                        lines::update(sums, x, add);
                    } else {
                        lines::update(sums, x, add);
                        lines::map(o, sums, end);
                    }
                }
            }
        }
        Ok(())
    }
    fn column<T: Elem, A: Copy>(
        self,
        o: &mut [T],
        x: &[T],
        i: usize,
        unit: A,
        add: impl Fn(A, T) -> A,
        end: impl Fn(A) -> T,
    ) {
        let mut sum = unit;
        for k in self.order() {
            let p = k * self.inner + i;
            let next = add(sum, x[p]);
            o[p] = end(if self.exclusive { sum } else { next });
            sum = next;
        }
    }
}

fn run(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    let a = if x.rank() == 0 { None } else { Some(axis_of(ctx, "axis", x.rank())?) };
    let (n, inner) = a.map_or((1, 1), |a| (x.shape[a], x.shape[a + 1..].iter().product()));
    let how = How { n, inner, exclusive: flag(ctx, "exclusive", false), reverse: flag(ctx, "reverse", false) };
    let product = ctx.op.starts_with("Cumprod");
    if x.kind()?.is_float() {
        return with_kind!(x.kind()?, [F32, F64, F16, Bf16], T => {
            let (v, o) = (x.values::<T>()?, out::<T>(ctx, 0, &x.shape)?);
            match product {
                true => how.run(o, v, 1.0, |s, e: T| s * e.to_f64(), T::from_f64),
                false => how.run(o, v, 0.0, |s, e: T| s + e.to_f64(), T::from_f64),
            }
        }, else x.refused());
    }
    with_kind!(x.kind()?, [I8, I16, I32, I64, U8, U16, U32, U64], T => {
        let (v, o) = (x.values::<T>()?, out::<T>(ctx, 0, &x.shape)?);
        match product {
            true => how.run(o, v, T::from_i64(1), |s, e| T::from_i64(s.to_i64().wrapping_mul(e.to_i64())), |s| s),
            false => how.run(o, v, T::default(), |s, e| T::from_i64(s.to_i64().wrapping_add(e.to_i64())), |s| s),
        }
    }, else x.refused())
}

const fn c(name: &'static str) -> Op {
    Op::new(name, run as Run, &[NUM, INDEX]).gives(&[NUM])
}
/// Operator rows of this file.
pub const OPS: &[Op] = &[c("Cumsum"), c("CumsumD"), c("Cumprod"), c("CumprodD")];
