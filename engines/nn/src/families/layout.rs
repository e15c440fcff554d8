//! Operators that move elements of one, two, four or eight bytes: transpose, expand, tile, concat,
//! split, gather.
use crate::families::cube;
use crate::kernel::{CHUNK, Io, Kernel, chunk};
use crate::sig::{Answer, Sig, Tensor};
use ge_kernels::layout::{self as k, few};
use ge_kernels::view::layout::resolve_axis;
use ge_kernels::view::{Bytes, Elem, Kind, Layout, Nest};
use ge_plugin_api::ops::infer::slice_of_axis;
use ge_plugin_api::{Error, Result};
use std::ops::Range;

/// Size of an element in bytes; input 0 and output 0 must have the same type.
pub(super) fn width(sig: &Sig) -> Answer<usize> {
    width_of(sig, 0)
}

/// Size of an element in bytes; input `i` and output 0 must have the same type.
fn width_of(sig: &Sig, i: usize) -> Answer<usize> {
    let (x, y) = (sig.input(i)?, sig.output(0)?);
    let kind = x.kind.ok_or_else(|| format!("input {i} is {}", x.dtype))?;
    if y.kind != Some(kind) { Err(format!("output 0 is {}, input {i} {}", y.dtype, x.dtype)) } else { Ok(kind.size()) }
}

macro_rules! by_width {
    ($width:expr, $t:ident => $e:expr) => {
        match $width {
            1 => {
                type $t = u8;
                $e
            }
            2 => {
                type $t = u16;
                $e
            }
            4 => {
                type $t = u32;
                $e
            }
            8 => {
                type $t = u64;
                $e
            }
            w => Err(Error::internal(format!("elements of {w} bytes"))),
        }
    };
}
pub(super) use by_width;

/// Each output element is a copy of one input element.
struct View {
    /// Bytes of an element.
    width: usize,
    /// Whether an element is several of the tensor's, which need not lie where a number of this
    /// size may lie.
    joined: bool,
    nest: Nest<1>,
    /// Set if the operation transposes matrices: number of matrices, and rows and columns of each.
    turned: Option<[usize; 3]>,
}

fn view(sig: &Sig, layout: Layout) -> Answer<Box<dyn Kernel>> {
    let y = sig.output(0)?;
    if layout.len() != y.count() {
        return Err(format!("output 0 is {:?}, the operator gives {:?}", y.shape, layout.shape()));
    }
    let own = width(sig)?;
    let (layout, run) = layout.joined(8 / own, sig.input(0)?.count());
    let nest = Nest::new(layout.shape(), [&layout]);
    let turned = turned(&layout);
    Ok(Box::new(View { width: own * run, joined: run > 1, nest, turned }))
}

/// How a matrix is transposed.
#[derive(Clone, Copy)]
enum Turn {
    /// For few columns: in groups of rows.
    Split,
    /// For few rows: in groups of columns.
    Weave,
    /// In square blocks, strip of columns by strip; a strip has this many columns.
    Squares(usize),
}

/// How a matrix of this size is transposed, whose elements have `width` bytes, and in how many
/// pieces.
fn pieces(rows: usize, cols: usize, width: usize) -> (Turn, usize) {
    // A line of the cache: a strip that is narrower reads each line several times.
    let strip = (64 / width).max(16);
    match (rows, cols) {
        (_, 2..=few::FEW) => (Turn::Split, rows.div_ceil(CHUNK)),
        (2..=few::FEW, _) => (Turn::Weave, cols.div_ceil(CHUNK)),
        // The last strip takes the remaining columns: a square that is cut has no fast code.
        _ => (Turn::Squares(strip), (cols / strip).max(1)),
    }
}

/// Detects a transpose of matrices: the last two axes (after merging) are swapped, the others stay.
fn turned(l: &Layout) -> Option<[usize; 3]> {
    let mut dims: Vec<(usize, isize)> = Vec::new();
    for (&n, &step) in l.shape().iter().zip(l.strides()).filter(|(n, _)| **n != 1) {
        match dims.last_mut() {
            // Axes that are contiguous with each other are merged.
            Some(last) if last.1 == step.checked_mul(isize::try_from(n).ok()?)? => *last = (last.0 * n, step),
            _ => dims.push((n, step)),
        }
    }
    let (&[(cols, 1), (rows, step)], lead) = dims.split_last_chunk::<2>().map(|(lead, last)| (last, lead))? else {
        return None;
    };
    let each = isize::try_from(rows * cols).ok()?;
    if step != isize::try_from(cols).ok()? || l.offset() != 0 {
        return None;
    }
    match lead {
        [] => Some([rows, cols, 1]),
        [(count, next)] if *next == each => Some([rows, cols, *count]),
        _ => None,
    }
}

impl Kernel for View {
    fn units(&self) -> usize {
        match self.turned {
            Some([rows, cols, count]) => pieces(rows, cols, self.width).1 * count,
            None => self.nest.len().div_ceil(CHUNK),
        }
    }

    fn operations(&self) -> u64 {
        0
    }

    fn work(&self) -> u64 {
        self.nest.len() as u64
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        match (self.joined, self.width) {
            (true, 2) => self.copy::<Bytes<2>>(units, io),
            (true, 4) => self.copy::<Bytes<4>>(units, io),
            (true, 8) => self.copy::<Bytes<8>>(units, io),
            _ => by_width!(self.width, T => self.copy::<T>(units, io)),
        }
    }
}

impl View {
    fn copy<T: Elem>(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        let x = io.input::<T>(0)?;
        io.output::<T, ()>(0, |out| {
            let Some([rows, cols, _]) = self.turned else {
                k::copy(&self.nest, chunk(&units, self.nest.len()), x, out);
                return Ok(());
            };
            let (form, strips) = pieces(rows, cols, self.width);
            for u in units {
                let (base, s) = (u / strips * rows * cols, u % strips);
                let part = |len: usize, all: usize| s * len..((s + 1) * len).min(all);
                match form {
                    Turn::Split => few::split_columns([rows, cols], base, part(CHUNK, rows), x, out),
                    Turn::Weave => few::weave_rows([rows, cols], base, part(CHUNK, cols), x, out),
                    Turn::Squares(strip) => {
                        let end = if s + 1 == strips { cols } else { (s + 1) * strip };
                        k::transpose(rows, cols, base, s * strip..end, x, out);
                    }
                }
            }
            Ok(())
        })
    }
}

fn contiguous(t: &Tensor) -> Answer<Layout> {
    Layout::contiguous(&t.shape).map_err(|e| e.to_string())
}

/// The kernel of a transpose.
///
/// # Errors
/// Fails with a reason if types or permutation are not supported.
pub fn transpose(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let x = sig.input(0)?;
    let perm = match sig.attrs.ints("perm") {
        Some(p) => p.to_vec(),
        None if sig.opt_input(1).is_some() => sig.values(1)?.to_vec(),
        None => (0..x.rank() as i64).rev().collect(),
    };
    let axes: std::result::Result<Vec<usize>, _> = perm.iter().map(|&p| resolve_axis(p, x.rank())).collect();
    view(sig, axes.and_then(|a| Layout::contiguous(&x.shape)?.permute(&a)).map_err(|e| e.to_string())?)
}

/// The kernel of a broadcast.
///
/// # Errors
/// Fails with a reason if types or shapes are not supported.
pub fn expand(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let l = contiguous(sig.input(0)?)?.broadcast_to(&sig.output(0)?.shape).map_err(|e| e.to_string())?;
    view(sig, l)
}

/// The kernel of `Tile`.
///
/// # Errors
/// Fails with a reason if types or shapes are not supported.
pub fn tile(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let (x, y) = (sig.input(0)?, sig.output(0)?);
    if y.rank() < x.rank() {
        return Err(format!("output 0 is {:?}, input 0 {:?}", y.shape, x.shape));
    }
    // Each axis d with n copies is seen as [n, d], where the first has stride zero.
    let lead = y.rank() - x.rank();
    let own: Vec<usize> = (0..y.rank()).map(|d| if d < lead { 1 } else { x.shape[d - lead] }).collect();
    let (mut from, mut to) = (Vec::new(), Vec::new());
    for (d, (&have, &want)) in own.iter().zip(&y.shape).enumerate() {
        if have == 0 || !want.is_multiple_of(have) {
            return Err(format!("axis {d} has {have}, the output {want}"));
        }
        from.extend([1, have]);
        to.extend([want / have, have]);
    }
    let l = Layout::contiguous(&from).and_then(|l| l.broadcast_to(&to)).map_err(|e| e.to_string())?;
    view(sig, l)
}

/// The kernel of a slice: `StridedSliceV2` (ONNX's rules), `Slice`, `SliceD`, `StridedSliceD`.
///
/// # Errors
/// Fails with a reason if types or shapes are not supported or if the positions are not constant.
pub fn slice(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let (x, y) = (sig.input(0)?, sig.output(0)?);
    let rank = x.rank();
    let by_size = matches!(sig.op.as_str(), "Slice" | "SliceD");
    let begin = sig.ints_or(if by_size { "offsets" } else { "begin" }, 1)?;
    let end = sig.ints_or(if by_size { "size" } else { "end" }, 2)?;
    let optional = |key: &str, i: usize| -> Answer<Option<Vec<i64>>> {
        let given = sig.attrs.ints(key).is_some_and(|v| !v.is_empty()) || sig.opt_input(i).is_some();
        if given && !by_size { sig.ints_or(key, i).map(Some) } else { Ok(None) }
    };
    let axes = optional("axes", 3)?.unwrap_or_else(|| (0..begin.len() as i64).collect());
    let steps = optional("strides", 4)?.unwrap_or_else(|| vec![1; begin.len()]);
    if [end.len(), axes.len(), steps.len()] != [begin.len(); 3] {
        return Err(format!(
            "{} begins, {} ends, {} axes, {} strides",
            begin.len(),
            end.len(),
            axes.len(),
            steps.len()
        ));
    }
    let mut l = contiguous(x)?;
    for (i, &axis) in axes.iter().enumerate() {
        let d = resolve_axis(axis, rank).map_err(|e| e.to_string())?;
        let n = i64::try_from(x.shape[d]).map_err(|_| "an axis is too long")?;
        let step = steps[i];
        if step == 0 {
            return Err("a stride is zero".into());
        }
        let end = match (by_size, end[i]) {
            (true, -1) => n,
            (true, size) => begin[i].saturating_add(size),
            (false, end) => end,
        };
        let (start, len) = slice_of_axis(n, begin[i], end, step);
        let [start, len] = [start, len].map(|v| usize::try_from(v).unwrap_or(0));
        let step = isize::try_from(step).map_err(|_| "a stride is too long")?;
        l = l.slice(d, start, if len <= 1 { 1 } else { step }, len).map_err(|e| e.to_string())?;
    }
    if l.shape() != y.shape {
        return Err(format!("output 0 is {:?}, the slice {:?}", y.shape, l.shape()));
    }
    view(sig, l)
}

/// Number of elements of a unit of a concatenation.
const RUN: usize = 4096;

struct Join {
    width: usize,
    rows: usize,
    /// Number of elements per row of each input.
    parts: Vec<usize>,
}

/// The kernel of a concatenation or of `Pack`.
///
/// # Errors
/// Fails with a reason if types, shapes or axis are not supported.
pub fn concat(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let width = width(sig)?;
    let y = sig.output(0)?;
    let pack = sig.op == "Pack";
    let axis = sig.int(if pack { "axis" } else { "concat_dim" }, 0);
    let axis = match cube::is_grouped(sig) && !pack {
        true => cube::concat_axis(sig, resolve_axis(axis, 4).map_err(|e| e.to_string())?)?,
        false => resolve_axis(axis, y.rank()).map_err(|e| e.to_string())?,
    };
    let rows: usize = y.shape[..axis].iter().product();
    let row = |t: &Tensor| -> usize { t.shape[axis.min(t.rank())..].iter().product() };
    let mut parts = Vec::with_capacity(sig.inputs.len());
    for i in 0..sig.inputs.len() {
        let t = sig.input(i)?;
        if t.kind != sig.input(0)?.kind || t.rank() + usize::from(pack) != y.rank() || rows * row(t) != t.count() {
            return Err(format!("input {i} is {} {:?}, output 0 {:?}", t.dtype, t.shape, y.shape));
        }
        parts.push(row(t));
    }
    if parts.iter().sum::<usize>() * rows != y.count() {
        return Err(format!(
            "output 0 is {:?}, the inputs have {} elements a row",
            y.shape,
            parts.iter().sum::<usize>()
        ));
    }
    Ok(Box::new(Join { width, rows, parts }))
}

impl Kernel for Join {
    /// One unit per run of `RUN` output elements.
    fn units(&self) -> usize {
        self.count().div_ceil(RUN)
    }

    fn operations(&self) -> u64 {
        0
    }

    fn work(&self) -> u64 {
        self.count() as u64
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        let pitch: usize = self.parts.iter().sum();
        by_width!(self.width, T => io.output::<T, ()>(0, |out| {
            for unit in units {
                let range = unit * RUN..((unit + 1) * RUN).min(self.count());
                let own = out.part(range.start, range.len());
                let mut start = 0;
                for (i, &part) in self.parts.iter().enumerate() {
                    k::place(part, start, pitch, range.clone(), io.input::<T>(i)?, own);
                    start += part;
                }
            }
            Ok(())
        }))
    }
}

impl Join {
    /// Number of elements of the output.
    fn count(&self) -> usize {
        self.rows * self.parts.iter().sum::<usize>()
    }
}

struct Cut {
    width: usize,
    /// Index of the input that is split.
    from: usize,
    rows: usize,
    parts: Vec<usize>,
}

/// The kernel of a split; the sizes are taken from the outputs.
///
/// # Errors
/// Fails with a reason if types, shapes or axis are not supported.
pub fn split(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let from = usize::from(sig.op == "Split");
    let width = width_of(sig, from)?;
    let x = sig.input(from)?;
    let axis = match sig.op.as_str() {
        "Unpack" => sig.int("axis", 0),
        "Split" => sig.values(0)?.first().copied().ok_or("input 0 is empty")?,
        "SplitV" => sig.values(2)?.first().copied().ok_or("input 2 is empty")?,
        _ => sig.int("split_dim", 0),
    };
    let unpack = sig.op == "Unpack";
    let axis = resolve_axis(axis, x.rank()).map_err(|e| e.to_string())?;
    let rows: usize = x.shape[..axis].iter().product();
    let mut parts = Vec::with_capacity(sig.outputs.len());
    for (k, t) in sig.outputs.iter().enumerate() {
        let row: usize = t.shape.get(axis..).map_or(0, |s| s.iter().product());
        if t.kind != x.kind || t.rank() + usize::from(unpack) != x.rank() || rows * row != t.count() {
            return Err(format!("output {k} is {} {:?}, input 0 {:?}", t.dtype, t.shape, x.shape));
        }
        parts.push(row);
    }
    if parts.iter().sum::<usize>() * rows != x.count() {
        return Err(format!(
            "the outputs have {} elements a row, input 0 is {:?}",
            parts.iter().sum::<usize>(),
            x.shape
        ));
    }
    Ok(Box::new(Cut { width, from, rows, parts }))
}

impl Kernel for Cut {
    fn units(&self) -> usize {
        self.rows * self.parts.len()
    }

    fn operations(&self) -> u64 {
        0
    }

    fn work(&self) -> u64 {
        (self.rows as u64).saturating_mul(self.parts.iter().sum::<usize>() as u64)
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        let pitch: usize = self.parts.iter().sum();
        by_width!(self.width, T => {
            let x = io.input::<T>(self.from)?;
            let mut start = 0;
            for (i, &part) in self.parts.iter().enumerate() {
                let own = i * self.rows..(i + 1) * self.rows;
                let (from, to) = (units.start.max(own.start), units.end.min(own.end));
                if from < to {
                    io.output::<T, ()>(i, |out| {
                        let rows = from - own.start..to - own.start;
                        let own = out.part(rows.start * part, rows.len() * part);
                        for (to, r) in own.chunks_exact_mut(part.max(1)).zip(rows) {
                            k::copy_run(&x[r * pitch + start..][..part], to);
                        }
                        Ok(())
                    })?;
                }
                start += part;
            }
            Ok(())
        })
    }
}

struct Gathered {
    width: usize,
    outer: usize,
    size: usize,
    inner: usize,
    count: usize,
    index: Kind,
}

/// The kernel of a gather along one axis. A negative index counts from the end; an index out of
/// range makes the run fail.
///
/// # Errors
/// Fails with a reason if types, shapes or axis are not supported.
pub fn gather(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let width = width(sig)?;
    let (x, index) = (sig.input(0)?, sig.kind_in(1, &[Kind::I32, Kind::I64])?);
    if sig.int("batch_dims", 0) != 0 {
        return Err("attribute `batch_dims` is not zero".into());
    }
    let axis = match sig.opt_input(2) {
        Some(_) => sig.values(2)?.first().copied().ok_or("input 2 `axis` is empty")?,
        None => sig.int("axis", 0),
    };
    let axis = resolve_axis(axis, x.rank()).map_err(|e| e.to_string())?;
    let product = |s: &[usize]| s.iter().product::<usize>();
    let g = Gathered {
        width,
        outer: product(&x.shape[..axis]),
        size: x.shape[axis],
        inner: product(&x.shape[axis + 1..]),
        count: sig.input(1)?.count(),
        index,
    };
    if g.outer * g.count * g.inner != sig.output(0)?.count() {
        return Err(format!(
            "output 0 is {:?}, the gather gives {} x {} x {}",
            sig.output(0)?.shape,
            g.outer,
            g.count,
            g.inner
        ));
    }
    Ok(Box::new(g))
}

impl Kernel for Gathered {
    fn units(&self) -> usize {
        self.outer * self.count
    }

    fn operations(&self) -> u64 {
        0
    }

    fn work(&self) -> u64 {
        (self.units() as u64).saturating_mul(self.inner as u64)
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        by_width!(self.width, T => {
            let x = io.input::<T>(0)?;
            io.output::<T, ()>(0, |out| {
                let found = if self.index == Kind::I64 {
                    let i = io.input::<i64>(1)?;
                    k::gather(self.size, self.inner, units, x, |n| i[n], self.count, out)
                } else {
                    let i = io.input::<i32>(1)?;
                    k::gather(self.size, self.inner, units, x, |n| i64::from(i[n]), self.count, out)
                };
                found.map_err(|at| Error::failed(format!("index {at} is out of range for size {}", self.size)))
            })
        })
    }
}
