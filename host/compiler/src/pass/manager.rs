//! `PassManager` runs declared passes in order, applies their patches, counts their changes, and
//! respects levels and switches (facts 4.1).
use super::listed::{Kind, Listed};
use super::switches::Switches;
use super::{Blame, GEPass, GraphPass, NodePass, PassContext, PassLevel, PassRecord, Records};
use crate::error::{CompileError, Result};
use crate::options::{Options, Switch};
use crate::prepare::InferShapePass;
use crate::toolbox::Toolbox;
use ge_ir::{Model, NodeId};
use ge_plugin_api::diagnostic::Diagnostic;
use ge_plugin_api::patch::Edit;
use ge_plugin_api::types::NumberSet;
use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

/// The passes of one compilation.
pub struct PassManager<'a> {
    list: &'static [Listed],
    switches: Switches<'a>,
    verify: bool,
    sealed: Vec<String>,
    blame: Blame,
    told: Option<Box<Told<'a>>>,
}

/// Callback for each pass that changed something: its stage, its name, and the model after it.
pub type Told<'a> = dyn Fn(&'static str, &str, &Model) + Sync + 'a;

impl<'a> PassManager<'a> {
    /// Creates a manager for a list of passes.
    ///
    /// # Errors
    /// Fails if `ge.optimizationSwitch` names an unknown pass or one of level O0, or if the file of
    /// `ge.fusionSwitchFile` is not usable.
    pub fn new(list: &'static [Listed], toolbox: &'a Toolbox, options: &'a Options) -> Result<PassManager<'a>> {
        let switches = Switches::checked(list, toolbox, options)?;
        let verify = cfg!(debug_assertions);
        Ok(PassManager { list, switches, verify, sealed: Vec::new(), blame: Blame::default(), told: None })
    }

    /// If `on`, verifies the model after each pass in release builds too; debug builds always do.
    pub fn verify_each(mut self, on: bool) -> Self {
        self.verify |= on;
        self
    }
    /// Switches the verifier off, for graphs with nodes that have no prototype (labels and jumps of
    /// control flow).
    pub fn leave_unverified(&mut self) {
        self.verify = false;
    }
    /// Sets the names of the graphs that have left the model to become models of their own.
    pub fn set_sealed(&mut self, names: Vec<String>) {
        self.sealed = names;
    }
    /// Sets where the first failing pass is recorded.
    pub fn blaming(mut self, blame: &Blame) -> Self {
        self.blame = blame.clone();
        self
    }
    /// Sets the callback for passes that change something.
    pub fn telling(mut self, told: Box<Told<'a>>) -> Self {
        self.told = Some(told);
        self
    }
    /// Calls the callback for the passes of `records.runs[first..]` that changed something. All
    /// node passes of one group report the graph that they have made together.
    pub(crate) fn tell(&self, first: usize, records: &Records, model: &Model) {
        let Some(told) = &self.told else { return };
        for r in records.runs.get(first..).unwrap_or_default().iter().filter(|r| r.changes > 0) {
            told(r.stage, &r.pass, model);
        }
    }
    /// Where the first failing pass is recorded.
    pub fn blame(&self) -> &Blame {
        &self.blame
    }
    /// What the plugins provide.
    pub fn toolbox(&self) -> &'a Toolbox {
        self.switches.toolbox
    }
    /// The options of the compilation.
    pub fn options(&self) -> &'a Options {
        self.switches.options
    }

    /// Whether a pass runs. Its own switch decides first, then the option bound to it, then the
    /// level.
    pub fn enabled(&self, name: &str, level: PassLevel, bound: Option<Switch>) -> bool {
        self.switches.enabled(name, level, bound)
    }

    /// Runs the passes of a stage's main list (part 0), in order.
    pub fn stage(&self, stage: &'static str, model: &mut Model, records: &mut Records) -> Result<()> {
        self.part(stage, 0, model, records)
    }
    /// Runs one part of a stage's list, in order. Adjacent node passes run as one group.
    pub fn part(&self, stage: &'static str, part: u8, model: &mut Model, records: &mut Records) -> Result<()> {
        let mut group: Vec<&'static dyn NodePass> = Vec::new();
        for p in self.list.iter().filter(|p| p.stage == stage && p.part == part) {
            match p.pass {
                Kind::Node(n) if self.enabled(n.name(), n.level(), n.switch()) => group.push(n),
                Kind::Node(_) => {}
                Kind::Graph(g) => {
                    self.group(stage, std::mem::take(&mut group), model, records)?;
                    if self.enabled(g.name(), g.level(), g.switch()) {
                        self.run(stage, g, model, records)?;
                    }
                }
            }
        }
        self.group(stage, group, model, records)
    }
    /// The enabled node passes of one part of a stage, in order, for callers that run them
    /// themselves.
    pub fn nodes(&self, stage: &'static str, part: u8) -> Vec<&'static dyn NodePass> {
        let listed = self.list.iter().filter(|p| p.stage == stage && p.part == part);
        let node = |p: &Listed| if let Kind::Node(n) = p.pass { Some(n) } else { None };
        listed.filter_map(node).filter(|n| self.enabled(n.name(), n.level(), n.switch())).collect()
    }
    fn group(
        &self,
        stage: &'static str,
        group: Vec<&'static dyn NodePass>,
        model: &mut Model,
        records: &mut Records,
    ) -> Result<()> {
        if group.is_empty() {
            return Ok(());
        }
        let named = named_graphs(model);
        let first = records.runs.len();
        GEPass::new(self, stage, group).run(model, records)?;
        drop_orphans(model, &named);
        self.tell(first, records, model);
        Ok(())
    }

    /// Whether a pass of this name exists, in the list or in a plugin.
    pub fn knows(&self, name: &str) -> bool {
        self.switches.level_of(name).is_some()
    }

    /// Runs the pass `name` on the model in the way that `stage` does; the pass is one of the list
    /// or of a plugin.
    ///
    /// # Errors
    /// Fails if the pass fails or if its name is unknown.
    pub fn again(&self, stage: &str, name: &str, model: &mut Model, records: &mut Records) -> Result<()> {
        match self.list.iter().find(|p| p.stage == stage && p.pass.name() == name) {
            Some(Listed { pass: Kind::Node(n), stage, .. }) => self.group(stage, vec![*n], model, records),
            Some(Listed { pass: Kind::Graph(g), stage, .. }) => self.run(stage, *g, model, records),
            None => self.named(&[name], model, records),
        }
    }

    /// Runs passes by name, in the order given, regardless of level and switches.
    ///
    /// # Errors
    /// Fails if a pass fails or if a name is unknown.
    pub fn named(&self, names: &[&str], model: &mut Model, records: &mut Records) -> Result<()> {
        for name in names {
            match self.list.iter().find(|p| p.pass.name() == *name) {
                Some(Listed { pass: Kind::Node(n), stage, .. }) => self.group(stage, vec![*n], model, records)?,
                Some(Listed { pass: Kind::Graph(g), stage, .. }) => self.run(stage, *g, model, records)?,
                None => match self.toolbox().passes.iter().find(|p| p.name() == *name) {
                    Some(custom) => super::hooks::custom_pass(self, custom, model, records)?,
                    None => return Err(self.switches.unknown(name)),
                },
            }
        }
        Ok(())
    }

    fn run(&self, stage: &'static str, pass: &dyn GraphPass, model: &mut Model, records: &mut Records) -> Result<()> {
        self.blamed(stage, pass.name(), None, || self.graph_pass(stage, pass, model, records))
    }

    fn graph_pass(
        &self,
        stage: &'static str,
        pass: &dyn GraphPass,
        model: &mut Model,
        records: &mut Records,
    ) -> Result<()> {
        let start = Instant::now();
        let named = named_graphs(model);
        let mut cx = PassContext::new(self.toolbox(), self.options());
        for _ in 0..pass.rounds().max(1) {
            let mut changed = false;
            let mut gi = 0;
            while gi < model.graphs().len() {
                let edits = pass.run(&mut cx, model, gi)?;
                if !edits.is_empty() {
                    changed = true;
                    // If the patch of one of our own passes is rejected, that is an internal error.
                    let applied = model
                        .apply(gi, edits)
                        .map_err(|e| CompileError::internal(stage, format!("pass {}: {e}", pass.name())))?;
                    self.infer_new(&applied.added, model)?;
                }
                gi += 1;
            }
            if !changed {
                break;
            }
        }
        drop_orphans(model, &named);
        for (node, why) in std::mem::take(&mut cx.refusals) {
            records.refuse(&node, pass.name(), why);
        }
        records.warnings.append(&mut cx.warnings);
        records.runs.push(PassRecord {
            stage,
            pass: pass.name().to_owned(),
            micros: start.elapsed().as_micros() as u64,
            visits: cx.visits,
            changes: cx.changes,
        });
        self.tell(records.runs.len() - 1, records, model);
        if cx.changes > 0 { self.check(pass.name(), model) } else { Ok(()) }
    }

    /// Infers the output descriptors that a patch left unknown on its new nodes.
    pub(super) fn infer_new(&self, added: &[(usize, NodeId)], model: &mut Model) -> Result<()> {
        let infer = InferShapePass::new(self.toolbox());
        for &(gi, id) in added {
            let known = model.graphs()[gi]
                .get(id)
                .is_none_or(|n| n.outputs().iter().all(|d| d.dtype != ge_ir::DType::UNKNOWN && !d.shape.is_unranked()));
            if !known || model.graphs()[gi].get(id).is_some_and(|n| n.outputs().is_empty()) {
                infer.node(model, gi, id)?;
            }
        }
        Ok(())
    }

    /// Applies the edits that a plugin recorded and, if `check_shapes`, compares the new and
    /// touched nodes with the operators' own inference. Returns the number of edits applied.
    ///
    /// # Errors
    /// Fails if the patch is illegal, if a descriptor contradicts the operator's inference, or if
    /// the model no longer verifies. The error names `who`.
    pub fn apply_foreign(
        &self,
        who: &str,
        gi: usize,
        edits: Vec<Edit>,
        check_shapes: bool,
        model: &mut Model,
    ) -> Result<u64> {
        if edits.is_empty() {
            return Ok(0);
        }
        let applied = model.apply(gi, edits).map_err(|source| CompileError::Patch { who: who.to_owned(), source })?;
        if check_shapes {
            let added: NumberSet<&(usize, NodeId)> = applied.added.iter().collect();
            let mut touched = applied.added.clone();
            touched.extend(applied.touched.iter().filter(|t| !added.contains(t)));
            self.hold(who, &touched, model)?;
        }
        self.check_foreign(who, model)?;
        Ok(applied.edits as u64)
    }

    /// Compares the nodes that a plugin made or changed with the operators' own inference.
    ///
    /// # Errors
    /// Fails if a descriptor contradicts the operator's inference. The error names `who`.
    pub fn hold(&self, who: &str, touched: &[(usize, NodeId)], model: &mut Model) -> Result<()> {
        let infer = InferShapePass::new(self.toolbox());
        for &(gi, id) in touched {
            infer.hold(model, gi, id).map_err(|why| {
                let (name, op) = model.graphs()[gi].get(id).map_or(("", ""), |n| (n.name(), n.op()));
                CompileError::model(
                    ge_codes::PLUGIN_EDIT,
                    Diagnostic::error(format!("{who} made `{name}` ({op}) wrong: {why}"))
                        .node(name, op)
                        .help("disable the plugin in plugins.toml, or tell its author"),
                )
            })?;
        }
        Ok(())
    }

    /// Verifies the model after a plugin changed it.
    ///
    /// # Errors
    /// Reports what does not verify as a fault of `who`.
    fn check_foreign(&self, who: &str, model: &Model) -> Result<()> {
        self.check(who, model).map_err(|e| match e {
            CompileError::Internal { message, .. } => CompileError::model(
                ge_codes::PLUGIN_EDIT,
                Diagnostic::error(format!("{who} left a graph that does not hold: {message}"))
                    .help("disable the plugin in plugins.toml, or tell its author"),
            ),
            other => other,
        })
    }

    /// Verifies the model if verification after each pass is on.
    ///
    /// # Errors
    /// Returns an internal error with what does not verify after `who`.
    pub fn check(&self, who: &str, model: &Model) -> Result<()> {
        if !self.verify {
            return Ok(());
        }
        let options = ge_ir::verify::VerifyOptions {
            unknown_ops: ge_ir::verify::UnknownOps::Allow,
            sealed: &self.sealed,
            ..Default::default()
        };
        ge_ir::verify::verify_with(model, &Protos(self.toolbox()), options).map(|_| ()).map_err(|faults| {
            let text: Vec<&str> = faults.iter().take(5).map(|d| d.message.as_str()).collect();
            CompileError::internal("verify", format!("after {who}: {}", text.join("; ")))
        })
    }

    /// Verifies the model as it came in. All faults are reported at once, as faults of the model
    /// (exit 4) and not of the compiler.
    pub fn verify_input(&self, model: &Model) -> Result<()> {
        let options =
            ge_ir::verify::VerifyOptions { unknown_ops: ge_ir::verify::UnknownOps::Allow, ..Default::default() };
        match ge_ir::verify::verify_with(model, &Protos(self.toolbox()), options) {
            Ok(_) => Ok(()),
            Err(faults) => Err(CompileError::Model { code: ge_codes::GRAPH_RULE, all: faults }),
        }
    }
}

struct Protos<'a>(&'a Toolbox);
impl ge_ir::verify::OpTable for Protos<'_> {
    fn proto(&self, op: &str) -> Option<&ge_plugin_api::ops::OpProto> {
        self.0.op(ge_ir::Key::new(op)).map(|o| &*o.proto)
    }
}

/// Names of the graphs that nodes refer to; empty if the model has only a root graph.
pub(crate) fn named_graphs(model: &Model) -> BTreeSet<String> {
    if model.graphs().len() < 2 {
        return BTreeSet::new();
    }
    model.parents().into_keys().map(str::to_owned).collect()
}

/// For each graph, whether to keep it: the root reaches it, or no node ever referred to it (it is
/// not in `named`), or such a graph reaches it.
pub(crate) fn live_graphs(model: &Model, named: &BTreeSet<String>) -> Vec<bool> {
    let index: HashMap<&str, usize> = model.graphs().iter().enumerate().map(|(i, g)| (g.name(), i)).collect();
    let mut live: Vec<bool> =
        model.graphs().iter().enumerate().map(|(i, g)| i == 0 || !named.contains(g.name())).collect();
    let mut todo: Vec<usize> = (0..live.len()).filter(|i| live[*i]).collect();
    while let Some(i) = todo.pop() {
        for s in model.graphs()[i].nodes().flat_map(|n| n.subgraphs()) {
            if let Some(k) = index.get(s).copied().filter(|k| !std::mem::replace(&mut live[*k], true)) {
                todo.push(k);
            }
        }
    }
    live
}

/// Removes the graphs of `named` that no kept graph refers to any more.
pub(crate) fn drop_orphans(model: &mut Model, named: &BTreeSet<String>) {
    if named.is_empty() {
        return;
    }
    let keep = live_graphs(model, named);
    if !keep.iter().all(|k| *k) {
        model.retain_graphs(&keep);
    }
}
