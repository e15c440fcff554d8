//! Executors (facts 8.9): the order in which the steps of a round are taken, and by how many
//! threads.
//!
//! The steps of a round are its launches, which go to the device as a whole, and the nodes that the
//! host executes. No host step reads the result of another host step of the same round; a step that
//! needs the launches is marked as waiting. Every order that respects this gives the same values.
//! Profiles and captures are reported in sequential order, whichever thread took a step.
use super::graph::{Graph, Kind, SIZES};
use super::sequence;
use super::tools::Tools;
use crate::error::RuntimeError;
use ge_plugin_api::ops::flags;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Number of launches from which a model with control flow is executed by priority.
const BY_PRIORITY: usize = 5;
/// Stack size of a thread in bytes; nested graphs use it recursively.
const STACK: usize = 8 << 20;

/// How a model of unknown shapes is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Executor {
    /// In the order of the plan: the launches of a round, then the host's nodes.
    Sequential,
    /// Steps that are ready, in the order in which they became ready.
    Topological,
    /// Among the steps that are ready, the one that comes first in the graph.
    PriorityTopological,
    /// Steps that are ready, on this number of threads.
    MultiThread(usize),
}

impl Executor {
    /// Chooses the executor of a model: several threads if requested, otherwise by the model's
    /// structure.
    pub(crate) fn choose(graphs: &[Graph], tools: &Tools, cores: usize) -> Executor {
        match (cores, has_control_flow(graphs), launches(graphs, tools)) {
            (2.., _, _) => Executor::MultiThread(cores),
            (_, false, _) => Executor::Sequential,
            (_, true, BY_PRIORITY..) => Executor::PriorityTopological,
            _ => Executor::Topological,
        }
    }
    /// Name of the executor.
    pub fn name(self) -> &'static str {
        match self {
            Executor::Sequential => "sequential",
            Executor::Topological => "topological",
            Executor::PriorityTopological => "priority-topological",
            Executor::MultiThread(_) => "multi-thread",
        }
    }
    /// Maximum number of threads that take steps.
    pub fn threads(self) -> usize {
        match self {
            Executor::MultiThread(n) => n,
            _ => 1,
        }
    }
}

/// Whether a model has branches or loops.
pub(crate) fn has_control_flow(graphs: &[Graph]) -> bool {
    let nodes = || graphs.iter().flat_map(|g| &g.nodes);
    nodes().any(|n| matches!(n.kind, Kind::Choice | Kind::While | Kind::For))
}

/// Number of nodes that are launched: sealed parts, and operators that an engine may take.
pub(crate) fn launches(graphs: &[Graph], tools: &Tools) -> usize {
    let launched = |n: &&super::graph::Node| match n.kind {
        Kind::Part => true,
        Kind::Operator => {
            let free = n.flags & flags::VIEW != 0 || SIZES.contains(&n.op.as_str()) || sequence::handles(n.op.as_str());
            !free && !tools.engines(n.op).is_empty()
        }
        _ => false,
    };
    graphs.iter().flat_map(|g| &g.nodes).filter(launched).count()
}

/// The steps of a round and their dependencies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Steps {
    /// For each step, its position in the graph. The launches, if any, are the first step.
    pub(crate) at: Vec<u32>,
    /// Whether each step waits for the launches.
    pub(crate) waits: Vec<bool>,
    /// Number of steps that are worth their own thread.
    pub(crate) heavy: usize,
    /// The order of the steps on a single thread: as they become ready, and by position in the
    /// graph.
    pub(crate) first: Vec<usize>,
    pub(crate) graph: Vec<usize>,
}

impl Steps {
    /// The order in which a single thread takes the steps.
    fn taken(&self, launches: bool, order: Order) -> Vec<usize> {
        let mut board = Board::new(self, launches, order);
        let mut out = Vec::with_capacity(self.at.len());
        while let Some(step) = board.take(&self.at) {
            board.over(step, launches && step == 0, Ok(()));
            out.push(step);
        }
        out
    }
    /// The steps of a round: its launches, then the host's nodes. `waits` says which nodes wait for
    /// the launches.
    pub(crate) fn new(graph: &Graph, launches: Option<u32>, host: &[u32], waits: impl Fn(u32) -> bool) -> Steps {
        let mut out = Steps::default();
        if let Some(first) = launches {
            out.at.push(first);
            out.waits.push(false);
            out.heavy += 1;
        }
        for n in host {
            out.at.push(*n);
            out.waits.push(launches.is_some() && waits(*n));
            let long = [Kind::Choice, Kind::While, Kind::For, Kind::Call, Kind::Part];
            out.heavy += usize::from(long.contains(&graph.nodes[*n as usize].kind));
        }
        out.first = out.taken(launches.is_some(), Order::First);
        out.graph = out.taken(launches.is_some(), Order::Graph);
        out
    }
}

/// The order in which ready steps are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// As they became ready.
    First,
    /// By position in the graph.
    Graph,
    /// Random, from a seed.
    Random(u64),
}

/// Steps that are ready, and steps that are not yet.
struct Board {
    ready: Vec<usize>,
    waiting: Vec<usize>,
    running: usize,
    /// The failed step that is first in sequential order; steps after it are not started.
    failed: Option<(usize, RuntimeError)>,
    /// A thread died while taking a step.
    lost: bool,
    order: Order,
}

impl Board {
    fn new(steps: &Steps, launches: bool, order: Order) -> Board {
        let (waiting, ready) = (0..steps.at.len()).partition(|s| launches && steps.waits[*s]);
        Board { ready, waiting, running: 0, failed: None, lost: false, order }
    }
    /// Takes the next step; `None` if none is ready.
    fn take(&mut self, at: &[u32]) -> Option<usize> {
        if let Some((first, _)) = &self.failed {
            let first = *first;
            self.ready.retain(|s| *s < first);
            self.waiting.retain(|s| *s < first);
        }
        let k = match self.order {
            _ if self.ready.is_empty() => return None,
            Order::First => 0,
            Order::Graph => (0..self.ready.len()).min_by_key(|k| (at[self.ready[*k]], self.ready[*k]))?,
            Order::Random(seed) => {
                let next = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                self.order = Order::Random(next);
                (next >> 33) as usize % self.ready.len()
            }
        };
        self.running += 1;
        Some(self.ready.remove(k))
    }
    /// Records that a step is over. After the launches, the steps that wait for them become ready.
    fn over(&mut self, step: usize, launches: bool, result: Result<(), RuntimeError>) {
        self.running -= 1;
        match result {
            Ok(()) if launches => self.ready.append(&mut self.waiting),
            Ok(()) => {}
            Err(why) if self.failed.as_ref().is_none_or(|(first, _)| step < *first) => self.failed = Some((step, why)),
            Err(_) => {}
        }
    }
}

/// Reports the thread as lost if its step panics.
struct Alive<'b>(&'b (Mutex<Board>, Condvar), bool);

impl Drop for Alive<'_> {
    fn drop(&mut self) {
        if !self.1 {
            board(self.0).lost = true;
            self.0.1.notify_all();
        }
    }
}

fn board<'b>(b: &'b (Mutex<Board>, Condvar)) -> MutexGuard<'b, Board> {
    b.0.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes all steps of a round, on the caller's thread and `helpers` others. `launches` says whether
/// the first step is the launches.
///
/// # Errors
/// Returns the error of the failed step that is first in sequential order; all steps before it were
/// taken.
pub(crate) fn take_all(
    steps: &Steps,
    launches: bool,
    order: Order,
    helpers: usize,
    work: &(dyn Fn(usize) -> Result<(), RuntimeError> + Sync),
) -> Result<(), RuntimeError> {
    let shared = (Mutex::new(Board::new(steps, launches, order)), Condvar::new());
    let turn = || {
        let mut b = board(&shared);
        loop {
            if b.lost {
                return;
            }
            match b.take(&steps.at) {
                Some(step) => {
                    drop(b);
                    let mut alive = Alive(&shared, false);
                    let result = work(step);
                    alive.1 = true;
                    b = board(&shared);
                    b.over(step, launches && step == 0, result);
                    shared.1.notify_all();
                }
                None if b.running == 0 || b.waiting.is_empty() => return,
                None => b = shared.1.wait(b).unwrap_or_else(PoisonError::into_inner),
            }
        }
    };
    std::thread::scope(|scope| {
        for k in 0..helpers {
            let named = std::thread::Builder::new().name(format!("ge-exec-{k}")).stack_size(STACK);
            // If a thread cannot be started, the others take its steps.
            if named.spawn_scoped(scope, turn).is_err() {
                break;
            }
        }
        turn();
    });
    let (b, _) = shared;
    b.into_inner().unwrap_or_else(PoisonError::into_inner).failed.map_or(Ok(()), |(_, why)| Err(why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ge_plugin_api::Error;
    use std::sync::Mutex;

    /// Launches at position 4 of the graph, and host steps; those at 1 and 6 wait for nothing.
    fn steps() -> Steps {
        Steps { at: vec![4, 1, 5, 6, 7], waits: vec![false, false, true, false, true], heavy: 5, ..Steps::default() }
    }
    fn taken(order: Order, helpers: usize) -> Vec<usize> {
        let seen = Mutex::new(Vec::new());
        let note = |s: usize| {
            seen.lock().unwrap().push(s);
            Ok(())
        };
        take_all(&steps(), true, order, helpers, &note).unwrap();
        seen.into_inner().unwrap()
    }

    #[test]
    fn what_is_ready_goes_as_it_became_so_or_as_it_stands_in_the_graph() {
        assert_eq!(taken(Order::First, 0), [0, 1, 3, 2, 4]);
        assert_eq!(taken(Order::Graph, 0), [1, 0, 2, 3, 4]);
        // The order computed in advance is the same.
        assert_eq!(steps().taken(true, Order::First), [0, 1, 3, 2, 4]);
        assert_eq!(steps().taken(true, Order::Graph), [1, 0, 2, 3, 4]);
    }

    #[test]
    fn every_step_is_taken_once_and_none_before_what_it_waits_for() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..200 {
            for helpers in [0, 3] {
                let order = taken(Order::Random(seed), helpers);
                let place = |s: usize| order.iter().position(|o| *o == s).unwrap();
                assert_eq!(order.len(), 5, "{order:?}");
                if helpers == 0 {
                    assert!(place(2) > place(0) && place(4) > place(0), "{order:?}");
                    seen.insert(order);
                }
            }
        }
        assert!(seen.len() > 20, "{seen:?}");
    }

    #[test]
    fn the_first_fault_of_the_sequential_order_is_told_whatever_the_order() {
        let fails = |s: usize| if s >= 2 { Err(Error::failed(format!("step {s}")).into()) } else { Ok(()) };
        for order in [Order::First, Order::Graph].into_iter().chain((0..50).map(Order::Random)) {
            for helpers in [0, 2] {
                let why = take_all(&steps(), true, order, helpers, &fails).unwrap_err().to_string();
                assert!(why.contains("step 2"), "{order:?}: {why}");
            }
        }
        // If the launches fail, no step that waits for them is started.
        let began = Mutex::new(Vec::new());
        let first = |s: usize| {
            began.lock().unwrap().push(s);
            if s == 0 { Err(Error::failed("the launches").into()) } else { Ok(()) }
        };
        assert!(take_all(&steps(), true, Order::First, 0, &first).is_err());
        assert_eq!(began.into_inner().unwrap(), [0]);
    }

    #[test]
    fn threads_work_at_the_same_time() {
        let meet = std::sync::Barrier::new(3);
        let steps = Steps { at: vec![0, 1, 2], waits: vec![false; 3], heavy: 3, ..Steps::default() };
        let work = |_| {
            meet.wait();
            Ok(())
        };
        take_all(&steps, false, Order::First, 2, &work).unwrap();
    }
}
