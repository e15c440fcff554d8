//! The product. in: all plans, out: `GeRootModel` and its OM.
pub mod assemble;
mod effects_checker;
mod over_checker;
mod task_checker;
pub mod place_checker;
pub mod plan_checker;
/// Control flow, turn by turn.
pub mod flow_checker;
pub mod root_model;
pub mod sync_nodes;
pub mod weights;

pub use assemble::assemble;
pub use root_model::GeRootModel;
