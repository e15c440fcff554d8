//! The graphs of a cut model: for each graph a frame (its Data and NetOutput, and constants that
//! several subgraphs read) and its subgraphs in topological order. In text form, attributes of the
//! graphs say which is which and where each node stood.
use crate::error::{CompileError, Result};
use crate::toolbox::{EngineId, Toolbox};
use ge_ir::{AttrMap, AttrValue, Graph, Key, Model, NodeId};
use ge_plugin_api::diagnostic::Diagnostic;

/// The kind of engines that a partition is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// Composite engines. Nodes that none of them takes are also cut into subgraphs, which have no
    /// engine.
    Composite,
    /// Atomic engines.
    Atomic,
}

impl Round {
    /// Name of the round in texts and dumps.
    pub fn name(self) -> &'static str {
        match self {
            Round::Composite => "composite",
            Round::Atomic => "atomic",
        }
    }
}

/// Place of a node that is not in the original order, for example one that an engine added.
pub const NEW: u32 = u32::MAX;

/// One subgraph.
#[derive(Clone, Debug, Default)]
pub struct Piece {
    /// The nodes of the subgraph, PlaceHolders first and Ends last.
    pub graph: Graph,
    /// The engine of the subgraph; `None` if it has none in this round.
    pub engine: Option<EngineId>,
    /// Place of each node in the order of the graph that was cut, by id; [`NEW`] for PlaceHolder
    /// and End.
    pub origin: Vec<u32>,
    /// Nodes that the engine has added or changed.
    pub touched: Vec<NodeId>,
    /// Graphs that the engine has added and that its nodes refer to.
    pub bodies: Vec<Graph>,
}

/// One graph that was cut.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The nodes that belong to no subgraph.
    pub rest: Piece,
    /// The subgraphs, in topological order.
    pub pieces: Vec<Piece>,
}

/// A model that was cut.
#[derive(Clone, Debug)]
pub struct Pieces {
    /// The kind of engines that the model was cut for.
    pub round: Round,
    /// The graphs, in the order of the model.
    pub frames: Vec<Frame>,
}

const PIECES: &str = "_partition_pieces";
const ORDER: &str = "_partition_order";
const ROUND: &str = "_partition_round";
const OF: &str = "_partition_of";
const ENGINE: &str = "_engine";

/// Whether a node joins two graphs of a cut model.
pub fn is_joint(op: &str) -> bool {
    matches!(op, "PlaceHolder" | "End")
}

impl Piece {
    /// Place of a node in the original order, or [`NEW`].
    pub fn place(&self, id: NodeId) -> u32 {
        self.origin.get(id.index()).copied().unwrap_or(NEW)
    }
    fn order_attr(&self) -> AttrValue {
        let places = self.graph.nodes().filter(|n| !is_joint(n.op())).map(|n| match self.place(n.id()) {
            NEW => -1,
            p => i64::from(p),
        });
        AttrValue::Ints(places.collect())
    }
}

impl Pieces {
    /// Number of subgraphs.
    pub fn len(&self) -> usize {
        self.frames.iter().map(|f| f.pieces.len()).sum()
    }
    /// Whether there are no subgraphs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Number of nodes of all graphs.
    pub fn node_count(&self) -> usize {
        self.frames.iter().map(|f| f.rest.graph.len() + f.pieces.iter().map(|p| p.graph.len()).sum::<usize>()).sum()
    }
    /// Whether an engine has changed a subgraph.
    pub fn changed(&self) -> bool {
        self.frames.iter().any(|f| f.pieces.iter().any(|p| !p.touched.is_empty()))
    }

    /// Returns a model with one graph for each frame and subgraph. Attributes of the graphs hold
    /// everything that [`Pieces::from_attrs`] needs.
    pub fn to_attrs(&self, toolbox: &Toolbox) -> Model {
        let mut graphs = Vec::new();
        for f in &self.frames {
            let mut rest = f.rest.graph.clone();
            if !f.pieces.is_empty() {
                let names = f.pieces.iter().map(|p| AttrValue::Graph(p.graph.name().into())).collect::<Vec<_>>();
                rest.attrs_mut().set(PIECES, AttrValue::List(names.into()));
                rest.attrs_mut().set(ORDER, f.rest.order_attr());
                rest.attrs_mut().set(ROUND, self.round.name());
            }
            graphs.push(rest);
        }
        for f in &self.frames {
            for p in &f.pieces {
                let mut g = p.graph.clone();
                g.attrs_mut().set(OF, f.rest.graph.name());
                g.attrs_mut().set(ORDER, p.order_attr());
                if let Some(e) = p.engine {
                    g.attrs_mut().set(ENGINE, toolbox.engine(e).info.name.clone());
                }
                graphs.push(g);
                graphs.extend(p.bodies.iter().cloned());
            }
        }
        Model::from_graphs(graphs).unwrap_or_default()
    }

    /// Reads a cut model from its text form.
    ///
    /// # Errors
    /// Fails if a named graph is missing, if the number of places does not match the number of
    /// nodes, if an engine is unknown, or if no graph names a subgraph.
    pub fn from_attrs(model: Model, toolbox: &Toolbox) -> Result<Pieces> {
        let mut round = Round::Atomic;
        let mut frames: Vec<Frame> = Vec::new();
        let mut subs: Vec<Graph> = Vec::new();
        for g in model.into_graphs() {
            if g.attrs().str(OF).is_some() {
                subs.push(g);
                continue;
            }
            if g.attrs().str(ROUND) == Some(Round::Composite.name()) {
                round = Round::Composite;
            }
            frames.push(Frame { rest: piece(g)?, pieces: Vec::new() });
        }
        let mut by_name: std::collections::HashMap<String, Graph> =
            subs.into_iter().map(|g| (g.name().to_owned(), g)).collect();
        for f in &mut frames {
            let attrs = f.rest.graph.attrs_mut();
            attrs.remove(Key::new(ROUND));
            let Some(names) = attrs.remove(Key::new(PIECES)) else { continue };
            for name in graph_names(&names) {
                let Some(mut g) = by_name.remove(&name) else {
                    return Err(damaged(
                        f.rest.graph.name(),
                        format!("names the subgraph `@{name}`, which is not there"),
                    ));
                };
                g.attrs_mut().remove(Key::new(OF));
                let engine = match g.attrs_mut().remove(Key::new(ENGINE)) {
                    Some(AttrValue::Str(e)) => Some(toolbox.engine_named(&e).ok_or_else(|| {
                        damaged(g.name(), format!("is for engine {e}, which no enabled plugin brings"))
                    })?),
                    _ => None,
                };
                f.pieces.push(Piece { engine, ..piece(g)? });
            }
        }
        match by_name.into_keys().min() {
            Some(lost) => Err(damaged(&lost, "is a subgraph that no graph names".into())),
            None => Ok(Pieces { round, frames }),
        }
    }
}

fn piece(mut graph: Graph) -> Result<Piece> {
    graph.compact();
    let mut origin = vec![NEW; graph.id_bound()];
    let nodes: Vec<NodeId> = graph.nodes().filter(|n| !is_joint(n.op())).map(|n| n.id()).collect();
    match graph.attrs_mut().remove(Key::new(ORDER)) {
        Some(AttrValue::Ints(places)) => {
            if places.len() != nodes.len() {
                let text = format!("has {} nodes and {} places in `{ORDER}`", nodes.len(), places.len());
                return Err(damaged(graph.name(), text));
            }
            for (id, p) in nodes.iter().zip(places.iter()) {
                origin[id.index()] = u32::try_from(*p).unwrap_or(NEW);
            }
        }
        // In a graph that was not cut, the nodes are in their original order.
        _ => nodes.iter().zip(0..).for_each(|(id, p)| origin[id.index()] = p),
    }
    let touched = nodes.into_iter().filter(|id| origin[id.index()] == NEW).collect();
    Ok(Piece { graph, origin, touched, ..Piece::default() })
}

fn graph_names(v: &AttrValue) -> Vec<String> {
    match v {
        AttrValue::List(l) => {
            l.iter().filter_map(|v| if let AttrValue::Graph(g) = v { Some(g.to_string()) } else { None }).collect()
        }
        _ => Vec::new(),
    }
}

/// The error for a text whose description of subgraphs is damaged.
pub fn damaged(graph: &str, why: String) -> CompileError {
    CompileError::model(
        ge_codes::TEXT_FORM,
        Diagnostic::error(format!("graph `@{graph}` {why}"))
            .help("write the text anew with `ge opt --until partition`"),
    )
}

/// The node type that the engine has set as `_composite_node` of a subgraph, if any.
pub fn composite_node(attrs: &AttrMap) -> Option<&str> {
    attrs.str("_composite_node")
}
