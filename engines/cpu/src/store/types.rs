//! Lists of element types that the rows of the table refer to.
use ge_plugin_api::types::DType as D;

/// Concatenates lists.
const fn join<const N: usize>(lists: &[&[D]]) -> [D; N] {
    let mut out = [D::UNKNOWN; N];
    let (mut n, mut l) = (0, 0);
    while l < lists.len() {
        let mut k = 0;
        while k < lists[l].len() {
            out[n] = lists[l][k];
            (n, k) = (n + 1, k + 1);
        }
        l += 1;
    }
    assert!(n == N, "the list has another length");
    out
}

/// f32 f16 bf16 f64.
pub const FLOAT: &[D] = &[D::F32, D::F16, D::BF16, D::F64];
/// Integers of 8 to 64 bits.
pub const INT: &[D] = &[D::I8, D::I16, D::I32, D::I64, D::U8, D::U16, D::U32, D::U64];
/// i32 i64.
pub const INDEX: &[D] = &[D::I32, D::I64];
/// bool.
pub const BOOL: &[D] = &[D::BOOL];
/// i8 u8.
pub const BYTE: &[D] = &[D::I8, D::U8];
/// The floating-point types of 8 bits that hold signed numbers.
pub const F8: &[D] = &[D::F8E4M3FN, D::F8E4M3FNUZ, D::F8E5M2, D::F8E5M2FNUZ];
/// i8, u8 and floating-point types of 8 bits.
pub const BYTE_F8: &[D] = &join::<6>(&[BYTE, F8]);
/// Floating-point types, including those of 8 bits.
pub const FLOAT_F8: &[D] = &join::<8>(&[FLOAT, F8]);
const COMPLEX: &[D] = &[D::COMPLEX64, D::COMPLEX128];
/// Floating-point types of 8 and 4 bits.
const SMALL_FLOAT: &[D] = &[D::F8E4M3FN, D::F8E4M3FNUZ, D::F8E5M2, D::F8E5M2FNUZ, D::F8E8M0, D::F4E2M1];
/// Integers of 4 and 2 bits.
const SMALL_INT: &[D] = &[D::I4, D::U4, D::I2, D::U2];
/// Floating-point types and integers.
pub const NUM: &[D] = &join::<12>(&[FLOAT, INT]);
/// Floating-point types, integers and bool.
pub const NUMB: &[D] = &join::<13>(&[NUM, BOOL]);
/// Floating-point types, including those of 8 and 4 bits.
pub const FLOAT8: &[D] = &join::<10>(&[FLOAT, SMALL_FLOAT]);
/// Real number types of any width, and bool.
pub const REAL: &[D] = &join::<23>(&[NUMB, SMALL_FLOAT, SMALL_INT]);
/// Strings only.
pub const TEXT: &[D] = &[D::STRING];
/// Words, as numbers or as strings.
pub const INDEX_TEXT: &[D] = &join::<3>(&[INDEX, TEXT]);
/// Real number types of any width, bool, and strings.
pub const REAL_TEXT: &[D] = &join::<24>(&[REAL, TEXT]);
/// Numbers, bool and strings: the types that have an order.
pub const NUMB_TEXT: &[D] = &join::<14>(&[NUMB, TEXT]);
/// Every type of fixed width: its elements are stored directly in the tensor.
pub const BITS: &[D] = &join::<25>(&[NUMB, COMPLEX, SMALL_FLOAT, SMALL_INT]);
/// Every type.
pub const ANY: &[D] = &join::<26>(&[BITS, TEXT]);
