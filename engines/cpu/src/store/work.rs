//! Approximate number of operations of a node, for planning and for the simulated clock. An AI CPU
//! executes them one after another.
use super::Op;
use crate::kernels::{attention, conv, matrix, rnn};
use ge_plugin_api::view::Node;

/// Approximate operations per AI CPU per nanosecond.
const OPERATIONS_A_NS: u64 = 1;

/// Run time of a node's kernel in nanoseconds, without its launch; 0 if a size is not known.
pub fn time_ns(node: &Node<'_>) -> u64 {
    operations(node).unwrap_or(0) / OPERATIONS_A_NS
}

/// Number of operations of a node; additions and multiplications count as one each. `None` if a
/// size is not known.
pub fn operations(node: &Node<'_>) -> Option<u64> {
    let input = |i: usize| node.input_desc(i);
    let count = |i: usize| input(i)?.shape.count();
    let dims = |i: usize| input(i)?.shape.sizes();
    let last = |i: usize, k: usize| dims(i)?.iter().rev().nth(k).copied();
    let outputs = node.outputs().iter().map(|d| d.shape.count()).sum::<Option<u64>>()?;
    let read = (0..node.inputs().len()).filter(|i| input(*i).is_some()).map(count).sum::<Option<u64>>()?;
    let moved = outputs.saturating_add(read);
    let is_of = |family: &[Op]| family.iter().any(|o| o.name == node.op());
    let products = |n: u64, each: u64| n.saturating_mul(each).saturating_mul(2).max(moved);
    Some(if [matrix::matmul::OPS, matrix::bytes::OPS, matrix::einsum::OPS].into_iter().any(is_of) {
        let turned = ["adj_x1", "transpose_x1", "transA"].iter().any(|a| node.flag(*a));
        products(outputs, last(0, usize::from(turned)).unwrap_or(1))
    } else if is_of(conv::direct::OPS) {
        // Weights of one output channel; for a deconvolution, those of one input channel, which
        // every input element is multiplied with.
        let weights = if node.op().starts_with("QLinear") { 3 } else { 1 };
        let each = count(weights)? / dims(weights)?.first().copied().unwrap_or(1).max(1);
        products(if node.op().contains("Transpose") { read } else { outputs }, each)
    } else if is_of(attention::OPS) && node.op() != "RotaryEmbedding" {
        // Each element of a query is multiplied with every key, and its weights with every value.
        let keys = count(1)? / last(1, 0)?.max(1) / dims(1)?.first().copied().unwrap_or(1).max(1);
        products(count(0)?, keys.saturating_mul(2))
    } else if is_of(attention::linear::OPS) {
        // Each number of a value is multiplied with its head's key: in the correction, in the
        // update and in each read.
        let key = last(1, 0)? / u64::try_from(node.int("kv_num_heads")?).ok()?.max(1);
        products(count(2)?.saturating_add(dims(0)?.iter().product()), key.saturating_mul(2))
    } else if is_of(rnn::OPS) {
        // Every step of every sequence is multiplied with all weights.
        let steps = count(0)? / last(0, 0)?.max(1);
        products(steps, count(1)?.saturating_add(count(2)?))
    } else {
        moved
    })
}
