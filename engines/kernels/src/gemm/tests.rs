//! The product compared with a naive one, and its bits compared for other tiles, blocks and
//! instruction sets.
use super::*;
use crate::simd::{Act, Level, with_level};
use crate::view::{Out, block_range};
use half::{bf16, f16};
use proptest::prelude::*;

fn numbers(n: usize, seed: u64) -> Vec<f32> {
    let mut s = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..n)
        .map(|_| {
            s ^= s << 13;
            s ^= s >> 7;
            s ^= s << 17;
            ((s >> 40) as f32 / (1u64 << 24) as f32) * 2.0 - 1.0
        })
        .collect()
}

fn naive(m: usize, n: usize, k: usize, a: impl Fn(usize, usize) -> f32, b: impl Fn(usize, usize) -> f32) -> Vec<f64> {
    let mut c = vec![0.0; m * n];
    for i in 0..m {
        for j in 0..n {
            c[i * n + j] = (0..k).map(|x| f64::from(a(i, x)) * f64::from(b(x, j))).sum();
        }
    }
    c
}

fn close(got: &[f32], want: &[f64], k: usize) {
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        let limit = 1e-6 * (k as f64).sqrt().max(1.0) * 4.0;
        assert!((f64::from(*g) - w).abs() <= limit, "element {i}: {g} for {w}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    #[test]
    fn any_shape_and_stride_agrees_with_the_naive_product(
        m in 1usize..40, n in 1usize..70, k in 0usize..300, ta in any::<bool>(), tb in any::<bool>(), packed in any::<bool>(),
        seed in 1u64..1000, tile in (1usize..30, 1usize..40),
    ) {
        let (a, b) = (numbers(m * k, seed), numbers(k * n, seed + 7));
        let sa = if ta { Matrix::transposed(m) } else { Matrix::rows(k) };
        let sb = if tb { Matrix::transposed(k) } else { Matrix::rows(n) };
        let want = naive(m, n, k, |i, x| a[i * sa.row + x * sa.col], |x, j| b[x * sb.row + j * sb.col]);
        let mut panels = vec![0.0; packed_len(k, n)];
        pack_columns(&b, k, n, sb.row, sb.col, &mut panels);
        let (bm, bd) = if packed { (BMatrix::Packed { rows: k }, &panels) } else { (BMatrix::Plain(sb), &b) };
        let g = Gemm::new([m, n, k], sa, bm, vec![[0, 0]]).unwrap();
        let mut first = vec![f32::NAN; m * n];
        g.run(0..g.units(), &a, bd, &Epilogue::default(), &mut Out::new(&mut first)).unwrap();
        close(&first, &want, k);
        for level in Level::available() {
            let g = g.clone().with_tile(tile.0, tile.1);
            let mut c = vec![f32::NAN; m * n];
            with_level(level, || {
                for block in (0..7).rev() {
                    g.run(block_range(g.units(), block, 7), &a, bd, &Epilogue::default(), &mut Out::new(&mut c)).unwrap();
                }
            });
            prop_assert_eq!(&c, &first, "{:?}", level);
        }
    }
}

/// Threads that take tiles in turn finish together only if no tile is much smaller than the others.
#[test]
fn tiles_divide_the_rows_alike() {
    for (m, k) in (1..3000).step_by(7).flat_map(|m| [64, 1024].map(|k| (m, k))) {
        let rows = Gemm::plain(m, 512, k).unwrap().tile()[0];
        let last = m - (m.div_ceil(rows) - 1) * rows;
        assert!(rows <= last + 12 * m.div_ceil(rows), "{m} rows, tiles of {rows}, the last of {last}");
    }
}

/// Sums so long that they are computed in steps for all rows of a tile: the bits equal those of a
/// product with fewer columns, which goes row by row.
#[test]
fn long_sums_are_taken_in_steps_and_are_the_same() {
    let (m, k) = (61, 2 * KC + 140);
    for (n, tb, ta) in [(128, false, false), (131, true, false), (300, false, true), (144, true, true)] {
        let (a, b) = (numbers(m * k, 5), numbers(k * n, 6));
        let sa = if ta { Matrix::transposed(m) } else { Matrix::rows(k) };
        let sb = if tb { Matrix::transposed(k) } else { Matrix::rows(n) };
        let mut panels = vec![0.0; packed_len(k, n)];
        pack_columns(&b, k, n, sb.row, sb.col, &mut panels);
        let want = naive(m, n, k, |i, x| a[i * sa.row + x * sa.col], |x, j| b[x * sb.row + j * sb.col]);
        let bias = numbers(n, 7);
        let run = |g: &Gemm, b: &[f32], bias: &[f32]| {
            let mut c = vec![f32::NAN; m * bias.len()];
            let e = Epilogue { bias: Bias::PerColumn(bias), ..Epilogue::default() };
            for block in (0..5).rev() {
                g.run(block_range(g.units(), block, 5), &a, b, &e, &mut Out::new(&mut c)).unwrap();
            }
            c
        };
        let plain = Gemm::new([m, n, k], sa, BMatrix::Plain(sb), vec![[0, 0]]).unwrap();
        let packed = Gemm::new([m, n, k], sa, BMatrix::Packed { rows: k }, vec![[0, 0]]).unwrap();
        let first = run(&plain, &b, &bias);
        for (i, (c, w)) in first.iter().zip(&want).enumerate() {
            assert!((f64::from(*c) - w - f64::from(bias[i % n])).abs() <= 2e-4, "element {i}: {c} for {w}");
        }
        for level in Level::available() {
            with_level(level, || {
                for tile in [plain.tile(), [12, 16], [24, 144], [384, 256]] {
                    assert_eq!(run(&plain.clone().with_tile(tile[0], tile[1]), &b, &bias), first, "{level:?}");
                    assert_eq!(run(&packed.clone().with_tile(tile[0], tile[1]), &panels, &bias), first, "{level:?}");
                }
            });
        }
        // The first panels alone have few enough columns to go row by row.
        let few = Gemm::new([m, 64, k], sa, BMatrix::Packed { rows: k }, vec![[0, 0]]).unwrap();
        let c = run(&few, &panels, &bias[..64]);
        let same = |i: usize| c[i * 64..(i + 1) * 64] == first[i * n..i * n + 64];
        assert!((0..m).all(same));
    }
}

#[test]
fn bias_residual_and_activation_come_after_the_product() {
    let (m, n, k) = (5, 19, 33);
    let (a, b, r) = (numbers(m * k, 1), numbers(k * n, 2), numbers(m * n, 3));
    let (col, row) = (numbers(n, 4), numbers(m, 5));
    let want = naive(m, n, k, |i, x| a[i * k + x], |x, j| b[x * n + j]);
    for per_row in [false, true] {
        let bias = if per_row { Bias::PerRow(&row[..]) } else { Bias::PerColumn(&col[..]) };
        let e = Epilogue { alpha: 0.5, bias, residual: Some((&r, 2.0)), act: Act::Relu };
        let g = Gemm::plain(m, n, k).unwrap();
        let mut c = vec![0.0; m * n];
        g.run(0..g.units(), &a, &b, &e, &mut Out::new(&mut c)).unwrap();
        let want: Vec<f64> = (0..m * n)
            .map(|i| {
                let add = if per_row { row[i / n] } else { col[i % n] };
                (0.5 * want[i] + f64::from(add) + 2.0 * f64::from(r[i])).max(0.0)
            })
            .collect();
        close(&c, &want, k);
    }
}

#[test]
fn a_batch_may_share_a_matrix() {
    let (m, n, k) = (3, 17, 20);
    let (a, b) = (numbers(4 * m * k, 1), numbers(2 * k * n, 2));
    let batch: Vec<[usize; 2]> = (0..4).map(|i| [i * m * k, (i / 2) * k * n]).collect();
    let g = Gemm::new([m, n, k], Matrix::rows(k), BMatrix::Plain(Matrix::rows(n)), batch).unwrap();
    let mut c = vec![0.0; 4 * m * n];
    g.run(0..g.units(), &a, &b, &Epilogue::default(), &mut Out::new(&mut c)).unwrap();
    for i in 0..4 {
        let want = naive(m, n, k, |r, x| a[i * m * k + r * k + x], |x, j| b[(i / 2) * k * n + x * n + j]);
        close(&c[i * m * n..(i + 1) * m * n], &want, k);
    }
}

#[test]
fn halves_accumulate_in_singles_and_round_once() {
    let (m, n, k) = (13, 37, 300);
    let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
    let (ah, bh): (Vec<f16>, Vec<f16>) =
        (a.iter().map(|&v| f16::from_f32(v)).collect(), b.iter().map(|&v| f16::from_f32(v)).collect());
    let (aw, bw): (Vec<f32>, Vec<f32>) =
        (ah.iter().map(|v| v.to_f32()).collect(), bh.iter().map(|v| v.to_f32()).collect());
    let g = Gemm::plain(m, n, k).unwrap();
    let mut wide = vec![0.0; m * n];
    g.run(0..g.units(), &aw, &bw, &Epilogue::default(), &mut Out::new(&mut wide)).unwrap();
    let want: Vec<f16> = wide.iter().map(|&v| f16::from_f32(v)).collect();
    let mut panels = vec![f16::ZERO; packed_len(k, n)];
    pack_columns(&bh, k, n, n, 1, &mut panels);
    let packed = Gemm::new([m, n, k], Matrix::rows(k), BMatrix::Packed { rows: k }, vec![[0, 0]]).unwrap();
    for level in Level::available() {
        let (mut c, mut d) = (vec![f16::ZERO; m * n], vec![f16::ZERO; m * n]);
        with_level(level, || {
            g.run(0..g.units(), &ah, &bh, &Epilogue::default(), &mut Out::new(&mut c)).unwrap();
            packed.run(0..g.units(), &ah, &panels, &Epilogue::default(), &mut Out::new(&mut d)).unwrap();
        });
        assert_eq!((&c, &d), (&want, &want), "{level:?}");
    }
    let ab: Vec<bf16> = a.iter().map(|&v| bf16::from_f32(v)).collect();
    let bb: Vec<bf16> = b.iter().map(|&v| bf16::from_f32(v)).collect();
    let mut c = vec![bf16::ZERO; m * n];
    g.run(0..g.units(), &ab, &bb, &Epilogue::default(), &mut Out::new(&mut c)).unwrap();
    let want = naive(m, n, k, |i, x| ab[i * k + x].to_f32(), |x, j| bb[x * n + j].to_f32());
    for (g, w) in c.iter().zip(&want) {
        assert!((f64::from(g.to_f32()) - w).abs() <= 0.005 * w.abs().max(1.0));
    }
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let g = Gemm::plain(3, 4, 5).unwrap();
    let mut c = vec![0.0f32; 12];
    let e = g.run(0..1, &[0.0; 14], &[0.0; 20], &Epilogue::default(), &mut Out::new(&mut c)).unwrap_err();
    assert_eq!(e.to_string(), "A has 14 elements, the product needs 15");
    let e = Epilogue { bias: Bias::PerColumn(&[0.0f32; 3][..]), ..Epilogue::default() };
    assert_eq!(g.check(15, 20, 12, &e), Err(GemmError::Short { operand: "bias", has: 3, needs: 4 }));
    assert!(matches!(g.check::<f32>(15, 20, 11, &Epilogue::default()), Err(GemmError::Short { operand: "C", .. })));
    let odd = Matrix { row: 2, col: 3 };
    assert!(matches!(
        Gemm::new([1, 1, 1], odd, BMatrix::Packed { rows: 1 }, vec![]),
        Err(GemmError::Strides { operand: "A", .. })
    ));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    #[test]
    fn bytes_multiply_exactly(m in 1usize..35, n in 1usize..150, k in 1usize..200, seed in 1u64..999, za in 0i32..256, zb in -9i32..9, power in prop_oneof![Just(1), Just(9)]) {
        let a: Vec<u8> = numbers(m * k, seed).iter().map(|v| ((v + 1.0) * 127.5) as u8).collect();
        // With a high power, few of the numbers are large.
        let b: Vec<i8> = numbers(k * n, seed + 1).iter().map(|v| (v.powi(power) * 127.0) as i8).collect();
        let mut packed = vec![0i8; packed_int8_len(k, n)];
        pack_int8(&b, k, n, n, 1, &mut packed);
        let g = GemmInt8 { m, n, k, a_row: k };
        let sums: Vec<i32> = (0..n).map(|j| (0..k).map(|x| i32::from(b[x * n + j])).sum()).collect();
        for level in Level::available() {
            let mut c = vec![0i32; m * n];
            with_level(level, || {
                for block in 0..3 {
                    g.run(block_range(g.units(), block, 3), &a, &packed, &mut Out::new(&mut c));
                }
            });
            let column: Vec<i8> = b.iter().step_by(n).copied().collect();
            let mut first = vec![-1i32; m];
            with_level(level, || int8::dot_rows(&a, &column, &mut first));
            prop_assert_eq!(first, c.iter().step_by(n).copied().collect::<Vec<_>>(), "{:?}", level);
            for i in 0..m {
                let row_sum = a[i * k..(i + 1) * k].iter().map(|&v| i32::from(v)).sum();
                int8::correct(&mut c[i * n..(i + 1) * n], za, &sums, &[zb], row_sum, k);
                for j in 0..n {
                    let want: i32 = (0..k).map(|x| (i32::from(a[i * k + x]) - za) * (i32::from(b[x * n + j]) - zb)).sum();
                    prop_assert_eq!(c[i * n + j], want);
                }
            }
        }
    }
}

/// Several units side by side, in every order of the units.
#[test]
fn wide_products_of_bytes_are_those_of_their_columns() {
    let (m, n, k) = (40, 1043, 12);
    let a: Vec<u8> = numbers(m * k, 5).iter().map(|v| ((v + 1.0) * 127.5) as u8).collect();
    for power in [1, 9] {
        let b: Vec<i8> = numbers(k * n, 6).iter().map(|v| (v.powi(power) * 127.0) as i8).collect();
        let mut packed = vec![0i8; packed_int8_len(k, n)];
        pack_int8(&b, k, n, n, 1, &mut packed);
        let g = GemmInt8 { m, n, k, a_row: k };
        assert_eq!(g.units(), 4);
        let product = |i: usize, j: usize| (0..k).map(|x| i32::from(a[i * k + x]) * i32::from(b[x * n + j])).sum();
        let want: Vec<i32> = (0..m * n).map(|at| product(at / n, at % n)).collect();
        for level in Level::available() {
            for order in [[0..4, 4..4], [2..4, 0..2], [1..4, 0..1]] {
                let mut c = vec![7i32; m * n];
                with_level(level, || {
                    order.clone().into_iter().for_each(|u| g.run(u, &a, &packed, &mut Out::new(&mut c)))
                });
                assert_eq!(c, want, "{level:?} {power} {order:?}");
            }
        }
    }
}
