//! The result of the compilation. In: all plans. Out: `GeRootModel` and its OM.
pub mod assemble;
/// Description of the gears of a model.
mod gears;
pub mod root_model;
pub mod sync_nodes;
pub mod weights;

pub use assemble::assemble;
pub use root_model::GeRootModel;
