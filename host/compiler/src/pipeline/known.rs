//! Models of unknown shapes (facts 3.5): finds their parts of known shape and compiles these
//! through the stages from `place` on. Each becomes a static model that executor v2 runs unchanged.
use super::{Compilation, Goal, Observer, Stage};
use crate::dynamic;
use crate::error::{CompileError, Result};
use crate::feature::effects;
use crate::merge;
use crate::model::GeRootModel;
use crate::options::Options;
use crate::partition::dynamic::dynamic_shape_partition::{self, Parts};
use crate::partition::dynamic::seal::{self, Found};
use crate::partition::dynamic::{arithmetic, unknown};
use crate::pass::{Blamed, Records, hooks};
use crate::place::EnginePlacer;
use crate::toolbox::Toolbox;
use ge_ir::{Model, Node, TensorDesc};
use ge_model::CompiledModel;
use ge_plugin_api::diagnostic::ErrorKind;
use ge_plugin_api::engine::flags;
use ge_plugin_api::pass::PassStage;
use std::collections::{BTreeMap, HashSet};

/// Name under which the records keep why a part of known shape is not a model of its own.
const NAME: &str = "DynamicShapePartition";

/// Forwards to the user only failures and cancellation of the compilation of a part.
struct OfPart<'o>(&'o dyn Observer);
impl Observer for OfPart<'_> {
    fn failed(&self, name: &'static str, pass: Option<&Blamed>, graph: &Model) {
        self.0.failed(name, pass, graph);
    }
    fn cancelled(&self) -> bool {
        self.0.cancelled()
    }
}

impl Compilation<'_> {
    /// Returns the model for executor v2 and its parts of known shape if any shape is unknown or
    /// the host schedules the model; otherwise `None`.
    ///
    /// # Errors
    /// Fails if the model has nodes that only a planned model can hold.
    pub fn dynamic(&mut self, name: &str) -> Result<Option<(CompiledModel, Vec<GeRootModel>)>> {
        let mut parts = Vec::new();
        if unknown::any(&self.model) {
            dynamic::open_gears(&mut self.model)?;
            dynamic::check(&self.model, self.toolbox)?;
            self.leave_effects()?;
            parts = self.known_parts()?;
        } else if self.is_host_scheduled() {
            self.leave_effects()?;
        } else {
            return Ok(None);
        }
        // The remaining graph is no engine's subgraph, so the custom fusions see all of it.
        hooks::custom(&self.passes, PassStage::OPTIMIZE_FUSED_GRAPH, &mut self.model, &mut self.records)?;
        self.model.compact();
        let model = std::mem::take(&mut self.model);
        Ok(Some((dynamic::assemble(name, model, self.toolbox, self.options, &self.records)?, parts)))
    }

    /// Turns memory that outlives a run, where the model reads or writes it, into input and output
    /// values.
    fn leave_effects(&mut self) -> Result<()> {
        if effects::has_states(&self.model, self.toolbox) {
            effects::to_values(&mut self.model, self.toolbox)?;
        }
        Ok(())
    }

    /// Whether the host schedules a graph of known shapes because it has fewer nodes than
    /// `ge.exec.hostSchedulingMaxThreshold`.
    fn is_host_scheduled(&self) -> bool {
        let most = self.options.host_scheduling;
        let runs = |n: &&Node| !n.is_const() && !matches!(n.op(), "Data" | "NetOutput");
        let v1 = |n: &Node| matches!(n.op(), "Switch" | "RefSwitch" | "Merge" | "RefMerge" | "Enter" | "RefEnter");
        let root = self.model.root();
        most > 0
            && self.model.graphs().len() == 1
            && !root.nodes().any(v1)
            && (root.nodes().filter(runs).count() as u64) < most
            && dynamic::check(&self.model, self.toolbox).is_ok()
    }

    /// Takes the known parts out of the model's graphs and compiles each. A part that cannot be
    /// planned stays in its graph, and the reason is recorded.
    fn known_parts(&mut self) -> Result<Vec<GeRootModel>> {
        let mut found = find(&self.model, self.toolbox, self.options)?;
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let whole = |pieces| Ok(merge::run(pieces, self.toolbox)?.model);
        // The key is the index of the graph in `found` and the index of the part in that graph.
        let mut built: BTreeMap<(usize, usize), GeRootModel> = BTreeMap::new();
        loop {
            let mut model = self.model.clone();
            let parts = seal::seal(&mut model, &found, &whole)?;
            let known_of = |(at, f): (usize, &Found)| {
                let known = f.parts.known.iter().enumerate().filter(|(_, known)| **known);
                known.map(|(k, _)| (at, k)).collect::<Vec<_>>()
            };
            let known: Vec<(usize, usize)> = found.iter().enumerate().flat_map(known_of).collect();
            let mut failed = false;
            for (at, part) in known.into_iter().zip(parts) {
                let name = part.root().name().to_owned();
                if built.contains_key(&at) {
                    continue;
                }
                match self.plan(&name, part) {
                    Ok(root) => drop(built.insert(at, root)),
                    Err(e) if e.is_a_fault() || e.clone().into_error().kind != ErrorKind::UNSUPPORTED => return Err(e),
                    Err(e) => {
                        self.records.refuse(&name, NAME, e.to_string());
                        found[at.0].parts.known[at.1] = false;
                        failed = true;
                    }
                }
            }
            if !failed {
                if !built.is_empty() {
                    self.model = model;
                    self.passes.set_sealed(built.values().map(|root| root.name.clone()).collect());
                }
                return Ok(built.into_values().collect());
            }
        }
    }

    /// Compiles a part through the stages from `place` on.
    fn plan(&self, name: &str, part: Model) -> Result<GeRootModel> {
        let options = self.options.of_part();
        let observer = OfPart(self.observer);
        let mut c = Compilation::new(part, self.toolbox, &options, &observer, Goal::Model, Records::default())?;
        let mut at = c.enter(Stage::Place)?;
        loop {
            let next = c.step(at)?;
            if at == Stage::Model {
                return c.finish(name);
            }
            at = next;
        }
    }
}

/// The graphs that have known parts, each with all its parts: the root, and graphs called by nodes
/// that stay with executor v2. A graph called from a known part belongs to that part.
fn find(model: &Model, toolbox: &Toolbox, options: &Options) -> Result<Vec<Found>> {
    let placer = EnginePlacer::new(toolbox, false)?;
    let number = |name: &str| model.graph_index(name);
    let mut out: Vec<Found> = Vec::new();
    let mut of_parts: HashSet<usize> = HashSet::new();
    let mut seen: HashSet<usize> = HashSet::from([0]);
    let mut todo = vec![0];
    let mut at = 0;
    while let Some(&gi) = todo.get(at) {
        at += 1;
        let parts = parts_of(model, gi, &placer, toolbox, options)?;
        for (place, n) in model.graphs()[gi].nodes().enumerate() {
            let part = parts.as_ref().and_then(|p| p.known.get(*p.of.get(place)? as usize));
            let called = n.subgraphs().into_iter().filter_map(number);
            match part {
                Some(true) => called.for_each(|c| with_called(model, c, &mut of_parts)),
                _ => todo.extend(called.filter(|c| seen.insert(*c)).collect::<Vec<_>>()),
            }
        }
        if let Some(parts) = parts {
            let prefix = seal::prefix(model, gi, &out);
            out.push(Found { graph: gi, prefix, parts });
        }
    }
    out.retain(|f| !of_parts.contains(&f.graph));
    Ok(out)
}

/// Adds a graph and all graphs that its nodes call, directly or indirectly.
fn with_called(model: &Model, graph: usize, to: &mut HashSet<usize>) {
    let mut todo = vec![graph];
    while let Some(gi) = todo.pop() {
        if to.insert(gi) {
            let called = model.graphs()[gi].nodes().flat_map(|n| n.subgraphs());
            todo.extend(called.filter_map(|name| model.graph_index(name)));
        }
    }
}

/// The parts of a graph; `None` if no part is both known and large enough.
fn parts_of(
    model: &Model,
    gi: usize,
    placer: &EnginePlacer<'_>,
    toolbox: &Toolbox,
    options: &Options,
) -> Result<Option<Parts>> {
    let limit = dynamic_shape_partition::limit(options);
    let g = &model.graphs()[gi];
    let runs = |n: &Node| {
        !n.is_const() && !matches!(n.op(), "Data" | "NetOutput" | "Variable") && !n.attrs().flag(ge_model::KEPT)
    };
    let candidates = |marks: &[bool]| g.nodes().zip(marks).filter(|(n, dark)| !**dark && runs(n)).count() as i64;
    if limit < 0 || candidates(&unknown::marks(model, gi, &|_| false)) < limit.max(1) {
        return Ok(None);
    }
    let arithmetic = arithmetic::of(g, toolbox);
    let context = toolbox.lend(model, gi);
    let view = context.graph();
    let mut fault: Option<CompileError> = None;
    let mut by_host = vec![false; g.id_bound()];
    for n in g.nodes().filter(|n| runs(n)) {
        let unfit = |d: &TensorDesc| unknown::unfit(d) || !d.shape.is_static();
        let given = (0..n.inputs().len()).filter_map(|i| g.input_desc(n, i));
        by_host[n.id().index()] = arithmetic[n.id().index()]
            || given.chain(n.outputs()).any(unfit)
            || (n.subgraphs().is_empty()
                && match placer.engine(&view.node(n.id())) {
                    Ok(Some(e)) => toolbox.engine(e).info.flags & flags::HOST_RUNTIME != 0,
                    Ok(None) => true,
                    Err(e) => {
                        fault.get_or_insert(e);
                        true
                    }
                });
    }
    if let Some(e) = fault {
        return Err(e);
    }
    let marks = unknown::marks(model, gi, &|n| by_host[n.id().index()]);
    let found = dynamic_shape_partition::parts(g, &marks, options);
    Ok(found.known.contains(&true).then_some(found))
}
