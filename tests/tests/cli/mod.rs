//! The command line through the real binary.

/// Files and inputs that are not what they should be.
mod bad_input;
/// The model cache.
mod cache;
/// Weights in files beside the OM.
mod external_weights;
/// `ge bench`.
mod bench;
/// `ge tune` and the file that it writes.
mod tune;
/// Tuning mode: builds that stop at a step and go on.
mod tuning;
/// `ge compare`: models compared with each other and with reference files.
mod compare;
/// Bundles that reproduce a compilation.
mod bundle;
/// Files that the tests make.
mod made;
/// Tensors by the names of the model.
mod names;
/// Commands whose answer can be no.
mod gates;
/// Inputs that have an initializer.
mod defaults;
/// Runs whose sizes do not fit.
mod refused_sizes;
/// Sequences in `ge compare` and `ge bench`.
mod sequences;
/// Inputs from arrays, images and the command itself.
mod inputs;
/// Messages to a user who made a mistake.
mod messages;
