//! Decides which of the buffers that have ended form the group that new buffers replace. Every
//! candidate group has a price: ten times the logarithm of how unlikely it is.
//!
//! In a packing with almost no waste, most groups are exactly as large as what replaces them. If
//! not, then a member ended some time ago and its place is still empty, or a buffer is smaller than
//! its place and the idle rest becomes available again, or one of the new buffers leaves memory
//! idle.

use super::pq_tree::{Leaf, Tree};

/// Greatest idle part of a place, in percent of the buffer beside it.
const MOST_IDLE: u64 = 54;
/// If at most this many buffers ended earlier, groups of three of them are tried.
const MOST_FOR_THREE: usize = 16;
/// The same limit for groups of two.
const MOST_FOR_TWO: usize = 40;
/// Number of groups whose idle parts are combined into sums.
const MOST_IDLE_GROUPS: usize = 6;
/// Highest price of a group that the tree itself demands.
const ENCLOSED: u64 = 80;

/// The prices used in one sweep. No set suits all problems, so several sweeps with different prices
/// run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prices {
    /// For each buffer that ended earlier and joins.
    pub(super) joins: u64,
    /// For each buffer that ended long ago.
    pub(super) late: u64,
    /// If one of the new buffers leaves memory idle.
    pub(super) idle: u64,
    /// If a part of the memory that groups left idle is used again.
    pub(super) partly: u64,
    /// If more memory is used again than is known to be idle: this times the excess as a share of
    /// the group.
    pub(super) beyond: u64,
    /// If more memory is left idle than one buffer may leave.
    pub(super) large_idle: u64,
}

/// Price sets that together suit planted packings of many sizes.
pub(super) const PRICES: [Prices; 4] = [
    Prices { joins: 15, late: 30, idle: 26, partly: 30, beyond: 0, large_idle: 15 },
    Prices { joins: 15, late: 30, idle: 26, partly: 30, beyond: 150, large_idle: 15 },
    Prices { joins: 15, late: 30, idle: 26, partly: 25, beyond: 300, large_idle: 15 },
    Prices { joins: 15, late: 30, idle: 26, partly: 30, beyond: 0, large_idle: 0 },
];

/// A buffer that occupies, or occupied, a leaf.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tenant {
    /// Index of the block in the problem.
    pub(super) block: u32,
    /// Size in units.
    pub(super) size: u64,
    /// End of its lifetime, in the caller's time from the start of the sweep.
    pub(super) end: u64,
    /// Length of its lifetime, in the caller's time.
    pub(super) life: u64,
    /// The group of buffers that began together with it in one place.
    pub(super) group: u32,
}

impl Tenant {
    /// Whether it ended so long ago that its place is unlikely to be still empty.
    fn is_late(&self, now: u64) -> bool {
        now.saturating_sub(self.end) > self.life.saturating_mul(6) / 10
    }
}

/// Memory in units that no member of a group uses.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Idle {
    /// The amount if everything is as it seems.
    pub(super) known: u64,
    /// The greatest possible amount.
    pub(super) most: u64,
}

/// What is known about the leaves, indexed by key, and about the groups.
#[derive(Debug, Default)]
pub(super) struct Register {
    pub(super) tenants: Vec<Tenant>,
    pub(super) idle: Vec<Idle>,
}

/// A set of leaves that makes room for the new buffers.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Choice {
    pub(super) price: u64,
    /// Keys of the leaves, ascending.
    pub(super) keys: Vec<u32>,
}

/// The buffers that begin at one instant.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    /// Total size of the new buffers in units.
    pub(super) need: u64,
    /// Number of new buffers.
    pub(super) count: usize,
    /// Size of the largest one in units.
    pub(super) largest: u64,
    /// The instant, in the caller's time from the start of the sweep.
    pub(super) now: u64,
}

impl Register {
    pub(super) fn tenant(&self, key: u32) -> &Tenant {
        &self.tenants[key as usize]
    }

    /// The greatest amount of idle memory that the groups of these leaves may return, and the
    /// groups that left any memory idle.
    pub(super) fn may_return(&self, keys: &[u32]) -> (u64, Vec<u32>) {
        let mut groups: Vec<u32> = Vec::new();
        for &key in keys {
            let group = self.tenant(key).group;
            if self.idle[group as usize].most > 0 && !groups.contains(&group) {
                groups.push(group);
            }
        }
        let most = |&group: &u32| {
            let members = keys.iter().map(|&key| self.tenant(key)).filter(|tenant| tenant.group == group);
            let beside: u64 = members.map(|tenant| tenant.size).sum();
            self.idle[group as usize].most.min(beside / 100 * MOST_IDLE + beside % 100 * MOST_IDLE / 100)
        };
        (groups.iter().map(most).sum(), groups)
    }

    /// Whether the known idle parts of some of the groups sum to `wanted`.
    fn sums_to(&self, groups: &[u32], wanted: u64) -> bool {
        let few = &groups[..groups.len().min(MOST_IDLE_GROUPS)];
        (1_u32..1 << few.len()).any(|mask| {
            let picked = few.iter().enumerate().filter(|(at, _)| mask >> at & 1 == 1);
            picked.map(|(_, &group)| self.idle[group as usize].known).sum::<u64>() == wanted
        })
    }

    /// The price of a group of leaves; `None` if only exactly matching groups are wanted and this
    /// is none.
    fn price(&self, prices: &Prices, arrival: Arrival, keys: &[u32], joined: u64, any: bool) -> Option<u64> {
        let Arrival { need, count, largest, now } = arrival;
        let have: u64 = keys.iter().map(|&key| self.tenant(key).size).sum();
        let is_late = |&&key: &&u32| self.tenant(key).is_late(now);
        let late = if joined == 0 { 0 } else { keys.iter().filter(is_late).count() as u64 };
        let base = prices.joins * joined + prices.late * late;
        let count = count as u64;
        if have == need {
            return Some(base + count);
        }
        if have > need {
            if !any {
                return None;
            }
            let idle = have - need;
            let likely = u128::from(idle) * 10 <= u128::from(need) * 6;
            // If many buffers begin, it is likely that one of them leaves memory idle.
            let many = (8 * u64::from(count.max(1).ilog2())).min(prices.idle.saturating_sub(3));
            let price = if likely { prices.idle - many } else { prices.idle + 30 };
            let large = u128::from(idle) * 100 > u128::from(largest) * u128::from(MOST_IDLE);
            return Some(base + price + if large { prices.large_idle } else { 0 });
        }
        let wanted = need - have;
        let (most, groups) = self.may_return(keys);
        if wanted <= most && self.sums_to(&groups, wanted) {
            return Some(base + 5 + count);
        }
        if !any {
            return None;
        }
        let share = |part: u64, times: u64, of: u64| {
            u64::try_from(u128::from(part) * u128::from(times) / u128::from(of.max(1))).unwrap_or(u64::MAX >> 16)
        };
        if wanted <= most {
            let known: u64 = groups.iter().map(|&group| self.idle[group as usize].known).sum();
            return Some(base + prices.partly + share(wanted.saturating_sub(known), prices.beyond, have));
        }
        Some(base + 80 + share(wanted - most, 100, have + need))
    }

    /// The groups that the new buffers may replace, likeliest first, and the number of groups
    /// examined. `fresh` are the leaves of the buffers that end now.
    pub(super) fn choices(
        &self,
        prices: &Prices,
        tree: &Tree,
        leaves: &[Leaf],
        fresh: &[u32],
        arrival: Arrival,
    ) -> (Vec<Choice>, u64) {
        let is_old = |leaf: &&Leaf| leaf.free && fresh.binary_search(&leaf.key).is_err();
        let old: Vec<u32> = leaves.iter().filter(is_old).map(|leaf| leaf.key).collect();
        let mut choices = Vec::new();
        let mut looked = 0;
        let mut keys: Vec<u32> = Vec::with_capacity(fresh.len() + 4);
        let mut rate = |more: &[u32], any: bool, most: u64| {
            looked += fresh.len() as u64 + 1;
            keys.clear();
            keys.extend_from_slice(fresh);
            keys.extend_from_slice(more);
            if let Some(price) = self.price(prices, arrival, &keys, more.len() as u64, any) {
                keys.sort_unstable();
                choices.push(Choice { price: price.min(most), keys: keys.clone() });
            }
        };
        if !fresh.is_empty() {
            rate(&[], true, u64::MAX);
        }
        for &one in &old {
            rate(&[one], true, u64::MAX);
        }
        let few: Vec<u32> = old.into_iter().filter(|&key| !self.tenant(key).is_late(arrival.now)).collect();
        for (at, &one) in few.iter().enumerate().take(MOST_FOR_TWO) {
            for (next, &two) in few.iter().enumerate().take(MOST_FOR_TWO).skip(at + 1) {
                rate(&[one, two], false, u64::MAX);
                if few.len() <= MOST_FOR_THREE {
                    for &three in &few[next + 1..] {
                        rate(&[one, two, three], false, u64::MAX);
                    }
                }
            }
        }
        let mut enclosed = Vec::new();
        if fresh.len() > 1 {
            tree.between(fresh, &mut enclosed);
        }
        if !enclosed.is_empty() {
            rate(&enclosed, true, ENCLOSED);
        }
        choices.sort_unstable();
        choices.dedup_by(|a, b| a.keys == b.keys);
        (choices, looked)
    }
}

#[cfg(test)]
mod tests {
    use super::{Arrival, Idle, PRICES, Register, Tenant};

    #[test]
    fn exact_groups_are_likelier_than_groups_that_leave_memory_idle() {
        let tenant = |block, size, group| Tenant { block, size, end: 10, life: 10, group };
        let register = Register {
            tenants: vec![tenant(0, 40, 0), tenant(1, 60, 0), tenant(2, 30, 1)],
            idle: vec![Idle::default(), Idle { known: 10, most: 10 }],
        };
        let price = |keys: &[u32], need, joined| {
            let arrival = Arrival { need, count: 1, largest: need, now: 10 };
            register.price(&PRICES[0], arrival, keys, joined, true).expect("a price")
        };
        assert!(price(&[0, 1], 100, 0) < price(&[0, 1], 90, 0), "nothing idle, or 10 units");
        assert!(price(&[2], 40, 0) < price(&[2], 36, 0), "all that was idle comes back, or a part");
        assert!(price(&[2], 36, 0) < price(&[0], 46, 0), "a part comes back, or what is not there");
        assert!(price(&[0, 1], 100, 0) < price(&[0, 1], 100, 1), "all end now, or one ended before");
    }
}
