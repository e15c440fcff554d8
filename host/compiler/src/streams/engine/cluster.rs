//! Clusters of nodes of one engine and label that no path through other clusters leaves and enters again (facts 3.4).

use crate::streams::parallel::dag::{Dag, NONE};
use std::collections::BTreeSet;

/// Nodes of one engine and one label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    /// Engine index of all its nodes.
    pub engine: u32,
    /// Label of all its nodes.
    pub label: Option<u32>,
    /// Its nodes, by place in the topological order.
    pub nodes: Vec<u32>,
    /// Clusters it takes from, by place in the list.
    pub preds: Vec<u32>,
    /// Clusters that take from it, by place in the list.
    pub succs: Vec<u32>,
}

/// Partitions a graph; the list is in topological order, the one with the smallest first node first among the free ones.
///
/// Each node starts as a cluster. In topological order each child is merged with its parents, those with the fewest out
/// clusters first, then by id; two merge if engine and label are equal and no second path joins them.
pub fn partition(dag: &Dag) -> Vec<Cluster> {
    let n = dag.len();
    let mut rank = vec![0u32; n];
    for (k, &v) in dag.topo.iter().enumerate() {
        rank[v as usize] = k as u32;
    }
    // clusters are named by the rank of their first node
    let mut outs: Vec<BTreeSet<u32>> = vec![BTreeSet::new(); n];
    let mut ins: Vec<BTreeSet<u32>> = vec![BTreeSet::new(); n];
    for &(a, b) in &dag.edges {
        outs[rank[a as usize] as usize].insert(rank[b as usize]);
        ins[rank[b as usize] as usize].insert(rank[a as usize]);
    }
    let mut into: Vec<u32> = (0..n as u32).collect();
    let mut seen = vec![NONE; n];
    let mut stamp = 0;
    let key = |c: u32| {
        let node = &dag.nodes[dag.topo[c as usize] as usize];
        (node.engine, node.label)
    };
    for child in 0..n as u32 {
        let mut at = child;
        let mut parents: Vec<u32> = ins[at as usize].iter().copied().collect();
        parents.sort_by_key(|&p| (outs[p as usize].len(), p));
        for parent in parents {
            // an earlier merge of this child may have taken the parent in
            let parent = find(&mut into, parent);
            if parent == at || key(parent) != key(at) {
                continue;
            }
            stamp += 1;
            let (src, dst) = if outs[parent as usize].contains(&at) { (parent, at) } else { (at, parent) };
            if second_path(&outs, src, dst, child, &mut seen, stamp) {
                continue;
            }
            let (keep, gone) = (parent.min(at), parent.max(at));
            merge(&mut outs, &mut ins, keep, gone);
            into[gone as usize] = keep;
            at = keep;
        }
    }
    listed(dag, &mut into, &outs, &ins)
}

fn find(into: &mut [u32], mut c: u32) -> u32 {
    while into[c as usize] != c {
        into[c as usize] = into[into[c as usize] as usize];
        c = into[c as usize];
    }
    c
}

/// A path from `src` to `dst` through at least one other cluster with an id up to `upper`.
fn second_path(outs: &[BTreeSet<u32>], src: u32, dst: u32, upper: u32, seen: &mut [u32], stamp: u32) -> bool {
    let mut todo: Vec<u32> = outs[src as usize].range(..=upper).copied().filter(|&c| c != dst).collect();
    while let Some(c) = todo.pop() {
        if seen[c as usize] == stamp {
            continue;
        }
        seen[c as usize] = stamp;
        for &h in outs[c as usize].range(..=upper) {
            if h == dst {
                return true;
            }
            if seen[h as usize] != stamp {
                todo.push(h);
            }
        }
    }
    false
}

fn merge(outs: &mut [BTreeSet<u32>], ins: &mut [BTreeSet<u32>], keep: u32, gone: u32) {
    for h in std::mem::take(&mut outs[gone as usize]) {
        ins[h as usize].remove(&gone);
        if h != keep {
            ins[h as usize].insert(keep);
            outs[keep as usize].insert(h);
        }
    }
    for p in std::mem::take(&mut ins[gone as usize]) {
        outs[p as usize].remove(&gone);
        if p != keep {
            outs[p as usize].insert(keep);
            ins[keep as usize].insert(p);
        }
    }
    outs[keep as usize].remove(&gone);
    ins[keep as usize].remove(&gone);
}

fn listed(dag: &Dag, into: &mut [u32], outs: &[BTreeSet<u32>], ins: &[BTreeSet<u32>]) -> Vec<Cluster> {
    let n = dag.len();
    let mut left: Vec<u32> = ins.iter().map(|i| i.len() as u32).collect();
    let mut ready: BTreeSet<u32> = (0..n as u32).filter(|&c| into[c as usize] == c && left[c as usize] == 0).collect();
    let mut place = vec![NONE; n];
    let mut list = Vec::new();
    while let Some(c) = ready.pop_first() {
        place[c as usize] = list.len() as u32;
        list.push(c);
        for &h in &outs[c as usize] {
            left[h as usize] -= 1;
            if left[h as usize] == 0 {
                ready.insert(h);
            }
        }
    }
    let sorted = |set: &BTreeSet<u32>| {
        let mut row: Vec<u32> = set.iter().map(|&c| place[c as usize]).collect();
        row.sort_unstable();
        row
    };
    let mut clusters: Vec<Cluster> = list
        .iter()
        .map(|&c| {
            let node = &dag.nodes[dag.topo[c as usize] as usize];
            let (preds, succs) = (sorted(&ins[c as usize]), sorted(&outs[c as usize]));
            Cluster { engine: node.engine, label: node.label, nodes: Vec::new(), preds, succs }
        })
        .collect();
    for (k, &v) in dag.topo.iter().enumerate() {
        let c = find(into, k as u32);
        clusters[place[c as usize] as usize].nodes.push(v);
    }
    clusters
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::parallel::dag::DagNode;

    fn dag(engines: &[u32], edges: &[(u32, u32)]) -> Dag {
        let nodes = engines.iter().map(|&engine| DagNode { cost: 1, engine, ..DagNode::default() }).collect();
        Dag::new(nodes, edges).unwrap()
    }

    fn members(d: &Dag) -> Vec<Vec<u32>> {
        partition(d).into_iter().map(|c| c.nodes).collect()
    }

    #[test]
    fn one_engine_is_one_cluster() {
        assert_eq!(members(&dag(&[0; 4], &[(0, 1), (0, 2), (1, 3), (2, 3)])), [vec![0, 1, 2, 3]]);
    }

    #[test]
    fn a_path_through_another_engine_keeps_clusters_apart() {
        let d = dag(&[0, 1, 0], &[(0, 1), (1, 2), (0, 2)]);
        assert_eq!(members(&d), [vec![0], vec![1], vec![2]]);
    }

    #[test]
    fn a_branch_of_another_engine_does_not_cut_what_it_does_not_join() {
        let d = dag(&[0, 1, 0], &[(0, 1), (0, 2)]);
        assert_eq!(members(&d), [vec![0, 2], vec![1]]);
    }

    #[test]
    fn the_list_has_predecessors_first() {
        let d = dag(&[0, 1, 0, 1, 0], &[(0, 1), (1, 2), (2, 3), (3, 4)]);
        let list = partition(&d);
        for (k, c) in list.iter().enumerate() {
            assert!(c.preds.iter().all(|&p| (p as usize) < k));
        }
        assert_eq!(list.len(), 5);
    }
}
