//! What the host sees of a compilation while it runs.
use crate::pass::Blamed;
use ge_ir::Model;
use std::borrow::Cow;

/// What the host wants to know while a compilation runs.
pub trait Observer: Sync {
    /// A stage begins.
    fn stage(&self, name: &'static str, nodes: usize) {
        let _ = (name, nodes);
    }
    /// A stage has ended, or the part of it that was run; `graph` gives the graph that it leaves,
    /// made when it is asked for.
    fn done<'m>(&self, name: &'static str, part: &'static str, graph: &dyn Fn() -> Cow<'m, Model>, micros: u64) {
        let _ = (name, part, graph, micros);
    }
    /// A pass of a stage has changed this graph.
    fn passed(&self, stage: &'static str, pass: &str, graph: &Model) {
        let _ = (stage, pass, graph);
    }
    /// A stage has failed on this graph, in a pass of it if one is known: what the failing pass was
    /// given.
    fn failed(&self, name: &'static str, pass: Option<&Blamed>, graph: &Model) {
        let _ = (name, pass, graph);
    }
    /// Whether a model that was built before will do: false where what the stages leave is to be
    /// seen.
    fn cached(&self) -> bool {
        true
    }
    /// Whether the user wants to stop.
    fn cancelled(&self) -> bool {
        false
    }
}

/// An observer that looks away.
pub struct Silent;
impl Observer for Silent {}
