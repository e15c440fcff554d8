//! `QLinearConv` and `ConvInteger` with one to three spatial axes (ONNX's attributes): 8-bit
//! integers minus their zero points, summed in 32 bits; for `QLinearConv` the sums are scaled,
//! rounded half to even and saturated. The filter of a single group may be in FRACTAL_Z: its blocks
//! are what the kernel reads, so nothing is packed at run time. Any filter may come packed and
//! signed, with one axis and its sizes as original shape (`passes/byte_weights.rs`), followed,
//! where that pays, by its transform for minimal filtering with its zero points.
use crate::kernel::{Io, Kernel};
use crate::sig::{Answer, Sig, Tensor};
use ge_kernels::conv::{
    ByteConv, ByteFilter, ByteImages, ConvSpec, change_byte_filters, pack_filter, packed_filter_len, unpack_filter,
};
use ge_kernels::requantise::Requantise;
use ge_kernels::view::Kind;
use ge_plugin_api::types::Format;
use ge_plugin_api::{Error, Result};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

const BYTES: &[Kind] = &[Kind::I8, Kind::U8];

/// The input indices of an operator: zero point of x, filter, zero point of the filter.
/// `QLinearConv` has further inputs.
struct Ports {
    zero: usize,
    filter: usize,
    filter_zero: usize,
    /// Scales of x, filter and y; zero point of y; bias.
    bytes: Option<[usize; 5]>,
}

const LINEAR: Ports = Ports { zero: 2, filter: 3, filter_zero: 5, bytes: Some([1, 4, 6, 7, 8]) };
const INTEGER: Ports = Ports { zero: 2, filter: 1, filter_zero: 3, bytes: None };

fn ports(op: &str) -> Option<&'static Ports> {
    match op {
        "QLinearConv" => Some(&LINEAR),
        "ConvInteger" => Some(&INTEGER),
        _ => None,
    }
}

struct QConv {
    ports: &'static Ports,
    /// Types of x, the filter and y.
    kinds: [Kind; 3],
    plan: ByteConv,
    spec: ConvSpec,
    /// Whether the filter comes packed.
    packed: bool,
    /// Whether the filter is already signed, whatever its type says.
    signed: bool,
    /// The filter that was last packed or made signed.
    kept: Mutex<Option<Arc<Kept>>>,
}

/// A filter as it was given, and as the kernel reads it. Another filter is recognised by comparing
/// the bytes, which is many times faster than packing.
struct Kept {
    given: Vec<i8>,
    packed: Vec<i8>,
}

/// The node with its filter in FRACTAL_Z; `None` if that is not possible.
pub fn laid_out(sig: &Sig) -> Option<Sig> {
    let ports = ports(&sig.op)?;
    let w = sig.input(ports.filter).ok()?;
    let plain = w.rank() == 4 && matches!(w.format, Format::ND | Format::NCHW) && sig.int("group", 1) == 1;
    if !plain || !w.kind.is_some_and(|k| BYTES.contains(&k)) || w.count() == 0 {
        return None;
    }
    let mut other = sig.clone();
    other.inputs[ports.filter] = Some(w.laid_out(Format::FRACTAL_Z)?);
    Some(other)
}

/// An attribute with one number per spatial axis, with leading ones.
fn spatial(sig: &Sig, key: &str, axes: usize) -> Answer<[usize; 3]> {
    let mut out = [1; 3];
    match sig.attrs.ints(key) {
        None | Some([]) => {}
        Some(v) if v.len() == axes && v.iter().all(|v| (1..1 << 30).contains(v)) => {
            out[3 - axes..].iter_mut().zip(v).for_each(|(o, v)| *o = *v as usize);
        }
        Some(v) => return Err(format!("attribute `{key}` is {v:?}")),
    }
    Ok(out)
}

/// Padding before and after each axis.
fn pads(sig: &Sig, spec: &ConvSpec, output: [usize; 3], axes: usize) -> Answer<[[usize; 3]; 2]> {
    let [mut before, mut after] = [[0; 3]; 2];
    let mode = sig.text("auto_pad", "NOTSET");
    if mode == "VALID" {
        return Ok([before, after]);
    }
    if mode.starts_with("SAME") {
        for d in 3 - axes..3 {
            let span = (spec.kernel[d] - 1).saturating_mul(spec.dilation[d]).saturating_add(1);
            let reach = (output[d].max(1) - 1).saturating_mul(spec.stride[d]).saturating_add(span);
            let total = reach.saturating_sub(spec.input[d]);
            let less = total / 2;
            (before[d], after[d]) = if mode == "SAME_UPPER" { (less, total - less) } else { (total - less, less) };
        }
        return Ok([before, after]);
    }
    match sig.attrs.ints("pads") {
        None | Some([]) => {}
        Some(v) if v.len() == 2 * axes && v.iter().all(|v| (0..1 << 30).contains(v)) => {
            for d in 0..axes {
                (before[3 - axes + d], after[3 - axes + d]) = (v[d] as usize, v[axes + d] as usize);
            }
        }
        Some(v) => return Err(format!("attribute `pads` is {v:?}")),
    }
    Ok([before, after])
}

/// Sizes of a convolution whose filter is in a plain layout.
fn sizes(sig: &Sig, ports: &Ports) -> Answer<ConvSpec> {
    let (x, w, y) = (sig.input(0)?, sig.input(ports.filter)?, sig.output(0)?);
    let axes = x.rank().wrapping_sub(2);
    if !(1..=3).contains(&axes) || w.rank() != x.rank() || y.rank() != x.rank() {
        return Err(format!("x is {:?}, the filter {:?}; it takes one to three spatial axes", x.shape, w.shape));
    }
    let led = |s: &[usize]| {
        let mut out = [1; 3];
        out[3 - axes..].copy_from_slice(&s[2..]);
        out
    };
    let groups =
        usize::try_from(sig.int("group", 1)).ok().filter(|g| *g > 0).ok_or("attribute `group` is not above zero")?;
    let (channels_in, channels_out) = (x.shape[1], w.shape[0]);
    let fits = w.shape[1].checked_mul(groups) == Some(channels_in) && channels_out % groups == 0;
    if !fits || y.shape[..2] != [x.shape[0], channels_out] {
        return Err(format!("filter {:?} and output {:?} for x {:?} in {groups} groups", w.shape, y.shape, x.shape));
    }
    let mut spec = ConvSpec {
        batch: x.shape[0],
        groups,
        channels_in,
        channels_out,
        input: led(&x.shape),
        kernel: led(&w.shape),
        stride: spatial(sig, "strides", axes)?,
        dilation: spatial(sig, "dilations", axes)?,
        pad_before: [0; 3],
        pad_after: [0; 3],
        transposed: None,
    };
    if spec.kernel.contains(&0) {
        return Err(format!("the filter is {:?}", w.shape));
    }
    [spec.pad_before, spec.pad_after] = pads(sig, &spec, led(&y.shape), axes)?;
    if spec.output().map_err(|e| e.to_string())? != led(&y.shape) {
        return Err(format!("output 0 is {:?}, the window gives another size", y.shape));
    }
    Ok(spec)
}

/// The kernel of a convolution of 8-bit integers.
///
/// # Errors
/// Fails with a reason if types, shapes or attributes are not supported.
pub fn build(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let ports = ports(&sig.op).ok_or("type")?;
    let packed = sig.input(ports.filter)?.format == Format::FRACTAL_Z;
    let mut given = sig.clone();
    let ahead = match sig.input(ports.filter)? {
        t @ Tensor { origin: Some((format, whole)), .. } if t.rank() == 1 => {
            let (format, shape) = (*format, whole.clone());
            given.inputs[ports.filter] = Some(Tensor { format, shape, origin: None, ..t.clone() });
            true
        }
        _ => false,
    };
    let plain = given.plain_form()?;
    if packed && (plain.input(ports.filter)?.rank() != 4 || sig.int("group", 1) != 1) {
        return Err("a filter in FRACTAL_Z is of images, in one group".into());
    }
    let spec = sizes(&plain, ports)?;
    let y = sig.output(0)?;
    let gives = if ports.bytes.is_some() { BYTES } else { &[Kind::I32] };
    let kinds = [
        sig.kind_in(0, BYTES)?,
        sig.kind_in(ports.filter, BYTES)?,
        y.kind.filter(|k| gives.contains(k)).ok_or_else(|| format!("output 0 is {}", y.dtype))?,
    ];
    let o = spec.channels_out;
    let mut wanted = vec![(ports.zero, 1, kinds[0]), (ports.filter_zero, o, kinds[1])];
    if let Some([sx, sw, sy, zy, _]) = ports.bytes {
        wanted.extend([(sx, 1, Kind::F32), (sw, o, Kind::F32), (sy, 1, Kind::F32), (zy, 1, kinds[2])]);
    }
    for (i, most, kind) in wanted {
        let Some(t) = sig.opt_input(i) else {
            if ports.bytes.is_some() {
                return Err(format!("input {i} is missing"));
            }
            continue;
        };
        if t.kind != Some(kind) {
            return Err(format!("input {i} is {}, it takes {}", t.dtype, kind.name()));
        }
        if t.count() != 1 && t.count() != most {
            return Err(format!("input {i} has {} numbers, it takes 1 or {most}", t.count()));
        }
    }
    if let Some(b) = ports.bytes.and_then(|b| sig.opt_input(b[4]))
        && (b.count() != o || b.kind != Some(Kind::I32))
    {
        return Err(format!("input 8 is {} {:?}, it takes i32 [{o}]", b.dtype, b.shape));
    }
    let own = sig.input(ports.filter)?.count();
    let plain = ByteConv::new(&spec).map_err(|e| e.to_string())?;
    let is_changed = ahead && plain.changed_filter_len() == Some(own);
    if ahead && !is_changed && own != plain.filter_len() {
        return Err(format!("the filter has {own} bytes, packed it takes {}", plain.filter_len()));
    }
    // With images of any size, some sizes may have no tiles.
    let changed = plain.with_changed_filters().filter(|_| is_changed);
    let plan = changed.map_or(plain, ByteConv::cheaper_here);
    let (packed, signed) = (packed || ahead, ahead || kinds[1] == Kind::I8);
    Ok(Box::new(QConv { ports, kinds, plan, spec, packed, signed, kept: Mutex::new(None) }))
}

/// Maximum size in bytes of a filter that is followed by its transformed form: for larger ones,
/// reading data beyond the caches takes longer than the transform saves.
const MOST_AHEAD: usize = 2 << 20;

/// The transform of a constant filter for minimal filtering, signed, with its constant zero points.
/// `None` if plain products cost less or if sums may overflow. A filter in FRACTAL_Z is given in
/// that form.
pub fn changed(sig: &Sig, w: &[i8], zeros: &[i32]) -> Option<Vec<u8>> {
    let ports = ports(&sig.op)?;
    let packed = sig.input(ports.filter).ok()?.format == Format::FRACTAL_Z;
    let spec = sizes(&sig.plain_form().ok()?, ports).ok()?;
    let plan = ByteConv::new(&spec).ok()?.with_changed_filters()?;
    if !plan.changed_filters_pay() || plan.filter_len() > MOST_AHEAD {
        return None;
    }
    let unpacked = if packed { Some(unpack_filter(&spec, w)?) } else { None };
    change_byte_filters(&spec, unpacked.as_deref().unwrap_or(w), zeros)
}

/// Index of the input with the zero points of the filter.
pub fn filter_zero(op: &str) -> Option<usize> {
    ports(op).map(|p| p.filter_zero)
}

impl QConv {
    /// The zero points of an input plus `by`, which is what a change of signedness adds to its
    /// values; just `by` if the input is absent.
    fn zeros(&self, io: &Io<'_, '_>, i: usize, kind: Kind, by: i32) -> Result<Vec<i32>> {
        let given: Vec<i32> = if kind == Kind::I8 {
            io.opt_input::<i8>(i)?.iter().map(|z| i32::from(*z) + by).collect()
        } else {
            io.opt_input::<u8>(i)?.iter().map(|z| i32::from(*z) + by).collect()
        };
        Ok(if given.is_empty() { vec![by] } else { given })
    }
}

impl QConv {
    /// Packs a filter and makes it signed, once for all units and runs with the same filter.
    fn pack(&self, given: &[i8]) -> Arc<Kept> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(k) = kept.as_ref().filter(|k| k.given == given) {
            return k.clone();
        }
        let mut packed = given.to_vec();
        if !self.packed {
            packed = vec![0; packed_filter_len(&self.spec)];
            pack_filter(&self.spec, given, &mut packed);
        }
        // The second factor of a product is signed.
        if !self.signed {
            packed.iter_mut().for_each(|v| *v ^= -128);
        }
        kept.insert(Arc::new(Kept { given: given.to_vec(), packed })).clone()
    }
}

impl Kernel for QConv {
    fn units(&self) -> usize {
        self.plan.units()
    }

    fn shared(&self) -> usize {
        self.plan.shared()
    }

    fn work(&self) -> u64 {
        self.products() / 64
    }

    fn products(&self) -> u64 {
        self.plan.work()
    }

    fn lays_out(&self) -> u64 {
        if self.packed { 0 } else { packed_filter_len(&self.spec) as u64 }
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        let wrong = |e: ge_kernels::conv::ConvError| Error::failed(e.to_string());
        let (x_signed, w_signed) = (self.kinds[0] == Kind::I8, self.kinds[1] == Kind::I8);
        let zero = self.zeros(io, self.ports.zero, self.kinds[0], if x_signed { 128 } else { 0 })?[0];
        let zero = u8::try_from(zero).map_err(|_| Error::internal("a zero point beyond its type"))?;
        let x = ByteImages { x: io.input::<u8>(0)?, flip: if x_signed { 128 } else { 0 }, zero };
        let zeros = self.zeros(io, self.ports.filter_zero, self.kinds[1], if w_signed { 0 } else { -128 })?;
        let given = io.input::<i8>(self.ports.filter)?;
        let kept = if self.packed && self.signed { None } else { Some(self.pack(given)) };
        let filter = kept.as_ref().map_or(given, |k| &k.packed);
        let w = ByteFilter { packed: filter, zeros: &zeros };
        let Some([sx, sw, sy, zy, bias]) = self.ports.bytes else {
            return io.output::<i32, ()>(0, |out| self.plan.run_sums(units, x, w, out).map_err(wrong));
        };
        let (sx, sy) = (io.input::<f32>(sx)?[0], io.input::<f32>(sy)?[0]);
        let scale: Vec<f32> = io.input::<f32>(sw)?.iter().map(|s| sx * s / sy).collect();
        let zero = self.zeros(io, zy, self.kinds[2], 0)?[0];
        let range = if self.kinds[2] == Kind::U8 { [0, 255] } else { [-128, 127] };
        let to = Requantise { scale: &scale, zero, range };
        let bias = io.opt_input::<i32>(bias)?;
        io.output::<u8, ()>(0, |out| self.plan.run(units, x, w, bias, &to, out).map_err(wrong))
    }
}
