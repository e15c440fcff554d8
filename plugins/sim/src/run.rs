//! One launch: takes a run state, binds it, drives the scheduler and makes the report.
use crate::careful::Careful;
use crate::context::Inner;
use crate::group::Part;
use crate::launch::bound::Bound;
use crate::plan::Plan;
use crate::schedule::{Machine, RankState};
use ge_plugin_api::device::{Base, RunReport};
use ge_plugin_api::{Error, ErrorKind, Result};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Runs launches of models.
pub struct Launch;

impl Launch {
    /// Runs one model alone, with its own run state.
    pub fn alone(state: &mut RankState, bases: &[Base], profile: bool, device: &Inner) -> Result<RunReport> {
        Bound::check(&state.plan, bases)?;
        state.reset(profile);
        state.counters.refreshed = state.bound.bind(&state.plan.clone(), &[bases]);
        let elapsed = run(std::slice::from_mut(state), device)?;
        Ok(report(state, elapsed, profile))
    }
    /// Runs all ranks of a group and returns a result for each.
    pub fn together(parts: Vec<Part>, device: &Inner) -> Vec<Result<RunReport>> {
        let n = parts.len();
        let go = || -> Result<Vec<RunReport>> {
            for p in &parts {
                Bound::check(&p.plan, &p.bases).map_err(|e| e.with(|d| d.note(format!("rank {}", p.plan.rank))))?;
            }
            let all: Vec<&[Base]> = parts.iter().map(|p| p.bases.as_slice()).collect();
            let mut ranks: Vec<RankState> = parts.iter().map(|p| RankState::new(p.plan.clone())).collect();
            for (r, p) in ranks.iter_mut().zip(&parts) {
                r.reset(p.profile);
                r.counters.refreshed = r.bound.bind(&p.plan, &all);
            }
            let elapsed = run(&mut ranks, device)?;
            Ok(ranks.iter_mut().zip(&parts).map(|(r, p)| report(r, elapsed, p.profile)).collect())
        };
        match go() {
            Ok(reports) => reports.into_iter().map(Ok).collect(),
            Err(e) => (0..n).map(|_| Err(e.clone())).collect(),
        }
    }
}

fn report(state: &mut RankState, elapsed: u64, profile: bool) -> RunReport {
    let elapsed_ns = if state.end_time > 0 { state.end_time } else { elapsed };
    RunReport {
        tasks: state.profile.take().unwrap_or_default().into(),
        elapsed_ns,
        launches: state.counters.kernels,
        counters: if profile { state.counters.list().into() } else { Vec::new().into() },
    }
}

/// Drives a run to its end; returns its duration in nanoseconds by the machine's clock.
fn run(ranks: &mut [RankState], device: &Inner) -> Result<u64> {
    if device.shared.lost.load(Ordering::Relaxed) {
        return Err(Error::new(ErrorKind::DEVICE, "the device is lost: it must be opened again"));
    }
    let begin = Instant::now();
    let mut careful =
        device.options.careful().then(|| Careful::new(&device.options, &device.shared, ranks, &device.memory));
    let seat = if careful.is_none() { device.crew.seat() } else { None };
    let models_time = careful.as_ref().is_some_and(Careful::models_time);
    let mut machine = Machine::new(ranks, careful.as_mut(), device.options.max_tasks, seat.as_ref());
    machine.launch();
    let result = machine.drive();
    drop(seat);
    for r in ranks.iter_mut() {
        device.counters.add(&r.counters);
        if !models_time {
            r.end_time = 0;
        }
    }
    result.map(|()| begin.elapsed().as_nanos() as u64)
}

/// Idle run states of a plan, kept so that a run need not allocate them.
#[derive(Default)]
pub struct Idle(Mutex<Vec<RankState>>);

impl Idle {
    /// Takes an idle state, or makes a new one.
    pub fn take(&self, plan: &Arc<Plan>) -> RankState {
        let kept = self.0.lock().unwrap_or_else(|p| p.into_inner()).pop();
        kept.unwrap_or_else(|| RankState::new(plan.clone()))
    }
    /// Returns a state for later runs.
    pub fn put(&self, state: RankState) {
        self.0.lock().unwrap_or_else(|p| p.into_inner()).push(state);
    }
}
