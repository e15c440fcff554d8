//! `MatMulPanelsPass`: packs constant weights of products in single precision, once for all runs
//! and instruction sets.
//!
//! Before: `%y = MatMulV2(%x, %w)` with a constant `%w: f32[K,N]`
//! After: the same with a constant `f32[ceil(N/16),K,16]` whose original shape is `[K,N]`
//! When: the AI core has the node, all readers of the constant are such products that read it the
//! same way, and padding the columns to a multiple of sixteen makes it at most half as large again.
//! Refuses: nodes that are run slice by slice, because slices are cut along the original axes.
use super::matmul::{PRODUCTS, turned};
use ge_kernels::gemm::{pack_columns, packed_len};
use ge_plugin_api::Result;
use ge_plugin_api::abi::ROption;
use ge_plugin_api::author::slices::INPUT_AXES;
use ge_plugin_api::pass::{Pass, PassInfo, PassLevel, PassStage};
use ge_plugin_api::patch::Patch;
use ge_plugin_api::types::{AttrMap, Blob, ConstTensor, DType, Format, NodeId, Origin, Shape, TensorDesc, ValueRef};
use ge_plugin_api::view::{Graph, Node};
use std::collections::BTreeSet;

/// The pass `MatMulPanelsPass`.
pub struct MatMulPanels;

/// Number of columns of a panel.
const PANEL: usize = 16;

impl Pass for MatMulPanels {
    fn info(&self) -> PassInfo {
        PassInfo::new(
            "MatMulPanelsPass",
            PassStage::OPTIMIZE_WHOLE_GRAPH,
            PassLevel::O3,
            "packs the constant weights of products in single precision for their kernels",
        )
    }
    fn run(&self, graph: &Graph<'_>, patch: &mut Patch) -> Result<()> {
        pack_all(graph, patch, &|n, _| takes(n));
        Ok(())
    }
}

/// Packs the weights of all products that `takes` accepts. `takes` also gets the descriptor of the
/// packed input 1 once it is known.
pub(super) fn pack_all(graph: &Graph<'_>, patch: &mut Patch, takes: &dyn Fn(&Node<'_>, Option<&TensorDesc>) -> bool) {
    let mut seen = BTreeSet::new();
    for n in graph.nodes_of(&PRODUCTS).filter(|n| takes(n, None)) {
        let Some(weights) = n.input(1).filter(|v| seen.insert(*v)) else { continue };
        let turn = turned(&n).1;
        // Already packed: panels of sixteen columns look like a matrix with a leading axis of one.
        if graph.desc(weights).is_some_and(|d| d.origin.is_some()) {
            continue;
        }
        let users = graph.users(weights);
        let Some((desc, tensor)) = graph.constant(weights).and_then(|c| packed(c, turn)) else { continue };
        let alike = |n: &Node<'_>| takes(n, Some(&desc)) && turned(n).1 == turn;
        if !users.iter().all(|u| u.input == 1 && graph.find(u.node).is_some_and(|n| alike(&n))) {
            continue;
        }
        let id = replaced(graph, weights, &format!("{}_panels", n.name()), desc, tensor, patch);
        for u in users {
            patch.set_input(u.node, 1, ValueRef::new(id, 0));
            for key in ["transpose_x2", "adj_x2"] {
                if graph.node(u.node).flag(key) {
                    patch.set_attr(u.node, key, false);
                }
            }
        }
        patch.remove(weights.node);
    }
}

/// Replaces a constant by a new one that takes over the placement and other decisions about the old
/// one.
pub fn replaced(
    graph: &Graph<'_>,
    old: ValueRef,
    name: &str,
    desc: TensorDesc,
    tensor: ConstTensor,
    patch: &mut Patch,
) -> NodeId {
    let mut attrs: AttrMap = graph.node(old.node).attrs().iter().cloned().collect();
    attrs.set("value", tensor);
    patch.add("Const", name, &[], vec![desc], attrs)
}

/// Whether a node is a product on the AI core whose second factor may be packed.
fn takes(n: &Node<'_>) -> bool {
    PRODUCTS.contains(&n.op())
        && n.str("_engine") == Some("AIcoreEngine")
        && n.attr(INPUT_AXES).is_none()
        && n.input_desc(0).is_some_and(|d| d.dtype == DType::F32 && d.shape.is_static())
}

/// The panels of a constant matrix, and their descriptor. If `turn` is set, the constant is the
/// transpose of the matrix.
fn packed(c: &ConstTensor, turn: bool) -> Option<(TensorDesc, ConstTensor)> {
    let [lead @ .., rows, cols] = c.dims.as_slice() else { return None };
    if c.dtype != DType::F32 || lead.iter().any(|d| *d != 1) {
        return None;
    }
    let (rows, cols) = (usize::try_from(*rows).ok()?, usize::try_from(*cols).ok()?);
    let (k, n, step) = if turn { (cols, rows, [1, cols]) } else { (rows, cols, [cols, 1]) };
    let wide = n.next_multiple_of(PANEL);
    if k == 0 || n == 0 || wide * 2 > n * 3 {
        return None;
    }
    let bytes = c.bytes()?;
    let given: Vec<f32> = bytes.as_slice().as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
    if given.len() != k.checked_mul(n)? {
        return None;
    }
    let mut all = vec![0.0; packed_len(k, n)];
    pack_columns(&given, k, n, step[0], step[1], &mut all);
    let all: Vec<u8> = all.into_iter().flat_map(f32::to_le_bytes).collect();
    let dims = [(wide / PANEL) as u64, k as u64, PANEL as u64];
    let mut desc = TensorDesc::new(DType::F32, Shape::of(&dims));
    let whole: Vec<u64> = lead.iter().copied().chain([k as u64, n as u64]).collect();
    desc.origin = ROption::RSome(Origin { format: Format::ND, shape: Shape::of(&whole) });
    Some((desc, ConstTensor::new(DType::F32, &dims, Blob::from_owner(all))?))
}
