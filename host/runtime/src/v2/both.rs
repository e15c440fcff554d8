//! Choices whose small branches are both computed, as `BranchToSelectPass` does when sizes are
//! known at compile time: the host need not wait for the condition, and one launch replaces two.
//! Whether branches are small is known only from the sizes of a run. A graph with such choices
//! therefore has a twin in which both branches take the place of each choice; plans use the twin
//! where it fits, otherwise the graph.
use super::graph::{Graph, Kind, Node, mark_wanted};
use super::plan::{Draft, Home};
use super::sequence;
use super::tools::Tools;
use ge_plugin_api::ops::flags;
use ge_plugin_api::types::{AttrMap, DType, Key, TensorDesc};
use std::collections::HashSet;
use std::ops::Range;

/// Maximum number of operators in a branch.
const NODES: usize = 8;
/// Maximum bytes that the launches of both branches read and write. Larger branches cost more time
/// than the saved launch.
const BYTES: u64 = 16 << 10;
/// Flags that a node must not have, because it also runs when its branch is not taken.
const ACTS: u64 =
    flags::RANDOM | flags::STATEFUL | flags::REFERENCE | flags::COMMUNICATION | flags::DATA_DEPENDENT_SHAPE;
const SELECT: &str = "SelectV2";

/// The twin of a graph: its small choices compute both branches.
pub(crate) struct Twin {
    /// Its index among the graphs.
    pub(crate) at: usize,
    choices: Vec<Both>,
}

/// A choice of the twin.
struct Both {
    /// The condition.
    cond: u32,
    /// The nodes of both branches.
    nodes: Range<u32>,
    /// The nodes that select the values of one branch.
    selects: Range<u32>,
}

impl Twin {
    /// Whether a plan of the twin can replace a plan of the graph: all nodes of the branches are in
    /// this round, they are small, and both branches give values of the same sizes.
    pub(crate) fn fits(&self, graph: &Graph, d: &Draft) -> bool {
        let launched: HashSet<u32> = d.launches.iter().map(|l| l.node).collect();
        let done: HashSet<u32> = d.done.iter().copied().collect();
        self.choices.iter().all(|c| {
            let desc = |v: u32| d.desc(graph, v);
            let alike = |k: u32| {
                let n = &graph.nodes[k as usize];
                let sizes = |k: usize| n.inputs.get(k).copied().flatten().and_then(desc).map(|d| (d.dtype, &d.shape));
                sizes(1).is_some() && sizes(1) == sizes(2)
            };
            let bytes = |k: u32| {
                let n = &graph.nodes[k as usize];
                let all = n.inputs.iter().flatten().chain(&n.outputs);
                all.map(|v| desc(*v).and_then(TensorDesc::data_bytes)).try_fold(0u64, |a, b| a.checked_add(b?))
            };
            let some = c.nodes.clone().any(|k| launched.contains(&k));
            let own = c.nodes.clone().filter(|k| launched.contains(k));
            let small = own.map(bytes).try_fold(0u64, |a, b| a.checked_add(b?)).is_some_and(|b| b <= BYTES);
            // If the plan knows the condition, it can take the branch itself.
            let open = d.known(graph, c.cond).is_none() && d.home[c.cond as usize] != Home::Nowhere;
            let all = c.nodes.start..c.selects.end;
            open && some && small && all.clone().all(|k| done.contains(&k)) && c.selects.clone().all(alike)
        })
    }
}

/// Whether a node is a choice whose branches may both be computed.
pub(crate) fn may_be(graphs: &[Graph], graph: &Graph, n: &Node, tools: &Tools) -> bool {
    let &[then, other] = n.graphs.as_slice() else { return false };
    if n.kind != Kind::Choice || !n.op.as_str().ends_with("If") || then == other || tools.op(Key::new(SELECT)).is_none()
    {
        return false;
    }
    let cond = n.inputs.first().copied().flatten().and_then(|v| graph.stated(v));
    let Some(cond) = cond.filter(|d| d.dtype == DType::BOOL && d.shape.count() == Some(1)) else { return false };
    let at = graph.nodes.iter().position(|o| std::ptr::eq(o, n));
    let controls = |o: &Node| o.controls.iter().any(|c| Some(*c as usize) == at);
    if !n.controls.is_empty() || graph.nodes.iter().any(controls) {
        return false;
    }
    // A condition of one element must not add an axis when it is broadcast.
    let rank = |d: &TensorDesc| d.shape.rank() >= cond.shape.rank();
    let given = n.inputs.len().saturating_sub(1);
    n.descs.iter().all(|d| real(d) && rank(d))
        && [then, other].iter().all(|g| {
            let g = &graphs[*g];
            let has = |(k, v): (usize, &Option<u32>)| v.is_none() || n.inputs.get(k + 1).is_some_and(Option::is_some);
            let fits = g.outputs.len() == n.outputs.len() && g.inputs.len() <= given;
            fits && g.inputs.iter().enumerate().all(has) && is_harmless(g)
        })
}

fn real(d: &TensorDesc) -> bool {
    (d.dtype.is_float() || d.dtype == DType::BOOL) && d.container == Default::default()
}

/// Whether a branch may run when it is not taken. Integers are not allowed: they may be positions
/// or divisors that only the condition makes legal.
fn is_harmless(g: &Graph) -> bool {
    let operators = g.nodes.iter().filter(|n| n.kind == Kind::Operator);
    let harmless = |n: &Node| {
        let reads = |v: &u32| g.constants[*v as usize].is_some() || g.stated(*v).is_some_and(real);
        match n.kind {
            Kind::Data | Kind::Constant | Kind::Output => n.controls.is_empty(),
            Kind::Operator => {
                n.flags & ACTS == 0
                    && n.written.is_empty()
                    && n.controls.is_empty()
                    && !sequence::handles(n.op.as_str())
                    && n.descs.iter().all(real)
                    && n.inputs.iter().flatten().all(reads)
            }
            _ => false,
        }
    };
    g.variables.is_empty() && g.keeps.is_empty() && operators.count() <= NODES && g.nodes.iter().all(harmless)
}

/// The twin of a graph, with the engines of its nodes; `None` if the graph has no such choice.
/// `number` is the twin's index among the graphs.
pub(crate) fn twin(
    graphs: &[Graph],
    at: usize,
    engines: &[Vec<String>],
    number: usize,
    tools: &Tools,
) -> Option<(Twin, Graph, Vec<String>)> {
    let graph = &graphs[at];
    let chosen: Vec<bool> = graph.nodes.iter().map(|n| may_be(graphs, graph, n, tools)).collect();
    if !chosen.contains(&true) {
        return None;
    }
    let mut w = Weaver { out: graph.empty(), engines: Vec::new(), choices: Vec::new() };
    let mut values = vec![None; graph.values()];
    let mut places = Vec::with_capacity(graph.nodes.len());
    for (k, n) in graph.nodes.iter().enumerate() {
        places.push(w.out.nodes.len() as u32);
        if chosen[k] {
            w.both(graphs, n, &mut values, engines, tools)?;
        } else {
            let stream = graph.streams[k];
            let n = Node {
                controls: n.controls.iter().filter_map(|c| places.get(*c as usize).copied()).collect(),
                ..n.clone()
            };
            let engine = engines.get(at).and_then(|e| e.get(k)).cloned().unwrap_or_default();
            w.add(n, graph, &mut values, (stream, engine));
        }
    }
    let Weaver { mut out, engines, choices } = w;
    let of = |v: &u32| values[*v as usize];
    out.inputs = graph.inputs.iter().map(|v| v.as_ref().and_then(of)).collect();
    out.outputs = graph.outputs.iter().map(of).collect::<Option<_>>()?;
    for (k, n) in (0u32..).zip(&out.nodes) {
        n.inputs.iter().flatten().for_each(|v| out.readers[*v as usize].push(k));
    }
    mark_wanted(&mut out);
    Some((Twin { at: number, choices }, out, engines))
}

/// A twin under construction.
struct Weaver {
    out: Graph,
    engines: Vec<String>,
    choices: Vec<Both>,
}

impl Weaver {
    /// Adds a node of the graph `from`; `values` maps values of that graph to values of the twin.
    fn add(&mut self, n: Node, from: &Graph, values: &mut [Option<u32>], (stream, engine): (u32, String)) {
        let first = self.out.values() as u32;
        let outputs: Vec<u32> = (first..).take(n.outputs.len()).collect();
        for (old, new) in n.outputs.iter().zip(&outputs) {
            values[*old as usize] = Some(*new);
            self.out.constants.push(from.constants[*old as usize].clone());
            self.out.fixed.push(from.fixed[*old as usize].clone());
        }
        let inputs = n.inputs.iter().map(|v| v.and_then(|v| values[v as usize])).collect();
        self.push(Node { inputs, outputs, ..n }, stream, engine);
    }
    fn push(&mut self, n: Node, stream: u32, engine: String) {
        let out = &mut self.out;
        out.firsts.push((out.constants.len() - n.outputs.len()) as u32);
        out.wanted.resize(out.constants.len(), false);
        out.readers.resize(out.constants.len(), Vec::new());
        out.streams.push(stream);
        out.nodes.push(n);
        self.engines.push(engine);
    }

    /// Adds both branches of a choice, and the nodes that select the values of one.
    fn both(
        &mut self,
        graphs: &[Graph],
        n: &Node,
        values: &mut [Option<u32>],
        engines: &[Vec<String>],
        tools: &Tools,
    ) -> Option<()> {
        let value = |v: &Option<u32>| v.and_then(|v| values[v as usize]);
        let given: Vec<Option<u32>> = n.inputs.iter().map(value).collect();
        let cond = given.first().copied()??;
        let first = self.out.nodes.len() as u32;
        let mut sides: Vec<Vec<u32>> = Vec::with_capacity(2);
        for g in &n.graphs {
            let branch = &graphs[*g];
            let mut own = vec![None; branch.values()];
            for (v, arg) in branch.inputs.iter().zip(&given[1..]) {
                if let Some(v) = v {
                    own[*v as usize] = *arg;
                }
            }
            for (k, n) in branch.nodes.iter().enumerate() {
                if matches!(n.kind, Kind::Constant | Kind::Operator) {
                    let engine = engines.get(*g).and_then(|e| e.get(k)).cloned().unwrap_or_default();
                    self.add(n.clone(), branch, &mut own, (branch.streams[k], engine));
                }
            }
            sides.push(branch.outputs.iter().map(|v| own[*v as usize]).collect::<Option<_>>()?);
        }
        let second = self.out.nodes.len() as u32;
        let proto = tools.op(Key::new(SELECT))?;
        for (k, (v, d)) in n.outputs.iter().zip(&n.descs).enumerate() {
            let out = self.out.values() as u32;
            self.out.constants.push(None);
            self.out.fixed.push(None);
            values[*v as usize] = Some(out);
            let select = Node {
                name: if k == 0 { n.name.clone() } else { format!("{}_{k}", n.name) },
                op: Key::new(SELECT),
                kind: Kind::Operator,
                inputs: vec![Some(cond), Some(sides[0][k]), Some(sides[1][k])],
                outputs: vec![out],
                controls: Vec::new(),
                attrs: AttrMap::default(),
                descs: vec![d.clone()],
                graphs: Vec::new(),
                part: None,
                flags: proto.proto.flags,
                value_inputs: proto.proto.value_inputs.iter().map(|i| *i as usize).collect(),
                written: Vec::new(),
            };
            self.push(select, 0, String::new());
        }
        let third = self.out.nodes.len() as u32;
        self.choices.push(Both { cond, nodes: first..second, selects: second..third });
        Some(())
    }
}
