//! What a compilation keeps about its passes: which ran, how long, what they changed and refused.
pub mod record;

pub use record::{PassRecord, Records};
