//! An alternate stack for signal handlers on threads without one, or with a small one. Threads that
//! plugins start have none (their copy of Rust's runtime was never initialised), and the one that
//! Rust's runtime gives to its own threads is little larger than the registers that the system saves
//! there, which are many if the process uses tiles (AMX). Without it, a fault on such a thread would
//! end the process without a message.
use std::cell::{Cell, RefCell};
use std::ffi::c_void;

/// Size of the stack in bytes. The handler only writes one message, but the system first saves all
/// registers there, about 11 KiB if the process uses tiles (AMX).
const BYTES: usize = 64 << 10;

/// A stack of the current thread; released when the thread ends.
struct Stack(*mut c_void);

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: the stack belongs to this thread, nothing runs on it, and it is released once.
        unsafe {
            let mut off: libc::stack_t = std::mem::zeroed();
            off.ss_flags = libc::SS_DISABLE;
            libc::sigaltstack(&off, std::ptr::null_mut());
            libc::munmap(self.0, BYTES);
        }
    }
}

thread_local! {
    static LOOKED: Cell<bool> = const { Cell::new(false) };
    static OWN: RefCell<Option<Stack>> = const { RefCell::new(None) };
}

/// Gives the thread an alternate stack if it has none of this size. From the second call on, this
/// only checks a flag.
pub(crate) fn provide() {
    if !LOOKED.get() {
        look();
    }
}

#[cold]
fn look() {
    LOOKED.set(true);
    // SAFETY: both structures are fully initialised; the mapping belongs to this thread alone until
    // `Stack` is dropped.
    unsafe {
        let mut old: libc::stack_t = std::mem::zeroed();
        let known = libc::sigaltstack(std::ptr::null(), &mut old) == 0;
        if !known || (old.ss_flags & libc::SS_DISABLE == 0 && old.ss_size >= BYTES) {
            return;
        }
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let at = libc::mmap(std::ptr::null_mut(), BYTES, access, kind, -1, 0);
        if at == libc::MAP_FAILED {
            return;
        }
        let new = libc::stack_t { ss_sp: at, ss_flags: 0, ss_size: BYTES };
        if libc::sigaltstack(&new, std::ptr::null_mut()) == 0 {
            OWN.set(Some(Stack(at)));
        } else {
            libc::munmap(at, BYTES);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> libc::stack_t {
        // SAFETY: this only queries the state.
        unsafe {
            let mut s: libc::stack_t = std::mem::zeroed();
            assert_eq!(libc::sigaltstack(std::ptr::null(), &mut s), 0);
            s
        }
    }

    /// Gives the handlers of this thread a stack, as another runtime would.
    fn set(memory: &mut [u8]) {
        let other = libc::stack_t { ss_sp: memory.as_mut_ptr().cast(), ss_flags: 0, ss_size: memory.len() };
        // SAFETY: nothing runs on the memory while it is set, and it is replaced before it ends.
        assert_eq!(unsafe { libc::sigaltstack(&other, std::ptr::null_mut()) }, 0);
    }

    #[test]
    fn a_large_stack_stays_and_a_small_one_is_replaced() {
        for (bytes, stays) in [(BYTES, true), (BYTES / 2, false)] {
            std::thread::scope(|s| {
                s.spawn(|| {
                    let (own, mut memory) = (now(), vec![0u8; bytes]);
                    set(&mut memory);
                    let before = now().ss_sp;
                    provide();
                    assert_eq!(now().ss_sp == before, stays);
                    assert!(now().ss_size >= BYTES);
                    OWN.set(None);
                    // SAFETY: restores the state of the runtime.
                    assert_eq!(unsafe { libc::sigaltstack(&own, std::ptr::null_mut()) }, 0);
                });
            });
        }
    }

    #[test]
    fn a_thread_without_a_stack_for_handlers_gets_one() {
        std::thread::scope(|s| {
            s.spawn(|| {
                let own = now();
                let off = libc::stack_t { ss_sp: std::ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
                // SAFETY: the thread runs on its ordinary stack; the runtime's alternate stack is
                // restored below.
                assert_eq!(unsafe { libc::sigaltstack(&off, std::ptr::null_mut()) }, 0);
                provide();
                let given = now();
                assert!(given.ss_flags & libc::SS_DISABLE == 0 && given.ss_size >= BYTES && given.ss_sp != own.ss_sp);
                provide();
                assert_eq!(now().ss_sp, given.ss_sp);
                OWN.set(None);
                assert_ne!(now().ss_flags & libc::SS_DISABLE, 0);
                // SAFETY: restores the state of the runtime.
                assert_eq!(unsafe { libc::sigaltstack(&own, std::ptr::null_mut()) }, 0);
            });
        });
    }
}
