//! Models that contradict themselves are refused by name; what exporters leave out is not.
use super::*;

fn x() -> ValueInfoProto {
    value("x", 1, &["2"])
}
/// What is said of a model that is damaged; `None` if it is taken.
fn told(m: &ModelProto) -> Option<String> {
    import(m).err().map(|e| {
        assert_eq!(e.kind, ErrorKind::DAMAGED);
        e.diagnostics[0].message.to_string()
    })
}
fn declared(o: ValueInfoProto, node: NodeProto) -> ModelProto {
    let mut g = graph(vec![x()], vec![node], vec![], &["y"]);
    g.output = vec![o];
    model(17, g)
}

#[test]
fn an_output_of_another_type_than_declared() {
    let relu = || node("Relu", &["x"], &["y"]);
    let said = told(&declared(value("y", 7, &["2"]), relu()));
    assert_eq!(said.as_deref(), Some("output `y` is declared with another type than its node gives"));
    assert_eq!(told(&declared(value("y", 1, &["3", "4"]), relu())), None, "sizes are left to inference");
    assert_eq!(told(&declared(value("y", 0, &["2"]), relu())), None, "no type");
    let cast = with(node("Cast", &["x"], &["y"]), vec![int("to", 7)]);
    assert_eq!(told(&declared(value("y", 7, &["2"]), cast)), None);
}

#[test]
fn an_input_without_a_type() {
    let mut g = graph(vec![x()], vec![node("Relu", &["x"], &["y"])], vec![], &["y"]);
    g.input[0].r#type = None;
    assert_eq!(told(&model(17, g.clone())).as_deref(), Some("input `x` has no type"));
    // Its initializer has one.
    g.initializer = vec![f32s("x", &[2], &[1.0, 2.0])];
    assert_eq!(told(&model(17, g)), None);
}

#[test]
fn attributes_twice_or_of_another_kind() {
    let leaky = |attrs| {
        let n = with(node("LeakyRelu", &["x"], &["y"]), attrs);
        told(&model(17, graph(vec![x()], vec![n], vec![], &["y"])))
    };
    assert_eq!(leaky(vec![float("alpha", 0.5)]), None);
    assert_eq!(
        leaky(vec![float("alpha", 0.5), float("alpha", 0.1)]).as_deref(),
        Some("attribute `alpha` stands twice")
    );
    let other = AttributeProto { r#type: 2, ..float("alpha", 0.5) };
    assert_eq!(leaky(vec![other]).as_deref(), Some("attribute `alpha` states another type than its value has"));
}

#[test]
fn functions_of_one_name_and_calls_with_too_much() {
    let function = |op: &str| FunctionProto {
        name: "A".into(),
        domain: "f".into(),
        input: vec!["i".into()],
        output: vec!["o".into()],
        node: vec![node(op, &["i"], &["o"])],
        opset_import: vec![OperatorSetIdProto { domain: String::new(), version: 17 }],
        ..Default::default()
    };
    let called = |ins: &[&str], functions: Vec<FunctionProto>| {
        let mut call = node("A", ins, &["y"]);
        call.domain = "f".into();
        let m = model(17, graph(vec![x()], vec![call], vec![], &["y"]));
        told(&ModelProto { functions, ..m })
    };
    let overload = FunctionProto { overload: "v2".into(), ..function("Neg") };
    assert_eq!(called(&["x"], vec![function("Relu"), overload]), None);
    let said = called(&["x"], vec![function("Relu"), function("Neg")]);
    assert_eq!(said.as_deref(), Some("two functions of domain `f` are named `A`"));
    let said = called(&["x", "x"], vec![function("Relu")]);
    assert_eq!(said.as_deref(), Some("`n_y` gives function A an input 1, `x`"));
    assert_eq!(called(&["x", ""], vec![function("Relu")]), None);
}
