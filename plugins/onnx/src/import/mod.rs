//! Walks over a model: inputs, constants, nodes in order, inlined functions, outputs. All refusals
//! are collected.

/// Inlines functions.
mod functions;
/// Imports the main graph.
mod main_graph;
/// Finds the mapping of an operator.
mod mappings;
/// Imports nodes.
mod nodes;

use crate::contradictions;
use crate::facts;
use crate::names::NameSet;
use crate::proto::{AttributeProto, GraphProto, ModelProto, NodeProto};
use crate::read::{self, Nodes, Read};
use crate::scope::{Known, Scope};
use crate::tensor::Source;
use crate::unroll::Budget;
use ge_plugin_api::diagnostic::{Diagnostic, Error, ErrorKind, Result};
use ge_plugin_api::frontend::{FileRef, Frontend, GraphBuilder, ImportOptions, Provenance};
use ge_plugin_api::patch::{Edit, Patch};
use ge_plugin_api::types::{ConstTensor, ValueRef};
use mappings::Mappings;
use std::collections::{BTreeMap, HashSet};

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
    /// What loops may still be unrolled to.
    pub unrolled: Budget,
    /// The number of the turn of the loops around, if random operators read it.
    pub turn: Option<ValueRef>,
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
    mappings: Mappings,
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
/// Whether a node is this operator of the standard. An operator or a function of another domain may
/// have the same name.
pub fn is_standard(n: &NodeProto, op: &str) -> bool {
    n.op_type == op && domain(&n.domain) == "ai.onnx"
}
/// The error for a model that is not whole or contradicts itself.
pub fn damaged(message: String) -> Error {
    Diagnostic::error(message).raise(ge_plugin_api::diagnostic::BROKEN_MODEL)
}

impl<'m> Importer<'m> {
    /// Collects mappings and functions.
    pub fn new(read: &'m Read, source: Source<'m>) -> Result<Importer<'m>> {
        let (model, main) = (&read.model, &read.nodes);
        Ok(Importer {
            model,
            main,
            source,
            mappings: Mappings::of_plugins()?,
            functions: contradictions::functions(model)?,
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

    /// Keeps a refusal until the end of the import; any other error ends the import.
    pub fn problem(&mut self, e: Error) -> Result<()> {
        if e.kind != ErrorKind::UNSUPPORTED {
            return Err(e);
        }
        self.problems.extend(e.diagnostics);
        Ok(())
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
}
