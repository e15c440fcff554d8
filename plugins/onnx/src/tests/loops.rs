//! Loops: what becomes of names and functions in their bodies.
use super::*;

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
