//! Makes a plan for other sizes from the latest plan (for example for one more token of a decoder).
//! Nodes that depend on changed sizes, or on changed values that determine sizes, are decided
//! again; everything else stays.
//!
//! Only the sizes of a plan may change in this way. If a node would be executed differently
//! (launched instead of known, another number of tasks, a view of another value), the plan is made
//! from scratch. Order, streams, events and lifetimes therefore equal those of a plan made from
//! scratch, and nodes are decided by the same function.
use super::decide::{Found, Task};
use super::graph::Kind;
use super::growth::Growing;
use super::plan::{Basis, Draft, Home, Launched, Planner, held_of, keyed};
use super::value::{Tensor, Value};
use ge_plugin_api::types::{ConstTensor, Shape, TensorDesc};
use std::sync::Arc;

/// How a node is executed in the latest plan.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Was {
    /// In a later round.
    Later,
    /// Together with the launches, but without its own launch.
    Done,
    /// As the launch with this index.
    Launch(usize),
    /// By the host.
    Host,
}

/// Adapts the plan `last` to the present values, and marks the launches that changed. `None` if the
/// plan would differ in more than sizes. `done` marks nodes of earlier rounds.
pub(crate) fn amend(
    basis: &Basis<'_>,
    vals: &[Option<Value<'_>>],
    done: &[bool],
    growing: &[Growing],
    last: Draft,
) -> Option<(Draft, Vec<bool>)> {
    if last.full || last.refused || !last.asked.is_empty() {
        return None;
    }
    let graph = basis.graph();
    let was = was(&last, done.len());
    let mut a = Amending {
        launches: vec![false; last.launches.len()],
        longer: Vec::with_capacity(last.held.len()),
        values: vec![false; graph.values()],
        nodes: vec![false; graph.nodes.len()],
        p: Planner::new(basis, last, done),
    };
    graph.positions.iter().for_each(|p| a.nodes[p.node as usize] = true);
    a.given(vals)?;
    a.states(vals, growing)?;
    for (i, n) in graph.nodes.iter().enumerate() {
        let other = |v: &u32| a.values[*v as usize];
        let asked = matches!(n.kind, Kind::Operator | Kind::Choice) && was[i] != Was::Later && !done[i];
        if !asked || !(a.nodes[i] || n.inputs.iter().flatten().any(other)) {
            continue;
        }
        if !a.extends(i, was[i]) {
            let found = a.p.fate(i).ok()?;
            a.takes(i, was[i], found)?;
        }
    }
    Some((a.p.d, a.launches))
}

/// How each node is executed.
fn was(last: &Draft, nodes: usize) -> Vec<Was> {
    let mut was = vec![Was::Later; nodes];
    last.done.iter().for_each(|n| was[*n as usize] = Was::Done);
    last.host.iter().for_each(|n| was[*n as usize] = Was::Host);
    last.launches.iter().enumerate().for_each(|(k, l)| was[l.node as usize] = Was::Launch(k));
    was
}

struct Amending<'p> {
    p: Planner<'p>,
    /// Values of which something else is known than before.
    values: Vec<bool>,
    /// Nodes that must be decided again whatever they read.
    nodes: Vec<bool>,
    /// Launches that changed.
    launches: Vec<bool>,
    /// States with another number of rows in the same room: the concatenation that extends the
    /// state, the state's index, and its earlier number of rows.
    longer: Vec<(u32, usize, u64)>,
}

impl Amending<'_> {
    /// Updates the values that the round starts with.
    fn given(&mut self, vals: &[Option<Value<'_>>]) -> Option<()> {
        for (v, value) in vals.iter().enumerate() {
            match value {
                None if self.p.d.home[v] == Home::Before => return None,
                None => {}
                Some(_) if self.p.d.home[v] != Home::Before => return None,
                Some(value) => match (value.tensor(), &self.p.d.desc[v]) {
                    (None, None) => {}
                    (Some(t), Some(d)) if d.dtype == t.dtype => self.tensor(v, t),
                    _ => return None,
                },
            }
        }
        Some(())
    }

    /// Updates the sizes of a tensor, and its bytes if they are part of the plan's key.
    fn tensor(&mut self, v: usize, t: &Tensor<'_>) {
        let d = &mut self.p.d;
        let sizes = d.desc[v].as_ref().map(|d| d.shape.dims()).unwrap_or_default();
        if !(sizes.len() == t.dims.len() && sizes.iter().zip(t.dims.iter()).all(|(a, b)| a.size() == Some(*b))) {
            d.desc[v] = Some(t.desc());
            self.values[v] = true;
        }
        let bytes = keyed(self.p.graph, v, t.dtype, || t.bytes());
        let known = d.known[v].as_ref().and_then(ConstTensor::bytes);
        if self.values[v] || bytes != known.as_ref().map(|b| b.as_slice()) {
            self.values[v] |= bytes.is_some() || known.is_some();
            d.known[v] = if bytes.is_some() { t.to_constant() } else { None };
        }
    }

    /// Updates the states that grow in place; they must be the same ones.
    fn states(&mut self, vals: &[Option<Value<'_>>], growing: &[Growing]) -> Option<()> {
        let tensors = vals.iter().enumerate().filter_map(|(v, value)| Some((v as u32, value.as_ref()?.tensor()?)));
        let mut held = self.p.d.held.iter_mut().enumerate();
        for (v, t) in tensors {
            let Some(now) = held_of(t, v, growing) else { continue };
            let (k, h) = held.next().filter(|(_, h)| h.of.value == v)?;
            if (h.room, h.rows, h.row_bytes) != (now.room, now.rows, now.row_bytes) {
                if (h.room, h.row_bytes) == (now.room, now.row_bytes) {
                    self.longer.push((h.of.concat, k, h.rows));
                }
                (h.room, h.rows, h.row_bytes) = (now.room, now.rows, now.row_bytes);
                self.nodes[h.of.concat as usize] = true;
                for r in &h.of.readers {
                    self.nodes[r.node as usize] = true;
                }
            }
        }
        held.next().is_none().then_some(())
    }

    /// Handles a concatenation that appends the same rows to a state, only at another position.
    /// Returns `false` if the node is no such concatenation or appends different rows.
    fn extends(&mut self, i: usize, was: Was) -> bool {
        let Some((_, h, before)) = self.longer.iter().find(|l| l.0 == i as u32).copied() else { return false };
        let Was::Launch(k) = was else { return false };
        let (n, h) = (&self.p.graph.nodes[i], &self.p.d.held[h]);
        let mut rest = n.inputs.iter().skip(1).flatten();
        if rest.any(|v| self.values[*v as usize]) {
            return false;
        }
        let longer = |d: &TensorDesc| {
            let mut dims = d.shape.sizes()?;
            let rows = dims.get_mut(h.of.axis)?;
            *rows = rows.checked_sub(before)?.checked_add(h.rows).filter(|r| *r <= h.room[1])?;
            Some(TensorDesc { shape: Shape::of(&dims), ..d.clone() })
        };
        let result = h.of.result;
        let (desc, place) = (self.p.d.desc[result as usize].as_ref().and_then(longer), h.rows.checked_mul(h.row_bytes));
        let (Some(desc), Some(place), Some(p)) = (desc, place, &mut self.p.d.launches[k].pieces) else { return false };
        p.moves_output(place);
        self.launches[k] = true;
        self.is(result, desc, None);
        true
    }

    /// Replaces the earlier decision for a node; `None` if it is now executed in another way.
    fn takes(&mut self, i: usize, was: Was, found: Found) -> Option<()> {
        let outputs = &self.p.graph.nodes[i].outputs;
        let all = |d: &Draft, home: Home| outputs.iter().all(|v| d.home[*v as usize] == home);
        match (was, found) {
            (Was::Done, Found::Plain(values)) => {
                for (v, plain) in outputs.iter().zip(values) {
                    if self.p.d.home[*v as usize] != plain.home {
                        return None;
                    }
                    self.is(*v, plain.desc, plain.known);
                }
            }
            (Was::Launch(k), Found::Launch(task)) if all(&self.p.d, task.home) => {
                let Task { launch, bound, pieces, copies, outs, .. } = *task;
                let of = &self.p.d.launches[k];
                let alike = of.pieces.is_some() == pieces.is_some()
                    && of.launch.tasks.len() == launch.tasks.len()
                    && of.launch.workspaces.len() == launch.workspaces.len();
                if !alike || !copies.is_empty() {
                    return None;
                }
                let is_same = Arc::ptr_eq(&of.launch, &launch) && of.pieces.is_none() && of.copies.is_empty();
                for (v, d) in outputs.iter().zip(outs.iter()) {
                    self.is(*v, d.clone(), None);
                }
                if !is_same {
                    self.p.d.launches[k] = Launched { node: i as u32, launch, bound, pieces, copies };
                    self.launches[k] = true;
                }
            }
            (Was::Host, Found::Host) => {}
            _ => return None,
        }
        Some(())
    }

    /// Records the descriptor and the known contents of a value.
    fn is(&mut self, v: u32, desc: TensorDesc, known: Option<ConstTensor>) {
        let v = v as usize;
        let d = &mut self.p.d;
        let bytes = |t: &Option<ConstTensor>| t.as_ref().and_then(ConstTensor::bytes);
        let same = d.desc[v].as_ref() == Some(&desc)
            && bytes(&d.known[v]).as_ref().map(|b| b.as_slice()) == bytes(&known).as_ref().map(|b| b.as_slice());
        if !same {
            d.desc[v] = Some(desc);
            d.known[v] = known;
            self.values[v] = true;
        }
    }
}
