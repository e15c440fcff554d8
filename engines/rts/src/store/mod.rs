//! The op store: one row per operator. Acceptance and the reason for a refusal come from the same
//! row.
use ge_plugin_api::types::{DType, TensorDesc};
use ge_plugin_api::view::Node;

/// What a node is translated to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// A copy of input 0 to output 0.
    Copy,
    /// A copy of each input to the output of the same index.
    CopyEach,
    /// A copy by addresses that can be updated.
    CopyAddress,
    /// The merge of values from several streams into one place: a copy of input 0.
    Merge,
    /// Activates streams.
    StreamActive,
    /// Activates a stream if a comparison holds.
    StreamSwitch,
    /// A label.
    LabelSet,
    /// A jump to a label.
    LabelGoto,
    /// A jump to a label selected by an index.
    LabelSwitch,
    /// Records an event.
    Send,
    /// Waits for an event.
    Recv,
    /// Records a notify.
    SendNotify,
    /// Waits for a notify.
    RecvNotify,
    /// Clears memory.
    Clear,
    /// Exits the model.
    Exit,
}

/// A row of the op store.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Operator type.
    pub name: &'static str,
    /// What the operator is translated to.
    pub family: Family,
}

const fn row(name: &'static str, family: Family) -> Row {
    Row { name, family }
}

/// Every operator of the engine (facts 8.6).
pub const OPS: &[Row] = &[
    row("Identity", Family::Copy),
    row("MemcpyAsync", Family::Copy),
    row("Enter", Family::Copy),
    row("RefEnter", Family::Copy),
    row("LoopCond", Family::Copy),
    row("NextIteration", Family::Copy),
    row("RefNextIteration", Family::Copy),
    row("Exit", Family::Copy),
    row("RefExit", Family::Copy),
    row("ReadVariableOp", Family::Copy),
    row("IdentityN", Family::CopyEach),
    row("MemcpyAddrAsync", Family::CopyAddress),
    row("StreamMerge", Family::Merge),
    row("StreamActive", Family::StreamActive),
    row("StreamSwitch", Family::StreamSwitch),
    row("LabelSet", Family::LabelSet),
    row("LabelGotoEx", Family::LabelGoto),
    row("LabelSwitchByIndex", Family::LabelSwitch),
    row("Send", Family::Send),
    row("Recv", Family::Recv),
    row("SendNotify", Family::SendNotify),
    row("RecvNotify", Family::RecvNotify),
    row("AtomicAddrClean", Family::Clear),
    row("MemSet", Family::Clear),
    row("ModelExit", Family::Exit),
];

/// The family of an operator type; `None` if this engine does not have it.
pub fn family(op: &str) -> Option<Family> {
    OPS.iter().find(|o| o.name == op).map(|o| o.family)
}

/// Why the engine refuses a node; `None` if it takes it.
pub fn refusal(node: &Node<'_>) -> Option<String> {
    let copy = |i: usize| match (node.input_desc(i), node.outputs().get(i)) {
        (None, _) => Some(format!("input {i} is missing")),
        (_, None) => Some(format!("output {i} is missing")),
        (Some(x), Some(y)) => copy_refusal(i, x, y),
    };
    match family(node.op()) {
        None => Some("type".into()),
        Some(Family::Copy | Family::CopyAddress) => copy(0),
        Some(Family::CopyEach) => (0..node.inputs().len().max(node.outputs().len())).find_map(copy),
        Some(Family::Merge) => {
            let index_is_read = !node.graph().users(node.value(1)).is_empty();
            if index_is_read {
                Some("its second output, which branch was taken, is not made on the device".into())
            } else {
                copy(0)
            }
        }
        Some(Family::StreamSwitch) => {
            let two = node.input(0).is_some() && node.input(1).is_some();
            if two { None } else { Some("it compares two values, inputs 0 and 1".into()) }
        }
        Some(Family::LabelSwitch) => match node.input_desc(0) {
            None => Some("input 0, the index, is missing".into()),
            Some(d) if !matches!(d.dtype, DType::I32 | DType::U32 | DType::I64 | DType::U64) => {
                Some(format!("input 0, the index, is {}, expected i32, u32, i64 or u64", d.dtype))
            }
            Some(_) => None,
        },
        Some(_) => None,
    }
}

/// Why input `i` cannot be copied to its output; `None` if it can.
pub fn copy_refusal(i: usize, x: &TensorDesc, y: &TensorDesc) -> Option<String> {
    if x.dtype != y.dtype {
        return Some(format!("input {i} is {}, output {i} is {}: a copy changes no type", x.dtype, y.dtype));
    }
    match (x.data_bytes(), y.data_bytes()) {
        (Some(a), Some(b)) if a != b => Some(format!("input {i} has {a} bytes, output {i} has {b}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ge_plugin_api::types::Shape;

    #[test]
    fn no_type_stands_twice() {
        let mut all: Vec<&str> = OPS.iter().map(|o| o.name).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), OPS.len());
    }
    #[test]
    fn a_copy_changes_neither_type_nor_size() {
        let d = |t, n| TensorDesc::new(t, Shape::of(&[n]));
        assert_eq!(copy_refusal(0, &d(DType::F32, 4), &d(DType::F32, 4)), None);
        assert_eq!(
            copy_refusal(0, &d(DType::F32, 4), &d(DType::F32, 5)).as_deref(),
            Some("input 0 has 16 bytes, output 0 has 20")
        );
        assert!(copy_refusal(2, &d(DType::F32, 4), &d(DType::I32, 4)).is_some_and(|r| r.contains("input 2 is f32")));
    }
}
