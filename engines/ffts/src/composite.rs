//! ffts_plus: the composite engine. It takes only whole subgraphs that were cut for it, never a
//! single node.
//!
//! After stage 1 it marks nodes whose slices are independent of each other. The composite partition
//! makes a subgraph of each such scope. If running a subgraph slice by slice saves memory, it
//! becomes one node, whose FFTS+ task the host builds from the kernels of the atomic engines.
//! Source: facts 1.3 (flags), 3.2 (composite partition), DESIGN 1.
use crate::slices;
use ge_plugin_api::Result;
use ge_plugin_api::author::slices::OP;
use ge_plugin_api::engine::{COMPOSITE_SCOPE, Engine, EngineInfo, Hook, Support, flags};
use ge_plugin_api::patch::Patch;
use ge_plugin_api::view::{Graph, Node};

/// The engine `ffts_plus`.
pub struct FftsPlus;

/// Atomic engines whose kernels can run as contexts.
const CORES: [&str; 2] = ["AIcoreEngine", "VectorEngine"];

impl Engine for FftsPlus {
    fn info(&self) -> EngineInfo {
        EngineInfo {
            name: "ffts_plus".into(),
            kernel_lib: "ffts_plus".into(),
            user_name: "FftsPlus".into(),
            cost: 1,
            // The single node of a subgraph has a task, which needs a stream; `skip_assign_stream`
            // of facts 1.3 is for nodes without a task.
            flags: flags::COMPOSITE | flags::ATTACH | flags::ON_DEMAND,
            scheduler_id: "TS_1".into(),
            optimizer_priority: 50,
        }
    }
    fn op_types(&self) -> Vec<String> {
        // Every operator whose prototype is element-wise can be cut, including vendors' operators.
        vec!["*".to_owned()]
    }
    fn supports(&self, node: &Node<'_>) -> Support {
        if node.op() == OP {
            return Support::Yes;
        }
        if node.attr(COMPOSITE_SCOPE).is_none() {
            return Support::no("its slices go with those of no other node");
        }
        match node.str("_engine") {
            Some(e) if CORES.contains(&e) => Support::Yes,
            _ => Support::no("only kernels of the AI cores run as contexts"),
        }
    }
    fn optimize(&self, hook: Hook, graph: &Graph<'_>, patch: &mut Patch) -> Result<()> {
        match hook {
            Hook::AFTER_STAGE1 => slices::scopes::mark(graph, patch),
            Hook::FUSED_GRAPH => slices::cut::cut(graph, patch),
            _ => {}
        }
        Ok(())
    }
}
