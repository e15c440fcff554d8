//! Blocks: address ranges with all nodes that touch them. What is shared on purpose is joined into
//! one block.
use crate::PlanFault;
use ge_model::{NodeInfo, SlotInfo};
use std::collections::HashMap;

/// One address range and all nodes that touch it.
pub(super) struct Block {
    pub memory: u8,
    pub offset: u64,
    pub size: u64,
    /// The node that first touches it.
    pub first: u32,
    /// Nodes one of which is the first to touch it: the producers of everything that was joined.
    pub firsts: Vec<u32>,
    /// Nodes that touch it, including the first.
    pub users: Vec<u32>,
    /// Byte ranges of the values of single nodes: begin, end, node. Values that are joined on
    /// purpose lie beside each other and never overlap.
    pub own: Vec<(u64, u64, u32)>,
    /// Inputs of the model that lie in it.
    pub inputs: Vec<u32>,
    /// Outputs of the model that lie in it. Then the block lives to the end.
    pub outputs: Vec<u32>,
    /// Whether it contains a workspace.
    pub work: bool,
    /// The block that it was merged into.
    pub part_of: Option<usize>,
}

impl Block {
    /// The block of one node's slot, of which `own` bytes belong to the node's value.
    fn of(slot: &SlotInfo, own: u64, node: u32) -> Block {
        Block {
            memory: slot.memory,
            offset: slot.offset,
            size: slot.size,
            first: node,
            firsts: vec![node],
            users: vec![node],
            own: vec![(slot.offset, slot.offset + own, node)],
            inputs: Vec::new(),
            outputs: Vec::new(),
            work: false,
            part_of: None,
        }
    }
}

/// The block that contains block `b` after merging.
fn holder(list: &[Block], mut b: usize) -> usize {
    while let Some(up) = list[b].part_of {
        b = up;
    }
    b
}

/// All blocks of a graph.
pub(super) struct Blocks {
    pub list: Vec<Block>,
}

impl Blocks {
    /// Checks that the values within one block do not overlap.
    pub fn apart(&mut self, nodes: &[NodeInfo]) -> Result<(), PlanFault> {
        for b in &mut self.list {
            b.own.sort_unstable();
            if let Some(pair) = b.own.windows(2).find(|p| p[0].1 > p[1].0) {
                let name = |i: u32| nodes[i as usize].name.clone();
                let what = format!("it lies over `{}` in one run", name(pair[0].2));
                return Err(PlanFault::Place { node: name(pair[1].2), what });
            }
        }
        Ok(())
    }

    /// Collects the blocks from the slots and workspaces of the nodes.
    pub fn gather(gi: usize, nodes: &[NodeInfo]) -> Blocks {
        let mut list: Vec<Block> = Vec::new();
        // The block of each output.
        let mut of: Vec<Vec<Option<usize>>> = Vec::with_capacity(nodes.len());
        // The workspaces of each node. The first workspace of a clearing node is the memory that it
        // clears.
        let mut cleaned: HashMap<u32, Vec<usize>> = HashMap::new();
        for (i, n) in nodes.iter().enumerate() {
            let mut mine = Vec::with_capacity(n.slots.len());
            for s in &n.slots {
                if s.space != SlotInfo::FEATURE {
                    mine.push(None);
                    continue;
                }
                let shared = s
                    .ref_input
                    .and_then(|k| n.inputs.get(k as usize).copied().flatten())
                    .and_then(|v| of[v.node as usize].get(v.output as usize).copied().flatten());
                if let Some(b) = shared {
                    list[b].users.push(i as u32);
                    // A view may extend beyond the value that it views (padding); the block is the
                    // union.
                    let end = (list[b].offset + list[b].size).max(s.offset + s.size);
                    let start = list[b].offset.min(s.offset);
                    list[b].offset = start;
                    list[b].size = end - start;
                    mine.push(Some(b));
                    continue;
                }
                mine.push(Some(list.len()));
                let input = (gi == 0 && matches!(n.op.as_str(), "Data" | "RefData" | "AippData"))
                    .then(|| u32::try_from(n.attrs.int("index").unwrap_or(0)).unwrap_or(u32::MAX));
                let own = tight(s, n.outputs.get(mine.len() - 1));
                list.push(Block { inputs: input.into_iter().collect(), ..Block::of(s, own, i as u32) });
            }
            for w in n.workspaces.iter().filter(|w| w.space == SlotInfo::FEATURE) {
                cleaned.entry(i as u32).or_default().push(list.len());
                list.push(Block { work: true, ..Block::of(w, w.size, i as u32) });
            }
            of.push(mine);
            for v in n.inputs.iter().flatten() {
                if let Some(b) = of[v.node as usize].get(v.output as usize).copied().flatten() {
                    list[b].users.push(i as u32);
                }
            }
        }
        let outputs = nodes.iter().filter(|n| gi == 0 && n.op == "NetOutput").flat_map(|n| n.inputs.iter().enumerate());
        for (k, v) in outputs {
            let block = v.and_then(|v| of[v.node as usize].get(v.output as usize).copied().flatten());
            if let Some(b) = block {
                list[b].outputs.push(k as u32);
            }
        }
        join_no_task(nodes, &of, &mut list);
        join_cleaned(nodes, &of, &cleaned, &mut list);
        Blocks { list }
    }
}

/// Joins the blocks of a no-task concat or split with the blocks of its parts, which share memory
/// on purpose.
fn join_no_task(nodes: &[NodeInfo], of: &[Vec<Option<usize>>], list: &mut [Block]) {
    for (i, n) in nodes.iter().enumerate() {
        if !n.attrs.flag("_no_task") && !matches!(n.op.as_str(), "PhonyConcat" | "PhonySplit") {
            continue;
        }
        let around: Vec<usize> = n
            .inputs
            .iter()
            .flatten()
            .filter_map(|v| of[v.node as usize].get(v.output as usize).copied().flatten())
            .chain(of[i].iter().copied().flatten())
            .collect();
        let Some(&whole) = around.iter().min_by_key(|b| list[**b].first) else { continue };
        for b in around {
            merge(list, whole, b);
        }
    }
}

/// Joins the block of a node that clears memory with the atomic outputs and workspaces that it
/// clears.
fn join_cleaned(nodes: &[NodeInfo], of: &[Vec<Option<usize>>], cleaned: &HashMap<u32, Vec<usize>>, list: &mut [Block]) {
    for (i, n) in nodes.iter().enumerate() {
        let outputs = n.attrs.ints("atomic_output_index").unwrap_or_default();
        let spaces = n.attrs.ints("_atomic_workspace_index").unwrap_or_default();
        if outputs.is_empty() && spaces.is_empty() {
            continue;
        }
        let clears = |c: &&u32| {
            nodes
                .get(**c as usize)
                .is_some_and(|p| matches!(p.op.as_str(), "AtomicAddrClean" | "MemSet") && p.inputs.is_empty())
        };
        let Some(&whole) = n.controls.iter().find(clears).and_then(|c| cleaned.get(c)?.first()) else { continue };
        let clean = list[whole].first;
        list[whole].own.retain(|o| o.2 != clean);
        let index = |k: &i64| usize::try_from(*k).ok();
        let mine = outputs.iter().filter_map(|k| of[i].get(index(k)?).copied().flatten());
        let own = cleaned.get(&(i as u32));
        let blocks: Vec<usize> = mine.chain(spaces.iter().filter_map(|k| own?.get(index(k)?).copied())).collect();
        for b in blocks {
            merge(list, whole, b);
            // The clearing node comes first, so the value itself is not a first touch.
            let whole = holder(list, whole);
            let first = list[whole].first;
            list[whole].firsts.retain(|f| *f != i as u32 || *f == first);
        }
    }
}

/// Merges block `b` into `whole`.
fn merge(list: &mut [Block], whole: usize, b: usize) {
    let (whole, b) = (holder(list, whole), holder(list, b));
    if b == whole || list[b].size == 0 {
        return;
    }
    list[b].part_of = Some(whole);
    let users = std::mem::take(&mut list[b].users);
    let (firsts, own) = (std::mem::take(&mut list[b].firsts), std::mem::take(&mut list[b].own));
    let (inputs, outputs) = (std::mem::take(&mut list[b].inputs), std::mem::take(&mut list[b].outputs));
    let work = list[b].work;
    let (offset, end, first) = (list[b].offset, list[b].offset + list[b].size, list[b].first);
    list[b].size = 0;
    let w = &mut list[whole];
    let start = w.offset.min(offset);
    w.size = (w.offset + w.size).max(end) - start;
    w.offset = start;
    w.work |= work;
    w.inputs.extend(inputs);
    w.outputs.extend(outputs);
    w.first = w.first.min(first);
    w.users.extend(users);
    w.firsts.extend(firsts);
    w.own.extend(own);
}

/// Bytes that the data of an output take.
fn tight(s: &SlotInfo, d: Option<&ge_plugin_api::types::TensorDesc>) -> u64 {
    d.and_then(|d| d.data_bytes()).unwrap_or(s.size).min(s.size)
}
