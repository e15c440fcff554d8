//! Pattern fusion for pass plugins: the author says what to look for and what replaces it;
//! everything else is done here (003, 3.2 and 3.3).
//!
//! - `Pattern`: a small graph with captures, written as an expression: `x * p.op("Sigmoid", [x])`;
//! - `PatternMatcher`: finds the pattern by backtracking from its outputs, any number of times and
//!   without overlap;
//! - `SubgraphRewriter`: replaces a match with other nodes if `FuseInspector` allows it, and
//!   reports the replacement;
//! - `PatternFusion` and `Decompose`: passes made of these parts; [`crate::register_fusion!`] makes
//!   one in a few lines.
//!
//! All of it works on borrowed views and recorded patches, so it adds nothing to what crosses the
//! ABI boundary.

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

/// Success, or the reason in words for the user why something is left as it is.
pub type Verdict<T = ()> = core::result::Result<T, String>;
