//! `ConvFiltersPass`: lays out constant filters of convolutions for their kernels, once for all
//! runs and instruction sets.
//!
//! Before: `%y = FusedConv(%x, %w, ...)` with a constant `%w: f32[O,C,3,3]`
//! After, for minimal filtering: the same with a constant of one axis, whose original shape is
//! `[O,C,3,3]`: first the filter, which units with very large numbers need, then the result of
//! `ge_kernels::conv::change_filters`
//! After, for few output positions: the same with a constant `f32[O/16,C*3*3,16]` whose original
//! shape is `[O,C,3,3]`
//! After, for a window of which much lies in the border: the same with a constant of one axis, the
//! result of `ge_kernels::conv::pack_tap_filter`
//! After, for a transposed convolution: the same with a constant of one axis, the filter grouped by
//! the phase of the stride that its taps reach
//! When: the AI core has the node, no other node reads the constant, and `FilterPlan::cheapest`
//! chooses the form; always for a transposed convolution
//! Refuses: for minimal filtering, filters with numbers of 2^40 and more or with NaN, and filters
//! in half precision; nodes that are run slice by slice.
use super::panels::replaced;
use crate::families::conv;
use crate::sig::Sig;
use ge_plugin_api::Result;
use ge_plugin_api::abi::ROption;
use ge_plugin_api::author::slices::INPUT_AXES;
use ge_plugin_api::pass::{Pass, PassInfo, PassLevel, PassStage};
use ge_plugin_api::patch::Patch;
use ge_plugin_api::types::{Blob, ConstTensor, DType, Origin, Shape, TensorDesc, ValueRef};
use ge_plugin_api::view::{Graph, Node};
use half::{bf16, f16};

/// The pass `ConvFiltersPass`.
pub struct ConvFilters;

/// Convolutions whose filter can have these forms.
pub(super) const OPS: [&str; 4] = ["Conv2D", "FusedConv", "Conv2DTransposeD", "Conv3DTransposeD"];

impl Pass for ConvFilters {
    fn info(&self) -> PassInfo {
        PassInfo::new(
            "ConvFiltersPass",
            PassStage::OPTIMIZE_WHOLE_GRAPH,
            PassLevel::O3,
            "lays out the constant filters of convolutions: for minimal filtering, for few places, or by phases",
        )
    }
    fn run(&self, graph: &Graph<'_>, patch: &mut Patch) -> Result<()> {
        for n in graph.nodes_of(&OPS) {
            if n.str("_engine") != Some("AIcoreEngine") || n.attr(INPUT_AXES).is_some() {
                continue;
            }
            let Ok(sig) = Sig::of_node(&n) else { continue };
            if let Some(filter) = ahead(&n, |w| conv::laid_out(&sig, w)) {
                put(&n, filter, patch);
            }
        }
        Ok(())
    }
}

/// A filter in the form that the kernel reads.
pub(super) type Filter = (TensorDesc, ConstTensor);

/// The filter of a node, if no other node reads it, with its numbers laid out by `lay`.
pub(super) fn ahead(n: &Node<'_>, lay: impl Fn(&[f32]) -> Option<(Vec<f32>, Vec<u64>)>) -> Option<Filter> {
    let graph = n.graph();
    let weights = n.input(1).filter(|v| graph.users(*v).len() == 1)?;
    let (desc, c) = (graph.desc(weights)?, graph.constant(weights)?);
    let ends = [n.input_desc(0)?.dtype, n.outputs().first()?.dtype];
    let halves = [DType::F16, DType::BF16].contains(&c.dtype) && ends[0] == c.dtype;
    let fits = halves || ends == [DType::F32; 2] && c.dtype == DType::F32;
    if !fits || desc.origin.is_some() || ![4, 5].contains(&c.dims.len()) {
        return None;
    }
    let (dims, all) = match c.dtype {
        DType::F32 => laid::<4>(c, lay, f32::from_le_bytes, f32::to_le_bytes),
        DType::F16 => laid::<2>(c, lay, |b| f16::from_le_bytes(b).to_f32(), |v| f16::from_f32(v).to_le_bytes()),
        _ => laid::<2>(c, lay, |b| bf16::from_le_bytes(b).to_f32(), |v| bf16::from_f32(v).to_le_bytes()),
    }?;
    let dtype = c.dtype;
    let mut laid = TensorDesc::new(dtype, Shape::of(&dims));
    laid.origin = ROption::RSome(Origin { format: desc.origin_format(), shape: Shape::of(&c.dims) });
    Some((laid, ConstTensor::new(dtype, &dims, Blob::from_owner(all))?))
}

/// The axes and bytes of a filter whose numbers, of `N` bytes each, are laid out by `lay`.
fn laid<const N: usize>(
    c: &ConstTensor,
    lay: impl Fn(&[f32]) -> Option<(Vec<f32>, Vec<u64>)>,
    read: impl Fn([u8; N]) -> f32,
    write: impl Fn(f32) -> [u8; N],
) -> Option<(Vec<u64>, Vec<u8>)> {
    let bytes = c.bytes()?;
    let given: Vec<f32> = bytes.as_slice().as_chunks::<N>().0.iter().map(|b| read(*b)).collect();
    let (all, dims) = lay(&given)?;
    Some((dims, all.into_iter().flat_map(write).collect()))
}

/// Replaces the filter of the node.
pub(super) fn put(n: &Node<'_>, (desc, tensor): Filter, patch: &mut Patch) {
    let Some(weights) = n.input(1) else { return };
    let id = replaced(&n.graph(), weights, &format!("{}_filter", n.name()), desc, tensor, patch);
    patch.set_input(n.id(), 1, ValueRef::new(id, 0));
    patch.remove(weights.node);
}
