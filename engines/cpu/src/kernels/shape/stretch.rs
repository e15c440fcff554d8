//! Operators that repeat or pad: `BroadcastTo`, `Expand`, `Tile`, `PadV3`, `PadD`, `CenterCropPad`.
use super::moving::{Source, copy_input, copy_through, with_width, write_moved};
use crate::args::{Arg, axis, bad, flag, ints_attr, need_ints, size, text, view_error};
use crate::op::Op;
use crate::store::types::{ANY, INDEX};
use ge_kernels::view::{Layout, broadcast_shapes};
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;

fn sizes(list: &[i64]) -> Result<Vec<usize>> {
    list.iter().map(|&v| size("shape", v)).collect()
}
fn run_expand(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    let want = sizes(&Arg::of(ctx, 1)?.list()?)?;
    let shape = if ctx.op == "Expand" { broadcast_shapes(&x.shape, &want).map_err(view_error)? } else { want };
    crate::args::count(&shape)?;
    let l = x.broadcast(&shape)?;
    copy_input(ctx, &x, &l)
}
fn run_tile(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    let m = sizes(&need_ints(ctx, "multiples", 1)?)?;
    if m.len() != x.rank() {
        return Err(bad("multiples", format!("{m:?}"), format!("{} numbers", x.rank())));
    }
    // Each axis is viewed as (repeat, size), where the repeats are broadcast axes.
    let mut ones = Vec::new();
    let mut all = Vec::new();
    let mut shape = Vec::new();
    for (&d, &k) in x.shape.iter().zip(&m) {
        ones.extend([1, d]);
        all.extend([k, d]);
        shape.push(d.checked_mul(k).ok_or_else(|| bad("multiples", format!("{m:?}"), "sizes that can be addressed"))?);
    }
    crate::args::count(&shape)?;
    let l = Layout::contiguous(&ones).and_then(|l| l.broadcast_to(&all)).map_err(view_error)?;
    copy_through(ctx, 0, &shape, &Source::of(&x)?, &l)
}

/// The input position that position `i` of a padded axis reads; `None` for the constant. The axis
/// has size `n`, and the positions `kept` are not cropped.
fn place(mode: &str, i: i64, n: i64, kept: &std::ops::Range<i64>) -> Option<usize> {
    if (0..n).contains(&i) {
        return Some(i as usize);
    }
    if n == 0 {
        return None;
    }
    match mode {
        "edge" => Some(i.clamp(0, n - 1) as usize),
        // Cropped positions do not reappear at the other end.
        "wrap" if !kept.is_empty() => Some((kept.start + (i - kept.start).rem_euclid(kept.end - kept.start)) as usize),
        "wrap" => Some(i.rem_euclid(n) as usize),
        "reflect" => {
            let period = (2 * (n - 1)).max(1);
            let k = i.rem_euclid(period);
            Some(if k < n { k } else { period - k } as usize)
        }
        _ => None,
    }
}
/// Pads each axis by `pads[axis]` (negative values crop), in ONNX's modes.
fn pad(
    ctx: &mut KernelCtx<'_>,
    x: &Arg<'_>,
    pads: &[(i64, i64)],
    mode: &str,
    value: Option<&Source<'_>>,
) -> Result<()> {
    let mut shape = Vec::with_capacity(pads.len());
    let mut maps: Vec<Vec<Option<usize>>> = Vec::with_capacity(pads.len());
    for (&d, &(b, e)) in x.shape.iter().zip(pads) {
        let n = i128::from(d as u64) + i128::from(b) + i128::from(e);
        let n = usize::try_from(n)
            .map_err(|_| bad("paddings", format!("{b} and {e}"), format!("pads that leave something of {d}")))?;
        shape.push(n);
    }
    crate::args::count(&shape)?;
    if shape.contains(&0) {
        return write_moved(ctx, 0, &shape, Source::of(x)?.bits, |_| Ok(()));
    }
    // Axes after the last one that changes are moved as one element.
    let kept = pads.iter().rev().take_while(|p| **p == (0, 0)).count();
    let rank = shape.len() - kept;
    let inner: usize = shape[rank..].iter().product();
    let strides: Vec<usize> = x.layout()?.strides().iter().map(|&s| s as usize).collect();
    for (a, (&d, &(b, e))) in x.shape.iter().zip(pads).enumerate().take(rank) {
        if d == 0 && mode != "constant" {
            return Err(bad("paddings", format!("mode {mode} of an empty axis"), "an axis with elements"));
        }
        let kept = b.saturating_neg().max(0)..(d as i64).saturating_add(e).min(d as i64);
        let mut m = crate::args::room(shape[a])?;
        let at = |i: i64| place(mode, i.saturating_sub(b), d as i64, &kept);
        m.extend((0..shape[a] as i64).map(|i| at(i).map(|p| p * strides[a])));
        maps.push(m);
    }
    let src = Source::of(x)?;
    let Some(last) = maps.pop() else {
        return write_moved(ctx, 0, &shape, src.bits, |bytes| {
            bytes.copy_from_slice(src.bytes());
            Ok(())
        });
    };
    let runs = Run::all(&last, inner);
    let width = last.len() * inner;
    write_moved(ctx, 0, &shape, src.bits, |bytes| {
        with_width!(src.width, N => {
            let from = src.items::<N>();
            let fill = value.and_then(|v| v.items::<N>().first().copied()).unwrap_or([0; N]);
            crate::par::rows(bytes.as_chunks_mut::<N>().0, width, width, |row, o| {
                let (mut rest, mut base) = (row, Some(0));
                for (m, &size) in maps.iter().zip(&shape).rev() {
                    base = base.zip(m[rest % size]).map(|(x, y)| x + y);
                    rest /= size;
                }
                if let Some(base) = base {
                    runs.iter().fold(o, |o, run| run.write(o, &from[base..], inner, fill));
                } else {
                    o.fill(fill);
                }
                Ok(())
            })
        })
    })
}

/// Runs of elements along the last padded axis; each element is `inner` neighbours.
enum Run {
    /// The constant, this many times.
    Outside(usize),
    /// From a position forwards, this many elements.
    Forward(usize, usize),
    /// From a position backwards, this many elements.
    Back(usize, usize),
}

impl Run {
    /// The runs for the positions that an axis reads.
    fn all(places: &[Option<usize>], inner: usize) -> Vec<Run> {
        let mut runs = Vec::new();
        for &p in places {
            match (runs.last_mut(), p) {
                (Some(Run::Outside(n)), None) => *n += 1,
                (Some(Run::Forward(at, n)), Some(p)) if *at + *n * inner == p => *n += 1,
                (Some(Run::Back(at, n)), Some(p)) if p + *n * inner == *at => *n += 1,
                (Some(last @ &mut Run::Forward(at, 1)), Some(p)) if p + inner == at => *last = Run::Back(at, 2),
                (_, None) => runs.push(Run::Outside(1)),
                (_, Some(p)) => runs.push(Run::Forward(p, 1)),
            }
        }
        runs
    }
    /// Writes the elements of the run to the start of `o` and returns the rest of `o`.
    fn write<'o, T: Copy>(&self, o: &'o mut [T], from: &[T], inner: usize, fill: T) -> &'o mut [T] {
        let (Run::Outside(n) | Run::Forward(_, n) | Run::Back(_, n)) = self;
        let (o, rest) = o.split_at_mut(n * inner);
        match *self {
            Run::Outside(_) => o.fill(fill),
            Run::Forward(at, _) if o.len() < 8 => o.iter_mut().zip(&from[at..]).for_each(|(o, v)| *o = *v),
            Run::Forward(at, _) => o.copy_from_slice(&from[at..at + o.len()]),
            Run::Back(at, n) => {
                for (o, k) in o.chunks_exact_mut(inner).zip(0..n) {
                    o.copy_from_slice(&from[at - k * inner..][..inner]);
                }
            }
        }
        rest
    }
}

fn run_pad(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    let r = x.rank();
    let p = need_ints(ctx, "paddings", 1)?;
    let axes: Vec<usize> = match Arg::opt(ctx, 3)? {
        Some(a) => a.list()?.iter().map(|&a| axis("input 3 `axes`", a, r)).collect::<Result<_>>()?,
        None => (0..r).collect(),
    };
    let n = axes.len();
    if p.len() != 2 * n {
        return Err(bad("paddings", format!("{} numbers", p.len()), format!("{} numbers", 2 * n)));
    }
    let pairs = ctx.op == "PadD" || flag(ctx, "paddings_contiguous", true);
    let mut pads = vec![(0, 0); r];
    for (i, &a) in axes.iter().enumerate() {
        pads[a] = if pairs { (p[2 * i], p[2 * i + 1]) } else { (p[i], p[n + i]) };
    }
    let value = if ctx.op == "PadD" { None } else { Arg::opt(ctx, 2)? };
    if let Some(v) = &value
        && (v.len != 1 || v.dtype != x.dtype)
    {
        return Err(bad("input 2 `constant_values`", format!("{} of {}", v.len, v.dtype), format!("one {}", x.dtype)));
    }
    let value = value.as_ref().map(Source::of).transpose()?;
    pad(ctx, &x, &pads, text(ctx, "mode", "constant"), value.as_ref())
}
fn run_center_crop_pad(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    let want = Arg::of(ctx, 1)?.list()?;
    let axes: Vec<usize> = match ints_attr(ctx, "axes").filter(|v| !v.is_empty()) {
        Some(v) => v.iter().map(|&a| axis("attribute `axes`", a, x.rank())).collect::<Result<_>>()?,
        None => (0..x.rank()).collect(),
    };
    if want.len() != axes.len() {
        return Err(bad("input 1 `shape`", format!("{} numbers", want.len()), format!("{} numbers", axes.len())));
    }
    let mut pads = vec![(0, 0); x.rank()];
    for (&a, &w) in axes.iter().zip(&want) {
        size("input 1 `shape`", w)?;
        // When padding, the odd element goes to the end; when cropping, it is taken from the end
        // too.
        let d = w - x.shape[a] as i64;
        pads[a] = if d >= 0 { (d / 2, d - d / 2) } else { (-((-d) / 2), -((-d) - (-d) / 2)) };
    }
    pad(ctx, &x, &pads, "constant", None)
}

/// Operator rows of this file.
pub const OPS: &[Op] = &[
    Op::moves("Expand", run_expand, &[ANY, INDEX]),
    Op::moves("BroadcastTo", run_expand, &[ANY, INDEX]),
    Op::moves("Tile", run_tile, &[ANY, INDEX]),
    Op::moves("TileD", run_tile, &[ANY]),
    Op::moves("PadV3", run_pad, &[ANY, INDEX, ANY, INDEX]),
    Op::moves("PadD", run_pad, &[ANY]),
    Op::moves("CenterCropPad", run_center_crop_pad, &[ANY, INDEX]),
];
