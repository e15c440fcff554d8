//! Records which pass failed, and on which node, for the bundle that reproduces the failure.
use super::PassManager;
use crate::error::{CompileError, Result};
use ge_plugin_api::abi::guard::panic_error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

/// The first pass that failed, if any; a driver and its passes share it.
#[derive(Clone, Default)]
pub struct Blame(Arc<Mutex<Option<Blamed>>>);

/// A pass that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blamed {
    /// Name of the pass.
    pub pass: String,
    /// The node that the pass was visiting; `None` for a pass over whole graphs.
    pub node: Option<String>,
}

impl Blame {
    /// Returns the pass that failed first.
    pub fn get(&self) -> Option<Blamed> {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }
    fn set(&self, pass: &str, node: Option<&str>) {
        let mut held = self.0.lock().unwrap_or_else(|e| e.into_inner());
        held.get_or_insert_with(|| Blamed { pass: pass.to_owned(), node: node.map(str::to_owned) });
    }
}

impl PassManager<'_> {
    /// Runs `f` as part of a pass. If `f` fails, the pass is recorded as the one to blame; a panic
    /// in `f` becomes an internal error.
    pub(crate) fn blamed<T>(
        &self,
        stage: &'static str,
        pass: &str,
        node: Option<&str>,
        f: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let out = catch_unwind(AssertUnwindSafe(|| {
            provoke(pass);
            f()
        }));
        let out = out
            .unwrap_or_else(|p| Err(CompileError::internal(stage, panic_error(&format!("pass {pass}"), p).message())));
        out.inspect_err(|_| self.blame().set(pass, node))
    }
}

/// In debug builds `GE_FAULT_PASS=NAME` makes that pass panic, so that the effect of a bug in one
/// of our passes can be tested from outside.
fn provoke(pass: &str) {
    if cfg!(debug_assertions) && std::env::var_os("GE_FAULT_PASS").is_some_and(|n| n == *pass) {
        panic!("a fault on purpose");
    }
}
