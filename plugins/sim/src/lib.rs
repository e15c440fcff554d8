//! The embedded Ascend simulator: executes task streams with the hardware's rules and real numbers
//! (DESIGN 1).
//!
//! The way of a model: [`plan::Builder`] takes kernels and tasks and checks each; [`plan::Plan`] is
//! what `seal` makes of them; [`run`] binds a plan to the addresses of one run and lets
//! [`schedule`] drive its streams to the end. Everything that touches memory is in [`memory`] and
//! [`launch`], the only rooms with `unsafe` code. Tasks run on the caller and on
//! the helpers of the device, a [`launch::crew`].
#![deny(unsafe_code)]

/// SoC files.
pub mod soc;
/// `--device-option`.
pub mod options;
/// Injected faults.
pub mod faults;
/// Counters.
pub mod counters;
/// Memory, copies, reductions.
#[allow(unsafe_code)]
pub mod memory;
/// What touches memory while a model runs.
#[allow(unsafe_code)]
pub mod launch;
/// Sealed models.
pub mod plan;
/// Labels.
pub mod label;
/// Streams of a run.
pub mod stream;
/// Events and notifies of a run.
pub mod event;
/// Happens-before.
pub mod order;
/// Look-ahead and UPDATE.
pub mod prefetch;
/// The simulated clock.
pub mod clock;
/// The race check.
pub mod races;
/// One task at a time.
pub mod careful;
/// The scheduler.
pub mod schedule;
/// One launch.
pub mod run;
/// Groups of ranks.
pub mod group;
/// Models on the device.
pub mod model;
/// Open devices.
pub mod context;
/// The device library.
pub mod device;

mod plugin;
