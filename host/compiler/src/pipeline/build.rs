//! The work of the stages from `streams` to `model`: sizes, streams, memory, events, tasks, and the
//! cases that go back to an earlier stage.
use super::compilation::decided;
use super::{Compilation, Goal, Stage};
use crate::error::{CompileError, Result};
use crate::feature::{atomic_clean, ffts_plus, super_kernel, tiling_sink};
use crate::ids::NodeKey;
use crate::memory::graph_planner;
use crate::model::{GeRootModel, sync_nodes, weights};
use crate::options::EventReuse;
use crate::place::reassign;
use crate::streams::{ExecutionOrder, StreamPlan, activation, flow};
use crate::sync::{resources, streamed};
use crate::tasks::{TaskGenerator, TaskList, mark_first_and_last_ops};
use crate::{memory, params, split, streams, sync};
use ge_plugin_api::engine::Hook;

/// Maximum number of times that streams are planned again because a switch or a body lacks the node
/// that wakes its streams.
const MOST_ROUNDS: u32 = 8;

impl Compilation<'_> {
    /// Asks the engines for the size, workspaces and stream requests of every node. If `open`, no
    /// plan depends on the graph yet, and nodes that clear memory are inserted.
    fn ask_engines(&mut self, open: bool) -> Result<()> {
        self.take_bodies()?;
        if self.placement.is_none() {
            self.place_again()?;
            self.note_refusals();
        }
        if self.calls.is_none() {
            let bodies = self.bodies.as_deref().unwrap_or_default();
            self.calls = Some(ffts_plus::calls(&self.model, bodies, self.toolbox, params::rank_size(&self.model))?);
        }
        // If a text gives the streams, an engine named in it is used without asking whether it
        // takes the node. A failure to size a node is then reported only by `memory`, the first
        // stage that needs the sizes.
        let given = self.goal == Goal::Text && self.entered >= Stage::Streams;
        let ask = |c: &mut Self| -> Result<_> {
            let placement = decided(&c.placement, Stage::Streams)?;
            let (found, refused) = params::ask(&c.model, placement, c.toolbox);
            match refused {
                Some(e) if !given => Err(e),
                refused => {
                    c.unsized_node = refused;
                    Ok(found)
                }
            }
        };
        let mut params = ask(self)?;
        if open && atomic_clean::insert(&mut self.model, &params, self.options)? {
            self.place_again()?;
            params = ask(self)?;
        }
        ffts_plus::task::workspaces(&self.model, decided(&self.calls, Stage::Streams)?, &mut params);
        tiling_sink::ask(&mut self.model, &params);
        self.params = Some(params);
        self.weights = weights::merge(&self.model)?;
        Ok(())
    }

    /// Plans streams and their order. This is repeated if a switch needs a StreamActive because it
    /// wakes more than one stream, or if a body needs one to wake its own streams.
    pub(super) fn plan_streams(&mut self) -> Result<()> {
        streams::node_order::apply(&mut self.model, self.options.node_order, &mut self.records);
        loop {
            self.ask_engines(true)?;
            let placement = decided(&self.placement, Stage::Streams)?;
            let (mut plan, mut order) = streams::run(&mut self.model, placement, self.toolbox, self.options)?;
            if plan.drop_idle(&self.model) {
                order = ExecutionOrder::new(&self.model, &plan);
            }
            let bodies = plan.flow.as_ref().map(|f| f.without_active(&self.model, &plan)).unwrap_or_default();
            let crowded = activation::crowded_switches(&self.model, &plan);
            if crowded.is_empty() && bodies.is_empty() {
                plan.active_to_attrs(&mut self.model);
                self.streams = Some((plan, order));
                return Ok(());
            }
            // Every insertion changes ids, so each round makes only one kind of insertion.
            if crowded.is_empty() {
                self.next_round()?;
                flow::insert_actives(&mut self.model, &bodies)?;
                self.place_again()?;
            } else {
                self.wake(&crowded)?;
            }
        }
    }

    /// Inserts a StreamActive on the stream of each of these switches; the switch wakes it, and it
    /// wakes the other streams.
    fn wake(&mut self, switches: &[NodeKey]) -> Result<()> {
        self.next_round()?;
        activation::insert_stream_actives(&mut self.model, switches)?;
        self.place_again()
    }
    fn next_round(&mut self) -> Result<()> {
        self.rounds += 1;
        if self.rounds > MOST_ROUNDS {
            let why = "a switch or a body still lacks the node that wakes its streams";
            return Err(CompileError::internal("streams", why));
        }
        Ok(())
    }

    /// Ensures that streams and sizes exist for a stage after `streams`; they are planned here if
    /// the incoming text has none.
    fn need_streams(&mut self) -> Result<()> {
        if self.streams.is_some() {
            return Ok(());
        }
        let Some(mut plan) = StreamPlan::from_attrs(&self.model) else { return self.plan_streams() };
        self.ask_engines(false)?;
        plan.mark_taskless(&self.model, decided(&self.placement, Stage::Streams)?, self.toolbox);
        let order = ExecutionOrder::new(&self.model, &plan);
        self.streams = Some((plan, order));
        Ok(())
    }

    /// Assigns memory offsets.
    pub(super) fn plan_memory(&mut self) -> Result<()> {
        self.need_streams()?;
        if let Some(refused) = self.unsized_node.take() {
            return Err(refused);
        }
        let (_, order) = decided(&self.streams, Stage::Memory)?;
        let params = decided(&self.params, Stage::Memory)?;
        let plan = graph_planner::plan(&self.model, self.toolbox, params, order, &self.weights, self.options)?;
        self.memory = Some(plan);
        Ok(())
    }

    /// Plans events and the resources that engines request, forms super kernels, and calls the
    /// engines' last hooks.
    pub(super) fn plan_sync(&mut self) -> Result<()> {
        self.need_streams()?;
        let (streams, order) = decided(&self.streams, Stage::Sync)?;
        let params = decided(&self.params, Stage::Sync)?;
        let limits = sync::Limits::new(&self.toolbox.target.soc, &self.model, params, self.scarce_ids);
        let mut plan = sync::run(&self.model, streams, order, self.options, &limits)?;
        resources::assign(&mut plan, params, streams, order);
        // Orderings that a super kernel provides itself need no events.
        let plans = super_kernel::chains::Plans {
            model: &self.model,
            toolbox: self.toolbox,
            placement: decided(&self.placement, Stage::Sync)?,
            params,
            streams,
            order,
        };
        self.chains = super_kernel::form(&plans, &mut plan, &mut self.records);
        let last = [Hook::STREAMED_WHOLE_GRAPH, Hook::STREAM_GRAPH];
        streamed::run(&last, &mut self.model, streams, &plan, &self.passes, &mut self.records)?;
        self.sync = Some(plan);
        Ok(())
    }

    /// Generates the tasks, after the first and last nodes of each stream are marked. A node whose
    /// engine cannot compile it moves to the next engine that takes it, and planning starts again
    /// from streams. This ends because every such node drops one engine.
    pub(super) fn generate_tasks(&mut self) -> Result<Stage> {
        let stage = Stage::Tasks;
        if let Some(fault) = self.idle.take() {
            return Err(fault.into());
        }
        let placement = decided(&self.placement, stage)?;
        let (streams, order) = decided(&self.streams, stage)?;
        let calls = decided(&self.calls, stage)?;
        mark_first_and_last_ops::mark(&mut self.model, placement, streams, order);
        let params = decided(&self.params, stage)?;
        let generator =
            TaskGenerator::new(&self.model, self.toolbox, placement, params, &self.chains, calls, &self.kernels);
        match generator.run(&self.model, streams, order, decided(&self.sync, stage)?) {
            Ok(TaskList { tasks, kernels }) => {
                (self.tasks, self.stored) = (tasks, kernels);
                Ok(Stage::Split)
            }
            Err(e) => {
                let refused = generator.refused();
                if refused.is_empty() {
                    return Err(e);
                }
                reassign::run(&mut self.model, placement, self.toolbox, refused, &self.bound, &mut self.records)?;
                self.plan_anew();
                self.place_again()?;
                Ok(Stage::Streams)
            }
        }
    }

    /// Splits logical streams into physical ones. Planning starts again from streams if a switch
    /// whose stream was cut needs a StreamActive of its own, or if a node waits for more streams
    /// than one stream can hold waits for; nodes that gather these waits are then inserted. The same
    /// holds if the cuts need more ids than there are and ids are not reused yet.
    pub(super) fn split(&mut self) -> Result<Stage> {
        let (streams, order) = decided(&self.streams, Stage::Split)?;
        let input = split::Input {
            streams,
            order,
            soc: &self.toolbox.target.soc,
            options: self.options,
            may_reuse: self.options.event_reuse == EventReuse::Auto && !self.scarce_ids,
        };
        let Some(sync) = &mut self.sync else { return Err(CompileError::internal("split", "there are no events")) };
        match split::run(&mut self.model, &input, std::mem::take(&mut self.tasks), sync)? {
            split::Split::Done(physical) => {
                self.physical = Some(physical);
                Ok(Stage::Model)
            }
            split::Split::Crowded(nodes) => {
                let limit = u64::from(self.toolbox.target.soc.tasks_normal);
                self.plan_anew();
                split::gather::insert(&mut self.model, &nodes, limit)?;
                self.place_again()?;
                Ok(Stage::Streams)
            }
            split::Split::ManyIds if !std::mem::replace(&mut self.scarce_ids, true) => {
                self.plan_anew();
                self.place_again()?;
                Ok(Stage::Streams)
            }
            split::Split::ManyIds => Err(CompileError::internal("split", "ids were to be reused and are not")),
            split::Split::NeedsActive(switches) => {
                self.plan_anew();
                self.wake(&switches)?;
                Ok(Stage::Streams)
            }
        }
    }

    fn plan_anew(&mut self) {
        (self.streams, self.memory, self.sync, self.physical) = (None, None, None, None);
    }

    /// Returns the model with everything that was decided, once every stage is done.
    ///
    /// # Errors
    /// Returns an internal error if a stage has not been run.
    pub fn finish(self, name: &str) -> Result<GeRootModel> {
        let mut c = self;
        c.records.kernels = c.kernels.counts();
        let missing = || CompileError::internal("model", "a stage before it has not been run");
        let placement = c.placement.ok_or_else(missing)?;
        let (streams, _) = c.streams.ok_or_else(missing)?;
        let memory: memory::MemoryPlan = c.memory.ok_or_else(missing)?;
        Ok(GeRootModel {
            name: name.to_owned(),
            engines: c.toolbox.engines.iter().map(|e| e.info.name.to_string()).collect(),
            runtime_engine: sync_nodes::runtime_engine(c.toolbox),
            rank_size: params::rank_size(&c.model),
            model: c.model,
            calls: c.calls.ok_or_else(missing)?,
            placement,
            streams,
            memory,
            sync: c.sync.ok_or_else(missing)?,
            physical: c.physical.ok_or_else(missing)?,
            kernels: c.stored,
            weights: c.weights,
            records: c.records,
            options: c.options.clone(),
            plugins: c.toolbox.plugins.clone(),
            soc: c.toolbox.target.soc.clone(),
        })
    }
}
