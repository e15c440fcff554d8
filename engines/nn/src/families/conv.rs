//! `Conv2D`, `DepthwiseConv2D`, `Conv3D`, `Conv2DTransposeD`, `Conv3DTransposeD`: `x[N, C, ...]`,
//! `filter[O, C / groups, ...]` (transposed: `[C, O / groups, ...]`), `bias[O]` -> `y[N, O, ...]`.
//! f32, f16, bf16, summed in single precision; 16-bit operands may also give f32, with bias and
//! residual in f32. `FusedConv`: `activation(convolution + bias + residual)`, rounded once. f16 and
//! bf16 are also supported in the layouts of the cube unit (`cube.rs`).
//! A filter may come in another form, with its sizes as original shape. With one axis: the
//! filter followed by its transform for minimal filtering or, for a transposed convolution, the
//! filter grouped by phases; or the filter laid out by taps (`tap_conv.rs`), which its length tells.
//! With three axes: packed for positions as rows (`row_conv.rs`). `passes/filters.rs` makes these
//! forms. With two axes, the first of which is one
//! (`passes/open_weights.rs`): for a transposed convolution the phases in panels; for others the
//! filter followed by its transformed form, its packed form or both, for images of any size. A
//! filter of f16 or bf16 has no transformed form, which would be rounded (`half_conv.rs`).
use crate::families::half_conv::{self, Layout};
use crate::families::window::{Window, list, spatial};
use crate::families::{cube, fused, row_conv, tap_conv};
use crate::kernel::{Io, Kernel, divided, near};
use crate::sig::{Answer, FLOATS, Sig, Tensor};
use ge_kernels::conv::{
    Conv, ConvSpec, FilterForms, FilterPlan, HalfConv, change_filters, filter_by_phase_panels, filter_by_phases,
    pack_row_filter, pack_tap_filter,
};
use ge_kernels::simd::isa::PanelElem;
use ge_kernels::view::Kind;
use ge_kernels::with_kind;
use ge_plugin_api::{Error, Result};
use std::ops::Range;

/// Number of axes of a filter that comes in several forms.
const AT_HAND: usize = 2;
/// Number of axes of a transposed convolution's filter that comes as phases in panels.
const PANELS: usize = 2;

#[derive(Clone)]
struct Convolution {
    /// Type of the input and the weights.
    kind: Kind,
    /// Type of all other tensors.
    gives: Kind,
    conv: Conv,
    follows: fused::Follows,
    /// Number of elements that a launch converts to other layouts.
    lays_out: u64,
}

/// The kernel of a convolution with the steps fused behind it; the filter may come in any of its
/// forms.
///
/// # Errors
/// Fails with a reason if types, shapes, attributes or inputs are not supported.
pub fn build(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    fused::followed(sig, alone(sig)?)
}

/// The kernel without the fused steps.
fn alone(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let (kind, gives) = sig.factors(FLOATS)?;
    let (act, residual) = fused::epilogue(sig, "FusedConv")?;
    if let Some(given) = given_ahead(sig)? {
        let (spec, bias) = sizes(&given)?;
        let follows = fused::Follows { bias, residual, act };
        let (rank, count) = (sig.input(1)?.rank(), sig.input(1)?.count());
        if kind != Kind::F32 {
            return in_halves(sig, &spec, follows, [kind, gives]);
        }
        if rank == row_conv::RANK {
            return row_conv::build(sig, &spec, follows);
        }
        if rank == AT_HAND && spec.transposed.is_none() {
            return in_some_form(sig, &spec, follows, [kind, gives]);
        }
        if tap_conv::takes(&spec, rank, count) {
            return tap_conv::build(sig, &spec, follows);
        }
        let plan = Conv::new(&spec).map_err(|e| e.to_string())?;
        let plan = match spec.transposed {
            Some(_) if rank == PANELS => plan.with_filter_by_phase_panels(),
            Some(_) => plan.with_filter_by_phases(),
            None => plan.with_changed_filters().map(|(plan, _)| plan),
        };
        let conv = plan.ok_or("its filter comes changed")?;
        let want = conv.weights();
        if count != want {
            return Err(format!("the filter has {count} numbers, changed it takes {want}"));
        }
        return Ok(Box::new(Convolution { kind, gives, conv, follows, lays_out: 0 }));
    }
    let plain = sig.plain_form()?;
    let (spec, bias) = sizes(&plain)?;
    let follows = fused::Follows { bias, residual, act };
    if cube::is_grouped(sig) {
        return cube::conv(sig, &plain, spec, follows);
    }
    sig.plain(0)?;
    sig.plain(1)?;
    if kind != Kind::F32 && HalfConv::takes(&spec) {
        let given = (Layout::Plain, sig.input(1)?.count());
        return half_conv::build(&spec, given, follows, [kind, gives], converted(sig)?);
    }
    let conv = Conv::new(&spec).map_err(|e| e.to_string())?;
    let (conv, lays_out) = if kind == Kind::F32 { (conv.in_singles(), 0) } else { (conv, converted(sig)?) };
    Ok(Box::new(Convolution { kind, gives, conv, follows, lays_out }))
}

/// The kernel of a convolution in half precision whose filter comes in another form.
fn in_halves(sig: &Sig, spec: &ConvSpec, follows: fused::Follows, kinds: [Kind; 2]) -> Answer<Box<dyn Kernel>> {
    let (rank, count, lays_out) = (sig.input(1)?.rank(), sig.input(1)?.count(), converted(sig)?);
    let layout = match spec.transposed {
        Some(_) if rank == PANELS => Layout::PhasePanels,
        Some(_) => Layout::Phases,
        None if rank == AT_HAND && HalfConv::takes(spec) => Layout::PlainAndPacked,
        // With large images the filter itself is read, which comes first.
        None if rank == AT_HAND => {
            let conv = Conv::new(spec).map_err(|e| e.to_string())?;
            let [kind, gives] = kinds;
            return Ok(Box::new(Convolution { kind, gives, conv, follows, lays_out }));
        }
        None if rank == row_conv::RANK => Layout::Packed,
        None => return Err(format!("a transformed filter is f32, not {}", kinds[0].name())),
    };
    half_conv::build(spec, (layout, count), follows, kinds, lays_out)
}

/// Elements that a launch in half precision converts: the cube unit needs channels innermost, so x
/// is converted on the way in and y on the way out.
fn converted(sig: &Sig) -> Answer<u64> {
    Ok(sig.input(0)?.count() as u64 + sig.output(0)?.count() as u64)
}

/// The kernel of a convolution whose filter comes in several forms; it uses the form that is
/// cheapest for its sizes.
fn in_some_form(
    sig: &Sig,
    spec: &ConvSpec,
    follows: fused::Follows,
    [kind, gives]: [Kind; 2],
) -> Answer<Box<dyn Kernel>> {
    let count = sig.input(1)?.count();
    let forms = FilterForms::of_len(spec, count);
    let forms = forms.ok_or_else(|| format!("the filter has {count} numbers, which is none of its forms"))?;
    match FilterPlan::cheapest(spec, forms).map_err(|e| e.to_string())? {
        FilterPlan::Rows(plan) => {
            let packed = row_conv::panels(spec).iter().product::<usize>();
            row_conv::planned(sig, spec, *plan, follows, count.saturating_sub(packed))
        }
        FilterPlan::Given(conv) | FilterPlan::Changed(conv) => {
            Ok(Box::new(Convolution { kind, gives, conv: *conv, follows, lays_out: 0 }))
        }
        FilterPlan::Taps(_) => Err("a filter laid out by taps comes alone".to_string()),
    }
}

/// The signature with the original filter, if the filter comes in another form.
fn given_ahead(sig: &Sig) -> Answer<Option<Sig>> {
    let Tensor { origin: Some((format, whole)), .. } = sig.input(1)? else { return Ok(None) };
    let w = sig.input(1)?;
    let ranks: &[usize] = if sig.op.contains("Transpose") { &[1, PANELS] } else { &[1, AT_HAND, row_conv::RANK] };
    if !ranks.contains(&w.rank()) || whole.len() == w.rank() {
        return Ok(None);
    }
    sig.plain(0)?;
    let mut given = sig.clone();
    given.inputs[1] = Some(Tensor { format: *format, shape: whole.clone(), origin: None, ..w.clone() });
    Ok(Some(given))
}

/// The data that kernels read instead of a constant filter `w` of a convolution, and its axes.
/// `None` if they read the filter itself or if its numbers are too large to be transformed. For
/// half precision the data are the given numbers in another order, with zeros between them.
pub fn laid_out(sig: &Sig, w: &[f32]) -> Option<(Vec<f32>, Vec<u64>)> {
    let spec = plain_sizes(sig)?;
    let (spec, forms) = planned_sizes(sig, spec)?;
    let plan = Conv::new(&spec).ok()?;
    if plan.is_of_one_place() || plan.is_spread() {
        return None;
    }
    if plan.with_filter_by_phase_panels().is_some() {
        let all = filter_by_phase_panels(&spec, w)?;
        let dims = vec![1, all.len() as u64];
        return Some((all, dims));
    }
    if let Some(laid) = by_phases(&spec, w) {
        return Some(laid);
    }
    match FilterPlan::cheapest(&spec, forms).ok()? {
        FilterPlan::Given(_) => None,
        FilterPlan::Changed(_) => {
            let all = [w, &change_filters(&spec, w)?].concat();
            let dims = vec![all.len() as u64];
            Some((all, dims))
        }
        FilterPlan::Taps(_) => {
            let all = pack_tap_filter(&spec, w)?;
            let dims = vec![all.len() as u64];
            Some((all, dims))
        }
        FilterPlan::Rows(_) => {
            let all = pack_row_filter(&spec, w)?;
            let [panels, depth, panel] = row_conv::panels(&spec);
            Some((all, vec![panels as u64, depth as u64, panel as u64]))
        }
    }
}

/// The filter of a transposed convolution by phases, which do not depend on image sizes, and its
/// axes.
fn by_phases(spec: &ConvSpec, w: &[f32]) -> Option<(Vec<f32>, Vec<u64>)> {
    Conv::new(spec).ok()?.with_filter_by_phases()?;
    let all = filter_by_phases(spec, w)?;
    let dims = vec![all.len() as u64];
    Some((all, dims))
}

/// The data that kernels read instead of a constant filter `w` of a convolution for images of any
/// size, some of which are given in `sigs`: the filter followed by the forms that these sizes use.
/// `None` if the first size uses the filter unchanged or if the filter is large.
pub fn at_hand(sigs: &[Sig], w: &[f32]) -> Option<(Vec<f32>, Vec<u64>)> {
    let sizes = || sigs.iter().map_while(|sig| planned_sizes(sig, plain_sizes(sig)?));
    let (first, forms) = sizes().next()?;
    if let Some(laid) = by_phases(&first, w) {
        return Some(laid);
    }
    let sizes: Vec<ConvSpec> = sizes().map(|(spec, _)| spec).collect();
    let all = FilterForms::of_some(&sizes).among(forms).lay_out(&first, w)?;
    let dims = vec![1, all.len() as u64];
    Some((all, dims))
}

/// Sizes of a convolution whose input and filter are in plain layouts; `None` for other layouts.
fn plain_sizes(sig: &Sig) -> Option<ConvSpec> {
    let plain = sig.plain(0).is_ok() && sig.plain(1).is_ok() && !cube::is_grouped(sig);
    sizes(sig).ok().filter(|_| plain).map(|(spec, _)| spec)
}

/// The sizes for which a plan reads a constant filter, and the forms of the filter. `None` for
/// half precision if a filter that is not transposed is read as it is.
fn planned_sizes(sig: &Sig, spec: ConvSpec) -> Option<(ConvSpec, FilterForms)> {
    if sig.input(0).ok()?.kind == Some(Kind::F32) {
        return Some((spec, FilterForms::KNOWN));
    }
    let pays = spec.transposed.is_some() || HalfConv::takes(&spec);
    let some = HalfConv::some_images(&spec).ok().filter(|_| pays)?;
    Some((some, half_conv::FORMS))
}

/// Sizes of a convolution in plain layouts, and whether it has a bias.
pub fn sizes(sig: &Sig) -> Answer<(ConvSpec, bool)> {
    let (x, w, y) = (sig.input(0)?, sig.input(1)?, sig.output(0)?);
    if w.rank() != x.rank() || y.rank() != x.rank() {
        return Err(format!("filter {:?} and output {:?} for x {:?}", w.shape, y.shape, x.shape));
    }
    let kernel = spatial(w)?;
    let turned = sig.op.contains("Transpose");
    let window = Window::of(sig, x, y, kernel)?;
    let groups = match sig.op.as_str() {
        "DepthwiseConv2D" => x.shape[1],
        _ => usize::try_from(sig.int("groups", 1)).map_err(|_| "attribute `groups` is negative")?,
    };
    let mut spec = ConvSpec {
        batch: x.shape[0],
        groups,
        channels_in: x.shape[1],
        channels_out: y.shape[1],
        input: window.input,
        kernel,
        stride: window.stride,
        dilation: window.dilation,
        pad_before: window.pads.map(|p| p[0]),
        pad_after: window.pads.map(|p| p[1]),
        transposed: None,
    };
    if turned {
        transpose(sig, &mut spec, &window)?;
    }
    let wanted = match turned {
        false => [spec.channels_out, spec.channels_in / groups.max(1)],
        true => [spec.channels_in, spec.channels_out / groups.max(1)],
    };
    if w.shape[..2] != wanted {
        return Err(format!("filter is {:?}, channels and groups want {wanted:?} first", w.shape));
    }
    let output = spec.output().map_err(|e| e.to_string())?;
    if output != window.output || y.shape[0] != spec.batch {
        return Err(format!("output 0 is {:?}, the window gives {output:?}", y.shape));
    }
    let bias = match sig.opt_input(2) {
        None => false,
        Some(b) if b.count() == spec.channels_out => true,
        Some(b) => return Err(format!("input 2 `bias` is {:?}, it takes [{}]", b.shape, spec.channels_out)),
    };
    Ok((spec, bias))
}

/// Handles what is specific to transposed convolutions: output padding, and pads derived from a
/// given output size.
fn transpose(sig: &Sig, spec: &mut ConvSpec, window: &Window) -> Answer<()> {
    let rank = sig.input(0)?.rank();
    let extra = match sig.attrs.ints("output_padding") {
        None | Some([]) => [0; 3],
        Some(_) => list(sig, "output_padding", rank, 0)?,
    };
    let sized = sig.attrs.ints("input_size").is_some_and(|v| !v.is_empty());
    let mode = sig.text("auto_pad", "NOTSET");
    if sized || mode.starts_with("SAME") {
        for (d, more) in extra.iter().enumerate() {
            let full = (window.input[d].max(1) - 1)
                .checked_mul(window.stride[d])
                .and_then(|v| v.checked_add((window.kernel[d] - 1).checked_mul(window.dilation[d])? + 1 + more))
                .ok_or("sizes overflow")?;
            let total = full
                .checked_sub(window.output[d])
                .ok_or_else(|| format!("output {:?} is larger than the window gives", window.output))?;
            let less = total / 2;
            let at_end = mode == "SAME_UPPER";
            (spec.pad_before[d], spec.pad_after[d]) = if at_end { (less, total - less) } else { (total - less, less) };
        }
    }
    spec.transposed = Some(extra);
    Ok(())
}

impl Kernel for Convolution {
    fn units(&self) -> usize {
        self.conv.units()
    }

    fn shared(&self) -> usize {
        self.conv.shared()
    }

    fn work(&self) -> u64 {
        self.conv.effort()
    }

    fn products(&self) -> u64 {
        self.conv.work()
    }

    fn moved(&self) -> u64 {
        self.conv.moved()
    }

    fn schedules(&self) -> Vec<String> {
        let Some([rows, block]) = self.conv.divided() else { return Vec::new() };
        let [r, b] = self.conv.grain();
        let word = if r == 1 { "units" } else { "tiles" };
        near(word, [rows / r, block / b], |[x, y]| self.conv.takes_units(x.saturating_mul(r), y.saturating_mul(b)))
    }

    fn scheduled(&self, schedule: &str) -> Option<Box<dyn Kernel>> {
        let ([rows, block], [r, b]) = (divided(self, schedule)?, self.conv.grain());
        let conv = self.conv.clone().with_units(rows * r, block * b).ok()?;
        Some(Box::new(Convolution { conv, ..self.clone() }))
    }

    fn lays_out(&self) -> u64 {
        self.lays_out
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        let unknown = || Err(Error::internal("type of a convolution"));
        if self.gives == self.kind {
            with_kind!(self.kind, [F32, F16, Bf16], T => self.run_in::<T, T>(units, io), else unknown())
        } else {
            with_kind!(self.kind, [F16, Bf16], T => self.run_in::<T, f32>(units, io), else unknown())
        }
    }
}

impl Convolution {
    fn run_in<T: PanelElem, U: PanelElem>(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        let (x, w) = (io.input::<T>(0)?, io.input::<T>(1)?);
        let e = self.follows.epilogue(io)?;
        io.output::<U, ()>(0, |out| self.conv.run(units, x, w, &e, out).map_err(|e| Error::failed(e.to_string())))
    }
}
