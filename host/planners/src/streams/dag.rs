//! The plain graph that stream planners work on: costs, engines, labels and edges, and the rules a
//! plan has to keep.

use thiserror::Error;

/// No label, no stream, no node.
pub const NONE: u32 = u32::MAX;

/// One node of a [`Dag`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DagNode {
    /// Run time in nanoseconds.
    pub cost: u64,
    /// Index of the engine in [`Rules`].
    pub engine: u32,
    /// Index of the stream label.
    pub label: Option<u32>,
    /// Size in bytes of the node's one output tensor.
    pub out_bytes: u64,
    /// The output lives to the end of the graph.
    pub keep: bool,
    /// A predecessor whose stream the node shares, whatever its own kind.
    pub follow: Option<u32>,
}

/// Why a graph or its rules can not be planned.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum DagError {
    /// An edge names a node that is not there.
    #[error("edge {edge} names node {node}, the graph has {nodes} nodes")]
    UnknownNode {
        /// Index of the edge in the list given.
        edge: usize,
        /// The node it names.
        node: u32,
        /// Number of nodes.
        nodes: usize,
    },
    /// The edges form a cycle.
    #[error("the edges form a cycle through node {node}")]
    Cycle {
        /// One node on the cycle.
        node: u32,
    },
    /// A node names an engine or a label outside the tables.
    #[error("node {node} names {what} {index}, there are {known}")]
    UnknownIndex {
        /// The node.
        node: usize,
        /// `engine` or `label`.
        what: &'static str,
        /// The index it names.
        index: u32,
        /// Length of the table.
        known: usize,
    },
    /// Sums of costs do not fit.
    #[error("the costs of the nodes add up to more than {limit} ns")]
    CostOverflow {
        /// The greatest sum allowed.
        limit: u64,
    },
    /// Too many nodes or edges.
    #[error("{count} {what}, at most {limit} are supported")]
    TooLarge {
        /// `nodes` or `edges`.
        what: &'static str,
        /// How many.
        count: usize,
        /// How many are possible.
        limit: usize,
    },
    /// The labels and independent engines alone need more streams than allowed.
    #[error("labels, independent engines and plain nodes need {need} streams at least, {allowed} allowed")]
    TooFewStreams {
        /// Streams that every plan has.
        need: usize,
        /// The limit given.
        allowed: usize,
    },
}

/// Adjacency in compressed rows.
#[derive(Debug, Clone, Default)]
pub struct Rows {
    at: Vec<u32>,
    to: Vec<u32>,
}

impl Rows {
    /// Rows of `n` nodes from (row, value) pairs, each row in the order of the pairs.
    pub fn from_pairs(n: usize, pairs: impl Iterator<Item = (u32, u32)> + Clone) -> Rows {
        let mut at = vec![0u32; n + 1];
        let mut count = 0usize;
        for (a, _) in pairs.clone() {
            at[a as usize + 1] += 1;
            count += 1;
        }
        for k in 0..n {
            at[k + 1] += at[k];
        }
        let mut next = at.clone();
        let mut to = vec![0u32; count];
        for (a, b) in pairs {
            let slot = &mut next[a as usize];
            to[*slot as usize] = b;
            *slot += 1;
        }
        Rows { at, to }
    }

    /// The values of one row.
    #[inline]
    pub fn row(&self, k: u32) -> &[u32] {
        &self.to[self.at[k as usize] as usize..self.at[k as usize + 1] as usize]
    }

    /// Where a row begins in the list of all values.
    #[inline]
    pub fn start(&self, k: u32) -> usize {
        self.at[k as usize] as usize
    }

    /// Number of values in all rows.
    pub fn total(&self) -> usize {
        self.to.len()
    }
}

/// A directed acyclic graph of nodes with costs. Node ids are 0..n.
#[derive(Debug, Clone)]
pub struct Dag {
    /// The nodes.
    pub nodes: Vec<DagNode>,
    /// Distinct edges in the order given, without self edges of the input (those are a cycle and
    /// refused).
    pub edges: Vec<(u32, u32)>,
    /// Successors.
    pub succ: Rows,
    /// Predecessors.
    pub pred: Rows,
    /// A topological order: smallest id first among the ready nodes, so ids in order where they are
    /// topological.
    pub topo: Vec<u32>,
}

/// The greatest sum of costs that a planner accepts, so that no time computed from it overflows.
pub const COST_LIMIT: u64 = 1 << 60;

impl Dag {
    /// Builds the graph; repeated edges are merged.
    ///
    /// # Errors
    /// An edge of an unknown node, a cycle, too many nodes or edges, or costs whose sum passes
    /// [`COST_LIMIT`].
    pub fn new(nodes: Vec<DagNode>, edges: &[(u32, u32)]) -> Result<Dag, DagError> {
        let n = nodes.len();
        let limit = (u32::MAX - 2) as usize;
        for (what, count) in [("nodes", n), ("edges", edges.len())] {
            if count > limit {
                return Err(DagError::TooLarge { what, count, limit });
            }
        }
        let mut sum = 0u64;
        for node in &nodes {
            sum = sum
                .checked_add(node.cost)
                .filter(|s| *s <= COST_LIMIT)
                .ok_or(DagError::CostOverflow { limit: COST_LIMIT })?;
        }
        for (edge, &(a, b)) in edges.iter().enumerate() {
            for node in [a, b] {
                if node as usize >= n {
                    return Err(DagError::UnknownNode { edge, node, nodes: n });
                }
            }
        }
        let mut last = vec![NONE; n];
        let raw = Rows::from_pairs(n, edges.iter().copied());
        let mut distinct = Vec::with_capacity(edges.len());
        for a in 0..n as u32 {
            for &b in raw.row(a) {
                if last[b as usize] != a {
                    last[b as usize] = a;
                    distinct.push((a, b));
                }
            }
        }
        let succ = Rows::from_pairs(n, distinct.iter().copied());
        let pred = Rows::from_pairs(n, distinct.iter().map(|&(a, b)| (b, a)));
        let topo = topological(n, &succ, &pred)?;
        Ok(Dag { nodes, edges: distinct, succ, pred, topo })
    }

    /// The same graph with all edges turned round.
    pub fn reversed(&self) -> Dag {
        Dag {
            nodes: self.nodes.clone(),
            edges: self.edges.iter().map(|&(a, b)| (b, a)).collect(),
            succ: self.pred.clone(),
            pred: self.succ.clone(),
            topo: self.topo.iter().rev().copied().collect(),
        }
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// True without nodes.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Sum of all costs, the run time on one stream.
    pub fn work(&self) -> u64 {
        self.nodes.iter().map(|n| n.cost).sum()
    }
}

fn topological(n: usize, succ: &Rows, pred: &Rows) -> Result<Vec<u32>, DagError> {
    let mut left: Vec<u32> = (0..n as u32).map(|k| pred.row(k).len() as u32).collect();
    if (0..n as u32).all(|k| pred.row(k).iter().all(|&p| p < k)) {
        return Ok((0..n as u32).collect());
    }
    let mut ready: std::collections::BinaryHeap<std::cmp::Reverse<u32>> =
        (0..n as u32).filter(|&k| left[k as usize] == 0).map(std::cmp::Reverse).collect();
    let mut out = Vec::with_capacity(n);
    while let Some(std::cmp::Reverse(k)) = ready.pop() {
        out.push(k);
        for &h in succ.row(k) {
            left[h as usize] -= 1;
            if left[h as usize] == 0 {
                ready.push(std::cmp::Reverse(h));
            }
        }
    }
    if out.len() < n {
        return Err(DagError::Cycle { node: on_cycle(n, pred, &left) });
    }
    Ok(out)
}

/// A node on a cycle: from any node left over, walk back through nodes left over until one repeats.
fn on_cycle(n: usize, pred: &Rows, left: &[u32]) -> u32 {
    let mut seen = vec![false; n];
    let mut at = (0..n as u32).find(|&k| left[k as usize] > 0).unwrap_or(0);
    while !seen[at as usize] {
        seen[at as usize] = true;
        at = pred.row(at).iter().copied().find(|&p| left[p as usize] > 0).unwrap_or(at);
    }
    at
}

/// What a plan has to keep besides the edges.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// For each engine: its streams hold nodes of this engine only.
    pub independent: Vec<bool>,
    /// For each engine: how many of its nodes may run at the same time.
    pub slots: Vec<Option<u32>>,
    /// Number of distinct labels.
    pub labels: usize,
    /// No more streams than that, of all kinds.
    pub max_streams: Option<usize>,
}

/// Which stream a node may stand on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Any stream of plain nodes.
    Plain,
    /// The stream of this label, whatever the engine.
    Label(u32),
    /// A stream of this independent engine.
    Engine(u32),
}

impl Rules {
    /// The kind of a node: a label wins over an independent engine.
    pub fn kind(&self, node: &DagNode) -> Kind {
        match node.label {
            Some(l) => Kind::Label(l),
            None if self.independent.get(node.engine as usize).copied().unwrap_or(false) => Kind::Engine(node.engine),
            None => Kind::Plain,
        }
    }

    /// Checks that every node's engine and label are in the tables.
    ///
    /// # Errors
    /// [`DagError::UnknownIndex`] for the first node that is not.
    pub fn check(&self, dag: &Dag) -> Result<(), DagError> {
        for (node, d) in dag.nodes.iter().enumerate() {
            let known = self.independent.len().max(self.slots.len());
            if d.engine as usize >= known.max(1) {
                return Err(DagError::UnknownIndex { node, what: "engine", index: d.engine, known });
            }
            if let Some(l) = d.label.filter(|&l| l as usize >= self.labels) {
                return Err(DagError::UnknownIndex { node, what: "label", index: l, known: self.labels });
            }
        }
        Ok(())
    }
}

/// A stream for every node and an order of all nodes; the nodes of one stream run in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamAssignment {
    /// Stream of each node, ids continuous from 0.
    pub stream: Vec<u32>,
    /// Every node once, a topological order.
    pub order: Vec<u32>,
    /// Number of streams.
    pub streams: usize,
}

impl StreamAssignment {
    /// All nodes on stream 0 in topological order.
    pub fn single(dag: &Dag) -> StreamAssignment {
        StreamAssignment { stream: vec![0; dag.len()], order: dag.topo.clone(), streams: usize::from(!dag.is_empty()) }
    }

    /// Renumbers the streams by first appearance in the order, without gaps.
    pub fn compact(&mut self) {
        let top = self.stream.iter().copied().max().map_or(0, |m| m as usize + 1);
        let mut name = vec![NONE; top];
        let mut next = 0;
        for &v in &self.order {
            let s = &mut self.stream[v as usize];
            if name[*s as usize] == NONE {
                name[*s as usize] = next;
                next += 1;
            }
            *s = name[*s as usize];
        }
        self.streams = next as usize;
    }
}
