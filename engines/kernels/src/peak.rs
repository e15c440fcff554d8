//! Measures the peak performance of this machine: multiply-adds in registers and tiles, and memory
//! throughput. Kernels are compared with it.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use crate::amx;
use crate::simd::isa::{Isa, Work, dispatch};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Combined rates of one or several threads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Peak {
    /// Single-precision operations per second; a multiply-add counts as two.
    pub singles: f64,
    /// Operations on bytes per second; a multiply-add counts as two. Equal to `singles` on machines
    /// without instructions for products of bytes.
    pub bytes: f64,
    /// Operations on bf16 halves per second; a multiply-add counts as two. Equal to `singles` on
    /// machines that cannot multiply them directly.
    pub bf16: f64,
    /// Bytes per second that a copy reads and writes, added together.
    pub copied: f64,
    /// Bytes per second that a sum reads.
    pub read: f64,
}

/// Duration of each measurement.
const LONG: Duration = Duration::from_millis(12);
/// Multiply-adds per register and lane between two readings of the clock.
const TURNS: usize = 2000;
/// Count of numbers that a thread copies or reads: 64 MiB, more than fit in most caches.
const COPIED: usize = 16 << 20;
/// Most calls before the calls that count, and by how much each must be faster than the ones before.
/// On a virtual machine, the first accesses to memory wait until the host has mapped it.
const WARM_UP: usize = 12;
const FASTER: f64 = 1.03;

/// Measures the rates of `threads` threads running at once, limited to the instruction set in use
/// on the calling thread.
pub fn measure(threads: usize) -> Peak {
    let level = crate::simd::level();
    let gate = std::sync::Barrier::new(threads.max(1));
    let one = || {
        crate::simd::with_level(level, || {
            let (from, mut to) = (in_large_pages(1.0), in_large_pages(0.0));
            // The first copy makes the system map the pages.
            copy(&from, &mut to);
            gate.wait();
            let singles = rate(|| dispatch(Registers));
            gate.wait();
            let bytes = registers(Numbers::Bytes).map_or(singles, rate);
            gate.wait();
            let bf16 = registers(Numbers::Bf16).map_or(singles, rate);
            gate.wait();
            let size = size_of_val(from.as_slice()) as f64;
            let copied = warm_rate(|| {
                copy(&from, &mut to);
                2.0 * size
            });
            gate.wait();
            let read = warm_rate(|| {
                dispatch(Sum(&from));
                size
            });
            Peak { singles, bytes, bf16, copied, read }
        })
    };
    let sum = |a: Peak, b: Peak| Peak {
        singles: a.singles + b.singles,
        bytes: a.bytes + b.bytes,
        bf16: a.bf16 + b.bf16,
        copied: a.copied + b.copied,
        read: a.read + b.read,
    };
    std::thread::scope(|s| {
        let helpers: Vec<_> = (1..threads.max(1)).map(|_| s.spawn(one)).collect();
        let own = one();
        helpers.into_iter().filter_map(|h| h.join().ok()).fold(own, sum)
    })
}

/// [`COPIED`] times this number; in large pages if the system has them, as weights and the memory
/// of a device are.
fn in_large_pages(number: f32) -> Vec<f32> {
    let mut all: Vec<f32> = Vec::with_capacity(COPIED);
    #[cfg(target_os = "linux")]
    {
        let (start, bytes) = (all.as_mut_ptr().cast::<u8>(), COPIED * size_of::<f32>());
        let skip = start.align_offset(4096).min(bytes);
        // SAFETY: whole pages of memory that `all` owns; advice does not change their contents.
        unsafe { libc::madvise(start.add(skip).cast(), (bytes - skip) & !4095, libc::MADV_HUGEPAGE) };
    }
    all.resize(COPIED, number);
    all
}

/// The amount that `f` reports, per second: the best of the calls within [`LONG`].
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

/// Like [`rate`], after calls that became faster and faster.
fn warm_rate(mut f: impl FnMut() -> f64) -> f64 {
    let mut best = 0.0f64;
    for _ in 0..WARM_UP {
        let start = Instant::now();
        let now = f() / start.elapsed().as_secs_f64().max(1e-9);
        if now < best * FASTER {
            break;
        }
        best = now;
    }
    rate(f).max(best)
}

fn copy(from: &[f32], to: &mut [f32]) {
    to.copy_from_slice(black_box(from));
    black_box(to);
}

/// Multiply-adds that depend only on their own register.
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

/// Adds up numbers, in eight sums that do not wait for each other.
struct Sum<'a>(&'a [f32]);

impl Work for Sum<'_> {
    type Out = ();
    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        let mut sums = [isa.splat(0.0); 8];
        for lines in self.0.as_chunks::<16>().0.chunks_exact(8) {
            for (s, line) in sums.iter_mut().zip(lines) {
                *s = isa.add(*s, isa.load(line));
            }
        }
        for s in sums {
            let mut all = [0.0; 16];
            isa.store(s, &mut all);
            black_box(&all);
        }
    }
}

/// Element type that registers or tiles multiply.
#[derive(Clone, Copy)]
enum Numbers {
    Bytes,
    Bf16,
}

/// The fastest instructions for this type that the level in use has, as a function that returns the
/// number of operations it did. `None` if there are none.
#[cfg(target_arch = "x86_64")]
fn registers(of: Numbers) -> Option<fn() -> f64> {
    use crate::simd::level;
    #[cfg(target_os = "linux")]
    if level::amx() {
        return Some(match of {
            Numbers::Bytes => in_tiles::<amx::hardware::Hardware, amx::UnsignedSigned>,
            Numbers::Bf16 => in_tiles::<amx::hardware::Hardware, amx::Bf16>,
        });
    }
    match of {
        // SAFETY: the levels are only reported if the machine has the instructions.
        Numbers::Bytes if level::vnni() => Some(|| unsafe { on_vnni() }),
        // SAFETY: as above.
        Numbers::Bytes => (crate::simd::level() >= crate::simd::Level::Avx2).then_some(|| unsafe { on_avx2() }),
        // SAFETY: as above.
        Numbers::Bf16 => level::bf16().then_some(|| unsafe { on_bf16() }),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn registers(_: Numbers) -> Option<fn() -> f64> {
    None
}

/// Number of registers whose sums do not wait for each other.
#[cfg(target_arch = "x86_64")]
const CHAINS: usize = 12;

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn on_vnni() -> f64 {
    use std::arch::x86_64::{_mm512_dpbusd_epi32, _mm512_set1_epi32};
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

/// Bytes widened to 16 bits, as kernels multiply them without a dot product of bytes.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn on_avx2() -> f64 {
    use std::arch::x86_64::{_mm256_add_epi32, _mm256_madd_epi16, _mm256_set1_epi32};
    let a = _mm256_set1_epi32(black_box(0x0001_0001));
    let mut sums = [_mm256_set1_epi32(1); CHAINS];
    for _ in 0..TURNS {
        for s in &mut sums {
            *s = _mm256_add_epi32(*s, _mm256_madd_epi16(*s, a));
        }
    }
    black_box(&sums);
    (TURNS * CHAINS * 16 * 2) as f64
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
fn on_bf16() -> f64 {
    use std::arch::x86_64::{_mm512_cvtne2ps_pbh, _mm512_dpbf16_ps, _mm512_set1_ps};
    let half = _mm512_set1_ps(black_box(0.5));
    let a = _mm512_cvtne2ps_pbh(half, half);
    let mut sums = [_mm512_set1_ps(0.0); CHAINS];
    for _ in 0..TURNS {
        for s in &mut sums {
            *s = _mm512_dpbf16_ps(*s, a, a);
        }
    }
    black_box(&sums);
    (TURNS * CHAINS * 32 * 2) as f64
}

/// Products of tiles into four tiles of sums, as kernels compute them.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn in_tiles<T: amx::Tiles, D: amx::Dot>() -> f64 {
    let mut t = T::configure(&amx::block::shapes(amx::block::TOGETHER));
    for _ in 0..TURNS {
        t.dot::<D, 0, 4, 6>();
        t.dot::<D, 1, 4, 7>();
        t.dot::<D, 2, 5, 6>();
        t.dot::<D, 3, 5, 7>();
    }
    let depth = amx::BYTES / size_of::<D::A>();
    (TURNS * 4 * amx::ROWS * amx::ROWS * depth * 2) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{Level, with_level};

    #[test]
    fn rates_are_there_for_every_instruction_set() {
        for level in Level::available() {
            let p = with_level(level, || measure(1));
            let all = [p.singles, p.bytes, p.bf16, p.copied, p.read];
            assert!(all.iter().all(|v| v.is_finite() && *v > 0.0), "{level:?}: {p:?}");
            assert_eq!(p.bytes == p.singles, level < Level::Avx2, "{level:?}: {p:?}");
            assert_eq!(p.bf16 == p.singles, level < Level::Bf16, "{level:?}: {p:?}");
        }
    }
}
