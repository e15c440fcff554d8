//! The form of a constant filter in single precision that costs the least, chosen by sizes alone: the
//! same for every instruction set. Where the sizes of the images are known when a model is compiled, the
//! filter comes in that form; for images of any size it comes in several, one behind the other.
use crate::conv::rows::{RowConv, pack_row_filter, packed_row_filter_len};
use crate::conv::spec::ConvSpec;
use crate::conv::winograd::filters::{change_filters, changed_filters_len};
use crate::conv::{Conv, ConvError};

/// Numbers of changed filters at most: they stay in the caches from run to run, and reading them
/// takes less time than changing them.
const MOST_AHEAD: usize = 512 * 1024;
/// Numbers of a filter at most that comes in several forms: more are read from memory in any of them.
const MOST_AT_HAND: usize = 512 * 1024;

/// A planned convolution in single precision, by the form of the filter that it reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilterPlan {
    /// As it comes.
    Given(Box<Conv>),
    /// Followed by its numbers changed for minimal filtering
    /// ([`change_filters`](crate::conv::change_filters)).
    Changed(Box<Conv>),
    /// Packed, for places as rows ([`pack_row_filter`](crate::conv::pack_row_filter)).
    Rows(Box<RowConv>),
}

impl FilterPlan {
    /// The plan that costs the least for a filter that is at hand as it comes and in `forms`.
    ///
    /// # Errors
    /// What is wrong with the sizes ([`ConvSpec::check`]).
    pub fn cheapest(s: &ConvSpec, forms: FilterForms) -> Result<FilterPlan, ConvError> {
        let plain = Conv::new(s)?;
        let few = forms.changed && changed_filters_len(s).is_some_and(|n| n <= MOST_AHEAD);
        let changed = few.then(|| plain.with_changed_filters()).flatten().filter(|(_, pays)| *pays);
        let (is_changed, conv) = match changed {
            Some((conv, _)) => (true, conv),
            None => (false, plain.in_singles()),
        };
        // Another layout has to be worth its while.
        let less = |r: &RowConv| r.cost().saturating_add(r.cost() / 16) < conv.cycles();
        let rows = if forms.rows { RowConv::new(s)?.filter(less) } else { None };
        Ok(match rows {
            Some(rows) => FilterPlan::Rows(Box::new(rows)),
            None if is_changed => FilterPlan::Changed(Box::new(conv)),
            None => FilterPlan::Given(Box::new(conv)),
        })
    }
}

/// The forms of a filter that stand behind the filter as it comes, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilterForms {
    /// Changed for minimal filtering.
    pub changed: bool,
    /// Packed for places as rows.
    pub rows: bool,
}

impl FilterForms {
    /// Both forms.
    pub const ALL: FilterForms = FilterForms { changed: true, rows: true };

    /// The forms that convolutions of some of these sizes take, of one filter each; none where the
    /// first of them takes the filter as it comes, or where the filter is large.
    pub fn of_some<'s>(sizes: impl IntoIterator<Item = &'s ConvSpec>) -> FilterForms {
        let mut out = FilterForms::default();
        for (k, s) in sizes.into_iter().enumerate() {
            match FilterPlan::cheapest(s, FilterForms::ALL) {
                Ok(FilterPlan::Changed(_)) => out.changed = true,
                Ok(FilterPlan::Rows(_)) => out.rows = filter_len(s).is_some_and(|n| n <= MOST_AT_HAND),
                _ if k == 0 => return out,
                _ => {}
            }
        }
        out
    }

    /// The forms that a filter of `len` numbers comes in; None where it is of another length.
    pub fn of_len(s: &ConvSpec, len: usize) -> Option<FilterForms> {
        let all = [(false, false), (false, true), (true, false), (true, true)];
        let all = all.into_iter().map(|(changed, rows)| FilterForms { changed, rows });
        all.into_iter().find(|f| f.len(s) == Some(len))
    }

    /// Numbers of a filter and its forms; None where it has not these forms, or too many numbers to
    /// count.
    fn len(self, s: &ConvSpec) -> Option<usize> {
        let changed = if self.changed { changed_filters_len(s)? } else { 0 };
        let rows = if self.rows { packed_row_filter_len(s)? } else { 0 };
        filter_len(s)?.checked_add(changed)?.checked_add(rows)
    }

    /// The filter `w[O, C / groups, ...]` and behind it its forms, those left out that cannot be made:
    /// some number is too large for minimal filtering. None where `w` is not as long as the filter is,
    /// or none is left.
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

/// Numbers of the filter as it comes; None where they are too many to count.
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
        assert_eq!(FilterForms::of_some([&large]), FilterForms { changed: true, rows: false });
        assert_eq!(FilterForms::of_some([&long(1), &long(3)]), FilterForms { changed: false, rows: true });
        // The first sizes take the filter as it comes, or it is large.
        assert_eq!(FilterForms::of_some([&bordered(1, 512, 96), &bordered(1, 512, 3)]), FilterForms::default());
        assert_eq!(FilterForms::of_some([&bordered(1, 512, 3)]), FilterForms::default());
        let w: Vec<f32> = (0..64 * 64 * 9).map(|i| (i % 23) as f32 - 11.0).collect();
        for forms in [forms, FilterForms::of_some([&large]), FilterForms { changed: false, rows: true }] {
            let all = forms.lay_out(&small, &w).unwrap();
            assert_eq!(FilterForms::of_len(&small, all.len()), Some(forms));
            assert_eq!(all[..w.len()], w);
        }
        assert_eq!(FilterForms::of_len(&small, w.len()), Some(FilterForms::default()));
        assert_eq!(FilterForms::of_len(&small, w.len() + 1), None);
        // A number that minimal filtering cannot take leaves the other form.
        let huge: Vec<f32> = w.iter().map(|v| v * 1e30).collect();
        let all = forms.lay_out(&small, &huge).unwrap();
        assert_eq!(FilterForms::of_len(&small, all.len()), Some(FilterForms { changed: false, rows: true }));
        assert!(FilterForms { changed: true, rows: false }.lay_out(&small, &huge).is_none());
        assert!(forms.lay_out(&small, &w[1..]).is_none());
    }
}
