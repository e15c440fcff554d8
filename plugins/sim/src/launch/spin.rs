//! Waiting without sleep.
use std::time::{Duration, Instant};

/// A thread that waits for another without sleeping. Now and then it lets others have its processor:
/// the one that it waits for may be among them.
#[derive(Default)]
pub struct Spin {
    turns: u32,
    since: Option<Instant>,
    waited: Duration,
}

/// Turns between two looks at the clock.
const TURNS: u32 = 64;
/// Looks at the clock between two times that others are let through.
const LOOKS: u32 = 4;
/// What is counted between two looks at most: more passes while others have the processor.
const STEP: Duration = Duration::from_micros(20);

impl Spin {
    /// Waits a moment; true where others were let through meanwhile.
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

    /// How long it has waited, of the time that it had a processor.
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
