//! Tiling sink end to end (document 001): whole task lists, gates, numbers, broken sequences.
use super::*;

pub const ON: &str = "ge.tiling_schedule_optimize=1";

/// `r = relu(groups(relu(x)))`; the group list is an input.
pub const MODEL: &str = "graph @main(%x: f32[12,16], %w: f32[3,16,8], %list: i64[3]) {
  %a = Relu(%x) : f32[12,16]
  %g = GroupedMatmul(%a, %w, %list) {group_list_type = 1} : f32[12,8]
  %r = Relu(%g) : f32[12,8]
  return %r
}
";

pub fn with(attributes: &str) -> String {
    MODEL.replace("{group_list_type = 1}", &format!("{{group_list_type = 1, {attributes}}}"))
}

/// What the model should give; `list` has the number of rows of each group.
pub fn expected(x: &[f32], w: &[f32], list: &[i64]) -> Vec<f32> {
    let groups = list.iter().enumerate().flat_map(|(g, n)| std::iter::repeat_n(g, *n as usize));
    let mut out = Vec::new();
    for (row, g) in groups.enumerate() {
        for n in 0..8 {
            let sum: f64 =
                (0..16).map(|k| f64::from(x[row * 16 + k].max(0.0)) * f64::from(w[(g * 16 + k) * 8 + n])).sum();
            out.push(sum.max(0.0) as f32);
        }
    }
    out
}

#[track_caller]
pub fn near(found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len());
    for (i, (f, e)) in found.iter().zip(expected).enumerate() {
        assert!((f - e).abs() <= 1e-4 + 1e-4 * e.abs(), "element {i}: {f}, expected {e}");
    }
}

/// A random list of three groups with twelve rows in all.
fn list_of(random: &mut Random) -> Vec<i64> {
    let (a, b) = (random.below(13) as i64, random.below(13) as i64);
    vec![a.min(b), (a - b).abs(), 12 - a.max(b)]
}

#[test]
fn the_whole_task_list_field_by_field() {
    for (soc, nops, so) in [
        ("Ascend910B", 8, "op_master_device/lib/Ascend-v1.0-libopmaster.so"),
        ("Ascend310P", 5, "op_master_device/lib/Ascend-310P-v1.0-libopmaster.so"),
    ] {
        let c = Compiled::new(
            MODEL,
            &["--set", ON, "--soc", soc, "--set", "ge.exec.precision_mode=must_keep_origin_dtype"],
        );
        let mut list = vec![
            "KERNEL a s0 e- b1 {i0*}{o0*} nn_Relu  2".to_owned(),
            // The list is an input of the graph, so nothing is waited for.
            format!("PREPROCESS_KERNEL g s1 e- b1 {{tiling_context}}{{*op_type}}{{}} RunAicpuRpcSrvLaunch {so} 6"),
            "EVENT_WAIT g s0 e0 b0    0".into(),
        ];
        list.extend((0..nops).map(|_| "NOP g s0 e- b0    0".to_owned()));
        list.extend([
            "KERNEL g s0 e- b4294967295 {i0*}{i1*}{i2*}{o0*}{ws0*}{tiling_context.tiling_data} nn_GroupedMatmul  2"
                .to_owned(),
            "UPDATE g s1 e- b0 {tiling_context.tiling_key}{tiling_context.block_dim}   0".into(),
            // The kernel has waited for the tiling, so what follows the node also follows its
            // tiling.
            "EVENT_RECORD g s1 e0 b0    0".into(),
            "KERNEL r s0 e- b1 {i0*}{o0*} nn_Relu  2".into(),
            "END_GRAPH NetOutput s0 e- b0    0".into(),
        ]);
        assert_eq!(c.tasks(), list, "{soc}");
        let doc = c.document();
        let g = doc["graphs"][0]["nodes"].as_array().unwrap().iter().find(|n| n["name"] == "g").unwrap().clone();
        assert_eq!(g["attached_stream_ids"], serde_json::json!([1]));
        assert_eq!(
            (&g["attrs"]["_dynamic_tiling_depend_op"], &g["attrs"]["_tiling_sink_op"]),
            (&true.into(), &true.into())
        );
        assert!(g["attrs"].get("_force_unknown_shape").is_none());
        assert_eq!(g["workspaces"][0]["size"].as_u64().map(|s| s >= 32), Some(true));
        let wish = &g["attrs"]["_attached_stream_info_list"][0];
        assert_eq!(wish["_attached_resource_name"], "tiling");
        assert_eq!(wish["_attached_resource_depend_value_list_int"], serde_json::json!([2]));
        let own = |e: &&Value| e["send"] == "g" && e["recv"] == "g";
        assert_eq!(doc["events"].as_array().unwrap().iter().filter(own).count(), 1);
        // A random list does not add up to the number of rows.
        let (code, said) = c.run(&["--device-option", "check_races=true"]);
        assert!(code == 1 && said.contains("sums to"), "{said}");
    }
}

#[test]
fn a_list_that_is_computed_is_waited_for_on_the_attached_stream() {
    let text = MODEL
        .replace(
            "%a = ",
            "%one = Const() {value = dense<i64[3]: 0 1 -1>} : i64[3]\n  %sum = Add(%list, %one) : i64[3]\n  %a = ",
        )
        .replace("%w, %list)", "%w, %sum)");
    let c = Compiled::new(&text, &["--set", ON]);
    let tasks = c.tasks();
    let at =
        |what: &str| tasks.iter().position(|t| t.starts_with(what)).unwrap_or_else(|| panic!("{what}: {tasks:#?}"));
    let tiling = at("PREPROCESS_KERNEL g");
    let side = tasks[tiling].split(' ').nth(2).unwrap();
    let wait = at(&format!("EVENT_WAIT g {side} "));
    assert!(at("KERNEL sum") < wait && wait < tiling, "{tasks:#?}");
    let m = c.load(&[("check_races", "true"), ("schedule", "random:4")]);
    let mut random = Random(5);
    let (x, w) = (random.reals(192), random.reals(384));
    let r = run(&m, &[f32s(&[12, 16], &x), f32s(&[3, 16, 8], &w), i64s(&[3], &[2, 6, 4])]).unwrap();
    near(&to_f32(&r.outputs[0]), &expected(&x, &w, &[2, 7, 3]));
}

#[test]
fn tiling_runs_ahead_of_what_it_does_not_read_in_every_schedule() {
    let text = MODEL
        .replace(
            "%a = ",
            "%one = Const() {value = dense<i64[3]: 0 1 -1>} : i64[3]\n  %sum = Add(%list, %one) : i64[3]\n  %t = Tanh(%x) : f32[12,16]\n  %a = ",
        )
        .replace("Relu(%x)", "Relu(%t)")
        .replace("%w, %list)", "%w, %sum)");
    let c = Compiled::new(&text, &["--set", ON, "--set", "ge.x.auto_fusion=false"]);
    let tasks = c.tasks();
    let side = tasks.iter().find(|t| t.starts_with("PREPROCESS_KERNEL g")).and_then(|t| t.split(' ').nth(2)).unwrap();
    let waits: Vec<&String> = tasks.iter().filter(|t| t.starts_with(&format!("EVENT_WAIT g {side} "))).collect();
    let records = |id: &str| tasks.iter().find(|t| t.starts_with("EVENT_RECORD") && t.split(' ').nth(3) == Some(id));
    let from: Vec<&str> = waits.iter().filter_map(|w| records(w.split(' ').nth(3)?)?.split(' ').nth(1)).collect();
    assert_eq!(from, ["sum"], "{tasks:#?}");
    let mut random = Random(9);
    let (x, w) = (random.reals(192), random.reals(384));
    let tanh: Vec<f32> = x.iter().map(|v| v.tanh()).collect();
    for k in 0..20 {
        let m = c.load(&[("check_races", "true"), ("schedule", &format!("random:{k}"))]);
        let r = run(&m, &[f32s(&[12, 16], &x), f32s(&[3, 16, 8], &w), i64s(&[3], &[2, 6, 4])]).unwrap();
        near(&to_f32(&r.outputs[0]), &expected(&tanh, &w, &[2, 7, 3]));
    }
}

#[test]
fn a_constant_list_needs_no_sink() {
    let text = MODEL
        .replace(", %list: i64[3]", "")
        .replace("  %a = ", "  %list = Const() {value = dense<i64[3]: 2 7 3>} : i64[3]\n  %a = ");
    let c = Compiled::new(&text, &["--set", ON]);
    assert!(c.tasks().iter().all(|t| t.starts_with("KERNEL") || t.starts_with("END_GRAPH")), "{:#?}", c.tasks());
    assert_eq!(c.refusals("g"), serde_json::json!({}));
}

#[test]
fn each_gate_refuses_with_its_reason() {
    // The gate of the option.
    for off in [&[][..], &["--set", "ge.tiling_schedule_optimize=0"], &["--set", "ge.tiling_schedule_optimize="]] {
        let c = Compiled::new(MODEL, off);
        assert_eq!(c.refusals("g")["TilingSink"], "option ge.tiling_schedule_optimize is not 1");
        assert!(c.tasks().iter().any(|t| t.starts_with("KERNEL g s0 e- b1")), "{:#?}", c.tasks());
        let doc = c.document();
        let g = doc["graphs"][0]["nodes"].as_array().unwrap().iter().find(|n| n["name"] == "g").unwrap().clone();
        assert_eq!(g["attrs"]["_force_unknown_shape"], true);
        assert_eq!(g["engine"], "DNN_VM_AICPU_ASCEND");
    }
    // The gate of the device, which is asked only online. Offline the option alone decides, and the
    // device refuses the model.
    let c = Compiled::source(MODEL);
    let soc = "name = \"Old\"\nbase = \"Ascend910B\"\nmodel_task_update = false\n";
    std::fs::write(c.path().join("old.toml"), soc).unwrap();
    c.compile(&["--set", ON, "--soc", "old.toml"]);
    assert!(c.tasks().iter().any(|t| t.starts_with("UPDATE g")));
    let (code, said) = c.run(&[]);
    assert_eq!(code, 6, "{said}");
    assert!(said.contains("cannot update tasks") && said.contains("`g`"), "{said}");
    let flags = ["--set", ON, "--soc", "old.toml", "--random", "1"];
    let out = ge(c.path(), &[&["run", "m.ge", "--dump-tensors", "t"], &flags[..]].concat());
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code() == Some(1) && said.contains("group_list"), "{said}");
    assert!(!said.contains("cannot update"), "{said}");
    let session = Session::new(SessionOptions {
        plugins: Some(root().join("plugins.toml")),
        soc: Some(c.path().join("old.toml").display().to_string()),
        online: true,
        ..SessionOptions::default()
    })
    .unwrap();
    let graph = ge::session::import::parse_text(&c.path().join("m.ge"), MODEL.as_bytes()).unwrap();
    let mut options = ge::options::OptionMap::default();
    options.set("ge.tiling_schedule_optimize", "1", "test").unwrap();
    let made = session.compile("m", graph, &options, &ge_compiler::pipeline::Silent).unwrap();
    let g = made.model.graphs[0].nodes.iter().find(|n| n.name == "g").unwrap();
    let why: Vec<&str> = g.refusals.iter().filter(|r| r.0 == "TilingSink").map(|r| r.1.as_str()).collect();
    assert_eq!(why, ["device Old cannot update tasks of a model"]);
    // The gate of the operator: the tiling of a slice whose begin is a value has no function for
    // the device.
    let slice = "graph @main(%x: f32[8,8], %at: i64[2]) {
  %size = Const() {value = dense<i64[2]: 4 4>} : i64[2]
  %s = Slice(%x, %at, %size) : f32[4,4]
  return %s
}
";
    let c = Compiled::new(slice, &["--set", ON]);
    let why = "no engine has a tiling function of Slice for the device (TILING_ON_AICPU)";
    assert_eq!(c.refusals("s")["TilingSink"], why);
    let text = expect_code(c.path(), 0, &["inspect", "m.om", "--what", "engines"]).stdout;
    assert!(String::from_utf8_lossy(&text).contains(why), "{}", String::from_utf8_lossy(&text));
    // The gate of the shapes: such a model has no OM yet; why its nodes are refused is shown
    // before.
    let c = Compiled::source(&MODEL.replace("f32[12,", "f32[?,"));
    let why = "its shapes are not all known: tiling sink is for static graphs";
    let out = expect_code(c.path(), 0, &["inspect", "m.ge", "--support", "--json", "--set", ON]).stdout;
    let doc: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(doc["tiling_sink_refused"], serde_json::json!([{"node": "g", "reason": why}]));
    let text = expect_code(c.path(), 0, &["inspect", "m.ge", "--support", "--set", ON]).stdout;
    assert!(String::from_utf8_lossy(&text).contains(&format!("tiling of `g` stays off the device: {why}")));
}

#[test]
fn without_tiling_sink_an_ai_cpu_computes_the_node_and_takes_longer() {
    let large = MODEL
        .replace("12,16]", "128,256]")
        .replace("3,16,8]", "4,256,128]")
        .replace("12,8]", "128,128]")
        .replace("i64[3]", "i64[4]");
    let given =
        [f32s(&[128, 256], &[0.5; 128 * 256]), f32s(&[4, 256, 128], &[0.25; 4 * 256 * 128]), i64s(&[4], &[32; 4])];
    let time = |options: &[&str]| {
        let c = Compiled::new(&large, options);
        let r = run(&c.load(&[("time", "model")]), &given).unwrap();
        (r.report.elapsed_ns, to_f32(&r.outputs[0])[0])
    };
    let ((sunk, a), (plain, b)) = (time(&["--set", ON]), time(&[]));
    assert_eq!(a, b);
    // 8.4 million operations: one after another on the AI CPU, 64 in a nanosecond on each AI core.
    assert!(plain > 8_000_000 && sunk < 500_000, "{plain} ns, sunk {sunk} ns");
}

#[test]
fn only_three_values_of_the_option_are_known() {
    let c = Compiled::source(MODEL);
    for bad in ["2", "on"] {
        let said = c.refusal(2, &["--set", &format!("ge.tiling_schedule_optimize={bad}")]);
        assert!(said.contains(&format!("found `{bad}`, expected one of \"\", `0`, `1`")), "{said}");
        std::fs::write(c.path().join("o.json"), format!("{{\"ge.tiling_schedule_optimize\": \"{bad}\"}}")).unwrap();
        let said = c.refusal(2, &["--options", "o.json"]);
        assert!(said.contains("ge.tiling_schedule_optimize") && said.contains("o.json"), "{said}");
    }
    std::fs::write(c.path().join("o.json"), "{\"ge.tiling_schedule_optimize\": \"1\"}").unwrap();
    c.compile(&["--options", "o.json"]);
    assert!(c.tasks().iter().any(|t| t.starts_with("UPDATE g")));
}

#[test]
fn attributes_that_do_not_go_with_it_are_refused_by_node_and_attribute() {
    let said = Compiled::source(&with("_op_exec_never_timeout = true")).refusal(1, &["--set", ON]);
    assert!(said.contains("`g`") && said.contains("`_op_exec_never_timeout`"), "{said}");
    // Without tiling sink the node may have it.
    Compiled::new(&with("_op_exec_never_timeout = true"), &[]);
    let reused = with("_super_kernel_scope = \"s\", super_kernel_reuse_binary = true");
    let said = Compiled::source(&reused).refusal(1, &[]);
    assert!(said.contains("`g`") && said.contains("`super_kernel_reuse_binary`"), "{said}");
}

#[test]
fn one_hundred_runs_of_other_lists_need_no_tiling_on_the_host() {
    let c = Compiled::new(MODEL, &["--set", ON]);
    let mut random = Random(77);
    let modes = [
        vec![],
        vec![("schedule", "random:1"), ("check_races", "true")],
        vec![("schedule", "random:2"), ("check_races", "true")],
        vec![("time", "model")],
    ];
    for mode in modes {
        let m = c.load(&mode);
        for _ in 0..25 {
            let (x, w, list) = (random.reals(192), random.reals(384), list_of(&mut random));
            let r = run(&m, &[f32s(&[12, 16], &x), f32s(&[3, 16, 8], &w), i64s(&[3], &list)]).unwrap();
            near(&to_f32(&r.outputs[0]), &expected(&x, &w, &list));
            let counts = ["device_tiling", "task_updates", "host_tiling"].map(|n| counter(&r, n));
            assert_eq!(counts, [1, 1, 0], "{mode:?}");
        }
    }
}

#[test]
fn a_list_that_does_not_fit_names_the_node_and_leaves_the_model_usable() {
    let c = Compiled::new(MODEL, &["--set", ON]);
    let m = c.load(&[]);
    let mut random = Random(3);
    let (x, w) = (random.reals(192), random.reals(384));
    let go = |list: &[i64]| run(&m, &[f32s(&[12, 16], &x), f32s(&[3, 16, 8], &w), i64s(&[3], list)]);
    for _ in 0..3 {
        let said = go(&[5, 5, 5]).err().unwrap();
        assert!(said.contains("group_list sums to 15 rows, x has 12"), "{said}");
        near(&to_f32(&go(&[12, 0, 0]).unwrap().outputs[0]), &expected(&x, &w, &[12, 0, 0]));
    }
    // `ge run` says which node, task, stream and engine.
    let (code, said) = c.run(&[]);
    assert_eq!(code, 1, "{said}");
    for part in ["at node `g` (GroupedMatmul)", "(PREPROCESS_KERNEL) on stream 1", "engine AIcoreEngine"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

/// A name, a change of the task list, and what the simulator reports.
type Broken = (&'static str, fn(&mut ge_model::CompiledModel), &'static str);

#[test]
fn every_broken_sequence_is_caught_in_every_schedule() {
    use super::task_of_g as at;
    use ge_plugin_api::task::TaskType as T;
    fn record(m: &ge_model::CompiledModel) -> usize {
        let id = m.tasks.iter().find(|t| t.kind == T::EVENT_WAIT.code() && t.stream == 0).unwrap().sync_id;
        m.tasks.iter().position(|t| t.kind == T::EVENT_RECORD.code() && t.sync_id == id).unwrap()
    }
    let cases: [Broken; 4] = [
        ("one NOP missing", |m| drop(m.tasks.remove(at(m, T::NOP))), "0xFFFFFFFF"),
        (
            "record before update",
            |m| {
                let (u, r) = (at(m, T::UPDATE), record(m));
                m.tasks.swap(u, r);
            },
            "0xFFFFFFFF",
        ),
        (
            "update on the wrong stream",
            |m| {
                let u = at(m, T::UPDATE);
                m.tasks[u].stream = 0;
            },
            "0xFFFFFFFF",
        ),
        (
            "no wait",
            |m| {
                let w = m.tasks.iter().position(|t| t.kind == T::EVENT_WAIT.code() && t.stream == 0).unwrap();
                m.tasks.remove(w);
            },
            "0xFFFFFFFF",
        ),
    ];
    for (what, change, expect) in cases {
        let c = Compiled::new(MODEL, &["--set", ON]);
        c.change(change);
        for seed in 0..8 {
            let schedule = format!("random:{seed}");
            let mode = if seed == 0 { vec![] } else { vec![("schedule", schedule.as_str())] };
            let m = c.load(&mode);
            for again in 0..2 {
                let list = i64s(&[3], &[2, 7, 3]);
                let r = run(&m, &[f32s(&[12, 16], &[1.0; 192]), f32s(&[3, 16, 8], &[1.0; 384]), list]);
                let said = r.err().unwrap_or_else(|| panic!("{what}: run {again} of seed {seed} was let through"));
                assert!(said.contains(expect) && said.contains("`g`"), "{what}: {said}");
            }
        }
    }
}
