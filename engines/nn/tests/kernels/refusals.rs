//! What the engines refuse, in their own words, at compile and at load.
use crate::harness::*;
use ge_nn::engine::Nn;
use ge_plugin_api::abi::ROption;
use ge_plugin_api::engine::Engine;
use ge_plugin_api::types::DType;

const F: DType = DType::F32;

#[test]
fn every_refusal_has_its_reason() {
    let ai = Nn::ai_core();
    let x = noise(F, &[2, 3], 1);
    let no = |c: Case| c.refusal(&ai);
    assert_eq!(no(case("NoSuchOp", &[&x], &[(F, &[2, 3])])), "type");
    assert_eq!(case("SoftmaxV2", &[&x], &[(F, &[2, 3])]).refusal(&Nn::vector()), "it is for the AI core");
    let d = noise(DType::F64, &[2, 3], 1);
    assert_eq!(no(case("Relu", &[&d], &[(DType::F64, &[2, 3])])), "input 0 is f64, it takes f32, f16, bf16");
    assert_eq!(no(case("MatMulV2", &[&x, &x], &[(F, &[2, 3])])), "inner sizes are 3 and 2");
    let h = noise(DType::F16, &[3, 2], 1);
    assert_eq!(no(case("MatMulV2", &[&x, &h], &[(F, &[2, 2])])), "input 1 is f16, input 0 f32");
    let axes = t(DType::I64, &[1], [0.0]);
    let fed = case("ReduceSum", &[&x, &axes], &[(F, &[3])]).feed(1);
    assert_eq!(no(fed), "input 1 is not a constant of at most 4096 values");
    let far = case("ReduceSumD", &[&x], &[(F, &[3])]).with("axes", vec![2i64]);
    assert_eq!(no(far), "axis 2 is out of range for rank 2");
    let pads = t(DType::I64, &[4], [-1.0, 0.0, 0.0, 0.0]);
    assert_eq!(no(case("PadV3", &[&x, &pads], &[(F, &[1, 3])])), "paddings [-1, 0, 0, 0] crop");
    let image = noise(F, &[1, 4, 4, 2], 1);
    let nhwc = case("MaxPoolV3", &[&image], &[(F, &[1, 2, 2, 2])])
        .with("ksize", vec![1i64, 2, 2, 1])
        .with("data_format", "NHWC");
    assert_eq!(no(nhwc), "data_format is NHWC, it takes channels second");
    let filter = noise(F, &[3, 4, 1, 1], 2);
    let offset = case("Conv2D", &[&image, &filter, &noise(F, &[3], 3)], &[(F, &[1, 3, 4, 2])]).absent(2);
    assert_eq!(no(offset), "input 3 `offset_w` is given");
    let huge = case("AvgPoolV2", &[&image], &[(F, &[1, 4, 4, 2])]).with("ksize", vec![1i64, 1, 1 << 40, 1]);
    assert_eq!(no(huge), "attribute `ksize` has windows of 1099511627776 elements, it takes 4194304");
    let empty = [t(F, &[1 << 30, 1, 0, 2], []), t(F, &[1 << 30, 2, 3], [])];
    let none = case("BatchMatMulV2", &[&empty[0], &empty[1]], &[(F, &[1 << 30, 1 << 30, 0, 3])]).feed(0).feed(1);
    assert!(none.run(&ai)[0].data.is_empty(), "a batch that does not exist is not listed");
    let wrong = case("Conv2D", &[&image, &noise(F, &[3, 4, 3, 3], 2)], &[(F, &[1, 3, 2, 2])]);
    assert!(no(wrong).starts_with("kernel spans 3 but the padded input is 2"), "sizes that do not fit");
}

#[test]
fn unknown_shapes_are_refused() {
    // A request or graph without sizes gives no kernel: the host sends such nodes elsewhere.
    let x = noise(F, &[2], 1);
    let mut c = case("Relu", &[&x], &[(F, &[2])]);
    c.outputs[0].1 = vec![3];
    assert_eq!(c.refusal(&Nn::ai_core()), "output 0 is [3], input 0 [2]");
}

#[test]
fn a_damaged_task_is_refused_at_load_or_launch() {
    let ai = Nn::ai_core();
    let x = noise(F, &[4, 8], 1);
    let axes = t(DType::I64, &[1], [1.0]);
    let c = case("ReduceSum", &[&x, &axes], &[(F, &[4])]);
    let (good, _) = c.request(&ai);
    let why = |r: &ge_plugin_api::engine::LoadRequest| {
        ai.load_kernel(r).err().map(|e| e.message().to_owned()).unwrap_or_default()
    };
    for cut in 0..good.binary.len() {
        let mut r = good.clone();
        r.binary = good.binary[..cut].into();
        assert!(!why(&r).is_empty(), "binary cut at {cut}");
    }
    let mut r = good.clone();
    r.args[0].bytes = 12;
    assert_eq!(why(&r), "task of `node`: argument 0 has 12 bytes, f32 x[4, 8] needs 128");
    let mut r = good.clone();
    r.args[0].index = u32::MAX;
    assert!(why(&r).contains("names input"));
    let mut r = good.clone();
    r.op = "MatMulV2".into();
    assert!(!why(&r).is_empty());
    let mut r = good;
    if let ROption::RSome(k) = &mut r.task.kernel {
        assert_eq!(ge_nn::kernel::Tiling::units_of(&k.tiling).unwrap(), 4);
        k.tiling.push(0);
        assert!(ge_nn::kernel::Tiling::units_of(&k.tiling).is_err());
    }
}

#[test]
fn block_dim_follows_the_cores_and_the_work() {
    let ai = Nn::ai_core();
    let planned = |c: Case| c.request(&ai).1;
    let small = noise(F, &[8], 1);
    assert_eq!(planned(case("Relu", &[&small], &[(F, &[8])])), 1);
    let large = noise(F, &[512, 1024], 1);
    assert_eq!(planned(case("Relu", &[&large], &[(F, &[512, 1024])])), 20);
}
