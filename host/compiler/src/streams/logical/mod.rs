//! Static logical streams: one stream an engine, nodes without a task on none.
use super::{LogicalStream, StreamPlan};
use crate::error::Result;
use crate::ids::{NodeKey, StreamId};
use crate::options::Options;
use crate::place::Placement;
use crate::toolbox::Toolbox;
use ge_ir::Model;
use ge_plugin_api::engine::flags;

/// One stream for each engine that takes part, in the order in which engines first appear.
pub fn assign(model: &Model, placement: &Placement, toolbox: &Toolbox, options: &Options) -> Result<StreamPlan> {
    let mut plan = StreamPlan::empty(model);
    let single = options.is_on("ge.enableSingleStream");
    plan.single = single;
    let mut of_engine = vec![None; toolbox.engines.len()];
    for (gi, g) in model.graphs().iter().enumerate() {
        for n in g.nodes() {
            let key = NodeKey::new(gi, n.id());
            let e = placement.engine[key];
            let f = toolbox.engine(e).info.flags;
            if f & flags::SKIP_ASSIGN_STREAM != 0 {
                continue;
            }
            let slot = if single { 0 } else { usize::from(e.0) };
            // An attach engine goes where its first producer with a stream stands.
            let follow = n.inputs().iter().filter(|v| !v.is_absent()).find_map(|v| {
                let p = NodeKey::new(gi, v.node);
                let independent = toolbox.engine(placement.engine[p]).info.flags & flags::INDEPENDENT != 0;
                if independent { None } else { plan.of[p] }
            });
            let s = match follow {
                Some(s) if f & flags::ATTACH != 0 => s,
                _ => *of_engine[slot].get_or_insert_with(|| {
                    plan.streams.push(LogicalStream::default());
                    StreamId(plan.streams.len() as u32 - 1)
                }),
            };
            plan.of[key] = Some(s);
        }
    }
    if plan.streams.is_empty() {
        plan.streams.push(LogicalStream::default());
    }
    // NetOutput ends the model: it stands on the stream of its last producer.
    if let Some(out) = model.root().net_output() {
        let s = out.inputs().iter().rev().filter(|v| !v.is_absent()).find_map(|v| plan.of[NodeKey::new(0, v.node)]);
        plan.of[NodeKey::new(0, out.id())] = Some(s.unwrap_or(StreamId(0)));
    }
    Ok(plan)
}
