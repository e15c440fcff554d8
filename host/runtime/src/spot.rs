//! Where the tiling contexts of a model lie.
use crate::error::RuntimeError;
use ge_model::CompiledModel;
use ge_plugin_api::author::tiling_sink::{
    BLOCK_DIM_AT, CONTEXT_BYTES, EVENT_AT, HEADER_BYTES, KEY_AT, NODE_INFO_AT, OP_PARA_SIZE, OP_TYPE_BYTES,
    TILING_DATA_BYTES, beyond,
};

/// A graph and the position of a node in it.
pub(crate) type Of = (u32, u32);

/// A node's tiling context in the task-scheduler memory of a model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    /// Offset in it.
    pub(crate) at: u64,
    /// How far the parts behind the tiling data lie further back than usual.
    pub(crate) beyond: usize,
}

impl Spot {
    /// The spot for a node behind the others; an error where it asks for more tiling data than a
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
    /// Bytes of the context.
    pub(crate) fn bytes(self) -> usize {
        CONTEXT_BYTES + self.beyond
    }
    /// Offset and bytes of the part that an item of an args format names; None: it names none.
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
