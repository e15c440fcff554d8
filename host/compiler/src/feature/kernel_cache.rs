//! The kernel cache of one compilation. Kernels are compiled at two times (003 §6.1): with their
//! subgraph after `OptimizeFusedGraph` if they run on an AI or vector core, else alone
//! (`CompileSingleOp`). A kernel is compiled once for equal engine, operator, types, shapes,
//! formats, attributes and constant values. The SoC is that of the compilation.
use crate::pass::KernelCounts;
use crate::toolbox::{EngineId, Toolbox};
use ge_plugin_api::Result;
use ge_plugin_api::engine::{KernelBinary, Target, flags};
use ge_plugin_api::types::tensor::ConstData;
use ge_plugin_api::types::{Attr, AttrValue, Blob, Key, Shape, TensorDesc};
use ge_plugin_api::view::{Graph, Node};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// Attributes in which ge keeps records of a node. No kernel depends on them; tasks may (the marks
/// of a stream's ends).
const RECORDS: &[&str] = &[
    "_composite_engine",
    "_composite_scope",
    "_datadump_original_op_names",
    "_is_first_node",
    "_is_last_node",
    ge_model::choice::IF_FALSE,
    ge_model::choice::IF_TRUE,
    "_op_kernel_lib",
    ge_ir::graph::ORIGIN_TENSORS,
    "_pass_name",
    "_stream_label",
    "_user_stream_label",
];
static RECORD_KEYS: LazyLock<Vec<Key>> = LazyLock::new(|| RECORDS.iter().map(|r| Key::new(r)).collect());
/// Constants of at most this many bytes are compared by content, longer ones by address. The
/// address is reliable because a constant stays in place through all stages and the cache keeps it
/// alive.
const MOST_BYTES: usize = 8192;

/// Time at which a kernel is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Together with the subgraph of its node.
    FusedGraph,
    /// On its own.
    SingleOp,
}

/// A kernel, once it has been compiled. The inner `None`: the node has no kernel.
type Slot = Arc<Mutex<Option<Option<Arc<KernelBinary>>>>>;

/// Key of everything that a kernel depends on, and the long constants that the key holds by
/// address.
#[derive(Default)]
struct Inputs {
    key: Vec<u8>,
    held: Vec<Blob>,
}

/// Cache of compiled kernels.
#[derive(Default)]
pub struct KernelCache {
    slots: Mutex<HashMap<Vec<u8>, (Slot, Vec<Blob>)>>,
    counts: [AtomicU64; 3],
}

impl KernelCache {
    /// The kernel of a node. A node whose attributes hold tensors or graphs is compiled on each
    /// call.
    ///
    /// # Errors
    /// Fails if the engine fails to compile the node.
    pub fn kernel(
        &self,
        toolbox: &Toolbox,
        engine: EngineId,
        node: &Node<'_>,
        target: &Target,
        when: When,
    ) -> Result<Option<Arc<KernelBinary>>> {
        let compile = || -> Result<Option<Arc<KernelBinary>>> {
            let made = toolbox.engine(engine).object.compile(node, target)?.map(Arc::new);
            if made.is_some() {
                self.count(if when == When::FusedGraph { 0 } else { 1 });
            }
            Ok(made)
        };
        let Some(Inputs { key, held }) = key(toolbox, engine, node) else { return compile() };
        let slot = {
            let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            slots.entry(key).or_insert_with(|| (Slot::default(), held)).0.clone()
        };
        // Another thread that requests the same kernel waits here until it is compiled.
        let mut found = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(k) = &*found {
            if k.is_some() {
                self.count(2);
            }
            return Ok(k.clone());
        }
        let made = compile()?;
        *found = Some(made.clone());
        Ok(made)
    }

    /// Compiles the kernels for AI and vector cores of a subgraph that its engine has just
    /// optimised. A node that needs a constant outside the subgraph cannot be compiled yet; it is
    /// compiled alone later.
    pub fn fused_graph(&self, toolbox: &Toolbox, engine: EngineId, graph: &Graph<'_>) {
        if toolbox.engine(engine).info.flags & (flags::AI_CORE | flags::VECTOR_CORE) == 0 {
            return;
        }
        for node in graph.nodes() {
            let hidden = |i: usize| {
                let from = node.input(i).and_then(|v| graph.find(v.node));
                from.is_some_and(|p| {
                    p.op() == "PlaceHolder" && matches!(p.str("parentOpType"), Some("Const" | "Constant"))
                })
            };
            let own = !matches!(node.op(), "PlaceHolder" | "End" | "Data" | "NetOutput") && !node.is_const();
            if own && !(0..node.inputs().len()).any(hidden) {
                // A refusal is reported when the node is compiled alone.
                let _ = self.kernel(toolbox, engine, &node, &toolbox.target, When::FusedGraph);
            }
        }
    }

    /// The counts so far.
    pub fn counts(&self) -> KernelCounts {
        let [fused_graph, single_op, hits] = [0, 1, 2].map(|k: usize| self.counts[k].load(Ordering::Relaxed));
        KernelCounts { fused_graph, single_op, hits }
    }
    fn count(&self, k: usize) {
        self.counts[k].fetch_add(1, Ordering::Relaxed);
    }
}

/// Run times of nodes. Nodes with the same kernel take the same time, so the engine is asked once.
#[derive(Default)]
pub struct KernelTimes(Mutex<HashMap<Vec<u8>, (u64, Vec<Blob>)>>);

impl KernelTimes {
    /// The run time in nanoseconds that the engine of a node states.
    pub fn of(&self, toolbox: &Toolbox, engine: EngineId, node: &Node<'_>) -> u64 {
        let ask = || toolbox.engine(engine).object.time_ns(node, &toolbox.target.soc);
        let Some(Inputs { key, held }) = key(toolbox, engine, node) else { return ask() };
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known().get(&key).map(|(time, _)| *time);
        found.unwrap_or_else(|| {
            let time = ask();
            known().insert(key, (time, held));
            time
        })
    }
}

/// Key of everything that a kernel may depend on; `None` if an attribute holds a tensor or a graph.
fn key(toolbox: &Toolbox, engine: EngineId, node: &Node<'_>) -> Option<Inputs> {
    let mut k = Vec::with_capacity(256);
    let mut held = Vec::new();
    number(&mut k, engine.0 as u64);
    number(&mut k, u64::from(node.op_key().index()));
    number(&mut k, node.inputs().len() as u64);
    for i in 0..node.inputs().len() {
        match node.input_desc(i) {
            None => k.push(0),
            Some(d) => desc(&mut k, d),
        }
        if let Some(c) = node.const_input(i) {
            match &c.data {
                ConstData::Splat(element) => {
                    k.push(1);
                    text(&mut k, element);
                }
                ConstData::Bytes(bytes) if bytes.len() <= MOST_BYTES => {
                    k.push(2);
                    text(&mut k, bytes);
                }
                ConstData::Bytes(bytes) => {
                    k.push(3);
                    number(&mut k, bytes.as_ptr() as u64);
                    number(&mut k, bytes.len() as u64);
                    held.push(bytes.clone());
                }
            }
        } else {
            k.push(0);
        }
    }
    number(&mut k, node.outputs().len() as u64);
    node.outputs().iter().for_each(|d| desc(&mut k, d));
    // Sorted by number: within one process a key has one number. An attribute with its default
    // value counts as left out, since both mean the same kernel.
    let specs = toolbox.op(node.op_key()).map_or(&[][..], |o| o.proto.attrs.as_slice());
    let left_out = |a: &Attr| {
        let spec = specs.iter().find(|s| s.name.as_str() == a.key.as_str());
        spec.is_some_and(|s| s.default.as_ref().into_option() == Some(&a.value))
    };
    let counts = |a: &&Attr| !RECORD_KEYS.contains(&a.key) && !left_out(a);
    let mut attrs: Vec<_> = node.attrs().iter().filter(counts).collect();
    attrs.sort_by_key(|a| a.key.index());
    for a in attrs {
        number(&mut k, u64::from(a.key.index()));
        value(&mut k, &a.value)?;
    }
    Some(Inputs { key: k, held })
}

fn number(k: &mut Vec<u8>, v: u64) {
    k.extend_from_slice(&v.to_le_bytes());
}
fn text(k: &mut Vec<u8>, v: &[u8]) {
    number(k, v.len() as u64);
    k.extend_from_slice(v);
}

fn desc(k: &mut Vec<u8>, d: &TensorDesc) {
    k.extend_from_slice(&[1, d.dtype.0, d.format.0, d.container.0]);
    shape(k, &d.shape);
    match d.origin.as_ref().into_option() {
        None => k.push(0),
        Some(o) => {
            k.extend_from_slice(&[1, o.format.0]);
            shape(k, &o.shape);
        }
    }
}

fn shape(k: &mut Vec<u8>, s: &Shape) {
    number(k, s.rank().map_or(u64::MAX, |r| r as u64));
    s.dims().iter().for_each(|d| k.extend_from_slice(&d.raw().to_le_bytes()));
}

/// Appends an attribute value to a key. `None` if it holds a tensor or a graph.
fn value(k: &mut Vec<u8>, v: &AttrValue) -> Option<()> {
    match v {
        AttrValue::Int(i) => {
            k.push(1);
            k.extend_from_slice(&i.to_le_bytes());
        }
        AttrValue::Float(f) => {
            k.push(2);
            number(k, f.to_bits());
        }
        AttrValue::Bool(b) => k.extend_from_slice(&[3, u8::from(*b)]),
        AttrValue::Str(s) => {
            k.push(4);
            text(k, s.as_bytes());
        }
        AttrValue::Ints(l) => {
            k.push(5);
            number(k, l.len() as u64);
            l.iter().for_each(|i| k.extend_from_slice(&i.to_le_bytes()));
        }
        AttrValue::List(l) => {
            k.push(6);
            number(k, l.len() as u64);
            l.iter().try_for_each(|v| value(k, v))?;
        }
        AttrValue::Dict(l) => {
            k.push(7);
            number(k, l.len() as u64);
            l.iter().try_for_each(|e| {
                text(k, e.key.as_bytes());
                value(k, &e.value)
            })?;
        }
        AttrValue::Tensor(_) | AttrValue::Graph(_) => return None,
        AttrValue::Type(d) => k.extend_from_slice(&[9, d.0]),
        AttrValue::Floats(l) => {
            k.push(10);
            number(k, l.len() as u64);
            l.iter().for_each(|f| number(k, f.to_bits()));
        }
        AttrValue::Strs(l) => {
            k.push(11);
            number(k, l.len() as u64);
            l.iter().for_each(|s| text(k, s.as_bytes()));
        }
    }
    Some(())
}
