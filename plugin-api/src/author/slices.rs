//! How a composite engine says that a subgraph runs slice by slice: attributes of the subgraph and
//! of its nodes, which the host reads when it makes the FFTS+ task.
//!
//! The subgraph asks for one node of type `OP` (`_composite_node`). Along one axis of
//! `EXTENT` elements it is cut into slices of `ROWS` (the last may have fewer), of which
//! `WINDOW` are under way at once. Each node says which axis of each input (`INPUT_AXES`; -1: read
//! whole) and of each output (`OUTPUT_AXES`) is cut; all axes before it have one element, so that a
//! slice is one run of bytes.

/// Type of the node that a subgraph in slices becomes.
pub const OP: &str = "FftsPlus";
/// Elements along the axis (graph attribute).
pub const EXTENT: &str = "_ffts_extent";
/// Elements of a slice (graph attribute).
pub const ROWS: &str = "_ffts_slice";
/// Slices under way at once (graph attribute).
pub const WINDOW: &str = "_ffts_window";
/// Axis of each input, -1 where it is read whole (node attribute).
pub const INPUT_AXES: &str = "_ffts_input_axes";
/// Axis of each output (node attribute).
pub const OUTPUT_AXES: &str = "_ffts_output_axes";

/// A cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Elements along the axis.
    pub extent: u64,
    /// Elements of a slice.
    pub rows: u64,
    /// Slices under way at once.
    pub window: u64,
}

impl Cut {
    /// Number of slices.
    pub fn threads(&self) -> u64 {
        self.extent.div_ceil(self.rows.max(1))
    }
    /// Elements of the last slice.
    pub fn tail(&self) -> u64 {
        self.extent - (self.threads().max(1) - 1) * self.rows
    }
    /// Whether the numbers fit together.
    pub fn holds(&self) -> bool {
        self.rows > 0 && self.extent > 0 && (1..=self.threads()).contains(&self.window)
    }
}
