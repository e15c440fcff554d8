//! `QuantizeLinear`, `DequantizeLinear` (ai.onnx) with one f32 scale, or one per position of an
//! axis; to and from i8, u8 and, when dequantising, i32. y = saturate(round_half_even(x / scale) +
//! zero), and (x - zero) * scale. `DynamicQuantizeLinear` from f32 to u8, with scale and zero point
//! from the smallest and the largest number.
use crate::kernel::{CHUNK, Io, Kernel, chunk};
use crate::sig::{Answer, Sig};
use ge_kernels::quant::{by_extremes, dequantise, dequantise_each, extremes, quantise, quantise_each};
use ge_kernels::view::layout::resolve_axis;
use ge_kernels::view::{Elem, Kind};
use ge_kernels::with_kind;
use ge_plugin_api::types::{AttrValue, DType};
use ge_plugin_api::{Error, Result};
use std::ops::Range;

struct Scaled {
    /// The integer type.
    whole: Kind,
    quantise: bool,
    zero: bool,
    n: usize,
    /// Number of scales along the axis; 1 if there is a single scale.
    scales: usize,
    /// Number of elements per position of the axis.
    inner: usize,
}

/// Whether a quantisation with this attribute `precision` and a scale of this type divides in f32.
pub fn divides_in_f32(precision: Option<&AttrValue>, scale: DType) -> bool {
    match precision {
        None => scale != DType::BF16,
        Some(by) => *by == AttrValue::Type(DType::F32),
    }
}

fn build(sig: &Sig, quantise: bool) -> Answer<Box<dyn Kernel>> {
    let (x, y) = (sig.input(0)?, sig.output(0)?);
    let (real, whole) = if quantise { (x, y) } else { (y, x) };
    if real.kind != Some(Kind::F32) || sig.input(1)?.kind != Some(Kind::F32) {
        return Err(format!("numbers are {}, scales {}, it takes f32", real.dtype, sig.input(1)?.dtype));
    }
    let allowed: &[Kind] = if quantise { &[Kind::I8, Kind::U8] } else { &[Kind::I8, Kind::U8, Kind::I32] };
    let kind =
        whole.kind.filter(|k| allowed.contains(k)).ok_or_else(|| format!("whole numbers are {}", whole.dtype))?;
    if !divides_in_f32(sig.attrs.get("precision"), DType::F32) {
        return Err("attribute `precision` is not f32".into());
    }
    if sig.int("block_size", 0) != 0 {
        return Err("attribute `block_size` is not zero".into());
    }
    let scales = sig.input(1)?.count();
    let inner = if scales == 1 {
        1
    } else {
        let axis = resolve_axis(sig.int("axis", 1), x.rank()).map_err(|e| e.to_string())?;
        if x.shape[axis] != scales {
            return Err(format!("{scales} scales for axis {axis} of {:?}", x.shape));
        }
        x.shape[axis + 1..].iter().product()
    };
    if let Some(z) = sig.opt_input(2)
        && (z.kind != Some(kind) || z.count() != scales)
    {
        return Err(format!("input 2 is {} {:?}, it takes {scales} {}", z.dtype, z.shape, kind.name()));
    }
    if x.count() != y.count() {
        return Err(format!("output 0 is {:?}, input 0 {:?}", y.shape, x.shape));
    }
    Ok(Box::new(Scaled { whole: kind, quantise, zero: sig.opt_input(2).is_some(), n: x.count(), scales, inner }))
}

/// The kernel of a quantisation.
///
/// # Errors
/// Fails with a reason if types, shapes or attributes are not supported.
pub fn quantize(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    build(sig, true)
}

/// The kernel of a dequantisation.
///
/// # Errors
/// See [`quantize`].
pub fn dequantize(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    build(sig, false)
}

/// Minimum number of elements with the same scale for which a separate call pays.
const LONG: usize = 64;
/// Number of elements whose scales are listed at a time.
const LISTED: usize = 512;

/// Scales and zero points of adjacent elements.
enum Run<'a> {
    /// The same for all elements.
    One(f32, i32),
    /// One per element.
    Each(&'a [f32], &'a [i32]),
}

impl Scaled {
    /// Calls `f(elements, run)` for the elements of a range: for each run with a single scale, or
    /// with lists if the runs are short.
    fn runs(&self, range: Range<usize>, scale: &[f32], zero: &[i32], mut f: impl FnMut(Range<usize>, Run<'_>)) {
        let zero = |place: usize| zero.get(place).copied().unwrap_or(0);
        if self.scales == 1 || self.inner >= LONG {
            let mut at = range.start;
            while at < range.end {
                let place = at / self.inner % self.scales;
                let next = if self.scales == 1 { range.end } else { (at / self.inner + 1) * self.inner };
                let end = next.min(range.end);
                f(at..end, Run::One(scale[place], zero(place)));
                at = end;
            }
            return;
        }
        // If whole periods fit into a list, the same list serves all parts.
        let period = self.scales * self.inner;
        let most = if period <= LISTED { LISTED / period * period } else { LISTED };
        let (mut scales, mut zeros) = ([0.0; LISTED], [0; LISTED]);
        for (k, at) in range.clone().step_by(most).enumerate() {
            let part = at..(at + most).min(range.end);
            if k == 0 || period > LISTED {
                let (mut place, mut left) = (at / self.inner % self.scales, self.inner - at % self.inner);
                for (s, z) in scales.iter_mut().zip(&mut zeros).take(part.len()) {
                    (*s, *z) = (scale[place], zero(place));
                    left -= 1;
                    if left == 0 {
                        (place, left) = ((place + 1) % self.scales, self.inner);
                    }
                }
            }
            let n = part.len();
            f(part, Run::Each(&scales[..n], &zeros[..n]));
        }
    }

    fn whole<T: Elem>(&self, units: &Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        let scale = io.input::<f32>(1)?;
        let zero: Vec<i32> =
            if self.zero { io.input::<T>(2)?.iter().map(|z| z.to_i64() as i32).collect() } else { Vec::new() };
        let range = chunk(units, self.n);
        if self.quantise {
            let x = io.input::<f32>(0)?;
            return io.output::<T, ()>(0, |out| {
                self.runs(range, scale, &zero, |r, run| {
                    let (x, y) = (&x[r.clone()], out.part(r.start, r.len()));
                    match run {
                        Run::One(scale, zero) => quantise(x, scale, zero as f32, y),
                        Run::Each(scale, zero) => quantise_each(x, scale, zero, y),
                    }
                });
                Ok(())
            });
        }
        let x = io.input::<T>(0)?;
        io.output::<f32, ()>(0, |out| {
            self.runs(range, scale, &zero, |r, run| {
                let (x, y) = (&x[r.clone()], out.part(r.start, r.len()));
                match run {
                    Run::One(scale, zero) => dequantise(x, scale, zero, y),
                    Run::Each(scale, zero) => dequantise_each(x, scale, zero, y),
                }
            });
            Ok(())
        })
    }
}

impl Kernel for Scaled {
    fn units(&self) -> usize {
        self.n.div_ceil(CHUNK)
    }

    fn work(&self) -> u64 {
        (self.n as u64).saturating_mul(2)
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        with_kind!(self.whole, [I8, U8, I32], T => self.whole::<T>(&units, io), else Err(Error::internal("type of a quantisation")))
    }
}

/// Number of elements from which quantising is divided, and the maximum number of parts: each part
/// searches the whole tensor for its extremes.
const SHARED: usize = 64 * 1024;
const PARTS: usize = 2;

struct Dynamic {
    n: usize,
}

/// The kernel of a quantisation by the tensor's own extremes.
///
/// # Errors
/// Fails with a reason if types or shapes are not supported.
pub fn dynamic(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    sig.kind_in(0, &[Kind::F32])?;
    let n = sig.input(0)?.count();
    for (k, (kind, count)) in [(Kind::U8, n), (Kind::F32, 1), (Kind::U8, 1)].into_iter().enumerate() {
        let y = sig.output(k)?;
        if y.kind != Some(kind) || y.count() != count {
            return Err(format!("output {k} is {} {:?}, it gives {count} {}", y.dtype, y.shape, kind.name()));
        }
    }
    Ok(Box::new(Dynamic { n }))
}

impl Kernel for Dynamic {
    fn units(&self) -> usize {
        self.n.div_ceil(SHARED).clamp(1, PARTS)
    }

    fn work(&self) -> u64 {
        (self.n as u64).saturating_mul(3)
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        let x = io.input::<f32>(0)?;
        let (scale, zero) = by_extremes(extremes(x));
        let at = |unit: usize| self.n * unit / self.units();
        let part = at(units.start)..at(units.end);
        io.output::<u8, ()>(0, |out| {
            let y = out.part(part.start, part.len());
            quantise(&x[part], scale, zero, y);
            Ok(())
        })?;
        if units.start > 0 {
            return Ok(());
        }
        io.output::<f32, ()>(1, |out| {
            out.part(0, 1)[0] = scale;
            Ok(())
        })?;
        io.output::<u8, ()>(2, |out| {
            out.part(0, 1)[0] = zero as u8;
            Ok(())
        })
    }
}
