//! How a composite engine tells the host that a subgraph runs slice by slice: attributes of the
//! subgraph and of its nodes, which the host reads when it makes the FFTS+ task.
//!
//! The subgraph is to become one node of type `OP` (`_composite_node`). It is cut along one axis of
//! `EXTENT` elements into slices of `ROWS` elements (the last one may be shorter), of which
//! `WINDOW` are in flight at once. Each node says which axis of each input (`INPUT_AXES`; -1 if the
//! input is read whole) and of each output (`OUTPUT_AXES`) is cut. All axes before that one have a
//! single element, so that a slice is one contiguous run of bytes.

/// Type of the node that a sliced subgraph becomes.
pub const OP: &str = "FftsPlus";
/// Number of elements along the cut axis (graph attribute).
pub const EXTENT: &str = "_ffts_extent";
/// Number of elements in a slice (graph attribute).
pub const ROWS: &str = "_ffts_slice";
/// Number of slices in flight at once (graph attribute).
pub const WINDOW: &str = "_ffts_window";
/// Cut axis of each input, -1 if the input is read whole (node attribute).
pub const INPUT_AXES: &str = "_ffts_input_axes";
/// Cut axis of each output (node attribute).
pub const OUTPUT_AXES: &str = "_ffts_output_axes";

/// How a subgraph is cut into slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Number of elements along the cut axis.
    pub extent: u64,
    /// Number of elements in a slice.
    pub rows: u64,
    /// Number of slices in flight at once.
    pub window: u64,
}

impl Cut {
    /// Number of slices.
    pub fn threads(&self) -> u64 {
        self.extent.div_ceil(self.rows.max(1))
    }
    /// Number of elements in the last slice.
    pub fn tail(&self) -> u64 {
        self.extent - (self.threads().max(1) - 1) * self.rows
    }
    /// Whether the numbers are consistent: neither `extent` nor `rows` is zero, and `window` is at
    /// least 1 and at most the number of slices.
    pub fn holds(&self) -> bool {
        self.rows > 0 && self.extent > 0 && (1..=self.threads()).contains(&self.window)
    }
}
