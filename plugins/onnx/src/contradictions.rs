//! Parts of a model that contradict each other: functions and their calls, and the declared types of
//! inputs and outputs. The standard forbids them, and any reading of them would be a guess.
use crate::import::{damaged, domain};
use crate::proto::{FunctionProto, ModelProto, NodeProto};
use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::types::tensor::Container;
use ge_plugin_api::types::{DType, TensorDesc};
use std::collections::BTreeMap;

/// What finds such mistakes outside of ge.
const CHECKER: &str = "export the model again; `onnx.checker.check_model(m, full_check=True)` finds such mistakes";

/// The functions of a model, by domain, name and overload.
pub type Functions<'m> = BTreeMap<(&'m str, &'m str, &'m str), &'m FunctionProto>;

/// The functions of a model.
///
/// # Errors
/// Fails if two of them have the same domain, name and overload.
pub fn functions(model: &ModelProto) -> Result<Functions<'_>> {
    let mut out = Functions::new();
    for f in &model.functions {
        let of = domain(&f.domain);
        if out.insert((of, f.name.as_str(), f.overload.as_str()), f).is_some() {
            return Err(damaged(format!("two functions of domain `{of}` are named `{}`", f.name))
                .with(|d| d.subject(f.name.as_str()).help(CHECKER)));
        }
    }
    Ok(out)
}

/// Checks that a call gives a function no more inputs than it has.
///
/// # Errors
/// Fails if there are more.
pub fn call(f: &FunctionProto, n: &NodeProto, name: &str) -> Result<()> {
    let more = n.input.iter().enumerate().skip(f.input.len()).find(|(_, i)| !i.is_empty());
    let Some((i, read)) = more else { return Ok(()) };
    let has = format!("at most {} inputs: {}", f.input.len(), f.input.join(", "));
    Err(damaged(format!("`{name}` gives function {} an input {i}, `{read}`", f.name))
        .with(|d| d.node(name, n.op_type.as_str()).found(format!("{} inputs", n.input.len()), has).help(CHECKER)))
}

/// Checks that an input of the model has an element type.
///
/// # Errors
/// Fails if it has none.
pub fn input(name: &str, d: &TensorDesc) -> Result<()> {
    if d.dtype != DType::UNKNOWN || d.container != Container::TENSOR {
        return Ok(());
    }
    Err(damaged(format!("input `{name}` has no type"))
        .with(|d| d.subject(name).found("no element type", "the type of its elements").help(CHECKER)))
}

/// Checks that the declared element type of an output of the model is that of the value, as far as
/// both are certain.
///
/// # Errors
/// Fails if it is another one.
pub fn output(name: &str, declared: &TensorDesc, made: &TensorDesc) -> Result<()> {
    if [declared.dtype, made.dtype].contains(&DType::UNKNOWN) || declared.dtype == made.dtype {
        return Ok(());
    }
    Err(damaged(format!("output `{name}` is declared with another type than its node gives"))
        .with(|d| d.subject(name).found(declared.dtype.name(), made.dtype.name()).help(CHECKER)))
}
