//! Describes what the executor decides about a model before any size is known: what is made at
//! load, the rounds of each graph (what is computed while planning, launched, or done by the host),
//! what plans are keyed by, and what inputs must satisfy.
use super::both;
use super::cache;
use super::executor::{Executor, launches};
use super::graph::{Graph, Kind, Node, SIZES, lower, turned};
use super::inputs::range_key;
use super::plan::Home;
use super::scalars;
use super::sequence;
use super::streams::{Behind, Limits, Streams};
use super::tools::Tools;
use crate::error::RuntimeError;
use crate::variables::kept_in;
use ge_model::{CompiledModel, GraphInfo, NodeInfo, ValueAt};
use ge_plugin_api::ops::flags;
use ge_plugin_api::types::DType;
use std::collections::BTreeMap;

/// What an executor does with a model.
#[derive(Clone, Debug)]
pub struct Exec {
    /// How the steps of the rounds are executed.
    pub executor: Executor,
    /// Why this executor was chosen.
    pub because: String,
    /// What is made once, at load.
    pub init: Init,
    /// For each logical stream: its label, or else the engines on it.
    pub streams: Vec<Vec<String>>,
    /// The graphs as a run executes them, the root first.
    pub main: Vec<Rounds>,
    /// What is released when the model is unloaded, in order.
    pub deinit: Vec<&'static str>,
    /// Unknown sizes of the inputs, named by symbol or by `input:dimension`.
    pub symbols: Vec<Symbol>,
    /// Conditions on the inputs, checked in each run.
    pub guards: Vec<String>,
    /// Limits of the plan caches.
    pub plans: Plans,
}

/// What is made once, at load.
#[derive(Clone, Debug, Default)]
pub struct Init {
    /// Number of constants in the weights.
    pub constants: usize,
    /// Size of the weights in bytes.
    pub weights: u64,
    /// Name and number of tasks of each sealed part of known shape.
    pub parts: Vec<(String, usize)>,
    /// Variables, which a run receives as additional inputs.
    pub variables: Vec<Variable>,
}

/// A variable of the model.
#[derive(Clone, Debug, Default)]
pub struct Variable {
    /// Name of the variable.
    pub name: String,
    /// Type and shape of the variable.
    pub desc: String,
    /// The value that a run stores in it, as `node` or `node:output`. `None`: runs only read it.
    pub kept: Option<String>,
}

/// The rounds of a graph.
#[derive(Clone, Debug, Default)]
pub struct Rounds {
    /// Name of the graph.
    pub graph: String,
    /// Parameters whose bytes are part of a plan's key because they determine shapes.
    pub by_value: Vec<String>,
    /// Slices whose lengths are part of a plan's key. The launches read their positions.
    pub by_length: Vec<String>,
    /// Whether the graph is a condition that a run tells by itself, without a plan. Profiles and
    /// captures launch it.
    pub told: bool,
    /// Whether the graph runs in a loop.
    pub turned: bool,
    /// The rounds, in order.
    pub rounds: Vec<Round>,
}

/// One round: a sealed device model for each set of shapes, followed by work of the host.
#[derive(Clone, Debug, Default)]
pub struct Round {
    /// Nodes that are computed while the round is planned.
    pub planned: Vec<Step>,
    /// Nodes whose outputs are views of other values.
    pub views: Vec<Step>,
    /// Nodes that are launched.
    pub device: Vec<Step>,
    /// Nodes that the host executes after the launches.
    pub host: Vec<Step>,
    /// Logical streams of the launches, in the order of their first launches.
    pub streams: Vec<u32>,
    /// Number of events between the streams, if each launched node is one task.
    pub events: usize,
}

/// One node of a round.
#[derive(Clone, Debug, Default)]
pub struct Step {
    /// Name of the node.
    pub node: String,
    /// Operator type of the node.
    pub op: String,
    /// The engine that is asked first, or what the host does.
    pub by: String,
    /// Logical stream of a launched node; `None` for other nodes.
    pub stream: Option<u32>,
    /// For a node of the host: whether it waits for the launches of its round.
    pub waits: bool,
}

/// An unknown size.
#[derive(Clone, Debug)]
pub struct Symbol {
    /// Its symbol, or `input:dimension`.
    pub name: String,
    /// Where it occurs, each as `input:dimension`.
    pub places: Vec<String>,
    /// Lowest and highest value, if stated.
    pub range: Option<(u64, u64)>,
}

/// Limits of the plan caches.
#[derive(Clone, Debug, Default)]
pub struct Plans {
    /// Maximum number of plans of each graph.
    pub kept: usize,
    /// Nodes, over all plans, up to which a graph in a loop may have more plans than that.
    pub turned_nodes: usize,
    /// Number of least recently used plans that are dropped at once.
    pub dropped: usize,
}

/// Describes what the executor does with a model when it may use `cores` threads (fewer than 2:
/// only the caller's thread).
///
/// # Errors
/// Returns `damaged` if the OM is inconsistent, and `unsupported` if no plugin has an operator.
pub fn describe(m: &CompiledModel, tools: &Tools, cores: usize) -> Result<Exec, RuntimeError> {
    let weights = m.weights.first().map(|(_, b)| b.clone()).unwrap_or_default();
    let graphs = lower(m, &weights, tools)?;
    let turned = turned(&graphs);
    let told = scalars::conditions(&graphs).into_iter().map(|program| program.is_some());
    let main = graphs.iter().zip(&m.graphs).zip(turned.into_iter().zip(told)).map(|((g, info), (turned, told))| {
        let engines: Vec<&str> = info.nodes.iter().map(|n| n.engine.as_str()).collect();
        Rounds { turned, told, ..rounds(&graphs, g, &engines, tools) }
    });
    let (symbols, guards) = symbols(m);
    let executor = Executor::choose(&graphs, tools, cores);
    let because = match executor {
        Executor::MultiThread(n) => format!("{n} threads are asked for"),
        Executor::Sequential => "no branches and no loops".to_owned(),
        _ => format!("branches or loops, and {} nodes that are launched", launches(&graphs, tools)),
    };
    Ok(Exec {
        executor,
        because,
        init: Init {
            constants: graphs.iter().map(|g| g.constants.iter().flatten().count()).sum(),
            weights: m.memory.weights,
            parts: m.parts.iter().map(|p| (p.name.clone(), p.tasks.len())).collect(),
            variables: m.graphs.first().map_or_else(Vec::new, variables),
        },
        streams: on_streams(m, &graphs),
        main: main.collect(),
        deinit: vec!["plans of all shapes", "sealed parts", "feature maps", "weights"],
        symbols,
        guards,
        plans: Plans { kept: cache::CAPACITY, turned_nodes: cache::TURNED_NODES, dropped: cache::EVICTED },
    })
}

/// The variables of a root graph.
fn variables(g: &GraphInfo) -> Vec<Variable> {
    let name = |v: &ValueAt| {
        let n = g.nodes.get(v.node as usize).map_or("", |n| n.name.as_str());
        if v.output == 0 { n.to_owned() } else { format!("{n}:{}", v.output) }
    };
    let kept = |of: &NodeInfo| {
        let n = g.nodes.iter().find(|n| kept_in(g, n).is_some_and(|v| std::ptr::eq(v, of)))?;
        Some(name(n.inputs.get(1)?.as_ref()?))
    };
    let one = |n: &NodeInfo| Variable {
        name: n.name.clone(),
        desc: n.outputs.first().map_or_else(String::new, |d| format!("{}{}", d.dtype, d.shape)),
        kept: kept(n),
    };
    g.nodes.iter().filter(|n| n.op == "Variable").map(one).collect()
}

/// For each logical stream: its label, or else the engines on it.
fn on_streams(m: &CompiledModel, graphs: &[Graph]) -> Vec<Vec<String>> {
    let mut out: Vec<Vec<String>> = vec![Vec::new(); m.streams.logical.len().max(1)];
    for (g, info) in graphs.iter().zip(&m.graphs) {
        let operators = g.nodes.iter().zip(&info.nodes).zip(&g.streams).filter(|((n, _), _)| n.kind == Kind::Operator);
        for ((_, n), s) in operators {
            let label = m.streams.logical.get(*s as usize).map(|l| l.label.as_str()).filter(|l| !l.is_empty());
            let who = label.map_or_else(|| n.engine.clone(), |l| format!("label {l}"));
            let on = &mut out[*s as usize];
            if !on.contains(&who) {
                on.push(who);
            }
        }
    }
    out
}

/// The unknown sizes, and the conditions on the inputs.
fn symbols(m: &CompiledModel) -> (Vec<Symbol>, Vec<String>) {
    let mut by: BTreeMap<String, Symbol> = BTreeMap::new();
    let mut guards = Vec::new();
    for i in &m.inputs {
        guards.push(format!("`{}` is {}{}", i.name, i.desc.dtype, i.desc.shape));
        for (k, d) in i.desc.shape.dims().iter().enumerate().filter(|(_, d)| d.size().is_none()) {
            let name = range_key(&i.name, k, d.symbol_name());
            let range = m.ranges.get(&name).copied();
            let of = by.entry(name.clone()).or_insert(Symbol { name, places: Vec::new(), range });
            of.places.push(format!("{}:{k}", i.name));
        }
    }
    for s in by.values() {
        if s.places.len() > 1 {
            guards.push(format!("`{}` is one size in {}", s.name, s.places.join(", ")));
        }
        if let Some((low, high)) = s.range {
            guards.push(format!("`{}` is {low} to {high}", s.name));
        }
    }
    (by.into_values().collect(), guards)
}

/// A graph while its rounds are traced.
struct Walk<'w> {
    graphs: &'w [Graph],
    graph: &'w Graph,
    tools: &'w Tools,
    home: Vec<Home>,
    /// Values that are strings, sequences or optionals.
    odd: Vec<bool>,
    done: Vec<bool>,
    /// Nodes that this round launches.
    launched: Vec<bool>,
}

/// How a node is executed in this round.
enum Fate {
    Planned,
    View,
    Device,
    Host(&'static str),
    Waits,
}

/// Whether a graph needs neither a launch nor the host, whatever its sizes. A plan can then run it
/// itself as a branch that sizes choose.
pub(crate) fn is_plain(graphs: &[Graph], graph: usize, tools: &Tools) -> bool {
    let found = rounds(graphs, &graphs[graph], &[], tools).rounds;
    found.len() <= 1 && found.iter().all(|r| r.device.is_empty() && r.host.is_empty())
}

fn rounds(graphs: &[Graph], graph: &Graph, engines: &[&str], tools: &Tools) -> Rounds {
    let n = graph.values();
    let nodes = graph.nodes.len();
    let (done, launched) = (vec![false; nodes], vec![false; nodes]);
    let mut w = Walk { graphs, graph, tools, home: vec![Home::Nowhere; n], odd: vec![false; n], done, launched };
    let name = |v: u32| graph.nodes.iter().find(|n| n.outputs.contains(&v)).map(|n| n.name.clone());
    let deciding = graph.inputs.iter().flatten().filter(|v| graph.wanted[**v as usize]);
    let by_value = deciding.filter_map(|v| name(*v)).collect();
    let by_length = graph.positions.iter().map(|p| graph.nodes[p.node as usize].name.clone()).collect();
    let mut out = Rounds { graph: graph.name.clone(), by_value, by_length, ..Rounds::default() };
    for (i, node) in graph.nodes.iter().enumerate() {
        for (v, d) in node.outputs.iter().zip(&node.descs) {
            w.odd[*v as usize] = d.dtype == DType::STRING || d.container != Default::default();
        }
        if matches!(node.kind, Kind::Data | Kind::Constant) {
            let home = if node.kind == Kind::Constant { Home::Known } else { Home::Before };
            node.outputs.iter().for_each(|v| w.home[*v as usize] = home);
            w.done[i] = true;
        }
    }
    let limits = Limits::of(&tools.target.soc);
    loop {
        let mut round = Round::default();
        // The limits of streams and events determine how many launches a round has.
        let (mut streams, mut behind) = (Streams::new(limits), Behind::new(graph));
        let mut host: Vec<usize> = Vec::new();
        let before = w.done.clone();
        for (i, node) in graph.nodes.iter().enumerate() {
            if w.done[i] || node.kind == Kind::Output || !w.ready(node) {
                continue;
            }
            let waits = w.waits(node);
            let step = |by: &str| Step {
                node: node.name.clone(),
                op: node.op.as_str().to_owned(),
                by: by.to_owned(),
                ..Step::default()
            };
            let mut home = Home::Made;
            match w.fate(node) {
                Fate::Planned => {
                    round.planned.push(step("the plan"));
                    behind.done(graph, i as u32, None);
                    home = Home::Known;
                }
                Fate::View => {
                    round.views.push(step("the plan"));
                    behind.done(graph, i as u32, node.inputs.first().copied().flatten());
                    home = w.of_view(node);
                }
                Fate::Device if !streams.add(graph.streams[i], 1, &behind.of(graph, i as u32)) => break,
                Fate::Device => {
                    let by = step(engines.get(i).copied().unwrap_or_default());
                    round.device.push(Step { stream: Some(graph.streams[i]), ..by });
                    behind.launched(graph, i as u32);
                    w.launched[i] = true;
                }
                Fate::Host(how) => {
                    round.host.push(Step { waits, ..step(how) });
                    host.push(i);
                    continue;
                }
                Fate::Waits => continue,
            }
            node.outputs.iter().for_each(|v| w.home[*v as usize] = home);
            w.done[i] = true;
        }
        w.launched.fill(false);
        host.into_iter().for_each(|i| {
            w.done[i] = true;
            graph.nodes[i].outputs.iter().for_each(|v| w.home[*v as usize] = Home::Before);
        });
        w.home.iter_mut().filter(|h| **h == Home::Made).for_each(|h| *h = Home::Before);
        if w.done == before {
            return out;
        }
        round.events = streams.events();
        round.streams = streams.logical;
        out.rounds.push(round);
    }
}

impl Walk<'_> {
    fn ready(&self, n: &Node) -> bool {
        n.inputs.iter().flatten().all(|v| self.home[*v as usize] != Home::Nowhere)
            && n.controls.iter().all(|c| self.done[*c as usize])
    }
    /// Whether a host node waits for launches of this round.
    fn waits(&self, n: &Node) -> bool {
        let made = |v: &u32| self.home[*v as usize] == Home::Made;
        n.inputs.iter().flatten().any(made) || n.controls.iter().any(|c| self.launched[*c as usize])
    }
    /// A view is where the value that it shows is.
    fn of_view(&self, n: &Node) -> Home {
        if n.kind == Kind::Choice {
            let made = n.inputs.iter().flatten().any(|v| self.home[*v as usize] == Home::Made);
            return if made { Home::Made } else { Home::Before };
        }
        n.inputs.first().copied().flatten().map_or(Home::Made, |v| self.home[v as usize])
    }
    /// Whether a plan can take the branch of a choice itself: sizes determine the condition, and
    /// the branches only reshape values and compute with sizes.
    fn settles(&self, n: &Node) -> bool {
        let cond = n.inputs.first().copied().flatten().is_some_and(|v| self.home[v as usize] == Home::Known);
        let odd = n.inputs.iter().skip(1).flatten().chain(&n.outputs).any(|v| self.odd[*v as usize]);
        cond && !odd && n.graphs.iter().all(|g| is_plain(self.graphs, *g, self.tools))
    }
    /// Whether only the length of a slice is known while planning.
    fn is_position(&self, n: &Node) -> bool {
        let all = &self.graph.positions;
        let positions = || n.inputs.iter().skip(1).take(2).flatten();
        let own = all.iter().any(|p| std::ptr::eq(&raw const self.graph.nodes[p.node as usize], n));
        own && !positions().all(|v| self.knows(*v))
    }
    /// Whether the plan knows a value's bytes.
    fn knows(&self, v: u32) -> bool {
        let wanted = self.graph.wanted[v as usize] && !self.odd[v as usize];
        self.home[v as usize] == Home::Known || (self.home[v as usize] == Home::Before && wanted)
    }

    fn fate(&self, n: &Node) -> Fate {
        match n.kind {
            Kind::Choice if self.settles(n) => return Fate::View,
            Kind::Choice if both::may_be(self.graphs, self.graph, n, self.tools) => {
                return Fate::Host("takes a branch, or both are launched where they are small");
            }
            Kind::Choice => return Fate::Host("takes a branch"),
            Kind::While | Kind::For => return Fate::Host("turns a loop"),
            Kind::Call => return Fate::Host("calls a graph"),
            Kind::Part => return Fate::Host("launches a sealed part"),
            _ if sequence::handles(n.op.as_str()) => return Fate::Host("keeps a sequence or an optional"),
            _ => {}
        }
        if n.inputs.iter().flatten().chain(&n.outputs).any(|v| self.odd[*v as usize]) {
            return Fate::Host("runs a host kernel: no device takes the type");
        }
        if SIZES.contains(&n.op.as_str()) {
            return Fate::Planned;
        }
        if self.is_position(n) {
            return Fate::Device;
        }
        let settled = n.descs.iter().all(|d| d.is_static());
        let data = n.flags & flags::DATA_DEPENDENT_SHAPE != 0;
        let made = |i: &usize| n.inputs.get(*i).copied().flatten().is_some_and(|v| self.home[v as usize] == Home::Made);
        if !settled && n.value_inputs.iter().any(made) {
            return Fate::Waits;
        }
        if data {
            return Fate::Host("runs a host kernel: its values decide its sizes");
        }
        let fixed = n.flags & (flags::RANDOM | flags::STATEFUL | flags::COMMUNICATION) == 0;
        let whole = n.descs.iter().all(|d| d.dtype.is_int() || d.dtype == DType::BOOL);
        let wanted = n.outputs.iter().any(|v| self.graph.wanted[*v as usize]);
        let known = n.inputs.iter().flatten().all(|v| self.knows(*v));
        let plain = !self.graph.reads_packed(n);
        if fixed && known && plain && (wanted || whole) && self.tools.host(n.op.as_str()).is_some() {
            return Fate::Planned;
        }
        if n.flags & flags::VIEW != 0 && n.outputs.len() == 1 {
            return Fate::View;
        }
        if self.tools.engines(n.op).is_empty() {
            return Fate::Host("runs a host kernel: no engine has one for the device");
        }
        Fate::Device
    }
}
