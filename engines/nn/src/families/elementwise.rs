//! Element-wise operators: maps of one tensor (f32, f16, bf16), maps of two tensors with
//! broadcasting (also i32, i64), comparisons, selections and casts.
use crate::families::cube;
use crate::families::maps::{MapRow, pair_named};
use crate::kernel::{CHUNK, Io, Kernel, chunk};
use crate::sig::{Answer, FLOATS, Sig};
use ge_kernels::elementwise as k;
use ge_kernels::elementwise::{Binary, Compare, Unary};
use ge_kernels::simd::Act;
use ge_kernels::simd::isa::PanelElem;
use ge_kernels::view::{Bool, Kind, Layout, Nest, Out, cast};
use ge_kernels::with_kind;
use ge_plugin_api::{Error, Result};
use std::ops::Range;

const WITH_INTS: &[Kind] = &[Kind::F32, Kind::F16, Kind::Bf16, Kind::I32, Kind::I64];

pub(super) fn same_shape(sig: &Sig) -> Answer<usize> {
    let (x, y) = (sig.input(0)?, sig.output(0)?);
    if x.count() == y.count() {
        Ok(x.count())
    } else {
        Err(format!("output 0 is {:?}, input 0 {:?}", y.shape, x.shape))
    }
}

struct Map {
    kind: Kind,
    op: Unary,
    n: usize,
}

/// The kernel of a map of one tensor.
///
/// # Errors
/// Fails with a reason if types or attributes are not supported.
pub fn unary(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let kind = sig.one_kind(FLOATS)?;
    let row = MapRow::of(&sig.op).ok_or_else(|| "type".to_owned())?;
    let numbers = row.numbers(|key| sig.attrs.float(key), |key| sig.attrs.str(key));
    let op = row.make(&numbers.iter().map(|v| *v as f32).collect::<Vec<f32>>())?;
    cube::map_keeps_zeros(sig, || of_zero(op))?;
    Ok(Box::new(Map { kind, op, n: same_shape(sig)? }))
}

/// The result of a map for zero.
fn of_zero(op: Unary) -> f32 {
    let mut y = [0.0f32];
    k::unary(op, 0..1, &[0.0f32], &mut Out::new(&mut y));
    y[0]
}

impl Kernel for Map {
    fn units(&self) -> usize {
        self.n.div_ceil(CHUNK)
    }

    fn work(&self) -> u64 {
        (self.n as u64).saturating_mul(2)
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        with_kind!(self.kind, [F32, F16, Bf16], T => {
            let x = io.input::<T>(0)?;
            io.output::<T, ()>(0, |out| {
                k::unary(self.op, chunk(&units, self.n), x, out);
                Ok(())
            })
        }, else Err(Error::internal("type of a map")))
    }
}

struct Bounded {
    kind: Kind,
    n: usize,
}

/// The kernel of `ClipByValue`, whose bounds are scalars read at run time.
///
/// # Errors
/// Fails with a reason if types or shapes are not supported.
pub fn clip(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let kind = sig.one_kind(FLOATS)?;
    for i in 1..3 {
        if sig.input(i)?.count() != 1 {
            return Err(format!("input {i} is {:?}, it takes one number", sig.input(i)?.shape));
        }
    }
    // The bounds are known only at run time, so the result for zero is unknown.
    cube::map_keeps_zeros(sig, || f32::NAN)?;
    Ok(Box::new(Bounded { kind, n: same_shape(sig)? }))
}

impl Kernel for Bounded {
    fn units(&self) -> usize {
        self.n.div_ceil(CHUNK)
    }

    fn work(&self) -> u64 {
        self.n as u64
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        with_kind!(self.kind, [F32, F16, Bf16], T => {
            let (x, low, high) = (io.input::<T>(0)?, io.input::<T>(1)?[0].wide(), io.input::<T>(2)?[0].wide());
            io.output::<T, ()>(0, |out| {
                k::unary(Unary::Act(Act::Clip(low, high)), chunk(&units, self.n), x, out);
                Ok(())
            })
        }, else Err(Error::internal("type of a clip")))
    }
}

/// Layouts of the first N inputs, broadcast to output 0.
pub(super) fn broadcast<const N: usize>(sig: &Sig) -> Answer<Nest<N>> {
    let shape = &sig.output(0)?.shape;
    let mut layouts = Vec::with_capacity(N);
    for i in 0..N {
        let l = Layout::contiguous(&sig.input(i)?.shape).and_then(|l| l.broadcast_to(shape));
        layouts.push(l.map_err(|e| e.to_string())?);
    }
    Ok(Nest::new(shape, std::array::from_fn(|i| &layouts[i])))
}

struct Pair {
    kind: Kind,
    op: Binary,
    nest: Nest<2>,
}

/// The kernel of a map of two tensors.
///
/// # Errors
/// Fails with a reason if types or shapes are not supported.
pub fn binary(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let kind = sig.one_kind(WITH_INTS)?;
    let op = pair_named(&sig.op).filter(|op| *op != Binary::Pow || kind.is_float());
    let op = op.ok_or_else(|| format!("{} of {} is not a map of two tensors here", sig.op, kind.name()))?;
    cube::map_keeps_zeros(sig, || k::float_map(op, 0.0, 0.0))?;
    Ok(Box::new(Pair { kind, op, nest: broadcast(sig)? }))
}

impl Kernel for Pair {
    fn units(&self) -> usize {
        self.nest.len().div_ceil(CHUNK)
    }

    fn work(&self) -> u64 {
        self.nest.len() as u64
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        with_kind!(self.kind, [F32, F16, Bf16, I32, I64], T => {
            let (a, b) = (io.input::<T>(0)?, io.input::<T>(1)?);
            io.output::<T, ()>(0, |out| {
                k::binary(self.op, &self.nest, chunk(&units, self.nest.len()), a, b, out);
                Ok(())
            })
        }, else Err(Error::internal("type of a map")))
    }
}

struct Sum {
    kind: Kind,
    inputs: usize,
    n: usize,
}

/// The kernel of `AddN`.
///
/// # Errors
/// Fails with a reason if types or shapes are not supported.
pub fn add_n(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let kind = sig.one_kind(FLOATS)?;
    let n = same_shape(sig)?;
    cube::map_keeps_zeros(sig, || 0.0)?;
    for i in 0..sig.inputs.len() {
        if sig.input(i)?.count() != n {
            return Err(format!("input {i} is {:?}, input 0 {:?}", sig.input(i)?.shape, sig.input(0)?.shape));
        }
    }
    Ok(Box::new(Sum { kind, inputs: sig.inputs.len(), n }))
}

impl Kernel for Sum {
    fn units(&self) -> usize {
        self.n.div_ceil(CHUNK)
    }

    fn work(&self) -> u64 {
        (self.n as u64).saturating_mul(self.inputs as u64)
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        with_kind!(self.kind, [F32, F16, Bf16], T => {
            let range = chunk(&units, self.n);
            let mut sum = vec![0.0f32; range.len()];
            for i in 0..self.inputs {
                for (s, v) in sum.iter_mut().zip(&io.input::<T>(i)?[range.clone()]) {
                    *s += v.wide();
                }
            }
            io.output::<T, ()>(0, |out| {
                for (o, s) in out.part(range.start, range.len()).iter_mut().zip(&sum) {
                    *o = <T as PanelElem>::narrow(*s);
                }
                Ok(())
            })
        }, else Err(Error::internal("type of a sum")))
    }
}

struct Test {
    kind: Kind,
    op: Compare,
    nest: Nest<2>,
}

/// The kernel of a comparison.
///
/// # Errors
/// Fails with a reason if types or shapes are not supported.
pub fn compare(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let kind = sig.kind_in(0, &Kind::ALL)?;
    if sig.input(1)?.kind != Some(kind) || sig.output(0)?.kind != Some(Kind::Bool) {
        return Err(format!("input 1 is {}, output 0 {}", sig.input(1)?.dtype, sig.output(0)?.dtype));
    }
    let op = match sig.op.as_str() {
        "Equal" => Compare::Equal,
        "NotEqual" => Compare::NotEqual,
        "Less" => Compare::Less,
        "LessEqual" => Compare::LessEqual,
        "Greater" => Compare::Greater,
        _ => Compare::GreaterEqual,
    };
    Ok(Box::new(Test { kind, op, nest: broadcast(sig)? }))
}

impl Kernel for Test {
    fn units(&self) -> usize {
        self.nest.len().div_ceil(CHUNK)
    }

    fn work(&self) -> u64 {
        self.nest.len() as u64
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        with_kind!(self.kind, T => {
            let (a, b) = (io.input::<T>(0)?, io.input::<T>(1)?);
            io.output::<Bool, ()>(0, |out| {
                k::compare(self.op, &self.nest, chunk(&units, self.nest.len()), a, b, out);
                Ok(())
            })
        })
    }
}

struct Choice {
    kind: Kind,
    nest: Nest<3>,
}

/// The kernel of a selection between two tensors.
///
/// # Errors
/// Fails with a reason if types or shapes are not supported.
pub fn select(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    sig.kind_in(0, &[Kind::Bool])?;
    let kind = sig.kind_in(1, &Kind::ALL)?;
    if sig.input(2)?.kind != Some(kind) || sig.output(0)?.kind != Some(kind) {
        return Err(format!("inputs 1 and 2 are {} and {}", sig.input(1)?.dtype, sig.input(2)?.dtype));
    }
    Ok(Box::new(Choice { kind, nest: broadcast(sig)? }))
}

impl Kernel for Choice {
    fn units(&self) -> usize {
        self.nest.len().div_ceil(CHUNK)
    }

    fn work(&self) -> u64 {
        self.nest.len() as u64
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        with_kind!(self.kind, T => {
            let (c, a, b) = (io.input::<Bool>(0)?, io.input::<T>(1)?, io.input::<T>(2)?);
            io.output::<T, ()>(0, |out| {
                k::select(&self.nest, chunk(&units, self.nest.len()), c, a, b, out);
                Ok(())
            })
        })
    }
}

struct Conversion {
    from: Kind,
    to: Kind,
    n: usize,
}

/// The kernel of a cast.
///
/// # Errors
/// Fails with a reason if types are not supported.
pub fn convert(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let from = sig.kind_in(0, &Kind::ALL)?;
    let to = sig
        .output(0)?
        .kind
        .ok_or_else(|| format!("output 0 is {}", sig.output(0).map_or("?".into(), |t| t.dtype.to_string())))?;
    Ok(Box::new(Conversion { from, to, n: same_shape(sig)? }))
}

impl Kernel for Conversion {
    fn units(&self) -> usize {
        self.n.div_ceil(CHUNK)
    }

    fn work(&self) -> u64 {
        self.n as u64
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        let range = chunk(&units, self.n);
        with_kind!(self.from, S => {
            let x = &io.input::<S>(0)?[range.clone()];
            with_kind!(self.to, D => io.output::<D, ()>(0, |out| {
                cast::cast_all(x, out.part(range.start, range.len()));
                Ok(())
            }))
        })
    }
}
