//! Models whose nodes compute in narrower types than the source model: which mode caused it, and
//! whether the outputs are still finite. If an output is not finite although the inputs are, the
//! model runs once more with all node outputs captured, to name the first node to blame.
use super::tensors;
use crate::session::Session;
use crate::{Diagnostic, Result};
use ge_compiler::original::precision::mode;
use ge_model::CompiledModel;
use ge_plugin_api::kernel::{HostTensor, TensorView};
use ge_plugin_api::types::DType;
use ge_runtime::{LoadOptions, RunOptions, Snapshot};

/// The options that name a precision mode.
const MODES: [&str; 2] = ["ge.exec.precision_mode", "ge.exec.precision_mode_v2"];

/// Why nodes of a model compute in a narrower type, as text to follow "in "; `None` if none does.
pub fn reason(m: &CompiledModel) -> Option<String> {
    let to = narrow(m)?;
    let given = |o: &&str| m.options.get(*o).filter(|v| !v.is_empty()).map(|v| format!("{o}={v}"));
    if let Some(named) = MODES.iter().find_map(given) {
        return Some(format!("{to}, as {named} says"));
    }
    if let Some(file) = m.options.get("ge.customizeDtypes").filter(|v| !v.is_empty()) {
        return Some(format!("{to}, as ge.customizeDtypes={file} says"));
    }
    by_default(m).map(|mode| format!("{to}, for {mode} is the default on {}", m.soc.name))
}

/// The default precision mode, if no option named one and it changes the types of nodes.
pub fn by_default(m: &CompiledModel) -> Option<&'static str> {
    let named = MODES.iter().any(|o| m.options.get(*o).is_some_and(|v| !v.is_empty()));
    let mode = mode::default_mode(&m.soc).text();
    (!named && mode != "must_keep_origin_dtype" && narrow(m).is_some()).then_some(mode)
}

/// The narrow type used by nodes of a model that has f32 inputs or outputs, if any.
fn narrow(m: &CompiledModel) -> Option<DType> {
    let single = m.inputs.iter().chain(&m.outputs).any(|io| io.desc.dtype == DType::F32);
    let mut types = m.every_graph().flat_map(|g| &g.nodes).flat_map(|n| &n.outputs).map(|t| t.dtype);
    types.find(|t| single && matches!(*t, DType::F16 | DType::BF16))
}

/// Whether all numbers of a tensor are finite.
pub fn is_finite(t: &HostTensor) -> bool {
    let all = |width: usize, exponent: &dyn Fn(&[u8]) -> bool| !t.bytes().chunks_exact(width).any(exponent);
    match t.dtype {
        DType::F32 => all(4, &|b| b[3] & 0x7f == 0x7f && b[2] & 0x80 == 0x80),
        DType::F64 => all(8, &|b| b[7] & 0x7f == 0x7f && b[6] & 0xf0 == 0xf0),
        DType::F16 => all(2, &|b| b[1] & 0x7c == 0x7c),
        DType::BF16 => all(2, &|b| b[1] & 0x7f == 0x7f && b[0] & 0x80 == 0x80),
        _ => true,
    }
}

/// Names of the outputs that are not finite although every input is.
pub fn not_finite<'m>(m: &'m CompiledModel, inputs: &[HostTensor], outputs: &[HostTensor]) -> Vec<&'m str> {
    let bad = outputs.iter().zip(&m.outputs).filter(|(t, _)| !is_finite(t)).map(|(_, o)| o.name.as_str());
    let bad: Vec<&str> = bad.collect();
    if bad.is_empty() || !inputs.iter().all(is_finite) { Vec::new() } else { bad }
}

/// The contents of the session's variables before a run, in case a second run must find a node to
/// blame; empty if the model has no reduced types.
pub fn variables(session: &Session, m: &CompiledModel) -> Result<Snapshot> {
    if reason(m).is_none() {
        return Ok(Snapshot::default());
    }
    session.variables().snapshot().map_err(|e| e.into_error())
}

/// Runs a model once more on a separate device, with the variables as they were `before` the first
/// run, and returns the first node that computes a value that is not finite. Afterwards the
/// variables hold again what the first run left.
pub fn blame(
    session: &Session,
    m: &CompiledModel,
    inputs: &[HostTensor],
    before: &Snapshot,
) -> Result<Option<Diagnostic>> {
    let context = session.open_device(&m.soc)?;
    let options = LoadOptions { rank_size: 1, capture: true, ..LoadOptions::default() };
    let model = session.load_on(m.clone(), context, &options)?;
    let views: Vec<TensorView<'_>> = inputs.iter().map(HostTensor::view).collect();
    let left = session.variables().snapshot().map_err(|e| e.into_error())?;
    session.variables().restore(before);
    let outcome = model.run_views(&views, RunOptions::default());
    session.variables().restore(&left);
    let outcome = outcome?;
    Ok(tensors::first_not_finite(model.ran(&outcome), &outcome.captured))
}

/// The warning about outputs that are not finite.
pub fn warning(m: &CompiledModel, outputs: &[&str], first: Option<&Diagnostic>) -> Option<String> {
    let why = reason(m)?;
    let names = outputs.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ");
    let first = match first {
        Some(d) => format!("{} ({}: {})", d.message, d.subject, d.found),
        None => "no node of a second run gives another sign of it".into(),
    };
    Some(format!(
        "{names} has numbers that are not finite though the inputs are; nodes compute in {why}\n  {first}\n  help: compile \
         with `--calibrate DIR`, which keeps in f32 what these inputs need, or with `--set ge.exec.precision_mode=must_keep_origin_dtype`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_knows_its_infinities() {
        let tensor = |dtype, bytes: &[u8]| HostTensor::from_bytes(dtype, &[1], bytes).expect("a number");
        for v in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, 1.0] {
            assert_eq!(is_finite(&tensor(DType::F32, &v.to_le_bytes())), v.is_finite(), "{v}");
            let w = f64::from(v);
            assert_eq!(is_finite(&tensor(DType::F64, &w.to_le_bytes())), w.is_finite(), "{v}");
        }
        for (bits, finite) in [(0x7bffu16, true), (0x7c00, false), (0xfc00, false), (0x7e01, false), (0x3c00, true)] {
            assert_eq!(is_finite(&tensor(DType::F16, &bits.to_le_bytes())), finite, "{bits:x}");
        }
        for (bits, finite) in [(0x7f7fu16, true), (0x7f80, false), (0xff80, false), (0x7fc0, false)] {
            assert_eq!(is_finite(&tensor(DType::BF16, &bits.to_le_bytes())), finite, "{bits:x}");
        }
        assert!(is_finite(&tensor(DType::U8, &[0xff])));
    }
}
