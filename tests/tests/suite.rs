//! The integration tests, one binary: each folder is a theme.
#![allow(clippy::unwrap_used)]

/// Passes: any set of them gives the same numbers; the page about them.
mod passes;
/// Loading plugins, good and bad.
mod plugins;
/// Right results of the reference models.
mod models;
/// What ARCHITECTURE.md says against the code.
mod architecture;
/// What the manifests name against sources and deny.toml.
mod dependencies;
/// Generated Rust types of the protobuf messages.
mod protobuf;
/// Memory plans of whole models.
mod memory;
/// The fast kernels on shapes that are thin, long or empty.
mod thin;
/// Sizes at both ends, and random inputs.
mod sizes;
/// Random graphs against a plain interpreter.
mod random;
/// Variables: their order, their values between runs.
mod state;
/// Variables of models of open sizes.
mod open_state;
/// Memory of the caller that a plan may use.
mod memory_io;
/// Passes fire in whole compilations.
mod reach;
/// Plans, judged by a checker of other hands.
mod plans;
/// One OM of several static plans.
mod gears;
mod growing;
/// One pipeline for `ge compile` and `ge opt`, and its dumps.
mod pipeline;
/// Streams end to end.
mod streams;
/// Determinism, and what happens without an engine.
mod product;
/// Golden texts: a graph, a pass or stages, the graph expected.
mod golden;
/// The OM in another reader.
mod netron;
/// What each option changes.
mod options;
/// The command line.
mod cli;
/// The programs of `examples/`.
mod examples;
/// A library of a vendor, built from docs/plugins.md.
mod vendor;
/// Task lists and their runs.
mod tasks;
/// The Rust API: sessions and graphs.
mod api;
/// Collectives between ranks.
mod hccl;
/// Models of open sizes.
mod dynamic;
/// Constants of files, inputs of prepared images.
mod sources;
/// What `ge` does around a run of one.
mod open_tools;
/// Their runs of sizes seen before; branches that do not fit.
mod open_runs;
/// Their plans that are made of the one before.
mod open_plans;
/// Their runs that go by launches and choices alone.
mod open_ways;
/// Gears and a model of open sizes in one file.
mod hybrid;
/// Trained models of others.
mod trained;
/// Other types than the model's, and layouts.
mod precision;
/// Layouts of the cube unit.
mod formats;
/// Pictures before a model.
mod dvpp;
/// Whatever reads bytes from outside, given changed files.
#[path = "../../fuzz/mod.rs"]
mod fuzz;
/// Unknown shapes and stages of the user.
mod shapes;
/// Clusters of operators.
mod clusters;
/// Convolutions whose filters are changed ahead, and pairs of them.
mod convolutions;
/// Transposes that move.
mod transposes;
/// Kinds of models of open sizes.
mod open_kinds;
/// Parts of known shape in bodies.
mod nested_parts;
/// Executors of models of open sizes.
mod executors;
/// Several streams for models of open sizes.
mod open_streams;
/// The guide's commands and schemas.
mod guide;
