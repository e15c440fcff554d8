//! The integration tests as one binary: each module is a theme.
#![allow(clippy::unwrap_used)]

/// Every set of passes gives the same numbers; the page about passes agrees with the code.
mod passes;
/// Loading plugins, good and bad.
mod plugins;
/// Right results of the reference models.
mod models;
/// What ARCHITECTURE.md says, compared with the code.
mod architecture;
/// What the manifests name, compared with the sources and deny.toml.
mod dependencies;
/// Generated Rust types of the protobuf messages.
mod protobuf;
/// Memory plans of whole models.
mod memory;
/// The fast kernels on shapes that are thin, long or empty.
mod thin;
/// Sizes at both ends, and random inputs.
mod sizes;
/// Random graphs, compared with a plain interpreter.
mod random;
/// Variables: their order, and their values between runs.
mod state;
/// Variables of models of open sizes.
mod open_state;
/// Memory of the caller that a plan may use.
mod memory_io;
/// Every pass fires in a whole compilation.
mod reach;
/// Plans, judged by an independent checker.
mod plans;
/// Gears: one OM with several static plans.
mod gears;
/// Slices at positions that a run decides.
mod positions;
/// State that grows in place.
mod growing;
/// One pipeline for `ge compile` and `ge opt`, and its dumps.
mod pipeline;
/// Streams end to end.
mod streams;
/// Determinism, and what happens without an engine.
mod product;
/// Golden texts: a graph, a pass or stages, and the expected graph.
mod golden;
/// The OM in another program's reader.
mod netron;
/// What each option changes.
mod options;
/// The command line.
mod cli;
/// The programs of `examples/`.
mod examples;
/// A vendor's library, the crate of docs/plugins.md.
mod vendor;
/// Task lists and their runs.
mod tasks;
/// The Rust API: sessions and graphs.
mod api;
/// Collectives between ranks.
mod hccl;
/// Models of open sizes.
mod dynamic;
/// Constants from files, and inputs for prepared images.
mod sources;
/// What `ge` does around a run of a model of open sizes.
mod open_tools;
/// What runs keep of each node: of branches, and of the turns of loops.
mod captures;
/// Models of open sizes: runs of sizes that were seen before, and branches that do not fit.
mod open_runs;
/// Models of open sizes: plans that are derived from the plan before.
mod open_plans;
/// Models of open sizes: runs that only make launches and choices.
mod open_turns;
mod open_ways;
/// Gears and a model of open sizes in one file.
mod hybrid;
/// Trained models of public packages.
mod trained;
/// Types other than the model's, and layouts.
mod precision;
/// Layouts of the cube unit.
mod formats;
/// Pictures: resizing, cropping and colour conversion.
mod dvpp;
/// Everything that reads bytes from outside, given changed files.
#[path = "../../fuzz/mod.rs"]
mod fuzz;
/// Stages that a user marks.
mod shapes;
/// Clusters of operators.
mod clusters;
/// Convolutions whose filters are laid out when a model is compiled, and fused pairs of them.
mod convolutions;
/// Transposes that a pass moves.
mod transposes;
/// Products by integers of eight and four bits.
mod weights;
/// Kinds of models of open sizes.
mod open_kinds;
/// Parts of known shape in bodies of loops and in branches.
mod nested_parts;
/// Executors of models of open sizes.
mod executors;
/// Models of open sizes on several streams.
mod open_streams;
/// Calibration: which nodes keep f32 for given inputs.
mod calibration;
/// The guide's commands and schemas.
mod guide;
