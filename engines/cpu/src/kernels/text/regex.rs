//! Regular expressions of models. The syntax is RE2's, from which that of the crate `regex` is
//! derived: no backreferences and no lookaround, and time linear in the length of the string.
//!
//! Source: RE2's syntax page.
use crate::args::bad;
use ge_plugin_api::{Error, Result};
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input, MatchKind};
use std::fmt::Display;

/// The error for an invalid expression in an attribute.
pub fn wrong(key: &str, pattern: &str, why: &dyn Display) -> Error {
    bad(format!("attribute `{key}`"), format!("`{pattern}`: {why}"), "an expression of RE2")
}

/// Translates an expression of RE2 to the syntax of `regex`. In RE2, `\w`, `\d`, `\s` and `\b` are
/// ASCII only, and what `regex` treats as set operations in classes is literal.
///
/// # Errors
/// Fails if a class contains `--`, which would mean a different class in `regex`.
pub fn translated(key: &str, pattern: &str) -> Result<String> {
    let mut out = String::with_capacity(pattern.len());
    let (mut letters, mut class) = (pattern.chars().peekable(), None);
    while let Some(c) = letters.next() {
        // A class ends at the first `]` that is not its first character.
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
            ('-', Some('-')) if class.is_some() => return Err(wrong(key, pattern, &"`--` in a class")),
            ('[' | '&' | '~', _) if class.is_some() => out.extend(['\\', c]),
            _ => out.push(c),
        }
    }
    Ok(out)
}

/// Finds the matches of an expression in a string: the leftmost match and, among those that begin
/// there, the longest.
pub struct Longest {
    /// Finds where the leftmost match begins.
    first: regex::Regex,
    /// Finds where the longest match from there ends.
    longest: DFA,
    cache: Cache,
}

impl Longest {
    /// Compiles an expression from the attribute `key`.
    ///
    /// # Errors
    /// Fails if the expression is not valid in RE2 or is too large.
    pub fn of(key: &str, pattern: &str) -> Result<Longest> {
        let inner = translated(key, pattern)?;
        let first = regex::Regex::new(&inner).map_err(|e| wrong(key, pattern, &e))?;
        let config = DFA::config().match_kind(MatchKind::All);
        let longest = DFA::builder().configure(config).syntax(syntax::Config::new()).build(&inner);
        let longest = longest.map_err(|e| wrong(key, pattern, &e))?;
        let cache = longest.create_cache();
        Ok(Longest { first, longest, cache })
    }

    /// The range of the leftmost match that begins at or after `from`.
    ///
    /// # Errors
    /// Fails if the search needs too much memory for this string.
    pub fn find(&mut self, s: &str, from: usize) -> Result<Option<std::ops::Range<usize>>> {
        let Some(m) = self.first.find_at(s, from) else { return Ok(None) };
        let input = Input::new(s).range(m.start()..).anchored(Anchored::Yes);
        let end = self.longest.try_search_fwd(&mut self.cache, &input);
        let end = end.map_err(|e| Error::failed(format!("an expression cannot be searched: {e}")))?;
        Ok(Some(m.start()..end.map_or(m.end(), |e| e.offset())))
    }
}

#[cfg(test)]
mod tests {
    use super::Longest;

    #[test]
    fn the_longest_of_the_first_matches_is_found() {
        let find = |p: &str, s: &str, from| Longest::of("tokenexp", p).unwrap().find(s, from).unwrap();
        assert_eq!(find("foo|foob", "a foob foo", 0), Some(2..6));
        assert_eq!(find("foo|foob", "a foob foo", 3), Some(7..10));
        assert_eq!((find("a+?", "baa", 0), find(r"\bé?x\b", "x_ x", 0)), (Some(1..3), Some(3..4)));
        assert_eq!((find("z", "abc", 0), find("z*", "abc", 1)), (None, Some(1..1)));
        assert!(Longest::of("tokenexp", "(").is_err());
    }
}
