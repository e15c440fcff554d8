//! `InferShapePass`: infers types and shapes in topological order and folds constants on the way,
//! so that a Reshape sees the shape that a Shape and a Gather computed (003 §8).
use super::branches::{self, Unsound};
use super::dimension_compute_pass::DimensionComputePass;
use super::fold::{fold, folding_engine};
use super::{AFTER, BEFORE, loops, subgraphs};
use crate::error::{CompileError, Result};
use crate::feature::born::Born;
use crate::pass::manager::{drop_orphans, live_graphs, named_graphs};
use crate::pass::{GEPass, NodePass as _, PassManager, PassRecord, Records};
use crate::toolbox::Toolbox;
use ge_ir::verify::{STRUCTURE, mixed_inputs};
use ge_ir::{ConstTensor, Dim, EditSession, Graph, Key, Model, Node, NodeId, TensorDesc, ValueRef};
use ge_plugin_api::diagnostic::{Diagnostic, ErrorKind};
use ge_plugin_api::patch::{Edit, Patch};
use ge_plugin_api::types::AttrMap;
use std::collections::HashMap;
use std::time::Instant;

/// Integers of up to this many bytes are folded even if folding is switched off, because otherwise
/// no shape would be known.
const SHAPE_BYTES: u64 = 1024;

/// Maximum nesting depth of graphs (facts 4.1).
const DEPTH: usize = 25;

fn too_deep(model: &Model, gi: usize, id: NodeId) -> CompileError {
    let name = model.graphs()[gi].get(id).map_or("", |n| n.name());
    CompileError::TooDeep {
        what: format!("`{name}` stands in a graph within too many graphs: at most {DEPTH} may stand within each other"),
    }
}

/// Inference and folding of a whole model.
pub struct InferShapePass<'t> {
    toolbox: &'t Toolbox,
    structural: Vec<Key>,
    fold_all: bool,
}

impl<'t> InferShapePass<'t> {
    /// Creates the pass for one compilation.
    pub fn new(toolbox: &'t Toolbox) -> Self {
        InferShapePass { toolbox, structural: STRUCTURE.iter().map(|s| Key::new(s)).collect(), fold_all: true }
    }
    /// Sets whether everything that can be folded is folded; otherwise only small integers are,
    /// because shapes consist of them.
    pub fn folding(mut self, on: bool) -> Self {
        self.fold_all = on;
        self
    }

    /// Infers every graph of a model and runs the passes around the inference of each node. All
    /// failures are collected.
    pub fn run(&self, model: &mut Model, passes: &PassManager<'_>, records: &mut Records) -> Result<()> {
        let start = Instant::now();
        let named = named_graphs(model);
        let (visits, changes) = self.walk(model, passes, records, 0)?;
        drop_orphans(model, &named);
        let micros = start.elapsed().as_micros() as u64;
        let pass = "InferShapePass".into();
        records.runs.push(PassRecord { stage: "prepare", pass, micros, visits, changes });
        Ok(())
    }

    /// Walks over a model once; `depth` is the nesting depth of loops. Returns the number of nodes
    /// visited and the number of nodes folded only for the sake of shapes.
    pub(super) fn walk(
        &self,
        model: &mut Model,
        passes: &PassManager<'_>,
        records: &mut Records,
        depth: usize,
    ) -> Result<(u64, u64)> {
        // If folding is switched off, the values that shapes consist of are folded anyway.
        let small = if self.fold_all { None } else { folding_engine(self.toolbox) };
        let mut before = GEPass::new(passes, "prepare", passes.nodes("prepare", BEFORE));
        let mut list = passes.nodes("prepare", AFTER);
        // Known sizes are computed regardless of switches, because otherwise no shape would be
        // known.
        if !list.iter().any(|p| p.name() == DimensionComputePass.name()) {
            list.push(&DimensionComputePass);
        }
        let mut after = GEPass::new(passes, "prepare", list);
        let mut session = EditSession::default();
        let mut failures: Vec<(usize, Diagnostic)> = Vec::new();
        let mut mixed: Vec<(usize, Diagnostic)> = Vec::new();
        let (mut visits, mut folded) = (0, 0);
        let named = named_graphs(model);
        let mut entered = vec![false; model.graphs().len()];
        let mut live: Option<Vec<bool>> = None;
        let mut carried: HashMap<(usize, NodeId), Vec<TensorDesc>> = HashMap::new();
        let mut unsound = Unsound::default();
        let mut unknown = false;
        for first in 0..model.graphs().len() {
            if std::mem::replace(&mut entered[first], true) {
                continue;
            }
            // A graph that has lost its caller is not used any more, nor are the graphs that it
            // calls.
            if first > 0 && named.contains(model.graphs()[first].name()) {
                let live = live.get_or_insert_with(|| live_graphs(model, &named));
                if !live[first] {
                    continue;
                }
            }
            let mut walk = vec![(first, model.graphs()[first].order().to_vec(), 0, false)];
            while let Some((gi, order, at, back)) = walk.pop() {
                let Some(&id) = order.get(at) else { continue };
                let Some(n) = model.graphs()[gi].get(id) else {
                    walk.push((gi, order, at + 1, false));
                    continue;
                };
                let op = n.op_key();
                if before.looks_at(op) && (!back || subgraphs::is_loop(op.as_str())) {
                    let seen = before.node(&mut session, model, gi, id)?;
                    if seen.changed {
                        live = None;
                    }
                    if model.graphs()[gi].get(id).is_none() {
                        walk.push((gi, order, at + 1, false));
                        walk.push((gi, seen.added.into_iter().map(|(_, id)| id).collect(), 0, false));
                        continue;
                    }
                }
                if !back {
                    // A subgraph is inferred from the arguments of its caller, before the readers
                    // of the caller.
                    let subs = subgraphs::enter(model, gi, id);
                    let fresh: Vec<usize> =
                        subs.into_iter().filter(|s| !std::mem::replace(&mut entered[*s], true)).collect();
                    if !fresh.is_empty() {
                        // Counts the nodes that wait for their graphs, each nested in the other.
                        if walk.iter().filter(|(.., back)| *back).count() >= DEPTH {
                            return Err(too_deep(model, gi, id));
                        }
                        if subgraphs::is_loop(op.as_str()) {
                            let c = loops::settle(self, passes, model, gi, id, depth)?;
                            carried.insert((gi, id), c);
                        }
                        walk.push((gi, order, at, true));
                        walk.extend(fresh.into_iter().rev().map(|s| (s, model.graphs()[s].order().to_vec(), 0, false)));
                        continue;
                    }
                }
                subgraphs::leave(model, gi, id, carried.remove(&(gi, id)), &mut unsound);
                self.name_results(model, gi, id);
                walk.push((gi, order, at + 1, false));
                visits += 1;
                let faults = self.mixed(&model.graphs()[gi], id);
                if !faults.is_empty() {
                    mixed.extend(faults.into_iter().map(|d| (gi, d)));
                    continue;
                }
                let known = failures.len();
                match self.visit(model, gi, id, small, false) {
                    Ok(Some(outputs)) => {
                        folded += 1;
                        replace(model, gi, id, outputs)?;
                        session.forget_names();
                    }
                    Ok(None) => {
                        if after.looks_at(op) {
                            let seen = after.node(&mut session, model, gi, id)?;
                            let added: Vec<NodeId> =
                                seen.added.into_iter().filter(|(g, _)| *g == gi).map(|(_, id)| id).collect();
                            if !added.is_empty() {
                                walk.push((gi, added, 0, false));
                            }
                        }
                    }
                    // A fault of a plugin is not a fault of the model: it ends the compilation with
                    // its own error.
                    Err(CompileError::Plugin(e)) if !matches!(e.kind, ErrorKind::PANIC | ErrorKind::PLUGIN) => {
                        failures.extend(e.diagnostics.into_iter().map(|d| (gi, d)))
                    }
                    Err(e @ CompileError::NoPrototype { .. }) => {
                        unknown = true;
                        failures.extend(e.into_error().diagnostics.into_iter().map(|d| (gi, d)))
                    }
                    Err(e) => return Err(e),
                }
                if failures.len() > known {
                    unsound.add(gi);
                    // In the root graph the declared shape stays, because it is needed there.
                    if gi > 0 {
                        branches::open(model, gi, id);
                    }
                }
            }
        }
        model.close(session).map_err(|e| CompileError::internal("prepare", e.to_string()))?;
        before.record(records);
        after.record(records);
        if !mixed.is_empty() {
            return Err(CompileError::Model { code: ge_codes::GRAPH_RULE, all: branches::explain(model, mixed) });
        }
        if failures.is_empty() {
            return Ok((visits, folded));
        }
        // A branch that does not fit is an error only of the run that takes it.
        let avoidable = !unknown && branches::avoidable(model, &failures, &unsound);
        let told = branches::explain(model, failures);
        if !avoidable {
            return Err(CompileError::Model { code: ge_codes::NOT_SUPPORTED, all: told });
        }
        for d in &told {
            let warning = branches::warning(d);
            if !records.warnings.contains(&warning) {
                records.warnings.push(warning);
            }
        }
        Ok((visits, folded))
    }

    /// What rule V9 says about the inputs of a node. The verifier has checked the types that the
    /// front end knew; this checks those that inference has found, before a kernel folds them.
    fn mixed(&self, g: &Graph, id: NodeId) -> Vec<Diagnostic> {
        let Some((n, op)) = g.get(id).and_then(|n| Some((n, self.toolbox.op(n.op_key())?))) else { return Vec::new() };
        let help = "make the types equal in the model, by a Cast in front of the node";
        mixed_inputs(g, n, &op.proto).into_iter().map(|d| d.help(help)).collect()
    }

    /// Names the unknown sizes in the results of a node that calls graphs. Names that originate in
    /// those graphs are meaningless outside, because in each iteration of a body the name stands
    /// for another size.
    fn name_results(&self, model: &mut Model, gi: usize, id: NodeId) {
        let g = &model.graphs()[gi];
        let Some(n) = g.get(id).filter(|n| !n.subgraphs().is_empty()) else { return };
        let given: Vec<Dim> = (0..n.inputs().len())
            .filter_map(|i| g.input_desc(n, i))
            .flat_map(|d| d.shape.dims().iter().copied())
            .collect();
        let mut outputs = n.outputs().to_vec();
        let inner = |d: &&mut Dim| Born::is(**d) && !given.contains(d);
        outputs.iter_mut().flat_map(|d| d.shape.dims_mut()).filter(inner).for_each(|d| *d = Dim::UNKNOWN);
        self.toolbox.born.name(self.toolbox, &model.graphs()[gi], n, &mut outputs, true);
        if n.outputs() != outputs.as_slice() {
            model.graphs_mut()[gi].set_outputs(id, outputs);
        }
    }

    /// Infers one node that a pass has made or changed, whose descriptors may be incomplete. Sizes
    /// that depend on values were known while the values were, so they stay as the pass states
    /// them.
    pub fn node(&self, model: &mut Model, gi: usize, id: NodeId) -> Result<()> {
        self.visit(model, gi, id, None, true).map(|_| ())
    }

    /// Checks a node's descriptors against its operator. Unknown ones are filled in; known ones
    /// must not contradict the inference. Nodes without a prototype and outputs in other formats
    /// are not checked.
    ///
    /// # Errors
    /// Returns as text what does not fit.
    pub fn hold(&self, model: &mut Model, gi: usize, id: NodeId) -> Result<(), String> {
        let Some(n) = model.graphs()[gi].get(id) else { return Ok(()) };
        if self.structural.contains(&n.op_key()) || self.toolbox.op(n.op_key()).is_none() {
            return Ok(());
        }
        if laid_out(&model.graphs()[gi], n) {
            return Ok(());
        }
        let inferred = {
            let context = self.toolbox.lend(model, gi);
            let view = context.graph();
            match self.toolbox.infer(&view.node(id)) {
                Ok(d) => d,
                // What does not fit in a branch was reported when it was found.
                Err(_) if gi != 0 && n.outputs().iter().all(|d| d.shape.is_unranked()) => return Ok(()),
                Err(e) => return Err(e.to_string()),
            }
        };
        for (k, (said, right)) in n.outputs().iter().zip(&inferred).enumerate() {
            let same_type = said.dtype == right.dtype
                || said.dtype == ge_ir::DType::UNKNOWN
                || right.dtype == ge_ir::DType::UNKNOWN;
            let sizes = said.shape.dims().iter().zip(right.shape.dims());
            let same_shape = said.format != right.format
                || said.shape.is_unranked()
                || right.shape.is_unranked()
                || (said.shape.rank() == right.shape.rank()
                    && sizes.into_iter().all(|(a, b)| !a.is_known() || !b.is_known() || a == b));
            if !same_type || !same_shape {
                return Err(format!(
                    "output {k} is {}{}, but the operator gives {}{}",
                    said.dtype, said.shape, right.dtype, right.shape
                ));
            }
        }
        self.settle(model, gi, id, inferred, true);
        Ok(())
    }

    /// Whether unknown sizes of a node's outputs can depend only on values, because all sizes of
    /// its inputs are known.
    fn by_value(&self, node: &ge_plugin_api::view::Node<'_>) -> bool {
        let reads = self.toolbox.op(Key::new(node.op())).is_some_and(|o| !o.proto.value_inputs.is_empty());
        let mut inputs = (0..node.inputs().len()).filter_map(|i| node.input_desc(i));
        reads && inputs.all(|d| d.shape.sizes().is_some())
    }

    /// Infers and sets a node's outputs. If `engine` is given, also folds the node and returns the
    /// constants. If `keeps`, sizes that the graph states stay where the inference has none.
    fn visit(
        &self,
        model: &mut Model,
        gi: usize,
        id: NodeId,
        engine: Option<&crate::toolbox::EngineEntry>,
        keeps: bool,
    ) -> Result<Option<Vec<ConstTensor>>> {
        let Some(n) = model.graphs()[gi].get(id) else { return Ok(None) };
        if self.structural.contains(&n.op_key()) || laid_out(&model.graphs()[gi], n) {
            return Ok(None);
        }
        let (inferred, by_value) = {
            let context = self.toolbox.lend(model, gi);
            let view = context.graph();
            let node = view.node(id);
            (self.toolbox.infer(&node)?, self.by_value(&node))
        };
        self.settle(model, gi, id, inferred, keeps || by_value);
        let Some(engine) = engine else { return Ok(None) };
        let shape_like = |d: &TensorDesc| {
            matches!(d.dtype, ge_ir::DType::I64 | ge_ir::DType::I32) && d.data_bytes().is_none_or(|b| b <= SHAPE_BYTES)
        };
        if !self.fold_all && !model.graphs()[gi].get(id).is_some_and(|n| n.outputs().iter().all(shape_like)) {
            return Ok(None);
        }
        let context = self.toolbox.lend(model, gi);
        Ok(fold(self.toolbox, engine, &context.graph().node(id)))
    }

    /// Sets a node's outputs to the inferred descriptors, except where the graph knows more.
    fn settle(&self, model: &mut Model, gi: usize, id: NodeId, inferred: Vec<TensorDesc>, keeps: bool) {
        let g = &model.graphs()[gi];
        let Some(n) = g.get(id) else { return };
        let mut merged: Vec<TensorDesc> = inferred
            .into_iter()
            .zip(n.outputs().iter().map(Some).chain(std::iter::repeat(None)))
            .map(|(new, old)| match old {
                // What the inference cannot tell but the graph already knows is kept.
                Some(old) => TensorDesc {
                    dtype: if new.dtype == ge_ir::DType::UNKNOWN { old.dtype } else { new.dtype },
                    shape: if new.shape.is_unranked() {
                        old.shape.clone()
                    } else if keeps {
                        stated(&new.shape, &old.shape)
                    } else {
                        new.shape
                    },
                    attrs: old.attrs.clone(),
                    ..new
                },
                None => new,
            })
            .collect();
        self.toolbox.born.name(self.toolbox, g, n, &mut merged, false);
        if n.outputs() != merged.as_slice() {
            model.graphs_mut()[gi].set_outputs(id, merged);
        }
    }
}

/// Whether a node has run-time formats and known shapes. It was inferred before its formats were
/// chosen, and prototypes describe original shapes. Nodes with unknown sizes are inferred anyway,
/// and so are layout changes, which know both shapes.
fn laid_out(g: &Graph, n: &Node) -> bool {
    let other = |d: &TensorDesc| d.origin.is_some() && d.format != d.origin_format();
    let inputs = n.inputs().iter().filter_map(|v| g.desc(*v));
    n.op() != "TransData"
        && n.outputs().iter().chain(inputs).any(other)
        && n.outputs().iter().all(|d| d.shape.is_static())
}

/// The inferred shape, with the sizes that the graph states where the inference has none.
fn stated(inferred: &ge_ir::Shape, said: &ge_ir::Shape) -> ge_ir::Shape {
    let mut out = inferred.clone();
    if inferred.rank() == said.rank() {
        for (d, said) in out.dims_mut().iter_mut().zip(said.dims()) {
            // A number says more than a name, and a name more than an unknown size.
            if *d == Dim::UNKNOWN || (!d.is_known() && said.is_known()) {
                *d = *said;
            }
        }
    }
    out
}

/// Replaces a folded node by constants, which take its name (`name`, and `name_1` … for further
/// outputs).
fn replace(model: &mut Model, gi: usize, id: NodeId, outputs: Vec<ConstTensor>) -> Result<()> {
    if let [only] = outputs.as_slice() {
        if model.make_constant(gi, id, only.clone()) {
            return Ok(());
        }
    }
    let (name, next) = {
        let g = &model.graphs()[gi];
        (g.get(id).map(|n| n.name().to_owned()).unwrap_or_default(), g.next_id())
    };
    let mut p = Patch::starting_at(next);
    p.push(Edit::SetName(id, format!("{name}__folded").into()));
    for (k, t) in outputs.into_iter().enumerate() {
        let mut attrs = AttrMap::default();
        let desc = t.desc();
        attrs.set("value", t);
        let own = if k == 0 { name.clone() } else { format!("{name}_{k}") };
        let c = p.add("Const", &own, &[], vec![desc], attrs);
        p.replace_uses(ValueRef::new(id, k as u32), ValueRef::new(c, 0));
    }
    p.remove(id);
    model
        .apply(gi, p.into_edits().into())
        .map_err(|source| CompileError::Patch { who: "InferShapePass".into(), source })?;
    Ok(())
}
