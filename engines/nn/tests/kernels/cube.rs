//! The layouts of the cube unit: a node must give the same in them as in plain layouts, after
//! conversion by `TransData`.
use crate::harness::*;
use ge_nn::engine::Nn;
use ge_plugin_api::types::format::transfer_shape;
use ge_plugin_api::types::{DType, Format, Shape};

const H: DType = DType::F16;

fn laid_dims(dtype: DType, dims: &[u64], to: Format) -> Vec<u64> {
    transfer_shape(Format::ND, &Shape::of(dims), to, dtype).unwrap().sizes().unwrap().to_vec()
}

/// Converts a tensor to another format with the engine's own `TransData`.
pub fn laid(x: &T, to: Format) -> T {
    let dims = laid_dims(x.dtype, &x.dims, to);
    let change = case("TransData", &[x], &[(x.dtype, &dims)]).with("src_format", "ND").with("dst_format", to.name());
    change.made_from(0, to, &x.dims).launch(&Nn::vector(), 0).unwrap().remove(0)
}

/// Converts a plain case to other formats of its inputs (`None`: unchanged) and of its output, and
/// compares the two results.
fn same(plain: &Case, formats: &[Option<Format>], out: Option<Format>) {
    let want = plain.launch(&Nn::ai_core(), 0).unwrap().remove(0);
    let mut c = plain.clone();
    for (i, f) in formats.iter().enumerate() {
        let (Some(f), Some(x)) = (f, &plain.inputs[i]) else { continue };
        c = c.laid_from(i, *f, &x.dims);
        c.inputs[i] = Some(laid(x, *f));
    }
    let want = match out {
        None => want,
        Some(f) => {
            let dims = plain.outputs[0].1.clone();
            c.outputs[0].1 = laid_dims(want.dtype, &dims, f);
            c = c.made_from(0, f, &dims);
            laid(&want, f)
        }
    };
    let got = c.run(&Nn::ai_core()).remove(0);
    assert_eq!(got.dims, want.dims, "{}", plain.op);
    for (i, (g, w)) in got.data.iter().zip(&want.data).enumerate() {
        let near = (g - w).abs() <= 4e-3 * w.abs().max(1.0);
        assert!(near && (*w != 0.0 || g.abs() < 4e-3), "{} element {i}: {g} for {w}", plain.op);
    }
}

const X: Option<Format> = Some(Format::NC1HWC0);
const W: Option<Format> = Some(Format::FRACTAL_Z);

fn convolution(channels: [u64; 2], groups: i64) -> Case {
    let [c, o] = channels;
    let x = noise(H, &[2, c, 7, 9], 1);
    let w = noise(H, &[o, c / groups as u64, 3, 3], 2);
    let (b, r) = (noise(H, &[o], 3), noise(H, &[2, o, 4, 5], 4));
    case("FusedConv", &[&x, &w, &b, &r], &[(H, &[2, o, 4, 5])])
        .with("activation", "sigmoid")
        .with("pads", vec![1i64, 1, 1, 1])
        .with("strides", vec![1i64, 1, 2, 2])
        .with("groups", groups)
}

#[test]
fn convolutions_with_bias_residual_and_activation() {
    for channels in [[16, 32], [5, 20], [40, 3]] {
        same(&convolution(channels, 1), &[X, W, None, X], X);
    }
    same(&convolution([20, 20], 20), &[X, None, None, X], X);
    let (x, w) = (noise(H, &[1, 18, 6, 6], 1), noise(H, &[18, 1, 3, 3], 2));
    same(&case("DepthwiseConv2D", &[&x, &w], &[(H, &[1, 18, 4, 4])]), &[X, None], X);
}

#[test]
fn poolings_maps_and_concatenations() {
    let (x, y) = (noise(H, &[2, 20, 6, 8], 1), noise(H, &[2, 20, 6, 8], 2));
    for op in ["MaxPoolV3", "AvgPoolV2"] {
        let c = case(op, &[&x], &[(H, &[2, 20, 3, 4])]);
        same(&c.with("ksize", vec![1i64, 1, 2, 2]).with("strides", vec![1i64, 1, 2, 2]), &[X], X);
    }
    for op in ["GlobalAveragePool", "GlobalMaxPool"] {
        same(&case(op, &[&x], &[(H, &[2, 20, 1, 1])]), &[X], None);
    }
    same(&case("Tanh", &[&x], &[(H, &[2, 20, 6, 8])]), &[X], X);
    same(&case("Add", &[&x, &y], &[(H, &[2, 20, 6, 8])]), &[X, X], X);
    let scale = noise(H, &[2, 20, 1, 1], 3);
    same(&case("Mul", &[&x, &scale], &[(H, &[2, 20, 6, 8])]), &[X, X], X);
    let whole = noise(H, &[2, 32, 6, 8], 4);
    same(&case("Sigmoid", &[&whole], &[(H, &[2, 32, 6, 8])]), &[X], X);
    for axis in [1i64, -3] {
        let c = case("ConcatD", &[&whole, &x], &[(H, &[2, 52, 6, 8])]).with("N", 2i64).with("concat_dim", axis);
        same(&c, &[X, X], X);
    }
    let rows = case("ConcatD", &[&x, &y], &[(H, &[2, 20, 12, 8])]).with("N", 2i64).with("concat_dim", 2i64);
    same(&rows, &[X, X], X);
}

/// The case with its inputs and its output in NC1HWC0.
fn grouped(op: &'static str, inputs: &[&T], dims: &[u64]) -> Case {
    let shapes: Vec<T> =
        inputs.iter().map(|x| if x.dims.len() == 4 { laid(x, Format::NC1HWC0) } else { (*x).clone() }).collect();
    let mut c = case(op, &shapes.iter().collect::<Vec<_>>(), &[(H, &laid_dims(H, dims, Format::NC1HWC0))]);
    for (i, x) in inputs.iter().enumerate().filter(|(_, x)| x.dims.len() == 4) {
        c = c.laid_from(i, Format::NC1HWC0, &x.dims);
    }
    c.made_from(0, Format::NC1HWC0, dims)
}

#[test]
fn what_would_fill_lanes_beyond_the_channels_is_refused() {
    let (x, whole, number) = (noise(H, &[1, 20, 4, 4], 1), noise(H, &[1, 32, 4, 4], 2), t(H, &[], [2.0]));
    let no = |c: Case| c.refusal(&Nn::ai_core());
    let d = [1, 20, 4, 4];
    assert_eq!(no(grouped("Sigmoid", &[&x], &d)), "20 channels fill no whole groups, and Sigmoid does not keep zeros");
    assert_eq!(no(grouped("Add", &[&x, &number], &d)), "20 channels fill no whole groups, and Add does not keep zeros");
    assert_eq!(
        grouped("Add", &[&whole, &number], &[1, 32, 4, 4]).support(&Nn::ai_core()),
        ge_plugin_api::engine::Support::Yes
    );
    let steps = vec!["Sigmoid %0".to_owned()];
    let chain = no(grouped("FusedElementwise", &[&x], &d).with("steps", steps));
    assert_eq!(chain, "20 channels fill no whole groups, and FusedElementwise does not keep zeros");
    let one = noise(H, &[1, 1, 4, 4], 3);
    assert_eq!(
        no(grouped("Mul", &[&x, &one], &d)),
        "input 1 is NC1HWC0 [1, 1, 4, 4, 16], output 0 has 20 channels in groups"
    );
    let joined = grouped("ConcatD", &[&x, &whole], &[1, 52, 4, 4]).with("N", 2i64).with("concat_dim", 1i64);
    assert_eq!(no(joined), "input 0 has 20 channels, which fill no whole groups of 16");
}

#[test]
fn layouts_that_do_not_fit_are_refused() {
    let no = |c: Case| c.refusal(&Nn::ai_core());
    let (x, w) = (noise(H, &[1, 20, 4, 4], 1), noise(H, &[8, 20, 1, 1], 2));
    let (lx, lw) = (laid(&x, Format::NC1HWC0), laid(&w, Format::FRACTAL_Z));
    let out = laid_dims(H, &[1, 8, 4, 4], Format::NC1HWC0);
    let conv = |x: &T, w: &T| case("Conv2D", &[x, w], &[(H, &out)]).made_from(0, Format::NC1HWC0, &[1, 8, 4, 4]);
    let from_x = |c: Case| c.laid_from(0, Format::NC1HWC0, &[1, 20, 4, 4]);
    let good = from_x(conv(&lx, &lw)).laid_from(1, Format::FRACTAL_Z, &[8, 20, 1, 1]);
    assert_eq!(good.support(&Nn::ai_core()), ge_plugin_api::engine::Support::Yes);
    assert_eq!(no(from_x(conv(&lx, &w))), "the filter is in ND for 1 groups");
    let other = from_x(conv(&lx, &lw)).laid_from(1, Format::FRACTAL_Z, &[8, 40, 1, 1]);
    assert_eq!(no(other), "input 1: FRACTAL_Z [2, 1, 16, 16] is not ND [8, 40, 1, 1] laid out");
    let mut plain = good.clone();
    plain.made.clear();
    assert_eq!(no(plain), "filter [8, 20, 1, 1] and output [1, 1, 4, 4, 16] for x [1, 20, 4, 4]");
    let nothing = conv(&lx, &lw).laid(0, Format::NC1HWC0).laid_from(1, Format::FRACTAL_Z, &[8, 20, 1, 1]);
    assert_eq!(no(nothing), "filter [8, 20, 1, 1] and output [1, 8, 4, 4] for x [1, 2, 4, 4, 16]");
}
