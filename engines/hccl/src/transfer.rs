//! HcomSend and HcomReceive. All ranks run the same model, so a send and its receive form one
//! transfer: from rank `src_rank` of the receive to rank `dest_rank` of the send. The pair becomes
//! one node, whose edges order what both wait for. So no order of nodes can make two ranks wait for
//! each other.
//!
//! Before: `%s = HcomSend(%x) {sr_tag = 7, dest_rank = 1}`, `%r = HcomReceive() {sr_tag = 7, src_rank = 0, …}`.
//! After: `%r = HcomTransfer(%x) {sr_tag = 7, src_rank = 0, dest_rank = 1}`, named after the receive.
//! Refuses: a node without its counterpart, a different type or shape, a send that depends on its
//! own receive, pairs that wait for each other.
use ge_plugin_api::patch::{Edit, Patch};
use ge_plugin_api::types::{AttrMap, AttrValue, NodeId, ValueRef};
use ge_plugin_api::view::{Graph, Node};
use std::collections::{BTreeMap, BTreeSet};

/// Operator that sends one tensor to a rank.
pub const SEND: &str = "HcomSend";
/// Operator that receives one tensor from a rank.
pub const RECEIVE: &str = "HcomReceive";
/// Operator that combines a send and a receive.
pub const TRANSFER: &str = "HcomTransfer";

type Tag<'a> = (&'a str, i64);

fn tag<'a>(n: &Node<'a>) -> Tag<'a> {
    (n.str("group").unwrap_or("hccl_world_group"), n.int("sr_tag").unwrap_or(0))
}

/// Sends and receives of each tag, in the order of the graph.
fn by_tag<'a>(graph: &Graph<'a>) -> BTreeMap<Tag<'a>, (Vec<Node<'a>>, Vec<Node<'a>>)> {
    let mut all: BTreeMap<Tag<'a>, (Vec<Node<'a>>, Vec<Node<'a>>)> = BTreeMap::new();
    for n in graph.nodes() {
        match n.op() {
            SEND => all.entry(tag(&n)).or_default().0.push(n),
            RECEIVE => all.entry(tag(&n)).or_default().1.push(n),
            _ => {}
        }
    }
    all
}

/// Why a send and a receive do not form a pair; `None` if they do.
fn misfit(send: &Node<'_>, receive: &Node<'_>) -> Option<String> {
    let (Some(x), Some(y)) = (send.input_desc(0), receive.outputs().first()) else {
        return Some("the send has no input or the receive no output".into());
    };
    if x.dtype != y.dtype || x.shape != y.shape {
        let (s, r) = (send.name(), receive.name());
        return Some(format!("`{s}` sends {}{}, `{r}` receives {}{}", x.dtype, x.shape, y.dtype, y.shape));
    }
    None
}

/// Sources of the edges into a node.
fn sources(n: &Node<'_>) -> Vec<NodeId> {
    n.inputs().iter().filter(|v| !v.is_absent()).map(|v| v.node).chain(n.controls().iter().copied()).collect()
}

/// A send and its receive.
struct Pair<'a> {
    tag: Tag<'a>,
    send: Node<'a>,
    receive: Node<'a>,
}

/// The pairs of a graph that fit, and which of them wait for which.
struct Pairs<'a> {
    list: Vec<Pair<'a>>,
    /// The pair of each send and receive.
    of: BTreeMap<NodeId, usize>,
    /// For each pair, all pairs that must be over before it begins.
    after: Vec<BTreeSet<usize>>,
}

impl<'a> Pairs<'a> {
    /// The k-th send of a tag belongs to its k-th receive. Cost: one walk over the graph for each
    /// pair.
    fn of(graph: &Graph<'a>) -> Pairs<'a> {
        let mut list = Vec::new();
        for (tag, (sends, receives)) in by_tag(graph) {
            let both = sends.into_iter().zip(receives).filter(|(s, r)| misfit(s, r).is_none());
            list.extend(both.map(|(send, receive)| Pair { tag, send, receive }));
        }
        let halves = list.iter().enumerate().flat_map(|(i, p)| [(p.send.id(), i), (p.receive.id(), i)]);
        let mut pairs = Pairs { of: halves.collect(), after: Vec::new(), list };
        let direct: Vec<BTreeSet<usize>> = (0..pairs.list.len()).map(|i| pairs.before(graph, i)).collect();
        pairs.after = (0..direct.len()).map(|i| closure(&direct, i)).collect();
        pairs
    }

    /// The pairs on which pair `i` depends by edges and nodes that belong to no pair.
    fn before(&self, graph: &Graph<'a>, i: usize) -> BTreeSet<usize> {
        let Pair { send, receive, .. } = &self.list[i];
        let (mut found, mut seen) = (BTreeSet::new(), BTreeSet::new());
        // A receive that waits for its own send asks for nothing that one node does not give.
        let mut open: Vec<NodeId> = sources(receive).into_iter().filter(|s| *s != send.id()).collect();
        open.extend(sources(send));
        while let Some(id) = open.pop() {
            match self.of.get(&id) {
                Some(pair) => drop(found.insert(*pair)),
                None if seen.insert(id) => open.extend(sources(&graph.node(id))),
                None => {}
            }
        }
        found
    }

    /// Whether a pair waits for itself, directly or through other pairs.
    fn circular(&self, i: usize) -> bool {
        self.after[i].contains(&i)
    }

    /// The pairs that can become one node each, every pair after those that it waits for.
    fn ordered(&self) -> Vec<usize> {
        let mut all: Vec<usize> = (0..self.list.len()).filter(|i| !self.circular(*i)).collect();
        // What waits for more than another pair and for that pair too has the larger set.
        all.sort_by_key(|i| self.after[*i].len());
        all
    }

    /// Why a pair cannot become one node.
    fn circle(&self, i: usize) -> String {
        let Pair { send, receive, .. } = &self.list[i];
        let others = self.after[i].iter().filter(|j| **j != i && self.after[**j].contains(&i));
        let halves = others.flat_map(|j| [self.list[*j].send.name(), self.list[*j].receive.name()]);
        let others: Vec<String> = halves.map(|n| format!("`{n}`")).collect();
        let (s, r) = (send.name(), receive.name());
        if others.is_empty() {
            return format!(
                "`{s}` sends what depends on `{r}`, which receives it, or nodes between them wait for both"
            );
        }
        format!("`{s}` and `{r}` wait for {}, and these wait for them", others.join(", "))
    }
}

/// Everything that can be reached from `from`, itself only if it is in a circle.
fn closure(direct: &[BTreeSet<usize>], from: usize) -> BTreeSet<usize> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(i) = open.pop() {
        open.extend(direct[i].iter().filter(|j| seen.insert(**j)));
    }
    seen
}

/// Why a send or receive that is still in the graph was not paired.
pub fn refusal(node: &Node<'_>) -> String {
    let graph = node.graph();
    let key = tag(node);
    let all = by_tag(&graph);
    let empty = (Vec::new(), Vec::new());
    let (sends, receives) = all.get(&key).unwrap_or(&empty);
    let (own, others, what) = if node.op() == SEND { (sends, receives, RECEIVE) } else { (receives, sends, SEND) };
    let at = own.iter().position(|n| n.id() == node.id()).unwrap_or(0);
    let Some(other) = others.get(at) else {
        return format!("the graph has no {what} with sr_tag {} in group `{}` for it", key.1, key.0);
    };
    let (send, receive) = if node.op() == SEND { (node, other) } else { (other, node) };
    let circle = || {
        let pairs = Pairs::of(&graph);
        pairs.of.get(&node.id()).filter(|i| pairs.circular(**i)).map(|i| pairs.circle(*i))
    };
    let why = misfit(send, receive).or_else(circle);
    why.unwrap_or_else(|| format!("it stands apart from {what} `{}`", other.name()))
}

/// Attributes of the transfer that a pair becomes.
fn attributes(pair: &Pair<'_>) -> AttrMap {
    let mut attrs: AttrMap = pair.receive.attrs().into();
    attrs.remove("shape");
    attrs.remove("dtype");
    attrs.set("group", pair.tag.0);
    attrs.set("dest_rank", pair.send.int("dest_rank").unwrap_or(0));
    for a in pair.send.attrs() {
        if attrs.get(a.key).is_none() {
            attrs.set(a.key, a.value.clone());
        }
    }
    let names = vec![pair.send.name().into(), pair.receive.name().into()];
    attrs.set("_datadump_original_op_names", AttrValue::List(names.into()));
    attrs
}

/// Replaces the pairs of a graph by transfers. Edges between halves of different pairs become edges
/// between the transfers.
pub fn pair(graph: &Graph<'_>, patch: &mut Patch) {
    let pairs = Pairs::of(graph);
    let mut made: BTreeMap<NodeId, NodeId> = BTreeMap::new();
    let order = pairs.ordered();
    for pair in order.iter().map(|i| &pairs.list[*i]) {
        let value = |v: &ValueRef| made.get(&v.node).map_or(*v, |t| ValueRef::new(*t, 0));
        let inputs: Vec<ValueRef> = pair.send.inputs().iter().map(value).collect();
        let id = patch.add(TRANSFER, "", &inputs, pair.receive.outputs().to_vec(), attributes(pair));
        let halves = [&pair.send, &pair.receive];
        let controls = halves.iter().flat_map(|h| h.controls().iter().map(|c| *made.get(c).unwrap_or(c)));
        let controls: BTreeSet<NodeId> = controls.filter(|c| halves.iter().all(|h| h.id() != *c)).collect();
        controls.into_iter().for_each(|c| patch.push(Edit::AddControl(c, id)));
        made.extend(halves.iter().map(|h| (h.id(), id)));
    }
    for pair in order.iter().map(|i| &pairs.list[*i]) {
        let id = made[&pair.send.id()];
        patch.replace_uses(pair.receive.value(0), ValueRef::new(id, 0));
        let mut users: BTreeSet<NodeId> = BTreeSet::new();
        for half in [&pair.send, &pair.receive] {
            for u in graph.control_users(half.id()) {
                patch.push(Edit::RemoveControl(half.id(), *u));
                users.insert(*u);
            }
        }
        users.into_iter().filter(|u| !made.contains_key(u)).for_each(|u| patch.push(Edit::AddControl(id, u)));
    }
    for pair in order.iter().map(|i| &pairs.list[*i]) {
        patch.remove(pair.send.id());
        patch.remove(pair.receive.id());
        patch.push(Edit::SetName(made[&pair.send.id()], pair.receive.name().into()));
    }
}
