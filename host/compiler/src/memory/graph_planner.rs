//! Plans the memory of a graph: symbols (values that share memory), their lifetimes under the
//! execution order, a feature map for each memory type, and zero copy (facts 2.2: reused blocks
//! first, then the caller's ranges, outputs before inputs, inputs by size).
use super::batch::Gears;
use super::capacity;
use super::check_offset;
use super::guests::{Guest, Host, invite};
use super::no_reuse::NoReuse;
use super::plan::{Io, MemoryPlan, SpaceReport, ZeroCopyRange};
use super::set_input_output_offset_pass;
use super::splitter;
use super::symbols::{Home, Sources, Symbol, Symbols};
use crate::error::MemoryFault;
use crate::error::OptionFault;
use crate::error::{CompileError, Result};
use crate::feature::io_reuse::IoReuse;
use crate::feature::shared_memory::Rules;
use crate::feature::shared_memory::rules::BLOCK;
use crate::ids::{ModelMap, NodeKey};
use crate::model::weights::Weights;
use crate::options::{Effort, MemoryPolicy, Options};
use crate::streams::ExecutionOrder;
use crate::toolbox::Toolbox;
use ge_ir::Model;
use ge_planners::memory::{AssignOptions, Block, Conflicts, MemoryEffort, Plan, StreamConflicts, StreamUse, Watch};
use ge_planners::memory::{assign_blocks, peak_holders};
use ge_plugin_api::device::MemoryKind;
use ge_plugin_api::engine::RunningParams;
use std::collections::BTreeMap;

/// At `default` effort, graphs with more blocks than this use only the near-linear assigners.
const SEARCHED_BLOCKS: usize = 4096;

struct Planner<'a> {
    model: &'a Model,
    order: &'a ExecutionOrder,
    options: &'a Options,
    io: &'a IoReuse,
    symbols: &'a Symbols,
}

/// Where the symbols lie.
struct Places {
    /// Offset of each symbol in its feature map, in bytes.
    offsets: Vec<u64>,
    /// Whether each symbol lies in memory of an input or output that the caller lends.
    guests: Vec<bool>,
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
    let io = IoReuse::new(model, options)?;
    let sources = Sources { model, rules: Rules::new(toolbox), params, order, weights, no_reuse: &no_reuse, io: &io };
    let symbols = Symbols::build(&sources)?;
    let mut plan = MemoryPlan::empty(model);
    plan.weight_bytes = weights.bytes;
    plan.variable_bytes = symbols.variable_bytes;
    let (soc, always) = (&toolbox.target.soc, weights.bytes.saturating_add(symbols.variable_bytes));
    capacity::check_values(model, &symbols.list, always, soc)?;
    let planner = Planner { model, order, options, io: &io, symbols: &symbols };
    let mut places = Places { offsets: vec![0; symbols.list.len()], guests: vec![false; symbols.list.len()] };
    let mut kinds: Vec<MemoryKind> = vec![MemoryKind::HBM];
    for s in symbols.list.iter().filter(|s| s.home == Home::Feature && s.bytes > 0) {
        if !kinds.contains(&s.memory) {
            kinds.push(s.memory);
        }
    }
    kinds.sort_by_key(|k| k.code());
    for kind in kinds {
        planner.space(kind, &mut places, &mut plan)?;
    }
    capacity::check_plan(model, &symbols.list, &plan, soc)?;
    set_input_output_offset_pass::run(&mut plan, &symbols, (&places.offsets, &places.guests), order.line());
    check_offset::check(model, &plan)?;
    Ok(plan)
}

fn internal(e: impl ToString) -> CompileError {
    CompileError::internal("memory", e.to_string())
}

/// What is placed as one block: a symbol, or all symbols of a buffer pool.
struct Unit {
    /// The symbols with their offsets in the unit.
    members: Vec<(usize, u64)>,
    bytes: u64,
}

impl Planner<'_> {
    /// Plans the feature map of one memory kind.
    fn space(&self, kind: MemoryKind, places: &mut Places, plan: &mut MemoryPlan) -> Result<()> {
        let symbols = &self.symbols.list;
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
        let mut io: Vec<usize> =
            (0..symbols.len()).filter(|i| mine(&symbols[*i]) && symbols[*i].io.is_some()).collect();
        io.sort_by_key(|i| match symbols[*i].io {
            Some(Io::Output(k)) => (0, 0, k),
            Some(Io::Input(k)) => (1, symbols[*i].bytes, k),
            None => (2, 0, 0),
        });
        let lent = self.lend(&io, &mut units);
        let made = self.assign(&units, symbols)?;
        for (u, at) in units.iter().zip(&made.offsets) {
            for (i, inside) in &u.members {
                places.offsets[*i] = at + inside;
            }
        }
        let ranges: Vec<(u64, u64)> = units.iter().zip(&made.offsets).map(|(u, at)| (*at, u.bytes)).collect();
        let cuts = splitter::split(&ranges, made.arena, splitter::LEAST_PIECE);
        let mut end = made.arena;
        for &i in &io {
            let Some(io) = symbols[i].io else { continue };
            if matches!(io, Io::Output(k) if self.io.input_of(k).is_some()) {
                continue;
            }
            places.offsets[i] = end;
            let written = |k: u32| symbols[i].written || self.io.frees(k) || self.io.output_of(k).is_some();
            let overwritten = matches!(io, Io::Input(k) if written(k));
            let (size, of_input) = (symbols[i].bytes, None);
            plan.zero_copy.push(ZeroCopyRange { io, memory: kind, offset: end, size, overwritten, of_input });
            end = end.checked_add(symbols[i].bytes).ok_or_else(|| internal("sizes overflow"))?;
        }
        if kind == MemoryKind::HBM {
            self.pairs(places, plan)?;
        }
        for (guest, host, inside) in lent {
            places.offsets[guest] = places.offsets[host] + inside;
            places.guests[guest] = true;
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
            pieces: if cuts.len() > 1 { cuts.iter().map(|p| p.base).collect() } else { Vec::new() },
        });
        Ok(())
    }

    /// Chooses the values that lie in the caller's memory and removes them from the units. Returns
    /// each as its symbol, the symbol of the input or output, and its offset there.
    fn lend(&self, io: &[usize], units: &mut Vec<Unit>) -> Vec<(usize, usize, u64)> {
        let symbols = &self.symbols.list;
        let lends = |i: &usize| match symbols[*i].io {
            Some(Io::Input(k)) => self.io.frees(k),
            Some(Io::Output(k)) => self.io.lends(k),
            None => false,
        };
        let hosts: Vec<usize> = io.iter().copied().filter(lends).collect();
        if hosts.is_empty() {
            return Vec::new();
        }
        let uses = |s: &Symbol| StreamUse { first: s.firsts.clone(), last: s.touches.clone() };
        let host = |i: &usize| Host {
            capacity: self.given(symbols[*i].io),
            room: symbols[*i].bytes,
            uses: uses(&symbols[*i]),
        };
        let guest = |(u, block): (&Unit, Block)| {
            let s = &symbols[u.members[0].0];
            let movable = u.members.len() == 1 && s.pool.is_none() && s.reuse;
            Guest { block, touched: s.touched, uses: uses(s), movable }
        };
        let guests: Vec<Guest> = units.iter().zip(self.blocks(units, symbols)).map(guest).collect();
        let ordered = |a: u32, b: u32| self.order.ordered_at(a as usize, b as usize);
        let at = invite(&guests, &hosts.iter().map(host).collect::<Vec<_>>(), &ordered);
        let lent = units.iter().zip(&at).filter_map(|(u, a)| a.map(|(h, inside)| (u.members[0].0, hosts[h], inside)));
        let lent = lent.collect();
        let mut stays = at.iter().map(Option::is_none);
        units.retain(|_| stays.next().unwrap_or(true));
        lent
    }

    /// Bytes that the caller provides for an input or output.
    fn given(&self, io: Option<Io>) -> u64 {
        let g = self.model.root();
        let desc = match io {
            Some(Io::Input(k)) => {
                let index = |n: &&ge_ir::Node| n.attrs().int("index").unwrap_or(0) == i64::from(k);
                g.data_nodes().into_iter().find(index).and_then(|n| n.outputs().first())
            }
            Some(Io::Output(k)) => g.net_output().and_then(|o| g.desc(o.input(k as usize)?)),
            None => None,
        };
        desc.and_then(|d| d.data_bytes()).unwrap_or(0)
    }

    /// Places the outputs that lie in an input's memory. Fails if such an output may be written
    /// before everybody has read the input.
    fn pairs(&self, places: &mut Places, plan: &mut MemoryPlan) -> Result<()> {
        let g = self.model.root();
        for (input, output) in self.io.pairs() {
            let of = |s: &Symbol| s.io == Some(Io::Input(input));
            let Some(host) = self.symbols.list.iter().position(of) else { continue };
            let value = g.net_output().and_then(|o| o.input(output as usize)).filter(|v| !v.is_absent());
            let place = value
                .and_then(|v| self.symbols.outputs[NodeKey::new(0, v.node)].get(v.output as usize).map(|p| p.symbol));
            let Some(guest) = place else { continue };
            let (from, to) = (&self.symbols.list[host], &self.symbols.list[guest]);
            let over = |last: &u32| to.firsts.iter().all(|f| self.order.ordered_at(*last as usize, *f as usize));
            if guest != host && (!from.touches.iter().all(over) || to.home != Home::Feature || to.bytes > from.bytes) {
                return Err(OptionFault::Lent {
                    option: "ge.exec.outputReuseInputMemIndexes",
                    what: format!(
                        "output {output} cannot lie in input {input}: it may be written while others read the input"
                    ),
                    help: "take the pair out",
                }
                .into());
            }
            let (memory, size) = (from.memory, to.bytes.min(from.bytes));
            places.offsets[guest] = places.offsets[host];
            let offset = places.offsets[host];
            plan.zero_copy.push(ZeroCopyRange {
                io: Io::Output(output),
                memory,
                offset,
                size,
                overwritten: false,
                of_input: Some(input),
            });
        }
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
        let effort = match self.options.memory_effort {
            Effort::Fast => MemoryEffort::Fast,
            Effort::Default if blocks.len() > SEARCHED_BLOCKS => MemoryEffort::Fast,
            Effort::Default => MemoryEffort::Default,
            Effort::Max => MemoryEffort::Max,
        };
        let memory_priority = self.options.memory_policy == MemoryPolicy::MemoryPriority;
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
        // A buffer pool with several values counts as in no branch.
        let branch = |u: &Unit| match u.members.as_slice() {
            [(i, _)] => symbols[*i].branch.as_slice(),
            _ => &[],
        };
        let branches: Vec<&[(u32, u32)]> = units.iter().map(branch).collect();
        let several = branches.iter().any(|b| !b.is_empty());
        let gears = Gears::new(&streams, branches);
        let relation: Option<&dyn Conflicts> = match (self.order.stream_count(), several) {
            (1, _) => None,
            (_, true) => Some(&gears),
            (_, false) => Some(&streams),
        };
        // A search may take long, but it reports its progress and can be cancelled.
        let watch = Watch { progress: &ge_plugin::services::report, cancel: &ge_plugin::services::is_cancelled };
        assign_blocks(&blocks, relation, &asked, &watch).map_err(internal)
    }

    /// Places the outputs of one buffer pool within its bytes (`_buffer_pool_id`,
    /// `_buffer_pool_size`; facts 2.9). Fails if they do not fit.
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
            return Err(MemoryFault::Pool { pool: id, has: said, needs: made.arena, node: owner }.into());
        }
        let bytes = said.checked_next_multiple_of(BLOCK).ok_or_else(|| internal("sizes overflow"))?;
        Ok(Unit { members: members.iter().copied().zip(made.offsets).collect(), bytes })
    }
}
