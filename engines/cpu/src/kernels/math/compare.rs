//! Comparisons, broadcast; NaN compares unequal to everything. `Equal` and `NotEqual` also take
//! types without an order.
use super::zip::zip;
use crate::args::{Arg, out, view_error};
use crate::kernels::text::strings;
use crate::op::{Op, Run};
use crate::store::types::{ANY, BOOL, NUM};
use ge_kernels::view::{Bool, Nest, broadcast_shapes};
use ge_kernels::with_kind;
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;
use ge_plugin_api::types::DType;

macro_rules! compare {
    ($($fun:ident $op:tt;)+) => {$(
        fn $fun(ctx: &mut KernelCtx<'_>) -> Result<()> {
            let (a, b) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?);
            with_kind!(a.kind()?, T => zip::<T, T, Bool>(ctx, &a, &b, |x, y| Bool::from(x $op y)))
        }
    )+};
}
compare! {
    run_less <;
    run_less_equal <=;
    run_greater >;
    run_greater_equal >=;
}
fn equality(ctx: &mut KernelCtx<'_>, equal: bool) -> Result<()> {
    if ctx.input(0)?.dtype == DType::STRING {
        let (dims, pairs) = strings::pairs(ctx)?;
        let y = ctx.alloc_output(0, &dims)?;
        y.bytes.iter_mut().zip(pairs).for_each(|(to, (a, b))| *to = u8::from((a == b) == equal));
        return Ok(());
    }
    let (a, b) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?);
    if let Ok(k) = a.kind() {
        return with_kind!(k, T => zip::<T, T, Bool>(ctx, &a, &b, |x, y| Bool::from((x == y) == equal)));
    }
    // Small floating-point and packed types as doubles, complex numbers as two doubles.
    let parts = |x: &Arg<'_>| -> Result<Vec<(f64, f64)>> {
        let pair = |re: f64, im: f64| (re, im);
        Ok(match x.dtype {
            DType::COMPLEX64 => x
                .bytes()
                .as_chunks::<8>()
                .0
                .iter()
                .map(|c| {
                    let f = |i: usize| f64::from(f32::from_le_bytes([c[i], c[i + 1], c[i + 2], c[i + 3]]));
                    pair(f(0), f(4))
                })
                .collect(),
            DType::COMPLEX128 => {
                let w: Vec<f64> = x.bytes().as_chunks::<8>().0.iter().map(|c| f64::from_le_bytes(*c)).collect();
                w.chunks_exact(2).map(|p| pair(p[0], p[1])).collect()
            }
            _ => super::cast::doubles(x)?.into_iter().map(|v| pair(v, 0.0)).collect(),
        })
    };
    let (va, vb) = (parts(&a)?, parts(&b)?);
    let shape = broadcast_shapes(&a.shape, &b.shape).map_err(view_error)?;
    let nest = Nest::new(&shape, [&a.broadcast(&shape)?, &b.broadcast(&shape)?]);
    let o = out::<Bool>(ctx, 0, &shape)?;
    let mut at = 0;
    nest.each_run(|[pa, pb], n, [sa, sb]| {
        for i in 0..n as isize {
            o[at] = Bool::from((va[(pa + i * sa) as usize] == vb[(pb + i * sb) as usize]) == equal);
            at += 1;
        }
    });
    Ok(())
}
fn run_equal(ctx: &mut KernelCtx<'_>) -> Result<()> {
    equality(ctx, true)
}
fn run_not_equal(ctx: &mut KernelCtx<'_>) -> Result<()> {
    equality(ctx, false)
}
const fn c(name: &'static str, run: Run) -> Op {
    Op::new(name, run, &[NUM]).gives(&[BOOL])
}
/// Operator rows of this file.
pub const OPS: &[Op] = &[
    c("Less", run_less),
    c("LessEqual", run_less_equal),
    c("Greater", run_greater),
    c("GreaterEqual", run_greater_equal),
    Op::new("Equal", run_equal, &[ANY]).gives(&[BOOL]),
    Op::new("NotEqual", run_not_equal, &[ANY]).gives(&[BOOL]),
];
