//! FFTS+: chains of kernels run slice by slice, with the same bits and a smaller working set; the
//! context graph is checked field by field.
use super::*;

const ON: [&str; 2] = ["--set", "ge.x.composite_engines=FftsPlus"];
const APART: [&str; 2] = ["--set", "ge.x.auto_fusion=false"];

const ATTENTION: &str =
    "graph @main(%q: f32[1,8,128,32], %k: f32[1,8,128,32], %v: f32[1,8,128,32], %m: f32[1,1,1,128]) {
  %s = BatchMatMulV2(%q, %k) {adj_x2 = true} : f32[1,8,128,128]
  %t = Muls(%s) {value = 0.2} : f32[1,8,128,128]
  %e = Add(%t, %m) : f32[1,8,128,128]
  %p = SoftmaxV2(%e) {axes = [-1]} : f32[1,8,128,128]
  %o = BatchMatMulV2(%p, %v) : f32[1,8,128,32]
  return %o
}
";

/// 101 rows: 7 slices of 13 and one of 10.
const ROWS: &str = "graph @main(%x: f32[101,64], %b: f32[64]) {
  %g = Const() {value = dense<f32[64]: splat 0.5>} : f32[64]
  %w = Const() {value = dense<f32[64,48]: splat 0.25>} : f32[64,48]
  %a = Relu(%x) : f32[101,64]
  %c = Add(%a, %b) : f32[101,64]
  %n = LayerNorm(%c, %g, %b) {begin_norm_axis = 1, begin_params_axis = 1} : f32[101,64], f32[101,1], f32[101,1]
  %h = MatMulV2(%n, %w) : f32[101,48]
  %d = SoftmaxV2(%h) {axes = [-1]} : f32[101,48]
  %f = ReduceSumD(%d) {axes = [1], keep_dims = true} : f32[101,1]
  %r = RealDiv(%d, %f) : f32[101,48]
  return %r, %c
}
";

fn given(text: &str, seed: u64) -> Vec<HostTensor> {
    let head = text.lines().next().unwrap();
    let mut random = Random(seed);
    head.split("f32[")
        .skip(1)
        .map(|s| {
            let dims: Vec<u64> = s.split(']').next().unwrap().split(',').map(|d| d.parse().unwrap()).collect();
            f32s(&dims, &random.reals(dims.iter().product::<u64>() as usize))
        })
        .collect()
}

fn sliced(doc: &Value) -> Vec<Value> {
    doc["tasks"].as_array().unwrap().iter().filter(|t| t["type"] == "FFTS_PLUS").cloned().collect()
}

/// The arena of the kernels and of the slices, and the sliced tasks. Checks that the outputs have
/// the same bits in every schedule.
#[track_caller]
fn compared(text: &str, more: &[&str]) -> (u64, u64, Vec<Value>) {
    let plain = Compiled::new(text, more);
    let slices = Compiled::new(text, &[&ON[..], more].concat());
    assert!(sliced(&plain.document()).is_empty());
    let x = given(text, 5);
    let expected = run(&plain.load(&[]), &x).unwrap();
    for mode in [
        vec![],
        vec![("check_races", "true")],
        vec![("schedule", "random:3"), ("check_races", "true")],
        vec![("time", "model")],
    ] {
        let m = slices.load(&mode);
        for _ in 0..2 {
            let found = run(&m, &x).unwrap();
            for (k, (a, b)) in expected.outputs.iter().zip(&found.outputs).enumerate() {
                assert_eq!(a.bytes(), b.bytes(), "output {k}, {mode:?}");
            }
        }
    }
    let arena = |c: &Compiled| c.document()["memory"]["HBM"]["arena"].as_u64().unwrap();
    (arena(&plain), arena(&slices), sliced(&slices.document()))
}

#[test]
fn one_task_has_the_context_graph_of_its_nodes() {
    let c = Compiled::new(ATTENTION, &[ON, APART].concat());
    let tasks = c.tasks();
    assert_eq!(
        tasks,
        [
            "FFTS_PLUS main_sub_0 s0 e- b4 {i0*}{i1*}{i2*}{i3*}{o0*}{ws0*} ffts_plus_main_sub_0  10 of s+t+p+o",
            "END_GRAPH NetOutput s0 e- b0    0",
        ],
        "{tasks:#?}"
    );
    let task = sliced(&c.document()).remove(0);
    let f = &task["ffts_plus"];
    let number = |k: &str| f[k].as_u64().unwrap();
    // Two values of [128,128] are live at once in a slice, and four slices are in a window; as a
    // whole there are three values of eight heads.
    assert_eq!(["extent", "slice", "threads", "window"].map(number), [8, 1, 8, 4]);
    assert_eq!(["slice_bytes", "working_set", "whole_bytes"].map(number), [131_072, 524_288, 1_572_864]);
    let line = |c: &Value| {
        let list = c["successors"].as_array().unwrap().iter().map(|s| s.to_string()).collect::<Vec<_>>().join(",");
        let args: Vec<String> = c["args"]
            .as_array()
            .unwrap()
            .iter()
            .map(|a| {
                let per = if a["per"] == "lane" { "L" } else { "" };
                format!("{}{per}+{}*{}:{}", a["arg"], a["offset"], a["step"], a["bytes"])
            })
            .collect();
        let kernel = c["kernel_name"].as_str().map_or("", |k| &k[..k.len() - 17]);
        let text = [c["type"].as_str().unwrap(), c["node"].as_str().unwrap(), kernel];
        format!("{} p{} >{list} {}", text.join(" "), c["pred_cnt"], args.join(" ")).trim_end().to_owned()
    };
    let contexts: Vec<String> = f["contexts"].as_array().unwrap().iter().map(line).collect();
    // `p` takes the place of `s`, so it waits until `s` is dropped. Every slice reads the whole
    // mask.
    assert_eq!(
        contexts,
        [
            "AT_START   p0 >1,2,6,9",
            "FLUSH_DATA input 0  p1 >3 0+0*16384:16384",
            "FLUSH_DATA input 1  p1 >3 1+0*16384:16384",
            "AICORE s nn_BatchMatMulV2 p2 >4 0+0*16384:16384 1+0*16384:16384 5L+0*131072:65536",
            "AIV t nn_Muls p1 >5,7 5L+0*131072:65536 5L+65536*131072:65536",
            "INVALIDATE_DATA s  p1 >7 5L+0*131072:65536",
            "FLUSH_DATA input 2  p1 >7 2+0*0:512",
            "AIV p nn_ScaledMaskedSoftmax p3 >8,10 5L+65536*131072:65536 2+0*0:512 5L+0*131072:65536",
            "INVALIDATE_DATA t  p1 >13 5L+65536*131072:65536",
            "FLUSH_DATA input 3  p1 >10 3+0*16384:16384",
            "AICORE o nn_BatchMatMulV2 p2 >11,12 5L+0*131072:65536 3+0*16384:16384 4+0*16384:16384",
            "WRITEBACK_DATA o  p1 >13 4+0*16384:16384",
            "INVALIDATE_DATA p  p1 >13 5L+0*131072:65536",
            "AT_END   p3 >",
        ]
    );
}

#[test]
fn slices_give_the_same_bits_in_less_memory() {
    for text in [ATTENTION, ROWS] {
        for more in [&APART[..], &[]] {
            let (plain, slices, tasks) = compared(text, more);
            assert!(!tasks.is_empty() && slices < plain, "{slices} of {plain}: {tasks:#?}");
        }
    }
}

#[test]
fn without_the_option_nothing_is_cut_and_only_engines_of_subgraphs_can_be_named() {
    let c = Compiled::new(ATTENTION, &APART);
    assert_eq!(c.tasks().len(), 5);
    let said = c.refusal(2, &["--set", "ge.x.composite_engines=AiCore"]);
    assert!(said.contains("ge.x.composite_engines") && said.contains("AiCore"), "{said}");
}

/// Chains with branches over one extent: steps read any earlier values, and a product reads its
/// second operand whole.
fn random_graph(seed: u64) -> String {
    let mut random = Random(seed);
    let rows = 9 + random.below(90);
    let cols = 16;
    let mut text = format!("graph @main(%v0: f32[{rows},{cols}], %v1: f32[{cols}], %w: f32[{cols},{cols}]) {{\n");
    let mut full = vec![0u64];
    let steps = 3 + random.below(9);
    for k in 2..2 + steps {
        let a = full[random.below(full.len() as u64) as usize];
        let b = full[random.below(full.len() as u64) as usize];
        let t = format!("f32[{rows},{cols}]");
        let line = match random.below(7) {
            0 => format!("Sigmoid(%v{a}) : {t}"),
            1 => format!("Add(%v{a}, %v{b}) : {t}"),
            2 => format!("Mul(%v{a}, %v1) : {t}"),
            3 => format!("SoftmaxV2(%v{a}) {{axes = [-1]}} : {t}"),
            4 => format!("MatMulV2(%v{a}, %w) : {t}"),
            5 => format!("Maximum(%v{a}, %v{b}) : {t}"),
            _ => format!("Tanh(%v{a}) : {t}"),
        };
        text.push_str(&format!("  %v{k} = {line}\n"));
        full.push(k);
    }
    let more = full[random.below(full.len() as u64 - 1) as usize + 1];
    text + &format!("  return %v{}, %v{more}\n}}\n", steps + 1)
}

#[test]
fn random_chains_give_the_same_bits() {
    let (mut cut, graphs) = (0, if std::env::var_os("GE_LONG").is_some() { 400 } else { 12 });
    for seed in 0..graphs {
        let text = random_graph(seed);
        cut += compared(&text, if seed % 2 == 0 { &APART } else { &[] }).2.len();
    }
    assert!(cut >= graphs as usize / 2, "only {cut} subgraphs of {graphs} graphs were cut");
}

#[test]
fn a_context_graph_that_was_broken_is_refused() {
    use ge_model::context_graph::{decode, encode};
    type Change = fn(&mut ge_model::context_graph::ContextGraph);
    let cases: [(Change, &str); 6] = [
        (|g| g.contexts[3].pred_cnt += 1, "wait for each other"),
        (|g| g.contexts[3].args[0].step *= 2, "beyond argument 0"),
        (|g| g.contexts[3].args[2].arg = 0, "writes to an input"),
        (|g| g.contexts[3].launch = Some((77, 77)), "no launch 77"),
        (|g| g.threads = u32::MAX, "slices in"),
        (|g| g.graph = "other".into(), "`other` is missing"),
    ];
    for (change, word) in cases {
        let c = Compiled::new(ATTENTION, &[ON, APART].concat());
        c.change(|m| {
            let t = m.tasks.iter_mut().find(|t| !t.private.is_empty()).unwrap();
            let (mut g, launches) = decode(&t.private).unwrap();
            change(&mut g);
            t.private = encode(&g, &launches).into();
        });
        let (code, said) = c.run(&[]);
        assert!(code != 0 && code != 70 && said.contains(word), "{word}: {code} {said}");
    }
}

#[test]
fn a_tuning_stop_goes_on_to_the_same_model() {
    let c = Compiled::new(ATTENTION, &ON);
    let whole = std::fs::read(c.path().join("m.om")).unwrap();
    for step in ["before_ub_match", "after_ub_match", "after_builder"] {
        let set = |k: &str, v: &str| ["--set".to_owned(), format!("{k}={v}")];
        let stop: Vec<String> =
            [set("ge.buildMode", "tuning"), set("ge.buildStep", step), set("ge.tuningPath", step)].concat();
        let stop: Vec<&str> = stop.iter().map(String::as_str).collect();
        std::fs::create_dir(c.path().join(step)).unwrap();
        expect_code(c.path(), 0, &[&["compile", "m.ge", "-o", "x.om", "-q"][..], &ON, &stop].concat());
        let left = std::fs::read_dir(c.path().join(step)).unwrap().next().unwrap().unwrap().path();
        expect_code(c.path(), 0, &[&["compile", left.to_str().unwrap(), "-o", "m.om", "-q"][..], &ON].concat());
        assert!(std::fs::read(c.path().join("m.om")).unwrap() == whole, "{step}");
    }
}
