//! The interface through which the host observes a running compilation.
use crate::pass::Blamed;
use ge_ir::Model;
use std::borrow::Cow;

/// Callbacks and queries of the host while a compilation runs. Every method has a default that does
/// nothing.
pub trait Observer: Sync {
    /// A stage begins; `nodes` is the number of nodes in the model.
    fn stage(&self, name: &'static str, nodes: usize) {
        let _ = (name, nodes);
    }
    /// A stage, or the named `part` of it, has ended after `micros` microseconds. `graph` returns
    /// the resulting graph and builds it only when called.
    fn done<'m>(&self, name: &'static str, part: &'static str, graph: &dyn Fn() -> Cow<'m, Model>, micros: u64) {
        let _ = (name, part, graph, micros);
    }
    /// The pass `pass` of a stage has changed the model; `graph` is the result.
    fn passed(&self, stage: &'static str, pass: &str, graph: &Model) {
        let _ = (stage, pass, graph);
    }
    /// A stage has failed, in the pass `pass` if it is known. `graph` is the graph that the failing
    /// pass was given.
    fn failed(&self, name: &'static str, pass: Option<&Blamed>, graph: &Model) {
        let _ = (name, pass, graph);
    }
    /// Whether a model from the cache may be used instead of compiling. Return false if the results
    /// of the stages must be seen.
    fn cached(&self) -> bool {
        true
    }
    /// Whether the user wants to stop.
    fn cancelled(&self) -> bool {
        false
    }
}

/// An observer that ignores every report.
pub struct Silent;
impl Observer for Silent {}
