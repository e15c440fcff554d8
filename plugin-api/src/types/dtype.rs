//! Element types of tensors.
use crate::open_code;

open_code! {
    /// An element type, named as in the text form (DESIGN 7).
    pub struct DType: u8 {
        /// Not known yet; inference sets it.
        UNKNOWN = 0 "unknown",
        /// IEEE single precision.
        F32 = 1 "f32",
        /// IEEE half precision.
        F16 = 2 "f16",
        /// bfloat16.
        BF16 = 3 "bf16",
        /// IEEE double precision.
        F64 = 4 "f64",
        /// 8-bit signed integer.
        I8 = 5 "i8",
        /// 16-bit signed integer.
        I16 = 6 "i16",
        /// 32-bit signed integer.
        I32 = 7 "i32",
        /// 64-bit signed integer.
        I64 = 8 "i64",
        /// 8-bit unsigned integer.
        U8 = 9 "u8",
        /// 16-bit unsigned integer.
        U16 = 10 "u16",
        /// 32-bit unsigned integer.
        U32 = 11 "u32",
        /// 64-bit unsigned integer.
        U64 = 12 "u64",
        /// Boolean: one byte, 0 or 1.
        BOOL = 13 "bool",
        /// Strings: `n+1` offsets of type u64, then the bytes of all strings.
        STRING = 14 "string",
        /// Complex number of two f32.
        COMPLEX64 = 15 "complex64",
        /// Complex number of two f64.
        COMPLEX128 = 16 "complex128",
        /// Float8 E4M3 FN.
        F8E4M3FN = 17 "f8e4m3fn",
        /// Float8 E4M3 FNUZ.
        F8E4M3FNUZ = 18 "f8e4m3fnuz",
        /// Float8 E5M2.
        F8E5M2 = 19 "f8e5m2",
        /// Float8 E5M2 FNUZ.
        F8E5M2FNUZ = 20 "f8e5m2fnuz",
        /// Float8 E8M0.
        F8E8M0 = 21 "f8e8m0",
        /// Float4 E2M1, two elements per byte.
        F4E2M1 = 22 "f4e2m1",
        /// 4-bit signed integer, two elements per byte.
        I4 = 23 "i4",
        /// 4-bit unsigned integer, two elements per byte.
        U4 = 24 "u4",
        /// 2-bit signed integer, four elements per byte.
        I2 = 25 "i2",
        /// 2-bit unsigned integer, four elements per byte.
        U2 = 26 "u2",
    }
}

impl DType {
    /// Bits per element; `None` for strings and unknown types.
    pub const fn bits(self) -> Option<u64> {
        Some(match self {
            DType::F32 | DType::I32 | DType::U32 => 32,
            DType::F16 | DType::BF16 | DType::I16 | DType::U16 => 16,
            DType::F64 | DType::I64 | DType::U64 | DType::COMPLEX64 => 64,
            DType::COMPLEX128 => 128,
            DType::I8 | DType::U8 | DType::BOOL => 8,
            DType::F8E4M3FN | DType::F8E4M3FNUZ | DType::F8E5M2 | DType::F8E5M2FNUZ | DType::F8E8M0 => 8,
            DType::F4E2M1 | DType::I4 | DType::U4 => 4,
            DType::I2 | DType::U2 => 2,
            _ => return None,
        })
    }
    /// Bytes that `count` elements take, with sub-byte types packed; `None` on overflow and for
    /// strings and unknown types.
    pub fn bytes_of(self, count: u64) -> Option<u64> {
        let bits = self.bits()?;
        if bits >= 8 { count.checked_mul(bits / 8) } else { Some(count.checked_mul(bits)?.checked_add(7)? / 8) }
    }
    /// Whether it is a floating-point type.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F16 | DType::BF16 | DType::F64) || (self.0 >= 17 && self.0 <= 22)
    }
    /// Whether it is an integer type (bool excluded).
    pub const fn is_int(self) -> bool {
        (self.0 >= 5 && self.0 <= 12) || (self.0 >= 23 && self.0 <= 26)
    }
    /// Whether it is a complex type.
    pub const fn is_complex(self) -> bool {
        matches!(self, DType::COMPLEX64 | DType::COMPLEX128)
    }
}

impl Default for DType {
    fn default() -> Self {
        DType::UNKNOWN
    }
}

/// The types of general arithmetic: f32, f16, bf16, f64 and all integers of 8 to 64 bits.
pub const NUMERIC: &[DType] = &[
    DType::F32,
    DType::F16,
    DType::BF16,
    DType::F64,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::U8,
    DType::U16,
    DType::U32,
    DType::U64,
];
/// The usual floating-point types: f32, f16, bf16, f64.
pub const FLOATS: &[DType] = &[DType::F32, DType::F16, DType::BF16, DType::F64];
/// Index types: i32, i64.
pub const INDEX: &[DType] = &[DType::I32, DType::I64];
/// No restriction: an empty list stands for any type.
pub const ANY: &[DType] = &[];

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn names_round_trip_and_sub_byte_types_pack() {
        for &d in DType::ALL {
            assert_eq!(DType::from_name(d.name()), Some(d));
        }
        assert_eq!(DType::I4.bytes_of(3), Some(2));
        assert_eq!(DType::I2.bytes_of(5), Some(2));
        assert_eq!(DType::F64.bytes_of(u64::MAX), None);
        assert_eq!(DType(200).known_name(), None);
    }
}
