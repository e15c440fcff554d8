//! `ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceLogSumExp ReduceAll ReduceAny` and
//! their `...D` forms (`plugins/ops/src/reduce.rs`: axes, empty lists, empty reductions).
//! Floating-point types are reduced in doubles. Integers wrap, and their means are rounded towards
//! zero.
use super::walk::Walk;
use crate::args::{Arg, axes, count, filled, flag, ints_attr, out, put_f64};
use crate::kernels::math::arith::is_unsigned;
use crate::kernels::math::special::{exp_in_line, max, min};
use crate::op::{Op, Run};
use crate::store::types::{BOOL, INDEX, NUM, NUMB};
use ge_kernels::view::{Bool, Elem, Kind};
use ge_kernels::with_kind;
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;

/// The axes that a reduction removes.
pub fn reduced_axes(ctx: &KernelCtx<'_>, rank: usize) -> Result<Vec<usize>> {
    let list = match ints_attr(ctx, "axes") {
        Some(v) => Some(v.to_vec()),
        None => Arg::opt(ctx, 1)?.map(|a| a.i64s()).transpose()?,
    };
    match list {
        Some(v) if v.is_empty() && flag(ctx, "noop_with_empty_axes", true) => Ok(Vec::new()),
        Some(v) if !v.is_empty() => axes("axes", &v, rank),
        _ => Ok((0..rank).collect()),
    }
}
/// The shape without the axes `over`, or with ones in their place if `keep`.
pub fn kept_shape(shape: &[usize], over: &[usize], keep: bool) -> Vec<usize> {
    (0..shape.len())
        .filter(|a| keep || !over.contains(a))
        .map(|a| if over.contains(&a) { 1 } else { shape[a] })
        .collect()
}
/// The operands of a reduction.
struct Task<'a> {
    x: &'a Arg<'a>,
    walk: Walk,
    /// Shape of the output, and its number of elements.
    shape: Vec<usize>,
    len: usize,
    /// Number of elements reduced to each output element.
    each: usize,
}

impl Task<'_> {
    /// Reduces elements to states of one type, which `join` combines, and writes `end` of each
    /// state.
    fn by<S: Elem, A: Copy, D: Elem>(
        &self,
        ctx: &mut KernelCtx<'_>,
        start: A,
        f: impl Fn(A, S) -> A,
        join: impl Fn(A, A) -> A,
        end: impl Fn(A) -> D,
    ) -> Result<()> {
        let mut y = filled(self.len, start)?;
        self.walk.by(self.x.values::<S>()?, &mut y, start, f, join);
        self.put(ctx, &y, end)
    }
    /// Like [`Task::by`], for states that do not depend on the order.
    fn exact<S: Elem, A: Copy, D: Elem>(
        &self,
        ctx: &mut KernelCtx<'_>,
        start: A,
        f: impl Fn(A, S) -> A,
        end: impl Fn(A) -> D,
    ) -> Result<()> {
        let mut y = filled(self.len, start)?;
        self.walk.in_any_order(self.x.values::<S>()?, &mut y, f);
        self.put(ctx, &y, end)
    }
    fn put<A: Copy, D: Elem>(&self, ctx: &mut KernelCtx<'_>, y: &[A], end: impl Fn(A) -> D) -> Result<()> {
        let o = out::<D>(ctx, 0, &self.shape)?;
        o.iter_mut().zip(y).for_each(|(o, y)| *o = end(*y));
        Ok(())
    }
    fn floats<T: Elem>(&self, ctx: &mut KernelCtx<'_>, op: &str) -> Result<()> {
        let end = T::from_f64;
        match op {
            "ReduceMax" => self.by(ctx, f64::NEG_INFINITY, |s, e: T| max(s, e.to_f64()), max, end),
            "ReduceMin" => self.by(ctx, f64::INFINITY, |s, e: T| min(s, e.to_f64()), min, end),
            "ReduceProd" => self.by(ctx, 1.0, |s, e: T| s * e.to_f64(), |a, b| a * b, end),
            "ReduceMean" => {
                let n = self.each.max(1) as f64;
                self.by(ctx, 0.0, |s, e: T| s + e.to_f64(), |a, b| a + b, |s| T::from_f64(s / n))
            }
            _ => self.by(ctx, 0.0, |s, e: T| s + e.to_f64(), |a, b| a + b, end),
        }
    }
    fn wholes<T: Elem>(&self, ctx: &mut KernelCtx<'_>, op: &str) -> Result<()> {
        let unsigned = is_unsigned(T::KIND);
        let bits = 8 * T::KIND.size() as u32;
        let (least, greatest) = match (T::KIND, unsigned) {
            (Kind::Bool, _) => (0, 1),
            (_, true) => (0, u64::MAX.checked_shr(64 - bits).unwrap_or(u64::MAX) as i64),
            _ => (i64::MIN >> (64 - bits), i64::MAX >> (64 - bits)),
        };
        // Truth values come out as zero or one, whatever byte represents true in the input.
        let end = |v: T| T::from_i64(v.to_i64());
        let add = |a: T, b: T| T::from_i64(a.to_i64().wrapping_add(b.to_i64()));
        let mul = |a: T, b: T| T::from_i64(a.to_i64().wrapping_mul(b.to_i64()));
        let more = |a: T, b: T| if a < b { b } else { a };
        let less = |a: T, b: T| if b < a { b } else { a };
        match op {
            "ReduceMax" => self.exact(ctx, T::from_i64(least), more, end),
            "ReduceMin" => self.exact(ctx, T::from_i64(greatest), less, end),
            "ReduceProd" => self.exact(ctx, T::from_i64(1), mul, end),
            "ReduceMean" => {
                let n = self.each as i64;
                let mean = |sum: i64| match (n, unsigned) {
                    (0, _) => 0,
                    (_, true) => (sum as u64 / n as u64) as i64,
                    _ => sum / n,
                };
                let add = |s: i64, e: T| s.wrapping_add(e.to_i64());
                self.exact(ctx, 0, add, |s| T::from_i64(mean(s)))
            }
            _ => self.exact(ctx, T::from_i64(0), add, end),
        }
    }
    fn truths(&self, ctx: &mut KernelCtx<'_>, all: bool) -> Result<()> {
        let both = |a: Bool, b: Bool| Bool::from(a.get() & b.get());
        let any = |a: Bool, b: Bool| Bool::from(a.get() | b.get());
        match all {
            true => self.exact(ctx, Bool::from(true), both, |v| v),
            false => self.exact(ctx, Bool::from(false), any, |v| v),
        }
    }
    /// The logarithm of the sum of exponentials, computed relative to the greatest element.
    fn log_sum_exp(&self, ctx: &mut KernelCtx<'_>) -> Result<()> {
        let v = self.x.f64s()?;
        let mut base = filled(self.len, f64::NEG_INFINITY)?;
        self.walk.by(&v, &mut base, f64::NEG_INFINITY, max, max);
        base.iter_mut().filter(|t| t.is_infinite()).for_each(|t| *t = 0.0);
        let mut y = filled(self.len, 0f64)?;
        self.walk.by_place((&v, &base), &mut y, 0.0, |s, e, b| s + exp_in_line(e - b), |a, b| a + b);
        y.iter_mut().zip(&base).for_each(|(y, b)| *y = y.ln() + b);
        put_f64(ctx, 0, &self.shape, &y)
    }
}

fn run(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    let over = reduced_axes(ctx, x.rank())?;
    let shape = kept_shape(&x.shape, &over, flag(ctx, "keep_dims", false));
    let (len, each) = (count(&shape)?, over.iter().map(|&a| x.shape[a]).product());
    let task = Task { x: &x, walk: Walk::new(&x.shape, &over), shape, len, each };
    let op = ctx.op.strip_suffix('D').unwrap_or(ctx.op);
    match (op, x.kind()?) {
        ("ReduceLogSumExp", _) => task.log_sum_exp(ctx),
        ("ReduceAll" | "ReduceAny", _) => task.truths(ctx, op == "ReduceAll"),
        (_, kind) if kind.is_float() => {
            with_kind!(kind, [F32, F64, F16, Bf16], T => task.floats::<T>(ctx, op), else x.refused())
        }
        (_, kind) => {
            with_kind!(kind, [I8, I16, I32, I64, U8, U16, U32, U64, Bool], T => task.wholes::<T>(ctx, op), else x.refused())
        }
    }
}

const fn n(name: &'static str) -> Op {
    Op::new(name, run as Run, &[NUM, INDEX]).gives(&[NUM])
}
const fn m(name: &'static str) -> Op {
    Op::new(name, run as Run, &[NUMB, INDEX]).gives(&[NUMB])
}
const fn b(name: &'static str) -> Op {
    Op::new(name, run as Run, &[BOOL, INDEX]).gives(&[BOOL])
}
/// Operator rows of this file.
pub const OPS: &[Op] = &[
    n("ReduceSum"),
    n("ReduceMean"),
    m("ReduceMax"),
    m("ReduceMin"),
    n("ReduceProd"),
    n("ReduceLogSumExp"),
    b("ReduceAll"),
    b("ReduceAny"),
    n("ReduceSumD"),
    n("ReduceMeanD"),
    m("ReduceMaxD"),
    m("ReduceMinD"),
    n("ReduceProdD"),
    n("ReduceLogSumExpD"),
    b("ReduceAllD"),
    b("ReduceAnyD"),
];
