//! Chooses between two ways of doing each node of a graph, at the least total cost of the nodes and
//! of the changes between them.
//!
//! Both precision (a node in its own type or in another) and format (a node in its own layout or in
//! another) are this problem: a value is made in one of two forms, each reader wants one of the
//! two, and one change of form serves all readers of a value. The least cost is a minimum cut
//! (Picard and Ratliff, "Minimum cuts and related problems", 1975). That one change serves several
//! readers is expressed by one additional node for each direction, as for costs of sets (Ishikawa,
//! "Exact optimization for Markov random fields with convex priors", 2003; Kolmogorov and Zabih,
//! "What energy functions can be minimized via graph cuts?", 2004). The network has a node for each
//! open item and at most two for each value, so it is linear in the graph.
mod max_flow;

use max_flow::{ENDLESS, Network, SINK, SOURCE};

/// An end of a value: determines the form that the value has there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The form that is chosen for an item.
    Item(usize),
    /// Always its own form.
    Own,
    /// Always the other form.
    Other,
}

/// What is decided about an item in advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// It stays as it is.
    Stays,
    /// It is done the other way.
    Goes,
    /// Not decided; the costs are of staying as it is and of the other way.
    Open(u64, u64),
}

/// A value that is passed between nodes.
#[derive(Clone, Debug)]
pub struct Passed {
    /// The end where it is made.
    pub maker: End,
    /// The ends where it is read.
    pub readers: Vec<End>,
    /// Cost of a change of form.
    pub cost: u64,
}

/// The result of [`choose`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// For each item, whether it is done the other way.
    pub goes: Vec<bool>,
    /// Whether no other choice costs less; false only if the step budget ran out.
    pub exact: bool,
}

/// Finds the choice of least cost. Among choices of equal cost, as many items as possible go the
/// other way if `eager` is set, and as many as possible stay otherwise.
pub fn choose(items: &[Item], values: &[Passed], eager: bool) -> Chosen {
    let mut net = Network::new(0);
    let at: Vec<u32> = items
        .iter()
        .map(|item| match *item {
            Item::Goes => SOURCE,
            Item::Stays => SINK,
            Item::Open(own, other) => {
                let n = net.node();
                // An item on the sink's side cuts its edge from the source, so it pays the cost of
                // staying as it is.
                net.edge(SOURCE, n, own, 0);
                net.edge(n, SINK, other, 0);
                n
            }
        })
        .collect();
    let place = |end: &End| match *end {
        End::Item(i) => at[i],
        End::Own => SINK,
        End::Other => SOURCE,
    };
    for v in values {
        let maker = place(&v.maker);
        let mut readers: Vec<u32> = v.readers.iter().map(place).filter(|r| *r != maker).collect();
        readers.sort_unstable();
        readers.dedup();
        match readers[..] {
            [] => {}
            [r] => net.edge(maker, r, v.cost, v.cost),
            _ => {
                if maker != SINK {
                    // Paid if the value is made in the other form and at least one reader wants its
                    // own form.
                    let some_own = net.node();
                    net.edge(maker, some_own, v.cost, 0);
                    readers.iter().for_each(|r| net.edge(some_own, *r, ENDLESS, 0));
                }
                if maker != SOURCE {
                    let some_other = net.node();
                    net.edge(some_other, maker, v.cost, 0);
                    readers.iter().for_each(|r| net.edge(*r, some_other, ENDLESS, 0));
                }
            }
        }
    }
    let exact = net.fill();
    let side = net.source_side(eager);
    let goes = items.iter().zip(&at).map(|(item, n)| match item {
        Item::Goes => true,
        Item::Stays => false,
        Item::Open(..) => side[*n as usize],
    });
    Chosen { goes: goes.collect(), exact }
}

/// The cost of a choice.
#[cfg(test)]
fn cost(items: &[Item], values: &[Passed], goes: &[bool]) -> u64 {
    let state = |end: &End| match *end {
        End::Item(i) => goes[i],
        End::Own => false,
        End::Other => true,
    };
    let of_items = items.iter().zip(goes).map(|(item, &go)| match *item {
        Item::Open(own, other) => {
            if go {
                other
            } else {
                own
            }
        }
        _ => 0,
    });
    let of_values = values.iter().map(|v| {
        let made = state(&v.maker);
        // One change of form serves all readers.
        if v.readers.iter().any(|r| state(r) != made) { v.cost } else { 0 }
    });
    of_items.sum::<u64>() + of_values.sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn passed(maker: End, readers: &[End], cost: u64) -> Passed {
        Passed { maker, readers: readers.to_vec(), cost }
    }

    #[test]
    fn what_is_open_goes_with_the_dearer_border() {
        let items = [Item::Goes, Item::Open(0, 0), Item::Stays];
        let chain = |a, b| [passed(End::Item(0), &[End::Item(1)], a), passed(End::Item(1), &[End::Item(2)], b)];
        assert_eq!(choose(&items, &chain(5, 3), false).goes, [true, true, false]);
        assert_eq!(choose(&items, &chain(3, 5), true).goes, [true, false, false]);
        // At equal cost, `eager` decides.
        assert!(choose(&items, &chain(4, 4), true).goes[1]);
        assert!(!choose(&items, &chain(4, 4), false).goes[1]);
    }

    #[test]
    fn one_change_serves_all_readers_of_a_value() {
        // Three readers go and one stays. They read the value of an open maker, which itself gets
        // its input in its own form.
        let items = [Item::Open(0, 0), Item::Goes, Item::Goes, Item::Goes, Item::Stays];
        let reads: Vec<End> = (1..5).map(End::Item).collect();
        let values = [passed(End::Own, &[End::Item(0)], 2), passed(End::Item(0), &reads, 3)];
        // Staying costs one change after the maker; going costs one before it and one after it.
        assert_eq!(choose(&items, &values, true), Chosen { goes: vec![false, true, true, true, false], exact: true });
    }

    fn end(n: usize) -> impl Strategy<Value = End> {
        prop_oneof![6 => (0..n).prop_map(End::Item), 1 => Just(End::Own), 1 => Just(End::Other)]
    }
    fn item() -> impl Strategy<Value = Item> {
        prop_oneof![1 => Just(Item::Stays), 1 => Just(Item::Goes), 3 => (0u64..6, 0u64..6).prop_map(|(a, b)| Item::Open(a, b))]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if std::env::var_os("GE_LONG").is_some() { 20_000 } else { 400 }))]
        #[test]
        fn no_choice_costs_less(
            items in proptest::collection::vec(item(), 9),
            values in proptest::collection::vec(
                (end(9), proptest::collection::vec(end(9), 1..5), 0u64..8), 0..12),
            eager in any::<bool>(),
        ) {
            let values: Vec<Passed> = values.into_iter().map(|(m, r, c)| passed(m, &r, c)).collect();
            let found = choose(&items, &values, eager);
            prop_assert!(found.exact);
            let mut least = u64::MAX;
            for bits in 0u32..1 << items.len() {
                let goes: Vec<bool> = (0..items.len()).map(|i| bits >> i & 1 == 1).collect();
                let allowed = items.iter().zip(&goes).all(|(item, go)| match item {
                    Item::Stays => !go,
                    Item::Goes => *go,
                    Item::Open(..) => true,
                });
                if allowed {
                    least = least.min(cost(&items, &values, &goes));
                }
            }
            prop_assert_eq!(cost(&items, &values, &found.goes), least);
        }
    }

    #[test]
    fn a_long_graph_is_chosen_at_once() {
        // A row of diamonds in which every seventh node is decided: the work must grow linearly
        // with the graph, not quadratically.
        let n = 100_000;
        let items: Vec<Item> = (0..n)
            .map(|i| match i % 7 {
                0 => Item::Goes,
                3 if i % 2 == 0 => Item::Stays,
                _ => Item::Open(0, 0),
            })
            .collect();
        let values: Vec<Passed> = (0..n - 3)
            .map(|i| passed(End::Item(i), &[End::Item(i + 1), End::Item(i + 3)], 1 + (i as u64 * 7919) % 13))
            .collect();
        assert!(choose(&items, &values, true).exact);
    }
}
