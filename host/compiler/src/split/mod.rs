//! Physical streams. in: logical streams and the tasks really generated, out: `PhysicalPlan`.
use crate::error::Result;
use crate::ids::{ModelMap, NodeKey, PhysicalId, StreamId};
use crate::streams::{ExecutionOrder, StreamPlan};
use crate::tasks::{PlacedTask, TaskList};
use ge_ir::Model;
use ge_plugin_api::device::SocSpec;

/// One physical stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhysicalStream {
    /// The logical stream it is a part of.
    pub logical: StreamId,
    /// Whether it is a huge stream.
    pub huge: bool,
    /// Whether it starts at launch; else it sleeps until activated.
    pub head: bool,
    /// Tasks on it.
    pub tasks: u32,
}

/// Physical streams of a model.
#[derive(Clone, Debug)]
pub struct PhysicalPlan {
    /// Physical streams; ids are positions.
    pub streams: Vec<PhysicalStream>,
    /// Physical stream of each node's main tasks.
    pub of: ModelMap<Option<PhysicalId>>,
    /// Physical streams of each node's attached streams.
    pub attached: ModelMap<Vec<PhysicalId>>,
    /// Tasks in TASK_INFO's order: node order, then the order in which the engine emitted them.
    pub tasks: Vec<PlacedTask>,
}

/// Splits nothing: one physical stream for each logical one.
pub fn run(
    model: &Model,
    streams: &StreamPlan,
    order: &ExecutionOrder,
    tasks: &TaskList,
    soc: &SocSpec,
) -> Result<PhysicalPlan> {
    let _ = soc;
    let mut plan = PhysicalPlan {
        streams: (0..streams.streams.len())
            .map(|i| PhysicalStream { logical: StreamId(i as u32), huge: false, head: true, tasks: 0 })
            .collect(),
        of: ModelMap::new(model, None),
        attached: ModelMap::new(model, Vec::new()),
        tasks: tasks.tasks.clone(),
    };
    for &key in order.line() {
        plan.of[key] = streams.of[key].map(|s| PhysicalId(s.0));
        plan.attached[key] = streams.attached[key].iter().map(|s| PhysicalId(s.0)).collect();
    }
    for t in &mut plan.tasks {
        t.physical = PhysicalId(t.stream.0);
        plan.streams[t.stream.0 as usize].tasks += 1;
    }
    Ok(plan)
}

/// Main physical stream of a node.
pub fn physical_of(plan: &PhysicalPlan, key: NodeKey) -> Option<PhysicalId> {
    plan.of[key]
}
