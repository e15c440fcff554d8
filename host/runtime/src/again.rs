//! Tasks that a plan has bound, to be bound once more in a plan that differs from it in others.
use crate::error::RuntimeError;
use crate::several::Bound;
use ge_plugin::kernels::KeptKernel;
use ge_plugin_api::abi::{ROption, RVec};
use ge_plugin_api::device::{DeviceModel, DeviceTask, Place};
use std::sync::{Arc, OnceLock};

/// A task that was bound.
pub(crate) enum Again {
    /// The launch of a kernel that a cell of its node keeps, with its arguments.
    Launch { of: Arc<[OnceLock<Bound>]>, at: usize, stream: u32, args: RVec<Place> },
    /// A task with its kernel.
    Kernel(KeptKernel, DeviceTask),
    /// A task without one.
    Plain(DeviceTask),
}

impl Again {
    /// Its stream.
    pub(crate) fn stream(&self) -> u32 {
        match self {
            Again::Launch { stream, .. } => *stream,
            Again::Kernel(_, t) | Again::Plain(t) => t.stream,
        }
    }

    /// Binds it on another model of the same device.
    ///
    /// # Errors
    /// What the device says; a cell that is empty: a bug of ours.
    pub(crate) fn bind(&self, device: &impl DeviceModel) -> Result<(), RuntimeError> {
        let (kernel, task) = match self {
            Again::Launch { of, at, stream, args } => {
                let lost = || ge_plugin_api::Error::internal("a task that was bound is not kept");
                let b = of.get(*at).and_then(OnceLock::get).ok_or_else(lost)?;
                (Some(b.kernel()), b.task(*stream, args.to_vec()))
            }
            Again::Kernel(k, t) => (Some(k.lend()), t.clone()),
            Again::Plain(t) => (None, t.clone()),
        };
        let kernel = kernel.map(|k| device.register(k)).transpose()?;
        device.bind(DeviceTask { kernel: kernel.map_or(ROption::RNone, ROption::RSome), ..task })?;
        Ok(())
    }
}
