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

/// What every plugin exports. Minor versions append fields after the last prefix field, each read
/// as an Option.
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = PluginRef)))]
#[sabi(missing_field(option))]
pub struct Plugin {
    /// Called once before anything else: the host's services and the checked options.
    pub init: extern "C" fn(HostTableRef, RVec<OptionValue>) -> RResult<(), Error>,
    /// The options that the plugin takes; callable before `init`.
    pub options: extern "C" fn() -> RResult<RVec<OptionSpec>, Error>,
    /// Its engines.
    pub engines: extern "C" fn() -> RResult<RVec<EngineObject>, Error>,
    /// Its operator prototypes.
    pub ops: extern "C" fn() -> RResult<RVec<OpSetObject>, Error>,
    /// Its front ends.
    pub frontends: extern "C" fn() -> RResult<RVec<FrontendObject>, Error>,
    /// Its operator mappings.
    pub mappings: extern "C" fn() -> RResult<RVec<MappingObject>, Error>,
    /// Its passes.
    pub passes: extern "C" fn() -> RResult<RVec<PassObject>, Error>,
    /// Its devices.
    #[sabi(last_prefix_field)]
    pub devices: extern "C" fn() -> RResult<RVec<DeviceObject>, Error>,
}

impl RootModule for PluginRef {
    abi_stable::declare_root_module_statics! {PluginRef}
    const BASE_NAME: &'static str = "ge_plugin";
    const NAME: &'static str = "ge_plugin";
    const VERSION_STRINGS: VersionStrings = abi_stable::package_version_strings!();
}

/// Version of this crate: the version of the border.
pub const API_VERSION: &str = env!("CARGO_PKG_VERSION");

/// Name of the ELF section that holds the manifest.
pub const MANIFEST_SECTION: &str = ".ge.plugin";

/// Target and panic strategy of the crate that is being built, as the manifest writes them.
pub const TARGET: &str = if cfg!(target_arch = "x86_64") {
    "x86_64"
} else if cfg!(target_arch = "aarch64") {
    "aarch64"
} else {
    "other"
};
