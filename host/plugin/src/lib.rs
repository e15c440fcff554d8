//! Finds, checks, loads and wraps plugin libraries.
//!
//! How a plugin is loaded: `plugins.toml` ([`config`]) names it. Its library is found on the search
//! path and inspected without running any of its code ([`elf`], [`manifest`]). Then the library is
//! opened and its version and layout are checked ([`open`]), its options are checked against its
//! own schema ([`options`]), and everything it provides is collected and validated ([`collect`]).
//! The result is a [`Registry`]: engines, operators, front ends, mappings, passes and devices in
//! the order of `plugins.toml`, each behind a handle whose errors name the plugin and the call.
//!
//! Libraries are never unloaded, and what they register lives as long as the process, so handles
//! are plain copies.

/// Location and contents of `plugins.toml`.
pub mod config;
/// Alternate stacks for signal handlers.
mod alternate;
/// Digests of libraries.
mod digest;
/// Inspects ELF files before they are opened.
pub mod elf;
/// Declares numbered rules.
mod rules;
/// The manifest in a library.
pub mod manifest;
/// Opens a library: header, version, layout, init.
pub mod open;
/// Checks a plugin's options against its schema.
pub mod options;
/// The entry point for plugins written in C.
pub mod cdoor;
/// Collects and validates what a plugin provides.
pub mod collect;
/// Open devices and their models; every error names the plugin.
pub mod devices;
/// Handles; every error names the plugin.
pub mod handle;
/// The plugin behind a handle.
pub mod owner;
/// The loaded plugins of one configuration.
pub mod registry;
/// Loads the plugins of a configuration into a registry.
pub mod set;
/// The conformance suite.
pub mod conformance;
/// Reports plugins that crash the process.
pub mod crash;
/// Kernels that are named in errors when they fail.
pub mod kernels;
/// Mappings whose owner is named in errors when they fail.
mod mappings;
/// Small sample graphs that are shown to plugins.
pub mod sample;
/// Services that the host offers to plugins.
pub mod services;
/// Keeps plugins from writing to standard output.
pub mod stdio;
/// Task lists of engines, and the rules that they must follow.
pub mod tasks;
/// Decides which configurations are trusted.
pub mod trust;
/// Signatures of libraries.
mod signature;
/// Watches for calls into plugins that take long.
pub mod watch;

pub use devices::{OpenDevice, OpenModel};
pub use handle::{DeviceHandle, EngineHandle, FrontendHandle, OpHandle, PassHandle};
pub use registry::{PluginRecord, Registry, Status, digest};
pub use set::{LoadRequest, PluginSet, Want};
