//! The text form of the IR (`.ge`): lexer, parser, printer (DESIGN 7).
//!
//! What DESIGN 7 leaves open is settled here:
//! - Graph inputs in the head take, in order, the indices that no body node (`Data`, `RefData`,
//!   `AippData`) claims by its `index`. When printed, only the plain `Data` nodes that open the
//!   order in rising index stand in the head; all others are body nodes, so that the order comes
//!   back as it was.
//! - The `NetOutput` of the return line is called `NetOutput` in the root and
//!   `<graph>/NetOutput` elsewhere. One with another name, with outputs of its own or not last in order is a node of the body: `%Out
//!   = NetOutput(%r) : ()`.
//! - A dtype that is not known yet is `unknown`; codes of a newer version are `code<n>`.
//! - A symbolic dimension that is no word is quoted: `f32["2*batch",3]`.
//! - Real numbers always show that they are real (`1.0`, `1e300`, `inf`, `-inf`,
//!   `nan`; other NaNs `nan(0x…)`).
//! - Elements of `dense<…>` may be bit patterns (`0x7fc1`), complex ones are `(re, im)`; bytes that
//!   are no values of the type (a bool of 2, set padding bits) are `raw "hex"`.
//! - Inline strings escape `"`, `\`, newline, tab, return, NUL and `\u{hex}`.
mod element;
/// Golden files.
pub mod golden;
mod lexer;
mod parser;
mod printer;
mod tensor;
#[cfg(test)]
mod tests;

pub use element::decode_real;
pub use parser::{ERROR_LIMIT, NoFiles, Places, SideFiles, parse, parse_placed};
pub use printer::{PrintOptions, SideFileSink, print, to_string, to_string_whole};

/// How deep lists and dictionaries nest at most.
pub const DEPTH_LIMIT: usize = 64;
