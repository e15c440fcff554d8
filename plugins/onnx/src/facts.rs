//! What is certain of the values that mappings make: whether they are tensors, their element types
//! and ranks.
use crate::inputs;
use crate::ops::{direct, type_attr};
use crate::proto::ValueInfoProto;
use crate::ranks;
use crate::read::Messages;
use ge_plugin_api::frontend::ForeignNode;
use ge_plugin_api::types::tensor::Container;
use ge_plugin_api::types::{DType, Dim, Shape, TensorDesc};
use std::cell::OnceCell;
use std::collections::HashMap;
use std::rc::Rc;

/// Kind, element type and rank of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Facts {
    container: Container,
    dtype: DType,
    rank: Option<usize>,
}

impl Facts {
    /// What is certain of output `i` of a node.
    pub fn of_output(n: &ForeignNode, i: usize) -> Facts {
        Facts { container: output_container(n), dtype: output_type(n, i), rank: ranks::output_rank(n, i) }
    }
    /// What a descriptor says.
    fn of(d: &TensorDesc) -> Facts {
        Facts { container: d.container, dtype: d.dtype, rank: d.shape.rank() }
    }
    /// Whether nothing that matters is open: the elements of sequences and optionals may have any
    /// rank.
    pub fn is_whole(&self) -> bool {
        self.dtype != DType::UNKNOWN && (self.rank.is_some() || self.container != Container::TENSOR)
    }
    /// These facts; what they leave open is taken from others.
    fn or(self, other: Facts) -> Facts {
        Facts {
            container: if self.container == Container::TENSOR { other.container } else { self.container },
            dtype: if self.dtype == DType::UNKNOWN { other.dtype } else { self.dtype },
            rank: self.rank.or(other.rank),
        }
    }
}

/// Whether the outputs are tensors, sequences or optionals.
fn output_container(n: &ForeignNode) -> Container {
    let given = n.desc(0).map_or(Container::TENSOR, |d| d.container);
    match n.op.as_str() {
        "SequenceEmpty" | "SequenceConstruct" | "SequenceInsert" | "SequenceErase" | "SplitToSequence" => {
            Container::SEQ
        }
        "Identity" => given,
        "Optional" if given == Container::SEQ => Container::OPT_SEQ,
        "Optional" => Container::OPT,
        "OptionalGetElement" if matches!(given, Container::SEQ | Container::OPT_SEQ) => Container::SEQ,
        _ => Container::TENSOR,
    }
}

/// Whether the first output of an operator of `ai.onnx` has the element type of input 0; besides the
/// element-wise operators and the reductions.
fn keeps_type(op: &str) -> bool {
    matches!(
        op,
        "Affine"
            | "AveragePool"
            | "BatchNormalization"
            | "BitShift"
            | "CenterCropPad"
            | "Clip"
            | "Compress"
            | "Concat"
            | "Conv"
            | "ConvTranspose"
            | "Crop"
            | "CumProd"
            | "CumSum"
            | "DeformConv"
            | "DepthToSpace"
            | "Det"
            | "Dropout"
            | "DynamicSlice"
            | "Einsum"
            | "Expand"
            | "Flatten"
            | "Gather"
            | "GatherElements"
            | "GatherND"
            | "GRU"
            | "Gemm"
            | "GlobalAveragePool"
            | "GlobalLpPool"
            | "GlobalMaxPool"
            | "GridSample"
            | "GroupNormalization"
            | "Hardmax"
            | "ImageScaler"
            | "InstanceNormalization"
            | "LRN"
            | "LSTM"
            | "LayerNormalization"
            | "LogSoftmax"
            | "LpNormalization"
            | "LpPool"
            | "MatMul"
            | "Max"
            | "MaxPool"
            | "Mean"
            | "MeanVarianceNormalization"
            | "Min"
            | "Mod"
            | "Pad"
            | "ParametricSoftplus"
            | "RMSNormalization"
            | "RNN"
            | "Range"
            | "Reshape"
            | "Resize"
            | "ReverseSequence"
            | "Scale"
            | "ScaledTanh"
            | "Scatter"
            | "ScatterElements"
            | "ScatterND"
            | "Slice"
            | "Softmax"
            | "SpaceToDepth"
            | "Split"
            | "Squeeze"
            | "Sum"
            | "Tile"
            | "TopK"
            | "Transpose"
            | "Trilu"
            | "Unsqueeze"
            | "Upsample"
    )
}

/// The element type of output `i`, or `UNKNOWN`.
fn output_type(n: &ForeignNode, i: usize) -> DType {
    let of = |i: usize| n.desc(i).map_or(DType::UNKNOWN, |d| d.dtype);
    if n.domain != "ai.onnx" {
        return DType::UNKNOWN;
    }
    match n.op.as_str() {
        "Cast" => type_attr(n, "to").ok().flatten().unwrap_or(DType::UNKNOWN),
        "Equal" | "Greater" | "GreaterOrEqual" | "Less" | "LessOrEqual" | "IsInf" | "IsNaN" => DType::BOOL,
        "Where" | "CastLike" => of(1),
        "QuantizeLinear" | "DequantizeLinear" => match type_attr(n, "output_dtype") {
            Ok(Some(t)) => t,
            _ if n.op == "QuantizeLinear" => of(2),
            _ => of(1),
        },
        "Split" => of(0),
        op if i == 0 && (direct::is_elementwise(op) || op.starts_with("Reduce") || keeps_type(op)) => of(0),
        _ => DType::UNKNOWN,
    }
}

/// Cache of descriptors that state no more than such facts.
#[derive(Default)]
pub struct Shared(HashMap<Facts, Rc<TensorDesc>>);

impl Shared {
    /// The descriptor that states this.
    pub fn desc(&mut self, f: Facts) -> Rc<TensorDesc> {
        let make = || TensorDesc { container: f.container, dtype: f.dtype, ..ranks::desc_of_rank(f.rank) };
        self.0.entry(f).or_insert_with(|| make().into()).clone()
    }

    /// The descriptor of a value of which the operator says `own`, inference `inferred` and the
    /// model `stated`. Sizes are taken from inference alone, and only if they are constant.
    pub fn completed(&mut self, own: Facts, inferred: Option<&TensorDesc>, stated: Option<Facts>) -> Rc<TensorDesc> {
        let known = [inferred.map(Facts::of), stated].into_iter().flatten().fold(own, Facts::or);
        match inferred.filter(|d| d.shape.rank() == known.rank && known.container == Container::TENSOR) {
            Some(d) if d.shape.dims().iter().any(|d| d.size().is_some()) => {
                let shape = Shape::new(d.shape.dims().iter().map(|d| d.size().map_or(Dim::UNKNOWN, Dim::known)));
                TensorDesc::new(known.dtype, shape).into()
            }
            _ => self.desc(known),
        }
    }
}

/// What a model states of the values of its main graph, besides inputs and outputs. It is read when
/// it is asked for first.
pub struct Stated<'m> {
    entries: &'m Messages<ValueInfoProto>,
    by_name: OnceCell<HashMap<String, Facts>>,
}

impl<'m> Stated<'m> {
    /// The statements of these entries.
    pub fn of(entries: &'m Messages<ValueInfoProto>) -> Stated<'m> {
        Stated { entries, by_name: OnceCell::new() }
    }
    /// What is stated of a value. An entry that does not parse states nothing.
    pub fn facts(&self, name: &str) -> Option<Facts> {
        let read = || {
            let all = (0..self.entries.len()).filter_map(|k| self.entries.get(k).ok());
            all.filter_map(|v| Some((v.name.clone(), Facts::of(&inputs::declared(&v).ok()?)))).collect()
        };
        self.by_name.get_or_init(read).get(name).copied()
    }
}
