//! `MemoryPlan`: what the stage `memory` decides, read by those after it.
use crate::ids::ModelMap;
use ge_ir::Model;
use ge_plugin_api::device::MemoryKind;

/// In which space an output or workspace lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// The feature map of a memory kind.
    Feature(MemoryKind),
    /// The weights.
    Weights,
    /// The variables.
    Variables,
    /// No memory (no bytes, never touched).
    None,
}

/// Where one output or workspace lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Space.
    pub space: Space,
    /// Offset in it.
    pub offset: u64,
    /// Bytes, padding included.
    pub size: u64,
    /// Whether it lies in a zero-copy range.
    pub zero_copy: bool,
    /// The node's input whose memory it shares, if it is in place or a view.
    pub ref_input: Option<u32>,
}

impl Slot {
    /// No memory.
    pub const NONE: Slot = Slot { space: Space::None, offset: 0, size: 0, zero_copy: false, ref_input: None };
}

/// A graph input or output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Io {
    /// Graph input k.
    Input(u32),
    /// Graph output k.
    Output(u32),
}

/// A range of a feature map that is the caller's own memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZeroCopyRange {
    /// Which input or output.
    pub io: Io,
    /// Memory kind.
    pub memory: MemoryKind,
    /// Offset in that kind's feature map.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// An input that the plan may write over.
    pub overwritten: bool,
    /// For an output: the input whose memory it is.
    pub of_input: Option<u32>,
}

/// One memory kind's figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpaceReport {
    /// Memory kind.
    pub memory: MemoryKind,
    /// Bytes of the feature map, zero-copy ranges included.
    pub size: u64,
    /// Greatest live sum of 512-byte blocks, zero copy left out: no plan is smaller.
    pub lower_bound: u64,
    /// Bytes of zero-copy ranges (at the end).
    pub zero_copy: u64,
    /// Who made the plan.
    pub assigner: String,
    /// Where its pieces begin, if it is allocated in more than one (`GraphMemSplitter`).
    pub pieces: Vec<u64>,
}

/// Memory of a model.
#[derive(Clone, Debug)]
pub struct MemoryPlan {
    /// Slots of each node's outputs.
    pub outputs: ModelMap<Vec<Slot>>,
    /// Slots of each node's workspaces.
    pub workspaces: ModelMap<Vec<Slot>>,
    /// Figures of each memory kind in use; HBM first and always there.
    pub spaces: Vec<SpaceReport>,
    /// Zero-copy ranges.
    pub zero_copy: Vec<ZeroCopyRange>,
    /// Bytes of the weights.
    pub weight_bytes: u64,
    /// Bytes of the variables.
    pub variable_bytes: u64,
    /// Nodes that hold memory at the peak, greatest first.
    pub peak: Vec<(String, u64)>,
}

impl MemoryPlan {
    /// A plan without memory.
    pub fn empty(model: &Model) -> MemoryPlan {
        MemoryPlan {
            outputs: ModelMap::new(model, Vec::new()),
            workspaces: ModelMap::new(model, Vec::new()),
            spaces: Vec::new(),
            zero_copy: Vec::new(),
            weight_bytes: 0,
            variable_bytes: 0,
            peak: Vec::new(),
        }
    }

    /// Writes the decision as text has it: `offset`, `size` and
    /// `memory` on tensor descriptors, `_workspace_offsets` and `_workspace_sizes` on nodes.
    pub fn to_attrs(&self, model: &mut Model) {
        for gi in 0..model.graphs().len() {
            for id in model.graphs()[gi].order().to_vec() {
                let key = crate::ids::NodeKey::new(gi, id);
                let g = &mut model.graphs_mut()[gi];
                for (k, s) in self.outputs[key].iter().enumerate() {
                    let Space::Feature(kind) = s.space else { continue };
                    if let Some(d) = g.output_mut(ge_ir::ValueRef::new(id, k as u32)) {
                        d.attrs.set("offset", s.offset as i64);
                        d.attrs.set("size", s.size as i64);
                        d.attrs.set("memory", kind.name());
                    }
                }
                if !self.workspaces[key].is_empty() {
                    let list = |f: &dyn Fn(&Slot) -> u64| {
                        self.workspaces[key].iter().map(|s| f(s) as i64).collect::<Vec<i64>>()
                    };
                    g.set_attr(id, "_workspace_offsets", list(&|s| s.offset));
                    g.set_attr(id, "_workspace_sizes", list(&|s| s.size));
                }
            }
        }
    }
}
