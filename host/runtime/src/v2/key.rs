//! Cache keys of plans: what a round depends on, as bytes.
use super::graph::Graph;
use super::plan::keyed;
use super::value::{Store, Value};
use ge_plugin_api::types::DType;
use std::cell::Cell;

/// Capacity in bytes up to which the memory of a key is kept for reuse.
const KEPT: usize = 64 * 1024;

thread_local! {
    /// Memory for the current key, reused by the runs on this thread.
    static MEMORY: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Calls `then` with a key that begins with the id of the previous round, in reused memory.
pub(crate) fn with<T>(round: u64, then: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    let mut key = MEMORY.take();
    key.clear();
    key.extend_from_slice(&round.to_le_bytes());
    let out = then(&mut key);
    if key.capacity() <= KEPT {
        MEMORY.set(key);
    }
    out
}

/// Adds a value to a key: its type and shape, and its bytes if they determine shapes.
pub(crate) fn value(graph: &Graph, key: &mut Vec<u8>, v: u32, value: Option<&Value<'_>>) {
    match value {
        Some(Value::Tensor(t)) => {
            tensor(graph, key, v, (t.dtype, &t.dims), || t.bytes());
            if let Store::State(s) = &t.store {
                key.push(if s.is_newest() { 4 } else { 5 });
                key.extend_from_slice(&s.capacity().to_le_bytes());
            }
        }
        Some(Value::List(..)) => key.push(2),
        Some(Value::Nothing) => key.push(3),
        None => key.push(0),
    }
}

/// Adds a tensor to a key.
pub(crate) fn tensor<'b>(
    graph: &Graph,
    key: &mut Vec<u8>,
    v: u32,
    (dtype, dims): (DType, &[u64]),
    bytes: impl FnOnce() -> &'b [u8],
) {
    key.reserve(6 + 8 * dims.len());
    key.extend_from_slice(&[1, dtype.code()]);
    key.extend_from_slice(&(dims.len() as u32).to_le_bytes());
    dims.iter().for_each(|d| key.extend_from_slice(&d.to_le_bytes()));
    if let Some(bytes) = keyed(graph, v as usize, dtype, bytes) {
        key.extend_from_slice(bytes);
    }
}
