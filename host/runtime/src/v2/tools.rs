//! What plugins offer while a dynamic model runs: prototypes, the engines of each operator in the
//! order in which they are asked, and host kernels.
use crate::error::RuntimeError;
use ge_plugin::{EngineHandle, OpHandle, Registry};
use ge_plugin_api::engine::{EngineInfo, Target, flags};
use ge_plugin_api::types::Key;
use std::collections::HashMap;

/// What plugins offer to the dynamic models of one session.
pub struct Tools {
    ops: HashMap<Key, OpHandle>,
    engines: HashMap<Key, Vec<EngineHandle>>,
    /// Engines with host kernels; an engine that folds constants comes first.
    hosts: Vec<EngineHandle>,
    /// The target that kernels are compiled for.
    pub(crate) target: Target,
}

impl Tools {
    /// Collects what a registry offers. `excluded` says which engines take no part in placement.
    ///
    /// # Errors
    /// Fails if a call into a plugin fails.
    pub fn new(
        registry: &Registry,
        target: Target,
        excluded: &dyn Fn(&EngineInfo) -> bool,
    ) -> Result<Tools, RuntimeError> {
        let mut engines: HashMap<Key, Vec<EngineHandle>> = HashMap::new();
        let usable = |e: &&EngineHandle| !e.excluded && !excluded(&e.info);
        for e in registry.engines().iter().filter(usable) {
            // Composite engines take subgraphs, and engines of the host are used through their host
            // kernels.
            if e.info.flags & (flags::COMPOSITE | flags::HOST_RUNTIME) != 0 {
                continue;
            }
            for op in e.op_types()? {
                engines.entry(Key::new(&op)).or_default().push(e.clone());
            }
        }
        // Cheapest first. The sort is stable, so equal costs keep the order of plugins.
        engines.values_mut().for_each(|list| list.sort_by_key(|e| e.info.cost));
        let mut hosts: Vec<EngineHandle> = registry.engines().to_vec();
        hosts.sort_by_key(|e| e.info.flags & flags::FOLDS_CONSTANTS == 0);
        let ops = registry.ops().iter().map(|o| (Key::new(o.name()), o.clone())).collect();
        Ok(Tools { ops, engines, hosts, target })
    }

    /// The prototype of an operator type, if there is one.
    pub(crate) fn op(&self, op: Key) -> Option<&OpHandle> {
        self.ops.get(&op)
    }
    /// The engines of an operator type, cheapest first.
    pub(crate) fn engines(&self, op: Key) -> &[EngineHandle] {
        self.engines.get(&op).map_or(&[], Vec::as_slice)
    }
    /// The first engine that has a host kernel for an operator type.
    pub(crate) fn host(&self, op: &str) -> Option<&EngineHandle> {
        self.hosts.iter().find(|e| e.has_host_kernel(op))
    }
}
