//! ffts_plus: the composite engine. It takes whole subgraphs that were cut for it, never a node by itself.
//! Source: facts 1.3 (flags), 3.2 (composite partition), DESIGN 1.
use ge_plugin_api::engine::{Engine, EngineInfo, Support, flags};
use ge_plugin_api::view::Node;

/// The engine.
pub struct FftsPlus;

impl Engine for FftsPlus {
    fn info(&self) -> EngineInfo {
        EngineInfo {
            name: "ffts_plus".into(),
            kernel_lib: "ffts_plus".into(),
            user_name: "FftsPlus".into(),
            cost: 1,
            flags: flags::COMPOSITE | flags::SKIP_ASSIGN_STREAM | flags::ATTACH,
            scheduler_id: "TS_1".into(),
            optimizer_priority: 50,
        }
    }
    fn op_types(&self) -> Vec<String> {
        Vec::new()
    }
    fn supports(&self, _: &Node<'_>) -> Support {
        Support::no("only subgraphs cut for FFTS+, of nodes that an atomic engine takes")
    }
}
