//! Parses constant tensors: elements, splats, raw bytes and ranges of side files.
use super::super::lexer::Tok;
use super::super::tensor::Packer;
use super::{Broken, Parser, Read};
use ge_plugin_api::diagnostic::Diagnostic;
use ge_plugin_api::types::{Blob, ConstData, ConstTensor, DType, FileRange, Format, Shape};

impl<'t> Parser<'t, '_> {
    /// Reads `type[dims]: elements` after `dense<`.
    pub(super) fn tensor(&mut self, start: usize) -> Read<ConstTensor> {
        let at = self.at;
        let Tok::Ident(word) = self.tok else { return Err(self.wanted("an element type")) };
        self.advance()?;
        let dtype = self.dtype(at, word)?;
        let at = self.at;
        let (shape, format) = self.shape_format()?;
        let dims = match shape.sizes() {
            Some(d) if format == Format::ND => d,
            _ => {
                let d = Diagnostic::error("a constant needs known dimensions and no format")
                    .found(format!("`{shape}`"), "numbers");
                return Err(self.fault(at, ge_codes::TEXT_CONSTANT, d));
            }
        };
        self.want(':', "`:` and the elements")?;
        let at = self.at;
        let (data, file) = match self.tok {
            Tok::Ident("splat") => {
                self.advance()?;
                if self.is_word("raw") {
                    (ConstData::Splat(Blob::from_owner(self.raw()?)), FileRange::default())
                } else {
                    let mut p = Packer::new(dtype);
                    let at = self.at;
                    self.element(&mut p, dtype)?;
                    if dtype == DType::STRING {
                        let d = Diagnostic::error("strings cannot be a splat").help("write each string out");
                        return Err(self.fault(at, ge_codes::TEXT_CONSTANT, d));
                    }
                    (ConstData::Splat(Blob::from_owner(p.splat())), FileRange::default())
                }
            }
            Tok::Ident("file") => self.side_file()?,
            Tok::Ident("raw") => (ConstData::Bytes(Blob::from_owner(self.raw()?)), FileRange::default()),
            _ => {
                let mut p = Packer::new(dtype);
                while !self.is('>') {
                    self.element(&mut p, dtype)?;
                    if self.is(',') {
                        self.advance()?;
                    }
                }
                let (found, wanted) = (p.count, Shape::of(&dims).count());
                if wanted != Some(found) {
                    let wanted = wanted.map_or("more than can be counted".to_owned(), |w| w.to_string());
                    let d = Diagnostic::error(format!("a constant of shape {shape} has {found} elements"))
                        .found(found.to_string(), wanted);
                    return Err(self.fault(start, ge_codes::TEXT_CONSTANT, d));
                }
                (ConstData::Bytes(Blob::from_owner(p.finish())), FileRange::default())
            }
        };
        let t = match &data {
            ConstData::Bytes(b) => ConstTensor::new(dtype, &dims, b.clone()),
            ConstData::Splat(b) => ConstTensor::splat(dtype, &dims, b),
        };
        match t {
            Some(mut t) => {
                t.file = file;
                Ok(t)
            }
            None => {
                let (ConstData::Bytes(b) | ConstData::Splat(b)) = &data;
                let whole = Shape::of(&dims).count().and_then(|n| dtype.bytes_of(n));
                let want = match (&data, whole, dtype.bits()) {
                    (ConstData::Splat(_), Some(_), Some(w)) => format!("{} bytes for one element", w.div_ceil(8)),
                    (ConstData::Bytes(_), Some(n), _) => format!("{n} bytes"),
                    _ => "a type and a size that can be held".to_owned(),
                };
                let d = Diagnostic::error(format!("the bytes do not fit {dtype}{shape}"))
                    .found(format!("{} bytes", b.len()), want);
                Err(self.fault(at, ge_codes::TEXT_CONSTANT, d))
            }
        }
    }

    pub(super) fn element(&mut self, p: &mut Packer, dtype: DType) -> Read<()> {
        let at = self.at;
        let good = match self.tok.clone() {
            Tok::Str(s) if dtype == DType::STRING => {
                p.text(&s);
                self.advance()?;
                true
            }
            Tok::Punct('(') if dtype.is_complex() => {
                self.advance()?;
                let re = self.part()?;
                self.want(',', "`,` and the imaginary part")?;
                let im = self.part()?;
                let good = p.complex(re, im);
                self.want(')', "`)`")?;
                good
            }
            Tok::Number(w) | Tok::Ident(w) if !dtype.is_complex() => {
                let good = p.word(w);
                if good {
                    self.advance()?;
                }
                good
            }
            _ => false,
        };
        if good {
            return Ok(());
        }
        let found = self.tok.show();
        let d = Diagnostic::error(format!("{found} is no element of type {dtype}"))
            .found(found, format!("a value of {dtype}"));
        Err(self.fault(at, ge_codes::TEXT_CONSTANT, d))
    }

    pub(super) fn part(&mut self) -> Read<&'t str> {
        match self.tok {
            Tok::Number(w) | Tok::Ident(w) => {
                self.advance()?;
                Ok(w)
            }
            _ => Err(self.wanted("a number")),
        }
    }

    /// Reads `raw "hex"`; the current token is `raw`.
    pub(super) fn raw(&mut self) -> Read<Vec<u8>> {
        self.advance()?;
        let Tok::Str(s) = &self.tok else { return Err(self.wanted("hexadecimal digits in quotes")) };
        let digit = |b: u8| char::from(b).to_digit(16).and_then(|d| u8::try_from(d).ok());
        let pairs = s.as_bytes().chunks(2).map(|c| match c {
            [a, b] => Some(digit(*a)? << 4 | digit(*b)?),
            _ => None,
        });
        match pairs.collect::<Option<Vec<u8>>>() {
            Some(v) => {
                self.advance()?;
                Ok(v)
            }
            None => Err(self.wanted("pairs of hexadecimal digits")),
        }
    }

    /// Reads `file "path" OFFSET LEN`; the current token is `file`.
    pub(super) fn side_file(&mut self) -> Read<(ConstData, FileRange)> {
        self.advance()?;
        let at = self.at;
        let Tok::Str(path) = &self.tok else { return Err(self.wanted("a path in quotes")) };
        let path = path.clone().into_owned();
        self.advance()?;
        let offset = self.unsigned("the first byte's offset")?;
        let len = self.unsigned("the number of bytes")?;
        let blob = match self.opened.get(&path) {
            Some(b) => b.clone(),
            None => {
                let b = match self.files.open(&path) {
                    Ok(b) => Some(b),
                    Err(e) => {
                        for d in e.diagnostics {
                            let code = if d.code.is_empty() {
                                ge_codes::TEXT_CONSTANT.text().to_owned()
                            } else {
                                d.code.to_string()
                            };
                            self.fault(at, code, d);
                        }
                        None
                    }
                };
                self.opened.insert(path.clone(), b.clone());
                b
            }
        };
        let Some(blob) = blob else { return Err(Broken) };
        let part = match (usize::try_from(offset), usize::try_from(len)) {
            (Ok(o), Ok(l)) => blob.slice(o, l),
            _ => None,
        };
        match part {
            Some(b) => Ok((ConstData::Bytes(b), FileRange { path: path.as_str().into(), offset })),
            None => {
                let d = Diagnostic::error(format!("`{path}` is too short for a constant"))
                    .found(format!("{} bytes", blob.len()), format!("{len} bytes from {offset}"));
                Err(self.fault(at, ge_codes::TEXT_CONSTANT, d))
            }
        }
    }
}
