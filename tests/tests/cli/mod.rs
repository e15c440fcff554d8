//! The command line through the real binary.

/// Files and inputs that are not what they should be.
mod bad_input;
/// The model cache.
mod cache;
/// Weights in files beside the OM.
mod external_weights;
/// Tuning stops.
mod tuning;
/// Models held against each other and against reference files.
mod compare;
/// Bundles that reproduce a compilation.
mod bundle;
