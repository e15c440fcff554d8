//! Gears that leave something to the run: strings, sequences, and sizes that depend on values.
//!
//! A gear whose sizes are all known is planned as a whole. If some size of a gear is unknown,
//! executor v2 runs the model: it takes the branch of the gear, and treats the known parts of the
//! branch as it treats those of any other graph. A run then gives the inputs in their own sizes,
//! not in memory sized for the largest gear.
use crate::error::{CompileError, Result};
use crate::prepare::subgraphs::join;
use ge_ir::{Dim, Graph, Model, NodeId, TensorDesc, ValueRef};
use ge_model::gears::{BATCH_NUM, OPEN, SELECTOR, SUFFIX, VIEW, wanted};
use ge_model::{CompiledModel, Gear, Gears};
use ge_plugin_api::patch::Edit;

/// Gives the inputs and outputs of a model with gears the sizes that they have in a run. A model
/// without gears does not change.
///
/// # Errors
/// Fails if the inputs of a branch cannot be changed in this way, which is a bug.
pub fn open(model: &mut Model) -> Result<()> {
    let Some((case, branches)) = branches(model) else { return Ok(()) };
    let inputs: Vec<(NodeId, Vec<TensorDesc>)> = model
        .root()
        .data_nodes()
        .into_iter()
        .filter_map(|n| {
            let open = n.attrs().strs(OPEN)?;
            Some((n.id(), n.outputs().iter().map(|d| named(d, &open)).collect()))
        })
        .collect();
    for (id, outputs) in inputs {
        model.root_mut().set_outputs(id, outputs);
    }
    for b in &branches {
        let views = own_sizes(&mut model.graphs_mut()[*b]);
        model.apply(*b, views).map_err(|source| CompileError::Patch { who: VIEW.into(), source })?;
    }
    let ends: Vec<&Graph> = branches.iter().map(|b| &model.graphs()[*b]).collect();
    let given = model.root().get(case).map(|n| n.outputs().to_vec()).unwrap_or_default();
    let joined = |(k, out): (usize, &TensorDesc)| {
        let of: Option<Vec<&TensorDesc>> = ends.iter().map(|g| g.input_desc(g.net_output()?, k)).collect();
        match of.as_deref().and_then(<[_]>::split_first) {
            Some((first, rest)) => {
                let mut all = rest.iter().fold((*first).clone(), |a, b| join(&a, b));
                // A symbol that a gear uses means nothing outside the gear.
                all.shape.dims_mut().iter_mut().filter(|d| !d.is_known()).for_each(|d| *d = Dim::UNKNOWN);
                TensorDesc { attrs: out.attrs.clone(), ..all }
            }
            None => out.clone(),
        }
    };
    let outputs = given.iter().enumerate().map(joined).collect();
    model.root_mut().set_outputs(case, outputs);
    Ok(())
}

/// Describes the gears of a model with gears in the compiled model.
pub(super) fn describe(model: &Model, m: &mut CompiledModel) {
    let (Some((dims, values)), Some((_, branches))) = (wanted(model.root().attrs()), branches(model)) else { return };
    m.inputs.retain(|i| i.name != SELECTOR);
    let list = values.iter().zip(&branches).enumerate().map(|(k, (sizes, b))| {
        let size = |d: &Dim| match d.symbol_name() {
            Some(s) => dims.iter().position(|x| x == s).map_or(0, |x| sizes[x]),
            None => d.size().unwrap_or(0),
        };
        let g = &model.graphs()[*b];
        let ends = g.net_output().map(|n| n.inputs()).unwrap_or_default();
        let end = |v: &ValueRef| g.desc(*v)?.shape.sizes();
        Gear {
            graph: format!("{}{SUFFIX}{k}", model.root().name()),
            sizes: sizes.clone(),
            inputs: m.inputs.iter().map(|i| i.desc.shape.dims().iter().map(size).collect()).collect(),
            outputs: ends.iter().map(end).collect::<Option<_>>().unwrap_or_default(),
        }
    });
    let list = list.collect();
    m.gears = Some(Gears { dims, list });
}

/// The `Case` node of a model with gears, and the indices of the graphs that it chooses between.
fn branches(model: &Model) -> Option<(NodeId, Vec<usize>)> {
    let case = model.root().nodes().find(|n| n.op() == "Case" && n.attr(BATCH_NUM).is_some())?;
    Some((case.id(), case.subgraphs().into_iter().map(|s| model.graph_index(s)).collect::<Option<_>>()?))
}

/// A copy of a descriptor in which the sizes that gears set are symbols. An empty name leaves a
/// dimension as it is.
fn named(d: &TensorDesc, names: &[&str]) -> TensorDesc {
    let mut d = d.clone();
    for (d, name) in d.shape.dims_mut().iter_mut().zip(names).filter(|(_, name)| !name.is_empty()) {
        *d = Dim::symbol(name);
    }
    d
}

/// Gives the inputs of a gear the sizes that the gear sees, not the size of the largest gear.
/// Returns the edits that remove the views through which the gear saw its inputs.
fn own_sizes(g: &mut Graph) -> Vec<Edit> {
    let views: Vec<NodeId> = g.nodes().filter(|n| n.op() == VIEW).map(|n| n.id()).collect();
    let mut edits = Vec::with_capacity(2 * views.len());
    for view in views {
        let Some(n) = g.get(view) else { continue };
        let (Some(input), Some(shape)) = (n.input(0), n.outputs().first().map(|d| d.shape.clone())) else { continue };
        edits.extend([Edit::ReplaceUses(n.value(0), input), Edit::RemoveNode(view)]);
        // A node that changes the type of an input may stand before its view.
        let mut at = Some(input);
        while let Some(v) = at {
            let Some(d) = g.output_mut(v) else { break };
            d.shape = shape.clone();
            at = g.get(v.node).filter(|n| n.op() != "Data").and_then(|n| n.input(0));
        }
    }
    edits
}
