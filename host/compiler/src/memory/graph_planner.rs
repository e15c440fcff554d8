//! Memory of a graph: symbols (values that share memory), their lives under the execution order, a feature map for each memory
//! type, zero copy (facts 2.2: reused blocks first, then the caller's ranges, outputs before inputs, inputs by size).
use super::assign::{AssignOptions, Block, Conflicts, MemoryEffort, Plan, StreamConflicts, StreamUse, Watch};
use super::assign::{assign_blocks, peak_holders};
use super::batch::Gears;
use super::check_offset;
use super::check_offsets::check_offsets;
use super::no_reuse::NoReuse;
use super::plan::{Io, MemoryPlan, SpaceReport, ZeroCopyRange};
use super::set_input_output_offset_pass;
use super::symbols::{Home, Sources, Symbol, Symbols};
use crate::error::{CompileError, Result};
use crate::feature::shared_memory::Rules;
use crate::feature::shared_memory::rules::BLOCK;
use crate::ids::ModelMap;
use crate::model::weights::Weights;
use crate::options::Options;
use crate::streams::ExecutionOrder;
use crate::toolbox::Toolbox;
use ge_ir::Model;
use ge_plugin_api::device::MemoryKind;
use ge_plugin_api::engine::RunningParams;
use std::collections::BTreeMap;

/// At `default` effort graphs of more blocks than this are planned by the near-linear assigners alone.
const SEARCHED_BLOCKS: usize = 4096;

struct Planner<'a> {
    model: &'a Model,
    order: &'a ExecutionOrder,
    options: &'a Options,
}

/// Plans the memory of a model.
pub fn plan(
    model: &Model,
    toolbox: &Toolbox,
    params: &ModelMap<RunningParams>,
    order: &ExecutionOrder,
    weights: &Weights,
    options: &Options,
) -> Result<MemoryPlan> {
    let no_reuse = NoReuse::new(options)?;
    let sources = Sources { model, rules: Rules::new(toolbox), params, order, weights, no_reuse: &no_reuse };
    let symbols = Symbols::build(&sources)?;
    let mut plan = MemoryPlan::empty(model);
    plan.weight_bytes = weights.bytes;
    plan.variable_bytes = symbols.variable_bytes;
    let planner = Planner { model, order, options };
    let mut offsets = vec![0u64; symbols.list.len()];
    let mut kinds: Vec<MemoryKind> = vec![MemoryKind::HBM];
    for s in symbols.list.iter().filter(|s| s.home == Home::Feature && s.bytes > 0) {
        if !kinds.contains(&s.memory) {
            kinds.push(s.memory);
        }
    }
    kinds.sort_by_key(|k| k.code());
    for kind in kinds {
        planner.space(kind, &symbols.list, &mut offsets, &mut plan)?;
    }
    set_input_output_offset_pass::run(&mut plan, &symbols, &offsets, order.line());
    check_offset::check(model, &plan)?;
    Ok(plan)
}

fn internal(e: impl ToString) -> CompileError {
    CompileError::internal("memory", e.to_string())
}

/// What is placed as one: a symbol, or the symbols of a buffer pool.
struct Unit {
    /// The symbols, and where each lies in the unit.
    members: Vec<(usize, u64)>,
    bytes: u64,
}

impl Planner<'_> {
    /// One feature map.
    fn space(&self, kind: MemoryKind, symbols: &[Symbol], offsets: &mut [u64], plan: &mut MemoryPlan) -> Result<()> {
        let mine = |s: &Symbol| s.home == Home::Feature && s.memory == kind && s.bytes > 0;
        let mut units: Vec<Unit> = Vec::new();
        let mut pools: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
        for (i, s) in symbols.iter().enumerate().filter(|(_, s)| mine(s) && s.io.is_none()) {
            match s.pool {
                Some(id) => pools.entry(id).or_default().push(i),
                None => units.push(Unit { members: vec![(i, 0)], bytes: s.bytes }),
            }
        }
        for (id, members) in pools {
            units.push(self.pool(id, &members, symbols)?);
        }
        units.sort_by_key(|u| u.members.iter().map(|(i, _)| *i).min());
        let made = self.assign(&units, symbols)?;
        for (u, at) in units.iter().zip(&made.offsets) {
            for (i, inside) in &u.members {
                offsets[*i] = at + inside;
            }
        }
        let mut io: Vec<usize> =
            (0..symbols.len()).filter(|i| mine(&symbols[*i]) && symbols[*i].io.is_some()).collect();
        io.sort_by_key(|i| match symbols[*i].io {
            Some(Io::Output(k)) => (0, 0, k),
            Some(Io::Input(k)) => (1, symbols[*i].bytes, k),
            None => (2, 0, 0),
        });
        let mut end = made.arena;
        for i in io {
            offsets[i] = end;
            if let Some(io) = symbols[i].io {
                plan.zero_copy.push(ZeroCopyRange { io, memory: kind, offset: end, size: symbols[i].bytes });
            }
            end = end.checked_add(symbols[i].bytes).ok_or_else(|| internal("sizes overflow"))?;
        }
        if kind == MemoryKind::HBM {
            let blocks = self.blocks(&units, symbols);
            let holders = peak_holders(&blocks).map_err(internal)?;
            let owner = |h: u64| &symbols[units[h as usize].members[0].0];
            plan.peak =
                holders.iter().map(|h| (owner(h.id).owner.name(self.model), units[h.id as usize].bytes)).collect();
        }
        plan.spaces.push(SpaceReport {
            memory: kind,
            size: end,
            lower_bound: made.lower_bound,
            zero_copy: end - made.arena,
            assigner: made.assigner.to_owned(),
        });
        Ok(())
    }

    fn blocks(&self, units: &[Unit], symbols: &[Symbol]) -> Vec<Block> {
        let block = |(id, u): (usize, &Unit)| {
            let touches = || u.members.iter().flat_map(|(i, _)| symbols[*i].touches.iter().copied());
            let first = touches().min().unwrap_or(0);
            Block {
                id: id as u64,
                lower: u64::from(first),
                upper: u64::from(touches().max().unwrap_or(0)) + 1,
                size: u.bytes,
                align: BLOCK,
                stream: self.order.stand(first as usize).map_or(0, |(s, _)| s.0),
                reuse: u.members.iter().all(|(i, _)| symbols[*i].reuse),
                fixed: None,
            }
        };
        units.iter().enumerate().map(block).collect()
    }

    fn assign(&self, units: &[Unit], symbols: &[Symbol]) -> Result<Plan> {
        let blocks = self.blocks(units, symbols);
        let effort = match self.options.get("ge.x.memory_effort") {
            "fast" => MemoryEffort::Fast,
            "max" => MemoryEffort::Max,
            _ => MemoryEffort::Default,
        };
        let memory_priority = self.options.get("ge.exec.memoryOptimizationPolicy") == "MemoryPriority";
        let asked = AssignOptions { effort, capacity: None, memory_priority };
        let ordered = |a: u32, b: u32| self.order.ordered_at(a as usize, b as usize);
        let gather = |u: &Unit, of: fn(&Symbol) -> &Vec<u32>| {
            let mut all: Vec<u32> = u.members.iter().flat_map(|(i, _)| of(&symbols[*i]).iter().copied()).collect();
            all.sort_unstable();
            all.dedup();
            all
        };
        let uses = units
            .iter()
            .map(|u| StreamUse { first: gather(u, |s| &s.firsts), last: gather(u, |s| &s.touches) })
            .collect();
        let streams = StreamConflicts::new(&blocks, uses, &ordered);
        let labels: Vec<Option<&str>> = units.iter().map(|u| symbols[u.members[0].0].batch.as_deref()).collect();
        let several = labels.iter().any(Option::is_some);
        let gears = Gears::new(&streams, labels);
        let relation: Option<&dyn Conflicts> = match (self.order.stream_count(), several) {
            (1, _) => None,
            (_, true) => Some(&gears),
            (_, false) => Some(&streams),
        };
        // The near-linear assigners first: where they reach the bound, and for graphs so large that a search would cost more
        // than it gives, nothing else is tried.
        let plan = |o: &AssignOptions| assign_blocks(&blocks, relation, o, &Watch::none()).map_err(internal);
        let first = plan(&AssignOptions { effort: MemoryEffort::Fast, ..asked })?;
        let search = match effort {
            MemoryEffort::Fast => false,
            MemoryEffort::Default => first.arena > first.lower_bound && blocks.len() <= SEARCHED_BLOCKS,
            MemoryEffort::Max => first.arena > first.lower_bound,
        };
        let made = if search { plan(&asked)? } else { first };
        check_offsets(&blocks, &made.offsets, made.arena, relation).map_err(internal)?;
        Ok(made)
    }

    /// Outputs that name one buffer pool lie in its bytes (`_buffer_pool_id`, `_buffer_pool_size`; facts 2.9).
    fn pool(&self, id: i64, members: &[usize], symbols: &[Symbol]) -> Result<Unit> {
        let units: Vec<Unit> =
            members.iter().map(|i| Unit { members: vec![(*i, 0)], bytes: symbols[*i].bytes }).collect();
        let made = self.assign(&units, symbols)?;
        let said = members
            .iter()
            .filter_map(|i| symbols[*i].owner.get(self.model))
            .filter_map(|n| n.attrs().int("_buffer_pool_size"));
        let said = said.filter_map(|s| u64::try_from(s).ok()).max().unwrap_or(made.arena);
        if made.arena > said {
            let owner = symbols[members[0]].owner.name(self.model);
            return Err(CompileError::Option {
                message: format!("buffer pool {id} has {said} bytes, its nodes need {} (`{owner}` is one)", made.arena),
                help: "make `_buffer_pool_size` greater, or order the nodes so that they are not needed together"
                    .into(),
            });
        }
        let bytes = said.checked_next_multiple_of(BLOCK).ok_or_else(|| internal("sizes overflow"))?;
        Ok(Unit { members: members.iter().copied().zip(made.offsets).collect(), bytes })
    }
}
