//! `OpenWeightsPass`: packs constant weights of products and convolutions, of 8-bit integers and in
//! single precision, for nodes with open sizes. Their kernels are bound to a size only when a model
//! runs, after the passes that pack for nodes of known sizes.
//!
//! Before: `%y = FusedQuantMatMul(%a : u8[n,K], ..., %b, ...)` with a constant `%b: i8[K,N]`
//! After: the same with a constant as made by `ByteWeightsPass`, `MatMulPanelsPass` and
//! `ConvFiltersPass`; a filter for images of any size becomes `f32[1,N]` whose original shape is
//! that of the filter: it holds first the filter, then the filter transformed for minimal
//! filtering, packed for few output positions, or both
//! When: the op store has the kernel for each trial of the open sizes, and the conditions of those
//! passes hold. An open size of the first input that must equal a size of the weights is that size:
//! the inner size of a product, the channels of a convolution.
//! Refuses: sizes without a name; nodes of other engines; filters in single precision for images of
//! any size, if the largest images take the filter unchanged or if the filter is large, unless its
//! windows lie side by side.
use super::matmul::{PRODUCTS, turned};
use super::{attrs_of, byte_weights, filters, has_kernel_for, open, panels, signature};
use crate::families::conv;
use crate::sig::Sig;
use ge_plugin_api::Result;
use ge_plugin_api::author::slices::INPUT_AXES;
use ge_plugin_api::pass::{Pass, PassInfo, PassLevel, PassStage};
use ge_plugin_api::patch::Patch;
use ge_plugin_api::types::{DType, Dim, Shape, TensorDesc};
use ge_plugin_api::view::{Graph, Node};

/// The pass `OpenWeightsPass`.
pub struct OpenWeights;

impl Pass for OpenWeights {
    fn info(&self) -> PassInfo {
        let help = "packs the constant weights of products and convolutions of open sizes for their kernels";
        PassInfo::new("OpenWeightsPass", PassStage::AFTER_PRECISION_REFINE, PassLevel::O3, help)
    }
    fn run(&self, graph: &Graph<'_>, patch: &mut Patch) -> Result<()> {
        for n in graph.nodes_of(&byte_weights::OPS).filter(is_open) {
            if let Some(ahead) =
                byte_weights::ahead(&n, trials(&n).into_iter().next()).filter(|a| takes(&n, a.at as usize, &a.desc))
            {
                ahead.put(&n, patch);
            }
        }
        for n in graph.nodes_of(&filters::OPS).filter(is_open) {
            if let Some(filter) = filter_of(&n).filter(|(desc, _)| takes(&n, 1, desc)) {
                filters::put(&n, filter, patch);
            }
        }
        panels::pack_all(graph, patch, &|n, packed| {
            let single = n.input_desc(0).is_some_and(|d| d.dtype == DType::F32);
            PRODUCTS.contains(&n.op()) && single && is_open(n) && packed.is_none_or(|d| takes(n, 1, d))
        });
        Ok(())
    }
}

/// The filter of a convolution: if only the number of images is open, in the form for many images;
/// else in all forms that images of some size use.
fn filter_of(n: &Node<'_>) -> Option<filters::Filter> {
    let ends = [first(n)?, n.outputs().first()?.clone()];
    let any_size = ends.iter().any(|d| d.shape.dims().iter().skip(1).any(|d| !d.is_known()));
    let sigs = trials(n);
    filters::ahead(n, |w| if any_size { conv::at_hand(&sigs, w) } else { conv::laid_out(sigs.first()?, w) })
}

/// The signatures of a node in the trials of its open sizes, up to the first that has none.
pub(super) fn trials(n: &Node<'_>) -> Vec<Sig> {
    let (attrs, given) = (attrs_of(n), given(n));
    let all = open::trials(&given.iter().map(Option::as_ref).collect::<Vec<_>>()).unwrap_or_default();
    all.iter().map_while(|t| signature(n.op(), t, 1, &attrs).ok()).collect()
}

/// The descriptors of the inputs and of the first output.
fn given(n: &Node<'_>) -> Vec<Option<TensorDesc>> {
    let graph = n.graph();
    let others = n.inputs().iter().skip(1).map(|v| graph.desc(*v));
    [first(n)].into_iter().chain(others.chain([n.outputs().first()]).map(|d| d.cloned())).collect()
}

/// The descriptor of the first input, with the size that its weights give it.
fn first(n: &Node<'_>) -> Option<TensorDesc> {
    let desc = n.input_desc(0)?;
    let mut dims: Vec<Dim> = desc.shape.dims().to_vec();
    if let Some((axis, size)) = shared(n, desc)
        && let Some(dim) = dims.get_mut(axis).filter(|d| !d.is_known())
    {
        *dim = Dim::known(size);
        return Some(TensorDesc { shape: Shape::new(dims), ..desc.clone() });
    }
    Some(desc.clone())
}

/// The axis of the first input whose size must be one of the constant weights, and this size.
fn shared(n: &Node<'_>, first: &TensorDesc) -> Option<(usize, u64)> {
    let at = if n.op().starts_with("QLinear") || n.op() == "FusedQuantMatMul" { 3 } else { 1 };
    let weights = n.input_desc(at).filter(|d| d.origin.is_none()).and(n.const_input(at))?;
    let ([.., rows, columns], rank) = (weights.dims.as_slice(), first.shape.rank()?) else { return None };
    if let [outer, inner, _, ..] = weights.dims[..]
        && is_convolution(n)
    {
        let groups = u64::try_from(n.int("groups").or(n.int("group")).unwrap_or(1)).ok()?;
        let is_transposed = n.op().contains("Transpose");
        return Some((1, if is_transposed { outer } else { inner.checked_mul(groups)? }));
    }
    let (turned_x1, turned_x2) = turned(n);
    let axis = rank.checked_sub(if turned_x1 && rank > 1 { 2 } else { 1 })?;
    Some((axis, if turned_x2 { *columns } else { *rows }))
}

/// Whether a node has channels at axis 1, and a filter.
fn is_convolution(n: &Node<'_>) -> bool {
    matches!(n.op(), "QLinearConv" | "ConvInteger") || filters::OPS.contains(&n.op())
}

/// Whether a node has an open size and is not placed on another engine.
fn is_open(n: &Node<'_>) -> bool {
    let ours = n.str("_engine").is_none_or(|e| e == "AIcoreEngine") && n.attr(INPUT_AXES).is_none();
    ours && n.outputs().iter().any(|d| !d.shape.is_static())
}

/// Whether the store has a kernel with weights of this descriptor, in every trial of the open
/// sizes.
fn takes(n: &Node<'_>, at: usize, weights: &TensorDesc) -> bool {
    let given = given(n);
    let mut given: Vec<Option<&TensorDesc>> = given.iter().map(Option::as_ref).collect();
    let Some(place) = given.get_mut(at) else { return false };
    *place = Some(weights);
    let mut attrs = attrs_of(n);
    for key in ["transpose_x2", "adj_x2"] {
        if n.flag(key) {
            attrs.set(key, false);
        }
    }
    has_kernel_for(n.op(), &given, 1, &attrs).is_ok()
}
