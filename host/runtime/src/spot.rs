//! Positions of a model's tiling contexts.
use crate::error::RuntimeError;
use ge_model::CompiledModel;
use ge_plugin_api::author::tiling_sink::{
    BLOCK_DIM_AT, CONTEXT_BYTES, EVENT_AT, HEADER_BYTES, KEY_AT, NODE_INFO_AT, OP_PARA_SIZE, OP_TYPE_BYTES,
    TILING_DATA_BYTES, beyond,
};

/// Index of a graph, and the position of a node in it.
pub(crate) type Of = (u32, u32);

/// Position of a node's tiling context in the model's task-scheduler memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    /// Offset in that memory, in bytes.
    pub(crate) at: u64,
    /// Extra bytes of tiling data, by which the parts after the tiling data are shifted.
    pub(crate) beyond: usize,
}

impl Spot {
    /// The context of a node at offset `at`. Fails if the node asks for more tiling data than a
    /// context can hold.
    pub(crate) fn new(m: &CompiledModel, of: Of, at: u64) -> Result<Spot, RuntimeError> {
        let asked = m.node(of.0, of.1).and_then(|n| n.attrs.int(OP_PARA_SIZE));
        let beyond = beyond(asked).ok_or_else(|| {
            let name = m.node(of.0, of.1).map_or("", |n| n.name.as_str());
            let bytes = asked.unwrap_or(0);
            RuntimeError::Damaged {
                what: format!("`{name}` has `{OP_PARA_SIZE}` {bytes}, which no tiling context holds"),
            }
        })?;
        Ok(Spot { at, beyond })
    }
    /// Size of the context in bytes.
    pub(crate) fn bytes(self) -> usize {
        CONTEXT_BYTES + self.beyond
    }
    /// Offset and size of the part that an args format item names; `None` if it names no part.
    pub(crate) fn part(self, item: &str) -> Option<(u64, u64)> {
        let (at, bytes) = match item {
            "tiling_context" => (0, self.bytes()),
            "tiling_context.tiling_data" => (0, HEADER_BYTES + TILING_DATA_BYTES + self.beyond),
            "tiling_context.tiling_key" => (KEY_AT + self.beyond, 8),
            "tiling_context.block_dim" => (BLOCK_DIM_AT + self.beyond, 8),
            "event_addr0" => (EVENT_AT + self.beyond, 8),
            "*op_type" => (NODE_INFO_AT + self.beyond, OP_TYPE_BYTES),
            _ => return None,
        };
        Some((self.at + at as u64, bytes as u64))
    }
}
