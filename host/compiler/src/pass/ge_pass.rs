//! `GEPass` runs a group of node passes over each graph and visits changed nodes again (003 §2.1,
//! facts 4.1).
//!
//! Nodes are visited in topological order; those with more than 1,000 inputs come last. At each
//! node all passes of the group run in order, each on the graph as the previous one left it. Nodes
//! that a patch adds are visited at once (immediate re-pass). Nodes already visited that a patch
//! touches are visited again in the next round (re-pass). The number of visits in a graph is
//! limited to ten times its number of nodes.
use super::rewriter::Rewrite;
use super::{NodePass, PassContext, PassManager, PassRecord, Records, Rewriter};
use crate::error::{CompileError, Result};
use ge_ir::{EditSession, Key, Model, NodeId};
use ge_plugin_api::types::NumberMap;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Instant;

/// Maximum average number of visits per node of a graph.
const VISITS: usize = 10;
/// A node with more inputs than this is visited after all other nodes.
const WIDE: usize = 1000;

/// A group of node passes, with the counters that go into the records.
pub struct GEPass<'a> {
    manager: &'a PassManager<'a>,
    stage: &'static str,
    passes: Vec<&'static dyn NodePass>,
    table: NumberMap<Key, Rc<[usize]>>,
    any: Rc<[usize]>,
    cx: Vec<PassContext<'a>>,
    nanos: Vec<u64>,
}

/// Result of visiting one node.
#[derive(Default)]
pub struct Visit {
    /// Nodes that patches added, in order, each with the index of its graph.
    pub added: Vec<(usize, NodeId)>,
    /// Nodes that patches touched, and nodes that passes asked to visit again.
    pub touched: Vec<NodeId>,
    /// Whether any pass changed anything.
    pub changed: bool,
}

impl<'a> GEPass<'a> {
    /// Creates a group from `passes`, which run in this order.
    pub fn new(manager: &'a PassManager<'a>, stage: &'static str, passes: Vec<&'static dyn NodePass>) -> GEPass<'a> {
        let mut table: NumberMap<Key, Rc<[usize]>> = NumberMap::default();
        // A pass for all types is part of every list, so that the order of the group is kept.
        let any: Rc<[usize]> = (0..passes.len()).filter(|k| passes[*k].ops().is_empty()).collect();
        for p in &passes {
            for op in p.ops() {
                table.entry(Key::new(op)).or_insert_with(|| {
                    (0..passes.len()).filter(|k| passes[*k].ops().is_empty() || passes[*k].ops().contains(op)).collect()
                });
            }
        }
        let cx = passes.iter().map(|_| PassContext::new(manager.toolbox(), manager.options())).collect();
        let nanos = vec![0; passes.len()];
        GEPass { manager, stage, passes, table, any, cx, nanos }
    }

    /// Whether any pass of the group visits nodes of type `op`.
    pub fn looks_at(&self, op: Key) -> bool {
        !self.any.is_empty() || self.table.contains_key(&op)
    }

    /// Runs the group over every graph of the model.
    pub fn run(mut self, model: &mut Model, records: &mut Records) -> Result<()> {
        let mut session = EditSession::default();
        let mut gi = 0;
        while gi < model.graphs().len() {
            self.graph(&mut session, model, gi)?;
            gi += 1;
        }
        let changed = session.changed();
        model.close(session).map_err(|e| CompileError::internal(self.stage, e.to_string()))?;
        let names: Vec<&str> = self.passes.iter().map(|p| p.name()).collect();
        let (stage, manager) = (self.stage, self.manager);
        self.record(records);
        if changed { manager.check(&format!("{} ({stage})", names.join(", ")), model) } else { Ok(()) }
    }

    fn graph(&mut self, session: &mut EditSession, model: &mut Model, gi: usize) -> Result<()> {
        let g = &model.graphs()[gi];
        let (wide, plain): (Vec<NodeId>, Vec<NodeId>) =
            g.order().iter().partition(|id| g.get(**id).is_some_and(|n| n.inputs().len() > WIDE));
        let mut left = VISITS.saturating_mul(g.len());
        let mut queue: VecDeque<NodeId> = plain.into_iter().chain(wide).collect();
        // Whether each node is still due for a visit, in this round or the next.
        let mut waits: Vec<bool> = vec![true; g.id_bound()];
        // Constants that a changed node has read may now have no readers.
        let sweeps = self.table.contains_key(&Key::new("Const"));
        let mut read: Vec<NodeId> = Vec::new();
        while !queue.is_empty() {
            let mut next: Vec<NodeId> = Vec::new();
            let mut at_once: VecDeque<NodeId> = VecDeque::new();
            while let Some(id) = at_once.pop_front().or_else(|| queue.pop_front()) {
                if let Some(w) = waits.get_mut(id.index()) {
                    *w = false;
                }
                let Some(n) = model.graphs()[gi].get(id) else { continue };
                if !self.looks_at(n.op_key()) {
                    continue;
                }
                if left == 0 {
                    return Ok(());
                }
                left -= 1;
                read.clear();
                if sweeps {
                    read.extend(n.inputs().iter().filter(|v| !v.is_absent()).map(|v| v.node));
                }
                let mut seen = self.node(session, model, gi, id)?;
                if seen.changed {
                    let constant = |id: &NodeId| model.graphs()[gi].get(*id).is_some_and(|n| n.is_const());
                    seen.touched.extend(read.iter().copied().filter(constant));
                }
                if waits.len() < model.graphs()[gi].id_bound() {
                    waits.resize(model.graphs()[gi].id_bound(), false);
                }
                at_once.extend(seen.added.iter().filter(|(g, _)| *g == gi).map(|(_, id)| *id));
                for t in seen.touched {
                    if let Some(w) = waits.get_mut(t.index()).filter(|w| !**w) {
                        *w = true;
                        next.push(t);
                    }
                }
            }
            queue = next.into();
        }
        Ok(())
    }

    /// Visits one node with all passes of the group that apply to its type.
    pub fn node(&mut self, session: &mut EditSession, model: &mut Model, gi: usize, id: NodeId) -> Result<Visit> {
        let mut out = Visit::default();
        let Some(op) = model.graphs()[gi].get(id).map(|n| n.op_key()) else { return Ok(out) };
        let list = self.table.get(&op).unwrap_or(&self.any).clone();
        // One pass ends where the next begins, so the clock is read only once per pass.
        let mut start = Instant::now();
        for &k in list.iter() {
            let Some(n) = model.graphs()[gi].get(id).filter(|n| n.op_key() == op) else {
                out.touched.push(id);
                break;
            };
            let p = self.passes[k];
            let cx = &mut self.cx[k];
            cx.visits += 1;
            let (manager, stage) = (self.manager, self.stage);
            let name = n.name();
            let rewrite = manager.blamed(stage, p.name(), Some(name), || {
                let mut r = Rewriter::new(&model.graphs()[gi]);
                p.visit(cx, model, gi, n, &mut r)?;
                Ok(r.into_rewrite(cx))
            })?;
            if rewrite.is_empty() {
                self.nanos[k] += lap(&mut start);
                continue;
            }
            out.changed = true;
            let name = name.to_owned();
            manager.blamed(stage, p.name(), Some(&name), || {
                put_in(manager, stage, p.name(), session, model, gi, rewrite, &mut out)
            })?;
            self.nanos[k] += lap(&mut start);
        }
        Ok(out)
    }

    /// Writes counts, refusals and warnings of the passes to `records`.
    pub fn record(self, records: &mut Records) {
        for ((p, mut cx), nanos) in self.passes.iter().zip(self.cx).zip(self.nanos) {
            for (node, why) in std::mem::take(&mut cx.refusals) {
                records.refuse(&node, p.name(), why);
            }
            records.warnings.append(&mut cx.warnings);
            records.runs.push(PassRecord {
                stage: self.stage,
                pass: p.name().to_owned(),
                micros: nanos / 1000,
                visits: cx.visits,
                changes: cx.changes,
            });
        }
    }
}

/// Returns the nanoseconds since `start` and sets `start` to now.
fn lap(start: &mut Instant) -> u64 {
    let now = Instant::now();
    now.duration_since(std::mem::replace(start, now)).as_nanos() as u64
}

/// Applies what a pass recorded at a node to graph `gi`.
#[allow(clippy::too_many_arguments)]
fn put_in(
    manager: &PassManager<'_>,
    stage: &'static str,
    pass: &str,
    session: &mut EditSession,
    model: &mut Model,
    gi: usize,
    rewrite: Rewrite,
    out: &mut Visit,
) -> Result<()> {
    out.touched.extend(rewrite.again);
    let fault = |e: String| CompileError::internal(stage, format!("pass {pass}: {e}"));
    if !rewrite.edits.is_empty() {
        let applied = model.apply_in(session, gi, rewrite.edits).map_err(|e| fault(e.to_string()))?;
        manager.infer_new(&applied.added, model)?;
        out.added.extend(applied.added);
        out.touched.extend(applied.touched.iter().filter(|(g, _)| *g == gi).map(|(_, id)| *id));
    }
    for (id, value) in rewrite.constants {
        let g = &model.graphs()[gi];
        out.touched.extend(g.get(id).into_iter().flat_map(|n| n.uses(0)).map(|u| u.node));
        if !model.make_constant(gi, id, value) {
            return Err(fault("a node that is no constant was folded".into()));
        }
    }
    Ok(())
}
