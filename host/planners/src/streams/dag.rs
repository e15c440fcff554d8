//! The plain graph that stream planners work on (costs, engines, labels and edges), and the rules
//! that a plan must obey.

use thiserror::Error;

/// Marks the absence of a label, stream or node.
pub const NONE: u32 = u32::MAX;

/// One node of a [`Dag`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DagNode {
    /// Run time in nanoseconds.
    pub cost: u64,
    /// Index of the engine in [`Rules`].
    pub engine: u32,
    /// Index of the stream label, if any.
    pub label: Option<u32>,
    /// Size in bytes of the node's one output tensor.
    pub out_bytes: u64,
    /// Whether the output lives to the end of the graph.
    pub keep: bool,
    /// A predecessor whose stream the node must share, whatever its own kind.
    pub follow: Option<u32>,
}

/// Why a graph or its rules cannot be planned.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum DagError {
    /// An edge names a node that does not exist.
    #[error("edge {edge} names node {node}, the graph has {nodes} nodes")]
    UnknownNode {
        /// Index of the edge in the given list.
        edge: usize,
        /// The node that it names.
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
    /// A node names an engine or a label that is not in the tables.
    #[error("node {node} names {what} {index}, there are {known}")]
    UnknownIndex {
        /// Number of the node.
        node: usize,
        /// `engine` or `label`.
        what: &'static str,
        /// The index that it names.
        index: u32,
        /// Length of the table.
        known: usize,
    },
    /// The sum of the costs exceeds the limit.
    #[error("the costs of the nodes add up to more than {limit} ns")]
    CostOverflow {
        /// The greatest allowed sum in nanoseconds.
        limit: u64,
    },
    /// There are too many nodes or edges.
    #[error("{count} {what}, at most {limit} are supported")]
    TooLarge {
        /// `nodes` or `edges`.
        what: &'static str,
        /// Their number.
        count: usize,
        /// The greatest supported number.
        limit: usize,
    },
    /// Labels and independent engines alone need more streams than allowed.
    #[error("labels, independent engines and plain nodes need {need} streams at least, {allowed} allowed")]
    TooFewStreams {
        /// Number of streams that every plan needs.
        need: usize,
        /// The given limit.
        allowed: usize,
    },
}

/// Adjacency lists in compressed rows.
#[derive(Debug, Clone, Default)]
pub struct Rows {
    at: Vec<u32>,
    to: Vec<u32>,
}

impl Rows {
    /// Makes the rows of `n` nodes from (row, value) pairs; each row keeps the order of the pairs.
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

    /// The start of a row in the list of all values.
    #[inline]
    pub fn start(&self, k: u32) -> usize {
        self.at[k as usize] as usize
    }

    /// Number of values in all rows.
    pub fn total(&self) -> usize {
        self.to.len()
    }
}

/// A directed acyclic graph of nodes with costs. Nodes are numbered 0..n.
#[derive(Debug, Clone)]
pub struct Dag {
    /// The nodes.
    pub nodes: Vec<DagNode>,
    /// Distinct edges in the order of the input. It has no self edges, because these are cycles and
    /// are refused.
    pub edges: Vec<(u32, u32)>,
    /// Successors of each node.
    pub succ: Rows,
    /// Predecessors of each node.
    pub pred: Rows,
    /// A topological order that takes the smallest id first among the ready nodes; if the ids are
    /// already in topological order, this is their order.
    pub topo: Vec<u32>,
}

/// The greatest accepted sum of costs in nanoseconds, so that no computed time overflows.
pub const COST_LIMIT: u64 = 1 << 60;

impl Dag {
    /// Builds the graph; repeated edges are merged.
    ///
    /// # Errors
    /// Fails for an edge of an unknown node, a cycle, too many nodes or edges, or costs whose sum
    /// exceeds [`COST_LIMIT`].
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

    /// The same graph with all edges reversed.
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

    /// Whether the graph has no nodes.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Sum of all costs: the run time on one stream.
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

/// Finds a node on a cycle: walks back from any remaining node through remaining nodes until one
/// repeats.
fn on_cycle(n: usize, pred: &Rows, left: &[u32]) -> u32 {
    let mut seen = vec![false; n];
    let mut at = (0..n as u32).find(|&k| left[k as usize] > 0).unwrap_or(0);
    while !seen[at as usize] {
        seen[at as usize] = true;
        at = pred.row(at).iter().copied().find(|&p| left[p as usize] > 0).unwrap_or(at);
    }
    at
}

/// What a plan must obey besides the edges.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// For each engine: whether its streams may hold only nodes of this engine.
    pub independent: Vec<bool>,
    /// For each engine: how many of its nodes may run at the same time; `None`: any number.
    pub slots: Vec<Option<u32>>,
    /// Number of distinct labels.
    pub labels: usize,
    /// Greatest number of streams of all kinds together; `None`: no limit.
    pub max_streams: Option<usize>,
}

/// The streams on which a node may be placed.
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
    /// The kind of a node; a label takes precedence over an independent engine.
    pub fn kind(&self, node: &DagNode) -> Kind {
        match node.label {
            Some(l) => Kind::Label(l),
            None if self.independent.get(node.engine as usize).copied().unwrap_or(false) => Kind::Engine(node.engine),
            None => Kind::Plain,
        }
    }

    /// Checks that the engine and label of every node are in the tables.
    ///
    /// # Errors
    /// Fails with [`DagError::UnknownIndex`] for the first node for which they are not.
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
    /// Stream of each node; ids are consecutive from 0.
    pub stream: Vec<u32>,
    /// All nodes, each once, in a topological order.
    pub order: Vec<u32>,
    /// Number of streams.
    pub streams: usize,
}

impl StreamAssignment {
    /// Puts all nodes on stream 0, in topological order.
    pub fn single(dag: &Dag) -> StreamAssignment {
        StreamAssignment { stream: vec![0; dag.len()], order: dag.topo.clone(), streams: usize::from(!dag.is_empty()) }
    }

    /// Renumbers the streams in the order of their first use, without gaps.
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
