//! `RegexFullMatch(x) {pattern} -> y bool` (ai.onnx 20 on): whether each whole string matches the
//! pattern.
use super::regex::{translated, wrong};
use super::strings;
use crate::args::text;
use crate::op::Op;
use crate::store::types::{BOOL, TEXT};
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;
use regex::Regex;

/// Compiles an expression that matches only whole strings.
fn whole(pattern: &str) -> Result<Regex> {
    let inner = translated("pattern", pattern)?;
    // It is also compiled alone, so that a pattern with an unbalanced `)` and `(` cannot end the
    // group around it.
    Regex::new(&inner).and_then(|_| Regex::new(&format!(r"\A(?:{inner})\z"))).map_err(|e| wrong("pattern", pattern, &e))
}

fn run(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (dims, x) = strings::read(ctx, 0)?;
    let pattern = whole(text(ctx, "pattern", ""))?;
    let y = ctx.alloc_output(0, &dims)?;
    y.bytes.iter_mut().zip(&x).for_each(|(to, s)| *to = u8::from(pattern.is_match(s)));
    Ok(())
}

/// Operator rows of this file.
pub const OPS: &[Op] = &[Op::new("RegexFullMatch", run, &[TEXT]).gives(&[BOOL])];

#[cfg(test)]
mod tests {
    use super::whole;

    #[test]
    fn the_whole_string_is_matched_and_nothing_less() {
        let hit = |p: &str, s: &str| whole(p).unwrap().is_match(s);
        assert!(hit("a|ab", "ab") && !hit("a", "ab") && !hit("a", "a\n") && hit("", ""));
        assert!(hit(r"www\.[\w.-]+\.\bcom\b", "www.google.com") && !hit(r"(?i)x", "yx"));
        // ASCII classes, and characters that are literal in a class, as in RE2.
        assert!(
            !hit(r"\w", "é")
                && hit(r"\W", "é")
                && hit(r"[^\W]", "e")
                && !hit(r"[\d]", "٣")
                && hit(r"é\b", "é") == hit(r"\bx", "é")
        );
        assert!(
            hit("[[]", "[")
                && hit("[a&&b]+", "&ab")
                && hit("[]a]+", "]a")
                && hit("[^]a]", "b")
                && hit("[[:alpha:]&]+", "a&")
        );
        for broken in ["(", "a)(b", r"(a)\1", "a(?=b)", "[a--z]"] {
            assert!(whole(broken).is_err(), "{broken}");
        }
    }
}
