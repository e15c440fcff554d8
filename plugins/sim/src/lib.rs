//! The embedded Ascend simulator: executes task streams by the hardware's rules with real numbers
//! (DESIGN 1).
//!
//! How a model runs: [`plan::Builder`] accepts kernels and tasks and checks each; sealing turns
//! them into a [`plan::Plan`]; [`run`] binds the plan to the addresses of one run, and [`schedule`]
//! drives its streams to the end. Only [`memory`] and [`launch`] access memory, and only they
//! contain `unsafe` code. Tasks run on the caller's thread and on the helper threads of the device,
//! a [`launch::crew`].
#![deny(unsafe_code)]

/// Descriptions of SoCs, read from files.
pub mod soc;
/// Values of `--device-option`.
pub mod options;
/// Injected faults.
pub mod faults;
/// Counters of a device and its runs.
pub mod counters;
/// Device memory, copies and reductions.
#[allow(unsafe_code)]
pub mod memory;
/// Everything that accesses memory while a model runs.
#[allow(unsafe_code)]
pub mod launch;
/// Building and sealing models.
pub mod plan;
/// Labels and jumps.
pub mod label;
/// State of the streams during a run.
pub mod stream;
/// State of events and notifies during a run.
pub mod event;
/// The happens-before relation.
pub mod order;
/// Prefetching of tasks and UPDATE tasks.
pub mod prefetch;
/// The simulated clock.
pub mod clock;
/// The race check.
pub mod races;
/// Careful runs, which execute one task at a time.
pub mod careful;
/// The scheduler of streams.
pub mod schedule;
/// One launch of a model.
pub mod run;
/// Groups of ranks that run together.
pub mod group;
/// A model on the device.
pub mod model;
/// An open device.
pub mod context;
/// The device library.
pub mod device;

mod plugin;
