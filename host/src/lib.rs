//! The host: session, options, commands. It loads plugins, compiles and runs, and does no
//! operator's work.
//!
//! ```no_run
//! use ge::session::{Session, SessionOptions};
//! # fn main() -> Result<(), ge::Error> {
//! let session = Session::new(SessionOptions::default())?;
//! let model = session.load_om("model.om")?;
//! std::thread::scope(|s| {
//!     for _ in 0..4 {
//!         s.spawn(|| model.run_random(7));
//!     }
//! });
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

/// The declared table of options.
pub mod options;
/// Drawing of diagnostics, progress and results.
pub mod render;
/// Sessions: plugins, devices, models.
pub mod session;
/// Several graphs of one session, added, built, run and removed.
pub mod graph_manager;
/// What `ge plugin check` compiles and runs.
mod conformance;
/// Files that are written whole or not at all.
mod files;
/// The commands of `ge`.
pub mod commands;

pub use ge_plugin_api::{Diagnostic, Error, ErrorKind, Result};
