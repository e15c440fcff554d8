//! Shapes that a loop carries: the body is inferred again from its own results until both agree
//! (003 §8, "While loop shape inference").
use super::InferShapePass;
use super::subgraphs::{body, give, join, subtree};
use crate::error::Result;
use crate::pass::{PassManager, Records};
use ge_ir::{Model, NodeId, Shape, TensorDesc};

/// Maximum number of inferences; then all carried shapes become unknown.
const TURNS: usize = 16;
/// Maximum nesting depth of loops that are handled this way; in deeper ones every carried shape is
/// unknown.
const DEPTH: usize = 4;

/// Returns what a loop carries in all of its iterations; sizes that the body changes are unknown.
/// The inputs of the loop's graphs are set to it.
pub(super) fn settle(
    infer: &InferShapePass<'_>,
    passes: &PassManager<'_>,
    model: &mut Model,
    gi: usize,
    id: NodeId,
    depth: usize,
) -> Result<Vec<TensorDesc>> {
    let g = &model.graphs()[gi];
    let Some(n) = g.get(id) else { return Ok(Vec::new()) };
    // The body of a For takes the counter before the values that it carries.
    let counter = if n.op() == "For" { Some(g.input_desc(n, 0).cloned()) } else { None };
    let first = if counter.is_some() { 3 } else { 0 };
    let given = |carried: &[TensorDesc]| -> Vec<Option<TensorDesc>> {
        counter.clone().into_iter().chain(carried.iter().cloned().map(Some)).collect()
    };
    let mut carried: Vec<TensorDesc> =
        (first..n.inputs().len()).map(|i| g.input_desc(n, i).cloned().unwrap_or_else(TensorDesc::unknown)).collect();
    let graphs: Vec<usize> = n.subgraphs().into_iter().filter_map(|s| model.graph_index(s)).collect();
    if let Some(b) = body(model, gi, id) {
        let mut settled = false;
        for _ in 0..if depth < DEPTH { TURNS } else { 0 } {
            let Some(mut turn) = subtree(model, b) else { break };
            give(turn.root_mut(), &given(&carried));
            // What cannot be inferred is reported when the body itself is inferred.
            if infer.walk(&mut turn, passes, &mut Records::default(), depth + 1).is_err() {
                settled = true;
                break;
            }
            let root = turn.root();
            let next: Vec<TensorDesc> = carried
                .iter()
                .enumerate()
                .map(|(k, c)| {
                    root.net_output().and_then(|o| root.input_desc(o, k)).map_or_else(|| c.clone(), |d| join(c, d))
                })
                .collect();
            settled = next.iter().zip(&carried).all(|(a, b)| a.shape == b.shape && a.dtype == b.dtype);
            carried = next;
            if settled {
                break;
            }
        }
        if !settled {
            carried.iter_mut().for_each(|d| d.shape = Shape::unranked());
        }
    }
    let last = given(&carried);
    for s in graphs {
        let sub = &mut model.graphs_mut()[s];
        let data: Vec<(NodeId, i64)> =
            sub.data_nodes().iter().map(|d| (d.id(), d.attrs().int("index").unwrap_or(0))).collect();
        for (d, k) in data {
            if let Some(Some(desc)) = usize::try_from(k).ok().and_then(|k| last.get(k)) {
                sub.set_outputs(d, vec![desc.clone()]);
            }
        }
    }
    Ok(carried)
}
