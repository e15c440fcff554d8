//! Parses types: element types, dimensions, formats, origins and containers.
use super::super::lexer::Tok;
use super::{Broken, Parser, Read};
use ge_plugin_api::abi::ROption;
use ge_plugin_api::diagnostic::Diagnostic;
use ge_plugin_api::types::tensor::Origin;
use ge_plugin_api::types::{Container, DType, Dim, Format, Shape, TensorDesc};

impl<'t> Parser<'t, '_> {
    pub(super) fn desc(&mut self) -> Read<TensorDesc> {
        let mut d = self.bare_desc()?;
        if self.is('{') {
            d.attrs = self.attrs()?;
        }
        Ok(d)
    }

    pub(super) fn bare_desc(&mut self) -> Read<TensorDesc> {
        let Tok::Ident(word) = self.tok else { return Err(self.wanted("a type such as `f32[2,3]`")) };
        let known = match word {
            "seq" => Some(Container::SEQ),
            "opt" => Some(Container::OPT),
            _ => None,
        };
        let at = self.at;
        self.advance()?;
        if !self.is('<') {
            return self.tensor_type(at, word);
        }
        let outer = match known.or_else(|| code(word).map(Container)) {
            Some(c) => c,
            None => return Err(self.no_such(at, "container", word, &["seq", "opt"])),
        };
        self.advance()?;
        let Tok::Ident(inner) = self.tok else { return Err(self.wanted("a type such as `f32[2,3]`")) };
        let at = self.at;
        self.advance()?;
        let mut container = outer;
        let nested = outer == Container::OPT && inner == "seq" && self.is('<');
        let mut d = if nested {
            self.advance()?;
            container = Container::OPT_SEQ;
            let Tok::Ident(word) = self.tok else { return Err(self.wanted("a type such as `f32[2,3]`")) };
            let at = self.at;
            self.advance()?;
            self.tensor_type(at, word)?
        } else {
            self.tensor_type(at, inner)?
        };
        self.want('>', "`>`")?;
        if nested {
            self.want('>', "`>`")?;
        }
        d.container = container;
        Ok(d)
    }

    /// Reads `[dims]@FORMAT(origin)` after the element type.
    pub(super) fn tensor_type(&mut self, at: usize, word: &str) -> Read<TensorDesc> {
        let dtype = self.dtype(at, word)?;
        let (shape, format) = self.shape_format()?;
        let mut d = TensorDesc { dtype, format, shape, ..TensorDesc::default() };
        if self.take('(')? {
            let at = self.at;
            let Tok::Ident(word) = self.tok else { return Err(self.wanted("the original type")) };
            self.advance()?;
            let inner = self.dtype(at, word)?;
            if inner != dtype {
                let m = "the original type has another element type";
                let d = Diagnostic::error(m).found(format!("`{word}`"), format!("`{dtype}`"));
                return Err(self.fault(at, ge_codes::TEXT_FORM, d));
            }
            let (shape, format) = self.shape_format()?;
            d.origin = ROption::RSome(Origin { format, shape });
            self.want(')', "`)`")?;
        }
        Ok(d)
    }

    pub(super) fn dtype(&mut self, at: usize, word: &str) -> Read<DType> {
        if let Some(d) = DType::from_name(word).or_else(|| code(word).map(DType)) {
            return Ok(d);
        }
        let names: Vec<&str> = DType::ALL.iter().map(|d| d.name()).collect();
        Err(self.no_such(at, "element type", word, &names))
    }

    pub(super) fn no_such(&mut self, at: usize, what: &str, word: &str, known: &[&str]) -> Broken {
        let mut d = Diagnostic::error(format!("there is no {what} `{word}`"))
            .found(format!("`{word}`"), format!("a known {what}"));
        let near = known.iter().filter(|_| word.len() <= 40).map(|k| (strsim::damerau_levenshtein(word, k), *k)).min();
        if let Some((_, k)) = near {
            d = d.help(format!("did you mean `{k}`?"));
        }
        self.fault(at, ge_codes::TEXT_FORM, d)
    }

    pub(super) fn shape_format(&mut self) -> Read<(Shape, Format)> {
        self.want('[', "`[` and the dimensions")?;
        let mut shape = Shape::scalar();
        if self.tok == Tok::Dots {
            self.advance()?;
            self.want(']', "`]`")?;
            shape = Shape::unranked();
        } else if !self.take(']')? {
            let mut dims = Vec::new();
            loop {
                dims.push(self.dim()?);
                if self.take(']')? {
                    break;
                }
                self.want(',', "`,` or `]`")?;
            }
            if !dims.is_empty() {
                shape = Shape::new(dims);
            }
        }
        let mut format = Format::ND;
        if let Tok::At(name) = &self.tok {
            let (at, name) = (self.at, name.clone());
            format = match Format::from_name(&name).or_else(|| code(&name).map(Format)) {
                Some(f) => f,
                None => {
                    let names: Vec<&str> = Format::ALL.iter().map(|f| f.name()).collect();
                    return Err(self.no_such(at, "format", &name, &names));
                }
            };
            self.advance()?;
        }
        Ok((shape, format))
    }

    pub(super) fn dim(&mut self) -> Read<Dim> {
        const WHAT: &str = "a dimension: a number, `?` or a name";
        match &self.tok {
            Tok::Punct('?') => {
                self.advance()?;
                Ok(Dim::UNKNOWN)
            }
            Tok::Number(_) => {
                let at = self.at;
                let v = self.unsigned(WHAT)?;
                if i64::try_from(v).is_err() {
                    let d = Diagnostic::error("a dimension is too large")
                        .found(v.to_string(), format!("at most {}", i64::MAX));
                    return Err(self.fault(at, ge_codes::TEXT_FORM, d));
                }
                Ok(Dim::known(v))
            }
            _ => {
                let name = self.key(WHAT)?;
                Ok(Dim::symbol(&name))
            }
        }
    }
}

/// The number in `code<n>`, which stands for a code of a newer version.
pub(super) fn code(word: &str) -> Option<u8> {
    word.strip_prefix("code")?.parse().ok()
}
