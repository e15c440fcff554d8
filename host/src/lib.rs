//! The host: sessions, options and commands. It loads plugins, compiles models and runs them; it
//! implements no operator itself.
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

/// The options of ge, each declared once.
pub mod options;
/// Drawing of diagnostics, progress and results on the terminal.
pub mod render;
/// Sessions: plugins, devices and models.
pub mod session;
/// Several graphs in one session, each added, built, run and removed separately.
pub mod graph_manager;
/// The checks behind `ge plugin check`: compiles and runs sample graphs with a plugin.
mod conformance;
/// Writes a file completely or not at all.
mod files;
/// The commands of `ge`.
pub mod commands;

pub use ge_plugin_api::{Diagnostic, Error, ErrorKind, Result};
