//! Symbols: the classes of outputs and workspaces that share memory, built once from one union of
//! names (facts 2.3, 2.7), each with its bytes, memory type, life and everything else that
//! constrains where it may lie.
use super::no_reuse::NoReuse;
use super::plan::Io;
use super::variables::Variables;
use crate::error::MemoryFault;
use crate::error::{CompileError, Result};
use crate::feature::io_reuse::IoReuse;
use crate::feature::shared_memory::memory_type::memory_of;
use crate::feature::shared_memory::rules::block_bytes;
use crate::feature::shared_memory::{Clash, JoinKind, Names, Rules, Spot};
use crate::ids::{ModelMap, NodeKey};
use crate::model::weights::Weights;
use crate::partition::dynamic::unknown;
use crate::streams::ExecutionOrder;
use crate::streams::branches::{Branch, common};
use ge_ir::{Model, Node, NodeId, ValueRef};
use ge_plugin_api::device::MemoryKind;
use ge_plugin_api::engine::RunningParams;
use std::collections::HashMap;

/// What a symbol's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// A place that the plan gives.
    Feature,
    /// A constant's place in the weights.
    Weights(u64),
    /// A variable's place.
    Variables(u64),
}

/// One run of memory: the values and workspaces that share it.
#[derive(Clone, Debug)]
pub struct Symbol {
    /// Bytes, in whole blocks for a place that the plan gives.
    pub bytes: u64,
    /// Bytes that somebody touches.
    pub touched: u64,
    /// Memory type.
    pub memory: MemoryKind,
    /// Whose memory it is.
    pub home: Home,
    /// A graph input or output.
    pub io: Option<Io>,
    /// Nodes that touch it, as positions in the order's line.
    pub touches: Vec<u32>,
    /// Nodes of which one touches it first: all producers of a run, the one that clears it; of a
    /// workspace the node's beginning in the order.
    pub firsts: Vec<u32>,
    /// Whether a node writes it anew after its producer (a reference, an output in place).
    pub written: bool,
    /// Whether others may take its memory.
    pub reuse: bool,
    /// The branches in which all that touch it stand.
    pub branch: Branch,
    /// The buffer pool it lies in (`_buffer_pool_id`).
    pub pool: Option<i64>,
    /// Who it is named after.
    pub owner: NodeKey,
}

/// One output or workspace.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Its symbol.
    pub symbol: usize,
    /// Its first byte in it.
    pub inside: u64,
    /// Its bytes as its slot says them.
    pub size: u64,
    /// The input whose memory it shares.
    pub ref_input: Option<u32>,
}

/// All symbols of a model.
pub struct Symbols {
    /// The symbols, in the order of their first name.
    pub list: Vec<Symbol>,
    /// Places of each node's outputs.
    pub outputs: ModelMap<Vec<Place>>,
    /// Places of each node's workspaces.
    pub workspaces: ModelMap<Vec<Place>>,
    /// Bytes of the variables.
    pub variable_bytes: u64,
}

/// What the symbols of a graph are made from.
pub struct Sources<'a> {
    /// The model.
    pub model: &'a Model,
    /// The rules by which values share memory.
    pub rules: Rules<'a>,
    /// What the engines said.
    pub params: &'a ModelMap<RunningParams>,
    /// What runs before what.
    pub order: &'a ExecutionOrder,
    /// The constants.
    pub weights: &'a Weights,
    /// Who keeps its memory to itself.
    pub no_reuse: &'a NoReuse,
    /// Inputs and outputs whose memory others share.
    pub io: &'a IoReuse,
}

/// One name of the union.
struct Name {
    key: NodeKey,
    /// Bytes that it needs.
    need: u64,
    /// Bytes of its data.
    data: u64,
    /// Another name wrote it: a view, a whole made of parts, a part of a whole.
    derived: bool,
    /// Others lie beside it or are it by a rule: a run, a reference, memory that is cleared
    /// beforehand. A view is no such rule.
    bound: bool,
    /// It was written over an input by a node that could have put it elsewhere.
    over: bool,
    /// Its neighbours in a run without padding begin where its data ends.
    tight: bool,
    ref_input: Option<u32>,
    memory: Option<MemoryKind>,
    home: Home,
    reuse: bool,
}

impl Name {
    /// A name by itself, all of whose bytes are data.
    fn new(key: NodeKey, need: u64, memory: Option<MemoryKind>, home: Home, reuse: bool) -> Name {
        Name {
            key,
            need,
            data: need,
            derived: false,
            bound: false,
            over: false,
            tight: false,
            ref_input: None,
            memory,
            home,
            reuse,
        }
    }
}

struct Builder<'a> {
    s: &'a Sources<'a>,
    names: Names,
    all: Vec<Name>,
    /// First name of a node's outputs; its workspaces follow.
    first: ModelMap<u32>,
}

impl Symbols {
    /// Builds them. Cost: names and joins, nearly linear.
    ///
    /// # Errors
    /// A size that is not known, two rules that do not fit together, a memory type that does not
    /// exist.
    pub fn build(s: &Sources<'_>) -> Result<Symbols> {
        let mut b = Builder { s, names: Names::new(), all: Vec::new(), first: ModelMap::new(s.model, 0u32) };
        let variables = Variables::assign(s.model)?;
        for &key in s.order.line() {
            if let Some(n) = key.get(s.model) {
                b.name(key, n, &variables)?;
            }
        }
        for &key in s.order.line() {
            if let Some(n) = key.get(s.model) {
                b.join(key, n)?;
            }
        }
        b.calls()?;
        b.in_place();
        b.symbols(variables.bytes)
    }
}

impl Builder<'_> {
    fn output(&self, key: NodeKey, v: ValueRef) -> u32 {
        self.first[NodeKey { graph: key.graph, node: v.node }] + v.output
    }

    /// Names of a node's outputs and workspaces.
    fn name(&mut self, key: NodeKey, n: &Node, variables: &Variables) -> Result<()> {
        self.first[key] = self.names.len() as u32;
        let params = &self.s.params[key];
        // A called graph's inputs are its caller's values.
        let derives = self.s.rules.derives(n) || (key.graph > 0 && n.op() == "Data");
        for (k, d) in n.outputs().iter().enumerate() {
            let data = d.data_bytes();
            let (home, need) = match (self.s.weights.of.get(&key), variables.of.get(&key)) {
                (Some(at), _) => (Home::Weights(*at), data.unwrap_or(0)),
                (_, Some(at)) => (Home::Variables(*at), data.unwrap_or(0)),
                _ => (Home::Feature, if derives { data.unwrap_or(0) } else { self.needed(key, n, k)? }),
            };
            let memory = match memory_of(n, k) {
                None => None,
                Some(m) => Some(MemoryKind::from_name(&m).ok_or_else(|| no_memory(n, &m))?),
            };
            let reuse = !self.s.no_reuse.output(n);
            let own = if derives { 0 } else { data.unwrap_or(need) };
            self.add(own, Name { data: data.unwrap_or(need), ..Name::new(key, need, memory, home, reuse) });
        }
        for (k, w) in params.workspaces.iter().enumerate() {
            let memory = Some(MemoryKind(w.memory));
            let reuse = !w.no_reuse && !self.s.no_reuse.workspace(n, k);
            let (need, home) = (w.bytes, Home::Feature);
            self.add(if Rules::clears(n) { 0 } else { need }, Name::new(key, need, memory, home, reuse));
        }
        Ok(())
    }

    fn add(&mut self, own: u64, name: Name) {
        let id = self.names.add(0);
        self.names.own(id, own);
        self.all.push(name);
    }

    /// Bytes that the producer of an output asks for.
    fn needed(&self, key: NodeKey, n: &Node, k: usize) -> Result<u64> {
        let said = self.s.params[key].output_bytes.get(k).copied().unwrap_or(0);
        let bytes = if said > 0 { Some(said) } else { n.outputs()[k].data_bytes() };
        bytes.filter(|b| *b <= 1 << 50).ok_or_else(|| {
            let d = &n.outputs()[k];
            if let Some(e) = unknown::refusal(self.s.model, self.s.rules.toolbox()).filter(|_| !d.shape.is_static()) {
                return e;
            }
            MemoryFault::no_size(n, k, d).into()
        })
    }

    fn join(&mut self, key: NodeKey, n: &Node) -> Result<()> {
        let g = key.graph_of(self.s.model);
        let joins = {
            let need = |v: ValueRef| self.all[self.output(key, v) as usize].need;
            self.s.rules.joins(g, n, &need)
        };
        for j in joins {
            let name = |s: Spot| match s {
                Spot::Value(v) => self.output(key, v),
                Spot::Workspace(node, k) => {
                    let owner = NodeKey { graph: key.graph, node };
                    self.first[owner] + owner.get(self.s.model).map_or(0, |n| n.outputs().len() as u32) + k
                }
            };
            let (a, b) = (name(j.from), name(j.to));
            if b as usize >= self.all.len() || a as usize >= self.all.len() {
                continue;
            }
            let distance = i64::try_from(j.at).map_err(|_| CompileError::internal("memory", "sizes overflow"))?;
            self.names.join(a, b, distance).map_err(|c| clash(n, j.input, c))?;
            // The node's own side is derived; the parts of a run without padding end with their
            // data.
            let (a, b) = (a as usize, b as usize);
            if j.kind != JoinKind::View {
                (self.all[a].bound, self.all[b].bound) = (true, true);
            }
            match j.kind {
                JoinKind::View | JoinKind::Reference | JoinKind::Held => {
                    self.all[b].derived = true;
                    self.all[b].ref_input = Some(j.input);
                }
                JoinKind::NoPaddingInput => {
                    self.all[a].derived = true;
                    self.all[a].ref_input = Some(0);
                    self.all[b].tight = true;
                }
                JoinKind::NoPaddingOutput => {
                    self.all[b].derived = true;
                    self.all[b].tight = true;
                    self.all[b].ref_input = Some(0);
                }
                JoinKind::PaddedInput | JoinKind::PaddedOutput => {}
                JoinKind::Clean => {
                    // A region of its own where one node clears for several (facts 2.8).
                    self.all[a].reuse &= n.control_users().len() < 2;
                    self.all[b].derived = true;
                }
            }
        }
        Ok(())
    }

    /// A called graph's inputs lie where the caller's do, the caller's outputs where the graph's do
    /// (`UpdateParentNodeOffset`).
    fn calls(&mut self) -> Result<()> {
        let model = self.s.model;
        for (gi, g) in model.graphs().iter().enumerate() {
            for n in g.nodes().filter(|n| n.op() == "PartitionedCall") {
                let key = NodeKey::new(gi, n.id());
                let Some(si) = n.subgraphs().first().and_then(|s| model.graph_index(s)) else { continue };
                let sub = &model.graphs()[si];
                for d in sub.data_nodes() {
                    let i = d.attrs().int("index").and_then(|i| usize::try_from(i).ok()).unwrap_or(0);
                    let Some(v) = n.input(i) else { continue };
                    let (a, b) = (self.output(key, v), self.first[NodeKey::new(si, d.id())]);
                    self.names.join(a, b, 0).map_err(|c| clash(n, i as u32, c))?;
                    self.all[b as usize].derived = true;
                }
                let Some(out) = sub.net_output() else { continue };
                for (k, v) in out.inputs().iter().enumerate().take(n.outputs().len()).filter(|(_, v)| !v.is_absent()) {
                    let (a, b) = (self.output(NodeKey::new(si, out.id()), *v), self.first[key] + k as u32);
                    self.names.join(a, b, 0).map_err(|c| clash(n, k as u32, c))?;
                    self.all[b as usize].derived = true;
                }
            }
        }
        Ok(())
    }

    /// Outputs that their engine can put in the memory of an input which nobody reads any more
    /// (facts 2.10, `SupportInplace`). In graphs of v1 control flow a value may be read again in
    /// the next turn of a loop, which no edge says: there it is left alone.
    fn in_place(&mut self) {
        let model = self.s.model;
        let turns: Vec<bool> = model.graphs().iter().map(|g| g.nodes().any(may_turn)).collect();
        let mut borders = Borders::new(self);
        for &key in self.s.order.line() {
            let Some(n) = key.get(model).filter(|_| !turns[key.graph as usize]) else { continue };
            for (k, i) in self.s.params[key].inplace.iter().enumerate().take(n.outputs().len()) {
                let Some(v) = usize::try_from(*i).ok().and_then(|i| n.input(i)).filter(|v| !v.is_absent()) else {
                    continue;
                };
                let (a, b) = (self.output(key, v), self.first[key] + k as u32);
                if !self.may_write_over(key, n, v, (a as usize, b as usize)) {
                    continue;
                }
                let (from, to) = (self.names.find(a).0, self.names.find(b).0);
                if borders.may_join(self.s.io, from, to) && self.names.lie_over(a, b) {
                    borders.join(from, to, self.names.find(a).0);
                    let name = &mut self.all[b as usize];
                    (name.derived, name.over, name.ref_input) = (true, true, u32::try_from(*i).ok());
                }
            }
        }
    }

    /// Whether a node may write its output `b` over the value `v`, whose name is `a`: both lie by
    /// themselves in memory of one kind and size, and all other readers are over before the node
    /// starts.
    fn may_write_over(&self, key: NodeKey, n: &Node, v: ValueRef, (a, b): (usize, usize)) -> bool {
        let (model, order) = (self.s.model, self.s.order);
        let g = key.graph_of(model);
        let Some(p) = g.get(v.node) else { return false };
        let (from, to) = (&self.all[a], &self.all[b]);
        let whole = |x: &Name| (!x.derived || x.over) && !x.bound && !x.tight && x.home == Home::Feature && x.reuse;
        let given = p.op().ends_with("Data") && (key.graph > 0 || p.op() != "Data");
        let pooled = |n: &Node| n.attr("_buffer_pool_id").is_some();
        // Attached work may read the value while the node writes.
        let beside = ["_attached_stream_info_list", "_attached_stream_info"].into_iter().any(|a| n.attr(a).is_some());
        if beside || !whole(from) || !whole(to) || given || pooled(p) || pooled(n) {
            return false;
        }
        if block_bytes(from.need) != block_bytes(to.need) || from.memory != to.memory {
            return false;
        }
        let over = |u: NodeId| {
            let reader = g.get(u).is_some_and(|r| self.acts(r) && !self.s.rules.derives(r) && r.op() != "NetOutput");
            reader && order.ordered(NodeKey { graph: key.graph, node: u }, key)
        };
        let users = g.users(v);
        users.iter().filter(|u| u.node == n.id()).count() == 1 && users.iter().all(|u| u.node == n.id() || over(u.node))
    }

    fn symbols(mut self, variable_bytes: u64) -> Result<Symbols> {
        let (model, order) = (self.s.model, self.s.order);
        for (i, name) in self.all.iter().enumerate() {
            let bytes = if name.derived || name.tight { name.data } else { name.need };
            if name.tight && !name.derived && name.need > name.data.next_multiple_of(32) {
                return Err(beyond(name.key.get(model), name));
            }
            self.names.widen(i as u32, bytes);
        }
        let mut list: Vec<Symbol> = Vec::new();
        let mut of_root: Vec<Option<usize>> = vec![None; self.all.len()];
        let mut places: Vec<(usize, u64)> = Vec::with_capacity(self.all.len());
        for (i, name) in self.all.iter().enumerate() {
            let (root, _) = self.names.find(i as u32);
            let (inside, bytes) = self.names.place(i as u32);
            let n = name.key.get(model);
            let s = *of_root[root as usize].get_or_insert_with(|| {
                list.push(Symbol {
                    bytes,
                    touched: 0,
                    memory: MemoryKind::HBM,
                    home: Home::Feature,
                    io: None,
                    touches: Vec::new(),
                    firsts: Vec::new(),
                    written: false,
                    reuse: true,
                    branch: Branch::new(),
                    pool: None,
                    owner: name.key,
                });
                list.len() - 1
            });
            let symbol = &mut list[s];
            let at = order.position(name.key) as u32;
            symbol.reuse &= name.reuse;
            symbol.touched = symbol.touched.max(inside.saturating_add(name.data));
            if let Some(kind) = name.memory {
                if symbol.memory != kind && symbol.memory != MemoryKind::HBM {
                    return Err(mixed(n, symbol.memory, kind));
                }
                symbol.memory = kind;
            }
            match (symbol.home, name.home) {
                (_, Home::Feature) => {}
                (Home::Feature, h) => symbol.home = h,
                (a, b) if a == b => {}
                _ => return Err(CompileError::internal("memory", "two constants would lie in one place")),
            }
            if let Some(n) = n {
                if !name.derived {
                    // Attached work may be given a workspace, and may begin before its node.
                    let work = i as u32 >= self.first[name.key] + n.outputs().len() as u32;
                    symbol.firsts.push(if work { order.beginning(at as usize) as u32 } else { at });
                    symbol.pool = symbol.pool.or_else(|| n.attrs().int("_buffer_pool_id"));
                }
                if name.key.graph == 0 && matches!(n.op(), "Data" | "RefData" | "AippData") {
                    let index = n.attrs().int("index").and_then(|i| u32::try_from(i).ok()).unwrap_or(0);
                    symbol.io = Some(Io::Input(index));
                }
            }
            if n.is_some_and(|n| self.acts(n)) {
                symbol.touches.push(at);
                symbol.written |= name.derived;
            }
            places.push((s, inside));
        }
        self.readers(&mut list, &places);
        for symbol in &mut list {
            if symbol.firsts.is_empty() {
                symbol.firsts.push(order.position(symbol.owner) as u32);
            }
            if symbol.touches.is_empty() {
                symbol.touches.clone_from(&symbol.firsts);
            }
            symbol.touches.sort_unstable();
            symbol.touches.dedup();
            if !order.branches().is_empty() {
                let at = |i: &u32| order.line().get(*i as usize).map_or(&[][..], |key| order.branches().at(*key));
                let mut all = symbol.touches.iter().map(at);
                let first = all.next().unwrap_or(&[]).to_vec();
                symbol.branch = all.fold(first, |a, b| common(&a, b));
            }
            if symbol.home == Home::Feature && symbol.bytes > 0 {
                let whole =
                    block_bytes(symbol.bytes).ok_or_else(|| CompileError::internal("memory", "a size overflows"))?;
                symbol.bytes = whole;
            }
        }
        Ok(self.finish(list, &places, variable_bytes))
    }

    /// Whether a node touches memory itself: views, wholes and parts only name it.
    fn acts(&self, n: &Node) -> bool {
        !(n.attrs().flag("_no_task") || n.op().starts_with("Phony") || self.s.rules.is_view(n))
    }

    /// Readers keep a symbol alive; graph outputs make it the caller's.
    fn readers(&self, list: &mut [Symbol], places: &[(usize, u64)]) {
        let (model, order) = (self.s.model, self.s.order);
        for (i, &key) in order.line().iter().enumerate() {
            let Some(n) = key.get(model) else { continue };
            let acts = self.acts(n);
            let output = key.graph == 0 && model.root().net_output().is_some_and(|o| o.id() == key.node);
            for (k, v) in n.inputs().iter().enumerate().filter(|(_, v)| !v.is_absent()) {
                let symbol = &mut list[places[self.output(key, *v) as usize].0];
                if acts {
                    symbol.touches.push(i as u32);
                }
                if output && symbol.home == Home::Feature {
                    symbol.io.get_or_insert(Io::Output(k as u32));
                }
            }
        }
    }

    fn finish(&self, list: Vec<Symbol>, places: &[(usize, u64)], variable_bytes: u64) -> Symbols {
        let model = self.s.model;
        let mut out = Symbols {
            list,
            outputs: ModelMap::new(model, Vec::new()),
            workspaces: ModelMap::new(model, Vec::new()),
            variable_bytes,
        };
        for &key in self.s.order.line() {
            let Some(n) = key.get(model) else { continue };
            let first = self.first[key] as usize;
            let count = n.outputs().len();
            let mut mine: Vec<Place> = Vec::with_capacity(count);
            for k in 0..count + self.s.params[key].workspaces.len() {
                let (name, (symbol, inside)) = (&self.all[first + k], places[first + k]);
                let feature = out.list[symbol].home == Home::Feature;
                let size = match name.ref_input.filter(|_| !name.tight) {
                    _ if !feature => name.data,
                    // What lies where an input lies has the input's bytes, padding included.
                    Some(i) if !Rules::joins_inputs(n) => {
                        let up = n.input(i as usize).map(|v| (NodeKey { graph: key.graph, node: v.node }, v.output));
                        let given = up.and_then(|(up, o)| out.outputs[up].get(o as usize).map(|p| p.size));
                        // A gear may have more bytes than the one before it in the same place.
                        given.map_or(name.data, |g| if g < name.data { out.list[symbol].bytes } else { g })
                    }
                    _ if name.tight => name.data,
                    _ if k >= count && Rules::clears(n) => out.list[symbol].bytes,
                    _ => block_bytes(name.need).filter(|_| name.need > 0).unwrap_or(0),
                };
                // A whole that begins inside another run has less than its own blocks behind it.
                let room = if feature { out.list[symbol].bytes.saturating_sub(inside) } else { size };
                mine.push(Place { symbol, inside, size: size.min(room), ref_input: name.ref_input });
            }
            out.workspaces[key] = mine.split_off(count);
            out.outputs[key] = mine;
        }
        out
    }
}

/// Whether a node may run, or have others run, more than once without an edge that says so.
fn may_turn(n: &Node) -> bool {
    let op = n.op().strip_prefix("Ref").unwrap_or(n.op());
    matches!(
        op,
        "Enter"
            | "Exit"
            | "LoopCond"
            | "Merge"
            | "NextIteration"
            | "StreamActive"
            | "StreamMerge"
            | "StreamSwitch"
            | "Switch"
    )
}

/// Which classes are a graph input, and which are graph outputs.
struct Borders {
    of: HashMap<u32, (Option<u32>, Vec<u32>)>,
}

impl Borders {
    fn new(b: &mut Builder<'_>) -> Borders {
        let mut of: HashMap<u32, (Option<u32>, Vec<u32>)> = HashMap::new();
        let g = b.s.model.root();
        for d in g.nodes().filter(|n| matches!(n.op(), "Data" | "RefData" | "AippData")) {
            let root = b.names.find(b.first[NodeKey::new(0, d.id())]).0;
            of.entry(root).or_default().0 = d.attrs().int("index").and_then(|i| u32::try_from(i).ok()).or(Some(0));
        }
        for (out, (k, v)) in g.net_output().into_iter().flat_map(|o| o.inputs().iter().enumerate().map(move |e| (o, e)))
        {
            if !v.is_absent() {
                let root = b.names.find(b.output(NodeKey::new(0, out.id()), *v)).0;
                of.entry(root).or_default().1.push(k as u32);
            }
        }
        Borders { of }
    }
    /// Whether a class may be written over by another: an input only where the caller gives its
    /// memory away, and never so that an output of the model comes to lie in an input that is not
    /// its own.
    fn may_join(&self, io: &IoReuse, from: u32, to: u32) -> bool {
        let none = (None, Vec::new());
        let (a, b) = (self.of.get(&from).unwrap_or(&none), self.of.get(&to).unwrap_or(&none));
        let outputs: Vec<u32> = a.1.iter().chain(&b.1).copied().collect();
        match (a.0.or(b.0), outputs.as_slice()) {
            (None, _) => true,
            (Some(i), []) => b.0.is_none() && io.frees(i),
            (Some(i), [k]) => b.0.is_none() && io.output_of(i) == Some(*k),
            _ => false,
        }
    }
    fn join(&mut self, from: u32, to: u32, root: u32) {
        let (a, b) = (self.of.remove(&from).unwrap_or_default(), self.of.remove(&to).unwrap_or_default());
        let both: Vec<u32> = a.1.into_iter().chain(b.1).collect();
        if a.0.or(b.0).is_some() || !both.is_empty() {
            self.of.insert(root, (a.0.or(b.0), both));
        }
    }
}

fn no_memory(n: &Node, memory: &str) -> CompileError {
    MemoryFault::NoSuchType { node: n.name().into(), memory: memory.into() }.into()
}

fn clash(n: &Node, input: u32, c: Clash) -> CompileError {
    MemoryFault::Place { node: n.name().into(), op: n.op().into(), input, clash: c }.into()
}

fn mixed(n: Option<&Node>, a: MemoryKind, b: MemoryKind) -> CompileError {
    MemoryFault::TwoTypes { node: n.map_or("", Node::name).into(), first: a, second: b }.into()
}

fn beyond(n: Option<&Node>, name: &Name) -> CompileError {
    MemoryFault::Joined { node: n.map_or("", Node::name).into(), needs: name.need, data: name.data }.into()
}
