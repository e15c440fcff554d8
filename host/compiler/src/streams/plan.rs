//! `StreamPlan`: what the stage `streams` decides, read by those after it.
use crate::ids::{ModelMap, StreamId};
use ge_ir::Model;

/// What a logical stream is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogicalStream {
    /// Stream label (`_stream_label`), or empty.
    pub label: String,
    /// User's label (`_user_stream_label`), or empty.
    pub user_label: String,
    /// Whether it is an attached stream.
    pub attached: bool,
}

/// Streams of a model.
#[derive(Clone, Debug)]
pub struct StreamPlan {
    /// Logical stream of each node; None: it stands on no stream.
    pub of: ModelMap<Option<StreamId>>,
    /// Attached streams of each node, in the order it asked for them.
    pub attached: ModelMap<Vec<StreamId>>,
    /// Logical streams: main ones first, then attached ones; ids are positions.
    pub streams: Vec<LogicalStream>,
    /// Whether single-stream mode made it.
    pub single: bool,
    /// Whether a custom stream pass changed it.
    pub assigned_by_stream_pass: bool,
}

impl StreamPlan {
    /// A plan that puts no node anywhere.
    pub fn empty(model: &Model) -> StreamPlan {
        StreamPlan {
            of: ModelMap::new(model, None),
            attached: ModelMap::new(model, Vec::new()),
            streams: Vec::new(),
            single: false,
            assigned_by_stream_pass: false,
        }
    }
    /// Number of main streams.
    pub fn main_count(&self) -> usize {
        self.streams.iter().filter(|s| !s.attached).count()
    }
}
