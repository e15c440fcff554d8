//! Convolutions with few output positions whose constant filter comes packed: `x[N, C, ...]`,
//! `filter[O / 16, C / groups * taps, 16]` whose original shape is `[O, C / groups, ...]` -> `y[N,
//! O, ...]`, in f32. The packed filter may also follow the original filter (`conv.rs`).
use crate::families::fused::Follows;
use crate::kernel::{Io, Kernel};
use crate::sig::{Answer, Sig};
use ge_kernels::conv::{ConvSpec, RowConv};
use ge_kernels::view::Kind;
use ge_plugin_api::{Error, Result};
use std::ops::Range;

/// Number of axes of the packed filter.
pub const RANK: usize = 3;
/// Number of output channels per panel.
const PANEL: usize = 16;

/// The axes of the packed filter.
pub fn panels(s: &ConvSpec) -> [usize; RANK] {
    let own = (s.channels_out / s.groups).div_ceil(PANEL);
    [s.groups * own, s.channels_in / s.groups * s.taps(), PANEL]
}

struct Rows {
    plan: RowConv,
    follows: Follows,
    /// Offset of the packed filter in the given filter, in elements.
    from: usize,
}

/// The kernel of a convolution of these sizes whose filter consists only of the packed filter.
///
/// # Errors
/// Fails with a reason if types or sizes are not supported.
pub fn build(sig: &Sig, spec: &ConvSpec, follows: Follows) -> Answer<Box<dyn Kernel>> {
    let plan = rows(spec)?.ok_or("its filter comes packed for few places, and there are many")?;
    planned(sig, spec, plan, follows, 0)
}

/// The plan with positions as rows; `None` if there are many positions.
///
/// # Errors
/// Fails with a reason if the sizes are wrong.
pub fn rows(spec: &ConvSpec) -> Answer<Option<RowConv>> {
    RowConv::new(spec).map_err(|e| e.to_string())
}

/// The kernel of a plan whose packed filter begins at element `from` of the given filter.
///
/// # Errors
/// See [`build`].
pub fn planned(sig: &Sig, spec: &ConvSpec, plan: RowConv, follows: Follows, from: usize) -> Answer<Box<dyn Kernel>> {
    for i in 0..sig.inputs.len() {
        if sig.opt_input(i).is_some() {
            sig.kind_in(i, &[Kind::F32])?;
        }
    }
    let y = sig.output(0)?;
    if y.kind != Some(Kind::F32) {
        return Err(format!("output 0 is {}, of a packed filter it is f32", y.dtype));
    }
    let (own, want) = (sig.input(1)?, panels(spec));
    let packed: usize = want.iter().product();
    if own.count().checked_sub(from) != Some(packed) || (from == 0 && own.shape != want) {
        return Err(format!("the packed filter is {:?}, it takes {want:?} behind {from} numbers", own.shape));
    }
    Ok(Box::new(Rows { plan, follows, from }))
}

impl Kernel for Rows {
    fn units(&self) -> usize {
        self.plan.units()
    }

    fn shared(&self) -> usize {
        self.plan.shared()
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
        let (x, w) = (io.input::<f32>(0)?, &io.input::<f32>(1)?[self.from..]);
        let e = self.follows.epilogue(io)?;
        io.output::<f32, ()>(0, |out| self.plan.run(units, x, w, &e, out).map_err(|e| Error::failed(e.to_string())))
    }
}
