//! The loaded plugins of one configuration, in the order of `plugins.toml`.
use crate::config::At;
pub use crate::digest::digest;
use crate::handle::{DeviceHandle, EngineHandle, FrontendHandle, OpHandle, PassHandle};
use crate::services::Offer;
use ge_plugin_api::diagnostic::Diagnostic;
use ge_plugin_api::frontend::{MappingInfo, MappingRef};
use ge_plugin_api::{Error, Result};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// State of an entry of `plugins.toml`.
#[derive(Clone, Debug)]
pub enum Status {
    /// Opened and started.
    Loaded,
    /// Inspected and valid, but not needed and therefore not opened.
    Ready,
    /// `enabled = false`.
    Disabled,
    /// Refused, with the reason.
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

/// One entry of `plugins.toml` and its state.
#[derive(Clone, Debug)]
pub struct PluginRecord {
    /// Name of the plugin.
    pub name: String,
    /// Version; empty if no manifest could be read.
    pub version: String,
    /// Kinds; empty if no manifest could be read.
    pub kinds: Vec<String>,
    /// Names of the engines, front ends and devices that it provides.
    pub provides: Vec<String>,
    /// Version of the plugin interface that it was built with; empty if no manifest could be read.
    pub api: String,
    /// Path of the library: canonical, or as configured if the file is missing.
    pub path: PathBuf,
    /// The linker's build id in hex; may be empty.
    pub build_id: String,
    /// Whether a failure to load is only a warning.
    pub optional: bool,
    /// Options of the entry, with values in TOML syntax.
    pub options: std::collections::BTreeMap<String, String>,
    /// Position of the entry in `plugins.toml`.
    pub at: At,
    /// State of the entry.
    pub status: Status,
}

impl PluginRecord {
    /// File name of the library (`libge_nn.so`). Files and reports use it, whatever the folder.
    pub fn file_name(&self) -> String {
        self.path.file_name().map_or_else(|| format!("libge_{}.so", self.name), |n| n.to_string_lossy().into_owned())
    }
    /// SHA-256 of the library in hex. Each call reads the file.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    pub fn sha256(&self) -> std::io::Result<String> {
        digest(&self.path)
    }
    /// Whether it can be used: it is loaded, or valid but not opened.
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
    pub(crate) offer: Arc<Offer>,
    pub(crate) passes: Vec<PassHandle>,
    pub(crate) devices: Vec<DeviceHandle>,
}

impl Registry {
    /// Path of the configuration file.
    pub fn config(&self) -> &Path {
        &self.config
    }
    /// All entries of the configuration, in order.
    pub fn plugins(&self) -> &[PluginRecord] {
        &self.plugins
    }
    /// The plugin with this name.
    pub fn plugin(&self, name: &str) -> Option<&PluginRecord> {
        self.plugins.iter().find(|p| p.name == name)
    }
    /// Refusals of optional entries, to be shown as warnings.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }
    /// Engines in the order of `plugins.toml`; those of one plugin as it gives them (plugins in
    /// Rust sort theirs by name).
    pub fn engines(&self) -> &[EngineHandle] {
        &self.engines
    }
    /// The engine with this name.
    pub fn engine(&self, name: &str) -> Option<&EngineHandle> {
        self.engines.iter().find(|e| e.info.name == name)
    }
    /// Operators in the order of plugins; those of one plugin as it gives them (sorted by name).
    pub fn ops(&self) -> &[OpHandle] {
        &self.ops
    }
    /// The operator of this type.
    pub fn op(&self, name: &str) -> Option<&OpHandle> {
        self.op_index.get(name).map(|i| &self.ops[*i])
    }
    /// Front ends, in the order of `plugins.toml`.
    pub fn frontends(&self) -> &[FrontendHandle] {
        &self.frontends
    }
    /// Mappings of all frameworks.
    pub fn all_mappings(&self) -> &[(MappingInfo, MappingRef)] {
        &self.offer.mappings
    }
    /// Mappings of one framework.
    pub fn mappings<'a>(&'a self, framework: &'a str) -> impl Iterator<Item = &'a (MappingInfo, MappingRef)> {
        self.offer.mappings.iter().filter(move |(i, _)| i.framework == framework)
    }
    /// Passes, in the order of `plugins.toml`.
    pub fn passes(&self) -> &[PassHandle] {
        &self.passes
    }
    /// Devices, in the order of `plugins.toml`.
    pub fn devices(&self) -> &[DeviceHandle] {
        &self.devices
    }
    /// The device with this name.
    pub fn device(&self, name: &str) -> Option<&DeviceHandle> {
        self.devices.iter().find(|d| d.info.name == name)
    }
    /// The operator of this type. If there is none, returns an error that names the nearest one
    /// (exit 3).
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
