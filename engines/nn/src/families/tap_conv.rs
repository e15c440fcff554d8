//! Convolutions that leave out the taps that only read the border: `x[N, C, ...]`, `filter[...]`
//! laid out by taps, whose original shape is `[O, C / groups, ...]` -> `y[N, O, ...]`, in f32.
use crate::families::fused::Follows;
use crate::kernel::{Io, Kernel};
use crate::sig::{Answer, Sig};
use ge_kernels::conv::{ConvSpec, TapConv, tap_filter_len};
use ge_kernels::view::Kind;
use ge_plugin_api::{Error, Result};
use std::ops::Range;

/// Number of axes of the filter.
const RANK: usize = 1;

struct Taps {
    plan: TapConv,
    follows: Follows,
}

/// Whether a filter of this rank and length is laid out by taps. A filter followed by its transform
/// for minimal filtering is longer: it has at least five times as many numbers as the filter.
pub fn takes(spec: &ConvSpec, rank: usize, count: usize) -> bool {
    rank == RANK && spec.transposed.is_none() && tap_filter_len(spec) == Some(count)
}

/// The kernel of a convolution of these sizes whose filter is laid out by taps.
///
/// # Errors
/// Fails with a reason if types or sizes are not supported.
pub fn build(sig: &Sig, spec: &ConvSpec, follows: Follows) -> Answer<Box<dyn Kernel>> {
    for i in 0..sig.inputs.len() {
        if sig.opt_input(i).is_some() {
            sig.kind_in(i, &[Kind::F32])?;
        }
    }
    let y = sig.output(0)?;
    if y.kind != Some(Kind::F32) {
        return Err(format!("output 0 is {}, of a filter laid out by taps it is f32", y.dtype));
    }
    let plan = TapConv::new(spec).map_err(|e| e.to_string())?;
    let plan = plan.ok_or("its filter comes laid out by taps, which these sizes do not read")?;
    Ok(Box::new(Taps { plan, follows }))
}

impl Kernel for Taps {
    fn units(&self) -> usize {
        self.plan.units()
    }

    fn work(&self) -> u64 {
        self.plan.effort() / 16
    }

    fn products(&self) -> u64 {
        self.plan.work()
    }

    fn moved(&self) -> u64 {
        self.plan.moved()
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        let (x, w) = (io.input::<f32>(0)?, io.input::<f32>(1)?);
        let e = self.follows.epilogue(io)?;
        io.output::<f32, ()>(0, |out| self.plan.run(units, x, w, &e, out).map_err(|e| Error::failed(e.to_string())))
    }
}
