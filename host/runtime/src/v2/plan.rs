//! Plans a round of a graph: everything that can be launched with the sizes known so far, as one
//! sealed model of the device.
//!
//! Shapes are inferred node by node from the values at hand; small arithmetic on shapes is computed
//! while planning. Nodes that depend on a value that the device has yet to compute wait for the
//! next round. A plan depends only on shapes and on the values that determine shapes, so it serves
//! every run that has the same ones.
use super::decide::{Found, Task};
use super::graph::{Graph, Kind, Node};
use super::growth::Growing;
use super::held::Held;
use super::launch::Launch;
use super::pieces::Pieced;
use super::sequence;
use super::streams::{Behind, Limits, Streams};
use super::tiling::Tilings;
use super::tools::Tools;
use super::value::{Store, Tensor, Value};
use super::view::OneNode;
use crate::error::RuntimeError;
use crate::several::Bound;
use ge_plugin_api::Error;
use ge_plugin_api::diagnostic::{Diagnostic, ErrorKind};
use ge_plugin_api::types::{ConstTensor, DType, TensorDesc};
use std::sync::{Arc, OnceLock};

/// Maximum size in bytes of a value that a plan's key contains.
pub(crate) const KEY_BYTES: usize = 16 * 1024;
/// Where a value is while a round is planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    /// Not computed yet.
    Nowhere,
    /// Made by an earlier round, or a parameter.
    Before,
    /// The plan knows its bytes.
    Known,
    /// Made by a launch of this round.
    Made,
    /// A view of another value's memory.
    ViewOf(u32),
    /// Made by a launch of this round in the memory of a state, or of a value that nobody else
    /// reads.
    InPlace(u32),
}

/// A node that is launched.
pub(crate) struct Launched {
    pub(crate) node: u32,
    pub(crate) launch: Arc<Launch>,
    /// Its tasks, as its executor has bound them.
    pub(crate) bound: Arc<[OnceLock<Bound>]>,
    /// How it runs piece by piece, if it does.
    pub(crate) pieces: Option<Box<Pieced>>,
    /// By input number: the launch that copies an overwritten input to where the output lies.
    pub(crate) copies: Vec<(usize, Arc<Launch>)>,
}

/// What a round will do.
pub(crate) struct Draft {
    pub(crate) launches: Vec<Launched>,
    /// The streams of the launches.
    pub(crate) streams: Streams,
    /// Nodes that the host executes after the launches.
    pub(crate) host: Vec<u32>,
    /// Nodes that are done after the launches, including those without a task.
    pub(crate) done: Vec<u32>,
    pub(crate) home: Vec<Home>,
    /// Descriptors and known contents of values; constants of the graph are not included.
    pub(crate) desc: Vec<Option<TensorDesc>>,
    pub(crate) known: Vec<Option<ConstTensor>>,
    /// Values that must be known before the next round can be planned.
    pub(crate) asked: Vec<u32>,
    /// States that grow in place.
    pub(crate) held: Vec<Held>,
    /// Values that launches overwrite, each with the last value that is written to its memory.
    pub(crate) over: Vec<(u32, u32)>,
    /// A reader of a state cannot work with in-place growth: plan the round again without it.
    pub(crate) refused: bool,
    /// The round has reached its limit of tasks or events; the remaining nodes go to the next
    /// round.
    pub(crate) full: bool,
}

/// What a graph is planned with.
#[derive(Clone, Copy)]
pub(crate) struct Basis<'p> {
    pub(crate) tools: &'p Tools,
    pub(crate) graphs: &'p [Graph],
    /// The engine that the compiler chose for each node, by graph.
    pub(crate) engines: &'p [Vec<String>],
    /// Tilings that nodes used in earlier plans, by graph.
    pub(crate) tilings: &'p [Tilings],
    /// Index of the graph.
    pub(crate) at: usize,
    /// Whether parameters that nobody else reads may be overwritten: the parameters of a body may.
    pub(crate) owns: bool,
    /// The lengths of the graph's slices at positions that the plan does not know.
    pub(crate) lengths: &'p [Option<Vec<u64>>],
}

impl<'p> Basis<'p> {
    /// The graph being planned.
    pub(crate) fn graph(&self) -> &'p Graph {
        &self.graphs[self.at]
    }
    /// The basis for another graph, whose parameters may not be overwritten.
    pub(crate) fn of(&self, at: usize) -> Basis<'p> {
        Basis { at, owns: false, lengths: &[], ..*self }
    }
}

/// Plans the next round of a graph. `vals` are the values computed so far, `done` marks the nodes
/// of earlier rounds, and `growing` lists the states that may grow in place.
///
/// # Errors
/// Fails if the inputs of a node do not fit, or if nothing can compute a node.
pub(crate) fn draft(
    basis: &Basis<'_>,
    vals: &[Option<Value<'_>>],
    done: &[bool],
    growing: &[Growing],
) -> Result<Draft, RuntimeError> {
    let graph = basis.graph();
    let mut p = Planner::new(basis, Draft::new(basis), done);
    for (v, value) in vals.iter().enumerate() {
        let Some(value) = value else { continue };
        p.d.home[v] = Home::Before;
        if let Some(t) = value.tensor() {
            p.d.desc[v] = Some(t.desc());
            if keyed(graph, v, t.dtype, || t.bytes()).is_some() {
                p.d.known[v] = t.to_constant();
            }
            p.d.held.extend(held_of(t, v as u32, growing));
        }
    }
    p.walk(done)?;
    p.d.held.retain(|h| p.d.home[h.of.result as usize] == Home::InPlace(h.of.value));
    p.d.refused |= p.d.held.iter().flat_map(|h| &h.of.readers).any(|r| !p.planned[r.node as usize]);
    Ok(p.d)
}

/// The state behind a value, if it may grow in place.
pub(crate) fn held_of(t: &Tensor<'_>, value: u32, growing: &[Growing]) -> Option<Held> {
    let Store::State(s) = &t.store else { return None };
    let of = growing.iter().find(|g| g.value == value && g.axis == s.axis())?;
    let fits = s.is_newest() && s.dims() == &t.dims[..] && (of.by_pieces || s.pieces() == 1);
    fits.then(|| Held { of: of.clone(), room: s.room_dims(), rows: s.rows(), row_bytes: s.row_bytes() })
}

/// The bytes of a value if they are part of a plan's key. The bytes of a state are gathered only
/// when needed.
pub(crate) fn keyed<'b>(
    graph: &Graph,
    value: usize,
    dtype: DType,
    bytes: impl FnOnce() -> &'b [u8],
) -> Option<&'b [u8]> {
    let wanted = graph.wanted[value] && dtype != DType::STRING;
    wanted.then(bytes).filter(|b| b.len() <= KEY_BYTES)
}

/// A plan under construction.
pub(crate) struct Planner<'p> {
    pub(crate) tools: &'p Tools,
    pub(crate) graph: &'p Graph,
    /// The engine that the compiler chose for each node.
    pub(crate) engines: &'p [String],
    pub(crate) tilings: &'p Tilings,
    /// What the plan is made with.
    pub(crate) basis: Basis<'p>,
    /// Nodes that are done after the launches of this round.
    pub(crate) planned: Vec<bool>,
    /// The launches that precede each value and node.
    behind: Behind,
    pub(crate) d: Draft,
    /// Only plans nodes that need neither a launch nor the host: the walk stops at the first other
    /// node.
    pub(crate) alone: bool,
}

impl Draft {
    /// A draft that contains nothing but the graph's constants, which are available in every round.
    pub(crate) fn new(basis: &Basis<'_>) -> Draft {
        let graph = basis.graph();
        let n = graph.values();
        let home = |c: &Option<_>| if c.is_some() { Home::Known } else { Home::Nowhere };
        Draft {
            launches: Vec::new(),
            streams: Streams::new(Limits::of(&basis.tools.target.soc)),
            host: Vec::new(),
            done: Vec::new(),
            home: graph.constants.iter().map(home).collect(),
            desc: vec![None; n],
            known: vec![None; n],
            asked: Vec::new(),
            held: Vec::new(),
            over: Vec::new(),
            refused: false,
            full: false,
        }
    }
    /// Whether it needs neither a launch nor the host.
    pub(crate) fn is_plain(&self) -> bool {
        self.launches.is_empty() && self.host.is_empty() && self.asked.is_empty() && !self.full && !self.refused
    }
    /// The descriptor of a value, if known.
    pub(crate) fn desc<'d>(&'d self, graph: &'d Graph, v: u32) -> Option<&'d TensorDesc> {
        self.desc[v as usize].as_ref().or(graph.fixed[v as usize].as_ref())
    }
    /// The contents of a value, if known.
    pub(crate) fn known<'d>(&'d self, graph: &'d Graph, v: u32) -> Option<&'d ConstTensor> {
        self.known[v as usize].as_ref().or(graph.constants[v as usize].as_ref().map(|c| &c.0))
    }
}

impl<'p> Planner<'p> {
    /// A planner that starts from `d`. `done` marks the nodes of earlier rounds.
    pub(crate) fn new(basis: &Basis<'p>, d: Draft, done: &[bool]) -> Planner<'p> {
        let (graph, basis) = (basis.graph(), *basis);
        let (engines, tilings) = (&basis.engines[basis.at][..], &basis.tilings[basis.at]);
        let (planned, behind) = (done.to_vec(), Behind::new(graph));
        Planner { tools: basis.tools, graph, engines, tilings, basis, planned, behind, d, alone: false }
    }
    /// Plans the nodes that earlier rounds have left.
    ///
    /// # Errors
    /// Fails like [`draft`].
    pub(crate) fn walk(&mut self, done: &[bool]) -> Result<(), RuntimeError> {
        for (i, node) in self.graph.nodes.iter().enumerate() {
            if done[i] {
                continue;
            }
            if self.d.full || self.d.refused || (self.alone && !self.d.is_plain()) {
                break;
            }
            match node.kind {
                Kind::Data | Kind::Constant => self.finish(i),
                Kind::Output => {}
                _ if !self.ready(node) => {}
                _ => {
                    let found = self.fate(i)?;
                    self.takes(i, found);
                }
            }
        }
        Ok(())
    }
    /// Decides how a node that is ready is executed.
    pub(crate) fn fate(&self, i: usize) -> Result<Found, RuntimeError> {
        let n = &self.graph.nodes[i];
        match n.kind {
            // An optional may hold a tensor, but kernels do not implement its operators.
            Kind::Operator if self.tensors(n) && !sequence::handles(n.op.as_str()) => self.find(i),
            Kind::Choice => Ok(self.settled(n).map_or(Found::Host, Found::Plain)),
            _ => Ok(Found::Host),
        }
    }
    /// Marks a node as done without a launch.
    fn finish(&mut self, node: usize) {
        self.behind.done(self.graph, node as u32, None);
        self.planned[node] = true;
        self.d.done.push(node as u32);
    }
    /// Whether all inputs of a node are available, or will be after the launches of this round.
    fn ready(&self, n: &Node) -> bool {
        n.inputs.iter().flatten().all(|v| self.d.home[*v as usize] != Home::Nowhere)
            && n.controls.iter().all(|c| self.planned[*c as usize])
    }
    /// Whether all its inputs are tensors that device kernels can take.
    pub(crate) fn tensors(&self, n: &Node) -> bool {
        let plain = |v: &u32| self.d.desc(self.graph, *v).is_some_and(|d| d.dtype != DType::STRING);
        n.inputs.iter().flatten().all(plain) && n.descs.iter().all(|d| d.container == Default::default())
    }

    /// Adds the decision for a node to the plan.
    fn takes(&mut self, i: usize, found: Found) {
        let n = &self.graph.nodes[i];
        match found {
            Found::Plain(all) => {
                for (v, plain) in n.outputs.iter().zip(all) {
                    if let Home::ViewOf(root) = plain.home {
                        self.behind.shows(*v, root);
                    }
                    self.d.home[*v as usize] = plain.home;
                    self.d.desc[*v as usize] = Some(plain.desc);
                    self.d.known[*v as usize] = plain.known;
                }
                self.finish(i);
            }
            Found::Launch(task) => self.place(i, *task),
            Found::Host => self.d.host.push(i as u32),
            Found::Asks(values) => self.d.asked.extend(values),
            Found::Refused => self.d.refused = true,
        }
    }

    /// Puts the launch of a node on its stream, if the round has room for it.
    fn place(&mut self, i: usize, task: Task) {
        let node = i as u32;
        let behind = self.behind.of(self.graph, node);
        let Task { launch, bound, pieces, copies, outs, home } = task;
        // A copy counts as one task at most.
        let tasks = launch.tasks.len().max(1) + self.graph.nodes[i].written.len();
        if !self.d.streams.add(self.graph.streams[i], tasks, &behind) {
            self.d.full = true;
            return;
        }
        self.behind.launched(self.graph, node);
        for (v, d) in self.graph.nodes[i].outputs.iter().zip(outs.iter()) {
            self.d.home[*v as usize] = home;
            self.d.desc[*v as usize] = Some(d.clone());
        }
        if let (Home::InPlace(v), Some(y)) = (home, self.graph.nodes[i].outputs.first()) {
            match self.d.over.iter_mut().find(|o| o.0 == v) {
                Some(over) => over.1 = *y,
                None if self.d.held.iter().all(|h| h.of.value != v) => self.d.over.push((v, *y)),
                None => {}
            }
        }
        self.d.launches.push(Launched { node, launch, bound, pieces, copies });
        self.planned[i] = true;
        self.d.done.push(node);
    }
}

/// Infers the outputs of a node by its prototype. A type that the prototype leaves open is the one
/// that the compiler determined.
pub(crate) fn infer(tools: &Tools, n: &Node, one: &OneNode<'_>) -> Result<Vec<TensorDesc>, RuntimeError> {
    let proto = tools.op(n.op).ok_or_else(|| nobody(n, &[]))?;
    let view = one.graph();
    let mut outs = proto.infer(&one.node(&view))?;
    outs.truncate(n.outputs.len());
    for (i, (o, d)) in outs.iter_mut().zip(&n.descs).enumerate() {
        if o.dtype == DType::UNKNOWN {
            o.dtype = d.dtype;
        }
        o.attrs = Default::default();
        if o.is_static() && o.dtype.bits().is_some() && o.data_bytes().is_none() {
            let what = format!("output {i} would be {}{}, which is more than any memory holds", o.dtype, o.shape);
            return Err(Error::failed(what).at_node(&n.name, n.op.as_str()).into());
        }
    }
    Ok(outs)
}

/// The error for a node that nothing can compute.
pub(crate) fn nobody(n: &Node, refusals: &[String]) -> RuntimeError {
    let text = format!("no enabled engine can run `{}` ({})", n.name, n.op.as_str());
    let mut d = Diagnostic::error(text).code(ge_codes::NO_ENGINE).node(n.name.clone(), n.op.as_str());
    for r in refusals {
        d = d.note(format!("asked: {r}"));
    }
    d.of(ErrorKind::UNSUPPORTED).into()
}
