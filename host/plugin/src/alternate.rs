//! An alternate stack for signal handlers on threads without one: threads that plugins start (their
//! copy of Rust's runtime was never initialised). Without it, a stack overflow on such a thread
//! would end the process without a message.
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

/// Gives the thread an alternate stack if it has none. From the second call on, this only checks a
/// flag.
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
        if libc::sigaltstack(std::ptr::null(), &mut old) != 0 || old.ss_flags & libc::SS_DISABLE == 0 {
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

    #[test]
    fn a_thread_without_a_stack_for_handlers_gets_one_and_one_with_a_stack_keeps_it() {
        std::thread::scope(|s| {
            s.spawn(|| {
                let own = now();
                assert_eq!(own.ss_flags & libc::SS_DISABLE, 0, "the runtime gives its threads one");
                provide();
                assert_eq!(now().ss_sp, own.ss_sp);
            });
        });
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
