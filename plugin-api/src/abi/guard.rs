//! `guard`: no panic crosses the border. Every exported function runs inside it.
use super::RResult;
use crate::diagnostic::{Error, ErrorKind};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static LAST_PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Sets this library's panic hook: message and place are kept for the error that the guard makes, nothing is printed.
/// Each library has its own standard library, hence its own hook.
pub fn install_panic_hook() {
    std::panic::set_hook(Box::new(|info| {
        let what = payload_text(info.payload());
        let place = info.location().map(|l| format!(" at {}:{}", l.file(), l.line())).unwrap_or_default();
        let _ = LAST_PANIC.try_with(|p| *p.borrow_mut() = Some(format!("{what}{place}")));
    }));
}

fn payload_text(payload: &(dyn std::any::Any + Send)) -> String {
    if let Some(s) = payload.downcast_ref::<&str>() {
        (*s).to_owned()
    } else if let Some(s) = payload.downcast_ref::<String>() {
        s.clone()
    } else {
        "panic without a message".to_owned()
    }
}

/// The error of a caught panic. The payload is forgotten: its drop could panic again.
pub fn panic_error(what: &str, payload: Box<dyn std::any::Any + Send>) -> Error {
    let text =
        LAST_PANIC.try_with(|p| p.borrow_mut().take()).ok().flatten().unwrap_or_else(|| payload_text(payload.as_ref()));
    std::mem::forget(payload);
    Error::new(ErrorKind::PANIC, format!("panic in {what}: {text}"))
}

/// Runs an exported function: an error or a panic becomes an error value.
pub fn guard<T>(what: &str, f: impl FnOnce() -> Result<T, Error>) -> RResult<T, Error> {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(v)) => RResult::ROk(v),
        Ok(Err(e)) => RResult::RErr(e),
        Err(p) => RResult::RErr(panic_error(what, p)),
    }
}

/// Runs an exported function that cannot say an error; a panic gives `fallback`.
pub fn guard_value<T>(fallback: T, f: impl FnOnce() -> T) -> T {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(v) => v,
        Err(p) => {
            std::mem::forget(p);
            fallback
        }
    }
}

/// Runs a drop: a panic is swallowed, its payload forgotten.
pub fn guard_drop(f: impl FnOnce()) {
    guard_value((), f)
}

#[cfg(test)]
mod tests {
    use super::*;
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                panic!("drop of the payload");
            }
        }
    }
    #[test]
    fn panics_become_errors_even_with_a_payload_that_panics() {
        let r = guard::<()>("Pass::run", || panic!("unlucky {}", 7));
        let RResult::RErr(e) = r else { panic!("must be an error") };
        assert!(e.to_string().contains("panic in Pass::run") && e.to_string().contains("unlucky 7"), "{e}");
        let r = guard::<()>("x", || std::panic::panic_any(Bomb));
        assert!(matches!(r, RResult::RErr(_)));
    }
}
