//! `FusedConvPair`: a depthwise and a pointwise convolution of images, the second of which reads
//! the first: `x[N, C, H, W]`, filter, bias, second filter, second bias, residual -> `y[N, O, H',
//! W']`, in f32.
use crate::families::fused::act_named;
use crate::families::window::list;
use crate::kernel::{Io, Kernel};
use crate::sig::{Answer, Sig};
use ge_kernels::conv::{ConvPair, ConvSpec, Half};
use ge_kernels::simd::Act;
use ge_kernels::view::Kind;
use ge_plugin_api::{Error, Result};
use std::ops::Range;

/// Indices of the two biases, which are optional.
const BIASES: [usize; 2] = [2, 4];
const RESIDUAL: usize = 5;

struct Pair {
    plan: ConvPair,
    biases: [bool; 2],
    residual: bool,
    acts: [Act; 2],
}

/// The kernel of a pair.
///
/// # Errors
/// Fails with a reason if types, shapes or attributes are not supported.
pub fn build(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    for i in 0..sig.inputs.len() {
        sig.plain(i)?;
        if sig.opt_input(i).is_some() {
            sig.kind_in(i, &[Kind::F32])?;
        }
    }
    let y = sig.output(0)?;
    if y.kind != Some(Kind::F32) {
        return Err(format!("output 0 is {}, it takes f32", y.dtype));
    }
    let (first, second) = specs(sig)?;
    let plan = ConvPair::new(&first, &second).map_err(|e| e.to_string())?;
    let plan = plan.ok_or("they are no pair, or the weights of the product would not stay in the caches")?;
    let out = second.output().map_err(|e| e.to_string())?;
    if y.shape != [second.batch, second.channels_out, out[1], out[2]] {
        return Err(format!("output 0 is {:?}, the windows give another size", y.shape));
    }
    let mut biases = [false; 2];
    for ((i, has), s) in BIASES.into_iter().zip(&mut biases).zip([&first, &second]) {
        let Some(b) = sig.opt_input(i) else { continue };
        if b.count() != s.channels_out {
            return Err(format!("input {i} is {:?}, it takes [{}]", b.shape, s.channels_out));
        }
        *has = true;
    }
    let residual = match sig.opt_input(RESIDUAL) {
        Some(r) if r.shape != y.shape => {
            return Err(format!("input {RESIDUAL} is {:?}, output 0 {:?}", r.shape, y.shape));
        }
        r => r.is_some(),
    };
    let act = |key: &str, numbers: &str| act_named(sig.text(key, "none"), sig.attrs.floats(numbers).unwrap_or(&[]));
    let acts = [act("first_activation", "first_activation_params")?, act("activation", "activation_params")?];
    Ok(Box::new(Pair { plan, biases, residual, acts }))
}

/// The parameters of both convolutions.
fn specs(sig: &Sig) -> Answer<(ConvSpec, ConvSpec)> {
    let (x, first, second) = (sig.input(0)?, sig.input(1)?, sig.input(3)?);
    if [x, first, second].iter().any(|t| t.rank() != 4 || t.count() == 0) {
        return Err(format!("x is {:?}, filters are {:?} and {:?}", x.shape, first.shape, second.shape));
    }
    let depthwise_first = sig.text("depthwise", "first") == "first";
    let plane = if depthwise_first { first } else { second };
    let pads = match sig.attrs.ints("pads") {
        None | Some([]) => [0; 4],
        Some(v) if v.len() == 4 && v.iter().all(|p| (0..1 << 30).contains(p)) => [v[0], v[1], v[2], v[3]],
        Some(v) => return Err(format!("attribute `pads` is {v:?}")),
    };
    let [top, bottom, left, right] = pads.map(|p| p as usize);
    let spec = |input: [usize; 3], channels: usize, w: &[usize], depthwise: bool| -> Answer<ConvSpec> {
        let groups = if depthwise { channels } else { 1 };
        if w[1].checked_mul(groups) != Some(channels) || !w[0].is_multiple_of(groups) {
            return Err(format!("filter {w:?} for {channels} channels in {groups} groups"));
        }
        let mut s = ConvSpec::square(x.shape[0], [channels, w[0]], 1, 1);
        (s.groups, s.input, s.kernel) = (groups, input, [1, w[2], w[3]]);
        if depthwise {
            s.stride = list(sig, "strides", 4, 1)?;
            (s.pad_before, s.pad_after) = ([0, top, left], [0, bottom, right]);
        }
        s.check().map_err(|e| e.to_string())?;
        Ok(s)
    };
    let first_spec = spec([1, x.shape[2], x.shape[3]], x.shape[1], &first.shape, depthwise_first)?;
    let between = first_spec.output().map_err(|e| e.to_string())?;
    let second_spec = spec(between, first.shape[0], &second.shape, !depthwise_first)?;
    if !plane.shape[2..].iter().all(|k| *k > 1) {
        return Err(format!("the depthwise filter is {:?}", plane.shape));
    }
    Ok((first_spec, second_spec))
}

/// The plan of a pair; `None` if the engine has no kernel for it.
pub fn plan(sig: &Sig) -> Option<ConvPair> {
    let (first, second) = specs(sig).ok()?;
    ConvPair::new(&first, &second).ok()?
}

impl Kernel for Pair {
    fn units(&self) -> usize {
        self.plan.units()
    }

    fn work(&self) -> u64 {
        self.products() / 16
    }

    fn products(&self) -> u64 {
        self.plan.work()
    }

    fn moved(&self) -> u64 {
        self.plan.moved()
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        let half = |w: usize, i: usize| -> Result<Half<'_>> {
            let bias = if self.biases[i] { Some(io.input::<f32>(BIASES[i])?) } else { None };
            Ok(Half { w: io.input::<f32>(w)?, bias, act: self.acts[i] })
        };
        let (first, second) = (half(1, 0)?, half(3, 1)?);
        let residual = if self.residual { Some(io.input::<f32>(RESIDUAL)?) } else { None };
        let x = io.input::<f32>(0)?;
        io.output::<f32, ()>(0, |out| {
            self.plan.run(units, x, [&first, &second], residual, out).map_err(|e| Error::failed(e.to_string()))
        })
    }
}
