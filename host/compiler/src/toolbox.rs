//! What the plugins offer, as the compiler sees it: engines in the order of plugins.toml, operator
//! prototypes by type, and passes.
use crate::error::{CompileError, Result};
use crate::feature::born::Born;
use ge_ir::Model;
use ge_ir::view::{GraphContext, OpFlags};
use ge_model::PluginInfo;
use ge_plugin::{EngineHandle, OpHandle, PassHandle, Registry};
use ge_plugin_api::engine::{EngineInfo, Support, Target, flags};
use ge_plugin_api::range::Range;
use ge_plugin_api::types::{Key, NumberMap, TensorDesc};
use ge_plugin_api::view::Node;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Folding may add at most 1/`PART` of the bytes of the constants that a model comes with.
const PART: u64 = 4;

/// Bytes by which folding may still make a model's file grow. A constant that would exceed them is
/// not stored, and its value is computed in every run.
#[derive(Debug, Default)]
pub struct Growth(AtomicU64);

impl Growth {
    /// Sets the limit from the constants of the model as it was given.
    pub fn allow(&self, model: &Model) {
        let constants = model.graphs().iter().flat_map(|g| g.nodes()).filter(|n| n.is_const());
        let bytes = constants.filter_map(|n| n.attrs().tensor("value")?.byte_len()).fold(0u64, u64::saturating_add);
        self.0.store(bytes / PART, Ordering::Relaxed);
    }
    /// Whether more than `bytes` bytes are left.
    pub fn has(&self, bytes: u64) -> bool {
        bytes < self.0.load(Ordering::Relaxed)
    }
    /// Subtracts `bytes` from what is left, down to 0.
    pub fn take(&self, bytes: u64) {
        self.0.fetch_sub(bytes.min(self.0.load(Ordering::Relaxed)), Ordering::Relaxed);
    }
}

/// Position of an engine in [`Toolbox::engines`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EngineId(pub u16);

/// An engine and what the compiler knows of it.
pub struct EngineEntry {
    /// What the engine says of itself.
    pub info: EngineInfo,
    /// Handle through which the engine is called.
    pub object: EngineHandle,
    /// Name of the plugin that the engine is from.
    pub plugin: String,
    /// Why the engine takes part in no placement (plugins.toml or an option). `None`: it takes
    /// part.
    pub excluded: Option<String>,
}

/// Everything that the plugins offer to one compilation.
pub struct Toolbox {
    /// Engines in plugin order.
    pub engines: Vec<EngineEntry>,
    /// Custom passes in plugin order.
    pub passes: Vec<PassHandle>,
    /// Plugins that are loaded.
    pub plugins: Vec<PluginInfo>,
    ops: NumberMap<Key, OpHandle>,
    /// The engines that know each type; filled on the first request.
    ranks: OnceLock<EngineRanks>,
    /// The device that the model is compiled for.
    pub target: Target,
    /// Bytes that folding may still add.
    pub growth: Growth,
    /// Names of sizes that only come into being inside the graph.
    pub born: Born,
}

impl Toolbox {
    /// Gathers what the plugins of a registry offer. `excluded` returns the reason if an engine
    /// takes part in no placement.
    pub fn new(registry: &Registry, target: Target, excluded: &dyn Fn(&EngineInfo) -> Option<String>) -> Toolbox {
        let engines = registry
            .engines()
            .iter()
            .map(|e| EngineEntry {
                info: e.info.clone(),
                object: e.clone(),
                plugin: e.owner().name.clone(),
                excluded: if e.excluded { Some("excluded in plugins.toml".into()) } else { excluded(&e.info) },
            })
            .collect();
        let plugins = registry
            .plugins()
            .iter()
            .filter(|p| p.usable())
            .map(|p| PluginInfo {
                name: p.name.clone(),
                version: p.version.clone(),
                kinds: p.kinds.clone(),
                path: p.file_name(),
            })
            .collect();
        let ops = registry.ops().iter().map(|o| (Key::new(o.name()), o.clone())).collect();
        Toolbox {
            engines,
            passes: registry.passes().to_vec(),
            plugins,
            ops,
            ranks: OnceLock::new(),
            target,
            growth: Growth::default(),
            born: Born::default(),
        }
    }
    /// A toolbox without plugins.
    #[cfg(test)]
    pub(crate) fn bare() -> Toolbox {
        let target = Target { soc: Default::default(), deterministic: false, online: false, rank_size: 1 };
        let (engines, passes, plugins) = (Vec::new(), Vec::new(), Vec::new());
        Toolbox {
            engines,
            passes,
            plugins,
            ops: NumberMap::default(),
            ranks: OnceLock::new(),
            target,
            growth: Growth::default(),
            born: Born::default(),
        }
    }
    /// The engine with this id.
    pub fn engine(&self, id: EngineId) -> &EngineEntry {
        &self.engines[usize::from(id.0)]
    }
    /// Id of the engine with this name.
    pub fn engine_named(&self, name: &str) -> Option<EngineId> {
        self.engines.iter().position(|e| e.info.name.as_str() == name).and_then(|i| u16::try_from(i).ok()).map(EngineId)
    }
    /// Id of the first engine that has any of the bits of `flag`.
    pub fn engine_with(&self, flag: u64) -> Option<EngineId> {
        self.engines.iter().position(|e| e.info.flags & flag != 0).and_then(|i| u16::try_from(i).ok()).map(EngineId)
    }
    /// The engine of structural nodes.
    pub fn structural_engine(&self) -> Option<EngineId> {
        self.engine_with(flags::STRUCTURAL)
    }
    /// The engine that takes a node at the least cost (the first among equals), and that cost.
    /// `engines` must come cheapest first: the search stops at an engine whose own cost is no less
    /// than the least cost found. Refusals are reported to `refused`.
    ///
    /// # Errors
    /// Fails if a call into a plugin fails.
    pub fn cheapest(
        &self,
        engines: impl IntoIterator<Item = EngineId>,
        node: &Node<'_>,
        mut refused: impl FnMut(&EngineEntry, &str),
    ) -> Result<Option<(EngineId, u32)>> {
        let mut best: Option<(EngineId, u32)> = None;
        for id in engines {
            let e = self.engine(id);
            if best.is_some_and(|(_, cost)| e.info.cost >= cost) {
                break;
            }
            let answer = e.object.supports(node)?;
            if let Support::No(why) = &answer {
                refused(e, why);
            }
            if let Some(cost) = answer.cost(e.info.cost).filter(|c| best.is_none_or(|(_, least)| *c < least)) {
                best = Some((id, cost));
            }
        }
        Ok(best)
    }
    /// The engines that know each type. The engines are asked for their types once per compilation.
    ///
    /// # Errors
    /// Fails if a call into a plugin fails.
    pub fn ranks(&self) -> Result<&EngineRanks> {
        match self.ranks.get() {
            Some(known) => Ok(known),
            None => {
                let asked = EngineRanks::new(self)?;
                Ok(self.ranks.get_or_init(|| asked))
            }
        }
    }
    /// The prototype of an operator type.
    pub fn op(&self, op: Key) -> Option<&OpHandle> {
        self.ops.get(&op)
    }
    /// Names of the operator types that have a prototype, in no order.
    pub fn op_names(&self) -> impl Iterator<Item = &str> {
        self.ops.values().map(|o| o.proto.name.as_str())
    }
    /// Flags of an operator type ([`ge_plugin_api::ops::flags`]); 0 if the type is unknown.
    pub fn op_flags(&self, op: Key) -> u64 {
        self.op(op).map_or(0, |o| o.proto.flags)
    }
    /// Graph `gi` of a model, as plugins see it.
    pub fn lend<'m>(&'m self, model: &'m Model, gi: usize) -> GraphContext<'m> {
        GraphContext::new(model, gi, self)
    }
    /// Infers the outputs of a node by its prototype. Fails if the type has no prototype (the error
    /// names the node) or if inference fails.
    pub fn infer(&self, node: &Node<'_>) -> Result<Vec<TensorDesc>> {
        let Some(o) = self.op(node.op_key()) else {
            return Err(CompileError::NoPrototype { node: node.name().into(), op: node.op().into() });
        };
        Ok(o.infer(node)?)
    }
    /// Ranges of a node's outputs by its prototype. `None`: the type has no prototype, or its
    /// prototype does not say.
    pub fn ranges(&self, node: &Node<'_>, inputs: &[Range]) -> Result<Option<Vec<Range>>> {
        Ok(self.op(node.op_key()).map(|o| o.ranges(node, inputs)).transpose()?.flatten())
    }
}

impl OpFlags for Toolbox {
    fn op_flags(&self, op: Key) -> u64 {
        Toolbox::op_flags(self, op)
    }
}

/// The engines that know each operator type, best first: by compute cost, then by plugin order.
/// Composite engines are left out: they take subgraphs whose nodes have engines of their own.
pub struct EngineRanks {
    by_type: NumberMap<Key, Vec<EngineId>>,
}

impl EngineRanks {
    /// Asks every engine for its types, once.
    ///
    /// # Errors
    /// Fails if a call into a plugin fails, or if there are more engines than an id can hold.
    fn new(toolbox: &Toolbox) -> Result<EngineRanks> {
        let mut by_type: NumberMap<Key, Vec<EngineId>> = NumberMap::default();
        for (i, e) in toolbox.engines.iter().enumerate() {
            let id = EngineId(u16::try_from(i).map_err(|_| CompileError::internal("place", "too many engines"))?);
            if e.info.flags & flags::COMPOSITE != 0 {
                continue;
            }
            for t in e.object.op_types()? {
                // Cheapest first; among equals the engine of the earlier plugin.
                let list: &mut Vec<EngineId> = by_type.entry(Key::new(&t)).or_default();
                let rank = |id: &EngineId| (toolbox.engine(*id).info.cost, *id);
                if let Err(at) = list.binary_search_by_key(&rank(&id), rank) {
                    list.insert(at, id);
                }
            }
        }
        Ok(EngineRanks { by_type })
    }
    /// The engines that know a type; empty if none does.
    pub fn of(&self, op: Key) -> &[EngineId] {
        self.by_type.get(&op).map_or(&[], Vec::as_slice)
    }
    /// The engines after `first` that take a node, in the order in which they are tried: by the
    /// cost at which they take it, then by their order in [`EngineRanks::of`]. Refusals are
    /// reported to `refused`.
    ///
    /// # Errors
    /// Fails if a call into a plugin fails.
    pub fn behind(
        &self,
        toolbox: &Toolbox,
        node: &Node<'_>,
        first: EngineId,
        mut refused: impl FnMut(&EngineEntry, &str),
    ) -> Result<Vec<EngineId>> {
        let mut takers = Vec::new();
        for (rank, id) in self.of(node.op_key()).iter().enumerate() {
            let e = toolbox.engine(*id);
            if let Some(why) = e.excluded.as_ref().filter(|_| *id != first) {
                refused(e, why);
                continue;
            }
            match e.object.supports(node)? {
                Support::No(why) if *id != first => refused(e, &why),
                // A bound engine that does not take the node any more still comes first, at cost 0.
                answer => takers.push((answer.cost(e.info.cost).unwrap_or(0), rank, *id)),
            }
        }
        takers.sort_unstable();
        let at = takers.iter().position(|t| t.2 == first);
        Ok(at.map_or(Vec::new(), |at| takers[at + 1..].iter().map(|t| t.2).collect()))
    }
}
