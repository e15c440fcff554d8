//! Conversion between floating-point types of 8 and 4 bits and doubles.
//!
//! Layouts and values: OCP 8-bit Floating Point Specification (E4M3FN, E5M2); the FNUZ forms of
//! ONNX's "Float stored in 8 bits" (bias larger by one, no negative zero, no infinity, NaN is
//! 0x80); OCP Microscaling Formats (E8M0, E2M1).
use ge_plugin_api::types::DType;

/// The format of a small floating-point type.
#[derive(Clone, Copy)]
pub struct Small {
    exp_bits: u32,
    man_bits: u32,
    bias: i32,
    /// Codes with the largest exponent and an all-zero mantissa are infinities (E5M2).
    has_inf: bool,
    /// There is no negative zero; NaN is the sign bit alone.
    fnuz: bool,
    /// There is no NaN (E2M1).
    finite: bool,
    /// Largest finite value.
    pub max: f64,
}

/// The format of a type; `None` if it is not a type of this kind (E8M0 has its own functions).
pub fn form(d: DType) -> Option<Small> {
    let s = |exp_bits, man_bits, bias, has_inf, fnuz, finite, max| Small {
        exp_bits,
        man_bits,
        bias,
        has_inf,
        fnuz,
        finite,
        max,
    };
    Some(match d {
        DType::F8E4M3FN => s(4, 3, 7, false, false, false, 448.0),
        DType::F8E4M3FNUZ => s(4, 3, 8, false, true, false, 240.0),
        DType::F8E5M2 => s(5, 2, 15, true, false, false, 57344.0),
        DType::F8E5M2FNUZ => s(5, 2, 16, false, true, false, 57344.0),
        DType::F4E2M1 => s(2, 1, 1, false, false, true, 6.0),
        _ => return None,
    })
}

impl Small {
    fn sign_bit(self) -> u8 {
        1 << (self.exp_bits + self.man_bits)
    }
    fn nan(self, negative: bool) -> u8 {
        if self.fnuz {
            return self.sign_bit();
        }
        let s = if negative { self.sign_bit() } else { 0 };
        s | (self.sign_bit() - 1)
    }
    /// The value of a code.
    pub fn decode(self, code: u8) -> f64 {
        let negative = code & self.sign_bit() != 0;
        let body = code & (self.sign_bit() - 1);
        if self.fnuz && negative && body == 0 {
            return f64::NAN;
        }
        let (e, m) = (i32::from(body >> self.man_bits), i32::from(body & ((1 << self.man_bits) - 1)));
        let top = (1 << self.exp_bits) - 1;
        let v = if !self.fnuz && !self.finite && e == top && self.has_inf {
            if m == 0 { f64::INFINITY } else { f64::NAN }
        } else if !self.fnuz && !self.finite && !self.has_inf && body == self.sign_bit() - 1 {
            f64::NAN
        } else if e == 0 {
            f64::from(m) * 2f64.powi(1 - self.bias - self.man_bits as i32)
        } else {
            f64::from(m + (1 << self.man_bits)) * 2f64.powi(e - self.bias - self.man_bits as i32)
        };
        if negative { -v } else { v }
    }
    /// The nearest code, ties to even. If `saturate`, values that are too large become the largest
    /// value, otherwise NaN or infinity (ONNX, Cast).
    pub fn encode(self, v: f64, saturate: bool) -> u8 {
        if v.is_nan() {
            // A type without NaN uses negative zero for it, as casts of ml_dtypes do.
            return if self.finite { self.sign_bit() } else { self.nan(v.is_sign_negative()) };
        }
        let negative = v.is_sign_negative();
        let s = if negative { self.sign_bit() } else { 0 };
        let a = v.abs();
        let too_large = || -> u8 {
            if saturate || self.finite {
                s | self.code_of_max()
            } else if self.has_inf {
                s | (((1 << self.exp_bits) - 1) << self.man_bits)
            } else {
                self.nan(negative)
            }
        };
        if a.is_infinite() {
            return too_large();
        }
        // The spacing of values around `a`; below the normal range, the smallest spacing.
        let e = if a == 0.0 { i32::MIN / 2 } else { exponent(a) };
        let unit = 2f64.powi(e.max(1 - self.bias) - self.man_bits as i32);
        let steps = (a / unit).round_ties_even();
        let rounded = steps * unit;
        if rounded > self.max {
            return too_large();
        }
        if rounded == 0.0 {
            return if self.fnuz { 0 } else { s };
        }
        let e = exponent(rounded);
        let body = if e < 1 - self.bias {
            (rounded / 2f64.powi(1 - self.bias - self.man_bits as i32)) as u8
        } else {
            let m = (rounded / 2f64.powi(e - self.man_bits as i32)) as i32 - (1 << self.man_bits);
            (((e + self.bias) << self.man_bits) + m) as u8
        };
        s | body
    }
    fn code_of_max(self) -> u8 {
        let e = exponent(self.max);
        let m = (self.max / 2f64.powi(e - self.man_bits as i32)) as i32 - (1 << self.man_bits);
        (((e + self.bias) << self.man_bits) + m) as u8
    }
}

/// The exponent of a positive finite number: `2^e <= v < 2^(e+1)`.
fn exponent(v: f64) -> i32 {
    let bits = v.to_bits();
    let e = ((bits >> 52) & 0x7ff) as i32;
    if e == 0 { -1022 - (bits.leading_zeros() as i32 - 11) } else { e - 1023 }
}

/// The value of an E8M0 code: a power of two; 255 is NaN.
pub fn decode_e8m0(code: u8) -> f64 {
    if code == 255 { f64::NAN } else { 2f64.powi(i32::from(code) - 127) }
}

/// The E8M0 code of a value. ONNX's Cast by default rounds up to a power of two (`round_mode`: up,
/// down, nearest). A result that is too large, or too small (also 0, of which E8M0 has no code),
/// becomes the largest or the smallest power if `saturate`, otherwise NaN.
pub fn encode_e8m0(v: f64, mode: &str, saturate: bool) -> u8 {
    if v.is_nan() {
        return 255;
    }
    let a = v.abs();
    let [too_small, too_large] = if saturate { [0, 254] } else { [255; 2] };
    if a.is_infinite() {
        return too_large;
    }
    if a == 0.0 {
        return too_small;
    }
    let e = exponent(a);
    let fraction = a / 2f64.powi(e);
    let up = match mode {
        "down" => false,
        "nearest" => fraction >= 1.5,
        _ => fraction > 1.0,
    };
    let code = i64::from(e) + 127 + i64::from(up);
    match code {
        255.. => too_large,
        0.. => code as u8,
        // The next power above is the smallest of the type.
        _ if !matches!(mode, "down" | "nearest") => 0,
        _ => too_small,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_go_there_and_back() {
        for d in [DType::F8E4M3FN, DType::F8E4M3FNUZ, DType::F8E5M2, DType::F8E5M2FNUZ, DType::F4E2M1] {
            let f = form(d).unwrap();
            let top = if d == DType::F4E2M1 { 15u8 } else { 255 };
            for code in 0..=top {
                let v = f.decode(code);
                let back = f.encode(v, false);
                if v.is_nan() {
                    assert!(f.decode(back).is_nan(), "{d} {code}");
                } else {
                    assert_eq!(back, code, "{d} {code} {v}");
                }
            }
        }
    }

    #[test]
    fn values_that_ml_dtypes_gives() {
        let f = |d| form(d).unwrap();
        assert_eq!(f(DType::F8E4M3FN).encode(500.0, true), 0x7e);
        assert_eq!(f(DType::F8E4M3FN).encode(500.0, false), 0x7f);
        assert_eq!(f(DType::F8E4M3FN).encode(0.0017, true), 0x01);
        assert_eq!(f(DType::F8E5M2).encode(1e6, false), 0x7c);
        assert_eq!(f(DType::F8E5M2).encode(-1e6, true), 0xfb);
        assert_eq!(f(DType::F8E4M3FNUZ).encode(-0.0, true), 0);
        assert_eq!(f(DType::F8E4M3FNUZ).encode(1.0, true), 0x40);
        assert_eq!(f(DType::F4E2M1).encode(2.5, true), 4);
        assert_eq!(f(DType::F4E2M1).encode(100.0, true), 7);
        assert_eq!(f(DType::F4E2M1).encode(f64::NAN, true), 8);
        let e8m0 = |mode, saturate| {
            [0.0, 2f64.powi(-130), 2f64.powi(-127), 1.75 * 2f64.powi(127)].map(|v| encode_e8m0(v, mode, saturate))
        };
        assert_eq!(["up", "down", "nearest"].map(|mode| e8m0(mode, true)), [[0, 0, 0, 254]; 3]);
        assert_eq!(e8m0("nearest", false), [255, 255, 0, 255]);
        assert_eq!(e8m0("down", false), [255, 255, 0, 254]);
        assert_eq!(e8m0("up", false), [255, 0, 0, 255]);
        assert_eq!((encode_e8m0(3.0, "up", true), encode_e8m0(3.0, "down", true), decode_e8m0(127)), (129, 128, 1.0));
    }
}
