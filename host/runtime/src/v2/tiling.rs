//! Caches tilings: what a node ran as is kept under the sizes and values that it was tiled for. In
//! a plan for a new shape most nodes have sizes that they had before: one more token changes the
//! attention over the past, and no other product.
use super::graph::{Graph, Kind, Node};
use super::launch::Launch;
use super::pieces::Cut;
use crate::several::Bound;
use ge_plugin_api::fusion;
use ge_plugin_api::types::{Attr, ConstTensor, DType, TensorDesc};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Entries kept for each node; the least recently used is dropped first.
const KEPT: usize = 4;
/// Entries kept for a group of nodes that are alike.
const KEPT_ALIKE: usize = 16;
/// Attributes that only record where a node comes from; kernels do not depend on them.
const NAMES: [&str; 3] = [fusion::ORIGINALS, fusion::PASS_NAME, "_origin_tensors"];
/// Nodes whose description is longer than this, in bytes, are not compared with others.
const MOST_LOOKS: usize = 16 * 1024;
/// Maximum size in bytes of a value that is part of a node's key; with more, nothing is cached.
const MOST_BYTES: usize = 512;

/// Tags that say what the next bytes of a key describe.
const ABSENT: u8 = 0;
const CONSTANT: u8 = 1;
const SIZED: u8 = 2;
const KNOWN: u8 = 3;
const PIECE: u8 = 4;
const IN_PLACE: u8 = 5;
const ANY: u8 = 6;

/// Which known input values a node's tiling is keyed by.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// All of them.
    All,
    /// Only those that determine sizes; the others may have any value.
    Deciding,
}

/// Outputs and launch of a node for particular sizes.
#[derive(Clone)]
pub(crate) struct Tiled {
    pub(crate) outs: Arc<[TensorDesc]>,
    pub(crate) launch: Arc<Launch>,
    /// Each task, as its executor has bound it for the first plan that uses it.
    pub(crate) bound: Arc<[OnceLock<Bound>]>,
}

impl Tiled {
    /// A launch that no plan uses yet.
    pub(crate) fn new(outs: Arc<[TensorDesc]>, launch: Arc<Launch>) -> Tiled {
        let bound = launch.tasks.iter().map(|_| OnceLock::new()).collect();
        Tiled { outs, launch, bound }
    }
}

type Kept = VecDeque<(Vec<u8>, Tiled)>;

/// The tilings of one graph's nodes.
#[derive(Default)]
pub(crate) struct Tilings {
    /// Entries of each node.
    nodes: Mutex<Vec<Kept>>,
    /// For each node, the first node that looks the same to an engine except for its name.
    alike: Vec<Option<u32>>,
    /// The latest entries of each group of alike nodes, by their first node.
    first: Mutex<HashMap<u32, Kept>>,
    /// For each group of alike nodes whose large constants may differ, by their first node: whether
    /// a launch for any such constants is the launch for given ones. Such a group shares only
    /// launches that engines gave without knowing the constants.
    veiled: HashMap<u32, OnceLock<bool>>,
}

/// Attributes that a kernel may depend on.
fn seen(n: &Node) -> impl Iterator<Item = &Attr> {
    n.attrs.as_slice().iter().filter(|a| !NAMES.contains(&a.key.as_str()))
}

/// What an engine sees of a node, except for its name and the sizes that it reads; `None` if it is
/// too much to compare.
fn looks(graph: &Graph, n: &Node, engine: &str) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let text = |out: &mut Vec<u8>, s: &str| {
        out.extend_from_slice(&(s.len() as u32).to_le_bytes());
        out.extend_from_slice(s.as_bytes());
    };
    text(&mut out, n.op.as_str());
    text(&mut out, engine);
    for a in seen(n) {
        text(&mut out, a.key.as_str());
        text(&mut out, &format!("{:?}", a.value));
    }
    let outs = n.descs.iter().zip(graph.read(n));
    outs.for_each(|(d, read)| out.extend_from_slice(&[SIZED, d.dtype.code(), d.format.code(), u8::from(read)]));
    for (k, v) in n.inputs.iter().enumerate() {
        let Some(v) = v else {
            out.push(ABSENT);
            continue;
        };
        // A value that is read twice is the same value.
        let first = n.inputs.iter().position(|o| o == &Some(*v)).unwrap_or(k);
        out.extend_from_slice(&(first as u32).to_le_bytes());
        let Some((t, _)) = &graph.constants[*v as usize] else { continue };
        let desc = graph.fixed[*v as usize].as_ref()?;
        out.push(CONSTANT);
        add(&mut out, desc)?;
        if is_large(graph, *v) {
            // Which numbers it holds does not count; values that decide sizes do.
            if n.value_inputs.contains(&k) {
                return None;
            }
            out.push(ANY);
            text(&mut out, &format!("{desc:?}"));
        } else {
            out.extend_from_slice(&t.bytes()?);
        }
    }
    (out.len() <= MOST_LOOKS).then_some(out)
}

/// Whether the launch of a node contains the node's name.
fn names_itself(n: &Node, t: &Tiled) -> bool {
    let name = n.name.as_bytes();
    // Long texts are not searched but assumed to contain it.
    let within = |b: &[u8]| b.len() > MOST_LOOKS || (!name.is_empty() && b.windows(name.len()).any(|w| w == name));
    let kernel = t.launch.kernel.iter().any(|k| within(k.name.as_bytes()) || within(&k.binary));
    kernel
        || t.launch.tasks.iter().any(|t| {
            let texts = [&t.kernel_name, &t.so_name, &t.args_format];
            texts.iter().any(|s| within(s.as_bytes())) || within(&t.private) || within(&t.tiling)
        })
}

/// Whether a value is a constant of the graph that is too large to be part of a key.
pub(crate) fn is_large(graph: &Graph, v: u32) -> bool {
    let constant = graph.constants[v as usize].as_ref().filter(|(t, _)| t.dtype != DType::STRING);
    constant.is_some_and(|(t, _)| t.byte_len().is_some_and(|n| n > MOST_BYTES as u64))
}

/// Whether input `k` determines no sizes and is no constant of the graph, so that one tiling may
/// serve all of its values.
pub(crate) fn may_be_any(graph: &Graph, n: &Node, k: usize) -> bool {
    let own = n.inputs.get(k).copied().flatten().is_some_and(|v| graph.constants[v as usize].is_none());
    own && !n.value_inputs.contains(&k)
}

/// What a node's tiling depends on: types and sizes of its inputs, their known values, and whether
/// it writes in place. Constants of the graph never change and are left out. `None` if too much is
/// known or, with `By::Deciding`, if no input may have any value.
pub(crate) fn key(
    graph: &Graph,
    n: &Node,
    desc: &[Option<TensorDesc>],
    known: &[Option<ConstTensor>],
    (in_place, by): (bool, By),
) -> Option<Vec<u8>> {
    let is_any = |k: usize, v: &Option<u32>| v.is_some_and(|v| known[v as usize].is_some()) && may_be_any(graph, n, k);
    if by == By::Deciding && !n.inputs.iter().enumerate().any(|(k, v)| is_any(k, v)) {
        return None;
    }
    let mut out = Vec::with_capacity(48 * n.inputs.len());
    if in_place {
        out.push(IN_PLACE);
    }
    for (k, v) in n.inputs.iter().enumerate() {
        let Some(v) = v else {
            out.push(ABSENT);
            continue;
        };
        let v = *v as usize;
        if graph.constants[v].is_some() {
            out.push(CONSTANT);
            continue;
        }
        add(&mut out, desc[v].as_ref()?)?;
        if let Some(t) = &known[v] {
            if by == By::Deciding && may_be_any(graph, n, k) {
                out.push(ANY);
                continue;
            }
            let bytes = t.bytes().filter(|b| b.len() <= MOST_BYTES)?;
            out.push(KNOWN);
            out.extend_from_slice(&bytes);
        }
    }
    Some(out)
}

/// What the tiling of one piece of a node depends on. Never equal to a key of a whole node.
pub(crate) fn key_of_piece(cut: &Cut<'_>) -> Option<Vec<u8>> {
    let mut out = vec![PIECE];
    out.extend_from_slice(&cut.turned.to_le_bytes());
    for o in &cut.inputs {
        add(&mut out, &o.desc)?;
        if let Some(t) = &o.known {
            let bytes = t.bytes().filter(|b| b.len() <= MOST_BYTES)?;
            out.push(KNOWN);
            out.extend_from_slice(&bytes);
        }
    }
    add(&mut out, &cut.output.0)?;
    Some(out)
}

/// Adds type, format and sizes of a tensor.
fn add(key: &mut Vec<u8>, d: &TensorDesc) -> Option<()> {
    key.extend_from_slice(&[SIZED, d.dtype.code(), d.format.code(), d.shape.rank()? as u8]);
    d.shape.dims().iter().for_each(|d| key.extend_from_slice(&d.raw().to_le_bytes()));
    Some(())
}

impl Tilings {
    /// An empty cache for a graph whose nodes the compiler gave to `engines`.
    pub(crate) fn new(graph: &Graph, engines: &[String]) -> Tilings {
        let mut firsts: HashMap<Vec<u8>, Vec<u32>> = HashMap::new();
        let mut alike = vec![None; graph.nodes.len()];
        for (i, n) in (0u32..).zip(&graph.nodes).filter(|(_, n)| n.kind == Kind::Operator) {
            let engine = engines.get(i as usize).map_or("", String::as_str);
            let Some(looks) = looks(graph, n, engine) else { continue };
            let known = firsts.entry(looks).or_default();
            // The debug text of a tensor does not contain its bytes, so compare the attributes too.
            let same = known.iter().copied().find(|k| seen(&graph.nodes[*k as usize]).eq(seen(n)));
            alike[i as usize] = Some(same.unwrap_or_else(|| {
                known.push(i);
                i
            }));
        }
        // A node that is like no other one needs only its own entries.
        let mut shared = vec![false; graph.nodes.len()];
        let others = (0u32..).zip(&alike).filter_map(|(i, like)| like.filter(|like| *like != i));
        others.for_each(|like| shared[like as usize] = true);
        for (i, like) in (0u32..).zip(&mut alike) {
            *like = like.filter(|like| *like != i || shared[i as usize]);
        }
        let has_large = |i: u32| graph.nodes[i as usize].inputs.iter().flatten().any(|v| is_large(graph, *v));
        let veiled = alike.iter().flatten().filter(|i| has_large(**i)).map(|i| (*i, OnceLock::new())).collect();
        Tilings { veiled, nodes: Mutex::new(vec![Kept::new(); graph.nodes.len()]), alike, ..Tilings::default() }
    }

    /// The entry of a node for a key: its own, or that of a node that is alike.
    pub(crate) fn of(&self, graph: &Graph, node: u32, key: &[u8]) -> Option<Tiled> {
        if let Some(own) = self.get(node, key) {
            return Some(own);
        }
        let like = (*self.alike.get(node as usize)?)?;
        let found = {
            let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
            let kept = first.get_mut(&like)?;
            kept.iter().find(|k| k.0 == key)?.1.clone()
        };
        // The executor must bind the task for this node, because errors name the node.
        let own = Tiled::new(found.outs, found.launch);
        if names_itself(&graph.nodes[node as usize], &own) {
            return None;
        }
        self.put(node, key.to_vec(), own.clone());
        Some(own)
    }

    /// Whether engines shall be asked for a node without knowing its large constants, so that the
    /// nodes that are alike can share the launch. `None` if nobody has tried it yet.
    pub(crate) fn veils(&self, node: u32) -> Option<bool> {
        let like = self.alike.get(node as usize).copied().flatten();
        like.and_then(|like| self.veiled.get(&like)).map_or(Some(false), |v| v.get().copied())
    }

    /// Records whether a launch for any large constants is the launch for a node's own.
    pub(crate) fn veil(&self, node: u32, same: bool) {
        let like = self.alike.get(node as usize).copied().flatten();
        if let Some(veil) = like.and_then(|like| self.veiled.get(&like)) {
            // Another thread may have tried it at the same time.
            let _ = veil.set(same);
        }
    }

    /// Keeps an entry for a node, and for the nodes that are alike. `veiled` says whether engines
    /// did not know the node's large constants.
    pub(crate) fn found(&self, graph: &Graph, node: u32, key: Vec<u8>, tiled: &Tiled, veiled: bool) {
        let like = self.alike.get(node as usize).copied().flatten();
        let like = like.filter(|like| veiled || !self.veiled.contains_key(like));
        if let Some(like) = like.filter(|_| !names_itself(&graph.nodes[node as usize], tiled)) {
            let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
            let kept = first.entry(like).or_default();
            kept.retain(|k| k.0 != key);
            if kept.len() >= KEPT_ALIKE {
                kept.pop_front();
            }
            kept.push_back((key.clone(), tiled.clone()));
        }
        self.put(node, key, tiled.clone());
    }

    /// A node's own entry for a key.
    pub(crate) fn get(&self, node: u32, key: &[u8]) -> Option<Tiled> {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = nodes.get_mut(node as usize)?;
        let at = kept.iter().position(|k| k.0 == key)?;
        let found = kept.remove(at)?;
        let tiled = found.1.clone();
        kept.push_back(found);
        Some(tiled)
    }
    /// Keeps an entry for a node.
    pub(crate) fn put(&self, node: u32, key: Vec<u8>, tiled: Tiled) {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(kept) = nodes.get_mut(node as usize) else { return };
        // Another thread may have planned for the same sizes.
        kept.retain(|k| k.0 != key);
        if kept.len() >= KEPT {
            kept.pop_front();
        }
        kept.push_back((key, tiled));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiled(engine: &str) -> Tiled {
        let launch = Launch { engine: engine.into(), kernel: None, tasks: Vec::new(), workspaces: Vec::new() };
        Tiled::new(Arc::new([]), Arc::new(launch))
    }

    #[test]
    fn the_least_recently_used_goes_first() {
        let t = Tilings { nodes: Mutex::new(vec![Kept::new(); 9]), ..Tilings::default() };
        let get = |k: u8| t.get(7, &[k]).map(|t| t.launch.engine.clone());
        (0..4).for_each(|k| t.put(7, vec![k], tiled(&k.to_string())));
        assert_eq!(get(0).as_deref(), Some("0"));
        t.put(7, vec![4], tiled("4"));
        assert_eq!((get(1), get(0).is_some(), get(4).is_some()), (None, true, true));
        // Another node has no entry; a second entry for the same key replaces the first.
        assert!(t.get(8, &[4]).is_none());
        t.put(7, vec![4], tiled("new"));
        assert_eq!((get(4).as_deref(), get(2).is_some()), (Some("new"), true));
    }
}
