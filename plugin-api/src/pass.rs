//! Passes that plugins bring: on a whole graph, at a stage, at a level.
use crate::abi::table::abi_object;
use crate::abi::{RResult, RString, RVec, StableAbi};
use crate::diagnostic::{Error, Result};
use crate::open_code;
use crate::patch::{Edit, Patch};
use crate::view::{Graph, RawGraph};

open_code! {
    /// Where a custom pass runs (facts 9.10).
    pub struct PassStage: u8 {
        /// Before shapes are inferred.
        BEFORE_INFER_SHAPE = 0 "BeforeInferShape",
        /// After shapes are inferred.
        AFTER_INFER_SHAPE = 1 "AfterInferShape",
        /// After logical streams are assigned: may set `_stream_id` attributes only.
        AFTER_ASSIGN_LOGIC_STREAM = 2 "AfterAssignLogicStream",
        /// After the built-in fusions.
        AFTER_BUILTIN_FUSION_PASS = 3 "AfterBuiltinFusionPass",
        /// After the original graph is optimised.
        AFTER_ORIGIN_GRAPH_OPTIMIZE = 4 "AfterOriginGraphOptimize",
        /// Where the engines optimise the original graph: fusions that an engine's library brings
        /// for kernels of its own. They do not run where every engine of that library is excluded.
        OPTIMIZE_ORIGINAL_GRAPH = 6 "OptimizeOriginalGraph",
        /// After precision is settled and before formats are: auto fusion, which `ge.x.auto_fusion`
        /// switches.
        AFTER_PRECISION_REFINE = 7 "AfterPrecisionRefine",
        /// Where the engines optimise the whole graph again, placed and merged: what an engine's
        /// library does with nodes of its own. They do not run where every engine of that library
        /// is excluded.
        OPTIMIZE_WHOLE_GRAPH = 8 "OptimizeWholeGraph",
        /// Where engines optimise their subgraphs, one after the other or side by side: what an
        /// engine's library fuses in the types and formats that are settled, between the tuning
        /// stops `before_ub_match` and `after_ub_match`. A model of open sizes has no subgraphs:
        /// there the whole graph is seen. They do not run where every engine of that library is
        /// excluded, and `ge.x.auto_fusion` switches them.
        OPTIMIZE_FUSED_GRAPH = 9 "OptimizeFusedGraph",
    }
}

open_code! {
    /// Level of a pass: it runs at every level at or above (facts 4.1).
    pub struct PassLevel: u8 {
        /// Needed for right results; no level or switch turns it off.
        O0 = 0 "O0",
        /// Basic.
        O1 = 1 "O1",
        /// Further.
        O2 = 2 "O2",
        /// All.
        O3 = 3 "O3",
    }
}

/// What a pass is.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, StableAbi)]
pub struct PassInfo {
    /// Name (`GeluFusionPass`).
    pub name: RString,
    /// The stage of the compilation that it runs in.
    pub stage: PassStage,
    /// Level.
    pub level: PassLevel,
    /// One line of what it does.
    pub help: RString,
}

impl PassInfo {
    /// A pass by name, stage, level and one line of help.
    pub fn new(name: &str, stage: PassStage, level: PassLevel, help: &str) -> PassInfo {
        PassInfo { name: name.into(), stage, level, help: help.into() }
    }
}

/// A pass over a graph. It records edits; the host applies them whole or not at all.
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
    /// What it is.
    fn info(&self) -> PassInfo;
    /// Looks at a graph (root and each subgraph in turn) and records edits.
    /// # Errors
    /// What the pass cannot cope with; the compilation ends with it. A graph that the pass leaves
    /// as it is, is no error.
    fn run(&self, graph: &Graph<'_>, patch: &mut Patch) -> Result<()>;
}

/// A pass made of a function, by [`crate::register_pass!`].
pub struct FnPass {
    /// Name.
    pub name: &'static str,
    /// The stage of the compilation that it runs in.
    pub stage: PassStage,
    /// Level.
    pub level: PassLevel,
    /// One line of what it does.
    pub help: &'static str,
    /// Looks at a graph and records edits.
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
    /// A [`Pass`] of a plugin.
    object PassObject of dyn Pass;
    /// ABI function table of [`Pass`].
    table PassTable, PassTableRef;
    /// What it is.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    call info() -> Result<PassInfo> => RResult<PassInfo, Error> = |pass| Ok(pass.info());
    /// Edits that it records for a graph.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    [last_prefix_field]
    call run(graph: &Graph<'_> => RawGraph) -> Result<Vec<Edit>> => RResult<RVec<Edit>, Error> = |pass| {
        let mut patch = Patch::new(&graph);
        pass.run(&graph, &mut patch)?;
        Ok(patch.into_edits().into())
    };
}
