//! `EnginePlacer`: assigns each node to the cheapest engine that takes it, and records every
//! refusal as text.
//!
//! Rule (facts 3.2): an engine already set is kept, if its op store takes the node at compile time.
//! Structural nodes go to the structural engine. For other nodes the engines that know the type are
//! asked in order of compute cost, ties in plugin order, and the first whose `supports` says yes
//! gets the node. An engine that answers with a cost for this node (`YesAt`) gets it only if no
//! other engine takes it for less. Nodes are processed in parallel and results are put in node
//! order; all failures are reported together.
use crate::error::{CompileError, Result};
use crate::ids::{ModelMap, NodeKey, PORTION};
use crate::toolbox::{EngineId, EngineRanks, Toolbox};
use ge_ir::verify::STRUCTURE;
use ge_ir::{Key, Model, NodeId};
use ge_plugin_api::diagnostic::Diagnostic;
use ge_plugin_api::engine::Support;
use rayon::prelude::*;
use std::collections::BTreeMap;

/// The answer of one engine for a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Name of the engine.
    pub engine: String,
    /// Reason why the engine does not get the node; `None` if it took the node.
    pub refusal: Option<String>,
}

/// The engine of each node, with reasons.
#[derive(Clone, Debug)]
pub struct Placement {
    /// Engine of each node.
    pub engine: ModelMap<EngineId>,
    /// For nodes with at least one refusal, the answers of the engines asked, in the order asked.
    pub asked: BTreeMap<NodeKey, Vec<Candidate>>,
}

/// The placer of one compilation.
pub struct EnginePlacer<'t> {
    toolbox: &'t Toolbox,
    ranks: &'t EngineRanks,
    structural: Vec<Key>,
    /// Whether an engine that is already set is used without asking its op store (for text that
    /// enters at `streams` or later).
    trust_given: bool,
}

impl<'t> EnginePlacer<'t> {
    /// Creates the placer.
    ///
    /// # Errors
    /// Fails if an engine cannot tell which types it knows.
    pub fn new(toolbox: &'t Toolbox, trust_given: bool) -> Result<Self> {
        let ranks = toolbox.ranks()?;
        Ok(EnginePlacer { toolbox, ranks, structural: STRUCTURE.iter().map(|s| Key::new(s)).collect(), trust_given })
    }

    /// Places all nodes of all graphs and writes `_engine` and `_op_kernel_lib`.
    pub fn run(&self, model: &mut Model) -> Result<Placement> {
        let Some(structural) = self.toolbox.structural_engine() else {
            return Err(CompileError::model(
                ge_codes::BOUND_ENGINE,
                Diagnostic::error("no enabled plugin brings an engine for structural nodes (Data, Const, NetOutput)")
                    .help("enable plugin `local` in plugins.toml"),
            ));
        };
        let mut engine = ModelMap::new(model, structural);
        let mut asked: BTreeMap<NodeKey, Vec<Candidate>> = BTreeMap::new();
        let mut failures: Vec<Diagnostic> = Vec::new();
        for gi in 0..model.graphs().len() {
            let order = model.graphs()[gi].order().to_vec();
            let frozen: &Model = model;
            let found: Vec<Result<(NodeId, Option<EngineId>, Vec<Candidate>)>> = order
                .par_chunks(PORTION)
                .flat_map_iter(|chunk| {
                    let context = self.toolbox.lend(frozen, gi);
                    let view = context.graph();
                    chunk
                        .iter()
                        .map(|&id| self.place(&view.node(id), structural).map(|(e, c)| (id, e, c)))
                        .collect::<Vec<_>>()
                })
                .collect();
            for f in found {
                let (id, chosen, candidates) = f?;
                let key = NodeKey::new(gi, id);
                match chosen {
                    Some(e) => {
                        engine[key] = e;
                        if candidates.iter().any(|c| c.refusal.is_some()) {
                            asked.insert(key, candidates);
                        }
                    }
                    None => {
                        if let Some(n) = model.graphs()[gi].get(id) {
                            failures.push(unplaced(n.name(), n.op(), &candidates));
                        }
                    }
                }
            }
        }
        if !failures.is_empty() {
            return Err(CompileError::Model { code: ge_codes::NO_ENGINE, all: failures });
        }
        for gi in 0..model.graphs().len() {
            let order = model.graphs()[gi].order().to_vec();
            for id in order {
                let info = &self.toolbox.engine(engine[NodeKey::new(gi, id)]).info;
                let g = &mut model.graphs_mut()[gi];
                g.set_attr(id, "_engine", info.name.clone());
                g.set_attr(id, "_op_kernel_lib", info.kernel_lib.clone());
            }
        }
        Ok(Placement { engine, asked })
    }

    /// The engine that takes a node; `None` if none does.
    pub fn engine(&self, node: &ge_plugin_api::view::Node<'_>) -> Result<Option<EngineId>> {
        let Some(structural) = self.toolbox.structural_engine() else { return Ok(None) };
        Ok(self.place(node, structural)?.0)
    }

    /// The reason why no engine takes a node; `None` if one does.
    pub fn refusal(&self, node: &ge_plugin_api::view::Node<'_>) -> Result<Option<Diagnostic>> {
        let Some(structural) = self.toolbox.structural_engine() else { return Ok(None) };
        let (chosen, candidates) = self.place(node, structural)?;
        Ok(if chosen.is_some() { None } else { Some(unplaced(node.name(), node.op(), &candidates)) })
    }

    fn place(
        &self,
        node: &ge_plugin_api::view::Node<'_>,
        structural: EngineId,
    ) -> Result<(Option<EngineId>, Vec<Candidate>)> {
        if let Some(name) = node.str("_engine") {
            let Some(id) = self.toolbox.engine_named(name) else {
                return Ok((
                    None,
                    vec![Candidate { engine: name.to_owned(), refusal: Some("no such engine is loaded".into()) }],
                ));
            };
            if self.trust_given || id == structural {
                return Ok((Some(id), Vec::new()));
            }
            let e = self.toolbox.engine(id);
            return Ok(match e.object.supports(node)? {
                Support::Yes | Support::YesAt(_) => (Some(id), Vec::new()),
                Support::No(r) => (None, vec![Candidate { engine: name.to_owned(), refusal: Some(r.into()) }]),
            });
        }
        if self.structural.contains(&node.op_key()) {
            return Ok((Some(structural), Vec::new()));
        }
        let dearer = |cost: u32| Some(format!("it takes it at cost {cost}, another at less"));
        let mut candidates: Vec<Candidate> = Vec::new();
        // The cheapest engine so far, its cost, and its index among the candidates.
        let mut best: Option<(EngineId, u32, usize)> = None;
        for &id in self.ranks.of(node.op_key()) {
            let e = self.toolbox.engine(id);
            if best.is_some_and(|(_, least, _)| e.info.cost >= least) {
                break;
            }
            let answer = match &e.excluded {
                Some(why) => Support::no(why.clone()),
                None => e.object.supports(node)?,
            };
            let refusal = match (answer.cost(e.info.cost), best) {
                (Some(cost), Some((_, least, _))) if cost >= least => dearer(cost),
                (Some(cost), before) => {
                    if let Some((_, more, at)) = before {
                        candidates[at].refusal = dearer(more);
                    }
                    best = Some((id, cost, candidates.len()));
                    None
                }
                (None, _) => {
                    if let Support::No(why) = answer {
                        Some(why.into())
                    } else {
                        None
                    }
                }
            };
            candidates.push(Candidate { engine: e.info.name.to_string(), refusal });
        }
        Ok((best.map(|b| b.0), candidates))
    }
}

fn unplaced(name: &str, op: &str, candidates: &[Candidate]) -> Diagnostic {
    let mut d = Diagnostic::error(format!("no enabled engine can run `{name}` ({op})"))
        .code(ge_codes::NO_ENGINE)
        .atc("EZ3003")
        .node(name, op);
    if candidates.is_empty() {
        d = d.note("asked: no enabled engine has this operator type");
    }
    for c in candidates {
        d = d.note(format!("asked: {} ({})", c.engine, c.refusal.as_deref().unwrap_or("took it")));
    }
    d.help("enable a plugin that brings the operator, or change the model; `ge plugin list` shows what is loaded")
}
