//! Writes the order of effects into one graph.
use super::own::Own;
use super::summary::{OWN, State, Summary, states};
use super::{EffectRules, WHO, by_reference, has_frames};
use crate::error::VariableFault;
use crate::error::{CompileError, Result};
use ge_ir::{Graph, Model, Node, NodeId, TensorDesc, ValueRef};
use ge_model::effects::{Effect, EffectOrder, set_places};
use ge_plugin_api::types::AttrMap;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// The model around the graph, and what is known of it.
pub(super) struct Whole<'m> {
    pub model: &'m Model,
    pub rules: &'m EffectRules<'m>,
    pub summaries: &'m [Summary],
    /// Variables that any graph of the model writes.
    pub written: &'m BTreeSet<String>,
    /// Inputs that behave as values.
    pub own: &'m Own,
}

/// The names of all nodes of a model.
pub(super) struct Names(HashSet<String>);

impl Names {
    pub fn of(model: &Model) -> Names {
        Names(model.graphs().iter().flat_map(|g| g.nodes().map(|n| n.name().to_owned())).collect())
    }
    /// Reserves a name that no node has: `wish`, with a number appended if needed.
    pub(super) fn take(&mut self, wish: String) -> String {
        let mut name = wish.clone();
        let mut k = 1;
        while !self.0.insert(name.clone()) {
            name = format!("{wish}_{k}");
            k += 1;
        }
        name
    }
}

/// What is known of a variable at one place of the walk.
#[derive(Default)]
struct Now {
    /// The last node that wrote the variable.
    writer: Option<NodeId>,
    /// Nodes that have read the variable since.
    readers: Vec<NodeId>,
    /// The copy of the variable's current content, if there is one.
    copy: Option<ValueRef>,
    step: u32,
}

/// The graph with its order in the edges. `None` if it accesses no variable that is written, or if
/// it may not get further edges because of v1 control flow.
pub(super) fn rewrite(
    whole: &Whole<'_>,
    gi: usize,
    names: &mut Names,
    order: &mut EffectOrder,
) -> Result<Option<Graph>> {
    let old = &whole.model.graphs()[gi];
    let w = Writer::new(whole, gi, names);
    let touches = |n: &Node| !w.accesses(n).is_empty();
    let returns = whole.own.returned(gi).next().is_some();
    if returns && has_frames(old) {
        return Err(VariableFault::Frames { graph: old.name().into() }.into());
    }
    if has_frames(old) || !(returns || old.nodes().any(touches)) {
        return Ok(None);
    }
    w.run(order).map(Some)
}

struct Writer<'w, 'm> {
    whole: &'w Whole<'m>,
    old: &'m Graph,
    gi: usize,
    is_root: bool,
    names: &'w mut Names,
    /// States of the old graph's values; only those that are written.
    states: HashMap<ValueRef, State>,
    /// For each state, the last node of the old graph that writes it.
    last: HashMap<State, NodeId>,
    graph: Graph,
    values: HashMap<ValueRef, ValueRef>,
    nodes: HashMap<NodeId, NodeId>,
    sources: HashMap<State, ValueRef>,
    now: BTreeMap<State, Now>,
    /// States of written inputs that behave as values: each write makes a new value, which later
    /// nodes read.
    own: HashSet<State>,
    values_of_own: HashMap<State, ValueRef>,
}

/// One access of a node to a state.
struct Access {
    state: State,
    /// The input through which the node accesses the state. `None`: a graph of the node names the
    /// variable.
    input: Option<usize>,
    writes: bool,
}

impl<'w, 'm> Writer<'w, 'm> {
    fn new(whole: &'w Whole<'m>, gi: usize, names: &'w mut Names) -> Writer<'w, 'm> {
        let old = &whole.model.graphs()[gi];
        let is_root = gi == 0;
        let mut all = states(old, is_root, whole.rules);
        let own = &whole.summaries[gi].written_inputs;
        all.retain(|_, s| match s {
            State::Input(k) => own.contains(k),
            State::Variable(_) => whole.written.contains(&s.text()),
            State::Reference(_) => whole.written.contains(&s.text()),
        });
        let graph = Graph::new(old.name());
        let mut w = Writer {
            whole,
            old,
            gi,
            is_root,
            names,
            states: all,
            last: HashMap::new(),
            graph,
            values: HashMap::new(),
            nodes: HashMap::new(),
            sources: HashMap::new(),
            now: BTreeMap::new(),
            own: HashSet::new(),
            values_of_own: HashMap::new(),
        };
        let of_value = |s: &&State| matches!(s, State::Input(k) if whole.own.has(gi, *k));
        w.own = w.states.values().filter(of_value).cloned().collect();
        let mut last = HashMap::new();
        for n in old.nodes() {
            for a in w.accesses(n).into_iter().filter(|a| a.writes) {
                last.insert(a.state, n.id());
            }
        }
        w.last = last;
        w
    }

    /// The accesses of a node to states that are written.
    fn accesses(&self, n: &Node) -> Vec<Access> {
        let mut out = Vec::new();
        let rules = self.whole.rules;
        let subs: Vec<&Summary> =
            n.subgraphs().iter().filter_map(|s| self.whole.summaries.get(self.whole.model.graph_index(s)?)).collect();
        for (i, v) in n.inputs().iter().enumerate() {
            let Some(state) = self.states.get(v).filter(|_| !rules.names_input(n)) else { continue };
            let k = by_reference(n).and_then(|first| i.checked_sub(first));
            let gives = k.is_some_and(|k| subs.iter().any(|s| s.written_inputs.contains(&k)));
            out.push(Access { state: state.clone(), input: Some(i), writes: rules.writes(n, i) || gives });
        }
        let mut named: BTreeMap<&String, bool> = BTreeMap::new();
        for s in &subs {
            for r in &s.reads {
                named.entry(r).or_insert(false);
            }
            named.extend(s.writes.iter().map(|w| (w, true)));
        }
        for (name, writes) in named.into_iter().filter(|(name, _)| self.whole.written.contains(*name)) {
            out.push(Access { state: State::Variable(name.clone()), input: None, writes });
        }
        out
    }

    fn run(mut self, order: &mut EffectOrder) -> Result<Graph> {
        *self.graph.attrs_mut() = self.old.attrs().clone();
        let old = self.old;
        for n in old.nodes() {
            self.node(n, order)?;
        }
        Ok(self.graph)
    }

    fn node(&mut self, n: &Node, order: &mut EffectOrder) -> Result<()> {
        let mut inputs: Vec<ValueRef> =
            n.inputs().iter().map(|v| if v.is_absent() { *v } else { self.values[v] }).collect();
        let mut controls: Vec<NodeId> = n.controls().iter().map(|c| self.nodes[c]).collect();
        let all = self.accesses(n);
        self.alone(n, &all)?;
        let (own, accesses): (Vec<Access>, Vec<Access>) = all.into_iter().partition(|a| self.own.contains(&a.state));
        for a in &own {
            let value = self.values_of_own.get(&a.state).or_else(|| self.sources.get(&a.state));
            if let (Some(i), Some(v)) = (a.input, value) {
                inputs[i] = *v;
            }
        }
        if n.op() == "NetOutput" {
            inputs.extend(self.whole.own.returned(self.gi).filter_map(|k| self.own_value(k)));
        }
        let mut direct: Vec<&Access> = Vec::new();
        for a in &accesses {
            match a.input {
                Some(i) if !a.writes => {
                    if !self.reads_what_stays(n, i, &a.state) {
                        inputs[i] = self.copy(&a.state, order)?;
                    }
                }
                _ => direct.push(a),
            }
        }
        for a in &direct {
            let now = self.now.entry(a.state.clone()).or_default();
            controls.extend(now.writer);
            if a.writes {
                controls.extend_from_slice(&now.readers);
            }
        }
        // The edge is redundant if the node reads a value of the earlier node anyway. This does not
        // hold for a call, which is over only when its whole body is.
        let reads = |c: &NodeId| inputs.iter().any(|v| v.node == *c);
        let plain = |c: &NodeId| self.graph.get(*c).is_some_and(|p| p.subgraphs().is_empty());
        let old_controls = n.controls().len();
        let mut at = 0;
        controls.retain(|c| {
            at += 1;
            at <= old_controls || !(n.subgraphs().is_empty() && reads(c) && plain(c))
        });
        let mut attrs = n.attrs().to_map();
        let source = State::of_source(n, self.is_root);
        if source.as_ref().is_some_and(|s| self.own.contains(s)) {
            attrs.set(OWN, true);
        }
        if !direct.is_empty() {
            set_places(&mut attrs, &[vec![(self.old.name().to_owned(), n.name().to_owned())]]);
        }
        // An output that is a variable exists even if nobody reads it, because the task writes it.
        let mut outputs = n.outputs().to_vec();
        while self.whole.rules.writes(n, outputs.len()) {
            let Some(d) = inputs.get(outputs.len()).and_then(|v| self.graph.desc(*v)).cloned() else { break };
            outputs.push(d);
        }
        let given_back = self.given_back(n, &own, &inputs, &mut outputs);
        let id = self.push(n.op(), n.name().to_owned(), inputs, controls, outputs, attrs)?;
        self.nodes.insert(n.id(), id);
        self.values.extend((0..n.outputs().len() as u32).map(|k| (n.value(k), ValueRef::new(id, k))));
        if let Some(s) = source {
            self.sources.insert(s, ValueRef::new(id, 0));
        }
        for a in own.into_iter().filter(|a| a.writes) {
            // If the node itself writes an input, the output has the index of that input.
            let output = a.input.and_then(|i| given_back.get(&i).copied().or(u32::try_from(i).ok()));
            let output = output.map(|k| ValueRef::new(id, k));
            self.values_of_own.extend(output.filter(|v| self.graph.desc(*v).is_some()).map(|v| (a.state, v)));
        }
        for a in direct {
            self.note(&a.state, n.name(), id, a.writes, order);
        }
        Ok(())
    }

    /// The current value of an input that behaves as a value.
    fn own_value(&self, k: usize) -> Option<ValueRef> {
        let state = State::Input(k);
        self.values_of_own.get(&state).or_else(|| self.sources.get(&state)).copied()
    }

    /// Adds to a node's outputs the new values that its graphs return of inputs that behave as
    /// values. Returns the index of the output for each such input.
    fn given_back(
        &self,
        n: &Node,
        own: &[Access],
        inputs: &[ValueRef],
        outputs: &mut Vec<TensorDesc>,
    ) -> BTreeMap<usize, u32> {
        let called = n.subgraphs().into_iter().find_map(|s| self.whole.model.graph_index(s));
        let (Some(first), Some(called)) = (by_reference(n), called) else { return BTreeMap::new() };
        let mut out = BTreeMap::new();
        for i in self.whole.own.returned(called).map(|k| first + k) {
            if own.iter().any(|a| a.input == Some(i)) {
                out.insert(i, outputs.len() as u32);
                outputs.push(inputs.get(i).and_then(|v| self.graph.desc(*v)).cloned().unwrap_or_default());
            }
        }
        out
    }

    /// Checks that a variable that the node's graphs write enters the node in one way only.
    fn alone(&self, n: &Node, accesses: &[Access]) -> Result<()> {
        let twice = accesses.iter().enumerate().find(|(k, a)| {
            a.writes && !n.subgraphs().is_empty() && accesses.iter().skip(k + 1).any(|b| b.writes && b.state == a.state)
        });
        let Some((_, a)) = twice else { return Ok(()) };
        Err(VariableFault::TwoWays { node: n.name().into(), name: a.state.text() }.into())
    }

    /// Whether the value that a node reads stays what its last writer left: no later write in this
    /// graph can come in between.
    fn reads_what_stays(&self, n: &Node, input: usize, state: &State) -> bool {
        let of_last = n.input(input).is_some_and(|v| self.last.get(state) == Some(&v.node));
        of_last && (self.whole.rules.computes(n) || (self.is_root && n.subgraphs().is_empty()))
    }

    /// The copy of what a variable holds at this place; it is made on the first request.
    fn copy(&mut self, state: &State, order: &mut EffectOrder) -> Result<ValueRef> {
        if let Some(v) = self.now.get(state).and_then(|n| n.copy) {
            return Ok(v);
        }
        let (text, writer) = (state.text(), self.now.get(state).and_then(|n| n.writer));
        let source = self.sources.get(state).copied();
        let source =
            source.ok_or_else(|| CompileError::internal("import", format!("variable `{text}` has no node")))?;
        let base = self.graph.get(source.node).map_or(text.as_str(), Node::name);
        let name = self.names.take(format!("{base}_read"));
        let desc = self.graph.desc(source).cloned().unwrap_or_default();
        let mut attrs = AttrMap::default();
        attrs.set("_inserted_by", WHO);
        set_places(&mut attrs, &[vec![(self.old.name().to_owned(), name.clone())]]);
        let controls = writer.into_iter().collect();
        let id = self.push("Identity", name.clone(), vec![source], controls, vec![desc], attrs)?;
        self.note(state, &name, id, false, order);
        let v = ValueRef::new(id, 0);
        self.now.entry(state.clone()).or_default().copy = Some(v);
        Ok(v)
    }

    /// Records an access.
    fn note(&mut self, state: &State, node: &str, id: NodeId, writes: bool, order: &mut EffectOrder) {
        let now = self.now.entry(state.clone()).or_default();
        if writes {
            now.step = (now.step + 1).next_multiple_of(2);
            now.writer = Some(id);
            now.readers.clear();
            now.copy = None;
        } else {
            now.step |= 1;
            now.readers.push(id);
        }
        order.effects.push(Effect {
            graph: self.old.name().to_owned(),
            node: node.to_owned(),
            variable: state.text(),
            step: now.step,
            writes,
        });
    }

    fn push(
        &mut self,
        op: &str,
        name: String,
        inputs: Vec<ValueRef>,
        controls: Vec<NodeId>,
        outputs: Vec<TensorDesc>,
        attrs: AttrMap,
    ) -> Result<NodeId> {
        let told = name.clone();
        self.graph
            .push_node(op.into(), name, inputs, controls, outputs, attrs)
            .ok_or_else(|| CompileError::unordered("import", &told))
    }
}
