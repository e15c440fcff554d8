//! `FuseInspector`: decides whether nodes may be fused (their attributes agree, no cycle arises),
//! and reports those that were.
use super::Verdict;
use crate::patch::{Edit, Patch};
use crate::types::{Attr, AttrValue, Key, NodeId, ValueRef};
use crate::view::{Graph, Node};
use std::collections::{BTreeSet, HashMap};

/// Attribute of a fused node: names of the original nodes that it stands for.
pub const ORIGINALS: &str = "_datadump_original_op_names";
/// Attribute of a fused node: the passes that made it, the latest one last.
pub const PASS_NAME: &str = "_pass_name";
/// Graph attribute in which a pass reports to the host; it never ends up in a graph. It is a list
/// of strings: `fused`, the pass, the names of the nodes before and after (each list joined by
/// `;`); or `refused`, the pass, a node's name, and the reason.
pub const REPORT: &str = "_fusion_report";

/// Attributes in which nodes must agree to be fused: they say who computes a node and where it
/// runs. The fused node gets them, too.
pub const CONSISTENT: &[&str] = &[
    "_engine",
    "_op_kernel_lib",
    "_stream_label",
    "_user_stream_label",
    "_user_stream_priority",
    "_parallel_group",
    "NewStreamId",
    "_continuous_stream_label",
    "_attached_stream_info",
    "_attached_stream_info_list",
    "_force_attach_stream",
    "_event_multiplexing",
    "_batch_num",
    "_batch_label",
    "_stage_level",
    "_super_kernel_scope",
    "_op_aicore_num",
    "_op_vectorcore_num",
    "_op_exec_never_timeout",
    "_rts_label_node",
    "_active_label_list",
    "_subgraph_end_node",
    "_force_unknown_shape",
    "_keep_dtype",
];

/// Distance between the positions of two neighbours, which leaves room for nodes that are moved in
/// between. It is small in tests, so that they exhaust it.
const GAP: u128 = if cfg!(test) { 64 } else { 1 << 64 };

/// Whether a node holds subgraphs, which no fusion looks into.
pub(super) fn has_subgraph(n: &Node<'_>) -> bool {
    let graph = |v: &AttrValue| match v {
        AttrValue::Graph(_) => true,
        AttrValue::List(l) => l.iter().any(|v| matches!(v, AttrValue::Graph(_))),
        _ => false,
    };
    n.attrs().iter().any(|a| graph(&a.value))
}

/// Checks the boundary of a set of nodes: only values in `outputs` are read outside, and no control
/// edge crosses the boundary.
pub(super) fn border(g: &Graph<'_>, nodes: &[NodeId], outputs: &[ValueRef]) -> Verdict {
    for &id in nodes {
        let n = g.node(id);
        for k in 0..n.outputs().len() as u32 {
            let v = n.value(k);
            if outputs.contains(&v) {
                continue;
            }
            if let Some(u) = g.users(v).iter().find(|u| !nodes.contains(&u.node)) {
                let reader = g.node(u.node);
                return Err(match reader.op() {
                    "NetOutput" => {
                        format!("output {k} of `{}`, inside the pattern, is an output of the graph", n.name())
                    }
                    _ => format!(
                        "output {k} of `{}`, inside the pattern, is read by `{}` outside of it",
                        n.name(),
                        reader.name()
                    ),
                });
            }
        }
        if let Some(c) = n.controls().iter().chain(g.control_users(id)).find(|c| !nodes.contains(c)) {
            return Err(format!("a control edge joins `{}`, inside the pattern, to `{}`", n.name(), g.node(*c).name()));
        }
    }
    Ok(())
}

/// Decides whether nodes may be fused, and remembers what was fused, so that later decisions take
/// it into account.
pub struct FuseInspector<'g> {
    graph: Graph<'g>,
    consistent: Vec<Key>,
    /// Position of each node. Readers of a node have a higher position, and nodes that were fused
    /// share one. Filled on first use, with a distance of [`GAP`] between neighbours.
    place: Vec<u128>,
    /// Positions inside gaps that have been assigned since then.
    given: BTreeSet<u128>,
    /// For each node the last search that visited it: backward and forward.
    seen: [Vec<u32>; 2],
    searches: u32,
    /// Sets of nodes fused so far in which ways end at more than one node.
    groups: Vec<Vec<NodeId>>,
    group_of: HashMap<NodeId, usize>,
}

impl<'g> FuseInspector<'g> {
    /// An inspector for one graph.
    pub fn new(graph: &Graph<'g>) -> Self {
        FuseInspector {
            graph: *graph,
            consistent: CONSISTENT.iter().map(|k| Key::new(k)).collect(),
            place: Vec::new(),
            given: BTreeSet::new(),
            seen: [Vec::new(), Vec::new()],
            searches: 0,
            groups: Vec::new(),
            group_of: HashMap::new(),
        }
    }

    /// Whether these nodes may become one: they agree in [`CONSISTENT`], and no path leaves them
    /// and comes back.
    ///
    /// # Errors
    /// Returns the reason in words if they may not.
    pub fn can_fuse(&mut self, nodes: &[NodeId]) -> Verdict {
        self.attributes(nodes)?;
        self.cycle(nodes)
    }

    /// Whether the attribute is one of [`CONSISTENT`].
    pub(super) fn must_agree(&self, key: Key) -> bool {
        self.consistent.contains(&key)
    }

    fn attributes(&self, nodes: &[NodeId]) -> Verdict {
        let Some(&first) = nodes.first() else { return Err("there is nothing to fuse".into()) };
        let a = self.graph.node(first);
        for id in &nodes[1..] {
            let b = self.graph.node(*id);
            if a.attrs().is_empty() && b.attrs().is_empty() {
                continue;
            }
            if let Some(key) = self.consistent.iter().find(|k| a.attr(**k) != b.attr(**k)) {
                let say = |v: Option<&AttrValue>| v.map_or("not set".to_owned(), brief);
                return Err(format!(
                    "attribute `{}` is {} on `{}` and {} on `{}`",
                    key.as_str(),
                    say(a.attr(*key)),
                    a.name(),
                    say(b.attr(*key)),
                    b.name()
                ));
            }
        }
        Ok(())
    }

    /// Nodes that read a node or depend on it by a control edge.
    fn leaving(&self, id: NodeId) -> impl Iterator<Item = NodeId> + use<'g> {
        let (g, n) = (self.graph, self.graph.node(id));
        let readers = (0..n.outputs().len() as u32).flat_map(move |k| g.users(n.value(k)).iter().map(|u| u.node));
        readers.chain(g.control_users(id).iter().copied())
    }

    /// Nodes that a node reads or depends on by a control edge.
    fn entering(&self, id: NodeId) -> impl Iterator<Item = NodeId> + use<'g> {
        let n = self.graph.node(id);
        let read = n.inputs().iter().filter(|v| !v.is_absent()).map(|v| v.node);
        read.chain(n.controls().iter().copied())
    }

    fn make_places(&mut self) {
        if self.place.is_empty() {
            let order = self.graph.order();
            self.place = vec![u128::MAX; order.iter().map(|id| id.index() + 1).max().unwrap_or(0)];
            self.seen = [vec![0; self.place.len()], vec![0; self.place.len()]];
            order.iter().zip(1..).for_each(|(id, rank)| self.place[id.index()] = GAP * rank);
        }
    }

    /// Marks a node as visited; returns whether this is its first visit in the search.
    fn see(&mut self, id: NodeId, way: &Way) -> bool {
        let seen = self.seen[usize::from(way.forward)].get_mut(id.index());
        seen.is_some_and(|s| std::mem::replace(s, way.number) != way.number)
    }

    /// The nodes that were fused with a node, including itself; empty if it was not fused.
    fn group(&self, id: NodeId) -> &[NodeId] {
        self.group_of.get(&id).map_or(&[], |g| &self.groups[*g])
    }

    /// Adds a node's neighbours in the direction of the search.
    fn next(&self, id: NodeId, way: &mut Way) {
        if way.forward { way.todo.extend(self.leaving(id)) } else { way.todo.extend(self.entering(id)) }
    }

    /// Starts a search from `nodes` in one direction, limited to the positions between them.
    fn begin(&mut self, nodes: &Inside, forward: bool) -> Way {
        self.make_places();
        self.searches += 1;
        let places = || nodes.0.iter().map(|n| self.place_of(*n));
        let end = if forward { places().max() } else { places().min() };
        let (number, end) = (self.searches, end.unwrap_or(0));
        let mut way = Way { forward, number, end, todo: Vec::new(), found: Vec::new() };
        nodes.0.iter().for_each(|n| self.next(*n, &mut way));
        way.todo.retain(|n| !nodes.has(*n));
        way
    }

    /// Visits one more node; if it belongs to a fused group, the whole group. Returns `None` while
    /// there is more to visit, and `Err` if it came back to one of `nodes`.
    fn step(&mut self, nodes: &Inside, way: &mut Way) -> Option<std::result::Result<(), NodeId>> {
        let Some(id) = way.todo.pop() else { return Some(Ok(())) };
        if nodes.has(id) {
            return Some(Err(id));
        }
        let place = self.place_of(id);
        let stands = if way.forward { place <= way.end } else { place >= way.end };
        if !stands || !self.see(id, way) {
            return None;
        }
        way.found.push(id);
        self.next(id, way);
        if let Some(group) = self.group_of.get(&id) {
            for k in 0..self.groups[*group].len() {
                let other = self.group(id)[k];
                if self.see(other, way) {
                    way.found.push(other);
                    self.next(other, way);
                }
            }
        }
        None
    }

    /// The nodes that can be reached from `nodes` along edges and stand between them, without
    /// `nodes` themselves. A backward and a forward search run in turns, and the first to end
    /// decides. Returns `Err` with one of `nodes` if a path comes back to it.
    fn between(&mut self, nodes: &Inside) -> std::result::Result<Way, NodeId> {
        let mut backward = self.begin(nodes, false);
        let mut forward = self.begin(nodes, true);
        loop {
            match self.step(nodes, &mut backward) {
                Some(Ok(())) => return Ok(backward),
                // The forward search finds the same path and the node at which it comes back.
                Some(Err(id)) => loop {
                    if let Some(end) = self.step(nodes, &mut forward) {
                        return Err(end.err().unwrap_or(id));
                    }
                },
                None => {}
            }
            if let Some(end) = self.step(nodes, &mut forward) {
                return end.map(|()| forward);
            }
        }
    }

    /// Gives fused nodes a common position. Either it is right before the first of them and the
    /// nodes they wait for move in front of it, or it is right behind the last of them and the
    /// nodes that wait for one of them move behind it. No other node moves.
    fn gather(&mut self, nodes: &[NodeId]) {
        let inside = Inside::of(nodes);
        // The caller has checked that no path leaves the nodes and comes back.
        let Ok(Way { forward, end, found, .. }) = self.between(&inside) else { return };
        if end == u128::MAX {
            return;
        }
        let mut old: Vec<u128> = found.iter().map(|n| self.place_of(*n)).collect();
        old.sort_unstable();
        old.dedup();
        let count = old.len() as u128 + 1;
        let (low, high) = if forward {
            let next = self.given.range(end + 1..).next().copied().unwrap_or(u128::MAX);
            (end, next.min((end / GAP + 1) * GAP))
        } else {
            let next = self.given.range(..end).next_back().copied().unwrap_or(0);
            (next.max((end - 1) / GAP * GAP), end)
        };
        let step = (high - low) / (count + 1);
        if step == 0 {
            self.spread();
            return self.gather(nodes);
        }
        // Forward, the nodes themselves come first and those that wait for them follow; backward,
        // those that they wait for come first.
        let ahead = if forward { 2 } else { 1 };
        let new = |rank: usize| low + step * (rank as u128 + ahead);
        for id in &found {
            if let (Ok(rank), Some(place)) = (old.binary_search(&self.place_of(*id)), self.place.get_mut(id.index())) {
                *place = new(rank);
            }
        }
        let own = if forward { low + step } else { new(old.len()) };
        for id in nodes {
            if let Some(place) = self.place.get_mut(id.index()) {
                *place = own;
            }
        }
        self.given.extend((1..=count).map(|rank| low + step * rank));
    }

    /// Makes all gaps equal again and keeps the order.
    fn spread(&mut self) {
        let mut all: Vec<u128> = self.place.iter().copied().filter(|p| *p != u128::MAX).collect();
        all.sort_unstable();
        all.dedup();
        for place in self.place.iter_mut().filter(|p| **p != u128::MAX) {
            if let Ok(rank) = all.binary_search(place) {
                *place = GAP * (rank as u128 + 1);
            }
        }
        self.given.clear();
    }

    fn place_of(&self, id: NodeId) -> u128 {
        self.place.get(id.index()).copied().unwrap_or(u128::MAX)
    }

    /// Number of nodes at which ways inside the set end: nodes with readers outside, and nodes
    /// without readers.
    fn ends(&self, inside: &Inside) -> usize {
        let goes_on = |id: &NodeId| {
            let mut readers = self.leaving(*id).peekable();
            readers.peek().is_some() && readers.all(|r| inside.has(r))
        };
        inside.0.iter().filter(|id| !goes_on(id)).count()
    }

    fn cycle(&mut self, nodes: &[NodeId]) -> Verdict {
        let inside = Inside::of(nodes);
        // If all nodes lead to one of them inside the set, a path that leaves the set starts there.
        // It cannot come back: earlier fusions left no cycle.
        if self.ends(&inside) <= 1 {
            return Ok(());
        }
        self.between(&inside).map(|_| ()).map_err(|id| {
            let name = self.graph.node(id).name();
            format!("a path leaves the nodes and comes back to `{name}`: the graph would have a cycle")
        })
    }

    /// Reports that nodes were fused into others (`after` are their names; empty if the nodes are
    /// only deleted). Later decisions take it into account, and the host lists it.
    pub fn report(&mut self, pass: &str, before: &[NodeId], after: &[String], patch: &mut Patch) {
        let names: Vec<&str> = before.iter().map(|n| self.graph.node(*n).name()).collect();
        tell(patch, ["fused", pass, &names.join(";"), &after.join(";")]);
        if self.ends(&Inside::of(before)) > 1 {
            self.gather(before);
            self.group_of.extend(before.iter().map(|n| (*n, self.groups.len())));
            self.groups.push(before.to_vec());
        }
    }

    /// Reports why a node was left as it is.
    pub fn refuse(&self, pass: &str, node: NodeId, why: &str, patch: &mut Patch) {
        tell(patch, ["refused", pass, self.graph.node(node).name(), why]);
    }
}

/// A search along edges in one direction.
struct Way {
    /// Whether it goes to readers; otherwise to what is read.
    forward: bool,
    /// Its number among all searches of the inspector.
    number: u32,
    /// The last position that it visits.
    end: u128,
    todo: Vec<NodeId>,
    found: Vec<NodeId>,
}

/// A small set of nodes.
struct Inside(Vec<NodeId>);

impl Inside {
    fn of(nodes: &[NodeId]) -> Inside {
        let mut all = nodes.to_vec();
        all.sort_unstable();
        Inside(all)
    }
    fn has(&self, id: NodeId) -> bool {
        self.0.binary_search(&id).is_ok()
    }
}

fn tell(patch: &mut Patch, words: [&str; 4]) {
    let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
    patch.push(Edit::SetGraphAttr(Attr { key: Key::new(REPORT), value: words.into() }));
}

fn brief(v: &AttrValue) -> String {
    match v {
        AttrValue::Int(i) => i.to_string(),
        AttrValue::Bool(b) => b.to_string(),
        AttrValue::Str(s) => format!("\"{s}\""),
        other => format!("a {}", other.kind()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestGraph;
    use crate::types::DType;

    /// Whether one of `set` can be reached from outside it on a path that starts in it, with each
    /// earlier group counting as one node. Looks at every path.
    fn comes_back(reads: &[Vec<usize>], groups: &[Vec<usize>], set: &[usize]) -> bool {
        let same = |a: usize, b: usize| a == b || groups.iter().any(|g| g.contains(&a) && g.contains(&b));
        let mut reached: Vec<bool> = (0..reads.len()).map(|n| reads[n].iter().any(|r| set.contains(r))).collect();
        set.iter().for_each(|n| reached[*n] = false);
        loop {
            let next = |n: usize| {
                reached[n]
                    || reads[n].iter().any(|r| reached[*r] && !set.contains(r))
                    || (!set.contains(&n) && (0..reads.len()).any(|m| reached[m] && !set.contains(&m) && same(n, m)))
            };
            let more: Vec<bool> = (0..reads.len()).map(next).collect();
            if more == reached {
                return set.iter().any(|n| reached[*n]);
            }
            reached = more;
        }
    }

    /// Tries sets of nodes in random graphs, one after the other: a set may be fused exactly if
    /// that leaves no cycle after all earlier fusions.
    #[test]
    fn what_may_become_one_leaves_no_cycle() {
        let mut seed = 7u64;
        let mut below = move |n: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % n
        };
        let (mut fused, mut refused) = (0, 0);
        for _ in 0..120 {
            let mut t = TestGraph::new();
            let x = t.input("x", DType::F32, &[4]);
            let (mut values, mut reads) = (Vec::new(), Vec::new());
            for k in 0..30 {
                let own: Vec<usize> = (0..below(3).min(k)).map(|_| k - 1 - below(k.min(9))).collect();
                let given: Vec<ValueRef> =
                    if own.is_empty() { vec![x] } else { own.iter().map(|k| values[*k]).collect() };
                values.push(t.add("Op", &format!("n{k}"), &given).output(DType::F32, &[4]).value());
                reads.push(own);
            }
            // Some nodes get a reader outside any set; nodes without any reader remain.
            for (k, v) in values.iter().enumerate().filter(|(k, _)| k % 3 < 2) {
                t.add("Op", &format!("r{k}"), &[*v]).output(DType::F32, &[4]);
            }
            let g = t.graph();
            let mut inspector = FuseInspector::new(&g);
            let mut patch = Patch::new(&g);
            let (mut groups, mut free): (Vec<Vec<usize>>, Vec<usize>) = (Vec::new(), (0..30).collect());
            for _ in 0..12 {
                let mut set: Vec<usize> = (0..2 + below(3)).map(|_| free[below(free.len())]).collect();
                set.sort_unstable();
                set.dedup();
                let nodes: Vec<NodeId> = set.iter().map(|k| values[*k].node).collect();
                let may = inspector.can_fuse(&nodes).is_ok();
                assert_eq!(may, !comes_back(&reads, &groups, &set), "{set:?} behind {groups:?} of {reads:?}");
                if may && set.len() > 1 {
                    inspector.report("P", &nodes, &[], &mut patch);
                    free.retain(|k| !set.contains(k));
                    groups.push(set);
                    fused += 1;
                }
                refused += usize::from(!may);
            }
        }
        assert!(fused > 200 && refused > 100, "{fused}, {refused}");
    }

    /// A path leaves at the only node with readers outside and comes back to one that nobody reads.
    #[test]
    fn a_node_without_readers_may_end_a_cycle() {
        let mut t = TestGraph::new();
        let x = t.input("x", DType::F32, &[4]);
        let a = t.add("Op", "a", &[x]).value();
        let outside = t.add("Op", "outside", &[a]).value();
        let unread = t.add("Op", "unread", &[outside]).value();
        let beside = t.add("Op", "beside", &[x]).value();
        let g = t.graph();
        let mut inspector = FuseInspector::new(&g);
        let e = inspector.can_fuse(&[a.node, unread.node]).expect_err("a cycle");
        assert!(e.contains("a path leaves the nodes and comes back to"), "{e}");
        assert_eq!(inspector.can_fuse(&[a.node, beside.node]), Ok(()));
    }
}
