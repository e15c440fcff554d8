//! Tiling sink at run time (document 001 §5): what the loader keeps for a sunk node, and what the
//! node's tiling context holds.
use super::tiling_sink::{MODEL, ON, expected, near, with};
use super::*;
use ge_plugin_api::author::tiling_sink::{Platform, TilingContext};
use ge_plugin_api::types::{AttrMap, AttrValue};

/// Entries of a dictionary of numbers.
fn addresses(v: &AttrValue) -> BTreeMap<String, i64> {
    let entries = v.as_dict().unwrap_or_else(|| panic!("{v:?} is no dictionary"));
    entries.iter().map(|e| (e.key.to_string(), e.value.as_int().unwrap())).collect()
}
fn tasks_of(attrs: &AttrMap) -> Vec<BTreeMap<String, i64>> {
    match attrs.get("_tiling_sink_task_info") {
        Some(AttrValue::List(all)) => all.iter().map(addresses).collect(),
        None => Vec::new(),
        Some(other) => panic!("{other:?} is no list"),
    }
}
fn index_of(c: &Compiled, kind: &str) -> i64 {
    let doc = c.document();
    let all = doc["tasks"].as_array().unwrap();
    all.iter().position(|t| t["type"] == kind && t["block_dim"] == u32::MAX).unwrap() as i64
}
fn map(entries: &[(&str, i64)]) -> BTreeMap<String, i64> {
    entries.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect()
}

/// The inputs of [`MODEL`] with rows in three groups, and the expected numbers.
fn inputs(random: &mut Random) -> ([HostTensor; 3], Vec<f32>) {
    let (x, w) = (random.reals(192), random.reals(384));
    let given = [f32s(&[12, 16], &x), f32s(&[3, 16, 8], &w), i64s(&[3], &[2, 7, 3])];
    (given, expected(&x, &w, &[2, 7, 3]))
}

#[test]
fn what_the_loader_keeps_of_a_sunk_node_field_by_field() {
    for (soc, cores, prefetch_num) in [("Ascend910B", (20, 40), 8), ("Ascend310P", (8, 7), 5)] {
        let more = ["--soc", soc, "--set", "ge.exec.precision_mode=must_keep_origin_dtype"];
        let c = Compiled::new(MODEL, &[&["--set", ON][..], &more].concat());
        let m = c.load(&[("check_races", "true")]);
        let ext = m.ext_attrs().unwrap();
        assert_eq!(ext.keys().collect::<Vec<_>>(), ["g"], "{soc}");
        let kernel = index_of(&c, "KERNEL");
        assert_eq!(tasks_of(&ext["g"]), [map(&[("task_id", kernel), ("stream", 0)])]);
        // |header, tiling data|16 workspaces|key, blocks, event, flags, platform|operator, values|
        let at = addresses(ext["g"].get("_tiling_context_addr").unwrap());
        let base = at["tiling_context"];
        let key = base + 64 + 16 * 1024 + 16 * 8;
        let parts = [
            ("tiling_context", base),
            ("tiling_data", base),
            ("tiling_key", key),
            ("block_dim", key + 8),
            ("op_type", key + 64),
        ];
        assert_eq!(at, map(&parts));
        assert!(base > 0 && base % 64 == 0, "{base:#x}");
        let before = m.tiling_context("g").unwrap().unwrap();
        let info = m.info();
        let soc_file = &info.soc;
        assert_eq!((soc_file.aic_cores, soc_file.aiv_cores), cores);
        let platform = Platform {
            aic_cores: cores.0,
            aiv_cores: cores.1,
            prefetch_num,
            custom: false,
            memory_bytes: soc_file.memory_bytes,
        };
        let empty = TilingContext {
            capacity: 16 * 1024,
            workspaces: before.workspaces.clone(),
            platform,
            op_type: "GroupedMatmul".into(),
            inputs: 3,
            outputs: 1,
            // The arguments are context, operator and placeholder, then x, w and the list, whose
            // address each run sets anew.
            values: vec![(2, 5)],
            ..TilingContext::default()
        };
        assert_eq!(before, empty);
        assert!(matches!(before.workspaces.as_slice(), [a] if *a > 0), "{before:?}");
        let (given, numbers) = inputs(&mut Random(11));
        near(&to_f32(&run(&m, &given).unwrap().outputs[0]), &numbers);
        // The tiling function read the number of cores there, and wrote blocks and tiling data;
        // everything else is as the host left it.
        let after = m.tiling_context("g").unwrap().unwrap();
        assert!((1..=u64::from(cores.0)).contains(&after.block_dim) && !after.data.is_empty(), "{after:?}");
        assert_eq!(TilingContext { data: Vec::new(), block_dim: 0, ..after }, empty);
        assert_eq!(m.tiling_context("a").unwrap(), None);
        // `ge run` prints the same keys.
        let weights = c.path().join("in");
        std::fs::create_dir_all(&weights).unwrap();
        for (k, t) in given.iter().enumerate() {
            std::fs::write(weights.join(format!("input_{k}.npy")), ge_runtime::npy::write(t).unwrap()).unwrap();
        }
        let out = expect_code(c.path(), 0, &["run", "m.om", "--inputs", "in", "--json"]).stdout;
        let doc: Value = serde_json::from_slice(&out).unwrap();
        let g = &doc["ext_attrs"]["g"];
        assert_eq!(g["_tiling_sink_task_info"], serde_json::json!([{"task_id": kernel, "stream": 0}]));
        let told = &g["_tiling_context_addr"];
        assert_eq!(told["block_dim"].as_i64().unwrap() - told["tiling_context"].as_i64().unwrap(), key + 8 - base);
    }
}

#[test]
fn each_form_leaves_what_its_update_needs() {
    // An FFTS+ task leaves its handle, which UPDATE hands to the device.
    let ffts = "graph @main(%q: f32[2,6,8], %k: f32[2,9,8], %v: f32[2,9,8], %ql: i64[2], %kl: i64[2]) {
  %y = PromptFlashAttention(%q, %k, %v, _, _, %ql, %kl) {num_heads = 1, scale_value = 0.25} : f32[2,6,8]
  return %y
}
";
    let c = Compiled::new(ffts, &["--set", ON, "--set", "ge.x.composite_engines=FftsPlus"]);
    let m = c.load(&[]);
    let found = tasks_of(&m.ext_attrs().unwrap()["y"]);
    let [info] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((info["task_id"], info["stream"]), (index_of(&c, "FFTS_PLUS"), 0));
    assert!(info["ffts_task_handle"] >= 0);
    assert_eq!(m.tiling_context("y").unwrap().unwrap().values.iter().map(|v| v.0).collect::<Vec<_>>(), [5, 6]);
    // Within a super kernel nothing is updated: there is a context, but no task to find.
    let c = Compiled::new(
        &with("_super_kernel_scope = \"s\"").replace("Relu(%g)", "Relu(%g) {_super_kernel_scope = \"s\"}"),
        &["--set", ON],
    );
    assert!(c.tasks().iter().any(|t| t.starts_with("SUPER_KERNEL")), "{:#?}", c.tasks());
    let ext = c.load(&[]).ext_attrs().unwrap();
    assert!(tasks_of(&ext["g"]).is_empty() && ext["g"].get("_tiling_context_addr").is_some());
    // Two sunk nodes have a context and a task each; without tiling sink no node has either.
    let two = MODEL.replace(
        "  %r = Relu(%g)",
        "  %h = GroupedMatmul(%x, %w, %list) {group_list_type = 1} : f32[12,8]\n  %r = Add(%g, %h)",
    );
    let c = Compiled::new(&two, &["--set", ON]);
    let ext = c.load(&[]).ext_attrs().unwrap();
    let at = |n: &str| addresses(ext[n].get("_tiling_context_addr").unwrap())["tiling_context"];
    assert!(at("g").abs_diff(at("h")) >= 16 * 1024 && tasks_of(&ext["g"]) != tasks_of(&ext["h"]));
    assert!(Compiled::new(&two, &[]).load(&[]).ext_attrs().unwrap().is_empty());
}

#[test]
fn options_and_attributes_reach_the_context() {
    let c = Compiled::new(&with("op_para_size = 20000"), &["--set", ON, "--set", "ge.deterministic=1"]);
    let m = c.load(&[("check_races", "true"), ("schedule", "random:3")]);
    let (given, numbers) = inputs(&mut Random(5));
    near(&to_f32(&run(&m, &given).unwrap().outputs[0]), &numbers);
    let context = m.tiling_context("g").unwrap().unwrap();
    assert_eq!((context.capacity, context.deterministic, context.deterministic_level), (20_032, true, 1));
    let at = addresses(m.ext_attrs().unwrap()["g"].get("_tiling_context_addr").unwrap());
    assert_eq!(at["tiling_key"] - at["tiling_data"], 64 + 20_032 + 16 * 8);
    let c = Compiled::new(&with("op_para_size = 2000000"), &["--set", ON]);
    let (code, said) = c.run(&[]);
    assert!(code == 4 && said.contains("`g` has `op_para_size` 2000000"), "{said}");
}

/// A change of the OM, and what the loader's error contains.
type Damage = (fn(&mut ge_model::CompiledModel), &'static [&'static str]);

#[test]
fn what_a_tiling_task_lacks_is_said_by_node_and_task() {
    use super::task_of_g as at;
    use ge_plugin_api::task::TaskType as T;
    let cases: &[Damage] = &[
        // Without the kernel whose tiling is computed, without the placeholder of its blocks,
        // without its binary.
        (|m| drop(m.tasks.remove(at(m, T::KERNEL))), &["the tasks of `g`", "rule T1", "no task writes output 0"]),
        (
            |m| {
                let k = at(m, T::KERNEL);
                m.tasks[k].block_dim = 1;
            },
            &["the tasks of `g`", "rule T4", "{tiling_context.tiling_data}"],
        ),
        (
            |m| {
                let name = m.tasks[at(m, T::KERNEL)].kernel_name.clone();
                m.kernels.retain(|k| k.name != name);
            },
            &["kernel `nn_GroupedMatmul_", "of `g` is not in the kernel store"],
        ),
        // With wrong arguments.
        (
            |m| {
                let k = at(m, T::PREPROCESS_KERNEL);
                m.tasks[k].args_format = "{*op_type}{}".into();
            },
            &["`g`", "argument 0 is no tiling context"],
        ),
        (
            |m| {
                let k = at(m, T::PREPROCESS_KERNEL);
                m.tasks[k].args_format.push_str("{ws3*}");
            },
            &["the tasks of `g`", "rule T2", "workspace 3"],
        ),
        (
            |m| {
                let k = at(m, T::UPDATE);
                m.tasks[k].args_format = "{tiling_context.tiling_key}".into();
            },
            &["(UPDATE)", "`g`", "rule T4", "it needs 2"],
        ),
        (
            |m| {
                let (u, k) = (at(m, T::UPDATE), at(m, T::KERNEL));
                m.tasks.swap(u, k);
            },
            &["(UPDATE) of `g` stands before the task that it updates"],
        ),
    ];
    let mut wrong = Vec::new();
    for (k, (change, expect)) in cases.iter().enumerate() {
        let c = Compiled::new(MODEL, &["--set", ON]);
        c.change(change);
        let loaded = session(&[]).load_om(c.path().join("m.om"));
        let said = match &loaded {
            Err(e) => e.to_string(),
            Ok(m) => run(m, &inputs(&mut Random(1)).0).err().unwrap_or_else(|| panic!("case {k} was let through")),
        };
        if let Some(part) = expect.iter().find(|p| !said.contains(**p)) {
            wrong.push(format!("case {k}: {part}: {said}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
