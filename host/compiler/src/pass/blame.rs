//! Which pass failed, and on what: kept for the bundle that reproduces it.
use super::PassManager;
use crate::error::{CompileError, Result};
use ge_plugin_api::abi::guard::panic_error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

/// The pass that failed, if one did, shared between a driver and its passes.
#[derive(Clone, Default)]
pub struct Blame(Arc<Mutex<Option<Blamed>>>);

/// A pass that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blamed {
    /// Its name.
    pub pass: String,
    /// The node that it looked at, for a pass over nodes.
    pub node: Option<String>,
}

impl Blame {
    /// The pass that failed first.
    pub fn get(&self) -> Option<Blamed> {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }
    fn set(&self, pass: &str, node: Option<&str>) {
        let mut held = self.0.lock().unwrap_or_else(|e| e.into_inner());
        held.get_or_insert_with(|| Blamed { pass: pass.to_owned(), node: node.map(str::to_owned) });
    }
}

impl PassManager<'_> {
    /// Runs a part of a pass: what fails in it is its fault, a panic an error of it.
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

/// In debug builds `GE_FAULT_PASS=NAME` makes a pass panic: what a bug of ours leads to can be
/// tried from outside.
fn provoke(pass: &str) {
    if cfg!(debug_assertions) && std::env::var_os("GE_FAULT_PASS").is_some_and(|n| n == *pass) {
        panic!("a fault on purpose");
    }
}
