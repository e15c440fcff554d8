//! `TaskGenerator`: tasks of each node by its engine's builder, in parallel, put back in node order; records and waits of the
//! sync plan around them; END_GRAPH last (003 §5.5).
use super::{PlacedTask, StoredKernel, TaskList};
use crate::error::{CompileError, Result};
use crate::ids::{NodeKey, PhysicalId, StreamId};
use crate::place::Placement;
use crate::streams::{ExecutionOrder, StreamPlan};
use crate::sync::SyncPlan;
use crate::toolbox::Toolbox;
use ge_ir::Model;
use ge_ir::view::GraphContext;
use ge_plugin_api::diagnostic::{Error, ErrorKind};
use ge_plugin_api::engine::{KernelBinary, Target, TaskContext};
use ge_plugin_api::task::{TILING_SINK_BLOCK_DIM, Task, TaskType};
use rayon::prelude::*;
use std::collections::{BTreeMap, HashMap};

/// The generator of one compilation.
pub struct TaskGenerator<'t> {
    toolbox: &'t Toolbox,
    placement: &'t Placement,
    rank_size: u32,
}

type NodeTasks = (Vec<Task>, Option<KernelBinary>);

impl<'t> TaskGenerator<'t> {
    /// For one compilation.
    pub fn new(toolbox: &'t Toolbox, placement: &'t Placement, rank_size: u32) -> Self {
        TaskGenerator { toolbox, placement, rank_size }
    }

    /// Generates all tasks.
    pub fn run(
        &self,
        model: &Model,
        streams: &StreamPlan,
        order: &ExecutionOrder,
        sync: &SyncPlan,
    ) -> Result<TaskList> {
        let mut own = self.own_tasks(model)?;
        let mut waits: HashMap<NodeKey, Vec<usize>> = HashMap::new();
        let mut records: HashMap<NodeKey, Vec<usize>> = HashMap::new();
        for (i, p) in sync.pairs.iter().enumerate() {
            waits.entry(p.recv.node).or_default().push(i);
            records.entry(p.send.node).or_default().push(i);
        }
        let net_output = model.root().net_output().map(|n| NodeKey::new(0, n.id()));
        let mut out = TaskList::default();
        let mut kernels: BTreeMap<String, StoredKernel> = BTreeMap::new();
        for &key in order.line() {
            for &i in waits.get(&key).map_or(&[][..], |v| v) {
                out.tasks.push(sync_task(&sync.pairs[i], false));
            }
            let (tasks, kernel) = own.remove(&key).unwrap_or_default();
            if let Some(k) = kernel {
                let engine = self.toolbox.engine(self.placement.engine[key]).info.name.to_string();
                let name = k.name.to_string();
                let binary = Vec::from(k.binary);
                if let Some(old) = kernels.get(&name) {
                    if old.binary != binary {
                        return Err(CompileError::Plugin(
                            Error::new(
                                ErrorKind::PLUGIN,
                                format!("engine {engine} gave two different kernels the name {name}"),
                            )
                            .at_node(&key.name(model), key.get(model).map_or("", |n| n.op())),
                        ));
                    }
                } else {
                    kernels.insert(name.clone(), StoredKernel { name, binary, engine });
                }
            }
            let resources = sync.resources.get(&key).map_or(&[][..], Vec::as_slice);
            let updatable: Vec<bool> = tasks.iter().map(waits_for_update).collect();
            for mut task in tasks {
                let stream = self.stream_of(model, streams, key, &task)?;
                if task.kind() == TaskType::UPDATE {
                    // From the place in the node's list to the place among its updatable kernels, which later stages keep.
                    let target = task.numbers.first().and_then(|k| usize::try_from(*k).ok());
                    let target = target.filter(|k| updatable.get(*k) == Some(&true));
                    let k = target.ok_or_else(|| self.no_target(model, key))?;
                    task.numbers = vec![updatable[..k].iter().filter(|u| **u).count() as i64].into();
                }
                let sync_id = match task.kind() {
                    TaskType::EVENT_RECORD | TaskType::EVENT_WAIT | TaskType::NOTIFY_RECORD | TaskType::NOTIFY_WAIT => {
                        resources.get(task.sync_slot as usize).copied()
                    }
                    TaskType::HCCL => {
                        task.numbers.extend(resources.iter().map(|id| i64::from(*id)));
                        None
                    }
                    _ => None,
                };
                out.tasks.push(PlacedTask { node: key, stream, physical: PhysicalId(stream.0), task, sync_id });
            }
            if Some(key) == net_output {
                let stream = streams.of[key].unwrap_or(StreamId(0));
                out.tasks.push(PlacedTask {
                    node: key,
                    stream,
                    physical: PhysicalId(stream.0),
                    task: Task::new(TaskType::END_GRAPH),
                    sync_id: None,
                });
            }
            for &i in records.get(&key).map_or(&[][..], |v| v) {
                out.tasks.push(sync_task(&sync.pairs[i], true));
            }
        }
        out.kernels = kernels.into_values().collect();
        Ok(out)
    }

    fn no_target(&self, model: &Model, key: NodeKey) -> CompileError {
        let engine = &self.toolbox.engine(self.placement.engine[key]).info.name;
        let what = format!("engine {engine} updates a task that is no kernel with placeholder blocks");
        let e = Error::new(ErrorKind::PLUGIN, what);
        CompileError::Plugin(e.at_node(&key.name(model), key.get(model).map_or("", |n| n.op())))
    }

    fn stream_of(&self, model: &Model, streams: &StreamPlan, key: NodeKey, task: &Task) -> Result<StreamId> {
        let found = match task.stream.0 {
            k if k < 0 => streams.of[key],
            k => streams.attached[key].get(k as usize).copied(),
        };
        found.ok_or_else(|| {
            let engine = &self.toolbox.engine(self.placement.engine[key]).info.name;
            CompileError::Plugin(
                Error::new(
                    ErrorKind::PLUGIN,
                    format!("engine {engine} put a {} task on a stream that the node does not have", task.kind()),
                )
                .at_node(&key.name(model), key.get(model).map_or("", |n| n.op())),
            )
        })
    }

    /// Compiles and generates, each node once, in parallel.
    fn own_tasks(&self, model: &Model) -> Result<HashMap<NodeKey, NodeTasks>> {
        let mut out = HashMap::new();
        for (gi, g) in model.graphs().iter().enumerate() {
            let made: Vec<Result<Vec<(NodeKey, NodeTasks)>>> = g
                .order()
                .par_chunks(256)
                .map(|chunk| {
                    let context = GraphContext::new(model, gi);
                    let view = context.graph();
                    chunk.iter().map(|&id| self.node_tasks(&view.node(id), NodeKey::new(gi, id))).collect()
                })
                .collect();
            for m in made {
                out.extend(m?);
            }
        }
        Ok(out)
    }

    fn node_tasks(&self, node: &ge_plugin_api::view::Node<'_>, key: NodeKey) -> Result<(NodeKey, NodeTasks)> {
        let no_task = node.flag("_no_task");
        if no_task {
            return Ok((key, (Vec::new(), None)));
        }
        let engine = self.toolbox.engine(self.placement.engine[key]);
        let at = |e: Error| CompileError::Plugin(e.at_node(node.name(), node.op()));
        let kernel = engine.object.compile(node, &self.toolbox.target).map_err(at)?;
        let context = TaskContext {
            target: Target { rank_size: self.rank_size, ..self.toolbox.target.clone() },
            kernel: kernel.clone().into(),
            rank_size: self.rank_size,
        };
        let tasks = engine.object.generate_task(node, &context).map_err(at)?;
        Ok((key, (tasks, kernel)))
    }
}

fn waits_for_update(task: &Task) -> bool {
    task.kernel.as_ref().into_option().is_some_and(|k| k.block_dim == TILING_SINK_BLOCK_DIM)
}

pub(crate) fn sync_task(p: &crate::sync::SyncPair, record: bool) -> PlacedTask {
    let kind = match (p.notify, record) {
        (false, true) => TaskType::EVENT_RECORD,
        (false, false) => TaskType::EVENT_WAIT,
        (true, true) => TaskType::NOTIFY_RECORD,
        (true, false) => TaskType::NOTIFY_WAIT,
    };
    let point = if record { p.send } else { p.recv };
    PlacedTask {
        node: point.node,
        stream: point.stream,
        physical: PhysicalId(point.stream.0),
        task: Task::new(kind),
        sync_id: Some(p.id.0),
    }
}
