//! Drawing: diagnostics on stderr, progress, JSON.
pub mod diagnostic;
pub mod progress;

pub use diagnostic::{exit_code, print_error};
pub use progress::{Progress, ProgressMode};
/// Watching for long calls into plugins.
pub mod watch;
/// Timelines of runs.
pub mod timeline;
