//! Inference, case by case: graphs in the text form state the output types that inference must
//! produce.
use ge_ir::view::GraphContext;
use ge_plugin_api::author::registry;
use ge_plugin_api::ops::OpSetObject;
use ge_plugin_api::types::AttrValue;
use std::collections::BTreeMap;

struct Protos {
    set: OpSetObject,
    index: BTreeMap<String, usize>,
}
fn protos() -> Protos {
    let set = registry::ops().remove(0);
    let index = set.protos().expect("protos").iter().enumerate().map(|(i, p)| (p.name.to_string(), i)).collect();
    Protos { set, index }
}

/// Infers every node of a graph; returns the first difference or error.
fn check(p: &Protos, text: &str) -> Result<(), String> {
    let model =
        ge_ir::text::parse(text, "case", &ge_ir::text::NoFiles).map_err(|d| format!("{text}: {}", d[0].message))?;
    let context = GraphContext::new(&model, 0, &());
    for n in context.graph().nodes() {
        let i = p.index.get(n.op()).ok_or_else(|| format!("no prototype {}", n.op()))?;
        let got = p.set.infer(*i, &n).map_err(|e| e.to_string())?;
        for (k, (g, want)) in got.iter().zip(n.outputs()).enumerate() {
            if g.dtype != want.dtype || g.shape != want.shape {
                return Err(format!(
                    "{} #{k}: {}{} instead of {}{}",
                    n.name(),
                    g.dtype,
                    g.shape,
                    want.dtype,
                    want.shape
                ));
            }
        }
        if got.len() < n.outputs().len() {
            return Err(format!("{}: {} outputs instead of {}", n.name(), got.len(), n.outputs().len()));
        }
    }
    Ok(())
}
fn holds(inputs: &str, nodes: &str) {
    let ret = nodes.trim().lines().last().and_then(|l| l.split_whitespace().next()).unwrap_or("%x");
    let text = format!("graph @main({inputs}) {{\n{nodes}\n return {ret}\n}}");
    if let Err(e) = check(&protos(), &text) {
        panic!("{e}\n{text}");
    }
}
fn fails(inputs: &str, node: &str, words: &str) {
    let text = format!("graph @main({inputs}) {{\n{node}\n return %y\n}}");
    match check(&protos(), &text) {
        Ok(()) => panic!("inferred: {text}"),
        Err(e) => assert!(e.contains(words), "{e}"),
    }
}
fn ints(name: &str, v: &[i64]) -> String {
    let list: Vec<String> = v.iter().map(i64::to_string).collect();
    format!("%{name} = Const() {{value = dense<i64[{}]: {}>}} : i64[{}]\n", v.len(), list.join(" "), v.len())
}

#[test]
fn element_wise_operators_broadcast() {
    holds("%x: f32[2,1,5], %z: f32[3,1]", "%y = Add(%x, %z) : f32[2,3,5]");
    holds("%x: f32[batch,4], %z: f32[4]", "%y = Mul(%x, %z) : f32[batch,4]");
    holds("%x: f16[2,3], %z: f16[3]", "%y = Greater(%x, %z) : bool[2,3]");
    holds("%x: f32[...], %z: f32[3]", "%y = Add(%x, %z) : f32[...]");
    holds("%x: f32[2]", "%y = Cast(%x) {dst_type = i8} : i8[2]");
    holds("%c: bool[3,1], %x: f32[2], %z: f32[]", "%y = SelectV2(%c, %x, %z) : f32[3,2]");
    fails("%x: f32[2], %z: f32[3]", "%y = Add(%x, %z) : f32[2]", "do not broadcast");
}

#[test]
fn one_size_for_two_values() {
    holds("%x: f32[n,3], %z: i8[4]", "%y = SameSize(%x, %z) : f32[4,3]");
    holds("%x: f32[n,3], %z: f32[2,m]", "%y = SameSize(%x, %z) {axis = 0, like_axis = -1} : f32[m,3]");
    holds("%x: f32[4,3], %z: f32[...]", "%y = SameSize(%x, %z) : f32[?,3]");
    let words = "length of `y` does not fit: found 3 ([3,2]), expected 4 as in [4]";
    fails("%x: f32[3,2], %z: f32[4]", "%y = SameSize(%x, %z) {what = \"length of `y`\"} : f32[4,2]", words);
    fails("%x: f32[3], %z: f32[3]", "%y = SameSize(%x, %z) {axis = 1} : f32[3]", "attribute `axis`");
}

#[test]
fn sizes_of_numbers_that_are_none_are_refused() {
    let number = |name: &str, v: &str| format!("%{name} = Const() {{value = dense<f32[]: {v}>}} : f32[]\n");
    let range = |a: &str, b: &str, c: &str| {
        [&number("a", a), &number("b", b), &number("c", c), "%y = Range(%a, %b, %c) : f32[0]"].concat()
    };
    fails("%x: f32[2]", &range("0.0", "nan", "1.0"), "length of the range");
    fails("%x: f32[2]", &range("0.0", "-inf", "1.0"), "length of the range");
    holds("%x: f32[2]", &range("5.0", "0.0", "1.0"));
    let resize = |s: &str| {
        format!("%s = Const() {{value = dense<f32[2]: 1.0 {s}>}} : f32[2]\n%y = Resize(%x, _, %s) : f32[3,0]")
    };
    fails("%x: f32[3,3]", &resize("0.0"), "a positive scale");
    holds("%x: f32[3,3]", &resize("0.1"));
}

#[test]
fn products() {
    holds("%x: f32[2,3], %w: f32[5,3]", "%y = MatMulV2(%x, %w) {transpose_x2 = true} : f32[2,5]");
    holds("%x: f32[7,1,2,3], %w: f32[4,3,5]", "%y = BatchMatMulV2(%x, %w) : f32[7,4,2,5]");
    holds("%x: f32[3], %w: f32[4,3,5]", "%y = BatchMatMulV2(%x, %w) : f32[4,5]");
    holds("%x: f32[3], %w: f32[3]", "%y = BatchMatMulV2(%x, %w) : f32[]");
    holds("%x: f32[b,2,3], %w: f32[3,5]", "%y = BatchMatMulV2(%x, %w) : f32[b,2,5]");
    holds("%x: f16[6,3], %w: f16[2,3,5], %g: i64[2]", "%y = GroupedMatmul(%x, %w, %g) : f16[6,5]");
    holds("%x: f32[2,3,4], %w: f32[2,4,5]", "%y = Einsum(%x, %w) {equation = \"bij,bjk->bik\", N = 2} : f32[2,3,5]");
    fails("%x: f32[2,3], %w: f32[4,5]", "%y = MatMulV2(%x, %w) : f32[2,5]", "found 3 and 4");
    let zeros = |a: &str, b: &str| format!("%x: u8[d,2,3], %w: i8[d,3,5], %a: u8[{a}], %b: i8[{b}]");
    let integers = "%y = MatMulInteger(%x, %w, %a, %b) : i32[d,2,5]";
    for (a, b) in [("2", "5"), ("d,2,1", "d,1,5"), ("2,1", "1,1,5"), ("1,1,1,1", ""), ("n", "m,1,5")] {
        holds(&zeros(a, b), integers);
    }
    fails(&zeros("3", "5"), integers, "input 2 `a_zero_point`");
    fails(&zeros("2", "3,1"), integers, "found [3,1], expected one number, [5] or a shape that broadcasts to [d,1,5]");
    let g = ints("g", &[2, 3]);
    fails(
        "%x: f16[6,3], %w: f16[2,3,5]",
        &format!("{g}%y = GroupedMatmul(%x, %w, %g) {{group_list_type = 1}} : f16[6,5]"),
        "found 5 rows",
    );
}

#[test]
fn convolutions_and_pools() {
    let c = "{strides = [1, 1, 2, 2], pads = [1, 1, 1, 1]}";
    holds("%x: f32[1,3,9,8], %w: f32[5,3,3,3]", &format!("%y = Conv2D(%x, %w) {c} : f32[1,5,5,4]"));
    holds(
        "%x: f32[n,4,9,9], %w: f32[8,2,3,3]",
        "%y = Conv2D(%x, %w) {groups = 2, auto_pad = \"SAME_UPPER\", strides = [1,1,2,2]} : f32[n,8,5,5]",
    );
    holds(
        "%x: f32[1,9,8,3]@NHWC, %w: f32[5,3,3,3]",
        "%y = Conv2D(%x, %w) {data_format = \"NHWC\"} : f32[1,7,6,5]@NHWC",
    );
    holds(
        "%x: f32[1,2,3,4], %w: f32[2,6,3,3]",
        "%y = Conv2DTransposeD(%x, %w) {strides = [1,1,2,2], output_padding = [0,0,1,0]} : f32[1,6,8,9]",
    );
    holds(
        "%x: f32[1,2,3,4], %w: f32[2,6,3,3]",
        "%y = Conv2DTransposeD(%x, %w) {strides = [1,1,2,2], input_size = [-1,-1,9,8]} : f32[1,6,9,8]",
    );
    holds(
        "%x: f32[1,2,7,7]",
        "%y = MaxPoolV3(%x) {ksize = [1,1,2,2], strides = [1,1,2,2], ceil_mode = true} : f32[1,2,4,4]",
    );
    holds("%x: f32[1,2,7]", "%y = AvgPoolV2(%x) {ksize = [1,1,3], strides = [1,1,2], pads = [1,1]} : f32[1,2,4]");
    holds("%x: f32[1,2,7,5]", "%y = GlobalAveragePool(%x) : f32[1,2,1,1]");
    fails("%x: f32[1,3,9,8], %w: f32[5,4,3,3]", "%y = Conv2D(%x, %w) : f32[1,5,7,6]", "found 4 (groups 1), expected 3");
    fails("%x: f32[1,3,2,2], %w: f32[5,3,3,3]", "%y = Conv2D(%x, %w) : f32[1,5,7,6]", "fits the padded input");
}

#[test]
fn normalisation_and_reduction() {
    holds("%x: f32[2,3,4], %g: f32[4]", "%y = LayerNormV3(%x, %g) : f32[2,3,4], f32[2,3,1], f32[2,3,1]");
    holds("%x: f32[n,4,3], %g: f32[4]", "%y = GroupNorm(%x, %g, %g) {num_groups = 2} : f32[n,4,3]");
    fails(
        "%x: f32[n,4,3], %g: f32[4]",
        "%y = GroupNorm(%x, %g, %g) {num_groups = 3} : f32[n,4,3]",
        "a divisor of the 4",
    );
    holds("%x: f32[2,3,4]", "%y = SoftmaxV2(%x) {axes = [1]} : f32[2,3,4]");
    holds("%x: f32[2,3,4]", "%y = ReduceSumD(%x) {axes = [-1, 0]} : f32[3]");
    holds("%x: f32[2,3,4]", "%y = ReduceMean(%x) {keep_dims = true} : f32[1,1,1]");
    holds("%x: f32[2,3,4]", &format!("{}%y = ReduceMax(%x, %a) : f32[2,4]", ints("a", &[1])));
    holds("%x: f32[2,3,4], %a: i64[1]", "%y = ReduceMax(%x, %a) {keep_dims = true} : f32[?,?,?]");
    holds("%x: f32[2,3,4]", "%y = ArgMaxD(%x) {dimension = 1} : i64[2,4]");
    holds("%x: f32[2,9]", &format!("{}%y = TopKV2(%x, %k) : f32[2,3], i32[2,3]", ints("k", &[3])));
    fails("%x: f32[2,3]", "%y = ReduceSumD(%x) {axes = [2]} : f32[2]", "found 2, expected -2 to 1");
    fails("%x: f32[2,3]", "%y = ReduceSumD(%x) {axes = [1, -1]} : f32[2]", "axis 1 twice");
    fails(
        "%x: f32[2,9]",
        &format!("{}%y = TopKV2(%x, %k) : f32[2,3], i32[2,3]", ints("k", &[10])),
        "found 10, expected 0 to 9",
    );
}

#[test]
fn shapes() {
    holds("%x: f32[2,3,4]", &format!("{}%y = Reshape(%x, %s) : f32[2,12]", ints("s", &[0, -1])));
    holds("%x: f32[batch,3,4]", &format!("{}%y = Reshape(%x, %s) : f32[batch,12]", ints("s", &[0, -1])));
    holds("%x: f32[batch,3,4]", &format!("{}%y = Reshape(%x, %s) : f32[batch,2,6]", ints("s", &[-1, 2, 6])));
    holds("%x: f32[?,3,4], %s: i64[3]", "%y = Reshape(%x, %s) : f32[?,?,?]");
    holds("%x: f32[2,0]", &format!("{}%y = Reshape(%x, %s) {{allowzero = 1}} : f32[0,7]", ints("s", &[0, 7])));
    holds("%x: f32[2,3,4]", "%y = TransposeD(%x) {perm = [2,0,1]} : f32[4,2,3]");
    holds("%x: f32[2,3,4,5]@NHWC", "%y = TransposeD(%x) {perm = [0,3,1,2]} : f32[2,5,3,4]@NCHW");
    holds("%x: f32[2,3,4,5]@NCHW", "%y = TransposeD(%x) {perm = [1,0,2,3]} : f32[3,2,4,5]");
    holds("%x: f32[2,3]", "%y = TransShape(%x) {outShape = [3,2]} : f32[3,2]");
    holds("%x: f32[2,3,4]", "%y = Flatten(%x) {axis = 2} : f32[6,4]");
    holds("%x: f32[1,3,1]", "%y = Squeeze(%x) {axis = [-1]} : f32[1,3]");
    holds("%x: f32[3]", "%y = Unsqueeze(%x) {axes = [0, -1]} : f32[1,3,1]");
    holds("%x: f32[2,b]", "%y = Shape(%x) : i64[2]");
    holds("%x: f32[3,1]", &format!("{}%y = Expand(%x, %s) : f32[2,3,6]", ints("s", &[2, 1, 6])));
    holds(
        "%x: f32[3,5]",
        &format!("{}%y = PadV3(%x, %p) {{paddings_contiguous = false}} : f32[6,4]", ints("p", &[1, 0, 2, -1])),
    );
    holds("%x: f32[3,5]", &format!("{}%y = Tile(%x, %m) : f32[6,15]", ints("m", &[2, 3])));
    holds("%x: f32[1,8,2,3]", "%y = DepthToSpace(%x) {block_size = 2} : f32[1,2,4,6]");
    holds(
        "%x: f16[1,33,4,4]@NCHW",
        "%y = TransData(%x) {dst_format = \"NC1HWC0\"} : f16[1,3,4,4,16]@NC1HWC0(f16[1,33,4,4]@NCHW)",
    );
    fails("%x: f32[2,3]", &format!("{}%y = Reshape(%x, %s) : f32[4]", ints("s", &[4])), "6 elements as in [2,3]");
    fails("%x: f32[2,3]", "%y = TransposeD(%x) {perm = [0,0]} : f32[2,2]", "axis 0 twice");
}

#[test]
fn slices_and_gathers() {
    let abc = format!("{}{}", ints("b", &[-3, 1]), ints("e", &[9, -1]));
    holds("%x: f32[5,6]", &format!("{abc}%y = StridedSliceV2(%x, %b, %e) : f32[3,4]"));
    let back = format!("{}{}{}{}", ints("b", &[5]), ints("e", &[-100]), ints("a", &[1]), ints("s", &[-2]));
    holds("%x: f32[5,6]", &format!("{back}%y = StridedSliceV2(%x, %b, %e, %a, %s) : f32[5,3]"));
    // A backward slice that begins before the first element takes that element.
    let before = format!("{}{}{}{}", ints("b", &[-7]), ints("e", &[-100]), ints("a", &[1]), ints("s", &[-2]));
    holds("%x: f32[5,6]", &format!("{before}%y = StridedSliceV2(%x, %b, %e, %a, %s) : f32[5,1]"));
    holds("%x: f32[5,0]", &format!("{before}%y = StridedSliceV2(%x, %b, %e, %a, %s) : f32[5,0]"));
    holds("%x: f32[5,6], %i: i64[2,3]", &format!("{}%y = GatherV2(%x, %i, %a) : f32[5,2,3]", ints("a", &[1])));
    holds("%x: f32[2,3,4], %i: i64[7,2]", "%y = GatherNd(%x, %i) : f32[7,4]");
    holds("%x: f32[5,6], %i: i64[2,6]", "%y = GatherElements(%x, %i) : f32[2,6]");
    // A table of at most 512 rows broadcasts with the size `n` that it was cut from.
    let few = "\"-max(-n+512,0)+512\"";
    let first = format!("{}{}", ints("b", &[0]), ints("e", &[512]));
    holds("%x: f32[n]", &format!("{first}%y = StridedSliceV2(%x, %b, %e) : f32[{few}]"));
    holds(&format!("%x: f32[n,4], %t: f32[{few},4]"), "%y = Add(%x, %t) : f32[n,4]\n%z = Add(%t, %x) : f32[n,4]");
    holds(&format!("%x: f32[m,4], %t: f32[{few},4]"), "%y = Add(%x, %t) : f32[?,4]");
}

#[test]
fn joins_and_splits() {
    holds("%x: f32[2,3], %z: f32[2,5]", "%y = ConcatD(%x, %z) {N = 2, concat_dim = -1} : f32[2,8]");
    holds("%x: f32[2,3], %z: f32[2,3]", "%y = Pack(%x, %z) {axis = 1, N = 2} : f32[2,2,3]");
    holds("%x: f32[4,6]", "%y = SplitD(%x) {num_split = 2, split_dim = 0} : f32[2,6], f32[2,6]");
    holds("%x: f32[7]", "%y = SplitD(%x) {num_split = 3, split_dim = 0} : f32[3], f32[3], f32[1]");
    holds("%x: f32[7]", "%y = SplitVD(%x) {size_splits = [2, -1], split_dim = 0, num_split = 2} : f32[2], f32[5]");
    holds("%a: f32[2], %b: f32[2], %c: f32[2]", "%y = PhonyConcat(%a, %b, %c) {N = [3], concat_dim = [0]} : f32[6]");
    holds(
        "%x: f32[4,6]",
        "%y = PhonySplit(%x) {num_split = [2, 3], split_dim = [0, 1]} : f32[2,2], f32[2,2], f32[2,2], f32[2,2], f32[2,2], f32[2,2]",
    );
    fails(
        "%x: f32[2,3], %z: f32[4,5]",
        "%y = ConcatD(%x, %z) {N = 2, concat_dim = 1} : f32[2,8]",
        "dimension 0 of input 1",
    );
    fails(
        "%x: f32[2,3], %z: f32[2,5]",
        "%y = ConcatD(%x, %z) {N = 3, concat_dim = 1} : f32[2,8]",
        "found 3, expected 2 as there are inputs",
    );
}

#[test]
fn the_rest() {
    holds(
        "%x: f32[7,2,3], %w: f32[1,20,3], %r: f32[1,20,5]",
        "%y = CommonLSTM(%x, %w, %r) {hidden_size = 5} : f32[7,1,2,5], f32[1,2,5], f32[1,2,5]",
    );
    holds("%x: f32[256,4]", "%y = HcomAllGather(%x) {group = \"hccl_world_group\", rank_size = 8} : f32[2048,4]");
    holds("%x: f32[256,4]", "%y = HcomReduceScatter(%x) {rank_size = 8} : f32[32,4]");
    holds("%x: f32[2,16,1]", "%y = DFT(%x) {axis = 1, onesided = true} : f32[2,9,2]");
    holds("%x: f32[2,16]", "%y = RFFT(%x) : f32[2,9,2]\n%z = IRFFT(%y) : f32[2,16]");
    holds(
        "%x: f32[1,3,4,6]",
        "%s = Const() {value = dense<f32[4]: 1 1 2 0.5>} : f32[4]\n%y = Resize(%x, _, %s) : f32[1,3,8,3]",
    );
    holds("%x: f32[2,3]", "%y = NonZero(%x) : i64[2,?]");
    holds("%x: string[2,3], %y: string[3]", "%z = StringConcat(%x, %y) : string[2,3]");
    holds("%x: string[2,n]", "%y = StringSplit(%x) : string[2,n,?], i64[2,n]");
    holds("%x: string[1,3]", "%y = StringNormalizer(%x) : string[1,?]");
    holds("%x: string[n]", "%y = RegexFullMatch(%x) {pattern = \"a*\"} : bool[n]");
    holds("%x: u8[2,3], %s: f32[]", "%y = DequantizeLinear(%x, %s) : f32[2,3]");
    holds(
        "%q: f32[1,8,32], %k: f32[1,9,16], %v: f32[1,9,16]",
        "%y = Attention(%q, %k, %v) {q_num_heads = 4, kv_num_heads = 2} : f32[1,8,32]",
    );
}

#[test]
fn a_batch_that_is_a_vector_has_one_channel() {
    let statistics = "%s: f32[1], %o: f32[1], %m: f32[1], %v: f32[1]";
    holds(&format!("%x: f32[3], {statistics}"), "%y = BNInfer(%x, %s, %o, %m, %v) : f32[3]");
    let three = statistics.replace("[1]", "[3]");
    fails(&format!("%x: f32[3], {three}"), "%y = BNInfer(%x, %s, %o, %m, %v) : f32[3]", "input 1 `scale`");
}

#[test]
fn strings_are_resized_only_by_copies() {
    let scales = "%s = Const() {value = dense<f32[2]: 1 2>} : f32[2]\n";
    holds("%x: string[1,3]", &format!("{scales}%y = Resize(%x, _, %s) : string[1,6]"));
    for how in ["mode = \"linear\"", "coordinate_transformation_mode = \"tf_crop_and_resize\""] {
        let y = format!("{scales}%y = Resize(%x, _, %s) {{{how}}} : string[1,6]");
        fails("%x: string[1,3]", &y, "found string");
    }
}

#[test]
fn deformed_convolutions_have_two_spatial_axes() {
    let maps = |x: &str, w: &str, o: &str| format!("%x: f32[{x}], %w: f32[{w}], %o: f32[{o}]");
    let planes = maps("1,1,3,3", "1,1,2,2", "1,8,2,2");
    holds(&planes, "%y = DeformConv(%x, %w, %o) : f32[1,1,2,2]");
    let volumes = maps("1,1,3,3,3", "1,1,2,2,2", "1,24,2,2,2");
    fails(&volumes, "%y = DeformConv(%x, %w, %o) : f32[1,1,2,2,2]", "rank 4");
}

#[test]
fn the_precision_of_a_quantisation_is_a_float() {
    holds("%x: f32[2,3], %s: f32[]", "%y = QuantizeLinear(%x, %s) {precision = f16} : u8[2,3]");
    fails("%x: f32[2,3], %s: f32[]", "%y = QuantizeLinear(%x, %s) {precision = i32} : u8[2,3]", "`precision`");
}

#[test]
fn prototypes_are_sound() {
    let all = protos().set.protos().expect("protos");
    assert!(all.len() > 200, "{} prototypes", all.len());
    for w in all.windows(2) {
        assert_ne!(w[0].name, w[1].name);
    }
    for p in &all {
        for &i in p.value_inputs.iter() {
            assert!((i as usize) < p.inputs.len(), "{}: value input {i}", p.name);
        }
        for a in p.attrs.iter() {
            assert!(p.attrs.iter().filter(|b| b.name == a.name).count() == 1, "{}: attribute {} twice", p.name, a.name);
            if let (Some(AttrValue::Str(d)), false) = (a.default.as_ref().into_option(), a.choices.is_empty()) {
                assert!(a.choices.contains(d), "{}: default of {}", p.name, a.name);
            }
        }
    }
}

/// Hostile values behind value inputs and attributes give errors or unknown sizes, never a panic.
#[test]
fn extreme_numbers_do_not_overflow() {
    let p = protos();
    let wild = [i64::MIN, i64::MIN + 1, -1, 0, 1, 2, i64::MAX - 1, i64::MAX];
    for (op, ins) in [
        ("Reshape", 1),
        ("Expand", 1),
        ("Tile", 1),
        ("BroadcastTo", 1),
        ("PadV3", 1),
        ("TopKV2", 1),
        ("ReduceSum", 1),
        ("UnsqueezeV3", 1),
        ("Slice", 2),
        ("StridedSliceV2", 2),
    ] {
        for &a in &wild {
            for &b in &wild {
                let mut t = ints("a", &[a, b]);
                t += &ints("b", &[b, a]);
                let args = if ins == 2 { "%x, %a, %b" } else { "%x, %a" };
                let outs = if op == "TopKV2" { "f32[...], i32[...]" } else { "f32[...]" };
                let text = format!(
                    "graph @main(%x: f32[3,9223372036854775807]) {{\n{t}%y = {op}({args}) : {outs}\n return %y\n}}"
                );
                let _ = check(&p, &text);
            }
        }
    }
    for (op, key) in [
        ("SplitD", "num_split"),
        ("Flatten", "axis"),
        ("DepthToSpace", "block_size"),
        ("HcomAllGather", "rank_size"),
        ("Unpack", "num"),
        ("RFFT", "n"),
    ] {
        for &a in &wild {
            let text = format!(
                "graph @main(%x: f32[3,9223372036854775807,1,2]) {{\n%y = {op}(%x) {{{key} = {a}, split_dim = 0}} : f32[...]\n return %y\n}}"
            );
            let _ = check(&p, &text);
        }
    }
}

/// One line per operator: inputs (`?` optional, `...` any number), outputs, attributes with
/// defaults.
fn table() -> String {
    use ge_plugin_api::ops::{AttrKind, ParamKind, ParamSpec, flags};
    let params = |v: &[ParamSpec]| {
        let one = |p: &ParamSpec| {
            let mark = match p.kind {
                ParamKind::OPTIONAL => "?",
                ParamKind::DYNAMIC => "...",
                _ => "",
            };
            format!("{}{mark}", p.name)
        };
        v.iter().map(one).collect::<Vec<_>>().join(", ")
    };
    let names: [(u64, &str); 25] = [
        (flags::RANDOM, "random"),
        (flags::STATEFUL, "stateful"),
        (flags::ELEMENTWISE, "element-wise"),
        (flags::COMMUTATIVE, "commutative"),
        (flags::INPLACE, "in place"),
        (flags::VIEW, "view"),
        (flags::REFERENCE, "reference"),
        (flags::COMMUNICATION, "communication"),
        (flags::DATA_DEPENDENT_SHAPE, "size by data"),
        (flags::TRANS_OP, "layout"),
        (flags::LOW_PRECISION, "white"),
        (flags::FULL_PRECISION, "black"),
        (flags::REFERENCE_1, "reference 1"),
        (flags::REFERENCE_2, "reference 2"),
        (flags::NAMES_INPUT, "names its input"),
        (flags::REPLACES, "replaces"),
        (flags::NEEDS_DIGITS, "needs digits"),
        (flags::MAKES_DIGITS, "makes digits"),
        (flags::INDEXES, "indexes"),
        (flags::MAY_FAIL, "may fail"),
        (flags::PRODUCT, "product"),
        (flags::NEEDS_FRACTION, "needs fraction"),
        (flags::wide(0), "wide input 0"),
        (flags::wide(1), "wide input 1"),
        (flags::wide(3), "wide input 3"),
    ];
    let mut out = String::from(
        "# Operator prototypes\n\nLoaded as `libge_ops.so`. Semantics stand at the head of each family file in `src/`; this table is \
         written by the test `the_table_is_current` (`UPDATE_EXPECT=1`).\n`?` optional, `...` any number, `*` value read; attributes \
         with their default, `!` required.\n\n| operator | inputs | outputs | attributes | flags |\n|---|---|---|---|---|\n",
    );
    for p in protos().set.protos().expect("protos") {
        let mut ins = p.inputs.to_vec();
        for &i in p.value_inputs.iter() {
            let n = format!("{}*", ins[i as usize].name);
            ins[i as usize].name = n.as_str().into();
        }
        let attrs: Vec<String> = p
            .attrs
            .iter()
            .map(|a| match a.default.as_ref().into_option() {
                Some(AttrValue::Int(v)) => format!("{} = {v}", a.name),
                Some(AttrValue::Float(v)) => format!("{} = {v}", a.name),
                Some(AttrValue::Bool(v)) => format!("{} = {v}", a.name),
                Some(AttrValue::Str(v)) if a.choices.is_empty() => format!("{} = \"{v}\"", a.name),
                Some(AttrValue::Str(v)) => format!(
                    "{} = \"{v}\" of {}",
                    a.name,
                    a.choices.iter().map(|c| c.as_str()).collect::<Vec<_>>().join(" ")
                ),
                Some(AttrValue::Ints(v)) => format!("{} = {:?}", a.name, v.as_slice()),
                Some(AttrValue::Type(t)) => format!("{} = {t}", a.name),
                _ => format!("{}{}: {}", a.name, if a.required { "!" } else { "" }, AttrKind::name(a.kind)),
            })
            .collect();
        let fl: Vec<&str> = names.iter().filter(|(b, _)| p.flags & b != 0).map(|(_, n)| *n).collect();
        out += &format!(
            "| {} | {} | {} | {} | {} |\n",
            p.name,
            params(&ins),
            params(&p.outputs),
            attrs.join("; "),
            fl.join(", ")
        );
    }
    out
}

#[test]
fn the_table_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
    let now = table();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(path, &now).expect("README.md can be written");
    }
    let old = std::fs::read_to_string(path).unwrap_or_default();
    assert!(old == now, "plugins/ops/README.md is stale: run this test with UPDATE_EXPECT=1");
}

/// The table in docs/precision.md must agree with the flags of the prototypes.
#[test]
fn the_lists_of_mixed_precision_are_the_prototypes() {
    use ge_plugin_api::ops::flags::{FULL_PRECISION, LOW_PRECISION};
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/precision.md");
    let text = std::fs::read_to_string(path).expect("docs/precision.md is there");
    let all = protos().set.protos().expect("protos");
    for (colour, flag) in [("| white |", LOW_PRECISION), ("| black |", FULL_PRECISION)] {
        let rows = text.lines().filter_map(|l| l.strip_prefix(colour)?.split('|').next());
        let mut told: Vec<&str> = rows.flat_map(|r| r.split(',').map(str::trim)).collect();
        let mut have: Vec<&str> = all.iter().filter(|p| p.flags & flag != 0).map(|p| p.name.as_str()).collect();
        told.sort_unstable();
        have.sort_unstable();
        assert_eq!(told, have, "{colour}");
    }
    assert!(all.iter().all(|p| p.flags & (LOW_PRECISION | FULL_PRECISION) != LOW_PRECISION | FULL_PRECISION));
}

#[test]
fn a_cluster_gives_values_of_its_steps() {
    let cluster = |steps: &str, gives: &str, shape: &str| {
        format!("%y = FusedCluster(%x, %z) {{steps = [{steps}], gives = [{gives}]}} : {shape}")
    };
    let inputs = "%x: f16[B,S,8], %z: f16[8]";
    let steps = r#""Add %0 %1", "ReduceMax %2 1 1", "Sub %2 %3", "ReduceSum %4 2 0", "Mul 2 %5""#;
    holds(inputs, &cluster(steps, "4", "f16[B,S,8]"));
    holds(inputs, &cluster(steps, "3", "f16[B,S,1]"));
    holds(inputs, &cluster(steps, "6", "f16[B]"));
    let typed = r#""Cast:f32 %0", "Less %2 0.5", "Select:i32 %3 1 0", "Add %4 %4""#;
    let all = "f32[B,S,8], bool[B,S,8], i32[B,S,8]";
    holds(inputs, &format!("%y = FusedCluster(%x, %z) {{steps = [{typed}], gives = [2, 3, 5]}} : {all}"));
    fails(inputs, &cluster(r#""Cast:f33 %0""#, "2", "f16[8]"), "an element type");
    fails(inputs, &cluster(r#""Neg:f32 %0""#, "2", "f16[8]"), "an operator");
    fails(inputs, &cluster(r#""Neg %2""#, "2", "f16[8]"), "a value that stands before it");
    fails(inputs, &cluster(r#""Neg %1""#, "3", "f16[8]"), "attribute `gives`");
    fails(inputs, &cluster(r#""ReduceSum %1 2 0""#, "2", "f16[]"), "as many axes as it reduces");
    fails(inputs, &cluster(r#""ReduceSum %1 2""#, "2", "f16[]"), "a value, a number of axes, and 0 or 1");
}

#[test]
fn every_element_wise_operator_says_what_is_known_of_its_numbers() {
    use ge_plugin_api::author::registry::Registration;
    use ge_plugin_api::ops::flags::ELEMENTWISE;
    // Operators without a range: they have poles, work on the bits of integers, or return booleans.
    const NOTHING: [&str; 24] = [
        "BitwiseAnd",
        "BitwiseOr",
        "BitwiseXor",
        "Equal",
        "FloorDiv",
        "FloorMod",
        "FusedElementwise",
        "Greater",
        "GreaterEqual",
        "Invert",
        "IsFinite",
        "IsInf",
        "IsNan",
        "LeftShift",
        "Less",
        "LessEqual",
        "LogicalAnd",
        "LogicalNot",
        "LogicalOr",
        "LogicalXor",
        "Mod",
        "NotEqual",
        "RightShift",
        "Tan",
    ];
    let defs = registry::collect().flat_map(|r| match r {
        Registration::Op(f) => vec![f()],
        Registration::Ops(f) => f(),
        _ => Vec::new(),
    });
    let silent = defs.filter(|d| d.proto.flags & ELEMENTWISE != 0 && d.value_ranges.is_none());
    let mut silent: Vec<String> = silent.map(|d| d.proto.name.to_string()).collect();
    silent.sort_unstable();
    assert_eq!(silent, NOTHING, "an element-wise operator without a range, or one that has got it");
}
