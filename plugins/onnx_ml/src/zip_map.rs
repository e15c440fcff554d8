//! `ZipMap`: its output is a list of dictionaries, one for each row, which no tensor holds. The
//! matrix that it reads has the same numbers and becomes the output; a warning says which label
//! each column belongs to.
use crate::shared::{Outs, ints};
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::map_op;
use ge_plugin_api::services::{Level, log};

/// Number of labels that a warning names.
const MOST: usize = 32;

/// The labels of the columns, in order.
fn labels(n: &ForeignNode) -> String {
    let words = n.attrs.strs("classlabels_strings").unwrap_or_default();
    let numbers = ints(n, "classlabels_int64s");
    let all: Vec<String> = match numbers.as_slice() {
        [] => words.iter().map(|w| format!("`{w}`")).collect(),
        _ => numbers.iter().map(i64::to_string).collect(),
    };
    let rest = all.len().saturating_sub(MOST);
    let named = all[..all.len() - rest].join(", ");
    if rest == 0 { named } else { format!("{named} and {rest} more") }
}

/// What the user is told.
fn warning(n: &ForeignNode) -> String {
    let output = n.output_names.first().map_or(n.name.as_str(), |o| o.as_str());
    format!(
        "output `{output}` of {} `{}` is given as a matrix, not as a list of dictionaries; its columns are the labels {}",
        n.op,
        n.name,
        labels(n)
    )
}

fn map(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let x = n.input(0)?;
    log(Level::WARN, &warning(n));
    Ok(vec![b.node("Identity").name(&n.name).input(x).build()])
}
map_op!("onnx", "ai.onnx.ml", "ZipMap", 1..=u32::MAX, map);

#[cfg(test)]
mod tests {
    use super::*;
    use ge_plugin_api::types::AttrValue;

    #[test]
    fn the_columns_are_told_by_their_labels() {
        let mut n = ForeignNode { op: "ZipMap".into(), name: "zip".into(), ..ForeignNode::default() };
        n.output_names.push("p".into());
        n.attrs.set("classlabels_strings", AttrValue::Strs(vec!["no".into(), "yes".into()].into()));
        assert_eq!(
            warning(&n),
            "output `p` of ZipMap `zip` is given as a matrix, not as a list of dictionaries; its columns are the \
             labels `no`, `yes`"
        );
        n.attrs.set("classlabels_int64s", AttrValue::Ints((0..40).collect::<Vec<i64>>().into()));
        assert!(warning(&n).ends_with("30, 31 and 8 more"));
    }
}
