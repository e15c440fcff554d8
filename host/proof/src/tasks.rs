//! Checks tasks against what the nodes say: streams and order, labels and jumps, woken streams,
//! valid ids, and the limits of the SoC.
//!
//! A jump goes where its node says and stays within its own scope of control flow; every label
//! occurs once; a node that wakes streams has one task for each of them, in their order. Cost:
//! linear in the number of tasks.
use super::PlanFault;
use ge_model::{CompiledModel, NodeInfo, TaskInfo};
use ge_plugin_api::task::TaskType;
use std::collections::{BTreeMap, HashMap};

/// Checks every task.
pub(crate) fn check(m: &CompiledModel) -> Result<(), PlanFault> {
    ids(m)?;
    places(m)?;
    labels(m)?;
    wakes(m)?;
    limits(m)
}

fn fault(m: &CompiledModel, t: &TaskInfo, what: impl Into<String>) -> PlanFault {
    PlanFault::Place { node: m.node(t.graph, t.node).map_or_else(String::new, |n| n.name.clone()), what: what.into() }
}

fn ids(m: &CompiledModel) -> Result<(), PlanFault> {
    for t in &m.tasks {
        if t.stream as usize >= m.streams.physical.len() {
            return Err(fault(m, t, format!("its task stands on stream {}, which is not there", t.stream)));
        }
        let most = match TaskType(t.kind) {
            TaskType::EVENT_RECORD | TaskType::EVENT_WAIT => m.event_num,
            TaskType::NOTIFY_RECORD | TaskType::NOTIFY_WAIT => m.notify_num,
            _ => continue,
        };
        match t.sync_id {
            Some(id) if id < most => {}
            Some(id) => return Err(fault(m, t, format!("it signals by id {id} of {most}"))),
            None => return Err(fault(m, t, "it signals by no id")),
        }
    }
    Ok(())
}

/// Checks that each task is on a stream of its node, and that on each stream the tasks are in the
/// order of their nodes.
fn places(m: &CompiledModel) -> Result<(), PlanFault> {
    let mut last: HashMap<(u32, u32), u32> = HashMap::new();
    for t in &m.tasks {
        let Some(n) = m.node(t.graph, t.node) else { continue };
        let woken = n.attrs.ints("active_stream_list").is_some_and(|l| l.contains(&i64::from(t.stream)));
        if n.stream != Some(t.stream) && !n.attached_streams.contains(&t.stream) && !woken {
            return Err(fault(m, t, format!("its task stands on stream {}, the node does not", t.stream)));
        }
        let signals = matches!(
            TaskType(t.kind),
            TaskType::EVENT_RECORD | TaskType::EVENT_WAIT | TaskType::NOTIFY_RECORD | TaskType::NOTIFY_WAIT
        );
        if signals {
            continue;
        }
        let before = last.entry((t.graph, t.stream)).or_insert(t.node);
        if *before > t.node {
            return Err(fault(m, t, "its task stands behind those of a later node"));
        }
        *before = t.node;
    }
    Ok(())
}

fn is_label(t: &TaskInfo) -> bool {
    matches!(
        TaskType(t.kind),
        TaskType::LABEL_SET | TaskType::STREAM_LABEL_GOTO | TaskType::STREAM_LABEL_SWITCH_BY_INDEX
    )
}

/// The labels that a node says it sets or jumps to.
fn said(n: &NodeInfo) -> Option<Vec<i64>> {
    let one = n.attrs.int("_label_index").or_else(|| n.attrs.int("label_id"));
    let list = n.attrs.ints("_label_switch_list").or_else(|| n.attrs.ints("label_list"));
    if n.op == "LabelSwitchByIndex" { list.map(<[i64]>::to_vec) } else { one.map(|l| vec![l]) }
}

fn labels(m: &CompiledModel) -> Result<(), PlanFault> {
    let mut set: HashMap<i64, &TaskInfo> = HashMap::new();
    let scope = |t: &TaskInfo| m.node(t.graph, t.node).and_then(|n| n.attrs.int("_label_scope"));
    for t in m.tasks.iter().filter(|t| is_label(t)) {
        let Some(n) = m.node(t.graph, t.node) else { continue };
        if said(n).is_some_and(|said| said != t.numbers) {
            return Err(fault(m, t, "its task has other labels than the node"));
        }
        let label = t.numbers.first().copied().unwrap_or(-1);
        if TaskType(t.kind) == TaskType::LABEL_SET && set.insert(label, t).is_some() {
            return Err(fault(m, t, format!("label {label} stands twice")));
        }
    }
    for t in m.tasks.iter().filter(|t| is_label(t)) {
        for label in &t.numbers {
            match set.get(label) {
                None => return Err(fault(m, t, format!("it jumps to label {label}, which is not there"))),
                Some(at) if at.stream != t.stream => {
                    return Err(fault(m, t, format!("it jumps to label {label} of another stream")));
                }
                Some(at) if scope(at) != scope(t) => {
                    return Err(fault(m, t, format!("it jumps to label {label} of another control node")));
                }
                Some(_) => {}
            }
        }
    }
    Ok(())
}

fn wakes(m: &CompiledModel) -> Result<(), PlanFault> {
    let mut woken: BTreeMap<(u32, u32), Vec<i64>> = BTreeMap::new();
    for t in &m.tasks {
        let to = match TaskType(t.kind) {
            TaskType::STREAM_ACTIVE => t.numbers.first(),
            TaskType::STREAM_SWITCH => t.numbers.get(2),
            _ => continue,
        };
        woken.entry((t.graph, t.node)).or_default().extend(to);
    }
    for (gi, g) in m.graphs.iter().enumerate() {
        for (i, n) in g.nodes.iter().enumerate() {
            let Some(said) = n.attrs.ints("active_stream_list").filter(|_| n.stream.is_some()) else { continue };
            let found = woken.get(&(gi as u32, i as u32)).map_or(&[][..], Vec::as_slice);
            if found != said {
                let what = format!("its tasks wake the streams {found:?}, it says {said:?}");
                return Err(PlanFault::Place { node: n.name.clone(), what });
            }
            for s in said.iter().filter_map(|s| usize::try_from(*s).ok()) {
                if m.streams.physical.get(s).is_none_or(|p| p.head) {
                    let what = format!("it wakes stream {s}, which does not sleep");
                    return Err(PlanFault::Place { node: n.name.clone(), what });
                }
            }
        }
    }
    Ok(())
}

fn limits(m: &CompiledModel) -> Result<(), PlanFault> {
    let soc = &m.soc;
    let over = |what: &str, found: usize, most: u32| {
        let what = what.to_owned();
        (most > 0 && found > most as usize).then_some(PlanFault::Limit { what, found, most })
    };
    let huge = m.streams.physical.iter().filter(|p| p.huge).count();
    let mut tasks = vec![0usize; m.streams.physical.len()];
    m.tasks.iter().for_each(|t| tasks[t.stream as usize] += 1);
    let mut faults = vec![
        over("streams", m.streams.physical.len() - huge, soc.streams_normal),
        over("huge streams", huge, soc.streams_huge),
        over("events", m.event_num as usize, soc.max_events),
        over("notifies", m.notify_num as usize, soc.max_notifies),
    ];
    if !soc.unlimited_depth {
        let most = |p: &ge_model::PhysicalInfo| if p.huge { soc.tasks_huge } else { soc.tasks_normal };
        let all = m.streams.physical.iter().zip(&tasks).enumerate();
        faults.extend(all.map(|(s, (p, n))| over(&format!("tasks on stream {s}"), *n, most(p))));
    }
    faults.into_iter().flatten().next().map_or(Ok(()), Err)?;
    match tasks.iter().position(|n| *n == 0) {
        Some(stream) if !m.tasks.is_empty() => Err(PlanFault::Idle { stream }),
        _ => Ok(()),
    }
}
