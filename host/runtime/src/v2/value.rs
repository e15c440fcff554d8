//! Values of a run: tensors lent by the caller, made by a step or held by the model, and lists of
//! tensors.
use super::graph::Node;
use super::state::State;
use crate::error::RuntimeError;
use ge_plugin_api::diagnostic::{Diagnostic, Error};
use ge_plugin_api::kernel::{HostTensor, TensorView};
use ge_plugin_api::types::{Blob, ConstTensor, DType, Shape, TensorDesc};
use std::sync::Arc;

/// Where the bytes of a tensor are.
#[derive(Clone)]
pub(crate) enum Store<'a> {
    /// The caller's memory.
    Lent(&'a [u8]),
    /// Made by a step of this run, or held by a plan.
    Made(Arc<HostTensor>),
    /// A constant of the model.
    Constant(Blob),
    /// A state in memory with spare room.
    State(State),
}

/// A tensor. Type and shape are separate from the bytes, so views share the bytes.
#[derive(Clone)]
pub(crate) struct Tensor<'a> {
    pub(crate) store: Store<'a>,
    pub(crate) dtype: DType,
    pub(crate) dims: Arc<[u64]>,
}

/// A sequence of tensors.
#[derive(Clone, Default)]
pub(crate) struct List<'a> {
    pub(crate) items: Arc<Vec<Tensor<'a>>>,
    /// Type of the tensors; may be unknown.
    pub(crate) dtype: DType,
    /// Shape that the tensors of an empty sequence would have, if a loop without iterations set it.
    pub(crate) dims: Option<Arc<[u64]>>,
    /// Shape that the model declares for what a loop adds; -1 is an open size.
    pub(crate) declared: Option<Arc<[i64]>>,
}

/// A value of a graph.
#[derive(Clone)]
pub(crate) enum Value<'a> {
    /// A tensor.
    Tensor(Tensor<'a>),
    /// A sequence of tensors of one type.
    List(List<'a>),
    /// An empty optional.
    Nothing,
}

impl<'a> Tensor<'a> {
    /// A tensor that a step made.
    pub(crate) fn made(t: HostTensor) -> Tensor<'a> {
        Tensor { dtype: t.dtype, dims: t.dims[..].into(), store: Store::Made(Arc::new(t)) }
    }
    /// A tensor that is shared with other holders.
    pub(crate) fn shared(t: &Arc<HostTensor>) -> Tensor<'a> {
        Tensor { dtype: t.dtype, dims: t.dims[..].into(), store: Store::Made(t.clone()) }
    }
    /// A tensor that the caller lends.
    pub(crate) fn lent(t: &TensorView<'a>) -> Tensor<'a> {
        Tensor { store: Store::Lent(t.bytes), dtype: t.dtype, dims: t.dims.into() }
    }
    /// A constant of the model.
    pub(crate) fn constant(t: &ConstTensor) -> Option<Tensor<'a>> {
        Some(Tensor { store: Store::Constant(t.bytes()?), dtype: t.dtype, dims: t.dims[..].into() })
    }
    /// A state in memory with spare room.
    pub(crate) fn state(s: State) -> Tensor<'a> {
        Tensor { dtype: s.dtype(), dims: s.dims().into(), store: Store::State(s) }
    }
    /// The bytes without gaps.
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.store {
            Store::Lent(b) => b,
            Store::Made(t) => t.bytes(),
            Store::Constant(b) => b.as_slice(),
            Store::State(s) => s.bytes(),
        }
    }
    /// The view that kernels and devices take.
    pub(crate) fn view(&self) -> TensorView<'_> {
        TensorView { dtype: self.dtype, dims: &self.dims, bytes: self.bytes() }
    }
    /// Type and shape.
    pub(crate) fn desc(&self) -> TensorDesc {
        TensorDesc::new(self.dtype, Shape::of(&self.dims))
    }
    /// The same bytes with another type and shape.
    pub(crate) fn viewed(&self, dtype: DType, dims: &[u64]) -> Tensor<'a> {
        Tensor { store: self.store.clone(), dtype, dims: dims.into() }
    }
    /// The tensor as a constant; the bytes are copied unless it is one already.
    pub(crate) fn to_constant(&self) -> Option<ConstTensor> {
        let bytes = match &self.store {
            Store::Constant(b) => b.clone(),
            _ => Blob::copy_of(self.bytes()),
        };
        ConstTensor::new(self.dtype, &self.dims, bytes)
    }
    /// The tensor for the caller: without a copy if this is its last user, otherwise copied.
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
    /// The truth value of a condition of `n`: whether its only element is not zero.
    pub(crate) fn truth(&self, n: &Node) -> Result<bool, RuntimeError> {
        let count = self.dims.iter().product::<u64>();
        if count == 1 {
            return Ok(self.bytes().iter().any(|b| *b != 0));
        }
        let text = format!("the condition has {count} elements, it needs one");
        let remedy = "give a condition of one element, or reduce it in the model (`ReduceMin` or `ReduceMax`)";
        let told = |d: Diagnostic| d.found(format!("{}{:?}", self.dtype, self.dims), "one element").help(remedy);
        Err(Error::failed(text).with(told).at_node(&n.name, n.op.as_str()).into())
    }
    /// The first element as an integer; `None` if there is none.
    pub(crate) fn int(&self) -> Option<i64> {
        self.to_constant()?.to_i64(1)?.first().copied()
    }
}

impl<'a> Value<'a> {
    /// The tensor, if the value is one.
    pub(crate) fn tensor(&self) -> Option<&Tensor<'a>> {
        match self {
            Value::Tensor(t) => Some(t),
            _ => None,
        }
    }
}
