//! `RegexFullMatch(x) {pattern} -> y bool` (ai.onnx 20 on): whether the whole of each string is what the
//! pattern says.
use super::regex::{translated, wrong};
use super::strings;
use crate::args::text;
use crate::op::Op;
use crate::store::types::{BOOL, TEXT};
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;
use regex::Regex;

/// An expression for whole strings.
fn whole(pattern: &str) -> Result<Regex> {
    let inner = translated("pattern", pattern)?;
    // Alone first: one with `)` and `(` too many must not end the group around it.
    Regex::new(&inner).and_then(|_| Regex::new(&format!(r"\A(?:{inner})\z"))).map_err(|e| wrong("pattern", pattern, &e))
}

fn run(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (dims, x) = strings::read(ctx, 0)?;
    let pattern = whole(text(ctx, "pattern", ""))?;
    let y = ctx.alloc_output(0, &dims)?;
    y.bytes.iter_mut().zip(&x).for_each(|(to, s)| *to = u8::from(pattern.is_match(s)));
    Ok(())
}

/// The rows of this file.
pub const OPS: &[Op] = &[Op::new("RegexFullMatch", run, &[TEXT]).gives(&[BOOL])];

#[cfg(test)]
mod tests {
    use super::whole;

    #[test]
    fn the_whole_string_is_matched_and_nothing_less() {
        let hit = |p: &str, s: &str| whole(p).unwrap().is_match(s);
        assert!(hit("a|ab", "ab") && !hit("a", "ab") && !hit("a", "a\n") && hit("", ""));
        assert!(hit(r"www\.[\w.-]+\.\bcom\b", "www.google.com") && !hit(r"(?i)x", "yx"));
        // Classes of ASCII, and letters that stand for themselves in a class: as RE2 has it.
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
