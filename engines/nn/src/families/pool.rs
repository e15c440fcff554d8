//! `MaxPoolV3`, `AvgPoolV2`, `GlobalAveragePool`, `GlobalMaxPool` over `x[N, C, ...]` for f32, f16,
//! bf16; for the 16-bit types also in NC1HWC0 (`cube.rs`).
use crate::families::cube;
use crate::families::window::{Window, channels_second, list};
use crate::kernel::{Io, Kernel};
use crate::sig::{Answer, FLOATS, Sig};
use ge_kernels::pool::{Pool, Pooling};
use ge_kernels::reduce::{Reduce, Reduction};
use ge_kernels::view::Kind;
use ge_kernels::with_kind;
use ge_plugin_api::{Error, Result};
use std::ops::Range;

/// Maximum number of elements of a window.
const MOST_WINDOW: usize = 1 << 22;

struct Pooled {
    kind: Kind,
    plan: Pooling,
}

/// The kernel of a window pooling.
///
/// # Errors
/// Fails with a reason if types, shapes or attributes are not supported.
pub fn build(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let kind = sig.one_kind(FLOATS)?;
    let plain = sig.plain_form()?;
    let plan = sizes(&plain)?;
    if cube::is_grouped(sig) {
        return cube::pool(sig, &plain, plan);
    }
    sig.plain(0)?;
    if plan.op != Pool::Max
        && plan.is_of_whole_planes()
        && let Ok(mean) = over_planes(Reduce::Mean, kind, sig)
    {
        return Ok(mean);
    }
    Ok(Box::new(Pooled { kind, plan }))
}

/// Sizes of a pooling in plain layouts.
fn sizes(sig: &Sig) -> Answer<Pooling> {
    let (x, y) = (sig.input(0)?, sig.output(0)?);
    if !(3..=5).contains(&x.rank()) {
        return Err(format!("x has rank {}, it takes 3 to 5", x.rank()));
    }
    let kernel = list(sig, "ksize", x.rank(), 1)?;
    let window = kernel.iter().fold(1usize, |a, &b| a.saturating_mul(b));
    if window > MOST_WINDOW {
        return Err(format!("attribute `ksize` has windows of {window} elements, it takes {MOST_WINDOW}"));
    }
    let w = Window::of(sig, x, y, kernel)?;
    let op = match (sig.op.as_str(), sig.attrs.bool("exclusive").unwrap_or(true)) {
        ("MaxPoolV3", _) => Pool::Max,
        (_, true) => Pool::Average,
        (_, false) => Pool::AverageWithPads,
    };
    for (d, &window) in kernel.iter().enumerate() {
        let size = |ceil| Pooling::output_size(w.input[d], window, w.stride[d], w.dilation[d], w.pads[d], ceil);
        if w.output[d] != size(false) && w.output[d] != size(true) {
            return Err(format!("output 0 is {:?}, the window gives {} on spatial axis {d}", y.shape, size(false)));
        }
    }
    let planes = x.shape[0] * x.shape[1];
    if y.shape[..2] != x.shape[..2] {
        return Err(format!("output 0 is {:?}, x is {:?}", y.shape, x.shape));
    }
    Ok(Pooling {
        op,
        planes,
        input: w.input,
        output: w.output,
        kernel,
        stride: w.stride,
        dilation: w.dilation,
        pad_before: w.pads.map(|p| p[0]),
        pad_after: w.pads.map(|p| p[1]),
    })
}

impl Kernel for Pooled {
    fn units(&self) -> usize {
        self.plan.units()
    }

    fn work(&self) -> u64 {
        let window: usize = self.plan.kernel.iter().product();
        self.plan.output.iter().fold((self.plan.planes * window) as u64, |a, &b| a.saturating_mul(b as u64))
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        with_kind!(self.kind, [F32, F16, Bf16], T => {
            let x = io.input::<T>(0)?;
            io.output::<T, ()>(0, |out| {
                self.plan.run(units, x, out);
                Ok(())
            })
        }, else Err(Error::internal("type of a pooling")))
    }
}

/// The kernel of a pooling over all spatial axes.
///
/// # Errors
/// Fails with a reason if types or shapes are not supported.
pub fn build_global(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let kind = sig.one_kind(FLOATS)?;
    channels_second(sig)?;
    if cube::is_grouped(sig) {
        return cube::global(sig, &sig.plain_form()?);
    }
    sig.plain(0)?;
    let x = sig.input(0)?;
    if x.rank() < 3 {
        return Err(format!("x has rank {}, it takes 3 and above", x.rank()));
    }
    over_planes(if sig.op == "GlobalMaxPool" { Reduce::Max } else { Reduce::Mean }, kind, sig)
}

/// The kernel of a reduction of all spatial axes.
fn over_planes(op: Reduce, kind: Kind, sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let x = sig.input(0)?;
    let axes: Vec<usize> = (2..x.rank()).collect();
    let plan = Reduction::new(op, &x.shape, &axes).map_err(|e| e.to_string())?;
    super::reduce::kernel(kind, plan, sig)
}
