//! Takes an OM to its results: loads it, runs it, profiles it and dumps what its nodes wrote.
//!
//! `LoadedModel::load` maps the weights, asks the engine of each task to bind the task to the
//! device, and seals the device's model. After that, a run is one call to the device and no call to
//! an engine.
#![forbid(unsafe_code)]

/// Errors of loading and running.
pub mod error;
/// Maps memory slots of the plan to allocations of the device model.
mod place;
/// Positions of tiling contexts.
mod spot;
/// What engines and the device receive for a task.
pub mod request;
/// Arguments of tasks.
mod arguments;
/// Tasks that are bound again for another plan.
mod again;
/// Binds tasks to the device.
mod bind;
/// Extended attributes and tiling contexts of a loaded model's nodes.
mod ext_attrs;
/// Maps task numbers of the device to those of the OM.
mod numbering;
/// Tasks that contain several launches.
mod several;
/// Tasks that run slice by slice (FFTS+).
mod slices;
/// Whether slices cover an output.
mod covered;
/// Tiling on the device (tiling sink), on the loader's side.
pub mod sink;
/// Checks the tasks of an OM against the rules of task lists.
mod tasks;
/// Inputs whose values were fixed at compile time.
mod fixed;
/// The weights of a loaded model.
mod weights;
/// Loads models onto a device.
pub mod load;
/// Captures what every node wrote.
pub mod capture;
/// Feature maps shared by several plans.
pub mod map_pool;
/// Memory of outputs that callers gave back, for reuse.
pub mod spare;
/// Streams shared by the models on one device.
pub mod stream_pool;
/// Streams for the runs of one executor.
pub mod stream_allocator;
/// Runs loaded models.
pub mod executor;
mod gears;
/// Inputs and outputs of a model by number.
mod ports;
/// Models whose shapes are unknown until a run.
pub mod v2;
/// Variables of a session.
pub mod variables;
/// Reads and writes `.npy` files.
pub mod npy;
/// Element order and byte order of `.npy` files.
mod npy_order;
/// Strings in `.npy` files.
pub mod npy_text;
/// Reads `.npz` files.
pub mod npz;

/// Bytes and arithmetic that a node needs.
pub mod work;
/// Identifies the processor of this machine.
pub mod machine;
pub use capture::{Captured, NotFinite};
pub use error::RuntimeError;
pub use executor::{HostStep, Part, RunOptions, RunOutcome};
pub use load::LoadedModel;
pub use request::{Engines, LoadOptions};
pub use stream_allocator::StreamAllocator;
pub use stream_pool::{StreamHandle, StreamPool};
pub use v2::{DynamicModel, Tools};
pub use variables::{Snapshot, VariableInfo, Variables};
