//! Symbols: the classes of outputs and workspaces that share memory. They are built once from one
//! union of names (facts 2.3, 2.7). Each has its bytes, memory type, lifetime, and everything else
//! that constrains where it may lie.
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

/// Where the bytes of a symbol come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// The plan gives the symbol its place in a feature map.
    Feature,
    /// The symbol is a constant at this offset in the weights.
    Weights(u64),
    /// The symbol is a variable at this offset among the variables.
    Variables(u64),
}

/// A contiguous piece of memory with the values and workspaces that share it.
#[derive(Clone, Debug)]
pub struct Symbol {
    /// Size in bytes; a multiple of whole blocks if the plan gives the place.
    pub bytes: u64,
    /// Number of leading bytes within which some node touches data.
    pub touched: u64,
    /// Memory type of the symbol.
    pub memory: MemoryKind,
    /// Where its bytes come from.
    pub home: Home,
    /// The graph input or output whose memory it is, if any.
    pub io: Option<Io>,
    /// Nodes that touch it, as positions in the execution order's line.
    pub touches: Vec<u32>,
    /// Positions of the nodes that may touch it first: all producers of a run, or the node that
    /// clears it; for a workspace, the position at which its node's work begins.
    pub firsts: Vec<u32>,
    /// Whether a node writes it after its producer did (a reference, or an output in place).
    pub written: bool,
    /// Whether other symbols may reuse its memory.
    pub reuse: bool,
    /// The branches that contain every node that touches it.
    pub branch: Branch,
    /// The buffer pool in which it lies (`_buffer_pool_id`), if any.
    pub pool: Option<i64>,
    /// The node after which messages name it.
    pub owner: NodeKey,
}

/// Place of one output or workspace.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Index of its symbol.
    pub symbol: usize,
    /// Offset of its first byte in the symbol.
    pub inside: u64,
    /// Size in bytes, as its slot states it.
    pub size: u64,
    /// The node's input whose memory it shares, if any.
    pub ref_input: Option<u32>,
}

/// All symbols of a model.
pub struct Symbols {
    /// The symbols, in the order of their first names.
    pub list: Vec<Symbol>,
    /// Places of each node's outputs.
    pub outputs: ModelMap<Vec<Place>>,
    /// Places of each node's workspaces.
    pub workspaces: ModelMap<Vec<Place>>,
    /// Bytes of all variables.
    pub variable_bytes: u64,
}

/// What the symbols of a model are built from.
pub struct Sources<'a> {
    /// The model.
    pub model: &'a Model,
    /// The rules by which values share memory.
    pub rules: Rules<'a>,
    /// The answers of the engines for each node.
    pub params: &'a ModelMap<RunningParams>,
    /// The execution order.
    pub order: &'a ExecutionOrder,
    /// The constants and their offsets.
    pub weights: &'a Weights,
    /// Which outputs and workspaces are excluded from reuse.
    pub no_reuse: &'a NoReuse,
    /// Inputs and outputs whose memory is shared.
    pub io: &'a IoReuse,
}

/// One name of the union: an output or a workspace.
struct Name {
    key: NodeKey,
    /// Bytes that it needs.
    need: u64,
    /// Bytes of its data.
    data: u64,
    /// Its bytes belong to another name: it is a view, a whole made of parts, or a part of a whole.
    derived: bool,
    /// A rule places other names beside it or on it: a run, a reference, or memory that is cleared
    /// beforehand. Views do not count.
    bound: bool,
    /// A node wrote it over an input, although the engine could have placed it elsewhere.
    over: bool,
    /// It is in a run without padding, where its neighbours begin where its data ends.
    tight: bool,
    ref_input: Option<u32>,
    memory: Option<MemoryKind>,
    home: Home,
    reuse: bool,
}

impl Name {
    /// A name that stands alone and whose bytes are all data.
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
    /// Name of each node's first output; the other outputs and the workspaces follow.
    first: ModelMap<u32>,
}

impl Symbols {
    /// Builds the symbols of a model. Cost: nearly linear in names and joins.
    ///
    /// # Errors
    /// Fails if a size is not known, if two rules contradict each other, or if a memory type does
    /// not exist.
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

    /// Adds the names of a node's outputs and workspaces.
    fn name(&mut self, key: NodeKey, n: &Node, variables: &Variables) -> Result<()> {
        self.first[key] = self.names.len() as u32;
        let params = &self.s.params[key];
        // The inputs of a called graph are values of its caller.
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

    /// Bytes that the producer of an output asks for. Fails if they are not known or exceed 2^50.
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
            // The derived name is on the node's own side. The parts of a run without padding end
            // with their data.
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
                    // A node that clears for several users has a region that nothing else uses
                    // (facts 2.8).
                    self.all[a].reuse &= n.control_users().len() < 2;
                    self.all[b].derived = true;
                }
            }
        }
        Ok(())
    }

    /// Joins the inputs of a called graph with the caller's values, and the outputs of the call
    /// with the graph's results (`UpdateParentNodeOffset`).
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

    /// Places outputs in the memory of an input that nobody reads any more, where the engine
    /// supports it (facts 2.10, `SupportInplace`). Graphs with v1 control flow are skipped: there
    /// the next turn of a loop may read a value again without an edge that says so.
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

    /// Whether a node may write its output `b` over the value `v`, whose name is `a`: no rule binds
    /// either of them, both have memory of one kind and size, and all other readers have finished
    /// before the node starts.
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
                    // Attached work may use the workspace, and may begin before its node.
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

    /// Whether a node touches memory itself. Views, wholes and parts do not.
    fn acts(&self, n: &Node) -> bool {
        !(n.attrs().flag("_no_task") || n.op().starts_with("Phony") || self.s.rules.is_view(n))
    }

    /// Adds the readers of each symbol, which keep it alive, and marks graph outputs as the
    /// caller's memory.
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
                    // A name in the memory of an input has the size of the input, including
                    // padding.
                    Some(i) if !Rules::joins_inputs(n) => {
                        let up = n.input(i as usize).map(|v| (NodeKey { graph: key.graph, node: v.node }, v.output));
                        let given = up.and_then(|(up, o)| out.outputs[up].get(o as usize).map(|p| p.size));
                        // A gear may have more bytes than an earlier gear in the same place.
                        given.map_or(name.data, |g| if g < name.data { out.list[symbol].bytes } else { g })
                    }
                    _ if name.tight => name.data,
                    _ if k >= count && Rules::clears(n) => out.list[symbol].bytes,
                    _ => block_bytes(name.need).filter(|_| name.need > 0).unwrap_or(0),
                };
                // A whole that begins inside another run has less room after it than its own
                // blocks.
                let room = if feature { out.list[symbol].bytes.saturating_sub(inside) } else { size };
                mine.push(Place { symbol, inside, size: size.min(room), ref_input: name.ref_input });
            }
            out.workspaces[key] = mine.split_off(count);
            out.outputs[key] = mine;
        }
        out
    }
}

/// Whether a node may run, or make others run, more than once without an edge that says so.
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

/// Which classes hold a graph input, and which hold graph outputs.
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
    /// Whether one class may be overwritten by another. A graph input may be overwritten only if
    /// the caller gives its memory away, and a graph output must never come to lie in an input
    /// other than the one it is paired with.
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
