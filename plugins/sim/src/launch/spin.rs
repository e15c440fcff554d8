//! Busy waiting.
use std::time::{Duration, Instant};

/// Waits for another thread without sleeping. From time to time it yields the processor, because
/// the thread that it waits for may need it.
#[derive(Default)]
pub struct Spin {
    turns: u32,
    since: Option<Instant>,
    waited: Duration,
}

/// Number of turns between two checks of the clock.
const TURNS: u32 = 64;
/// Number of clock checks between two yields.
const LOOKS: u32 = 4;
/// Most time that is counted between two clock checks; more may pass while other threads have the
/// processor.
const STEP: Duration = Duration::from_micros(20);

impl Spin {
    /// Waits a moment; returns true if it yielded the processor.
    pub fn turn(&mut self) -> bool {
        std::hint::spin_loop();
        self.turns = self.turns.wrapping_add(1);
        if self.turns.is_multiple_of(TURNS) {
            let now = Instant::now();
            self.waited += self.since.replace(now).map_or(Duration::ZERO, |t| (now - t).min(STEP));
        }
        let rests = self.turns.is_multiple_of(TURNS * LOOKS);
        if rests {
            std::thread::yield_now();
        }
        rests
    }

    /// How long it has waited, counting only time during which it had a processor.
    pub fn waited(&self) -> Duration {
        self.waited
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_is_counted_and_others_are_let_through() {
        let (mut spin, mut rests) = (Spin::default(), 0u32);
        while spin.waited() < Duration::from_micros(50) {
            rests += u32::from(spin.turn());
        }
        assert!(rests > 0 || spin.turns < TURNS * LOOKS, "{} turns", spin.turns);
        let before = spin.waited();
        std::thread::sleep(Duration::from_millis(30));
        (0..TURNS).for_each(|_| _ = spin.turn());
        assert!(spin.waited() - before <= STEP, "a time asleep counts as one step");
    }
}
