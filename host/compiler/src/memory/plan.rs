//! `MemoryPlan`: the result of the stage `memory`, which later stages read.
use crate::ids::ModelMap;
use ge_ir::Model;
use ge_plugin_api::device::MemoryKind;

/// The space in which an output or workspace lies.
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

/// Place of one output or workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Space in which it lies.
    pub space: Space,
    /// Offset in the space, in bytes.
    pub offset: u64,
    /// Size in bytes, including padding.
    pub size: u64,
    /// Whether it lies in a zero-copy range.
    pub zero_copy: bool,
    /// The node's input whose memory it shares, if it is in place, a view or a part.
    pub ref_input: Option<u32>,
}

impl Slot {
    /// A slot without memory.
    pub const NONE: Slot = Slot { space: Space::None, offset: 0, size: 0, zero_copy: false, ref_input: None };
}

/// A graph input or output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Io {
    /// The graph input with this index.
    Input(u32),
    /// The graph output with this index.
    Output(u32),
}

/// A range of a feature map that is the caller's own memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZeroCopyRange {
    /// The input or output to which the range belongs.
    pub io: Io,
    /// Memory kind of the range.
    pub memory: MemoryKind,
    /// Offset in that kind's feature map, in bytes.
    pub offset: u64,
    /// Size in bytes.
    pub size: u64,
    /// Whether the range is an input that the plan may overwrite.
    pub overwritten: bool,
    /// For an output: the input in whose memory it lies, if any.
    pub of_input: Option<u32>,
}

/// Figures of one memory kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpaceReport {
    /// The memory kind.
    pub memory: MemoryKind,
    /// Bytes of the feature map, including zero-copy ranges.
    pub size: u64,
    /// Greatest sum of 512-byte blocks that live at once, without zero copy: no plan is smaller.
    pub lower_bound: u64,
    /// Bytes of the zero-copy ranges, which lie at the end.
    pub zero_copy: u64,
    /// Name of the assigner that made the plan.
    pub assigner: String,
    /// Offsets of its pieces, if it is allocated in more than one (`GraphMemSplitter`); otherwise
    /// empty.
    pub pieces: Vec<u64>,
}

/// Memory plan of a model.
#[derive(Clone, Debug)]
pub struct MemoryPlan {
    /// Slots of each node's outputs.
    pub outputs: ModelMap<Vec<Slot>>,
    /// Slots of each node's workspaces.
    pub workspaces: ModelMap<Vec<Slot>>,
    /// Figures of each memory kind in use; HBM comes first and is always present.
    pub spaces: Vec<SpaceReport>,
    /// Ranges of the feature maps that are the caller's memory.
    pub zero_copy: Vec<ZeroCopyRange>,
    /// Bytes of the weights.
    pub weight_bytes: u64,
    /// Bytes of the variables.
    pub variable_bytes: u64,
    /// Nodes that hold memory at the peak, with their bytes; the largest comes first.
    pub peak: Vec<(String, u64)>,
}

impl MemoryPlan {
    /// A plan in which no node has memory.
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

    /// Writes the plan as the text form has it: `offset`, `size` and `memory` on tensor
    /// descriptors, `_workspace_offsets` and `_workspace_sizes` on nodes.
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
