//! Steps fused behind a product or a convolution: the activation by name, the residual, and
//! element-wise steps on the result.
use crate::families::chain;
use crate::kernel::{Io, Kernel, Watch};
use crate::sig::{Answer, Sig};
use ge_kernels::elementwise::Chain;
use ge_kernels::elementwise::chain::BLOCK;
use ge_kernels::gemm::{Bias, Epilogue};
use ge_kernels::scratch::with_scratch;
use ge_kernels::simd::Act;
use ge_kernels::simd::isa::PanelElem;
use ge_kernels::view::Kind;
use ge_kernels::view::steps::parse;
use ge_plugin_api::Result;
use std::ops::Range;

/// The activation with this name and these numbers (`plugins/ops/src/fused.rs`).
///
/// # Errors
/// Fails if there is no such activation.
pub fn act_named(name: &str, numbers: &[f64]) -> Answer<Act> {
    let n: Vec<f32> = numbers.iter().map(|v| *v as f32).collect();
    Ok(match (name, n.as_slice()) {
        ("none" | "", []) => Act::None,
        ("relu", []) => Act::Relu,
        ("clip", &[low, high]) => Act::Clip(low, high),
        ("leaky_relu", &[slope]) => Act::LeakyRelu(slope),
        ("sigmoid", []) => Act::Sigmoid,
        ("tanh", []) => Act::Tanh,
        ("gelu", []) => Act::Gelu,
        ("gelu_tanh", []) => Act::GeluTanh,
        ("silu", []) => Act::Silu,
        ("hard_sigmoid", &[alpha, beta]) => Act::HardSigmoid(alpha, beta),
        ("hard_swish", []) => Act::HardSwish,
        ("elu", &[alpha]) => Act::Elu(alpha),
        _ => return Err(format!("activation `{name}` with {} numbers", n.len())),
    })
}

/// Activation and residual of an operator. Only the operator `fused` has them: input 3 of the
/// others is `offset_w`.
///
/// # Errors
/// Fails if the activation is unknown, if the residual has another shape, or if `offset_w` is
/// given.
pub fn epilogue(sig: &Sig, fused: &str) -> Answer<(Act, bool)> {
    if sig.op != fused {
        return if sig.opt_input(3).is_some() {
            Err("input 3 `offset_w` is given".into())
        } else {
            Ok((Act::None, false))
        };
    }
    let act = act_named(sig.text("activation", "none"), sig.attrs.floats("activation_params").unwrap_or(&[]))?;
    let y = sig.output(0)?;
    match sig.opt_input(3) {
        Some(r) if r.shape != y.shape => Err(format!("input 3 is {:?}, output 0 {:?}", r.shape, y.shape)),
        r => Ok((act, r.is_some())),
    }
}

/// Which steps follow a convolution.
#[derive(Clone, Copy)]
pub struct Follows {
    /// Whether a bias is added.
    pub bias: bool,
    /// Whether a residual is added.
    pub residual: bool,
    /// The activation, which is applied last.
    pub act: Act,
}

impl Follows {
    /// The steps of a convolution, with bias and residual as its inputs 2 and 3.
    ///
    /// # Errors
    /// Fails if one of them is not aligned.
    pub fn epilogue<'i, T: PanelElem>(&self, io: &'i Io<'_, '_>) -> Result<Epilogue<'i, T>> {
        let bias = if self.bias { Bias::PerRow(io.input::<T>(2)?) } else { Bias::None };
        let residual = if self.residual { Some((io.input::<T>(3)?, 1.0)) } else { None };
        Ok(Epilogue { bias, residual, act: self.act, ..Epilogue::default() })
    }
}

/// A kernel with a chain of steps on its output 0. Each block applies the steps to what it has just
/// written, while that is still in the cache.
struct Followed {
    kernel: Box<dyn Kernel>,
    steps: Chain,
    /// Number of elements of the output.
    n: usize,
    /// Approximate number of elements of one unit.
    each: usize,
}

/// Number of elements that a block writes before it applies the steps.
const NEAR: usize = 64 * 1024;

/// The kernel with the node's fused steps behind it; `%0` is the kernel's result.
///
/// # Errors
/// Fails with a reason if a step or type is not supported.
pub fn followed(sig: &Sig, kernel: Box<dyn Kernel>) -> Answer<Box<dyn Kernel>> {
    let texts = sig.attrs.strs("steps").unwrap_or_default();
    if texts.is_empty() {
        return Ok(kernel);
    }
    let y = sig.output(0)?;
    if y.kind != Some(Kind::F32) || y.origin.is_some() {
        return Err(format!("steps follow an output of {} in {}, they take f32 as it is", y.dtype, y.format));
    }
    let steps = parse(texts, 1)?.iter().map(|s| chain::step(s, Kind::F32)).collect::<Answer<Vec<_>>>()?;
    let each = y.count().div_ceil(kernel.units().max(1)).max(1);
    Ok(Box::new(Followed { kernel, steps: Chain::new(steps, 1), n: y.count(), each }))
}

impl Followed {
    fn own(&self) -> u64 {
        (self.n as u64).saturating_mul(2 * self.steps.steps().len() as u64)
    }
}

impl Kernel for Followed {
    fn units(&self) -> usize {
        self.kernel.units()
    }

    fn work(&self) -> u64 {
        // A step on one element takes about an eighth of the time of a multiply-add.
        self.kernel.work().saturating_add(self.own() / 16)
    }

    fn products(&self) -> u64 {
        self.kernel.products()
    }

    fn operations(&self) -> u64 {
        self.kernel.operations().saturating_add(self.own())
    }

    fn moved(&self) -> u64 {
        self.kernel.moved()
    }

    fn lays_out(&self) -> u64 {
        self.kernel.lays_out()
    }

    fn schedules(&self) -> Vec<String> {
        self.kernel.schedules()
    }

    fn scheduled(&self, schedule: &str) -> Option<Box<dyn Kernel>> {
        let kernel = self.kernel.scheduled(schedule)?;
        let each = self.n.div_ceil(kernel.units().max(1)).max(1);
        Some(Box::new(Followed { kernel, steps: self.steps.clone(), n: self.n, each }))
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        let group = (NEAR / self.each).max(1);
        for start in units.clone().step_by(group) {
            let watch = Watch::default();
            self.kernel.run(start..(start + group).min(units.end), &io.watched(&watch))?;
            let parts = watch.parts();
            with_scratch(BLOCK + self.steps.memory(), |memory| {
                let (x, memory) = memory.split_at_mut(BLOCK);
                io.output::<f32, ()>(0, |out| {
                    for part in &parts {
                        for at in part.clone().step_by(BLOCK) {
                            let y = out.part(at, BLOCK.min(part.end - at));
                            let x = &mut x[..y.len()];
                            x.copy_from_slice(y);
                            self.steps.run(&[x], memory, y);
                        }
                    }
                    Ok(())
                })
            })?;
        }
        Ok(())
    }
}
