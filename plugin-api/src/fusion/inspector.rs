//! `FuseInspector`: whether nodes may become others (attributes that agree, no cycle), and the
//! report of those that did.
use super::Verdict;
use crate::patch::{Edit, Patch};
use crate::types::{Attr, AttrValue, Key, NodeId, ValueRef};
use crate::view::{Graph, Node};
use std::collections::{HashMap, HashSet};

/// Attribute of a fused node: names of the nodes it stands for.
pub const ORIGINALS: &str = "_datadump_original_op_names";
/// Attribute of a fused node: the passes that made it, the last one at the end.
pub const PASS_NAME: &str = "_pass_name";
/// Graph attribute by which a pass reports to the host; it never reaches a graph. A list of texts:
/// `fused`, the pass, the names of the nodes before and after (each list joined by `;`), or
/// `refused`, the pass, a node's name, and why.
pub const REPORT: &str = "_fusion_report";

/// Attributes in which nodes must agree to become one: who computes them and where they stand. The
/// fused node gets them.
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

/// Whether a node holds subgraphs, which no fusion looks into.
pub(super) fn has_subgraph(n: &Node<'_>) -> bool {
    let graph = |v: &AttrValue| match v {
        AttrValue::Graph(_) => true,
        AttrValue::List(l) => l.iter().any(|v| matches!(v, AttrValue::Graph(_))),
        _ => false,
    };
    n.attrs().iter().any(|a| graph(&a.value))
}

/// The border of a set of nodes: what leaves it is one of `outputs`, and no control edge crosses
/// it.
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

/// Says whether nodes may be fused, and keeps what was fused, so that later answers count it.
pub struct FuseInspector<'g> {
    graph: Graph<'g>,
    consistent: Vec<Key>,
    /// The nodes in an order of the graph in which each of `groups` stands together; made when it is
    /// first asked for.
    order: Vec<NodeId>,
    /// Place in it by node.
    place: Vec<usize>,
    /// Sets fused so far with more than one output.
    groups: Vec<Vec<NodeId>>,
    group_of: HashMap<NodeId, usize>,
}

impl<'g> FuseInspector<'g> {
    /// For one graph.
    pub fn new(graph: &Graph<'g>) -> Self {
        let consistent = CONSISTENT.iter().map(|k| Key::new(k)).collect();
        let (order, place) = (Vec::new(), Vec::new());
        FuseInspector { graph: *graph, consistent, order, place, groups: Vec::new(), group_of: HashMap::new() }
    }

    /// Whether these nodes may become one: they agree in [`CONSISTENT`], and no path leaves them
    /// and comes back.
    ///
    /// # Errors
    /// Why not, in words.
    pub fn can_fuse(&mut self, nodes: &[NodeId]) -> Verdict {
        self.attributes(nodes)?;
        self.cycle(nodes)
    }

    /// Whether it is one of [`CONSISTENT`].
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

    /// Nodes that read a node or follow it.
    fn leaving(&self, id: NodeId) -> impl Iterator<Item = NodeId> + use<'g> {
        let (g, n) = (self.graph, self.graph.node(id));
        let readers = (0..n.outputs().len() as u32).flat_map(move |k| g.users(n.value(k)).iter().map(|u| u.node));
        readers.chain(g.control_users(id).iter().copied())
    }

    fn make_places(&mut self) {
        if self.place.is_empty() {
            self.order = self.graph.order().to_vec();
            self.place = vec![usize::MAX; self.order.iter().map(|id| id.index() + 1).max().unwrap_or(0)];
            self.order.iter().enumerate().for_each(|(i, id)| self.place[id.index()] = i);
        }
    }

    /// Puts nodes that became one side by side in the order: what stands between them goes before
    /// them, but what waits for one of them goes behind.
    fn gather(&mut self, nodes: &[NodeId]) {
        self.make_places();
        let places = || nodes.iter().map(|n| self.place_of(*n)).filter(|p| *p != usize::MAX);
        let (Some(first), Some(last)) = (places().min(), places().max()) else { return };
        let inside = Inside::of(nodes);
        let mut waits = vec![false; last - first + 1];
        for at in first..=last {
            let id = self.order[at];
            if !inside.has(id) && !waits[at - first] {
                continue;
            }
            for reader in self.leaving(id).filter(|r| !inside.has(*r)) {
                let group = self.group_of.get(&reader).map(|g| self.groups[*g].as_slice());
                for of in group.unwrap_or(&[reader]) {
                    if let Some(w) = self.place_of(*of).checked_sub(first).and_then(|k| waits.get_mut(k)) {
                        *w = true;
                    }
                }
            }
        }
        let window = self.order[first..=last].to_vec();
        let rank = |k: usize, id: NodeId| if inside.has(id) { 1 } else { 2 * u8::from(waits[k]) };
        let by =
            |wanted: u8| window.iter().enumerate().filter(move |(k, id)| rank(*k, **id) == wanted).map(|(_, id)| *id);
        let sorted: Vec<NodeId> = by(0).chain(by(1)).chain(by(2)).collect();
        for (at, id) in (first..).zip(sorted) {
            self.order[at] = id;
            self.place[id.index()] = at;
        }
    }

    fn place_of(&self, id: NodeId) -> usize {
        self.place.get(id.index()).copied().unwrap_or(usize::MAX)
    }

    fn cycle(&mut self, nodes: &[NodeId]) -> Verdict {
        let inside = Inside::of(nodes);
        // Where only one node has readers outside and every other is before it, what leaves cannot
        // come back.
        let open = nodes.iter().filter(|n| self.leaving(**n).any(|r| !inside.has(r))).count();
        if open <= 1 && self.groups.is_empty() {
            return Ok(());
        }
        self.make_places();
        let limit = nodes.iter().map(|n| self.place_of(*n)).max().unwrap_or(0);
        let mut todo: Vec<NodeId> = nodes.iter().flat_map(|n| self.leaving(*n)).filter(|r| !inside.has(*r)).collect();
        let mut seen: HashSet<NodeId> = HashSet::new();
        while let Some(id) = todo.pop() {
            if inside.has(id) {
                return Err(format!(
                    "a path leaves the nodes and comes back to `{}`: the graph would have a cycle",
                    self.graph.node(id).name()
                ));
            }
            if self.place_of(id) > limit || !seen.insert(id) {
                continue;
            }
            todo.extend(self.leaving(id));
            if let Some(group) = self.group_of.get(&id) {
                todo.extend(self.groups[*group].iter().flat_map(|n| self.leaving(*n)));
            }
        }
        Ok(())
    }

    /// Tells that nodes became others (`after` by name; none: they are only deleted). Later answers
    /// count it, and the host lists it.
    pub fn report(&mut self, pass: &str, before: &[NodeId], after: &[String], patch: &mut Patch) {
        let names: Vec<&str> = before.iter().map(|n| self.graph.node(*n).name()).collect();
        tell(patch, ["fused", pass, &names.join(";"), &after.join(";")]);
        let inside = Inside::of(before);
        let read_outside = |id: &NodeId| {
            let n = self.graph.node(*id);
            (0..n.outputs().len() as u32).any(|k| self.graph.users(n.value(k)).iter().any(|u| !inside.has(u.node)))
        };
        if before.iter().filter(|n| read_outside(n)).count() > 1 {
            self.gather(before);
            self.group_of.extend(before.iter().map(|n| (*n, self.groups.len())));
            self.groups.push(before.to_vec());
        }
    }

    /// Tells why a node was left as it is.
    pub fn refuse(&self, pass: &str, node: NodeId, why: &str, patch: &mut Patch) {
        tell(patch, ["refused", pass, self.graph.node(node).name(), why]);
    }
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
