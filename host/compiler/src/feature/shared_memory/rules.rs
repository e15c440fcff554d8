//! Which values a node makes share memory, and at which distance (document 000, 4.4; facts 2.7):
//!
//! - a view lies where its input lies; so does an output that is the node's input (`REFERENCE`
//!   prototypes, `reference`, `_ref_input`, `_in_place`);
//! - without padding (`_nopadding_continuous_*` with `_output_reuse_input`, `PhonyConcat`,
//!   `PhonySplit`): the parts lie one after the other in the whole, each at the sum of the data
//!   bytes of the parts before it;
//! - with padding (`continuous_input`, `continuous_output`): the parts lie one after the other in
//!   whole blocks;
//! - a clearing node (`AtomicAddrClean`, `MemSet` without inputs) covers the atomic outputs and
//!   workspaces of the nodes that wait for it.
use crate::feature::control_flow::lower::REF_INPUT;
use crate::toolbox::Toolbox;
use ge_ir::{Graph, Key, Node, NodeId, TensorDesc, ValueRef};
use ge_plugin_api::engine::flags as engine_flags;
use ge_plugin_api::ops::flags;
use std::sync::LazyLock;

/// Keys that are looked up on every node.
static REUSES: LazyLock<Key> = LazyLock::new(|| Key::new("_output_reuse_input"));
static IN_PLACE: LazyLock<Key> = LazyLock::new(|| Key::new(ge_plugin_api::ops::IN_PLACE));
static REFERENCE: LazyLock<Key> = LazyLock::new(|| Key::new("reference"));

/// Attribute: indices of a node's workspaces that must start as zero.
pub const ATOMIC_WORKSPACES: &str = "_atomic_workspace_index";
/// Attribute: sizes of these workspaces in bytes.
pub const ATOMIC_WORKSPACE_BYTES: &str = "_atomic_workspace_bytes";

/// The size of a block is a multiple of this, in bytes (facts 2.1).
pub const BLOCK: u64 = 512;

/// Bytes that a tensor of `bytes` bytes takes: 32-byte units plus one more (facts 2.1), rounded up
/// to whole blocks. `None` on overflow.
pub fn block_bytes(bytes: u64) -> Option<u64> {
    (bytes.checked_add(63)? / 32 * 32).checked_next_multiple_of(BLOCK)
}

/// Something with an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spot {
    /// An output of a node.
    Value(ValueRef),
    /// A workspace: the node and the workspace's index.
    Workspace(NodeId, u32),
}

/// Why two spots share memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinKind {
    /// The second is the first under another shape.
    View,
    /// The node writes into its input.
    Reference,
    /// A copy into memory that control flow keeps for this purpose.
    Held,
    /// The parts of a whole without padding; the node reads them as its inputs.
    NoPaddingInput,
    /// The parts of a whole without padding; they are the node's outputs.
    NoPaddingOutput,
    /// Inputs in adjacent blocks.
    PaddedInput,
    /// Outputs in adjacent blocks.
    PaddedOutput,
    /// Memory that a node clears beforehand.
    Clean,
}

/// Two spots at a fixed distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Join {
    /// The spot from which the distance counts.
    pub from: Spot,
    /// The spot at this distance.
    pub to: Spot,
    /// Distance in bytes.
    pub at: u64,
    /// Why the two share memory.
    pub kind: JoinKind,
    /// The input of the node before which a copy must be inserted to break the join.
    pub input: u32,
}

/// The rules, together with the plugins' answers that they need.
#[derive(Clone, Copy)]
pub struct Rules<'t> {
    toolbox: &'t Toolbox,
}

/// Data bytes of a part, starting at the dimension that `_reuse_input_on_dim_index` names; all
/// bytes if that is 0.
fn part_bytes(n: &Node, d: &TensorDesc) -> u64 {
    let all = d.data_bytes().unwrap_or(0);
    let dim = n.attrs().int("_reuse_input_on_dim_index").and_then(|i| usize::try_from(i).ok()).unwrap_or(0);
    let before: u64 = d.shape.sizes().map_or(1, |s| s.iter().take(dim).product());
    all / before.max(1)
}

impl<'t> Rules<'t> {
    /// The rules for the prototypes and engines of a compilation.
    pub fn new(toolbox: &'t Toolbox) -> Rules<'t> {
        Rules { toolbox }
    }
    /// The toolbox that the rules ask.
    pub fn toolbox(&self) -> &'t Toolbox {
        self.toolbox
    }

    /// Whether output 0 of a node is its input 0 under another shape and the node has no task. An
    /// `Identity` counts as a copy.
    pub fn is_view(&self, n: &Node) -> bool {
        if n.op() == "Identity" || self.toolbox.op_flags(n.op_key()) & flags::VIEW == 0 {
            return false;
        }
        let engine = n.attrs().str("_engine").and_then(|e| self.toolbox.engine_named(e));
        engine.is_none_or(|e| self.toolbox.engine(e).info.flags & engine_flags::NO_TASK != 0)
    }
    /// Whether output 0 of a node is its input 0, which the node writes.
    pub fn is_reference(&self, n: &Node) -> bool {
        n.attrs().flag(*REFERENCE) || self.toolbox.op_flags(n.op_key()) & flags::REFERENCE != 0
    }
    /// Whether the bytes of a node's outputs belong to other values: views, references, wholes made
    /// of parts, parts of a whole, and values of a called graph.
    pub fn derives(&self, n: &Node) -> bool {
        self.is_view(n)
            || self.is_reference(n)
            || Self::joins_inputs(n)
            || Self::splits_input(n)
            || n.attr(REF_INPUT).is_some()
            || n.attrs().flag(*IN_PLACE)
            || n.op() == "PartitionedCall"
    }
    /// Whether the inputs of a node are parts of its output.
    pub fn joins_inputs(n: &Node) -> bool {
        let a = n.attrs();
        n.op() == "PhonyConcat"
            || (a.flag(*REUSES) && (a.flag("_nopadding_continuous_input") || a.flag("_no_padding_continuous_input")))
    }
    /// Whether the outputs of a node are parts of its input.
    pub fn splits_input(n: &Node) -> bool {
        let a = n.attrs();
        n.op() == "PhonySplit"
            || (a.flag(*REUSES) && (a.flag("_nopadding_continuous_output") || a.flag("_no_padding_continuous_output")))
    }
    /// Whether a node clears memory for the nodes that wait for it.
    pub fn clears(n: &Node) -> bool {
        matches!(n.op(), "AtomicAddrClean" | "MemSet") && n.inputs().is_empty()
    }

    /// All joins of a node. `need` returns the bytes that a value's producer asks for.
    pub fn joins(&self, g: &Graph, n: &Node, need: &dyn Fn(ValueRef) -> u64) -> Vec<Join> {
        let mut out = Vec::new();
        let first = n.input(0).map(Spot::Value);
        let value = |k: u32| Spot::Value(n.value(k));
        let same = |from: Option<Spot>, kind: JoinKind, input: u32| {
            from.map(|from| Join { from, to: value(0), at: 0, kind, input })
        };
        if n.outputs().is_empty() {
            // Nodes without outputs only join their inputs, below.
        } else if self.is_view(n) {
            out.extend(same(first, JoinKind::View, 0));
        } else if let Some(i) = n.attrs().int(REF_INPUT).and_then(|i| u32::try_from(i).ok()) {
            out.extend(same(n.input(i as usize).map(Spot::Value), JoinKind::Held, i));
        } else if n.attrs().flag(*IN_PLACE) {
            out.extend(same(first, JoinKind::Held, 0));
        } else if self.is_reference(n) {
            out.extend(same(first, JoinKind::Reference, 0));
            // The further variables that an optimizer step writes.
            let flags_of = self.toolbox.op_flags(n.op_key());
            for k in flags::written(flags_of).filter(|k| (1..n.outputs().len()).contains(k)) {
                let from = n.input(k).map(Spot::Value);
                let (to, input) = (value(k as u32), k as u32);
                out.extend(from.map(|from| Join { from, to, at: 0, kind: JoinKind::Reference, input }));
            }
        } else if Self::joins_inputs(n) {
            let mut at = 0u64;
            for (i, v) in n.inputs().iter().enumerate().filter(|(_, v)| !v.is_absent()) {
                let join =
                    Join { from: value(0), to: Spot::Value(*v), at, kind: JoinKind::NoPaddingInput, input: i as u32 };
                out.push(join);
                at = at.saturating_add(g.desc(*v).map_or(0, |d| part_bytes(n, d)));
            }
        } else if Self::splits_input(n) {
            let mut at = 0u64;
            for (k, d) in n.outputs().iter().enumerate() {
                out.extend(first.map(|from| Join {
                    from,
                    to: value(k as u32),
                    at,
                    kind: JoinKind::NoPaddingOutput,
                    input: 0,
                }));
                at = at.saturating_add(part_bytes(n, d));
            }
        }
        if n.attrs().flag("continuous_input") {
            let mut at = 0u64;
            for (i, v) in n.inputs().iter().enumerate().filter(|(_, v)| !v.is_absent()) {
                if let Some(from) = first {
                    out.push(Join { from, to: Spot::Value(*v), at, kind: JoinKind::PaddedInput, input: i as u32 });
                }
                at = at.saturating_add(block_bytes(need(*v)).unwrap_or(0));
            }
        }
        // If all outputs are references, they lie where their inputs lie (facts 2.7).
        if n.attrs().flag("continuous_output") && !self.is_reference(n) {
            let mut at = 0u64;
            for k in 0..n.outputs().len() as u32 {
                if k > 0 {
                    let (from, to) = (value(0), value(k));
                    out.push(Join { from, to, at, kind: JoinKind::PaddedOutput, input: 0 });
                }
                at = at.saturating_add(block_bytes(need(n.value(k))).unwrap_or(0));
            }
        }
        if Self::clears(n) {
            self.cleaned(g, n, need, &mut out);
        }
        out
    }

    /// Joins the atomic outputs and workspaces of the nodes that wait for a clearing node: they lie
    /// one after the other in the workspace of the clearing node (facts 2.8).
    fn cleaned(&self, g: &Graph, n: &Node, need: &dyn Fn(ValueRef) -> u64, out: &mut Vec<Join>) {
        let from = Spot::Workspace(n.id(), 0);
        let mut at = 0u64;
        for user in n.control_users().iter().filter_map(|u| g.get(*u)) {
            for k in atomic_outputs(user) {
                out.push(Join { from, to: Spot::Value(user.value(k)), at, kind: JoinKind::Clean, input: 0 });
                at = at.saturating_add(block_bytes(need(user.value(k))).unwrap_or(0));
            }
            for (k, bytes) in atomic_workspaces(user) {
                let to = Spot::Workspace(user.id(), k);
                out.push(Join { from, to, at, kind: JoinKind::Clean, input: 0 });
                at = at.saturating_add(block_bytes(bytes).unwrap_or(0));
            }
        }
    }
}

/// Workspaces that must start as zero, each with its size in bytes.
fn atomic_workspaces(n: &Node) -> Vec<(u32, u64)> {
    let list = n.attrs().ints(ATOMIC_WORKSPACES).unwrap_or_default();
    let bytes = n.attrs().ints(ATOMIC_WORKSPACE_BYTES).unwrap_or_default();
    let both = list.iter().zip(bytes.iter());
    both.filter_map(|(k, b)| Some((u32::try_from(*k).ok()?, u64::try_from(*b).ok()?))).collect()
}

/// Outputs that a node adds to and that therefore must start as zero.
pub fn atomic_outputs(n: &Node) -> Vec<u32> {
    let list = n.attrs().ints("atomic_output_index").unwrap_or_default();
    let count = n.outputs().len();
    list.iter().filter_map(|k| u32::try_from(*k).ok()).filter(|k| (*k as usize) < count).collect()
}
