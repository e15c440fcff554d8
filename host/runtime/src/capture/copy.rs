//! The kernel that copies an output aside. It also counts the copies and keeps where the first
//! value that is no finite number stood: in a loop, each turn overwrites the copy of the last one.
use ge_plugin_api::Result;
use ge_plugin_api::kernel::{Access, BlockArgs, BlockKernel, LoadedKernel, block_kernel};
use ge_plugin_api::types::DType;

/// The first turn of a node that gave a value that is no finite number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotFinite {
    /// The turn, from 1, among those of its launch.
    pub turn: u64,
    /// Index of the first such value. A complex number counts as two values.
    pub element: u64,
    /// Number of such values in that turn.
    pub count: u64,
    /// Bits of the first one.
    pub bits: u64,
}

/// What a run recorded of one copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Number of copies made; 0 if the task before it did not run.
    pub(crate) times: u64,
    /// The first turn that gave a value that is no finite number, if any did.
    pub(crate) not_finite: Option<NotFinite>,
}

/// Number of 64-bit words of a mark in memory.
pub(crate) const WORDS: usize = 5;
/// Number of bytes of a mark in memory.
pub(crate) const MARK: u64 = 8 * WORDS as u64;

impl Mark {
    /// Reads a mark from memory. Zeros are the mark of a copy that was never made.
    pub(crate) fn of(words: &[u64]) -> Mark {
        let &[times, turn, element, count, bits] = words else { return Mark::default() };
        Mark { times, not_finite: (turn > 0).then_some(NotFinite { turn, element, count, bits }) }
    }

    /// Counts one more copy, which has these bytes.
    fn add(&mut self, dtype: DType, bytes: &[u8]) {
        self.times += 1;
        if self.not_finite.is_none() {
            self.not_finite =
                stray(dtype, bytes).map(|(element, count, bits)| NotFinite { turn: self.times, element, count, bits });
        }
    }

    fn words(self) -> [u64; WORDS] {
        let n = self.not_finite.unwrap_or(NotFinite { turn: 0, element: 0, count: 0, bits: 0 });
        [self.times, n.turn, n.element, n.count, n.bits]
    }
}

/// Copies argument 0 to argument 1 and keeps its mark in argument 2.
struct Copy {
    dtype: DType,
}

impl BlockKernel for Copy {
    fn run(&self, call: &BlockArgs<'_>) -> Result<()> {
        let from = call.input::<u8>(0)?;
        call.output::<u8>(1, 0..from.len())?.copy_from_slice(from);
        let words = call.output::<u64>(2, 0..WORDS)?;
        let mut mark = Mark::of(words);
        mark.add(self.dtype, from);
        words.copy_from_slice(&mark.words());
        Ok(())
    }
}

/// Access of each argument of the kernel.
pub(crate) const ACCESS: [Access; 3] = [Access::READ, Access::WRITE, Access::READ_WRITE];

/// The kernel for an output of this type and size.
pub(crate) fn kernel(dtype: DType, bytes: u64) -> LoadedKernel {
    block_kernel(Box::new(Copy { dtype }), vec![bytes, bytes, MARK], ACCESS.to_vec(), 0)
}

/// Index and bits of the first value that is no finite number, and how many there are; `None` if
/// there is none or the type has only finite numbers.
fn stray(dtype: DType, bytes: &[u8]) -> Option<(u64, u64, u64)> {
    let wide = |exponent: u64| move |v: u64| v & exponent == exponent;
    match dtype {
        DType::F64 | DType::COMPLEX128 => first::<8>(bytes, wide(0x7ff << 52)),
        DType::F32 | DType::COMPLEX64 => first::<4>(bytes, wide(0xff << 23)),
        DType::F16 => first::<2>(bytes, wide(0x1f << 10)),
        DType::BF16 => first::<2>(bytes, wide(0xff << 7)),
        DType::F8E5M2 => first::<1>(bytes, wide(0x1f << 2)),
        DType::F8E4M3FN => first::<1>(bytes, wide(0x7f)),
        DType::F8E4M3FNUZ | DType::F8E5M2FNUZ => first::<1>(bytes, |v| v == 0x80),
        DType::F8E8M0 => first::<1>(bytes, |v| v == 0xff),
        _ => None,
    }
}

fn first<const N: usize>(bytes: &[u8], is: impl Fn(u64) -> bool) -> Option<(u64, u64, u64)> {
    let bits = |v: &[u8; N]| v.iter().rev().fold(0u64, |a, b| a << 8 | u64::from(*b));
    let all = bytes.as_chunks::<N>().0;
    let at = all.iter().position(|v| is(bits(v)))?;
    let count = all[at..].iter().filter(|v| is(bits(v))).count();
    Some((at as u64, count as u64, bits(&all[at])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_keeps_the_first_turn_without_finite_numbers() {
        let f = |v: [f32; 3]| v.map(f32::to_le_bytes).concat();
        let mut mark = Mark::default();
        for v in [[1.0, 2.0, 3.0], [1.0, f32::INFINITY, f32::NAN], [f32::NAN; 3], [0.0; 3]] {
            mark.add(DType::F32, &f(v));
        }
        let first = NotFinite { turn: 2, element: 1, count: 2, bits: u64::from(f32::INFINITY.to_bits()) };
        assert_eq!(mark, Mark { times: 4, not_finite: Some(first) });
        assert_eq!(Mark::of(&mark.words()), mark);
        assert_eq!(Mark::of(&[0; WORDS]), Mark::default());
    }

    #[test]
    fn every_type_has_its_own_numbers_that_are_not_finite() {
        for (dtype, finite, stray_one) in [
            (DType::F64, f64::MAX.to_bits(), f64::NEG_INFINITY.to_bits()),
            (DType::F32, u64::from(f32::MAX.to_bits()), u64::from(f32::NAN.to_bits())),
            (DType::F16, 0x7bff, 0xfc00),
            (DType::BF16, 0x7f7f, 0x7fc0),
            (DType::F8E5M2, 0x7b, 0x7c),
            (DType::F8E4M3FN, 0x7e, 0xff),
            (DType::F8E4M3FNUZ, 0x7f, 0x80),
            (DType::F8E5M2FNUZ, 0xff, 0x80),
            (DType::F8E8M0, 0xfe, 0xff),
        ] {
            let width = dtype.bits().expect("of a size") as usize / 8;
            let bytes = [&finite.to_le_bytes()[..width], &stray_one.to_le_bytes()[..width]].concat();
            assert_eq!(stray(dtype, &bytes), Some((1, 1, stray_one)), "{dtype}");
            assert_eq!(stray(dtype, &bytes[..width]), None, "{dtype}");
        }
        assert_eq!(stray(DType::I32, &[0xff; 8]), None);
    }
}
