//! Groups of ranks: models of one process that run together. Each rank calls `run`; the last one to
//! arrive drives the streams of all ranks, and the others wait for their part of the result.
use crate::context::Inner;
use crate::plan::Plan;
use crate::run::Launch;
use ge_plugin_api::device::{Base, RunReport};
use ge_plugin_api::{Error, ErrorKind, Result, services};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, Weak};
use std::time::{Duration, Instant};

/// What one rank contributes to a run.
pub struct Part {
    /// The rank's model.
    pub plan: Arc<Plan>,
    /// Base addresses for the run.
    pub bases: Vec<Base>,
    /// Whether the rank wants a profile.
    pub profile: bool,
}

struct Round {
    parts: Vec<Option<Part>>,
    results: Vec<Option<Result<RunReport>>>,
    started: bool,
    id: u64,
}

#[derive(Default)]
struct State {
    rounds: VecDeque<Round>,
    next: u64,
    /// Models of the group, by rank.
    members: Vec<Option<Weak<Plan>>>,
}

/// A group of ranks.
pub struct Group {
    state: Mutex<State>,
    changed: Condvar,
    ranks: usize,
}

fn groups() -> &'static Mutex<BTreeMap<u64, Weak<Group>>> {
    static GROUPS: OnceLock<Mutex<BTreeMap<u64, Weak<Group>>>> = OnceLock::new();
    GROUPS.get_or_init(Mutex::default)
}

fn device(m: String) -> Error {
    Error::new(ErrorKind::DEVICE, m)
}

impl Group {
    /// Adds a sealed model to its group. All ranks must have the same allocations, because they
    /// access each other's memory.
    pub fn enter(plan: &Arc<Plan>) -> Result<Arc<Group>> {
        let mut all = groups().lock().unwrap_or_else(|p| p.into_inner());
        all.retain(|_, g| g.strong_count() > 0);
        let group = match all.get(&plan.group).and_then(Weak::upgrade) {
            Some(g) => g,
            None => {
                let g = Arc::new(Group { state: Mutex::default(), changed: Condvar::new(), ranks: plan.ranks() });
                all.insert(plan.group, Arc::downgrade(&g));
                g
            }
        };
        if group.ranks != plan.ranks() {
            let m = format!("rank {} has a group of {}, the others one of {}", plan.rank, plan.rank_size, group.ranks);
            return Err(Error::usage(m));
        }
        let mut state = group.state();
        state.members.resize(group.ranks, None);
        if state.members[plan.rank as usize].as_ref().is_some_and(|w| w.strong_count() > 0) {
            return Err(Error::usage(format!("rank {} of the group is there already", plan.rank)));
        }
        for other in state.members.iter().flatten().filter_map(Weak::upgrade) {
            let alike = other.allocations.len() == plan.allocations.len()
                && other.allocations.iter().zip(&plan.allocations).all(|(a, b)| a.bytes == b.bytes && a.kind == b.kind)
                && other.notifies == plan.notifies;
            if !alike {
                let m = format!("ranks {} and {} run different models", other.rank, plan.rank);
                return Err(Error::usage(m));
            }
        }
        state.members[plan.rank as usize] = Some(Arc::downgrade(plan));
        drop(state);
        Ok(group)
    }
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|p| p.into_inner())
    }
    /// Runs one rank's part together with those of the other ranks.
    pub fn run(&self, part: Part, device: &Inner) -> Result<RunReport> {
        let me = part.plan.rank as usize;
        let mut state = self.state();
        let round =
            match state.rounds.iter_mut().find(|r| r.parts[me].is_none() && r.results[me].is_none() && !r.started) {
                Some(r) => r,
                None => {
                    let id = state.next;
                    state.next += 1;
                    let (parts, results) =
                        ((0..self.ranks).map(|_| None).collect(), (0..self.ranks).map(|_| None).collect());
                    state.rounds.push_back(Round { parts, results, started: false, id });
                    match state.rounds.back_mut() {
                        Some(r) => r,
                        None => return Err(Error::internal("no round")),
                    }
                }
            };
        round.parts[me] = Some(part);
        let id = round.id;
        if round.parts.iter().all(Option::is_some) {
            round.started = true;
            let parts: Vec<Part> = round.parts.iter_mut().filter_map(Option::take).collect();
            drop(state);
            let results = Launch::together(parts, device);
            let mut state = self.state();
            let mut mine = Err(Error::internal("a round without this rank"));
            if let Some(k) = state.rounds.iter().position(|r| r.id == id) {
                for (rank, r) in results.into_iter().enumerate() {
                    if rank == me { mine = r } else { state.rounds[k].results[rank] = Some(r) }
                }
                if state.rounds[k].results.iter().all(Option::is_none) {
                    state.rounds.remove(k);
                }
            }
            drop(state);
            self.changed.notify_all();
            return mine;
        }
        self.wait(state, id, me, device)
    }
    fn wait(&self, mut state: MutexGuard<'_, State>, id: u64, me: usize, dev: &Inner) -> Result<RunReport> {
        let begin = Instant::now();
        loop {
            let Some(k) = state.rounds.iter().position(|r| r.id == id) else {
                return Err(Error::internal("a round of the group is gone"));
            };
            let round = &mut state.rounds[k];
            if let Some(r) = round.results[me].take() {
                if round.results.iter().all(Option::is_none) {
                    state.rounds.remove(k);
                }
                return r;
            }
            let limit = Duration::from_secs(dev.options.group_timeout_s);
            let late = begin.elapsed() >= limit;
            if !round.started && (late || services::cancelled()) {
                let missing: Vec<String> =
                    (0..self.ranks).filter(|r| round.parts[*r].is_none()).map(|r| r.to_string()).collect();
                round.parts[me] = None;
                if round.parts.iter().all(Option::is_none) {
                    state.rounds.remove(k);
                }
                if !late {
                    return Err(Error::cancelled());
                }
                let s = limit.as_secs();
                return Err(device(format!("rank {me} waited {s} s for ranks {} of its group", missing.join(", "))));
            }
            let step = Duration::from_millis(100);
            state = self.changed.wait_timeout(state, step).unwrap_or_else(|p| p.into_inner()).0;
        }
    }
}
