//! Context graphs: what `private_def` of FFTS_PLUS holds beside its launches, and their form in the published schema's `ffts_plus_task`.
use crate::ModelError;
use crate::launch::{self, Launch};
use ge_om::proto::task::{
    FftsPlusAicAivCtxDef, FftsPlusAtEndCtxDef, FftsPlusAtStartCtxDef, FftsPlusCtxDef, FftsPlusDataCtxDef,
    FftsPlusLabelCtxDef, FftsPlusSqeDef, FftsPlusTaskDef, ModelTaskDef, StarsSqeHeaderDef,
};
use ge_plugin_api::task::ContextType;
use prost::Message;
use serde::{Deserialize, Serialize};

/// Attribute of the launches' list that holds the graph.
const ATTR: &str = "ge_rs.context_graph";

/// An FFTS+ task: its nodes' kernels slice by slice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextGraph {
    /// Elements along the axis that is cut.
    pub extent: u64,
    /// Elements of a slice.
    pub rows: u64,
    /// Slices.
    pub threads: u32,
    /// Slices under way at once.
    pub window: u32,
    /// Bytes that the intermediates of one slice take.
    pub lane_bytes: u64,
    /// Bytes that they would take whole.
    pub whole_bytes: u64,
    /// Graph with the nodes as a slice has them.
    pub graph: String,
    /// Graph with the nodes as the last slice has them; empty: as all have them.
    pub tail: String,
    /// Contexts; kernels stand in an order in which they can run.
    pub contexts: Vec<ContextInfo>,
}

/// One context.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextInfo {
    /// A code of [`ContextType`].
    pub kind: u32,
    /// Its node; of data, the node that makes them; else empty.
    pub name: String,
    /// Contexts that wait for it.
    pub successors: Vec<u32>,
    /// How many it waits for.
    pub pred_cnt: u32,
    /// Of a kernel: its launch, and that of the last slice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<(u32, u32)>,
    /// Where its arguments, or its data, lie.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<SliceInfo>,
}

/// Where something lies among the arguments of the task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceInfo {
    /// Which argument of the task; `u32::MAX`: the kernel's place for it stays empty.
    pub arg: u32,
    /// Bytes from its begin.
    pub offset: u64,
    /// Bytes from slice to slice, or from lane to lane.
    pub step: u64,
    /// Whether it belongs to the lane.
    #[serde(default)]
    pub lane: bool,
    /// Bytes of one slice.
    pub bytes: u64,
    /// Bytes of the last slice.
    pub tail_bytes: u64,
}

/// Graph and launches as bytes.
pub fn encode(graph: &ContextGraph, launches: &[Launch]) -> Vec<u8> {
    let mut list = launch::list(launches);
    list.attr.insert(ATTR.into(), serde_json::to_string(graph).unwrap_or_default());
    list.encode_to_vec()
}

/// Graph and launches from bytes.
///
/// # Errors
/// Where they are no context graph.
pub fn decode(bytes: &[u8]) -> Result<(ContextGraph, Vec<Launch>), ModelError> {
    let bad = || ModelError::field("the context graph of a task");
    let list = ModelTaskDef::decode(bytes).map_err(|_| bad())?;
    let graph: ContextGraph = list.attr.get(ATTR).and_then(|text| serde_json::from_str(text).ok()).ok_or_else(bad)?;
    Ok((graph, launch::decode(bytes)?))
}

/// As the published schema has it: for hardware and for those who read OM files.
pub(crate) fn to_proto(bytes: &[u8], op_index: u32, block_dim: u32) -> Option<FftsPlusTaskDef> {
    let (g, launches) = decode(bytes).ok()?;
    let ready = g.contexts.iter().filter(|c| c.pred_cnt == 0).count() as u32;
    let contexts = g.contexts.iter().enumerate().map(|(k, c)| context(&g, &launches, k as u32, c, op_index));
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

fn context(g: &ContextGraph, launches: &[Launch], id: u32, c: &ContextInfo, op_index: u32) -> FftsPlusCtxDef {
    let mut out = FftsPlusCtxDef {
        op_index,
        uniq_ctx_name: format!("{}_{id}", ContextType(c.kind).name()),
        context_type: c.kind,
        context_id: id,
        ..FftsPlusCtxDef::default()
    };
    let (successor_num, list) = (c.successors.len() as u32, c.successors.clone());
    let (pred_cnt, thread_dim) = (c.pred_cnt, g.threads);
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
            let of = |k: u32| launches.get(k as usize);
            let (full, tail) = c.launch.map_or((None, None), |(a, b)| (of(a), of(b)));
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
        let p = to_proto(&bytes, 9, 2).expect("a payload");
        let sqe = p.ffts_plus_sqe.as_ref().expect("its head");
        assert_eq!((p.op_index, p.addr_size, sqe.total_context_num, sqe.ready_context_num), (9, 2, 3, 1));
        let c = p.ffts_plus_ctx[1].aic_aiv_ctx.as_ref().expect("a kernel");
        assert_eq!((c.non_tail_block_dim, c.tail_block_dim, c.thread_dim, c.thread_window_size), (8, 4, 4, 2));
        assert_eq!((&c.kernel_name[..], &c.task_addr_offset[..]), (&["k".to_owned(), "l".into()][..], &[32, 512][..]));
        assert_eq!((&c.successor_list[..], c.pred_cnt), (&[2][..], 1));
    }
}
