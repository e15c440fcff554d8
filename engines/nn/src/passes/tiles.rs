//! `ConvTilesPass`: constant filters of small windows are changed for minimal filtering, once and for
//! every run and instruction set.
//!
//! Before: `%y = FusedConv(%x, %w, ...)` with a constant `%w: f32[O,C,3,3]`
//! After: the same with a constant of one axis, whose original shape is `[O,C,3,3]`: the filter,
//! which units with very large numbers need, and behind it what `ge_kernels::conv::change_filters`
//! makes of it
//! When: the AI core has the node and alone reads the constant, minimal filtering costs less than
//! plain products, and the changed filters stay in the caches.
//! Refuses: filters with numbers of 2^40 and more, or that are none; nodes that are run slice by
//! slice.
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

/// The pass.
pub struct ConvTiles;

impl Pass for ConvTiles {
    fn info(&self) -> PassInfo {
        PassInfo::new(
            "ConvTilesPass",
            PassStage::OPTIMIZE_WHOLE_GRAPH,
            PassLevel::O3,
            "changes the constant filters of convolutions for minimal filtering",
        )
    }
    fn run(&self, graph: &Graph<'_>, patch: &mut Patch) -> Result<()> {
        for n in graph.nodes_of(&["Conv2D", "FusedConv"]) {
            if n.str("_engine") != Some("AIcoreEngine") || n.attr(INPUT_AXES).is_some() {
                continue;
            }
            let Some(weights) = n.input(1).filter(|v| graph.users(*v).len() == 1) else { continue };
            if let Some((desc, tensor)) = ahead(&n, weights) {
                let id = replaced(graph, weights, &format!("{}_changed", n.name()), desc, tensor, patch);
                patch.set_input(n.id(), 1, ValueRef::new(id, 0));
                patch.remove(weights.node);
            }
        }
        Ok(())
    }
}

/// The filter of a node with its changed numbers, where it pays, and its descriptor.
fn ahead(n: &Node<'_>, weights: ValueRef) -> Option<(TensorDesc, ConstTensor)> {
    let graph = n.graph();
    let (desc, c) = (graph.desc(weights)?, graph.constant(weights)?);
    let single = [n.input_desc(0)?, n.outputs().first()?].iter().all(|d| d.dtype == DType::F32);
    if !single || c.dtype != DType::F32 || desc.origin.is_some() || c.dims.len() != 4 {
        return None;
    }
    let sig = Sig::of_node(n).ok()?;
    let bytes = c.bytes()?;
    let given: Vec<f32> = bytes.as_slice().as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
    let all = conv::changed(&sig, &given)?;
    let dims = [all.len() as u64];
    let all: Vec<u8> = all.into_iter().flat_map(f32::to_le_bytes).collect();
    let mut flat = TensorDesc::new(DType::F32, Shape::of(&dims));
    flat.origin = ROption::RSome(Origin { format: desc.origin_format(), shape: Shape::of(&c.dims) });
    Some((flat, ConstTensor::new(DType::F32, &dims, Blob::from_owner(all))?))
}
