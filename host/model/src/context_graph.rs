//! Context graphs: the part of an FFTS_PLUS task's `private_def` beside its launches, and its
//! encoding in the published schema's `ffts_plus_task`. A task without `private_def` launches its
//! own kernel as a single context of cube and vector cores.
use crate::launch::{self, Launch};
use crate::{ModelError, TaskInfo};
use ge_om::proto::task::{
    FftsPlusAicAivCtxDef, FftsPlusAtEndCtxDef, FftsPlusAtStartCtxDef, FftsPlusCtxDef, FftsPlusDataCtxDef,
    FftsPlusLabelCtxDef, FftsPlusMixAicAivCtxDef, FftsPlusSqeDef, FftsPlusTaskDef, ModelTaskDef, StarsSqeHeaderDef,
};
use ge_plugin_api::device::SocSpec;
use ge_plugin_api::task::{ContextType, TaskType};
use prost::Message;
use serde::{Deserialize, Serialize};

/// Attribute of the list of launches that holds the graph.
const ATTR: &str = "ge_rs.context_graph";

/// An FFTS+ task: runs the kernels of its nodes slice by slice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextGraph {
    /// Number of elements along the axis that is cut.
    pub extent: u64,
    /// Number of elements in a slice.
    pub rows: u64,
    /// Number of slices.
    pub threads: u32,
    /// Number of slices in flight at the same time.
    pub window: u32,
    /// Bytes of the intermediate values of one slice.
    pub lane_bytes: u64,
    /// Bytes that the intermediate values would take without slicing.
    pub whole_bytes: u64,
    /// Name of the graph that holds the nodes with the shapes of a slice.
    pub graph: String,
    /// Name of the graph that holds the nodes with the shapes of the last slice; empty if it has
    /// the shape of all others.
    pub tail: String,
    /// Contexts; kernels are listed in a valid execution order.
    pub contexts: Vec<ContextInfo>,
}

/// One context of a context graph.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextInfo {
    /// A code of [`ContextType`].
    pub kind: u32,
    /// Name of its node; for data, the node that produces the data; otherwise empty.
    pub name: String,
    /// Indices of the contexts that wait for it.
    pub successors: Vec<u32>,
    /// Number of contexts that it waits for.
    pub pred_cnt: u32,
    /// For a kernel: index of its launch, and index of its launch in the last slice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<(u32, u32)>,
    /// Location of its arguments or its data.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<SliceInfo>,
}

/// Location of something in the arguments of the task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceInfo {
    /// Index of the task's argument; `u32::MAX` means that the kernel's parameter stays empty.
    pub arg: u32,
    /// Byte offset from the start of the argument.
    pub offset: u64,
    /// Distance in bytes from slice to slice, or from lane to lane if `lane` is set.
    pub step: u64,
    /// Whether the offset advances by lane rather than by slice.
    #[serde(default)]
    pub lane: bool,
    /// Bytes of one slice.
    pub bytes: u64,
    /// Bytes of the last slice.
    pub tail_bytes: u64,
}

/// Encodes a graph and its launches as bytes.
pub fn encode(graph: &ContextGraph, launches: &[Launch]) -> Vec<u8> {
    let mut list = launch::list(launches);
    list.attr.insert(ATTR.into(), serde_json::to_string(graph).unwrap_or_default());
    list.encode_to_vec()
}

/// Decodes a graph and its launches.
///
/// # Errors
/// Fails if the bytes are not a context graph.
pub fn decode(bytes: &[u8]) -> Result<(ContextGraph, Vec<Launch>), ModelError> {
    let bad = || ModelError::field("the context graph of a task");
    let list = ModelTaskDef::decode(bytes).map_err(|_| bad())?;
    let graph: ContextGraph = list.attr.get(ATTR).and_then(|text| serde_json::from_str(text).ok()).ok_or_else(bad)?;
    Ok((graph, launch::decode(bytes)?))
}

/// Returns the graph and launches of an FFTS_PLUS task: those stored in it, or else a single
/// context for its own kernel, which belongs to node `name`. Returns `None` for other tasks and for
/// invalid ones.
pub fn of_task(t: &TaskInfo, name: &str) -> Option<(ContextGraph, Vec<Launch>)> {
    if t.kind != TaskType::FFTS_PLUS.code() {
        return None;
    }
    if !t.private.is_empty() {
        return decode(&t.private).ok();
    }
    let kind =
        [ContextType::MIX_AIC, ContextType::MIX_AIV].into_iter().find(|c| c.kernel_type().code() == t.kernel_type)?;
    let args = (0u32..).zip(t.args_format.matches('{')).map(|(arg, _)| SliceInfo { arg, ..SliceInfo::default() });
    let context = ContextInfo {
        kind: kind.code(),
        name: name.to_owned(),
        launch: Some((0, 0)),
        args: args.collect(),
        ..ContextInfo::default()
    };
    let graph =
        ContextGraph { extent: 1, rows: 1, threads: 1, window: 1, contexts: vec![context], ..ContextGraph::default() };
    let launch = Launch {
        node: 0,
        kind: t.kind,
        kernel_name: t.kernel_name.clone(),
        kernel_type: t.kernel_type,
        block_dim: t.block_dim,
        tiling_key: t.tiling_key,
        tiling: t.tiling.clone(),
        args_format: t.args_format.clone(),
        schedule_mode: t.schedule_mode,
    };
    Some((graph, vec![launch]))
}

/// Encodes the task's graph in the published schema, for hardware and for other readers of OM
/// files.
pub(crate) fn to_proto(t: &TaskInfo, op_index: u32, soc: &SocSpec) -> Option<FftsPlusTaskDef> {
    let (g, launches) = of_task(t, "")?;
    let block_dim = t.block_dim;
    let ratio = (soc.aiv_cores / soc.aic_cores.max(1)).max(1);
    let ready = g.contexts.iter().filter(|c| c.pred_cnt == 0).count() as u32;
    let contexts = g.contexts.iter().enumerate().map(|(k, c)| context(&g, &launches, k as u32, c, (op_index, ratio)));
    let ffts_plus_ctx: Vec<FftsPlusCtxDef> = contexts.collect();
    Some(FftsPlusTaskDef {
        op_index,
        addr_size: g.contexts.iter().map(|c| c.args.len() as u32).sum(),
        ffts_plus_sqe: Some(FftsPlusSqeDef {
            sqe_header: Some(StarsSqeHeaderDef { block_dim, ..Default::default() }),
            total_context_num: ffts_plus_ctx.len() as u32,
            ready_context_num: ready,
            preload_context_num: ready,
            ..Default::default()
        }),
        ffts_plus_ctx,
        ..Default::default()
    })
}

fn context(g: &ContextGraph, launches: &[Launch], id: u32, c: &ContextInfo, of: (u32, u32)) -> FftsPlusCtxDef {
    let (op_index, ratio) = of;
    let mut out = FftsPlusCtxDef {
        op_index,
        uniq_ctx_name: format!("{}_{id}", ContextType(c.kind).name()),
        context_type: c.kind,
        context_id: id,
        ..FftsPlusCtxDef::default()
    };
    let (successor_num, list) = (c.successors.len() as u32, c.successors.clone());
    let (pred_cnt, thread_dim) = (c.pred_cnt, g.threads);
    let launch = |k: u32| launches.get(k as usize);
    let (full, tail) = c.launch.map_or((None, None), |(a, b)| (launch(a), launch(b)));
    match ContextType(c.kind) {
        ContextType::AT_START => {
            out.at_start_ctx = Some(Box::new(FftsPlusAtStartCtxDef {
                successor_num,
                successor_list: list,
                aten: 1,
                pred_cnt_init: pred_cnt,
                pred_cnt,
                thread_dim,
                thread_window_size: g.window,
                ..Default::default()
            }));
        }
        ContextType::AT_END => {
            out.at_end_ctx = Some(Box::new(FftsPlusAtEndCtxDef {
                at_start_slot_num: 1,
                aten: 1,
                pred_cnt_init: pred_cnt,
                pred_cnt,
                succ_at_start_slot: vec![0],
                ..Default::default()
            }));
        }
        ContextType::LABEL => {
            out.label_ctx = Some(Box::new(FftsPlusLabelCtxDef {
                successor_num,
                successor_list: list,
                aten: 1,
                pred_cnt_init: pred_cnt,
                pred_cnt,
                thread_dim,
                ..Default::default()
            }));
        }
        ContextType::AICORE | ContextType::AIV => {
            out.aic_aiv_ctx = Some(Box::new(FftsPlusAicAivCtxDef {
                successor_num,
                successor_list: list,
                aten: 1,
                atm: 1,
                pred_cnt_init: pred_cnt,
                pred_cnt,
                thread_dim,
                thread_window_size: g.window,
                non_tail_block_dim: full.map_or(0, |l| l.block_dim),
                tail_block_dim: tail.map_or(0, |l| l.block_dim),
                task_addr: c.args.iter().map(|a| a.offset).collect(),
                task_addr_offset: c.args.iter().map(|a| a.step).collect(),
                input_output_count: c.args.len() as u32,
                kernel_name: [full, tail].into_iter().flatten().map(|l| l.kernel_name.clone()).collect(),
                ..Default::default()
            }));
        }
        ContextType::MIX_AIC | ContextType::MIX_AIV => {
            out.mix_aic_aiv_ctx = Some(Box::new(FftsPlusMixAicAivCtxDef {
                successor_num,
                successor_list: list,
                aten: u32::from(g.threads > 1),
                atm: u32::from(g.threads > 1),
                pred_cnt_init: pred_cnt,
                pred_cnt,
                thread_dim,
                thread_window_size: g.window,
                non_tail_block_ratio_n: ratio,
                tail_block_ratio_n: ratio,
                non_tail_block_dim: full.map_or(0, |l| l.block_dim),
                tail_block_dim: tail.map_or(0, |l| l.block_dim),
                task_addr: c.args.iter().map(|a| a.offset).collect(),
                task_addr_offset: c.args.iter().map(|a| a.step).collect(),
                input_output_count: c.args.len() as u32,
                kernel_name: [full, tail].into_iter().flatten().map(|l| l.kernel_name.clone()).collect(),
                args_format: full.map_or(String::new(), |l| l.args_format.clone()),
                ..Default::default()
            }));
        }
        _ => {
            let len = |b: u64| u32::try_from(b).unwrap_or(u32::MAX);
            let at = c.args.first().cloned().unwrap_or_default();
            out.data_ctx = Some(Box::new(FftsPlusDataCtxDef {
                successor_num,
                successor_list: list,
                aten: 1,
                atm: 1,
                cnt_init: pred_cnt,
                cnt: pred_cnt,
                thread_dim,
                addr_base: at.offset,
                addr_offset: len(at.step),
                non_tail_num_outter: 1,
                non_tail_num_inner: 1,
                non_tail_len_inner: len(at.bytes),
                tail_num_outter: 1,
                tail_num_inner: 1,
                tail_len_inner: len(at.tail_bytes),
                ..Default::default()
            }));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use ge_plugin_api::task::KernelType;

    #[test]
    fn what_is_written_is_read_and_the_schema_has_its_numbers() {
        let arg = |arg, step, lane| SliceInfo { arg, offset: 64, step, lane, bytes: 32, tail_bytes: 16 };
        let kernel = ContextInfo {
            kind: ContextType::AIV.code(),
            name: "a".into(),
            successors: vec![2],
            pred_cnt: 1,
            launch: Some((0, 1)),
            args: vec![arg(0, 32, false), arg(1, 512, true)],
        };
        let begin = ContextInfo { kind: ContextType::AT_START.code(), successors: vec![1], ..ContextInfo::default() };
        let end = ContextInfo { kind: ContextType::AT_END.code(), pred_cnt: 1, ..ContextInfo::default() };
        let graph = ContextGraph {
            extent: 7,
            rows: 2,
            threads: 4,
            window: 2,
            contexts: vec![begin, kernel, end],
            ..ContextGraph::default()
        };
        let launches = [("k", 8), ("l", 4)].map(|(name, block_dim)| Launch {
            kernel_name: name.into(),
            block_dim,
            ..Launch::default()
        });
        let bytes = encode(&graph, &launches);
        assert_eq!(decode(&bytes).expect("a graph"), (graph, launches.to_vec()));
        assert!(decode(&launch::encode(&launches)).is_err());
        let t =
            TaskInfo { kind: TaskType::FFTS_PLUS.code(), block_dim: 2, private: bytes.into(), ..TaskInfo::default() };
        let p = to_proto(&t, 9, &SocSpec::default()).expect("a payload");
        let sqe = p.ffts_plus_sqe.as_ref().expect("its head");
        assert_eq!((p.op_index, p.addr_size, sqe.total_context_num, sqe.ready_context_num), (9, 2, 3, 1));
        let c = p.ffts_plus_ctx[1].aic_aiv_ctx.as_ref().expect("a kernel");
        assert_eq!((c.non_tail_block_dim, c.tail_block_dim, c.thread_dim, c.thread_window_size), (8, 4, 4, 2));
        assert_eq!((&c.kernel_name[..], &c.task_addr_offset[..]), (&["k".to_owned(), "l".into()][..], &[32, 512][..]));
        assert_eq!((&c.successor_list[..], c.pred_cnt), (&[2][..], 1));
    }

    #[test]
    fn a_kernel_of_cube_and_vector_cores_is_one_context() {
        let mut t = TaskInfo {
            kind: TaskType::FFTS_PLUS.code(),
            kernel_name: "k".into(),
            kernel_type: KernelType::MIX_AICORE.code(),
            block_dim: u32::MAX,
            args_format: "{ffts_addr}{i0*}{o0*}".into(),
            ..TaskInfo::default()
        };
        let soc = SocSpec { aic_cores: 24, aiv_cores: 48, ..SocSpec::default() };
        let p = to_proto(&t, 3, &soc).expect("a payload");
        let sqe = p.ffts_plus_sqe.as_ref().expect("its head");
        assert_eq!((p.addr_size, sqe.total_context_num, sqe.ready_context_num), (3, 1, 1));
        assert_eq!((p.ffts_plus_ctx[0].context_type, p.ffts_plus_ctx[0].uniq_ctx_name.as_str()), (6, "MIX_AIC_0"));
        let c = p.ffts_plus_ctx[0].mix_aic_aiv_ctx.as_ref().expect("a kernel");
        assert_eq!((c.non_tail_block_dim, c.non_tail_block_ratio_n, c.thread_dim), (u32::MAX, 2, 1));
        assert_eq!((c.args_format.as_str(), c.input_output_count), ("{ffts_addr}{i0*}{o0*}", 3));
        t.kernel_type = KernelType::TE.code();
        assert!(of_task(&t, "k").is_none());
    }
}
