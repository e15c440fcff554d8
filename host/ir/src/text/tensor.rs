//! Constant tensors as text: element words, splats, ranges of side files and raw bytes.
use super::element::{Reader, write_bits};
use super::lexer::quote;
use ge_plugin_api::types::{Blob, ConstData, ConstTensor, DType, FileRange};
use std::fmt::Write;

/// Collects elements of one type as packed bytes.
pub(super) struct Packer {
    dtype: DType,
    reader: Reader,
    bytes: Vec<u8>,
    /// End offsets of strings in `bytes`.
    ends: Vec<u64>,
    pub(super) count: u64,
}

impl Packer {
    pub(super) fn new(dtype: DType) -> Packer {
        Packer { dtype, reader: Reader::new(dtype), bytes: Vec::new(), ends: Vec::new(), count: 0 }
    }
    /// The type of the parts of an element; complex elements have two parts.
    pub(super) fn part(dtype: DType) -> DType {
        match dtype {
            DType::COMPLEX64 => DType::F32,
            DType::COMPLEX128 => DType::F64,
            d => d,
        }
    }
    /// Adds one number or boolean. Returns false if the word is no value of the type.
    pub(super) fn word(&mut self, word: &str) -> bool {
        let Some(bits) = self.reader.bits(word) else { return false };
        let width = self.dtype.bits().unwrap_or(8);
        if width >= 8 {
            let n = usize::try_from(width / 8).unwrap_or(8).min(8);
            self.bytes.extend_from_slice(&bits.to_le_bytes()[..n]);
        } else {
            let per = 8 / width;
            let at = (self.count % per) * width;
            let low = (bits & ((1 << width) - 1)) as u8;
            if at == 0 {
                self.bytes.push(low);
            } else if let Some(last) = self.bytes.last_mut() {
                *last |= low << at;
            }
        }
        self.count += 1;
        true
    }
    /// Adds one complex number, given its two parts. Returns false if a part is no value of the
    /// type.
    pub(super) fn complex(&mut self, re: &str, im: &str) -> bool {
        let r = Reader::new(Packer::part(self.dtype));
        let (Some(a), Some(b)) = (r.bits(re), r.bits(im)) else { return false };
        let n = if self.dtype == DType::COMPLEX64 { 4 } else { 8 };
        for v in [a, b] {
            self.bytes.extend_from_slice(&v.to_le_bytes()[..n]);
        }
        self.count += 1;
        true
    }
    /// Adds one string.
    pub(super) fn text(&mut self, s: &str) {
        self.bytes.extend_from_slice(s.as_bytes());
        self.ends.push(self.bytes.len() as u64);
        self.count += 1;
    }
    /// Returns all bytes; for strings, the table of offsets comes first.
    pub(super) fn finish(self) -> Vec<u8> {
        if self.dtype != DType::STRING {
            return self.bytes;
        }
        let mut all = Vec::with_capacity((self.ends.len() + 1) * 8 + self.bytes.len());
        all.extend_from_slice(&0u64.to_le_bytes());
        for e in &self.ends {
            all.extend_from_slice(&e.to_le_bytes());
        }
        all.extend_from_slice(&self.bytes);
        all
    }
    /// Returns the bytes of a splat of its one element; a sub-byte element is repeated to fill the
    /// byte.
    pub(super) fn splat(self) -> Vec<u8> {
        let mut b = self.bytes;
        if let (Some(w @ 1..=7), Some(x)) = (self.dtype.bits(), b.first_mut()) {
            let mut w = w;
            while w < 8 {
                *x |= *x << w;
                w *= 2;
            }
        }
        b
    }
}

/// Checks the bytes of a string tensor (`n + 1` offsets as u64 rising from 0, then the UTF-8 bytes
/// that they delimit) and returns its strings.
pub(super) fn texts(bytes: &[u8], count: u64) -> Option<Vec<&str>> {
    let n = usize::try_from(count).ok()?;
    let head = n.checked_add(1)?.checked_mul(8)?;
    let (table, body) = (bytes.get(..head)?, bytes.get(head..)?);
    let at = |i: usize| -> Option<usize> {
        let w = table.get(i * 8..i * 8 + 8)?.try_into().ok()?;
        usize::try_from(u64::from_le_bytes(w)).ok()
    };
    if at(0)? != 0 || at(n)? != body.len() {
        return None;
    }
    (0..n).map(|i| std::str::from_utf8(body.get(at(i)?..at(i + 1)?)?).ok()).collect()
}

/// The bits of element `i` in packed bytes.
fn bits_at(d: DType, bytes: &[u8], i: u64) -> Option<u64> {
    let width = d.bits()?;
    if width < 8 {
        let per = 8 / width;
        let b = *bytes.get(usize::try_from(i / per).ok()?)?;
        return Some(u64::from(b >> ((i % per) * width)) & ((1 << width) - 1));
    }
    let n = usize::try_from(width / 8).ok()?;
    let from = usize::try_from(i).ok()?.checked_mul(n)?;
    let mut w = [0u8; 8];
    w.get_mut(..n)?.copy_from_slice(bytes.get(from..from.checked_add(n)?)?);
    Some(u64::from_le_bytes(w))
}

fn write_element(out: &mut String, d: DType, bytes: &[u8], i: u64) -> bool {
    if d.is_complex() {
        let part = Packer::part(d);
        let (Some(re), Some(im)) = (bits_at(part, bytes, 2 * i), bits_at(part, bytes, 2 * i + 1)) else { return false };
        out.push('(');
        let a = write_bits(out, part, re);
        out.push_str(", ");
        let b = write_bits(out, part, im);
        out.push(')');
        return a && b;
    }
    bits_at(d, bytes, i).is_some_and(|b| write_bits(out, d, b))
}

fn write_raw(out: &mut String, bytes: &[u8]) {
    out.push_str(" raw \"");
    for b in bytes {
        let _ = write!(out, "{b:02x}");
    }
    out.push('"');
}

/// Writes `dense<…>`. If `range` is given, it is written instead of the bytes.
pub(super) fn write_tensor(out: &mut String, t: &ConstTensor, dtype: &str, range: Option<&FileRange>) {
    let _ = write!(out, "dense<{dtype}[");
    for (i, d) in t.dims.iter().enumerate() {
        let _ = if i > 0 { write!(out, ",{d}") } else { write!(out, "{d}") };
    }
    out.push_str("]:");
    match (&t.data, range) {
        (ConstData::Splat(e), _) => {
            out.push_str(" splat");
            if t.dtype.bits().is_some_and(|w| w < 8) && !uniform(t.dtype, e) {
                write_raw(out, e);
            } else {
                let from = out.len();
                out.push(' ');
                if !write_element(out, t.dtype, e, 0) {
                    out.truncate(from);
                    write_raw(out, e);
                }
            }
        }
        (ConstData::Bytes(b), Some(r)) => {
            out.push_str(" file ");
            quote(out, &r.path);
            let _ = write!(out, " {} {}", r.offset, b.len());
        }
        (ConstData::Bytes(b), None) => {
            let from = out.len();
            if !write_inline(out, t, b) {
                out.truncate(from);
                write_raw(out, b);
            }
        }
    }
    out.push('>');
}

fn write_inline(out: &mut String, t: &ConstTensor, b: &Blob) -> bool {
    let Some(count) = t.count() else { return false };
    if t.dtype == DType::STRING {
        let Some(list) = texts(b, count) else { return false };
        for s in list {
            out.push(' ');
            quote(out, s);
        }
        return true;
    }
    if t.dtype.bytes_of(count) != Some(b.len() as u64) || padded(t.dtype, b, count) {
        return false;
    }
    for i in 0..count {
        out.push(' ');
        if !write_element(out, t.dtype, b, i) {
            return false;
        }
    }
    true
}

/// Whether padding bits after the last sub-byte element are set.
fn padded(d: DType, b: &[u8], count: u64) -> bool {
    let Some(w) = d.bits().filter(|w| *w < 8) else { return false };
    let used = (count * w) % 8;
    used != 0 && b.last().is_some_and(|x| x >> used != 0)
}

/// Whether all elements packed in the first byte are equal.
fn uniform(d: DType, e: &[u8]) -> bool {
    let w = d.bits().unwrap_or(8);
    let Some(&x) = e.first() else { return false };
    w >= 8 || (0..8 / w).all(|k| (x >> (k * w)) & ((1u8 << w) - 1) == x & ((1u8 << w) - 1))
}
