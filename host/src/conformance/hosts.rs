//! Checks of kernels that engines run on the host: they fold constants and compute values that
//! shapes depend on. Each is called twice on the same numbers and compared with another plugin's
//! kernel.
use super::runs::{Runs, Tried, differs, inferred, is_fault, show};
use super::samples::{Given, Sample};
use crate::session::model::{filled, fixed_value};
use crate::{Error, Result};
use ge_plugin::{EngineHandle, OpHandle};
use ge_plugin_api::engine::flags;
use ge_plugin_api::kernel::{HostTensor, TensorView};
use ge_plugin_api::types::strings::bytes_of_strings;
use ge_plugin_api::types::{DType, TensorDesc};

/// Runs one node with an engine's host kernel.
pub fn sample(
    runs: &Runs<'_>,
    e: &EngineHandle,
    op: &OpHandle,
    sample: &Sample,
) -> core::result::Result<Tried, String> {
    let Some(outputs) = inferred(op, sample).filter(|o| o.iter().all(TensorDesc::is_static)) else {
        return Ok(Tried::NotTaken);
    };
    let say = |e: Error| format!("{}: {e}", show(op.name(), sample));
    let inputs = numbers(sample).map_err(say)?;
    let call = |e: &EngineHandle| {
        let views: Vec<Option<TensorView<'_>>> = inputs.iter().map(|t| t.as_ref().map(HostTensor::view)).collect();
        let types: Vec<DType> = outputs.iter().map(|d| d.dtype).collect();
        e.run_host_kernel(op.name(), "y", &sample.attrs, &views, &types)
    };
    let first = match call(e) {
        Ok(t) => t,
        Err(e) if is_fault(&e) => return Err(say(e)),
        Err(_) => return Ok(Tried::InVain),
    };
    let second = call(e).map_err(say)?;
    if !first.iter().zip(&second).all(|(a, b)| a.dims == b.dims && a.bytes() == b.bytes()) {
        return Err(format!("{}: two calls on the same inputs give other bytes", show(op.name(), sample)));
    }
    for (k, (t, d)) in first.iter().zip(&outputs).enumerate() {
        if d.shape.sizes().is_some_and(|s| s.as_slice() != &t.dims[..]) {
            let found = format!("output {k} has the shape {:?}, inference says {}", t.dims, d.shape);
            return Err(format!("{}: {found}", show(op.name(), sample)));
        }
    }
    let Some(judge) = judge(runs, e, op) else { return Ok(Tried::Alone) };
    // If the other engine fails too, the numbers are not valid for the operator.
    let Ok(right) = call(judge) else { return Ok(Tried::Alone) };
    match differs(&first, &right, sample) {
        Some(what) => Err(format!("{}: {what}, {} has the other number", show(op.name(), sample), judge.name())),
        None => Ok(Tried::Against(judge.name().to_owned())),
    }
}

/// An engine of another plugin with a host kernel for the operator; preferably one that folds
/// constants.
fn judge<'r>(runs: &Runs<'r>, e: &EngineHandle, op: &OpHandle) -> Option<&'r EngineHandle> {
    let all = runs.beside.with.engines().iter().filter(|o| o.owner().name != e.owner().name);
    all.filter(|o| o.has_host_kernel(op.name())).max_by_key(|o| o.has(flags::FOLDS_CONSTANTS))
}

/// Numbers for the inputs of a sample; the same ones each time.
fn numbers(sample: &Sample) -> Result<Vec<Option<HostTensor>>> {
    let of = |(k, i): (usize, &Given)| match i {
        Given::Absent => Ok(None),
        Given::Const(c) => fixed_value(c).map(Some),
        Given::Data(d) if d.dtype == DType::STRING => texts(d, k).map(Some),
        Given::Data(d) => filled(d, 7 + k as u64).map(Some),
    };
    sample.inputs.iter().enumerate().map(of).collect()
}

/// Strings for an input; some are empty.
fn texts(d: &TensorDesc, input: usize) -> Result<HostTensor> {
    let dims = d.shape.sizes().unwrap_or_default();
    let count = usize::try_from(dims.iter().product::<u64>()).unwrap_or(0);
    let all: Vec<&str> = (0..count).map(|i| ["", "a", "b c", "9", "a b"][(i + input) % 5]).collect();
    HostTensor::from_bytes(d.dtype, &dims, &bytes_of_strings(&all))
}
