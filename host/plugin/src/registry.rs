//! Plugins of one configuration, loaded: what there is, in the order of `plugins.toml`.
use crate::config::At;
pub use crate::digest::digest;
use crate::handle::{DeviceHandle, EngineHandle, FrontendHandle, OpHandle, PassHandle};
use crate::services::Mappings;
use ge_plugin_api::diagnostic::Diagnostic;
use ge_plugin_api::frontend::{MappingInfo, MappingRef};
use ge_plugin_api::{Error, Result};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// What became of an entry.
#[derive(Clone, Debug)]
pub enum Status {
    /// Open and started.
    Loaded,
    /// Looked at and in order, but not needed and so not opened.
    Ready,
    /// `enabled = false`.
    Disabled,
    /// Refused, and why.
    Refused(Error),
}

impl Status {
    /// `loaded`, `ready`, `disabled` or `refused`.
    pub fn name(&self) -> &'static str {
        match self {
            Status::Loaded => "loaded",
            Status::Ready => "ready",
            Status::Disabled => "disabled",
            Status::Refused(_) => "refused",
        }
    }
}

/// One entry of `plugins.toml` and what became of it.
#[derive(Clone, Debug)]
pub struct PluginRecord {
    /// Name.
    pub name: String,
    /// Version; empty where no manifest could be read.
    pub version: String,
    /// Kinds; empty where no manifest could be read.
    pub kinds: Vec<String>,
    /// Engines, front ends and devices by name.
    pub provides: Vec<String>,
    /// Version of the plugin interface it was built with; empty where no manifest could be read.
    pub api: String,
    /// The library: canonical, or as configured where it is missing.
    pub path: PathBuf,
    /// Linker's build id in hex, or empty.
    pub build_id: String,
    /// Whether a failure is a warning.
    pub optional: bool,
    /// Options of the entry, as TOML writes their values.
    pub options: std::collections::BTreeMap<String, String>,
    /// Where the entry stands in `plugins.toml`.
    pub at: At,
    /// What became of it.
    pub status: Status,
}

impl PluginRecord {
    /// The library's file name (`libge_nn.so`): what files and reports name, whatever the folder.
    pub fn file_name(&self) -> String {
        self.path.file_name().map_or_else(|| format!("libge_{}.so", self.name), |n| n.to_string_lossy().into_owned())
    }
    /// SHA-256 of the library, in hex; read when asked for.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn sha256(&self) -> std::io::Result<String> {
        digest(&self.path)
    }
    /// Whether it can be used: loaded, or ready to be.
    pub fn usable(&self) -> bool {
        matches!(self.status, Status::Loaded | Status::Ready)
    }
}

/// The plugins of one configuration.
#[derive(Debug)]
pub struct Registry {
    pub(crate) config: PathBuf,
    pub(crate) plugins: Vec<PluginRecord>,
    pub(crate) warnings: Vec<Diagnostic>,
    pub(crate) engines: Vec<EngineHandle>,
    pub(crate) ops: Vec<OpHandle>,
    pub(crate) op_index: HashMap<String, usize>,
    pub(crate) frontends: Vec<FrontendHandle>,
    pub(crate) mappings: Mappings,
    pub(crate) passes: Vec<PassHandle>,
    pub(crate) devices: Vec<DeviceHandle>,
}

impl Registry {
    /// The configuration file.
    pub fn config(&self) -> &Path {
        &self.config
    }
    /// Every entry of the configuration, in order.
    pub fn plugins(&self) -> &[PluginRecord] {
        &self.plugins
    }
    /// A plugin by name.
    pub fn plugin(&self, name: &str) -> Option<&PluginRecord> {
        self.plugins.iter().find(|p| p.name == name)
    }
    /// Refusals of optional entries, to be shown as warnings.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }
    /// Engines in the order of `plugins.toml`, those of one plugin by name.
    pub fn engines(&self) -> &[EngineHandle] {
        &self.engines
    }
    /// An engine by name.
    pub fn engine(&self, name: &str) -> Option<&EngineHandle> {
        self.engines.iter().find(|e| e.info.name == name)
    }
    /// Operators by plugin, then name.
    pub fn ops(&self) -> &[OpHandle] {
        &self.ops
    }
    /// An operator by type.
    pub fn op(&self, name: &str) -> Option<&OpHandle> {
        self.op_index.get(name).map(|i| &self.ops[*i])
    }
    /// Front ends in order.
    pub fn frontends(&self) -> &[FrontendHandle] {
        &self.frontends
    }
    /// Mappings of all frameworks.
    pub fn all_mappings(&self) -> &[(MappingInfo, MappingRef)] {
        &self.mappings
    }
    /// Mappings of a framework.
    pub fn mappings<'a>(&'a self, framework: &'a str) -> impl Iterator<Item = &'a (MappingInfo, MappingRef)> {
        self.mappings.iter().filter(move |(i, _)| i.framework == framework)
    }
    /// Passes in order.
    pub fn passes(&self) -> &[PassHandle] {
        &self.passes
    }
    /// Devices in order.
    pub fn devices(&self) -> &[DeviceHandle] {
        &self.devices
    }
    /// A device by name.
    pub fn device(&self, name: &str) -> Option<&DeviceHandle> {
        self.devices.iter().find(|d| d.info.name == name)
    }
    /// An operator by type, or an error that names the nearest one (exit 3).
    pub fn require_op(&self, name: &str) -> Result<&OpHandle> {
        self.op(name).ok_or_else(|| {
            let e = Error::unsupported(format!("no enabled plugin has the operator `{name}`"));
            match crate::config::nearest(name, self.ops.iter().map(|o| o.proto.name.as_str())) {
                Some(n) => e.with(|d| d.help(format!("did you mean `{n}`?"))),
                None => e,
            }
        })
    }
}
