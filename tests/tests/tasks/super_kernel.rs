//! Super kernels: chains of one scope as one task, tiling sink within them, and their numbers.
use super::*;

const ON: &str = "ge.tiling_schedule_optimize=1";
/// Small kernels are not fused.
const APART: [&str; 2] = ["--set", "ge.x.auto_fusion=false"];

/// Five small kernels; `b`, `g` and `c` ask for one launch together.
const MODEL: &str = "graph @main(%x: f32[12,16], %w: f32[3,16,8], %list: i64[3]) {
  %a = Relu(%x) : f32[12,16]
  %b = Square(%a) {_super_kernel_scope = \"s\"} : f32[12,16]
  %g = GroupedMatmul(%b, %w, %list) {group_list_type = 1, _super_kernel_scope = \"s\"} : f32[12,8]
  %c = Neg(%g) {_super_kernel_scope = \"s\"} : f32[12,8]
  %d = Relu(%c) : f32[12,8]
  return %d, %c
}
";

fn plain(text: &str) -> String {
    text.replace(", _super_kernel_scope = \"s\"", "").replace(" {_super_kernel_scope = \"s\"}", "")
}

fn inputs(random: &mut Random, list: &[i64]) -> Vec<HostTensor> {
    vec![f32s(&[12, 16], &random.reals(192)), f32s(&[3, 16, 8], &random.reals(384)), i64s(&[3], list)]
}

#[test]
fn a_chain_with_tiling_on_the_device_is_one_task_without_wait_nop_update_or_record() {
    for (soc, so) in [
        ("Ascend910B", "op_master_device/lib/Ascend-v1.0-libopmaster.so"),
        ("Ascend310P", "op_master_device/lib/Ascend-310P-v1.0-libopmaster.so"),
    ] {
        let c = Compiled::new(
            MODEL,
            &[&APART[..], &["--set", ON, "--soc", soc, "--set", "ge.exec.precision_mode=must_keep_origin_dtype"]]
                .concat(),
        );
        let cores = if soc == "Ascend910B" { 20 } else { 8 };
        let args = "{skn0}{i0*}{o0*}{skn1}{i0*}{i1*}{i2*}{o0*}{ws0*}{tiling_context.tiling_data}\
            {tiling_context.tiling_key}{tiling_context.block_dim}{event_addr0*}{skn2}{i0*}{o0*}";
        let list = [
            "KERNEL a s0 e- b1 {i0*}{o0*} nn_Relu  2".to_owned(),
            "EVENT_RECORD a s0 e0 b0    0".into(),
            "EVENT_WAIT g s1 e0 b0    0".into(),
            format!(
                "PREPROCESS_KERNEL g s1 e- b1 {{tiling_context}}{{*op_type}}{{event_addr0*}} RunAicpuRpcSrvLaunch {so} 6"
            ),
            format!("SUPER_KERNEL c s0 e- b{cores} {args} super_kernel_s  2 of b+g+c"),
            "KERNEL d s0 e- b1 {i0*}{o0*} nn_Relu  2".into(),
            "END_GRAPH NetOutput s0 e- b0    0".into(),
        ];
        let found = c.tasks();
        // Only the start of the tiling may be ordered by an event, before the chain.
        let kinds = |l: &[String]| l.iter().map(|t| t.split(' ').next().unwrap().to_owned()).collect::<Vec<_>>();
        assert!(kinds(&found).iter().all(|k| !matches!(k.as_str(), "NOP" | "UPDATE")), "{found:#?}");
        let at = found.iter().position(|t| t.starts_with("SUPER_KERNEL")).unwrap_or_else(|| panic!("{found:#?}"));
        assert_eq!(found[at], list[4], "{found:#?}");
        assert!(found.contains(&list[3]), "{found:#?}");
        let after = &found[at + 1..];
        assert!(!after.iter().any(|t| t.contains(" g ") || t.contains(" b ")), "{found:#?}");
        assert!(!found.iter().any(|t| t.starts_with("EVENT_WAIT c ") || t.starts_with("EVENT_WAIT b ")), "{found:#?}");
    }
}

#[test]
fn the_numbers_are_those_of_the_nodes_alone_in_every_schedule() {
    let one = Compiled::new(MODEL, &[&APART[..], &["--set", ON]].concat());
    let each = Compiled::new(&plain(MODEL), &[&APART[..], &["--set", ON]].concat());
    let mut random = Random(11);
    for mode in [
        vec![],
        vec![("check_races", "true")],
        vec![("schedule", "random:3"), ("check_races", "true")],
        vec![("schedule", "random:8")],
        vec![("time", "model")],
    ] {
        let (a, b) = (one.load(&mode), each.load(&mode));
        for _ in 0..6 {
            let cut = (random.below(7) as i64, random.below(6) as i64);
            let given = inputs(&mut random, &[cut.0, 12 - cut.0 - cut.1, cut.1]);
            let (x, y) = (run(&a, &given).unwrap(), run(&b, &given).unwrap());
            for k in 0..2 {
                assert_eq!(x.outputs[k].bytes(), y.outputs[k].bytes(), "output {k}, {mode:?}");
            }
            assert_eq!(["device_tiling", "task_updates", "host_tiling"].map(|n| counter(&x, n)), [1, 0, 0]);
            assert!(counter(&x, "kernel_launches") < counter(&y, "kernel_launches"));
        }
    }
}

#[test]
fn fewer_launches_take_less_of_the_simulated_clock() {
    let chain = |scope: &str| {
        let mut text = "graph @main(%x: f32[64]) {\n  %n0 = Relu(%x) : f32[64]\n".to_owned();
        for k in 1..20 {
            let op = ["Square", "Neg", "Abs", "Relu"][k % 4];
            text.push_str(&format!("  %n{k} = {op}(%n{}){scope} : f32[64]\n", k - 1));
        }
        text + "  return %n19\n}\n"
    };
    let one = Compiled::new(&chain(" {_super_kernel_scope = \"s\"}"), &APART);
    let each = Compiled::new(&chain(""), &APART);
    let tasks = one.tasks();
    assert_eq!(tasks.len(), 3, "{tasks:#?}");
    let x = [f32s(&[64], &Random(5).reals(64))];
    let (a, b) =
        (run(&one.load(&[("time", "model")]), &x).unwrap(), run(&each.load(&[("time", "model")]), &x).unwrap());
    assert_eq!(a.outputs[0].bytes(), b.outputs[0].bytes());
    // 18 launches of 3,000 ns are saved.
    assert_eq!(b.report.elapsed_ns - a.report.elapsed_ns, 18 * 3_000);
}

#[test]
fn others_that_wait_for_a_node_cut_the_chain_behind_it() {
    // `p` and `q` are on a stream of their own and need `b`; `c` needs `q`.
    let text = "graph @main(%x: f32[64]) {
  %a = Relu(%x) {_super_kernel_scope = \"s\"} : f32[64]
  %b = Square(%a) {_super_kernel_scope = \"s\"} : f32[64]
  %p = Neg(%b) {_stream_label = \"other\"} : f32[64]
  %q = Abs(%p) {_stream_label = \"other\"} : f32[64]
  %e = Exp(%b) {_super_kernel_scope = \"s\"} : f32[64]
  %c = Add(%q, %e) {_super_kernel_scope = \"s\"} : f32[64]
  return %c
}
";
    let c = Compiled::new(text, &APART);
    let found = c.tasks();
    let chains: Vec<&str> = found.iter().filter_map(|t| Some(t.split_once(" of ")?.1)).collect();
    assert_eq!(chains, ["a+b", "e+c"], "{found:#?}");
    let x = Random(9).reals(64);
    for seed in 0..20 {
        let schedule = format!("random:{seed}");
        let r = run(&c.load(&[("schedule", &schedule), ("check_races", "true")]), &[f32s(&[64], &x)]).unwrap();
        for (y, x) in to_f32(&r.outputs[0]).iter().zip(&x) {
            let b = x.max(0.0) * x.max(0.0);
            assert!((y - (b + b.exp())).abs() < 1e-4, "{y} of {x}");
        }
    }
}

#[test]
fn what_no_super_kernel_can_hold_is_run_alone_and_says_why() {
    let text = "graph @main(%x: f32[4,4]) {
  %a = Relu(%x) {_super_kernel_scope = \"s\"} : f32[4,4]
  %m = MatrixDeterminant(%a) {_super_kernel_scope = \"s\"} : f32[]
  %b = Neg(%m) {_super_kernel_scope = \"s\"} : f32[]
  return %b
}
";
    let c = Compiled::new(text, &APART);
    let why = c.refusals("m")["SuperKernel"].as_str().unwrap().to_owned();
    assert!(why.contains("runs on no AI core"), "{why}");
    let found = c.tasks();
    assert!(found.iter().any(|t| t.starts_with("KERNEL m")), "{found:#?}");
    assert_eq!(found.iter().filter(|t| t.starts_with("SUPER_KERNEL")).count(), 2, "{found:#?}");
}

#[test]
fn a_reused_binary_asks_for_tiling_on_the_device() {
    let reused = MODEL.replace(
        "_super_kernel_scope = \"s\"} : f32[12,8]\n  %c",
        "_super_kernel_scope = \"s\", super_kernel_reuse_binary = true} : f32[12,8]\n  %c",
    );
    let said = Compiled::source(&reused).refusal(1, &[]);
    assert!(said.contains("`g`") && said.contains("`super_kernel_reuse_binary`"), "{said}");
    Compiled::new(&reused, &["--set", ON]);
    let other = MODEL.replace("%c = Neg(%g) {", "%c = Neg(%g) {super_kernel_reuse_binary = true, ");
    let said = Compiled::source(&other).refusal(1, &["--set", ON]);
    assert!(said.contains("`c`") && said.contains("`super_kernel_reuse_binary`"), "{said}");
}

#[test]
fn a_fault_within_a_chain_names_the_node() {
    let c = Compiled::new(MODEL, &[&APART[..], &["--set", ON]].concat());
    let m = c.load(&[]);
    let mut random = Random(2);
    let said = run(&m, &inputs(&mut random, &[1, 1, 1])).err().unwrap();
    assert!(said.contains("sums to 3 rows"), "{said}");
    // The number of blocks is never written, and the kernel reads that word of the context.
    c.change(|m| {
        let at = m.tasks.iter().position(|t| t.kind == 44).unwrap();
        m.tasks[at].numbers.clear();
    });
    let m = c.load(&[("check_races", "true")]);
    let said = run(&m, &inputs(&mut random, &[2, 7, 3])).err().unwrap();
    assert!(said.contains("nothing orders them") || said.contains("nothing has written"), "{said}");
}
