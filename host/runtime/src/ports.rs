//! What runs of a model get and give, by number: found once, when the model is loaded.
use ge_model::CompiledModel;
use ge_plugin_api::types::{DType, Shape};

/// Inputs and outputs of a model.
#[derive(Default)]
pub(crate) struct Ports {
    pub(crate) inputs: Vec<Input>,
    pub(crate) outputs: Vec<Output>,
}

/// An input.
pub(crate) struct Input {
    pub(crate) dtype: DType,
    pub(crate) dims: Vec<u64>,
    /// Bytes of its tensor; None where they are settled by each run.
    pub(crate) bytes: Option<u64>,
    /// Bytes of the memory that a run reads it from: with gears, that of the largest.
    pub(crate) room: u64,
    /// Whether a run may write over it.
    pub(crate) overwritten: bool,
}

/// An output.
pub(crate) struct Output {
    pub(crate) dtype: DType,
    /// With gears none: the run tells.
    pub(crate) dims: Vec<u64>,
    /// Bytes of its memory; None: its type has no width.
    pub(crate) bytes: Option<u64>,
    /// The input in whose memory it lies.
    pub(crate) of_input: Option<usize>,
}

impl Ports {
    pub(crate) fn new(m: &CompiledModel) -> Ports {
        let zero_copy = |output: bool, k: usize| {
            m.memory.zero_copy.iter().filter(move |z| z.output == output && z.index as usize == k)
        };
        let input = |(k, i): (usize, &ge_model::IoInfo)| Input {
            dtype: i.desc.dtype,
            dims: i.desc.shape.sizes().unwrap_or_default(),
            bytes: i.desc.data_bytes(),
            room: m.input_bytes(k).unwrap_or(0),
            overwritten: zero_copy(false, k).any(|z| z.overwritten),
        };
        let output = |(k, o): (usize, &ge_model::IoInfo)| {
            let dtype = o.desc.dtype;
            if m.gears.is_some() {
                return Output { dtype, dims: Vec::new(), bytes: m.output_bytes(k).or(Some(0)), of_input: None };
            }
            let dims = o.desc.shape.sizes().unwrap_or_default();
            let bytes = Shape::of(&dims).count().and_then(|c| dtype.bytes_of(c));
            let of_input = zero_copy(true, k).next().and_then(|z| z.of_input).map(|i| i as usize);
            Output { dtype, dims, bytes, of_input }
        };
        Ports {
            inputs: m.inputs.iter().enumerate().map(input).collect(),
            outputs: m.outputs.iter().enumerate().map(output).collect(),
        }
    }
}
