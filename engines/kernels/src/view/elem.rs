//! Element types: the run-time `Kind`, the trait `Elem`, and the macro that dispatches from a
//! `Kind` to a type.
use crate::simd::halves;
use crate::view::num::Num;
use half::{bf16, f16};

/// The element types that kernels compute on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
    /// IEEE half precision.
    F16,
    /// Brain floating point: the upper half of an IEEE single.
    Bf16,
    /// Signed 8-bit integer.
    I8,
    /// Signed 16-bit integer.
    I16,
    /// Signed 32-bit integer.
    I32,
    /// Signed 64-bit integer.
    I64,
    /// Unsigned 8-bit integer.
    U8,
    /// Unsigned 16-bit integer.
    U16,
    /// Unsigned 32-bit integer.
    U32,
    /// Unsigned 64-bit integer.
    U64,
    /// Truth value in one byte, zero or one.
    Bool,
}

impl Kind {
    /// Every kind, in declaration order. The position of a kind is its code ([`Kind::code`]).
    pub const ALL: [Kind; 13] = [
        Kind::F32,
        Kind::F64,
        Kind::F16,
        Kind::Bf16,
        Kind::I8,
        Kind::I16,
        Kind::I32,
        Kind::I64,
        Kind::U8,
        Kind::U16,
        Kind::U32,
        Kind::U64,
        Kind::Bool,
    ];

    /// Size of one element in bytes.
    pub const fn size(self) -> usize {
        match self {
            Kind::F64 | Kind::I64 | Kind::U64 => 8,
            Kind::F32 | Kind::I32 | Kind::U32 => 4,
            Kind::F16 | Kind::Bf16 | Kind::I16 | Kind::U16 => 2,
            Kind::I8 | Kind::U8 | Kind::Bool => 1,
        }
    }

    /// True for the four floating-point types.
    pub const fn is_float(self) -> bool {
        matches!(self, Kind::F32 | Kind::F64 | Kind::F16 | Kind::Bf16)
    }

    /// True for the eight integer types (`Bool` is not one of them).
    pub const fn is_int(self) -> bool {
        !self.is_float() && !matches!(self, Kind::Bool)
    }

    /// A small number that represents the kind in parameter blocks.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The kind with this code; `None` if no kind has it.
    pub fn from_code(code: u8) -> Option<Kind> {
        Kind::ALL.get(usize::from(code)).copied()
    }

    /// The name used in the text form of graphs.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::F32 => "f32",
            Kind::F64 => "f64",
            Kind::F16 => "f16",
            Kind::Bf16 => "bf16",
            Kind::I8 => "i8",
            Kind::I16 => "i16",
            Kind::I32 => "i32",
            Kind::I64 => "i64",
            Kind::U8 => "u8",
            Kind::U16 => "u16",
            Kind::U32 => "u32",
            Kind::U64 => "u64",
            Kind::Bool => "bool",
        }
    }
}

/// A truth value in one byte: zero is false, anything else true. Unlike `bool`, every bit pattern
/// is valid, so it can be read from memory that other code wrote.
#[derive(Clone, Copy, Debug, Default)]
#[repr(transparent)]
pub struct Bool(pub u8);

impl Bool {
    /// The value as a `bool`.
    pub const fn get(self) -> bool {
        self.0 != 0
    }
}

impl From<bool> for Bool {
    fn from(v: bool) -> Bool {
        Bool(u8::from(v))
    }
}

impl PartialEq for Bool {
    fn eq(&self, other: &Bool) -> bool {
        self.get() == other.get()
    }
}

impl Eq for Bool {}

impl PartialOrd for Bool {
    fn partial_cmp(&self, other: &Bool) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Bool {
    fn cmp(&self, other: &Bool) -> std::cmp::Ordering {
        self.get().cmp(&other.get())
    }
}

pub(super) mod sealed {
    pub trait Sealed {}
}

/// A type that a tensor can hold. Every bit pattern of its size is a valid value and it has no
/// padding; the trait is sealed so that this stays true.
pub trait Elem:
    sealed::Sealed + Copy + Default + PartialEq + PartialOrd + std::fmt::Debug + Send + Sync + 'static
{
    /// The run-time kind of the type.
    const KIND: Kind;
    /// The value as a number of the widest type of its class.
    fn to_num(self) -> Num;
    /// The value converted to this type, by the rules of [`crate::view::cast()`].
    fn from_num(n: Num) -> Self;
    /// The value as a double (64-bit integers are rounded).
    #[inline(always)]
    fn to_f64(self) -> f64 {
        match self.to_num() {
            Num::F(v) => v,
            Num::I(v) => v as f64,
            Num::U(v) => v as f64,
        }
    }
    /// The value as a single, rounded if needed.
    #[inline(always)]
    fn to_f32(self) -> f32 {
        match self.to_num() {
            Num::F(v) => v as f32,
            Num::I(v) => v as f32,
            Num::U(v) => v as f32,
        }
    }
    /// The value as a 64-bit integer; floating values are truncated.
    #[inline(always)]
    fn to_i64(self) -> i64 {
        i64::from_num(self.to_num())
    }
    /// Converts a double, by the rules of [`crate::view::cast()`].
    #[inline(always)]
    fn from_f64(v: f64) -> Self {
        Self::from_num(Num::F(v))
    }
    /// Converts a single, by the rules of [`crate::view::cast()`].
    #[inline(always)]
    fn from_f32(v: f32) -> Self {
        Self::from_num(Num::F(f64::from(v)))
    }
    /// Converts a 64-bit integer, by the rules of [`crate::view::cast()`].
    #[inline(always)]
    fn from_i64(v: i64) -> Self {
        Self::from_num(Num::I(v))
    }
}

/// A double as a single rounded to odd. A second rounding of that to a half type is correct (Boldo
/// and Melquiond, "When double rounding is odd"). It is needed because the available conversions
/// start from singles or drop the double's low bits.
#[inline(always)]
fn to_odd(v: f64) -> f32 {
    let single = v as f32;
    if f64::from(single) == v || single.is_nan() {
        return single;
    }
    let bits = single.to_bits() - u32::from(f64::from(single).abs() > v.abs());
    f32::from_bits(bits | 1)
}

#[inline(always)]
fn single(v: f16) -> f32 {
    halves::widen(v.to_bits())
}
#[inline(always)]
fn half_of(v: f32) -> f16 {
    f16::from_bits(halves::narrow(v))
}

macro_rules! float_elem {
    ($t:ty, $kind:ident, $to:expr, $from:expr, $from_int:expr, $from_uint:expr, $single:expr, $of_single:expr) => {
        impl sealed::Sealed for $t {}
        impl Elem for $t {
            const KIND: Kind = Kind::$kind;
            #[inline(always)]
            fn to_num(self) -> Num {
                Num::F(($to)(self))
            }
            #[inline(always)]
            fn from_num(n: Num) -> $t {
                match n {
                    Num::F(v) => ($from)(v),
                    Num::I(v) => ($from_int)(v),
                    Num::U(v) => ($from_uint)(v),
                }
            }
            #[inline(always)]
            fn to_f32(self) -> f32 {
                ($single)(self)
            }
            #[inline(always)]
            fn from_f32(v: f32) -> $t {
                ($of_single)(v)
            }
        }
    };
}
float_elem!(f32, F32, f64::from, |v: f64| v as f32, |v: i64| v as f32, |v: u64| v as f32, |v| v, |v| v);
float_elem!(f64, F64, |v| v, |v| v, |v: i64| v as f64, |v: u64| v as f64, |v| v as f32, f64::from);
float_elem!(
    f16,
    F16,
    |v: f16| f64::from(single(v)),
    |v| half_of(to_odd(v)),
    |v: i64| half_of(to_odd(v as f64)),
    |v: u64| half_of(to_odd(v as f64)),
    single,
    half_of
);
float_elem!(
    bf16,
    Bf16,
    |v: bf16| f64::from(v.to_f32()),
    |v| bf16::from_f32(to_odd(v)),
    |v: i64| bf16::from_f32(to_odd(v as f64)),
    |v: u64| bf16::from_f32(to_odd(v as f64)),
    |v: bf16| f32::from_bits(u32::from(v.to_bits()) << 16),
    bf16::from_f32
);

macro_rules! int_elem {
    ($($t:ty, $kind:ident, $num:ident, $wide:ty, $via:ty;)*) => {$(
        impl sealed::Sealed for $t {}
        impl Elem for $t {
            const KIND: Kind = Kind::$kind;
            #[inline(always)]
            fn to_num(self) -> Num {
                Num::$num(self as $wide)
            }
            #[inline(always)]
            fn from_num(n: Num) -> $t {
                match n {
                    Num::F(v) => <$via as crate::view::num::Truncate>::truncate(v) as $t,
                    Num::I(v) => v as $t,
                    Num::U(v) => v as $t,
                }
            }
            #[inline(always)]
            fn from_f32(v: f32) -> $t {
                <$via as crate::view::num::Truncate>::truncate_single(v) as $t
            }
        }
    )*};
}
int_elem! {
    i8, I8, I, i64, i32;
    i16, I16, I, i64, i32;
    i32, I32, I, i64, i32;
    i64, I64, I, i64, i64;
    u8, U8, U, u64, i32;
    u16, U16, U, u64, i32;
    u32, U32, U, u64, i64;
    u64, U64, U, u64, u64;
}

impl sealed::Sealed for Bool {}
impl Elem for Bool {
    const KIND: Kind = Kind::Bool;
    #[inline(always)]
    fn to_num(self) -> Num {
        Num::U(u64::from(self.get()))
    }
    #[inline(always)]
    fn from_num(n: Num) -> Bool {
        match n {
            Num::F(v) => Bool::from(v != 0.0),
            Num::I(v) => Bool::from(v != 0),
            Num::U(v) => Bool::from(v != 0),
        }
    }
    #[inline(always)]
    fn from_f32(v: f32) -> Bool {
        Bool::from(v != 0.0)
    }
}

/// Runs an expression with a type name bound to the element type of a [`Kind`].
///
/// `with_kind!(kind, T => f::<T>())` covers all kinds. With a list in brackets,
/// `with_kind!(kind, [F32, F64], T => e, else d)` evaluates `e` for the listed kinds and `d` for
/// the others.
#[macro_export]
macro_rules! with_kind {
    ($kind:expr, $t:ident => $body:expr) => {
        match $kind {
            $crate::view::Kind::F32 => { type $t = f32; $body }
            $crate::view::Kind::F64 => { type $t = f64; $body }
            $crate::view::Kind::F16 => { type $t = $crate::f16; $body }
            $crate::view::Kind::Bf16 => { type $t = $crate::bf16; $body }
            $crate::view::Kind::I8 => { type $t = i8; $body }
            $crate::view::Kind::I16 => { type $t = i16; $body }
            $crate::view::Kind::I32 => { type $t = i32; $body }
            $crate::view::Kind::I64 => { type $t = i64; $body }
            $crate::view::Kind::U8 => { type $t = u8; $body }
            $crate::view::Kind::U16 => { type $t = u16; $body }
            $crate::view::Kind::U32 => { type $t = u32; $body }
            $crate::view::Kind::U64 => { type $t = u64; $body }
            $crate::view::Kind::Bool => { type $t = $crate::view::Bool; $body }
        }
    };
    ($kind:expr, [$($k:ident),+], $t:ident => $body:expr, else $other:expr) => {
        match $kind {
            $($crate::view::Kind::$k => { type $t = $crate::elem_type!($k); $body })+
            _ => $other,
        }
    };
}

/// The element type for the name of a kind: `elem_type!(F32)` is `f32`.
#[macro_export]
macro_rules! elem_type {
    (F32) => {
        f32
    };
    (F64) => {
        f64
    };
    (F16) => {
        $crate::f16
    };
    (Bf16) => {
        $crate::bf16
    };
    (I8) => {
        i8
    };
    (I16) => {
        i16
    };
    (I32) => {
        i32
    };
    (I64) => {
        i64
    };
    (U8) => {
        u8
    };
    (U16) => {
        u16
    };
    (U32) => {
        u32
    };
    (U64) => {
        u64
    };
    (Bool) => {
        $crate::view::Bool
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_agree_with_the_types() {
        for kind in Kind::ALL {
            let (size, back) = with_kind!(kind, T => (std::mem::size_of::<T>(), <T as Elem>::KIND));
            assert_eq!((size, back), (kind.size(), kind), "{}", kind.name());
            assert_eq!(Kind::from_code(kind.code()), Some(kind));
        }
        assert_eq!(Kind::from_code(13), None);
    }

    #[test]
    fn a_listed_dispatch_falls_through_for_the_rest() {
        let f = |k| with_kind!(k, [F32, F16], T => T::KIND.size(), else 0);
        assert_eq!([f(Kind::F32), f(Kind::F16), f(Kind::I8)], [4, 2, 0]);
    }
}
