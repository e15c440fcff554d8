//! Reductions and searches.
pub mod cumulative;
pub mod fold;
pub mod search;
pub mod top;
pub mod walk;
