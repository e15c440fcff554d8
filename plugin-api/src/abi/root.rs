//! The root module of a plugin and its manifest.
use super::{RResult, RVec, StableAbi};
use crate::abi::__loader::{RootModule, VersionStrings};
use crate::device::DeviceObject;
use crate::diagnostic::Error;
use crate::engine::EngineObject;
use crate::frontend::{FrontendObject, MappingObject};
use crate::ops::OpSetObject;
use crate::pass::PassObject;
use crate::services::{HostTableRef, OptionSpec, OptionValue};

/// What every plugin exports. Minor versions append fields after the last prefix field; each of
/// those is read as an `Option`.
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = PluginRef)))]
#[sabi(missing_field(option))]
pub struct Plugin {
    /// Called once, before every function but `options`, with the host's services and the checked
    /// options.
    pub init: extern "C" fn(HostTableRef, RVec<OptionValue>) -> RResult<(), Error>,
    /// The options that the plugin accepts; may be called before `init`.
    pub options: extern "C" fn() -> RResult<RVec<OptionSpec>, Error>,
    /// The plugin's engines.
    pub engines: extern "C" fn() -> RResult<RVec<EngineObject>, Error>,
    /// The plugin's operator prototypes.
    pub ops: extern "C" fn() -> RResult<RVec<OpSetObject>, Error>,
    /// The plugin's front ends.
    pub frontends: extern "C" fn() -> RResult<RVec<FrontendObject>, Error>,
    /// The plugin's operator mappings.
    pub mappings: extern "C" fn() -> RResult<RVec<MappingObject>, Error>,
    /// The plugin's passes.
    pub passes: extern "C" fn() -> RResult<RVec<PassObject>, Error>,
    /// The plugin's devices.
    #[sabi(last_prefix_field)]
    pub devices: extern "C" fn() -> RResult<RVec<DeviceObject>, Error>,
}

impl RootModule for PluginRef {
    abi_stable::declare_root_module_statics! {PluginRef}
    const BASE_NAME: &'static str = "ge_plugin";
    const NAME: &'static str = "ge_plugin";
    const VERSION_STRINGS: VersionStrings = abi_stable::package_version_strings!();
}

/// Version of this crate, which is the version of the plugin ABI.
pub const API_VERSION: &str = env!("CARGO_PKG_VERSION");

/// Name of the ELF section that holds the manifest.
pub const MANIFEST_SECTION: &str = ".ge.plugin";

/// Target architecture of the crate that is being built, as the manifest writes it.
pub const TARGET: &str = if cfg!(target_arch = "x86_64") {
    "x86_64"
} else if cfg!(target_arch = "aarch64") {
    "aarch64"
} else {
    "other"
};
