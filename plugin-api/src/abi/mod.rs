//! The only module that names `abi_stable`: its types under our names, the root module and the
//! guards against panics.
//!
//! Vendors never need this module: they implement the traits of `crate::engine`, `crate::ops`,
//! `crate::pass`, `crate::frontend` and `crate::device`, and the macros of `crate::author` do the
//! rest.
pub mod erase;
pub mod guard;
pub mod root;
mod same;
pub mod table;

pub use abi_stable::prefix_type::{PrefixTypeTrait, WithMetadata};
pub use abi_stable::sabi_types::StaticRef;
pub use abi_stable::std_types::{RArc, RBox, ROption, RResult, RSlice, RStr, RString, RVec, Tuple2};
pub use abi_stable::{StableAbi, staticref};
pub use guard::{guard, guard_drop, guard_value};

/// What `ge_plugin!` and the loader need of abi_stable. Not for vendors.
#[doc(hidden)]
pub mod __loader {
    pub use super::same::Layout;
    pub use abi_stable::abi_stability::abi_checking::{AbiInstabilityErrors, check_layout_compatibility};
    pub use abi_stable::library::{
        __call_root_module_loader, AbiHeaderRef, CheckTypeLayout, LibHeader, LibraryError,
        ROOT_MODULE_LOADER_NAME_WITH_NUL, RootModule, RootModuleError, RootModuleResult,
    };
    pub use abi_stable::sabi_types::VersionStrings;
}
