//! The pattern matcher and rewriter of the plugin interface, on graphs in text form.
use ge_ir::Model;
use ge_ir::view::GraphContext;
use ge_plugin_api::fusion::{
    Boundary, FuseInspector, Match, ORIGINALS, PASS_NAME, Pattern, PatternFusion, PatternFusionPass, PatternMatcher,
    REPORT, Replacement, SubgraphRewriter, Verdict,
};
use ge_plugin_api::pass::{Pass, PassInfo, PassLevel, PassStage};
use ge_plugin_api::patch::{Edit, Patch};
use ge_plugin_api::types::{AttrValue, Key, ValueRef};

fn model(text: &str) -> Model {
    ge_ir::text::parse(text, "case", &ge_ir::text::NoFiles).unwrap_or_else(|d| panic!("{text}: {}", d[0].message))
}
fn graph(nodes: &str, ret: &str) -> Model {
    model(&format!("graph @main(%x: f32[2], %y: f32[2], %z: f32[2]) {{\n{nodes}\n return {ret}\n}}"))
}
/// The matches of a pattern, each as the names of its nodes in order.
fn matches(m: &Model, p: &Pattern) -> Vec<Vec<String>> {
    let context = GraphContext::new(m, 0, &());
    let g = context.graph();
    let mut matcher = PatternMatcher::new(&g, p);
    let mut all = Vec::new();
    while let Some(found) = matcher.next_match() {
        all.push(found.nodes().iter().map(|n| g.node(*n).name().to_owned()).collect());
    }
    all
}
fn silu() -> Pattern {
    Pattern::new(|p| {
        let x = p.input("x");
        x * p.op("Sigmoid", [x])
    })
}

#[test]
fn operands_stand_in_either_order() {
    let p = silu();
    for nodes in ["%m = Mul(%x, %s) : f32[2]", "%m = Mul(%s, %x) : f32[2]"] {
        let m = graph(&format!("%s = Sigmoid(%x) : f32[2]\n{nodes}"), "%m");
        assert_eq!(matches(&m, &p), [["s", "m"]]);
    }
    let other = graph("%s = Sigmoid(%x) : f32[2]\n%m = Mul(%s, %y) : f32[2]", "%m");
    assert!(matches(&other, &p).is_empty());
    let div = Pattern::new(|p| p.input("x") / p.op("Sqrt", [p.input("v")]));
    let turned = graph("%s = Sqrt(%y) : f32[2]\n%d = RealDiv(%s, %x) : f32[2]", "%d");
    assert!(matches(&turned, &div).is_empty());
}

#[test]
fn a_node_with_a_graph_of_its_own_is_in_no_match() {
    let p = Pattern::new(|p| p.op("Neg", [p.op("Abs", [p.input("x")])]));
    let of = |attrs: &str| {
        let text = format!(
            "graph @main(%x: f32[2]) {{\n%a = Abs(%x) {attrs} : f32[2]\n%n = Neg(%a) : f32[2]\n return %n\n}}\n\
             graph @own(%x: f32[2]) {{\n return %x\n}}"
        );
        matches(&model(&text), &p)
    };
    assert_eq!(of(""), [["a", "n"]]);
    assert!(of("{_body = @own}").is_empty() && of("{_bodies = [@own]}").is_empty());
}

#[test]
fn a_choice_that_fails_later_is_taken_back() {
    // Either Abs could be `a`, but only with the second one can `b` be the input of Neg.
    let p = Pattern::new(|p| {
        let (a, b) = (p.input("a"), p.input("b"));
        (p.op("Abs", [a]) + p.op("Abs", [b])) * p.op("Neg", [b])
    });
    let m = graph(
        "%p = Abs(%y) : f32[2]\n%q = Abs(%x) : f32[2]\n%n = Neg(%y) : f32[2]\n%s = Add(%p, %q) : f32[2]\n%m = Mul(%n, %s) : f32[2]",
        "%m",
    );
    let context = GraphContext::new(&m, 0, &());
    let g = context.graph();
    let found = PatternMatcher::new(&g, &p).next_match().expect("a match");
    assert_eq!(g.node(found.value("a").node).name(), "x");
    assert_eq!(g.node(found.value("b").node).name(), "y");
}

#[test]
fn captures_give_values_nodes_and_constants() {
    let p = Pattern::new(|p| {
        let c = p.constant("c");
        p.any(&["Add", "Sub"], [p.op("Exp", [p.input("x")]).named("exp"), c]).when(|n| n.outputs().len() == 1)
    });
    let m =
        graph("%c = Const() {value = dense<f32[]: 3>} : f32[]\n%e = Exp(%y) : f32[2]\n%s = Sub(%e, %c) : f32[2]", "%s");
    let context = GraphContext::new(&m, 0, &());
    let g = context.graph();
    let found = PatternMatcher::new(&g, &p).next_match().expect("a match");
    assert_eq!(found.node("exp").name(), "e");
    assert_eq!(found.constant("c").and_then(|c| c.to_f64(1)), Some(vec![3.0]));
    assert_eq!(found.root().name(), "s");
    assert!(found.maybe("nothing").is_none());
    assert_eq!(g.node(found.value("x").node).name(), "y");
}

#[test]
fn constants_and_attributes_are_conditions() {
    let p = Pattern::new(|p| p.op("LeakyRelu", [p.input("x") * 0.5]).attr("negative_slope", 0.25));
    let of = |c: &str, slope: &str| {
        graph(
            &format!(
                "%c = Const() {{value = dense<f32[]: {c}>}} : f32[]\n%m = Mul(%c, %x) : f32[2]\n%l = LeakyRelu(%m) {{negative_slope = {slope}}} : f32[2]"
            ),
            "%l",
        )
    };
    assert_eq!(matches(&of("0.5", "0.25"), &p), [["m", "l"]]);
    assert!(matches(&of("0.6", "0.25"), &p).is_empty());
    assert!(matches(&of("0.5", "0.3"), &p).is_empty());
}

#[test]
fn optional_inputs_may_be_absent() {
    let p = Pattern::new(|p| p.op("Relu", [p.op("MatMulV2", [p.input("a"), p.input("b"), p.maybe("bias")])]));
    let text = |inputs: &str| {
        model(&format!(
            "graph @main(%x: f32[2,2], %y: f32[2,2], %b: f32[2]) {{\n%m = MatMulV2({inputs}) : f32[2,2]\n%r = Relu(%m) : f32[2,2]\n return %r\n}}"
        ))
    };
    assert_eq!(matches(&text("%x, %y"), &p).len(), 1);
    assert_eq!(matches(&text("%x, %y, %b"), &p).len(), 1);
    let strict = Pattern::new(|p| p.op("Relu", [p.op("MatMulV2", [p.input("a"), p.input("b")])]));
    assert!(matches(&text("%x, %y, %b"), &strict).is_empty());
}

#[test]
fn several_outputs_are_found_through_what_they_share() {
    let p = Pattern::of_outputs(|p| {
        let e = p.op("Exp", [p.input("x")]);
        vec![p.op("Neg", [e]), p.op("Abs", [p.op("Sqrt", [e])])]
    });
    let m =
        graph("%e = Exp(%x) : f32[2]\n%n = Neg(%e) : f32[2]\n%s = Sqrt(%e) : f32[2]\n%a = Abs(%s) : f32[2]", "%n, %a");
    let found = matches(&m, &p);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].len(), 4);
    let missing = graph("%e = Exp(%x) : f32[2]\n%n = Neg(%e) : f32[2]\n%s = Sqrt(%e) : f32[2]", "%n, %s");
    assert!(matches(&missing, &p).is_empty());
}

#[test]
fn matches_do_not_overlap_and_come_in_order() {
    let p = Pattern::new(|p| p.op("Abs", [p.op("Abs", [p.input("x")])]));
    let m = graph(
        "%a = Abs(%x) : f32[2]\n%b = Abs(%a) : f32[2]\n%c = Abs(%b) : f32[2]\n%d = Abs(%c) : f32[2]\n%e = Abs(%d) : f32[2]",
        "%e",
    );
    assert_eq!(matches(&m, &p), [["a", "b"], ["c", "d"]]);
}

#[test]
fn the_border_is_checked_with_its_reason() {
    let reason = |nodes: &str, ret: &str| {
        let m = graph(nodes, ret);
        let context = GraphContext::new(&m, 0, &());
        let p = silu();
        let g = context.graph();
        let mut matcher = PatternMatcher::new(&g, &p);
        assert!(matcher.next_match().is_none(), "{nodes}");
        matcher.refusals().pop().expect("a reason").1
    };
    let both = "%s = Sigmoid(%x) : f32[2]\n%m = Mul(%s, %x) : f32[2]";
    assert!(reason(&format!("{both}\n%n = Neg(%s) : f32[2]"), "%m, %n").contains("read by `n` outside"));
    assert!(reason(both, "%m, %s").contains("an output of the graph"));
    assert!(
        reason("%k = Neg(%y) : f32[2]\n%s = Sigmoid(%x) after(%k) : f32[2]\n%m = Mul(%s, %x) : f32[2]", "%m, %k")
            .contains("control edge joins `s`")
    );
}

struct Silu;
impl PatternFusion for Silu {
    fn info(&self) -> PassInfo {
        PassInfo::new("Silu", PassStage::AFTER_INFER_SHAPE, PassLevel::O1, "")
    }
    fn patterns(&self) -> Vec<Pattern> {
        vec![silu()]
    }
    fn replacement(&self, m: &Match<'_>, r: &Replacement<'_>) -> Verdict<Vec<ValueRef>> {
        Ok(vec![r.op("Swish", [m.value("x")]).attr("scale", 1.0f64).into()])
    }
}

fn run(pass: &dyn Pass, m: &mut Model) -> Vec<Vec<String>> {
    let edits = {
        let context = GraphContext::new(m, 0, &());
        let g = context.graph();
        let mut patch = Patch::new(&g);
        pass.run(&g, &mut patch).expect("edits");
        Vec::from(patch.into_edits())
    };
    let key = Key::new(REPORT);
    let (told, edits): (Vec<Edit>, Vec<Edit>) =
        edits.into_iter().partition(|e| matches!(e, Edit::SetGraphAttr(a) if a.key == key));
    m.apply(0, edits).expect("applied");
    m.compact();
    let words = |e: &Edit| match e {
        Edit::SetGraphAttr(a) => a.value.as_strs().unwrap_or_default().into_iter().map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    told.iter().map(words).collect()
}

#[test]
fn a_chain_of_matches_is_rewritten_in_one_patch_and_keeps_names() {
    let mut m = graph(
        "%s = Sigmoid(%x) : f32[2]\n%m = Mul(%s, %x) : f32[2]\n%t = Sigmoid(%m) {_stream_label = \"a\"} : f32[2]\n%n = Mul(%m, %t) {_stream_label = \"a\"} : f32[2]",
        "%n",
    );
    let told = run(&PatternFusionPass(Silu), &mut m);
    assert_eq!(told, [["fused", "Silu", "s;m", "m"], ["fused", "Silu", "t;n", "n"]]);
    let nodes: Vec<_> = m.graphs()[0].nodes().filter(|n| n.op() == "Swish").collect();
    assert_eq!(nodes.iter().map(|n| n.name()).collect::<Vec<_>>(), ["m", "n"]);
    assert_eq!(nodes[0].attrs().strs(ORIGINALS), Some(vec!["s", "m"]));
    assert_eq!(nodes[1].attrs().strs(PASS_NAME), Some(vec!["Silu"]));
    assert_eq!(nodes[1].attrs().str("_stream_label"), Some("a"));
    assert_eq!(nodes[0].outputs()[0].shape.to_string(), "[2]");
}

#[test]
fn attributes_that_differ_are_refused() {
    let mut m = graph("%s = Sigmoid(%x) {_stream_label = \"a\"} : f32[2]\n%m = Mul(%s, %x) : f32[2]", "%m");
    let told = run(&PatternFusionPass(Silu), &mut m);
    assert_eq!(told[0][0], "refused");
    assert!(told[0][3].contains("`_stream_label` is \"a\" on `s` and not set on `m`"), "{}", told[0][3]);
    assert_eq!(m.graphs()[0].nodes().filter(|n| n.op() == "Swish").count(), 0);
}

#[test]
fn a_path_that_comes_back_is_a_cycle() {
    let m = graph("%a = Exp(%x) : f32[2]\n%b = Neg(%a) : f32[2]\n%c = Add(%a, %b) : f32[2]", "%c");
    let context = GraphContext::new(&m, 0, &());
    let g = context.graph();
    let id = |name: &str| g.nodes().find(|n| n.name() == name).expect("node").id();
    let why = FuseInspector::new(&g).can_fuse(&[id("a"), id("c")]).unwrap_err();
    assert!(why.contains("comes back to `c`"), "{why}");
    assert_eq!(FuseInspector::new(&g).can_fuse(&[id("a"), id("b"), id("c")]), Ok(()));
}

#[test]
fn two_fusions_that_wait_for_each_other_are_a_cycle() {
    // a and d may be fused, and b and c may be fused, but not both pairs.
    let m =
        graph("%a = Exp(%x) : f32[2]\n%b = Exp(%y) : f32[2]\n%c = Neg(%a) : f32[2]\n%d = Neg(%b) : f32[2]", "%c, %d");
    let context = GraphContext::new(&m, 0, &());
    let g = context.graph();
    let id = |name: &str| g.nodes().find(|n| n.name() == name).expect("node").id();
    let mut inspector = FuseInspector::new(&g);
    let mut patch = Patch::new(&g);
    inspector.can_fuse(&[id("a"), id("d")]).expect("free");
    inspector.report("P", &[id("a"), id("d")], &[], &mut patch);
    assert!(inspector.can_fuse(&[id("b"), id("c")]).unwrap_err().contains("cycle"));
    assert_eq!(FuseInspector::new(&g).can_fuse(&[id("b"), id("c")]), Ok(()));
}

/// In random graphs, sets of nodes are fused one after another. The inspector must allow exactly
/// those fusions that leave the graph of the sets without a cycle, as a full search determines.
#[test]
fn sets_are_fused_where_the_graph_of_all_sets_has_no_cycle() {
    let (mut allowed, mut refused) = (0, 0);
    for seed in 1..400u64 {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut below = |n: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % n
        };
        let n = 8 + below(24);
        let reads: Vec<[usize; 2]> = (0..n).map(|k| [below(k + 1), below(k + 1)]).collect();
        let name = |k: usize| if k == 0 { "x".to_owned() } else { format!("n{}", k - 1) };
        let lines = reads.iter().enumerate();
        let nodes: String =
            lines.map(|(k, [a, b])| format!("%n{k} = Add(%{}, %{}) : f32[2]\n", name(*a), name(*b))).collect();
        let all: Vec<String> = (0..n).map(|k| format!("%n{k}")).collect();
        let m = graph(&nodes, &all.join(", "));
        let context = GraphContext::new(&m, 0, &());
        let g = context.graph();
        let mut inspector = FuseInspector::new(&g);
        // The set that each node is in.
        let mut set: Vec<usize> = (0..n).collect();
        for _ in 0..10 {
            let chosen: Vec<usize> = (0..2 + below(3)).map(|_| below(n)).collect();
            let mut chosen: Vec<usize> =
                chosen.into_iter().filter(|k| set[*k] == *k && set.iter().filter(|s| **s == *k).count() == 1).collect();
            chosen.sort_unstable();
            chosen.dedup();
            if chosen.len() < 2 {
                continue;
            }
            let mut then = set.clone();
            chosen.iter().for_each(|k| then[*k] = chosen[0]);
            // Repeatedly remove sets that wait for no remaining set; if any remain, there is a
            // cycle.
            let mut left: Vec<usize> = then.clone();
            left.sort_unstable();
            left.dedup();
            let waits = |a: usize, b: usize| {
                (0..n).any(|k| then[k] == a && reads[k].iter().any(|r| *r > 0 && then[*r - 1] == b && b != a))
            };
            while let Some(at) = (0..left.len()).find(|a| left.iter().all(|b| !waits(left[*a], *b))) {
                left.remove(at);
            }
            let ids: Vec<_> =
                chosen.iter().map(|k| g.nodes().find(|x| x.name() == format!("n{k}")).unwrap().id()).collect();
            match inspector.can_fuse(&ids) {
                Ok(()) => {
                    assert!(left.is_empty(), "seed {seed}: {chosen:?} of {reads:?} with {set:?}");
                    inspector.report("P", &ids, &["fused".to_owned()], &mut Patch::new(&g));
                    (set, allowed) = (then, allowed + 1);
                }
                Err(why) => {
                    assert!(!left.is_empty() && why.contains("cycle"), "seed {seed}: {chosen:?}: {why}");
                    refused += 1;
                }
            }
        }
    }
    assert!(allowed > 500 && refused > 500, "{allowed} allowed, {refused} refused");
}

#[test]
fn an_empty_replacement_deletes() {
    let mut m = graph("%a = Neg(%x) : f32[2]\n%b = Neg(%a) : f32[2]\n%c = Abs(%b) : f32[2]", "%c");
    struct Gone;
    impl PatternFusion for Gone {
        fn info(&self) -> PassInfo {
            PassInfo::new("Gone", PassStage::AFTER_INFER_SHAPE, PassLevel::O1, "")
        }
        fn patterns(&self) -> Vec<Pattern> {
            vec![Pattern::new(|p| p.op("Neg", [p.op("Neg", [p.input("x")])]))]
        }
        fn replacement(&self, m: &Match<'_>, _: &Replacement<'_>) -> Verdict<Vec<ValueRef>> {
            Ok(vec![m.value("x")])
        }
    }
    assert_eq!(run(&PatternFusionPass(Gone), &mut m), [["fused", "Gone", "a;b", ""]]);
    let text = ge_ir::text::to_string(&m).expect("text");
    assert!(text.contains("Abs(%x)") && !text.contains("Neg"), "{text}");
}

#[test]
fn a_replacement_that_does_not_fit_changes_nothing() {
    let m = graph("%s = Sigmoid(%x) : f32[2]\n%m = Mul(%s, %x) : f32[2]", "%m");
    let context = GraphContext::new(&m, 0, &());
    let g = context.graph();
    let p = silu();
    let found = PatternMatcher::new(&g, &p).next_match().expect("a match");
    let mut patch = Patch::new(&g);
    let mut rewriter = SubgraphRewriter::new("P", &g, &mut patch);
    let b = Boundary::from(&found);
    assert!(!rewriter.replace(&b, |_| Ok(vec![])));
    assert!(!rewriter.replace(&b, |_| Ok(vec![found.outputs()[0]])));
    assert!(!rewriter.replace(&b, |_| Err("no kernel".into())));
    assert!(!rewriter.replace(&b, |r| Ok(vec![r.op("Relu", [g.node(found.nodes()[0]).value(0)]).into()])));
    assert_eq!(rewriter.fired(), 0);
    let told = |e: &Edit| matches!(e, Edit::SetGraphAttr(a) if matches!(&a.value, AttrValue::Strs(_)));
    assert_eq!(patch.edits().len(), 4);
    assert!(patch.edits().iter().all(told));
}
