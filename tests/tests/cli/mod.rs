//! The command line through the real binary.

/// Files and inputs that are not what they should be.
mod bad_input;
/// The model cache.
mod cache;
/// Weights in files beside the OM.
mod external_weights;
/// Measurements.
mod bench;
/// Tuning of kernels.
mod tune;
/// Tuning stops.
mod tuning;
/// Models held against each other and against reference files.
mod compare;
/// Bundles that reproduce a compilation.
mod bundle;
/// Files that tests make.
mod made;
/// Tensors by the names of the model.
mod names;
/// Questions whose answer can be no.
mod gates;
/// Inputs that have an initializer.
mod defaults;
/// Sequences in what compares and measures.
mod sequences;
/// Inputs from arrays, images and the command itself.
mod inputs;
/// What is said to a user who went wrong.
mod messages;
