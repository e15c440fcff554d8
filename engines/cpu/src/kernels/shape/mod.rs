//! Operators that move data or create it from sizes.
pub mod join;
pub mod make;
pub mod moving;
pub mod slice;
pub mod stretch;
pub mod trans_data;
pub mod transpose;
pub mod view;
