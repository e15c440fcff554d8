//! The table of error codes: each code is defined here once, with its kind (which determines the
//! exit code) and its page.
//!
//! `ge explain CODE` prints the page. An error gets its code and kind together, by
//! [`Diagnostic::raise`] or a method of [`Code`], so that one code cannot lead to two exit codes.
//!
//! ```
//! use ge_plugin_api::Diagnostic;
//!
//! let e = Diagnostic::error("input `x` does not fit the model").raise(ge_codes::INPUT);
//! assert!(ge_codes::INPUT.is(&e.diagnostics[0]));
//! assert_eq!(ge_codes::exit_code(e.kind), 2);
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub use ge_plugin_api::diagnostic::Code;
use ge_plugin_api::diagnostic::{Diagnostic, Error, ErrorKind};

/// A code and the text that `ge explain` prints for it.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// The code and its kind.
    pub code: Code,
    /// Meaning of the code, in one line.
    pub title: &'static str,
    /// When and why the error occurs.
    pub text: &'static str,
    /// What the user should do.
    pub remedy: &'static str,
    /// Commands or input that cause the error, and the right form.
    pub example: &'static str,
}

/// Declares codes: `NAME = "GE-E0000", KIND, title, text, remedy, example;` defines a constant
/// `NAME`, documented by its title, and a row of `PAGES`.
macro_rules! codes {
    ($($name:ident = $code:literal, $kind:ident, $title:literal, $text:literal, $remedy:literal, $example:literal;)*) => {
        use crate::{Code, ErrorKind, Page};
        $(
            #[doc = concat!("`", $code, "`: ", $title, ".")]
            pub const $name: Code = Code::new($code, ErrorKind::$kind);
        )*
        /// The pages of this group, by code.
        pub(crate) const PAGES: &[Page] =
            &[$(Page { code: $name, title: $title, text: $text, remedy: $remedy, example: $example },)*];
        /// The names of the constants, with their codes.
        #[cfg(test)]
        pub(crate) const NAMES: &[(&str, &str)] = &[$((stringify!($name), $code),)*];
    };
}

mod files;
mod front_end;
mod model;
mod plugins;
mod runs;
mod usage;

pub use files::*;
pub use front_end::*;
pub use model::*;
pub use plugins::*;
pub use runs::*;
pub use usage::*;

/// All pages, by groups of codes.
pub fn pages() -> impl Iterator<Item = &'static Page> + Clone {
    [model::PAGES, front_end::PAGES, usage::PAGES, files::PAGES, plugins::PAGES, runs::PAGES].into_iter().flatten()
}

/// The page of a code given as text; `None` if the code is unknown.
pub fn page(code: &str) -> Option<&'static Page> {
    pages().find(|p| p.code.text() == code)
}

/// Error codes of `atc`, each with our code whose page explains it.
pub const ATC: &[(&str, Code)] = &[
    ("E10001", OPTION_VALUE),
    ("E10002", INPUT_SHAPE),
    ("E10016", UNKNOWN_NAME),
    ("E10032", OPTIONS_FILE),
    ("E10055", SINGLE_STREAM),
    ("E13003", UNREADABLE),
    ("EZ3003", NO_ENGINE),
];

/// The exit code for a kind of failure.
pub fn exit_code(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::FAILED => 1,
        ErrorKind::USAGE => 2,
        ErrorKind::UNSUPPORTED => 3,
        ErrorKind::DAMAGED => 4,
        ErrorKind::PLUGIN | ErrorKind::PANIC => 5,
        ErrorKind::DEVICE => 6,
        ErrorKind::CANCELLED => 130,
        _ => 70,
    }
}

/// The default code of a kind, for diagnostics without a code of their own.
pub fn code_of(kind: ErrorKind) -> Code {
    match kind {
        ErrorKind::FAILED => JOB_FAILED,
        ErrorKind::USAGE => USAGE,
        ErrorKind::UNSUPPORTED => NOT_SUPPORTED,
        ErrorKind::DAMAGED => DAMAGED_FILE,
        ErrorKind::PLUGIN | ErrorKind::PANIC => PLUGIN_FAILED,
        ErrorKind::DEVICE => DEVICE_FAILED,
        ErrorKind::CANCELLED => INTERRUPTED,
        _ => BUG,
    }
}

/// Returns the first diagnostic of an error if the table gives its code another exit code than that
/// of the error's kind; such an error was made without using the table.
pub fn contradiction(e: &Error) -> Option<&Diagnostic> {
    let other = |d: &&Diagnostic| page(&d.code).is_some_and(|p| exit_code(p.code.kind()) != exit_code(e.kind));
    e.diagnostics.first().filter(other)
}

/// Combines diagnostics with several codes into one error; its kind is that of the first
/// diagnostic's code, or that of `otherwise` if this code is unknown.
pub fn by_first(diagnostics: Vec<Diagnostic>, otherwise: Code) -> Error {
    let kind = diagnostics.first().and_then(|d| page(&d.code)).map_or(otherwise.kind(), |p| p.code.kind());
    Error::all(kind, diagnostics)
}

#[cfg(test)]
mod tests;
