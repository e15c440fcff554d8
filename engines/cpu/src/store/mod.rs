//! The table of operators and the three engines over it. A row lists the types that an operator
//! supports; the reasons for refusing a node come from the same row.
pub mod engine;
pub mod types;
pub mod work;

use crate::op::Op;
use ge_plugin_api::engine::Support;
use ge_plugin_api::types::DType;
use ge_plugin_api::view::Node;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// All rows, by operator type.
pub static TABLE: LazyLock<BTreeMap<&'static str, Op>> =
    LazyLock::new(|| crate::kernels::FAMILIES.iter().flat_map(|f| f.iter()).map(|o| (o.name, *o)).collect());

fn misfit(what: &str, lists: &[&[DType]], i: usize, d: DType) -> Option<String> {
    let list = lists.get(i).or(lists.last())?;
    if list.contains(&d) {
        return None;
    }
    let want: Vec<&str> = list.iter().map(|t| t.name()).collect();
    Some(format!("{what} {i} is {d}, it takes {}", want.join(", ")))
}

/// Whether a node is supported, judged by its operator type and the types of its inputs and
/// outputs.
pub fn supports(node: &Node<'_>) -> Support {
    if node.op().starts_with("Phony") {
        return Support::no("it is for no task: its parts lie where they are; here it is folded alone");
    }
    let Some(op) = TABLE.get(node.op()) else { return Support::no("it has no kernel for this type") };
    if matches!(
        node.op(),
        "MatMul"
            | "MatMulV2"
            | "BatchMatMul"
            | "BatchMatMulV2"
            | "FusedMatMul"
            | "FusedQuantMatMul"
            | "QLinearMatMul"
            | "MatMulInteger"
            | "QLinearConv"
            | "ConvInteger"
            | "Conv2D"
            | "FusedConv"
    ) {
        // These kernels read sizes, which are different in a blocked layout.
        let laid = |i: &usize| node.input_desc(*i).is_some_and(|d| d.origin.is_some());
        if let Some(i) = (0..node.inputs().len()).find(laid) {
            return Support::no(format!("input {i} is in a blocked format, it takes plain ones"));
        }
    }
    for i in 0..node.inputs().len() {
        if let Some(why) = node.input_desc(i).and_then(|d| misfit("input", op.inputs, i, d.dtype)) {
            return Support::no(why);
        }
    }
    for (i, d) in node.outputs().iter().enumerate() {
        if d.dtype == DType::UNKNOWN {
            continue;
        }
        let lists: &[&[DType]] = if op.outputs.is_empty() { &[types::ANY] } else { op.outputs };
        if let Some(why) = misfit("output", lists, i, d.dtype) {
            return Support::no(why);
        }
    }
    Support::Yes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operator_stands_once() {
        let mut names: Vec<&str> = crate::kernels::FAMILIES.iter().flat_map(|f| f.iter()).map(|o| o.name).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        assert_eq!(TABLE.len(), all);
    }

    #[test]
    fn a_refusal_names_input_and_types() {
        let op = TABLE["Sigmoid"];
        assert_eq!(
            misfit("input", op.inputs, 0, DType::I32).as_deref(),
            Some("input 0 is i32, it takes f32, f16, bf16, f64")
        );
        assert_eq!(misfit("input", op.inputs, 0, DType::F16), None);
    }
}
