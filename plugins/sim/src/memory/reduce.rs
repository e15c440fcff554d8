//! `REDUCE_ASYNC`: copies that combine the source with the destination, element by element in a
//! fixed order.
//!
//! 16-bit floats are widened to f32 for each element and rounded once, as the copy engine does.
use ge_plugin_api::types::DType;
use half::{bf16, f16};

/// The reductions, by their number in `DeviceTask::numbers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// Sum of the elements.
    Sum,
    /// Greatest element; a NaN is kept.
    Max,
    /// Least element; a NaN is kept.
    Min,
    /// Product of the elements.
    Prod,
}

impl Reduction {
    /// The reduction with this number: 0 sum, 1 max, 2 min, 3 prod.
    pub fn from_code(code: i64) -> Option<Reduction> {
        Some(match code {
            0 => Reduction::Sum,
            1 => Reduction::Max,
            2 => Reduction::Min,
            3 => Reduction::Prod,
            _ => return None,
        })
    }
}

/// Size in bytes of an element; `None` for types that cannot be reduced.
pub fn width(dtype: DType) -> Option<u64> {
    Some(match dtype {
        DType::I8 | DType::U8 => 1,
        DType::F16 | DType::BF16 | DType::I16 | DType::U16 => 2,
        DType::F32 | DType::I32 | DType::U32 => 4,
        DType::F64 | DType::I64 | DType::U64 => 8,
        _ => return None,
    })
}

trait Element: Copy {
    fn reduce(self, other: Self, r: Reduction) -> Self;
}
macro_rules! whole {
    ($($t:ty),+) => {$(impl Element for $t {
        fn reduce(self, o: $t, r: Reduction) -> $t {
            match r {
                Reduction::Sum => self.wrapping_add(o),
                Reduction::Max => self.max(o),
                Reduction::Min => self.min(o),
                Reduction::Prod => self.wrapping_mul(o),
            }
        }
    })+};
}
whole!(i8, u8, i16, u16, i32, u32, i64, u64);
macro_rules! real {
    ($($t:ty),+) => {$(impl Element for $t {
        fn reduce(self, o: $t, r: Reduction) -> $t {
            match r {
                Reduction::Sum => self + o,
                Reduction::Prod => self * o,
                _ if self.is_nan() => self,
                _ if o.is_nan() => o,
                Reduction::Max => if o > self { o } else { self },
                Reduction::Min => if o < self { o } else { self },
            }
        }
    })+};
}
real!(f32, f64);
macro_rules! halves {
    ($($t:ty),+) => {$(impl Element for $t {
        fn reduce(self, o: $t, r: Reduction) -> $t {
            <$t>::from_f32(self.to_f32().reduce(o.to_f32(), r))
        }
    })+};
}
halves!(f16, bf16);

/// Combines `bytes / width` elements at `from` into those at `to`.
///
/// # Safety
/// Both ranges must be live memory of this process that no other task accesses. They may be equal
/// but must not overlap otherwise.
pub unsafe fn reduce(from: u64, to: u64, bytes: u64, dtype: DType, r: Reduction) {
    /// # Safety
    /// As `reduce`.
    unsafe fn run<T: Element>(from: u64, to: u64, bytes: u64, r: Reduction) {
        let (from, to) = (from as *const T, to as *mut T);
        for i in 0..(bytes as usize / size_of::<T>()) {
            // SAFETY: by the contract of `reduce`; the accesses are unaligned because a range may
            // start at any byte.
            unsafe {
                let v = to.add(i).read_unaligned().reduce(from.add(i).read_unaligned(), r);
                to.add(i).write_unaligned(v);
            }
        }
    }
    // SAFETY: by the contract of this function; all types are plain numbers.
    unsafe {
        match dtype {
            DType::I8 => run::<i8>(from, to, bytes, r),
            DType::U8 => run::<u8>(from, to, bytes, r),
            DType::I16 => run::<i16>(from, to, bytes, r),
            DType::U16 => run::<u16>(from, to, bytes, r),
            DType::I32 => run::<i32>(from, to, bytes, r),
            DType::U32 => run::<u32>(from, to, bytes, r),
            DType::I64 => run::<i64>(from, to, bytes, r),
            DType::U64 => run::<u64>(from, to, bytes, r),
            DType::F16 => run::<f16>(from, to, bytes, r),
            DType::BF16 => run::<bf16>(from, to, bytes, r),
            DType::F32 => run::<f32>(from, to, bytes, r),
            DType::F64 => run::<f64>(from, to, bytes, r),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: Copy + PartialEq + std::fmt::Debug>(dtype: DType, a: &[T], b: &[T], r: Reduction, want: &[T]) {
        let mut to = b.to_vec();
        let bytes = size_of_val(a) as u64;
        // SAFETY: two live vectors of the same length.
        unsafe { reduce(a.as_ptr() as u64, to.as_mut_ptr() as u64, bytes, dtype, r) };
        assert_eq!(to, want, "{dtype} {r:?}");
    }

    #[test]
    fn every_reduction_on_several_types() {
        check(DType::F32, &[1.0f32, 5.0, -2.0], &[2.0, 3.0, -1.0], Reduction::Sum, &[3.0, 8.0, -3.0]);
        check(DType::F32, &[1.0f32, 5.0, -2.0], &[2.0, 3.0, -1.0], Reduction::Max, &[2.0, 5.0, -1.0]);
        check(DType::I32, &[1i32, 5, -2], &[2, 3, -1], Reduction::Min, &[1, 3, -2]);
        check(DType::I64, &[1i64, 5, -2], &[2, 3, -1], Reduction::Prod, &[2, 15, 2]);
        let h = f16::from_f32;
        check(DType::F16, &[h(1.5)], &[h(0.25)], Reduction::Sum, &[h(1.75)]);
        check(DType::I8, &[127i8], &[1], Reduction::Sum, &[-128]);
    }

    #[test]
    fn a_nan_stays_under_max_and_min() {
        for r in [Reduction::Max, Reduction::Min] {
            assert!(f32::NAN.reduce(1.0, r).is_nan());
            assert!(1.0f32.reduce(f32::NAN, r).is_nan());
        }
    }
}
