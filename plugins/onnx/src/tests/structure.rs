//! Tests of names, inputs, subgraphs, functions, external data, and refusals reported together.
use super::*;
use ge_plugin_api::diagnostic::ErrorKind;
use ge_plugin_api::frontend::InputShape;

fn x() -> ValueInfoProto {
    value("x", 1, &["batch", "4"])
}
fn shapes(list: &[(&str, &[i64])]) -> ImportOptions {
    ImportOptions {
        input_shapes: list
            .iter()
            .map(|(n, d)| InputShape { name: (*n).into(), dims: (*d).into(), unranked: false })
            .collect(),
    }
}
fn with_shapes(m: &ModelProto, list: &[(&str, &[i64])]) -> Result<Vec<Edit>> {
    import_bytes(m.encode_to_vec(), &shapes(list), &Files(Vec::new()))
}

#[test]
fn nodes_without_a_name_or_with_a_taken_one_are_named_after_their_first_output() {
    let mut a = node("Relu", &["x"], &["a"]);
    a.name.clear();
    let (mut b, mut c) = (node("Relu", &["a"], &["b"]), node("Relu", &["b"], &["c"]));
    b.name = "same".into();
    c.name = "same".into();
    let e = import(&model(17, graph(vec![x()], vec![a, b, c], vec![], &["c"]))).expect("imports");
    assert_eq!(said(&e, ""), "a=Relu same=Relu c=Relu");
    assert!(e.iter().any(|e| matches!(e, Edit::SetGraphOutputs(o) if o[0].name == "c")));
}

#[test]
fn an_input_with_an_initializer_is_no_graph_input_and_unread_constants_make_no_node() {
    let ins = vec![x(), value("w", 1, &["4"])];
    let g = graph(
        ins,
        vec![node("Add", &["x", "w"], &["y"])],
        vec![f32s("w", &[4], &[0.0; 4]), f32s("unread", &[1], &[0.0])],
        &["y"],
    );
    let e = import(&model(17, g)).expect("imports");
    let types: Vec<&str> = nodes(&e, "").iter().map(|n| n.op.as_str()).collect();
    assert_eq!(types, ["Data", "Const", "Add"]);
    assert_eq!(nodes(&e, "")[0].outputs[0].shape.to_string(), "[batch,4]");
}

#[test]
fn input_shapes_fill_symbols_everywhere_and_wrong_ones_are_told() {
    let g = graph(vec![x(), value("z", 1, &["batch"])], vec![node("Relu", &["x"], &["y"])], vec![], &["y"]);
    let m = model(17, g);
    let e = with_shapes(&m, &[("x", &[5, 4])]).expect("imports");
    assert_eq!(nodes(&e, "")[1].outputs[0].shape.to_string(), "[5]");
    let err = with_shapes(&m, &[("xx", &[5, 4]), ("x", &[5, 3])]).expect_err("two faults");
    assert_eq!(err.kind, ErrorKind::USAGE);
    assert_eq!(err.diagnostics.len(), 2);
    assert_eq!(err.diagnostics[0].help, "did you mean `x`?");
    assert_eq!((err.diagnostics[1].found.as_str(), err.diagnostics[1].expected.as_str()), ("[5,3]", "[batch,4]"));
    assert!(with_shapes(&m, &[("x", &[5, 4]), ("z", &[6])]).is_err());
}

#[test]
fn all_unsupported_nodes_are_told_in_one_error() {
    let mut odd = node("Frobnicate", &["x"], &["a"]);
    odd.domain = "com.acme".into();
    let g = graph(
        vec![x()],
        vec![odd, node("RegexFullMatch", &["x"], &["s"]), node("Relu", &["a"], &["y"])],
        vec![],
        &["y"],
    );
    let err = import(&model(17, g)).expect_err("refused");
    assert_eq!(err.kind, ErrorKind::UNSUPPORTED);
    let told: Vec<(&str, &str, &str)> =
        err.diagnostics.iter().map(|d| (d.node.as_str(), d.op.as_str(), d.code.as_str())).collect();
    assert_eq!(told, [("n_a", "Frobnicate", "GE-E0104"), ("n_s", "RegexFullMatch", "GE-E0104")]);
    assert!(err.diagnostics[1].message.contains("ai.onnx 17"));
}

#[test]
fn an_output_that_is_no_tensor_is_told_by_the_node_that_is_refused_for_it() {
    use crate::proto::{TypeProto, type_proto};
    let mut dictionaries = value("y", 1, &[]);
    dictionaries.r#type = Some(TypeProto { value: Some(type_proto::Value::MapType(Box::default())) });
    let mut m = model(17, graph(vec![x()], vec![node("Relu", &["x"], &["y"])], vec![], &[]));
    m.graph.as_mut().expect("a graph").output = vec![dictionaries];
    assert!(import(&m).expect_err("a map").message().contains("`y` is a map"));
    let nodes = &mut m.graph.as_mut().expect("a graph").node;
    nodes[0] = NodeProto { domain: "com.acme".into(), ..node("Zip", &["x"], &["y"]) };
    let said = import(&m).expect_err("no mapping").message().to_owned();
    assert!(said.contains("(Zip, com.acme") && !said.contains("a map"), "{said}");
}

#[test]
fn attributes_that_an_operator_has_not_are_told_by_its_node() {
    let mut odd = node("Transpose", &["x"], &["y"]);
    odd.attribute = vec![AttributeProto { name: "perms".into(), r#type: 7, ints: vec![1, 0], ..Default::default() }];
    let err = import(&model(17, graph(vec![x()], vec![odd], vec![], &["y"]))).expect_err("a fault");
    assert_eq!((err.kind, err.diagnostics[0].node.as_str()), (ErrorKind::DAMAGED, "n_y"));
    assert_eq!(err.message(), "Transpose has no attribute `perms`");
}

#[test]
fn functions_are_inlined_with_their_attributes() {
    let mut leaky = node("LeakyRelu", &["a"], &["t"]);
    leaky.attribute =
        vec![AttributeProto { name: "alpha".into(), r#type: 1, ref_attr_name: "slope".into(), ..Default::default() }];
    let f = FunctionProto {
        name: "Act".into(),
        domain: "acme".into(),
        input: vec!["a".into()],
        output: vec!["b".into()],
        attribute: vec!["slope".into()],
        node: vec![leaky, node("Relu", &["t"], &["b"])],
        opset_import: vec![OperatorSetIdProto { domain: String::new(), version: 17 }],
        ..Default::default()
    };
    let mut call = with(node("Act", &["x"], &["y"]), vec![float("slope", 0.25)]);
    call.domain = "acme".into();
    let mut m = model(17, graph(vec![x()], vec![call], vec![], &["y"]));
    m.functions = vec![f];
    let e = import(&m).expect("imports");
    assert_eq!(said(&e, ""), "n_y/n_t=LeakyRelu n_y=Relu");
    assert_eq!(nodes(&e, "")[1].attrs.float("negative_slope"), Some(0.25));
}

/// A call may leave inputs out, at the end or with an empty name; so may a call inside the body.
#[test]
fn an_input_that_a_call_leaves_out_is_left_out_in_the_body() {
    let function = |name: &str, node: NodeProto| FunctionProto {
        name: name.into(),
        domain: "acme".into(),
        input: ["a", "lo", "hi"].map(str::to_owned).to_vec(),
        output: vec!["b".into()],
        node: vec![node],
        opset_import: ["", "acme"].map(|d| OperatorSetIdProto { domain: d.into(), version: 17 }).to_vec(),
        ..Default::default()
    };
    let inside = ["a", "lo", "hi"];
    let called = |op: &str, ins: &[&str], outs: &[&str]| NodeProto { domain: "acme".into(), ..node(op, ins, outs) };
    let branch = || graph(vec![], vec![node("Clip", &inside, &["r"])], vec![], &["r"]);
    let both = vec![graph_attr("then_branch", branch()), graph_attr("else_branch", branch())];
    let imported = |op: &str, ins: &[&str]| {
        let mut m = model(17, graph(vec![x(), value("l", 1, &[])], vec![called(op, ins, &["y"])], vec![], &["y"]));
        m.functions = vec![
            function("Bound", node("Clip", &inside, &["b"])),
            function("Outer", called("Bound", &inside, &["b"])),
            function("Choice", with(node("If", &["a"], &["b"]), both.clone())),
        ];
        import(&m).expect("imports")
    };
    for op in ["Bound", "Outer"] {
        assert!(said(&imported(op, &["x", "l"]), "").ends_with("=Maximum"), "{op}");
        assert!(said(&imported(op, &["x", "", "l"]), "").ends_with("=Minimum"), "{op}");
        assert!(said(&imported(op, &["x"]), "").ends_with("=Identity"), "{op}");
    }
    let e = imported("Choice", &["x", "", "l"]);
    assert!(said(&e, "n_y_then").ends_with("=Minimum"), "{}", said(&e, "n_y_then"));
    let choice = nodes(&e, "").iter().find(|n| n.op == "If").map(|n| n.inputs.iter().any(|i| i.is_absent()));
    assert_eq!(choice, Some(false));
}

#[test]
fn a_function_that_calls_itself_is_damaged() {
    let mut call = node("F", &["a"], &["b"]);
    call.domain = "acme".into();
    let f = FunctionProto {
        name: "F".into(),
        domain: "acme".into(),
        input: vec!["a".into()],
        output: vec!["b".into()],
        node: vec![call.clone()],
        ..Default::default()
    };
    let mut outer = call;
    outer.input = vec!["x".into()];
    let mut m = model(17, graph(vec![x()], vec![outer], vec![], &["b"]));
    m.functions = vec![f];
    assert_eq!(import(&m).expect_err("endless").kind, ErrorKind::DAMAGED);
}

#[test]
fn branches_get_captured_values_as_inputs_and_constants_as_copies() {
    let out = |name: &str, op: &str, ins: &[&str]| graph(vec![], vec![node(op, ins, &[name])], vec![], &[name]);
    let n = with(
        node("If", &["c"], &["y"]),
        vec![
            graph_attr("then_branch", out("t", "MatMul", &["x", "w"])),
            graph_attr("else_branch", out("e", "Relu", &["z"])),
        ],
    );
    let ins = vec![value("c", 9, &[]), x(), value("z", 1, &["4"])];
    let e = import(&model(17, graph(ins, vec![n], vec![f32s("w", &[4, 1], &[0.0; 4])], &["y"]))).expect("imports");
    let node_if = *nodes(&e, "").last().expect("a node");
    assert_eq!((node_if.op.as_str(), node_if.inputs.len()), ("If", 3));
    let ops = |g: &str| nodes(&e, g).iter().map(|n| n.op.as_str()).collect::<Vec<_>>();
    assert_eq!(ops("n_y_then"), ["Data", "Data", "Const", "MatMulV2"]);
    assert_eq!(ops("n_y_else"), ["Data", "Data", "Relu"]);
}

fn loop_model(scan: bool) -> ModelProto {
    let mut body = graph(
        vec![value("i", 7, &[]), value("go", 9, &[]), value("v", 1, &["4"])],
        vec![node("Identity", &["go"], &["go_on"]), node("Add", &["v", "x"], &["v2"])],
        vec![],
        &["go_on", "v2"],
    );
    if scan {
        body.node.push(node("Identity", &["v2"], &["s"]));
        body.output.push(value("s", 1, &["4"]));
    }
    let outs: &[&str] = if scan { &["y", "all"] } else { &["y"] };
    let n = with(node("Loop", &["m", "", "z"], outs), vec![graph_attr("body", body)]);
    let g = graph(vec![value("x", 1, &["4"]), value("z", 1, &["4"])], vec![n], vec![i64s("m", &[], &[3])], outs);
    model(17, g)
}

#[test]
fn loops_become_whiles_and_scan_outputs_are_written_out() {
    let e = import(&loop_model(false)).expect("imports");
    let w = *nodes(&e, "").last().expect("a node");
    // iteration, condition, v, bound, x
    assert_eq!((w.op.as_str(), w.inputs.len(), w.outputs.len()), ("While", 5, 5));
    assert_eq!(said(&e, "n_y_cond"), "n_y_cond/Less=Less n_y_cond/And=LogicalAnd");
    let e = import(&loop_model(true)).expect("imports");
    assert_eq!(nodes(&e, "").iter().filter(|n| n.op == "Add").count(), 3);
    assert_eq!(nodes(&e, "").last().map(|n| (n.op.as_str(), n.inputs.len())), Some(("Pack", 3)));
}

/// As left by converters: a cast of an input, and a node of a body, come after their readers.
#[test]
fn nodes_that_stand_ahead_of_what_they_read_are_sorted() {
    let then = graph(vec![], vec![node("Neg", &["late"], &["t"]), node("Abs", &["b"], &["late"])], vec![], &["t"]);
    let other = graph(vec![], vec![node("Neg", &["b"], &["e"])], vec![], &["e"]);
    let branches = vec![graph_attr("then_branch", then), graph_attr("else_branch", other)];
    let all =
        vec![with(node("If", &["c"], &["y"]), branches), node("Relu", &["a"], &["b"]), node("Exp", &["x"], &["a"])];
    let e = import(&model(17, graph(vec![x(), value("c", 9, &[])], all, vec![], &["y"]))).expect("imports");
    let ops: Vec<&str> = nodes(&e, "").iter().map(|n| n.op.as_str()).collect();
    assert_eq!(ops, ["Data", "Data", "Exp", "Relu", "If"]);
    assert!(said(&e, "n_y_then").ends_with("n_t=Neg"), "{}", said(&e, "n_y_then"));
    let cycle = vec![node("Add", &["x", "q"], &["p"]), node("Neg", &["p"], &["q"])];
    let why = import(&model(17, graph(vec![x()], cycle, vec![], &["q"]))).expect_err("a cycle");
    assert!(why.diagnostics[0].help.contains("wait for each other"), "{why:?}");
}

/// The bound, and the turn as declared by the body, have one axis; a constant is passed through
/// unchanged.
#[test]
fn one_element_of_one_axis_stands_for_a_scalar_and_constants_that_go_through_are_the_bodys() {
    let body = graph(
        vec![value("i", 7, &["1"]), value("go", 9, &[]), value("v", 1, &["4"]), value("w", 1, &["4"])],
        vec![
            node("Identity", &["go"], &["go_on"]),
            with(node("Cast", &["i"], &["turn"]), vec![int("to", 1)]),
            node("Add", &["v", "w"], &["sum"]),
            node("Mul", &["sum", "turn"], &["v2"]),
            node("Identity", &["w"], &["w2"]),
        ],
        vec![],
        &["go_on", "v2", "w2"],
    );
    let mut n = with(node("Loop", &["m", "", "z", "k"], &["y", "same"]), vec![graph_attr("body", body)]);
    n.name = "l".into();
    let constants = vec![i64s("m", &[1], &[3]), f32s("k", &[4], &[1.0; 4])];
    let e =
        import(&model(17, graph(vec![value("z", 1, &["4"])], vec![n], constants, &["y", "same"]))).expect("imports");
    let all = nodes(&e, "");
    let w = all.iter().find(|n| n.op == "While").expect("a loop");
    // iteration, condition, v, bound
    assert_eq!((w.inputs.len(), w.outputs.len()), (4, 4));
    let bound = all.iter().find(|n| n.id == w.inputs[3].node).map(|n| n.op.as_str());
    assert_eq!(bound, Some("Reshape"));
    let body = said(&e, "l_body");
    assert_eq!(body.matches("=Reshape").count(), 1, "{body}");
    assert!(nodes(&e, "l_body").iter().any(|n| n.op == "Const"), "{body}");
}

/// Running sums of rows from the last to the first: `Scan` over `x`, with its outputs joined in
/// reverse order.
fn scan_model(dims: &[&str], count: i64) -> ModelProto {
    let body = graph(
        vec![value("sum", 1, &["4"]), value("row", 1, &["4"])],
        vec![node("Add", &["sum", "row"], &["next"]), node("Identity", &["next"], &["part"])],
        vec![],
        &["next", "part"],
    );
    let attrs = vec![
        graph_attr("body", body),
        int("num_scan_inputs", count),
        ints("scan_input_directions", &[1]),
        ints("scan_output_axes", &[1]),
    ];
    let n = with(node("Scan", &["z", "x"], &["y", "all"]), attrs);
    model(17, graph(vec![value("z", 1, &["4"]), value("x", 1, dims)], vec![n], vec![], &["y", "all"]))
}

#[test]
fn scans_are_written_out_over_the_slices_of_their_inputs() {
    let e = import(&scan_model(&["3", "4"], 1)).expect("imports");
    let all = nodes(&e, "");
    let ops: Vec<&str> =
        all.iter().map(|n| n.op.as_str()).filter(|o| !matches!(*o, "Const" | "Data" | "NetOutput")).collect();
    let turn = ["GatherV2", "Add", "Identity"];
    assert_eq!(ops, [&turn[..], &turn, &turn, &["Pack"]].concat());
    // Starting from the last row.
    let first = all.iter().find(|n| n.op == "GatherV2").expect("a slice");
    let index = all.iter().find(|n| first.inputs[1].node == n.id).expect("its index");
    assert_eq!(index.attrs.tensor("value").and_then(|t| t.to_i64(1)), Some(vec![2]));
    assert_eq!(all.last().map(|n| n.attrs.int("axis")), Some(Some(1)));
    let why = |dims: &[&str], count| {
        import(&scan_model(dims, count)).expect_err("refused").diagnostics[0].message.to_string()
    };
    assert!(why(&["3", "4"], 5).contains("do not fit its own"));
}

/// Lengths that are known must be equal; one that is not known becomes a check of its own.
#[test]
fn all_inputs_of_a_scan_have_one_length() {
    let scan = |x: &[&str], y: &[&str]| {
        let body =
            graph(vec![value("p", 1, &[]), value("q", 1, &[])], vec![node("Add", &["p", "q"], &["r"])], vec![], &["r"]);
        let n = with(node("Scan", &["x", "y"], &["z"]), vec![graph_attr("body", body), int("num_scan_inputs", 2)]);
        import(&model(17, graph(vec![value("x", 1, x), value("y", 1, y)], vec![n], vec![], &["z"])))
    };
    let count = |x: &str, y: &str, op: &str| {
        nodes(&scan(&[x], &[y]).expect("imports"), "").iter().filter(|n| n.op == op).count()
    };
    let why = scan(&["2"], &["3"]).expect_err("refused").message().to_owned();
    assert!(why.contains("`x` has 2 along axis 0, `y` has 3 along axis 0"), "{why}");
    assert_eq!((count("2", "2", "SameSize"), count("2", "2", "Pack")), (0, 1));
    assert_eq!((count("a", "2", "SameSize"), count("a", "2", "Pack")), (1, 1));
    assert_eq!((count("a", "b", "SameSize"), count("a", "b", "While")), (1, 1));
}

/// Before opset 9, a scan has a batch, of which each item is scanned by itself.
#[test]
fn old_scans_are_written_out_for_each_item() {
    let body = graph(
        vec![value("sum", 1, &["4"]), value("row", 1, &["4"])],
        vec![node("Add", &["sum", "row"], &["next"]), node("Identity", &["next"], &["part"])],
        vec![],
        &["next", "part"],
    );
    let of = |lengths: &str| {
        let attrs = vec![graph_attr("body", body.clone()), int("num_scan_inputs", 1), ints("directions", &[1])];
        let n = with(node("Scan", &[lengths, "z", "x"], &["y", "all"]), attrs);
        let ins = vec![value("l", 7, &["2"]), value("z", 1, &["2", "4"]), value("x", 1, &["2", "3", "4"])];
        import(&model(8, graph(ins, vec![n], vec![], &["y", "all"])))
    };
    let e = of("").expect("imports");
    let count = |op: &str| nodes(&e, "").iter().filter(|n| n.op == op).count();
    assert_eq!((count("While"), count("Pack")), (2, 2), "a scan for each item, and both outputs joined");
    assert!(of("l").expect_err("refused").message().contains("sequence_lens"));
}

/// Elements of a sequence are added to those of another one, or to a tensor: values known to be
/// sequences are split into elements.
#[test]
fn a_body_over_sequences_becomes_a_while_that_takes_and_gives_elements() {
    let made = |second: &[NodeProto], name: &str| {
        let body = graph(
            vec![value("a", 1, &["n"]), value("b", 1, &["n"])],
            vec![node("Add", &["a", "b"], &["sum"])],
            vec![],
            &["sum"],
        );
        let map = with(node("SequenceMap", &["parts", name], &["y"]), vec![graph_attr("body", body)]);
        let all = [&[node("SplitToSequence", &["x"], &["parts"])], second, &[map]].concat();
        import(&model(17, graph(vec![value("x", 1, &["n"])], all, vec![], &["y"]))).expect("imports")
    };
    let optional = [node("Optional", &["parts"], &["o"]), node("OptionalGetElement", &["o"], &["got"])].to_vec();
    for (second, name, taken) in [
        (vec![], "x", 1),
        (vec![node("SequenceInsert", &["parts", "x"], &["others"])], "others", 2),
        (vec![node("Identity", &["parts"], &["same"])], "same", 2),
        (optional, "got", 2),
    ] {
        let e = made(&second, name);
        let w = nodes(&e, "").iter().find(|n| n.op == "While").map(|n| n.inputs.len());
        // turn, length, what is made, both inputs
        assert_eq!(w, Some(5), "{name}");
        let body = said(&e, "n_y_body");
        assert_eq!(body.matches("=SequenceAt").count(), taken, "{body}");
        assert_eq!(body.matches("=SequenceInsert").count(), 1, "{body}");
    }
}

#[test]
fn a_count_that_the_run_tells_makes_a_while_that_gathers_its_slices_in_sequences() {
    for dims in [["n", "4"], ["100000000", "4"]] {
        let e = import(&scan_model(&dims, 1)).expect("imports");
        let all = nodes(&e, "");
        let (w, last) = (all.iter().find(|n| n.op == "While").expect("a loop"), all.last().expect("a node"));
        // turn, length, sum, the list, the rows
        assert_eq!((w.inputs.len(), w.outputs.len()), (5, 5));
        assert_eq!((last.op.as_str(), last.attrs.int("axis")), ("ConcatFromSequence", Some(1)));
    }
    let mut m = loop_model(true);
    if let Some(g) = &mut m.graph {
        g.initializer.clear();
        g.input.push(value("m", 7, &[]));
    }
    let e = import(&m).expect("imports");
    let all = nodes(&e, "");
    assert!(all.iter().any(|n| n.op == "While") && all.iter().any(|n| n.op == "SequenceEmpty"));
    assert_eq!(all.last().map(|n| n.op.as_str()), Some("ConcatFromSequence"));
}

#[test]
fn external_data_is_read_in_place_and_its_faults_are_told() {
    let entry = |k: &str, v: &str| StringStringEntryProto { key: k.into(), value: v.into() };
    let external = |length: &str| {
        let mut t = f32s("w", &[4], &[]);
        t.raw_data = Default::default();
        t.data_location = 1;
        t.external_data = vec![entry("location", "w.bin"), entry("offset", "8"), entry("length", length)];
        model(17, graph(vec![x()], vec![node("Add", &["x", "w"], &["y"])], vec![t], &["y"]))
    };
    let file = |n: usize| Files(vec![("w.bin", vec![7u8; n])]);
    let get = |m: &ModelProto, f: Files| import_bytes(m.encode_to_vec(), &ImportOptions::default(), &f);
    let e = get(&external("16"), file(24)).expect("imports");
    let c = nodes(&e, "").into_iter().find(|n| n.op == "Const").expect("a constant");
    assert_eq!(c.attrs.tensor("value").map(|t| (t.file.path.to_string(), t.file.offset)), Some(("w.bin".into(), 8)));
    assert_eq!(get(&external("16"), file(20)).expect_err("cut off").kind, ErrorKind::DAMAGED);
    assert_eq!(get(&external("12"), file(24)).expect_err("wrong length").kind, ErrorKind::DAMAGED);
    assert_eq!(get(&external("16"), Files(vec![])).expect_err("missing").kind, ErrorKind::USAGE);
    assert!(get(&external("0"), file(24)).is_ok(), "a length that is not stated");
    let mut nowhere = external("16");
    let w = nowhere.graph.as_mut().map(|g| &mut g.initializer[0]).expect("a graph");
    w.external_data[0].value.clear();
    assert_eq!(get(&nowhere, file(24)).expect_err("no location").diagnostics[0].subject, "w");
}

#[test]
fn strings_come_in_and_old_opsets_are_refused_in_words() {
    let g = graph(vec![value("x", 8, &["2"])], vec![node("Identity", &["x"], &["y"])], vec![], &["y"]);
    let e = import(&model(17, g)).expect("strings");
    let data = nodes(&e, "").into_iter().find(|n| n.op == "Data").expect("an input");
    let d = &data.outputs[0];
    assert_eq!(format!("{}{}", d.dtype, d.shape), "string[2]");
    let g = graph(vec![x()], vec![node("Relu", &["x"], &["y"])], vec![], &["y"]);
    assert_eq!(import(&model(0, g)).expect_err("old").diagnostics[0].expected, "1 or newer");
}
