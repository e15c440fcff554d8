//! The single-engine subgraphs of all dynamic graphs, and the stream that each has so far.
use crate::ids::NodeKey;
use crate::options::Options;
use crate::place::Placement;
use crate::streams::logical::context::{Context, NONE, Sub};
use crate::toolbox::{EngineId, Toolbox};
use ge_ir::{Model, Node};
use ge_plugin_api::engine::flags;

/// The owner of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// An engine.
    Engine(EngineId),
    /// A stream label.
    Label(String),
}

/// A subgraph of one engine.
pub struct Part {
    /// Index of its graph in the model.
    pub graph: usize,
    /// The subgraph; `preds` and `succs` are positions in [`Dynamic::parts`].
    pub sub: Sub,
    /// Engine whose stream the subgraph uses; `None` if it has no stream yet.
    pub stream: Option<EngineId>,
    /// The subgraph at the start of the chain of reuse from which the stream was taken.
    pub reused: Option<usize>,
}

/// All dynamic graphs under allocation. The model does not change during the allocation.
pub struct Dynamic<'a> {
    /// The model.
    pub model: &'a Model,
    /// Access to the engines.
    pub toolbox: &'a Toolbox,
    /// Subgraphs, graph by graph, in the order of the partition.
    pub parts: Vec<Part>,
}

impl<'a> Dynamic<'a> {
    /// Partitions every dynamic graph; no subgraph has a stream yet.
    pub fn new(
        model: &'a Model,
        placement: &'a Placement,
        toolbox: &'a Toolbox,
        options: &'a Options,
        dynamic: &[bool],
    ) -> Dynamic<'a> {
        let mut parts = Vec::new();
        for gi in (0..dynamic.len()).filter(|g| dynamic[*g]) {
            let base = parts.len() as u32;
            let subs = Context::new(model, gi, placement, toolbox, options, NONE, 0).subs;
            for mut sub in subs {
                sub.preds.iter_mut().chain(&mut sub.succs).for_each(|s| *s += base);
                parts.push(Part { graph: gi, sub, stream: None, reused: None });
            }
        }
        Dynamic { model, toolbox, parts }
    }
    /// Whether the engine of a part has a flag.
    pub fn has(&self, part: usize, flag: u64) -> bool {
        self.toolbox.engine(self.parts[part].sub.engine).info.flags & flag != 0
    }
    /// Whether a part's nodes run on an AI CPU.
    pub fn aicpu(&self, part: usize) -> bool {
        self.has(part, flags::AICPU)
    }
    /// The nodes of a part.
    pub fn nodes(&self, part: usize) -> impl Iterator<Item = (NodeKey, &'a Node)> + '_ {
        let p = &self.parts[part];
        let g = &self.model.graphs()[p.graph];
        p.sub.nodes.iter().filter_map(move |id| Some((NodeKey::new(p.graph, *id), g.get(*id)?)))
    }
    /// Whether a part may take a neighbour's stream. This holds if both have the same engine, if
    /// the part's engine attaches, or if the neighbour took its stream from a subgraph of the
    /// part's engine. AI CPU nodes never go to an independent engine.
    pub fn could_reuse(&self, part: usize, neighbour: usize) -> bool {
        let (mine, its) = (&self.parts[part], &self.parts[neighbour]);
        if its.stream.is_none() || (self.aicpu(part) && self.has(neighbour, flags::INDEPENDENT)) {
            return false;
        }
        mine.sub.engine == its.sub.engine
            || self.has(part, flags::ATTACH)
            || its.reused.is_some_and(|r| self.parts[r].sub.engine == mine.sub.engine)
    }
}
