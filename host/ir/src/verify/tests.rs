//! One case for each rule, and the limits of each rule.
use super::*;
use crate::text::{NoFiles, parse, parse_placed};
use ge_plugin_api::abi::ROption;
use ge_plugin_api::ops::{AttrKind, OpDef, infer};
use ge_plugin_api::types::{DType, ValueRef};
use std::collections::BTreeMap;

fn table() -> BTreeMap<String, OpProto> {
    const F: &[DType] = &[DType::F16, DType::F32];
    let defs = [
        OpDef::new("Relu", infer::same).input("x", F, "T").output("y", F, "T"),
        OpDef::new("Add", infer::same).input("x1", &[], "T").input("x2", &[], "T").output("y", &[], "T"),
        OpDef::new("Conv2D", infer::same)
            .input("x", &[], "T")
            .input("filter", &[], "T")
            .opt("bias", &[], "")
            .output("y", &[], "T")
            .required_attr("strides", AttrKind::INTS)
            .attr("groups", AttrKind::INT, 1i64)
            .range(1.0, 8.0)
            .attr("padding", AttrKind::STRING, "SAME")
            .choices(&["SAME", "VALID"])
            .attr("alpha", AttrKind::FLOAT, 1.0),
        OpDef::new("ConcatD", infer::same).dynamic("x", &[], "T").output("y", &[], "T"),
        OpDef::new("SplitD", infer::same).input("x", &[], "T").dynamic_output("y", &[], "T"),
    ];
    defs.into_iter().map(|d| (d.proto.name.to_string(), d.proto)).collect()
}

/// The verifier's messages, as `line: message`, for a body that may use `%x: f32[2]` and `%i:
/// i32[2]`.
fn told(body: &str) -> Vec<String> {
    told_of(&format!("graph @g(%x: f32[2], %i: i32[2]) {{\n{body}\n}}\n"), VerifyOptions::default())
}
fn told_of(text: &str, options: VerifyOptions<'_>) -> Vec<String> {
    let (m, places) = parse_placed(text, "t.ge", &NoFiles).unwrap_or_else(|d| panic!("{d:#?}"));
    let mut faults = verify_with(&m, &table(), options).err().unwrap_or_default();
    places.locate(&m, &mut faults);
    faults
        .iter()
        .map(|d| {
            let line = if let ROption::RSome(p) = &d.place { p.line } else { 0 };
            format!("{line}: {}", d.message)
        })
        .collect()
}
fn whole(text: &str) -> Vec<String> {
    told_of(text, VerifyOptions::default())
}
const NONE: [&str; 0] = [];

#[test]
fn a_sound_graph_verifies() {
    let body = "%c = Conv2D(%x, %x) {alpha = 2, groups = 2, strides = [1, 1]} : f32[2]\n%a = ConcatD(%c, %x, %c) : f32[6]\n%s = SplitD(%a) : f32[2], f32[4]\n%r = Relu(%s#1) {_anything = [true], other = \"free\"} after(%c) : unknown[...]\nreturn %r";
    assert_eq!(told(body), NONE);
}

#[test]
fn v1_v2_v3_edges_order_and_cycles() {
    let text = "graph @g(%x: f32[2]) {\n%a = Relu(%x) : f32[2]\n%b = Relu(%a) : f32[2]\nreturn %b\n}";
    let sound = parse(text, "t.ge", &NoFiles).expect("reads");
    let messages = |m: &Model| -> Vec<String> {
        verify(m, &table()).err().unwrap_or_default().iter().map(|d| d.message.to_string()).collect()
    };
    let (x, a, b) = (NodeId(0), NodeId(1), NodeId(2));
    // No edit can make these graphs, so they are broken directly.
    let mut m = sound.clone();
    m.root_mut().break_input(b, ValueRef::new(a, 7));
    assert_eq!(messages(&m), ["V1: input 0 of `b` reads output 7 of `a`, which has 1"]);
    let mut m = sound.clone();
    m.root_mut().break_input(b, ValueRef::new(NodeId(40), 0));
    assert_eq!(messages(&m), ["V1: input 0 of `b` reads a node that is not in graph `@g`"]);
    let mut m = sound.clone();
    m.root_mut().break_order(vec![x, b, a, NodeId(3)]);
    assert_eq!(messages(&m), ["V2: `b` uses `a` before it is defined"]);
    let mut m = sound.clone();
    m.root_mut().break_order(vec![x, a, NodeId(3)]);
    assert_eq!(messages(&m), ["V2: the order of graph `@g` holds 3 of 4 nodes"]);
    let mut m = sound;
    m.root_mut().break_input(a, ValueRef::new(b, 0));
    assert_eq!(
        messages(&m),
        ["V2: `a` uses `b` before it is defined", "V3: 2 nodes of graph `@g` form a cycle: `b` -> `a`"]
    );
}

#[test]
fn v4_names_differ_in_a_graph_or_in_the_model() {
    let text = "graph @g(%x: f32[2]) {\nreturn %x\n}\ngraph @h(%x: f32[2]) {\nreturn %x\n}";
    assert_eq!(whole(text), NONE);
    let model = VerifyOptions { names: NameScope::Model, ..VerifyOptions::default() };
    assert_eq!(told_of(text, model), ["4: V4: the name `x` is taken twice (graphs `@g` and `@h`)"]);
    assert_eq!(told("%\"\" = Relu(%x) : f32[2]\nreturn %x"), ["2: V4: a Relu of graph `@g` has no name"]);
}

#[test]
fn v5_one_net_output() {
    assert_eq!(told("%a = Relu(%x) : f32[2]"), ["1: V5: graph `@g` has no NetOutput: the `return` line is missing"]);
    assert_eq!(told("%p = PlaceHolder() : f32[2]\n%e = End(%p) : ()"), NONE);
    assert_eq!(
        told("%a = NetOutput(%x) : ()\nreturn %x after(%a)"),
        [
            "2: V5: something reads or follows `a`, which ends graph `@g`",
            "3: V5: graph `@g` has a second NetOutput, `NetOutput`"
        ]
    );
    assert_eq!(told("return _"), ["2: V5: output 0 of graph `@g` is absent"]);
}

#[test]
fn v6_indices_of_inputs() {
    assert_eq!(
        told("%d = Data() {index = 3} : f32[2]\nreturn %x"),
        ["1: V6: the inputs of graph `@g` have a gap: nothing has index 2 of 3"]
    );
    assert_eq!(
        told("%d = Data() : f32[2]\n%e = RefData() {index = -1} : f32[2]\nreturn %x"),
        ["2: V6: `d` has no index among the graph's inputs", "3: V6: the index -1 of `e` is negative"]
    );
    assert_eq!(
        told("%d = Data() {index = 2} : f32[2]\n%e = Data() {index = 2} : f32[2]\nreturn %x"),
        ["3: V6: the index 2 of `e` is taken twice"]
    );
}

#[test]
fn v7_v8_v9_parameters() {
    assert_eq!(told("%a = Add(%x) : f32[2]\nreturn %a"), ["2: V7: `a` has 1 inputs, Add has 2 (x1, x2)"]);
    assert_eq!(told("%a = Add(_, %x) : f32[2]\nreturn %a"), ["2: V7: input 0 (`x1`) of `a` must be given"]);
    assert_eq!(told("%a = Relu(%x) : f32[2], f32[2]\nreturn %a"), ["2: V8: `a` has 2 outputs, Relu has 1 (y)"]);
    assert_eq!(told("%a = Relu(%i) : f32[2]\nreturn %a"), ["2: V9: input 0 (`x`) of `a` is i32"]);
    assert_eq!(
        told("%a = Add(%x, %i) : f32[2]\nreturn %a"),
        ["2: V9: input 1 (`x2`) of `a` is i32, input 0 is f32: they must be one type"]
    );
    assert_eq!(
        told("%a = ConcatD(%x, %x, %i) : f32[2]\nreturn %a"),
        ["2: V9: input 2 (`x`) of `a` is i32, input 0 is f32: they must be one type"]
    );
}

#[test]
fn v10_v11_v12_attributes() {
    let conv = |attrs: &str| told(&format!("%a = Conv2D(%x, %x) {{{attrs}}} : f32[2]\nreturn %a"));
    assert_eq!(conv(""), ["2: V11: `a` needs the attribute `strides` (list of integers)"]);
    assert_eq!(conv("strides = \"1\""), ["2: V10: attribute `strides` of `a` is a string"]);
    assert_eq!(conv("groups = 9, strides = []"), ["2: V12: attribute `groups` of `a` is 9, out of its range 1 to 8"]);
    assert_eq!(
        conv("padding = \"same\", strides = []"),
        ["2: V12: attribute `padding` of `a` is \"same\", which is none of its values"]
    );
}

#[test]
fn v13_v14_v15_subgraphs() {
    let sub = "graph @s(%a: f32[2]) {\nreturn %a\n}";
    let call = |f: &str, out: &str| {
        format!("graph @g(%x: f32[2]) {{\n%p = PartitionedCall(%x) {{f = {f}}} : {out}\nreturn %x\n}}\n{sub}")
    };
    assert_eq!(whole(&call("@s", "f32[2]")), NONE);
    assert_eq!(whole(&call("@t", "f32[2]")), ["2: V13: `f` of `p` names graph `@t`, which is not in the model"]);
    let sealed = VerifyOptions { sealed: &["t".to_owned()], ..VerifyOptions::default() };
    assert_eq!(told_of(&call("@t", "f32[2]"), sealed), NONE);
    assert_eq!(whole(&call("@g", "f32[2]")), ["2: V14: `p` names the root graph `@g`"]);
    assert_eq!(
        whole(&call("[@s, @s]", "f32[2]")),
        ["2: V14: graph `@s` is named by `p` and by `p`: each needs its own"]
    );
    assert_eq!(whole(&call("@s", "()")), ["2: V15: graph `@s` gives 1 values, `p` has 0 outputs"]);
    assert_eq!(whole(&call("@s", "f16[2]")), ["2: V15: output 0 of graph `@s` is f32[2], that of `p` is f16[2]"]);
    let narrow = call("@s", "f32[2]").replace("(%x) {f", "() {f");
    assert_eq!(whole(&narrow), ["2: V15: graph `@s` has an input 0 (`a`), `p` gives it 0"]);
    let other = call("@s", "f32[2]").replace("%a: f32[2]", "%a: f32[3]");
    assert_eq!(whole(&other), ["2: V15: input 0 of graph `@s` is f32[3], `p` gives it f32[2]"]);
    let ring = "graph @g() {\nreturn\n}\ngraph @a() {\n%p = PartitionedCall() {f = @b} : ()\nreturn\n}\ngraph @b() {\n%q = PartitionedCall() {f = @a} : ()\nreturn\n}";
    assert_eq!(whole(ring), ["8: V14: graph `@b` contains itself"]);
    let cond = "graph @g(%c: bool[], %x: f32[2]) {\n%y = If(%c, %x) {else_branch = @e, then_branch = @t} : f32[2]\nreturn %y\n}\ngraph @t(%a: f32[2]) {\nreturn %a\n}\ngraph @e(%a: f32[2]) {\nreturn %a\n}";
    assert_eq!(whole(cond), NONE);
}

#[test]
fn v16_v17_v18_operators_constants_sources() {
    assert_eq!(told("%a = Rleu(%x) : f32[2]\nreturn %a"), ["2: V16: the operator type `Rleu` of `a` is not known"]);
    let text = "graph @g(%x: f32[2]) {\n%a = Rleu(%x) {_engine = \"AIcoreEngine\"} : f32[2]\nreturn %a\n}";
    let open = VerifyOptions { unknown_ops: UnknownOps::Allow, ..VerifyOptions::default() };
    assert_eq!(told_of(text, open), NONE);
    assert_eq!(told("%c = Const() : f32[2]\nreturn %c"), ["2: V17: the constant `c` has no tensor `value`"]);
    assert_eq!(
        told("%c = Const() {value = dense<f32[2]: 1 2>} : f32[3]\nreturn %c"),
        ["2: V17: the constant `c` is f32[2] and says f32[3]"]
    );
    assert_eq!(told("%v = Variable() : ()\nreturn %x"), ["2: V18: `v` has 0 outputs"]);
    assert_eq!(told("%v = Variable(%x) : f32[2]\nreturn %x"), ["2: V18: `v` is a source and has 1 inputs"]);
}

#[test]
fn faults_are_collected_up_to_the_limit() {
    let many: String = (0..FAULT_LIMIT + 5).map(|i| format!("%a{i} = Relu(%i) : f32[2]\n")).collect();
    let all = told(&format!("{many}return %x"));
    assert_eq!(all.len(), FAULT_LIMIT + 1);
    assert_eq!(all.last().map(String::as_str), Some("0: 5 further faults are not shown"));
}
