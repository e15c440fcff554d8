//! Convolutions of half-precision numbers by the plans for single precision: transposed ones by
//! phases, three-by-three windows by minimal filtering, few positions as rows. Images and filter
//! are widened, which is exact; the plan computes the sums; each sum is finished with bias,
//! residual and activation, and rounded once.
//!
//! Some images are widened at a time, so that they stay in the second-level cache. The filter is
//! widened once by each call. Both cost little next to the products, unless the filter is large and
//! the images are few and small.
use crate::conv::filter::FilterPlan;
use crate::conv::finish::{Runs, finish};
use crate::conv::spec::{ConvError, ConvSpec};
use crate::gemm::Epilogue;
use crate::scratch::with_scratch;
use crate::simd::isa::PanelElem;
use crate::simd::lines::widen;
use crate::view::{Out, Parts};
use std::ops::Range;

/// Most elements of the images, or of their results, that are computed at a time, unless a single
/// image has more.
const NEAR: usize = 32 * 1024;
/// Most elements of a plain filter that is widened.
const MOST_FILTER: usize = 512 * 1024;
/// Most elements of an image, and of its result, for which a plain filter is widened. With larger
/// ones the singles leave the second-level cache, and the plans that read halves are faster.
const MOST_IMAGE: usize = 128 * 1024;

/// A planned convolution of halves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HalfConv {
    /// The plan for some images.
    plan: FilterPlan,
    /// The sizes of some images.
    spec: ConvSpec,
    /// How many times the plan is run.
    times: usize,
    /// Positions of an output image.
    places: usize,
    /// Offset of the filter of the plan in the given filter, in elements.
    from: usize,
}

impl HalfConv {
    /// The sizes for which [`HalfConv::new`] takes a plan: those of the convolution, with the
    /// number of images that are computed at a time.
    ///
    /// # Errors
    /// Fails if the sizes are wrong ([`ConvSpec::check`]).
    pub fn some_images(s: &ConvSpec) -> Result<ConvSpec, ConvError> {
        s.check()?;
        let most = elements(s)?;
        let batch = (1..=s.batch.max(1)).rev().find(|b| s.batch.is_multiple_of(*b) && b.saturating_mul(most) <= NEAR);
        Ok(ConvSpec { batch: batch.unwrap_or(1), ..s.clone() })
    }

    /// Whether this is faster than a plan that reads halves ([`Conv`](crate::conv::Conv)) if the
    /// filter comes in its plain form: filter and images are small, and windows have several taps.
    pub fn takes(s: &ConvSpec) -> bool {
        let filter = (s.channels_in / s.groups.max(1)).saturating_mul(s.taps()).saturating_mul(s.channels_out);
        let many = s.taps() > 1 || s.transposed.is_some();
        many && filter <= MOST_FILTER && elements(s).is_ok_and(|n| n <= MOST_IMAGE)
    }

    /// The convolution `whole` by a plan for [`HalfConv::some_images`]. The filter of the plan
    /// begins at element `from` of the given filter.
    ///
    /// # Errors
    /// Fails if the sizes are wrong ([`ConvSpec::check`]).
    pub fn new(whole: &ConvSpec, plan: FilterPlan, from: usize) -> Result<HalfConv, ConvError> {
        let spec = HalfConv::some_images(whole)?;
        let (times, places) = (whole.batch / spec.batch, whole.output()?.iter().product());
        Ok(HalfConv { plan, spec, times, places, from })
    }

    fn units_at_once(&self) -> usize {
        if self.places > 0 { self.plan.units() } else { 0 }
    }

    /// Number of units of work.
    pub fn units(&self) -> usize {
        self.times * self.units_at_once()
    }

    /// Number of consecutive units that share preparation.
    pub fn shared(&self) -> usize {
        self.plan.shared()
    }

    /// Multiply-adds of the whole convolution.
    pub fn work(&self) -> u64 {
        self.spec.work(self.places).saturating_mul(self.times as u64)
    }

    /// Approximate vector operations of the whole convolution.
    pub fn effort(&self) -> u64 {
        match &self.plan {
            FilterPlan::Given(conv) | FilterPlan::Changed(conv) => conv.effort().saturating_mul(self.times as u64),
            FilterPlan::Rows(_) | FilterPlan::Taps(_) => self.work() / 16,
        }
    }

    /// Elements read and written: input, weights and output.
    pub fn moved(&self) -> u64 {
        self.spec.moved(self.places).saturating_mul(self.times as u64)
    }

    /// Elements that each call widens, however few its units are.
    pub fn widened(&self) -> u64 {
        (self.plan.weights() + self.size_in()) as u64
    }

    /// Number of elements that the given filter must have.
    pub fn filter_len(&self) -> usize {
        self.from.saturating_add(self.plan.weights())
    }

    fn size_in(&self) -> usize {
        self.spec.batch * self.spec.channels_in * self.spec.input.iter().product::<usize>()
    }

    fn size_out(&self) -> usize {
        self.spec.batch * self.spec.channels_out * self.places
    }

    /// Computes the units. The bias of the epilogue has one number per channel,
    /// [`Bias::PerRow`](crate::gemm::Bias::PerRow).
    ///
    /// # Errors
    /// Returns `Short` with the name of the operand.
    pub fn run<T: PanelElem, U: PanelElem>(
        &self,
        units: Range<usize>,
        x: &[T],
        w: &[T],
        epilogue: &Epilogue<'_, U>,
        out: &mut Out<'_, U>,
    ) -> Result<(), ConvError> {
        let whole = ConvSpec { batch: self.spec.batch * self.times, ..self.spec.clone() };
        let weights = ("weights", w.len(), self.filter_len());
        whole.check_lengths((x.len(), out.len()), weights, self.places, epilogue)?;
        let end = units.end.min(self.units());
        let (each, size_in, size_out) = (self.units_at_once(), self.size_in(), self.size_out());
        if units.start >= end {
            return Ok(());
        }
        let plain = Epilogue::default();
        let step = if size_out <= NEAR { each } else { self.shared().max(1) };
        with_scratch(self.plan.weights().next_multiple_of(16) + size_in.next_multiple_of(16) + size_out, |s| {
            let (filter, s) = s.split_at_mut(self.plan.weights().next_multiple_of(16));
            let (images, sums) = s.split_at_mut(size_in.next_multiple_of(16));
            let (filter, images) = (&mut filter[..self.plan.weights()], &mut images[..size_in]);
            widen(&w[self.from..][..filter.len()], filter);
            let mut sums = Sums { memory: sums, lent: Vec::new() };
            for some in units.start / each..end.div_ceil(each) {
                widen(&x[some * size_in..][..size_in], images);
                let first = units.start.saturating_sub(some * each);
                let last = (end - some * each).min(each);
                for from in (first / step * step..last).step_by(step) {
                    let here = from.max(first)..(from + step).min(last);
                    self.plan.run(here, images, filter, &plain, &mut Out::by_parts(size_out, &mut sums))?;
                    self.finish(some * size_out, &mut sums, epilogue, out);
                }
            }
            Ok(())
        })
    }

    /// Finishes the sums that were lent. The results of these images begin at `first`.
    fn finish<U: PanelElem>(
        &self,
        first: usize,
        sums: &mut Sums<'_>,
        epilogue: &Epilogue<'_, U>,
        out: &mut Out<'_, U>,
    ) {
        sums.lent.sort_unstable_by_key(|r| r.start);
        let mut done = 0;
        for lent in sums.lent.drain(..) {
            let mut at = lent.start.max(done);
            while at < lent.end {
                let plane = at / self.places;
                let len = ((plane + 1) * self.places).min(lent.end) - at;
                let runs = Runs { count: 1, len, pitch: len };
                let sums = &mut sums.memory[at..at + len];
                finish(epilogue, plane % self.spec.channels_out, runs, sums, out, first + at);
                at += len;
            }
            done = done.max(lent.end);
        }
    }
}

/// Elements of an image or of its result, whichever are more.
fn elements(s: &ConvSpec) -> Result<usize, ConvError> {
    let of = |channels: usize, sizes: [usize; 3]| sizes.into_iter().fold(channels, usize::saturating_mul);
    Ok(of(s.channels_in, s.input).max(of(s.channels_out, s.output()?)))
}

/// Sums in working memory, and which of them were lent.
struct Sums<'s> {
    memory: &'s mut [f32],
    lent: Vec<Range<usize>>,
}

impl Parts<f32> for Sums<'_> {
    fn part(&mut self, start: usize, len: usize) -> Option<&mut [f32]> {
        let end = start.checked_add(len)?;
        match self.lent.last_mut() {
            Some(last) if last.end == start => last.end = end,
            _ => self.lent.push(start..end),
        }
        self.memory.get_mut(start..end)
    }
}
