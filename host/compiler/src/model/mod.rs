//! The product. in: all plans, out: [`GeRootModel`] and its OM.
pub mod root_model;
pub mod weights;

pub use root_model::GeRootModel;
