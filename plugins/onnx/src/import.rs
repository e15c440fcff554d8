//! Walks over a model: inputs, constants, nodes in order, inlined functions, outputs. All refusals
//! are collected.
use crate::attributes;
use crate::contradictions;
use crate::control;
use crate::defaults;
use crate::facts::{self, Facts};
use crate::flex;
use crate::inferred::Inferred;
use crate::inputs;
use crate::names::NameSet;
use crate::order::{self, Names};
use crate::proto::{AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto};
use crate::read::{self, Nodes, Read};
use crate::schema;
use crate::scope::{Known, Scope};
use crate::tensor::{self, Source};
use ge_plugin_api::abi::ROption;
use ge_plugin_api::diagnostic::{Diagnostic, Error, ErrorKind, Result};
use ge_plugin_api::frontend::{FileRef, ForeignNode, Frontend, GraphBuilder, ImportOptions, MappingRef, Provenance};
use ge_plugin_api::patch::{Edit, Patch};
use ge_plugin_api::types::{AttrMap, AttrValue, ConstTensor, NodeId, TensorDesc, ValueRef};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Oldest supported operator set.
const OLDEST: u32 = 1;
/// Newest operator set whose operators were reviewed.
const NEWEST: u32 = 28;
/// Maximum number of nodes of an import, including expanded functions and loops.
const MOST_NODES: usize = 4_000_000;
/// Maximum nesting depth of functions and subgraphs.
const DEEPEST: usize = 64;
/// Attribute of a placeholder node for one that cannot be imported: the reasons.
const REFUSED: &str = "_refused";

/// The ONNX front end.
pub struct OnnxFrontend;

impl Frontend for OnnxFrontend {
    fn framework(&self) -> String {
        "onnx".into()
    }
    fn recognises(&self, file: &FileRef) -> bool {
        read::recognises(&file.bytes)
    }
    fn import(&self, file: &FileRef, options: &ImportOptions, builder: &mut GraphBuilder<'_>) -> Result<()> {
        let read = read::decode(&file.bytes)?;
        let graphs = Importer::new(&read, Source { file: &file.bytes, files: builder })?.run(options)?;
        for (name, patch) in graphs {
            let next = patch.next_id();
            if let Some(name) = name {
                builder.patch().push(Edit::InGraph(name.as_str().into()));
            }
            builder.patch().append(patch.into_edits().into(), next);
        }
        Ok(())
    }
}

/// Context in which a node is imported: operator set versions, attributes of a function call,
/// prefix of names.
#[derive(Clone)]
pub struct Env<'n> {
    /// Operator set version of each domain.
    pub opsets: BTreeMap<String, u32>,
    /// Attributes of the enclosing function call; `None` outside of functions.
    pub attrs: Option<BTreeMap<String, &'n AttributeProto>>,
    /// Prefix of node names.
    pub prefix: String,
    /// Value name and node name: the node that makes this value gets the name of the function call.
    pub rename: Option<(String, String)>,
    /// Nesting depth.
    pub depth: usize,
}

impl Env<'_> {
    /// A name with the prefix.
    fn prefixed(&self, name: &str) -> String {
        [self.prefix.as_str(), name].concat()
    }
}

/// A graph under construction.
pub struct Building {
    /// The builder of the graph.
    pub builder: GraphBuilder<'static>,
    /// The values of the graph, by name.
    pub scope: Scope,
    /// Origin of values and nodes: the model's names for them, and what the model says about nodes.
    pub provenance: Provenance,
}
impl Building {
    /// An empty graph.
    pub fn new() -> Building {
        Building { builder: GraphBuilder::new(None), scope: Scope::new(), provenance: Provenance::default() }
    }
    /// The edits, including the origin of the nodes.
    fn into_patch(mut self) -> Patch {
        self.provenance.write(self.builder.patch());
        self.builder.into_patch()
    }
}
impl Default for Building {
    fn default() -> Self {
        Building::new()
    }
}

/// The state of one import.
pub struct Importer<'m> {
    model: &'m ModelProto,
    /// Nodes of the main graph.
    main: &'m Nodes,
    /// Access to the bytes of tensors.
    pub source: Source<'m>,
    /// By domain and operator: version ranges, and the mapping for each.
    mappings: BTreeMap<String, HashMap<String, Vec<(u32, u32, MappingRef)>>>,
    functions: contradictions::Functions<'m>,
    names: NameSet,
    graph_names: HashSet<String>,
    tensor_names: NameSet,
    facts: facts::Shared,
    /// What the model states of values of its main graph.
    stated: facts::Stated<'m>,
    subgraphs: Vec<(Option<String>, Patch)>,
    problems: Vec<Diagnostic>,
    /// Names of the values made by placeholder nodes.
    stood_in: HashSet<String>,
    nodes: usize,
}

/// The domain, with `ai.onnx` for the default domain.
pub fn domain(d: &str) -> &str {
    if d.is_empty() { "ai.onnx" } else { d }
}
/// The error for a model that is not whole or contradicts itself.
pub fn damaged(message: String) -> Error {
    Diagnostic::error(message).raise(ge_plugin_api::diagnostic::BROKEN_MODEL)
}

impl<'m> Importer<'m> {
    /// Collects mappings and functions.
    pub fn new(read: &'m Read, source: Source<'m>) -> Result<Importer<'m>> {
        let (model, main) = (&read.model, &read.nodes);
        let all = match ge_plugin_api::services::host_or_none() {
            Some(h) => h.mappings("onnx"),
            None => ge_plugin_api::author::registry::mappings().into_iter().map(|m| m.leak()).collect(),
        };
        let mut mappings: BTreeMap<String, HashMap<String, Vec<_>>> = BTreeMap::new();
        for m in all {
            let i = m.info()?;
            let of = mappings.entry(domain(&i.domain).to_owned()).or_default();
            of.entry(i.op.to_string()).or_default().push((i.since, i.until, m));
        }
        let functions = contradictions::functions(model)?;
        Ok(Importer {
            model,
            main,
            source,
            mappings,
            functions,
            names: NameSet::with_capacity(main.len()),
            graph_names: HashSet::new(),
            tensor_names: NameSet::with_capacity(main.len()),
            facts: facts::Shared::default(),
            stated: facts::Stated::of(&read.values),
            subgraphs: Vec::new(),
            problems: Vec::new(),
            stood_in: HashSet::new(),
            nodes: 0,
        })
    }

    /// Builds all graphs; the first is the main one, which has no name.
    pub fn run(mut self, options: &ImportOptions) -> Result<Vec<(Option<String>, Patch)>> {
        let graph = self.model.graph.as_ref().ok_or_else(|| damaged("the model has no graph".into()))?;
        let opsets = self.opsets()?;
        let mut g = Building::new();
        // Reserve one value per node and initializer, and an edit for most of them.
        let values = self.main.len() + graph.initializer.len();
        g.scope.reserve(values);
        g.builder.patch().reserve(values);
        self.initializers(graph, &mut g)?;
        let mut ins = Vec::new();
        let mut defaults = defaults::Defaults::default();
        for v in &graph.input {
            if g.scope.contains_key(&v.name) {
                // It is a constant, unless the user asks for it as an input.
                let asked = options.input_shapes.iter().any(|s| s.name == v.name.as_str());
                let known = if asked { g.scope.remove(&v.name) } else { None };
                match known.and_then(|k| k.constant) {
                    Some(value) => defaults.keep(&v.name, value),
                    None => {
                        defaults.left_out(v);
                        continue;
                    }
                }
            }
            match inputs::declared(v) {
                Ok(d) => {
                    let d = defaults.typed(&v.name, d);
                    contradictions::input(&v.name, &d)?;
                    ins.push((v.name.clone(), d));
                }
                Err(e) => {
                    self.problem(e)?;
                    g.scope.insert(v.name.clone(), refused());
                }
            }
        }
        inputs::apply(&mut ins, options)?;
        inputs::settle_names(&mut ins);
        for (i, (name, desc)) in ins.into_iter().enumerate() {
            let index = u32::try_from(i).map_err(|_| damaged("too many inputs".into()))?;
            let node = self.take_name(&name);
            let value = g.builder.data(&node, index, desc.clone());
            if let Some(default) = defaults.of(&name, &desc) {
                g.builder.patch().set_attr(value.node, defaults::VALUE, default);
            }
            self.tensor_names.insert(&name);
            if node != name {
                g.provenance.name(value, &name);
            }
            if g.scope.insert(name.clone(), Known::new(value, desc)).is_some() {
                return Err(damaged(format!("two inputs are named `{name}`")));
            }
        }
        defaults.tell(g.builder.patch());
        let env = Env { opsets, attrs: None, prefix: String::new(), rename: None, depth: 0 };
        // Nodes are decoded one at a time: a decoded node takes more memory than its bytes in the
        // file.
        self.in_order(self.main.len(), |im, k| im.main.get(k).map(Cow::Owned), &mut g, &env)?;
        let mut outs = Vec::new();
        for o in &graph.output {
            // The reason why a node was refused is more useful than the complaint that its output
            // is not a tensor.
            if let Some(e) = inputs::declared(o).err().filter(|_| !self.stood_in.contains(&o.name)) {
                self.problem(e)?;
                continue;
            }
            let k = self.read_value(&mut g, &o.name).map_err(|e| e.with(|d| d.note("it is an output of the model")));
            let k = k?;
            if let Ok(declared) = inputs::declared(o) {
                contradictions::output(&o.name, &declared, &k.desc)?;
            }
            outs.push((o.name.clone(), k.value));
        }
        if outs.is_empty() && self.problems.is_empty() {
            return Err(damaged("the model has no outputs".into()));
        }
        if !self.problems.is_empty() {
            return Err(Error::all(ErrorKind::UNSUPPORTED, self.problems));
        }
        g.builder.outputs(&outs);
        let mut all = vec![(None, g.into_patch())];
        all.append(&mut self.subgraphs);
        Ok(all)
    }

    fn opsets(&self) -> Result<BTreeMap<String, u32>> {
        let mut m = BTreeMap::new();
        for o in &self.model.opset_import {
            let v = u32::try_from(o.version)
                .map_err(|_| damaged(format!("opset {} of `{}`", o.version, domain(&o.domain))))?;
            m.insert(domain(&o.domain).to_owned(), v);
        }
        match m.get("ai.onnx") {
            Some(&v) if v < OLDEST => Err(Diagnostic::error(format!("the model uses opset {v} of ai.onnx"))
                .found(v.to_string(), format!("{OLDEST} or newer"))
                .help("convert it: python -c \"import onnx; from onnx import version_converter; …convert_version(model, 17)\"")
                .raise(ge_plugin_api::diagnostic::NOT_MAPPED)),
            Some(&v) if v > NEWEST => {
                let text = format!(
                    "the model says opset {v} of ai.onnx, this front end knows opsets up to {NEWEST}: newer meanings of operators are not \
                     known to it"
                );
                ge_plugin_api::services::log(ge_plugin_api::services::Level::WARN, &text);
                Ok(m)
            }
            _ => Ok(m),
        }
    }

    /// Keeps a refusal until the end of the import; any other error ends the import.
    pub fn problem(&mut self, e: Error) -> Result<()> {
        if e.kind != ErrorKind::UNSUPPORTED {
            return Err(e);
        }
        self.problems.extend(e.diagnostics);
        Ok(())
    }

    /// The mappings of an operator for all versions.
    fn mappings_of(&self, domain: &str, op: &str) -> Option<&[(u32, u32, MappingRef)]> {
        Some(self.mappings.get(domain)?.get(op)?.as_slice())
    }

    /// A node name that no other node of the model has, derived from `wanted`.
    pub fn take_name(&mut self, wanted: &str) -> String {
        let mut name = wanted.to_owned();
        let mut k = 1;
        while !self.names.insert(&name) {
            name = format!("{wanted}_{k}");
            k += 1;
        }
        name
    }
    /// A unique name for a subgraph.
    pub fn graph_name(&mut self, node: &str, role: &str) -> String {
        let base: String = node.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        let mut name = format!("{base}_{role}");
        let mut k = 1;
        while !self.graph_names.insert(name.clone()) {
            name = format!("{base}_{role}_{k}");
            k += 1;
        }
        name
    }
    /// Adds a finished subgraph.
    pub fn finish(&mut self, name: String, g: Building) {
        self.subgraphs.push((Some(name), g.into_patch()));
    }

    /// Records the constants of a graph. A constant becomes a node only when something reads it.
    pub fn initializers(&mut self, graph: &GraphProto, g: &mut Building) -> Result<()> {
        let add = |name: &str, t: ConstTensor, g: &mut Building| {
            let known = Known { value: ValueRef::ABSENT, desc: t.desc().into(), constant: Some(t) };
            match g.scope.insert(name.to_owned(), known) {
                Some(_) => Err(damaged(format!("two initializers are named `{name}`"))),
                None => Ok(()),
            }
        };
        for t in &graph.initializer {
            let c = self.source.tensor(t)?;
            add(&t.name, c, g)?;
        }
        for s in &graph.sparse_initializer {
            let name = s.values.as_ref().map_or("", |v| v.name.as_str());
            let c = self.source.sparse(s)?;
            add(name, c, g)?;
        }
        Ok(())
    }

    /// The value with this name; a constant that is read for the first time becomes a node.
    pub fn read_value(&mut self, g: &mut Building, name: &str) -> Result<Known> {
        let Some(k) = g.scope.get_mut(name) else {
            return Err(damaged(format!("`{name}` is read, but nothing before makes it")).with(|d| {
                d.subject(name)
                    .help("no input, initializer or node has this name, or the nodes that make it wait for each other")
            }));
        };
        if k.value.is_absent() {
            if let Some(t) = k.constant.clone() {
                let node = self.take_name(name);
                k.value = g.builder.constant(&node, t);
            }
        }
        Ok(k.clone())
    }

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
    fn in_order<'n>(
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
        let mapping = version.or(if dom == "ai.onnx" { None } else { Some(1) }).and_then(|v| {
            let of = self.mappings_of(dom, &n.op_type)?;
            of.iter().find(|m| (m.0..=m.1).contains(&v)).map(|m| (m.2, v))
        });
        let function = self.functions.get(&(dom, n.op_type.as_str(), n.overload.as_str())).copied();
        let outputs = match (mapping, function) {
            (None, Some(f)) => return self.call(f, n, &name, &attrs, g, env),
            (None, None) if dom == "ai.onnx" && version.is_some() && control::handles(&n.op_type) => {
                control::import(self, n, &name, &attrs, g, env)?
            }
            (None, None) if flex::handles(dom, &n.op_type) => flex::import(self, n, &name, &attrs, g, env)?,
            (None, None) => return Err(self.unmapped(n, &name, dom, version)),
            (Some((m, version)), _) => {
                if let Some((k, _)) = attrs.iter().find(|(_, a)| a.g.is_some() || !a.graphs.is_empty()) {
                    return Err(self.refuse(n, &name, dom, Some(version), &format!("a subgraph in attribute `{k}`")));
                }
                let mut node = ForeignNode {
                    name: name.as_str().into(),
                    op: n.op_type.as_str().into(),
                    domain: dom.into(),
                    version,
                    output_names: n.output.iter().map(|s| s.as_str().into()).collect(),
                    ..ForeignNode::default()
                };
                node.attrs = self.attr_map(&attrs)?;
                for i in &n.input {
                    let known = if i.is_empty() { None } else { Some(self.known(g, i, &n.op_type)?) };
                    node.input_names.push(i.as_str().into());
                    node.inputs.push(known.as_ref().map_or(ValueRef::ABSENT, |k| k.value));
                    node.input_descs.push(known.as_ref().map_or_else(TensorDesc::unknown, |k| k.desc.as_ref().clone()));
                    node.constants.push(known.and_then(|k| k.constant).map_or(ROption::RNone, ROption::RSome));
                }
                self.materialise(g, &mut node)?;
                g.builder.set_prefix(&format!("{name}/"));
                let before = g.builder.patch().edits().len();
                let values = m.map(&node, &mut g.builder).map_err(|e| e.at_node(&name, &n.op_type))?;
                let added = g.builder.patch().edits().get(before..).unwrap_or(&[]);
                self.learn(added, &node, &values, env)
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

    /// Defines a value name; a name that exists already is an error.
    pub fn define(&mut self, g: &mut Building, env: &Env<'_>, name: &str, known: Known) -> Result<()> {
        if !known.value.is_absent() {
            // Functions and loop turns have the prefix of their call. Sibling branches may use the
            // same name: the first one gets it.
            let own = env.prefixed(name);
            if self.tensor_names.insert(&own) {
                g.provenance.name(known.value, &own);
            }
        }
        match g.scope.insert(name.to_owned(), known) {
            Some(_) => Err(damaged(format!("two nodes make `{name}`"))),
            None => Ok(()),
        }
    }

    /// The value that a mapping is told about; a constant gets no node until it is known that the
    /// mapping needs one.
    fn known(&mut self, g: &mut Building, name: &str, _op: &str) -> Result<Known> {
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

    /// Inlines a function call.
    fn call(
        &mut self,
        f: &FunctionProto,
        n: &NodeProto,
        name: &str,
        attrs: &[(&str, &AttributeProto)],
        g: &mut Building,
        env: &Env<'_>,
    ) -> Result<()> {
        let mut inner =
            Building { builder: std::mem::replace(&mut g.builder, GraphBuilder::new(None)), ..Building::new() };
        contradictions::call(f, n, name)?;
        let mut given: BTreeMap<String, &AttributeProto> =
            f.attribute_proto.iter().map(|a| (a.name.clone(), a)).collect();
        given.extend(attrs.iter().map(|(k, a)| ((*k).to_owned(), *a)));
        let mut opsets = env.opsets.clone();
        for o in &f.opset_import {
            opsets.insert(domain(&o.domain).to_owned(), u32::try_from(o.version).unwrap_or(0));
        }
        let r: Result<Vec<(&String, Known)>> = (|| {
            for (i, formal) in f.input.iter().enumerate() {
                let known = match n.input.get(i).filter(|a| !a.is_empty()) {
                    Some(actual) => {
                        std::mem::swap(&mut g.builder, &mut inner.builder);
                        let k = self.read_value(g, actual);
                        std::mem::swap(&mut g.builder, &mut inner.builder);
                        k?
                    }
                    None => Known::left_out(),
                };
                inner.scope.insert(formal.clone(), known);
            }
            let env = Env {
                opsets,
                attrs: Some(given),
                prefix: format!("{name}/"),
                rename: f.output.first().map(|o| (o.clone(), name.to_owned())),
                depth: env.depth + 1,
            };
            self.nodes(&f.node, &mut inner, &env)?;
            let mut outs = Vec::new();
            for (i, o) in n.output.iter().enumerate().filter(|(_, o)| !o.is_empty()) {
                let formal = f
                    .output
                    .get(i)
                    .ok_or_else(|| damaged(format!("`{name}` asks for output {i} of function {}", f.name)))?;
                outs.push((o, self.read_value(&mut inner, formal)?));
            }
            Ok(outs)
        })();
        g.builder = inner.builder;
        g.provenance.append(&inner.provenance);
        for (o, k) in r? {
            self.define(g, env, o, k)?;
        }
        Ok(())
    }

    fn unmapped(&self, n: &NodeProto, name: &str, dom: &str, version: Option<u32>) -> Error {
        let reason = match (version, self.mappings_of(dom, &n.op_type)) {
            (None, _) => format!("the model imports no operator set `{dom}`"),
            (Some(_), Some(of)) => {
                let v: Vec<String> = of
                    .iter()
                    .map(|m| if m.1 == u32::MAX { format!("{} and newer", m.0) } else { format!("{} to {}", m.0, m.1) })
                    .collect();
                format!("it is mapped for versions {} only", v.join(", "))
            }
            (Some(_), None) => "no enabled plugin maps this operator".into(),
        };
        self.refuse(n, name, dom, version, &reason)
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

/// The value of a refused node: its readers are still checked, and the import fails at the end.
fn refused() -> Known {
    Known::new(ValueRef::new(NodeId(0), 0), TensorDesc::unknown())
}
