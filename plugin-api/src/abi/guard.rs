//! `guard`: every exported function runs inside it, so that no panic crosses the ABI boundary.
use super::RResult;
use crate::diagnostic::{Error, ErrorKind};
use crate::services::{Level, log};
use std::cell::RefCell;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

/// The message of a thread's last panic. If the thread ends with a panic that no guard has caught,
/// as a thread that the plugin started itself may do, dropping this logs the message.
struct Last(Option<String>);

impl Drop for Last {
    fn drop(&mut self) {
        if let (Some(what), Some(library)) = (self.0.take(), LIBRARY.get()) {
            let thread = std::thread::current().name().map_or(String::new(), |n| format!(" `{n}`"));
            log(Level::WARN, &format!("plugin `{library}`: a thread{thread} of its own panicked: {what}"));
        }
    }
}

thread_local! {
    static LAST_PANIC: RefCell<Last> = const { RefCell::new(Last(None)) };
}

/// Name of the plugin that this library is.
static LIBRARY: OnceLock<&'static str> = OnceLock::new();

/// Sets the name of the plugin that this library is.
pub fn set_library(name: &'static str) {
    let _ = LIBRARY.set(name);
}

/// Sets this library's panic hook. It keeps the message and its source location for the error that
/// the guard makes, and prints nothing but the backtrace that `RUST_BACKTRACE` asks for. Each
/// library has its own standard library and therefore its own hook.
pub fn install_panic_hook() {
    let traced = std::env::var_os("RUST_BACKTRACE").is_some_and(|v| v != "0");
    std::panic::set_hook(Box::new(move |info| {
        let what = payload_text(info.payload());
        let place = info.location().map(|l| format!(" at {}:{}", l.file(), l.line())).unwrap_or_default();
        let what = format!("{what}{place}");
        if traced {
            let whose = LIBRARY.get().map_or(String::new(), |l| format!(" in plugin `{l}`"));
            let trace = std::backtrace::Backtrace::force_capture();
            let _ = writeln!(std::io::stderr().lock(), "panic{whose}: {what}\n{trace}");
        }
        let _ = LAST_PANIC.try_with(|p| p.borrow_mut().0 = Some(what));
    }));
}

/// Takes the message of this thread's last panic, which has been caught.
fn take_last() -> Option<String> {
    LAST_PANIC.try_with(|p| p.borrow_mut().0.take()).ok().flatten()
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

/// The error for a caught panic. The payload is leaked on purpose, because dropping it could panic
/// again.
pub fn panic_error(what: &str, payload: Box<dyn std::any::Any + Send>) -> Error {
    let text = take_last().unwrap_or_else(|| payload_text(payload.as_ref()));
    std::mem::forget(payload);
    Error::new(ErrorKind::PANIC, format!("panic in {what}: {text}"))
}

/// Runs an exported function and turns an error or a panic into an error value.
pub fn guard<T>(what: &str, f: impl FnOnce() -> Result<T, Error>) -> RResult<T, Error> {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(v)) => RResult::ROk(v),
        Ok(Err(e)) => RResult::RErr(e),
        Err(p) => RResult::RErr(panic_error(what, p)),
    }
}

/// Runs an exported function that cannot return an error; after a panic it returns `fallback`.
pub fn guard_value<T>(fallback: T, f: impl FnOnce() -> T) -> T {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(v) => v,
        Err(p) => {
            std::mem::forget(p);
            take_last();
            fallback
        }
    }
}

/// Runs a drop; a panic is swallowed and its payload leaked.
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
