//! Loops: what becomes of names, functions and random operators in their bodies, and how far they are
//! unrolled.
use super::*;
use ge_plugin_api::types::ValueRef;

/// A loop of `m` turns over `v`, which keeps `s` of every turn. The body returns the condition
/// `go_on` and `v2` and `s`, which its nodes make.
fn looped(name: &str, nodes: Vec<NodeProto>) -> NodeProto {
    let ins = vec![value("i", 7, &[]), value("go", 9, &[]), value("v", 1, &["4"])];
    let body = graph(ins, nodes, vec![], &["go_on", "v2", "s"]);
    NodeProto {
        name: name.into(),
        ..with(node("Loop", &["m", "", "x"], &["y", "all"]), vec![graph_attr("body", body)])
    }
}
fn body(go_on: NodeProto) -> Vec<NodeProto> {
    vec![go_on, node("Add", &["v", "v"], &["v2"]), node("Neg", &["v"], &["s"])]
}
/// The model of a loop of constant length.
fn looping(turns: i64, nodes: Vec<NodeProto>) -> ModelProto {
    let g = graph(vec![value("x", 1, &["4"])], vec![looped("L", nodes)], vec![i64s("m", &[], &[turns])], &["y", "all"]);
    model(21, g)
}
fn count(edits: &[Edit], graph: &str, op: &str) -> usize {
    nodes(edits, graph).iter().filter(|n| n.op == op).count()
}

/// A function of the model, with a name that the standard has too.
fn function(op: &str, input: &[&str], nodes: Vec<NodeProto>) -> FunctionProto {
    FunctionProto {
        name: op.into(),
        domain: "f".into(),
        input: input.iter().map(|i| (*i).to_owned()).collect(),
        output: vec!["out".into()],
        node: nodes,
        opset_import: vec![OperatorSetIdProto { domain: String::new(), version: 21 }],
        ..FunctionProto::default()
    }
}
fn of_domain(n: NodeProto, domain: &str) -> NodeProto {
    NodeProto { domain: domain.into(), ..n }
}
fn with_function(mut m: ModelProto, f: FunctionProto) -> ModelProto {
    m.functions.push(f);
    m.opset_import.push(OperatorSetIdProto { domain: "f".into(), version: 1 });
    m
}

#[test]
fn a_function_with_the_name_of_an_operator_is_not_that_operator() {
    let truth = TensorProto { data_type: 9, raw_data: vec![1u8].into(), ..TensorProto::default() };
    let value = AttributeProto { name: "value".into(), r#type: 4, t: Some(truth), ..AttributeProto::default() };
    let identity = || node("Identity", &["go"], &["go_on"]);
    let constant = || with(node("Constant", &[], &["go_on"]), vec![value.clone()]);
    for standard in [identity(), constant()] {
        let e = import(&looping(3, body(standard))).expect("imports");
        assert_eq!((count(&e, "", "While"), count(&e, "", "Add")), (0, 3));
    }
    let not = function("Identity", &["a"], vec![node("Not", &["a"], &["out"])]);
    let m = with_function(looping(3, body(of_domain(identity(), "f"))), not);
    let e = import(&m).expect("imports");
    assert_eq!((count(&e, "", "While"), count(&e, "L_body", "LogicalNot")), (1, 1));
    let made = with(node("Constant", &[], &["t"]), vec![value.clone()]);
    let not = function("Constant", &[], vec![made, node("Not", &["t"], &["out"])]);
    let m = with_function(looping(3, body(of_domain(constant(), "f"))), not);
    assert_eq!(count(&import(&m).expect("imports"), "", "While"), 1);
}

/// A carried value that such a function changes is not passed on unchanged.
#[test]
fn a_constant_that_a_function_changes_is_carried() {
    let nodes = vec![node("Identity", &["go"], &["go_on"]), of_domain(node("Identity", &["v"], &["v2"]), "f")];
    let ins = vec![value("i", 7, &[]), value("go", 9, &[]), value("v", 1, &["4"])];
    let n = with(
        node("Loop", &["n", "", "k"], &["y"]),
        vec![graph_attr("body", graph(ins, nodes, vec![], &["go_on", "v2"]))],
    );
    let k = f32s("k", &[4], &[1.0; 4]);
    let m = model(21, graph(vec![value("n", 7, &[])], vec![n], vec![k], &["y"]));
    let m = with_function(m, function("Identity", &["a"], vec![node("Neg", &["a"], &["out"])]));
    let e = import(&m).expect("imports");
    let w = nodes_of(&e, "While");
    // iteration, condition, v, bound
    assert_eq!(w[0].inputs.len(), 4);
}
fn nodes_of<'e>(edits: &'e [Edit], op: &str) -> Vec<&'e NewNode> {
    nodes(edits, "").into_iter().filter(|n| n.op == op).collect()
}

/// Outer values may have any name, also one that looks like what the importer makes for a loop.
#[test]
fn values_of_the_model_are_never_taken_for_the_state_of_a_loop() {
    for outer in ["L/bound", "L/scan0/list", "L/turns"] {
        let ins = vec![value("i", 7, &[]), value("go", 9, &[]), value("v", 1, &["4"])];
        let inside = vec![
            node("Identity", &["go"], &["go_on"]),
            node("Add", &["v", outer], &["v2"]),
            node("Neg", &[outer], &["s"]),
        ];
        let attrs = vec![graph_attr("body", graph(ins, inside, vec![], &["go_on", "v2", "s"]))];
        let n = NodeProto { name: "L".into(), ..with(node("Loop", &["n", "", "x"], &["y", "all"]), attrs) };
        let outs = graph(
            vec![value("x", 1, &["4"]), value("n", 7, &[]), value(outer, 1, &["4"])],
            vec![n],
            vec![],
            &["y", "all"],
        );
        let e = import(&model(21, outs)).expect("imports");
        let inputs: Vec<&NewNode> = nodes(&e, "L_body").into_iter().filter(|n| n.op == "Data").collect();
        // iteration, condition, v, list, bound, the outer value
        assert_eq!(inputs.len(), 6, "{outer}");
        let read = |op: &str, at: usize| nodes(&e, "L_body").iter().find(|n| n.op == op).map(|n| n.inputs[at]);
        assert_eq!(read("Neg", 0), Some(ValueRef::new(inputs[5].id, 0)), "{outer}");
        assert_eq!(read("SequenceInsert", 0), Some(ValueRef::new(inputs[3].id, 0)), "{outer}");
    }
    for outer in ["S/turn0", "S/length0", "S/part0", "S/row0"] {
        let ins = vec![value("a", 1, &["4"]), value("e", 1, &["4"])];
        let inside = vec![node("Add", &["a", "e"], &["a2"]), node("Neg", &[outer], &["o"])];
        let attrs = vec![int("num_scan_inputs", 1), graph_attr("body", graph(ins, inside, vec![], &["a2", "o"]))];
        let n = NodeProto { name: "S".into(), ..with(node("Scan", &["h", "x"], &["y", "all"]), attrs) };
        let ins = vec![value("h", 1, &["4"]), value("x", 1, &["n", "4"]), value(outer, 1, &["4"])];
        let e = import(&model(21, graph(ins, vec![n], vec![], &["y", "all"]))).expect("imports");
        let inputs: Vec<&NewNode> = nodes(&e, "S_body").into_iter().filter(|n| n.op == "Data").collect();
        // turn, length, a, part, row, the outer value
        let read = |op: &str, at: usize| nodes(&e, "S_body").iter().find(|n| n.op == op).map(|n| n.inputs[at]);
        assert_eq!(inputs.len(), 6, "{outer}");
        assert_eq!(read("Neg", 0), Some(ValueRef::new(inputs[5].id, 0)), "{outer}");
        assert_eq!(read("GatherV2", 0), Some(ValueRef::new(inputs[4].id, 0)), "{outer}");
    }
}

/// A loop of `inner` turns within one of `outer` turns.
fn nested(outer: i64, inner: i64) -> ModelProto {
    let ins = vec![value("j", 7, &[]), value("gi", 9, &[]), value("u", 1, &["4"])];
    let most = vec![
        node("Identity", &["gi"], &["gj"]),
        node("Sin", &["u"], &["t"]),
        node("Add", &["t", "x"], &["u2"]),
        node("Neg", &["u2"], &["r"]),
    ];
    let attrs = vec![graph_attr("body", graph(ins, most, vec![], &["gj", "u2", "r"]))];
    let inside = with(node("Loop", &["k", "", "v"], &["v2", "s"]), attrs);
    let mut m = looping(outer, vec![node("Identity", &["go"], &["go_on"]), inside]);
    if let Some(g) = &mut m.graph {
        g.initializer.push(i64s("k", &[], &[inner]));
    }
    m
}

#[test]
fn loops_within_loops_are_unrolled_to_a_number_of_nodes_for_all() {
    // Both, only the outer one, and none.
    for (outer, inner, whiles, sines) in [(10, 20, 0, 200), (100, 100, 100, 0), (3000, 3000, 1, 0)] {
        let e = import(&nested(outer, inner)).expect("imports");
        let all = || e.iter().filter_map(|e| if let Edit::AddNode(n) = e { Some(n) } else { None });
        assert_eq!((count(&e, "", "While"), count(&e, "", "Sin")), (whiles, sines), "{outer}x{inner}");
        assert!(all().count() < 20_000, "{outer}x{inner}: {} nodes", all().count());
    }
    // Loops side by side share the number.
    let mut m = looping(1500, body(node("Identity", &["go"], &["go_on"])));
    if let Some(g) = &mut m.graph {
        for k in ["a", "b", "c"] {
            let mut n = g.node[0].clone();
            n.name = k.into();
            n.output = ["y", "all"].map(|o| format!("{k}_{o}")).to_vec();
            g.node.push(n);
        }
    }
    let e = import(&m).expect("imports");
    assert_eq!((count(&e, "", "While"), count(&e, "", "Neg")), (2, 3000));
}

/// The nodes of a function in a body count too, and a function that calls itself is refused.
#[test]
fn functions_in_a_body_count_with_their_nodes() {
    let many =
        (0..50).map(|k| node("Neg", &["a"], &[if k == 0 { "out".to_owned() } else { format!("n{k}") }.as_str()]));
    let f = function("Many", &["a"], many.collect());
    let call = || of_domain(node("Many", &["v"], &["s"]), "f");
    let nodes = || vec![node("Identity", &["go"], &["go_on"]), node("Add", &["v", "v"], &["v2"]), call()];
    for (turns, whiles) in [(100, 0), (1000, 1)] {
        let e = import(&with_function(looping(turns, nodes()), f.clone())).expect("imports");
        assert_eq!(count(&e, "", "While"), whiles, "{turns}");
    }
    let own = function("Many", &["a"], vec![of_domain(node("Many", &["a"], &["out"]), "f")]);
    let why = import(&with_function(looping(3, nodes()), own)).expect_err("it never ends");
    assert!(why.to_string().contains("does a function call itself"), "{why}");
}

/// The number of the turn goes into random operators: from one loop, from two, through branches,
/// and as a constant where a loop is unrolled.
#[test]
fn random_operators_in_loops_read_the_number_of_the_turn() {
    let drawn = |then: &str| {
        let branch = |op: &str, out: &str| graph(vec![], vec![node(op, &["v"], &[out])], vec![], &[out]);
        let attrs = vec![graph_attr("then_branch", branch(then, "t")), graph_attr("else_branch", branch("Neg", "e"))];
        vec![
            node("Identity", &["go"], &["go_on"]),
            node("Add", &["v", "v"], &["v2"]),
            with(node("If", &["go"], &["s"]), attrs),
        ]
    };
    let mut m = looping(0, drawn("RandomNormalLike"));
    if let Some(g) = &mut m.graph {
        g.initializer.clear();
        g.input.push(value("m", 7, &[]));
    }
    let e = import(&m).expect("imports");
    let iteration = nodes(&e, "L_body")[0].id;
    let choice = nodes(&e, "L_body").into_iter().find(|n| n.op == "If").expect("a choice");
    assert_eq!(choice.inputs[1], ValueRef::new(iteration, 0));
    let inside = nodes(&e, "n_s_then");
    let random = inside.iter().find(|n| n.op == "RandomNormalLike").expect("a random node");
    assert_eq!(random.inputs[1], ValueRef::new(inside[0].id, 0));
    // Without random operators, there is no such value.
    let e = import(&looping(0, drawn("Abs"))).expect("imports");
    let choice = nodes(&e, "L_body").into_iter().find(|n| n.op == "If").expect("a choice");
    assert_eq!(choice.inputs.len(), 2);

    let flat = vec![
        node("Identity", &["go"], &["go_on"]),
        node("Add", &["v", "v"], &["v2"]),
        with(node("RandomUniform", &[], &["s"]), vec![ints("shape", &[4]), float("seed", 3.0)]),
    ];
    let e = import(&looping(3, flat)).expect("imports");
    let turns: Vec<i64> = nodes(&e, "")
        .iter()
        .filter(|n| n.op == "RandomUniform")
        .map(|n| {
            let from = nodes(&e, "").into_iter().find(|c| c.id == n.inputs[0].node).expect("a constant");
            from.attrs.tensor("value").and_then(|t| t.to_i64(1)).expect("an integer")[0]
        })
        .collect();
    assert_eq!(turns, [0, 1, 2]);
}
