//! A stack for signal handlers on threads that Rust's runtime did not give one: those that plugins
//! start (their copy of the runtime is not the one that was started). Without it the overflow of
//! such a thread's stack would end the process without a word.
use std::cell::{Cell, RefCell};
use std::ffi::c_void;

/// Bytes of the stack: the handler writes one message; the system puts all registers there before,
/// some 11 KiB of them where the process uses tiles (AMX).
const BYTES: usize = 64 << 10;

/// A stack that the thread has; gone with it.
struct Stack(*mut c_void);

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: the stack is this thread's, nobody stands on it, and it is given back once.
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

/// Gives the thread a stack for signal handlers if it has none. Costs a look at a flag from the
/// second call on.
pub(crate) fn provide() {
    if !LOOKED.get() {
        look();
    }
}

#[cold]
fn look() {
    LOOKED.set(true);
    // SAFETY: both structures are wholly initialised; the mapping is the thread's alone until
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
        // SAFETY: asks alone.
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
                // SAFETY: the thread stands on its ordinary stack; the runtime's is set again below.
                assert_eq!(unsafe { libc::sigaltstack(&off, std::ptr::null_mut()) }, 0);
                provide();
                let given = now();
                assert!(given.ss_flags & libc::SS_DISABLE == 0 && given.ss_size >= BYTES && given.ss_sp != own.ss_sp);
                provide();
                assert_eq!(now().ss_sp, given.ss_sp);
                OWN.set(None);
                assert_ne!(now().ss_flags & libc::SS_DISABLE, 0);
                // SAFETY: as the runtime had it.
                assert_eq!(unsafe { libc::sigaltstack(&own, std::ptr::null_mut()) }, 0);
            });
        });
    }
}
