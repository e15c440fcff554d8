//! Products of 8-bit integers, summed exactly in 32 bits: `MatMulInteger` returns the sums,
//! `QLinearMatMul` 8-bit integers, and `FusedQuantMatMul` (`plugins/ops/src/fused.rs`) real numbers
//! with bias and activation, or 8-bit integers made from these. a has one scale and zero point; b
//! has one, or one per column. A b with one column is read without packing, and so is one for a few
//! rows of a. Others are packed once per unit of work, unless they come packed
//! (`passes/byte_weights.rs`), with one axis and their sizes as original shape. If a of
//! `FusedQuantMatMul` is real, the kernel quantises it by the extremes of the whole tensor, as
//! `DynamicQuantizeLinear` does.
use crate::families::fused::act_named;
use crate::families::matmul::{places, split};
use crate::kernel::{Io, Kernel};
use crate::sig::{Answer, Sig};
use ge_kernels::gemm::int8::{GemmInt8, dot_rows, pack_int8, packed_int8_len};
use ge_kernels::gemm::int8_rows::{FEW_ROWS, PlainMatrix, Zeros, correct_rows, few_rows};
use ge_kernels::quant::{by_extremes, extremes, quantise, requantise, scale_columns};
use ge_kernels::simd::Act;
use ge_kernels::view::{Elem, Kind, Out, broadcast_shapes};
use ge_kernels::with_kind;
use ge_plugin_api::{Error, Result};
use std::borrow::Cow;
use std::ops::Range;

const BYTES: &[Kind] = &[Kind::I8, Kind::U8];
/// Rows and columns of a unit of work; more columns (`WIDE`) if each unit quantises its rows.
const ROWS: usize = 128;
const COLUMNS: usize = 128;
const WIDE: usize = 1024;
/// Rows of a unit that has all columns are finished together, up to this many numbers.
const TOGETHER: usize = 1024;
/// Largest K for which no sum of 8-bit integers minus their zero points overflows 32 bits.
pub const MOST_K: usize = 33_025;

/// Indices of an operator's inputs: a, its scale and zero point, b, its scale and zero point, scale
/// and zero point of y, bias.
type Inputs = [Option<usize>; 9];

struct QMatMul {
    at: Inputs,
    /// Types of a, b and y.
    kinds: [Kind; 3],
    /// Whether b is transposed.
    turned: bool,
    /// Whether b comes packed, with the sums of its columns.
    ahead: bool,
    m: usize,
    n: usize,
    k: usize,
    batch: Vec<[usize; 2]>,
    /// Number of columns of a unit of work.
    columns: usize,
    act: Act,
    /// Whether the result is made from the sums with a single factor, as ONNX defines it for
    /// QLinearMatMul.
    linear: bool,
}

/// The kernel of a product of 8-bit integers.
///
/// # Errors
/// Fails with a reason if types, shapes or attributes are not supported.
pub fn build(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let present = |i: usize| sig.opt_input(i).map(|_| i);
    let at: Inputs = match sig.op.as_str() {
        "MatMulInteger" => [Some(0), None, present(2), Some(1), None, present(3), None, None, None],
        _ => [Some(0), present(1), present(2), Some(3), Some(4), present(5), present(6), present(7), present(8)],
    };
    let real = sig.op == "FusedQuantMatMul" && sig.input(0)?.kind == Some(Kind::F32);
    if real && (at[1].is_some() || at[2].is_some()) {
        return Err("a is real, its scale and zero point are not to be given".into());
    }
    if !real && sig.op != "MatMulInteger" && at[1].is_none() {
        return Err("input 1 is missing".into());
    }
    let kinds = [if real { Kind::F32 } else { sig.kind_in(0, BYTES)? }, sig.kind_in(at[3].unwrap_or(1), BYTES)?];
    let (a, b, y) = (sig.input(0)?, sig.input(at[3].unwrap_or(1))?, sig.output(0)?);
    let turned = sig.attrs.flag("transpose_x2") && b.rank() > 1;
    let (lead_a, [mut m, k]) = split(&a.shape, true)?;
    let ahead = b.origin.is_some();
    let plain_b = b.origin.as_ref().map_or(&b.shape, |(_, whole)| whole);
    let (lead_b, [rb, cb]) = split(plain_b, false)?;
    let (kb, n) = if turned { (cb, rb) } else { (rb, cb) };
    if k != kb {
        return Err(format!("inner sizes are {k} and {kb}"));
    }
    if k > MOST_K && sig.op != "MatMulInteger" {
        return Err(format!("inner size {k}: sums of more than {MOST_K} bytes can leave 32 bits"));
    }
    if ahead && (turned || lead_b.iter().any(|d| *d != 1) || b.shape != [packed_len(k, n)]) {
        return Err(format!("b is {:?} of {plain_b:?}; packed it takes [{}]", b.shape, packed_len(k, n)));
    }
    let lead = broadcast_shapes(lead_a, lead_b).map_err(|e| e.to_string())?;
    let whole: Vec<usize> = lead.iter().copied().chain([m, n]).collect();
    let elements = ge_kernels::view::element_count(&whole).map_err(|e| e.to_string())?;
    if elements != y.count() {
        return Err(format!("output 0 is {:?}, the product {lead:?} of {m} x {n}", y.shape));
    }
    for (place, most) in [(1, 1), (2, 1), (4, n), (5, n), (6, 1), (7, 1)] {
        let Some(i) = at[place] else { continue };
        let t = sig.input(i)?;
        let want = match place {
            1 | 4 | 6 => Kind::F32,
            2 => kinds[0],
            5 => kinds[1],
            _ => y.kind.unwrap_or(Kind::F32),
        };
        if t.kind != Some(want) {
            return Err(format!("input {i} is {}, it takes {}", t.dtype, want.name()));
        }
        // Only the last axis may have more than one number: numbers per row, or per matrix of a
        // batch, are not supported.
        let by_column = t.count() == most && t.shape.iter().rev().skip(1).all(|d| *d == 1);
        if t.count() != 1 && !by_column {
            return Err(format!("input {i} is {:?}, it takes 1 or {most} numbers", t.shape));
        }
    }
    if let Some(bias) = sig.opt_input(8)
        && (bias.kind != Some(Kind::F32) || bias.count() != n)
    {
        return Err(format!("input 8 is {} {:?}, it takes f32 [{n}]", bias.dtype, bias.shape));
    }
    if at[6].is_some() != at[7].is_some() {
        return Err("one of the output's scale and zero point is given".into());
    }
    let gives = match (sig.op.as_str(), at[7]) {
        ("MatMulInteger", _) => &[Kind::I32][..],
        (_, Some(_)) => BYTES,
        _ => &[Kind::F32],
    };
    let kind = y.kind.filter(|k| gives.contains(k)).ok_or_else(|| format!("output 0 is {}", y.dtype))?;
    let count = if elements == 0 { 0 } else { elements / (m * n) };
    let batch = if count == 0 {
        Vec::new()
    } else if lead_b.iter().all(|&d| d == 1) {
        m *= count;
        vec![[0, 0]]
    } else {
        places(&lead, [lead_a, lead_b], [m * k, rb * cb])?
    };
    let act = act_named(sig.text("activation", "none"), sig.attrs.floats("activation_params").unwrap_or(&[]))?;
    let linear = sig.op == "QLinearMatMul";
    let columns = if real { WIDE } else { COLUMNS };
    Ok(Box::new(QMatMul { at, kinds: [kinds[0], kinds[1], kind], turned, ahead, m, n, k, batch, columns, act, linear }))
}

/// Size in bytes of a packed K x N matrix with the sums of its columns.
fn packed_len(k: usize, n: usize) -> usize {
    packed_int8_len(k, n) + n.next_multiple_of(16) * 4
}

/// Packs a matrix of signed 8-bit integers (its transpose if `turn`), followed by the sums of its
/// columns as little-endian 32-bit integers.
pub fn packed(b: &[i8], [k, n]: [usize; 2], turn: bool) -> Vec<i8> {
    let mut all = vec![0i8; packed_len(k, n)];
    let (row, col) = if turn { (1, k) } else { (n, 1) };
    let (panels, sums) = all.split_at_mut(packed_int8_len(k, n));
    pack_int8(b, k, n, row, col, panels);
    for (to, sum) in sums.as_chunks_mut::<4>().0.iter_mut().zip(column_sums(panels, k, n)) {
        *to = sum.to_le_bytes().map(|v| v as i8);
    }
    all
}

/// The sums of the columns of a packed matrix, computed as the product with a row of ones.
fn column_sums(panels: &[i8], k: usize, n: usize) -> Vec<i32> {
    let mut sums = vec![0i32; n];
    let g = GemmInt8 { m: 1, n, k, a_row: k };
    g.run(0..g.units(), &vec![1u8; k], panels, &mut Out::new(&mut sums));
    sums
}

/// Scale and zero point of a.
struct Left {
    scale: f32,
    zero: i32,
}

/// Data that belongs to the columns of a unit.
struct Columns<'b> {
    /// The packed columns; a single column is not packed, and those for a few rows are not here.
    packed: Cow<'b, [i8]>,
    sums: Vec<i32>,
    /// The zero points; empty if all are zero.
    zeros: Vec<i32>,
    /// The factor and the bias of each column, as often as rows are finished together.
    scale: Vec<f32>,
    bias: Vec<f32>,
}

impl QMatMul {
    /// Number of blocks of rows and of columns.
    fn blocks(&self) -> [usize; 2] {
        [self.m.div_ceil(ROWS), self.n.div_ceil(self.columns)]
    }

    /// Scale and zero point of a; for real numbers, computed from the extremes of the whole tensor.
    fn left(&self, io: &Io<'_, '_>) -> Result<Left> {
        if self.kinds[0] == Kind::F32 {
            let (scale, zero) = by_extremes(extremes(io.input::<f32>(0)?));
            return Ok(Left { scale, zero: zero as i32 });
        }
        let scale = self.at[1].map(|i| io.input::<f32>(i).map(|s| s[0])).transpose()?;
        Ok(Left { scale: scale.unwrap_or(1.0), zero: self.zeros(0, io)?[0] })
    }

    /// Zero points of a factor, converted to unsigned values on the left and signed values on the
    /// right.
    fn zeros(&self, side: usize, io: &Io<'_, '_>) -> Result<Vec<i32>> {
        let signed = self.kinds[side] == Kind::I8;
        let by = match (side, signed) {
            (0, true) => 128,
            (1, false) => -128,
            _ => 0,
        };
        let Some(i) = self.at[if side == 0 { 2 } else { 5 }] else { return Ok(vec![by]) };
        Ok(if signed {
            io.input::<i8>(i)?.iter().map(|z| i32::from(*z) + by).collect()
        } else {
            io.input::<u8>(i)?.iter().map(|z| i32::from(*z) + by).collect()
        })
    }

    /// Columns `at..at + width` of the matrix that begins at `from`, in the form for the product,
    /// and their sums.
    fn factor<'b>(&self, b: &'b [i8], from: usize, (at, width): (usize, usize)) -> (Cow<'b, [i8]>, Vec<i32>) {
        if self.ahead {
            let whole = packed_int8_len(self.k, self.n);
            let first = packed_int8_len(self.k, at);
            let sums = b[whole + at * 4..].as_chunks::<4>().0.iter().take(width);
            let sums = sums.map(|v| i32::from_le_bytes(v.map(|v| v as u8))).collect();
            return (Cow::Borrowed(&b[first..first + packed_int8_len(self.k, width)]), sums);
        }
        let mut own: Cow<'b, [i8]>;
        if self.n == 1 {
            own = Cow::Borrowed(&b[from..from + self.k]);
        } else {
            let mut packed = vec![0i8; packed_int8_len(self.k, width)];
            let (row, col) = if self.turned { (1, self.k) } else { (self.n, 1) };
            pack_int8(b[from..].get(at * col..).unwrap_or(&[]), self.k, width, row, col, &mut packed);
            own = Cow::Owned(packed);
        }
        if self.kinds[1] == Kind::U8 {
            own.to_mut().iter_mut().for_each(|v| *v ^= -128);
        }
        let sums = match self.n {
            1 => vec![own.iter().map(|v| i32::from(*v)).sum()],
            _ => column_sums(&own, self.k, width),
        };
        (own, sums)
    }

    fn columns<'b>(
        &self,
        io: &'b Io<'_, '_>,
        from: usize,
        (at, width): (usize, usize),
        left: &Left,
        zeros: &[i32],
    ) -> Result<Columns<'b>> {
        let (packed, sums) = if self.is_plain() {
            (Cow::Borrowed(&[][..]), vec![0; width])
        } else {
            self.factor(io.input::<i8>(self.at[3].unwrap_or(1))?, from, (at, width))
        };
        let own = |all: &[f32]| if all.len() == 1 { vec![all[0]; width] } else { all[at..at + width].to_vec() };
        let mut zeros = if zeros.len() == 1 { vec![zeros[0]; width] } else { zeros[at..at + width].to_vec() };
        if zeros.iter().all(|z| *z == 0) {
            zeros.clear();
        }
        let mut scale = Vec::new();
        if let Some(sb) = self.at[4] {
            scale = own(io.input::<f32>(sb)?);
            scale.iter_mut().for_each(|s| *s *= left.scale);
            if let Some(sy) = self.at[6].filter(|_| self.linear) {
                let sy = io.input::<f32>(sy)?[0];
                scale.iter_mut().for_each(|s| *s /= sy);
            }
        }
        let bias = self.at[8].map(|i| io.input::<f32>(i).map(|b| b[at..at + width].to_vec())).transpose()?;
        let together = self.together(width);
        Ok(Columns {
            packed,
            sums,
            zeros,
            scale: scale.repeat(together),
            bias: bias.unwrap_or_default().repeat(together),
        })
    }

    /// Whether b is read as it is, for a few rows.
    fn is_plain(&self) -> bool {
        self.m <= FEW_ROWS && self.n > 1 && !self.ahead && !self.turned
    }

    /// Number of rows of a unit of `width` columns that are finished together: several if they lie
    /// next to each other.
    fn together(&self, width: usize) -> usize {
        let most = if width == self.n { self.m.min(ROWS) } else { 1 };
        (TOGETHER / width.max(1)).min(most).max(1)
    }

    /// Calls `done(place, sums, columns)` for the rows of some units, one or several that lie next
    /// to each other; `columns` is the data that belongs to the columns.
    fn each_row(
        &self,
        units: Range<usize>,
        io: &Io<'_, '_>,
        mut done: impl FnMut(usize, &[i32], &Columns<'_>) -> Result<()>,
    ) -> Result<()> {
        let [tall, wide] = self.blocks();
        let (left, zb) = (self.left(io)?, self.zeros(1, io)?);
        let real = if self.kinds[0] == Kind::F32 { io.input::<f32>(0)? } else { &[] };
        let a = io.input::<u8>(0)?;
        let mut held: Option<((usize, usize), Columns<'_>)> = None;
        let (mut held_a, mut sums) = (Vec::new(), Vec::new());
        for unit in units {
            // Rows vary fastest, so that consecutive units share their columns.
            let (r, c, t) = (unit % tall, unit / tall % wide, unit / (tall * wide));
            let [pa, pb] = self.batch[t];
            let (at, width) = (c * self.columns, self.columns.min(self.n - c * self.columns));
            let mut cols = match held.take() {
                Some((key, cols)) if key == (pb, c) => cols,
                _ => self.columns(io, pb, (at, width), &left, &zb)?,
            };
            let rows = r * ROWS..((r + 1) * ROWS).min(self.m);
            let part = pa + rows.start * self.k..pa + rows.end * self.k;
            let own = match self.kinds[0] {
                Kind::U8 => &a[part],
                Kind::I8 => {
                    held_a.clear();
                    held_a.extend(a[part].iter().map(|v| v ^ 0x80));
                    &held_a[..]
                }
                _ => {
                    held_a.resize(part.len(), 0);
                    quantise(&real[part], left.scale, left.zero as f32, &mut held_a);
                    &held_a[..]
                }
            };
            sums.clear();
            sums.resize(rows.len() * width, 0);
            if self.is_plain() {
                let b = io.input::<i8>(self.at[3].unwrap_or(1))?.get(pb + at..).unwrap_or(&[]);
                let unsigned = self.kinds[1] == Kind::U8;
                let by_columns = if left.zero == 0 { &mut [][..] } else { &mut cols.sums };
                few_rows(
                    own,
                    self.k,
                    PlainMatrix { bytes: b, columns: width, row: self.n, unsigned },
                    &mut sums,
                    by_columns,
                );
            } else if self.n == 1 && !self.ahead {
                dot_rows(own, &cols.packed, &mut sums);
            } else {
                let g = GemmInt8 { m: rows.len(), n: width, k: self.k, a_row: self.k };
                g.run(0..g.units(), own, &cols.packed, &mut Out::new(&mut sums));
            }
            correct_rows(&mut sums, own, self.k, Zeros { a: left.zero, column_sums: &cols.sums, b: &cols.zeros });
            let together = self.together(width);
            for (i, lines) in sums.chunks(together * width).enumerate() {
                done((t * self.m + rows.start + i * together) * self.n + at, lines, &cols)?;
            }
            held = Some(((pb, c), cols));
        }
        Ok(())
    }

    fn to_bytes<Y: Elem>(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        let given = |i: usize| self.at[i].ok_or_else(|| Error::internal("a product of bytes without its scale"));
        let (sy, zy) = (io.input::<f32>(given(6)?)?[0], io.input::<Y>(given(7)?)?[0].to_f32());
        let mut real = Vec::new();
        self.each_row(units, io, |at, sums, cols| {
            io.output::<Y, ()>(0, |out| {
                let y = out.part(at, sums.len());
                if self.linear {
                    requantise(sums, &cols.scale, zy, y);
                } else {
                    real.resize(sums.len(), 0.0);
                    scale_columns(sums, &cols.scale, &cols.bias, &mut real);
                    self.act.apply(&mut real);
                    quantise(&real, sy, zy, y);
                }
                Ok(())
            })
        })
    }
}

impl Kernel for QMatMul {
    fn units(&self) -> usize {
        self.batch.len() * self.blocks().iter().product::<usize>()
    }

    fn work(&self) -> u64 {
        self.products() / 32 + (self.batch.len() * self.m) as u64 * self.n as u64 + self.scanned()
    }

    /// If a is real, each block finds the extremes of the whole tensor and quantises its own part.
    fn scanned(&self) -> u64 {
        if self.kinds[0] == Kind::F32 { (self.batch.len() * self.m) as u64 * self.k as u64 } else { 0 }
    }

    fn products(&self) -> u64 {
        let sums = (self.batch.len() * self.m) as u64 * self.n as u64;
        sums.saturating_mul(self.k as u64)
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        match self.kinds[2] {
            Kind::I32 => self.each_row(units, io, |at, sums, _| {
                io.output::<i32, ()>(0, |out| {
                    out.part(at, sums.len()).copy_from_slice(sums);
                    Ok(())
                })
            }),
            Kind::F32 => self.each_row(units, io, |at, sums, cols| {
                io.output::<f32, ()>(0, |out| {
                    let y = out.part(at, sums.len());
                    scale_columns(sums, &cols.scale, &cols.bias, y);
                    self.act.apply(y);
                    Ok(())
                })
            }),
            _ => with_kind!(self.kinds[2], [I8, U8], Y => self.to_bytes::<Y>(units, io), else {
                Err(Error::internal("type of a product of bytes"))
            }),
        }
    }
}
