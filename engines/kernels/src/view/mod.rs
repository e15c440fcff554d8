//! Strided views: element types, casts, layouts, broadcasting and the loop nest.
//!
//! This folder is the part of the library that the `cpu` engine shares. Nothing here computes more
//! than an index or a conversion of one number.

/// The element types and their run-time names.
pub mod elem;
/// Elements that need no alignment.
pub mod bytes;
/// Numbers wide enough for every element type of a class.
pub mod num;
/// Conversion of numbers from one type to another.
pub mod cast;
/// Typed slices over raw bytes.
pub mod pod;
/// Shape, strides and offset of a tensor inside a slice.
pub mod layout;
/// Loops over neighbouring elements.
pub mod lines;
/// Joint iteration over several layouts.
pub mod nest;
/// Output memory whose parts are written by different blocks.
pub mod out;
/// Chains of element-wise steps as text.
pub mod steps;
/// Division of `n` units of work among `block_dim` blocks.
pub mod split;

pub use bytes::Bytes;
pub use cast::{Num, cast};
pub use elem::{Bool, Elem, Kind};
pub use layout::{Layout, View, ViewError, broadcast_shapes, element_count};
pub use nest::Nest;
pub use out::{Out, Parts};
pub use pod::{as_bytes, as_bytes_mut, cast_slice, cast_slice_mut, seen_as, seen_as_mut};
pub use split::block_range;
