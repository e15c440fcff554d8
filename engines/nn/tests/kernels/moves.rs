//! Operators that move elements, for every element size.
use crate::harness::*;
use ge_nn::engine::Nn;
use ge_plugin_api::types::DType;

const TYPES: [DType; 5] = [DType::F32, DType::F16, DType::U8, DType::I64, DType::BOOL];

fn count(dtype: DType, dims: &[u64]) -> T {
    let m = if dtype == DType::BOOL { 2 } else { 127 };
    t(dtype, dims, (0..dims.iter().product::<u64>()).map(|i| (i % m) as f64))
}

#[test]
fn transposes_of_all_kinds() {
    for dtype in TYPES {
        let x = count(dtype, &[2, 3, 4, 5]);
        for perm in [[0, 1, 3, 2], [0, 2, 1, 3], [3, 2, 1, 0], [2, 3, 0, 1], [0, 1, 2, 3]] {
            let d = [2u64, 3, 4, 5];
            let out: Vec<u64> = perm.iter().map(|&p| d[p]).collect();
            let mut want = vec![];
            for i in 0..120u64 {
                let mut at = [0u64; 4];
                let mut rest = i;
                for k in (0..4).rev() {
                    at[perm[k]] = rest % out[k];
                    rest /= out[k];
                }
                want.push(x.data[(((at[0] * 3 + at[1]) * 4 + at[2]) * 5 + at[3]) as usize]);
            }
            let list: Vec<i64> = perm.iter().map(|&p| p as i64).collect();
            case("TransposeD", &[&x], &[(dtype, &out)]).with("perm", list.clone()).gives(want.clone(), 0.0);
            let p = t(DType::I64, &[4], list.iter().map(|&p| p as f64));
            case("Transpose", &[&x, &p], &[(dtype, &out)]).gives(want, 0.0);
        }
    }
    let x = count(DType::F32, &[3, 33, 70]);
    let want = (0..3 * 33 * 70usize).map(|i| x.data[i / 2310 * 2310 + i % 33 * 70 + i / 33 % 70]);
    case("TransposeD", &[&x], &[(DType::F32, &[3, 70, 33])]).with("perm", vec![0i64, 2, 1]).gives(want, 0.0);
}

/// Elements that stay neighbours are moved together; an odd number of them is not.
#[test]
fn transposes_whose_last_axis_is_short() {
    for dtype in TYPES {
        for last in [2, 3, 4, 8u64] {
            let [rows, cols] = [18, 70u64];
            let x = count(dtype, &[rows, cols, last]);
            let places = (0..rows * cols * last).map(|i| (i / last % rows * cols + i / last / rows) * last + i % last);
            let want: Vec<f64> = places.map(|p| x.data[p as usize]).collect();
            let turned = case("TransposeD", &[&x], &[(dtype, &[cols, rows, last])]).with("perm", vec![1i64, 0, 2]);
            turned.gives(want, 0.0);
        }
    }
}

#[test]
fn joins_and_splits() {
    for dtype in TYPES {
        let (a, b) = (count(dtype, &[2, 3, 2]), count(dtype, &[2, 1, 2]));
        let joined = [&a.data[..6], &b.data[..2], &a.data[6..], &b.data[2..]].concat();
        case("ConcatD", &[&a, &b], &[(dtype, &[2, 4, 2])])
            .with("concat_dim", -2i64)
            .with("N", 2i64)
            .gives(joined.clone(), 0.0);
        let x = t(dtype, &[2, 4, 2], joined);
        let parts = case("SplitVD", &[&x], &[(dtype, &[2, 3, 2]), (dtype, &[2, 1, 2])])
            .with("split_dim", 1i64)
            .run(&Nn::vector());
        assert_eq!((&parts[0], &parts[1]), (&a, &b));
        case("Pack", &[&a, &a], &[(dtype, &[2, 2, 3, 2])])
            .with("axis", 1i64)
            .gives([&a.data[..6], &a.data[..6], &a.data[6..], &a.data[6..]].concat(), 0.0);
    }
}

#[test]
fn copies_pads_and_gathers() {
    for dtype in TYPES {
        let x = count(dtype, &[2, 1, 3]);
        let shape = t(DType::I64, &[3], [2.0, 2.0, 3.0]);
        let rows = [&x.data[..3], &x.data[..3], &x.data[3..], &x.data[3..]].concat();
        case("Expand", &[&x, &shape], &[(dtype, &[2, 2, 3])]).gives(rows.clone(), 0.0);
        case("TileD", &[&x], &[(dtype, &[2, 2, 3])]).with("multiples", vec![1i64, 2, 1]).gives(rows, 0.0);
        let one = t(dtype, &[], [1.0]);
        let pads = t(DType::I32, &[6], [0.0, 1.0, 0.0, 0.0, 2.0, 0.0]);
        let padded = [&[1.0, 1.0][..], &x.data[..3], &[1.0, 1.0], &x.data[3..], &[1.0; 5]].concat();
        case("PadV3", &[&x, &pads, &one], &[(dtype, &[3, 1, 5])]).gives(padded.clone(), 0.0);
        let onnx = t(DType::I64, &[6], [0.0, 0.0, 2.0, 1.0, 0.0, 0.0]);
        case("PadV3", &[&x, &onnx, &one], &[(dtype, &[3, 1, 5])]).with("paddings_contiguous", false).gives(padded, 0.0);
        let index = t(DType::I64, &[2], [-1.0, 0.0]);
        let axis = t(DType::I64, &[], [2.0]);
        let picked = [x.data[2], x.data[0], x.data[5], x.data[3]];
        case("GatherV2", &[&x, &index, &axis], &[(dtype, &[2, 1, 2])]).feed(1).gives(picked, 0.0);
    }
    let x = count(DType::F32, &[3]);
    let bad = case("GatherV2", &[&x, &t(DType::I32, &[1], [3.0]), &t(DType::I64, &[], [0.0])], &[(DType::F32, &[1])]);
    assert_eq!(bad.feed(1).launch(&Nn::ai_core(), 0).unwrap_err(), "index 3 is out of range for size 3");
}

#[test]
fn slices_by_places_sizes_and_strides() {
    let i = |v: &[f64]| t(DType::I64, &[v.len() as u64], v.iter().copied());
    for dtype in TYPES {
        let x = count(dtype, &[3, 4]);
        let rows = |r: &[usize], c: &[usize]| {
            r.iter().flat_map(|&r| c.iter().map(move |c| r * 4 + c)).map(|i| x.data[i]).collect::<Vec<_>>()
        };
        let onnx = |b: &[f64], e: &[f64], a: &[f64], s: &[f64], out: [u64; 2]| {
            case("StridedSliceV2", &[&x, &i(b), &i(e), &i(a), &i(s)], &[(dtype, &out)])
        };
        onnx(&[1.0, -3.0], &[9e9, -1.0], &[0.0, 1.0], &[1.0, 1.0], [2, 2]).gives(rows(&[1, 2], &[1, 2]), 0.0);
        onnx(&[-1.0], &[-9e9], &[-1.0], &[-2.0], [3, 2]).gives(rows(&[0, 1, 2], &[3, 1]), 0.0);
        onnx(&[2.0, 3.0], &[0.0, 0.0], &[0.0, 1.0], &[-1.0, -3.0], [2, 1]).gives(rows(&[2, 1], &[3]), 0.0);
        onnx(&[3.0], &[1.0], &[1.0], &[1.0], [3, 0]).gives([], 0.0);
        onnx(&[-9.0], &[-9e9], &[0.0], &[-1.0], [1, 4]).gives(rows(&[0], &[0, 1, 2, 3]), 0.0);
        let sized =
            case("SliceD", &[&x], &[(dtype, &[2, 2])]).with("offsets", vec![1i64, 2]).with("size", vec![-1i64, 2]);
        sized.gives(rows(&[1, 2], &[2, 3]), 0.0);
        let halves = case("SplitV", &[&x, &i(&[1.0, 3.0]), &i(&[1.0])], &[(dtype, &[3, 1]), (dtype, &[3, 3])])
            .run(&Nn::ai_core());
        assert_eq!((&halves[0].data, &halves[1].data), (&rows(&[0, 1, 2], &[0]), &rows(&[0, 1, 2], &[1, 2, 3])));
        let each = case("Unpack", &[&x], &[(dtype, &[3][..]); 4]).with("axis", 1i64).run(&Nn::ai_core());
        assert_eq!(each[2].data, rows(&[0, 1, 2], &[2]));
    }
}

/// Converts a plain tensor to a blocked layout by the definition: `at` maps a position in the
/// blocked tensor to one in the plain tensor.
fn blocked(x: &T, dims: &[u64], at: impl Fn(&[u64]) -> Vec<u64>) -> Vec<f64> {
    let place = |mut i: u64| {
        let mut p = vec![0; dims.len()];
        for (v, n) in p.iter_mut().zip(dims).rev() {
            *v = i % n;
            i /= n;
        }
        p
    };
    let value = |i| {
        let p = at(&place(i));
        let inside = p.iter().zip(&x.dims).all(|(v, n)| v < n);
        if inside { x.data[p.iter().zip(&x.dims).fold(0, |f, (v, n)| f * n + v) as usize] } else { 0.0 }
    };
    (0..dims.iter().product()).map(value).collect()
}

#[test]
fn changes_of_layout_there_and_back() {
    for (dtype, c0) in [(DType::F32, 8), (DType::F16, 16), (DType::U8, 32), (DType::I64, 4)] {
        let both = |x: &T, from: &'static str, to: &'static str, want: Vec<f64>, dims: &[u64]| {
            let there = case("TransData", &[x], &[(dtype, dims)]).with("src_format", from).with("dst_format", to);
            there.gives(want.clone(), 0.0);
            let y = t(dtype, dims, want);
            let back = case("TransData", &[&y], &[(dtype, &x.dims)]).with("src_format", to).with("dst_format", from);
            back.gives(x.data.clone(), 0.0);
        };
        let x = count(dtype, &[2, 35, 3, 5]);
        let (c1, n1) = (35u64.div_ceil(c0), 1);
        let five = [2, c1, 3, 5, c0];
        let want = blocked(&x, &five, |p| vec![p[0], p[1] * c0 + p[4], p[2], p[3]]);
        both(&x, "NCHW", "NC1HWC0", want, &five);
        let filters = [c1 * 15, n1, 16, c0];
        let want = blocked(&x, &filters, |p| vec![p[1] * 16 + p[2], p[0] / 15 * c0 + p[3], p[0] / 5 % 3, p[0] % 5]);
        both(&x, "NCHW", "FRACTAL_Z", want, &filters);
        let nhwc = count(dtype, &[2, 3, 5, 35]);
        let want = blocked(&nhwc, &five, |p| vec![p[0], p[2], p[3], p[1] * c0 + p[4]]);
        both(&nhwc, "NHWC", "NC1HWC0", want, &five);
        let want = blocked(&nhwc, &[2, 35, 3, 5], |p| vec![p[0], p[2], p[3], p[1]]);
        both(&nhwc, "NHWC", "NCHW", want, &[2, 35, 3, 5]);
        let x = count(dtype, &[3, 17, 70]);
        let nz = [3, 70u64.div_ceil(c0), 2, 16, c0];
        let want = blocked(&x, &nz, |p| vec![p[0], p[2] * 16 + p[3], p[1] * c0 + p[4]]);
        both(&x, "ND", "FRACTAL_NZ", want, &nz);
    }
    let x = count(DType::F16, &[2, 3, 4, 5]);
    let of = |from: &'static str, to: &'static str, dims: &[u64]| {
        case("TransData", &[&x], &[(DType::F16, dims)])
            .with("src_format", from)
            .with("dst_format", to)
            .refusal(&Nn::vector())
    };
    assert_eq!(of("NC1HWC0", "FRACTAL_Z", &[1, 1, 16, 16]), "from NC1HWC0 to FRACTAL_Z: one of the two must be plain");
    assert_eq!(of("NCHW", "NC1HWC0", &[2, 1, 4, 5, 8]), "NCHW [2, 3, 4, 5] is not NC1HWC0 [2, 1, 4, 5, 8]");
}

#[test]
fn pads_of_every_mode_and_crops() {
    for dtype in TYPES {
        let x = count(dtype, &[2, 3]);
        let v = |list: &[usize]| list.iter().map(|&i| x.data[i]).collect::<Vec<_>>();
        let pads = t(DType::I64, &[4], [1.0, 0.0, 2.0, -1.0]);
        let padded = |mode: &'static str| case("PadV3", &[&x, &pads], &[(dtype, &[3, 4])]).with("mode", mode);
        padded("edge").gives(v(&[0, 0, 0, 1, 0, 0, 0, 1, 3, 3, 3, 4]), 0.0);
        padded("reflect").gives(v(&[5, 4, 3, 4, 2, 1, 0, 1, 5, 4, 3, 4]), 0.0);
        // Wraps around what is left of the cropped axis, as onnxruntime does.
        padded("wrap").gives(v(&[3, 4, 3, 4, 0, 1, 0, 1, 3, 4, 3, 4]), 0.0);
    }
    let x = count(DType::F32, &[2, 1, 3]);
    let (pads, axes) = (t(DType::I64, &[2], [1.0, 1.0]), t(DType::I64, &[1], [-1.0]));
    let c = case("PadV3", &[&x, &pads, &axes], &[(DType::F32, &[2, 1, 5])]).absent(2);
    c.gives([0.0, 0.0, 1.0, 2.0, 0.0, 0.0, 3.0, 4.0, 5.0, 0.0], 0.0);
}

#[test]
fn indices_name_elements_to_gather_and_to_scatter() {
    for dtype in TYPES {
        let x = count(dtype, &[2, 3]);
        for index_type in [DType::I32, DType::I64] {
            let pairs = t(index_type, &[2, 2], [1.0, -1.0, 0.0, 1.0]);
            let found = case("GatherNd", &[&x, &pairs], &[(dtype, &[2])]).feed(1);
            found.gives([x.data[5], x.data[1]], 0.0);
            let row = t(index_type, &[1, 1], [-1.0]);
            case("GatherNd", &[&x, &row], &[(dtype, &[1, 3])]).gives(x.data[3..].to_vec(), 0.0);
            let each = t(index_type, &[2, 1], [2.0, 0.0]);
            let batched = case("GatherNd", &[&x, &each], &[(dtype, &[2])]).with("batch_dims", 1i64);
            batched.gives([x.data[2], x.data[3]], 0.0);
            let index = t(index_type, &[2, 2], [2.0, -1.0, 0.0, 1.0]);
            let along = case("GatherElements", &[&x, &index], &[(dtype, &[2, 2])]).with("dim", 1i64);
            along.gives([x.data[2], x.data[2], x.data[3], x.data[4]], 0.0);
            let new = t(dtype, &[2], [1.0, 0.0]);
            let put = case("TensorScatterUpdate", &[&x, &pairs, &new], &[(dtype, &[2, 3])]).feed(1);
            put.gives([x.data[0], 0.0, x.data[2], x.data[3], x.data[4], 1.0], 0.0);
            let new = t(dtype, &[2, 2], [1.0, 0.0, 1.0, 0.0]);
            let put = case("ScatterElements", &[&x, &index, &new], &[(dtype, &[2, 3])]).with("axis", 1i64);
            put.gives([x.data[0], x.data[1], 0.0, 1.0, 0.0, x.data[5]], 0.0);
        }
    }
    let ai = Nn::ai_core();
    let x = count(DType::F32, &[3]);
    let far = t(DType::I64, &[1, 1], [3.0]);
    let new = t(DType::F32, &[1], [1.0]);
    let out = case("TensorScatterUpdate", &[&x, &far, &new], &[(DType::F32, &[3])]).feed(1).launch(&ai, 1);
    assert_eq!(out.unwrap_err(), "index 3 is out of range for size 3");
    // Updates of the same element are applied in order.
    let twice = t(DType::I64, &[3], [1.0, 1.0, 0.0]);
    for (how, want) in
        [("add", [4.0, 6.0, 2.0]), ("mul", [0.0, 6.0, 2.0]), ("max", [4.0, 3.0, 2.0]), ("min", [0.0, 1.0, 2.0])]
    {
        for dtype in [DType::F32, DType::I32, DType::I64] {
            let (x, new) = (count(dtype, &[3]), t(dtype, &[3], [2.0, 3.0, 4.0]));
            case("ScatterElements", &[&x, &twice, &new], &[(dtype, &[3])]).with("reduction", how).gives(want, 0.0);
        }
    }
}
