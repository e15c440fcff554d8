//! Convolutions of one to three spatial dimensions, channels first, grouped, dilated, strided,
//! padded; and transposed.
//!
//! `y[n, o, p] = act(bias[o] + sum_{c, k} w[o, c, k] x[n, c, p * stride + k * dilation - pad] + residual)`,
//! which is a matrix product whose second operand is never formed: a strip of the input is copied
//! once with its borders, split by the remainder of the position modulo the stride, so that every
//! tap of the kernel is one shifted run of that copy ([`crate::conv::image`]). A unit of work is a
//! strip of output rows and a block of output channels; its bits depend on nothing else.

/// Sizes and checks.
pub mod spec;
/// The copy of a strip of the input.
pub mod image;
/// From sums to the result.
mod finish;
/// Dense and grouped convolutions as matrix products.
pub mod plan;
/// One input channel to a group.
pub mod depthwise;
/// The same with small windows, in single precision.
mod planes;
/// The same with channels as lanes, for small images.
mod lanes;
/// Transposed ones, in single precision.
mod phases;
/// The same of images of one place.
mod one_place;
/// Windows of three by three, in single precision, with fewer products.
mod winograd;
/// Where images are divided among cores.
mod bands;
/// Windows of one point, in single precision.
mod points;
/// Few places, as rows of a product.
pub mod rows;
/// The form of a constant filter that costs the least.
mod filter;
/// One of one point and a depthwise one, of which one reads the other.
pub mod pair;
/// Channels in groups of sixteen, innermost.
pub mod cube;
/// Convolutions of bytes, in whole numbers.
pub mod bytes;

pub use bytes::winograd::filters::change_filters as change_byte_filters;
pub use bytes::{ByteConv, ByteFilter, ByteImages, pack_filter, packed_filter_len, unpack_filter};
pub use cube::{CubeConv, CubeDepthwise};
pub use filter::{FilterForms, FilterPlan};
pub use pair::{ConvPair, Half};
pub use phases::{filter_by_phase_panels, filter_by_phases};
pub use plan::Conv;
pub use rows::{RowConv, pack_row_filter, packed_row_filter_len};
pub use spec::{ConvError, ConvSpec};
pub use winograd::filters::{change_filters, changed_filters_len};

#[cfg(test)]
mod tests;
