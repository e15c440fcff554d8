//! The kernel: lines are divided among blocks, and each line is gathered, transformed and written.
//! The bits of a line depend only on its input. Forward transforms are computed in f64, as NumPy
//! does for real lines, so that bins that are zero come out as zero next to large ones. Inverse
//! transforms are computed in the type of their spectrum.
use crate::plan::Plan;
use ge_plugin_api::engine::LoadRequest;
use ge_plugin_api::kernel::{Access, BlockArgs, BlockKernel, LoadedKernel, Plain, Writer, block_kernel};
use ge_plugin_api::types::DType;
use ge_plugin_api::{Error, Result};
use rustfft::num_complex::Complex;
use rustfft::{Fft, FftNum, FftPlanner};
use std::sync::Arc;

enum Transform {
    Single(Arc<dyn Fft<f32>>),
    Double(Arc<dyn Fft<f64>>),
}

/// The type in which a transform is computed.
trait Computed: FftNum + Into<f64> {
    fn of(v: f64) -> Self;
}
impl Computed for f32 {
    fn of(v: f64) -> f32 {
        v as f32
    }
}
impl Computed for f64 {
    fn of(v: f64) -> f64 {
        v
    }
}

/// The element type of a line.
trait Real: Plain {
    fn wide(self) -> f64;
    fn narrow(v: f64) -> Self;
}
impl Real for f32 {
    fn wide(self) -> f64 {
        f64::from(self)
    }
    fn narrow(v: f64) -> f32 {
        v as f32
    }
}
impl Real for f64 {
    fn wide(self) -> f64 {
        self
    }
    fn narrow(v: f64) -> f64 {
        v
    }
}

/// A plan with its transform, checked against the task's arguments.
pub struct Lines {
    plan: Plan,
    transform: Transform,
    input: usize,
    window: Option<usize>,
    output: usize,
}

fn planned<C: FftNum>(plan: &Plan) -> Arc<dyn Fft<C>> {
    let n = plan.n as usize;
    let mut planner = FftPlanner::new();
    if plan.inverse { planner.plan_fft_inverse(n) } else { planner.plan_fft_forward(n) }
}

impl Lines {
    /// Plans the transform and checks every position that a line accesses against the sizes of the
    /// arguments.
    ///
    /// # Errors
    /// Returns a `damaged` error if the plan and the arguments do not fit together.
    pub fn new(plan: Plan, request: &LoadRequest) -> Result<Lines> {
        let width = if plan.dtype == DType::F64 { 8 } else { 4 };
        let find = |kind: &str, index: u64| {
            request.args.iter().position(|a| a.kind.as_str() == kind && u64::from(a.index) == index)
        };
        let fits = |arg: Option<usize>, numbers: Option<u64>, what: &str| -> Result<usize> {
            let arg = arg.ok_or_else(|| Error::damaged(format!("the task has no {what}")))?;
            match numbers.and_then(|n| n.checked_mul(width)) {
                Some(need) if need <= request.args[arg].bytes => Ok(arg),
                _ => Err(Error::damaged(format!(
                    "{what} has {} bytes, the transform reaches beyond them",
                    request.args[arg].bytes
                ))),
            }
        };
        let input = fits(find("i", 0), plan.reach(false), "input 0")?;
        let output = fits(find("o", 0), plan.reach(true), "output 0")?;
        let window = match plan.window {
            0 => None,
            i => Some(fits(find("i", i), Some(plan.n), "window")?),
        };
        let transform = if plan.inverse && plan.dtype != DType::F64 {
            Transform::Single(planned(&plan))
        } else {
            Transform::Double(planned(&plan))
        };
        Ok(Lines { plan, transform, input, window, output })
    }

    fn lines<T: Real, C: Computed>(&self, call: &BlockArgs<'_>, fft: &dyn Fft<C>) -> Result<()> {
        let p = &self.plan;
        let part = call.part(usize::try_from(p.lines()).map_err(|_| Error::damaged("too many lines"))?, 1);
        if part.is_empty() || p.write == 0 {
            return Ok(());
        }
        let x = call.input::<T>(self.input)?;
        let window = self.window.map(|w| call.input::<T>(w)).transpose()?;
        let mut out = call.writer::<T>(self.output)?;
        let n = p.n as usize;
        let zero = Complex { re: C::zero(), im: C::zero() };
        let mut line = room(n, zero)?;
        let mut scratch = room(fft.get_inplace_scratch_len(), zero)?;
        let factor = C::of(1.0 / p.n.max(1) as f64);
        for l in part {
            let (a, b) = (l as u64 / p.count_b, l as u64 % p.count_b);
            let from = (a * p.in_a + b * p.in_b) as usize;
            line.fill(zero);
            for (k, c) in line.iter_mut().take(p.read as usize).enumerate() {
                let at = from + k * p.in_step as usize;
                let im = if p.in_complex { C::of(x[at + 1].wide()) } else { C::zero() };
                *c = Complex { re: C::of(x[at].wide()), im };
            }
            if p.half {
                mirror(&mut line);
            }
            if let Some(w) = window {
                line.iter_mut().zip(w).for_each(|(c, w)| *c = *c * C::of(w.wide()));
            }
            fft.process_with_scratch(&mut line, &mut scratch);
            if p.inverse {
                line.iter_mut().for_each(|c| *c = *c * factor);
            }
            self.put::<T, C>(&mut out, (a * p.out_a + b * p.out_b) as usize, &line)?;
        }
        Ok(())
    }

    /// Writes the bins of a line: at once if they are contiguous, otherwise one by one.
    fn put<T: Real, C: Computed>(&self, to: &mut Writer<'_, T>, at: usize, line: &[Complex<C>]) -> Result<()> {
        let (bins, step) = (self.plan.write as usize, self.plan.out_step as usize);
        let width = if self.plan.out_complex { 2 } else { 1 };
        let fill = |out: &mut [T], c: &Complex<C>| {
            out[0] = T::narrow(c.re.into());
            if let Some(im) = out.get_mut(1) {
                *im = T::narrow(c.im.into());
            }
        };
        let beyond = || Error::damaged("a line reaches beyond the output");
        if step == width {
            let out = to.part(at, bins * width).ok_or_else(beyond)?;
            out.chunks_exact_mut(width).zip(line).for_each(|(o, c)| fill(o, c));
        } else {
            for (k, c) in line.iter().take(bins).enumerate() {
                fill(to.part(at + k * step, width).ok_or_else(beyond)?, c);
            }
        }
        Ok(())
    }
}

/// Fills the second half of the spectrum of a real line with the mirrored conjugates of the first
/// half.
fn mirror<C: Computed>(line: &mut [Complex<C>]) {
    let n = line.len();
    line[0].im = C::zero();
    if n.is_multiple_of(2) {
        line[n / 2].im = C::zero();
    }
    for k in n / 2 + 1..n {
        line[k] = line[n - k].conj();
    }
}

fn room<T: Copy>(n: usize, fill: T) -> Result<Vec<T>> {
    let mut v = Vec::new();
    v.try_reserve_exact(n).map_err(|_| Error::failed(format!("no memory for a line of {n}")))?;
    v.resize(n, fill);
    Ok(v)
}

impl BlockKernel for Lines {
    fn run(&self, call: &BlockArgs<'_>) -> Result<()> {
        match &self.transform {
            Transform::Single(f) => self.lines::<f32, f32>(call, f.as_ref()),
            Transform::Double(f) if self.plan.dtype == DType::F64 => self.lines::<f64, f64>(call, f.as_ref()),
            Transform::Double(f) => self.lines::<f32, f64>(call, f.as_ref()),
        }
    }
}

/// The form of the kernel that is loaded onto the device.
pub fn on_device(lines: Lines, request: &LoadRequest) -> LoadedKernel {
    let access =
        request.args.iter().map(|a| if a.kind.as_str() == "o" { Access::WRITE } else { Access::READ }).collect();
    block_kernel(Box::new(lines), request.args.iter().map(|a| a.bytes).collect(), access, 0)
}
