//! Replaces each control node of the root graph by the nodes of its subgraphs and, for branches and
//! loops, labels and jumps between them, until no control node is left.
//!
//! If and Case: LabelSwitchByIndex selects a branch; each branch ends with copies of its values
//! into memory that all branches share, and a jump to the end. While: copies of the carried values,
//! a label, the condition, LabelSwitchByIndex, the body, copies of the next values into the same
//! memory, and a jump back; the label after the loop keeps alive what the loop reads. For is a
//! While that counts (`count.rs`). The labels and jumps of one control node have the same
//! `_label_scope` and stand on one stream (facts 8.6). `streams::flow` uses the scope to find the
//! bodies again, whose nodes may stand on other streams.
//!
//! A Variable of a subgraph is the root's variable of the same name. A call with control edges is
//! enclosed by two nodes without a task: its whole body is ordered after the first, and the second
//! is ordered after everything that the body does. Nodes that wait for the call wait for the
//! second.
use super::carried::{Changes, changes};
use super::writer::Writer;
use crate::error::{CompileError, Result};
use ge_ir::{DType, Graph, Key, Model, Node, NodeId, TensorDesc, ValueRef};
use ge_model::effects;
use ge_model::gears::{BATCH_LABEL, BATCH_NUM, OUTPUTS, VIEW, label};
use ge_plugin_api::diagnostic::Diagnostic;
use ge_plugin_api::ops::IN_PLACE;
use ge_plugin_api::ops::flags;
use ge_plugin_api::types::{AttrMap, AttrValue};
use std::collections::HashMap;

/// Attribute of a copy: its output lies where the input of this index lies.
pub const REF_INPUT: &str = "_ref_input";
/// Attribute that all labels and jumps of one control node share.
pub const SCOPE: &str = "_label_scope";
/// Maximum number of control nodes in a model. Nested ones are counted once per copy.
const MOST: usize = 4096;

/// Function that returns the flags of a node's operator (`ge_plugin_api::ops::flags`).
pub type FlagsOf<'a> = &'a dyn Fn(&Node) -> u64;

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Branches,
    Loop,
    Count,
    Call,
}

fn kind(n: &Node) -> Option<Kind> {
    Some(match n.op() {
        "If" | "StatelessIf" | "Case" | "StatelessCase" => Kind::Branches,
        "While" | "StatelessWhile" => Kind::Loop,
        "For" => Kind::Count,
        "PartitionedCall" => Kind::Call,
        _ => return None,
    })
}

/// Rewrites the root graph and returns whether the model has labels now. An error about a control
/// node that cannot run on the device names it.
pub fn lower(model: &mut Model, flags: FlagsOf<'_>) -> Result<bool> {
    let mut labels = 0i64;
    for round in 0..=MOST {
        let root = model.root();
        let Some(id) = root.nodes().find(|n| kind(n).is_some()).map(Node::id) else {
            if round > 0 {
                let root = std::mem::replace(&mut model.graphs_mut()[0], Graph::new("gone"));
                *model = Model::from_graphs(vec![root]).unwrap_or_else(|| Model::new("main"));
            }
            return Ok(labels > 0);
        };
        if round == MOST {
            break;
        }
        let graph = expand(model, id, &mut labels, flags)?;
        model.graphs_mut()[0] = graph;
    }
    let what = format!("more than {MOST} control nodes, counted in each place where they are used");
    Err(CompileError::TooDeep { what })
}

/// Whether all control nodes of the model are calls, whose graphs run once each, in turn.
pub fn has_calls_alone(model: &Model) -> bool {
    let mut all = model.graphs().iter().flat_map(|g| g.nodes()).filter_map(kind);
    all.all(|k| k == Kind::Call)
}

/// Whether the model contains control flow as labels and jumps.
pub fn is_lowered(model: &Model) -> bool {
    let scope = Key::new(SCOPE);
    model.graphs().iter().flat_map(|g| g.nodes()).any(|n| n.attrs().get(scope).is_some())
}

/// The error for a control node that cannot run on the device.
pub fn refused(n: &Node, why: &str) -> CompileError {
    CompileError::model(
        ge_codes::CONTROL_FLOW,
        Diagnostic::error(format!("`{}` ({}) cannot run on the device: {why}", n.name(), n.op()))
            .node(n.name(), n.op()),
    )
}

/// Copies the root graph with one control node expanded.
fn expand(model: &Model, target: NodeId, labels: &mut i64, flags: FlagsOf<'_>) -> Result<Graph> {
    let old = model.root();
    let freed = old.get(target).map_or("", Node::name);
    let scope = *labels;
    let mut e = Expansion { model, labels, flags, w: Writer::like(old, freed), scope, variables: HashMap::new() };
    let mut values: HashMap<ValueRef, ValueRef> = HashMap::new();
    let mut nodes: HashMap<NodeId, NodeId> = HashMap::new();
    // Variables come first, because a subgraph may name one that stands after the control node.
    let (first, others): (Vec<&Node>, Vec<&Node>) = old.nodes().partition(|n| is_plain_variable(n));
    for n in first {
        let id = e.w.push(n.op_key(), n.name().to_owned(), vec![], vec![], n.outputs().to_vec(), n.attrs().to_map())?;
        e.variables.insert(n.name().to_owned(), id);
        nodes.insert(n.id(), id);
        values.extend((0..n.outputs().len() as u32).map(|k| (n.value(k), ValueRef::new(id, k))));
    }
    for n in others {
        let inputs = mapped(&values, n.inputs());
        let controls: Vec<NodeId> = n.controls().iter().filter_map(|c| nodes.get(c).copied()).collect();
        if n.id() == target {
            let (outs, last) = e.control(n, &inputs, &controls)?;
            for (k, v) in outs.into_iter().enumerate() {
                values.insert(n.value(k as u32), v);
            }
            nodes.insert(n.id(), last);
            continue;
        }
        let id =
            e.w.push(n.op_key(), n.name().to_owned(), inputs, controls, n.outputs().to_vec(), n.attrs().to_map())?;
        nodes.insert(n.id(), id);
        values.extend((0..n.outputs().len() as u32).map(|k| (n.value(k), ValueRef::new(id, k))));
    }
    Ok(e.w.graph)
}

/// Whether a node is a variable without inputs and without nodes ordered before it.
fn is_plain_variable(n: &Node) -> bool {
    n.op() == "Variable" && n.inputs().is_empty() && n.controls().is_empty()
}

fn mapped(values: &HashMap<ValueRef, ValueRef>, inputs: &[ValueRef]) -> Vec<ValueRef> {
    inputs.iter().map(|v| if v.is_absent() { *v } else { values.get(v).copied().unwrap_or(ValueRef::ABSENT) }).collect()
}

/// The root graph while it is rewritten.
pub(super) struct Expansion<'m> {
    pub(super) model: &'m Model,
    labels: &'m mut i64,
    flags: FlagsOf<'m>,
    pub(super) w: Writer,
    /// Number of the control node; the value of its [`SCOPE`] attribute.
    scope: i64,
    /// Variables of the root, by name.
    variables: HashMap<String, NodeId>,
}

pub(super) type Outs = (Vec<ValueRef>, NodeId);

impl Expansion<'_> {
    fn control(&mut self, n: &Node, inputs: &[ValueRef], controls: &[NodeId]) -> Result<Outs> {
        match kind(n) {
            Some(Kind::Branches) => self.branches(n, inputs, controls),
            Some(Kind::Loop) => self.repeat(n, inputs, controls),
            Some(Kind::Count) => self.count(n, inputs, controls),
            _ => self.call(n, inputs, controls),
        }
    }

    /// Puts the nodes of a called graph in the place of the call.
    fn call(&mut self, n: &Node, inputs: &[ValueRef], controls: &[NodeId]) -> Result<Outs> {
        let sub = self.subgraph(n, "f")?;
        if controls.is_empty() && n.control_users().is_empty() {
            return Ok((self.inline(n, sub, inputs)?, NodeId::NONE));
        }
        let mut behind = controls.to_vec();
        if !controls.is_empty() {
            let name = self.w.take(n.name(), &format!("{}/call", n.name()));
            behind = vec![self.w.add("NoOp", name, vec![], controls.to_vec(), vec![], AttrMap::default())?];
        }
        let first = self.w.graph.next_id();
        let outs = self.inline_behind(n, sub, inputs, &behind, &Changes::new())?;
        // A node that waits for the call must wait for everything that the body does and that the
        // call itself waits for. A node with subgraphs may do more than its readers need, so it
        // counts even if its values are read.
        let is_source = |m: &Node| m.is_const() || m.op() == "Variable";
        let body = self.w.graph.nodes().rev().take_while(|m| m.id() >= first);
        let is_last = |m: &Node| !is_source(m) && (m.is_dead_end() || !m.subgraphs().is_empty());
        let last = body.filter(|m| is_last(m)).map(Node::id);
        let returned = outs.iter().chain(inputs).filter_map(|v| self.w.graph.get(v.node));
        let returned = returned.filter(|m| !is_source(m)).map(Node::id);
        let mut over: Vec<NodeId> = last.chain(returned).chain(behind).collect();
        over.sort_unstable();
        over.dedup();
        let name = self.w.take(n.name(), &format!("{}/returned", n.name()));
        let end = self.w.add("NoOp", name, vec![], over, vec![], AttrMap::default())?;
        Ok((outs, end))
    }

    pub(super) fn subgraph(&self, n: &Node, key: &str) -> Result<usize> {
        let name = match n.attr(key) {
            Some(AttrValue::Graph(g)) => g.as_str(),
            _ => return Err(refused(n, &format!("it has no subgraph `{key}`"))),
        };
        self.model.graph_index(name).ok_or_else(|| refused(n, &format!("subgraph `{name}` is not there")))
    }

    /// Copies the nodes of a subgraph whose inputs are `args`. Returns the values that the subgraph
    /// returns.
    pub(super) fn inline(&mut self, parent: &Node, sub: usize, args: &[ValueRef]) -> Result<Vec<ValueRef>> {
        self.inline_behind(parent, sub, args, &[], &Changes::new())
    }

    /// Like [`Self::inline`], but orders every node after `behind` and lets the nodes in `changes`
    /// write in place.
    pub(super) fn inline_behind(
        &mut self,
        parent: &Node,
        sub: usize,
        args: &[ValueRef],
        behind: &[NodeId],
        changes: &Changes,
    ) -> Result<Vec<ValueRef>> {
        let model = self.model;
        let g = &model.graphs()[sub];
        let mut values: HashMap<ValueRef, ValueRef> = HashMap::new();
        let mut nodes: HashMap<NodeId, NodeId> = HashMap::new();
        let mut outs = Vec::new();
        let first = self.w.graph.next_id();
        for n in g.nodes() {
            if n.op() == "Data" {
                let k = n.attrs().int("index").and_then(|i| usize::try_from(i).ok()).unwrap_or(0);
                let arg = args.get(k).ok_or_else(|| refused(parent, &format!("`{}` has no input {k}", g.name())))?;
                values.insert(n.value(0), *arg);
                if !arg.is_absent() {
                    nodes.insert(n.id(), arg.node);
                }
                continue;
            }
            if is_plain_variable(n) {
                let id = self.variable(n)?;
                nodes.insert(n.id(), id);
                values.insert(n.value(0), ValueRef::new(id, 0));
                continue;
            }
            let inputs = mapped(&values, n.inputs());
            if n.op() == "NetOutput" {
                outs = inputs;
                continue;
            }
            let mut controls: Vec<NodeId> = n.controls().iter().filter_map(|c| nodes.get(c).copied()).collect();
            // A node that no other node of the body precedes is ordered after `behind`. So is a
            // node with subgraphs, which may hold nodes that read none of its inputs, and a node
            // that reads only from such nodes, which may return a constant or their input.
            let is_ahead = |id: NodeId| {
                let stays = |p: &Node| !p.is_const() && p.op() != "Variable" && p.subgraphs().is_empty();
                id >= first && self.w.graph.get(id).is_some_and(stays)
            };
            let ahead = inputs.iter().filter(|v| !v.is_absent()).map(|v| v.node).chain(controls.iter().copied());
            let first_of_all = !n.subgraphs().is_empty() || !ahead.into_iter().any(is_ahead);
            if !n.is_const() && !behind.is_empty() && first_of_all {
                controls.extend_from_slice(behind);
            }
            let name = self.w.take(g.name(), n.name());
            let mut attrs = n.attrs().to_map();
            effects::go_into(&mut attrs, parent.attrs());
            if let Some(readers) = changes.get(&n.id()) {
                attrs.set(IN_PLACE, true);
                controls.extend(readers.iter().filter_map(|r| nodes.get(r).copied()));
            }
            let id = self.w.push(n.op_key(), name, inputs, controls, n.outputs().to_vec(), attrs)?;
            nodes.insert(n.id(), id);
            values.extend((0..n.outputs().len() as u32).map(|k| (n.value(k), ValueRef::new(id, k))));
        }
        Ok(outs)
    }

    /// The root's variable with the name of a subgraph's variable.
    fn variable(&mut self, n: &Node) -> Result<NodeId> {
        if let Some(id) = self.variables.get(n.name()).copied() {
            let (own, known) = (n.outputs().first(), self.w.graph.get(id).and_then(|v| v.outputs().first()));
            let same = own.zip(known).is_some_and(|(a, b)| (a.dtype, a.shape.sizes()) == (b.dtype, b.shape.sizes()));
            if !same {
                return Err(refused(n, "another graph has a variable of this name with another type or shape"));
            }
            match (n.attr("init_value"), self.w.graph.get(id).and_then(|v| v.attr("init_value"))) {
                (Some(a), Some(b)) if !ge_ir::graph::same_value(a, b) => {
                    return Err(refused(n, "another graph has a variable of this name with another initial value"));
                }
                (Some(a), None) => self.w.graph.set_attr(id, "init_value", a.clone()),
                _ => {}
            }
            return Ok(id);
        }
        let name = self.w.take("", n.name());
        if name != n.name() {
            return Err(refused(n, "another node has the name of this variable"));
        }
        let id = self.w.push(n.op_key(), name.clone(), vec![], vec![], n.outputs().to_vec(), n.attrs().to_map())?;
        self.variables.insert(name, id);
        Ok(id)
    }

    pub(super) fn next_label(&mut self) -> i64 {
        *self.labels += 1;
        *self.labels - 1
    }

    pub(super) fn label(&mut self, n: &Node, label: i64, keep: Vec<ValueRef>) -> Result<NodeId> {
        self.label_after(n, label, keep, vec![])
    }
    /// Adds a label that stands after the nodes in `controls`.
    pub(super) fn label_after(
        &mut self,
        n: &Node,
        label: i64,
        keep: Vec<ValueRef>,
        controls: Vec<NodeId>,
    ) -> Result<NodeId> {
        let name = self.w.take(n.name(), &format!("{}/label_{label}", n.name()));
        let mut attrs = self.frame();
        attrs.set("_label_index", label);
        self.w.add("LabelSet", name, keep, controls, vec![], attrs)
    }
    /// The attributes that all label nodes of one control node share.
    fn frame(&self) -> AttrMap {
        let mut attrs = AttrMap::default();
        attrs.set(SCOPE, self.scope);
        attrs.set("_rts_label_node", true);
        attrs
    }

    pub(super) fn goto(&mut self, n: &Node, label: i64) -> Result<NodeId> {
        let name = self.w.take(n.name(), &format!("{}/goto_{label}", n.name()));
        let mut attrs = self.frame();
        attrs.set("_label_index", label);
        self.w.add("LabelGotoEx", name, vec![], vec![], vec![], attrs)
    }

    pub(super) fn switch(&mut self, n: &Node, index: ValueRef, controls: &[NodeId], list: Vec<i64>) -> Result<NodeId> {
        let name = self.w.take(n.name(), &format!("{}/switch", n.name()));
        let mut attrs = self.frame();
        attrs.set("label_list", list);
        self.w.add("LabelSwitchByIndex", name, vec![index], controls.to_vec(), vec![], attrs)
    }

    /// The index of a switch. A condition becomes 0 or 1; an index stays as it is, or is cast to
    /// i32 if its type is neither i32 nor i64.
    pub(super) fn index(&mut self, n: &Node, value: ValueRef, is_condition: bool) -> Result<ValueRef> {
        if value.is_absent() {
            return Err(refused(n, "its condition is missing"));
        }
        let d = self.w.desc(value)?;
        match d.shape.sizes() {
            Some(s) if s.iter().product::<u64>() == 1 => {}
            _ => return Err(refused(n, &format!("its condition is {}{}, it takes one value", d.dtype, d.shape))),
        }
        if !is_condition && matches!(d.dtype, DType::I32 | DType::I64) {
            return Ok(value);
        }
        let mut value = value;
        let bool_first = is_condition && d.dtype != DType::BOOL;
        for to in bool_first.then_some(DType::BOOL).into_iter().chain([DType::I32]) {
            let name = self.w.take(n.name(), &format!("{}/index_{to}", n.name()));
            let mut attrs = AttrMap::default();
            attrs.set("dst_type", AttrValue::Type(to));
            let out = TensorDesc::new(to, d.shape.clone());
            let id = self.w.add("Cast", name, vec![value], vec![], vec![out], attrs)?;
            value = ValueRef::new(id, 0);
        }
        Ok(value)
    }

    /// Adds a copy of a value, into memory of its own or into the memory of `into`. If the branches
    /// are gears, each branch copies only as many bytes as its value has.
    pub(super) fn copy(&mut self, n: &Node, name: String, from: ValueRef, into: Option<ValueRef>) -> Result<ValueRef> {
        if from.is_absent() {
            return Err(refused(n, "a value that it needs is missing"));
        }
        let (d, mut inputs, mut attrs) = (self.w.desc(from)?, vec![from], AttrMap::default());
        if let Some(into) = into {
            let held = self.w.desc(into)?;
            let gears = n.attr(BATCH_NUM).is_some() && held.dtype == d.dtype;
            if !gears && (held.dtype, held.shape.sizes()) != (d.dtype, d.shape.sizes()) {
                let what =
                    format!("a value is {}{} one time and {}{} another", held.dtype, held.shape, d.dtype, d.shape);
                return Err(refused(n, &format!("{what}: its shapes are not static")));
            }
            inputs.push(into);
            attrs.set(REF_INPUT, 1i64);
        }
        if d.shape.sizes().is_none() {
            return Err(refused(n, &format!("a value is {}{}: its shapes are not static", d.dtype, d.shape)));
        }
        let id = self.w.add("MemcpyAsync", name, inputs, vec![], vec![d], attrs)?;
        Ok(ValueRef::new(id, 0))
    }

    /// The name under which the k-th output of a control node continues.
    pub(super) fn result_name(&mut self, n: &Node, k: usize) -> String {
        let wish = if k == 0 { n.name().to_owned() } else { format!("{}_{k}", n.name()) };
        self.w.take(n.name(), &wish)
    }

    fn branches(&mut self, n: &Node, inputs: &[ValueRef], controls: &[NodeId]) -> Result<Outs> {
        let conditional = n.op().ends_with("If");
        // Index 0 is false.
        let subs: Vec<usize> = if conditional {
            vec![self.subgraph(n, "else_branch")?, self.subgraph(n, "then_branch")?]
        } else {
            let Some(AttrValue::List(list)) = n.attr("branches") else {
                return Err(refused(n, "it has no `branches`"));
            };
            let names = list.iter().filter_map(|g| if let AttrValue::Graph(g) = g { Some(g.as_str()) } else { None });
            names.filter_map(|g| self.model.graph_index(g)).collect()
        };
        let (Some(&cond), false) = (inputs.first(), subs.is_empty()) else {
            return Err(refused(n, "it has no condition or no branch"));
        };
        let index = self.index(n, cond, conditional)?;
        let own: Vec<i64> = subs.iter().map(|_| self.next_label()).collect();
        let end = self.next_label();
        let switch = self.switch(n, index, controls, own.clone())?;
        let count = n.outputs().len();
        let gears = n.attrs().int(BATCH_NUM);
        let mut sizes: Vec<Vec<AttrValue>> = vec![Vec::new(); count];
        let mut held: Vec<Option<ValueRef>> = vec![None; count];
        let last = subs.len() - 1;
        for (b, sub) in subs.into_iter().enumerate() {
            let first = self.w.graph.next_id();
            self.label(n, own[b], vec![])?;
            let outs = self.inline(n, sub, &inputs[1..])?;
            if outs.len() < count {
                return Err(refused(n, &format!("branch {b} gives {} values of {count}", outs.len())));
            }
            for (k, held) in held.iter_mut().enumerate() {
                let name = if b == last && gears.is_none() {
                    self.result_name(n, k)
                } else {
                    self.w.take(n.name(), &format!("{}/branch_{b}_{k}", n.name()))
                };
                *held = Some(self.copy(n, name, outs[k], *held)?);
                let own = self.w.desc(outs[k])?.shape.sizes_i64().unwrap_or_default();
                sizes[k].push(AttrValue::Ints(own.into()));
            }
            if gears.is_some() {
                self.mark(first, &label(b));
            }
            if b < last {
                self.goto(n, end)?;
            }
        }
        let tail = self.label(n, end, vec![])?;
        if let Some(count) = gears {
            self.w.graph.set_attr(switch, BATCH_NUM, count);
            let sizes = sizes.into_iter().map(|s| AttrValue::List(s.into())).collect();
            self.w.graph.set_attr(switch, OUTPUTS, AttrValue::List(sizes));
            for (k, held) in held.iter_mut().enumerate() {
                *held = Some(self.widened(n, k, *held)?);
            }
        }
        Ok((held.into_iter().flatten().collect(), tail))
    }

    /// Adds a view of what a gear has written, with the shape of the largest gear.
    fn widened(&mut self, n: &Node, k: usize, held: Option<ValueRef>) -> Result<ValueRef> {
        let name = self.result_name(n, k);
        let out = n.outputs().get(k).cloned().unwrap_or_else(TensorDesc::unknown);
        let id = self.w.add(VIEW, name, held.into_iter().collect(), vec![], vec![out], AttrMap::default())?;
        Ok(ValueRef::new(id, 0))
    }

    /// Gives the label of a gear to all nodes of its branch.
    fn mark(&mut self, first: NodeId, label: &str) {
        let nodes = self.w.graph.nodes().rev().take_while(|m| m.id() >= first);
        let new: Vec<NodeId> = nodes.filter(|m| !m.is_const()).map(Node::id).collect();
        new.into_iter().for_each(|id| self.w.graph.set_attr(id, BATCH_LABEL, label));
    }

    fn repeat(&mut self, n: &Node, inputs: &[ValueRef], controls: &[NodeId]) -> Result<Outs> {
        let (cond, body) = (self.subgraph(n, "cond")?, self.subgraph(n, "body")?);
        let unchanged = unchanged(&self.model.graphs()[body], inputs.len(), 0);
        let name = self.w.take(n.name(), &format!("{}/start", n.name()));
        let start = self.w.add("NoOp", name, vec![], controls.to_vec(), vec![], AttrMap::default())?;
        let mut state = inputs.to_vec();
        for (k, s) in state.iter_mut().enumerate() {
            // A value that no turn changes is read where it lies, unless it is also an output.
            if !unchanged[k] || !n.uses(k).is_empty() {
                let name = self.w.take(n.name(), &format!("{}/init_{k}", n.name()));
                *s = self.copy(n, name, *s, None)?;
            }
        }
        let (again, inside, end) = (self.next_label(), self.next_label(), self.next_label());
        self.label_after(n, again, vec![], vec![start])?;
        let test = self.inline(n, cond, &state)?;
        let index = self.index(n, test.first().copied().unwrap_or(ValueRef::ABSENT), true)?;
        self.switch(n, index, &[], vec![end, inside])?;
        self.label(n, inside, vec![])?;
        let first = self.w.graph.next_id();
        let (changes, in_place) = self.changes(body, 0, &unchanged);
        let mut next = self.inline_behind(n, body, &state, &[], &changes)?;
        if next.len() < inputs.len() {
            return Err(refused(n, &format!("its body gives {} values of {}", next.len(), inputs.len())));
        }
        for k in (0..inputs.len()).filter(|k| !unchanged[*k]) {
            if !self.is_fresh(next[k], first) {
                let name = self.w.take(n.name(), &format!("{}/next_{k}", n.name()));
                next[k] = self.copy(n, name, next[k], None)?;
            }
        }
        let mut outs = state.clone();
        for k in (0..inputs.len()).filter(|k| !unchanged[*k]) {
            outs[k] = self.handed_on(n, k, next[k], state[k], in_place.contains(&k))?;
        }
        self.goto(n, again)?;
        let tail = self.label(n, end, outs.iter().copied().filter(|v| !v.is_absent()).collect())?;
        Ok((outs, tail))
    }

    /// The values that a body changes in place. `unchanged[k]`: the body does not change value `k`.
    pub(super) fn changes(&self, body: usize, first: usize, unchanged: &[bool]) -> (Changes, Vec<usize>) {
        let carries = (0..unchanged.len()).filter(|k| !unchanged[*k]);
        changes(&self.model.graphs()[body], first, carries, self.flags)
    }

    /// What the next turn reads as value `k` of a loop: a copy in the memory of this turn's value,
    /// or, if the body changed it in place, that memory under the loop's own name.
    pub(super) fn handed_on(
        &mut self,
        n: &Node,
        k: usize,
        next: ValueRef,
        state: ValueRef,
        in_place: bool,
    ) -> Result<ValueRef> {
        let name = self.result_name(n, k);
        if !in_place {
            return self.copy(n, name, next, Some(state));
        }
        let d = self.w.desc(next)?;
        let mut attrs = AttrMap::default();
        attrs.set("shape", d.shape.sizes_i64().unwrap_or_default());
        let id = self.w.add("Reshape", name, vec![next], vec![], vec![d], attrs)?;
        Ok(ValueRef::new(id, 0))
    }

    /// Whether a value lies in memory that a node of the body produced, not in the memory of a
    /// carried value or a constant.
    pub(super) fn is_fresh(&self, value: ValueRef, first: NodeId) -> bool {
        let mut at = value;
        while !at.is_absent() && at.node >= first {
            match self.w.graph.get(at.node) {
                Some(n) if (self.flags)(n) & flags::VIEW != 0 => at = n.input(0).unwrap_or(ValueRef::ABSENT),
                Some(n) => return !n.is_const(),
                None => return false,
            }
        }
        false
    }
}

/// Whether a body returns each value unchanged. Value `k` is the body's input `k + first`.
pub(super) fn unchanged(body: &Graph, count: usize, first: usize) -> Vec<bool> {
    let same = |k: usize| {
        let v = body.net_output()?.input(k)?;
        let data = body.get(v.node)?;
        Some(data.op() == "Data" && data.attrs().int("index") == i64::try_from(k + first).ok())
    };
    (0..count).map(|k| same(k).unwrap_or(false)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Model {
        ge_ir::text::parse(text, "t.ge", &ge_ir::text::NoFiles).expect("a graph")
    }
    fn ops(m: &Model) -> Vec<&str> {
        m.root().nodes().map(Node::op).collect()
    }
    const IF: &str = "graph @main(%c: bool[1], %x: f32[4]) {
      %y = If(%c, %x) {else_branch = @no, then_branch = @yes} : f32[4]
      %z = Neg(%y) : f32[4]
      return %z
    }
    graph @yes(%a: f32[4]) { %r = Relu(%a) : f32[4] return %r }
    graph @no(%b: f32[4]) { return %b }";
    const WHILE: &str = "graph @main(%n: i32[1], %x: f32[4], %k: f32[4]) {
      %w = While(%x, %k, %n) {body = @body, cond = @cond} : f32[4], f32[4], i32[1]
      return %w
    }
    graph @cond(%a: f32[4], %b: f32[4], %c: i32[1]) { %t = Equal(%c, %c) : bool[1] return %t }
    graph @body(%d: f32[4], %e: f32[4], %f: i32[1]) { %s = Add(%d, %e) : f32[4] return %s, %e, %f }";

    #[test]
    fn branches_share_the_memory_of_their_values() {
        let mut m = read(IF);
        assert!(lower(&mut m, &|_| 0).expect("lowered"));
        assert_eq!(
            ops(&m),
            [
                "Data",
                "Data",
                "Cast",
                "LabelSwitchByIndex",
                "LabelSet",
                "MemcpyAsync",
                "LabelGotoEx",
                "LabelSet",
                "Relu",
                "MemcpyAsync",
                "LabelSet",
                "Neg",
                "NetOutput"
            ]
        );
        let g = m.root();
        let y = g.find("y").expect("the last copy has the name of the If");
        assert_eq!((y.op(), y.attrs().int(REF_INPUT)), ("MemcpyAsync", Some(1)));
        assert_eq!(g.producer(y, 1).map(Node::op), Some("MemcpyAsync"));
        assert_eq!(g.find("z").and_then(|z| g.producer(z, 0)).map(Node::name), Some("y"));
        let switch = g.nodes().find(|n| n.op() == "LabelSwitchByIndex").expect("a switch");
        assert_eq!(switch.attrs().ints("label_list"), Some(&[0, 1][..]));
        assert_eq!(m.graphs().len(), 1);
    }

    #[test]
    fn a_loop_copies_what_it_carries_and_keeps_what_it_reads() {
        let mut m = read(WHILE);
        assert!(lower(&mut m, &|_| 0).expect("lowered"));
        let g = m.root();
        // Only the value that the body changes is copied in and back.
        assert_eq!(ops(&m).iter().filter(|o| **o == "MemcpyAsync").count(), 2);
        let end = g.nodes().rfind(|n| n.op() == "LabelSet").expect("a label");
        assert_eq!(end.inputs().len(), 3);
        assert!(end.inputs().iter().any(|v| g.get(v.node).is_some_and(|n| n.name() == "k")));
        let switch = g.nodes().find(|n| n.op() == "LabelSwitchByIndex").expect("a switch");
        assert_eq!(switch.attrs().ints("label_list"), Some(&[2, 1][..]));
    }

    #[test]
    fn values_that_change_places_go_by_copies() {
        let swapped = WHILE.replace("return %s, %e, %f", "return %e, %d, %f");
        let mut m = read(&swapped);
        assert!(lower(&mut m, &|_| 0).expect("lowered"));
        // Two copies in, two aside, two back.
        assert_eq!(ops(&m).iter().filter(|o| **o == "MemcpyAsync").count(), 6);
    }

    #[test]
    fn what_changes_its_shape_is_refused_by_name() {
        let text = IF.replace("%r = Relu(%a) : f32[4]", "%r = Relu(%a) : f32[?]");
        let e = lower(&mut read(&text), &|_| 0).expect_err("dynamic").into_error().to_string();
        assert!(e.contains("`y`") && e.contains("not static"), "{e}");
    }

    #[test]
    fn a_graph_without_control_flow_stays_as_it_is() {
        let text = "graph @main(%x: f32[4]) { %y = Relu(%x) : f32[4] return %y }";
        let mut m = read(text);
        assert!(!lower(&mut m, &|_| 0).expect("nothing to do"));
        assert_eq!(ops(&m), ["Data", "Relu", "NetOutput"]);
    }
}
