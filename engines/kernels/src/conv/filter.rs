//! Chooses the cheapest form of a constant filter in single precision. The choice depends on sizes
//! alone and is the same for every instruction set. If the image sizes are known when a model is
//! compiled, the filter is stored in that form. For images of any size it is stored in several
//! forms, one after the other.
use crate::conv::rows::{RowConv, pack_row_filter, packed_row_filter_len};
use crate::conv::spec::ConvSpec;
use crate::conv::taps::TapConv;
use crate::conv::winograd::filters::{change_filters, changed_filters_len};
use crate::conv::{Conv, ConvError};
use crate::gemm::Epilogue;
use crate::view::Out;
use std::ops::Range;

/// Most elements of transformed filters. Up to this size they stay in the caches from run to run,
/// and reading them takes less time than transforming them.
const MOST_AHEAD: usize = 512 * 1024;
/// Most elements of a filter that is stored in several forms. Larger filters are read from memory
/// in any form.
const MOST_AT_HAND: usize = 512 * 1024;

/// Fewest multiply-adds of a convolution that is computed tap by tap.
const LARGE: u64 = 1 << 22;

/// A planned convolution in single precision, by the form of filter that it reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilterPlan {
    /// The plain filter.
    Given(Box<Conv>),
    /// The plain filter followed by its transform for minimal filtering
    /// ([`change_filters`](crate::conv::change_filters)).
    Changed(Box<Conv>),
    /// Packed, with output positions as rows ([`pack_row_filter`](crate::conv::pack_row_filter)).
    Rows(Box<RowConv>),
    /// Laid out by taps ([`pack_tap_filter`](crate::conv::pack_tap_filter)).
    Taps(Box<TapConv>),
}

impl FilterPlan {
    /// The cheapest plan if the filter is available in its plain form and in `forms`.
    ///
    /// # Errors
    /// Fails if the sizes are wrong ([`ConvSpec::check`]) or a plan needs too much memory (`Copy`).
    pub fn cheapest(s: &ConvSpec, forms: FilterForms) -> Result<FilterPlan, ConvError> {
        let plain = Conv::new(s)?;
        let few = forms.changed && changed_filters_len(s).is_some_and(|n| n <= MOST_AHEAD);
        let changed = few.then(|| plain.with_changed_filters()).flatten().filter(|(_, pays)| *pays);
        let (is_changed, conv) = match changed {
            Some((conv, _)) => (true, conv),
            None => (false, plain.in_singles()),
        };
        // Another layout must save a noticeable amount.
        let less = |cost: usize, than: usize| cost.saturating_add(cost / 16) < than;
        let rows = if forms.rows { RowConv::new(s)? } else { None };
        let rows = rows.filter(|r| less(r.cost(), conv.cycles()));
        let least = rows.as_ref().map_or_else(|| conv.cycles(), RowConv::cost);
        // Of small convolutions, and where almost all taps are inside, other plans are as fast.
        let pays = |t: &TapConv| t.work() >= LARGE && t.effort() <= t.work() / 16 * 15 && less(t.cost(), least);
        let taps = if forms.taps { TapConv::new(s)?.filter(pays) } else { None };
        Ok(match (taps, rows) {
            (Some(taps), _) => FilterPlan::Taps(Box::new(taps)),
            (None, Some(rows)) => FilterPlan::Rows(Box::new(rows)),
            (None, None) if is_changed => FilterPlan::Changed(Box::new(conv)),
            (None, None) => FilterPlan::Given(Box::new(conv)),
        })
    }

    /// Number of units of work.
    pub fn units(&self) -> usize {
        match self {
            FilterPlan::Given(conv) | FilterPlan::Changed(conv) => conv.units(),
            FilterPlan::Rows(rows) => rows.units(),
            FilterPlan::Taps(taps) => taps.units(),
        }
    }

    /// Number of consecutive units that share preparation.
    pub fn shared(&self) -> usize {
        match self {
            FilterPlan::Given(conv) | FilterPlan::Changed(conv) => conv.shared(),
            FilterPlan::Rows(rows) => rows.shared(),
            FilterPlan::Taps(_) => 1,
        }
    }

    /// Number of elements of the filter in the form that the plan reads.
    pub fn weights(&self) -> usize {
        match self {
            FilterPlan::Given(conv) | FilterPlan::Changed(conv) => conv.weights(),
            FilterPlan::Rows(rows) => rows.weights(),
            FilterPlan::Taps(taps) => taps.weights(),
        }
    }

    /// Computes the units.
    ///
    /// # Errors
    /// Returns `Short` with the name of the operand.
    pub fn run(
        &self,
        units: Range<usize>,
        x: &[f32],
        w: &[f32],
        epilogue: &Epilogue<'_, f32>,
        out: &mut Out<'_, f32>,
    ) -> Result<(), ConvError> {
        match self {
            FilterPlan::Given(conv) | FilterPlan::Changed(conv) => conv.run(units, x, w, epilogue, out),
            FilterPlan::Rows(rows) => rows.run(units, x, w, epilogue, out),
            FilterPlan::Taps(taps) => taps.run(units, x, w, epilogue, out),
        }
    }
}

/// The forms of a filter that follow its plain form, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilterForms {
    /// Transformed for minimal filtering.
    pub changed: bool,
    /// Packed, with output positions as rows.
    pub rows: bool,
    /// Laid out by taps, instead of the plain form: only for images of known sizes.
    pub taps: bool,
}

impl FilterForms {
    /// All forms that may follow the plain form.
    pub const ALL: FilterForms = FilterForms { changed: true, rows: true, taps: false };
    /// All forms for images of known sizes.
    pub const KNOWN: FilterForms = FilterForms { taps: true, ..FilterForms::ALL };

    /// Those of these forms that are also among `others`.
    pub fn among(self, others: FilterForms) -> FilterForms {
        FilterForms {
            changed: self.changed && others.changed,
            rows: self.rows && others.rows,
            taps: self.taps && others.taps,
        }
    }

    /// The forms that convolutions with the same filter and any of these sizes use. None if the
    /// first of these convolutions uses the plain filter, or if the filter is large, unless its
    /// windows lie side by side: images have few of these, and a model one such filter.
    pub fn of_some<'s>(sizes: impl IntoIterator<Item = &'s ConvSpec>) -> FilterForms {
        let mut out = FilterForms::default();
        for (k, s) in sizes.into_iter().enumerate() {
            match FilterPlan::cheapest(s, FilterForms::ALL) {
                Ok(FilterPlan::Changed(_)) => out.changed = true,
                Ok(FilterPlan::Rows(_)) => {
                    out.rows |= is_patches(s) || filter_len(s).is_some_and(|n| n <= MOST_AT_HAND)
                }
                _ if k == 0 && !is_patches(s) => return out,
                _ => {}
            }
        }
        out
    }

    /// The forms that a filter of `len` elements has in total. `None` if no combination of forms
    /// has this length.
    pub fn of_len(s: &ConvSpec, len: usize) -> Option<FilterForms> {
        let all = [(false, false), (false, true), (true, false), (true, true)];
        let all = all.into_iter().map(|(changed, rows)| FilterForms { changed, rows, taps: false });
        all.into_iter().find(|f| f.len(s) == Some(len))
    }

    /// Elements of a filter in its plain form and in these forms. `None` if it cannot have these
    /// forms or has too many elements to count.
    fn len(self, s: &ConvSpec) -> Option<usize> {
        let changed = if self.changed { changed_filters_len(s)? } else { 0 };
        let rows = if self.rows { packed_row_filter_len(s)? } else { 0 };
        filter_len(s)?.checked_add(changed)?.checked_add(rows)
    }

    /// The filter `w[O, C / groups, ...]` followed by its forms. A form is left out if it cannot be
    /// made, as when a number is too large for minimal filtering. `None` if `w` does not have the
    /// length of the filter, or if no form is left.
    pub fn lay_out(self, s: &ConvSpec, w: &[f32]) -> Option<Vec<f32>> {
        if filter_len(s) != Some(w.len()) {
            return None;
        }
        let changed = if self.changed { change_filters(s, w) } else { None };
        let rows = if self.rows { pack_row_filter(s, w) } else { None };
        let forms = [changed, rows].into_iter().flatten().collect::<Vec<_>>();
        (!forms.is_empty()).then(|| [w, &forms.concat()].concat())
    }
}

/// Whether windows of several positions lie side by side, as in a patch embedding.
fn is_patches(s: &ConvSpec) -> bool {
    s.taps() > 1 && s.stride == s.kernel
}

/// Elements of the plain filter; `None` if they are too many to count.
fn filter_len(s: &ConvSpec) -> Option<usize> {
    (s.channels_in / s.groups).checked_mul(s.taps())?.checked_mul(s.channels_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bordered(batch: usize, channels: usize, size: usize) -> ConvSpec {
        ConvSpec {
            pad_before: [0, 1, 1],
            pad_after: [0, 1, 1],
            ..ConvSpec::square(batch, [channels, channels], size, 3)
        }
    }

    fn long(batch: usize) -> ConvSpec {
        ConvSpec {
            input: [1, 1, 640],
            kernel: [1, 1, 256],
            stride: [1, 1, 128],
            ..ConvSpec::square(batch, [1, 258], 1, 1)
        }
    }

    #[test]
    fn few_places_are_rows_and_many_are_not() {
        let of = |s: &ConvSpec| FilterPlan::cheapest(s, FilterForms::ALL).unwrap();
        for s in [long(1), long(100), bordered(1, 512, 3), bordered(16, 64, 2), ConvSpec::square(1, [512, 1024], 7, 1)]
        {
            assert!(matches!(of(&s), FilterPlan::Rows(_)), "{s:?}");
        }
        assert!(matches!(of(&bordered(1, 64, 28)), FilterPlan::Changed(_)));
        for s in [ConvSpec::square(1, [64, 128], 8, 1), ConvSpec::square(1, [8, 8], 20, 5)] {
            assert!(matches!(of(&s), FilterPlan::Given(_)), "{s:?}");
        }
    }

    #[test]
    fn forms_are_those_that_some_sizes_take_and_are_known_by_their_length() {
        let (large, small) = (bordered(96, 64, 96), bordered(1, 64, 4));
        let forms = FilterForms::of_some([&large, &small]);
        assert_eq!(forms, FilterForms::ALL);
        assert_eq!(FilterForms::of_some([&large]), FilterForms { changed: true, rows: false, taps: false });
        assert_eq!(FilterForms::of_some([&long(1), &long(3)]), FilterForms { changed: false, rows: true, taps: false });
        // The first sizes use the plain filter, or the filter is large.
        assert_eq!(FilterForms::of_some([&bordered(1, 512, 96), &bordered(1, 512, 3)]), FilterForms::default());
        assert_eq!(FilterForms::of_some([&bordered(1, 512, 3)]), FilterForms::default());
        let patches =
            |size| ConvSpec { kernel: [1, 8, 8], stride: [1, 8, 8], ..ConvSpec::square(1, [64, 64], size, 8) };
        let few = FilterForms { changed: false, rows: true, taps: false };
        assert_eq!(FilterForms::of_some([&patches(288), &patches(56)]), few);
        let w: Vec<f32> = (0..64 * 64 * 9).map(|i| (i % 23) as f32 - 11.0).collect();
        for forms in [forms, FilterForms::of_some([&large]), FilterForms { changed: false, rows: true, taps: false }] {
            let all = forms.lay_out(&small, &w).unwrap();
            assert_eq!(FilterForms::of_len(&small, all.len()), Some(forms));
            assert_eq!(all[..w.len()], w);
        }
        assert_eq!(FilterForms::of_len(&small, w.len()), Some(FilterForms::default()));
        assert_eq!(FilterForms::of_len(&small, w.len() + 1), None);
        // If a number is too large for minimal filtering, the other form is left.
        let huge: Vec<f32> = w.iter().map(|v| v * 1e30).collect();
        let all = forms.lay_out(&small, &huge).unwrap();
        assert_eq!(
            FilterForms::of_len(&small, all.len()),
            Some(FilterForms { changed: false, rows: true, taps: false })
        );
        assert!(FilterForms { changed: true, rows: false, taps: false }.lay_out(&small, &huge).is_none());
        assert!(forms.lay_out(&small, &w[1..]).is_none());
    }
}
