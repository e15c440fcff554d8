//! From an OM to results: load, execute, profile, dump.
//!
//! `LoadedModel::load` maps the weights, asks each task's engine to bind it to the device, and
//! seals. After that a run is one call of the device and no call of an engine.
#![forbid(unsafe_code)]

/// Errors.
pub mod error;
/// Where arguments lie.
mod place;
/// Where tiling contexts lie.
mod spot;
/// What engines and the device get of a task.
pub mod request;
/// Arguments of tasks.
mod arguments;
/// Tasks that are bound again.
mod again;
/// Tasks bound to the device.
mod bind;
/// What a loaded model tells of its nodes.
mod ext_attrs;
/// Numbers of tasks on the device.
mod numbering;
/// Tasks of several launches.
mod several;
/// Tasks that run slice by slice.
mod slices;
/// Tiling on the device, as the loader keeps it.
pub mod sink;
/// The rules of task lists, held by the tasks of an OM.
mod tasks;
/// Loading.
pub mod load;
/// What every node wrote.
pub mod capture;
/// Feature maps that plans share.
pub mod map_pool;
/// Memory of outputs that callers gave back.
pub mod spare;
/// Streams that models on one device share.
pub mod stream_pool;
/// Streams of the runs of an executor.
pub mod stream_allocator;
/// Runs.
pub mod executor;
mod gears;
/// Inputs and outputs by number.
mod ports;
/// Models of unknown shapes.
pub mod v2;
/// Variables of a session.
pub mod variables;
/// `.npy` files.
pub mod npy;
/// The order of numbers in `.npy` files.
mod npy_order;
/// Strings in `.npy` files.
pub mod npy_text;
/// `.npz` files.
pub mod npz;

/// What nodes take.
pub mod work;
/// Which processor this is.
pub mod machine;
pub use capture::Captured;
pub use error::RuntimeError;
pub use executor::{HostStep, Part, RunOptions, RunOutcome};
pub use load::LoadedModel;
pub use request::{Engines, LoadOptions};
pub use stream_allocator::StreamAllocator;
pub use stream_pool::{StreamHandle, StreamPool};
pub use v2::{DynamicModel, Tools};
pub use variables::{VariableInfo, Variables};
