//! Folding of one node by a host kernel, from constants to constants.
use crate::toolbox::{EngineEntry, Toolbox};
use ge_ir::{ConstTensor, DType};
use ge_plugin_api::engine::flags as engine_flags;
use ge_plugin_api::kernel::{HostTensor, TensorView};
use ge_plugin_api::ops::flags;
use ge_plugin_api::types::{AttrMap, Blob};
use ge_plugin_api::view::Node;

/// A result of more than this many bytes that is larger than all constant inputs together is kept
/// only if the file may still grow ([`Growth`](crate::toolbox::Growth), DESIGN 10).
const KEEP_BYTES: u64 = 1 << 20;
struct Owned(HostTensor);
impl AsRef<[u8]> for Owned {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

/// Whether a result of `bytes_out` bytes, computed from `bytes_in` bytes of constants, is kept in
/// any case.
pub fn keeps(bytes_out: u64, bytes_in: u64) -> bool {
    bytes_out <= KEEP_BYTES || bytes_out <= bytes_in
}

/// The engine whose host kernels fold constants, if one is enabled.
pub fn folding_engine(toolbox: &Toolbox) -> Option<&EngineEntry> {
    toolbox.engines.iter().find(|e| e.excluded.is_none() && e.info.flags & engine_flags::FOLDS_CONSTANTS != 0)
}

/// Folds a node if all its inputs are constants and its operator allows it. Returns `None` if it
/// was not folded, which is never an error.
pub fn fold(toolbox: &Toolbox, engine: &EngineEntry, node: &Node<'_>) -> Option<Vec<ConstTensor>> {
    let op = toolbox.op(node.op_key())?;
    if op.proto.flags & (flags::RANDOM | flags::STATEFUL | flags::COMMUNICATION) != 0 || !op.proto.subgraphs.is_empty()
    {
        return None;
    }
    if !node.controls().is_empty() || node.inputs().is_empty() || node.inputs().iter().all(|v| v.is_absent()) {
        return None;
    }
    if !engine.object.has_host_kernel(node.op()) {
        return None;
    }
    // A host kernel sees only sizes. For a value in another layout its result would be wrong,
    // unless the operator changes the layout.
    let laid = |i: usize| node.input_desc(i).is_some_and(|d| d.origin.is_some());
    if op.proto.flags & flags::TRANS_OP == 0 && (0..node.inputs().len()).any(laid) {
        return None;
    }
    let mut tensors: Vec<Option<(ConstTensor, Blob)>> = Vec::new();
    let mut bytes_in = 0u64;
    for (i, v) in node.inputs().iter().enumerate() {
        if v.is_absent() {
            tensors.push(None);
            continue;
        }
        let t = node.const_input(i)?;
        bytes_in = bytes_in.saturating_add(t.byte_len()?);
        tensors.push(Some((t.clone(), Blob::empty())));
    }
    let bytes_out: Option<u64> = node.outputs().iter().map(|d| d.data_bytes()).try_fold(0u64, |a, b| a.checked_add(b?));
    let kept = |out: u64| keeps(out, bytes_in) || toolbox.growth.has(out - bytes_in);
    if bytes_out.is_some_and(|b| !kept(b)) || bytes_in > 1 << 30 {
        return None;
    }
    for (t, b) in tensors.iter_mut().flatten() {
        *b = aligned(t.bytes()?)?;
    }
    let views: Vec<Option<TensorView<'_>>> = tensors
        .iter()
        .map(|t| t.as_ref().map(|(t, b)| TensorView { dtype: t.dtype, dims: &t.dims, bytes: b }))
        .collect();
    let types: Vec<DType> = node.outputs().iter().map(|d| d.dtype).collect();
    let attrs: AttrMap = node.attrs().into();
    let made = engine.object.run_host_kernel(node.op(), node.name(), &attrs, &views, &types).ok()?;
    let total: u64 = made.iter().map(|t| t.bytes().len() as u64).sum();
    if !kept(total) {
        return None;
    }
    if !keeps(total, bytes_in) {
        toolbox.growth.take(total - bytes_in);
    }
    made.into_iter()
        .map(|t| {
            let (dtype, dims) = (t.dtype, t.dims.to_vec());
            ConstTensor::new(dtype, &dims, Blob::from_owner(Owned(t)))
        })
        .collect()
}

/// Returns the same bytes at an address that is a multiple of 16; copies them only if they are not
/// aligned already.
fn aligned(b: Blob) -> Option<Blob> {
    if (b.as_ptr() as usize).is_multiple_of(16) {
        return Some(b);
    }
    let t = HostTensor::from_bytes(DType::U8, &[b.len() as u64], &b).ok()?;
    Some(Blob::from_owner(Owned(t)))
}
