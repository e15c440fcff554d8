//! Convolutions in half precision by the plans for single precision (`ge_kernels::conv::HalfConv`):
//! f16, bf16, or one of them to f32. The filter comes plain, by phases, packed for positions as
//! rows, or plain followed by the packed form; see `conv.rs`. It has the type of the input in each.
use crate::families::fused::Follows;
use crate::families::row_conv;
use crate::kernel::{Io, Kernel};
use crate::sig::Answer;
use ge_kernels::conv::{Conv, ConvSpec, FilterForms, FilterPlan, HalfConv, packed_row_filter_len};
use ge_kernels::simd::isa::PanelElem;
use ge_kernels::view::Kind;
use ge_kernels::with_kind;
use ge_plugin_api::{Error, Result};
use std::ops::Range;

/// The forms in which a filter may follow its plain form.
pub const FORMS: FilterForms = FilterForms { changed: false, rows: true, taps: false };

/// Layout of a given filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Plain.
    Plain,
    /// By phases of the stride.
    Phases,
    /// By phases, in panels.
    PhasePanels,
    /// Packed for positions as rows.
    Packed,
    /// Plain, followed by the packed form.
    PlainAndPacked,
}

struct Halves {
    /// Type of the input and the filter, and of all other tensors.
    kinds: [Kind; 2],
    plan: HalfConv,
    follows: Follows,
    /// See [`Kernel::lays_out`].
    lays_out: u64,
}

/// The kernel of a convolution of these sizes, whose filter comes in this layout with `count`
/// elements. A plain filter only has a kernel if it and the images are small.
///
/// # Errors
/// Fails with a reason if the sizes or the length of the filter are not supported.
pub fn build(
    spec: &ConvSpec,
    (layout, count): (Layout, usize),
    follows: Follows,
    kinds: [Kind; 2],
    lays_out: u64,
) -> Answer<Box<dyn Kernel>> {
    let some = HalfConv::some_images(spec).map_err(|e| e.to_string())?;
    let conv = || Conv::new(&some).map_err(|e| e.to_string());
    let given = |conv: Conv| FilterPlan::Given(Box::new(conv));
    let plan = match layout {
        Layout::Plain => HalfConv::takes(spec).then(|| conv().map(|c| given(c.in_singles()))).transpose()?,
        Layout::Phases => conv()?.with_filter_by_phases().map(given),
        Layout::PhasePanels => conv()?.with_filter_by_phase_panels().map(given),
        Layout::Packed => row_conv::rows(&some)?.map(|r| FilterPlan::Rows(Box::new(r))),
        Layout::PlainAndPacked => {
            let forms = FilterForms::of_len(&some, count).filter(|f| !f.changed);
            let forms = forms.ok_or_else(|| format!("the filter has {count} numbers, which is none of its forms"))?;
            Some(FilterPlan::cheapest(&some, forms).map_err(|e| e.to_string())?)
        }
    };
    let plan = plan.ok_or("its filter comes in a form that it does not read")?;
    let from = match (&plan, layout) {
        (FilterPlan::Rows(_), Layout::PlainAndPacked) => {
            count.saturating_sub(packed_row_filter_len(&some).unwrap_or(usize::MAX))
        }
        _ => 0,
    };
    let plan = HalfConv::new(spec, plan, from).map_err(|e| e.to_string())?;
    let want = plan.filter_len();
    if count < want || (count > want && layout != Layout::PlainAndPacked) {
        return Err(format!("the filter has {count} numbers, in its form it takes {want}"));
    }
    Ok(Box::new(Halves { kinds, plan, follows, lays_out }))
}

impl Kernel for Halves {
    fn units(&self) -> usize {
        self.plan.units()
    }

    fn shared(&self) -> usize {
        self.plan.shared()
    }

    fn work(&self) -> u64 {
        self.plan.effort()
    }

    fn products(&self) -> u64 {
        self.plan.work()
    }

    fn moved(&self) -> u64 {
        self.plan.moved()
    }

    fn scanned(&self) -> u64 {
        self.plan.widened()
    }

    fn lays_out(&self) -> u64 {
        self.lays_out
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        let unknown = || Err(Error::internal("type of a convolution of halves"));
        let [kind, gives] = self.kinds;
        if gives == kind {
            with_kind!(kind, [F16, Bf16], T => self.run_in::<T, T>(units, io), else unknown())
        } else {
            with_kind!(kind, [F16, Bf16], T => self.run_in::<T, f32>(units, io), else unknown())
        }
    }
}

impl Halves {
    fn run_in<T: PanelElem, U: PanelElem>(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        let (x, w) = (io.input::<T>(0)?, io.input::<T>(1)?);
        let e = self.follows.epilogue(io)?;
        io.output::<U, ()>(0, |out| self.plan.run(units, x, w, &e, out).map_err(|e| Error::failed(e.to_string())))
    }
}
