//! `MatMulNBits(A [..., K], B, scales, zero_points?, g_idx?, bias?) {K, N, bits, block_size} -> Y
//! [..., N]`: a product with a matrix of 2-bit, 4-bit or 8-bit numbers.
//!
//! `B [N, blocks, bytes]` holds each row's numbers block by block, starting at the lowest bits of a
//! byte. `scales` is `[N, blocks]`; `zero_points` is packed in the same way or holds real numbers
//! `[N, blocks]`; if it is absent, the zero point is half the range. `g_idx [K]` says for each
//! number of a row which of the row's scales and zero points it has, if that does not follow from
//! its block.
//!
//! A constant B with constant scales and integer zero points becomes `DequantizeLinear` and
//! `BatchMatMulV2`, which engines fuse. Otherwise a kernel unpacks rows of B once for all rows of A.
use crate::declare::ort_op;
use crate::numbers::{expect, put, reals, unpack};
use crate::shared::{Outs, only};
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::kernel::{KernelCtx, TensorView};
use ge_plugin_api::ops::flags::MAY_FAIL;
use ge_plugin_api::ops::{AttrKind, InferCtx, OpDef};
use ge_plugin_api::services::parallel_for;
use ge_plugin_api::types::{Blob, ConstTensor, DType, Dim, Shape, TensorDesc, ValueRef};
use ge_plugin_api::{Error, Result, register_kernel, register_op};
use std::sync::Mutex;

const REAL: &[DType] = &[DType::F32, DType::F16];

fn map(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    only(n, "weight_prepacked", 0)?;
    if let Some(y) = standard(n, b) {
        return Ok(vec![y]);
    }
    let mut d = b.node("MatMulNBits").name(&n.name).input(n.input(0)?).input(n.input(1)?).input(n.input(2)?);
    d = d.opt_input(n.opt_input(3)).opt_input(n.opt_input(5)).opt_input(n.opt_input(4).filter(|_| !in_order(n)));
    for (key, or) in [("K", 0), ("N", 0), ("bits", 4), ("block_size", 0)] {
        d = d.attr(key, n.int_or(key, or));
    }
    Ok(vec![d.build()])
}
ort_op!("MatMulNBits", 6, ["K", "N", "bits", "block_size", "accuracy_level", "weight_prepacked"], map);

/// The product as `DequantizeLinear` of a constant `[N, K]` and `BatchMatMulV2`; `None` if the
/// weights do not have that form.
fn standard(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Option<ValueRef> {
    if n.opt_input(4).is_some() && !in_order(n) {
        return None;
    }
    let size = |key: &str, or: i64| usize::try_from(n.int_or(key, or)).ok().filter(|v| *v > 0);
    let (k, rows, bits, block) = (size("K", 0)?, size("N", 0)?, size("bits", 4)?, size("block_size", 0)?);
    let blocks = k.div_ceil(block);
    let (weights, scales) = (n.constant(1)?, n.constant(2)?);
    n.input_descs.first().filter(|d| d.dtype == scales.dtype)?;
    let weights = numbers(weights, [rows, k], blocks * block, bits)?;
    let zeros = match n.opt_input(3) {
        Some(_) => numbers(n.constant(3)?, [rows, blocks], (blocks * bits).div_ceil(8) * 8 / bits, bits)?,
        None => stored(&vec![1 << (bits - 1); rows * blocks], [rows, blocks], bits)?,
    };
    let dims = [rows as u64, blocks as u64];
    if scales.count() != Some(dims[0] * dims[1]) {
        return None;
    }
    let mut scales = scales.clone();
    scales.dims = dims.as_slice().into();
    let inputs = [("B", weights), ("scales", scales), ("zero_points", zeros)].map(|(k, t)| b.made_constant(k, t));
    let real = b.node("DequantizeLinear").inputs(&inputs).attr("axis", 1i64).attr("block_size", block as i64).build();
    let product = b.node("BatchMatMulV2").input(n.input(0).ok()?).input(real).attr("adj_x2", true);
    Some(match n.opt_input(5) {
        None => product.name(&n.name).build(),
        Some(bias) => {
            let y = product.build();
            b.node("Add").name(&n.name).input(y).input(bias).build()
        }
    })
}

/// A constant `[rows, columns]` of the packed integers of a tensor whose rows hold `each` of them.
fn numbers(t: &ConstTensor, [rows, columns]: [usize; 2], each: usize, bits: usize) -> Option<ConstTensor> {
    let bytes =
        t.bytes().filter(|b| t.dtype == DType::U8 && matches!(bits, 2 | 4 | 8) && b.len() * 8 == rows * each * bits)?;
    let row = each * bits / 8;
    let all: Vec<u8> = (0..rows)
        .flat_map(|r| (0..columns).map(move |c| (r, c)))
        .map(|(r, c)| unpack(&bytes[r * row..], c, bits))
        .collect();
    stored(&all, [rows, columns], bits)
}

/// Integers as a constant of bytes, or of four bits each.
fn stored(v: &[u8], [rows, columns]: [usize; 2], bits: usize) -> Option<ConstTensor> {
    let dims = [rows as u64, columns as u64];
    if bits == 8 {
        return ConstTensor::of(&dims, v);
    }
    let packed: Vec<u8> = v.chunks(2).map(|two| two[0] | two.get(1).copied().unwrap_or(0) << 4).collect();
    ConstTensor::new(DType::U4, &dims, Blob::from_owner(packed))
}

/// Whether `g_idx` is constant and gives each number the scale of its own block.
fn in_order(n: &ForeignNode) -> bool {
    let block = n.int_or("block_size", 0).max(1);
    let ids = n.constant(4).and_then(|t| t.to_i64(usize::MAX));
    ids.is_some_and(|ids| ids.iter().zip(0i64..).all(|(id, k)| *id == k / block))
}

fn infer(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let x = c.input(0)?;
    let columns = c.node.int("N").and_then(|n| u64::try_from(n).ok()).map_or(Dim::UNKNOWN, Dim::known);
    let k = c.node.int("K").and_then(|k| u64::try_from(k).ok());
    let Some(last) = x.shape.rank().and_then(|r| r.checked_sub(1)) else {
        return Ok(vec![TensorDesc::new(x.dtype, Shape::unranked())]);
    };
    let mut dims = x.shape.dims().to_vec();
    if let (Some(found), Some(k)) = (dims[last].size(), k)
        && found != k
    {
        return Err(Error::failed(format!("input 0 `A`: found {}, expected a last size of {k} (`K`)", x.shape)));
    }
    dims[last] = columns;
    Ok(vec![TensorDesc::new(x.dtype, Shape::new(dims))])
}
register_op!(|| OpDef::new("MatMulNBits", infer)
    .input("A", REAL, "T")
    .input("B", &[DType::U8], "")
    .input("scales", REAL, "T")
    .opt("zero_points", &[DType::U8, DType::F32, DType::F16], "")
    .opt("bias", REAL, "T")
    .opt("g_idx", &[DType::I32], "")
    .output("Y", REAL, "T")
    .required_attr("K", AttrKind::INT)
    .range(1.0, f64::INFINITY)
    .required_attr("N", AttrKind::INT)
    .range(1.0, f64::INFINITY)
    .attr("bits", AttrKind::INT, 4i64)
    .range(2.0, 8.0)
    .required_attr("block_size", AttrKind::INT)
    .range(16.0, f64::INFINITY)
    .flags(MAY_FAIL));

/// The packed matrix.
struct Packed<'a> {
    k: usize,
    bits: usize,
    block: usize,
    blocks: usize,
    bytes: &'a [u8],
    scales: Vec<f32>,
    zeros: Zeros<'a>,
    /// For each number of a row, which scale and zero point it has; `None`: those of its block.
    groups: Option<Vec<usize>>,
}

enum Zeros<'a> {
    Half,
    Packed(&'a [u8]),
    Real(Vec<f32>),
}

impl Packed<'_> {
    fn zero(&self, row: usize, block: usize) -> f32 {
        match &self.zeros {
            Zeros::Half => (1u32 << (self.bits - 1)) as f32,
            Zeros::Packed(z) => {
                let each = (self.blocks * self.bits).div_ceil(8);
                f32::from(unpack(&z[row * each..(row + 1) * each], block, self.bits))
            }
            Zeros::Real(z) => z[row * self.blocks + block],
        }
    }
    /// Unpacks the numbers of a row.
    fn row(&self, row: usize, out: &mut [f32]) {
        let each = self.block * self.bits / 8;
        if let Some(groups) = &self.groups {
            let bytes = &self.bytes[row * self.blocks * each..(row + 1) * self.blocks * each];
            for (k, (v, group)) in out.iter_mut().zip(groups).enumerate() {
                let scale = self.scales[row * self.blocks + group];
                *v = (f32::from(unpack(bytes, k, self.bits)) - self.zero(row, *group)) * scale;
            }
            return;
        }
        for (b, part) in out.chunks_mut(self.block).enumerate() {
            let at = (row * self.blocks + b) * each;
            let bytes = &self.bytes[at..at + each];
            let (scale, zero) = (self.scales[row * self.blocks + b], self.zero(row, b));
            match self.bits {
                4 => {
                    for (two, byte) in part.chunks_mut(2).zip(bytes) {
                        two[0] = (f32::from(byte & 15) - zero) * scale;
                        if let Some(second) = two.get_mut(1) {
                            *second = (f32::from(byte >> 4) - zero) * scale;
                        }
                    }
                }
                bits => part
                    .iter_mut()
                    .enumerate()
                    .for_each(|(i, v)| *v = (f32::from(unpack(bytes, i, bits)) - zero) * scale),
            }
        }
    }
}

/// The dot product, computed as sixteen partial sums.
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0f32; 16];
    let (ac, bc) = (a.chunks_exact(16), b.chunks_exact(16));
    let rest: f32 = ac.remainder().iter().zip(bc.remainder()).map(|(x, y)| x * y).sum();
    for (x, y) in ac.zip(bc) {
        for i in 0..16 {
            sums[i] += x[i] * y[i];
        }
    }
    sums.iter().sum::<f32>() + rest
}

fn attribute(ctx: &KernelCtx<'_>, key: &str, or: i64) -> Result<usize> {
    let v = ctx.attrs.int(key).unwrap_or(or);
    usize::try_from(v).map_err(|_| Error::failed(format!("attribute `{key}` is {v}")))
}

/// The numbers of `g_idx`, each below `blocks`; `k` are needed.
fn groups(x: &TensorView<'_>, k: usize, blocks: usize) -> Result<Vec<usize>> {
    let given = x.values::<i32>()?;
    if given.len() < k {
        return Err(Error::failed(format!("input 5 `g_idx`: found {} numbers, expected {k}", given.len())));
    }
    let one = |g: &i32| usize::try_from(*g).ok().filter(|g| *g < blocks);
    let all: Option<Vec<usize>> = given[..k].iter().map(one).collect();
    all.ok_or_else(|| {
        Error::failed(format!("input 5 `g_idx`: expected numbers from 0 to {}", blocks.saturating_sub(1)))
    })
}

fn run(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (x, w, s) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
    let (k, n) = (attribute(ctx, "K", 0)?, attribute(ctx, "N", 0)?);
    let (bits, block) = (attribute(ctx, "bits", 4)?, attribute(ctx, "block_size", 0)?);
    if !matches!(bits, 2 | 4 | 8) || block == 0 || !block.is_multiple_of(8) || k == 0 {
        return Err(Error::failed(format!(
            "bits = {bits} with block_size = {block}: expected 2, 4 or 8 bits and whole bytes"
        )));
    }
    let blocks = k.div_ceil(block);
    expect("last size of input 0 `A`", x.dims.last().map_or(0, |d| *d as usize), k)?;
    expect("bytes of input 1 `B`", w.bytes.len(), n * blocks * block * bits / 8)?;
    let scales = reals(&s)?;
    expect("numbers of input 2 `scales`", scales.len(), n * blocks)?;
    let zeros = match ctx.opt_input(3) {
        None => Zeros::Half,
        Some(z) if z.dtype == DType::U8 => {
            expect("bytes of input 3 `zero_points`", z.bytes.len(), n * (blocks * bits).div_ceil(8))?;
            Zeros::Packed(z.bytes)
        }
        Some(z) => {
            let z = reals(&z)?;
            expect("numbers of input 3 `zero_points`", z.len(), n * blocks)?;
            Zeros::Real(z)
        }
    };
    let bias = ctx.opt_input(4).map(|b| reals(&b)).transpose()?;
    if let Some(b) = &bias {
        expect("numbers of input 4 `bias`", b.len(), n)?;
    }
    let groups = ctx.opt_input(5).map(|g| groups(&g, k, blocks)).transpose()?;
    let a = reals(&x)?;
    let rows = a.len() / k;
    let packed = Packed { k, bits, block, blocks, bytes: w.bytes, scales, zeros, groups };
    // Columns of the result are computed in parallel and copied to their places at the end.
    let parts: Mutex<Vec<(usize, Vec<f32>)>> = Mutex::default();
    parallel_for(n, 16, |range| {
        let mut row = vec![0f32; packed.k];
        let mut part = vec![0f32; range.len() * rows];
        for (j, column) in range.clone().enumerate() {
            packed.row(column, &mut row);
            let add = bias.as_ref().map_or(0.0, |b| b[column]);
            for (i, x) in a.chunks_exact(k).enumerate() {
                part[i * range.len() + j] = dot(x, &row) + add;
            }
        }
        parts.lock().unwrap_or_else(|p| p.into_inner()).push((range.start, part));
        Ok(())
    })?;
    let mut dims = x.dims.to_vec();
    if let Some(last) = dims.last_mut() {
        *last = n as u64;
    }
    let parts = parts.into_inner().unwrap_or_else(|p| p.into_inner());
    let mut y = ctx.alloc_output(0, &dims)?;
    for (start, part) in &parts {
        let width = part.len().checked_div(rows).unwrap_or(0);
        for i in 0..rows {
            let (from, at) = (&part[i * width..(i + 1) * width], i * n + start);
            put(&mut y, at, from)?;
        }
    }
    Ok(())
}
register_kernel!("OrtContribEngine", "MatMulNBits", [], run);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_have_every_product() {
        let v: Vec<f32> = (0..37).map(|i| i as f32).collect();
        assert_eq!(dot(&v, &v), (0..37).map(|i| (i * i) as f32).sum::<f32>());
    }
}
