//! The product. in: all plans, out: `GeRootModel` and its OM.
pub mod assemble;
/// What gears a model has.
mod gears;
pub mod root_model;
pub mod sync_nodes;
pub mod weights;

pub use assemble::assemble;
pub use root_model::GeRootModel;
