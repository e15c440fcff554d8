//! Finds, checks, loads and wraps plugin libraries.
//!
//! The way of a plugin: `plugins.toml` ([`config`]) names it; its library is found on the search
//! path and looked at without running anything of it ([`elf`], [`manifest`]); then it is opened,
//! its version and layout are checked
//! ([`open`]), its options are checked against its own schema ([`options`]), and all that it gives
//! is collected and validated ([`collect`]). What is left is a [`Registry`]: engines, operators,
//! front ends, mappings, passes and devices in the order of `plugins.toml`, each behind a handle
//! whose errors name the plugin and the call.
//!
//! Libraries are never unloaded, and what they register lives as long as the process: handles are
//! plain copies.

/// `plugins.toml`: where it is found, what stands in it.
pub mod config;
/// Stacks for signal handlers.
mod alternate;
/// Digests of libraries.
mod digest;
/// What an ELF file says before it is opened.
pub mod elf;
/// Numbered rules.
mod rules;
/// The manifest in a library.
pub mod manifest;
/// Opening a library: header, version, layout, init.
pub mod open;
/// A plugin's options against its schema.
pub mod options;
/// The door for plugins in C.
pub mod cdoor;
/// All that a plugin gives, validated.
pub mod collect;
/// Open devices and their models, with the plugin's name in every error.
pub mod devices;
/// Handles that name the plugin in every error.
pub mod handle;
/// The plugin behind a handle.
pub mod owner;
/// Plugins of one configuration, loaded.
pub mod registry;
/// From a configuration to a registry.
pub mod set;
/// The conformance suite.
pub mod conformance;
/// Plugins that take the process down.
pub mod crash;
/// Kernels that name themselves when they fail.
pub mod kernels;
/// Mappings that name their owner when they fail.
mod mappings;
/// Small graphs that plugins are shown.
pub mod sample;
/// What the host does for plugins.
pub mod services;
/// Standard output, which plugins do not get.
pub mod stdio;
/// Task lists of engines, and the rules that they are held against.
pub mod tasks;
/// Which configurations are trusted.
pub mod trust;
/// Signatures of libraries.
mod signature;
/// Which calls into plugins last.
pub mod watch;

pub use devices::{OpenDevice, OpenModel};
pub use handle::{DeviceHandle, EngineHandle, FrontendHandle, OpHandle, PassHandle};
pub use registry::{PluginRecord, Registry, Status, digest};
pub use set::{LoadRequest, PluginSet, Want};
