//! Instruction sets: detection, functions compiled once for each, vector mathematics.
//!
//! Kernels are written as plain loops inside [`multiversion!`](crate::multiversion), which compiles
//! a function for each [`crate::simd::Level`] and picks one at run time. Matrix products and other
//! kernels that need control over registers use the vectors of [`crate::simd::isa`] instead.

/// Detection of the machine's instruction sets.
pub mod level;
/// Vectors of sixteen single-precision lanes.
pub mod isa;
/// Exponential, logarithm, error function and their relatives, branch-free.
pub mod math;
/// Sine, cosine, tangent and their inverses, branch-free.
pub mod angle;
/// Hyperbolic functions and their inverses, branch-free.
pub mod hyperbolic;
/// The hyperbolic tangent of many numbers.
pub(crate) mod tanh;
/// Powers with any exponent.
pub mod power;
#[cfg(test)]
mod errors;
/// Conversion of numbers to bytes.
pub mod bytes;
/// The exponential of sixteen numbers that are not above zero.
pub(crate) mod exp;
/// Conversion between half and single precision.
pub mod halves;
/// Activations and other maps of one number.
pub mod act;
/// Sums and extremes of slices in one fixed order.
pub mod fold;
/// Conversion of slices between panel types and single precision.
pub(crate) mod lines;
/// Outputs of single precision, seen through another type.
pub(crate) mod singles;
/// Addresses of rows that are read side by side.
pub(crate) mod rows;
/// Transposition of sixteen vectors.
pub(crate) mod turn;

pub use act::Act;
pub use level::{Level, level, with_level};

/// Defines a function that is compiled for several instruction sets and dispatches at run time.
///
/// `multiversion! { pub fn add(a: &[f32], b: &mut [f32]) { … } }` expands to a function `add` whose
/// body is compiled three times: with `avx512f,…`, with `avx2,fma,f16c` and without extra features.
/// Type parameters are written `<T: Bound, …>`.
#[macro_export]
macro_rules! multiversion {
    ($(#[$meta:meta])* $vis:vis fn $name:ident $(<$($g:ident : $bound:path),+>)? ($($arg:ident : $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block) => {
        $(#[$meta])*
        #[allow(clippy::too_many_arguments)]
        $vis fn $name $(<$($g: $bound),+>)? ($($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            #[allow(clippy::too_many_arguments)]
            fn body $(<$($g: $bound),+>)? ($($arg: $ty),*) $(-> $ret)? $body
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
            #[allow(clippy::too_many_arguments)]
            fn avx512 $(<$($g: $bound),+>)? ($($arg: $ty),*) $(-> $ret)? { body($($arg),*) }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c")]
            #[allow(clippy::too_many_arguments)]
            fn avx2 $(<$($g: $bound),+>)? ($($arg: $ty),*) $(-> $ret)? { body($($arg),*) }
            match $crate::simd::level() {
                // SAFETY: the level is only reported if the machine has its features.
                #[cfg(target_arch = "x86_64")]
                level if level >= $crate::simd::Level::Avx512 => unsafe { avx512($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                $crate::simd::Level::Avx2 => unsafe { avx2($($arg),*) },
                _ => body($($arg),*),
            }
        }
    };
}
