//! Cutting: nodes move into the graph of their cluster. An edge between two graphs becomes an End
//! in the source graph and a PlaceHolder in the reading graph, one pair for each output and reading
//! graph (facts 3.4).
use super::pieces::{Frame, NEW, Piece, Pieces, Round};
use crate::toolbox::EngineId;
use ge_ir::graph::Loose;
use ge_ir::{AttrMap, Graph, Key, Node, NodeId, TensorDesc, ValueRef};
use ge_planners::cluster::{Fit, partition};
use std::collections::{BinaryHeap, HashMap};

/// Attribute of a graph that must not be cut.
pub const NO_PARTITION: &str = "no_need_partition";

/// Marks a node that belongs to no subgraph.
const REST: u32 = u32::MAX;

/// The assignment of a graph's nodes to subgraphs.
#[derive(Clone, Debug)]
pub struct Cut {
    /// Subgraph of each node, by its place in the order; `u32::MAX` if it stays in the frame.
    pub of: Vec<u32>,
    /// Number of subgraphs.
    pub count: usize,
    /// Names of the subgraphs; if empty, their names derive from the graph's name.
    pub names: Vec<String>,
}

/// Finds the subgraphs of a graph. `fit` compares two nodes by their places in the order.
pub fn clusters(g: &Graph, fit: &dyn Fn(u32, u32) -> Fit) -> Cut {
    let n = g.len();
    let mut cut = Cut { of: vec![REST; n], count: 0, names: Vec::new() };
    if g.attrs().get(NO_PARTITION).and_then(|v| v.as_bool()) == Some(true) {
        return cut;
    }
    let mut at = vec![0u32; g.id_bound()];
    let mut items: Vec<u32> = Vec::with_capacity(n);
    let mut item_of = vec![REST; n];
    for (place, node) in (0u32..).zip(g.nodes()) {
        at[node.id().index()] = place;
        if !stays(node) {
            item_of[place as usize] = items.len() as u32;
            items.push(place);
        }
    }
    let item = |id: NodeId| item_of[at[id.index()] as usize];
    let mut edges = Vec::new();
    for (k, &place) in (0u32..).zip(&items) {
        let Some(node) = g.get(g.order()[place as usize]) else { continue };
        let data = node.inputs().iter().filter(|v| !v.is_absent()).map(|v| v.node);
        edges.extend(data.chain(node.controls().iter().copied()).map(|s| (item(s), k)).filter(|(s, _)| *s != REST));
    }
    let found = partition(items.len(), edges, &|a, b| fit(items[a as usize], items[b as usize]));
    // Numbers the clusters in topological order. Among those that are ready, the one with the
    // smallest node comes first.
    let mut waits: Vec<usize> = found.preds.iter().map(Vec::len).collect();
    let mut ready: BinaryHeap<std::cmp::Reverse<u32>> =
        (0u32..).zip(&waits).filter(|(_, w)| **w == 0).map(|(c, _)| std::cmp::Reverse(c)).collect();
    while let Some(std::cmp::Reverse(c)) = ready.pop() {
        for &i in &found.members[c as usize] {
            cut.of[items[i as usize] as usize] = cut.count as u32;
        }
        cut.count += 1;
        for &next in &found.succs[c as usize] {
            waits[next as usize] -= 1;
            if waits[next as usize] == 0 {
                ready.push(std::cmp::Reverse(next));
            }
        }
    }
    // A constant that only one subgraph reads moves into that subgraph.
    for (place, node) in g.nodes().enumerate() {
        if !node.is_const() || cut.of[place] != REST {
            continue;
        }
        let readers = node.uses(0).iter().map(|u| u.node).chain(node.control_users().iter().copied());
        let mut of = readers.map(|r| cut.of[at[r.index()] as usize]);
        if let Some(first) = of.next().filter(|f| *f != REST) {
            if of.all(|p| p == first) {
                cut.of[place] = first;
            }
        }
    }
    cut
}

/// Whether a node stays in the frame: sources that wait for nothing, and the graph's outputs.
fn stays(n: &Node) -> bool {
    let source = matches!(
        n.op(),
        "Data" | "RefData" | "AippData" | "AnnData" | "Const" | "Constant" | "Variable" | "FileConstant"
    );
    (source && n.inputs().is_empty() && n.controls().is_empty()) || n.op() == "NetOutput"
}

/// Whether `op` is a parameter of the graph. No End is made for its output.
fn is_data(op: &str) -> bool {
    matches!(op, "Data" | "RefData" | "AippData" | "AnnData")
}

/// The place of a node and one of its outputs, or `CONTROL` for a control edge from the node.
type Anchor = (u32, u32);
const CONTROL: u32 = u32::MAX;

/// Moves the nodes of graphs into the graphs of their clusters. `engines` holds the engine of each
/// node of each graph, by place in the order.
pub fn apart(graphs: Vec<Graph>, cuts: Vec<Cut>, engines: &[Vec<Option<EngineId>>], round: Round) -> Pieces {
    let keys = Keys::new(&graphs);
    let mut taken: std::collections::HashSet<String> = graphs.iter().map(|g| g.name().to_owned()).collect();
    let mut peer = 0;
    let mut frames = Vec::with_capacity(graphs.len());
    for ((g, cut), engines) in graphs.into_iter().zip(cuts).zip(engines) {
        if cut.count == 0 {
            let origin = places(&g);
            frames.push(Frame { rest: Piece { graph: g, origin, ..Piece::default() }, pieces: Vec::new() });
        } else {
            frames.push(one(g, &cut, engines, &keys, &mut taken, &mut peer));
        }
    }
    Pieces { round, frames }
}

fn places(g: &Graph) -> Vec<u32> {
    let mut out = vec![NEW; g.id_bound()];
    for (place, id) in (0u32..).zip(g.order()) {
        out[id.index()] = place;
    }
    out
}

struct Keys {
    place_holder: Key,
    end: Key,
    peer: Key,
    parent_type: Key,
    parent_name: Key,
    anchor: Key,
    /// Name prefixes of PlaceHolders and Ends. No other node name in the model begins with them.
    prefix: (String, String),
}

impl Keys {
    fn new(graphs: &[Graph]) -> Keys {
        let mut prefix = ("PlaceHolder_".to_owned(), "End_".to_owned());
        let taken = |p: &str| graphs.iter().any(|g| g.nodes().any(|n| n.name().starts_with(p)));
        while taken(&prefix.0) || taken(&prefix.1) {
            prefix = (format!("_{}", prefix.0), format!("_{}", prefix.1));
        }
        Keys {
            place_holder: Key::new("PlaceHolder"),
            end: Key::new("End"),
            peer: Key::new("peerIndex"),
            parent_type: Key::new("parentOpType"),
            parent_name: Key::new("_parentNodeName"),
            anchor: Key::new("anchorIndex"),
            prefix,
        }
    }
    fn joint(&self, op: Key, peer: u32, parent_type: &str, parent_name: &str, anchor: u32) -> Loose {
        let prefix = if op == self.end { &self.prefix.1 } else { &self.prefix.0 };
        let mut attrs = AttrMap::default();
        attrs.set(self.peer, peer);
        attrs.set(self.parent_type, parent_type);
        attrs.set(self.parent_name, parent_name);
        attrs.set(self.anchor, if anchor == CONTROL { -1 } else { i64::from(anchor) });
        Loose {
            op,
            name: format!("{prefix}{peer}"),
            inputs: Vec::new(),
            controls: Vec::new(),
            outputs: Vec::new(),
            attrs,
        }
    }
}

/// The PlaceHolders and Ends of one resulting graph.
#[derive(Default)]
struct Side {
    holders: Vec<Loose>,
    of: HashMap<Anchor, u32>,
    /// Each End with the anchor that it stands for.
    ends: Vec<(Anchor, Loose)>,
}

fn one(
    g: Graph,
    cut: &Cut,
    engines: &[Option<EngineId>],
    keys: &Keys,
    taken: &mut std::collections::HashSet<String>,
    peer: &mut u32,
) -> Frame {
    let name = g.name().to_owned();
    let at = places(&g);
    // The frame is the last side.
    let side = |place: u32| if cut.of[place as usize] == REST { cut.count } else { cut.of[place as usize] as usize };
    let mut sides: Vec<Side> = (0..=cut.count).map(|_| Side::default()).collect();
    for n in g.nodes() {
        let to = side(at[n.id().index()]);
        let data = n.inputs().iter().filter(|v| !v.is_absent()).map(|v| (v.node, v.output));
        for (source, anchor) in data.chain(n.controls().iter().map(|c| (*c, CONTROL))) {
            let place = at[source.index()];
            let from = side(place);
            if from == to || sides[to].of.contains_key(&(place, anchor)) {
                continue;
            }
            let Some(p) = g.get(source) else { continue };
            let mut holder = keys.joint(keys.place_holder, *peer, p.op(), p.name(), anchor);
            holder.outputs = if anchor == CONTROL {
                Vec::new()
            } else {
                p.outputs().get(anchor as usize).cloned().into_iter().collect::<Vec<TensorDesc>>()
            };
            let id = sides[to].holders.len() as u32;
            sides[to].of.insert((place, anchor), id);
            sides[to].holders.push(holder);
            if !is_data(p.op()) {
                let end = keys.joint(keys.end, *peer, n.op(), n.name(), anchor);
                sides[from].ends.push(((place, anchor), end));
            }
            *peer += 1;
        }
    }
    let mut first: Vec<u32> = vec![REST; cut.count];
    for (place, &p) in (0u32..).zip(&cut.of) {
        if p != REST && first[p as usize] == REST {
            first[p as usize] = place;
        }
    }
    // A constant that moved into a subgraph does not determine the engine of the subgraph.
    let mut engine: Vec<Option<EngineId>> = vec![None; cut.count];
    for (place, n) in g.nodes().enumerate() {
        if let Some(e) = engine.get_mut(cut.of[place] as usize).filter(|_| !stays(n)) {
            *e = engines[place];
        }
    }
    let mut out: Vec<Piece> = (0..cut.count)
        .map(|k| {
            let mut own = cut.names.get(k).cloned().unwrap_or_else(|| format!("{name}_sub_{k}"));
            while !taken.insert(own.clone()) {
                own.push('_');
            }
            Piece { graph: Graph::new(&own), engine: engine[k], ..Piece::default() }
        })
        .collect();
    let mut rest = Piece { graph: Graph::new(&name), ..Piece::default() };
    for (k, s) in sides.iter_mut().enumerate() {
        let p = if k == cut.count { &mut rest } else { &mut out[k] };
        for h in s.holders.drain(..) {
            put(p, h, NEW);
        }
    }
    let mut local = vec![NodeId::NONE; at.len()];
    let (attrs, nodes) = g.into_nodes();
    *rest.graph.attrs_mut() = attrs;
    let mut last = None;
    for (id, mut n) in nodes {
        let place = at[id.index()];
        let k = side(place);
        let of = &sides[k].of;
        let here = |source: NodeId, anchor: u32| match of.get(&(at[source.index()], anchor)) {
            Some(h) => (NodeId(*h), true),
            None => (local[source.index()], false),
        };
        for v in n.inputs.iter_mut().filter(|v| !v.is_absent()) {
            let (node, joint) = here(v.node, v.output);
            *v = ValueRef::new(node, if joint { 0 } else { v.output });
        }
        for c in &mut n.controls {
            *c = here(*c, CONTROL).0;
        }
        if k == cut.count && n.op.as_str() == "NetOutput" {
            // NetOutput goes to the end of the frame, after the Ends.
            last = Some((n, place));
            continue;
        }
        let p = if k == cut.count { &mut rest } else { &mut out[k] };
        local[id.index()] = put(p, n, place);
    }
    let mut ids = vec![NodeId::NONE; cut.of.len()];
    for (id, l) in local.iter().enumerate() {
        if at[id] != NEW {
            ids[at[id] as usize] = *l;
        }
    }
    for (k, s) in sides.into_iter().enumerate() {
        let p = if k == cut.count { &mut rest } else { &mut out[k] };
        for ((place, anchor), mut end) in s.ends {
            let source = ids[place as usize];
            if anchor == CONTROL {
                end.controls.push(source);
            } else {
                end.inputs.push(ValueRef::new(source, anchor));
            }
            put(p, end, NEW);
        }
    }
    if let Some((n, place)) = last {
        put(&mut rest, n, place);
    }
    Frame { rest, pieces: out }
}

/// Appends a node; the nodes that it reads must already be in the graph.
fn put(p: &mut Piece, n: Loose, place: u32) -> NodeId {
    let id = p.graph.push(n).unwrap_or(NodeId::NONE);
    debug_assert!(id != NodeId::NONE, "a node before what it reads");
    p.origin.push(place);
    id
}
