//! A plugin whose option `mode` selects what it does: everything right, or one thing wrong. The
//! tests build it in a workspace of its own; it is not part of the product.
#![allow(missing_docs)]
use ge_plugin_api::engine::{Engine, EngineInfo, Hook, KernelBinary, LoadRequest, RunningParams, Support, Target, TaskContext, Variant};
use ge_plugin_api::kernel::{HostKernel, LoadedKernel};
use ge_plugin_api::ops::{InferCtx, OpDef, infer};
use ge_plugin_api::pass::{Pass, PassInfo, PassLevel, PassStage};
use ge_plugin_api::patch::Patch;
use ge_plugin_api::services::{OptionKind, OptionSpec, OptionValue};
use ge_plugin_api::task::Task;
use ge_plugin_api::types::{AttrValue, DType, TensorDesc};
use ge_plugin_api::view::{Graph, Node};
use ge_plugin_api::{Error, Result};
use std::sync::OnceLock;

mod device;
mod tasks;

ge_plugin_api::ge_plugin! {
    name: "bad", kinds: ["engine", "ops", "frontend", "pass", "device"], provides: ["BadEngine", "baddev"], options: options, init: init
}

static MODE: OnceLock<String> = OnceLock::new();
pub(crate) fn mode(m: &str) -> bool {
    MODE.get().is_some_and(|x| x == m)
}

fn options() -> Vec<OptionSpec> {
    if std::env::var_os("GE_BAD_PANIC_OPTIONS").is_some() {
        panic!("no options today");
    }
    let mode = std::env::var("GE_BAD_MODE").unwrap_or_else(|_| "good".into());
    let mut level = spec("level", OptionKind::INT, AttrValue::Int(if mode == "bad_default" { 9 } else { 3 }));
    (level.min, level.max) = (1, 8);
    vec![spec("mode", OptionKind::STRING, AttrValue::Str(mode.as_str().into())), level]
}
fn spec(key: &str, kind: OptionKind, default: AttrValue) -> OptionSpec {
    OptionSpec { key: key.into(), kind, min: 0, max: 0, choices: Default::default(), default, help: "".into() }
}

#[allow(unconditional_recursion)]
pub(crate) fn deep(n: u64) -> u64 {
    std::hint::black_box(n) + deep(n + 1)
}

fn init(options: &[OptionValue]) -> Result<()> {
    for o in options {
        if let ("mode", AttrValue::Str(m)) = (o.key.as_str(), &o.value) {
            let _ = MODE.set(m.to_string());
        }
    }
    match MODE.get().map_or("", String::as_str) {
        "panic_init" => panic!("unlucky start"),
        "error_init" => return Err(Error::failed("the licence server is away")),
        // SAFETY: unsound on purpose: this mode must crash.
        "segv_init" => unsafe { std::ptr::null_mut::<u8>().write_volatile(1) },
        "exit_init" => std::process::exit(7),
        "loop_init" => {
            let mut n = 0u64;
            while std::hint::black_box(n) < u64::MAX {
                n += 1;
            }
        }
        "abort_init" => std::process::abort(),
        "overflow_init" => drop(deep(0)),
        "thread_left" => drop(std::thread::spawn(|| {
            loop {
                std::thread::park();
            }
        })),
        _ => {}
    }
    Ok(())
}

/// Whether the mode makes `supports` accept nodes that a later call refuses.
fn refuses() -> bool {
    ["refuse_compile", "refuse_params", "refuse_task"].into_iter().any(mode)
}

struct Bad(&'static str);
impl Engine for Bad {
    fn info(&self) -> EngineInfo {
        if mode("panic_info") {
            panic!("who am I");
        }
        EngineInfo {
            name: if mode("lie_name") { "OtherEngine".into() } else { self.0.into() },
            kernel_lib: "bad".into(),
            user_name: "".into(),
            cost: 1,
            flags: 0,
            scheduler_id: "TS_1".into(),
            optimizer_priority: 1,
        }
    }
    fn op_types(&self) -> Vec<String> {
        // In these modes the engine also claims `Relu`, although its only kernel copies the input.
        let all = ["BadOp", "Relu"];
        let more = refuses() || mode("slow_supports") || mode("stuck_supports") || mode("wrong_relu");
        all[..if more { 2 } else { 1 }].iter().map(|s| (*s).to_owned()).collect()
    }
    fn optimize(&self, hook: Hook, graph: &Graph<'_>, patch: &mut Patch) -> Result<()> {
        if mode("hook_changes_others") && hook == Hook::ORIGINAL_GRAPH {
            for n in graph.nodes().filter(|n| n.op() == "Relu") {
                patch.set_op(n.id(), "Neg");
            }
        }
        Ok(())
    }
    fn compile(&self, node: &Node<'_>, _: &Target) -> Result<Option<KernelBinary>> {
        if mode("refuse_compile") {
            return Err(Error::unsupported(format!("no template for {}", node.op())));
        }
        Ok(Some(KernelBinary::new("bad_copy", b"copy")))
    }
    fn supports(&self, node: &Node<'_>) -> Support {
        // `slow_supports` is slow once; `stuck_supports` never returns.
        static SLOW: std::sync::Once = std::sync::Once::new();
        if mode("slow_supports") {
            SLOW.call_once(|| std::thread::sleep(std::time::Duration::from_millis(4500)));
        }
        while mode("stuck_supports") {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        if mode("prints") {
            println!("an op store says hello");
        }
        if mode("leaves_a_file") {
            let _ = std::fs::write("bad.log", "a line");
        }
        if mode("leaves_a_file_open") {
            static ONCE: std::sync::Once = std::sync::Once::new();
            ONCE.call_once(|| std::mem::forget(std::fs::File::open("/etc/hostname")));
        }
        if mode("logs") {
            ge_plugin_api::services::log(ge_plugin_api::services::Level::INFO, "it looks fine");
        }
        if mode("thread_panics") {
            let _ = std::thread::spawn(|| panic!("nobody heard me")).join();
        }
        if mode("panic_supports") {
            panic!("no node is good enough");
        }
        // SAFETY: unsound on purpose: this mode must crash.
        if mode("segv_supports") {
            unsafe { std::ptr::null_mut::<u8>().write_volatile(1) }
        }
        if refuses() {
            return Support::Yes;
        }
        if node.op() == "BadOp" && (node.inputs().len(), node.outputs().len()) != (1, 1) {
            return Support::no("a BadOp has one input and one output");
        }
        if mode("wrong_relu") && node.op() == "Relu" {
            return match node.input_desc(0) {
                Some(d) if d.dtype == DType::F32 && d.shape.count().is_some() => Support::Yes,
                _ => Support::no("it takes f32 of known sizes"),
            };
        }
        if mode("no_reason") || node.op() != "BadOp" { Support::no(if mode("no_reason") { "" } else { "type" }) } else { Support::Yes }
    }
    fn variants(&self, _: &Node<'_>, _: &Target) -> Result<Vec<Variant>> {
        Ok(if mode("lie_variants") {
            vec![Variant {
                input_types: vec![DType::F32; 7].into(),
                input_formats: Default::default(),
                output_types: Default::default(),
                output_formats: Default::default(),
                cost: 1,
            }]
        } else {
            Vec::new()
        })
    }
    fn generate_task(&self, node: &Node<'_>, _: &TaskContext) -> Result<Vec<Task>> {
        if mode("refuse_task") { Err(Error::unsupported(format!("no launch for {}", node.op()))) } else { Ok(tasks::list()) }
    }
    fn calc_op_running_param(&self, node: &Node<'_>, _: &Target) -> Result<RunningParams> {
        if mode("refuse_params") {
            return Err(Error::unsupported(format!("no size for {}", node.op())));
        }
        Ok(RunningParams {
            output_bytes: if mode("lie_bytes") { vec![1].into() } else { Default::default() },
            ..tasks::params()
        })
    }
    fn host_kernel(&self, op: &str) -> Option<&dyn HostKernel> {
        (op == "Relu" && tasks::HOST_MODES.into_iter().any(mode)).then_some(&tasks::host_relu as &dyn HostKernel)
    }
    fn load_kernel(&self, request: &LoadRequest) -> Result<LoadedKernel> {
        tasks::kernel(request)
    }
}
ge_plugin_api::register_engine!(|| {
    if mode("panic_register") {
        panic!("not registered");
    }
    Box::new(Bad("BadEngine"))
});

fn bad_infer(ctx: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    if mode("panic_infer") {
        panic!("shape of things to come");
    }
    let out = infer::same(ctx)?;
    Ok(if mode("lie_outputs") {
        vec![out[0].clone(), out[0].clone()]
    } else if mode("lie_type") {
        vec![TensorDesc { dtype: DType::STRING, ..out[0].clone() }]
    } else if mode("lie_none") {
        Vec::new()
    } else if mode("unsteady") {
        static N: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
        let n = N.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        vec![TensorDesc { shape: ge_plugin_api::types::Shape::of(&[n]), ..out[0].clone() }]
    } else {
        out
    })
}
ge_plugin_api::register_op!(|| {
    let op = OpDef::new("BadOp", bad_infer)
        .input("x", &[DType::F32, DType::F16], "T")
        .output("y", &[DType::F32, DType::F16], "T");
    if mode("value_inputs") { op.value_inputs(&[7]) } else { op }
});

struct BadPass;
impl Pass for BadPass {
    fn info(&self) -> PassInfo {
        let stage = if mode("pass_stage") { PassStage(99) } else { PassStage::AFTER_INFER_SHAPE };
        let level = if mode("pass_level") { PassLevel(77) } else { PassLevel::O1 };
        PassInfo { name: "BadPass".into(), stage, level, help: "".into() }
    }
    fn run(&self, graph: &Graph<'_>, patch: &mut Patch) -> Result<()> {
        if mode("wrong_pass") {
            for n in graph.nodes().filter(|n| n.op() == "Relu") {
                patch.replace_uses(n.value(0), n.inputs()[0]);
                patch.remove(n.id());
            }
        }
        if mode("panic_pass") {
            panic!("this shall not");
        }
        if mode("error_pass") {
            return Err(Error::failed("no"));
        }
        if mode("slow_cancel") && ge_plugin_api::services::cancelled() {
            std::thread::sleep(std::time::Duration::from_millis(1200));
        }
        Ok(())
    }
}
ge_plugin_api::map_op!("onnx", "com.bad", "Mapped", 1..=u32::MAX, |node, b| {
    let op = if mode("maps_to_nothing") { "NobodyHasThis" } else { "Relu" };
    Ok(vec![b.node(op).name(&node.name).input(node.input(0)?).build()])
});
ge_plugin_api::register_pass!(BadPass);

ge_plugin_api::register_device!(|| Box::new(device::BadDevice));
