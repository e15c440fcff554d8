//! Edits: what they change, what they refuse, and that a refused patch changes nothing.
use super::*;
use ge_plugin_api::patch::{Edit, Patch};
use ge_plugin_api::types::{DType, Shape};

fn d(n: u64) -> TensorDesc {
    TensorDesc::new(DType::F32, Shape::of(&[n]))
}
fn model() -> (Model, [NodeId; 4]) {
    let mut m = Model::new("main");
    let mut p = Patch::for_new_graph();
    let x = p.add("Data", "x", &[], vec![d(2)], AttrMap::default());
    let a = p.add("Relu", "a", &[ValueRef::new(x, 0)], vec![d(2)], AttrMap::default());
    let b = p.add("Relu", "b", &[ValueRef::new(a, 0)], vec![d(2)], AttrMap::default());
    let c = p.add("Relu", "c", &[ValueRef::new(a, 0)], vec![d(2)], AttrMap::default());
    p.push(Edit::SetGraphOutputs(vec![named("b", b), named("c", c)].into()));
    m.apply(0, p.into_edits().into()).expect("legal");
    (m, [x, a, b, c])
}
fn named(n: &str, id: NodeId) -> ge_plugin_api::patch::NamedValue {
    ge_plugin_api::patch::NamedValue { name: n.into(), value: ValueRef::new(id, 0) }
}
fn snapshot(m: &Model) -> String {
    let mut s = String::new();
    for g in m.graphs() {
        for n in g.nodes() {
            let mut uses: Vec<_> = n
                .uses
                .iter()
                .map(|u| {
                    let mut u = u.clone();
                    u.sort();
                    u
                })
                .collect();
            uses.sort();
            s.push_str(&format!("{:?} {} {} {:?} {:?} {:?}\n", n.id, n.op(), n.name, n.inputs, n.controls(), uses));
        }
    }
    s
}

#[test]
fn a_new_node_stands_before_its_first_reader() {
    let (mut m, [_, a, b, _]) = model();
    let ctx = crate::view::GraphContext::new(&m, 0, &());
    let mut p = Patch::new(&ctx.graph());
    let t = p.add("Abs", "t", &[ValueRef::new(a, 0)], vec![d(2)], AttrMap::default());
    p.set_input(b, 0, ValueRef::new(t, 0));
    let edits = p.into_edits().into();
    drop(ctx);
    m.apply(0, edits).expect("legal");
    let names: Vec<&str> = m.root().nodes().map(|n| n.name()).collect();
    assert_eq!(names, ["x", "a", "t", "b", "c", "NetOutput"]);
    m.compact();
    assert!(m.root().nodes().enumerate().all(|(i, n)| n.id().index() == i));
    assert_eq!(m.root().producer(m.root().find("b").expect("b"), 0).map(|n| n.name()), Some("t"));
}

#[test]
fn refused_patches_leave_the_model_as_it_was() {
    let (mut m, [x, a, b, c]) = model();
    let before = snapshot(&m);
    let v = |n| ValueRef::new(n, 0);
    let cases: Vec<(&str, Vec<Edit>)> = vec![
        ("cycle", vec![Edit::SetInput(a, 0, v(b))]),
        ("still used", vec![Edit::RemoveNode(a)]),
        ("no node", vec![Edit::SetInput(a, 0, v(NodeId(77)))]),
        ("no output", vec![Edit::SetInput(a, 0, ValueRef::new(x, 3))]),
        ("late failure", vec![Edit::ReplaceUses(v(a), v(x)), Edit::RemoveNode(c), Edit::SetInput(b, 9, v(x))]),
        ("control cycle", vec![Edit::AddControl(b, a)]),
        ("new reader of a removed node", {
            let mut p = Patch::starting_at(m.root().next_id());
            p.add("Abs", "t", &[v(b)], vec![d(2)], AttrMap::default());
            p.remove(b);
            p.into_edits().into()
        }),
    ];
    for (what, edits) in cases {
        assert!(m.apply(0, edits).is_err(), "{what}");
        assert_eq!(snapshot(&m), before, "{what}");
    }
    // The journal also restores the lists of readers: a legal patch still works afterwards.
    m.apply(0, vec![Edit::ReplaceUses(v(b), v(a)), Edit::RemoveNode(b)]).expect("legal");
    assert!(m.root().get(b).is_none());
    assert_eq!(m.root().users(v(a)).len(), 2);
}

#[test]
fn types_of_replaced_values_must_fit() {
    let (mut m, [x, a, ..]) = model();
    m.root_mut().set_outputs(x, vec![TensorDesc::new(DType::I32, Shape::of(&[2]))]);
    let e = m.apply(0, vec![Edit::ReplaceUses(ValueRef::new(a, 0), ValueRef::new(x, 0))]).expect_err("types");
    assert!(matches!(e, EditError::TypeMismatch { .. }), "{e}");
}

#[test]
fn readers_of_a_wide_value_are_moved_in_linear_time() {
    // 20,000 readers of one value: quadratic work would take minutes.
    let mut m = Model::new("main");
    let mut p = Patch::for_new_graph();
    let x = p.add("Data", "x", &[], vec![d(2)], AttrMap::default());
    let y = p.add("Data", "y", &[], vec![d(2)], AttrMap::default());
    for _ in 0..20_000 {
        p.add("Relu", "", &[ValueRef::new(x, 0)], vec![d(2)], AttrMap::default());
    }
    m.apply(0, p.into_edits().into()).expect("legal");
    m.apply(0, vec![Edit::ReplaceUses(ValueRef::new(x, 0), ValueRef::new(y, 0)), Edit::RemoveNode(x)]).expect("legal");
    assert_eq!(m.root().users(ValueRef::new(y, 0)).len(), 20_000);
}
