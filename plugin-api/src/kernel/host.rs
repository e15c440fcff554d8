//! Host kernels: functions from tensors to tensors.
use super::{HostTensor, RawTensor, TensorMut, TensorView};
use crate::abi::{ROption, RString, RVec, StableAbi};
use crate::diagnostic::{Error, Result};
use crate::types::{AttrMap, DType};

/// One call of a host kernel. The caller gives the memory of outputs whose shape it knows; the
/// kernel allocates the others.
pub struct KernelCtx<'a> {
    /// Operator type.
    pub op: &'a str,
    /// Name of the node, for messages.
    pub node: &'a str,
    /// Attributes of the node.
    pub attrs: &'a AttrMap,
    /// Inputs; `None` for an absent optional input.
    pub inputs: Vec<Option<TensorView<'a>>>,
    /// Outputs; `alloc_output` allocates those that are `Wanted`.
    outputs: Vec<OutputSlot<'a>>,
}

enum OutputSlot<'a> {
    Given(DType, Vec<u64>, &'a mut [u8]),
    Wanted(DType),
    Made(HostTensor),
}

impl<'a> KernelCtx<'a> {
    /// A call whose outputs have the given types and are all allocated by the kernel (constant
    /// folding, dynamic shapes).
    pub fn new(
        op: &'a str,
        node: &'a str,
        attrs: &'a AttrMap,
        inputs: Vec<Option<TensorView<'a>>>,
        output_types: &[DType],
    ) -> KernelCtx<'a> {
        KernelCtx { op, node, attrs, inputs, outputs: output_types.iter().map(|&d| OutputSlot::Wanted(d)).collect() }
    }
    /// Gives the memory of output `i`, whose shape is known. Does nothing if there is no output
    /// `i`.
    pub fn give_output(&mut self, i: usize, dtype: DType, dims: Vec<u64>, bytes: &'a mut [u8]) {
        if let Some(o) = self.outputs.get_mut(i) {
            *o = OutputSlot::Given(dtype, dims, bytes);
        }
    }
    /// Input `i`.
    /// # Errors
    /// Returns `failed` if the node has no input `i`.
    pub fn input(&self, i: usize) -> Result<TensorView<'a>> {
        self.inputs.get(i).copied().flatten().ok_or_else(|| Error::failed(format!("input {i} is missing")))
    }
    /// Input `i`, or `None` if it is absent.
    pub fn opt_input(&self, i: usize) -> Option<TensorView<'a>> {
        self.inputs.get(i).copied().flatten()
    }
    /// Number of outputs.
    pub fn output_count(&self) -> usize {
        self.outputs.len()
    }
    /// The element type that output `i` must have; `None` if there is no output `i`.
    pub fn output_dtype(&self, i: usize) -> Option<DType> {
        Some(match self.outputs.get(i)? {
            OutputSlot::Given(d, ..) | OutputSlot::Wanted(d) => *d,
            OutputSlot::Made(t) => t.dtype,
        })
    }
    /// The sizes of output `i`, if they are known already.
    pub fn output_dims(&self, i: usize) -> Option<&[u64]> {
        match self.outputs.get(i)? {
            OutputSlot::Given(_, d, _) => Some(d),
            OutputSlot::Made(t) => Some(&t.dims),
            OutputSlot::Wanted(_) => None,
        }
    }
    /// Output `i` with sizes `dims`. Uses the given memory if its shape is `dims`; allocates memory
    /// if none was given.
    /// # Errors
    /// Returns `failed` if the given memory has another shape or there is not enough memory, and
    /// `internal` if the node has no output `i`.
    pub fn alloc_output(&mut self, i: usize, dims: &[u64]) -> Result<TensorMut<'_>> {
        let n = self.outputs.len();
        let slot =
            self.outputs.get_mut(i).ok_or_else(|| Error::internal(format!("kernel writes output {i} of {n}")))?;
        if let OutputSlot::Wanted(d) = slot {
            *slot = OutputSlot::Made(HostTensor::zeroed(*d, dims)?);
        }
        match slot {
            OutputSlot::Given(dtype, planned, bytes) => {
                if planned.as_slice() != dims {
                    return Err(Error::failed(format!("output {i} has shape {dims:?}, the plan has {planned:?}")));
                }
                Ok(TensorMut { dtype: *dtype, dims: planned.clone(), bytes })
            }
            OutputSlot::Made(t) => {
                if t.dims.as_slice() != dims {
                    *t = HostTensor::zeroed(t.dtype, dims)?;
                }
                Ok(TensorMut { dtype: t.dtype, dims: dims.to_vec(), bytes: t.bytes_mut() })
            }
            OutputSlot::Wanted(_) => Err(Error::internal("output slot")),
        }
    }
    /// Sets output `i` to a whole tensor (for strings, whose byte count does not follow from the
    /// shape).
    /// # Errors
    /// Returns `failed` if the given memory has another shape or is too small, and `internal` if
    /// the node has no output `i`.
    pub fn set_output(&mut self, i: usize, tensor: HostTensor) -> Result<()> {
        match self.outputs.get_mut(i) {
            Some(OutputSlot::Given(_, dims, bytes)) => {
                if dims.as_slice() != tensor.dims.as_slice() || bytes.len() < tensor.bytes().len() {
                    return Err(Error::failed(format!("output {i} does not fit its planned memory")));
                }
                bytes[..tensor.bytes().len()].copy_from_slice(tensor.bytes());
                Ok(())
            }
            Some(o) => {
                *o = OutputSlot::Made(tensor);
                Ok(())
            }
            None => Err(Error::internal(format!("kernel writes output {i}, which the node lacks"))),
        }
    }
    /// The tensors that the kernel allocated, by output; `None` for outputs whose memory was given.
    pub fn into_made(self) -> Vec<Option<HostTensor>> {
        self.outputs.into_iter().map(|o| if let OutputSlot::Made(t) = o { Some(t) } else { None }).collect()
    }
    /// Operator and node name, for messages about this call.
    pub fn label(&self) -> String {
        format!("{} `{}`", self.op, self.node)
    }
}

/// A kernel on the host. One registration serves constant folding, the host and AI CPU engines, and
/// dynamic execution. Every function `fn(&mut KernelCtx<'_>) -> Result<()>` is a host kernel.
///
/// # Examples
/// ```
/// use ge_plugin_api::Result;
/// use ge_plugin_api::kernel::{HostKernel, HostTensor, KernelCtx};
/// use ge_plugin_api::types::{AttrMap, DType};
///
/// /// x f32\[d0..dn\] -> y f32\[d0..dn\], each number doubled.
/// fn double(ctx: &mut KernelCtx<'_>) -> Result<()> {
///     let x = ctx.input(0)?;
///     let mut y = ctx.alloc_output(0, x.dims)?;
///     for (y, x) in y.values::<f32>()?.iter_mut().zip(x.values::<f32>()?) {
///         *y = 2.0 * x;
///     }
///     Ok(())
/// }
/// let x = HostTensor::from_bytes(DType::F32, &[2], &[1.0f32, -3.0].map(f32::to_le_bytes).concat())?;
/// let attrs = AttrMap::default();
/// let mut call = KernelCtx::new("Double", "n", &attrs, vec![Some(x.view())], &[DType::F32]);
/// HostKernel::run(&double, &mut call)?;
/// let y = call.into_made().remove(0).expect("the kernel made output 0");
/// assert_eq!(y.view().values::<f32>()?, [2.0, -6.0]);
/// # Ok::<(), ge_plugin_api::Error>(())
/// ```
pub trait HostKernel: Send + Sync {
    /// Computes the outputs.
    /// # Errors
    /// Returns an error if the outputs cannot be computed; the run, or the folding of the node,
    /// then fails.
    fn run(&self, ctx: &mut KernelCtx<'_>) -> Result<()>;
}
impl<F: Fn(&mut KernelCtx<'_>) -> Result<()> + Send + Sync> HostKernel for F {
    fn run(&self, ctx: &mut KernelCtx<'_>) -> Result<()> {
        self(ctx)
    }
}

/// The call of a host kernel as it crosses the ABI.
#[repr(C)]
#[derive(StableAbi)]
pub struct HostCall {
    /// Operator type.
    pub op: RString,
    /// Name of the node.
    pub node: RString,
    /// Attributes of the node.
    pub attrs: AttrMap,
    /// Inputs; `None` for an absent optional input.
    pub inputs: RVec<ROption<RawTensor>>,
    /// Element types of the outputs.
    pub outputs: RVec<DType>,
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn outputs_are_made_or_must_fit() {
        let attrs = AttrMap::default();
        let mut c = KernelCtx::new("X", "n", &attrs, vec![], &[DType::F32]);
        c.alloc_output(0, &[2]).expect("made").values::<f32>().expect("f32")[1] = 3.0;
        let made = c.into_made();
        assert_eq!(made[0].as_ref().expect("made").view().values::<f32>().expect("f32"), &[0.0, 3.0]);
        let mut c = KernelCtx::new("X", "n", &attrs, vec![], &[DType::F32]);
        let mut mem = [0u8; 8];
        c.give_output(0, DType::F32, vec![2], &mut mem);
        assert!(c.alloc_output(0, &[3]).is_err());
    }
}
