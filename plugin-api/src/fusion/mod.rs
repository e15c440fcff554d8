//! Pattern fusion for pass plugins: say what to look for, and what takes its place; the rest is
//! done here (003, 3.2 and 3.3).
//!
//! - `Pattern`: a small graph with captures, written as an expression: `x * p.op("Sigmoid", [x])`;
//! - `PatternMatcher`: finds it from its outputs, backtracking, any number of times without
//!   overlap;
//! - `SubgraphRewriter`: puts other nodes in its place, after `FuseInspector` has said that this
//!   can be done, and reports it;
//! - `PatternFusion` and `Decompose`: a pass made of these, by [`crate::register_fusion!`] in a few
//!   lines.
//!
//! All of it works on borrowed views and recorded patches: nothing here crosses the border that did
//! not cross before.

mod inspector;
mod matcher;
mod pass;
mod pattern;
mod rewriter;

pub use inspector::{CONSISTENT, FuseInspector, ORIGINALS, PASS_NAME, REPORT};
pub use matcher::{Match, PatternMatcher};
pub use pass::{Decompose, DecomposePass, FnFusion, PatternFusion, PatternFusionPass};
pub use pattern::{Expr, Pattern, PatternBuilder};
pub use rewriter::{Boundary, Made, Replacement, SubgraphRewriter};

/// Why something is left as it is, in words for the user; success otherwise.
pub type Verdict<T = ()> = core::result::Result<T, String>;
