//! `CalcOpParam`: asks the engine of each node for its output sizes, workspaces, attached streams
//! and sync resources (003 §5.1).
use crate::error::CompileError;
use crate::ids::{ModelMap, NodeKey, PORTION};
use crate::place::Placement;
use crate::toolbox::Toolbox;
use ge_ir::Model;
use ge_plugin_api::engine::{RunningParams, Target};
use rayon::prelude::*;

/// Asks the engines of all nodes in parallel. Returns the answers by node and the first refusal. A
/// refused node keeps the default parameters.
pub fn ask(model: &Model, placement: &Placement, toolbox: &Toolbox) -> (ModelMap<RunningParams>, Option<CompileError>) {
    let target = Target { rank_size: rank_size(model), ..toolbox.target.clone() };
    let mut out = ModelMap::new(model, RunningParams::default());
    let mut refused = None;
    for (gi, g) in model.graphs().iter().enumerate() {
        let found: Vec<Vec<_>> = g
            .order()
            .par_chunks(PORTION)
            .map(|chunk| {
                let context = toolbox.lend(model, gi);
                let view = context.graph();
                chunk
                    .iter()
                    .map(|&id| {
                        let key = NodeKey::new(gi, id);
                        let node = view.node(id);
                        let engine = toolbox.engine(placement.engine[key]);
                        let p = engine.object.calc_op_running_param(&node, &target);
                        let late = |e| crate::place::reassign::refused_late(e, &node, placement, toolbox, key);
                        (key, p.map_err(late))
                    })
                    .collect()
            })
            .collect();
        for (key, p) in found.into_iter().flatten() {
            match p {
                Ok(p) => out[key] = p,
                Err(e) => refused = refused.or(Some(e.into())),
            }
        }
    }
    (out, refused)
}

/// Number of ranks that the model's communication nodes are made for: the greatest `rank_size` of
/// any node. 0 if no node states one: as many ranks as run the model.
pub fn rank_size(model: &Model) -> u32 {
    model
        .graphs()
        .iter()
        .flat_map(|g| g.nodes())
        .filter_map(|n| n.attrs().int("rank_size"))
        .filter_map(|r| u32::try_from(r).ok())
        .max()
        .unwrap_or(0)
}
