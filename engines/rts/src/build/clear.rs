//! `AtomicAddrClean` and `MemSet`: a kernel that fills the memory of the node's inputs. Without
//! inputs it fills its workspace, which is the memory of the atomic outputs that wait for the node
//! (facts 2.8).
//!
//! Parameters (the kernel's binary): one line `type value` per argument, from `MemSet`'s
//! `values_int` and `values_float` in the order of `dtypes`; zero if none is given.
use ge_plugin_api::engine::{KernelBinary, RunningParams, Target, TaskContext, Workspace};
use ge_plugin_api::task::{KernelTask, KernelType, Task};
use ge_plugin_api::types::{AttrValue, DType};
use ge_plugin_api::view::Node;
use ge_plugin_api::{Diagnostic, ErrorKind, Result};

/// Bytes per block.
const BYTES_PER_BLOCK: u64 = 1 << 20;

/// The inputs that are present, which are the kernel's arguments.
fn arguments(node: &Node<'_>) -> Vec<usize> {
    (0..node.inputs().len()).filter(|i| node.input(*i).is_some()).collect()
}

/// Whether a node clears the memory of other nodes that wait for it.
pub fn clears_ahead(node: &Node<'_>) -> bool {
    node.inputs().is_empty()
}

/// Requests one workspace if the node clears memory for others; the memory plan makes it as large
/// as the cleared memory.
pub fn running_params(node: &Node<'_>) -> RunningParams {
    let wanted = if clears_ahead(node) { vec![Workspace { bytes: 32, ..Workspace::default() }] } else { Vec::new() };
    RunningParams { workspaces: wanted.into(), task_count: 1, ..RunningParams::default() }
}

/// Type and fill value of each argument.
fn fills(node: &Node<'_>) -> Result<Vec<(DType, f64)>> {
    if clears_ahead(node) {
        return Ok(vec![(DType::U8, 0.0)]);
    }
    let types: Vec<DType> = match node.attr("dtypes") {
        Some(AttrValue::List(l)) => {
            l.iter().filter_map(|v| if let AttrValue::Type(t) = v { Some(*t) } else { None }).collect()
        }
        Some(AttrValue::Ints(l)) => l.iter().map(|t| u8::try_from(*t).map_or(DType::UNKNOWN, DType)).collect(),
        _ => Vec::new(),
    };
    let ints = node.ints("values_int").unwrap_or_default();
    let floats: Vec<f64> = match node.attr("values_float") {
        Some(AttrValue::Floats(f)) => f.to_vec(),
        _ => Vec::new(),
    };
    let (mut i, mut f) = (0, 0);
    let mut out = Vec::new();
    for (k, &a) in arguments(node).iter().enumerate() {
        let dtype = types.get(k).copied().or_else(|| node.input_desc(a).map(|d| d.dtype)).unwrap_or(DType::U8);
        let real = matches!(dtype, DType::F16 | DType::BF16 | DType::F32 | DType::F64);
        let value = if real {
            f += 1;
            floats.get(f - 1).copied().unwrap_or(0.0)
        } else {
            i += 1;
            ints.get(i - 1).map_or(0.0, |v| *v as f64)
        };
        if value != 0.0 && crate::execute::clear::pattern(dtype, value).is_none() {
            let text = format!("{} `{}` cannot fill {dtype} with {value}", node.op(), node.name());
            return Err(Diagnostic::error(text).node(node.name(), node.op()).of(ErrorKind::FAILED));
        }
        out.push((dtype, value));
    }
    Ok(out)
}

/// Compiles the kernel: its binary is its parameters.
pub fn compile(node: &Node<'_>, _: &Target) -> Result<KernelBinary> {
    let mut text = String::new();
    for (dtype, value) in fills(node)? {
        text.push_str(&format!("{} {value:?}\n", dtype.name()));
    }
    let name = format!("rts_clear_{}", text.trim_end().replace(['\n', ' '], "_"));
    Ok(KernelBinary { name: name.into(), binary: text.as_bytes().into() })
}

/// The task that launches the kernel.
pub fn task(node: &Node<'_>, context: &TaskContext) -> Task {
    let bytes = arguments(node).iter().filter_map(|i| node.input_desc(*i)?.data_bytes()).fold(0, u64::saturating_add);
    let blocks = bytes.div_ceil(BYTES_PER_BLOCK).clamp(1, u64::from(context.target.soc.aiv_cores.max(1)));
    let args: String = if clears_ahead(node) {
        "{ws0*}".into()
    } else {
        arguments(node).iter().map(|i| format!("{{i{i}*}}")).collect()
    };
    Task::kernel(KernelTask {
        kernel_name: context.kernel.as_ref().map(|k| k.name.clone()).unwrap_or_default(),
        kernel_type: KernelType::TE.code(),
        block_dim: blocks as u32,
        args_format: args.into(),
        ..KernelTask::default()
    })
}
