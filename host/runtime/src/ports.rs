//! Inputs and outputs of a model by number, computed once when the model is loaded.
use ge_model::CompiledModel;
use ge_plugin_api::types::{DType, Shape};

/// Inputs and outputs of a model.
#[derive(Default)]
pub(crate) struct Ports {
    pub(crate) inputs: Vec<Input>,
    pub(crate) outputs: Vec<Output>,
}

/// An input of a model.
pub(crate) struct Input {
    pub(crate) dtype: DType,
    pub(crate) dims: Vec<u64>,
    /// Size of its tensor in bytes; `None` if each run determines it.
    pub(crate) bytes: Option<u64>,
    /// Size in bytes of the memory that a run reads; with gears, the size of the largest gear.
    pub(crate) room: u64,
    /// Whether a run may overwrite it.
    pub(crate) overwritten: bool,
}

/// An output of a model.
pub(crate) struct Output {
    pub(crate) dtype: DType,
    /// Dimensions; empty for a model with gears, where each run determines them.
    pub(crate) dims: Vec<u64>,
    /// Size of its memory in bytes; `None` if its type has no fixed width.
    pub(crate) bytes: Option<u64>,
    /// The input whose memory the output uses, if any.
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
