//! `Cast` between all types except complex ones, and `Bitcast`.
//!
//! Between the common types the rules are those of `ge_kernels::view::cast`. Floating-point types
//! of 8 and 4 bits round to nearest even and saturate according to `saturate`; integers of 4 and 2
//! bits keep the low bits. Packed types are unpacked, cast and packed again.
use super::decimal::{not_a_number, number, written};
use super::float8::{decode_e8m0, encode_e8m0, form};
use super::zip::map;
use crate::args::{Arg, bad, dims, flag, kind_of, out_bytes, room, size, text};
use crate::kernels::shape::moving::{pack, unpack};
use crate::kernels::text::strings;
use crate::op::Op;
use crate::store::types::{BITS, REAL_TEXT};
use ge_kernels::view::{Elem, Num, cast, cast_slice_mut};
use ge_kernels::with_kind;
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;
use ge_plugin_api::types::DType;

/// The elements of any real type, as the widest number of their class.
pub fn nums(x: &Arg<'_>) -> Result<Vec<Num>> {
    let mut v = room(x.len)?;
    if let Some(k) = kind_of(x.dtype) {
        with_kind!(k, T => v.extend(x.values::<T>()?.iter().map(|e| e.to_num())));
        return Ok(v);
    }
    let bits = x.dtype.bits().unwrap_or(8);
    let codes = if bits < 8 { unpack(x.bytes(), bits as usize, x.len)? } else { x.bytes().to_vec() };
    let one: &dyn Fn(u8) -> Num = match (x.dtype, form(x.dtype)) {
        (_, Some(f)) => &move |c| Num::F(f.decode(c)),
        (DType::F8E8M0, _) => &|c| Num::F(decode_e8m0(c)),
        (DType::I4, _) => &|c| Num::I(i64::from((c << 4) as i8 >> 4)),
        (DType::I2, _) => &|c| Num::I(i64::from((c << 6) as i8 >> 6)),
        (DType::U4 | DType::U2, _) => &|c| Num::U(u64::from(c)),
        _ => return x.refused(),
    };
    v.extend(codes.into_iter().map(one));
    Ok(v)
}
/// The elements of any real type as doubles.
pub fn doubles(x: &Arg<'_>) -> Result<Vec<f64>> {
    Ok(nums(x)?.into_iter().map(double).collect())
}
/// A number as a double.
pub fn double(n: Num) -> f64 {
    match n {
        Num::F(v) => v,
        Num::I(v) => v as f64,
        Num::U(v) => v as f64,
    }
}
/// Writes output `i` of any real type.
pub fn put_nums(
    ctx: &mut KernelCtx<'_>,
    i: usize,
    shape: &[usize],
    v: &[Num],
    saturate: bool,
    mode: &str,
) -> Result<()> {
    let d = ctx.output_dtype(i).unwrap_or_default();
    let o = out_bytes(ctx, i, shape)?;
    if let Some(k) = kind_of(d) {
        with_kind!(k, T => {
            let o = cast_slice_mut::<T>(o).map_err(crate::args::view_error)?;
            o.iter_mut().zip(v).for_each(|(o, n)| *o = T::from_num(*n));
        });
        return Ok(());
    }
    let low = |n: Num| {
        cast::<i64, u8>(match n {
            Num::F(f) => cast::<f64, i64>(f),
            Num::I(i) => i,
            Num::U(u) => u as i64,
        })
    };
    let one: &dyn Fn(Num) -> u8 = match (d, form(d)) {
        (_, Some(f)) => &move |n| f.encode(double(n), saturate),
        (DType::F8E8M0, _) => &|n| encode_e8m0(double(n), mode, saturate),
        (DType::I4 | DType::U4, _) => &|n| low(n) & 15,
        (DType::I2 | DType::U2, _) => &|n| low(n) & 3,
        _ => return Err(bad(format!("type of output {i}"), d, "a real type")),
    };
    let bits = d.bits().unwrap_or(8) as usize;
    if bits == 8 {
        o.iter_mut().zip(v).for_each(|(o, n)| *o = one(*n));
    } else {
        let mut codes = room(v.len())?;
        codes.extend(v.iter().map(|n| one(*n)));
        pack(&codes, bits, o);
    }
    Ok(())
}

fn run_cast(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let to = ctx.output_dtype(0).unwrap_or_default();
    let (saturate, mode) = (flag(ctx, "saturate", true), text(ctx, "round_mode", "up"));
    if ctx.input(0)?.dtype == DType::STRING {
        let (dims, all) = strings::read(ctx, 0)?;
        if to == DType::STRING {
            return strings::write(ctx, 0, &dims, &all);
        }
        let shape = dims.iter().map(|d| size("a size", *d as i64)).collect::<Result<Vec<_>>>()?;
        let read = all.iter().map(|s| number(s, to).ok_or_else(|| not_a_number(s)));
        return put_nums(ctx, 0, &shape, &read.collect::<Result<Vec<_>>>()?, saturate, mode);
    }
    let x = Arg::of(ctx, 0)?;
    if to == DType::STRING {
        let all: Vec<String> = nums(&x)?.into_iter().map(written).collect();
        return strings::write(ctx, 0, &dims(&x.shape), &all);
    }
    match (kind_of(x.dtype), kind_of(to)) {
        (Some(a), Some(b)) => with_kind!(a, S => with_kind!(b, D => map::<S, D>(ctx, &x, cast::<S, D>))),
        _ => put_nums(ctx, 0, &x.shape, &nums(&x)?, saturate, mode),
    }
}

fn run_bitcast(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    let to = ctx.output_dtype(0).unwrap_or_default();
    let (Some(from), Some(bits)) = (x.dtype.bits(), to.bits()) else { return x.refused() };
    let mut shape = x.shape.clone();
    if from > bits && from % bits == 0 {
        shape.push((from / bits) as usize);
    } else if from != bits {
        match shape.pop() {
            Some(last) if last as u64 * from == bits => {}
            _ => {
                return Err(bad(
                    "input 0",
                    format!("shape {:?} of {}", x.shape, x.dtype),
                    format!("a last dimension of {}", bits / from.max(1)),
                ));
            }
        }
    }
    let o = out_bytes(ctx, 0, &shape)?;
    let b = x.bytes();
    if o.len() != b.len() {
        return Err(bad("input 0", format!("{} bytes", b.len()), format!("{} bytes", o.len())));
    }
    o.copy_from_slice(b);
    Ok(())
}

/// Operator rows of this file.
pub const OPS: &[Op] = &[
    Op::new("Cast", run_cast, &[REAL_TEXT]).gives(&[REAL_TEXT]),
    // The second input only provides its type, which is that of the output.
    Op::new("CastLike", run_cast, &[REAL_TEXT]).gives(&[REAL_TEXT]),
    Op::new("Bitcast", run_bitcast, &[BITS]).gives(&[BITS]),
];
