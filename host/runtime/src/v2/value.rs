//! Values of a run: tensors that the caller lends, that a step made or that the model holds, and
//! lists of them.
use super::state::State;
use crate::error::RuntimeError;
use ge_plugin_api::Error;
use ge_plugin_api::kernel::{HostTensor, TensorView};
use ge_plugin_api::types::{Blob, ConstTensor, DType, Shape, TensorDesc};
use std::sync::Arc;

/// Where the bytes of a tensor are.
#[derive(Clone)]
pub(crate) enum Store<'a> {
    /// The caller's memory.
    Lent(&'a [u8]),
    /// What a step of this run made, or a plan holds.
    Made(Arc<HostTensor>),
    /// A constant of the model.
    Constant(Blob),
    /// State in memory with room.
    State(State),
}

/// A tensor: its bytes under a type and a shape of its own, so that views share them.
#[derive(Clone)]
pub(crate) struct Tensor<'a> {
    pub(crate) store: Store<'a>,
    pub(crate) dtype: DType,
    pub(crate) dims: Arc<[u64]>,
}

/// A sequence.
#[derive(Clone, Default)]
pub(crate) struct List<'a> {
    pub(crate) items: Arc<Vec<Tensor<'a>>>,
    /// Type of the tensors, known or not.
    pub(crate) dtype: DType,
    /// Shape that tensors of an empty sequence would have, where a loop without a turn tells it.
    pub(crate) dims: Option<Arc<[u64]>>,
    /// The shape that the model declares for what a loop adds; -1: open.
    pub(crate) declared: Option<Arc<[i64]>>,
}

/// A value of a graph.
#[derive(Clone)]
pub(crate) enum Value<'a> {
    /// A tensor.
    Tensor(Tensor<'a>),
    /// A sequence of tensors of one type.
    List(List<'a>),
    /// An optional that holds nothing.
    Nothing,
}

impl<'a> Tensor<'a> {
    /// A tensor that a step made.
    pub(crate) fn made(t: HostTensor) -> Tensor<'a> {
        Tensor { dtype: t.dtype, dims: t.dims.to_vec().into(), store: Store::Made(Arc::new(t)) }
    }
    /// A tensor that others hold, too.
    pub(crate) fn shared(t: &Arc<HostTensor>) -> Tensor<'a> {
        Tensor { dtype: t.dtype, dims: t.dims.to_vec().into(), store: Store::Made(t.clone()) }
    }
    /// A tensor that the caller lends.
    pub(crate) fn lent(t: &TensorView<'a>) -> Tensor<'a> {
        Tensor { store: Store::Lent(t.bytes), dtype: t.dtype, dims: t.dims.into() }
    }
    /// A constant.
    pub(crate) fn constant(t: &ConstTensor) -> Option<Tensor<'a>> {
        Some(Tensor { store: Store::Constant(t.bytes()?), dtype: t.dtype, dims: t.dims.to_vec().into() })
    }
    /// State in memory with room.
    pub(crate) fn state(s: State) -> Tensor<'a> {
        Tensor { dtype: s.dtype(), dims: s.dims().into(), store: Store::State(s) }
    }
    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.store {
            Store::Lent(b) => b,
            Store::Made(t) => t.bytes(),
            Store::Constant(b) => b.as_slice(),
            Store::State(s) => s.bytes(),
        }
    }
    /// As kernels and devices take it.
    pub(crate) fn view(&self) -> TensorView<'_> {
        TensorView { dtype: self.dtype, dims: &self.dims, bytes: self.bytes() }
    }
    /// Type and shape.
    pub(crate) fn desc(&self) -> TensorDesc {
        TensorDesc::new(self.dtype, Shape::of(&self.dims))
    }
    /// The same bytes under another shape and type.
    pub(crate) fn viewed(&self, dtype: DType, dims: &[u64]) -> Tensor<'a> {
        Tensor { store: self.store.clone(), dtype, dims: dims.into() }
    }
    /// A copy as a constant.
    pub(crate) fn to_constant(&self) -> Option<ConstTensor> {
        let bytes = match &self.store {
            Store::Constant(b) => b.clone(),
            _ => Blob::copy_of(self.bytes()),
        };
        ConstTensor::new(self.dtype, &self.dims, bytes)
    }
    /// The tensor for the caller: as it was made where this is its last user, else copied.
    pub(crate) fn into_host(self) -> Result<HostTensor, RuntimeError> {
        let Tensor { store, dtype, dims } = self;
        let bytes = match store {
            Store::Made(t) => match Arc::try_unwrap(t) {
                Ok(mut t) => {
                    t.dtype = dtype;
                    t.dims = dims.to_vec().into();
                    return Ok(t);
                }
                Err(t) => return Ok(HostTensor::from_bytes(dtype, &dims, t.bytes())?),
            },
            Store::Lent(b) => return Ok(HostTensor::from_bytes(dtype, &dims, b)?),
            Store::Constant(b) => b,
            Store::State(s) => return Ok(HostTensor::from_bytes(dtype, &dims, s.bytes())?),
        };
        Ok(HostTensor::from_bytes(dtype, &dims, &bytes)?)
    }
    /// The truth of a condition: its only element is not zero.
    pub(crate) fn truth(&self, node: &str) -> Result<bool, RuntimeError> {
        match self.dims.iter().product::<u64>() {
            1 => Ok(self.bytes().iter().any(|b| *b != 0)),
            n => Err(Error::failed(format!("the condition of `{node}` has {n} elements, it needs one")).into()),
        }
    }
    /// The only whole number.
    pub(crate) fn int(&self) -> Option<i64> {
        self.to_constant()?.to_i64(1)?.first().copied()
    }
}

impl<'a> Value<'a> {
    /// The tensor.
    pub(crate) fn tensor(&self) -> Option<&Tensor<'a>> {
        match self {
            Value::Tensor(t) => Some(t),
            _ => None,
        }
    }
}
