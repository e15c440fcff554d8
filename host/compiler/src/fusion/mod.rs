//! Fusions: where they run (`FusionPassExecutor`), which are switched off (`switch_file`), and what
//! they report (`report`).

/// Runs fusions and custom passes.
pub mod executor;
/// What passes report about what they fused and what they left.
pub mod report;
/// The file that switches fusions on and off.
pub mod switch_file;

pub use executor::FusionPassExecutor;
pub use report::FusionRecord;
pub use switch_file::FusionSwitches;
