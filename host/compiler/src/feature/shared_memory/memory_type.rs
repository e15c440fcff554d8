//! Memory types of outputs as attributes state them (facts 2.1): `memory` on a descriptor,
//! `_output_memory_type` on a node.
use ge_ir::Node;
use ge_plugin_api::types::AttrValue;

/// Memory type of output `k` of a node: the descriptor's `memory`, else the node's
/// `_output_memory_type`. `None` if neither states it.
pub fn memory_of(n: &Node, k: usize) -> Option<String> {
    if let Some(m) = n.outputs().get(k).and_then(|d| d.attrs.str("memory")) {
        return Some(m.to_owned());
    }
    match n.attr("_output_memory_type") {
        Some(AttrValue::Strs(l)) => l.get(k).map(|s| s.to_string()),
        Some(AttrValue::Ints(l)) => l.get(k).map(|t| memory_name(*t)),
        _ => None,
    }
}

/// Name of a memory type from its code in the original's attributes (facts 2.1).
pub fn memory_name(code: i64) -> String {
    match code {
        0 | 2 => "HBM".into(),
        0x1_0000 => "L1".into(),
        0x2_0000 => "L2".into(),
        0x8000 => "UB".into(),
        0x10 | 0x11 => "P2P".into(),
        0x20 => "TS".into(),
        0x81 => "HOST".into(),
        other => format!("type {other}"),
    }
}
