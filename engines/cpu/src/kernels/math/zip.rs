//! The loops of element-wise operators: one or two inputs walked with an output, contiguous runs
//! without index arithmetic.
use crate::args::{Arg, out, view_error};
use crate::par;
use ge_kernels::view::{Elem, Nest, broadcast_shapes};
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;

/// `y = f(x)`, shape of x.
pub fn map<S: Elem, D: Elem>(ctx: &mut KernelCtx<'_>, x: &Arg<'_>, f: impl Fn(S) -> D + Sync) -> Result<()> {
    let v = x.values::<S>()?;
    par::chunks(out::<D>(ctx, 0, &x.shape)?, par::GRAIN, |start, part| {
        for (o, i) in part.iter_mut().zip(&v[start..]) {
            *o = f(*i);
        }
        Ok(())
    })
}

/// `y = f(a, b)`, both broadcast.
pub fn zip<S: Elem, D: Elem>(
    ctx: &mut KernelCtx<'_>,
    a: &Arg<'_>,
    b: &Arg<'_>,
    f: impl Fn(S, S) -> D + Sync,
) -> Result<()> {
    zip_mixed::<S, S, D>(ctx, a, b, f)
}

/// As [`zip`] for inputs of two types.
pub fn zip_mixed<S: Elem, Q: Elem, D: Elem>(
    ctx: &mut KernelCtx<'_>,
    a: &Arg<'_>,
    b: &Arg<'_>,
    f: impl Fn(S, Q) -> D + Sync,
) -> Result<()> {
    let shape = broadcast_shapes(&a.shape, &b.shape).map_err(view_error)?;
    let (la, lb) = (a.broadcast(&shape)?, b.broadcast(&shape)?);
    let (va, vb) = (a.values::<S>()?, b.values::<Q>()?);
    let nest = Nest::new(&shape, [&la, &lb]);
    par::chunks(out::<D>(ctx, 0, &shape)?, par::GRAIN, |start, part| {
        let mut at = 0;
        nest.each_run_in(start..start + part.len(), |[pa, pb], n, [sa, sb]| {
            let o = &mut part[at..at + n];
            at += n;
            let (ia, ib) = (pa as usize, pb as usize);
            match (sa, sb) {
                (1, 1) => o.iter_mut().zip(&va[ia..ia + n]).zip(&vb[ib..ib + n]).for_each(|((o, x), y)| *o = f(*x, *y)),
                (1, 0) => o.iter_mut().zip(&va[ia..ia + n]).for_each(|(o, x)| *o = f(*x, vb[ib])),
                (0, 1) => o.iter_mut().zip(&vb[ib..ib + n]).for_each(|(o, y)| *o = f(va[ia], *y)),
                _ => {
                    for (i, o) in o.iter_mut().enumerate() {
                        let i = i as isize;
                        *o = f(va[(pa + i * sa) as usize], vb[(pb + i * sb) as usize]);
                    }
                }
            }
        });
        Ok(())
    })
}
