//! Clusters of nodes with the same engine and label, such that no path through other clusters
//! leaves and re-enters one (facts 3.4).

use crate::cluster::{self as clusters, Clusters, Fit};
use crate::streams::dag::{Dag, NONE};
use std::collections::BTreeSet;

/// A cluster of nodes with the same engine and label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    /// Engine index of all its nodes.
    pub engine: u32,
    /// Label of all its nodes; `None` if they have no label.
    pub label: Option<u32>,
    /// Its nodes, in topological order.
    pub nodes: Vec<u32>,
    /// Clusters that it reads from, as indices in the list.
    pub preds: Vec<u32>,
    /// Clusters that read from it, as indices in the list.
    pub succs: Vec<u32>,
}

/// Partitions a graph by [`clusters::partition`]. The list is in topological order; among unordered
/// clusters, the one with the smallest first node comes first.
pub fn partition(dag: &Dag) -> Vec<Cluster> {
    let mut rank = vec![0u32; dag.len()];
    for (k, &v) in dag.topo.iter().enumerate() {
        rank[v as usize] = k as u32;
    }
    let key = |item: u32| {
        let node = &dag.nodes[dag.topo[item as usize] as usize];
        (node.engine, node.label)
    };
    let edges = dag.edges.iter().map(|&(a, b)| (rank[a as usize], rank[b as usize]));
    let found =
        clusters::partition(dag.len(), edges, &|a, b| if key(a) == key(b) { Fit::IfDirect } else { Fit::Never });
    listed(dag, &found)
}

fn listed(dag: &Dag, found: &Clusters) -> Vec<Cluster> {
    let count = found.members.len();
    let mut left: Vec<usize> = found.preds.iter().map(Vec::len).collect();
    let mut ready: BTreeSet<u32> = (0..count as u32).filter(|&c| left[c as usize] == 0).collect();
    let mut place = vec![NONE; count];
    let mut list = Vec::new();
    while let Some(c) = ready.pop_first() {
        place[c as usize] = list.len() as u32;
        list.push(c as usize);
        for &h in &found.succs[c as usize] {
            left[h as usize] -= 1;
            if left[h as usize] == 0 {
                ready.insert(h);
            }
        }
    }
    let placed = |row: &[u32]| {
        let mut row: Vec<u32> = row.iter().map(|&c| place[c as usize]).collect();
        row.sort_unstable();
        row
    };
    list.into_iter()
        .map(|c| {
            let nodes: Vec<u32> = found.members[c].iter().map(|&item| dag.topo[item as usize]).collect();
            let first = &dag.nodes[nodes[0] as usize];
            Cluster {
                engine: first.engine,
                label: first.label,
                nodes,
                preds: placed(&found.preds[c]),
                succs: placed(&found.succs[c]),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::dag::DagNode;

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
