//! Logical streams of models of unknown shapes (004 §4.2), as their files hold them.
use crate::ids::{ModelMap, NodeKey};
use crate::options::Options;
use crate::partition::dynamic::unknown::SIZES;
use crate::place::Placement;
use crate::streams::{StreamPlan, dynamic};
use crate::toolbox::{EngineId, Toolbox};
use ge_ir::{Model, Node};
use ge_model::{CompiledModel, LogicalInfo, StreamsInfo};
use ge_plugin_api::ops::flags;
use std::collections::{BTreeMap, HashMap};

/// Gives every node its logical stream, if the user asks for several streams and the plan has at
/// least two.
pub(super) fn assign(model: &Model, toolbox: &Toolbox, options: &Options, m: &mut CompiledModel) {
    let Some(placement) = placement(model, toolbox, m) else { return };
    let Some(plan) = dynamic::of_executor(model, &placement, toolbox, options) else { return };
    let StreamPlan { of, streams, .. } = plan;
    if streams.len() < 2 {
        return;
    }
    for (gi, (g, info)) in model.graphs().iter().zip(&mut m.graphs).enumerate() {
        for (n, info) in g.nodes().zip(&mut info.nodes) {
            info.logical_stream = of[NodeKey::new(gi, n.id())].map(|s| s.0);
        }
    }
    let logical =
        streams.into_iter().map(|s| LogicalInfo { label: s.label, user_label: s.user_label, ..LogicalInfo::default() });
    m.streams = StreamsInfo { logical: logical.collect(), ..StreamsInfo::default() };
}

/// The engine that is asked first for each node. Nodes that executor v2 handles itself belong to
/// the structural engine, because they have no task. `None` if there is no structural engine.
fn placement(model: &Model, toolbox: &Toolbox, m: &CompiledModel) -> Option<Placement> {
    let structural = toolbox.structural_engine()?;
    let by_name: HashMap<&str, EngineId> =
        (0u16..).zip(&toolbox.engines).map(|(k, e)| (e.info.name.as_str(), EngineId(k))).collect();
    let free = |n: &Node| {
        !n.subgraphs().is_empty() || SIZES.contains(&n.op()) || toolbox.op_flags(n.op_key()) & flags::VIEW != 0
    };
    let mut engine = ModelMap::new(model, structural);
    for (gi, (g, info)) in model.graphs().iter().zip(&m.graphs).enumerate() {
        for (n, info) in g.nodes().zip(&info.nodes).filter(|(n, _)| !free(n)) {
            if let Some(e) = by_name.get(info.engine.as_str()) {
                engine[NodeKey::new(gi, n.id())] = *e;
            }
        }
    }
    Some(Placement { engine, asked: BTreeMap::new() })
}
