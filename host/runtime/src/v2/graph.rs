//! Lowers the graphs of an OM into the form that the executor walks: values are numbered, constants
//! have their bytes, and the values that determine shapes are marked.
use super::positions::{self, Position};
use super::tools::Tools;
use crate::error::RuntimeError;
use crate::variables;
use bytes::Bytes;
use ge_model::{CompiledModel, GraphInfo, NodeInfo, SlotInfo};
use ge_plugin_api::types::{AttrMap, AttrValue, Blob, ConstTensor, DType, Key, TensorDesc};
use ge_plugin_api::{Error, ops};
use std::collections::HashMap;

/// Operators that read only the sizes of their inputs, not their values.
pub(crate) const SIZES: [&str; 5] = ["Shape", "ShapeN", "Rank", "Size", "GatherShapes"];

/// Number of elements up to which a list that determines shapes is part of a plan's key anyway.
const FEW: u64 = 16;

/// How a node is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A parameter of the graph.
    Data,
    /// A constant.
    Constant,
    /// The graph's results.
    Output,
    /// An operator with kernels.
    Operator,
    /// `If`, `Case`: runs one of its graphs.
    Choice,
    /// `While`: runs a graph as long as another graph says so.
    While,
    /// `For`: runs a graph for each number of a range.
    For,
    /// `PartitionedCall`: runs a graph.
    Call,
    /// `PartitionedCall`: runs a part of known shape, sealed when the model was loaded.
    Part,
}

/// A node.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) op: Key,
    pub(crate) kind: Kind,
    pub(crate) inputs: Vec<Option<u32>>,
    pub(crate) outputs: Vec<u32>,
    pub(crate) controls: Vec<u32>,
    pub(crate) attrs: AttrMap,
    /// Output descriptors as the compiler knew them.
    pub(crate) descs: Vec<TensorDesc>,
    /// Indices of its graphs, in the operator's order.
    pub(crate) graphs: Vec<usize>,
    /// Index of its part of known shape.
    pub(crate) part: Option<usize>,
    pub(crate) flags: u64,
    pub(crate) value_inputs: Vec<usize>,
    /// Inputs that it overwrites; each is copied first.
    pub(crate) written: Vec<usize>,
}

/// Where an extra output, after the results, is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeps {
    /// In the variable with this index.
    Variable(usize),
    /// In the input with this index, which the caller lends to be written.
    Input(usize),
}

/// A graph.
pub(crate) struct Graph {
    pub(crate) name: String,
    pub(crate) nodes: Vec<Node>,
    /// The value of each parameter, by parameter index.
    pub(crate) inputs: Vec<Option<u32>>,
    /// The values that it returns. What it leaves in variables and lent inputs follows its results.
    pub(crate) outputs: Vec<u32>,
    /// Names of its variables, which are the last of its inputs.
    pub(crate) variables: Vec<String>,
    /// Where the last of its outputs are stored.
    pub(crate) keeps: Vec<Keeps>,
    /// Constants with their offsets in the weights, by value.
    pub(crate) constants: Vec<Option<(ConstTensor, u64)>>,
    /// Descriptors of the constants, by value; some have another layout than their sizes imply.
    pub(crate) fixed: Vec<Option<TensorDesc>>,
    /// The first output value of each node.
    pub(crate) firsts: Vec<u32>,
    /// Whether a value determines shapes, by value.
    pub(crate) wanted: Vec<bool>,
    /// Slices whose positions determine only their lengths, by node.
    pub(crate) positions: Vec<Position>,
    /// Nodes that read each value.
    pub(crate) readers: Vec<Vec<u32>>,
    /// The logical stream of each node.
    pub(crate) streams: Vec<u32>,
}

impl Graph {
    /// Number of values.
    pub(crate) fn values(&self) -> usize {
        self.constants.len()
    }
    /// Whether a node reads a constant in the layout of a device kernel, which no host kernel can
    /// read.
    pub(crate) fn reads_packed(&self, n: &Node) -> bool {
        let packed = |v: &u32| self.fixed[*v as usize].as_ref().is_some_and(|d| d.origin.is_some());
        n.inputs.iter().flatten().any(packed)
    }
    /// Whether a node makes a few numbers from many, or from a number of them that is not known.
    fn sums_up(&self, n: &Node) -> bool {
        let few = |count: Option<u64>| count.is_some_and(|n| n <= FEW);
        let many = |v: &u32| !few(self.stated(*v).and_then(|d| d.shape.count()));
        n.descs.iter().all(|d| few(d.shape.count())) && n.inputs.iter().flatten().any(many)
    }
    /// Whether each output of a node has a reader.
    pub(crate) fn read(&self, n: &Node) -> Vec<bool> {
        n.outputs.iter().map(|v| !self.readers[*v as usize].is_empty()).collect()
    }
    /// Whether `node` is the only reader of a value and reads it once, so that the value ends
    /// there.
    pub(crate) fn is_read_once(&self, v: u32, node: u32) -> bool {
        self.readers[v as usize] == [node] && !self.outputs.contains(&v)
    }
    /// The compiler's descriptor of a value.
    pub(crate) fn stated(&self, v: u32) -> Option<&TensorDesc> {
        let n = self.producer(v)?;
        n.descs.get(n.outputs.iter().position(|o| *o == v)?)
    }
    /// A graph with the same name, variables and stored outputs, but without nodes.
    pub(crate) fn empty(&self) -> Graph {
        Graph {
            name: self.name.clone(),
            nodes: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            variables: self.variables.clone(),
            keeps: self.keeps.clone(),
            constants: Vec::new(),
            fixed: Vec::new(),
            firsts: Vec::new(),
            wanted: Vec::new(),
            positions: Vec::new(),
            readers: Vec::new(),
            streams: Vec::new(),
        }
    }
    /// The node that produces a value.
    pub(crate) fn producer(&self, v: u32) -> Option<&Node> {
        self.nodes.get(self.firsts.partition_point(|first| *first <= v).checked_sub(1)?)
    }
}

fn kind(op: &str) -> Kind {
    match op {
        "Data" | "RefData" | "AippData" | "Variable" => Kind::Data,
        "Const" | "Constant" => Kind::Constant,
        "NetOutput" => Kind::Output,
        "If" | "StatelessIf" | "Case" | "StatelessCase" => Kind::Choice,
        "While" | "StatelessWhile" => Kind::While,
        "For" => Kind::For,
        "PartitionedCall" => Kind::Call,
        _ => Kind::Operator,
    }
}

/// Lowers all graphs of a model.
///
/// # Errors
/// Returns `damaged` if the OM is inconsistent. Fails if no plugin has an operator.
pub(crate) fn lower(m: &CompiledModel, weights: &Bytes, tools: &Tools) -> Result<Vec<Graph>, RuntimeError> {
    let by_name: HashMap<&str, usize> = m.graphs.iter().enumerate().map(|(i, g)| (g.name.as_str(), i)).collect();
    let blob = Blob::from_owner(weights.clone());
    let parts: HashMap<&str, usize> = m.parts.iter().enumerate().map(|(i, p)| (p.name.as_str(), i)).collect();
    let names = Names { graphs: &by_name, parts: &parts };
    let mut graphs = m.graphs.iter().map(|g| graph(g, &names, &blob, tools)).collect::<Result<Vec<_>, _>>()?;
    // A model for one stream, or one from before there were several, names no streams.
    let logical = u32::try_from(m.streams.logical.len()).unwrap_or(u32::MAX);
    for (g, info) in graphs.iter_mut().zip(&m.graphs).filter(|_| logical > 1) {
        for (s, n) in g.streams.iter_mut().zip(&info.nodes) {
            *s = n.logical_stream.unwrap_or(0);
            if *s >= logical {
                return Err(damaged(format!("`{}` is on logical stream {s}, the model has {logical}", n.name)));
            }
        }
    }
    acyclic(&graphs)?;
    calls_fit(&graphs)?;
    let root = graphs.first().map_or(0, |g| g.inputs.len() - g.variables.len());
    let given = m.inputs.len() + usize::from(m.gears.is_some());
    if root > given {
        return Err(damaged(format!("its graph takes {root} inputs, the model {given}")));
    }
    Ok(graphs)
}

/// Checks that no graph takes more values than its caller gives.
fn calls_fit(graphs: &[Graph]) -> Result<(), RuntimeError> {
    for n in graphs.iter().flat_map(|g| &g.nodes) {
        // A choice does not pass on its condition; a `For` passes one of its three numbers, the
        // counter.
        let own = match n.kind {
            Kind::Choice => 1,
            Kind::For => 2,
            _ => 0,
        };
        let given = n.inputs.len().saturating_sub(own);
        if let Some(g) = n.graphs.iter().map(|g| &graphs[*g]).find(|g| g.inputs.len() > given) {
            let takes = g.inputs.len();
            return Err(damaged(format!("graph `{}` takes {takes} values, `{}` gives {given}", g.name, n.name)));
        }
    }
    Ok(())
}

/// A description of each graph that is a branch of a choice.
pub(crate) fn branches(graphs: &[Graph]) -> Vec<Option<String>> {
    let mut out = vec![None; graphs.len()];
    for n in graphs.iter().flat_map(|g| &g.nodes).filter(|n| n.kind == Kind::Choice) {
        let of_two = n.op.as_str().ends_with("If");
        for (k, g) in n.graphs.iter().enumerate() {
            let role = match (of_two, k) {
                (true, 0) => "`then_branch`".to_owned(),
                (true, _) => "`else_branch`".to_owned(),
                _ => format!("branch {k}"),
            };
            out[*g] = Some(format!("{role} of `{}` ({})", n.name, n.op.as_str()));
        }
    }
    out
}

/// Rejects graphs that call themselves, which would never end.
fn acyclic(graphs: &[Graph]) -> Result<(), RuntimeError> {
    // 0: not visited, 1: on the current path, 2: done.
    let mut state = vec![0u8; graphs.len()];
    for start in 0..graphs.len() {
        let mut path = vec![(start, 0usize)];
        while let Some((g, at)) = path.pop() {
            if at == 0 {
                match state[g] {
                    1 => return Err(damaged(format!("graph `{}` calls itself", graphs[g].name))),
                    2 => continue,
                    _ => state[g] = 1,
                }
            }
            let called: Vec<usize> = graphs[g].nodes.iter().flat_map(|n| n.graphs.iter().copied()).collect();
            match called.get(at) {
                Some(next) => {
                    path.push((g, at + 1));
                    path.push((*next, 0));
                }
                None => state[g] = 2,
            }
        }
    }
    Ok(())
}

/// Marks the graphs that run in a loop: those of loop nodes, and all graphs that these call.
pub(crate) fn turned(graphs: &[Graph]) -> Vec<bool> {
    let mut turned = vec![false; graphs.len()];
    let loops = graphs.iter().flat_map(|g| &g.nodes).filter(|n| matches!(n.kind, Kind::While | Kind::For));
    let mut pending: Vec<usize> = loops.flat_map(|n| &n.graphs).copied().collect();
    while let Some(g) = pending.pop() {
        if !std::mem::replace(&mut turned[g], true) {
            pending.extend(graphs[g].nodes.iter().flat_map(|n| &n.graphs));
        }
    }
    turned
}

fn damaged(what: String) -> RuntimeError {
    RuntimeError::Damaged { what }
}

/// Graphs and parts that nodes can call, by name.
struct Names<'n> {
    graphs: &'n HashMap<&'n str, usize>,
    parts: &'n HashMap<&'n str, usize>,
}

/// The part that a node calls, if it calls one.
fn part_of(n: &NodeInfo, names: &Names<'_>) -> Option<usize> {
    match n.attrs.get("f") {
        Some(AttrValue::Graph(name)) if n.op == "PartitionedCall" => names.parts.get(name.as_str()).copied(),
        _ => None,
    }
}

/// The graphs of a node, in the order of its operator.
fn graphs_of(n: &NodeInfo, kind: Kind, by_name: &HashMap<&str, usize>) -> Result<Vec<usize>, RuntimeError> {
    let keys: &[&str] = match (kind, n.op.as_str()) {
        (Kind::Choice, "If" | "StatelessIf") => &["then_branch", "else_branch"],
        (Kind::Choice, _) => &["branches"],
        (Kind::While, _) => &["cond", "body"],
        (Kind::For, _) => &["body"],
        (Kind::Call, _) => &["f"],
        _ => return Ok(Vec::new()),
    };
    let mut out = Vec::new();
    let mut push = |v: &AttrValue| -> Result<(), RuntimeError> {
        let AttrValue::Graph(name) = v else { return Err(damaged(format!("`{}` names no graph", n.name))) };
        let at = by_name.get(name.as_str()).copied();
        out.push(at.ok_or_else(|| damaged(format!("`{}` calls `{name}`, which is not there", n.name)))?);
        Ok(())
    };
    for key in keys {
        match n.attrs.get(*key) {
            Some(AttrValue::List(l)) => l.iter().try_for_each(&mut push)?,
            Some(v) => push(v)?,
            None => return Err(damaged(format!("`{}` has no `{key}`", n.name))),
        }
    }
    Ok(out)
}

fn graph(g: &GraphInfo, names: &Names<'_>, weights: &Blob, tools: &Tools) -> Result<Graph, RuntimeError> {
    let mut firsts = Vec::with_capacity(g.nodes.len());
    let mut count = 0u32;
    for n in &g.nodes {
        firsts.push(count);
        count += n.outputs.len() as u32;
    }
    let mut out = Graph {
        name: g.name.clone(),
        nodes: Vec::with_capacity(g.nodes.len()),
        inputs: Vec::new(),
        outputs: Vec::new(),
        variables: Vec::new(),
        keeps: Vec::new(),
        constants: vec![None; count as usize],
        fixed: vec![None; count as usize],
        firsts: firsts.clone(),
        wanted: vec![false; count as usize],
        positions: Vec::new(),
        readers: vec![Vec::new(); count as usize],
        streams: vec![0; g.nodes.len()],
    };
    for (at, n) in g.nodes.iter().enumerate() {
        let value = |v: &ge_model::ValueAt| firsts.get(v.node as usize).map(|f| f + v.output);
        let inputs: Vec<Option<u32>> = n.inputs.iter().map(|v| v.as_ref().and_then(value)).collect();
        let outputs: Vec<u32> = (0..n.outputs.len() as u32).map(|k| firsts[at] + k).collect();
        let part = part_of(n, names);
        let kept = variables::kept_in(g, n).is_some();
        let kind = if part.is_some() {
            Kind::Part
        } else if kept {
            Kind::Output
        } else {
            kind(&n.op)
        };
        let op = Key::new(&n.op);
        let proto = tools.op(op);
        if kind == Kind::Operator && proto.is_none() {
            let e = Error::unsupported(format!("no enabled plugin knows operator {} of `{}`", n.op, n.name));
            return Err(e.at_node(&n.name, &n.op).into());
        }
        match kind {
            Kind::Data if n.op == "Variable" => {}
            Kind::Data => {
                let index = n.attrs.int("index").unwrap_or(0);
                let index = usize::try_from(index).ok().filter(|i| *i < g.nodes.len());
                let index = index.ok_or_else(|| damaged(format!("`{}` is no parameter", n.name)))?;
                if out.inputs.len() <= index {
                    out.inputs.resize(index + 1, None);
                }
                if std::mem::replace(&mut out.inputs[index], outputs.first().copied()).is_some() {
                    return Err(damaged(format!("`{}` is the parameter that another node is", n.name)));
                }
            }
            Kind::Output if kept => {}
            Kind::Output => out.outputs = inputs.iter().flatten().copied().collect(),
            Kind::Constant => {
                let (value, offset) = constant(n, weights)?;
                let laid = n.outputs.first().filter(|d| d.origin.is_some()).cloned();
                out.fixed[firsts[at] as usize] = Some(laid.unwrap_or_else(|| value.desc()));
                out.constants[firsts[at] as usize] = Some((value, offset));
            }
            _ => {}
        }
        for v in inputs.iter().flatten() {
            out.readers[*v as usize].push(at as u32);
        }
        out.nodes.push(Node {
            name: n.name.clone(),
            op,
            kind,
            inputs,
            outputs,
            controls: n.controls.clone(),
            attrs: n.attrs.clone(),
            descs: n.outputs.clone(),
            graphs: graphs_of(n, kind, names.graphs)?,
            part,
            flags: proto.map_or(0, |p| p.proto.flags),
            value_inputs: proto.map_or(Vec::new(), |p| p.proto.value_inputs.iter().map(|i| *i as usize).collect()),
            written: written(n, proto.map_or(0, |p| p.proto.flags)),
        });
    }
    keep(&mut out, g)?;
    mark_wanted(&mut out);
    Ok(out)
}

/// The inputs that a node overwrites. `Assign` is left out: nothing reads what was there before.
fn written(n: &NodeInfo, flags: u64) -> Vec<usize> {
    let by_attr = n.attrs.flag("reference").then_some(0);
    let all = ops::flags::written(flags).chain(by_attr.filter(|_| flags & ops::flags::REFERENCE == 0));
    all.filter(|k| n.op != "Assign" && *k < n.outputs.len().min(n.inputs.len())).collect()
}

/// Adds the graph's variables to its inputs, and the values that it stores in variables or lent
/// inputs to its outputs.
fn keep(out: &mut Graph, g: &GraphInfo) -> Result<(), RuntimeError> {
    let nodes = g.nodes.iter().zip(&out.nodes);
    let variables = nodes.filter(|(i, _)| i.op == "Variable");
    let mut variables: Vec<(String, u32)> =
        variables.filter_map(|(i, n)| Some((i.name.clone(), *n.outputs.first()?))).collect();
    variables.sort();
    for (info, n) in g.nodes.iter().zip(&out.nodes) {
        let Some(to) = variables::kept_in(g, info) else { continue };
        let value = |k: usize| n.inputs.get(k).copied().flatten();
        let at = variables.iter().position(|v| Some(v.1) == value(0)).map(Keeps::Variable);
        let lent = || out.inputs.iter().position(|v| *v == value(0)).map(Keeps::Input);
        let found = at.or_else(|| lent().filter(|_| to.op == "RefData")).zip(value(1));
        let (to, value) = found.ok_or_else(|| damaged(format!("`{}` keeps its value nowhere", info.name)))?;
        out.keeps.push(to);
        out.outputs.push(value);
    }
    out.inputs.extend(variables.iter().map(|v| Some(v.1)));
    out.variables = variables.into_iter().map(|v| v.0).collect();
    Ok(())
}

/// Marks the values that determine shapes: those that operators read as numbers, and those from
/// which these are computed. The positions of slices determine only lengths, unless something else
/// marks the parameters that they are computed from.
pub(crate) fn mark_wanted(g: &mut Graph) {
    g.positions = positions::find(g);
    let mut at = g.positions.iter().rev().peekable();
    for (k, n) in g.nodes.iter().enumerate().rev().filter(|(_, n)| n.kind == Kind::Operator) {
        let by_length = at.next_if(|p| p.node as usize == k).is_some();
        for i in n.value_inputs.iter().filter(|_| !by_length) {
            if let Some(Some(v)) = n.inputs.get(*i) {
                g.wanted[*v as usize] = true;
            }
        }
        let wanted = n.outputs.iter().any(|v| g.wanted[*v as usize]);
        // A value computed on the device is read back, so its own inputs need not be known. That is
        // better for numbers that sum up a long list, as for the longest of many lengths: plans are
        // then keyed by them and not by the list.
        let read_back = g.reads_packed(n) || g.sums_up(n) || n.flags & ops::flags::DATA_DEPENDENT_SHAPE != 0;
        if wanted && !read_back && !SIZES.contains(&n.op.as_str()) {
            n.inputs.iter().flatten().for_each(|v| g.wanted[*v as usize] = true);
        }
    }
    let wanted = |k: usize| g.inputs.get(k).copied().flatten().is_some_and(|v| g.wanted[v as usize]);
    g.positions.retain(|p| !p.params().all(wanted));
}

/// The value of a constant, and its offset in the weights.
fn constant(n: &NodeInfo, weights: &Blob) -> Result<(ConstTensor, u64), RuntimeError> {
    let bad = || damaged(format!("constant `{}` does not lie in the weights", n.name));
    let (d, s) = n.outputs.first().zip(n.slots.first()).ok_or_else(bad)?;
    let bytes = if d.dtype == DType::STRING { Some(s.size) } else { d.data_bytes() };
    let place = usize::try_from(s.offset).ok().zip(bytes.and_then(|b| usize::try_from(b).ok()));
    let (offset, bytes) = place.filter(|_| s.space == SlotInfo::WEIGHTS).ok_or_else(bad)?;
    // A constant without bytes has no place in the weights.
    let blob = if bytes == 0 { Blob::empty() } else { weights.slice(offset, bytes).ok_or_else(bad)? };
    let dims = d.shape.sizes().ok_or_else(bad)?;
    Ok((ConstTensor::new(d.dtype, &dims, blob).ok_or_else(bad)?, s.offset))
}
