//! Answers for many sets of nodes of one graph whether a path leaves the set and comes back.
use ge_plugin_api::types::NodeId;
use ge_plugin_api::view::Graph;

/// Maximum number of nodes that a search for a path looks at.
const MOST_SEEN: usize = 256;

/// The nodes that each node of a graph waits for, by place in the order of the graph.
pub struct Reach<'g> {
    order: &'g [NodeId],
    /// Place of each node by id; `u32::MAX` if there is no such node.
    places: Vec<u32>,
    /// Where the list of each place begins in `before`; one more entry marks the end of the last
    /// list.
    begins: Vec<u32>,
    before: Vec<u32>,
    /// For each place, the last search that has visited it.
    seen: Vec<u32>,
    searches: u32,
}

impl<'g> Reach<'g> {
    /// Prepares the answers for a graph.
    pub fn new(graph: &Graph<'g>) -> Reach<'g> {
        let order = graph.order();
        let mut places = vec![u32::MAX; order.iter().map(|n| n.index() + 1).max().unwrap_or(0)];
        for (place, n) in (0u32..).zip(order) {
            places[n.index()] = place;
        }
        let (mut begins, mut before) = (Vec::with_capacity(order.len() + 1), Vec::with_capacity(2 * order.len()));
        for n in graph.nodes() {
            begins.push(before.len() as u32);
            let read = n.inputs().iter().filter(|v| !v.is_absent()).map(|v| v.node);
            let all = read.chain(n.controls().iter().copied()).filter_map(|n| places.get(n.index()).copied());
            before.extend(all.filter(|p| *p != u32::MAX));
        }
        begins.push(before.len() as u32);
        Reach { order, places, begins, before, seen: vec![0; order.len()], searches: 0 }
    }

    /// The node at a place.
    pub fn id(&self, place: u32) -> NodeId {
        self.order.get(place as usize).copied().unwrap_or(NodeId::NONE)
    }

    /// The place of a node; `None` if the graph has no such node.
    pub fn place(&self, node: NodeId) -> Option<u32> {
        self.places.get(node.index()).copied().filter(|p| *p != u32::MAX)
    }

    /// The places that a place waits for.
    fn before(&self, place: u32) -> &[u32] {
        let at = |k: usize| self.begins.get(k).map_or(0, |b| *b as usize);
        &self.before[at(place as usize)..at(place as usize + 1)]
    }

    /// Whether no path leaves `nodes` and comes back through an input of one of `from`, which is a
    /// subset of `nodes`. `group` returns the set (in order, disjoint from `nodes`) with which a
    /// node will be executed, or nothing if it is executed alone. A search that visits too many
    /// nodes counts as having found a path.
    pub fn convex<'c>(&mut self, nodes: &[u32], from: &[u32], group: impl Fn(u32) -> &'c [u32]) -> bool {
        self.searches += 1;
        let now = self.searches;
        let first = nodes.iter().copied().min().unwrap_or(0);
        let reaches = |n: u32| group(n).last().copied().unwrap_or(n) >= first;
        let outside = from.iter().flat_map(|n| self.before(*n)).filter(|n| !nodes.contains(n) && reaches(**n));
        let mut todo: Vec<u32> = outside.copied().collect();
        let mut count = 0;
        while let Some(n) = todo.pop() {
            if nodes.contains(&n) || count > MOST_SEEN {
                return false;
            }
            if self.seen[n as usize] == now {
                continue;
            }
            let (alone, set) = ([n], group(n));
            for n in if set.is_empty() { &alone[..] } else { set } {
                count += usize::from(self.seen[*n as usize] != now);
                self.seen[*n as usize] = now;
                todo.extend(self.before(*n).iter().filter(|n| reaches(**n) && self.seen[**n as usize] != now));
            }
        }
        true
    }
}
