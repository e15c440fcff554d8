//! The processors that threads run on.
//!
//! A scheduler tends to put a woken thread on the processor of the thread that woke it, and leaves
//! both there while each waits for the other, even if another processor is idle. A waiting thread
//! therefore checks whether it shares its processor with a thread that has precedence, and moves
//! elsewhere if so.

/// The processor of the calling thread; `None` if the system does not report it.
pub fn here() -> Option<u32> {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: a call without arguments.
        u32::try_from(unsafe { libc::sched_getcpu() }).ok()
    }
    #[cfg(not(target_os = "linux"))]
    None
}

/// The set of processors that a thread may use.
#[derive(Clone, Copy)]
pub struct Given {
    #[cfg(target_os = "linux")]
    set: libc::cpu_set_t,
}

impl Given {
    /// The set of the calling thread; `None` if the system does not report it.
    pub fn to_this_thread() -> Option<Given> {
        #[cfg(target_os = "linux")]
        {
            // SAFETY: a set of processors consists of plain numbers, for which zero is valid.
            let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
            // SAFETY: the set is live and has the given size; 0 means the calling thread.
            let rc = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) };
            (rc == 0).then_some(Given { set })
        }
        #[cfg(not(target_os = "linux"))]
        None
    }

    /// Restricts the calling thread to the processors of this set that are not in `taken`, if any
    /// remain.
    pub fn avoid(&self, taken: impl Iterator<Item = u32>) {
        #[cfg(target_os = "linux")]
        {
            let mut set = self.set;
            for p in taken.map(|p| p as usize).filter(|p| *p < 8 * size_of::<libc::cpu_set_t>()) {
                // SAFETY: the number is within the set.
                unsafe { libc::CPU_CLR(p, &mut set) };
            }
            // SAFETY: the sets are live and have the given size. If the system refuses, the thread
            // stays where it is.
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
            // SAFETY: the set is live.
            let count = |g: &Given| unsafe { libc::CPU_COUNT(&g.set) };
            let (first, n) = (here().expect("Linux tells"), count(&given));
            given.avoid([first].into_iter());
            let left = Given::to_this_thread().expect("Linux tells");
            if n > 1 {
                assert_eq!(count(&left), n - 1);
                assert_ne!(here(), Some(first));
            }
            // If all are taken, the thread stays where it may run.
            given.avoid(0..4096);
            assert_eq!(count(&Given::to_this_thread().expect("Linux tells")), count(&left));
        })
        .join()
        .expect("the thread ends");
    }
}
