//! Tiling sink of kernels of cube and vector cores: an FFTS+ task launches them, and UPDATE refers
//! to that task by its handle (document 001 §4.5, §5.5).
use super::values::{attention_of_random_lengths, near};
use super::*;

const ON: [&str; 4] = ["--set", "ge.tiling_schedule_optimize=1", "--set", "ge.x.composite_engines=FftsPlus"];

/// Attention is a product on the cube cores and a softmax on the vector cores; the sequence lengths
/// are inputs.
const MODEL: &str = "graph @main(%q: f32[2,6,8], %k: f32[2,9,8], %v: f32[2,9,8], %ql: i64[2], %kl: i64[2]) {
  %y = PromptFlashAttention(%q, %k, %v, _, _, %ql, %kl) {num_heads = 1, scale_value = 0.25} : f32[2,6,8]
  return %y
}
";

fn task<'d>(doc: &'d Value, kind: &str) -> &'d Value {
    doc["tasks"].as_array().unwrap().iter().find(|t| t["type"] == kind).unwrap_or_else(|| panic!("no {kind}"))
}

#[test]
fn the_whole_task_list_field_by_field() {
    for (soc, nops, so) in [
        ("Ascend910B", 8, "op_master_device/lib/Ascend-v1.0-libopmaster.so"),
        ("Ascend310P", 5, "op_master_device/lib/Ascend-310P-v1.0-libopmaster.so"),
    ] {
        let more = ["--soc", soc, "--set", "ge.exec.precision_mode=must_keep_origin_dtype"];
        let c = Compiled::new(MODEL, &[&ON[..], &more].concat());
        let mut list = vec![
            format!("PREPROCESS_KERNEL y s1 e- b1 {{tiling_context}}{{*op_type}}{{}} RunAicpuRpcSrvLaunch {so} 6"),
            "EVENT_WAIT y s0 e0 b0    0".to_owned(),
        ];
        list.extend((0..nops).map(|_| "NOP y s0 e- b0    0".to_owned()));
        list.extend([
            "FFTS_PLUS y s0 e- b4294967295 {ffts_addr}{i0*}{i1*}{i2*}{}{}{i5*}{i6*}{o0*}{tiling_context.tiling_data} nn_PromptFlashAttention  10"
                .to_owned(),
            "UPDATE y s1 e- b0 {tiling_context.tiling_key}{tiling_context.block_dim}   0".into(),
            "EVENT_RECORD y s1 e0 b0    0".into(),
            "END_GRAPH NetOutput s0 e- b0    0".into(),
        ]);
        assert_eq!(c.tasks(), list, "{soc}");
        let doc = c.document();
        // There is one context of cube and vector cores, and UPDATE refers to its task.
        let launch = task(&doc, "FFTS_PLUS");
        let f = &launch["ffts_plus"];
        assert_eq!((&f["threads"], &f["window"]), (&1.into(), &1.into()));
        let [context] = f["contexts"].as_array().unwrap().as_slice() else { panic!("{f}") };
        assert_eq!(
            (&context["type"], &context["node"], &context["pred_cnt"]),
            (&"MIX_AIC".into(), &"y".into(), &0.into())
        );
        assert_eq!(
            (&context["non_tail_block_dim"], &context["kernel_name"]),
            (&u32::MAX.into(), &launch["kernel_name"])
        );
        assert_eq!(context["args"].as_array().unwrap().len(), 10);
        assert_eq!(task(&doc, "UPDATE")["updates"], launch["index"]);
        let y = doc["graphs"][0]["nodes"].as_array().unwrap().iter().find(|n| n["name"] == "y").unwrap().clone();
        assert_eq!(
            (&y["attrs"]["_tiling_sink_op"], &y["attrs"]["_alias_engine_name"]),
            (&true.into(), &"ffts_plus".into())
        );
        let text = expect_code(c.path(), 0, &["inspect", "m.om", "--what", "tasks"]).stdout;
        assert!(String::from_utf8_lossy(&text).contains("#0 MIX_AIC y, waits for 0"));
    }
}

#[test]
fn only_mixed_kernels_of_sunk_nodes_have_this_form() {
    let launch = |text: &str, args: &[&str]| {
        let c = Compiled::new(text, args);
        let all = c.tasks();
        let mut own =
            all.into_iter().filter(|t| t.contains(" y ") && (t.starts_with("KERNEL") || t.starts_with("FFTS")));
        own.next().unwrap().split(' ').next().unwrap().to_owned()
    };
    assert_eq!(launch(MODEL, &ON[..2]), "KERNEL", "no composite engine takes part");
    // The same, asked for by an attribute.
    let by_hand = MODEL.replace("{num_heads", "{_alias_engine_name = \"ffts_plus\", num_heads");
    assert_eq!(launch(&by_hand, &ON[..2]), "FFTS_PLUS");
    assert_eq!(launch(&by_hand, &[]), "KERNEL", "not sunk");
    let cube = "graph @main(%x: f32[12,16], %w: f32[3,16,8], %list: i64[3]) {
  %y = GroupedMatmul(%x, %w, %list) {group_list_type = 1} : f32[12,8]
  return %y
}
";
    assert_eq!(launch(cube, &ON), "KERNEL", "a kernel of cube cores alone");
    let scoped = MODEL.replace("{num_heads", "{_super_kernel_scope = \"s\", num_heads");
    let c = Compiled::new(&scoped, &ON);
    assert!(c.tasks().iter().all(|t| !t.starts_with("FFTS_PLUS") && !t.starts_with("UPDATE")), "{:#?}", c.tasks());
}

#[test]
fn lengths_that_change_give_right_numbers_without_the_host() {
    let c = Compiled::new(MODEL, &ON);
    let mut random = Random(909);
    for mode in [
        vec![],
        vec![("schedule", "random:1"), ("check_races", "true")],
        vec![("schedule", "random:2"), ("check_races", "true")],
        vec![("time", "model")],
    ] {
        let m = c.load(&mode);
        for _ in 0..25 {
            let (given, expected) = attention_of_random_lengths(&mut random);
            let r = run(&m, &given).unwrap();
            near(&to_f32(&r.outputs[0]), &expected);
            let counts = ["device_tiling", "task_updates", "host_tiling"].map(|n| counter(&r, n));
            assert_eq!(counts, [1, 1, 0], "{mode:?}");
        }
    }
}

/// A change of the task list, and what the error of loading or running it contains.
type Broken = (fn(&mut ge_model::CompiledModel), &'static str);

#[test]
fn broken_sequences_are_caught() {
    use ge_plugin_api::task::TaskType as T;
    fn at(m: &ge_model::CompiledModel, kind: T) -> usize {
        m.tasks.iter().position(|t| t.kind == kind.code()).unwrap()
    }
    let cases: [Broken; 4] = [
        (|m| drop(m.tasks.remove(at(m, T::NOP))), "0xFFFFFFFF"),
        (|m| drop(m.tasks.remove(at(m, T::UPDATE))), "0xFFFFFFFF"),
        (
            |m| {
                let update = m.tasks.remove(at(m, T::UPDATE));
                m.tasks.insert(0, update);
            },
            "stands before the task that it updates",
        ),
        (
            |m| {
                let update = at(m, T::UPDATE);
                m.tasks[update].numbers = vec![1];
            },
            "has no task to update",
        ),
    ];
    for (change, expect) in cases {
        let c = Compiled::new(MODEL, &ON);
        c.change(change);
        for seed in 0..4 {
            let (code, said) = c.run(&["--device-option", &format!("schedule=random:{seed}")]);
            assert!(code != 0 && code != 70 && said.contains(expect), "{expect}: {code} {said}");
        }
    }
}
