//! ffts_plus and FFTEngine.
//!
//! [`fourier`] computes DFT, RFFT, IRFFT and STFT; [`composite`] is the composite engine for FFTS+
//! task graphs.
#![deny(unsafe_code)]

/// The composite engine.
pub mod composite;
/// Selection and cutting of nodes into slices for FFTS+.
pub mod slices;
/// The atomic engine of Fourier transforms.
pub mod fourier;
/// Plans of transforms, made from nodes.
pub mod plan;
/// The kernel that runs a plan.
pub mod kernel;

mod plugin;
