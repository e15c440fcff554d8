//! Tasks bound for one plan, kept so that a plan that differs only in other tasks can bind them
//! again.
use crate::error::RuntimeError;
use crate::several::Bound;
use ge_plugin::kernels::KeptKernel;
use ge_plugin_api::abi::{ROption, RVec};
use ge_plugin_api::device::{DeviceModel, DeviceTask, Place};
use std::sync::{Arc, OnceLock};

/// A task that was bound before.
pub(crate) enum Again {
    /// A kernel launch whose kernel is kept in a cell of its node, with the launch's arguments.
    Launch { of: Arc<[OnceLock<Bound>]>, at: usize, stream: u32, args: RVec<Place> },
    /// A task with its kernel.
    Kernel(KeptKernel, DeviceTask),
    /// A task without a kernel.
    Plain(DeviceTask),
}

impl Again {
    /// Stream of the task.
    pub(crate) fn stream(&self) -> u32 {
        match self {
            Again::Launch { stream, .. } => *stream,
            Again::Kernel(_, t) | Again::Plain(t) => t.stream,
        }
    }

    /// Binds the task to another model of the same device.
    ///
    /// # Errors
    /// Fails if the device refuses the task. An empty cell is an internal error.
    pub(crate) fn bind(&self, device: &impl DeviceModel) -> Result<(), RuntimeError> {
        let (kernel, task) = match self {
            Again::Launch { of, at, stream, args } => {
                let lost = || ge_plugin_api::Error::internal("a task that was bound is not kept");
                let b = of.get(*at).and_then(OnceLock::get).ok_or_else(lost)?;
                (Some(b.kernel()), b.task(*stream, args.clone()))
            }
            Again::Kernel(k, t) => (Some(k.lend()), t.clone()),
            Again::Plain(t) => (None, t.clone()),
        };
        let kernel = kernel.map(|k| device.register(k)).transpose()?;
        device.bind(DeviceTask { kernel: kernel.map_or(ROption::RNone, ROption::RSome), ..task })?;
        Ok(())
    }
}
