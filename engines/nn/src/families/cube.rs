//! The layouts of the cube unit: activations of f16 and bf16 in NC1HWC0 (channels in groups of
//! sixteen, innermost), filters in FRACTAL_Z. Decides which nodes are offered in these layouts, and
//! makes their kernels.
//!
//! In every such tensor, the lanes of the last group beyond the channels hold zero. `TransData`,
//! convolutions and poolings write them so; an element-wise map is accepted only if it keeps them
//! zero or if there are none.
use crate::families::fused::Follows;
use crate::families::maps::{self, MapRow};
use crate::kernel::{Io, Kernel};
use crate::sig::{Answer, Sig, Tensor};
use ge_kernels::conv::cube::LANES;
use ge_kernels::conv::{ConvSpec, CubeConv, CubeDepthwise};
use ge_kernels::pool::Pooling;
use ge_kernels::pool::cube::{CubeGlobal, CubePooling};
use ge_kernels::simd::isa::PanelElem;
use ge_kernels::view::{Kind, Out};
use ge_kernels::with_kind;
use ge_plugin_api::types::Format;
use ge_plugin_api::{Error, Result};
use std::ops::Range;

/// The inputs and outputs of an operator that may be in NC1HWC0.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ports {
    /// x, residual and y; the filter is in FRACTAL_Z.
    Convolution,
    /// x and y.
    Window,
    /// Only x.
    Global,
    /// All that have four axes.
    All,
}

/// The ports of an operator; `None` if these layouts are not offered for it.
fn ports(op: &str) -> Option<Ports> {
    Some(match op {
        "Conv2D" | "DepthwiseConv2D" | "FusedConv" => Ports::Convolution,
        "MaxPoolV3" | "AvgPoolV2" => Ports::Window,
        "GlobalAveragePool" | "GlobalMaxPool" => Ports::Global,
        "FusedElementwise" | "AddN" | "ConcatD" | "ConcatV2D" | "PRelu" | "ClipByValue" => Ports::All,
        _ if maps::pair_named(op).is_some() || MapRow::of(op).is_some() => Ports::All,
        _ => return None,
    })
}

/// Whether the node's first input is in NC1HWC0.
pub fn is_grouped(sig: &Sig) -> bool {
    sig.opt_input(0).is_some_and(|x| x.format == Format::NC1HWC0)
}

fn half(t: &Tensor) -> bool {
    matches!(t.kind, Some(Kind::F16 | Kind::Bf16))
}

/// The node in these layouts; `None` if they are not offered for it. Whether there is a kernel is
/// decided by its family.
pub fn laid_out(sig: &Sig) -> Option<Sig> {
    let ports = ports(&sig.op)?;
    let plain = |t: &Tensor| t.rank() == 4 && half(t) && matches!(t.format, Format::ND | Format::NCHW);
    if !plain(sig.input(0).ok()?) && ports != Ports::All {
        return None;
    }
    let mut other = sig.clone();
    let grouped = |t: &mut Tensor| t.laid_out(Format::NC1HWC0).map(|l| *t = l);
    let depthwise = sig.op == "DepthwiseConv2D" || sig.int("groups", 1) != 1;
    for (i, t) in other.inputs.iter_mut().enumerate().filter_map(|(i, t)| Some((i, t.as_mut()?))) {
        match (ports, i) {
            (Ports::Convolution, 1) if depthwise => {}
            (Ports::Convolution, 1) if plain(t) => *t = t.laid_out(Format::FRACTAL_Z)?,
            (Ports::Convolution, 0 | 3) | (Ports::Window | Ports::Global, 0) if plain(t) => grouped(t)?,
            (Ports::Convolution, 2) => {}
            (Ports::All, _) if plain(t) => grouped(t)?,
            (Ports::All, _) if t.count() == 1 => {}
            _ => return None,
        }
    }
    for t in &mut other.outputs {
        match ports {
            Ports::Global => {}
            _ if plain(t) => grouped(t)?,
            _ => return None,
        }
    }
    Some(other)
}

/// Number of channels of a tensor in NC1HWC0.
fn channels(t: &Tensor) -> Answer<usize> {
    match &t.origin {
        Some((Format::ND | Format::NCHW, shape)) if shape.len() == 4 && half(t) => Ok(shape[1]),
        _ => Err(format!("{} {:?} of {} does not say its channels", t.format, t.shape, t.dtype)),
    }
}

/// Checks an element-wise map on tensors in NC1HWC0: all inputs must have the output's channels or
/// a single element, and lanes beyond the channels must stay zero. Plain tensors are always
/// accepted.
///
/// # Errors
/// Returns the reason for a refusal.
pub fn map_keeps_zeros(sig: &Sig, of_zeros: impl FnOnce() -> f32) -> Answer<()> {
    let all = || sig.inputs.iter().flatten().chain(&sig.outputs);
    if all().all(|t| t.format != Format::NC1HWC0) {
        return Ok(());
    }
    sig.plain_form()?;
    let y = sig.output(0)?;
    let own = channels(y).map_err(|e| format!("output 0: {e}"))?;
    let mut numbers = false;
    for (i, t) in sig.inputs.iter().enumerate().filter_map(|(i, t)| Some((i, t.as_ref()?))) {
        match t.format {
            Format::NC1HWC0 if channels(t).is_ok_and(|c| c == own) => {}
            _ if t.count() == 1 && t.rank() <= 1 => numbers = true,
            f => return Err(format!("input {i} is {f} {:?}, output 0 has {own} channels in groups", t.shape)),
        }
    }
    let filled = !own.is_multiple_of(LANES);
    if filled && (numbers || of_zeros() != 0.0) {
        return Err(format!("{own} channels fill no whole groups, and {} does not keep zeros", sig.op));
    }
    Ok(())
}

/// Checks a concatenation of tensors in NC1HWC0 and returns the axis in the blocked layout.
///
/// # Errors
/// Returns the reason for a refusal.
pub fn concat_axis(sig: &Sig, axis: usize) -> Answer<usize> {
    let last = sig.inputs.len().saturating_sub(1);
    let own = channels(sig.output(0)?)?;
    for i in 0..sig.inputs.len() {
        let t = sig.input(i)?;
        let c = channels(t).map_err(|e| format!("input {i}: {e}"))?;
        if (axis != 1 && c != own) || (axis == 1 && i < last && !c.is_multiple_of(LANES)) {
            return Err(format!("input {i} has {c} channels, which fill no whole groups of {LANES}"));
        }
    }
    sig.plain_form()?;
    // N, C1, H and W have the positions of N, C, H and W.
    Ok(axis)
}

enum Plan {
    Dense(CubeConv),
    Depthwise(CubeDepthwise),
}

struct Convolution {
    kind: Kind,
    plan: Plan,
    follows: Follows,
}

/// Refuses inputs and outputs in formats other than `NC1HWC0`.
fn grouped_only(sig: &Sig, inputs: &[usize]) -> Answer<()> {
    for &i in inputs {
        if let Some(t) = sig.opt_input(i)
            && t.format != Format::NC1HWC0
        {
            return Err(format!("input {i} is in {}, input 0 in NC1HWC0", t.format));
        }
    }
    match sig.output(0)?.format {
        Format::NC1HWC0 => Ok(()),
        f => Err(format!("output 0 is in {f}, input 0 in NC1HWC0")),
    }
}

/// The kernel of a convolution with x in NC1HWC0; `plain` is the node in plain layouts.
///
/// # Errors
/// Fails with a reason if types, layouts or groups are not supported.
pub fn conv(sig: &Sig, plain: &Sig, spec: ConvSpec, follows: Follows) -> Answer<Box<dyn Kernel>> {
    let kind = sig.one_kind(&[Kind::F16, Kind::Bf16])?;
    grouped_only(sig, &[0, 3])?;
    channels(sig.input(0)?)?;
    let filter = sig.input(1)?.format;
    let depthwise = spec.groups == spec.channels_in && spec.groups == spec.channels_out && spec.groups > 1;
    let plan = match (depthwise, filter) {
        (false, Format::FRACTAL_Z) => CubeConv::new(&spec).map(Plan::Dense),
        (true, f) if f == plain.input(1)?.format => CubeDepthwise::new(&spec).map(Plan::Depthwise),
        (_, f) => return Err(format!("the filter is in {f} for {} groups", spec.groups)),
    };
    Ok(Box::new(Convolution { kind, plan: plan.map_err(|e| e.to_string())?, follows }))
}

impl Kernel for Convolution {
    fn units(&self) -> usize {
        match &self.plan {
            Plan::Dense(p) => p.units(),
            Plan::Depthwise(p) => p.units(),
        }
    }

    fn work(&self) -> u64 {
        self.products() / 16
    }

    fn products(&self) -> u64 {
        match &self.plan {
            Plan::Dense(p) => p.work(),
            Plan::Depthwise(p) => p.work(),
        }
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        with_kind!(self.kind, [F16, Bf16], T => self.run_in::<T>(units, io), else Err(Error::internal("type of a convolution")))
    }
}

impl Convolution {
    fn run_in<T: PanelElem>(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        let (x, w) = (io.input::<T>(0)?, io.input::<T>(1)?);
        let e = self.follows.epilogue(io)?;
        let run = |out: &mut Out<'_, T>| match &self.plan {
            Plan::Dense(p) => p.run(units, x, w, &e, out),
            Plan::Depthwise(p) => p.run(units, x, w, &e, out),
        };
        io.output::<T, ()>(0, |out| run(out).map_err(|e| Error::failed(e.to_string())))
    }
}

struct Pooled {
    kind: Kind,
    plan: CubePooling,
}

/// The kernel of a window pooling with x in NC1HWC0; `plan` is the plan for the plain layout.
///
/// # Errors
/// Fails with a reason if layouts or axes are not supported.
pub fn pool(sig: &Sig, plain: &Sig, plan: Pooling) -> Answer<Box<dyn Kernel>> {
    let kind = sig.one_kind(&[Kind::F16, Kind::Bf16])?;
    grouped_only(sig, &[0])?;
    let channels = channels(sig.input(0)?)?;
    if plain.input(0)?.rank() != 4 {
        return Err("it takes two spatial axes in NC1HWC0".into());
    }
    let planes = plain.input(0)?.shape[0] * channels.div_ceil(LANES);
    Ok(Box::new(Pooled { kind, plan: CubePooling { plan: Pooling { planes, ..plan }, channels } }))
}

impl Kernel for Pooled {
    fn units(&self) -> usize {
        self.plan.units()
    }

    fn work(&self) -> u64 {
        let p = &self.plan.plan;
        let window: usize = p.kernel.iter().product();
        let all = p.output.iter().fold((p.planes * window) as u64, |a, &b| a.saturating_mul(b as u64));
        all.saturating_mul(LANES as u64)
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        with_kind!(self.kind, [F16, Bf16], T => {
            let x = io.input::<T>(0)?;
            io.output::<T, ()>(0, |out| {
                self.plan.run(units, x, out);
                Ok(())
            })
        }, else Err(Error::internal("type of a pooling")))
    }
}

struct Global {
    kind: Kind,
    plan: CubeGlobal,
}

/// The kernel of a pooling over both spatial axes, from NC1HWC0 to the plain layout.
///
/// # Errors
/// Fails with a reason if layouts or sizes are not supported.
pub fn global(sig: &Sig, plain: &Sig) -> Answer<Box<dyn Kernel>> {
    let kind = sig.one_kind(&[Kind::F16, Kind::Bf16])?;
    let channels = channels(sig.input(0)?)?;
    let (x, y) = (plain.input(0)?, sig.output(0)?);
    let positions = x.shape[2] * x.shape[3];
    if !matches!(y.format, Format::ND | Format::NCHW) || y.count() != x.shape[0] * channels || positions == 0 {
        return Err(format!("output 0 is {} {:?}, x {:?}", y.format, y.shape, x.shape));
    }
    let plan = CubeGlobal { max: sig.op == "GlobalMaxPool", batch: x.shape[0], channels, positions };
    Ok(Box::new(Global { kind, plan }))
}

impl Kernel for Global {
    fn units(&self) -> usize {
        self.plan.units()
    }

    fn work(&self) -> u64 {
        (self.plan.units() as u64).saturating_mul((self.plan.positions * LANES) as u64)
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        with_kind!(self.kind, [F16, Bf16], T => {
            let x = io.input::<T>(0)?;
            io.output::<T, ()>(0, |out| {
                self.plan.run(units, x, out);
                Ok(())
            })
        }, else Err(Error::internal("type of a pooling")))
    }
}
