//! The op store: one row per operator, with its family. Acceptance and the reason for a refusal
//! come from the same row.
pub mod phony;
pub mod views;

use ge_plugin_api::view::Node;

/// Why an operator needs no task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// It is memory: a graph input, a constant, a variable.
    Memory,
    /// It is a position in the graph: outputs, subgraph boundaries, control edges.
    Place,
    /// It calls subgraphs; their tasks and those of DNN_VM_RTS do the work.
    Control,
    /// It is its input with another shape or element type; no data moves.
    View,
    /// It is the first bytes of its input, or its input followed by additional room.
    Room,
    /// Its inputs are stored side by side in its output.
    PhonyConcat,
    /// Its outputs are stored side by side in its input.
    PhonySplit,
}

/// Every operator of the engine.
pub const OPS: &[(&str, Family)] = &[
    ("Data", Family::Memory),
    ("RefData", Family::Memory),
    ("AippData", Family::Memory),
    ("Const", Family::Memory),
    ("Constant", Family::Memory),
    ("FileConstant", Family::Memory),
    ("Variable", Family::Memory),
    ("NetOutput", Family::Place),
    ("PlaceHolder", Family::Place),
    ("End", Family::Place),
    ("NoOp", Family::Place),
    ("ControlTrigger", Family::Place),
    ("PartitionedCall", Family::Control),
    ("If", Family::Control),
    ("StatelessIf", Family::Control),
    ("Case", Family::Control),
    ("StatelessCase", Family::Control),
    ("While", Family::Control),
    ("StatelessWhile", Family::Control),
    ("For", Family::Control),
    ("Reshape", Family::View),
    ("Flatten", Family::View),
    ("FlattenV2", Family::View),
    ("Squeeze", Family::View),
    ("SqueezeV2", Family::View),
    ("SqueezeV3", Family::View),
    ("Unsqueeze", Family::View),
    ("UnsqueezeV2", Family::View),
    ("UnsqueezeV3", Family::View),
    ("ExpandDims", Family::View),
    ("Bitcast", Family::View),
    ("SameSize", Family::View),
    ("ReFormat", Family::View),
    ("RefIdentity", Family::View),
    ("GearView", Family::Room),
    ("PhonyConcat", Family::PhonyConcat),
    ("PhonySplit", Family::PhonySplit),
];

/// The operator types of the engine.
pub fn types() -> impl Iterator<Item = &'static str> {
    OPS.iter().map(|o| o.0)
}

/// The family of an operator type; `None` if this engine does not have it.
pub fn family(op: &str) -> Option<Family> {
    OPS.iter().find(|o| o.0 == op).map(|o| o.1)
}

/// Why the engine refuses a node; `None` if it takes it.
pub fn refusal(node: &Node<'_>) -> Option<String> {
    match family(node.op()) {
        None => Some("type".into()),
        Some(Family::Memory) if node.op() == "FileConstant" => {
            Some("its file is read with the model's file that names it; a graph of a program holds a Const".into())
        }
        Some(Family::Memory | Family::Place | Family::Control) => None,
        Some(f @ (Family::View | Family::Room)) => match (node.input_desc(0), node.outputs()) {
            (Some(x), [y]) if f == Family::Room => views::room_refusal(x, y),
            (Some(x), [y]) => views::refusal(x, y),
            (None, _) => Some("input 0 is missing".into()),
            (_, outputs) => Some(format!("it has {} outputs, a view has one", outputs.len())),
        },
        Some(Family::PhonyConcat) => {
            let inputs: Option<Vec<_>> = (0..node.inputs().len()).map(|i| node.input_desc(i)).collect();
            match (inputs, node.outputs()) {
                (Some(x), [y]) => phony::refusal("inputs", &x, y, &concat_axes(node)),
                _ => Some("it needs all its inputs and one output".into()),
            }
        }
        Some(Family::PhonySplit) => match node.input_desc(0) {
            Some(x) => {
                let axes = axes(node, "split_dim", "num_split");
                phony::refusal("outputs", &node.outputs().iter().collect::<Vec<_>>(), x, &axes)
            }
            None => Some("input 0 is missing".into()),
        },
    }
}

/// The dimensions along which there is more than one part, in the order of the attribute `dims`;
/// `counts` names the attribute with the number of parts of each.
fn axes(node: &Node<'_>, dims: &str, counts: &str) -> Vec<i64> {
    let counts = list(node, counts);
    let several = |(k, _): &(usize, i64)| counts.get(*k) != Some(&1);
    list(node, dims).into_iter().enumerate().filter(several).map(|(_, axis)| axis).collect()
}

/// The dimensions of a `PhonyConcat`, outermost first: its attribute begins with the innermost
/// grouping.
fn concat_axes(node: &Node<'_>) -> Vec<i64> {
    let mut axes = axes(node, "concat_dim", "N");
    axes.reverse();
    axes
}

/// An attribute that is a list or a single number.
fn list(node: &Node<'_>, key: &str) -> Vec<i64> {
    node.ints(key).map(<[i64]>::to_vec).or_else(|| node.int(key).map(|a| vec![a])).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn no_type_stands_twice() {
        let mut all: Vec<&str> = types().collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), OPS.len());
    }
}
