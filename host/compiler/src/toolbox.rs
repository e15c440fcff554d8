//! What the plugins offer, as the compiler sees it: engines in the order of plugins.toml, prototypes by type, passes.
use crate::error::{CompileError, Result};
use ge_plugin_api::engine::{EngineInfo, EngineObject, Target, flags};
use ge_plugin_api::ops::{OpProto, OpSetObject};
use ge_plugin_api::pass::PassObject;
use ge_plugin_api::types::{Key, TensorDesc};
use ge_plugin_api::view::Node;
use std::collections::HashMap;

/// Position of an engine in [`Toolbox::engines`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EngineId(pub u16);

/// One engine.
pub struct EngineEntry<'p> {
    /// What it is.
    pub info: EngineInfo,
    /// How to call it.
    pub object: &'p EngineObject,
    /// Name of its plugin.
    pub plugin: String,
    /// Why it takes part in no placement (plugins.toml, an option), or None.
    pub excluded: Option<String>,
}

/// One prototype.
pub struct OpEntry<'p> {
    /// The prototype.
    pub proto: OpProto,
    /// Its set.
    pub set: &'p OpSetObject,
    /// Its place in the set.
    pub index: usize,
}

/// A custom pass of a plugin.
pub struct PassEntry<'p> {
    /// How to call it.
    pub object: &'p PassObject,
    /// What it is.
    pub info: ge_plugin_api::pass::PassInfo,
    /// Name of its plugin.
    pub plugin: String,
}

/// A plugin, for the model's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginEntry {
    /// Name.
    pub name: String,
    /// Version.
    pub version: String,
    /// Kinds.
    pub kinds: Vec<String>,
    /// File name of the library.
    pub file: String,
}

/// All that plugins offer to one compilation.
pub struct Toolbox<'p> {
    /// Engines in plugin order.
    pub engines: Vec<EngineEntry<'p>>,
    /// Custom passes in plugin order.
    pub passes: Vec<PassEntry<'p>>,
    /// Plugins that are loaded.
    pub plugins: Vec<PluginEntry>,
    ops: HashMap<Key, OpEntry<'p>>,
    /// For what is compiled.
    pub target: Target,
}

impl<'p> Toolbox<'p> {
    /// Gathers what plugins offer.
    pub fn new(
        engines: Vec<EngineEntry<'p>>,
        ops: Vec<OpEntry<'p>>,
        passes: Vec<PassEntry<'p>>,
        plugins: Vec<PluginEntry>,
        target: Target,
    ) -> Self {
        let ops = ops.into_iter().map(|o| (Key::new(&o.proto.name), o)).collect();
        Toolbox { engines, passes, plugins, ops, target }
    }
    /// An engine.
    pub fn engine(&self, id: EngineId) -> &EngineEntry<'p> {
        &self.engines[usize::from(id.0)]
    }
    /// An engine by name.
    pub fn engine_named(&self, name: &str) -> Option<EngineId> {
        self.engines.iter().position(|e| e.info.name.as_str() == name).and_then(|i| u16::try_from(i).ok()).map(EngineId)
    }
    /// The first engine with a flag.
    pub fn engine_with(&self, flag: u64) -> Option<EngineId> {
        self.engines.iter().position(|e| e.info.flags & flag != 0).and_then(|i| u16::try_from(i).ok()).map(EngineId)
    }
    /// The engine of structural nodes.
    pub fn structural_engine(&self) -> Option<EngineId> {
        self.engine_with(flags::STRUCTURAL)
    }
    /// The prototype of a type.
    pub fn op(&self, op: Key) -> Option<&OpEntry<'p>> {
        self.ops.get(&op)
    }
    /// Flags of a type ([`ge_plugin_api::ops::flags`]); 0 for unknown ones.
    pub fn op_flags(&self, op: Key) -> u64 {
        self.op(op).map_or(0, |o| o.proto.flags)
    }
    /// Infers the outputs of a node by its prototype. The node is named in the error.
    pub fn infer(&self, node: &Node<'_>) -> Result<Vec<TensorDesc>> {
        let Some(o) = self.op(node.op_key()) else {
            return Err(CompileError::NoPrototype { node: node.name().into(), op: node.op().into() });
        };
        o.set.infer(o.index, node).map_err(|e| CompileError::Plugin(e.at_node(node.name(), node.op())))
    }
}
