//! Parses attributes and their values.
use super::super::DEPTH_LIMIT;
use super::super::lexer::Tok;
use super::types::code;
use super::{Parser, Read};
use ge_plugin_api::abi::RVec;
use ge_plugin_api::diagnostic::Diagnostic;
use ge_plugin_api::types::{Attr, AttrMap, AttrValue, DType, DictEntry, Key};
use std::borrow::Cow;
use std::collections::HashSet;

impl<'t> Parser<'t, '_> {
    /// Reads `{key = value, …}`; the current token is `{`.
    pub(super) fn attrs(&mut self) -> Read<AttrMap> {
        let mut list: Vec<Attr> = Vec::new();
        self.entries(0, |key, value| list.push(Attr { key: Key::new(&key), value }))?;
        // The keys are known to be distinct, so no search is needed for each.
        if list.len() > 64 {
            return Ok(wide(list));
        }
        Ok(list.into_iter().collect())
    }

    pub(super) fn entries(&mut self, depth: usize, mut put: impl FnMut(Cow<'t, str>, AttrValue)) -> Read<()> {
        self.want('{', "`{`")?;
        let mut seen = Keys::default();
        if self.take('}')? {
            return Ok(());
        }
        loop {
            let at = self.at;
            let key = self.key("an attribute's name")?;
            self.want('=', "`=` and a value")?;
            let value = self.value(depth)?;
            if seen.insert(key.clone()) {
                put(key, value);
            } else {
                self.fault(at, ge_codes::TEXT_NAME, Diagnostic::error(format!("attribute `{key}` is given twice")));
            }
            if self.take('}')? {
                return Ok(());
            }
            self.want(',', "`,` or `}`")?;
        }
    }

    pub(super) fn value(&mut self, depth: usize) -> Read<AttrValue> {
        const WHAT: &str = "a value";
        if depth > DEPTH_LIMIT {
            let d = Diagnostic::error("values nest too deeply").found("more", format!("at most {DEPTH_LIMIT} levels"));
            return Err(self.fault(self.at, ge_codes::TEXT_FORM, d));
        }
        let at = self.at;
        match self.tok.clone() {
            Tok::Number(w) => {
                let v = self.number(w)?;
                self.advance()?;
                Ok(v)
            }
            Tok::Str(s) => {
                self.advance()?;
                Ok(AttrValue::Str(s.as_ref().into()))
            }
            Tok::At(g) => {
                self.advance()?;
                Ok(AttrValue::Graph(g.as_ref().into()))
            }
            Tok::Punct('[') => {
                self.advance()?;
                let mut list = Vec::new();
                if !self.take(']')? {
                    loop {
                        list.push(self.value(depth + 1)?);
                        if self.take(']')? {
                            break;
                        }
                        self.want(',', "`,` or `]`")?;
                    }
                }
                Ok(AttrValue::list(list))
            }
            Tok::Punct('{') => {
                let mut list: Vec<DictEntry> = Vec::new();
                self.entries(depth + 1, |key, value| list.push(DictEntry { key: key.as_ref().into(), value }))?;
                list.sort_by(|a, b| a.key.cmp(&b.key));
                Ok(AttrValue::Dict(list.into()))
            }
            Tok::Ident("true") => self.advance().map(|_| AttrValue::Bool(true)),
            Tok::Ident("false") => self.advance().map(|_| AttrValue::Bool(false)),
            Tok::Ident("inf") => self.advance().map(|_| AttrValue::Float(f64::INFINITY)),
            Tok::Ident("nan") => {
                self.advance()?;
                if !self.take('(')? {
                    return Ok(AttrValue::Float(f64::from_bits(0x7ff8_0000_0000_0000)));
                }
                let bits = match self.tok {
                    Tok::Number(w) => w.strip_prefix("0x").and_then(|h| u64::from_str_radix(h, 16).ok()),
                    _ => None,
                };
                match bits.map(f64::from_bits).filter(|v| v.is_nan()) {
                    Some(v) => {
                        self.advance()?;
                        self.want(')', "`)`")?;
                        Ok(AttrValue::Float(v))
                    }
                    None => Err(self.wanted("the bits of a NaN, `0x…`")),
                }
            }
            Tok::Ident("dense") => {
                self.advance()?;
                self.want('<', "`<` and a tensor")?;
                let t = self.tensor(at)?;
                self.want('>', "`>` that closes the tensor")?;
                Ok(AttrValue::Tensor(t))
            }
            Tok::Ident(w) => {
                let d = match DType::from_name(w).or_else(|| code(w).map(DType)) {
                    Some(d) => d,
                    None => {
                        let mut names: Vec<&str> = DType::ALL.iter().map(|d| d.name()).collect();
                        names.extend(["true", "false", "inf", "nan", "dense"]);
                        return Err(self.no_such(at, "value", w, &names));
                    }
                };
                self.advance()?;
                Ok(AttrValue::Type(d))
            }
            _ => Err(self.wanted(WHAT)),
        }
    }

    /// Reads the word `w` of the current token as an integer or a float.
    pub(super) fn number(&mut self, w: &str) -> Read<AttrValue> {
        if w == "-inf" {
            return Ok(AttrValue::Float(f64::NEG_INFINITY));
        }
        let digits = w.strip_prefix(['-', '+']).unwrap_or(w);
        if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
            return match w.parse::<i64>() {
                Ok(v) => Ok(AttrValue::Int(v)),
                Err(_) => {
                    let d = Diagnostic::error("a whole number is out of range")
                        .found(w.chars().take(40).collect::<String>(), "a 64-bit signed number");
                    Err(self.fault(self.at, ge_codes::TEXT_FORM, d))
                }
            };
        }
        let plain = digits.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-'));
        match w.parse::<f64>() {
            Ok(v) if plain && v.is_finite() => Ok(AttrValue::Float(v)),
            _ => Err(self.wanted("a number in range")),
        }
    }
}

/// Keys of one list of entries; the first few are searched, the rest are hashed.
#[derive(Default)]
struct Keys<'t> {
    few: Vec<Cow<'t, str>>,
    many: HashSet<Cow<'t, str>>,
}
impl<'t> Keys<'t> {
    /// Adds a key and returns whether it is new.
    fn insert(&mut self, key: Cow<'t, str>) -> bool {
        if self.few.contains(&key) {
            return false;
        }
        if self.few.len() < 16 {
            self.few.push(key);
            return true;
        }
        self.many.insert(key)
    }
}

/// Makes a map of entries with distinct keys, without a search for each.
fn wide(list: Vec<Attr>) -> AttrMap {
    AttrMap::from_distinct(RVec::from(list))
}
