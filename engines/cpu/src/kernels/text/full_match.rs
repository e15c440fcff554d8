//! `RegexFullMatch(x) {pattern} -> y bool` (ai.onnx 20 on): whether the whole of each string is what the
//! pattern says. The syntax is RE2's, which that of the crate `regex` comes from: no references back
//! and no looking around, time linear in the string.
//!
//! Source: RE2's page of its syntax.
use super::strings;
use crate::args::{bad, text};
use crate::op::Op;
use crate::store::types::{BOOL, TEXT};
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;
use regex::Regex;
use std::fmt::Display;

/// An expression of RE2 as `regex` has it: `\w`, `\d`, `\s` and `\b` are of ASCII there, and what is
/// an operation on classes here stands for itself.
///
/// # Errors
/// `--` in a class, which would be another class here.
fn translated(pattern: &str) -> std::result::Result<String, &'static str> {
    let mut out = String::with_capacity(pattern.len());
    let (mut letters, mut class) = (pattern.chars().peekable(), None);
    while let Some(c) = letters.next() {
        // A class ends at the first `]` that is not its first letter.
        let first = class == Some(0);
        class = class.map(|n: usize| n + 1);
        match (c, letters.peek()) {
            ('\\', Some(&next)) => {
                letters.next();
                match (next, class.is_some()) {
                    ('w', _) => out.push_str("[0-9A-Za-z_]"),
                    ('W', _) => out.push_str("[^0-9A-Za-z_]"),
                    ('d', _) => out.push_str("[0-9]"),
                    ('D', _) => out.push_str("[^0-9]"),
                    ('s', _) => out.push_str(r"[\t\n\f\r ]"),
                    ('S', _) => out.push_str(r"[^\t\n\f\r ]"),
                    ('b' | 'B', false) => out.extend([r"(?-u:\", if next == 'b' { "b)" } else { "B)" }]),
                    _ => out.extend(['\\', next]),
                }
            }
            ('[', _) if class.is_none() => {
                class = Some(0);
                out.push(c);
                out.extend(letters.next_if_eq(&'^'));
            }
            (']', _) if class.is_some() && first => out.push_str(r"\]"),
            (']', _) => {
                class = None;
                out.push(c);
            }
            ('[', Some(':')) => {
                out.push(c);
                for c in letters.by_ref() {
                    out.push(c);
                    if c == ']' {
                        break;
                    }
                }
            }
            ('-', Some('-')) if class.is_some() => return Err("`--` in a class"),
            ('[' | '&' | '~', _) if class.is_some() => out.extend(['\\', c]),
            _ => out.push(c),
        }
    }
    Ok(out)
}

/// An expression for whole strings.
fn whole(pattern: &str) -> Result<Regex> {
    let wrong = |why: &dyn Display| bad("attribute `pattern`", format!("`{pattern}`: {why}"), "an expression of RE2");
    let inner = translated(pattern).map_err(|e| wrong(&e))?;
    // Alone first: one with `)` and `(` too many must not end the group around it.
    Regex::new(&inner).and_then(|_| Regex::new(&format!(r"\A(?:{inner})\z"))).map_err(|e| wrong(&e))
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
