//! ffts_plus and FFTEngine.
//!
//! [`fourier`] computes DFT, RFFT, IRFFT and STFT; [`composite`] is the composite engine of FFTS+
//! task graphs.
#![deny(unsafe_code)]

/// The composite engine.
pub mod composite;
/// What FFTS+ cuts into slices, and how.
pub mod slices;
/// The atomic engine of Fourier transforms.
pub mod fourier;
/// From a node to a plan of transforms.
pub mod plan;
/// The kernel that runs a plan.
pub mod kernel;

mod plugin;
