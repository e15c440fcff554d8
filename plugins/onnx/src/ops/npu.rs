//! Domain `npu`: Ascend's own operators, which PyTorch exporters write beside those of `ai.onnx`.
//! Their names are ours, with or without the prefix `NPU`; inputs and attributes are taken over
//! unchanged.
use super::Outs;
use ge_plugin_api::author::Registration;
use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder, Mapping};
use ge_plugin_api::types::ValueRef;

/// An operator: its name, numbers of required and of possible inputs, its attributes, and further
/// attributes with the only values supported here.
struct Row {
    op: &'static str,
    inputs: (usize, usize),
    attributes: &'static [&'static str],
    fixed: &'static [(&'static str, &'static [i64])],
}

const ROWS: &[Row] = &[
    // A single list of matrices and one output: all rows in one tensor (`split_item` 2 and 3),
    // groups along the rows (`group_type` 0).
    Row {
        op: "GroupedMatmul",
        inputs: (3, 4),
        attributes: &["group_list_type"],
        fixed: &[("split_item", &[2, 3]), ("group_type", &[0]), ("act_type", &[0])],
    },
    Row {
        op: "PromptFlashAttention",
        inputs: (3, 7),
        attributes: &["num_heads", "scale_value", "pre_tokens", "next_tokens", "input_layout", "num_key_value_heads"],
        fixed: &[("sparse_mode", &[0]), ("inner_precise", &[0, 1])],
    },
];

/// A row, under one of its two names.
struct Npu(&'static Row, &'static str);

impl Mapping for Npu {
    fn framework(&self) -> String {
        "onnx".into()
    }
    fn domain(&self) -> String {
        "npu".into()
    }
    fn op(&self) -> String {
        format!("{}{}", self.1, self.0.op)
    }
    fn versions(&self) -> (u32, u32) {
        (1, u32::MAX)
    }
    fn map(&self, n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Result<Vec<ValueRef>> {
        map(self.0, n, b)
    }
}

fn map(row: &Row, n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let (least, most) = row.inputs;
    if n.inputs.len() > most {
        return Err(n.refuse(format!("it has {} inputs, {} takes {most}", n.inputs.len(), row.op)));
    }
    for i in 0..least {
        n.input(i)?;
    }
    let mut d = b.node(row.op).name(&n.name).inputs(&n.inputs);
    for a in n.attrs.iter() {
        let key = a.key.as_str();
        if row.attributes.contains(&key) {
            d = d.attr(key, a.value.clone());
        } else if let Some((_, values)) = row.fixed.iter().find(|(k, _)| *k == key) {
            if !a.value.as_int().is_some_and(|v| values.contains(&v)) {
                return Err(n.refuse(format!("attribute `{key}` is not {}", words(values))));
            }
        } else {
            return Err(n.refuse(format!("{} has no attribute `{key}`", row.op)));
        }
    }
    Ok(vec![d.build()])
}

fn words(values: &[i64]) -> String {
    values.iter().map(i64::to_string).collect::<Vec<_>>().join(" or ")
}

ge_plugin_api::inventory::submit! {
    Registration::Mappings(|| {
        let both = |r: &'static Row| ["", "NPU"].map(|prefix| Box::new(Npu(r, prefix)) as Box<dyn Mapping>);
        ROWS.iter().flat_map(both).collect()
    })
}
