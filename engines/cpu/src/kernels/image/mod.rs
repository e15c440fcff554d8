//! Operators on images and grids.
pub mod col2im;
mod greatest;
pub mod grid;
pub mod resize;
pub mod roi;
