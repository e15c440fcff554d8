//! Values that share memory: the rules by which nodes make them share it, and the union-find of
//! their names (facts 2.3, 2.7).
//!
//! Before the plan is made, the conflict stage inserts copies where the rules cannot all hold. The
//! planner then builds the union once and gives each class of names one place.
pub mod memory_type;
pub mod names;
pub mod rules;
pub mod stated;

pub use names::{Clash, Names};
pub use rules::{Join, JoinKind, Rules, Spot};
