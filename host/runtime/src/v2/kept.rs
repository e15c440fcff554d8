//! Variables of a model during a run. The run receives their values as additional inputs; what it
//! leaves in them is stored once it has succeeded.
//!
//! Between runs they belong to the session (`variables`). Runs that share a variable take turns,
//! unless all of them only read it. A run that fails changes no variable.
use super::graph::{Graph, Keeps};
use super::value::{Store, Tensor, Value};
use crate::error::RuntimeError;
use crate::variables::{Bound, Guard};
use ge_plugin_api::Error;
use ge_plugin_api::kernel::HostTensor;
use std::sync::Arc;

/// The variables of a model, locked for one run.
pub(crate) struct Held<'b> {
    bound: &'b [Bound],
    guards: Vec<Guard<'b>>,
    values: Vec<Arc<HostTensor>>,
}

/// What a run leaves in the inputs that it writes for its caller, with the input's index.
pub(crate) type Written<'a> = Vec<(usize, Tensor<'a>)>;

impl<'b> Held<'b> {
    /// Locks the variables, waiting for other runs in the order of names.
    ///
    /// # Errors
    /// Fails if memory cannot be allocated or if the device that holds a variable fails.
    pub(crate) fn take(bound: &'b [Bound]) -> Result<Held<'b>, RuntimeError> {
        let mut held = Held { bound, guards: Vec::with_capacity(bound.len()), values: Vec::with_capacity(bound.len()) };
        for b in bound {
            let (guard, value) = b.on_host()?;
            held.guards.push(guard);
            held.values.push(value);
        }
        Ok(held)
    }
    /// The values of the variables, by name.
    pub(crate) fn values(&self) -> &[Arc<HostTensor>] {
        &self.values
    }

    /// Stores what a successful run leaves in its variables. Returns what it leaves in inputs.
    ///
    /// # Errors
    /// Fails if memory cannot be allocated or if a value does not fit its variable; then nothing is
    /// stored.
    pub(crate) fn keep<'a>(mut self, graph: &Graph, left: Vec<Value<'a>>) -> Result<Written<'a>, RuntimeError> {
        let (mut own, mut lent) = (Vec::new(), Vec::new());
        for (to, value) in graph.keeps.iter().zip(left) {
            let Value::Tensor(t) = value else { return Err(Error::internal("a variable holds no tensor").into()) };
            match to {
                Keeps::Input(k) => lent.push((*k, t)),
                Keeps::Variable(k) => own.push((*k, self.fitting(*k, t)?)),
            }
        }
        for (k, t) in own {
            if let Some(g) = self.guards.get_mut(k) {
                g.put(t);
            }
        }
        Ok(lent)
    }

    /// Converts a value to the form that a variable stores, and checks its type and shape.
    fn fitting(&self, k: usize, t: Tensor<'_>) -> Result<Arc<HostTensor>, RuntimeError> {
        let info = self.bound.get(k).map(Bound::info).ok_or_else(|| Error::internal("a variable is lost"))?;
        if (t.dtype, &t.dims[..]) != (info.dtype, &info.dims[..]) {
            return Err(RuntimeError::Variable {
                name: info.name.clone(),
                found: format!("{}{:?}", t.dtype, t.dims),
                expected: format!("{}{:?}", info.dtype, info.dims),
            });
        }
        match &t.store {
            Store::Made(own) if own.dims[..] == info.dims[..] && own.dtype == info.dtype => Ok(own.clone()),
            _ => Ok(Arc::new(HostTensor::from_bytes(info.dtype, &info.dims, t.bytes())?)),
        }
    }
}
