//! `SoftmaxV2`, `LogSoftmaxV2`, `ScaledMaskedSoftmax`, `LayerNorm`, `LayerNormV3`, `RmsNorm`,
//! `BNInfer`, `InstanceNorm`, `GroupNorm` for f32, f16, bf16, computed in single precision.
use crate::kernel::{Io, Kernel};
use crate::sig::{Answer, FLOATS, Sig};
use ge_kernels::norm::{Affine, LayerNorm, MaskedSoftmax, Softmax, affine_images};
use ge_kernels::norm::{instance_norm as instances, layer_norm as rows, softmax as soft};
use ge_kernels::simd::isa::PanelElem;
use ge_kernels::view::layout::resolve_axis;
use ge_kernels::view::{Elem, Kind, Layout, Nest};
use ge_kernels::with_kind;
use ge_plugin_api::{Error, Result};
use std::ops::Range;

struct Soft {
    kind: Kind,
    plan: Softmax,
}

/// The kernel of a softmax over adjacent axes.
///
/// # Errors
/// Fails with a reason if types or axes are not supported.
pub fn softmax(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let kind = sig.one_kind(FLOATS)?;
    let x = sig.input(0)?;
    let list = sig.attrs.ints("axes").map_or(vec![-1], <[i64]>::to_vec);
    let rank = x.rank();
    let plan = if rank == 0 {
        Softmax { outer: 1, len: 1, inner: 1, log: false }
    } else {
        let mut axes: Vec<usize> = list
            .iter()
            .map(|&a| resolve_axis(a, rank))
            .collect::<std::result::Result<_, _>>()
            .map_err(|e| e.to_string())?;
        axes.sort_unstable();
        axes.dedup();
        let (Some(&first), Some(&last)) = (axes.first(), axes.last()) else { return Err("there are no axes".into()) };
        if last - first + 1 != axes.len() {
            return Err(format!("axes {list:?} are not neighbours"));
        }
        let product = |r: &[usize]| r.iter().product();
        Softmax {
            outer: product(&x.shape[..first]),
            len: product(&x.shape[first..=last]),
            inner: product(&x.shape[last + 1..]),
            log: false,
        }
    };
    let plan = Softmax { log: sig.op.starts_with("Log"), ..plan };
    sig.holds_lines(plan.len)?;
    if sig.output(0)?.shape != x.shape {
        return Err(format!("output 0 is {:?}, x {:?}", sig.output(0)?.shape, x.shape));
    }
    Ok(Box::new(Soft { kind, plan }))
}

impl Kernel for Soft {
    fn units(&self) -> usize {
        self.plan.units()
    }

    fn work(&self) -> u64 {
        let Softmax { outer, len, inner, .. } = self.plan;
        [len, inner, 4].into_iter().fold(outer as u64, |n, by| n.saturating_mul(by as u64))
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        with_kind!(self.kind, [F32, F16, Bf16], T => {
            let x = io.input::<T>(0)?;
            io.output::<T, ()>(0, |out| {
                soft(&self.plan, units, x, out);
                Ok(())
            })
        }, else Err(Error::internal("type of a softmax")))
    }
}

struct Masked {
    kind: Kind,
    plan: MaskedSoftmax,
}

/// The kernel of `ScaledMaskedSoftmax` over the last axis: the input is scaled and a mask is added.
///
/// # Errors
/// Fails with a reason if types or shapes are not supported.
pub fn masked_softmax(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let kind = sig.one_kind(FLOATS)?;
    let x = sig.input(0)?;
    if sig.output(0)?.shape != x.shape {
        return Err(format!("output 0 is {:?}, x {:?}", sig.output(0)?.shape, x.shape));
    }
    let len = x.shape.last().copied().unwrap_or(1);
    sig.holds_lines(len)?;
    let mask = match sig.opt_input(1) {
        None => None,
        Some(m) => {
            let l = Layout::contiguous(&m.shape).and_then(|l| l.broadcast_to(&x.shape)).map_err(|e| e.to_string())?;
            Some(Nest::new(&x.shape, [&l]))
        }
    };
    let rows = x.count().checked_div(len).unwrap_or(0);
    Ok(Box::new(Masked { kind, plan: MaskedSoftmax { scale: sig.float("scale", 1.0), rows, len, mask } }))
}

impl Kernel for Masked {
    fn units(&self) -> usize {
        self.plan.rows
    }

    fn work(&self) -> u64 {
        (self.plan.rows as u64).saturating_mul(self.plan.len as u64).saturating_mul(6)
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        with_kind!(self.kind, [F32, F16, Bf16], T => {
            let (x, mask) = (io.input::<T>(0)?, io.opt_input::<T>(1)?);
            io.output::<T, ()>(0, |out| {
                self.plan.run(units, x, mask, out);
                Ok(())
            })
        }, else Err(Error::internal("type of a softmax")))
    }
}

struct Layer {
    kind: Kind,
    plan: LayerNorm,
    gamma: bool,
    beta: bool,
    /// Index of the output with the mean.
    mean: Option<usize>,
    spread: Option<(usize, bool)>,
    wide: bool,
}

/// The kernel of a layer or root-mean-square normalisation.
///
/// # Errors
/// Fails with a reason if types, shapes or attributes are not supported.
pub fn layer_norm(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let kind = sig.one_kind(FLOATS)?;
    let x = sig.input(0)?;
    let rms = sig.op == "RmsNorm";
    let begin = resolve_axis(sig.int("begin_norm_axis", -1), x.rank()).map_err(|e| e.to_string())?;
    let plan = LayerNorm {
        rows: x.shape[..begin].iter().product(),
        len: x.shape[begin..].iter().product(),
        epsilon: sig.float("epsilon", if sig.op == "LayerNorm" { 1e-7 } else { 1e-5 }),
        rms,
    };
    sig.holds_lines(plan.len)?;
    for i in 1..sig.inputs.len() {
        if let Some(t) = sig.opt_input(i)
            && (t.count() != plan.len || !x.shape[begin..].ends_with(trimmed(&t.shape)))
        {
            return Err(format!("input {i} is {:?}, it takes {:?}", t.shape, &x.shape[begin..]));
        }
    }
    let (mean, spread) = if rms { (None, Some((1, false))) } else { (Some(1), Some((2, sig.op == "LayerNorm"))) };
    let present = |k: &usize| *k < sig.outputs.len();
    let mut wide = false;
    for k in 1..sig.outputs.len() {
        let t = sig.output(k)?;
        wide = t.kind == Some(Kind::F32);
        if t.count() != plan.rows || !(wide || t.kind == Some(kind)) {
            return Err(format!("output {k} is {} {:?}, it gives {} rows", t.dtype, t.shape, plan.rows));
        }
    }
    Ok(Box::new(Layer {
        kind,
        plan,
        gamma: sig.opt_input(1).is_some(),
        beta: !rms && sig.opt_input(2).is_some(),
        mean: mean.filter(present),
        spread: spread.filter(|(k, _)| present(k)),
        wide,
    }))
}

/// A shape without its leading ones.
fn trimmed(shape: &[usize]) -> &[usize] {
    let lead = shape.iter().take_while(|&&d| d == 1).count();
    &shape[lead..]
}

impl Layer {
    fn compute<T: PanelElem, S: Elem>(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        let x = io.input::<T>(0)?;
        let gamma = if self.gamma { io.input::<T>(1)? } else { &[] };
        let beta = if self.beta { io.input::<T>(2)? } else { &[] };
        let mut stats = Vec::with_capacity(if self.spread.is_some() { units.len() } else { 0 });
        io.output::<T, ()>(0, |out| {
            rows(&self.plan, units.clone(), x, gamma, beta, out, |_, mean, scale| {
                if self.spread.is_some() {
                    stats.push((mean, scale));
                }
            });
            Ok(())
        })?;
        if let Some(k) = self.mean {
            io.output::<S, ()>(k, |out| {
                for (o, s) in out.part(units.start, units.len()).iter_mut().zip(&stats) {
                    *o = S::from_f32(s.0);
                }
                Ok(())
            })?;
        }
        if let Some((k, variance)) = self.spread {
            io.output::<S, ()>(k, |out| {
                for (o, s) in out.part(units.start, units.len()).iter_mut().zip(&stats) {
                    *o = S::from_f32(if variance { 1.0 / (s.1 * s.1) - self.plan.epsilon } else { s.1 });
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}

impl Kernel for Layer {
    fn units(&self) -> usize {
        self.plan.rows
    }

    fn work(&self) -> u64 {
        (self.plan.rows as u64).saturating_mul(self.plan.len as u64)
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        with_kind!(self.kind, [F32, F16, Bf16], T => {
            if self.wide { self.compute::<T, f32>(units, io) } else { self.compute::<T, T>(units, io) }
        }, else Err(Error::internal("type of a normalisation")))
    }
}

struct Batch {
    kind: Kind,
    stats: Kind,
    planes: usize,
    channels: usize,
    size: usize,
    epsilon: f32,
}

/// The kernel of a batch normalisation with given statistics.
///
/// # Errors
/// Fails with a reason if types or shapes are not supported.
pub fn batch_norm(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let kind = sig.kind_in(0, FLOATS)?;
    let stats = sig.kind_in(1, FLOATS)?;
    let x = sig.input(0)?;
    let channels = *x.shape.get(1).ok_or("x has no channels")?;
    for i in 1..5 {
        let t = sig.input(i)?;
        if t.count() != channels || t.kind != Some(stats) {
            return Err(format!("input {i} is {} {:?}, it takes {} [{channels}]", t.dtype, t.shape, stats.name()));
        }
    }
    let size = x.shape[2..].iter().product();
    Ok(Box::new(Batch {
        kind,
        stats,
        planes: x.shape[0] * channels,
        channels,
        size,
        epsilon: sig.float("epsilon", 1e-5),
    }))
}

impl Batch {
    fn compute<T: PanelElem, S: PanelElem>(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        let x = io.input::<T>(0)?;
        let (g, b) = (io.input::<S>(1)?, io.input::<S>(2)?);
        let (m, v) = (io.input::<S>(3)?, io.input::<S>(4)?);
        let of = |c: usize| {
            let scale = g[c].wide() / (v[c].wide() + self.epsilon).sqrt();
            Affine { scale, centre: m[c].wide(), shift: b[c].wide() }
        };
        io.output::<T, ()>(0, |out| {
            affine_images([self.channels, self.size], units, x, of, out);
            Ok(())
        })
    }
}

impl Kernel for Batch {
    fn units(&self) -> usize {
        self.planes
    }

    fn work(&self) -> u64 {
        (self.planes as u64).saturating_mul(self.size as u64)
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        with_kind!(self.kind, [F32, F16, Bf16], T => {
            with_kind!(self.stats, [F32, F16, Bf16], S => self.compute::<T, S>(units, io), else Err(Error::internal("type of statistics")))
        }, else Err(Error::internal("type of a normalisation")))
    }
}

/// Instance normalisation; group normalisation is treated as instances of several channels.
struct Groups {
    kind: Kind,
    /// Number of images times number of groups.
    count: usize,
    groups: usize,
    /// Number of channels per group.
    channels: usize,
    /// Number of elements per channel.
    size: usize,
    epsilon: f32,
    /// Whether scale and shift are given per group.
    by_group: bool,
}

/// The kernel of an instance or group normalisation.
///
/// # Errors
/// Fails with a reason if types or shapes are not supported.
pub fn instance_norm(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let kind = sig.one_kind(FLOATS)?;
    let x = sig.input(0)?;
    let all = *x.shape.get(1).ok_or("x has no channels")?;
    let grouped = sig.op == "GroupNorm";
    let groups = if grouped {
        usize::try_from(sig.int("num_groups", 1)).map_err(|_| "attribute `num_groups` is negative")?
    } else {
        all
    };
    if groups == 0 || !all.is_multiple_of(groups) {
        return Err(format!("{all} channels in {groups} groups"));
    }
    let size: usize = x.shape[2..].iter().product();
    sig.holds_lines((all / groups).saturating_mul(size))?;
    let numbers = sig.input(1)?.count();
    if sig.input(2)?.count() != numbers || (numbers != all && numbers != groups) {
        return Err(format!("inputs 1 and 2 have {numbers} and {} numbers for {all} channels", sig.input(2)?.count()));
    }
    Ok(Box::new(Groups {
        kind,
        count: x.shape[0] * groups,
        groups,
        channels: all / groups,
        size,
        epsilon: if grouped { sig.float("eps", 1e-5) } else { sig.float("epsilon", 1e-5) },
        by_group: numbers != all,
    }))
}

impl Groups {
    fn compute<T: PanelElem>(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        let (x, g, b) = (io.input::<T>(0)?, io.input::<T>(1)?, io.input::<T>(2)?);
        io.output::<T, ()>(0, |out| {
            let of = |plane: usize| {
                let i = match self.by_group {
                    true => plane / self.channels % self.groups,
                    false => plane % (self.groups * self.channels),
                };
                (g[i].wide(), b[i].wide())
            };
            instances([self.channels, self.size], self.epsilon, units, x, of, out);
            Ok(())
        })
    }
}

impl Kernel for Groups {
    fn units(&self) -> usize {
        self.count
    }

    fn work(&self) -> u64 {
        (self.count as u64).saturating_mul((self.channels * self.size) as u64)
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        with_kind!(self.kind, [F32, F16, Bf16], T => self.compute::<T>(units, io), else Err(Error::internal("type of a normalisation")))
    }
}
