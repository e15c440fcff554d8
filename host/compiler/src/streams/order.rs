//! `ExecutionOrder`: which nodes run before which, by data and control edges, stream order,
//! activation and subgraph rules (DESIGN 2, "Order before sync"). Memory, sync and split use only
//! this relation, and sync guarantees exactly it.
//!
//! The nodes of all graphs form one line. A subgraph's nodes come directly before the node that
//! calls it, which ends after them; a subgraph's inputs come after the nodes that feed the caller.
//! Each node has a clock: for every stream, the number of its nodes that are over when the node
//! starts. `ordered(a, b)` compares one entry.
use crate::ids::{ModelMap, NodeKey, StreamId};
use crate::streams::StreamPlan;
use crate::streams::activation::Wakers;
use crate::streams::branches::Branches;
use crate::streams::logical::attached::{value_inputs, waits_itself};
use ge_ir::Model;
use std::collections::BTreeMap;

/// The execution order relation.
#[derive(Clone, Debug)]
pub struct ExecutionOrder {
    /// All nodes in one line that respects the relation.
    line: Vec<NodeKey>,
    /// Position in `line`.
    at: ModelMap<u32>,
    /// Stream of the k-th node of the line, and its position on it; `NOWHERE` for nodes on no
    /// stream.
    stream: Vec<u32>,
    pos: Vec<u32>,
    /// Clock of the k-th node: `streams` entries each.
    clocks: Vec<u32>,
    streams: usize,
    /// Streams and positions of attached work, by position of its node in the line.
    attached: BTreeMap<usize, Vec<(u32, u32)>>,
    /// Nodes whose attached work may begin before they do, as positions in the line. The clock of
    /// the k-th of them is stored after the clocks of the line.
    early: Vec<usize>,
    /// The branches, which tell what never runs together.
    branches: Branches,
}

const NOWHERE: u32 = u32::MAX;

impl ExecutionOrder {
    /// Builds the relation of a stream plan. Cost: nodes and edges times the number of streams.
    pub fn new(model: &Model, plan: &StreamPlan) -> ExecutionOrder {
        let line = line_of(model);
        let mut at = ModelMap::new(model, 0u32);
        for (i, k) in line.iter().enumerate() {
            at[*k] = i as u32;
        }
        let streams = plan.streams.len().max(1);
        let mut clocks = vec![0u32; line.len() * streams];
        let mut stream = vec![NOWHERE; line.len()];
        let mut pos = vec![0u32; line.len()];
        let mut last: Vec<Option<usize>> = vec![None; streams];
        let mut count = vec![0u32; streams];
        let mut clock = vec![0u32; streams];
        let parents = parents_of(model);
        let wakers = Wakers::of(model, plan);
        let regions = plan.regions(model);
        let mut attached: BTreeMap<usize, Vec<(u32, u32)>> = BTreeMap::new();
        let (mut early, mut early_clocks) = (Vec::new(), Vec::new());
        // Clock of the last work on each attached stream.
        let mut beside: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for i in 0..line.len() {
            let key = line[i];
            clock.fill(0);
            let join = |clock: &mut [u32], p: usize, stream: &[u32], pos: &[u32], clocks: &[u32]| {
                for (c, o) in clock.iter_mut().zip(&clocks[p * streams..(p + 1) * streams]) {
                    *c = (*c).max(*o);
                }
                if stream[p] != NOWHERE {
                    let s = stream[p] as usize;
                    clock[s] = clock[s].max(pos[p] + 1);
                }
            };
            for p in ahead_of(model, plan, key, &parents) {
                let p = at[p] as usize;
                let aside =
                    |c: usize| plan.of[key].is_some_and(|own| c < streams && wakers.beside(StreamId(c as u32), own));
                if p < i && stream[p] != NOWHERE && aside(stream[p] as usize) {
                    // The predecessor runs only on its own path, so it implies nothing about the
                    // other streams.
                    let mut row = vec![0; streams];
                    join(&mut row, p, &stream, &pos, &clocks);
                    for (c, o) in row.into_iter().enumerate().filter(|(c, _)| aside(*c)) {
                        clock[c] = clock[c].max(o);
                    }
                } else if p < i {
                    join(&mut clock, p, &stream, &pos, &clocks);
                    for (s, pos) in attached.get(&p).into_iter().flatten() {
                        clock[*s as usize] = clock[*s as usize].max(pos + 1);
                    }
                }
            }
            // A body ends when all its streams have ended.
            if let Some(region) = plan.flow.as_ref().and_then(|f| f.joined_at(key)) {
                for s in (0..streams).filter(|s| regions.get(*s) == Some(&region)) {
                    clock[s] = clock[s].max(count[s]);
                    if let Some(p) = last[s] {
                        join(&mut clock, p, &stream, &pos, &clocks);
                    }
                }
            }
            // A node without a task is on no stream: its order passes through it.
            let no_task = plan.taskless[key] || key.get(model).is_some_and(|n| n.attrs().flag("_no_task"));
            if let Some(StreamId(s)) = plan.of[key].filter(|_| !no_task) {
                let s = s as usize;
                if s < streams {
                    match last[s] {
                        Some(p) => join(&mut clock, p, &stream, &pos, &clocks),
                        // A sleeping stream starts after the node that wakes it.
                        None => {
                            let woken = StreamId(s as u32);
                            let ends: Vec<usize> = wakers.before(plan, woken).iter().map(|w| at[*w] as usize).collect();
                            let ends = if ends.iter().all(|w| *w < i) { ends } else { Vec::new() };
                            // Any one of several wakers may run, so only what precedes all of them
                            // is over. For streams that run only on some paths, it is enough to
                            // precede the wakers on those paths.
                            let rows = ends.iter().map(|w| {
                                let mut row = vec![0; streams];
                                join(&mut row, *w, &stream, &pos, &clocks);
                                row
                            });
                            let sure = rows.reduce(|a, b| {
                                let one = |(c, (x, y)): (usize, (u32, u32))| {
                                    if wakers.beside(StreamId(c as u32), woken) { x.max(y) } else { x.min(y) }
                                };
                                a.into_iter().zip(b).enumerate().map(one).collect()
                            });
                            for (c, o) in clock.iter_mut().zip(sure.unwrap_or_default()) {
                                *c = (*c).max(o);
                            }
                        }
                    }
                    stream[i] = s as u32;
                    pos[i] = count[s];
                    count[s] += 1;
                    last[s] = Some(i);
                }
                for t in plan.attached[key].iter().map(|t| t.0).filter(|t| (*t as usize) < streams) {
                    let begins = match ahead_of_attached(model, plan, key, &wakers) {
                        None => clock.clone(),
                        Some(needed) => {
                            let mut begins = beside.get(&t).cloned().unwrap_or_else(|| vec![0; streams]);
                            begins[t as usize] = count[t as usize];
                            for p in needed.iter().map(|p| at[*p] as usize).filter(|p| *p < i) {
                                join(&mut begins, p, &stream, &pos, &clocks);
                                for (s, pos) in attached.get(&p).into_iter().flatten() {
                                    begins[*s as usize] = begins[*s as usize].max(pos + 1);
                                }
                            }
                            early.push(i);
                            early_clocks.extend_from_slice(&begins);
                            begins
                        }
                    };
                    // If the node itself waits for its attached work, it and everything after it
                    // follow what the attached work follows.
                    if key.get(model).is_some_and(waits_itself) {
                        for (c, o) in clock.iter_mut().zip(&begins) {
                            *c = (*c).max(*o);
                        }
                        clock[t as usize] = clock[t as usize].max(count[t as usize] + 1);
                    }
                    beside.insert(t, begins);
                    attached.entry(i).or_default().push((t, count[t as usize]));
                    count[t as usize] += 1;
                }
            }
            clocks[i * streams..(i + 1) * streams].copy_from_slice(&clock);
        }
        clocks.append(&mut early_clocks);
        let branches = Branches::of(model, plan.flow.as_ref());
        ExecutionOrder { line, at, stream, pos, clocks, streams, attached, early, branches }
    }

    /// Whether `a` is over before `b` starts, for every schedule. O(1) for nodes on a stream.
    pub fn ordered(&self, a: NodeKey, b: NodeKey) -> bool {
        self.ordered_at(self.at[a] as usize, self.at[b] as usize)
    }
    /// Like [`ordered`](Self::ordered), by positions in the line; `b` may also be the
    /// [beginning](Self::beginning) of a node.
    pub fn ordered_at(&self, a: usize, b: usize) -> bool {
        let node = if b < self.line.len() { b } else { self.early[b - self.line.len()] };
        if a >= node {
            return false;
        }
        let cb = &self.clocks[b * self.streams..(b + 1) * self.streams];
        match self.stream[a] {
            NOWHERE => self.clocks[a * self.streams..(a + 1) * self.streams].iter().zip(cb).all(|(x, y)| x <= y),
            s => {
                let also = self.attached.get(&a);
                cb[s as usize] > self.pos[a]
                    && also.is_none_or(|list| list.iter().all(|(t, pos)| cb[*t as usize] > *pos))
            }
        }
    }
    /// The beginning of the `i`-th node of the line, to be used as second argument of
    /// [`ordered_at`](Self::ordered_at). If the node's attached work may run ahead of the node,
    /// this is the beginning of the attached work.
    pub fn beginning(&self, i: usize) -> usize {
        self.early.binary_search(&i).map_or(i, |k| self.line.len() + k)
    }
    /// The branches of which only one is taken.
    pub fn branches(&self) -> &Branches {
        &self.branches
    }
    /// All nodes in one line that respects the relation.
    pub fn line(&self) -> &[NodeKey] {
        &self.line
    }
    /// Position of a node in the line.
    pub fn position(&self, k: NodeKey) -> usize {
        self.at[k] as usize
    }
    /// Stream of the `i`-th node of the line, and the node's position on it; `None` if it is on no
    /// stream.
    pub fn stand(&self, i: usize) -> Option<(StreamId, u32)> {
        if self.stream[i] == NOWHERE { None } else { Some((StreamId(self.stream[i]), self.pos[i])) }
    }
    /// Number of streams in the clocks.
    pub fn stream_count(&self) -> usize {
        self.streams
    }
    /// Clock of the `i`-th node: for every stream, the number of its nodes that are over when this
    /// node starts.
    pub fn clock(&self, i: usize) -> &[u32] {
        &self.clocks[i * self.streams..(i + 1) * self.streams]
    }
}

/// For each graph, the node that calls it.
pub fn parents_of(model: &Model) -> Vec<Option<NodeKey>> {
    let by_name = model.parents();
    model.graphs().iter().map(|g| by_name.get(g.name()).map(|(gi, n)| NodeKey::new(*gi, *n))).collect()
}

/// Nodes that must be over before a node starts, in a plan. If control flow is expressed by labels,
/// edges across a body's border are replaced by edges to its scope; otherwise this is
/// [`predecessors`].
pub fn ahead_of(model: &Model, plan: &StreamPlan, key: NodeKey, parents: &[Option<NodeKey>]) -> Vec<NodeKey> {
    match &plan.flow {
        Some(flow) if key.graph == 0 => flow.before(key.node).iter().map(|n| NodeKey::new(0, *n)).collect(),
        _ => predecessors(model, key, parents),
    }
}

/// Nodes that must be over before a node's attached work starts: the producers of the inputs whose
/// values it reads (facts 1.7). `None` means everything that must be over before the node itself.
/// This is so if the inputs read are not specified, if a value has writers besides its producer (a
/// variable, an input of a subgraph), if a workspace is cleared beforehand, if the attached stream
/// sleeps until a node wakes it, and if control flow is expressed by labels.
pub fn ahead_of_attached(model: &Model, plan: &StreamPlan, key: NodeKey, wakers: &Wakers) -> Option<Vec<NodeKey>> {
    let n = key.get(model).filter(|_| plan.flow.is_none())?;
    let sleeps = |s: &StreamId| !wakers.before(plan, *s).is_empty();
    if plan.attached[key].iter().any(sleeps) {
        return None;
    }
    if n.attrs().ints("_atomic_workspace_index").is_some_and(|l| !l.is_empty()) {
        return None;
    }
    let inputs = value_inputs(n)?;
    let producers: Vec<NodeKey> =
        inputs.into_iter().filter_map(|i| n.input(i)).map(|v| NodeKey { graph: key.graph, node: v.node }).collect();
    let mut behind = producers.clone();
    let mut seen = std::collections::BTreeSet::new();
    while let Some(p) = behind.pop() {
        let source = p.get(model)?;
        match source.op() {
            "Variable" | "RefData" => return None,
            "Data" if key.graph > 0 => return None,
            _ => {}
        }
        // A node without a task only stands for its inputs.
        if plan.of[p].is_none() || plan.taskless[p] || source.attrs().flag("_no_task") {
            let inputs =
                source.inputs().iter().filter(|v| !v.is_absent()).map(|v| NodeKey { graph: p.graph, node: v.node });
            behind.extend(inputs.filter(|p| seen.insert(*p)));
        }
    }
    Some(producers)
}

/// Nodes that must be over before a node starts: its producers and control inputs; for a node of a
/// subgraph without inputs, what feeds the caller; for a caller, also the outputs of its subgraphs.
pub fn predecessors(model: &Model, key: NodeKey, parents: &[Option<NodeKey>]) -> Vec<NodeKey> {
    let mut out = Vec::new();
    let g = key.graph_of(model);
    let Some(n) = g.get(key.node) else { return out };
    out.extend(n.inputs().iter().filter(|v| !v.is_absent()).map(|v| NodeKey { graph: key.graph, node: v.node }));
    out.extend(n.controls().iter().map(|c| NodeKey { graph: key.graph, node: *c }));
    if out.is_empty() {
        if let Some(parent) = parents[key.graph as usize] {
            // The caller's own predecessors, through as many levels as needed.
            out.extend(predecessors_of_parent(model, parent, parents));
        }
    }
    for s in n.subgraphs() {
        if let Some(gi) = model.graph_index(s) {
            if let Some(o) = model.graphs()[gi].net_output() {
                out.push(NodeKey::new(gi, o.id()));
            }
        }
    }
    out
}

fn predecessors_of_parent(model: &Model, mut parent: NodeKey, parents: &[Option<NodeKey>]) -> Vec<NodeKey> {
    for _ in 0..=parents.len() {
        let Some(n) = parent.get(model) else { return Vec::new() };
        let mut out: Vec<NodeKey> = n
            .inputs()
            .iter()
            .filter(|v| !v.is_absent())
            .map(|v| NodeKey { graph: parent.graph, node: v.node })
            .collect();
        out.extend(n.controls().iter().map(|c| NodeKey { graph: parent.graph, node: *c }));
        if !out.is_empty() {
            return out;
        }
        match parents[parent.graph as usize] {
            Some(up) => parent = up,
            None => return out,
        }
    }
    Vec::new()
}

/// All nodes in one line: each graph in its order, a subgraph's nodes directly before the node that
/// calls it.
fn line_of(model: &Model) -> Vec<NodeKey> {
    let mut out = Vec::with_capacity(model.node_count());
    let mut entered = vec![false; model.graphs().len()];
    let mut stack: Vec<(usize, usize, bool)> = vec![(0, 0, false)];
    entered[0] = true;
    while let Some((gi, at, subs_done)) = stack.pop() {
        let g = &model.graphs()[gi];
        let Some(&id) = g.order().get(at) else { continue };
        if !subs_done {
            let subs: Vec<usize> = g
                .get(id)
                .map(|n| n.subgraphs())
                .unwrap_or_default()
                .iter()
                .filter_map(|s| model.graph_index(s))
                .collect();
            let fresh: Vec<usize> = subs.into_iter().filter(|s| !std::mem::replace(&mut entered[*s], true)).collect();
            if !fresh.is_empty() {
                stack.push((gi, at, true));
                stack.extend(fresh.into_iter().rev().map(|s| (s, 0, false)));
                continue;
            }
        }
        out.push(NodeKey::new(gi, id));
        stack.push((gi, at + 1, false));
    }
    out
}
