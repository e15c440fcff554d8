//! Graph passes that plugins provide. Each runs on one graph at a time, at a stage and level.
use crate::abi::table::abi_object;
use crate::abi::{RResult, RString, RVec, StableAbi};
use crate::diagnostic::{Error, Result};
use crate::open_code;
use crate::patch::{Edit, Patch};
use crate::view::{Graph, RawGraph};

open_code! {
    /// The stage at which a custom pass runs (facts 9.10).
    pub struct PassStage: u8 {
        /// Before shapes are inferred.
        BEFORE_INFER_SHAPE = 0 "BeforeInferShape",
        /// After shapes are inferred.
        AFTER_INFER_SHAPE = 1 "AfterInferShape",
        /// After logical streams are assigned. Passes may only set `_stream_id` attributes.
        AFTER_ASSIGN_LOGIC_STREAM = 2 "AfterAssignLogicStream",
        /// After the built-in fusions.
        AFTER_BUILTIN_FUSION_PASS = 3 "AfterBuiltinFusionPass",
        /// After the original graph is optimised.
        AFTER_ORIGIN_GRAPH_OPTIMIZE = 4 "AfterOriginGraphOptimize",
        /// Where the engines optimise the original graph: fusions that an engine's library provides
        /// for its own kernels. They do not run if every engine of that library is excluded.
        OPTIMIZE_ORIGINAL_GRAPH = 6 "OptimizeOriginalGraph",
        /// After precision is settled and before formats are: auto fusion, which `ge.x.auto_fusion`
        /// switches on and off.
        AFTER_PRECISION_REFINE = 7 "AfterPrecisionRefine",
        /// Where the engines optimise the whole graph again, after its nodes are placed on engines
        /// and its subgraphs are merged: what an engine's library does with its own nodes. They do
        /// not run if every engine of that library is excluded.
        OPTIMIZE_WHOLE_GRAPH = 8 "OptimizeWholeGraph",
        /// Where the engines optimise their subgraphs, one after the other or in parallel: fusions
        /// that an engine's library makes once types and formats are settled, between the tuning
        /// stops `before_ub_match` and `after_ub_match`. A model with unknown sizes has no
        /// subgraphs; there the passes see the whole graph. They do not run if every engine of that
        /// library is excluded, and `ge.x.auto_fusion` switches them on and off.
        OPTIMIZE_FUSED_GRAPH = 9 "OptimizeFusedGraph",
    }
}

open_code! {
    /// Lowest optimisation level at which a pass runs; it also runs at all higher ones (facts 4.1).
    pub struct PassLevel: u8 {
        /// Needed for correct results; no level or switch turns it off.
        O0 = 0 "O0",
        /// Basic optimisations.
        O1 = 1 "O1",
        /// Further optimisations.
        O2 = 2 "O2",
        /// All optimisations.
        O3 = 3 "O3",
    }
}

/// Description of a pass.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, StableAbi)]
pub struct PassInfo {
    /// Name, unique within the plugin (`GeluFusionPass`).
    pub name: RString,
    /// The compilation stage at which it runs.
    pub stage: PassStage,
    /// The lowest optimisation level at which it runs.
    pub level: PassLevel,
    /// One line that says what the pass does.
    pub help: RString,
}

impl PassInfo {
    /// Describes a pass by name, stage, level and one line of help.
    pub fn new(name: &str, stage: PassStage, level: PassLevel, help: &str) -> PassInfo {
        PassInfo { name: name.into(), stage, level, help: help.into() }
    }
}

/// A pass over a graph. It records edits, which the host applies as a whole or not at all.
/// # Examples
/// ```
/// use ge_plugin_api::pass::{Pass, PassInfo, PassLevel, PassStage};
/// use ge_plugin_api::patch::Patch;
/// use ge_plugin_api::view::Graph;
///
/// /// `Abs(Abs(x))` becomes `Abs(x)`.
/// struct DoubleAbsPass;
///
/// impl Pass for DoubleAbsPass {
///     fn info(&self) -> PassInfo {
///         PassInfo::new("DoubleAbsPass", PassStage::AFTER_INFER_SHAPE, PassLevel::O1, "Abs(Abs(x)) becomes Abs(x)")
///     }
///     fn run(&self, graph: &Graph<'_>, patch: &mut Patch) -> ge_plugin_api::Result<()> {
///         for outer in graph.nodes_of(&["Abs"]) {
///             if let Some(inner) = outer.input(0).filter(|v| graph.node(v.node).op() == "Abs") {
///                 patch.replace_uses(outer.value(0), inner);
///                 patch.remove(outer.id());
///             }
///         }
///         Ok(())
///     }
/// }
/// assert_eq!(DoubleAbsPass.info().name.as_str(), "DoubleAbsPass");
/// ```
pub trait Pass: Send + Sync {
    /// Name, stage, level and help of the pass.
    fn info(&self) -> PassInfo;
    /// Looks at one graph (the root graph and each subgraph in turn) and records edits.
    /// # Errors
    /// Returns an error if the pass cannot handle the graph; the compilation then fails. Leaving
    /// the graph unchanged is not an error.
    fn run(&self, graph: &Graph<'_>, patch: &mut Patch) -> Result<()>;
}

/// A pass made from a function; see [`crate::register_pass!`].
pub struct FnPass {
    /// Name, unique within the plugin.
    pub name: &'static str,
    /// The compilation stage at which it runs.
    pub stage: PassStage,
    /// The lowest optimisation level at which it runs.
    pub level: PassLevel,
    /// One line that says what the pass does.
    pub help: &'static str,
    /// Looks at one graph and records edits.
    pub run: fn(&Graph<'_>, &mut Patch) -> Result<()>,
}
impl Pass for FnPass {
    fn info(&self) -> PassInfo {
        PassInfo::new(self.name, self.stage, self.level, self.help)
    }
    fn run(&self, graph: &Graph<'_>, patch: &mut Patch) -> Result<()> {
        (self.run)(graph, patch)
    }
}

abi_object! {
    /// Handle by which the host calls a plugin's [`Pass`].
    object PassObject of dyn Pass;
    /// ABI function table of [`Pass`].
    table PassTable, PassTableRef;
    /// Name, stage, level and help of the pass.
    ///
    /// # Errors
    /// Returns `panic` if the plugin panicked.
    call info() -> Result<PassInfo> => RResult<PassInfo, Error> = |pass| Ok(pass.info());
    /// The edits that the pass records for a graph.
    ///
    /// # Errors
    /// Returns the plugin's error, or `panic` if the plugin panicked.
    [last_prefix_field]
    call run(graph: &Graph<'_> => RawGraph) -> Result<Vec<Edit>> => RResult<RVec<Edit>, Error> = |pass| {
        let mut patch = Patch::new(&graph);
        pass.run(&graph, &mut patch)?;
        Ok(patch.into_edits().into())
    };
}
