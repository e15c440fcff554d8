//! Tiling by shape: what a node ran as is kept under the sizes, and the values, that it was asked
//! for with. In a plan for a new shape most nodes have sizes that they had before: a token more
//! changes the attention over the past, and no other product.
use super::graph::{Graph, Node};
use super::launch::Launch;
use ge_plugin_api::types::{ConstTensor, TensorDesc};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// Kept for each node: the least recently used goes first.
const KEPT: usize = 4;
/// Values of a node that are part of what it is known by, in bytes; more is not kept.
const MOST_BYTES: usize = 512;

/// Outputs and launch of a node for some sizes.
#[derive(Clone)]
pub(crate) struct Tiled {
    pub(crate) outs: Arc<[TensorDesc]>,
    pub(crate) launch: Arc<Launch>,
}

type Kept = VecDeque<(Vec<u8>, Tiled)>;

/// What the nodes of one graph ran as.
#[derive(Default)]
pub(crate) struct Tilings {
    nodes: Mutex<HashMap<u32, Kept>>,
}

/// What a node's tiling depends on: types and sizes of what it reads, and what is known of its
/// values; constants of the graph are always the same. None: too much is known.
pub(crate) fn key(
    graph: &Graph,
    n: &Node,
    desc: &[Option<TensorDesc>],
    known: &[Option<ConstTensor>],
) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(16 * n.inputs.len());
    for v in &n.inputs {
        let Some(v) = v else {
            out.push(0);
            continue;
        };
        let v = *v as usize;
        if graph.constants[v].is_some() {
            out.push(1);
            continue;
        }
        let d = desc[v].as_ref()?;
        out.extend_from_slice(&[2, d.dtype.code(), d.format.code(), d.shape.rank()? as u8]);
        d.shape.dims().iter().for_each(|d| out.extend_from_slice(&d.raw().to_le_bytes()));
        if let Some(t) = &known[v] {
            let bytes = t.bytes().filter(|b| b.len() <= MOST_BYTES)?;
            out.push(3);
            out.extend_from_slice(&bytes);
        }
    }
    Some(out)
}

impl Tilings {
    /// What a node ran as for a key.
    pub(crate) fn get(&self, node: u32, key: &[u8]) -> Option<Tiled> {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = nodes.get_mut(&node)?;
        let at = kept.iter().position(|k| k.0 == key)?;
        let found = kept.remove(at)?;
        let tiled = found.1.clone();
        kept.push_back(found);
        Some(tiled)
    }
    /// Keeps what a node runs as.
    pub(crate) fn put(&self, node: u32, key: Vec<u8>, tiled: Tiled) {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = nodes.entry(node).or_default();
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
        Tiled { outs: Arc::new([]), launch: Arc::new(launch) }
    }

    #[test]
    fn the_least_recently_used_goes_first() {
        let t = Tilings::default();
        let get = |k: u8| t.get(7, &[k]).map(|t| t.launch.engine.clone());
        (0..4).for_each(|k| t.put(7, vec![k], tiled(&k.to_string())));
        assert_eq!(get(0).as_deref(), Some("0"));
        t.put(7, vec![4], tiled("4"));
        assert_eq!((get(1), get(0).is_some(), get(4).is_some()), (None, true, true));
        // Another node, and the same one again.
        assert!(t.get(8, &[4]).is_none());
        t.put(7, vec![4], tiled("new"));
        assert_eq!((get(4).as_deref(), get(2).is_some()), (Some("new"), true));
    }
}
