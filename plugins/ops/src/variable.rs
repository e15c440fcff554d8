//! Variables: `Assign(ref, value)`, `AssignAdd`, `AssignSub`: output 0 is the variable itself, whose value persists between runs.
use crate::dims;
use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::ops::{InferCtx, OpDef, flags::*};
use ge_plugin_api::register_ops;
use ge_plugin_api::types::TensorDesc;
use ge_plugin_api::types::dtype::{ANY, NUMERIC};

fn assign(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let mut d = c.like(0)?;
    d.shape = dims::equal_shapes("input 1 `value`", &d.shape, &c.input(1)?.shape)?;
    Ok(vec![d])
}

fn defs() -> Vec<OpDef> {
    let op = |name: &str, types| {
        OpDef::new(name, assign)
            .input("ref", types, "T")
            .input("value", types, "T")
            .output("ref", types, "T")
            .flags(STATEFUL | REFERENCE)
    };
    vec![op("Assign", ANY), op("AssignAdd", NUMERIC), op("AssignSub", NUMERIC)]
}
register_ops!(defs);
