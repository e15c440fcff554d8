//! Convolutions of one to three spatial dimensions, channels first: grouped, dilated, strided,
//! padded and transposed.
//!
//! `y[n, o, p] = act(bias[o] + sum_{c, k} w[o, c, k] x[n, c, p * stride + k * dilation - pad] +
//! residual)`
//!
//! This is a matrix product whose second operand is never formed. A strip of the input is copied
//! once with its borders, split by the remainder of the position modulo the stride, so that every
//! tap of the kernel is one shifted run of that copy ([`crate::conv::image`]). A unit of work is a
//! strip of output rows by a block of output channels. The bits of its result depend on nothing
//! else.

/// Sizes of a convolution and their checks.
pub mod spec;
/// The padded copy of a strip of the input.
pub mod image;
/// The last pass: from sums to the result.
mod finish;
/// Dense and grouped convolutions as matrix products.
pub mod plan;
/// Depthwise convolutions: one input channel per group.
pub mod depthwise;
/// Depthwise convolutions with small windows, in single precision.
mod planes;
/// Depthwise convolutions of small images, with channels as vector lanes.
mod lanes;
/// Transposed convolutions in single precision.
mod phases;
/// Transposed convolutions of groups with few output channels, in single precision.
mod spread;
/// Transposed convolutions of images of one position, in single precision.
mod one_place;
/// Convolutions with three-by-three windows in single precision, with fewer multiplications.
mod winograd;
/// How images are divided among cores.
mod bands;
/// Pointwise (1x1) convolutions in single precision.
mod points;
/// Convolutions with few output positions, which become the rows of a matrix product.
pub mod rows;
/// Convolutions tap by tap, without the taps that only read the border.
mod taps;
/// The cheapest form of a constant filter.
mod filter;
/// Convolutions of half-precision numbers by the plans for single precision.
mod halves;
/// Pairs of a pointwise and a depthwise convolution, of which one reads the other.
pub mod pair;
/// Convolutions whose channels are innermost, in groups of sixteen.
pub mod cube;
/// Integer convolutions of bytes.
pub mod bytes;

pub use bytes::winograd::filters::change_filters as change_byte_filters;
pub use bytes::{ByteConv, ByteFilter, ByteImages, pack_filter, packed_filter_len, unpack_filter};
pub use cube::{CubeConv, CubeDepthwise};
pub use filter::{FilterForms, FilterPlan};
pub use halves::HalfConv;
pub use pair::{ConvPair, Half};
pub use phases::{filter_by_phase_panels, filter_by_phases};
pub use plan::Conv;
pub use rows::{RowConv, pack_row_filter, packed_row_filter_len};
pub use spec::{ConvError, ConvSpec};
pub use taps::{TapConv, pack_tap_filter, tap_filter_len};
pub use winograd::filters::{change_filters, changed_filters_len};

#[cfg(test)]
mod tests;
