//! The nodes of a graph, in order: names, attributes, mappings, and what is known of their results.
use super::functions::Call;
use super::{Building, Env, Importer, damaged, domain};
use crate::attributes;
use crate::control;
use crate::facts::Facts;
use crate::flex;
use crate::inferred::Inferred;
use crate::order::{self, Names};
use crate::proto::{AttributeProto, NodeProto};
use crate::random;
use crate::schema;
use crate::scope::{Known, Scope};
use crate::tensor;
use ge_plugin_api::abi::ROption;
use ge_plugin_api::diagnostic::{Diagnostic, Error, ErrorKind, Result};
use ge_plugin_api::frontend::{ForeignNode, MappingRef};
use ge_plugin_api::patch::Edit;
use ge_plugin_api::types::{AttrMap, AttrValue, ConstTensor, NodeId, TensorDesc, ValueRef};
use std::borrow::Cow;
use std::collections::HashSet;

/// Maximum number of nodes of an import, including expanded functions and loops.
const MOST_NODES: usize = 4_000_000;
/// Maximum nesting depth of functions and subgraphs.
const DEEPEST: usize = 64;
/// Attribute of a placeholder node for one that cannot be imported: the reasons.
const REFUSED: &str = "_refused";

impl Importer<'_> {
    /// Imports nodes in order.
    pub fn nodes(&mut self, nodes: &[NodeProto], g: &mut Building, env: &Env<'_>) -> Result<()> {
        if env.depth > DEEPEST {
            return Err(damaged(format!(
                "functions or subgraphs nest deeper than {DEEPEST}: does a function call itself?"
            )));
        }
        self.in_order(nodes.len(), |_, k| Ok(Cow::Borrowed(&nodes[k])), g, env)
    }

    /// Imports `count` nodes by index. From the first node that comes before something it reads,
    /// the nodes are sorted.
    pub(super) fn in_order<'n>(
        &mut self,
        count: usize,
        node: impl Fn(&Self, usize) -> Result<Cow<'n, NodeProto>>,
        g: &mut Building,
        env: &Env<'_>,
    ) -> Result<()> {
        for k in 0..count {
            let n = node(self, k)?;
            if !order::is_ready(&n, &g.scope) {
                let rest = (k..count).map(|k| Ok(Names::of(node(self, k)?.as_ref()))).collect::<Result<Vec<_>>>()?;
                return order::sorted(&rest).into_iter().try_for_each(|at| {
                    let n = node(self, k + at)?;
                    self.next(&n, g, env)
                });
            }
            self.next(&n, g, env)?;
        }
        Ok(())
    }

    /// Imports one node.
    fn next(&mut self, n: &NodeProto, g: &mut Building, env: &Env<'_>) -> Result<()> {
        self.nodes += 1;
        if self.nodes > MOST_NODES {
            return Err(damaged(format!("more than {MOST_NODES} nodes with all functions written out")));
        }
        if self.nodes.is_multiple_of(256) && ge_plugin_api::services::cancelled() {
            return Err(Error::cancelled());
        }
        let n = without_left_out(n, &g.scope, env);
        self.node(&n, g, env).or_else(|e| self.stand_in(&n, g, env, e))
    }

    /// Makes a placeholder for a node that cannot be imported, with the reasons. The host reports
    /// these together with everything else in the model that is not supported. An error other than
    /// a refusal ends the import.
    fn stand_in(&mut self, n: &NodeProto, g: &mut Building, env: &Env<'_>, e: Error) -> Result<()> {
        if e.kind != ErrorKind::UNSUPPORTED {
            return Err(e);
        }
        let told = e.diagnostics.iter().map(|d| d.node.to_string()).find(|n| !n.is_empty());
        let name = told.unwrap_or_else(|| self.name_of(n, env));
        let one = |d: &Diagnostic| -> AttrValue {
            let fields = [&d.code, &d.message, &d.op, &d.subject, &d.found, &d.expected, &d.help];
            AttrValue::Strs(fields.into_iter().chain(d.notes.iter()).cloned().collect())
        };
        let mut attrs = AttrMap::default();
        attrs.set(REFUSED, AttrValue::List(e.diagnostics.iter().map(one).collect::<Vec<_>>().into()));
        let outputs = vec![TensorDesc::unknown(); n.output.len()];
        let node = g.builder.patch().add(&n.op_type, &name, &[], outputs, attrs);
        g.provenance.origin(node, &origin_op(n, env));
        for (k, o) in (0..).zip(&n.output).filter(|(_, o)| !o.is_empty()) {
            g.scope.insert(o.clone(), Known::new(ValueRef::new(node, k), TensorDesc::unknown()));
            self.stood_in.insert(o.clone());
        }
        Ok(())
    }

    /// The name that a node gets: its own with the prefix, or one made from its first output.
    fn name_of(&mut self, n: &NodeProto, env: &Env<'_>) -> String {
        if let Some((output, name)) = &env.rename {
            if n.output.first() == Some(output) {
                return name.clone();
            }
        }
        let output = n.output.iter().find(|o| !o.is_empty()).map_or(n.op_type.as_str(), String::as_str);
        if !n.name.is_empty() {
            let own = env.prefixed(&n.name);
            if self.names.insert(&own) {
                return own;
            }
        }
        self.take_name(&env.prefixed(output))
    }

    /// The attributes of a node, with references to a function's attributes resolved.
    fn attributes<'n>(&self, n: &'n NodeProto, env: &Env<'n>) -> Vec<(&'n str, &'n AttributeProto)> {
        n.attribute
            .iter()
            .filter_map(|a| match (a.ref_attr_name.as_str(), &env.attrs) {
                ("", _) => Some((a.name.as_str(), a)),
                (r, Some(given)) => given.get(r).map(|v| (a.name.as_str(), *v)),
                (_, None) => None,
            })
            .collect()
    }

    fn node(&mut self, n: &NodeProto, g: &mut Building, env: &Env<'_>) -> Result<()> {
        let (before, mark) = (g.builder.patch().edits().len(), g.provenance.mark());
        self.one_node(n, g, env)?;
        let added = g.builder.patch().edits().get(before..).unwrap_or(&[]);
        // For nodes of a function's body, the origin within the body has been recorded already.
        let told: HashSet<NodeId> = g.provenance.nodes_since(mark).collect();
        let mut origin = String::new();
        for e in added {
            if let Edit::AddNode(made) = e {
                if made.op != "Const" && !told.contains(&made.id) {
                    if origin.is_empty() {
                        origin = origin_op(n, env);
                    }
                    g.provenance.origin(made.id, &origin);
                }
            }
        }
        Ok(())
    }

    fn one_node(&mut self, n: &NodeProto, g: &mut Building, env: &Env<'_>) -> Result<()> {
        let name = self.name_of(n, env);
        let dom = domain(&n.domain);
        let version = env.opsets.get(dom).copied();
        if let Some(d) = attributes::fault(&n.attribute) {
            return Err(d.node(&name, n.op_type.as_str()).raise(ge_plugin_api::diagnostic::BROKEN_MODEL));
        }
        let attrs = self.attributes(n, env);
        let standard = version.filter(|_| dom == "ai.onnx");
        if let Some(d) = standard.and_then(|v| schema::fault(&n.op_type, v, &attrs)) {
            return Err(d.node(&name, n.op_type.as_str()).raise(ge_plugin_api::diagnostic::BROKEN_MODEL));
        }
        if dom == "ai.onnx" && n.op_type == "Constant" {
            if let (Some(o), Some(t)) = (n.output.first(), self.constant(&attrs, &name)?) {
                let known = Known { value: ValueRef::ABSENT, desc: t.desc().into(), constant: Some(t) };
                self.define(g, env, o, known)?;
                return Ok(());
            }
        }
        let found = version.or((dom != "ai.onnx").then_some(1));
        let mapping = found.and_then(|v| Some((self.mappings.find(dom, &n.op_type, v)?, v)));
        let function = self.function(n);
        let outputs = match (mapping, function) {
            (Some((m, version)), _) => {
                self.mapped(m, &Call { node: n, name: &name, attrs: &attrs }, version, g, env)?
            }
            (None, Some(f)) => return self.call(f, &Call { node: n, name: &name, attrs: &attrs }, g, env),
            (None, None) if dom == "ai.onnx" && version.is_some() && control::handles(&n.op_type) => {
                control::import(self, n, &name, &attrs, g, env)?
            }
            (None, None) if flex::handles(dom, &n.op_type) => flex::import(self, n, &name, &attrs, g, env)?,
            (None, None) => {
                let reason = self.mappings.reason(dom, &n.op_type, version);
                return Err(self.refuse(n, &name, dom, version, &reason));
            }
        };
        for (i, o) in n.output.iter().enumerate().filter(|(_, o)| !o.is_empty()) {
            let Some(k) = outputs.get(i).filter(|k| !k.value.is_absent()) else {
                return Err(self.refuse(n, &name, dom, version, &format!("its output {i} `{o}`")));
            };
            self.define(g, env, o, k.clone())?;
        }
        Ok(())
    }

    /// Adds what a mapping makes of a node, and returns what is known of its outputs.
    fn mapped(
        &mut self,
        mapping: MappingRef,
        c: &Call<'_>,
        version: u32,
        g: &mut Building,
        env: &Env<'_>,
    ) -> Result<Vec<Known>> {
        let (n, dom) = (c.node, domain(&c.node.domain));
        if let Some((k, _)) = c.attrs.iter().find(|(_, a)| a.g.is_some() || !a.graphs.is_empty()) {
            return Err(self.refuse(n, c.name, dom, Some(version), &format!("a subgraph in attribute `{k}`")));
        }
        let mut node = ForeignNode {
            name: c.name.into(),
            op: n.op_type.as_str().into(),
            domain: dom.into(),
            version,
            output_names: n.output.iter().map(|s| s.as_str().into()).collect(),
            ..ForeignNode::default()
        };
        node.attrs = self.attr_map(c.attrs)?;
        for i in &n.input {
            let known = if i.is_empty() { None } else { Some(self.known(g, i)?) };
            node.input_names.push(i.as_str().into());
            node.inputs.push(known.as_ref().map_or(ValueRef::ABSENT, |k| k.value));
            node.input_descs.push(known.as_ref().map_or_else(TensorDesc::unknown, |k| k.desc.as_ref().clone()));
            node.constants.push(known.and_then(|k| k.constant).map_or(ROption::RNone, ROption::RSome));
        }
        self.materialise(g, &mut node)?;
        if let Some((at, turn)) = random::turn_input(n).zip(env.turn) {
            node.inputs.resize(at, ValueRef::ABSENT);
            node.inputs.push(turn);
            node.input_names.resize(at + 1, "".into());
            node.input_descs.resize(at + 1, TensorDesc::unknown());
            node.constants.resize(at + 1, ROption::RNone);
        }
        g.builder.set_prefix(&format!("{}/", c.name));
        let before = g.builder.patch().edits().len();
        let values = mapping.map(&node, &mut g.builder).map_err(|e| e.at_node(c.name, &n.op_type))?;
        let added = g.builder.patch().edits().get(before..).unwrap_or(&[]);
        Ok(self.learn(added, &node, &values, env))
    }

    /// What is known of the results of a mapping: what its nodes declare, else what follows from
    /// the foreign operator. If that leaves something open, the prototypes of the added nodes and
    /// then the model's own statements are asked.
    fn learn(&mut self, added: &[Edit], node: &ForeignNode, values: &[ValueRef], env: &Env<'_>) -> Vec<Known> {
        let mut inferred = None;
        let mut known = |(i, v): (usize, &ValueRef)| {
            let maker = added.iter().find_map(|e| match e {
                Edit::AddNode(n) if n.id == v.node => Some(n),
                _ => None,
            });
            let declared = maker.and_then(|n| n.outputs.get(v.output as usize)).filter(|d| !d.shape.is_unranked());
            let facts = Facts::of_output(node, i);
            let desc = match declared {
                Some(d) => d.clone().into(),
                None if facts.is_whole() => self.facts.desc(facts),
                None => {
                    let told = inferred.get_or_insert_with(|| Inferred::of(node, added)).desc(*v);
                    // Names in the body of a function are not those of the model.
                    let name = node.output_names.get(i).filter(|_| env.attrs.is_none());
                    self.facts.completed(facts, told, name.and_then(|name| self.stated.facts(name)))
                }
            };
            let constant = maker.filter(|n| n.op == "Const").and_then(|n| n.attrs.tensor("value").cloned());
            Known { value: *v, desc, constant }
        };
        values.iter().enumerate().map(&mut known).collect()
    }

    /// The value that a mapping is told about; a constant gets no node until it is known that the
    /// mapping needs one.
    fn known(&mut self, g: &mut Building, name: &str) -> Result<Known> {
        match g.scope.get(name) {
            Some(k) => Ok(k.clone()),
            None => self.read_value(g, name),
        }
    }
    /// Makes a node for every constant input.
    fn materialise(&mut self, g: &mut Building, node: &mut ForeignNode) -> Result<()> {
        for i in 0..node.inputs.len() {
            if node.inputs[i].is_absent() && !node.input_names[i].is_empty() {
                let name = node.input_names[i].to_string();
                node.inputs[i] = self.read_value(g, &name)?.value;
            }
        }
        Ok(())
    }

    fn attr_map(&self, attrs: &[(&str, &AttributeProto)]) -> Result<AttrMap> {
        let mut m = AttrMap::default();
        for (k, a) in attrs {
            if let Some(v) = attributes::value(a, &self.source)? {
                m.set(*k, v);
            }
        }
        Ok(m)
    }

    /// The tensor of a Constant node.
    fn constant(&self, attrs: &[(&str, &AttributeProto)], name: &str) -> Result<Option<ConstTensor>> {
        let Some((key, a)) = attrs.first() else { return Ok(None) };
        let v = attributes::value(a, &self.source)?;
        let list = |n: usize| [n as u64];
        Ok(match (*key, v) {
            ("value" | "sparse_value", Some(AttrValue::Tensor(t))) => Some(t),
            ("value_float", Some(AttrValue::Float(_))) => ConstTensor::of(&[], &[a.f]),
            ("value_int", Some(AttrValue::Int(i))) => ConstTensor::of(&[], &[i]),
            ("value_floats", _) => ConstTensor::of(&list(a.floats.len()), &a.floats),
            ("value_ints", _) => ConstTensor::of(&list(a.ints.len()), &a.ints),
            ("value_string", _) => tensor::text(&[], std::slice::from_ref(&a.s)),
            ("value_strings", _) => tensor::text(&list(a.strings.len()), &a.strings),
            _ => return Err(damaged(format!("Constant `{name}` has no value that can be read"))),
        })
    }

    /// Makes the error for a refused node.
    pub fn refuse(&self, n: &NodeProto, name: &str, dom: &str, version: Option<u32>, reason: &str) -> Error {
        let v = version.map_or_else(|| "?".to_owned(), |v| v.to_string());
        Diagnostic::error(format!("cannot import `{name}` ({}, {dom} {v}): {reason}", n.op_type))
            .node(name, n.op_type.as_str())
            .help("a front-end plugin can add a mapping for it (docs/plugins.md)")
            .raise(ge_plugin_api::diagnostic::NOT_MAPPED)
    }
}

/// What the model says about a node, for example `Relu, ai.onnx 13`.
fn origin_op(n: &NodeProto, env: &Env<'_>) -> String {
    let dom = domain(&n.domain);
    let version = env.opsets.get(dom).map_or_else(|| "?".to_owned(), u32::to_string);
    [&n.op_type, ", ", dom, " ", &version].concat()
}

/// The node, with an empty name for each input that the enclosing function call leaves out.
fn without_left_out<'n>(n: &'n NodeProto, scope: &Scope, env: &Env<'_>) -> Cow<'n, NodeProto> {
    let left_out = |name: &String| scope.get(name).is_some_and(Known::is_left_out);
    if env.attrs.is_none() || !n.input.iter().any(left_out) {
        return Cow::Borrowed(n);
    }
    let mut n = n.clone();
    n.input.iter_mut().filter(|name| left_out(name)).for_each(String::clear);
    Cow::Owned(n)
}
