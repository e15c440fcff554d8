//! A number for each instant, as a tree of maxima. The instants before a given one whose number is
//! large enough are found from the last to the first, in `log n` each.

/// Numbers by instant; initially 0.
#[derive(Debug, Clone)]
pub(super) struct Latest {
    /// A power of two greater than the number of instants; instant `i` is node `leaves + i`.
    leaves: usize,
    /// For each node, the greatest number below it.
    greatest: Vec<u64>,
}

impl Latest {
    pub(super) fn new(instants: usize) -> Self {
        let leaves = (instants + 1).next_power_of_two();
        Self { leaves, greatest: vec![0; 2 * leaves] }
    }

    pub(super) fn set(&mut self, instant: usize, number: u64) {
        let mut node = self.leaves + instant;
        if self.greatest[node] == number {
            return;
        }
        self.greatest[node] = number;
        while node > 1 {
            node /= 2;
            let greatest = self.greatest[2 * node].max(self.greatest[2 * node + 1]);
            if self.greatest[node] == greatest {
                break;
            }
            self.greatest[node] = greatest;
        }
    }

    /// The last instant before `end` whose number is at least `least`; `least` must be above 0.
    pub(super) fn last_before(&self, end: usize, least: u64) -> Option<usize> {
        let mut node = self.leaves + end.min(self.leaves - 1);
        // Go up until a node to the left contains such an instant.
        loop {
            if node & 1 == 1 && self.greatest[node - 1] >= least {
                node -= 1;
                break;
            }
            node /= 2;
            if node <= 1 {
                return None;
            }
        }
        while node < self.leaves {
            node = 2 * node + usize::from(self.greatest[2 * node + 1] >= least);
        }
        Some(node - self.leaves)
    }
}

#[cfg(test)]
mod tests {
    use super::Latest;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_last_one_that_is_large_enough_is_found(
            numbers in prop::collection::vec((0_usize..30, 0_u64..9), 0..60),
            end in 0_usize..31,
            least in 1_u64..10,
        ) {
            let mut tree = Latest::new(30);
            let mut plain = [0; 30];
            for (instant, number) in numbers {
                tree.set(instant, number);
                plain[instant] = number;
            }
            let expected = (0..end.min(30)).rev().find(|&instant| plain[instant] >= least);
            prop_assert_eq!(tree.last_before(end, least), expected);
        }
    }
}
