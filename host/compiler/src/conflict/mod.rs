//! Memory conflicts. In: the optimised graph. Out: the same graph with an `Identity` wherever two
//! memory rules meet that one place cannot satisfy (003 `MemConflictProc`, facts 2.10).
//!
//! The root graph is walked once per round: every rule by which a node makes values share memory is
//! tried on the union-find of names. The families below say which pairs of classes cannot be one;
//! the first family that objects puts a copy before that input. Cost: the joins of the graph times
//! the number of families, and for each reference the values around it that share memory.
/// What the memory of each class of values is claimed for.
pub mod claims;
/// Contiguous runs of inputs and outputs, with and without padding, against memory that the plan
/// may not place.
pub mod continuous;
/// Attributes that nodes leave out, filled in from the prototypes.
pub mod ir_definition_recovery;
/// Memory types against each other and against the caller's buffers.
pub mod memory_type;
/// Read against write: constants, inputs and values with other readers against in-place outputs.
pub mod read_write;
/// Who else reads the bytes that a reference writes over.
mod readers;
/// The caller's inputs whose addresses are refreshed, against splits without a task.
pub mod refresh;
/// Outputs that lie in an input's memory, against nodes that still read the input.
mod shared_io;
/// The caller's outputs, against all memory that is not the output's own.
pub mod user_output;

use crate::error::{CompileError, Result};
use crate::feature::io_reuse::IoReuse;
use crate::feature::shared_memory::{Join, JoinKind, Names, Rules, Spot};
use crate::options::Options;
use crate::toolbox::Toolbox;
use claims::{Claims, Meeting};
use ge_ir::{Graph, Model, Node, NodeId, ValueRef};
use ge_plugin_api::patch::Patch;
use ge_plugin_api::types::AttrMap;
use readers::Readers;
use std::collections::{BTreeMap, BTreeSet};

/// A family of pairs: returns why two classes cannot share memory, or `None` if they can.
type Family = fn(&Meeting<'_>) -> Option<String>;

/// The families, in the order in which they are asked.
const FAMILIES: &[Family] =
    &[read_write::conflict, refresh::conflict, memory_type::conflict, continuous::conflict, user_output::conflict];

/// A copy that resolves a conflict.
struct Copy {
    reader: NodeId,
    input: u32,
    why: String,
}

/// Finds the conflicts of the root graph and puts an `Identity` before each input that has one.
pub fn run(model: &mut Model, toolbox: &Toolbox, options: &Options) -> Result<()> {
    let io = IoReuse::new(model, options)?;
    runs(model, toolbox, options)?;
    shared_io::run(model, toolbox, options, &io)
}

fn runs(model: &mut Model, toolbox: &Toolbox, options: &Options) -> Result<()> {
    let g = model.root();
    let mut forced = BTreeSet::new();
    let copies = loop {
        let (copies, crowded) = Walk::new(g, toolbox, options, &forced).run();
        if crowded.is_empty() {
            break copies;
        }
        // Each round adds nodes to `forced`, so the loop ends.
        forced.extend(crowded);
    };
    if copies.is_empty() {
        return Ok(());
    }
    let mut p = Patch::starting_at(g.next_id());
    for c in copies {
        let Some((reader, v)) = g.get(c.reader).and_then(|n| Some((n, n.input(c.input as usize)?))) else { continue };
        let Some(producer) = g.get(v.node) else { continue };
        let desc = g.desc(v).cloned().unwrap_or_default();
        let name = match reader.op() {
            "NetOutput" => format!("{}_output_{}_copy", producer.name(), c.input),
            _ => format!("{}_input_{}_copy", reader.name(), c.input),
        };
        let mut attrs = AttrMap::default();
        attrs.set("_inserted_by", Walk::WHO);
        attrs.set("_inserted_for", c.why.as_str());
        let mut out = ge_ir::TensorDesc { attrs: AttrMap::default(), ..desc };
        // The copy lies where its reader wants it: in the reader's own memory type, not in the type
        // of the value.
        if let Some(kind) = claims::wanted_memory(reader) {
            out.attrs.set("memory", kind);
        }
        let id = p.add("Identity", &name, &[v], vec![out], attrs);
        p.set_input(c.reader, c.input, ValueRef::new(id, 0));
    }
    model.apply(0, p.into_edits().into()).map_err(|source| CompileError::Patch { who: Walk::WHO.into(), source })?;
    model.compact();
    Ok(())
}

struct Walk<'g> {
    g: &'g Graph,
    rules: Rules<'g>,
    readers: Readers<'g>,
    /// Inputs that have a copy of their own.
    apart: BTreeSet<(NodeId, u32)>,
    names: Names,
    /// First name of each node's outputs, by node id.
    first: Vec<u32>,
    /// The claims on each class, indexed by the root of the class.
    claims: Vec<Claims>,
    /// Whether addresses of the caller's inputs are refreshed while inner offsets are not.
    refresh: bool,
    /// Nodes whose run would begin among other values: all their inputs are copied into a run of
    /// their own.
    forced: &'g BTreeSet<NodeId>,
    /// Nodes of this kind that this walk found.
    crowded: Vec<NodeId>,
}

impl<'g> Walk<'g> {
    /// Name of the pass that inserts the copies.
    const WHO: &'static str = "MemConflictProc";

    fn new(g: &'g Graph, toolbox: &'g Toolbox, options: &Options, forced: &'g BTreeSet<NodeId>) -> Walk<'g> {
        let rules = Rules::new(toolbox);
        let mut w = Walk {
            g,
            rules,
            readers: Readers::new(g, rules),
            apart: BTreeSet::new(),
            names: Names::new(),
            first: vec![0; g.id_bound()],
            claims: Vec::new(),
            refresh: options.base_refreshable,
            forced,
            crowded: Vec::new(),
        };
        for n in g.nodes() {
            w.first[n.id().index()] = w.names.len() as u32;
            for (k, d) in n.outputs().iter().enumerate() {
                let name = w.names.add(d.data_bytes().unwrap_or(0));
                if !w.rules.derives(n) {
                    w.names.own(name, d.data_bytes().unwrap_or(0));
                }
                w.claims.push(Claims::of_output(n, k));
            }
        }
        w
    }

    fn name(&self, v: ValueRef) -> u32 {
        self.first[v.node.index()] + v.output
    }
    fn claims_of(&mut self, name: u32) -> Claims {
        let (root, _) = self.names.find(name);
        self.claims[root as usize].clone()
    }

    /// Returns the copies, and the nodes for which one copy is not enough.
    fn run(mut self) -> (Vec<Copy>, Vec<NodeId>) {
        let g = self.g;
        let mut copies = Vec::new();
        let outputs = g.net_output().map(Node::id);
        for n in g.nodes().filter(|n| Some(n.id()) != outputs) {
            self.node(n, &mut copies);
        }
        if let Some(out) = g.net_output() {
            for (i, v) in out.inputs().iter().enumerate().filter(|(_, v)| !v.is_absent()) {
                let name = self.name(*v);
                let (root, _) = self.names.find(name);
                let (at, bytes) = self.names.place(name);
                let mine = g.desc(*v).and_then(|d| d.data_bytes()).unwrap_or(0);
                let claims = self.claims[root as usize].clone();
                let meeting = Meeting {
                    claims: &claims,
                    other: &Claims::user_output(at == 0 && bytes <= mine.next_multiple_of(32)),
                    kind: None,
                    reader: out,
                    input: i as u32,
                    read_later: false,
                    refresh: false,
                };
                match FAMILIES.iter().find_map(|f| f(&meeting)) {
                    Some(why) => copies.push(Copy { reader: out.id(), input: i as u32, why }),
                    None => self.claims[root as usize].user_output = true,
                }
            }
        }
        (copies, self.crowded)
    }

    /// Tries every join of a node. Once an input has a copy, the copy takes part in the joins
    /// instead.
    fn node(&mut self, n: &'g Node, copies: &mut Vec<Copy>) {
        let g = self.g;
        let need = |v: ValueRef| g.desc(v).and_then(|d| d.data_bytes()).unwrap_or(0);
        // Name of the copy, by input, for inputs that have one.
        let mut copied: BTreeMap<u32, u32> = BTreeMap::new();
        for j in self.rules.joins(g, n, &need) {
            let (Spot::Value(from), Spot::Value(to)) = (j.from, j.to) else { continue };
            let own = |v: ValueRef| v.node == n.id();
            // A run with padding begins at input 0; every other join is between one input and the
            // node itself.
            let starts_at = if j.kind == JoinKind::PaddedInput { 0 } else { j.input };
            let mut a = copied.get(&starts_at).copied().filter(|_| !own(from)).unwrap_or_else(|| self.name(from));
            let mut b = copied.get(&j.input).copied().filter(|_| !own(to)).unwrap_or_else(|| self.name(to));
            let comes_in = if own(to) { from } else { to };
            let (incoming, inner) = if own(to) { (a, b) } else { (b, a) };
            let (claims, mut other) = (self.claims_of(incoming), self.claims_of(inner));
            other.by(j.kind);
            let meeting = Meeting {
                claims: &claims,
                other: &other,
                kind: Some(j.kind),
                reader: n,
                input: j.input,
                read_later: self.read_later(n, &j, comes_in, &claims),
                refresh: self.refresh,
            };
            let distance = i64::try_from(j.at).unwrap_or(i64::MAX);
            let asked = FAMILIES.iter().find_map(|f| f(&meeting));
            let all = self.forced.contains(&n.id()).then(|| "its run begins among other values".to_owned());
            let why = asked.or(all).or_else(|| Some(self.names.join(a, b, distance).err()?.to_string()));
            let mut both = claims;
            if let Some(why) = why.filter(|_| j.kind != JoinKind::PaddedOutput && !copied.contains_key(&j.input)) {
                let fresh = self.names.add(need(comes_in));
                self.names.own(fresh, need(comes_in));
                self.claims.push(Claims { memory: claims::wanted_memory(n), ..Claims::default() });
                copied.insert(j.input, fresh);
                self.apart.insert((n.id(), j.input));
                copies.push(Copy { reader: n.id(), input: j.input, why });
                if own(to) {
                    a = fresh
                } else {
                    b = fresh
                }
                if j.kind == JoinKind::PaddedInput && j.input == 0 {
                    a = fresh;
                }
                if self.names.join(a, b, distance).is_err() {
                    // Other values lie where even a copy would have to lie, so the run that the
                    // node has joined so far has no room for it.
                    self.crowded.push(n.id());
                }
                both = Claims::default();
            }
            both.merge(&other);
            let (root, _) = self.names.find(a);
            self.claims[root as usize].merge(&both);
        }
    }

    /// Whether another node may still read what the join writes over. Memory that the plan may not
    /// place is not asked about: it is copied in any case, or meant to be written.
    fn read_later(&self, n: &Node, j: &Join, v: ValueRef, claims: &Claims) -> bool {
        let asked = j.kind == JoinKind::Reference && claims.arranged().is_none();
        asked && self.readers.any_later(n, v, j.input, &self.apart)
    }
}
