//! Checks engines, passes, front ends, mappings and devices: they refuse nonsense with an error,
//! answer the same twice, and return soon from a cancelled call.
use super::{Plain, Probe, Rule, fault};
use crate::handle::{DeviceHandle, EngineHandle, FrontendHandle};
use crate::registry::Registry;
use crate::sample::SampleGraph;
use crate::services::set_cancelled;
use crate::tasks::Granted;
use ge_plugin_api::abi::ROption;
use ge_plugin_api::device::{MemoryKind, SocSpec};
use ge_plugin_api::engine::{Hook, KernelBinary, RunningParams, Support, Target, TaskContext, flags};
use ge_plugin_api::frontend::{FileRef, ForeignNode, GraphBuilder, ImportOptions, RelativeFiles};
use ge_plugin_api::ops::ParamKind;
use ge_plugin_api::task::Task;
use ge_plugin_api::types::{AttrMap, AttrValue, Blob, DType, Shape, TensorDesc};
use ge_plugin_api::view::Node;
use ge_plugin_api::{Error, Result};
use std::time::{Duration, Instant};

/// Time limit for a cancelled call.
const SOON: Duration = Duration::from_secs(1);

pub(super) fn probe(r: &Registry, probe: &mut Probe) {
    for e in r.engines() {
        probe.plain(Rule::C6, &format!("engine {}", e.name()), || try_engine(r, e));
    }
    for p in r.passes() {
        probe.plain(Rule::C7, &format!("pass {}", p.name()), || {
            for g in samples("Add") {
                let ask = || {
                    let r = p.run(&g.graph());
                    r.map(|edits| format!("{edits:?}")).map_err(|e| e.to_string())
                };
                let first = ask()?;
                if first != ask()? {
                    return Err("it makes two answers of one graph".into());
                }
            }
            Ok(())
        });
    }
    for f in r.frontends() {
        probe.plain(Rule::C8, &format!("front end {}", f.framework), || try_frontend(f));
    }
    for (info, m) in r.all_mappings().iter() {
        probe.plain(Rule::C8, &format!("mapping {} of {}", info.op, info.domain), || {
            let node = ForeignNode {
                name: "sample".into(),
                op: info.op.clone(),
                domain: info.domain.clone(),
                version: info.since,
                ..ForeignNode::default()
            };
            let mut b = GraphBuilder::new(None);
            m.map(&node, &mut b).err().and_then(|e| fault(&e)).map_or(Ok(()), Err)
        });
    }
    for d in r.devices() {
        probe.plain(Rule::C9, &format!("device {}", d.name()), || try_device(d));
    }
    probe.plain(Rule::C10, "cancellation", || {
        set_cancelled(true);
        let start = Instant::now();
        for g in samples("Add") {
            for p in r.passes() {
                let _ = p.run(&g.graph());
            }
            for e in r.engines() {
                let _ = e.optimize(Hook::ORIGINAL_GRAPH, &g.graph());
            }
        }
        set_cancelled(false);
        if start.elapsed() > SOON { Err("cancelled calls do not return within a second".into()) } else { Ok(()) }
    });
}

/// Nodes that no engine should accept, and one that may be valid.
fn samples(op: &str) -> Vec<SampleGraph> {
    let with = |d: TensorDesc, n: usize| SampleGraph::with(op, vec![Some(d.clone()); n], vec![d], AttrMap::default());
    let mut odd = AttrMap::default();
    for key in ["axis", "axes", "pads", "strides", "shape", "perm", "dtype", "N"] {
        odd.set(key, AttrValue::Str("nonsense".into()));
    }
    vec![
        SampleGraph::with(op, Vec::new(), Vec::new(), AttrMap::default()),
        SampleGraph::new(op, 3, 1),
        SampleGraph::with(op, vec![None, None], vec![TensorDesc::unknown()], AttrMap::default()),
        with(TensorDesc::new(DType::F32, Shape::of(&[2, 3])), 2),
        with(TensorDesc::new(DType::F32, Shape::of(&[])), 1),
        with(TensorDesc::new(DType::F32, Shape::of(&[0, 0])), 1),
        with(TensorDesc::new(DType::F32, Shape::of(&[1 << 40, 1 << 40])), 2),
        with(TensorDesc::new(DType::STRING, Shape::unranked()), 1),
        SampleGraph::with(
            op,
            vec![Some(TensorDesc::new(DType::F32, Shape::of(&[2, 3]))); 2],
            vec![TensorDesc::unknown(); 2],
            odd,
        ),
    ]
}

fn target() -> Target {
    let soc = SocSpec {
        name: "sample".into(),
        aic_cores: 8,
        aiv_cores: 16,
        prefetch_num: 8,
        memory_bytes: 1 << 34,
        streams_normal: 1024,
        tasks_normal: 1024,
        max_events: 65536,
        max_notifies: 1024,
        ..SocSpec::default()
    };
    Target { soc, deterministic: true, online: false, rank_size: 1 }
}

fn unless_fault<T>(r: Result<T>) -> core::result::Result<Option<T>, String> {
    match r {
        Ok(v) => Ok(Some(v)),
        Err(e) => fault(&e).map_or(Ok(None), Err),
    }
}

fn try_engine(r: &Registry, e: &EngineHandle) -> Plain {
    let mut ops = unless_fault(e.op_types())?.unwrap_or_default();
    ops.push("NoSuchOperator".into());
    let target = target();
    for op in &ops {
        for g in samples(op) {
            let n = g.node();
            let answer = unless_fault(e.supports(&n))?;
            if answer != unless_fault(e.supports(&n))? {
                return Err(format!("it answers twice differently whether it takes a node of type {op}"));
            }
            match &answer {
                Some(Support::No(why)) if why.as_str() == "gave no reason" => {
                    return Err(format!("it refuses a node of type {op} without a reason"));
                }
                Some(Support::Yes | Support::YesAt(_)) => {}
                _ => continue,
            }
            unless_fault(e.variants(&n, &target))?;
            let params = unless_fault(e.calc_op_running_param(&n, &target))?;
            let kernel = unless_fault(e.compile(&n, &target))?.flatten();
            let again = unless_fault(e.compile(&n, &target))?.flatten();
            if kernel != again {
                return Err(format!("it compiles two kernels of one node of type {op}"));
            }
            let context = TaskContext { target: target.clone(), kernel: ROption::from(kernel.clone()), rank_size: 1 };
            let tasks = || unless_fault(e.generate_task(&n, &context));
            let list = tasks()?;
            if format!("{list:?}") != format!("{:?}", tasks()?) {
                return Err(format!("it generates two task lists of one node of type {op}"));
            }
            if let (Some(list), Some(params)) = (list, params) {
                // Only for operators of this library is it known whether they have outputs.
                let writes = r.op(op).is_some_and(|o| o.proto.outputs.iter().any(|o| o.kind == ParamKind::REQUIRED));
                held(e, &n, &list, &params, kernel.as_ref(), &target, writes)?;
            }
            e.time_ns(&n, &target.soc);
            unless_fault(e.core(&n))?;
        }
    }
    for g in samples("Add") {
        for hook in Hook::ALL {
            unless_fault(e.optimize(*hook, &g.graph()))?;
        }
    }
    unless_fault(e.tilings())?;
    Ok(())
}

/// Checks the task list of a sample against the rules, if its sizes are known and fit the device's
/// memory.
fn held(
    e: &EngineHandle,
    n: &Node<'_>,
    list: &[Task],
    params: &RunningParams,
    kernel: Option<&KernelBinary>,
    target: &Target,
    writes: bool,
) -> Plain {
    let inputs = (0..n.inputs().len()).filter_map(|i| n.input_desc(i));
    let mut bytes = inputs.chain(n.outputs()).map(|d| d.data_bytes());
    let fits = bytes.try_fold(0u64, |a, b| a.checked_add(b?)).is_some_and(|b| b < target.soc.memory_bytes);
    if !fits {
        return Ok(());
    }
    let computes = writes && !e.has(flags::NO_TASK) && !e.has(flags::STRUCTURAL) && !e.has(flags::COMPOSITE);
    let read: Vec<bool> =
        n.outputs().iter().enumerate().map(|(k, d)| computes && k == 0 && d.data_bytes() != Some(0)).collect();
    let stored = |name: &str| kernel.is_some_and(|k| k.name.as_str() == name);
    let sync: Vec<bool> = params.sync.iter().map(|s| s.notify).collect();
    let has = Granted {
        inputs: n.inputs().len(),
        read: &read,
        params,
        attached: Some(params.attached.len()),
        sync: Some(&sync),
        stored: Some(&stored),
        soc: &target.soc,
    };
    e.check_tasks(n, list, &has).map_err(|e| e.to_string())
}

struct NoFiles;
impl RelativeFiles for NoFiles {
    fn open_relative(&self, path: &str) -> Result<Blob> {
        Err(Error::usage(format!("there is no `{path}`")))
    }
}

fn try_frontend(f: &FrontendHandle) -> Plain {
    let noise: Vec<u8> = (0..4096u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for bytes in [Vec::new(), b"hello".to_vec(), vec![0u8; 64], vec![0xff; 64], noise] {
        let file = FileRef { path: "sample".into(), bytes: Blob::from_owner(bytes) };
        f.recognises(&file);
        unless_fault(f.import(&file, &ImportOptions::default(), &NoFiles))?;
    }
    Ok(())
}

fn try_device(d: &DeviceHandle) -> Plain {
    let soc = d.soc(&d.info.default_soc).map_err(|e| format!("it does not describe its default SoC: {e}"))?;
    if d.soc("no such SoC").map_err(|e| fault(&e)).is_ok() {
        return Err("it describes a SoC that there is not".into());
    }
    for name in d.info.socs.iter() {
        d.soc(name).map_err(|e| format!("it does not describe `{name}`: {e}"))?;
    }
    unless_fault(d.soc_from_text("sample", "this is [ no SoC"))?;
    if let Some(context) = unless_fault(d.open(0, &soc, &[]))? {
        unless_fault(context.free(0x10))?;
        unless_fault(context.counters())?;
        // A device that is not present has no memory, which it may report as an error.
        if let Some(at) = unless_fault(context.alloc(MemoryKind::HBM, 4096))? {
            let there: Vec<u8> = (0..1000u32).map(|i| (i % 251) as u8).collect();
            let mut back = vec![0u8; there.len()];
            let copied = unless_fault(context.copy_in(at, &there))?.is_some()
                && unless_fault(context.copy_out(at, &mut back))?.is_some();
            if copied && back != there {
                return Err("what is copied to its memory comes back as other bytes".into());
            }
            unless_fault(context.free(at))?;
        }
    }
    unless_fault(d.open(0, &soc, &[("no such option".into(), "x".into())]))?;
    Ok(())
}
