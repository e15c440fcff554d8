//! Executors (facts 8.9): in which order the steps of a round are taken, and by how many threads.
//!
//! The steps of a round are its launches, which go to the device as a whole, and the nodes that the
//! host executes. No step of the host reads what another one of its round gives; what waits for the
//! launches says so. Every order that keeps to this gives the same values, and what a run tells of
//! its steps it tells in the sequential order, whoever took them.
use super::graph::{Graph, Kind, SIZES};
use super::sequence;
use super::tools::Tools;
use crate::error::RuntimeError;
use ge_plugin_api::ops::flags;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// From so many launches on a model with control flow is executed by priority.
const BY_PRIORITY: usize = 5;
/// Stack of a thread: graphs are nested on it.
const STACK: usize = 8 << 20;

/// Who executes a model of open sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Executor {
    /// The order of the plan: the launches of a round, then what the host does.
    Sequential,
    /// What is ready, in the order in which it became so.
    Topological,
    /// Of what is ready, what stands first in the graph.
    PriorityTopological,
    /// What is ready, on as many threads.
    MultiThread(usize),
}

impl Executor {
    /// The executor of a model: several threads where they are asked for, else by what the model
    /// has.
    pub(crate) fn choose(graphs: &[Graph], tools: &Tools, cores: usize) -> Executor {
        match (cores, has_control_flow(graphs), launches(graphs, tools)) {
            (2.., _, _) => Executor::MultiThread(cores),
            (_, false, _) => Executor::Sequential,
            (_, true, BY_PRIORITY..) => Executor::PriorityTopological,
            _ => Executor::Topological,
        }
    }
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Executor::Sequential => "sequential",
            Executor::Topological => "topological",
            Executor::PriorityTopological => "priority-topological",
            Executor::MultiThread(_) => "multi-thread",
        }
    }
    /// How many threads take steps at most.
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

/// Nodes of a model that are launched: those that an engine may take, and sealed parts.
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

/// How the steps of a round hang together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Steps {
    /// Of each step, the launches first if there are any: where it stands in the graph.
    pub(crate) at: Vec<u32>,
    /// Whether it waits for the launches.
    pub(crate) waits: Vec<bool>,
    /// How many are worth a thread of their own.
    pub(crate) heavy: usize,
    /// The order in which one thread takes them: as they become ready, and by place in the graph.
    pub(crate) first: Vec<usize>,
    pub(crate) graph: Vec<usize>,
}

impl Steps {
    /// The order in which one thread takes the steps.
    fn taken(&self, launches: bool, order: Order) -> Vec<usize> {
        let mut board = Board::new(self, launches, order);
        let mut out = Vec::with_capacity(self.at.len());
        while let Some(step) = board.take(&self.at) {
            board.over(step, launches && step == 0, Ok(()));
            out.push(step);
        }
        out
    }
    /// The steps of a round: its launches, then nodes of the host, each with what it waits for.
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

/// In which order steps that are ready are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// As they became ready.
    First,
    /// As they stand in the graph.
    Graph,
    /// By chance, from a seed.
    Random(u64),
}

/// Steps that are ready, and those that are not yet.
struct Board {
    ready: Vec<usize>,
    waiting: Vec<usize>,
    running: usize,
    /// The first step, in the sequential order, that failed: what stands behind it is not begun.
    failed: Option<(usize, RuntimeError)>,
    /// A thread that took a step did not come back.
    lost: bool,
    order: Order,
}

impl Board {
    fn new(steps: &Steps, launches: bool, order: Order) -> Board {
        let (waiting, ready) = (0..steps.at.len()).partition(|s| launches && steps.waits[*s]);
        Board { ready, waiting, running: 0, failed: None, lost: false, order }
    }
    /// The next step; None: none is ready.
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
    /// A step is over: behind the launches, what waits for them is ready.
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

/// Says that the thread is gone if its step unwinds.
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

/// Takes all steps of a round, on the caller's thread and `helpers` more. `launches`: whether the
/// first step is those.
///
/// # Errors
/// Of the steps that fail, what the first in the sequential order says; all that stand before it
/// were taken.
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
            // Without the thread the others take its steps.
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

    /// Launches that stand at 4, and steps of the host of which those at 1 and 6 wait for nothing.
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
        // What is known beforehand is the same.
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
        // Launches that fail: nothing that waits for them is begun.
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
