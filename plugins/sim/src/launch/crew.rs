//! The threads that help a device's runs. They start with the first launch that is worth sharing.
//! After the last block they stay awake for a while, so that the next launch or run finds them, and
//! then sleep until they are called.
//!
//! No run waits for a helper that has not arrived: the run's own thread executes every block that
//! no helper has claimed.
use super::kernel::{Call, Kernel};
use super::processor::{self, Given};
use super::spin::Spin;
use super::team::{End, Team};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Number of runs that can get help at the same time; further runs execute their blocks alone.
const TEAMS: usize = 8;
/// How long a helper without work stays awake, measured in time during which it has a processor.
const AWAKE: Duration = Duration::from_micros(200);

/// The helper threads of a device.
pub struct Crew {
    shared: Arc<Shared>,
    /// Number of threads besides those that run models.
    helpers: usize,
    /// The threads; started by the first call.
    threads: OnceLock<Vec<JoinHandle<()>>>,
}

struct Shared {
    seats: [Place; TEAMS],
    /// The processor of each helper.
    helpers: Vec<Spot>,
    asleep: AtomicUsize,
    stop: AtomicBool,
    gate: Mutex<()>,
    wake: Condvar,
}

/// A team, and whether a run currently uses it.
#[derive(Default)]
struct Place {
    taken: AtomicBool,
    team: Team,
    /// The processor of the run's own thread.
    spot: Spot,
}

/// The last known processor of a thread: its number plus one, or 0 if unknown.
#[derive(Default)]
struct Spot(AtomicU32);

impl Spot {
    /// Records the processor that the calling thread runs on and returns it.
    fn tell(&self) -> Option<u32> {
        let here = processor::here();
        self.0.store(here.map_or(0, |p| p + 1), Ordering::Relaxed);
        here
    }
    fn get(&self) -> Option<u32> {
        self.0.load(Ordering::Relaxed).checked_sub(1)
    }
}

impl Shared {
    /// Executes one block of any run; returns false if there is none to claim.
    fn help(&self) -> bool {
        self.seats.iter().any(|p| p.taken.load(Ordering::Acquire) && p.team.help(End::Back))
    }
    fn has_work(&self) -> bool {
        self.seats.iter().any(|p| p.taken.load(Ordering::Acquire) && p.team.has_work())
    }
    /// The main loop of helper `i`; it ends when the crew is dropped.
    fn member(&self, i: usize) {
        let (mut idle, given) = (Spin::default(), Given::to_this_thread());
        while !self.stop.load(Ordering::Acquire) {
            if self.help() {
                idle = Spin::default();
                continue;
            }
            let mut moves = idle.turn();
            if idle.waited() > AWAKE {
                self.sleep();
                (idle, moves) = (Spin::default(), true);
            }
            if moves && let Some(given) = &given {
                self.move_apart(i, given);
            }
        }
    }
    /// Moves helper `i`, which is the calling thread, away from a processor that a run's thread or
    /// an earlier helper uses.
    fn move_apart(&self, i: usize, given: &Given) {
        let here = self.helpers[i].tell();
        let runs = self.seats.iter().filter(|p| p.taken.load(Ordering::Relaxed)).map(|p| &p.spot);
        let before = runs.chain(&self.helpers[..i]).filter_map(Spot::get);
        if before.clone().any(|p| Some(p) == here) {
            given.avoid(before);
            self.helpers[i].tell();
        }
    }
    /// Sleeps until called. Work offered before `asleep` counts this thread is seen here; whoever
    /// offers work later sees the count.
    fn sleep(&self) {
        let gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        self.asleep.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if !self.stop.load(Ordering::Acquire) && !self.has_work() {
            drop(self.wake.wait(gate).unwrap_or_else(PoisonError::into_inner));
        }
        self.asleep.fetch_sub(1, Ordering::SeqCst);
    }
    fn call(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst) > 0 {
            drop(self.gate.lock().unwrap_or_else(PoisonError::into_inner));
            self.wake.notify_all();
        }
    }
}

impl Crew {
    /// Makes a crew for runs with `threads` threads, including the run's own.
    pub fn new(threads: usize) -> Crew {
        let helpers = threads.saturating_sub(1);
        let shared = Shared {
            seats: Default::default(),
            helpers: (0..helpers).map(|_| Spot::default()).collect(),
            asleep: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            gate: Mutex::new(()),
            wake: Condvar::new(),
        };
        Crew { shared: Arc::new(shared), helpers, threads: OnceLock::new() }
    }
    /// Returns a team for one run; `None` if there are no helpers or all teams are taken.
    pub fn seat(&self) -> Option<Seat<'_>> {
        if self.helpers == 0 {
            return None;
        }
        let free = |p: &&Place| {
            !p.taken.load(Ordering::Relaxed)
                && p.taken.compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        self.shared.seats.iter().find(free).map(|place| Seat { crew: self, place })
    }
    fn start(&self) -> Vec<JoinHandle<()>> {
        let one = |i: usize| {
            let shared = self.shared.clone();
            std::thread::Builder::new().name(format!("ge-sim-{}", i + 1)).spawn(move || shared.member(i))
        };
        // If the system cannot provide a thread, the run does without it.
        (0..self.helpers).filter_map(|i| one(i).ok()).collect()
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        drop(self.shared.gate.lock().unwrap_or_else(PoisonError::into_inner));
        self.shared.wake.notify_all();
        for t in self.threads.take().unwrap_or_default() {
            // The helper ends by itself; errors were already reported through its blocks.
            let _ = t.join();
        }
    }
}

/// The team of a run. When it is dropped, nothing of the run is in progress any more.
pub struct Seat<'a> {
    crew: &'a Crew,
    place: &'a Place,
}

impl Seat<'_> {
    /// The team itself.
    pub fn team(&self) -> &Team {
        &self.place.team
    }
    /// Offers a launch to the team ([`Team::publish`]).
    pub fn publish(&self, kernel: &Kernel, call: &Call, blocks: u32, key: u64) -> Option<usize> {
        self.place.spot.tell();
        self.place.team.publish(kernel, call, blocks, key)
    }
    /// Wakes the helpers because something worth sharing was offered.
    pub fn call(&self) {
        self.crew.threads.get_or_init(|| self.crew.start());
        self.crew.shared.call();
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.place.team.clear();
        self.place.taken.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::super::team::tests::{CALL, Slow, count};
    use super::*;

    fn runs(crew: &Crew, rounds: u32, call: &Call) {
        let (kernel, seen) = count(usize::MAX);
        for round in 0..rounds {
            let seat = crew.seat().expect("room for as many runs as there are threads here");
            for _ in 0..3 {
                let slot = seat.publish(&kernel, call, 1 + round % 64, 0).expect("room for one launch");
                seat.call();
                while !seat.team().done(slot) {
                    seat.team().help(End::Front);
                }
                seat.team().take(slot).expect("no block fails");
            }
        }
        for (block, n) in seen.iter().enumerate() {
            let want = 3 * (0..rounds).filter(|r| r % 64 >= block as u32).count() as u32;
            assert_eq!(n.load(Ordering::Relaxed), want, "block {block}");
        }
    }

    #[test]
    fn every_block_of_every_run_runs_once_whoever_takes_it() {
        let crew = Crew::new(3);
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| runs(&crew, 300, &CALL));
            }
        });
        assert!(!crew.shared.has_work());
    }

    #[test]
    fn helpers_that_slept_come_when_they_are_called() {
        let crew = Crew::new(2);
        let (kernel, at_work) = Slow::kernel();
        for _ in 0..3 {
            let seat = crew.seat().expect("one run");
            let slot = seat.publish(&kernel, &CALL, 1, 0).expect("room");
            seat.call();
            // Only the helper takes the block.
            while !seat.team().done(slot) {
                std::thread::yield_now();
            }
            seat.team().take(slot).expect("no block fails");
            while crew.shared.asleep.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
        }
        assert_eq!(at_work.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn a_run_that_ends_early_leaves_nothing_under_way() {
        let crew = Crew::new(2);
        let (kernel, at_work) = Slow::kernel();
        for _ in 0..20 {
            let seat = crew.seat().expect("one run");
            seat.publish(&kernel, &CALL, 64, 0).expect("room");
            seat.call();
            seat.team().help(End::Front);
            drop(seat);
            let before = at_work.load(Ordering::SeqCst);
            assert!(!crew.shared.has_work());
            std::thread::yield_now();
            assert_eq!(at_work.load(Ordering::SeqCst), before, "no block begins behind the run");
        }
    }

    #[test]
    fn as_many_runs_as_there_are_seats_are_helped_and_one_thread_alone_needs_none() {
        let crew = Crew::new(2);
        let seats: Vec<_> = (0..TEAMS).map(|_| crew.seat()).collect();
        assert!(seats.iter().all(Option::is_some) && crew.seat().is_none());
        drop(seats);
        assert!(crew.seat().is_some());
        assert!(Crew::new(1).seat().is_none());
    }
}
