//! `MergeWeights`: one region for all constants that tasks read; equal constants are stored once
//! (003 §9, facts 2.1).
use crate::error::MemoryFault;
use crate::error::{CompileError, Result};
use crate::ids::NodeKey;
use ge_ir::{ConstTensor, Model};
use ge_plugin_api::types::Blob;
use std::collections::HashMap;

/// Offset of the first weight in bytes (facts 2.1).
pub const START: u64 = 512;

/// Places of the constants in the weights.
#[derive(Clone, Debug, Default)]
pub struct Weights {
    /// Offset of each constant node in bytes.
    pub of: HashMap<NodeKey, u64>,
    /// The stored bytes and their offsets, in ascending order.
    pub segments: Vec<(u64, Blob)>,
    /// Total size in bytes; 0 if there are no constants.
    pub bytes: u64,
    /// Number of constants that share the bytes of an earlier one.
    pub shared: usize,
}

/// Lays out the constants of all graphs in node order. Fails if a constant does not fit into
/// memory.
pub fn merge(model: &Model) -> Result<Weights> {
    let mut w = Weights { bytes: START, ..Weights::default() };
    let mut known: HashMap<(u64, u64), Vec<usize>> = HashMap::new();
    for (gi, g) in model.graphs().iter().enumerate() {
        for n in g.nodes().filter(|n| n.is_const()) {
            let Some(t) = n.attrs().tensor("value") else { continue };
            let blob = bytes_of(n.name(), t)?;
            let key = NodeKey::new(gi, n.id());
            let digest = (blob.len() as u64, digest(&blob));
            let twin = known.get(&digest).and_then(|v| v.iter().copied().find(|s| w.segments[*s].1 == blob));
            if let Some(s) = twin {
                let at = w.segments[s].0;
                w.of.insert(key, at);
                w.shared += 1;
                continue;
            }
            let at = w.bytes;
            let next = at.checked_add(blob.len() as u64).and_then(|e| e.checked_next_multiple_of(512));
            w.bytes = next.ok_or_else(|| CompileError::internal("model", "weights overflow"))?;
            known.entry(digest).or_default().push(w.segments.len());
            w.segments.push((at, blob));
            w.of.insert(key, at);
        }
    }
    if w.segments.is_empty() {
        w.bytes = 0;
    }
    Ok(w)
}

fn bytes_of(name: &str, t: &ConstTensor) -> Result<Blob> {
    t.bytes()
        .ok_or_else(|| MemoryFault::Constant { name: name.into(), desc: format!("{}{:?}", t.dtype, t.dims) }.into())
}

/// A quick digest to find candidates for equal constants; the bytes decide equality.
fn digest(b: &[u8]) -> u64 {
    const K: u64 = 0x9E37_79B9_7F4A_7C15;
    let mut h = b.len() as u64;
    // For long constants, the ends and samples in between are enough to tell almost all apart.
    let step = (b.len() / 4096).max(1) * 8;
    let mut at = 0;
    while at + 8 <= b.len() {
        let v =
            u64::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3], b[at + 4], b[at + 5], b[at + 6], b[at + 7]]);
        h = (h.rotate_left(5) ^ v).wrapping_mul(K);
        at += step;
    }
    for &x in b.iter().rev().take(16) {
        h = (h.rotate_left(5) ^ u64::from(x)).wrapping_mul(K);
    }
    h
}
