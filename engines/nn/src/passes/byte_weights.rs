//! `ByteWeightsPass`: packs constant weights of products and convolutions of 8-bit integers, once
//! for all runs and instruction sets.
//!
//! Before: `%y = FusedQuantMatMul(%a, ..., %b, ...)` with a constant `%b: i8[K,N]`
//! After: the same with a constant of one axis, whose original shape is `[K,N]`: the panels of
//! `ge_kernels::gemm::int8`, followed by the sums of the columns; `transpose_x2` is false
//!
//! The filter of `QLinearConv` and `ConvInteger` gets the form of `ge_kernels::conv::pack_filter`;
//! a signed filter in FRACTAL_Z already has that form. For 3x3 windows with stride one, the result
//! of `ge_kernels::conv::change_byte_filters` for it and its constant zero points follows, if that
//! costs less than plain products. Unsigned values are stored with their highest bit flipped, as
//! the kernels expect; their type stays unsigned.
//! When: the AI core has the node and no other node reads the constant.
//! Refuses: products of one column, whose bytes are read without packing; nodes that are run slice
//! by slice.
use super::panels::replaced;
use crate::families::{qconv, qmatmul};
use crate::sig::Sig;
use ge_kernels::conv::{ConvSpec, pack_filter, packed_filter_len};
use ge_plugin_api::Result;
use ge_plugin_api::abi::ROption;
use ge_plugin_api::author::slices::INPUT_AXES;
use ge_plugin_api::pass::{Pass, PassInfo, PassLevel, PassStage};
use ge_plugin_api::patch::Patch;
use ge_plugin_api::types::{Blob, ConstTensor, DType, Format, Origin, Shape, TensorDesc, ValueRef};
use ge_plugin_api::view::{Graph, Node};

/// The pass `ByteWeightsPass`.
pub struct ByteWeights;

impl Pass for ByteWeights {
    fn info(&self) -> PassInfo {
        PassInfo::new(
            "ByteWeightsPass",
            PassStage::OPTIMIZE_WHOLE_GRAPH,
            PassLevel::O3,
            "packs the constant weights of products and convolutions of bytes for their kernels",
        )
    }
    fn run(&self, graph: &Graph<'_>, patch: &mut Patch) -> Result<()> {
        for n in graph.nodes_of(&OPS) {
            if n.str("_engine") != Some("AIcoreEngine") || n.attr(INPUT_AXES).is_some() {
                continue;
            }
            if let Some(ahead) = ahead(&n, Sig::of_node(&n).ok()) {
                ahead.put(&n, patch);
            }
        }
        Ok(())
    }
}

/// Operators whose constant weights may be packed.
pub(super) const OPS: [&str; 5] = ["FusedQuantMatMul", "QLinearMatMul", "MatMulInteger", "QLinearConv", "ConvInteger"];

/// The packed weights of a node, the input they replace, and the original weights.
pub(super) struct Ahead {
    pub(super) at: u32,
    pub(super) desc: TensorDesc,
    weights: ValueRef,
    tensor: ConstTensor,
}

impl Ahead {
    /// Replaces the weights of the node by the packed ones.
    pub(super) fn put(self, n: &Node<'_>, patch: &mut Patch) {
        let id = replaced(&n.graph(), self.weights, &format!("{}_packed", n.name()), self.desc, self.tensor, patch);
        patch.set_input(n.id(), self.at, ValueRef::new(id, 0));
        if n.flag("transpose_x2") {
            patch.set_attr(n.id(), "transpose_x2", false);
        }
        patch.remove(self.weights.node);
    }
}

/// Packs the weights of a node if they are a constant that only this node reads. The sizes in `sig`
/// decide whether a filter is also transformed for minimal filtering.
pub(super) fn ahead(n: &Node<'_>, sig: Option<Sig>) -> Option<Ahead> {
    let (at, is_filter) = match n.op() {
        "FusedQuantMatMul" | "QLinearMatMul" => (3, false),
        "MatMulInteger" => (1, false),
        "QLinearConv" => (3, true),
        "ConvInteger" => (1, true),
        _ => return None,
    };
    let graph = n.graph();
    let weights = n.input(at as usize).filter(|v| graph.users(*v).len() == 1)?;
    let (desc, c) = (graph.desc(weights)?, graph.constant(weights)?);
    if !matches!(c.dtype, DType::I8 | DType::U8) || desc.shape.rank() == Some(1) {
        return None;
    }
    let packed = if is_filter { of_filter(n, desc, c, sig.as_ref()) } else { of_product(n, desc, c) }?;
    let dims = [packed.bytes.len() as u64];
    let tensor = ConstTensor::new(c.dtype, &dims, Blob::from_owner(packed.bytes))?;
    let mut desc = TensorDesc::new(c.dtype, Shape::of(&dims));
    desc.origin = ROption::RSome(Origin { format: packed.format, shape: Shape::of(&packed.whole) });
    Some(Ahead { at, desc, weights, tensor })
}

/// Packed weights, and the layout and sizes of the original.
struct Packed {
    bytes: Vec<u8>,
    format: Format,
    whole: Vec<u64>,
}

fn sizes(dims: &[u64]) -> Option<Vec<usize>> {
    dims.iter().map(|d| usize::try_from(*d).ok()).collect()
}

/// The bytes as signed values, as kernels expect the second factor.
fn signed(c: &ConstTensor) -> Option<Vec<i8>> {
    let turn = if c.dtype == DType::U8 { -128 } else { 0 };
    Some(c.bytes()?.iter().map(|v| *v as i8 ^ turn).collect())
}

fn of_product(n: &Node<'_>, desc: &TensorDesc, c: &ConstTensor) -> Option<Packed> {
    let dims = sizes(&c.dims)?;
    let [lead @ .., rows, cols] = &dims[..] else { return None };
    let turn = n.flag("transpose_x2");
    let (k, wide) = if turn { (*cols, *rows) } else { (*rows, *cols) };
    if desc.origin.is_some() || lead.iter().any(|d| *d != 1) || k == 0 || wide < 2 {
        return None;
    }
    let bytes = qmatmul::packed(&signed(c)?, [k, wide], turn).into_iter().map(|v| v as u8).collect();
    let whole = lead.iter().map(|_| 1).chain([k as u64, wide as u64]).collect();
    Some(Packed { bytes, format: Format::ND, whole })
}

fn of_filter(n: &Node<'_>, desc: &TensorDesc, c: &ConstTensor, sig: Option<&Sig>) -> Option<Packed> {
    let whole = desc.origin_shape().sizes()?;
    let format = desc.origin_format();
    let given = signed(c)?;
    let changed = sig.and_then(|sig| changed(n, c, &given, sig));
    let packed = match desc.format {
        // Already in this form, but the sign or the transformed filter may be missing.
        Format::FRACTAL_Z if c.dtype == DType::U8 || changed.is_some() => given,
        Format::FRACTAL_Z => return None,
        _ if desc.origin.is_some() => return None,
        _ => {
            let spec = filter_of(&sizes(&whole)?, n.int("group").unwrap_or(1))?;
            let mut all = vec![0; packed_filter_len(&spec)];
            pack_filter(&spec, &given, &mut all);
            all
        }
    };
    let bytes = packed.into_iter().map(|v| v as u8).chain(changed.into_iter().flatten()).collect();
    Some(Packed { bytes, format, whole })
}

/// The filter transformed for minimal filtering, if that pays.
fn changed(n: &Node<'_>, c: &ConstTensor, given: &[i8], sig: &Sig) -> Option<Vec<u8>> {
    let unsigned = c.dtype == DType::U8;
    let zeros = match n.input(qconv::filter_zero(n.op())?) {
        Some(v) => n
            .graph()
            .constant(v)?
            .bytes()?
            .iter()
            .map(|z| if unsigned { i32::from(*z) - 128 } else { i32::from(*z as i8) })
            .collect(),
        None if unsigned => vec![-128],
        None => vec![],
    };
    qconv::changed(sig, given, &zeros)
}

/// The convolution parameters needed for packing a filter.
fn filter_of(whole: &[usize], groups: i64) -> Option<ConvSpec> {
    let groups = usize::try_from(groups).ok().filter(|g| *g > 0)?;
    let [o, c, taps @ ..] = whole else { return None };
    if !(1..=3).contains(&taps.len()) || whole.contains(&0) || o % groups != 0 {
        return None;
    }
    let mut spec = ConvSpec::square(1, [c.checked_mul(groups)?, *o], 1, 1);
    spec.groups = groups;
    spec.kernel = [1; 3];
    spec.kernel[3 - taps.len()..].copy_from_slice(taps);
    Some(spec)
}
