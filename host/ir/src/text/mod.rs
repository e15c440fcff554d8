//! The text form of the IR (`.ge`): lexer, parser, printer (DESIGN 7).
//!
//! These rules settle what DESIGN 7 leaves open:
//! - Graph inputs in the head take, in order, the indices that no body node (`Data`, `RefData`,
//!   `AippData`) claims by its `index`. The printer puts only the plain `Data` nodes that start the
//!   order with rising index into the head; all others become body nodes, so that the order
//!   survives a round trip.
//! - The `NetOutput` of the return line is named `NetOutput` in the root and `<graph>/NetOutput`
//!   elsewhere. A `NetOutput` that has another name, has outputs or is not last in order is a body
//!   node: `%Out = NetOutput(%r) : ()`.
//! - A dtype that is not known yet is written `unknown`; codes of a newer version are `code<n>`.
//! - A symbolic dimension that is not a plain word is quoted: `f32["2*batch",3]`.
//! - Floats are always recognisable as floats (`1.0`, `1e300`, `inf`, `-inf`, `nan`; other NaNs
//!   `nan(0x…)`).
//! - Elements of `dense<…>` may be bit patterns (`0x7fc1`), complex elements are `(re, im)`. Bytes
//!   that are no values of the type (a bool of 2, set padding bits) are written `raw "hex"`.
//! - Inline strings escape `"`, `\`, newline, tab, return, NUL and `\u{hex}`.
mod element;
/// Golden files: expected outputs of `ge opt` runs, compared with the real ones.
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

/// Maximum nesting depth of lists and dictionaries.
pub const DEPTH_LIMIT: usize = 64;
