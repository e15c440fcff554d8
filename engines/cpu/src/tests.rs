//! Cases with values from onnxruntime 1.31 and numpy, and refusals with their complete messages.
use crate::testing::*;
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::{AttrValue, DType, bytes_of_strings};

fn words(dims: &[u64], v: &[&str]) -> HostTensor {
    let bytes: Vec<&[u8]> = v.iter().map(|s| s.as_bytes()).collect();
    HostTensor::from_bytes(DType::STRING, dims, &bytes_of_strings(&bytes)).unwrap()
}
fn l(v: &[i64]) -> AttrValue {
    AttrValue::from(v)
}

#[test]
fn arithmetic_broadcasts_wraps_and_never_traps() {
    let (a, b) = (t(&[2, 1], &[1f32, 2.0]), t(&[3], &[10f32, 20.0, f32::NAN]));
    let (d, v) = floats("Add", &[&a, &b], &[]);
    assert_eq!(d, [2, 3]);
    near(&v, &[11.0, 21.0, f32::NAN, 12.0, 22.0, f32::NAN]);
    let (a, b) = (t(&[4], &[7i64, -7, 5, i64::MIN]), t(&[4], &[2i64, 2, 0, -1]));
    assert_eq!(ints("Div", &[&a, &b], &[]).1, [3, -3, 0, i64::MIN]);
    assert_eq!(ints("FloorDiv", &[&a, &b], &[]).1, [3, -4, 0, i64::MIN]);
    assert_eq!(ints("Mod", &[&a, &b], &[]).1, [1, -1, 0, 0]);
    assert_eq!(ints("FloorMod", &[&a, &b], &[]).1, [1, 1, 0, 0]);
    let (a, b) = (t(&[2], &[3i64, -1]), t(&[2], &[4i64, -3]));
    assert_eq!(ints("Pow", &[&a, &b], &[]).1, [81, -1]);
    let e = refusal("Add", &[&t(&[2], &[1f32, 2.0]), &t(&[3], &[1f32; 3])], &[]);
    assert_eq!(e, "shapes [2] and [3] do not broadcast: axis 0 from the right is 2 and 3");
}

#[test]
fn activations() {
    let x = t(&[5], &[-3f32, -0.5, 0.0, 0.7, 20.0]);
    near(&floats("Sigmoid", &[&x], &[]).1, &[0.047425866, 0.3775407, 0.5, 0.66818774, 1.0]);
    near(&floats("Gelu", &[&x], &[]).1, &[-0.0040496886, -0.15426877, 0.0, 0.53062546, 20.0]);
    near(
        &floats("Gelu", &[&x], &[("approximate", "tanh".into())]).1,
        &[-0.0036375225, -0.154286, 0.0, 0.53057015, 20.0],
    );
    near(&floats("Erf", &[&x], &[]).1, &[-0.9999779, -0.5204999, 0.0, 0.6778012, 1.0]);
    near(&floats("Mish", &[&x], &[]).1, &[-0.14564745, -0.22074378, 0.0, 0.5611484, 20.0]);
    near(&floats("Round", &[&t(&[4], &[0.5f32, 1.5, -0.5, 2.5])], &[]).1, &[0.0, 2.0, 0.0, 2.0]);
    let h = t(&[2], &[half::f16::from_f32(0.1), half::f16::from_f32(-2.0)]);
    let o = call("Exp", &[Some(&h)], &attrs(&[]), &[DType::F16]).unwrap();
    assert_eq!(
        o[0].view().values::<half::f16>().unwrap().iter().map(|v| v.to_f32()).collect::<Vec<_>>(),
        [1.1054688, 0.13537598]
    );
}

#[test]
fn matrix_products_with_transposes_bias_and_batches() {
    let (a, b) = (t(&[2, 3], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0]), t(&[2, 3], &[1f32, 0.0, 2.0, -1.0, 3.0, 1.0]));
    let bias = t(&[2], &[10f32, 20.0]);
    let (d, v) = floats("MatMulV2", &[&a, &b, &bias], &[("transpose_x2", true.into())]);
    assert_eq!((d, v), (vec![2, 2], vec![17.0, 28.0, 26.0, 37.0]));
    let (d, v) = floats("MatMulV2", &[&a, &b], &[("transpose_x1", true.into())]);
    assert_eq!((d, v), (vec![3, 3], vec![-3.0, 12.0, 6.0, -3.0, 15.0, 9.0, -3.0, 18.0, 12.0]));
    let b3 = t(&[2, 3, 1], &[1f32, 1.0, 1.0, 2.0, 0.0, 1.0]);
    let (d, v) = floats("BatchMatMulV2", &[&a, &b3], &[]);
    assert_eq!((d, v), (vec![2, 2, 1], vec![6.0, 15.0, 5.0, 14.0]));
    let e = refusal("MatMulV2", &[&a, &b], &[]);
    assert_eq!(
        e,
        "inner dimensions of the product does not fit: found 3 and 2 ([2, 3] by [2, 3]), expected equal ones"
    );
}

#[test]
fn convolutions_agree_with_a_naive_sum() {
    // x[1,2,4,5], w[4,1,3,2], two groups, computed by hand from the definition.
    let x: Vec<f32> = (0..40).map(|i| ((i * 7) % 11) as f32 - 5.0).collect();
    let w: Vec<f32> = (0..4 * 2 * 3).map(|i| ((i * 5) % 7) as f32 - 3.0).collect();
    let (tx, tw) = (t(&[1, 2, 4, 5], &x), t(&[4, 1, 3, 2], &w));
    let list = [
        ("strides", l(&[1, 1, 2, 1])),
        ("pads", l(&[1, 0, 0, 1])),
        ("dilations", l(&[1, 1, 1, 2])),
        ("groups", 2i64.into()),
    ];
    let (d, y) = floats("Conv2D", &[&tx, &tw], &list);
    assert_eq!(d, [1, 4, 2, 4]);
    for o in 0..4usize {
        for oh in 0..2i64 {
            for ow in 0..4i64 {
                let mut s = 0.0;
                for kh in 0..3i64 {
                    for kw in 0..2i64 {
                        let (h, v) = (oh * 2 + kh - 1, ow + kw * 2);
                        if (0..4).contains(&h) && (0..5).contains(&v) {
                            s += w[o * 6 + (kh * 2 + kw) as usize] * x[(o / 2) * 20 + (h * 5 + v) as usize];
                        }
                    }
                }
                assert_eq!(y[o * 8 + (oh * 4 + ow) as usize], s);
            }
        }
    }
    // The same in NHWC.
    let mut xl = vec![0f32; 40];
    (0..2).for_each(|c| (0..20).for_each(|p| xl[p * 2 + c] = x[c * 20 + p]));
    let list = [
        ("strides", l(&[1, 2, 1, 1])),
        ("pads", l(&[1, 0, 0, 1])),
        ("dilations", l(&[1, 1, 2, 1])),
        ("groups", 2i64.into()),
        ("data_format", "NHWC".into()),
    ];
    let (d, yl) = floats("Conv2D", &[&t(&[1, 4, 5, 2], &xl), &tw], &list);
    assert_eq!(d, [1, 2, 4, 4]);
    (0..4).for_each(|c| (0..8).for_each(|p| assert_eq!(yl[p * 4 + c], y[c * 8 + p])));
}

#[test]
fn a_transposed_convolution_spreads_its_filter() {
    let x = t(&[1, 1, 2, 2], &[1f32, 2.0, 3.0, 4.0]);
    let w = t(&[1, 1, 2, 2], &[1f32, 10.0, 100.0, 1000.0]);
    let (d, y) = floats("Conv2DTransposeD", &[&x, &w], &[("strides", l(&[1, 1, 2, 1]))]);
    assert_eq!(d, [1, 1, 4, 3]);
    assert_eq!(y, [1.0, 12.0, 20.0, 100.0, 1200.0, 2000.0, 3.0, 34.0, 40.0, 300.0, 3400.0, 4000.0]);
    let (d, _) = floats(
        "Conv2DTransposeD",
        &[&x, &w],
        &[("strides", l(&[1, 1, 2, 2])), ("pads", l(&[1, 0, 0, 1])), ("output_padding", l(&[0, 0, 1, 0]))],
    );
    assert_eq!(d, [1, 1, 4, 3]);
}

#[test]
fn pools() {
    let x = t(&[1, 1, 3, 3], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
    let k = [
        ("ksize", l(&[1, 1, 2, 2])),
        ("strides", l(&[1, 1, 2, 2])),
        ("pads", l(&[1, 0, 1, 0])),
        ("ceil_mode", true.into()),
    ];
    assert_eq!(floats("MaxPoolV3", &[&x], &k).1, [1.0, 3.0, 7.0, 9.0]);
    assert_eq!(floats("AvgPoolV2", &[&x], &k).1, [1.0, 2.5, 5.5, 7.0]);
    let (_, v) = floats("AvgPoolV2", &[&x], &[k[0].clone(), k[1].clone(), k[2].clone(), ("exclusive", false.into())]);
    assert_eq!(v, [0.25, 1.25, 2.75, 7.0]);
    let o = call("MaxPoolWithArgmaxV2", &[Some(&x)], &attrs(&k), &[DType::F32, DType::I64]).unwrap();
    assert_eq!(o[1].view().values::<i64>().unwrap(), [0, 2, 6, 8]);
    assert_eq!(floats("GlobalAveragePool", &[&x], &[]), (vec![1, 1, 1, 1], vec![5.0]));
    // Strides larger than the windows: three of eight positions are left out, one of them at the
    // beginning.
    let row = t(&[1, 1, 1, 8], &[0.0f32, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
    let same = |mode: &str| [("ksize", l(&[1, 1, 1, 1])), ("strides", l(&[1, 1, 1, 4])), ("auto_pad", mode.into())];
    assert_eq!(floats("MaxPoolV3", &[&row], &same("SAME_UPPER")).1, [1.0, 5.0]);
    assert_eq!(floats("MaxPoolV3", &[&row], &same("SAME_LOWER")).1, [1.0, 5.0]);
    // The windows of a convolution begin at the first position.
    let one = t(&[1, 1, 1, 1], &[1.0f32]);
    for mode in ["SAME_UPPER", "SAME_LOWER"] {
        let attrs = [("strides", l(&[1, 1, 1, 4])), ("auto_pad", mode.into())];
        assert_eq!(floats("Conv2D", &[&row, &one], &attrs).1, [0.0, 4.0]);
    }
    // Rounded up, a single position is a window of two.
    let one = [("ksize", l(&[1, 1, 2, 2])), ("strides", l(&[1, 1, 2, 2])), ("ceil_mode", true.into())];
    let thin = t(&[1, 1, 1, 3], &[1f32, 2.0, 4.0]);
    assert_eq!(floats("MaxPoolV3", &[&thin], &one), (vec![1, 1, 1, 2], vec![2.0, 4.0]));
    assert_eq!(floats("AvgPoolV2", &[&thin], &one), (vec![1, 1, 1, 2], vec![1.5, 4.0]));
    let e = refusal("MaxPoolV3", &[&x], &[("ksize", l(&[1, 1, 5, 5]))]);
    assert_eq!(
        e,
        "window does not fit: found kernel 5 (stride 1, dilation 1, pads 0 and 0) over 3, expected a window that fits the padded input"
    );
}

/// -114.875 divided by the scale is -111.49953, but -111.5 as f16 and as bf16.
#[test]
fn quantisation_divides_in_the_precision_that_is_asked_for() {
    let (x, s) = (t(&[4], &[-115.9375f32, -114.875, -113.875, 100.3]), t(&[], &[1.030_273_4f32]));
    let by = |p: DType| {
        let a = attrs(&[("precision", AttrValue::Type(p))]);
        let y = call("QuantizeLinear", &[Some(&x), Some(&s)], &a, &[DType::I8]).unwrap();
        y[0].view().values::<i8>().unwrap().to_vec()
    };
    assert_eq!(by(DType::F16), [-112, -112, -110, 97]);
    assert_eq!(by(DType::BF16), [-112, -112, -110, 98]);
    assert_eq!(by(DType::F32), [-113, -111, -111, 97]);
    assert_eq!(by(DType::F64), [-113, -111, -111, 97]);
    // Without `precision`, the type of the scale decides. All these numbers are exact in bf16.
    let short = |t: &HostTensor| {
        call("Cast", &[Some(t)], &attrs(&[("dst_type", AttrValue::Type(DType::BF16))]), &[DType::BF16])
            .unwrap()
            .remove(0)
    };
    let (x, s) = (t(&[3], &[-126.5f32, -124.5, -123.0]), t(&[], &[1.031_25f32]));
    let own = |x: &HostTensor, s: &HostTensor| {
        let y = call("QuantizeLinear", &[Some(x), Some(s)], &attrs(&[]), &[DType::I8]).unwrap();
        y[0].view().values::<i8>().unwrap().to_vec()
    };
    assert_eq!((own(&x, &s), own(&short(&x), &short(&s))), (vec![-123, -121, -119], vec![-122, -120, -120]));
}

#[test]
fn norms_and_softmax() {
    let x = t(&[2, 3], &[1f32, 2.0, 4.0, -1.0, 0.0, 1e4]);
    near(&floats("SoftmaxV2", &[&x], &[]).1, &[0.042010065, 0.11419519, 0.8437947, 0.0, 0.0, 1.0]);
    near(&floats("SoftmaxV2", &[&x], &[("axes", l(&[0]))]).1, &[0.880797, 0.880797, 0.0, 0.11920292, 0.11920292, 1.0]);
    let (g, b) = (t(&[3], &[1f32, 2.0, 3.0]), t(&[3], &[0f32, 1.0, 0.0]));
    let o = call("LayerNormV3", &[Some(&x), Some(&g), Some(&b)], &attrs(&[]), &[DType::F32; 3]).unwrap();
    near(&o[0].view().values::<f32>().unwrap()[..3], &[-1.069_041_4, 0.465_479_43, 4.008_905_4]);
    near(o[1].view().values::<f32>().unwrap(), &[2.3333333, 3333.0]);
    assert_eq!(o[2].view().dims, [2, 1]);
    let p = |v: &[f32; 3]| t(&[3], v);
    let (s, o, m, v) = (p(&[1.0, 2.0, 1.0]), p(&[0.0, 0.0, 5.0]), p(&[1.0, 1.0, 0.0]), p(&[1.0, 4.0, 1.0]));
    let (_, y) = floats("BNInfer", &[&x, &s, &o, &m, &v], &[("epsilon", 0.0f64.into())]);
    near(&y, &[0.0, 1.0, 9.0, -2.0, -1.0, 10005.0]);
    // A vector is a batch of one channel.
    let (x, p) = (t(&[3], &[1f32, 2.0, 3.0]), |v: f32| t(&[1], &[v]));
    let (s, o, m, v) = (p(2.0), p(1.0), p(0.5), p(4.0));
    let (d, y) = floats("BNInfer", &[&x, &s, &o, &m, &v], &[("epsilon", 0.0f64.into())]);
    assert_eq!(d, [3]);
    near(&y, &[1.5, 2.5, 3.5]);
    let inputs = [Some(&x), Some(&s), Some(&o), Some(&m), Some(&v)];
    let y = call("BatchNorm", &inputs, &attrs(&[("epsilon", 0.0f64.into())]), &[DType::F32; 3]).unwrap();
    near(y[0].view().values::<f32>().unwrap(), &[-1.449_489_7, 1.0, 3.449_489_7]);
    near(y[1].view().values::<f32>().unwrap(), &[0.65]);
}

#[test]
fn reductions_follow_the_axes_rules() {
    let x = t(&[2, 3], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let a = t(&[1], &[-1i64]);
    assert_eq!(floats("ReduceSum", &[&x, &a], &[]), (vec![2], vec![6.0, 15.0]));
    assert_eq!(floats("ReduceMean", &[&x], &[("keep_dims", true.into())]), (vec![1, 1], vec![3.5]));
    let none = t::<i64>(&[0], &[]);
    assert_eq!(floats("ReduceSum", &[&x, &none], &[]).0, [2, 3]);
    assert_eq!(floats("ReduceSum", &[&x, &none], &[("noop_with_empty_axes", false.into())]).1, [21.0]);
    let e = t::<f32>(&[0, 2], &[]);
    assert_eq!(floats("ReduceMaxD", &[&e], &[("axes", l(&[0]))]).1, [f32::NEG_INFINITY; 2]);
    assert_eq!(floats("ReduceMeanD", &[&e], &[("axes", l(&[0]))]).1, [0.0; 2]);
    near(&floats("ReduceLogSumExpD", &[&x], &[("axes", l(&[1]))]).1, &[3.407606, 6.407606]);
    let i = t(&[3], &[i64::MAX, 1, i64::MIN]);
    assert_eq!(ints("ReduceMaxD", &[&i], &[("axes", l(&[0]))]).1, [i64::MAX]);
    assert_eq!(refusal("ReduceSumD", &[&x], &[("axes", l(&[2]))]), "axes does not fit: found 2, expected -2 to 1");
}

#[test]
fn moving_of_data() {
    let x = t(&[2, 3], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(floats("TransposeD", &[&x], &[("perm", l(&[1, 0]))]), (vec![3, 2], vec![1.0, 4.0, 2.0, 5.0, 3.0, 6.0]));
    assert_eq!(
        floats("ConcatD", &[&x, &x], &[("concat_dim", 1i64.into())]).1,
        [1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 4.0, 5.0, 6.0]
    );
    assert_eq!(floats("Pack", &[&x, &x], &[("axis", (-1i64).into())]).0, [2, 3, 2]);
    let (b, e, ax, st) = (t(&[1], &[-1i64]), t(&[1], &[i64::MIN]), t(&[1], &[1i64]), t(&[1], &[-2i64]));
    assert_eq!(floats("StridedSliceV2", &[&x, &b, &e, &ax, &st], &[]), (vec![2, 2], vec![3.0, 1.0, 6.0, 4.0]));
    // Before the first element, a backward slice begins with the first element.
    let b = t(&[1], &[-9i64]);
    assert_eq!(floats("StridedSliceV2", &[&x, &b, &e, &ax, &st], &[]), (vec![2, 1], vec![1.0, 4.0]));
    let idx = t(&[2], &[-1i64, 0]);
    assert_eq!(floats("GatherV2", &[&x, &idx, &t(&[], &[1i64])], &[]).1, [3.0, 1.0, 6.0, 4.0]);
    let e = refusal("GatherV2", &[&x, &t(&[1], &[3i64]), &t(&[], &[1i64])], &[]);
    assert_eq!(e, "index in input 1 does not fit: found 3, expected -3 to 2");
    assert_eq!(floats("Tile", &[&t(&[2], &[1f32, 2.0]), &t(&[1], &[2i64])], &[]).1, [1.0, 2.0, 1.0, 2.0]);
    assert_eq!(floats("Expand", &[&t(&[2, 1], &[1f32, 2.0]), &t(&[1], &[2i64])], &[]).1, [1.0, 1.0, 2.0, 2.0]);
    let p = t(&[4], &[0i64, 0, 2, -1]);
    assert_eq!(
        floats("PadV3", &[&x, &p], &[("mode", "reflect".into())]),
        (vec![2, 4], vec![3.0, 2.0, 1.0, 2.0, 6.0, 5.0, 4.0, 5.0])
    );
    let o = call("SplitD", &[Some(&x)], &attrs(&[("split_dim", 1i64.into())]), &[DType::F32; 2]).unwrap();
    assert_eq!((o[0].view().dims, o[1].view().values::<f32>().unwrap()), (&[2u64, 2][..], &[3f32, 6.0][..]));
    assert_eq!(ints("Range", &[&t(&[], &[5i64]), &t(&[], &[-2i64]), &t(&[], &[-3i64])], &[]).1, [5, 2, -1]);
    let q = ge_plugin_api::kernel::HostTensor::from_bytes(DType::I4, &[3, 1], &[0x21, 0x0f]).unwrap();
    let o = call("ConcatD", &[Some(&q), Some(&q)], &attrs(&[("concat_dim", 1i64.into())]), &[DType::I4]).unwrap();
    assert_eq!(o[0].bytes(), [0x11, 0x22, 0xff]);
    let o = call("Cast", &[Some(&q)], &attrs(&[]), &[DType::I8]).unwrap();
    assert_eq!(o[0].view().values::<i8>().unwrap(), [1, 2, -1]);
}

#[test]
fn hostile_sizes_are_refused() {
    let huge = t(&[2], &[i64::MAX, 16]);
    assert_eq!(
        refusal("Fill", &[&huge, &t(&[], &[1f32])], &[]),
        "shape [9223372036854775807, 16] has more elements than can be addressed"
    );
    let one = t(&[1], &[1f32]);
    assert_eq!(refusal("Tile", &[&one, &t(&[1], &[i64::MAX])], &[]), "a tensor f32[9223372036854775807] has no size");
    assert_eq!(
        refusal("PadD", &[&one], &[("paddings", l(&[i64::MIN, 0]))]),
        "paddings does not fit: found -9223372036854775808 and 0, expected pads that leave something of 1"
    );
    let k = [("ksize", l(&[1, 1, i64::MAX])), ("strides", l(&[1, 1, 0]))];
    assert!(refusal("MaxPoolV3", &[&t(&[1, 1, 1], &[1f32])], &k).starts_with("window does not fit"));
}

/// Values `(k % modulus - shift) / scale`, as the script that called onnxruntime made them.
fn ramp(n: usize, modulus: usize, shift: f32, scale: f32) -> Vec<f32> {
    (0..n).map(|k| ((k % modulus) as f32 - shift) / scale).collect()
}

#[test]
fn recurrences() {
    let x = t(&[3, 2, 2], &ramp(12, 5, 2.0, 4.0));
    let w = t(&[2, 8, 2], &ramp(32, 7, 3.0, 5.0));
    let r = t(&[2, 8, 2], &ramp(32, 5, 2.0, 5.0));
    let b = t(&[2, 16], &ramp(32, 3, 1.0, 10.0));
    let p = t(&[2, 6], &ramp(12, 3, 1.0, 10.0));
    let lens = t(&[2], &[3i32, 2]);
    let list = attrs(&[("hidden_size", 2i64.into()), ("direction", "bidirectional".into())]);
    let o = call(
        "CommonLSTM",
        &[Some(&x), Some(&w), Some(&r), Some(&b), Some(&lens), None, None, Some(&p)],
        &list,
        &[DType::F32; 3],
    )
    .unwrap();
    let y = [
        -0.0933916, 0.0663804, 0.038945, -0.0434607, 0.0209646, 0.0672406, -0.0331474, 0.0413485, -0.0636049,
        -0.0277971, -0.0117628, -0.0039947, -0.1229675, 0.0136585, 0.0112783, 0.0379324, 0.0602682, -0.1037292, 0.0,
        0.0, -0.0882111, 0.0124470, 0.0, 0.0,
    ];
    near(o[0].view().values::<f32>().unwrap(), &y);
    let c = [0.1032741, -0.2237498, -0.0226175, -0.0086682, 0.0441426, 0.1263593, -0.0725386, 0.0896949];
    near(o[2].view().values::<f32>().unwrap(), &c);
    let cut = |v: Vec<f32>, dims: &[u64]| t(dims, &v[..dims.iter().product::<u64>() as usize]);
    let (w, r) = (cut(ramp(32, 7, 3.0, 5.0), &[1, 6, 2]), cut(ramp(32, 5, 2.0, 5.0), &[1, 6, 2]));
    let b = cut(ramp(32, 3, 1.0, 10.0), &[1, 12]);
    for (before, want) in
        [(0i64, [0.0606391, 0.1409624, 0.0375111, 0.1636943]), (1, [0.0547983, 0.0991644, 0.0368307, 0.1215481])]
    {
        let list = attrs(&[("direction", "reverse".into()), ("linear_before_reset", before.into())]);
        let o = call("CommonGRU", &[Some(&x), Some(&w), Some(&r), Some(&b)], &list, &[DType::F32; 2]).unwrap();
        near(o[1].view().values::<f32>().unwrap(), &want);
    }
}

#[test]
fn nearest_copies_strings() {
    let (x, s) = (words(&[1, 3], &["a", "", "b"]), t(&[2], &[1f32, 2.0]));
    let y = call("Resize", &[Some(&x), None, Some(&s)], &attrs(&[]), &[DType::STRING]).unwrap();
    assert_eq!(y[0].bytes(), words(&[1, 6], &["a", "a", "", "", "b", "b"]).bytes());
}

#[test]
fn compress_takes_the_parts_whose_conditions_are_true() {
    let c = HostTensor::from_bytes(DType::BOOL, &[4], &[1, 0, 0, 1]).unwrap();
    let x = t(&[2, 4, 3], &(0..24).map(|v| v as f32).collect::<Vec<_>>());
    let axis = |a: i64| attrs(&[("axis", a.into())]);
    let of = |x: &HostTensor, a| {
        call("Compress", &[Some(x), Some(&c)], &a, &[DType::F32]).unwrap()[0].view().values::<f32>().unwrap().to_vec()
    };
    // numpy.compress(condition, x, axis).
    assert_eq!(of(&x, axis(1)), [0., 1., 2., 9., 10., 11., 12., 13., 14., 21., 22., 23.]);
    assert_eq!(of(&x, attrs(&[])), [0.0, 3.0]);
    let x = t(&[2, 4], &(0..8).map(|v| v as f32).collect::<Vec<_>>());
    assert_eq!(of(&x, axis(-1)), [0.0, 3.0, 4.0, 7.0]);
}

#[test]
fn groups_of_unique_numbers_are_those_of_numpy() {
    let x = t(&[7], &[f64::NAN, 2.0, -0.0, f64::NAN, 0.0, -5.0, 2.0]);
    let types = [DType::F64, DType::I64, DType::I64, DType::I64];
    let of = |sorted: i64| {
        let o = call("Unique", &[Some(&x)], &attrs(&[("sorted", sorted.into())]), &types).unwrap();
        [1, 2, 3].map(|i| o[i].view().values::<i64>().unwrap().to_vec())
    };
    assert_eq!(of(1), [vec![5, 2, 1, 0], vec![3, 2, 1, 3, 1, 0, 2], vec![1, 2, 2, 2]]);
    assert_eq!(of(0), [vec![0, 1, 2, 5], vec![0, 1, 2, 0, 2, 3, 1], vec![2, 2, 2, 1]]);
}

#[test]
fn a_determinant_of_many_rows_is_that_of_its_factors() {
    // The product of a lower matrix of ones and an upper matrix with 1 and 2 on its diagonal.
    let n = 9usize;
    let upper = |i: usize, j: usize| if i == j { (1 + i % 2) as f64 } else { (i * j % 3) as f64 };
    let of = |at: usize| (0..=(at / n).min(at % n)).map(|k| upper(k, at % n)).sum::<f64>();
    let x = t(&[9, 9], &(0..n * n).map(of).collect::<Vec<_>>());
    let y = call("MatrixDeterminant", &[Some(&x)], &attrs(&[]), &[DType::F64]).unwrap();
    let y = y[0].view().values::<f64>().unwrap()[0];
    assert!((y - 16.0).abs() < 1e-12, "{y}");
}

#[test]
fn choices_by_value() {
    let x = t(&[6], &[2f32, 1.0, 1.0, 3.0, 4.0, 3.0]);
    let o = call("Unique", &[Some(&x)], &attrs(&[]), &[DType::F32, DType::I64, DType::I64, DType::I64]).unwrap();
    let v = |i: usize| o[i].view().values::<i64>().unwrap().to_vec();
    assert_eq!(o[0].view().values::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!((v(1), v(2), v(3)), (vec![1, 0, 3, 4], vec![1, 0, 0, 2, 3, 2], vec![2, 1, 2, 1]));
    let (x, k) = (t(&[1, 5], &[3f32, 1.0, 3.0, 0.5, -1.0]), t(&[1], &[3i64]));
    let o = call("TopKV2", &[Some(&x), Some(&k)], &attrs(&[]), &[DType::F32, DType::I32]).unwrap();
    assert_eq!(
        (o[0].view().values::<f32>().unwrap(), o[1].view().values::<i32>().unwrap()),
        (&[3f32, 3.0, 1.0][..], &[0, 2, 1][..])
    );
    let boxes = t(
        &[1, 6, 4],
        &[
            0f32, 0., 1., 1., 0., 0.1, 1., 1.1, 0., -0.1, 1., 0.9, 0., 10., 1., 11., 0., 10.1, 1., 11.1, 0., 100., 1.,
            101.,
        ],
    );
    let scores = t(&[1, 1, 6], &[0.9f32, 0.75, 0.6, 0.95, 0.5, 0.3]);
    let (d, v) =
        ints("NonMaxSuppression", &[&boxes, &scores, &t(&[1], &[3i64]), &t(&[1], &[0.5f32]), &t(&[1], &[0f32])], &[]);
    assert_eq!((d, v), (vec![3, 3], vec![0, 0, 3, 0, 0, 0, 0, 0, 5]));
    // An overlap of exactly 0.7 does not exceed the limit of 0.7: both boxes stay.
    let boxes = t(&[1, 2, 4], &[0f32, 0.0, 10.0, 10.0, 0.0, 0.0, 10.0, 7.0]);
    let limits = [t(&[1], &[9i64]), t(&[1], &[0.7f32])];
    let v = ints("NonMaxSuppression", &[&boxes, &t(&[1, 1, 2], &[0.5f32; 2]), &limits[0], &limits[1]], &[]).1;
    assert_eq!(v, [0, 0, 0, 0, 0, 1]);
    assert_eq!(ints("NonZero", &[&t(&[2, 2], &[1f32, 0.0, 1.0, 1.0])], &[]), (vec![2, 3], vec![0, 1, 1, 0, 0, 1]));
    assert_eq!(ints("NonZero", &[&words(&[3], &["a", "", "b"])], &[]), (vec![1, 2], vec![0, 2]));
    assert_eq!(
        ints(
            "Cumsum",
            &[&t(&[3], &[1i64, 2, 3]), &t(&[], &[0i64])],
            &[("exclusive", true.into()), ("reverse", true.into())]
        )
        .1,
        [5, 3, 0]
    );
}

#[test]
fn quantisation() {
    let x = t(&[6], &[0f32, 2.0, -3.0, -2.5, 1.34, 0.5]);
    let o = call("DynamicQuantizeLinear", &[Some(&x)], &attrs(&[]), &[DType::U8, DType::F32, DType::U8]).unwrap();
    assert_eq!(o[0].bytes(), [153, 255, 0, 26, 221, 179]);
    assert_eq!((o[1].view().values::<f32>().unwrap()[0], o[2].bytes()), (0.019_607_844, &[153u8][..]));
    for zeros in [t(&[2], &[0f32, -0.0]), t(&[0], &[0f32; 0])] {
        let types = [DType::U8, DType::F32, DType::U8];
        let o = call("DynamicQuantizeLinear", &[Some(&zeros)], &attrs(&[]), &types).unwrap();
        assert!(o[0].bytes().iter().all(|q| *q == 0));
        assert_eq!((o[1].view().values::<f32>().unwrap(), o[2].bytes()), (&[1f32][..], &[0u8][..]));
    }
    let x = t(&[2, 3], &[1f32, 2.0, -300.0, 0.5, 1.5, 2.5]);
    let (s, z) = (t(&[2], &[0.5f32, 1.0]), t(&[2], &[10i8, -3]));
    let o = call("QuantizeLinear", &[Some(&x), Some(&s), Some(&z)], &attrs(&[("axis", 0i64.into())]), &[DType::I8])
        .unwrap();
    assert_eq!(o[0].view().values::<i8>().unwrap(), [12, 14, -128, -3, -1, -1]);
    assert_eq!(
        floats("DequantizeLinear", &[&o[0], &s, &z], &[("axis", 0i64.into())]).1,
        [1.0, 2.0, -69.0, 0.0, 2.0, 2.0]
    );
}

#[test]
fn attention_of_one_head_is_softmax_of_the_products() {
    let q = t(&[1, 1, 2, 2], &[1f32, 0.0, 0.0, 1.0]);
    let v = t(&[1, 1, 2, 2], &[1f32, 2.0, 3.0, 4.0]);
    // The second query sees both keys, the first one only its own.
    let o = call("Attention", &[Some(&q), Some(&q), Some(&v)], &attrs(&[("is_causal", 1i64.into())]), &[DType::F32; 3])
        .unwrap();
    let p = (1f32 / 2f32.sqrt()).exp() / (1.0 + (1f32 / 2f32.sqrt()).exp());
    near(o[0].view().values::<f32>().unwrap(), &[1.0, 2.0, 1.0 + 2.0 * p, 2.0 + 2.0 * p]);
    // A mask of integers is added.
    let shift = t(&[2, 2], &[0i32, 1, 2, 0]);
    let given = [Some(&q), Some(&q), Some(&v), Some(&shift)];
    let o = call("Attention", &given, &attrs(&[]), &[DType::F32; 3]).unwrap();
    let second = |shift: f32| 1.0 / (1.0 + (-shift).exp());
    let (a, b) = (second(1.0 - 0.5f32.sqrt()), second(0.5f32.sqrt() - 2.0));
    near(o[0].view().values::<f32>().unwrap(), &[1.0 + 2.0 * a, 2.0 + 2.0 * a, 1.0 + 2.0 * b, 2.0 + 2.0 * b]);
    let list = attrs(&[
        ("num_heads", 1i64.into()),
        ("scale_value", (1.0 / 2f64.sqrt()).into()),
        ("input_layout", "BNSD".into()),
    ]);
    let m = t(&[1, 1, 2, 2], &[false, true, false, false].map(u8::from));
    let o =
        call("PromptFlashAttention", &[Some(&q), Some(&q), Some(&v), None, Some(&m)], &list, &[DType::F32]).unwrap();
    near(o[0].view().values::<f32>().unwrap(), &[1.0, 2.0, 1.0 + 2.0 * p, 2.0 + 2.0 * p]);
    // The same by the positions of the queries; then each query sees only the key before it, which
    // the first one does not have.
    for (more, want) in [
        (&[("sparse_mode", 2i64)][..], [1.0, 2.0, 1.0 + 2.0 * p, 2.0 + 2.0 * p]),
        (&[("sparse_mode", 3)], [1.0, 2.0, 1.0 + 2.0 * p, 2.0 + 2.0 * p]),
        (&[("sparse_mode", 4), ("pre_tokens", 1), ("next_tokens", -1)], [0.0, 0.0, 1.0, 2.0]),
    ] {
        let mut all = list.clone();
        more.iter().for_each(|(key, v)| all.set(*key, AttrValue::from(*v)));
        let o = call("PromptFlashAttention", &[Some(&q), Some(&q), Some(&v)], &all, &[DType::F32]).unwrap();
        near(o[0].view().values::<f32>().unwrap(), &want);
    }
    // Scores that are all minus infinity give NaN or zero.
    let shift = t(&[2, 2], &[f32::NEG_INFINITY, f32::NEG_INFINITY, 0.0, f32::NEG_INFINITY]);
    for (precise, first) in [(0i64, f32::NAN), (2, 0.0)] {
        let mut all = list.clone();
        all.set("inner_precise", AttrValue::from(precise));
        let o =
            call("PromptFlashAttention", &[Some(&q), Some(&q), Some(&v), Some(&shift)], &all, &[DType::F32]).unwrap();
        let y = o[0].view().values::<f32>().unwrap().to_vec();
        assert!(y[..2].iter().all(|v| v.is_nan() == first.is_nan()) && y[2..] == [1.0, 2.0], "{y:?}");
    }
}

#[test]
fn transforms_invert_and_sums_of_letters_agree() {
    let x = t(&[5], &[1f32, -2.0, 3.0, 0.5, 7.0]);
    let o = call("RFFT", &[Some(&x)], &attrs(&[]), &[DType::F32]).unwrap();
    assert_eq!(o[0].view().dims, [3, 2]);
    near(&floats("IRFFT", &[&o[0]], &[("n", 5i64.into())]).1, &[1.0, -2.0, 3.0, 0.5, 7.0]);
    let (a, b) = (t(&[2, 3], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0]), t(&[3, 2], &[1f32, 0.0, 0.0, 1.0, 1.0, 1.0]));
    assert_eq!(
        floats("Einsum", &[&a, &b], &[("equation", "ij,jk->ki".into())]),
        (vec![2, 2], vec![4.0, 10.0, 5.0, 11.0])
    );
    assert_eq!(
        floats("Einsum", &[&t(&[2, 2], &[1f32, 2.0, 3.0, 4.0])], &[("equation", "ii".into())]),
        (vec![], vec![5.0])
    );
    assert_eq!(floats("MatrixDeterminant", &[&t(&[2, 2], &[1f32, 2.0, 3.0, 4.0])], &[]).1, [-2.0]);
}

#[test]
fn scatters_write_in_order() {
    let d = t(&[3], &[1f32, 2.0, 3.0]);
    let (i, u) = (t(&[3], &[0i64, -1, 0]), t(&[3], &[10f32, 20.0, 30.0]));
    assert_eq!(floats("ScatterElements", &[&d, &i, &u], &[]).1, [30.0, 2.0, 20.0]);
    assert_eq!(floats("ScatterElements", &[&d, &i, &u], &[("reduction", "add".into())]).1, [41.0, 2.0, 23.0]);
    assert_eq!(floats("TensorScatterUpdate", &[&d, &t(&[1, 1], &[1i64]), &t(&[1], &[9f32])], &[]).1, [1.0, 9.0, 3.0]);
    assert_eq!(
        refusal("ScatterElements", &[&d, &t(&[1], &[3i64]), &t(&[1], &[0f32])], &[]),
        "index in input 1 does not fit: found 3, expected -3 to 2"
    );
}

/// Values of the standard's evaluator (onnx 1.23): a cubic filter overshoots and is clipped to the
/// range of the type; NaN is above no threshold.
#[test]
fn whole_numbers_saturate_and_nan_passes_no_threshold() {
    let s = t(&[4], &[1f32, 1.0, 1.0, 2.0]);
    let cubic = attrs(&[("mode", AttrValue::from("cubic"))]);
    let near = |got: Vec<i64>, want: [i64; 12]| {
        let off = got.iter().zip(&want).map(|(g, w)| (g - w).abs()).max();
        assert!(got.len() == 12 && off <= Some(1), "{got:?} for {want:?}");
    };
    let x = t(&[1, 1, 1, 6], &[0u8, 255, 255, 0, 10, 250]);
    let y = call("Resize", &[Some(&x), None, Some(&s)], &cubic, &[DType::U8]).unwrap();
    let y = y[0].view().values::<u8>().unwrap().iter().map(|v| i64::from(*v)).collect();
    near(y, [0, 58, 197, 255, 255, 197, 57, 0, 0, 65, 196, 255]);
    let x = t(&[1, 1, 1, 6], &[-128i8, 127, 127, -128, 0, 100]);
    let y = call("Resize", &[Some(&x), None, Some(&s)], &cubic, &[DType::I8]).unwrap();
    let y = y[0].view().values::<i8>().unwrap().iter().map(|v| i64::from(*v)).collect();
    near(y, [-128, -70, 69, 127, 127, 65, -84, -128, -49, 36, 82, 111]);
    let x = t(&[6], &[f32::NAN, 2.0, 1.0, 0.5, f32::NEG_INFINITY, f32::INFINITY]);
    assert_eq!(floats("ThresholdedRelu", &[&x], &[]).1, [0.0, 2.0, 0.0, 0.0, 0.0, f32::INFINITY]);
}

#[test]
fn images_are_resized_and_sampled() {
    let x = t(&[1, 1, 2, 3], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let resize = |s: &[f32; 2], list: &[(&str, AttrValue)]| {
        let s = t(&[4], &[1.0, 1.0, s[0], s[1]]);
        call("Resize", &[Some(&x), None, Some(&s)], &attrs(list), &[DType::F32]).unwrap()[0]
            .view()
            .values::<f32>()
            .unwrap()
            .to_vec()
    };
    let text = |s: &str| AttrValue::from(s);
    let want = [
        1.0, 1.5, 2.1666665, 2.8333333, 1.75, 2.25, 2.9166665, 3.5833335, 3.25, 3.75, 4.4166665, 5.083333, 4.0, 4.5,
        5.166667, 5.833333,
    ];
    near(&resize(&[2.0, 1.5], &[("mode", text("linear"))]), &want);
    near(
        &resize(&[1.5, 2.0], &[("mode", text("cubic"))])[..6],
        &[0.63411486, 0.93099, 1.4075527, 2.0716155, 2.5481782, 2.8450532],
    );
    let list = [
        ("mode", text("cubic")),
        ("exclude_outside", 1i64.into()),
        ("coordinate_transformation_mode", text("asymmetric")),
    ];
    near(&resize(&[2.0, 1.0], &list), &[1.0, 2.0, 3.0, 2.5, 3.5, 4.5, 4.0, 5.0, 6.0, 4.5625, 5.5625, 6.5625]);
    let list = [("coordinate_transformation_mode", text("asymmetric")), ("nearest_mode", text("floor"))];
    near(&resize(&[1.5, 1.7], &list), &[1.0, 1.0, 2.0, 2.0, 3.0, 1.0, 1.0, 2.0, 2.0, 3.0, 4.0, 4.0, 5.0, 5.0, 6.0]);
    near(&resize(&[0.6, 0.6], &[("mode", text("linear")), ("antialias", 1i64.into())]), &[2.5]);
    let g = t(&[1, 2, 2, 2], &[-1f32, -0.5, 0.2, 0.9, 1.4, -1.2, 0.05, 0.1]);
    for (mode, pad, want) in [
        ("bilinear", "zeros", [0.5, 3.18, 0.0, 3.875]),
        ("bilinear", "reflection", [1.0, 5.3, 2.9, 3.875]),
        ("nearest", "border", [1.0, 5.0, 3.0, 5.0]),
        ("bicubic", "zeros", [0.40625, 3.811033, -0.042236414, 4.670139]),
        ("bicubic", "border", [0.90625, 5.7132454, 2.858249, 3.9443893]),
        ("bicubic", "reflection", [0.8125, 5.929246, 2.452251, 3.9443893]),
    ] {
        near(
            &floats("GridSample", &[&x, &g], &[("interpolation_mode", text(mode)), ("padding_mode", text(pad))]).1,
            &want,
        );
    }
    let c = t(&[1, 4, 4], &(1..=16).map(|v| v as f32).collect::<Vec<_>>());
    let (i, b) = (t(&[2], &[3i64, 3]), t(&[2], &[2i64, 2]));
    assert_eq!(floats("Col2Im", &[&c, &i, &b], &[]).1, [1.0, 7.0, 6.0, 12.0, 34.0, 22.0, 11.0, 27.0, 16.0]);
}

#[test]
fn regions_are_sampled_and_kernel_places_moved() {
    let map = [
        0f32, 1.0, 2.75, 5.25, 8.0, 11.25, 14.75, 18.5, 22.75, 27.0, 31.5, 36.5, 41.5, 46.75, 52.5, 58.0, 64.0, 70.0,
        76.25, 82.75, 89.5, 96.25, 103.25, 110.25,
    ];
    let x = t(&[1, 1, 4, 6], &map);
    let (rois, batch) = (t(&[2, 4], &[0.5f32, 0.25, 4.5, 3.0, -3.0, 1.0, 9.0, 2.5]), t(&[2], &[0i64, 0]));
    let two = |list: &[(&'static str, AttrValue)]| {
        [&[("output_height", 2i64.into()), ("output_width", 2i64.into())], list].concat()
    };
    let aligned = |list: &[(&'static str, AttrValue)]| floats("RoiAlign", &[&x, &rois, &batch], &two(list)).1;
    near(
        &aligned(&[("sampling_ratio", 2i64.into())]),
        &[8.816406, 14.828125, 42.17871, 52.85742, 8.324219, 14.421875, 18.078125, 25.90625],
    );
    let whole = [("sampling_ratio", 2i64.into()), ("coordinate_transformation_mode", "output_half_pixel".into())];
    near(&aligned(&whole), &[20.89453, 29.11914, 61.14844, 73.21875, 15.75, 23.1875, 27.21094, 36.08984]);
    near(
        &aligned(&[("sampling_ratio", 2i64.into()), ("mode", "max".into())]),
        &[8.886719, 12.30469, 22.14844, 27.0, 17.34375, 29.53125, 37.984375, 52.0],
    );
    near(
        &aligned(&[("spatial_scale", 0.5.into())]),
        &[0.25, 1.4375, 10.38086, 13.33203, 2.0963542, 8.057292, 5.955729, 15.838542],
    );
    let e = refusal("RoiAlign", &[&x, &rois, &t(&[2], &[0i64, 1])], &two(&[]));
    assert_eq!(e, "input 2 `batch_indices` does not fit: found 1, expected 0 to 0");
    let far = t(&[2, 4], &[0f32, 0.0, 1e30, 1.0, 0.0, 0.0, 1.0, 1.0]);
    let e = refusal("RoiAlign", &[&x, &far, &batch], &two(&[]));
    assert!(e.starts_with("input 1 `rois` does not fit: found a region from -0.5 to 1"), "{e}");
    let rois = t(&[2, 5], &[0f32, 0.0, 1.0, 4.0, 3.0, 0.0, 2.6, 0.0, 5.0, 7.0]);
    near(
        &floats("MaxRoiPool", &[&x, &rois], &[("pooled_shape", l(&[2, 3]))]).1,
        &[46.75, 58.0, 64.0, 82.75, 96.25, 103.25, 96.25, 103.25, 110.25, 0.0, 0.0, 0.0],
    );
    let x = t(&[1, 1, 2, 3], &[0f32, 1.0, 2.75, 14.75, 18.5, 22.75]);
    let w = t(&[1, 1, 2, 2], &[1f32, -2.0, 0.5, 1.0]);
    let moved = [0.5f32, -0.25, 0.0, 1.5, -1.0, 0.75, 2.0, 0.0, -0.5, 0.25, 0.0, 0.0, 1.0, -3.0, 0.1, 0.2];
    let (moved, bias) = (t(&[1, 8, 1, 2], &moved), t(&[1], &[0.5f32]));
    let (d, y) = floats("DeformConv", &[&x, &w, &moved, &bias], &[]);
    assert_eq!(d, [1, 1, 1, 2]);
    near(&y, &[11.5625, -27.03125]);
    let mask = t(&[1, 4, 1, 2], &[1f32, 0.5, 0.0, 2.0, 1.0, 1.0, 0.25, 1.0]);
    let inputs = [Some(&x), Some(&w), Some(&moved), None, Some(&mask)];
    let y = call("DeformConv", &inputs, &attrs(&[]), &[DType::F32]).unwrap();
    near(y[0].view().values::<f32>().unwrap(), &[11.0625, -63.546875]);
}

#[test]
fn left_out_attributes_mean_what_the_prototypes_say() {
    let (seen, unseen) = every_default();
    assert!(seen.len() >= 100, "{} operators computed something, these not: {unseen:?}", seen.len());
}

#[test]
fn products_of_bytes_are_scaled_and_rounded_to_bytes() {
    let (a, b) = (t(&[2, 2], &[130u8, 120, 255, 0]), t(&[2, 2], &[1i8, -2, 3, 4]));
    let (sa, sb, za) = (t(&[], &[0.5f32]), t(&[2], &[0.25f32, 0.5]), t(&[], &[128u8]));
    let bias = t(&[2], &[1f32, -1.0]);
    let inputs = [Some(&a), Some(&sa), Some(&za), Some(&b), Some(&sb), None, None, None, Some(&bias)];
    // Sums: [2 - 24, -4 - 32] and [127 - 384, -254 - 512].
    let y = call("FusedQuantMatMul", &inputs, &attrs(&[]), &[DType::F32]).unwrap();
    assert_eq!(y[0].view().values::<f32>().unwrap(), [-1.75, -10.0, -31.125, -192.5]);
    let (sy, zy) = (t(&[], &[0.5f32]), t(&[], &[-3i8]));
    let inputs = [Some(&a), Some(&sa), Some(&za), Some(&b), Some(&sb), None, Some(&sy), Some(&zy), Some(&bias)];
    let relu = attrs(&[("activation", "leaky_relu".into()), ("activation_params", vec![0.5f64].into())]);
    let y = call("FusedQuantMatMul", &inputs, &relu, &[DType::I8]).unwrap();
    // Halved and doubled, minus 3; -1.75 is half to even.
    assert_eq!(y[0].view().values::<i8>().unwrap(), [-5, -13, -34, -128]);
    // Real numbers are quantised first, with a scale of 0.2: 0, 125, 255 and 64.
    let x = t(&[2, 2], &[0f32, 25.0, 51.0, 12.75]);
    let y = call("FusedQuantMatMul", &[Some(&x), None, None, Some(&b), Some(&sb)], &attrs(&[]), &[DType::F32]).unwrap();
    near(y[0].view().values::<f32>().unwrap(), &[18.75, 50.0, 22.35, -25.4]);
}

#[test]
fn weights_of_bytes_are_scaled_by_column() {
    let x = t(&[1, 2, 2], &[1f32, 2.0, -1.0, 0.5]);
    // Column j of the matrix is at position j of each of the two rows of the panel.
    let mut panel = [0i8; 32];
    (panel[0], panel[1], panel[16], panel[17]) = (3, -4, 10, 2);
    let w = t(&[1, 2, 16], &panel);
    let (scale, bias) = (t(&[2], &[0.5f32, 2.0]), t(&[2], &[1f32, -1.0]));
    let inputs = [Some(&x), Some(&w), Some(&scale), Some(&bias)];
    let y = call("FusedWeightMatMul", &inputs, &attrs(&[]), &[DType::F32]).unwrap();
    near(y[0].view().values::<f32>().unwrap(), &[12.5, -1.0, 2.0, 9.0]);
    let relu = attrs(&[("activation", "relu".into())]);
    let y = call("FusedWeightMatMul", &inputs, &relu, &[DType::F32]).unwrap();
    near(y[0].view().values::<f32>().unwrap(), &[12.5, 0.0, 2.0, 9.0]);
}

/// Two groups of two rows; a byte holds the even row in its lower half.
#[test]
fn weights_of_four_bits_are_scaled_by_group() {
    let x = t(&[1, 4], &[1f32, 2.0, 3.0, -1.0]);
    let mut panel = [0x88u8; 32];
    // Column 0 is 1, -2, 7, -8; column 1 is 0, 3, 2, 2.
    (panel[0], panel[1], panel[16], panel[17]) = (0x69, 0xB8, 0x0F, 0xAA);
    let w = t(&[1, 2, 16], &panel);
    let (scale, offset) = (t(&[2, 2], &[0.5f32, 2.0, 1.0, 0.25]), t(&[2, 2], &[1f32, 0.0, -1.0, 2.0]));
    let inputs = [Some(&x), Some(&w), Some(&scale), None, None, Some(&offset)];
    let y = call("FusedWeightMatMul", &inputs, &attrs(&[("group_size", 2i64.into())]), &[DType::F32]).unwrap();
    // 0.5 (0 + 2 (-3)) + 3 (8) - 1 (-7), and 2 (2 * 3) + 0.25 (0).
    near(y[0].view().values::<f32>().unwrap(), &[28.0, 12.0]);
}

/// Windows of one place divide by zero if they are not periodic, as in onnxruntime.
#[test]
fn a_symmetric_window_of_one_place_is_not_a_number() {
    for op in ["HannWindow", "HammingWindow", "BlackmanWindow"] {
        let one = t(&[], &[1i64]);
        near(&floats(op, &[&one], &[("periodic", false.into())]).1, &[f32::NAN]);
        assert_eq!(floats(op, &[&t(&[], &[0i64])], &[("periodic", false.into())]).0, [0]);
    }
}

/// Kernels that move elements by their bytes refuse elements of two types.
#[test]
fn elements_of_two_types_are_not_moved_together() {
    let c = ge_plugin_api::kernel::HostTensor::from_bytes(DType::BOOL, &[1], &[0]).unwrap();
    let e = refusal("SelectV2", &[&c, &t(&[1, 2], &[1i64, 3]), &t(&[1, 1], &[2.5f32])], &[]);
    assert_eq!(e, "type of input 2 does not fit: found f32, expected i64");
    let e = refusal("ConcatD", &[&t(&[1], &[1i32]), &t(&[1], &[1f32])], &[("concat_dim", 0i64.into())]);
    assert_eq!(e, "type of input 1 does not fit: found f32, expected i32");
}

/// 0.42 + 0.5 + 0.08 is a little less than 1 in f64.
#[test]
fn a_window_of_integers_has_its_peak() {
    let y = call("BlackmanWindow", &[Some(&t(&[], &[4i32]))], &attrs(&[]), &[DType::I32]).unwrap();
    assert_eq!(y[0].view().values::<i32>().unwrap(), [0, 0, 1, 0]);
}

/// 0.7 * 5 is 3.5 in f32, and less in f64.
#[test]
fn bounds_of_f32_regions_are_those_of_f32() {
    let v: Vec<f32> = (0..64).map(|v| v as f32).collect();
    let (x, rois) = (t(&[1, 1, 8, 8], &v), t(&[1, 5], &[0f32, 0.0, 0.0, 5.0, 5.0]));
    let scale = f64::from(0.7f32);
    let y = floats("MaxRoiPool", &[&x, &rois], &[("pooled_shape", l(&[1, 1])), ("spatial_scale", scale.into())]);
    assert_eq!(y.1, [36.0]);
}

#[test]
fn norms_of_windows_have_any_exponent() {
    let x = t(&[1, 1, 1, 2], &[1f32, 4.0]);
    near(&floats("GlobalLpPool", &[&x], &[("p", 1.5.into())]).1, &[4.326_749]);
    near(&floats("LpPool", &[&x], &[("p", 1.5.into()), ("ksize", l(&[1, 1, 1, 2]))]).1, &[4.326_749]);
    // Windows of two rows and columns, two columns apart; the first has a column outside.
    let x = t(&[1, 1, 2, 3], &[1f32, -2.0, 3.0, -4.0, 5.0, -6.0]);
    for (p, want) in [(1.0, [5.0, 16.0]), (2.0, [17f32.sqrt(), 74f32.sqrt()]), (3.0, [65f32.cbrt(), 376f32.cbrt()])] {
        let windows = [("ksize", l(&[1, 1, 2, 2])), ("strides", l(&[1, 1, 1, 2])), ("pads", l(&[0, 0, 1, 0]))];
        let attrs = [&[("p", p.into())], &windows[..]].concat();
        near(&floats("LpPool", &[&x], &attrs).1, &want);
    }
}

/// Tables of one image serve all images, as PyTorch writes them; others need their sizes.
#[test]
fn rotary_tables_of_one_image_serve_all() {
    let x = t(&[2, 1, 2, 2], &[1f32, 0.0, 0.0, 1.0, 1.0, 2.0, 3.0, 4.0]);
    let (cos, sin) = (t(&[1, 2, 1], &[1f32, 0.0]), t(&[1, 2, 1], &[0f32, 1.0]));
    let (_, y) = floats("RotaryEmbedding", &[&x, &cos, &sin], &[]);
    near(&y, &[1.0, 0.0, -1.0, 0.0, 1.0, 2.0, -4.0, 3.0]);
    let other = t(&[2, 1, 1], &[1f32, 0.0]);
    let e = refusal("RotaryEmbedding", &[&x, &other, &other], &[]);
    assert_eq!(e, "input 1 `cos_cache` does not fit: found [2, 1, 1] (`sin_cache` [2, 1, 1]), expected [2 or 1, 2, 1]");
}
