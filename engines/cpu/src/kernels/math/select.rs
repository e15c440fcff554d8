//! `SelectV2` and `Select(condition, then, else)`, all broadcast; `ClipByValue(x, lo, hi)` =
//! min(max(x, lo), hi).
use super::cast::{doubles, put_nums};
use super::special::{max, min};
use super::unary::float_map;
use super::zip::map;
use crate::args::{Arg, bad, out, out_bytes, view_error};
use crate::kernels::shape::moving::{Source, pack, with_width};
use crate::op::Op;
use crate::store::types::{ANY, BOOL, FLOAT_F8, INDEX, NUM};
use ge_kernels::view::{Bool, Nest, Num, broadcast_shapes};
use ge_kernels::with_kind;
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;

fn run_select(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (c, a, b) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?, Arg::of(ctx, 2)?);
    b.need_type(a.dtype)?;
    let shape =
        broadcast_shapes(&c.shape, &a.shape).and_then(|s| broadcast_shapes(&s, &b.shape)).map_err(view_error)?;
    let (lc, la, lb) = (c.broadcast(&shape)?, a.broadcast(&shape)?, b.broadcast(&shape)?);
    let nest = Nest::new(&shape, [&lc, &la, &lb]);
    let cond = c.values::<Bool>()?;
    let (sa, sb) = (Source::of(&a)?, Source::of(&b)?);
    let (bits, width) = (sa.bits, sa.width);
    let mut codes = Vec::new();
    let o = out_bytes(ctx, 0, &shape)?;
    if bits < 8 {
        codes = crate::args::filled(nest.len(), 0u8)?;
    }
    let target: &mut [u8] = if bits < 8 { &mut codes } else { &mut *o };
    with_width!(width, N => {
        let (va, vb, t) = (sa.items::<N>(), sb.items::<N>(), target.as_chunks_mut::<N>().0);
        crate::par::chunks(t, crate::par::GRAIN, |start, part| {
            let mut at = 0;
            nest.each_run_in(start..start + part.len(), |[pc, pa, pb], n, [tc, ta, tb]| {
                for i in 0..n as isize {
                    part[at] = if cond[(pc + i * tc) as usize].get() { va[(pa + i * ta) as usize] } else { vb[(pb + i * tb) as usize] };
                    at += 1;
                }
            });
            Ok(())
        })?;
    });
    if bits < 8 {
        pack(&codes, bits, out_bytes(ctx, 0, &shape)?);
    }
    Ok(())
}

fn run_clip(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (x, lo, hi) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?, Arg::of(ctx, 2)?);
    if x.kind()?.is_float() {
        let (lo, hi) = (lo.scalar()?, hi.scalar()?);
        return float_map(ctx, |v| min(max(v, lo), hi));
    }
    let _ = (lo.int()?, hi.int()?);
    with_kind!(x.kind()?, [I8, I16, I32, I64, U8, U16, U32, U64], T => {
        let (lo, hi) = (lo.values::<T>()?[0], hi.values::<T>()?[0]);
        let at_least = move |v: T| if v < lo { lo } else { v };
        map::<T, T>(ctx, &x, |v| if at_least(v) > hi { hi } else { at_least(v) })
    }, else x.refused())
}

/// `DropoutV3`. Without training, or with ratio zero, it gives x itself and an all-true mask;
/// otherwise it drops elements by a random mask and scales the others by `1 / (1 - ratio)`.
fn run_dropout(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    let ratio = match Arg::opt(ctx, 1)? {
        Some(r) => *doubles(&r)?.first().ok_or_else(|| bad("input 1: the ratio", "no elements", "one number"))?,
        None => 0.5,
    };
    let training = Arg::opt(ctx, 2)?.map_or(Ok(0), |r| r.int())? != 0;
    let keep = if training && ratio > 0.0 { Some(crate::kernels::random::mask(ctx, 3, x.len, ratio)?) } else { None };
    let mut v = doubles(&x)?;
    if let Some(k) = &keep {
        v.iter_mut().zip(k).for_each(|(v, k)| *v = if *k { *v / (1.0 - ratio) } else { 0.0 });
    }
    let v: Vec<Num> = v.into_iter().map(Num::F).collect();
    put_nums(ctx, 0, &x.shape, &v, true, "up")?;
    if ctx.output_count() > 1 {
        let m = out::<Bool>(ctx, 1, &x.shape)?;
        m.iter_mut().enumerate().for_each(|(i, m)| *m = Bool::from(keep.as_ref().is_none_or(|k| k[i])));
    }
    Ok(())
}

/// Operator rows of this file.
pub const OPS: &[Op] = &[
    Op::moves("SelectV2", run_select, &[BOOL, ANY]),
    Op::moves("Select", run_select, &[BOOL, ANY]),
    Op::new("ClipByValue", run_clip, &[NUM]).gives(&[NUM]),
    Op::new("DropoutV3", run_dropout, &[FLOAT_F8, FLOAT_F8, BOOL, INDEX]),
];

#[cfg(test)]
mod tests {
    use crate::testing::{attrs, call, t};
    use ge_plugin_api::kernel::HostTensor;
    use ge_plugin_api::types::DType;

    /// 1 and 2 (E5M2) without training, and with a ratio of a half.
    #[test]
    fn dropout_takes_floating_point_numbers_of_8_bits() {
        let f8 = |dims: &[u64], v: &[u8]| HostTensor::from_bytes(DType::F8E5M2, dims, v).unwrap();
        let (x, half) = (f8(&[64], &[[0x3c, 0x40]; 32].concat()), f8(&[], &[0x38]));
        let drop = |training: u8| {
            let training = HostTensor::from_bytes(DType::BOOL, &[], &[training]).unwrap();
            let inputs = [Some(&x), Some(&half), Some(&training)];
            let made = call("DropoutV3", &inputs, &attrs(&[("seed", 1i64.into())]), &[DType::F8E5M2, DType::BOOL]);
            let made = made.unwrap();
            (made[0].bytes().to_vec(), made[1].bytes().to_vec())
        };
        assert_eq!(drop(0), (x.bytes().to_vec(), vec![1; 64]));
        let (y, mask) = drop(1);
        // What is kept is doubled: 2 and 4.
        let want = mask.iter().zip([0x40, 0x44].into_iter().cycle()).map(|(m, v)| if *m == 1 { v } else { 0 });
        assert_eq!(y, want.collect::<Vec<u8>>());
        assert!(mask.contains(&0) && mask.contains(&1));
        // The ratio may have another type than the data.
        call("DropoutV3", &[Some(&x), Some(&t(&[], &[0.5f32]))], &attrs(&[]), &[DType::F8E5M2]).unwrap();
    }
}
