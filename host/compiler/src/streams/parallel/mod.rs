//! `parallel:N`: assigns the streams of a model with the planner of `ge-planners`
//! ([`ge_planners::streams`]).

/// The streams of a model's root graph.
pub mod of_model;
/// The streams of bodies of control flow.
mod body;
/// Run times of nodes, from their engines or from a profile.
pub mod times;
