//! Values that share memory: the rules by which nodes make them share, and the union of their names
//! (facts 2.3, 2.7).
//!
//! The conflicts break what cannot hold, before the plan is made; the planner then builds the union
//! once and gives each class of names one place.
pub mod memory_type;
pub mod names;
pub mod rules;
pub mod stated;

pub use names::{Clash, Names};
pub use rules::{Join, JoinKind, Rules, Spot};
