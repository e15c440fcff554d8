//! Fusions: where they run (`FusionPassExecutor`), which are switched off (`switch_file`), and what
//! they tell (`report`).

/// Where fusions and custom passes run.
pub mod executor;
/// What passes tell about what they fused and what they left.
pub mod report;
/// The file that switches fusions.
pub mod switch_file;

pub use executor::FusionPassExecutor;
pub use report::FusionRecord;
pub use switch_file::FusionSwitches;
