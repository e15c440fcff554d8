//! `CalcOpParam`: each node's output sizes, workspaces, attached streams and sync resources, from its engine (003 §5.1).
use crate::error::Result;
use crate::ids::{ModelMap, NodeKey};
use crate::place::Placement;
use crate::toolbox::Toolbox;
use ge_ir::Model;
use ge_ir::view::GraphContext;
use ge_plugin_api::engine::{RunningParams, Target};
use rayon::prelude::*;

/// Asks every node's engine, in parallel; the answers in a table by node.
pub fn run(model: &Model, placement: &Placement, toolbox: &Toolbox) -> Result<ModelMap<RunningParams>> {
    let target = Target { rank_size: crate::stages::rank_size(model), ..toolbox.target.clone() };
    let mut out = ModelMap::new(model, RunningParams::default());
    for (gi, g) in model.graphs().iter().enumerate() {
        let found: Vec<Result<Vec<_>>> = g
            .order()
            .par_chunks(512)
            .map(|chunk| {
                let context = GraphContext::new(model, gi);
                let view = context.graph();
                chunk
                    .iter()
                    .map(|&id| {
                        let key = NodeKey::new(gi, id);
                        let node = view.node(id);
                        let engine = toolbox.engine(placement.engine[key]);
                        let p = engine.object.calc_op_running_param(&node, &target);
                        let late = |e| crate::place::reassign::refused_late(e, &node, placement, toolbox, key);
                        Ok((key, p.map_err(late)?))
                    })
                    .collect()
            })
            .collect();
        for f in found {
            for (key, p) in f? {
                out[key] = p;
            }
        }
    }
    Ok(out)
}
