//! Loading plugins, good and bad.

/// Plugins that do one thing wrong once they run.
mod behaviour;
/// The conformance suite.
mod check;
/// The part of the conformance suite that compiles and runs.
mod check_runs;
/// Files that are no plugins, or damaged ones.
mod files;
/// The conformance suite on every library of this repository.
mod ours;
/// Entries of `plugins.toml` that contradict each other.
mod sets;
/// Plugins that take long in a call.
mod slow;
/// Devices that misbehave, and which device a SoC belongs to.
mod devices;
/// Which configurations are trusted.
mod trust;
/// `ge plugin new`, `add` and `why`, and the lists of what plugins contain.
mod kit;
/// The interface as it is published.
mod package;
/// Kernels under AddressSanitizer.
mod sanitized;
/// Several versions of the interface.
mod versions;
/// Kernels that misbehave.
mod kernels;
/// Task lists that break a rule.
mod tasks;
/// What the tests share.
mod support;
