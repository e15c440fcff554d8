//! Resizing through the engine: expected values from other implementations, constants that are
//! stored with the kernel, and refusals. Shapes and methods in general are tested with the loops
//! themselves.
use crate::harness::*;
use ge_nn::engine::Nn;
use ge_plugin_api::types::DType;

const F: DType = DType::F32;

/// A case with output sizes, which the kernel takes from the output's shape.
fn sized(x: &T, mode: &'static str, out: &[u64]) -> Case {
    let sizes = t(DType::I64, &[out.len() as u64], out.iter().map(|d| *d as f64));
    case("Resize", &[x, &sizes], &[(x.dtype, out)]).absent(1).absent(2).with("mode", mode)
}

#[test]
fn nearest_places_of_every_type() {
    for dtype in [F, DType::F16, DType::U8, DType::I64, DType::BOOL, DType::F64] {
        let x = t(dtype, &[1, 1, 2, 2], [1.0, 0.0, 0.0, 1.0]);
        let want = [1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0];
        sized(&x, "nearest", &[1, 1, 4, 4]).gives(want, 0.0);
        sized(&x, "nearest", &[1, 1, 4, 4]).feed(3).gives(want, 0.0);
    }
    let x = t(F, &[1, 4], [1.0, 2.0, 3.0, 4.0]);
    let scales = t(F, &[2], [1.0, 0.6]);
    let scaled = case("Resize", &[&x, &scales], &[(F, &[1, 2])]).absent(1);
    scaled.with("coordinate_transformation_mode", "asymmetric").gives([1.0, 3.0], 0.0);
}

/// The examples of ONNX's operator page.
#[test]
fn filters_give_the_numbers_of_the_specification() {
    let x = t(F, &[1, 1, 2, 2], [1.0, 2.0, 3.0, 4.0]);
    let half = [1.0, 1.25, 1.75, 2.0, 1.5, 1.75, 2.25, 2.5, 2.5, 2.75, 3.25, 3.5, 3.0, 3.25, 3.75, 4.0];
    sized(&x, "linear", &[1, 1, 4, 4]).gives(half, 1e-6);
    let corners = (0..16).map(|i| 1.0 + f64::from(i % 4) / 3.0 + f64::from(i / 4) * 2.0 / 3.0);
    sized(&x, "linear", &[1, 1, 4, 4]).with("coordinate_transformation_mode", "align_corners").gives(corners, 1e-6);
    let x = t(F, &[1, 1, 4, 4], (1..=16).map(f64::from));
    let down = t(F, &[4], [1.0, 1.0, 0.8, 0.8]);
    let cubic = case("Resize", &[&x, &down], &[(F, &[1, 1, 3, 3])]).absent(1).with("mode", "cubic");
    let want = [
        1.471_191_41,
        2.781_25,
        4.082_519_53,
        6.711_425_78,
        8.021_484_38,
        9.322_753_91,
        11.916_503_91,
        13.226_562_5,
        14.527_832_03,
    ];
    cubic.gives(want, 1e-6);
    let x = t(F, &[1, 1, 2, 4], (1..=8).map(f64::from));
    let down = t(F, &[4], [1.0, 1.0, 0.6, 0.6]);
    let linear = case("Resize", &[&x, &down], &[(F, &[1, 1, 1, 2])]).absent(1).with("mode", "linear");
    linear.gives([2.666_666_5, 4.333_333_1], 1e-6);
}

#[test]
fn a_window_takes_its_place_from_the_constants() {
    let x = t(F, &[1, 1, 3, 3], (0..9).map(f64::from));
    let roi = t(F, &[4], [0.0, 0.5, 0.5, 1.5]);
    let sizes = t(DType::I64, &[2], [2.0, 4.0]);
    let crop = case("Resize", &[&x, &roi, &sizes], &[(F, &[1, 1, 2, 4])])
        .absent(2)
        .with("axes", vec![2i64, 3])
        .with("mode", "linear")
        .with("coordinate_transformation_mode", "tf_crop_and_resize")
        .with("extrapolation_value", 9.0f64);
    crop.clone().gives([1.0, 5.0 / 3.0, 9.0, 9.0, 4.0, 14.0 / 3.0, 9.0, 9.0], 1e-6);
    let ai = Nn::ai_core();
    assert_eq!(crop.feed(1).refusal(&ai), "input 1 is not a constant of a few values");
    let wide = t(DType::F64, &[1, 2], [1.0, 2.0]);
    let no = sized(&wide, "linear", &[1, 4]).refusal(&ai);
    assert_eq!(no, "input 0 is f64, it takes f32, f16, bf16, u8, i8");
}
