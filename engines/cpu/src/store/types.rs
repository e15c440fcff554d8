//! Lists of element types, as the rows of the table name them.
use ge_plugin_api::types::DType as D;

/// f32 f16 bf16 f64.
pub const FLOAT: &[D] = &[D::F32, D::F16, D::BF16, D::F64];
/// Whole numbers of 8 to 64 bits.
pub const INT: &[D] = &[D::I8, D::I16, D::I32, D::I64, D::U8, D::U16, D::U32, D::U64];
/// i32 i64.
pub const INDEX: &[D] = &[D::I32, D::I64];
/// bool.
pub const BOOL: &[D] = &[D::BOOL];
/// i8 u8.
pub const BYTE: &[D] = &[D::I8, D::U8];
/// Floats and whole numbers.
pub const NUM: &[D] = &[D::F32, D::F16, D::BF16, D::F64, D::I8, D::I16, D::I32, D::I64, D::U8, D::U16, D::U32, D::U64];
/// Floats, whole numbers and bool.
pub const NUMB: &[D] =
    &[D::F32, D::F16, D::BF16, D::F64, D::I8, D::I16, D::I32, D::I64, D::U8, D::U16, D::U32, D::U64, D::BOOL];
/// Floats, with those of 8 and 4 bits.
pub const FLOAT8: &[D] =
    &[D::F32, D::F16, D::BF16, D::F64, D::F8E4M3FN, D::F8E4M3FNUZ, D::F8E5M2, D::F8E5M2FNUZ, D::F8E8M0, D::F4E2M1];
/// Real numbers of any width, and bool.
pub const REAL: &[D] = &[
    D::F32,
    D::F16,
    D::BF16,
    D::F64,
    D::I8,
    D::I16,
    D::I32,
    D::I64,
    D::U8,
    D::U16,
    D::U32,
    D::U64,
    D::BOOL,
    D::F8E4M3FN,
    D::F8E4M3FNUZ,
    D::F8E5M2,
    D::F8E5M2FNUZ,
    D::F8E8M0,
    D::F4E2M1,
    D::I4,
    D::U4,
    D::I2,
    D::U2,
];
/// Every type of fixed width: what can be moved.
pub const BITS: &[D] = &[
    D::F32,
    D::F16,
    D::BF16,
    D::F64,
    D::I8,
    D::I16,
    D::I32,
    D::I64,
    D::U8,
    D::U16,
    D::U32,
    D::U64,
    D::BOOL,
    D::COMPLEX64,
    D::COMPLEX128,
    D::F8E4M3FN,
    D::F8E4M3FNUZ,
    D::F8E5M2,
    D::F8E5M2FNUZ,
    D::F8E8M0,
    D::F4E2M1,
    D::I4,
    D::U4,
    D::I2,
    D::U2,
];
