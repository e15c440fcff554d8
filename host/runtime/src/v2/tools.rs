//! What the plugins offer while a dynamic model runs: prototypes, the engines of each operator in
//! the order in which they are asked, and host kernels.
use crate::error::RuntimeError;
use ge_plugin::{EngineHandle, OpHandle, Registry};
use ge_plugin_api::engine::{EngineInfo, Target, flags};
use ge_plugin_api::types::Key;
use std::collections::HashMap;

/// The plugins' offers to dynamic models of one session.
pub struct Tools {
    ops: HashMap<Key, OpHandle>,
    engines: HashMap<Key, Vec<EngineHandle>>,
    /// Engines with host kernels: the one that folds constants first.
    hosts: Vec<EngineHandle>,
    /// For what kernels are compiled.
    pub(crate) target: Target,
}

impl Tools {
    /// Gathers what a registry offers. `excluded`: whether an engine takes part in no placement.
    ///
    /// # Errors
    /// A call into a plugin that failed.
    pub fn new(
        registry: &Registry,
        target: Target,
        excluded: &dyn Fn(&EngineInfo) -> bool,
    ) -> Result<Tools, RuntimeError> {
        let mut engines: HashMap<Key, Vec<EngineHandle>> = HashMap::new();
        let usable = |e: &&EngineHandle| !e.excluded && !excluded(&e.info);
        for e in registry.engines().iter().filter(usable) {
            // A composite engine takes subgraphs; what runs on the host is asked by its host
            // kernels.
            if e.info.flags & (flags::COMPOSITE | flags::HOST_RUNTIME) != 0 {
                continue;
            }
            for op in e.op_types()? {
                engines.entry(Key::new(&op)).or_default().push(e.clone());
            }
        }
        // Cheapest first; among equals the earlier plugin, which a stable sort keeps.
        engines.values_mut().for_each(|list| list.sort_by_key(|e| e.info.cost));
        let mut hosts: Vec<EngineHandle> = registry.engines().to_vec();
        hosts.sort_by_key(|e| e.info.flags & flags::FOLDS_CONSTANTS == 0);
        let ops = registry.ops().iter().map(|o| (Key::new(o.name()), o.clone())).collect();
        Ok(Tools { ops, engines, hosts, target })
    }

    /// The prototype of an operator type.
    pub(crate) fn op(&self, op: Key) -> Option<&OpHandle> {
        self.ops.get(&op)
    }
    /// The engines of an operator type, best first.
    pub(crate) fn engines(&self, op: Key) -> &[EngineHandle] {
        self.engines.get(&op).map_or(&[], Vec::as_slice)
    }
    /// The engine whose host kernel computes an operator type.
    pub(crate) fn host(&self, op: &str) -> Option<&EngineHandle> {
        self.hosts.iter().find(|e| e.has_host_kernel(op))
    }
}
