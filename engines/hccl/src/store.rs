//! The op store: operators, and the reasons for refusing nodes.
use crate::collective::{Collective, Kind, reduces};
use crate::transfer;
use ge_plugin_api::view::Node;

/// The operators of the engine.
pub const OPS: [(&str, Kind); 6] = [
    ("HcomAllReduce", Kind::AllReduce),
    ("HcomAllGather", Kind::AllGather),
    ("HcomReduceScatter", Kind::ReduceScatter),
    ("HcomBroadcast", Kind::Broadcast),
    ("HcomAllToAll", Kind::AllToAll),
    (transfer::TRANSFER, Kind::Transfer),
];

/// The kind of collective of an operator type; `None` if this engine does not have it.
pub fn kind(op: &str) -> Option<Kind> {
    OPS.iter().find(|o| o.0 == op).map(|o| o.1)
}

/// Why the engine refuses a node; `None` if it takes it.
pub fn refusal(node: &Node<'_>) -> Option<String> {
    if matches!(node.op(), transfer::SEND | transfer::RECEIVE) {
        return Some(transfer::refusal(node));
    }
    let Some(kind) = kind(node.op()) else { return Some("type".into()) };
    let n = node.inputs().len();
    if n == 0 || n != node.outputs().len() || (n > 1 && kind != Kind::Broadcast) {
        return Some(format!("{n} inputs and {} outputs", node.outputs().len()));
    }
    let stated = node.int("rank_size");
    if let Some(ranks) = stated.filter(|r| !(1..=i64::from(u32::MAX)).contains(r)) {
        return Some(format!("rank_size is {ranks}, it takes 1 or more"));
    }
    let ranks = stated.unwrap_or(0);
    if ranks == 0 && matches!(kind, Kind::AllGather | Kind::ReduceScatter | Kind::AllToAll) {
        return Some("rank_size is missing".into());
    }
    for i in 0..n {
        let (Some(x), Some(y)) = (node.input_desc(i), node.outputs().get(i)) else {
            return Some(format!("input {i} is missing"));
        };
        if x.dtype != y.dtype {
            return Some(format!("input {i} is {}, output {i} is {}: a transfer changes no type", x.dtype, y.dtype));
        }
        let (Some(a), Some(b)) = (x.data_bytes(), y.data_bytes()) else {
            return Some(format!("shape {} of input {i} is not known", x.shape));
        };
        if matches!(kind, Kind::AllReduce | Kind::ReduceScatter) && !reduces(x.dtype) {
            return Some(format!("input {i} is {}, which the device cannot reduce", x.dtype));
        }
        let ranks = ranks as u64;
        let fits = match kind {
            Kind::AllReduce | Kind::Broadcast | Kind::Transfer => a == b,
            Kind::AllGather => a.checked_mul(ranks) == Some(b),
            Kind::ReduceScatter => b.checked_mul(ranks) == Some(a),
            Kind::AllToAll => a == b && a % ranks == 0,
        };
        if !fits {
            return Some(format!("input {i} has {a} bytes, output {i} {b}, for rank_size {ranks}"));
        }
    }
    Collective::of_node(node, kind, ranks as u32).err()
}
