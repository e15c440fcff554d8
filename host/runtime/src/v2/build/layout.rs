//! Where everything that a round's launches touch lies in memory.
use super::super::arena::{Life, pack};
use super::super::graph::Graph;
use super::super::no_task::NoTask;
use super::super::pieces::sized;
use super::super::plan::{Draft, Home};
use super::root_of;
use crate::error::RuntimeError;
use ge_model::{IoInfo, MemoryInfo, SlotInfo, SpaceInfo, ZeroCopyInfo};
use ge_plugin_api::types::TensorDesc;
use std::collections::BTreeMap;

/// Alignment in bytes of zero-copy ranges.
const ALIGN: u64 = 512;

/// The memory of a round: values and workspaces in the arena, and behind it a range for each tensor
/// that comes in or goes out. Constants stay in the weights and have no slot here.
pub(super) struct Layout<'l> {
    pub(super) graph: &'l Graph,
    pub(super) draft: &'l Draft,
    pub(super) no_task: &'l NoTask,
    /// By value: the slot of each value that owns memory, or is a piece of one that does.
    pub(super) slots: Vec<Option<SlotInfo>>,
    /// By launch.
    pub(super) workspaces: Vec<Vec<SlotInfo>>,
    /// Values that the launches read from outside, and values that leave the round.
    pub(super) ins: Vec<u32>,
    pub(super) outs: Vec<u32>,
    /// The inputs and outputs of the device's model: `ins` and `outs`.
    pub(super) inputs: Vec<IoInfo>,
    pub(super) outputs: Vec<IoInfo>,
    /// The arena, its ranges and the size of both.
    pub(super) memory: MemoryInfo,
}

impl<'l> Layout<'l> {
    /// Places every root that launches touch. `leaves` marks values whose memory leaves the round.
    ///
    /// # Errors
    /// Fails if sizes overflow.
    pub(super) fn of(
        graph: &'l Graph,
        draft: &'l Draft,
        leaves: &[bool],
        no_task: &'l NoTask,
    ) -> Result<Layout<'l>, RuntimeError> {
        let mut out = Layout {
            graph,
            draft,
            no_task,
            slots: vec![None; graph.values()],
            workspaces: Vec::new(),
            ins: Vec::new(),
            outs: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            memory: MemoryInfo::default(),
        };
        out.place(leaves).ok_or_else(|| ge_plugin_api::Error::failed("the sizes of a run's tensors overflow"))?;
        Ok(out)
    }

    /// Places everything; `None` if sizes overflow.
    fn place(&mut self, leaves: &[bool]) -> Option<()> {
        let lives = self.lives(leaves);
        let (offsets, arena) = pack(&lives.all, &self.draft.streams)?;
        let slot = |i: &usize| feature(offsets[*i], lives.all[*i].bytes, false);
        for (v, i) in &lives.of {
            self.slots[*v as usize] = Some(slot(i));
        }
        self.workspaces = lives.workspaces.iter().map(|of| of.iter().map(slot).collect()).collect();
        let end = self.place_borders(arena)?;
        for (v, piece) in self.no_task.piece.iter().enumerate() {
            let Some((whole, offset)) = piece else { continue };
            let Some(of) = self.slots[*whole as usize] else { continue };
            let offset = of.offset.checked_add(*offset)?;
            self.slots[v] = Some(SlotInfo { offset, size: self.bytes(v as u32), ..of });
        }
        self.memory.spaces = vec![SpaceInfo {
            memory: "HBM".into(),
            size: end,
            lower_bound: arena,
            zero_copy: end - arena,
            assigner: "lowest-gap".into(),
            pieces: Vec::new(),
        }];
        Some(())
    }

    /// The lives of values and workspaces in the arena. Lists what comes in and what goes out.
    fn lives(&mut self, leaves: &[bool]) -> Lives {
        let (graph, draft) = (self.graph, self.draft);
        let streams = &draft.streams;
        let mut lives = Lives { workspaces: Vec::with_capacity(draft.launches.len()), ..Lives::default() };
        let mut comes_in = vec![false; graph.values()];
        for (k, l) in (0u32..).zip(&draft.launches) {
            let n = &graph.nodes[l.node as usize];
            for v in n.inputs.iter().flatten() {
                let r = self.root(*v);
                match draft.home[r as usize] {
                    Home::Made => {
                        if let Some(i) = lives.of.get(&self.placed(r)) {
                            lives.all[*i].used(k, streams);
                        }
                    }
                    Home::InPlace(_) => {}
                    Home::Known if graph.constants[r as usize].is_some() => {}
                    _ => {
                        if !std::mem::replace(&mut comes_in[r as usize], true) {
                            self.ins.push(r);
                        }
                    }
                }
            }
            for v in &n.outputs {
                if matches!(draft.home[*v as usize], Home::InPlace(_)) {
                    continue;
                }
                let placed = self.placed(*v);
                if leaves[placed as usize] {
                    // For pieces, the whole is the output.
                    self.outs.extend((placed == *v).then_some(*v));
                } else if let Some(i) = lives.of.get(&placed) {
                    lives.all[*i].used(k, streams);
                } else if draft.home[placed as usize] == Home::Made {
                    // A piece of a round's input needs no memory of its own.
                    lives.of.insert(placed, lives.all.len());
                    lives.all.push(Life::new(k, self.bytes(placed)));
                }
            }
            let first = lives.all.len();
            lives.all.extend(l.launch.workspaces.iter().map(|w| Life::new(k, *w)));
            lives.workspaces.push((first..lives.all.len()).collect());
        }
        lives
    }

    /// Gives each input and output of the device's model a range of its own from `at` on. Returns
    /// their end; `None` if sizes overflow.
    fn place_borders(&mut self, mut at: u64) -> Option<u64> {
        let lists = [(false, self.ins.clone()), (true, self.outs.clone())];
        for (output, list) in lists {
            for (index, v) in (0u32..).zip(list) {
                let room = self.room(v);
                let size = room.as_ref().map_or_else(|| Some(self.bytes(v)), TensorDesc::data_bytes)?;
                let over = self.draft.over.iter().any(|o| o.0 == v && !output);
                self.memory.zero_copy.push(ZeroCopyInfo {
                    output,
                    index,
                    offset: at,
                    size,
                    overwritten: room.is_some() || over,
                    ..ZeroCopyInfo::default()
                });
                let slot = feature(at, size, true);
                self.slots[v as usize] = Some(slot);
                // The result of growing a state lies in the state's memory.
                let held = self.draft.held.iter().find(|h| h.of.value == v);
                if let Some(h) = held.filter(|_| !output) {
                    self.slots[h.of.result as usize] = Some(slot);
                }
                if over {
                    let homes = self.draft.home.iter().enumerate();
                    homes.filter(|h| *h.1 == Home::InPlace(v)).for_each(|(y, _)| self.slots[y] = Some(slot));
                }
                let io = IoInfo { name: self.name(v), desc: room.unwrap_or_else(|| self.desc(v)), slot };
                if output {
                    self.outputs.push(io)
                } else {
                    self.inputs.push(io)
                }
                at = at.checked_add(size.max(1).checked_next_multiple_of(ALIGN)?)?;
            }
        }
        Some(at)
    }

    /// Whether anything that a launch touches lies elsewhere than in an earlier round, whose slots,
    /// workspaces and pieces are `before`.
    pub(super) fn moved(
        &self,
        launch: usize,
        (slots, workspaces, no_task): (&[Option<SlotInfo>], &[Vec<SlotInfo>], &NoTask),
    ) -> bool {
        let n = &self.graph.nodes[self.draft.launches[launch].node as usize];
        let elsewhere =
            |a: &SlotInfo, b: &SlotInfo| a.zero_copy != b.zero_copy || (!a.zero_copy && a.offset != b.offset);
        let value = |v: u32| match (&self.slots[v as usize], &slots[v as usize]) {
            (Some(a), Some(b)) => elsewhere(a, b) || self.no_task.piece[v as usize] != no_task.piece[v as usize],
            // Values that the layout does not place are in the weights.
            (a, _) => a.is_some(),
        };
        let spaces = self.workspaces[launch].iter().zip(&workspaces[launch]);
        n.inputs.iter().flatten().any(|v| value(self.root(*v)))
            || n.outputs.iter().any(|v| value(*v))
            || spaces.into_iter().any(|(a, b)| elsewhere(a, b))
    }

    pub(super) fn root(&self, v: u32) -> u32 {
        root_of(self.draft, v)
    }
    /// The value whose memory contains that of a root: the root itself, or the whole that it is a
    /// piece of.
    fn placed(&self, root: u32) -> u32 {
        self.no_task.piece[root as usize].map_or(root, |p| p.0)
    }
    pub(super) fn slot(&self, v: u32) -> SlotInfo {
        self.slots[v as usize].unwrap_or_default()
    }
    fn bytes(&self, v: u32) -> u64 {
        self.draft.desc(self.graph, v).and_then(TensorDesc::data_bytes).unwrap_or(0)
    }
    /// The whole room of a state that grows in place.
    pub(super) fn room(&self, v: u32) -> Option<TensorDesc> {
        let h = self.draft.held.iter().find(|h| h.of.value == v)?;
        Some(sized(self.draft.desc[v as usize].as_ref()?, &h.room))
    }
    pub(super) fn desc(&self, v: u32) -> TensorDesc {
        self.draft.desc(self.graph, v).cloned().unwrap_or_default()
    }
    pub(super) fn name(&self, v: u32) -> String {
        self.graph.producer(v).map_or_else(String::new, |n| n.name.clone())
    }
}

/// What shares the arena.
#[derive(Default)]
struct Lives {
    all: Vec<Life>,
    /// By value that owns memory in the arena: its index in `all`.
    of: BTreeMap<u32, usize>,
    /// By launch: the indices of its workspaces in `all`.
    workspaces: Vec<Vec<usize>>,
}

/// A slot in the memory of the round.
fn feature(offset: u64, size: u64, zero_copy: bool) -> SlotInfo {
    SlotInfo { space: SlotInfo::FEATURE, offset, size, zero_copy, ..SlotInfo::default() }
}
