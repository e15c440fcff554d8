//! Tokens of the text form, read one at a time. Positions are byte offsets; line and column are
//! computed only for messages.
use std::borrow::Cow;

/// The kind and content of a token.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Tok<'t> {
    /// `%name` or `%"a b"`, optionally followed by `#k`.
    Value { name: Cow<'t, str>, output: Option<u64> },
    /// `@name` or `@"a b"`.
    At(Cow<'t, str>),
    /// A bare word.
    Ident(&'t str),
    /// A number as written: digits, sign, point, exponent, or `0x` and hexadecimal digits.
    Number(&'t str),
    /// A quoted string with its escapes resolved.
    Str(Cow<'t, str>),
    /// `...`
    Dots,
    /// A single character of punctuation.
    Punct(char),
    /// The end of the text.
    End,
}

impl Tok<'_> {
    /// The token as messages show it.
    pub(super) fn show(&self) -> String {
        let cut = |s: &str| -> String {
            if s.chars().count() > 40 { s.chars().take(40).chain("…".chars()).collect() } else { s.to_owned() }
        };
        match self {
            Tok::Value { name, output: None } => format!("`%{}`", cut(name)),
            Tok::Value { name, output: Some(k) } => format!("`%{}#{k}`", cut(name)),
            Tok::At(n) => format!("`@{}`", cut(n)),
            Tok::Ident(s) | Tok::Number(s) => format!("`{}`", cut(s)),
            Tok::Str(s) => format!("\"{}\"", cut(&s.escape_debug().to_string())),
            Tok::Dots => "`...`".into(),
            Tok::Punct(c) => format!("`{c}`"),
            Tok::End => "the end of the text".into(),
        }
    }
}

/// An error in the characters of the text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LexError {
    /// Byte offset of the error.
    pub(super) at: usize,
    /// What is wrong.
    pub(super) message: String,
    /// What would be valid there.
    pub(super) expected: String,
}

/// The lexer: reads a text as tokens.
#[derive(Clone)]
pub(super) struct Lexer<'t> {
    text: &'t str,
    pos: usize,
}

/// Whether a name is printed without quotes.
pub(super) fn is_plain_name(s: &str) -> bool {
    !s.is_empty() && s.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}
/// Whether a word may stand without quotes as a key or operator type.
pub(super) fn is_ident(s: &str) -> bool {
    is_plain_name(s) && !s.as_bytes()[0].is_ascii_digit()
}
/// Whether a byte may occur in an unquoted name that is read.
fn name_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'/' | b'-' | b'$')
}

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t str) -> Lexer<'t> {
        Lexer { text, pos: if text.starts_with('\u{feff}') { 3 } else { 0 } }
    }

    fn skip_space(&mut self) {
        let b = self.text.as_bytes();
        while let Some(&c) = b.get(self.pos) {
            match c {
                b' ' | b'\t' | b'\r' | b'\n' => self.pos += 1,
                b'#' => self.pos += b[self.pos..].iter().position(|&c| c == b'\n').unwrap_or(b.len() - self.pos),
                _ => break,
            }
        }
    }

    fn run(&mut self, keep: impl Fn(u8) -> bool) -> &'t str {
        let from = self.pos;
        let b = self.text.as_bytes();
        while b.get(self.pos).is_some_and(|&c| keep(c)) {
            self.pos += 1;
        }
        &self.text[from..self.pos]
    }

    /// Returns the next token and its start. After an error the lexer is positioned past the error,
    /// so that the caller can continue.
    pub(super) fn next(&mut self) -> Result<(usize, Tok<'t>), LexError> {
        self.skip_space();
        let at = self.pos;
        let b = self.text.as_bytes();
        let Some(&c) = b.get(at) else { return Ok((at, Tok::End)) };
        let tok = match c {
            b'%' => {
                self.pos += 1;
                let name = self.name(at, '%')?;
                let mut output = None;
                if b.get(self.pos) == Some(&b'#') && b.get(self.pos + 1).is_some_and(u8::is_ascii_digit) {
                    self.pos += 1;
                    let digits = self.run(|c| c.is_ascii_digit());
                    output = Some(digits.parse::<u64>().unwrap_or(u64::MAX));
                }
                Tok::Value { name, output }
            }
            b'@' => {
                self.pos += 1;
                Tok::At(self.name(at, '@')?)
            }
            b'"' => Tok::Str(self.string()?),
            b'.' if self.text[at..].starts_with("...") => {
                self.pos += 3;
                Tok::Dots
            }
            b'0'..=b'9' | b'-' | b'+' | b'.' => self.number(),
            c if c.is_ascii_alphabetic() || c == b'_' => {
                Tok::Ident(self.run(|c| c.is_ascii_alphanumeric() || c == b'_' || c == b'.'))
            }
            b'(' | b')' | b'[' | b']' | b'{' | b'}' | b'<' | b'>' | b',' | b':' | b'=' | b'?' => {
                self.pos += 1;
                Tok::Punct(char::from(c))
            }
            _ => {
                let ch = self.text[at..].chars().next().unwrap_or('?');
                self.pos += ch.len_utf8();
                return Err(LexError {
                    at,
                    message: format!("the character {ch:?} has no meaning here"),
                    expected: "a name, a value or punctuation".into(),
                });
            }
        };
        Ok((at, tok))
    }

    fn name(&mut self, at: usize, sigil: char) -> Result<Cow<'t, str>, LexError> {
        if self.text.as_bytes().get(self.pos) == Some(&b'"') {
            return self.string();
        }
        let s = self.run(name_byte);
        if s.is_empty() {
            return Err(LexError {
                at,
                message: format!("`{sigil}` without a name"),
                expected: format!("{sigil}name or {sigil}\"name\""),
            });
        }
        Ok(Cow::Borrowed(s))
    }

    fn number(&mut self) -> Tok<'t> {
        let from = self.pos;
        let b = self.text.as_bytes();
        if matches!(b[from], b'-' | b'+') {
            self.pos += 1;
        }
        let hex = b[self.pos..].starts_with(b"0x");
        // A sign belongs to the number only directly after an exponent. Other characters attached
        // to it make an invalid number, which is reported later.
        while let Some(&c) = b.get(self.pos) {
            let exponent = self.pos > from && matches!(b[self.pos - 1], b'e' | b'E') && !hex;
            if c.is_ascii_alphanumeric() || c == b'.' || c == b'_' || (exponent && matches!(c, b'-' | b'+')) {
                self.pos += 1;
            } else {
                break;
            }
            if self.pos - from > 512 {
                break;
            }
        }
        Tok::Number(&self.text[from..self.pos])
    }

    fn string(&mut self) -> Result<Cow<'t, str>, LexError> {
        let at = self.pos;
        let b = self.text.as_bytes();
        self.pos += 1;
        let mut from = self.pos;
        let mut owned: Option<String> = None;
        let unclosed = |at| LexError {
            at,
            message: "a string without its closing quote".into(),
            expected: "`\"` on the same line".into(),
        };
        loop {
            match b.get(self.pos) {
                None | Some(b'\n') => return Err(unclosed(at)),
                Some(b'"') => {
                    let tail = &self.text[from..self.pos];
                    self.pos += 1;
                    return Ok(match owned {
                        None => Cow::Borrowed(tail),
                        Some(mut s) => {
                            s.push_str(tail);
                            Cow::Owned(s)
                        }
                    });
                }
                Some(b'\\') => {
                    let esc = self.pos;
                    let s = owned.get_or_insert_with(String::new);
                    s.push_str(&self.text[from..self.pos]);
                    self.pos += 2;
                    let c = match b.get(esc + 1) {
                        Some(b'n') => Some('\n'),
                        Some(b't') => Some('\t'),
                        Some(b'r') => Some('\r'),
                        Some(b'0') => Some('\0'),
                        Some(b'"') => Some('"'),
                        Some(b'\\') => Some('\\'),
                        Some(b'u') => self.unicode(),
                        _ => None,
                    };
                    match c {
                        Some(c) => s.push(c),
                        None => {
                            // Skip to the end of the string so that reading can continue.
                            self.pos = esc + 1;
                            while let Some(&c) = b.get(self.pos) {
                                self.pos += 1;
                                if c == b'"' || c == b'\n' {
                                    break;
                                }
                            }
                            return Err(LexError {
                                at: esc,
                                message: "an escape that is not known".into(),
                                expected: r#"\" \\ \n \t \r \0 \u{hex}"#.into(),
                            });
                        }
                    }
                    from = self.pos;
                }
                Some(_) => self.pos += 1,
            }
        }
    }

    /// Reads the `{hex}` after `\u`.
    fn unicode(&mut self) -> Option<char> {
        if self.text.as_bytes().get(self.pos) != Some(&b'{') {
            return None;
        }
        self.pos += 1;
        let digits = self.run(|c| c.is_ascii_hexdigit());
        if self.text.as_bytes().get(self.pos) != Some(&b'}') || digits.len() > 6 {
            return None;
        }
        self.pos += 1;
        char::from_u32(u32::from_str_radix(digits, 16).ok()?)
    }
}

/// Writes a string with quotes and escapes.
pub(super) fn quote(out: &mut String, s: &str) {
    out.push('"');
    for c in s.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\0' => out.push_str("\\0"),
            c if c.is_control() => out.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}
