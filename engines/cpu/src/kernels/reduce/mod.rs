//! Reductions and searches.
pub mod fold;
pub mod search;
