//! Refusals of the engines, with their messages, at compile time and at load time.
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
    let scale = t(F, &[], [1.0]);
    let halves = case("QuantizeLinear", &[&x, &scale], &[(DType::U8, &[2, 3])]);
    assert_eq!(no(halves.with("precision", DType::F16)), "attribute `precision` is not f32");
    let pads = t(DType::I64, &[4], [-1.0, 0.0, 0.0, 0.0]);
    let other = case("PadV3", &[&x, &pads], &[(F, &[2, 3])]);
    assert_eq!(no(other), "output 0 is [2, 3], paddings [-1, 0, 0, 0] of [2, 3] give [1, 3]");
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
    // A request or graph without sizes gives no kernel, so the host uses another engine for such
    // nodes.
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

/// An OM of another build: its kernels may be divided into other units and still run. Weights that
/// may be packed differently are refused because of their format version, with advice.
#[test]
fn a_kernel_of_another_form_is_refused_and_other_units_run() {
    let ai = Nn::ai_core();
    let x = noise(F, &[4, 8], 1);
    let c = case("SoftmaxV2", &[&x], &[(F, &[4, 8])]);
    let (good, _) = c.request(&ai);
    for form in [1u16, 2, ge_nn::sig::FORM + 1] {
        let mut r = good.clone();
        let mut binary = r.binary.to_vec();
        binary[4..6].copy_from_slice(&form.to_le_bytes());
        r.binary = binary.as_slice().into();
        let e = ai.load_kernel(&r).err().expect("refused");
        let own = ge_nn::sig::FORM;
        let want =
            format!("task of `node`: its kernel and weights have form {form}, this build of the engine reads {own}");
        assert_eq!(e.message(), want);
        assert_eq!(e.kind, ge_plugin_api::diagnostic::ErrorKind::UNSUPPORTED);
        assert_eq!(e.diagnostics[0].help.as_str(), "compile the model again, with this build");
    }
    let want = c.launch(&ai, 0).unwrap();
    assert_eq!(c.launch_tiled(&ai, 3, |t| t.units += 5).unwrap(), want);
}

/// Digests of the packing functions' results for given numbers. If one of them changes, OMs of
/// earlier builds hold other weights, and `FORM` must be incremented.
#[test]
fn packed_forms_are_those_of_the_version() {
    use ge_kernels::conv::{ConvSpec, change_filters, pack_filter, packed_filter_len};
    use ge_kernels::gemm::int8::{pack_int8, packed_int8_len};
    use ge_kernels::gemm::{pack_columns, packed_len};
    use ge_kernels::rnn::bytes::{pack_bytes, packed_bytes_len};
    use ge_kernels::rnn::{pack_input, pack_recurrent, packed_input_len, packed_recurrent_len};
    let digest = |b: &[i8]| {
        b.iter().fold(0xcbf2_9ce4_8422_2325u64, |h, v| (h ^ u64::from(*v as u8)).wrapping_mul(0x0100_0000_01b3))
    };
    let given: Vec<i8> = (0..20_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as i8).collect();
    let mut found = vec![];
    for gates in [1, 3, 4] {
        let (mut w, mut r) = (vec![0; packed_input_len(gates, 19, 7)], vec![0; packed_recurrent_len(gates, 19)]);
        pack_input(&given[..gates * 19 * 7], [gates, 19, 7], &mut w);
        pack_recurrent(&given[..gates * 19 * 19], [gates, 19], &mut r);
        found.extend([digest(&w), digest(&r)]);
    }
    let mut w = vec![0; packed_bytes_len(7, 19)];
    pack_bytes(&given[..7 * 4 * 19], 7, 19, &mut w);
    found.push(digest(&w));
    let floats: Vec<f32> = given.iter().map(|v| f32::from(*v)).collect();
    let mut columns = vec![0.0f32; packed_len(21, 37)];
    pack_columns(&floats, 21, 37, 37, 1, &mut columns);
    found.push(digest(&columns.iter().map(|v| *v as i8).collect::<Vec<_>>()));
    let mut whole = vec![0; packed_int8_len(21, 37)];
    pack_int8(&given, 21, 37, 37, 1, &mut whole);
    found.push(digest(&whole));
    let spec = ConvSpec { groups: 2, kernel: [1, 3, 2], ..ConvSpec::square(1, [10, 34], 9, 3) };
    let mut filter = vec![0; packed_filter_len(&spec)];
    pack_filter(&spec, &given[..34 * 5 * 6], &mut filter);
    found.push(digest(&filter));
    let small = ConvSpec { groups: 2, ..ConvSpec::square(1, [10, 34], 9, 3) };
    let changed = change_filters(&small, &floats[..34 * 5 * 9]).expect("small numbers");
    found.push(digest(&changed.iter().map(|v| (*v * 8.0) as i8).collect::<Vec<_>>()));
    let of_form_3 = [
        16809692624283053188,
        5946626219619805641,
        17770626212166545813,
        6575685217915736267,
        17283670331917658272,
        4730670482261275025,
        14250416551662602395,
        18090815749841726094,
        900104676417534236,
        6603202766308938729,
        12772790249560689842,
    ];
    assert_eq!((ge_nn::sig::FORM, found), (3, of_form_3.to_vec()), "digests of packed weights");
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
