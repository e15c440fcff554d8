//! `TaskGenerator`: the builder of each node's engine generates the node's tasks, in parallel; the
//! tasks are then put in node order, with the records and waits of the sync plan around them and
//! END_GRAPH last (003 §5.5). The nodes of a super kernel's chain become one task at the position
//! of the last of them.
use super::{PlacedTask, StoredKernel, TaskList, verify};
use crate::error::{CompileError, Result};
use crate::feature::ffts_plus::Calls;
use crate::feature::kernel_cache::{KernelCache, When};
use crate::feature::super_kernel::{self, Chains};
use crate::ids::{ModelMap, NodeKey, PORTION, PhysicalId, StreamId};
use crate::params::rank_size;
use crate::place::Placement;
use crate::place::reassign::{Refused, refused_late};
use crate::streams::logical::attached::waits_itself;
use crate::streams::{ExecutionOrder, StreamPlan};
use crate::sync::{Resource, SyncPlan};
use crate::toolbox::Toolbox;
use ge_ir::Model;
use ge_plugin::tasks::args_format;
use ge_plugin_api::author::tiling_sink::SCOPE;
use ge_plugin_api::diagnostic::Diagnostic;
use ge_plugin_api::diagnostic::{Error, ErrorKind};
use ge_plugin_api::engine::{KernelBinary, RunningParams, Target, TaskContext};
use ge_plugin_api::task::{StreamSlot, TILING_SINK_BLOCK_DIM, Task, TaskType};
use rayon::prelude::*;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

/// The task generator of one compilation.
pub struct TaskGenerator<'t> {
    pub(super) toolbox: &'t Toolbox,
    pub(super) placement: &'t Placement,
    /// What the engines requested for each node.
    pub(super) params: &'t ModelMap<RunningParams>,
    rank_size: u32,
    chains: &'t Chains,
    pub(super) calls: &'t Calls,
    kernels: &'t KernelCache,
    refused: Mutex<Refused>,
}

pub(super) type NodeTasks = (Vec<Task>, Option<Arc<KernelBinary>>);

impl<'t> TaskGenerator<'t> {
    /// Creates the generator of one compilation.
    pub fn new(
        model: &Model,
        toolbox: &'t Toolbox,
        placement: &'t Placement,
        params: &'t ModelMap<RunningParams>,
        chains: &'t Chains,
        calls: &'t Calls,
        kernels: &'t KernelCache,
    ) -> Self {
        let rank_size = rank_size(model);
        TaskGenerator { toolbox, placement, params, rank_size, chains, calls, kernels, refused: Mutex::default() }
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
        verify::lists(self, model, streams, sync, &own)?;
        let mut waits: HashMap<NodeKey, Vec<usize>> = HashMap::new();
        let mut records: HashMap<NodeKey, Vec<usize>> = HashMap::new();
        for (i, p) in sync.pairs.iter().enumerate() {
            waits.entry(p.recv.node).or_default().push(i);
            records.entry(p.send.node).or_default().push(i);
        }
        let of = |map: &HashMap<NodeKey, Vec<usize>>, key: NodeKey| map.get(&key).cloned().unwrap_or_default();
        let net_output = model.root().net_output().map(|n| NodeKey::new(0, n.id()));
        let mut w =
            Writing { generator: self, model, streams, sync, out: TaskList::default(), kernels: BTreeMap::new() };
        for &key in order.line() {
            if let Some(chain) = self.chains.of(key) {
                let members = &self.chains.chains[chain];
                if members.last() == Some(&key) {
                    w.chain(members, &of, &waits, &records, &mut own)?;
                }
                continue;
            }
            for i in of(&waits, key) {
                w.out.tasks.push(sync_task(&sync.pairs[i], false));
            }
            let (tasks, kernel) = std::mem::take(&mut own[key]);
            w.store(key, kernel.as_deref())?;
            if key.get(model).is_some_and(waits_itself) && !has_signal(&tasks) {
                return Err(self.no_signal(model, key));
            }
            w.node(key, tasks)?;
            if let Some(call) = key.get(model).and_then(|n| self.calls.get(n.name())) {
                for (engine, kernel) in &call.kernels {
                    w.store_of(key, engine, kernel)?;
                }
                w.node(key, vec![call.task.clone()])?;
            }
            if Some(key) == net_output {
                let stream = streams.of[key].unwrap_or(StreamId(0));
                w.out.tasks.push(PlacedTask {
                    node: key,
                    stream,
                    physical: PhysicalId(stream.0),
                    task: Task::new(TaskType::END_GRAPH),
                    sync_id: None,
                });
            }
            for i in of(&records, key) {
                w.out.tasks.push(sync_task(&sync.pairs[i], true));
            }
        }
        let Writing { mut out, kernels, .. } = w;
        fill_woken(&mut out.tasks, streams);
        out.kernels = kernels.into_values().collect();
        Ok(out)
    }

    /// Returns the nodes that their engine could not compile, in node order; not empty only if this
    /// made the last run fail.
    pub fn refused(self) -> Refused {
        let mut all = self.refused.into_inner().unwrap_or_else(PoisonError::into_inner);
        all.sort_by_key(|(key, _)| *key);
        all
    }

    fn no_target(&self, model: &Model, key: NodeKey) -> CompileError {
        let engine = &self.toolbox.engine(self.placement.engine[key]).info.name;
        let what = format!("engine {engine} updates a task that is no kernel with placeholder blocks");
        let op = key.get(model).map_or("", |n| n.op());
        CompileError::model(ge_codes::LIES, Diagnostic::error(what).node(key.name(model), op))
    }

    fn no_signal(&self, model: &Model, key: NodeKey) -> CompileError {
        let engine = &self.toolbox.engine(self.placement.engine[key]).info.name;
        let what = format!(
            "engine {engine} asks for an event or notify of its attached stream's name, but its tasks do not end there with a record \
             for which the node's own stream waits first"
        );
        let op = key.get(model).map_or("", |n| n.op());
        CompileError::model(ge_codes::LIES, Diagnostic::error(what).node(key.name(model), op))
    }

    fn stream_of(&self, model: &Model, streams: &StreamPlan, key: NodeKey, task: &Task) -> Result<StreamId> {
        let found = match task.stream.0 {
            k if k < 0 => streams.of[key],
            k => streams.attached[key].get(k as usize).copied(),
        };
        found.ok_or_else(|| {
            let engine = &self.toolbox.engine(self.placement.engine[key]).info.name;
            let what = format!("engine {engine} put a {} task on a stream that the node does not have", task.kind());
            let op = key.get(model).map_or("", |n| n.op());
            CompileError::model(ge_codes::LIES, Diagnostic::error(what).node(key.name(model), op))
        })
    }

    /// Compiles each node and generates its tasks, in parallel.
    fn own_tasks(&self, model: &Model) -> Result<ModelMap<NodeTasks>> {
        let mut out = ModelMap::new(model, NodeTasks::default());
        for (gi, g) in model.graphs().iter().enumerate() {
            let made: Vec<Result<Vec<(NodeKey, NodeTasks)>>> = g
                .order()
                .par_chunks(PORTION)
                .map(|chunk| {
                    let context = self.toolbox.lend(model, gi);
                    let view = context.graph();
                    let mut asked = TaskContext {
                        target: Target { rank_size: self.rank_size, ..self.toolbox.target.clone() },
                        kernel: None.into(),
                        rank_size: self.rank_size,
                    };
                    let mut own = |id| self.node_tasks(&view.node(id), NodeKey::new(gi, id), &mut asked);
                    chunk.iter().map(|&id| own(id)).collect()
                })
                .collect();
            for m in made {
                for (key, own) in m? {
                    out[key] = own;
                }
            }
        }
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        match refused.iter().min_by_key(|(key, _)| *key) {
            Some((_, e)) => Err(CompileError::Plugin(e.clone())),
            None => Ok(out),
        }
    }

    /// Compiles one node and generates its tasks. `asked` is the context that the engine gets; its
    /// kernel is set to the node's.
    fn node_tasks(
        &self,
        node: &ge_plugin_api::view::Node<'_>,
        key: NodeKey,
        asked: &mut TaskContext,
    ) -> Result<(NodeKey, NodeTasks)> {
        let no_task = node.flag("_no_task");
        if no_task {
            return Ok((key, (Vec::new(), None)));
        }
        let id = self.placement.engine[key];
        let engine = self.toolbox.engine(id);
        let at = |e: Error| CompileError::Plugin(e.at_node(node.name(), node.op()));
        let kernel = match self.kernels.kernel(self.toolbox, id, node, &self.toolbox.target, When::SingleOp) {
            Ok(k) => k,
            // All such nodes are reported together, because another engine may take them.
            Err(e) if e.kind == ErrorKind::UNSUPPORTED => {
                let refusal = (key, e.at_node(node.name(), node.op()));
                self.refused.lock().unwrap_or_else(PoisonError::into_inner).push(refusal);
                return Ok((key, (Vec::new(), None)));
            }
            Err(e) => return Err(at(e)),
        };
        asked.kernel = kernel.as_deref().cloned().into();
        let late = |e| CompileError::Plugin(refused_late(e, node, self.placement, self.toolbox, key));
        let tasks = engine.object.generate_task(node, asked).map_err(late)?;
        Ok((key, (tasks, kernel)))
    }
}

/// A task list under construction.
struct Writing<'w> {
    generator: &'w TaskGenerator<'w>,
    model: &'w Model,
    streams: &'w StreamPlan,
    sync: &'w SyncPlan,
    out: TaskList,
    kernels: BTreeMap<String, StoredKernel>,
}

type Pairs = HashMap<NodeKey, Vec<usize>>;

impl Writing<'_> {
    /// Stores a node's kernel, once per name.
    fn store(&mut self, key: NodeKey, kernel: Option<&KernelBinary>) -> Result<()> {
        let Some(k) = kernel else { return Ok(()) };
        let g = self.generator;
        self.store_of(key, &g.toolbox.engine(g.placement.engine[key]).info.name, k)
    }
    fn store_of(&mut self, key: NodeKey, engine: &str, k: &KernelBinary) -> Result<()> {
        let name = k.name.as_str();
        if let Some(old) = self.kernels.get(name) {
            if old.binary != k.binary.as_slice() {
                let text = format!("engine {engine} gave two different kernels the name {name}");
                let e = Error::new(ErrorKind::PLUGIN, text);
                let op = key.get(self.model).map_or("", |n| n.op());
                return Err(CompileError::Plugin(e.at_node(&key.name(self.model), op)));
            }
        } else {
            let stored = StoredKernel { name: name.to_owned(), binary: k.binary.to_vec(), engine: engine.to_owned() };
            self.kernels.insert(name.to_owned(), stored);
        }
        Ok(())
    }

    /// Appends the tasks of a node as its engine gave them, with streams and ids resolved.
    fn node(&mut self, key: NodeKey, tasks: Vec<Task>) -> Result<()> {
        let resources = self.sync.resources.get(&key).map_or(&[][..], Vec::as_slice);
        let updatable: Vec<bool> = tasks.iter().map(waits_for_update).collect();
        for mut task in tasks {
            let stream = self.generator.stream_of(self.model, self.streams, key, &task)?;
            let mut sync_id = None;
            match task.kind() {
                TaskType::UPDATE => {
                    // Convert the index in the node's list to the index among its updatable
                    // kernels, which later stages preserve.
                    let target = task.numbers.first().and_then(|k| usize::try_from(*k).ok());
                    let target = target.filter(|k| updatable.get(*k) == Some(&true));
                    let k = target.ok_or_else(|| self.generator.no_target(self.model, key))?;
                    task.numbers = vec![updatable[..k].iter().filter(|u| **u).count() as i64].into();
                }
                TaskType::EVENT_RECORD | TaskType::EVENT_WAIT | TaskType::NOTIFY_RECORD | TaskType::NOTIFY_WAIT => {
                    sync_id = resources.get(task.sync_slot as usize).map(|r| r.id);
                }
                TaskType::HCCL => task.numbers.extend(resources.iter().map(|r| i64::from(r.id))),
                TaskType::PREPROCESS_KERNEL => task.numbers.extend(by_address(&task, resources)),
                _ => {}
            }
            self.out.tasks.push(PlacedTask { node: key, stream, physical: PhysicalId(stream.0), task, sync_id });
        }
        Ok(())
    }

    /// Appends a chain: the waits of its nodes, their tiling, one task, and their records.
    fn chain(
        &mut self,
        members: &[NodeKey],
        of: &dyn Fn(&Pairs, NodeKey) -> Vec<usize>,
        waits: &Pairs,
        records: &Pairs,
        own: &mut ModelMap<NodeTasks>,
    ) -> Result<()> {
        let (Some(&last), streams, sync) = (members.last(), self.streams, self.sync) else { return Ok(()) };
        let main = streams.of[last].unwrap_or(StreamId(0));
        let within = |i: &usize| {
            let p = &sync.pairs[*i];
            p.send.stream == main && members.contains(&p.send.node) && members.contains(&p.recv.node)
        };
        let all_waits: Vec<usize> = members.iter().flat_map(|k| of(waits, *k)).collect();
        let all_records: Vec<usize> = members.iter().flat_map(|k| of(records, *k)).collect();
        let on_main = |i: &usize| sync.pairs[*i].recv.stream == main;
        for i in all_waits.iter().filter(|i| on_main(i)) {
            self.out.tasks.push(sync_task(&sync.pairs[*i], false));
        }
        // Tiling that waited for a node of the chain waits for what precedes the chain instead.
        for i in all_records.iter().filter(|i| within(i)) {
            self.out.tasks.push(sync_task(&sync.pairs[*i], true));
        }
        for i in all_waits.iter().filter(|i| !on_main(i)) {
            self.out.tasks.push(sync_task(&sync.pairs[*i], false));
        }
        let mut launches = Vec::new();
        let mut numbers: Vec<i64> = Vec::new();
        for key in members {
            let (tasks, kernel) = std::mem::take(&mut own[*key]);
            self.store(*key, kernel.as_deref())?;
            let (beside, mine): (Vec<Task>, Vec<Task>) =
                tasks.into_iter().partition(|t| t.kind() == TaskType::PREPROCESS_KERNEL);
            let resources = sync.resources.get(key).map_or(&[][..], Vec::as_slice);
            let itself = key.get(self.model).is_some_and(waits_itself);
            if itself && beside.last().is_some_and(|t| by_address(t, resources).is_empty()) {
                return Err(self.generator.no_signal(self.model, *key));
            }
            numbers.extend(beside.iter().flat_map(|t| by_address(t, resources)));
            self.node(*key, beside)?;
            launches.push((key.name(self.model), mine));
        }
        let scope = last.get(self.model).and_then(|n| n.attrs().str(SCOPE)).unwrap_or_default();
        let soc = &self.generator.toolbox.target.soc;
        let mut task = super_kernel::task::join(scope, &launches, soc.aic_cores)?;
        task.numbers = numbers.into();
        self.out.tasks.push(PlacedTask { node: last, stream: main, physical: PhysicalId(main.0), task, sync_id: None });
        for i in all_records.iter().filter(|i| !within(i)) {
            self.out.tasks.push(sync_task(&sync.pairs[*i], true));
        }
        Ok(())
    }
}

/// Ids of the events whose addresses are arguments of the kernel.
fn by_address(task: &Task, resources: &[Resource]) -> Vec<i64> {
    let format = task.kernel.as_ref().into_option().map_or("", |k| k.args_format.as_str());
    let items = args_format::parse(format).unwrap_or_default();
    let event =
        |i| if let args_format::ArgItem::EventAddr(n) = i { resources.get(n as usize).map(|r| r.id) } else { None };
    items.into_iter().filter_map(event).map(i64::from).collect()
}

/// Adds a NOP after the waker of each woken stream that has no task: a device has no streams
/// without tasks, and a switch needs a stream to wake.
fn fill_woken(tasks: &mut Vec<PlacedTask>, streams: &StreamPlan) {
    let mut busy = vec![false; streams.streams.len()];
    let at = |busy: &[bool], s: StreamId| busy.get(s.0 as usize).copied().unwrap_or(true);
    tasks.iter().for_each(|t| busy[t.stream.0 as usize] = true);
    for (key, woken) in &streams.wakes {
        for s in woken {
            if at(&busy, *s) {
                continue;
            }
            busy[s.0 as usize] = true;
            let behind = tasks.iter().rposition(|t| t.node == *key).map_or(tasks.len(), |p| p + 1);
            let task = Task::new(TaskType::NOP);
            let nop = PlacedTask { node: *key, stream: *s, physical: PhysicalId(s.0), task, sync_id: None };
            tasks.insert(behind, nop);
        }
    }
}

/// Whether the first task on the node's own stream waits for a signal recorded at the end of its
/// attached work. Also true if all its tasks are on its own stream.
fn has_signal(tasks: &[Task]) -> bool {
    use TaskType as T;
    let Some(last) = tasks.iter().rfind(|t| t.stream != StreamSlot::MAIN) else { return true };
    let waits = match last.kind() {
        T::EVENT_RECORD => T::EVENT_WAIT,
        T::NOTIFY_RECORD => T::NOTIFY_WAIT,
        _ => return false,
    };
    let first = tasks.iter().find(|t| t.stream == StreamSlot::MAIN);
    first.is_some_and(|t| t.kind() == waits && t.sync_slot == last.sync_slot)
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
