//! Arithmetic on sizes: small values that shapes depend on and that are computed only from sizes,
//! constants and small inputs. Executor v2 computes them while it plans, because on the device each
//! of them would cost a round trip.
use super::unknown::SIZES;
use crate::toolbox::Toolbox;
use ge_ir::{Graph, Node, NodeId, TensorDesc};
use ge_plugin_api::ops::flags;

/// Maximum size of a result in bytes.
const BYTES: u64 = 4096;

/// For each node, by id, whether it is such arithmetic.
pub fn of(g: &Graph, toolbox: &Toolbox) -> Vec<bool> {
    let wanted = wanted(g, toolbox);
    let small = |d: &TensorDesc| d.data_bytes().is_some_and(|b| b <= BYTES);
    let fixed = |n: &Node| {
        toolbox.op_flags(n.op_key()) & (flags::RANDOM | flags::STATEFUL | flags::COMMUNICATION) == 0
            && n.subgraphs().is_empty()
    };
    let mut out = vec![false; g.id_bound()];
    let mut known = vec![false; g.id_bound()];
    for n in g.nodes() {
        let i = n.id().index();
        let given = |id: NodeId| known[id.index()];
        known[i] = n.is_const()
            || SIZES.contains(&n.op())
            || (n.outputs().iter().all(small)
                && wanted[i]
                && (n.op() == "Data"
                    || (fixed(n) && n.inputs().iter().filter(|v| !v.is_absent()).all(|v| given(v.node)))));
        out[i] = known[i] && !n.is_const() && n.op() != "Data";
    }
    out
}

/// For each node, by id, whether shapes depend on its values.
fn wanted(g: &Graph, toolbox: &Toolbox) -> Vec<bool> {
    let mut out = vec![false; g.id_bound()];
    for n in g.nodes().rev() {
        if let Some(op) = toolbox.op(n.op_key()) {
            let values = op.proto.value_inputs.iter().filter_map(|i| g.producer(n, usize::try_from(*i).ok()?));
            values.for_each(|p| out[p.id().index()] = true);
        }
        let stops = SIZES.contains(&n.op()) || toolbox.op_flags(n.op_key()) & flags::DATA_DEPENDENT_SHAPE != 0;
        if out[n.id().index()] && !stops {
            n.inputs().iter().filter(|v| !v.is_absent()).for_each(|v| out[v.node.index()] = true);
        }
    }
    out
}
