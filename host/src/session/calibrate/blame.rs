//! Which nodes of a model in narrow types are to blame for the errors of its outputs.
use super::Ran;
use super::errors::{TOLERANCE, of_tensors};
use ge_model::{CompiledModel, GraphInfo, NodeInfo};
use ge_plugin_api::fusion::ORIGINALS;
use ge_plugin_api::types::DType;
use ge_runtime::Captured;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A node of a model: whether it is of the model for sizes outside the gears, its graph, its index.
type Place = (bool, u32, u32);
/// The largest error of each node.
pub(super) type ByNode = BTreeMap<Place, f64>;

/// The error of each node of the narrow model, for nodes whose values both models have. In loops,
/// each turn is compared with the same turn. Values of another size have an infinite error.
pub(super) fn by_node(wide: &Ran, low: &Ran) -> ByNode {
    let of: HashMap<(&str, u32, u64), &Captured> =
        turns(wide).map(|(n, turn, c)| ((n.name.as_str(), c.output, turn), c)).collect();
    let is_outside = !std::ptr::eq(low.model.ran(&low.outcome), low.model.info());
    let mut out = ByNode::new();
    for (n, turn, c) in turns(low) {
        let Some(w) = of.get(&(n.name.as_str(), c.output, turn)) else { continue };
        let e = of_tensors(&c.tensor, &w.tensor, false);
        // Integers say nothing of how far they are off: their readers inherit the error of what
        // they are computed of.
        if e.unequal > 0 {
            continue;
        }
        let e = if e.sizes > 0 { f64::INFINITY } else { e.max_rel };
        let worst = out.entry((is_outside, c.graph, c.node)).or_default();
        *worst = worst.max(e);
    }
    out
}

/// What a run captured: the node, the turn of its loop, and the value.
fn turns(ran: &Ran) -> impl Iterator<Item = (&NodeInfo, u64, &Captured)> {
    let m = ran.model.ran(&ran.outcome);
    let mut turns: HashMap<(u32, u32, u32), u64> = HashMap::new();
    ran.outcome.captured.iter().filter_map(move |c| {
        let turn = turns.entry((c.graph, c.node, c.output)).or_default();
        *turn += c.times;
        Some((m.node(c.graph, c.node)?, *turn, c))
    })
}

fn is_narrow(t: DType) -> bool {
    matches!(t, DType::F16 | DType::BF16)
}

/// The name of a node and those of the original nodes that it stands for.
fn names(n: &NodeInfo) -> impl Iterator<Item = String> + '_ {
    let originals = n.attrs.strs(ORIGINALS).into_iter().flatten().map(|s| s.to_string());
    std::iter::once(n.name.clone()).chain(originals)
}

/// Whether a node computes in a narrow type.
fn computes_narrow(g: &GraphInfo, n: &NodeInfo) -> bool {
    if matches!(n.op.as_str(), "Const" | "Constant" | "Data" | "NetOutput") {
        return false;
    }
    let read = n.inputs.iter().flatten().filter_map(|v| g.nodes.get(v.node as usize)?.outputs.get(v.output as usize));
    n.outputs.iter().chain(read).any(|t| is_narrow(t.dtype))
}

/// A node that computes in a narrow type or reads the output of such a node.
pub(super) struct Added {
    /// Its names and, if it is to blame, the names of the nodes that compute its inputs.
    pub(super) names: BTreeSet<String>,
    /// Its error minus that of its inputs.
    error: f64,
    /// Whether it makes wrong numbers from right inputs.
    pub(super) to_blame: bool,
}

impl Added {
    /// Without the names that are known already; `None` if no other is left.
    pub(super) fn beside(mut self, known: &BTreeSet<&String>) -> Option<Added> {
        self.names.retain(|n| !known.contains(n));
        (!self.names.is_empty()).then_some(self)
    }
}

/// Sorts names by the order of the model's nodes.
pub(super) fn in_order(m: &CompiledModel, mut kept: Vec<String>) -> Vec<String> {
    let all = m.every_graph().flat_map(|g| &g.nodes).flat_map(names).enumerate();
    let mut place: HashMap<String, usize> = HashMap::new();
    all.for_each(|(i, n)| {
        place.entry(n).or_insert(i);
    });
    kept.sort_by_key(|n| place.get(n).copied());
    kept
}

/// The names of the nodes that contribute most to the errors.
pub(super) fn most(mut found: Vec<Added>, share: usize) -> BTreeSet<String> {
    found.sort_by(|a, b| b.error.total_cmp(&a.error).then_with(|| a.names.cmp(&b.names)));
    found.into_iter().take(share.max(1)).flat_map(|a| a.names).collect()
}

/// What each node in a narrow type adds to the errors, and whether it is to blame: of the model, of
/// its parts of known shape, and of the model for sizes outside its gears.
pub(super) fn added(m: &CompiledModel, errors: &ByNode) -> Vec<Added> {
    let mut gears = m.clone();
    let outside = gears.take_outside();
    let mut out = Vec::new();
    for (is_outside, m) in std::iter::once((false, &gears)).chain(outside.iter().map(|o| (true, o))) {
        for (gi, g) in (0..).zip(m.every_graph()) {
            let error = |i: usize| errors.get(&(is_outside, gi, u32::try_from(i).ok()?)).copied();
            of_graph(g, &error, &mut out);
        }
    }
    out
}

/// Adds the nodes of a graph. `error` is the error of a node, if it is known.
fn of_graph(g: &GraphInfo, error: &dyn Fn(usize) -> Option<f64>, out: &mut Vec<Added>) {
    // A node that only the narrow model has (a cast) takes over the error of its input.
    let mut off = vec![0.0f64; g.nodes.len()];
    for (i, n) in g.nodes.iter().enumerate() {
        let read = inputs(n).filter_map(|k| off.get(k).copied()).fold(0.0, f64::max);
        let own = error(i);
        off[i] = own.unwrap_or(read);
        let narrow = computes_narrow(g, n);
        let to_blame = own.is_some_and(|e| e > TOLERANCE) && read <= TOLERANCE;
        if !narrow && !to_blame {
            continue;
        }
        let mut told: BTreeSet<String> = names(n).filter(|_| narrow).collect();
        if to_blame {
            told.extend(makers(g, n, error));
        }
        // If the error is infinite on both sides, the contribution is unknown and counts as 0.
        let error = if off[i] > read { off[i] - read } else { 0.0 };
        out.push(Added { names: told, error, to_blame });
    }
}

fn inputs(n: &NodeInfo) -> impl Iterator<Item = usize> + '_ {
    n.inputs.iter().flatten().map(|v| v.node as usize)
}

/// The names of the nodes in a narrow type that compute what a node reads, behind casts.
fn makers(g: &GraphInfo, n: &NodeInfo, error: &dyn Fn(usize) -> Option<f64>) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    let mut behind: Vec<usize> = inputs(n).collect();
    let mut steps = 0;
    while let Some(k) = behind.pop().filter(|_| steps < 64) {
        steps += 1;
        let Some(p) = g.nodes.get(k) else { continue };
        if error(k).is_some() {
            out.extend(names(p).filter(|_| computes_narrow(g, p)));
        } else {
            behind.extend(inputs(p));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use ge_model::ValueAt;
    use ge_plugin_api::types::{Shape, TensorDesc};

    /// `x` -> `a` -> `b`, both in f16.
    fn graph(prefix: &str) -> GraphInfo {
        let node = |name: &str, op: &str, of: Option<u32>, dtype| NodeInfo {
            name: format!("{prefix}{name}"),
            op: op.into(),
            inputs: of.map(|node| Some(ValueAt { node, output: 0 })).into_iter().collect(),
            outputs: vec![TensorDesc::new(dtype, Shape::of(&[1]))],
            ..NodeInfo::default()
        };
        let nodes = vec![
            node("x", "Data", None, DType::F32),
            node("a", "MatMul", Some(0), DType::F16),
            node("b", "Relu", Some(1), DType::F16),
        ];
        GraphInfo { nodes, ..GraphInfo::default() }
    }

    #[test]
    fn nodes_of_parts_are_blamed() {
        let part = CompiledModel { graphs: vec![graph("p/")], ..CompiledModel::default() };
        let m = CompiledModel { graphs: vec![graph("")], parts: vec![part], ..CompiledModel::default() };
        let errors = ByNode::from([((false, 0, 1), 0.0), ((false, 1, 1), 0.5), ((false, 1, 2), 0.5)]);
        let blamed: Vec<_> = added(&m, &errors).into_iter().filter(|a| a.to_blame).flat_map(|a| a.names).collect();
        assert_eq!(blamed, ["p/a"]);
    }

    #[test]
    fn the_share_is_of_nodes_that_are_not_known_yet() {
        let m = CompiledModel { graphs: vec![graph("")], ..CompiledModel::default() };
        let errors = ByNode::from([((false, 0, 1), 9e-3), ((false, 0, 2), 1e-2)]);
        let known = "a".to_owned();
        let left: Vec<_> = added(&m, &errors).into_iter().filter_map(|a| a.beside(&BTreeSet::from([&known]))).collect();
        assert_eq!(most(left, 1), BTreeSet::from(["b".to_owned()]));
    }
}
