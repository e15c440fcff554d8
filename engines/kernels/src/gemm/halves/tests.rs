//! Products of halves with AMX tiles and with dot products, compared with the definition in double
//! precision.
use super::*;
use crate::amx::software::Software;
use crate::gemm::{Bias, Matrix, pack_columns, packed_len};
use crate::simd::{Act, Level, with_level};
use crate::view::block_range;
use proptest::prelude::*;

fn numbers(n: usize, seed: u64) -> Vec<bf16> {
    let mut s = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..n)
        .map(|_| {
            s ^= s << 13;
            s ^= s >> 7;
            s ^= s << 17;
            bf16::from_f32(((s >> 40) as f32 / (1u64 << 24) as f32) * 2.0 - 1.0)
        })
        .collect()
}

/// A product whose operands are followed by NaN, which must not affect the result.
struct Case {
    g: Gemm,
    a: Vec<bf16>,
    b: Vec<bf16>,
    want: Vec<f64>,
    /// Sums of the absolute values of the terms.
    size: Vec<f64>,
}

fn case(m: usize, n: usize, k: usize, turned: [bool; 2], packed: Option<usize>, batch: usize, seed: u64) -> Case {
    let (a, b) = (numbers(batch * m * k, seed), numbers(batch * k * n, seed + 7));
    let sa = if turned[0] { Matrix::transposed(m) } else { Matrix::rows(k) };
    let sb = if turned[1] { Matrix::transposed(k) } else { Matrix::rows(n) };
    let (mut want, mut size) = (vec![0.0; batch * m * n], vec![0.0; batch * m * n]);
    for t in 0..batch {
        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
            for x in 0..k {
                let of =
                    a[t * m * k + i * sa.row + x * sa.col].to_f64() * b[t * k * n + x * sb.row + j * sb.col].to_f64();
                want[(t * m + i) * n + j] += of;
                size[(t * m + i) * n + j] += of.abs();
            }
        }
    }
    let place = |each: usize| move |t: usize| [t * m * k, t * each];
    let (bm, b, batch) = match packed {
        Some(more) => {
            let (rows, each) = (k + more, packed_len(k + more, n));
            let mut all = vec![bf16::NAN; each * batch];
            for (t, to) in all.chunks_exact_mut(each).enumerate() {
                let mut own = vec![bf16::ZERO; packed_len(k, n)];
                pack_columns(&b[t * k * n..][..k * n], k, n, sb.row, sb.col, &mut own);
                for (to, from) in to.chunks_exact_mut(rows * 16).zip(own.chunks_exact(k * 16)) {
                    to[..k * 16].copy_from_slice(from);
                }
            }
            (BMatrix::Packed { rows }, all, (0..batch).map(place(each)).collect())
        }
        None => (BMatrix::Plain(sb), b, (0..batch).map(place(k * n)).collect()),
    };
    Case { g: Gemm::new([m, n, k], sa, bm, batch).unwrap(), a, b, want, size }
}

/// The sums of a product computed in one way; its units are divided among blocks.
fn sums(c: &Case, g: &Gemm, way: Option<Way>, blocks: usize) -> Vec<f32> {
    let mut out = vec![f32::NAN; c.want.len()];
    let o = Operands { a: &c.a, b: &c.b, epilogue: &Epilogue::default() };
    for block in (0..blocks).rev() {
        let units = block_range(g.units(), block, blocks);
        match way {
            None => tiles::run::<Software, f32>(g, units, &o, &mut Out::new(&mut out)),
            Some(way) => run(g, way, units, &o, &mut Out::new(&mut out)),
        }
    }
    out
}

fn ways(packed: bool) -> Vec<Option<Way>> {
    let mut ways = vec![None];
    if Level::available().contains(&Level::Bf16) {
        ways.push(Some(Way::Dots { woven: true }));
        ways.extend(packed.then_some(Some(Way::Dots { woven: false })));
    }
    if Level::available().contains(&Level::Amx) {
        ways.push(Some(Way::Tiles));
    }
    ways
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, ..ProptestConfig::default() })]
    #[test]
    fn every_way_agrees_with_the_definition(
        m in 1usize..70, n in 1usize..90, k in 1usize..150, turned in any::<[bool; 2]>(), packed in prop::option::of(0usize..3),
        batch in 1usize..3, tile in (1usize..80, 1usize..100), seed in 1u64..9999,
    ) {
        let c = case(m, n, k, turned, packed, batch, seed);
        for way in ways(packed.is_some()) {
            let first = sums(&c, &c.g, way, 1);
            for (at, got) in first.iter().enumerate() {
                // Each addition is rounded to 24 bits.
                let limit = c.size[at] * (k as f64 + 2.0) * 2f64.powi(-24);
                prop_assert!((f64::from(*got) - c.want[at]).abs() <= limit, "{way:?} {at}: {got} for {}", c.want[at]);
            }
            prop_assert_eq!(sums(&c, &c.g.clone().with_tile(tile.0, tile.1), way, 5), first, "{:?}", way);
        }
        let own = sums(&c, &c.g, None, 1);
        if Level::available().contains(&Level::Amx) {
            prop_assert_eq!(&sums(&c, &c.g, Some(Way::Tiles), 1), &own);
        }
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        {
            let mut out = vec![f32::NAN; own.len()];
            let o = Operands { a: &c.a, b: &c.b, epilogue: &Epilogue::default() };
            tiles::run::<crate::amx::emulated::Emulated, f32>(&c.g, 0..c.g.units(), &o, &mut Out::new(&mut out));
            prop_assert_eq!(out, own);
        }
    }
}

/// More columns than are woven at once, several units, and sums longer than a page.
#[test]
fn long_and_wide_products_go_in_parts() {
    let c = case(40, 400, 2100, [false, true], None, 1, 5);
    assert!(together(&c.g) < 400 && c.g.units() > 1);
    for way in ways(false) {
        for (at, got) in sums(&c, &c.g, way, 3).iter().enumerate() {
            assert!((f64::from(*got) - c.want[at]).abs() <= c.size[at] * 1e-5, "{way:?} {at}");
        }
    }
}

#[test]
fn what_a_product_is_finished_with_comes_after_its_sums() {
    let (m, n, k) = (37, 53, 66);
    let c = case(m, n, k, [false; 2], Some(0), 1, 3);
    let (bias, residual) = (numbers(n, 8), numbers(m * n, 9));
    let e = Epilogue { alpha: 0.5, bias: Bias::PerColumn(&bias[..]), residual: Some((&residual, 2.0)), act: Act::Relu };
    let mut got = vec![bf16::NAN; m * n];
    let o = Operands { a: &c.a, b: &c.b, epilogue: &e };
    tiles::run::<Software, bf16>(&c.g, 0..c.g.units(), &o, &mut Out::new(&mut got));
    let mut whole = vec![bf16::NAN; m * n];
    c.g.run(0..c.g.units(), &c.a, &c.b, &e, &mut Out::new(&mut whole)).unwrap();
    for (at, want) in c.want.iter().enumerate() {
        let want = (0.5 * want + bias[at % n].to_f64() + 2.0 * residual[at].to_f64()).max(0.0);
        for got in [got[at], whole[at]] {
            assert!((got.to_f64() - want).abs() <= 0.005 * want.abs().max(0.01), "{at}: {got} for {want}");
        }
    }
}

/// The choice depends only on sizes.
#[test]
fn the_way_is_chosen_by_size() {
    let plain = |m, n, k| Gemm::plain(m, n, k).unwrap();
    let panels = |m, n, k| Gemm::new([m, n, k], Matrix::rows(k), BMatrix::Packed { rows: k }, vec![[0, 0]]).unwrap();
    assert_eq!(chosen(&panels(16, 64, 32), true), Some(Way::Tiles));
    assert_eq!(chosen(&plain(5, 64, 32), true), Some(Way::Tiles));
    assert_eq!(chosen(&panels(4, 64, 32), true), Some(Way::Dots { woven: false }));
    assert_eq!(chosen(&panels(5, 64, 32), true), Some(Way::Tiles));
    assert_eq!(chosen(&panels(16, 64, 31), true), Some(Way::Dots { woven: false }));
    assert_eq!(chosen(&panels(16, 64, 32), false), Some(Way::Dots { woven: false }));
    assert_eq!(chosen(&plain(16, 64, 32), false), Some(Way::Dots { woven: true }));
    assert_eq!(chosen(&plain(4, 64, 32), true), None);
    assert_eq!(chosen(&plain(64, 64, MOST_K + 1), true), None);
    assert_eq!(chosen(&plain(64, 64, 0), true), None);
    for level in Level::available() {
        let found = with_level(level, || way(&plain(64, 64, 64)));
        assert_eq!(found.is_some(), level >= Level::Bf16, "{level:?}");
    }
}
