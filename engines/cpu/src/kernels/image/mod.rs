//! Operators on images and grids.
pub mod grid;
pub mod resize;
pub mod roi;
