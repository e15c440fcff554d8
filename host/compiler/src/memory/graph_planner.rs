//! Memory of a graph: symbols (values that share memory), their lives under the execution order, offsets, zero copy.
use super::assign::{AssignOptions, Block, MemoryEffort, StreamConflicts, Watch, assign_blocks};
use super::check_offsets::check_offsets;
use super::plan::{Io, MemoryPlan, Slot, Space, SpaceReport, ZeroCopyRange};
use crate::error::{CompileError, Result};
use crate::feature::control_flow::lower::REF_INPUT;
use crate::ids::{ModelMap, NodeKey};
use crate::model::weights::Weights;
use crate::options::Options;
use crate::place::Placement;
use crate::streams::ExecutionOrder;
use crate::toolbox::Toolbox;
use ge_ir::{Model, ValueRef};
use ge_plugin_api::device::MemoryKind;
use ge_plugin_api::engine::{RunningParams, flags as engine_flags};
use ge_plugin_api::ops::flags;

/// A block is a multiple of this (facts 2.1).
pub const BLOCK: u64 = 512;

/// At `default` effort graphs of more blocks than this are planned by the near-linear assigners alone.
const SEARCHED_BLOCKS: usize = 4096;

/// Bytes that a tensor of `bytes` takes: 32-byte units and one more (facts 2.1), in whole blocks.
pub fn block_bytes(bytes: u64) -> Option<u64> {
    (bytes.checked_add(63)? / 32 * 32).checked_next_multiple_of(BLOCK)
}

/// Whether output 0 of a node lies where its input 0 lies.
pub fn is_view(toolbox: &Toolbox, placement: Option<&Placement>, key: NodeKey, node: &ge_ir::Node) -> bool {
    let no_task = placement.is_none_or(|p| toolbox.engine(p.engine[key]).info.flags & engine_flags::NO_TASK != 0);
    no_task && toolbox.op_flags(node.op_key()) & flags::VIEW != 0
}

struct Planner<'a> {
    model: &'a Model,
    toolbox: &'a Toolbox,
    placement: &'a Placement,
    params: &'a ModelMap<RunningParams>,
    order: &'a ExecutionOrder,
}

/// Plans the memory of a model.
pub fn plan(
    model: &Model,
    toolbox: &Toolbox,
    placement: &Placement,
    params: &ModelMap<RunningParams>,
    order: &ExecutionOrder,
    weights: &Weights,
    options: &Options,
) -> Result<MemoryPlan> {
    Planner { model, toolbox, placement, params, order }.run(weights, options)
}

/// One run of memory: the values and workspace that share it.
struct Symbol {
    bytes: u64,
    /// Nodes that touch it, as positions in the order's line; the first is its producer.
    touches: Vec<u32>,
    /// Nodes that write it first: its producer; all producers of a run that a node without a task joins.
    firsts: Vec<u32>,
    io: Option<Io>,
    owner: NodeKey,
}

/// Outputs that lie in runs made by nodes without a task.
#[derive(Default)]
struct Joined {
    /// Run and offset in it of an output.
    of: std::collections::HashMap<(NodeKey, usize), (usize, u64)>,
    /// Bytes of each run.
    runs: Vec<u64>,
    /// The nodes without a task.
    outputs: std::collections::HashSet<NodeKey>,
}

impl Planner<'_> {
    fn run(&self, weights: &Weights, options: &Options) -> Result<MemoryPlan> {
        let mut plan = MemoryPlan::empty(self.model);
        plan.weight_bytes = weights.bytes;
        let mut symbols: Vec<Symbol> = Vec::new();
        // Symbol of each output, and of each workspace.
        let mut of_output: ModelMap<Vec<Option<usize>>> = ModelMap::new(self.model, Vec::new());
        let mut of_workspace: ModelMap<Vec<usize>> = ModelMap::new(self.model, Vec::new());
        let joined = self.joined()?;
        // Symbol of each joined run, made with its first member.
        let mut of_run: Vec<Option<usize>> = vec![None; joined.runs.len()];
        // Where an output lies in its symbol.
        let mut inside: ModelMap<Vec<u64>> = ModelMap::new(self.model, Vec::new());
        for &key in self.order.line() {
            let g = key.graph_of(self.model);
            let Some(n) = g.get(key.node) else { continue };
            let at = self.order.position(key) as u32;
            inside[key] = vec![0; n.outputs().len()];
            let mut mine = Vec::with_capacity(n.outputs().len());
            let mut slots = Vec::with_capacity(n.outputs().len());
            for (k, d) in n.outputs().iter().enumerate() {
                if let Some(offset) = weights.of.get(&key) {
                    mine.push(None);
                    slots.push(Slot {
                        space: Space::Weights,
                        offset: *offset,
                        size: d.data_bytes().unwrap_or(0),
                        ..Slot::NONE
                    });
                    continue;
                }
                let view = k == 0 && is_view(self.toolbox, Some(self.placement), key, n);
                let shared = n.attrs().int(REF_INPUT).and_then(|i| u32::try_from(i).ok()).filter(|_| k == 0);
                if let Some(i) = if view { Some(0) } else { shared } {
                    if let Some(v) = n.input(i as usize) {
                        let up = NodeKey { graph: key.graph, node: v.node };
                        let shared = of_output[up].get(v.output as usize).copied().flatten();
                        let slot = plan.outputs[up].get(v.output as usize).copied().unwrap_or(Slot::NONE);
                        mine.push(shared);
                        inside[key][k] = inside[up].get(v.output as usize).copied().unwrap_or(0);
                        slots.push(Slot { ref_input: Some(i), ..slot });
                        continue;
                    }
                }
                if let Some(&(run, offset)) = joined.of.get(&(key, k)) {
                    // No memory of its own: a place in the run (000, 4.4).
                    let s = *of_run[run].get_or_insert_with(|| {
                        symbols.push(Symbol {
                            bytes: joined.runs[run],
                            touches: Vec::new(),
                            firsts: Vec::new(),
                            io: None,
                            owner: key,
                        });
                        symbols.len() - 1
                    });
                    let whole = joined.outputs.contains(&key);
                    if !whole {
                        symbols[s].firsts.push(at);
                        let said = self.params[key].output_bytes.get(k).copied().unwrap_or(0);
                        let own = d.data_bytes().unwrap_or(0);
                        if said > own.next_multiple_of(32) {
                            return Err(CompileError::Option {
                                message: format!("`{}` needs {said} bytes for {own} of data, and a concat without a task joins it", n.name()),
                                help: "switch the pass off: `--set ge.optimizationSwitch=ConcatNotaskPass:off;PackNotaskPass:off`".into(),
                            });
                        }
                    }
                    if symbols[s].touches.last() != Some(&at) {
                        symbols[s].touches.push(at);
                    }
                    inside[key][k] = offset;
                    mine.push(Some(s));
                    slots.push(Slot {
                        space: Space::Feature(MemoryKind::HBM),
                        size: if whole { joined.runs[run] } else { d.data_bytes().unwrap_or(0) },
                        ref_input: if whole { Some(0) } else { None },
                        ..Slot::NONE
                    });
                    continue;
                }
                let bytes = self.output_bytes(key, n, k)?;
                let io = if key.graph == 0 && matches!(n.op(), "Data" | "RefData" | "AippData") {
                    Some(Io::Input(n.attrs().int("index").and_then(|i| u32::try_from(i).ok()).unwrap_or(0)))
                } else {
                    None
                };
                symbols.push(Symbol { bytes, touches: vec![at], firsts: vec![at], io, owner: key });
                mine.push(Some(symbols.len() - 1));
                slots.push(Slot { space: Space::Feature(MemoryKind::HBM), size: bytes, ..Slot::NONE });
            }
            of_output[key] = mine;
            plan.outputs[key] = slots;
            for w in &self.params[key].workspaces {
                symbols.push(Symbol {
                    bytes: block(w.bytes)?,
                    touches: vec![at],
                    firsts: vec![at],
                    io: None,
                    owner: key,
                });
                of_workspace[key].push(symbols.len() - 1);
            }
        }
        self.add_readers(&mut symbols, &of_output);
        self.mark_outputs(&mut symbols, &of_output);
        let (offsets, report, ranges, peak) = self.place(&symbols, options)?;
        for &key in self.order.line() {
            for (k, (slot, s)) in plan.outputs[key].iter_mut().zip(&of_output[key]).enumerate() {
                if let Some(s) = s {
                    slot.space = Space::Feature(MemoryKind::HBM);
                    slot.offset = offsets[*s] + inside[key][k];
                    slot.zero_copy = symbols[*s].io.is_some();
                }
            }
            plan.workspaces[key] = of_workspace[key]
                .iter()
                .map(|s| Slot {
                    space: Space::Feature(MemoryKind::HBM),
                    offset: offsets[*s],
                    size: symbols[*s].bytes,
                    ..Slot::NONE
                })
                .collect();
        }
        plan.spaces.push(report);
        plan.zero_copy = ranges;
        plan.peak = peak;
        Ok(plan)
    }

    /// Runs of memory that nodes without a task make of their inputs: each input's source at the running sum of the data before
    /// it (size by dimension index 0), the node's own output at the first (000, 4.4.2).
    fn joined(&self) -> Result<Joined> {
        let mut j = Joined::default();
        for &key in self.order.line() {
            let Some(n) = key.get(self.model) else { continue };
            let a = n.attrs();
            let joins = a.flag("_nopadding_continuous_input") || a.flag("_no_padding_continuous_input");
            if !(a.flag("_no_task") && joins && a.flag("_output_reuse_input")) {
                continue;
            }
            let run = j.runs.len();
            let mut at = 0u64;
            for v in n.inputs().iter().filter(|v| !v.is_absent()) {
                let (source, output) = self.source(NodeKey { graph: key.graph, node: v.node }, v.output);
                let bytes = key.graph_of(self.model).desc(*v).and_then(|d| d.data_bytes()).unwrap_or(0);
                if j.of.insert((source, output as usize), (run, at)).is_some() {
                    return Err(CompileError::internal(
                        "memory",
                        format!("`{}` is joined twice", source.name(self.model)),
                    ));
                }
                at = at.checked_add(bytes).ok_or_else(|| CompileError::internal("memory", "sizes overflow"))?;
            }
            j.of.insert((key, 0), (run, 0));
            j.outputs.insert(key);
            j.runs.push(block(at)?);
        }
        Ok(j)
    }

    /// The output that a value's memory comes from, through views.
    fn source(&self, mut key: NodeKey, mut output: u32) -> (NodeKey, u32) {
        while let Some(n) = key.get(self.model) {
            match n.input(0) {
                Some(up) if output == 0 && is_view(self.toolbox, Some(self.placement), key, n) => {
                    (key, output) = (NodeKey { graph: key.graph, node: up.node }, up.output);
                }
                _ => break,
            }
        }
        (key, output)
    }

    fn output_bytes(&self, key: NodeKey, n: &ge_ir::Node, k: usize) -> Result<u64> {
        let said = self.params[key].output_bytes.get(k).copied().unwrap_or(0);
        let bytes = if said > 0 { Some(said) } else { n.outputs()[k].data_bytes() };
        let Some(bytes) = bytes.filter(|b| *b <= 1 << 50) else {
            return Err(CompileError::Option {
                message: format!(
                    "output {k} of `{}` ({}) has no known size: {}{}",
                    n.name(),
                    n.op(),
                    n.outputs()[k].dtype,
                    n.outputs()[k].shape
                ),
                help: "give the graph's inputs their shapes with `--input-shape \"name:1,3,224,224\"`".into(),
            });
        };
        block(bytes)
    }

    fn add_readers(&self, symbols: &mut [Symbol], of_output: &ModelMap<Vec<Option<usize>>>) {
        for (i, &key) in self.order.line().iter().enumerate() {
            let Some(n) = key.get(self.model) else { continue };
            for v in n.inputs().iter().filter(|v| !v.is_absent()) {
                let up = NodeKey { graph: key.graph, node: v.node };
                if let Some(Some(s)) = of_output[up].get(v.output as usize) {
                    if symbols[*s].touches.last() != Some(&(i as u32)) {
                        symbols[*s].touches.push(i as u32);
                    }
                }
            }
        }
    }

    fn mark_outputs(&self, symbols: &mut [Symbol], of_output: &ModelMap<Vec<Option<usize>>>) {
        let Some(out) = self.model.root().net_output() else { return };
        for (k, v) in out.inputs().iter().enumerate() {
            if let Some(Some(s)) = of_output[NodeKey::new(0, v.node)].get(v.output as usize) {
                symbols[*s].io.get_or_insert(Io::Output(k as u32));
            }
        }
    }

    #[allow(clippy::type_complexity)]
    fn place(
        &self,
        symbols: &[Symbol],
        options: &Options,
    ) -> Result<(Vec<u64>, SpaceReport, Vec<ZeroCopyRange>, Vec<(String, u64)>)> {
        let reused: Vec<usize> =
            (0..symbols.len()).filter(|s| symbols[*s].io.is_none() && symbols[*s].bytes > 0).collect();
        let one_stream = self.order.stream_count() == 1;
        let blocks: Vec<Block> = reused
            .iter()
            .map(|&s| {
                let t = &symbols[s].touches;
                let (first, last) = (t.iter().min().copied().unwrap_or(0), t.iter().max().copied().unwrap_or(0));
                Block {
                    id: s as u64,
                    lower: u64::from(first),
                    upper: u64::from(last) + 1,
                    size: symbols[s].bytes,
                    align: BLOCK,
                    stream: self.order.stand(first as usize).map_or(0, |(s, _)| s.0),
                    reuse: options.get("ge.exec.disableReuseMemory") != "1",
                    fixed: None,
                }
            })
            .collect();
        let effort = match options.get("ge.x.memory_effort") {
            "fast" => MemoryEffort::Fast,
            "max" => MemoryEffort::Max,
            _ => MemoryEffort::Default,
        };
        let assign_options = AssignOptions {
            effort,
            capacity: None,
            memory_priority: options.get("ge.exec.memoryOptimizationPolicy") == "MemoryPriority",
        };
        let ordered = |a: u32, b: u32| self.order.ordered_at(a as usize, b as usize);
        let uses = reused
            .iter()
            .map(|&s| super::assign::StreamUse { first: symbols[s].firsts.clone(), last: symbols[s].touches.clone() })
            .collect();
        let conflicts = StreamConflicts::new(&blocks, uses, &ordered);
        let relation: Option<&dyn super::assign::Conflicts> = if one_stream { None } else { Some(&conflicts) };
        // The near-linear assigners first: where they reach the bound, and for graphs so large that a search would cost more than
        // it gives, nothing else is tried.
        let fast = AssignOptions { effort: MemoryEffort::Fast, ..assign_options };
        let plan = |o: &AssignOptions| {
            assign_blocks(&blocks, relation, o, &Watch::none())
                .map_err(|e| CompileError::internal("memory", e.to_string()))
        };
        let first = plan(&fast)?;
        let search = match effort {
            MemoryEffort::Fast => false,
            MemoryEffort::Default => first.arena > first.lower_bound && blocks.len() <= SEARCHED_BLOCKS,
            MemoryEffort::Max => first.arena > first.lower_bound,
        };
        let made = if search { plan(&assign_options)? } else { first };
        check_offsets(&blocks, &made.offsets, made.arena, relation)
            .map_err(|e| CompileError::internal("memory", e.to_string()))?;
        let mut offsets = vec![0u64; symbols.len()];
        for (b, &s) in reused.iter().enumerate() {
            offsets[s] = made.offsets[b];
        }
        // Zero-copy ranges stand at the end: outputs first, then inputs by size (facts 2.2).
        let mut io: Vec<usize> = (0..symbols.len()).filter(|s| symbols[*s].io.is_some()).collect();
        io.sort_by_key(|s| match symbols[*s].io {
            Some(Io::Output(k)) => (0, 0, k),
            Some(Io::Input(k)) => (1, symbols[*s].bytes, k),
            None => (2, 0, 0),
        });
        let mut end = made.arena;
        let mut ranges = Vec::with_capacity(io.len());
        for s in io {
            offsets[s] = end;
            if let Some(io) = symbols[s].io {
                ranges.push(ZeroCopyRange { io, memory: MemoryKind::HBM, offset: end, size: symbols[s].bytes });
            }
            end =
                end.checked_add(symbols[s].bytes).ok_or_else(|| CompileError::internal("memory", "sizes overflow"))?;
        }
        let holders =
            super::assign::peak_holders(&blocks).map_err(|e| CompileError::internal("memory", e.to_string()))?;
        let peak = holders
            .iter()
            .map(|h| {
                let s = &symbols[h.id as usize];
                (s.owner.name(self.model), s.bytes)
            })
            .collect();
        let report = SpaceReport {
            memory: MemoryKind::HBM,
            size: end,
            lower_bound: made.lower_bound,
            zero_copy: end - made.arena,
            assigner: made.assigner.to_owned(),
        };
        Ok((offsets, report, ranges, peak))
    }
}

fn block(bytes: u64) -> Result<u64> {
    if bytes == 0 {
        return Ok(0);
    }
    block_bytes(bytes).ok_or_else(|| CompileError::internal("memory", "a size overflows"))
}

/// A value's producer, as a key in its graph.
pub fn producer(key: NodeKey, v: ValueRef) -> NodeKey {
    NodeKey { graph: key.graph, node: v.node }
}
