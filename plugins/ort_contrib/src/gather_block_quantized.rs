//! `GatherBlockQuantized(data, indices, scales, zero_points?) {gather_axis, quantize_axis,
//! block_size, bits} -> y`: the slices of a quantised table at the indices, as real numbers.
//!
//! `data` is i4, u4, or u8 with numbers of 2, 4 or 8 bits packed along the last axis, the lowest
//! bits first. Each block of `block_size` numbers along `quantize_axis` has a scale and a zero
//! point; `scales` has one number per block along that axis and the sizes of the table along the
//! others. `zero_points` has the type of `data` and is packed in the same way; if it is absent, the
//! zero point is half the range for u8, and 0 for the others.
use crate::declare::ort_op;
use crate::numbers::{expect, reals, unpack};
use crate::shared::Outs;
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::kernel::{KernelCtx, TensorView};
use ge_plugin_api::ops::flags::MAY_FAIL;
use ge_plugin_api::ops::{AttrKind, InferCtx, OpDef};
use ge_plugin_api::services::parallel_for;
use ge_plugin_api::types::{DType, Dim, Shape, TensorDesc};
use ge_plugin_api::{Error, Result, register_kernel, register_op};
use half::{bf16, f16};
use std::sync::Mutex;

const REAL: &[DType] = &[DType::F32, DType::F16, DType::BF16];
const PACKED: &[DType] = &[DType::U8, DType::U4, DType::I4];

fn map(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    if let Some(t) = n.desc(0).map(|d| d.dtype).filter(|t| *t != DType::UNKNOWN && !PACKED.contains(t)) {
        return Err(n.refuse(format!("input 0 `data` is {t}; u8, u4 and i4 are computed")));
    }
    let (bits, block) = (n.int_or("bits", 4), n.int_or("block_size", 128));
    if ![2, 4, 8].contains(&bits) || block < 1 {
        return Err(n.refuse(format!("bits = {bits} with block_size = {block}; expected 2, 4 or 8 bits")));
    }
    let mut d = b.node("GatherBlockQuantized").name(&n.name).input(n.input(0)?).input(n.input(1)?);
    d = d.input(n.input(2)?).opt_input(n.opt_input(3));
    for (key, value) in [("bits", bits), ("block_size", block)] {
        d = d.attr(key, value);
    }
    let d = d.attr("gather_axis", n.int_or("gather_axis", 0));
    Ok(vec![d.attr("quantize_axis", n.int_or("quantize_axis", 1)).build()])
}
ort_op!("GatherBlockQuantized", 4, ["bits", "block_size", "gather_axis", "quantize_axis"], map);

/// How many numbers one element of `data` has.
fn each(dtype: DType, bits: Option<i64>) -> u64 {
    match (dtype, bits) {
        (DType::U8, Some(2)) => 4,
        (DType::U8, Some(8)) => 1,
        (DType::U8, _) => 2,
        _ => 1,
    }
}

/// An axis that may count from the end.
fn axis(name: &str, axis: Option<i64>, or: i64, rank: usize) -> Result<usize> {
    let axis = axis.unwrap_or(or);
    let at = if axis < 0 { axis + rank as i64 } else { axis };
    let wrong = || Error::failed(format!("attribute `{name}` is {axis}, input 0 `data` has {rank} axes"));
    usize::try_from(at).ok().filter(|a| *a < rank).ok_or_else(wrong)
}

fn infer(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let (data, indices, dtype) = (c.input(0)?, &c.input(1)?.shape, c.input(2)?.dtype);
    let (Some(rank), Some(_)) = (data.shape.rank(), indices.rank()) else {
        return Ok(vec![TensorDesc::new(dtype, Shape::unranked())]);
    };
    let gather = axis("gather_axis", c.node.int("gather_axis"), 0, rank)?;
    let mut dims = data.shape.dims().to_vec();
    let each = each(data.dtype, c.node.int("bits"));
    dims[rank - 1] = dims[rank - 1].size().and_then(|s| s.checked_mul(each)).map_or(Dim::UNKNOWN, Dim::known);
    dims.splice(gather..=gather, indices.dims().iter().copied());
    Ok(vec![TensorDesc::new(dtype, Shape::new(dims))])
}
register_op!(|| OpDef::new("GatherBlockQuantized", infer)
    .input("data", PACKED, "P")
    .input("indices", &[DType::I32, DType::I64], "")
    .input("scales", REAL, "T")
    .opt("zero_points", PACKED, "P")
    .output("y", REAL, "T")
    .attr("bits", AttrKind::INT, 4i64)
    .attr("block_size", AttrKind::INT, 128i64)
    .range(1.0, f64::INFINITY)
    .attr("gather_axis", AttrKind::INT, 0i64)
    .attr("quantize_axis", AttrKind::INT, 1i64)
    .flags(MAY_FAIL));

/// Numbers of a few bits each, the lowest bits of a byte first.
struct Packed<'a> {
    bytes: &'a [u8],
    bits: usize,
    signed: bool,
    /// Numbers of a row, and the bytes that it takes; rows of u4 and i4 are not apart.
    row: Option<(usize, usize)>,
}

impl<'a> Packed<'a> {
    /// The numbers of a tensor whose last axis has `last` of them.
    fn of(x: &TensorView<'a>, bits: usize, last: usize) -> Packed<'a> {
        let row = (x.dtype == DType::U8).then(|| (last.max(1), (last * bits).div_ceil(8)));
        Packed { bytes: x.bytes, bits, signed: x.dtype == DType::I4, row }
    }
    fn get(&self, i: usize) -> f32 {
        let (start, i) = self.row.map_or((0, i), |(last, bytes)| (i / last * bytes, i % last));
        let number = unpack(self.bytes.get(start..).unwrap_or(&[]), i, self.bits);
        match (self.signed, 8 - self.bits) {
            (true, rest) => f32::from((number << rest) as i8 >> rest),
            (false, _) => f32::from(number),
        }
    }
    /// The bytes that `count` numbers take.
    fn bytes_of(&self, count: usize) -> usize {
        self.row.map_or((count * self.bits).div_ceil(8), |(last, bytes)| count / last * bytes)
    }
}

/// The quantised table and where its slices are.
struct Table<'a> {
    data: Packed<'a>,
    scales: Vec<f32>,
    zeros: Option<Packed<'a>>,
    /// The zero point where none are given.
    zero: f32,
    /// Sizes of the table, in numbers.
    dims: Vec<usize>,
    gather: usize,
    quantize: usize,
    block: usize,
}

impl Table<'_> {
    /// Numbers between one place and the next along an axis.
    fn inner(&self, axis: usize) -> usize {
        self.dims[axis + 1..].iter().product()
    }

    /// The numbers from `start` on.
    fn read<T>(&self, start: usize, out: &mut [T], round: impl Fn(f32) -> T) {
        let (inner, size) = (self.inner(self.quantize), self.dims[self.quantize]);
        let blocks = size.div_ceil(self.block);
        let mut at = 0;
        while at < out.len() {
            let i = start + at;
            let along = i / inner % size;
            let scale = (i / (inner * size) * blocks + along / self.block) * inner + i % inner;
            // Along the last axis, the numbers up to the end of the block have the same scale.
            let end = if inner == 1 { (self.block - along % self.block).min(size - along) } else { 1 };
            let zero = self.zeros.as_ref().map_or(self.zero, |z| z.get(scale));
            let part = at..out.len().min(at + end);
            for (k, y) in out[part.clone()].iter_mut().enumerate() {
                *y = round((self.data.get(i + k) - zero) * self.scales[scale]);
            }
            at = part.end;
        }
    }

    /// The slices at the indices, for each place before the gathered axis.
    fn gather<T: Send>(&self, indices: &[usize], y: &mut [T], round: impl Fn(f32) -> T + Sync) -> Result<()> {
        let (inner, size) = (self.inner(self.gather), self.dims[self.gather]);
        if inner == 0 || indices.is_empty() {
            return Ok(());
        }
        let slices: Vec<Mutex<&mut [T]>> = y.chunks_mut(inner).map(Mutex::new).collect();
        parallel_for(slices.len(), 4096usize.div_ceil(inner), |range| {
            for k in range {
                let from = k / indices.len() * size + indices[k % indices.len()];
                let mut out = slices[k].lock().unwrap_or_else(|p| p.into_inner());
                self.read(from * inner, &mut out, &round);
            }
            Ok(())
        })
    }
}

/// The indices, counted from the beginning of an axis of this size.
fn places(x: &TensorView<'_>, size: usize) -> Result<Vec<usize>> {
    let all: Vec<i64> = match x.dtype {
        DType::I32 => x.values::<i32>()?.iter().map(|v| i64::from(*v)).collect(),
        _ => x.values::<i64>()?.to_vec(),
    };
    let place = |v: i64| {
        let at = if v < 0 { v + size as i64 } else { v };
        usize::try_from(at).ok().filter(|at| *at < size).ok_or_else(|| {
            Error::failed(format!("input 1 `indices`: found {v}, the gathered axis of `data` has size {size}"))
        })
    };
    all.into_iter().map(place).collect()
}

fn table<'a>(ctx: &KernelCtx<'a>) -> Result<Table<'a>> {
    let (data, scales) = (ctx.input(0)?, ctx.input(2)?);
    let bits = match data.dtype {
        DType::U8 => ctx.attrs.int("bits").and_then(|b| usize::try_from(b).ok()).unwrap_or(4),
        _ => 4,
    };
    let block = ctx.attrs.int("block_size").and_then(|b| usize::try_from(b).ok()).unwrap_or(128);
    if ![2, 4, 8].contains(&bits) || block == 0 {
        return Err(Error::failed(format!("bits = {bits} with block_size = {block}: expected 2, 4 or 8 bits")));
    }
    let mut dims: Vec<usize> = data.dims.iter().map(|d| *d as usize).collect();
    let rank = dims.len();
    let gather = axis("gather_axis", ctx.attrs.int("gather_axis"), 0, rank)?;
    let quantize = axis("quantize_axis", ctx.attrs.int("quantize_axis"), 1, rank)?;
    dims[rank - 1] *= each(data.dtype, Some(bits as i64)) as usize;
    let mut of_scales = dims.clone();
    of_scales[quantize] = dims[quantize].div_ceil(block);
    let (count, last) = (of_scales.iter().product(), of_scales[rank - 1]);
    if !scales.dims.iter().map(|d| *d as usize).eq(of_scales.iter().copied()) {
        return Err(Error::failed(format!("input 2 `scales`: found {:?}, expected {of_scales:?}", scales.dims)));
    }
    let zeros = ctx.opt_input(3).map(|z| Packed::of(&z, bits, last));
    if let Some(z) = &zeros {
        expect("bytes of input 3 `zero_points`", z.bytes.len(), z.bytes_of(count))?;
    }
    let zero = if data.dtype == DType::U8 { (1u32 << (bits - 1)) as f32 } else { 0.0 };
    let data = Packed::of(&data, bits, dims[rank - 1]);
    expect("bytes of input 0 `data`", data.bytes.len(), data.bytes_of(dims.iter().product()))?;
    Ok(Table { data, scales: reals(&scales)?, zeros, zero, dims, gather, quantize, block })
}

fn run(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let table = table(ctx)?;
    let indices = ctx.input(1)?;
    let places = places(&indices, table.dims[table.gather])?;
    let mut dims: Vec<u64> = table.dims.iter().map(|d| *d as u64).collect();
    dims.splice(table.gather..=table.gather, indices.dims.iter().copied());
    let mut y = ctx.alloc_output(0, &dims)?;
    match y.dtype {
        DType::F16 => table.gather(&places, y.values::<f16>()?, f16::from_f32),
        DType::BF16 => table.gather(&places, y.values::<bf16>()?, bf16::from_f32),
        _ => table.gather(&places, y.values::<f32>()?, |v| v),
    }
}
register_kernel!("OrtContribEngine", "GatherBlockQuantized", [], run);

#[cfg(test)]
mod tests {
    use super::*;
    use ge_plugin_api::kernel::HostTensor;
    use ge_plugin_api::types::AttrMap;

    fn tensor<T: Copy, const N: usize>(dtype: DType, dims: &[u64], v: &[T], bytes: fn(T) -> [u8; N]) -> HostTensor {
        let bytes: Vec<u8> = v.iter().flat_map(|v| bytes(*v)).collect();
        HostTensor::from_bytes(dtype, dims, &bytes).expect("a tensor")
    }

    /// Gathers rows of a table; the attributes are `bits`, `block_size`, `gather_axis` and
    /// `quantize_axis`.
    fn gathered(
        data: HostTensor,
        indices: &[i64],
        scales: HostTensor,
        zeros: Option<HostTensor>,
        attrs: [i64; 4],
    ) -> std::result::Result<Vec<f32>, String> {
        let mut map = AttrMap::default();
        for (key, v) in ["bits", "block_size", "gather_axis", "quantize_axis"].into_iter().zip(attrs) {
            map.set(key, v);
        }
        let indices = tensor(DType::I64, &[indices.len() as u64], indices, i64::to_le_bytes);
        let inputs =
            vec![Some(data.view()), Some(indices.view()), Some(scales.view()), zeros.as_ref().map(|z| z.view())];
        let mut ctx = KernelCtx::new("GatherBlockQuantized", "n", &map, inputs, &[DType::F32]);
        run(&mut ctx).map_err(|e| e.message().to_owned())?;
        let y = ctx.into_made().remove(0).expect("an output");
        Ok(y.view().values::<f32>().expect("f32").to_vec())
    }

    #[test]
    fn packed_rows_have_a_scale_and_a_zero_point_per_block() {
        // Two rows of eight numbers in blocks of three, so that a row of zero points has odd length.
        let data = || tensor(DType::U8, &[2, 4], &[0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe], |b: u8| [b]);
        let scales = || tensor(DType::F32, &[2, 3], &[1.0, 10.0, 100.0, 2.0, 20.0, 200.0], f32::to_le_bytes);
        let zeros = tensor(DType::U8, &[2, 2], &[0x21u8, 0x03, 0x65, 0x07], |b: u8| [b]);
        let rows = gathered(data(), &[-1, 0], scales(), Some(zeros), [4, 3, 0, 1]);
        let second = [6.0, 8.0, 10.0, 100.0, 120.0, 140.0, 1400.0, 1600.0];
        let first = [-1.0, 0.0, 1.0, 10.0, 20.0, 30.0, 300.0, 400.0];
        assert_eq!(rows, Ok([second, first].concat()));
        let half = gathered(data(), &[0], scales(), None, [4, 3, 0, 1]);
        assert_eq!(half, Ok(vec![-8.0, -7.0, -6.0, -50.0, -40.0, -30.0, -200.0, -100.0]));
        assert!(gathered(data(), &[2], scales(), None, [4, 3, 0, 1]).is_err_and(|e| e.contains("has size 2")));
        assert!(gathered(data(), &[0], scales(), None, [4, 4, 0, 1]).is_err_and(|e| e.contains("expected [2, 2]")));
    }

    #[test]
    fn signed_numbers_may_be_quantised_and_gathered_along_any_axis() {
        // i4 [2, 4] = 0..7 without the eighth: -8 in its place.
        let data = || tensor(DType::I4, &[2, 4], &[0x10, 0x32, 0x54, 0x86], |b: u8| [b]);
        let along_rows = tensor(DType::F32, &[1, 4], &[1.0, 2.0, 3.0, 4.0], f32::to_le_bytes);
        assert_eq!(gathered(data(), &[3, 0], along_rows, None, [4, 16, 1, 0]), Ok(vec![12.0, 0.0, -32.0, 4.0]));
        let along_both = tensor(DType::F32, &[2, 2], &[1.0, 2.0, 3.0, 4.0], f32::to_le_bytes);
        assert_eq!(gathered(data(), &[3, 1], along_both, None, [4, 2, -1, 1]), Ok(vec![6.0, 1.0, -32.0, 15.0]));
    }
}
