//! Rewrites one graph in the order of its nodes: a node that reads a variable gets the value that
//! the variable has at that place.
use super::super::summary::{State, states};
use super::super::writer::Names;
use super::super::{WHO, by_reference};
use super::{Job, Signature, Whole, signature};
use crate::error::{CompileError, Result};
use ge_ir::{Graph, Key, Node, NodeId, TensorDesc, ValueRef};
use ge_model::KEPT;
use ge_model::effects::{EFFECT, EffectIndex, Path, Relation, places_of_attrs};
use ge_plugin_api::types::AttrMap;
use std::collections::{BTreeMap, HashMap};

/// An access to a state that the walk has passed: the places of its node in the order, and its
/// name.
type Passed = (Vec<Path>, String);

struct Walk<'w> {
    whole: &'w Whole<'w>,
    names: &'w mut Names,
    old: &'w Graph,
    is_root: bool,
    /// States of the old graph's values.
    states: HashMap<ValueRef, State>,
    new: Graph,
    values: HashMap<ValueRef, ValueRef>,
    nodes: HashMap<NodeId, NodeId>,
    /// The current value of each state.
    now: BTreeMap<State, ValueRef>,
    /// The value of each state when the graph began.
    first: BTreeMap<State, ValueRef>,
    passed: BTreeMap<State, Vec<Passed>>,
    below: Vec<Job>,
}

/// Returns the graph with values in place of effects, and the jobs for the graphs that its nodes
/// call.
pub(super) fn rewrite(whole: &Whole<'_>, names: &mut Names, job: Job) -> Result<(Graph, Vec<Job>)> {
    let old = &whole.model.graphs()[job.graph];
    let is_root = job.graph == 0;
    let mut new = Graph::new(old.name());
    *new.attrs_mut() = old.attrs().clone();
    let mut w = Walk {
        whole,
        names,
        old,
        is_root,
        states: states(old, is_root, whole.rules),
        new,
        values: HashMap::new(),
        nodes: HashMap::new(),
        now: BTreeMap::new(),
        first: BTreeMap::new(),
        passed: BTreeMap::new(),
        below: Vec::new(),
    };
    w.parameters(&job.signature)?;
    let index = whole.order.index();
    for n in old.nodes() {
        w.node(n, &job.signature, &index)?;
    }
    Ok((w.new, w.below))
}

impl Walk<'_> {
    /// Adds the further inputs of a called graph.
    fn parameters(&mut self, signature: &Signature) -> Result<()> {
        let given = self.old.nodes().filter(|n| n.op() == "Data").count();
        for (k, name) in signature.inputs.iter().enumerate() {
            let desc = self.whole.variables.get(name).cloned().unwrap_or_default();
            let mut attrs = AttrMap::default();
            attrs.set("index", (given + k) as i64);
            let taken = self.old.find(name).is_some_and(|n| n.op() != "Variable");
            let own = if taken { format!("{name}_given") } else { name.clone() };
            let id = self.push("Data", own, vec![], vec![], vec![desc], attrs)?;
            self.begin(State::Variable(name.clone()), ValueRef::new(id, 0));
        }
        Ok(())
    }

    fn begin(&mut self, state: State, value: ValueRef) {
        self.first.insert(state.clone(), value);
        self.now.insert(state, value);
    }

    /// The value in the new graph for a value of the old graph.
    fn value(&self, v: ValueRef) -> Result<ValueRef> {
        if v.is_absent() {
            return Ok(v);
        }
        let state = self.states.get(&v).and_then(|s| self.now.get(s));
        state.or_else(|| self.values.get(&v)).copied().ok_or_else(|| {
            let name = self.old.get(v.node).map_or("", Node::name);
            CompileError::internal("variables", format!("`{name}` is read before it is there"))
        })
    }

    fn node(&mut self, n: &Node, signature: &Signature, index: &EffectIndex<'_>) -> Result<()> {
        let inputs = n.inputs().iter().map(|v| self.value(*v)).collect::<Result<Vec<_>>>()?;
        match n.op() {
            // A called graph gets the contents of variables as inputs.
            "Variable" if !self.is_root => return Ok(()),
            "NetOutput" => return self.results(n, inputs, signature),
            _ => {}
        }
        let own = signature_of(self.whole, n)?;
        self.in_order(n, own.as_ref(), index)?;
        let of: Vec<Option<State>> = n.inputs().iter().map(|v| self.states.get(v).cloned()).collect();
        let first = of.first().cloned().flatten();
        let is_name = n.op() == "RefIdentity" || (n.op() == "Identity" && n.attrs().str("_inserted_by") == Some(WHO));
        if let (true, Some(_), Some(v)) = (is_name, &first, inputs.first()) {
            self.values.insert(n.value(0), *v);
            return Ok(());
        }
        if let Some((op, inputs)) = self.plain(n, &inputs) {
            let value = match op {
                Some(op) => {
                    let controls = self.controls(n);
                    let id = self.push(op, n.name().to_owned(), inputs, controls, n.outputs().to_vec(), stripped(n))?;
                    self.nodes.insert(n.id(), id);
                    ValueRef::new(id, 0)
                }
                None => inputs[0],
            };
            self.values.insert(n.value(0), value);
            self.now.extend(first.map(|s| (s, value)));
            return Ok(());
        }
        let written: Vec<(usize, Option<State>)> = (0..n.outputs().len().min(of.len()))
            .filter(|k| self.whole.rules.writes(n, *k))
            .map(|k| (k, of[k].clone()))
            .collect();
        let mut inputs = inputs;
        for (k, _) in &written {
            // A node that overwrites a value gets its own copy of it.
            let desc = self.new.desc(inputs[*k]).cloned().unwrap_or_default();
            let name = self.names.take(format!("{}_before{k}", n.name()));
            let id = self.push("Identity", name, vec![inputs[*k]], vec![], vec![desc], AttrMap::default())?;
            inputs[*k] = ValueRef::new(id, 0);
        }
        let mut outputs = n.outputs().to_vec();
        if let Some(own) = &own {
            for name in &own.inputs {
                let state = State::Variable(name.clone());
                let value = self.now.get(&state).copied().ok_or_else(|| lost(n, name))?;
                inputs.push(value);
            }
            for s in &own.outputs {
                outputs.push(self.desc_of(n, s));
            }
        }
        let controls = self.controls(n);
        let id = self.push(n.op(), n.name().to_owned(), inputs, controls, outputs, stripped(n))?;
        self.nodes.insert(n.id(), id);
        self.values.extend((0..n.outputs().len() as u32).map(|k| (n.value(k), ValueRef::new(id, k))));
        if let Some(state) = State::of_source(n, self.is_root) {
            self.begin(state, ValueRef::new(id, 0));
        }
        for (k, state) in written {
            self.now.extend(state.map(|s| (s, ValueRef::new(id, k as u32))));
        }
        if let Some(own) = own {
            let from = n.outputs().len();
            for (k, s) in own.outputs.iter().enumerate() {
                let value = ValueRef::new(id, (from + k) as u32);
                match s {
                    State::Input(i) => {
                        let given = by_reference(n).and_then(|first| n.input(first + i));
                        let state = given.and_then(|v| self.states.get(&v)).cloned();
                        self.now.extend(state.map(|s| (s, value)));
                    }
                    s => drop(self.now.insert(s.clone(), value)),
                }
            }
            let called = n.subgraphs().into_iter().filter_map(|s| self.whole.model.graph_index(s));
            self.below.extend(called.map(|graph| Job { graph, signature: own.clone() }));
        }
        Ok(())
    }

    /// A write without its memory effect: its operator and the inputs of that, or only the value.
    /// `None`: the write stays as it is and works on a copy.
    fn plain(&self, n: &Node, inputs: &[ValueRef]) -> Option<(Option<&'static str>, Vec<ValueRef>)> {
        let (&[var, value], [out]) = (inputs, n.outputs()) else { return None };
        let (of, with) = (self.new.desc(var)?, self.new.desc(value)?);
        // If the sizes might turn out different, the operator stays, so that it reports them
        // itself.
        let alike = |d: &TensorDesc| d.is_static() && (d.dtype, d.format, &d.shape) == (of.dtype, of.format, &of.shape);
        if !(alike(with) && alike(out)) {
            return None;
        }
        match n.op() {
            "Assign" => Some((None, vec![value])),
            "AssignAdd" => Some((Some("Add"), vec![var, value])),
            "AssignSub" => Some((Some("Sub"), vec![var, value])),
            _ => None,
        }
    }

    /// Descriptor of the further output by which a node returns a state.
    fn desc_of(&self, n: &Node, state: &State) -> TensorDesc {
        match state {
            State::Variable(name) => self.whole.variables.get(name).cloned().unwrap_or_default(),
            State::Input(k) => {
                let given = by_reference(n).and_then(|first| n.input(first + k));
                given.and_then(|v| self.old.desc(v)).cloned().unwrap_or_default()
            }
            State::Reference(_) => TensorDesc::default(),
        }
    }

    /// Writes the results of the graph, and the contents of the states that the graph returns.
    fn results(&mut self, n: &Node, mut inputs: Vec<ValueRef>, signature: &Signature) -> Result<()> {
        for s in &signature.outputs {
            inputs.extend(self.now.get(s).copied());
        }
        if self.is_root {
            self.keep()?;
        }
        let controls = self.controls(n);
        let id = self.push(n.op(), n.name().to_owned(), inputs, controls, n.outputs().to_vec(), stripped(n))?;
        self.nodes.insert(n.id(), id);
        Ok(())
    }

    /// Adds an `Assign` for each state of the root graph whose content has changed.
    fn keep(&mut self) -> Result<()> {
        let changed: Vec<(State, ValueRef, ValueRef)> = (self.first.iter())
            .filter_map(|(s, first)| Some((s.clone(), *first, *self.now.get(s)?)))
            .filter(|(_, first, now)| first != now)
            .collect();
        for (state, first, now) in changed {
            let desc = self.new.desc(first).cloned().unwrap_or_default();
            let mut attrs = AttrMap::default();
            attrs.set(KEPT, true);
            let name = self.names.take(format!("{}_kept", state.text().trim_start_matches('&')));
            self.push("Assign", name, vec![first, now], vec![], vec![desc], attrs)?;
        }
        Ok(())
    }

    /// Control inputs that still exist. Edges between two nodes with effects are dropped, since
    /// values now carry that order.
    fn controls(&self, n: &Node) -> Vec<NodeId> {
        let has_effect = |n: &Node| n.attrs().get(EFFECT).is_some();
        let ordered = |c: &NodeId| has_effect(n) && self.old.get(*c).is_some_and(has_effect);
        n.controls().iter().filter(|c| !ordered(c)).filter_map(|c| self.nodes.get(c).copied()).collect()
    }

    /// Checks the walk against the order of reads and writes in the imported graph.
    fn in_order(&mut self, n: &Node, own: Option<&Signature>, index: &EffectIndex<'_>) -> Result<()> {
        let places = places_of_attrs(n.attrs());
        let named = own.into_iter().flat_map(|s| s.inputs.iter().cloned().map(State::Variable));
        let read = n.inputs().iter().filter_map(|v| self.states.get(v)).cloned();
        for state in read.chain(named).collect::<Vec<_>>() {
            let passed = self.passed.entry(state).or_default();
            for (before, name) in passed.iter() {
                let late = |a: &Path| places.iter().any(|b| index.relation(a, b) == Relation::After);
                if before.iter().any(late) {
                    let text =
                        format!("`{}` stands behind `{name}`, which comes after it in the imported graph", n.name());
                    return Err(CompileError::internal("variables", text));
                }
            }
            if !places.is_empty() {
                passed.push((places.clone(), n.name().to_owned()));
            }
        }
        Ok(())
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
        let id = self.new.push_node(Key::new(op), name, inputs, controls, outputs, attrs);
        id.ok_or_else(|| CompileError::unordered("variables", &told))
    }
}

fn signature_of(whole: &Whole<'_>, n: &Node) -> Result<Option<Signature>> {
    if n.subgraphs().is_empty() { Ok(None) } else { signature(whole, n) }
}

/// The attributes of a node without its place in the order of effects.
fn stripped(n: &Node) -> AttrMap {
    let mut attrs = n.attrs().to_map();
    attrs.remove(EFFECT);
    attrs
}

fn lost(n: &Node, name: &str) -> CompileError {
    CompileError::internal("variables", format!("variable `{name}`, which `{}` needs, has no node", n.name()))
}
