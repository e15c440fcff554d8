//! Tests of the mappings of single operators.
use super::*;
use ge_plugin_api::types::{AttrValue, DType};

fn one(opset: i64, n: NodeProto, inits: Vec<TensorProto>) -> Vec<Edit> {
    let outs: Vec<String> = n.output.clone();
    let outs: Vec<&str> = outs.iter().map(String::as_str).collect();
    let g = graph(vec![value("x", 1, &["2", "3", "8", "8"]), value("m", 1, &["4", "4"])], vec![n], inits, &outs);
    import(&model(opset, g)).expect("imports")
}

#[test]
fn gemm_takes_a_constant_vector_as_bias_and_adds_anything_else() {
    let bias = one(17, node("Gemm", &["m", "m", "c"], &["y"]), vec![f32s("c", &[4], &[0.0; 4])]);
    assert_eq!(said(&bias, ""), "n_y=MatMulV2");
    let scaled = with(node("Gemm", &["m", "m", "m"], &["y"]), vec![float("alpha", 0.5), float("beta", 2.0)]);
    assert_eq!(said(&one(17, scaled, vec![]), ""), "n_y/MatMulV2=MatMulV2 n_y/Muls=Muls n_y/Muls=Muls n_y=Add");
    let plain = one(17, with(node("Gemm", &["m", "m"], &["y"]), vec![int("transB", 1)]), vec![]);
    assert_eq!(nodes(&plain, "").last().map(|n| n.attrs.flag("transpose_x2")), Some(true));
}

/// The mapping of a node whose inputs are `t [2,2]` of an element type.
fn square(opset: i64, elem: i32, n: NodeProto) -> Vec<Edit> {
    let g = graph(vec![value("t", elem, &["2", "2"])], vec![n], vec![], &["y"]);
    import(&model(opset, g)).expect("imports")
}

/// Products and sums of integers keep fractions until one cast at the end.
#[test]
fn gemm_of_integers_with_a_fraction_is_computed_in_f64() {
    let g = |elem: i32, ins: &[&str], alpha: f32, beta: f32| {
        let n = with(node("Gemm", ins, &["y"]), vec![float("alpha", alpha), float("beta", beta)]);
        said(&square(13, elem, n), "").replace("n_y/", "")
    };
    let (two, three) = (["t", "t"], ["t", "t", "t"]);
    let wide = "MatMulV2=MatMulV2 Cast=Cast Muls=Muls Cast=Cast Muls=Muls Add=Add n_y=Cast";
    assert_eq!(g(6, &three, 0.5, 0.5), wide);
    assert_eq!(g(13, &three, 1.0, 0.5), "MatMulV2=MatMulV2 Cast=Cast Cast=Cast Muls=Muls Add=Add n_y=Cast");
    assert_eq!(g(7, &two, 1.5, 1.0), "MatMulV2=MatMulV2 Cast=Cast Muls=Muls n_y=Cast");
    assert_eq!(g(6, &two, 1.0, 0.5), "n_y=MatMulV2", "no C, so no fraction");
    assert_eq!(g(6, &three, 2.0, 3.0), "MatMulV2=MatMulV2 Muls=Muls Muls=Muls n_y=Add");
    assert_eq!(g(1, &two, 1.5, 1.0), "MatMulV2=MatMulV2 n_y=Muls");
}

/// A sum of half precision is rounded once: the product is f32 unless C is a row or a matrix.
#[test]
fn gemm_of_halves_is_rounded_once() {
    let g = |elem: i32, c: &[&str], beta: f32| {
        let n = with(node("Gemm", &["t", "t", "c"], &["y"]), vec![float("beta", beta)]);
        let g = graph(vec![value("t", elem, &["2", "2"]), value("c", elem, c)], vec![n], vec![], &["y"]);
        said(&import(&model(13, g)).expect("imports"), "").replace("n_y/", "")
    };
    let once = "MatMulV2=MatMulV2 Cast=Cast Add=Add n_y=Cast";
    for elem in [10, 16] {
        assert!([&["1"][..], &["1", "1"], &["2", "1"], &[]].iter().all(|c| g(elem, c, 1.0) == once));
        assert_eq!(g(elem, &["2"], 0.5), "MatMulV2=MatMulV2 Cast=Cast Muls=Muls Add=Add n_y=Cast");
        assert_eq!(g(elem, &["2", "2"], 1.0), "MatMulV2=MatMulV2 n_y=Add");
    }
    assert_eq!(g(1, &["1"], 1.0), "MatMulV2=MatMulV2 n_y=Add");
}

#[test]
fn roots_and_logarithms_of_sums_of_integers_are_computed_in_f64() {
    let r = |elem: i32, op: &str| said(&square(18, elem, node(op, &["t"], &["y"])), "").replace("n_y/", "");
    assert_eq!(r(6, "ReduceL2"), "Cast=Cast Square=Square ReduceSum=ReduceSum Sqrt=Sqrt n_y=Cast");
    assert_eq!(r(13, "ReduceLogSum"), "Cast=Cast ReduceSum=ReduceSum Log=Log n_y=Cast");
    assert_eq!(r(1, "ReduceL2"), "Square=Square ReduceSum=ReduceSum n_y=Sqrt");
    assert_eq!(r(6, "ReduceL1"), "Abs=Abs n_y=ReduceSum");
}

/// A type that the import does not know may be an integer type.
#[test]
fn roots_and_fractions_of_an_unknown_type_are_computed_in_f64() {
    let of = |n: NodeProto| {
        let places = node("NonZero", &["t"], &["s"]);
        let g = graph(vec![value("t", 1, &["2", "2"])], vec![places, n], vec![], &["y"]);
        said(&import(&model(13, g)).expect("imports"), "").replace("n_y/", "")
    };
    let root = of(node("ReduceL2", &["s"], &["y"]));
    assert!(root.contains("Cast=Cast Square=Square ReduceSum=ReduceSum Sqrt=Sqrt n_y=Cast"), "{root}");
    let half = of(with(node("Gemm", &["s", "s"], &["y"]), vec![float("alpha", 0.5)]));
    assert!(half.contains("Cast=Cast Muls=Muls n_y=Cast"), "{half}");
}

#[test]
fn convolutions_have_cann_lists_and_one_axis_runs_as_two() {
    let c = with(node("Conv", &["x", "w"], &["y"]), vec![ints("strides", &[2, 1]), ints("pads", &[1, 2, 3, 4])]);
    let e = one(17, c, vec![f32s("w", &[5, 3, 3, 3], &[0.0; 135])]);
    let n = nodes(&e, "");
    let c = n.last().expect("a node");
    assert_eq!(c.attrs.ints("strides"), Some(&[1, 1, 2, 1][..]));
    assert_eq!(c.attrs.ints("pads"), Some(&[1, 3, 2, 4][..]));
    let g = graph(
        vec![value("s", 1, &["1", "2", "9"])],
        vec![node("Conv", &["s", "w"], &["y"])],
        vec![f32s("w", &[4, 2, 3], &[0.0; 24])],
        &["y"],
    );
    let e = import(&model(17, g)).expect("imports");
    assert_eq!(said(&e, ""), "n_y/Unsqueeze=Unsqueeze n_y/Unsqueeze=Unsqueeze n_y/Conv2D=Conv2D n_y=Squeeze");
}

#[test]
fn softmax_before_13_joins_the_axes_behind_its_own() {
    assert_eq!(
        said(&one(11, node("Softmax", &["x"], &["y"]), vec![]), ""),
        "n_y/Flatten=Flatten n_y/SoftmaxV2=SoftmaxV2 n_y/Shape=Shape n_y=Reshape"
    );
    assert_eq!(
        said(&one(11, with(node("Softmax", &["x"], &["y"]), vec![int("axis", 3)]), vec![]), ""),
        "n_y=SoftmaxV2"
    );
    assert_eq!(
        said(&one(13, with(node("Softmax", &["x"], &["y"]), vec![int("axis", 1)]), vec![]), ""),
        "n_y=SoftmaxV2"
    );
}

#[test]
fn cross_entropy_is_the_loss_of_the_logarithms_of_a_softmax() {
    let g = |outs: &[&str]| {
        let n = with(node("SoftmaxCrossEntropyLoss", &["s", "t"], outs), vec![int("ignore_index", -1)]);
        let ins = vec![value("s", 1, &["2", "3"]), value("t", 7, &["2"])];
        import(&model(13, graph(ins, vec![n], vec![], outs))).expect("imports")
    };
    for outs in [&["y"][..], &["y", "l"]] {
        let e = g(outs);
        assert_eq!(said(&e, ""), "n_y/LogSoftmaxV2=LogSoftmaxV2 n_y=NegativeLogLikelihoodLoss");
        let ignored =
            nodes(&e, "").last().map(|n| (n.attrs.int("ignore_index"), n.attrs.str("reduction") == Some("mean")));
        assert_eq!(ignored, Some((Some(-1), true)));
    }
}

/// Zero sizes after the first two axes are real sizes and must not copy the size of another axis.
#[test]
fn softmax_before_13_gives_empty_tensors_their_shape_back() {
    let e = one(11, node("LogSoftmax", &["x"], &["y"]), vec![]);
    let last = nodes(&e, "").last().map(|n| (n.op.to_string(), n.attrs.int("allowzero")));
    assert_eq!(last, Some(("Reshape".to_owned(), Some(1))));
}

/// Mean and deviation have the type `stash_type`: f32 even for f64 inputs, as in onnxruntime.
#[test]
fn statistics_of_a_layer_norm_have_the_stash_type() {
    let g = |stash: Option<i64>, outs: &[&str]| {
        let n = node("LayerNormalization", &["d", "s"], outs);
        let n = with(n, stash.map(|s| vec![int("stash_type", s)]).unwrap_or_default());
        let doubles = [value("d", 11, &["2", "8"]), value("s", 11, &["8"])].to_vec();
        import(&model(17, graph(doubles, vec![n], vec![], outs))).map(|e| said(&e, ""))
    };
    let all = ["y", "m", "r"];
    assert_eq!(g(None, &all).expect("imports"), "n_y=LayerNormV3 n_y/Cast=Cast n_y/Cast=Cast", "two casts to f32");
    assert_eq!(g(Some(11), &all).expect("imports"), "n_y=LayerNormV3");
    assert_eq!(g(None, &["y"]).expect("imports"), "n_y=LayerNormV3");
    assert!(g(Some(7), &all).is_err());
}

/// Three f16 values that cancel would lose all digits if each sum were rounded.
#[test]
fn halves_are_summed_in_f32() {
    let g = |op: &str, elem: i32, ins: &[&str]| {
        let inputs = ins.iter().map(|i| value(i, elem, &["4"])).collect();
        import(&model(13, graph(inputs, vec![node(op, ins, &["y"])], vec![], &["y"]))).map(|e| said(&e, ""))
    };
    let casts = "n_y/Cast=Cast n_y/Cast=Cast n_y/Add=Add n_y/Cast=Cast n_y/Add=Add";
    assert_eq!(g("Sum", 10, &["a", "b", "c"]).expect("imports"), format!("{casts} n_y=Cast"));
    assert_eq!(g("Mean", 16, &["a", "b", "c"]).expect("imports"), format!("{casts} n_y/Muls=Muls n_y=Cast"));
    assert_eq!(g("Sum", 10, &["a", "b"]).expect("imports"), "n_y=Add");
    assert_eq!(g("Sum", 1, &["a", "b", "c"]).expect("imports"), "n_y/Add=Add n_y=Add");
    assert_eq!(g("Mean", 1, &["a", "b"]).expect("imports"), "n_y/Add=Add n_y=Muls");
    assert_eq!(g("Sum", 10, &["a"]).expect("imports"), "n_y=Identity");
    assert_eq!(g("Mean", 10, &["a"]).expect("imports"), "n_y=Muls");
}

#[test]
fn axes_go_by_attribute_where_they_are_constant() {
    let old = one(11, with(node("Unsqueeze", &["x"], &["y"]), vec![ints("axes", &[0])]), vec![]);
    let new = one(13, node("Unsqueeze", &["x", "a"], &["y"]), vec![i64s("a", &[1], &[0])]);
    for e in [old, new] {
        assert_eq!(nodes(&e, "").last().and_then(|n| n.attrs.ints("axes").map(<[i64]>::to_vec)), Some(vec![0]));
    }
}

#[test]
fn splits_by_equal_parts_by_list_and_by_value() {
    let outs = ["a", "b"];
    assert!(said(&one(13, node("Split", &["x", "s"], &outs), vec![i64s("s", &[2], &[1, 1])]), "").ends_with("=SplitD"));
    assert!(
        said(&one(13, node("Split", &["x", "s"], &outs), vec![i64s("s", &[2], &[2, 1])]), "").ends_with("=SplitVD")
    );
    assert!(said(&one(11, with(node("Split", &["x"], &outs), vec![int("axis", 1)]), vec![]), "").ends_with("=SplitD"));
}

#[test]
fn optional_inputs_keep_their_place() {
    let e = one(17, node("Clip", &["x", "", "hi"], &["y"]), vec![f32s("hi", &[], &[6.0])]);
    assert_eq!(said(&e, ""), "n_y=Minimum");
    let r = one(13, node("Resize", &["x", "", "s"], &["y"]), vec![f32s("s", &[4], &[1.0, 1.0, 2.0, 2.0])]);
    let n = nodes(&r, "");
    let n = n.last().expect("a node");
    assert!(n.inputs[1].is_absent() && !n.inputs[2].is_absent());
}

#[test]
fn casts_name_types_and_constants_share_the_file() {
    let e = one(17, with(node("Cast", &["x"], &["y"]), vec![int("to", 10)]), vec![]);
    assert_eq!(nodes(&e, "").last().and_then(|n| n.attrs.get("dst_type").cloned()), Some(AttrValue::Type(DType::F16)));
    let g = graph(
        vec![value("x", 1, &["2"])],
        vec![node("Add", &["x", "c"], &["y"])],
        vec![f32s("c", &[2], &[1.5, -2.0])],
        &["y"],
    );
    let file = Blob::from_owner(model(17, g).encode_to_vec());
    let mut b = GraphBuilder::new(None);
    OnnxFrontend
        .import(&FileRef { path: "m".into(), bytes: file.clone() }, &ImportOptions::default(), &mut b)
        .expect("imports");
    let patch = b.into_patch();
    let c = nodes(patch.edits(), "").into_iter().find(|n| n.op == "Const").expect("a constant");
    let t = c.attrs.tensor("value").expect("a value");
    assert_eq!(t.to_f64(2), Some(vec![1.5, -2.0]));
    let bytes = t.bytes().expect("bytes");
    let place = bytes.as_ptr() as usize - file.as_ptr() as usize;
    assert!(place + 8 <= file.len(), "the constant's bytes lie in the file");
}

#[test]
fn before_opset_7_an_axis_places_the_second_operand() {
    let add = |attrs| with(node("Add", &["x", "c"], &["y"]), attrs);
    let at = one(6, add(vec![int("broadcast", 1), int("axis", 1)]), vec![f32s("c", &[3], &[0.0; 3])]);
    assert_eq!(said(&at, ""), "n_y/Unsqueeze=Unsqueeze n_y=Add");
    assert_eq!(nodes(&at, "")[3].attrs.ints("axes"), Some(&[1, 2][..]));
    let end = one(6, add(vec![int("broadcast", 1)]), vec![f32s("c", &[8], &[0.0; 8])]);
    assert_eq!(said(&end, ""), "n_y=Add");
}

#[test]
fn operators_of_ascends_own_domain_go_over_by_name() {
    let import_npu = |mut n: NodeProto| {
        n.domain = "npu".into();
        let ins = vec![value("x", 1, &["6", "8"]), value("w", 1, &["2", "8", "4"]), value("l", 7, &["2"])];
        let mut m = model(17, graph(ins, vec![n], vec![], &["y"]));
        m.opset_import.push(OperatorSetIdProto { domain: "npu".into(), version: 1 });
        import(&m)
    };
    for op in ["GroupedMatmul", "NPUGroupedMatmul"] {
        let n = with(node(op, &["x", "w", "l"], &["y"]), vec![int("group_list_type", 1), int("split_item", 3)]);
        let e = import_npu(n).expect("imports");
        let g = *nodes(&e, "").last().expect("a node");
        assert_eq!((g.op.as_str(), g.inputs.len(), g.attrs.int("group_list_type")), ("GroupedMatmul", 3, Some(1)));
        assert!(g.attrs.get("split_item").is_none());
    }
    let cases = [
        (
            with(node("GroupedMatmul", &["x", "w", "l"], &["y"]), vec![int("split_item", 0)]),
            "`split_item` is not 2 or 3",
        ),
        (with(node("GroupedMatmul", &["x", "w", "l"], &["y"]), vec![int("other", 0)]), "no attribute `other`"),
        (node("GroupedMatmul", &["x", "w", "l", "l", "l"], &["y"]), "it has 5 inputs"),
        (node("GroupedMatmul", &["x", "w"], &["y"]), "input 2 of GroupedMatmul is missing"),
    ];
    for (n, word) in cases {
        let e = import_npu(n).expect_err(word);
        assert!(e.to_string().contains(word), "{word}: {e}");
    }
}

/// Neither the number of channels nor the size of the kernel need be known.
#[test]
fn a_causal_convolution_takes_a_weight_of_open_sizes() {
    let causal = |ins: &[&str], sizes: &[&str]| {
        let inputs = ["x", "p"].map(|n| value(n, 1, &["b", "c", n])).to_vec();
        let inputs = [inputs, vec![value("w", 1, sizes)]].concat();
        let e =
            import(&model(28, graph(inputs, vec![node("CausalConvWithState", ins, &["y", "s"])], vec![], &["y", "s"])));
        said(&e.expect("imports"), "").replace("n_y/", "")
    };
    let open = ["channels", "1", "k"];
    let rest = "Unsqueeze=Unsqueeze Unsqueeze=Unsqueeze DepthwiseConv2D=DepthwiseConv2D n_y=Squeeze Shape=Shape \
                StridedSliceV2=StridedSliceV2";
    let padded = "Shape=Shape Sub=Sub ConcatD=ConcatD PadV3=PadV3";
    assert_eq!(causal(&["x", "w"], &open), format!("{padded} {rest}"));
    assert_eq!(causal(&["x", "w", "", "p"], &open), format!("ConcatD=ConcatD {rest}"));
    assert!(causal(&["x", "w"], &["4", "1", "3"]).contains("PadD=PadD Unsqueeze=Unsqueeze"));
}

/// The standard has these types, so the model is not damaged.
#[test]
fn types_of_six_bits_are_refused_as_not_supported() {
    for (code, name) in [(27, "FLOAT6E2M3"), (28, "FLOAT6E3M2")] {
        let input = graph(vec![value("x", code, &["4"])], vec![node("Identity", &["x"], &["y"])], vec![], &["y"]);
        let k = TensorProto { name: "k".into(), data_type: code, dims: vec![4], ..TensorProto::default() };
        let constant = graph(vec![], vec![node("Identity", &["k"], &["y"])], vec![k], &["y"]);
        for g in [input, constant] {
            let e = import(&model(28, g)).expect_err("refused");
            assert_eq!(e.kind, ge_plugin_api::diagnostic::ErrorKind::UNSUPPORTED);
            assert!(e.to_string().contains(name), "{e}");
        }
    }
}

/// The versions from 9 to 12 list integer types.
#[test]
fn erf_of_integers_is_computed_in_double_precision() {
    let erf = |opset, elem| said(&square(opset, elem, node("Erf", &["t"], &["y"])), "");
    assert_eq!(erf(9, 6), "n_y/Cast=Cast n_y/Erf=Erf n_y=Cast");
    assert_eq!((erf(12, 1), erf(13, 1)), ("n_y=Erf".to_owned(), "n_y=Erf".to_owned()));
}

/// Coordinates are rounded up along axes that shrink, and down along all others.
#[test]
fn a_resize_of_opset_10_rounds_axis_by_axis() {
    let made = |mode: &str, scales: &[f32]| {
        let mode =
            AttributeProto { name: "mode".into(), r#type: 3, s: mode.as_bytes().to_vec().into(), ..Default::default() };
        let n = with(node("Resize", &["x", "s"], &["y"]), vec![mode]);
        let e = one(10, n, vec![f32s("s", &[4], scales)]);
        let all = nodes(&e, "");
        let scales = |n: &NewNode| {
            let c = all.iter().find(|c| c.id == n.inputs[2].node)?;
            c.attrs.tensor("value")?.to_f64(4)
        };
        let resizes = all.iter().filter(|n| n.op == "Resize");
        resizes.map(|n| (n.attrs.str("nearest_mode").unwrap_or("").to_owned(), scales(n).expect("scales"))).collect()
    };
    let all: Vec<(String, Vec<f64>)> = made("nearest", &[1.0, 1.0, 0.5, 1.0]);
    assert_eq!(all, [("ceil".to_owned(), vec![1.0, 1.0, 0.5, 1.0])]);
    let all: Vec<(String, Vec<f64>)> = made("nearest", &[1.0, 1.0, 2.0, 1.0]);
    assert_eq!(all, [("floor".to_owned(), vec![1.0, 1.0, 2.0, 1.0])]);
    let all: Vec<(String, Vec<f64>)> = made("nearest", &[1.0, 1.0, 0.5, 2.0]);
    let (less, more) = (vec![1.0, 1.0, 0.5, 1.0], vec![1.0, 1.0, 1.0, 2.0]);
    assert_eq!(all, [("ceil".to_owned(), less), ("floor".to_owned(), more)]);
    let all: Vec<(String, Vec<f64>)> = made("linear", &[1.0, 1.0, 0.5, 2.0]);
    assert_eq!(all.len(), 1);
}

#[test]
fn cast_like_keeps_its_round_mode() {
    let mode =
        || AttributeProto { name: "round_mode".into(), r#type: 3, s: b"down".to_vec().into(), ..Default::default() };
    // The type of the second one is not known during the import.
    for second in ["x", "open"] {
        let cast = with(node("CastLike", &["x", second], &["y"]), vec![mode()]);
        let g = graph(vec![value("x", 1, &["2"])], vec![node("Size", &["x"], &["open"]), cast], vec![], &["y"]);
        let e = import(&model(25, g)).expect("imports");
        let last = *nodes(&e, "").last().expect("a node");
        assert_eq!((last.name.as_str(), last.attrs.str("round_mode")), ("n_y", Some("down")), "{}", last.op);
    }
}

#[test]
fn an_element_type_of_0_is_none() {
    let q = with(node("QuantizeLinear", &["m", "s"], &["y"]), vec![int("output_dtype", 0)]);
    let e = one(21, q, vec![f32s("s", &[], &[0.5])]);
    assert!(nodes(&e, "").last().is_some_and(|n| n.op == "QuantizeLinear" && n.attrs.get("output_dtype").is_none()));
    let cast = graph(
        vec![],
        vec![with(node("Cast", &["c"], &["y"]), vec![int("to", 0)])],
        vec![f32s("c", &[], &[0.0])],
        &["y"],
    );
    assert!(import(&model(21, cast)).expect_err("refused").message().contains("`to` is missing"));
}

/// Imports nodes that read `x`, an f32 matrix.
fn all(opset: i64, list: Vec<NodeProto>) -> Vec<Edit> {
    let outs = list.last().map(|n| n.output.clone()).unwrap_or_default();
    let outs: Vec<&str> = outs.iter().map(String::as_str).collect();
    let g = graph(vec![value("x", 1, &["2", "3"])], list, vec![f32s("v", &[3], &[1.0; 3])], &outs);
    import(&model(opset, g)).expect("imports")
}
fn to(elem: i64) -> NodeProto {
    with(node("Cast", &["x"], &["c"]), vec![int("to", elem)])
}

/// Types pass from casts to whatever keeps them: later mappings know them.
#[test]
fn element_types_of_computed_values_are_known() {
    let known = |between: &str, elem: i64| {
        let like = node("CastLike", &["x", "k"], &["y"]);
        let e = all(19, vec![to(elem), node(between, &["c"], &["k"]), like]);
        nodes(&e, "").last().and_then(|n| n.attrs.get("dst_type").cloned())
    };
    assert_eq!(known("Neg", 11), Some(AttrValue::Type(DType::F64)));
    assert_eq!(known("Softmax", 10), Some(AttrValue::Type(DType::F16)));
    assert_eq!(known("ReduceSum", 7), Some(AttrValue::Type(DType::I64)));
    assert_eq!(known("IsNaN", 10), Some(AttrValue::Type(DType::BOOL)));
    let quantised = node("QuantizeLinear", &["x", "s", "z"], &["q"]);
    let real = node("DequantizeLinear", &["q", "s"], &["k"]);
    let zero = TensorProto { data_type: 3, int32_data: vec![0], name: "z".into(), ..TensorProto::default() };
    for (like, want) in [("q", DType::I8), ("k", DType::F32)] {
        let list = vec![quantised.clone(), real.clone(), node("CastLike", &["x", like], &["y"])];
        let inits = vec![f32s("s", &[], &[0.5]), zero.clone()];
        let e = import(&model(19, graph(vec![value("x", 1, &["2", "3"])], list, inits, &["y"]))).expect("imports");
        let to = nodes(&e, "").last().and_then(|n| n.attrs.get("dst_type").cloned());
        assert_eq!(to, Some(AttrValue::Type(want)), "{like}");
    }
    assert_eq!(known("Size", 10), None, "CastLike is left to the host");
}

#[test]
fn numbers_of_attributes_have_the_type_of_the_tensor() {
    let pad = || with(node("Pad", &["c"], &["y"]), vec![ints("pads", &[0, 1, 0, 0]), float("value", 1.5)]);
    for (elem, want) in [(10, DType::F16), (11, DType::F64)] {
        let e = all(10, vec![to(elem), pad()]);
        assert_eq!(said(&e, ""), "n_c=Cast n_y=PadV3");
        let types: Vec<DType> = nodes(&e, "").iter().filter_map(|n| n.attrs.tensor("value")).map(|t| t.dtype).collect();
        assert!(types.contains(&want), "{types:?}");
    }
    let open = graph(vec![value("x", 1, &["2"])], vec![node("Size", &["x"], &["c"]), pad()], vec![], &["y"]);
    assert_eq!(said(&import(&model(10, open)).expect("imports"), ""), "n_c=Size n_y/CastLike=CastLike n_y=PadV3");
    let mask = all(9, vec![to(10), node("Dropout", &["c"], &["y", "m"])]);
    assert!(said(&mask, "").ends_with("=Fill n_y/CastLike=CastLike"), "{}", said(&mask, ""));
}

#[test]
fn only_optionals_are_asked_whether_they_hold_something() {
    let has = |before: &[NodeProto], name: &str| {
        let list = [before, &[node("OptionalHasElement", &[name], &["y"])]].concat();
        said(&all(18, list), "")
    };
    assert_eq!(has(&[], "x"), "");
    assert_eq!(has(&[], "v"), "");
    assert_eq!(has(&[node("Neg", &["x"], &["n"])], "n"), "n_n=Neg");
    assert_eq!(has(&[node("Optional", &["x"], &["o"])], "o"), "n_o=Optional n_y=OptionalHasElement");
}

/// Mean and variance are vectors, so that a product with a matrix is no product of two matrices.
#[test]
fn statistics_of_a_batch_norm_are_vectors() {
    let n =
        with(node("BatchNormalization", &["x", "v", "v", "v", "v"], &["b", "m", "r"]), vec![int("training_mode", 1)]);
    let e = all(18, vec![n, node("MatMul", &["m", "m"], &["y"])]);
    assert_eq!(said(&e, ""), "n_b=BatchNorm n_y=BatchMatMulV2");
}

#[test]
fn forms_of_opset_1_are_taken() {
    let pad = with(node("Pad", &["x"], &["y"]), vec![ints("paddings", &[0, 1, 0, 0])]);
    assert_eq!(said(&all(1, vec![pad]), ""), "n_y=PadV3");
    assert_eq!(said(&all(1, vec![node("Split", &["x", "v"], &["y", "z"])]), ""), "n_y/Cast=Cast n_y=SplitV");
    let tile = said(&all(1, vec![node("Tile", &["x", "v", "v"], &["y"])]), "");
    assert!(tile.ends_with("n_y/OneHot=OneHot n_y=Tile"), "{tile}");
    let norm = |p: f32| {
        let n = with(node("LpPool", &["x"], &["y"]), vec![ints("kernel_shape", &[2, 2]), float("p", p)]);
        import(&model(1, graph(vec![value("x", 1, &["1", "1", "4", "4"])], vec![n], vec![], &["y"])))
    };
    assert_eq!(nodes(&norm(2.5).expect("imports"), "").last().and_then(|n| n.attrs.float("p")), Some(2.5));
    let global = all(1, vec![with(node("GlobalLpPool", &["x"], &["y"]), vec![float("p", 1.0)])]);
    assert_eq!(nodes(&global, "").last().and_then(|n| n.attrs.float("p")), Some(1.0));
}

#[test]
fn defaults_of_old_operators_are_those_of_their_schema() {
    let selu = |opset| {
        let e = all(opset, vec![node("Selu", &["x"], &["y"])]);
        nodes(&e, "").last().and_then(|n| n.attrs.float("scale"))
    };
    assert_eq!((selu(1), selu(6)), (Some(1.0507), Some(1.050_701_022_148_132_3)));
    let clip = |opset, elem: i32| {
        let e = square(opset, elem, node("Clip", &["t"], &["y"]));
        let bounds = nodes(&e, "").into_iter().filter_map(|n| n.attrs.tensor("value")?.to_f64(1)).collect::<Vec<_>>();
        bounds.concat()
    };
    // The default is that of single precision in every type.
    let single = [f64::from(f32::MIN), f64::from(f32::MAX)];
    assert_eq!((clip(6, 1), clip(10, 11)), (single.to_vec(), single.to_vec()));
    assert_eq!(clip(6, 10), [f64::NEG_INFINITY, f64::INFINITY]);
    // Before opset 6 there is none.
    assert_eq!(clip(1, 10), [0.0; 0]);
    let one_bound = square(5, 10, with(node("Clip", &["t"], &["y"]), vec![float("max", 2.0)]));
    assert!(said(&one_bound, "").ends_with("n_y=Minimum"), "{}", said(&one_bound, ""));
}

/// Coordinates are rounded up along axes that shrink, and down along all others.
#[test]
fn resize_of_opset_10_by_computed_scales_shrinks_before_it_grows() {
    let g = |mode: &str| {
        let attrs = vec![AttributeProto {
            name: "mode".into(),
            r#type: 3,
            s: mode.as_bytes().to_vec().into(),
            ..AttributeProto::default()
        }];
        let n = with(node("Resize", &["x", "s"], &["y"]), attrs);
        let ins = vec![value("x", 1, &["1", "1", "4", "4"]), value("s", 1, &["4"])];
        said(&import(&model(10, graph(ins, vec![n], vec![], &["y"]))).expect("imports"), "").replace("n_y/", "")
    };
    assert!(g("nearest").ends_with("Minimum=Minimum Maximum=Maximum Resize=Resize n_y=Resize"), "{}", g("nearest"));
    assert_eq!(g("linear"), "n_y=Resize");
}

#[test]
fn statistics_for_each_place_are_taken_away_by_themselves() {
    let attrs = vec![int("spatial", 0)];
    let n = with(node("BatchNormalization", &["t", "t", "t", "t", "t"], &["y"]), attrs);
    let e = said(&square(7, 1, n), "").replace("n_y/", "");
    assert_eq!(e, "Sub=Sub Adds=Adds Sqrt=Sqrt Div=Div Mul=Mul n_y=Add");
}

/// onnxruntime has some operators in ai.onnx that the standard has later or not at all.
#[test]
fn operators_of_onnxruntime_in_the_domain_of_the_standard_are_mapped() {
    let of = |opset: i64, op: &str, ins: &[&str], attrs: Vec<AttributeProto>| {
        said(&one(opset, with(node(op, ins, &["y"]), attrs), vec![]), "").replace("n_y/", "")
    };
    assert_eq!(of(13, "LayerNormalization", &["x", "m", "m"], vec![int("axis", -1)]), "n_y=LayerNormV3");
    let two = || vec![float("alpha", 2.0), float("beta", 0.5)];
    assert_eq!(of(9, "Affine", &["x"], two()), "Muls=Muls n_y=Adds");
    assert_eq!(of(9, "ScaledTanh", &["x"], two()), "Muls=Muls Tanh=Tanh n_y=Muls");
    assert_eq!(of(9, "ParametricSoftplus", &["x"], two()), "Muls=Muls Softplus=Softplus n_y=Muls");
    assert_eq!(of(9, "Crop", &["x"], vec![ints("border", &[1, 0, 2, 1])]), "n_y=StridedSliceV2");
    assert_eq!(of(8, "MeanVarianceNormalization", &["x"], vec![int("across_channels", 1)]), "n_y=MVNV2");
    let centred = of(8, "MeanVarianceNormalization", &["x"], vec![int("normalize_variance", 0)]);
    assert_eq!(centred, "ReduceMean=ReduceMean n_y=Sub");
    let n = node("Crop", &["x"], &["y"]);
    let g = graph(vec![value("x", 1, &["2", "3", "8", "8"])], vec![n], vec![], &["y"]);
    assert!(import(&model(9, g)).expect_err("no border").message().contains("`border` has no four numbers"));
}
