//! The processors that threads run on.
//!
//! A scheduler likes to put a thread that is woken beside the one that woke it, and leaves both on one
//! processor while each waits for the other, although another has nothing to do. So a thread that waits
//! looks whether it shares its processor with those that come before it, and goes elsewhere.

/// The processor of this thread; None where the system does not tell.
pub fn here() -> Option<u32> {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: a call without arguments.
        u32::try_from(unsafe { libc::sched_getcpu() }).ok()
    }
    #[cfg(not(target_os = "linux"))]
    None
}

/// The processors that a thread was given.
#[derive(Clone, Copy)]
pub struct Given {
    #[cfg(target_os = "linux")]
    set: libc::cpu_set_t,
}

impl Given {
    /// Those of this thread; None where the system does not tell.
    pub fn to_this_thread() -> Option<Given> {
        #[cfg(target_os = "linux")]
        {
            // SAFETY: a set of processors is plain numbers, for which zero is a value.
            let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
            // SAFETY: the set lives, and has that size; 0 is this thread.
            let rc = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) };
            (rc == 0).then_some(Given { set })
        }
        #[cfg(not(target_os = "linux"))]
        None
    }

    /// Lets this thread run on these processors but those that are `taken`, if any is left.
    pub fn avoid(&self, taken: impl Iterator<Item = u32>) {
        #[cfg(target_os = "linux")]
        {
            let mut set = self.set;
            for p in taken.map(|p| p as usize).filter(|p| *p < 8 * size_of::<libc::cpu_set_t>()) {
                // SAFETY: the number is one of the set's.
                unsafe { libc::CPU_CLR(p, &mut set) };
            }
            // SAFETY: the sets live and have that size. Where the system refuses, the thread stays.
            unsafe {
                if libc::CPU_COUNT(&set) > 0 {
                    libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
                }
            }
        }
        #[cfg(not(target_os = "linux"))]
        drop(taken);
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    #[test]
    fn a_thread_leaves_a_taken_processor_if_another_is_left() {
        std::thread::spawn(|| {
            let given = Given::to_this_thread().expect("Linux tells");
            // SAFETY: the set lives.
            let count = |g: &Given| unsafe { libc::CPU_COUNT(&g.set) };
            let (first, n) = (here().expect("Linux tells"), count(&given));
            given.avoid([first].into_iter());
            let left = Given::to_this_thread().expect("Linux tells");
            if n > 1 {
                assert_eq!(count(&left), n - 1);
                assert_ne!(here(), Some(first));
            }
            // All are taken: it stays where it may be.
            given.avoid(0..4096);
            assert_eq!(count(&Given::to_this_thread().expect("Linux tells")), count(&left));
        })
        .join()
        .expect("the thread ends");
    }
}
