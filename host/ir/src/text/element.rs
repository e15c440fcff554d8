//! Converts single elements of constant tensors between bytes and words, for every element type.
use ge_plugin_api::types::DType;
use std::fmt::Write;

/// Bit layout of a float format of 4 or 8 bits.
struct Mini {
    exponent: u32,
    mantissa: u32,
    bias: i32,
    kind: MiniKind,
}
#[derive(PartialEq)]
enum MiniKind {
    /// Infinities and NaNs as in IEEE 754.
    Ieee,
    /// No infinity; the code with all bits set is NaN.
    Finite,
    /// No infinity and no negative zero; the code of negative zero is NaN.
    Unsigned0,
    /// No special values.
    Plain,
}

fn mini(d: DType) -> Option<Mini> {
    let m = |exponent, mantissa, bias, kind| Some(Mini { exponent, mantissa, bias, kind });
    match d {
        DType::F8E4M3FN => m(4, 3, 7, MiniKind::Finite),
        DType::F8E4M3FNUZ => m(4, 3, 8, MiniKind::Unsigned0),
        DType::F8E5M2 => m(5, 2, 15, MiniKind::Ieee),
        DType::F8E5M2FNUZ => m(5, 2, 16, MiniKind::Unsigned0),
        DType::F4E2M1 => m(2, 1, 1, MiniKind::Plain),
        _ => None,
    }
}

/// The value of a code of a 4-bit or 8-bit float type (OCP 8-bit and microscaling formats). The
/// value is exact in f64.
fn decode_small(d: DType, code: u8) -> Option<f64> {
    if d == DType::F8E8M0 {
        return Some(if code == 0xff { f64::NAN } else { 2f64.powi(i32::from(code) - 127) });
    }
    let f = mini(d)?;
    let code = u32::from(code);
    let e = (code >> f.mantissa) & ((1 << f.exponent) - 1);
    let m = code & ((1 << f.mantissa) - 1);
    let negative = code >> (f.exponent + f.mantissa) & 1 == 1;
    let (e_max, m_max) = ((1 << f.exponent) - 1, (1 << f.mantissa) - 1);
    let v = match f.kind {
        MiniKind::Unsigned0 if negative && e == 0 && m == 0 => return Some(f64::NAN),
        MiniKind::Finite if e == e_max && m == m_max => f64::NAN,
        MiniKind::Ieee if e == e_max => {
            if m == 0 {
                f64::INFINITY
            } else {
                f64::NAN
            }
        }
        _ => {
            let scale = 2f64.powi(-(f.mantissa as i32));
            if e == 0 {
                f64::from(m) * scale * 2f64.powi(1 - f.bias)
            } else {
                (1.0 + f64::from(m) * scale) * 2f64.powi(e as i32 - f.bias)
            }
        }
    };
    Some(if negative { -v } else { v })
}

/// The value of a float element, given its bits; `None` if `d` is no float type.
pub fn decode_real(d: DType, bits: u64) -> Option<f64> {
    Some(match d {
        DType::F64 => f64::from_bits(bits),
        DType::F32 => f64::from(f32::from_bits(bits as u32)),
        DType::F16 => half::f16::from_bits(bits as u16).to_f64(),
        DType::BF16 => half::bf16::from_bits(bits as u16).to_f64(),
        _ => return decode_small(d, u8::try_from(bits).ok()?),
    })
}

/// Reads elements of one type; holds the tables that are expensive to build.
pub(super) struct Reader {
    dtype: DType,
    /// Finite values of a small float type with their codes, sorted by value.
    small: Vec<(f64, u8)>,
}

impl Reader {
    pub(super) fn new(dtype: DType) -> Reader {
        let codes: u16 = if dtype == DType::F4E2M1 { 16 } else { 256 };
        let mut small: Vec<(f64, u8)> = (0..codes)
            .filter_map(|c| u8::try_from(c).ok())
            .filter_map(|c| decode_small(dtype, c).map(|v| (v, c)))
            .filter(|(v, _)| v.is_finite())
            .collect();
        small.sort_by(|a, b| a.0.total_cmp(&b.0));
        Reader { dtype, small }
    }

    /// Parses the word of an element and returns its bits in the low bits; `None` if the word is no
    /// value of the type.
    pub(super) fn bits(&self, word: &str) -> Option<u64> {
        let width = self.dtype.bits()?;
        if let Some(h) = word.strip_prefix("0x") {
            let v = u64::from_str_radix(h, 16).ok()?;
            return if width >= 64 || v >> width == 0 { Some(v) } else { None };
        }
        let int = |lo: i128, hi: i128| -> Option<u64> {
            let v: i128 = word.parse().ok()?;
            if v < lo || v > hi { None } else { Some((v as u64) & (u64::MAX >> (64 - width.min(64)))) }
        };
        let signed = || int(-(1i128 << (width - 1)), (1i128 << (width - 1)) - 1);
        let unsigned = || int(0, (1i128 << width) - 1);
        match self.dtype {
            DType::I8 | DType::I16 | DType::I32 | DType::I64 | DType::I4 | DType::I2 => signed(),
            DType::U8 | DType::U16 | DType::U32 | DType::U64 | DType::U4 | DType::U2 => unsigned(),
            DType::BOOL => match word {
                "true" | "1" => Some(1),
                "false" | "0" => Some(0),
                _ => None,
            },
            DType::F32 => {
                let v: f32 = number(word)?.parse().ok()?;
                legal(f64::from(v), word)?;
                Some(u64::from(if v.is_nan() { 0x7fc0_0000 } else { v.to_bits() }))
            }
            DType::F64 => {
                let v: f64 = number(word)?.parse().ok()?;
                legal(v, word)?;
                Some(if v.is_nan() { 0x7ff8_0000_0000_0000 } else { v.to_bits() })
            }
            DType::F16 => {
                let v: f64 = number(word)?.parse().ok()?;
                let h = half::f16::from_f64(v);
                legal(h.to_f64(), word)?;
                Some(u64::from(if v.is_nan() { 0x7e00 } else { h.to_bits() }))
            }
            DType::BF16 => {
                let v: f64 = number(word)?.parse().ok()?;
                let h = half::bf16::from_f64(v);
                legal(h.to_f64(), word)?;
                Some(u64::from(if v.is_nan() { 0x7fc0 } else { h.to_bits() }))
            }
            _ => self.small_bits(number(word)?.parse().ok()?),
        }
    }

    fn small_bits(&self, v: f64) -> Option<u64> {
        let special = |want: &dyn Fn(f64) -> bool| {
            (0..=255u8)
                .take(if self.dtype == DType::F4E2M1 { 16 } else { 256 })
                .find(|&c| decode_small(self.dtype, c).is_some_and(want))
                .map(u64::from)
        };
        if v.is_nan() {
            return special(&|x: f64| x.is_nan());
        }
        if v.is_infinite() {
            return special(&|x: f64| x == v);
        }
        if v == 0.0 {
            return special(&|x: f64| x == 0.0 && x.is_sign_negative() == v.is_sign_negative())
                .or_else(|| special(&|x: f64| x == 0.0));
        }
        let i = self.small.partition_point(|(x, _)| *x < v);
        let hi = self.small.get(i);
        let lo = if i > 0 { self.small.get(i - 1) } else { None };
        match (lo, hi) {
            (_, Some((x, c))) if *x == v => Some(u64::from(*c)),
            (Some((a, ca)), Some((b, cb))) => {
                let (da, db) = (v - a, b - v);
                let even = if ca & 1 == 0 { ca } else { cb };
                Some(u64::from(if da < db {
                    *ca
                } else if db < da {
                    *cb
                } else {
                    *even
                }))
            }
            // The word is beyond the greatest or least value.
            _ => None,
        }
    }
}

/// Rejects words that Rust's number parsers accept but this form does not.
fn number(word: &str) -> Option<&str> {
    match word {
        "inf" | "-inf" | "nan" => Some(word),
        w if w.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-')) => Some(w),
        _ => None,
    }
}
/// Refuses a finite word whose value overflows to infinity.
fn legal(v: f64, word: &str) -> Option<()> {
    if v.is_infinite() && !word.ends_with("inf") { None } else { Some(()) }
}

/// Writes a float attribute. It can always be told from an integer and is always read back with the
/// same bits.
pub(super) fn write_f64(out: &mut String, v: f64) {
    if v.is_nan() {
        if v.to_bits() == 0x7ff8_0000_0000_0000 {
            out.push_str("nan");
        } else {
            let _ = write!(out, "nan(0x{:016x})", v.to_bits());
        }
    } else if v.is_infinite() {
        out.push_str(if v > 0.0 { "inf" } else { "-inf" });
    } else {
        let _ = write!(out, "{v:?}");
    }
}

/// Writes one element, given its bits. Returns false if the type has no words; the caller then
/// writes raw bytes.
pub(super) fn write_bits(out: &mut String, d: DType, bits: u64) -> bool {
    let Some(width) = d.bits() else { return false };
    let signed = || {
        let shift = 64 - width;
        ((bits << shift) as i64) >> shift
    };
    let mut float = |v: f64, nan: u64, text: &dyn Fn(&mut String)| {
        if v.is_nan() {
            if bits == nan {
                out.push_str("nan");
            } else {
                let _ = write!(out, "0x{bits:x}");
            }
        } else if v.is_infinite() {
            out.push_str(if v > 0.0 { "inf" } else { "-inf" });
        } else {
            text(out);
        }
        true
    };
    match d {
        DType::F32 => {
            let v = f32::from_bits(bits as u32);
            float(f64::from(v), 0x7fc0_0000, &|o| short32(o, v))
        }
        DType::F64 => {
            let v = f64::from_bits(bits);
            float(v, 0x7ff8_0000_0000_0000, &|o| short64(o, v))
        }
        DType::F16 => {
            let v = half::f16::from_bits(bits as u16);
            float(v.to_f64(), 0x7e00, &|o| short32(o, v.to_f32()))
        }
        DType::BF16 => {
            let v = half::bf16::from_bits(bits as u16);
            float(v.to_f64(), 0x7fc0, &|o| short32(o, v.to_f32()))
        }
        DType::I8 | DType::I16 | DType::I32 | DType::I64 | DType::I4 | DType::I2 => write!(out, "{}", signed()).is_ok(),
        DType::U8 | DType::U16 | DType::U32 | DType::U64 | DType::U4 | DType::U2 => write!(out, "{bits}").is_ok(),
        DType::BOOL => match bits {
            0 | 1 => {
                out.push_str(if bits == 1 { "true" } else { "false" });
                true
            }
            _ => false,
        },
        _ => {
            let Some(v) = u8::try_from(bits).ok().and_then(|c| decode_small(d, c)) else { return false };
            let nan = Reader { dtype: d, small: Vec::new() }.small_bits(f64::NAN).unwrap_or(u64::MAX);
            float(v, nan, &|o| short64(o, v))
        }
    }
}

fn short32(out: &mut String, v: f32) {
    let a = v.abs();
    let _ = if a != 0.0 && !(1e-5..1e16).contains(&a) { write!(out, "{v:e}") } else { write!(out, "{v}") };
}
fn short64(out: &mut String, v: f64) {
    let a = v.abs();
    let _ = if a != 0.0 && !(1e-5..1e16).contains(&a) { write!(out, "{v:e}") } else { write!(out, "{v}") };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_of_every_small_type_comes_back() {
        for &d in DType::ALL {
            let Some(width) = d.bits().filter(|w| *w <= 16) else { continue };
            let r = Reader::new(d);
            for bits in 0..1u64 << width {
                let mut s = String::new();
                if write_bits(&mut s, d, bits) {
                    assert_eq!(r.bits(&s), Some(bits), "{d} {bits:#x} as {s}");
                } else {
                    assert_eq!(d, DType::BOOL);
                }
            }
        }
    }

    #[test]
    fn small_floats_have_the_values_of_their_standards() {
        assert_eq!(decode_small(DType::F8E4M3FN, 0x7e), Some(448.0));
        assert_eq!(decode_small(DType::F8E5M2, 0x7b), Some(57344.0));
        assert_eq!(decode_small(DType::F8E4M3FNUZ, 0x7f), Some(240.0));
        assert_eq!(decode_small(DType::F4E2M1, 0x7), Some(6.0));
        assert_eq!(decode_small(DType::F8E8M0, 127), Some(1.0));
        assert!(decode_small(DType::F8E5M2FNUZ, 0x80).is_some_and(f64::is_nan));
        // Ties go to even codes; words out of range are rejected.
        let r = Reader::new(DType::F4E2M1);
        assert_eq!(r.bits("2.5"), Some(4));
        assert_eq!(r.bits("7"), None);
        assert_eq!(Reader::new(DType::F16).bits("70000"), None);
        assert_eq!(Reader::new(DType::I4).bits("-8"), Some(8));
        assert_eq!(Reader::new(DType::I4).bits("8"), None);
    }
}
