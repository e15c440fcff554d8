//! One stream for each engine, over plain data: the rules of document 004 with facts 1.4, 1.5 and
//! 3.4.
//!
//! The graph is cut into clusters of one engine and label. Each label gets a stream, then each
//! independent engine. Every other cluster is assigned by dependency: it shares the stream of a
//! predecessor if the reuse rule allows it, otherwise it goes to the stream of its engine.

/// Clusters of nodes with the same engine.
pub mod cluster;
/// Flags of the engines.
pub mod flags;

use super::dag::{Dag, DagError, Kind, NONE, Rules, StreamAssignment};
use super::{EventCost, ParallelPlan, measured};
use cluster::Cluster;
use flags::EngineFlags;
use std::collections::BTreeMap;

/// Assigns streams by engine, in the graph's own order, with the smallest set of events.
///
/// `engines` are the engine names by index. `independent` of `rules` overrides the flag that
/// belongs to the name.
///
/// # Errors
/// Fails if a node's engine or label is not in the tables of `rules`, or if more streams are needed
/// than allowed.
pub fn plan_engines(dag: &Dag, rules: &Rules, engines: &[String], event_cost: u64) -> Result<ParallelPlan, DagError> {
    rules.check(dag)?;
    let flags: Vec<EngineFlags> = (0..engines.len().max(rules.independent.len()))
        .map(|k| {
            let mut f = EngineFlags::of(engines.get(k).map_or("", String::as_str));
            f.independent = rules.independent.get(k).copied().unwrap_or(f.independent);
            f
        })
        .collect();
    let clusters = cluster::partition(dag);
    let by_cluster = assign(&clusters, &flags, engines);
    let mut stream = vec![0; dag.len()];
    for (c, &s) in clusters.iter().zip(&by_cluster) {
        for &v in &c.nodes {
            stream[v as usize] = s;
        }
    }
    narrow(dag, rules, &mut stream)?;
    let streams = continuous(&mut stream);
    measured(dag, rules, StreamAssignment { stream, order: dag.topo.clone(), streams }, EventCost::each(event_cost))
}

/// Returns a stream for each cluster: labels first, then independent engines, then by dependency.
/// The ids may have gaps.
pub fn assign(clusters: &[Cluster], flags: &[EngineFlags], engines: &[String]) -> Vec<u32> {
    let mut stream = vec![NONE; clusters.len()];
    let mut next = 0;
    let mut of_label: BTreeMap<u32, u32> = BTreeMap::new();
    let mut of_engine: BTreeMap<u32, u32> = BTreeMap::new();
    for (c, s) in clusters.iter().zip(&mut stream) {
        let Some(label) = c.label else { continue };
        *s = *of_label.entry(label).or_insert_with(|| take(&mut next));
    }
    for (c, s) in clusters.iter().zip(&mut stream) {
        if *s == NONE && flags[c.engine as usize].independent {
            *s = *of_engine.entry(c.engine).or_insert_with(|| take(&mut next));
        }
    }
    by_dependency(clusters, flags, engines, next, &mut stream);
    stream
}

fn take(next: &mut u32) -> u32 {
    *next += 1;
    *next - 1
}

/// AssignByDependencyPass. A cluster's claim to a stream is stored as the root of its chain of
/// reuse; engines get their ids at the end, in the order of their names.
fn by_dependency(clusters: &[Cluster], flags: &[EngineFlags], engines: &[String], first: u32, stream: &mut [u32]) {
    let mut root: Vec<u32> = (0..clusters.len() as u32).collect();
    let mut own = vec![false; clusters.len()];
    for k in 0..clusters.len() {
        if stream[k] != NONE {
            continue;
        }
        let candidates = clusters[k].preds.iter().copied().filter(|&p| could_reuse(clusters, flags, &root, k, p));
        let best = candidates.min_by_key(|&p| (flags[clusters[p as usize].engine as usize].compute_cost, p));
        match best {
            Some(p) => root[k] = root[p as usize],
            None => own[k] = true,
        }
    }
    let mut names: Vec<u32> = (0..clusters.len()).filter(|&k| own[k]).map(|k| clusters[k].engine).collect();
    let name = |e: &u32| engines.get(*e as usize).map_or("", String::as_str);
    names.sort_by(|a, b| name(a).cmp(name(b)).then(a.cmp(b)));
    names.dedup();
    let id: BTreeMap<u32, u32> = names.into_iter().zip(first..).collect();
    for k in 0..clusters.len() {
        if stream[k] == NONE {
            let engine = clusters[root[k] as usize].engine;
            stream[k] = id.get(&engine).copied().unwrap_or(first);
        }
    }
}

/// The reuse rule (facts 1.5 a to g) between cluster `k` and its predecessor `p`.
fn could_reuse(clusters: &[Cluster], flags: &[EngineFlags], root: &[u32], k: usize, p: u32) -> bool {
    let (sub, pred) = (&clusters[k], &clusters[p as usize]);
    let (mine, its) = (flags[sub.engine as usize], flags[pred.engine as usize]);
    if its.independent || pred.label.is_some() {
        return false;
    }
    let sibling = pred.succs.iter().any(|&s| s as usize != k && clusters[s as usize].engine == pred.engine);
    if sibling && !mine.skip_assign_stream {
        return false;
    }
    if sub.engine == pred.engine || mine.attach {
        return true;
    }
    let reused = root[p as usize];
    reused != p && clusters[reused as usize].engine == sub.engine
}

/// Enforces `max_streams`: surplus streams of plain nodes are merged into the first one; those of
/// labels and independent engines stay.
fn narrow(dag: &Dag, rules: &Rules, stream: &mut [u32]) -> Result<(), DagError> {
    let Some(allowed) = rules.max_streams else { return Ok(()) };
    let (mut plain, mut other) = (Vec::new(), Vec::new());
    for (n, &s) in dag.nodes.iter().zip(stream.iter()) {
        if rules.kind(n) == Kind::Plain { plain.push(s) } else { other.push(s) }
    }
    for list in [&mut plain, &mut other] {
        list.sort_unstable();
        list.dedup();
    }
    if plain.len() + other.len() <= allowed {
        return Ok(());
    }
    let need = other.len() + usize::from(!plain.is_empty());
    if need > allowed {
        return Err(DagError::TooFewStreams { need, allowed });
    }
    let kept = allowed - other.len();
    for (n, s) in dag.nodes.iter().zip(stream.iter_mut()) {
        if rules.kind(n) == Kind::Plain && plain[kept..].contains(s) {
            *s = plain[0];
        }
    }
    Ok(())
}

/// Renumbers the streams in ascending order without gaps (RefreshContinuousStreams) and returns
/// their number.
fn continuous(stream: &mut [u32]) -> usize {
    let mut used = stream.to_vec();
    used.sort_unstable();
    used.dedup();
    for s in stream {
        *s = used.partition_point(|u| u < s) as u32;
    }
    used.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::dag::DagNode;

    const CORE: &str = "AIcoreEngine";
    const CPU: &str = "DNN_VM_AICPU_ASCEND";
    const VEC: &str = "VectorEngine";
    const HCCL: &str = "DNN_HCCL";

    fn streams(engines: &[&str], labels: &[(usize, u32)], edges: &[(u32, u32)], max: Option<usize>) -> Vec<u32> {
        let mut names: Vec<String> = Vec::new();
        let mut nodes = Vec::new();
        for e in engines {
            let engine = names.iter().position(|n| n == e).unwrap_or_else(|| {
                names.push((*e).to_owned());
                names.len() - 1
            });
            nodes.push(DagNode { cost: 10, engine: engine as u32, ..DagNode::default() });
        }
        for &(k, l) in labels {
            nodes[k].label = Some(l);
        }
        let independent = names.iter().map(|n| EngineFlags::of(n).independent).collect();
        let rules = Rules { independent, slots: vec![None; names.len()], labels: 4, max_streams: max };
        let dag = Dag::new(nodes, edges).unwrap();
        plan_engines(&dag, &rules, &names, 0).unwrap().assignment.stream
    }

    #[test]
    fn attached_engine_follows_and_the_core_goes_back() {
        assert_eq!(streams(&[CORE, CPU, CORE], &[], &[(0, 1), (1, 2)], None), [0, 0, 0]);
    }

    #[test]
    fn a_sibling_of_the_predecessors_engine_has_the_better_claim() {
        // The second core node has a second path, so it is a separate cluster and a sibling of the
        // CPU node.
        assert_eq!(streams(&[CORE, CPU, CORE], &[], &[(0, 1), (1, 2), (0, 2)], None), [0, 1, 0]);
    }

    #[test]
    fn engines_that_do_not_attach_have_streams_in_the_order_of_names() {
        assert_eq!(streams(&[VEC, CORE], &[], &[(0, 1)], None), [1, 0]);
    }

    #[test]
    fn labels_come_first_then_independent_engines() {
        assert_eq!(streams(&[CORE, HCCL, CORE, CORE], &[(2, 3)], &[(0, 1), (1, 2), (2, 3)], None), [2, 1, 0, 2]);
    }

    #[test]
    fn max_streams_joins_engines_and_keeps_labels() {
        assert_eq!(streams(&[CORE, VEC, CORE], &[(2, 0)], &[(0, 1), (1, 2)], Some(2)), [1, 1, 0]);
    }
}
