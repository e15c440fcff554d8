//! Instruction sets: detection, functions compiled once for each, vector mathematics.
//!
//! Kernels are written as plain loops inside
//! [`multiversion!`](crate::multiversion), which compiles a function for each [`crate::simd::Level`]
//! and picks one at run time; the matrix product alone names vector registers
//! ([`crate::simd::isa`]).

/// Which instruction sets this machine has.
pub mod level;
/// Sixteen single-precision lanes.
pub mod isa;
/// Exponential, logarithm, error function and their relatives, branch-free.
pub mod math;
/// Sine, cosine, tangent and their inverses, branch-free.
pub mod angle;
/// Hyperbolic functions and their inverses, branch-free.
pub mod hyperbolic;
/// Powers.
pub mod power;
#[cfg(test)]
mod errors;
/// Numbers that become bytes.
pub mod bytes;
/// The exponential of sixteen numbers.
pub(crate) mod exp;
/// Half precision to single and back.
pub mod halves;
/// Activations and other maps of one number.
pub mod act;
/// Sums and extremes of slices in one fixed order.
pub mod fold;
/// Lines widened and rounded.
pub(crate) mod lines;
/// Outputs of single precision.
pub(crate) mod singles;
/// Sixteen vectors turned.
pub(crate) mod turn;

pub use act::Act;
pub use level::{Level, level, with_level};

/// Defines a function that is compiled for every [`crate::simd::Level`] and dispatches at run time.
///
/// `multiversion! { pub fn add(a: &[f32], b: &mut [f32]) { … } }` expands to a function
/// `add` whose body exists three times, under `avx512f,…`, under
/// `avx2,fma,f16c` and plainly. Type parameters are written `<T: Bound, …>`.
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
                // SAFETY: the level is only reported when the machine has its features.
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
