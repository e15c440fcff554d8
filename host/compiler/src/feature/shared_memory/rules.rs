//! Which values a node makes share memory, and at which distance (document 000, 4.4; facts 2.7).
//!
//! - a view lies where its input lies; an output that is its input
//!   (`REFERENCE` prototypes, `reference`, `_ref_input`, `_in_place`) too;
//! - no padding (`_nopadding_continuous_*` with `_output_reuse_input`,
//!   `PhonyConcat`, `PhonySplit`): the parts lie one behind the other in the whole, each at the
//!   data bytes of those before it;
//! - padding (`continuous_input`, `continuous_output`): the parts lie one behind the other in whole
//!   blocks;
//! - a node that clears (`AtomicAddrClean`, `MemSet` without inputs) covers the atomic outputs and
//!   workspaces of those that wait for it.
use crate::feature::control_flow::lower::REF_INPUT;
use crate::toolbox::Toolbox;
use ge_ir::{Graph, Key, Node, NodeId, TensorDesc, ValueRef};
use ge_plugin_api::engine::flags as engine_flags;
use ge_plugin_api::ops::flags;
use std::sync::LazyLock;

/// Keys that every node is asked for.
static REUSES: LazyLock<Key> = LazyLock::new(|| Key::new("_output_reuse_input"));
static IN_PLACE: LazyLock<Key> = LazyLock::new(|| Key::new(ge_plugin_api::ops::IN_PLACE));
static REFERENCE: LazyLock<Key> = LazyLock::new(|| Key::new("reference"));

/// Workspaces of a node that must start as zero, by index.
pub const ATOMIC_WORKSPACES: &str = "_atomic_workspace_index";
/// Bytes of those.
pub const ATOMIC_WORKSPACE_BYTES: &str = "_atomic_workspace_bytes";

/// A block is a multiple of this (facts 2.1).
pub const BLOCK: u64 = 512;

/// Bytes that a tensor of `bytes` takes: 32-byte units and one more (facts 2.1), in whole blocks.
pub fn block_bytes(bytes: u64) -> Option<u64> {
    (bytes.checked_add(63)? / 32 * 32).checked_next_multiple_of(BLOCK)
}

/// Something with an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spot {
    /// An output.
    Value(ValueRef),
    /// A workspace.
    Workspace(NodeId, u32),
}

/// Why two spots lie together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinKind {
    /// The same bytes under another shape.
    View,
    /// The node writes into its input.
    Reference,
    /// A copy into memory that control flow holds on purpose.
    Held,
    /// Parts that are read as one whole.
    NoPaddingInput,
    /// Parts of one whole.
    NoPaddingOutput,
    /// Inputs in neighbouring blocks.
    PaddedInput,
    /// Outputs in neighbouring blocks.
    PaddedOutput,
    /// Memory that is cleared beforehand.
    Clean,
}

/// Two spots at a fixed distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Join {
    /// From here …
    pub from: Spot,
    /// … to here,
    pub to: Spot,
    /// as many bytes.
    pub at: u64,
    /// Why.
    pub kind: JoinKind,
    /// The node's input that a copy would have to stand before to break it.
    pub input: u32,
}

/// The rules, with what they ask of the plugins.
#[derive(Clone, Copy)]
pub struct Rules<'t> {
    toolbox: &'t Toolbox,
}

/// Bytes of the data from the dimension on that `_reuse_input_on_dim_index` names; all of them for 0.
fn part_bytes(n: &Node, d: &TensorDesc) -> u64 {
    let all = d.data_bytes().unwrap_or(0);
    let dim = n.attrs().int("_reuse_input_on_dim_index").and_then(|i| usize::try_from(i).ok()).unwrap_or(0);
    let before: u64 = d.shape.sizes().map_or(1, |s| s.iter().take(dim).product());
    all / before.max(1)
}

impl<'t> Rules<'t> {
    /// With the prototypes and engines of a compilation.
    pub fn new(toolbox: &'t Toolbox) -> Rules<'t> {
        Rules { toolbox }
    }
    /// What they ask.
    pub fn toolbox(&self) -> &'t Toolbox {
        self.toolbox
    }

    /// Whether output 0 of a node is its input 0 under another shape, without a task. An `Identity`
    /// is a copy.
    pub fn is_view(&self, n: &Node) -> bool {
        if n.op() == "Identity" || self.toolbox.op_flags(n.op_key()) & flags::VIEW == 0 {
            return false;
        }
        let engine = n.attrs().str("_engine").and_then(|e| self.toolbox.engine_named(e));
        engine.is_none_or(|e| self.toolbox.engine(e).info.flags & engine_flags::NO_TASK != 0)
    }
    /// Whether output 0 of a node is its input 0 itself, which it writes.
    pub fn is_reference(&self, n: &Node) -> bool {
        n.attrs().flag(*REFERENCE) || self.toolbox.op_flags(n.op_key()) & flags::REFERENCE != 0
    }
    /// Whether a node's outputs are bytes that others own: views, references, wholes of parts and
    /// parts of a whole, values of a called graph.
    pub fn derives(&self, n: &Node) -> bool {
        self.is_view(n)
            || self.is_reference(n)
            || Self::joins_inputs(n)
            || Self::splits_input(n)
            || n.attr(REF_INPUT).is_some()
            || n.attrs().flag(*IN_PLACE)
            || n.op() == "PartitionedCall"
    }
    /// Whether a node's inputs are parts of its output.
    pub fn joins_inputs(n: &Node) -> bool {
        let a = n.attrs();
        n.op() == "PhonyConcat"
            || (a.flag(*REUSES) && (a.flag("_nopadding_continuous_input") || a.flag("_no_padding_continuous_input")))
    }
    /// Whether a node's outputs are parts of its input.
    pub fn splits_input(n: &Node) -> bool {
        let a = n.attrs();
        n.op() == "PhonySplit"
            || (a.flag(*REUSES) && (a.flag("_nopadding_continuous_output") || a.flag("_no_padding_continuous_output")))
    }
    /// Whether a node clears the memory of those that wait for it.
    pub fn clears(n: &Node) -> bool {
        matches!(n.op(), "AtomicAddrClean" | "MemSet") && n.inputs().is_empty()
    }

    /// Everything that a node joins. `need` gives the bytes that a value's producer asks for.
    pub fn joins(&self, g: &Graph, n: &Node, need: &dyn Fn(ValueRef) -> u64) -> Vec<Join> {
        let mut out = Vec::new();
        let first = n.input(0).map(Spot::Value);
        let value = |k: u32| Spot::Value(n.value(k));
        let same = |from: Option<Spot>, kind: JoinKind, input: u32| {
            from.map(|from| Join { from, to: value(0), at: 0, kind, input })
        };
        if n.outputs().is_empty() {
            // A value that nothing may lie beside: nodes without outputs join their inputs alone,
            // below.
        } else if self.is_view(n) {
            out.extend(same(first, JoinKind::View, 0));
        } else if let Some(i) = n.attrs().int(REF_INPUT).and_then(|i| u32::try_from(i).ok()) {
            out.extend(same(n.input(i as usize).map(Spot::Value), JoinKind::Held, i));
        } else if n.attrs().flag(*IN_PLACE) {
            out.extend(same(first, JoinKind::Held, 0));
        } else if self.is_reference(n) {
            out.extend(same(first, JoinKind::Reference, 0));
            // The further variables of an optimizer's step.
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
        // Outputs that are all references lie where their inputs do (facts 2.7).
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

    /// The atomic outputs and workspaces of those that wait for a clearing node, one behind the
    /// other in its own (facts 2.8).
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

/// Workspaces that must start as zero, with their bytes.
fn atomic_workspaces(n: &Node) -> Vec<(u32, u64)> {
    let list = n.attrs().ints(ATOMIC_WORKSPACES).unwrap_or_default();
    let bytes = n.attrs().ints(ATOMIC_WORKSPACE_BYTES).unwrap_or_default();
    let both = list.iter().zip(bytes.iter());
    both.filter_map(|(k, b)| Some((u32::try_from(*k).ok()?, u64::try_from(*b).ok()?))).collect()
}

/// Outputs that a node adds to and that must start as zero.
pub fn atomic_outputs(n: &Node) -> Vec<u32> {
    let list = n.attrs().ints("atomic_output_index").unwrap_or_default();
    let count = n.outputs().len();
    list.iter().filter_map(|k| u32::try_from(*k).ok()).filter(|k| (*k as usize) < count).collect()
}
