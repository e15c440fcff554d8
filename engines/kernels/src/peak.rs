//! What this machine reaches at best, measured: multiply-adds in registers, and memory that is read
//! and written. Kernels are held against it.
use crate::simd::isa::{Isa, Work, dispatch};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Rates of one or several threads together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Peak {
    /// Operations in single precision in a second; a multiply-add is two.
    pub singles: f64,
    /// Operations on bytes in a second; a multiply-add is two. As `singles` where the machine has no
    /// dot product of bytes.
    pub bytes: f64,
    /// Bytes in a second that a copy reads and writes together.
    pub copied: f64,
}

/// How long each rate is measured.
const LONG: Duration = Duration::from_millis(12);
/// Multiply-adds of a lane between two looks at the clock, a register.
const TURNS: usize = 2000;
/// Numbers that a thread copies: more than the caches hold.
const COPIED: usize = 8 << 20;

/// The rates of this many threads at once, with the instruction set in use on this one.
pub fn measure(threads: usize) -> Peak {
    let level = crate::simd::level();
    let gate = std::sync::Barrier::new(threads.max(1));
    let one = || {
        crate::simd::with_level(level, || {
            let (from, mut to) = (vec![1.0f32; COPIED], vec![0.0f32; COPIED]);
            // The first copy touches the pages.
            copy(&from, &mut to);
            gate.wait();
            let singles = rate(|| dispatch(Registers));
            gate.wait();
            let bytes = if crate::simd::level::vnni() { rate(byte_registers) } else { singles };
            gate.wait();
            let copied = rate(|| {
                copy(&from, &mut to);
                2.0 * size_of_val(from.as_slice()) as f64
            });
            Peak { singles, bytes, copied }
        })
    };
    let sum = |a: Peak, b: Peak| Peak {
        singles: a.singles + b.singles,
        bytes: a.bytes + b.bytes,
        copied: a.copied + b.copied,
    };
    std::thread::scope(|s| {
        let helpers: Vec<_> = (1..threads.max(1)).map(|_| s.spawn(one)).collect();
        let own = one();
        helpers.into_iter().filter_map(|h| h.join().ok()).fold(own, sum)
    })
}

/// What `f` says it has done, in a second: its best turn of those in [`LONG`].
fn rate(mut f: impl FnMut() -> f64) -> f64 {
    let begin = Instant::now();
    let mut best = 0.0f64;
    while begin.elapsed() < LONG {
        let start = Instant::now();
        let done = f();
        best = best.max(done / start.elapsed().as_secs_f64().max(1e-9));
    }
    best
}

fn copy(from: &[f32], to: &mut [f32]) {
    to.copy_from_slice(black_box(from));
    black_box(to);
}

/// Multiply-adds that hang on nothing but their own register.
struct Registers;

impl Work for Registers {
    type Out = f64;
    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) -> f64 {
        let (a, b) = (isa.splat(black_box(0.5)), isa.splat(black_box(0.25)));
        let mut sums = [isa.splat(0.0); MR];
        for _ in 0..TURNS {
            for s in &mut sums {
                *s = isa.fma(*s, a, b);
            }
        }
        let mut all = [0.0; 16];
        for s in sums {
            isa.store(s, &mut all);
            black_box(&all);
        }
        (TURNS * MR * 16 * 2) as f64
    }
}

#[cfg(target_arch = "x86_64")]
fn byte_registers() -> f64 {
    // SAFETY: only called where `vnni` has found the instructions.
    unsafe { on_vnni() }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn on_vnni() -> f64 {
    use std::arch::x86_64::{_mm512_dpbusd_epi32, _mm512_set1_epi32};
    const CHAINS: usize = 12;
    let (a, b) = (_mm512_set1_epi32(black_box(0x0101_0101)), _mm512_set1_epi32(black_box(0x0201_0201)));
    let mut sums = [_mm512_set1_epi32(0); CHAINS];
    for _ in 0..TURNS {
        for s in &mut sums {
            *s = _mm512_dpbusd_epi32(*s, a, b);
        }
    }
    black_box(&sums);
    (TURNS * CHAINS * 64 * 2) as f64
}

#[cfg(not(target_arch = "x86_64"))]
fn byte_registers() -> f64 {
    dispatch(Registers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{Level, with_level};

    #[test]
    fn rates_are_there_for_every_instruction_set() {
        for level in Level::available() {
            let p = with_level(level, || measure(1));
            assert!(p.singles > 1e8 && p.bytes >= p.singles && p.copied > 1e8, "{level:?}: {p:?}");
        }
    }
}
