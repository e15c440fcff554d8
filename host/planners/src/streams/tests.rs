//! Property tests of the parallel planner: the independent checker accepts every plan, and the set
//! of events is minimal.

use super::dag::{Dag, DagNode, Kind, Rules};
use super::memory::{Fit, PlanOrder, places};
use super::{Aim, EventCost, ParallelOptions, ParallelPlan, plan_parallel};
use crate::events::check::{PlanFault, PlanView, check_plan};
use proptest::prelude::*;

#[derive(Debug, Clone)]
struct Case {
    dag: Dag,
    rules: Rules,
}

fn cases() -> impl Strategy<Value = Case> {
    (2usize..28, any::<u64>(), 0u32..3, any::<bool>(), prop::option::of(4usize..9)).prop_map(
        |(n, seed, labels, independent, max)| {
            let mut x = seed | 1;
            let mut next = move |k: u64| {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                (x >> 20) % k
            };
            let nodes = (0..n)
                .map(|_| DagNode {
                    cost: next(40),
                    engine: next(3) as u32,
                    out_bytes: next(5) * 100,
                    keep: next(9) == 0,
                    label: (labels > 0 && next(4) == 0).then(|| next(u64::from(labels)) as u32),
                    ..DagNode::default()
                })
                .collect();
            let mut edges = Vec::new();
            for b in 1..n as u32 {
                for a in b.saturating_sub(8)..b {
                    if next(4) == 0 {
                        edges.push((a, b));
                    }
                }
            }
            let rules = Rules {
                independent: vec![false, false, independent],
                slots: vec![None, Some(1), Some(1)],
                labels: labels as usize,
                max_streams: max,
            };
            Case { dag: Dag::new(nodes, &edges).unwrap(), rules }
        },
    )
}

fn aims() -> impl Strategy<Value = Aim> {
    prop_oneof![Just(Aim::Speed), Just(Aim::Balanced), Just(Aim::Memory)]
}

fn check(case: &Case, plan: &ParallelPlan, events: &[(u32, u32)]) -> Result<(), PlanFault> {
    let reserve: Vec<Option<u64>> = case
        .dag
        .nodes
        .iter()
        .map(|n| match case.rules.kind(n) {
            Kind::Plain => None,
            Kind::Label(l) => Some(u64::from(l)),
            Kind::Engine(e) => Some(100 + u64::from(e)),
        })
        .collect();
    check_plan(&PlanView {
        nodes: case.dag.len(),
        edges: &case.dag.edges,
        stream: &plan.assignment.stream,
        order: &plan.assignment.order,
        events,
        joins: &[],
        event_ids: &[],
        branches: &[],
        reserve: &reserve,
        together: &[0, 1, 2],
        max_streams: case.rules.max_streams,
    })
}

/// The cross-stream edges of the transitive reduction of (edges + stream order), computed by a full
/// closure.
fn least(case: &Case, plan: &ParallelPlan) -> Vec<(u32, u32)> {
    let n = case.dag.len();
    let mut direct = vec![vec![false; n]; n];
    for (i, &a) in plan.assignment.order.iter().enumerate() {
        for &b in &plan.assignment.order[i + 1..] {
            direct[a as usize][b as usize] = plan.assignment.stream[a as usize] == plan.assignment.stream[b as usize];
        }
    }
    for &(a, b) in &case.dag.edges {
        direct[a as usize][b as usize] = true;
    }
    let mut all = direct.clone();
    for k in 0..n {
        for a in 0..n {
            for b in 0..n {
                all[a][b] |= all[a][k] && all[k][b];
            }
        }
    }
    let mut out: Vec<(u32, u32)> = case
        .dag
        .edges
        .iter()
        .copied()
        .filter(|&(a, b)| plan.assignment.stream[a as usize] != plan.assignment.stream[b as usize])
        .filter(|&(a, b)| !(0..n).any(|k| all[a as usize][k] && all[k][b as usize]))
        .collect();
    out.sort_unstable();
    out
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if std::env::var_os("GE_LONG").is_some() { 20_000 } else { 400 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_plan_is_sound_and_has_the_least_events(case in cases(), plain in 1usize..6, cost in 0u64..6, aim in aims()) {
        let plan = plan_parallel(&case.dag, &case.rules, &ParallelOptions { plain, events: EventCost::each(cost), aim }).unwrap();
        let mut events: Vec<(u32, u32)> = plan.events.iter().map(|e| (e.send, e.recv)).collect();
        prop_assert_eq!(check(&case, &plan, &events), Ok(()));
        events.sort_unstable();
        prop_assert_eq!(&events, &least(&case, &plan));
        // Each event is needed: without it the checker refuses the plan.
        for k in 0..events.len() {
            let mut fewer = events.clone();
            fewer.remove(k);
            let refused = matches!(check(&case, &plan, &fewer), Err(PlanFault::Unordered { .. }));
            prop_assert!(refused);
        }
        if case.rules.labels == 0 && !case.rules.independent[2] {
            if aim != Aim::Memory {
                prop_assert!(plan.makespan <= case.dag.work() + case.dag.work() / 20);
            }
            if aim == Aim::Speed {
                prop_assert!(plan.makespan <= case.dag.work());
            }
            prop_assert!(plan.assignment.streams <= plain);
        }
    }

    #[test]
    fn tensors_share_memory_only_where_the_plan_orders_them(case in cases(), plain in 1usize..6, aim in aims()) {
        let plan = plan_parallel(&case.dag, &case.rules, &ParallelOptions { plain, events: EventCost::each(1), aim }).unwrap();
        let a = &plan.assignment;
        let order = PlanOrder::new(&case.dag, a);
        for fit in [Fit::First, Fit::Best] {
            let (offsets, arena) = places(&case.dag, a, &order, fit);
            // The relation computed independently, by walking the graph.
            let before = reach(&case.dag, a);
            let over = |x: u32, y: u32| {
                let users = case.dag.succ.row(x);
                let last: &[u32] = if users.is_empty() { std::slice::from_ref(&x) } else { users };
                !case.dag.nodes[x as usize].keep && last.iter().all(|&u| before[u as usize][y as usize])
            };
            for x in 0..case.dag.len() as u32 {
                let (at, size) = (offsets[x as usize], case.dag.nodes[x as usize].out_bytes);
                prop_assert!(at + size <= arena);
                for y in 0..x {
                    let (other, its) = (offsets[y as usize], case.dag.nodes[y as usize].out_bytes);
                    let apart = at + size <= other || other + its <= at || size == 0 || its == 0;
                    prop_assert!(apart || over(x, y) || over(y, x), "tensors {} and {}", x, y);
                }
            }
        }
    }
}

/// Whether each node is over before each other starts, by edges and stream order, computed naively.
fn reach(dag: &Dag, a: &super::dag::StreamAssignment) -> Vec<Vec<bool>> {
    let n = dag.len();
    let mut out = vec![vec![false; n]; n];
    for (k, &v) in a.order.iter().enumerate().rev() {
        let behind = a.order[k + 1..].iter().copied().find(|&w| a.stream[w as usize] == a.stream[v as usize]);
        for w in dag.succ.row(v).iter().copied().chain(behind) {
            let row = out[w as usize].clone();
            for (o, r) in out[v as usize].iter_mut().zip(row) {
                *o |= r;
            }
            out[v as usize][w as usize] = true;
        }
    }
    out
}
