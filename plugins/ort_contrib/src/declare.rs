//! How mappings of this crate are registered: each names the inputs and attributes that it reads,
//! and a node with others is refused. A model that a newer onnxruntime wrote would otherwise be
//! computed without them, silently.
use crate::shared::Outs;
use ge_plugin_api::Result;
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};

/// A mapping of one operator.
pub(crate) type Map = fn(&ForeignNode, &mut GraphBuilder<'_>) -> Outs;

/// Registers the mapping of an operator of `com.microsoft`: `ort_op!("QuickGelu", 1, ["alpha"],
/// map)` reads one input and the attribute `alpha`. [`ANY`] stands for any number of inputs.
macro_rules! ort_op {
    ($op:literal, $inputs:expr, [$($attr:literal),* $(,)?], $map:expr) => {
        ge_plugin_api::map_op!("onnx", "com.microsoft", $op, 1..=u32::MAX, |n, b| {
            crate::declare::reads(n, $inputs, &[$($attr),*])?;
            let map: crate::declare::Map = $map;
            map(n, b)
        });
    };
}
pub(crate) use ort_op;

/// Any number of inputs.
pub(crate) const ANY: usize = usize::MAX;

/// Refuses a node that has inputs beyond the first `inputs`, or attributes besides `attrs`.
pub(crate) fn reads(n: &ForeignNode, inputs: usize, attrs: &[&str]) -> Result<()> {
    if let Some(other) = n.attrs.iter().map(|a| a.key.as_str()).find(|k| !attrs.contains(k)) {
        let all = if attrs.is_empty() { "none is".to_owned() } else { format!("{} are", attrs.join(", ")) };
        return Err(n.refuse(format!("attribute `{other}` is not known; {all}")));
    }
    match (inputs..n.inputs.len()).find(|i| n.opt_input(*i).is_some()) {
        Some(i) => Err(n.refuse(format!("input {i} is given; the first {inputs} are known"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::reads;
    use ge_plugin_api::frontend::ForeignNode;
    use ge_plugin_api::types::{NodeId, ValueRef};

    #[test]
    fn inputs_and_attributes_that_a_mapping_does_not_read_are_refused_by_name() {
        let inputs = vec![ValueRef::new(NodeId(1), 0), ValueRef::ABSENT, ValueRef::new(NodeId(2), 0)];
        let mut n = ForeignNode { op: "Attention".into(), inputs: inputs.into(), ..ForeignNode::default() };
        n.attrs.set("num_heads", 2i64);
        n.attrs.set("causal", 0i64);
        let told = |inputs, attrs: &[&str]| reads(&n, inputs, attrs).map_err(|e| e.message().to_owned());
        assert_eq!(told(3, &["num_heads", "causal"]), Ok(()));
        assert!(told(3, &["num_heads"]).unwrap_err().contains("attribute `causal` is not known; num_heads are"));
        assert!(told(1, &["num_heads", "causal"]).unwrap_err().contains("input 2 is given; the first 1 are known"));
    }
}
