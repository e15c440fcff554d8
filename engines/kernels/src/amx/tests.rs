//! The software tiles compared with explicit sums, and the instructions compared with the software
//! tiles.
use super::software::Software;
use super::*;
use proptest::prelude::*;

fn bytes(n: usize, seed: u64) -> Vec<u8> {
    let mut s = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..n)
        .map(|_| {
            s ^= s << 13;
            s ^= s >> 7;
            s ^= s << 17;
            (s >> 40) as u8
        })
        .collect()
}

/// The product of an `m` x `k` tile (in groups of four bytes) and a `k` x `n` tile, added twice.
fn twice<T: Tiles, D: Dot>([m, k, n]: [usize; 3], a: &[D::A], b: &[D::B], from: &[D::C]) -> Vec<D::C> {
    let (deep, wide) = (k * 4 / size_of::<D::A>(), n * 4 / size_of::<D::B>());
    let mut t = T::configure(&[(m, n * 4), (0, 0), (m, k * 4), (0, 0), (0, 0), (0, 0), (0, 0), (k, n * 4)]);
    let mut sums = from.to_vec();
    t.load::<2, _>(a, deep);
    // SAFETY: `b` has all of the tile.
    unsafe { t.load_once::<7, _>(b.as_ptr(), wide) };
    t.load::<0, _>(from, n);
    t.dot::<D, 0, 2, 7>();
    t.dot::<D, 0, 2, 7>();
    t.store::<0, _>(&mut sums, n);
    sums
}

/// The instructions compared with the software.
fn beside<D: Dot>(shape: [usize; 3], a: &[D::A], b: &[D::B], from: &[D::C]) -> Vec<D::C> {
    let want = twice::<Software, D>(shape, a, b, from);
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    assert_eq!(twice::<emulated::Emulated, D>(shape, a, b, from), want);
    want
}

fn of_bytes<D: Dot<C = i32>>([m, k, n]: [usize; 3], a: &[D::A], b: &[D::B], from: &[i32]) {
    let got = beside::<D>([m, k, n], a, b, from);
    for i in 0..m {
        for j in 0..n {
            let product = |x: usize| {
                let (a, b) = (a[i * k * 4 + x], b[(x / 4 * n + j) * 4 + x % 4]);
                (a.to_f64() * b.to_f64()) as i32
            };
            let sum = (0..k * 4).map(product).fold(0i32, i32::wrapping_add);
            assert_eq!(got[i * n + j], from[i * n + j].wrapping_add(sum.wrapping_mul(2)), "{i} {j}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    #[test]
    fn tiles_of_bytes_multiply_exactly(m in 1usize..=16, k in 1usize..=16, n in 1usize..=16, seed in 1u64..9999) {
        let (a, b) = (bytes(m * k * 4, seed), bytes(k * n * 4, seed + 1));
        let signed = |v: &[u8]| v.iter().map(|v| *v as i8).collect::<Vec<_>>();
        // Sums near the ends of their range, so that they wrap.
        let from: Vec<i32> = bytes(m * n, seed + 2).iter().map(|v| i32::MAX - i32::from(*v)).collect();
        of_bytes::<UnsignedSigned>([m, k, n], &a, &signed(&b), &from);
        of_bytes::<Signed>([m, k, n], &signed(&a), &signed(&b), &from);
        of_bytes::<SignedUnsigned>([m, k, n], &signed(&a), &b, &from);
    }

    #[test]
    fn tiles_of_halves_multiply_as_the_manual_says(m in 1usize..=16, k in 1usize..=16, n in 1usize..=16, seed in 1u64..9999) {
        // Any bits except NaN, for which the result's bits are not specified.
        let halves = |n: usize, seed: u64| -> Vec<bf16> {
            let all = bytes(n * 2, seed);
            let of = |c: &[u8; 2]| bf16::from_bits(u16::from_le_bytes(*c) & 0xbfff);
            all.as_chunks::<2>().0.iter().map(of).collect()
        };
        let (a, b) = (halves(m * k * 2, seed), halves(k * n * 2, seed + 1));
        let from: Vec<f32> = bytes(m * n, seed + 2).iter().map(|v| f32::from(*v) - 100.0).collect();
        let got = beside::<Bf16>([m, k, n], &a, &b, &from);
        for i in 0..m {
            for j in 0..n {
                let exact: f64 = (0..k * 2)
                    .map(|x| f64::from(a[i * k * 2 + x].to_f32()) * f64::from(b[(x / 2 * n + j) * 2 + x % 2].to_f32()))
                    .sum();
                let size: f64 = (0..k * 2)
                    .map(|x| (a[i * k * 2 + x].to_f64() * b[(x / 2 * n + j) * 2 + x % 2].to_f64()).abs())
                    .sum::<f64>() + f64::from(from[i * n + j]).abs();
                let want = f64::from(from[i * n + j]) + 2.0 * exact;
                prop_assert!((f64::from(got[i * n + j]) - want).abs() <= size * 1e-5 + 1e-30, "{i} {j}");
            }
        }
    }
}

/// Values whose sums depend on the order of the additions, and subnormal values. The results were
/// worked out by hand from the manual's text.
#[test]
fn halves_are_summed_in_the_order_of_the_manual() {
    let half = bf16::from_f32;
    let one = |a: &[f32], b: &[f32], from: f32| {
        let (a, b): (Vec<bf16>, Vec<bf16>) =
            (a.iter().map(|v| half(*v)).collect(), b.iter().map(|v| half(*v)).collect());
        let mut t =
            Software::configure(&[(1, 4), (1, a.len() * 2), (a.len() / 2, 4), (0, 0), (0, 0), (0, 0), (0, 0), (0, 0)]);
        let mut sum = [from];
        t.load::<1, _>(&a, a.len());
        t.load::<2, _>(&b, 2);
        t.load::<0, _>(&sum, 1);
        t.dot::<Bf16, 0, 1, 2>();
        t.store::<0, _>(&mut sum, 1);
        sum[0]
    };
    let big = 16_777_216.0;
    // Even positions in k: 2^24, then 1, which is lost. Odd positions: -2^24, then 1, which is
    // kept.
    assert_eq!(one(&[big, -big, 1.0, 1.0], &[1.0; 4], 0.0), 1.0);
    // The product is summed first: added to C one at a time, both ones would have been lost.
    assert_eq!(one(&[1.0, 1.0], &[1.0; 2], big), big + 2.0);
    // Subnormal inputs count as zero, and subnormal results become zero.
    let tiny = f32::from_bits(0x0040_0000);
    assert_eq!(one(&[tiny, 0.0], &[big, 0.0], 0.0), 0.0);
    assert_eq!(one(&[2f32.powi(-70), 0.0], &[2f32.powi(-60), 0.0], 0.0), 0.0);
    assert_eq!(one(&[2f32.powi(-70), 0.0], &[2f32.powi(-56), 0.0], 0.0), 2f32.powi(-126));
    assert_eq!(one(&[1.0, 0.0], &[1.0, 0.0], tiny), 1.0);
}

#[test]
fn a_tile_that_memory_does_not_hold_is_refused() {
    let load = |len: usize| {
        std::panic::catch_unwind(|| Software::configure(&[(16, 64); TILES]).load::<0, u8>(&vec![0; len], 64))
    };
    assert!(load(1023).is_err() && load(1024).is_ok());
    assert!(!holds((0, 64), 4096, 1, 64) && !holds((16, 64), 4096, 1, usize::MAX));
}
