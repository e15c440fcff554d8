//! The form of a constant filter in single precision that costs the least, chosen once, by sizes
//! alone: the same for every instruction set.
use crate::conv::phases;
use crate::conv::rows::RowConv;
use crate::conv::spec::ConvSpec;
use crate::conv::winograd::filters::changed_filters_len;
use crate::conv::{Conv, ConvError};

/// Numbers of changed filters at most: they stay in the caches from run to run, and reading them
/// takes less time than changing them.
const MOST_AHEAD: usize = 512 * 1024;

/// A form of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterForm {
    /// As it comes.
    Given,
    /// Followed by its numbers changed for minimal filtering
    /// ([`change_filters`](crate::conv::change_filters)).
    Changed,
    /// Packed, for places as rows ([`pack_row_filter`](crate::conv::pack_row_filter)).
    Rows,
    /// By phases, of a transposed convolution ([`filter_by_phases`]).
    Phases,
}

/// The filter `[C, O / groups, ...]` of a transposed convolution, by the places in a step of the
/// result that its taps reach: as many numbers, whatever the size of the images is. None where it
/// has no such form, or `w` is not as long as the filter is.
pub fn filter_by_phases(s: &ConvSpec, w: &[f32]) -> Option<Vec<f32>> {
    if phases::takes(s) { phases::by_phases(s, w) } else { None }
}

impl FilterForm {
    /// The form that costs the least for a convolution in single precision.
    ///
    /// # Errors
    /// What is wrong with the sizes ([`ConvSpec::check`]).
    pub fn cheapest(s: &ConvSpec) -> Result<FilterForm, ConvError> {
        let plain = Conv::new(s)?;
        if phases::takes(s) {
            let planned = plain.with_filter_by_phases();
            return Ok(planned.map_or(FilterForm::Given, |_| FilterForm::Phases));
        }
        let few = changed_filters_len(s).is_some_and(|n| n <= MOST_AHEAD);
        let changed = few.then(|| plain.with_changed_filters()).flatten().filter(|(_, pays)| *pays);
        let (form, conv) = match changed {
            Some((conv, _)) => (FilterForm::Changed, conv),
            None => (FilterForm::Given, plain.in_singles()),
        };
        Ok(rows_instead(s, &conv)?.map_or(form, |_| FilterForm::Rows))
    }
}

/// The plan with places as rows, where it takes less than another: another layout has to be worth its
/// while.
///
/// # Errors
/// What is wrong with the sizes ([`ConvSpec::check`]).
pub fn rows_instead(s: &ConvSpec, other: &Conv) -> Result<Option<RowConv>, ConvError> {
    Ok(RowConv::new(s)?.filter(|r| r.cost().saturating_add(r.cost() / 16) < other.cycles()))
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

    #[test]
    fn few_places_are_rows_and_many_are_not() {
        let of = |s: &ConvSpec| FilterForm::cheapest(s).unwrap();
        let long = |batch| ConvSpec {
            input: [1, 1, 640],
            kernel: [1, 1, 256],
            stride: [1, 1, 128],
            ..ConvSpec::square(batch, [1, 258], 1, 1)
        };
        for s in [long(1), long(100), bordered(1, 512, 3), bordered(16, 64, 2), ConvSpec::square(1, [512, 1024], 7, 1)]
        {
            assert_eq!(of(&s), FilterForm::Rows, "{s:?}");
        }
        assert_eq!(of(&bordered(1, 64, 28)), FilterForm::Changed);
        for s in [ConvSpec::square(1, [64, 128], 8, 1), ConvSpec::square(1, [8, 8], 20, 5)] {
            assert_eq!(of(&s), FilterForm::Given, "{s:?}");
        }
    }
}
