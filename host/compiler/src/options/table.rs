//! The table of options: field, type, name, kind, default, scope, readers and one line of help.
//!
//! Names are those of the original (facts 9.2, 9.4); names of our own options begin with `ge.x.`.
use super::values::*;
use super::{Decl, Kind, Scope, SetError, check};
use std::collections::{BTreeMap, BTreeSet};

const BOOL: Kind = Kind::OneOf(&["true", "false"]);
const BIT: Kind = Kind::OneOf(&["0", "1"]);
const OPT_BIT: Kind = Kind::OneOf(&["", "0", "1"]);

/// `field: Type = name, kind, default, scope, reader, help;` declares a field of `Options` and a
/// row of `TABLE`.
macro_rules! options {
    ($($field:ident: $t:ty = $name:literal, $kind:expr, $default:literal, $scope:ident, $reader:literal, $help:literal;)*) => {
        /// All options, by name.
        pub const TABLE: &[Decl] = &[$(Decl {
            name: $name, kind: $kind, default: $default, scope: Scope::$scope, reader: $reader, help: $help,
        }),*];

        /// The resolved options of one compilation.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Options {
            $(#[doc = concat!("`", $name, "`: ", $help, ".")] pub $field: $t,)*
            given: BTreeMap<String, String>,
        }

        impl Default for Options {
            fn default() -> Options {
                Options { $($field: Value::of($default),)* given: BTreeMap::new() }
            }
        }

        impl Options {
            /// Sets a value by the option's name.
            ///
            /// # Errors
            /// Fails if there is no option of this name, or if the option does not accept the
            /// value.
            pub fn set(&mut self, name: &str, value: &str) -> Result<(), SetError> {
                check(name, value)?;
                match name {
                    $($name => self.$field = Value::of(value),)*
                    _ => return Err(SetError::UnknownName { name: name.to_owned() }),
                }
                self.given.insert(name.to_owned(), value.to_owned());
                Ok(())
            }
        }
    };
}

options! {
    ac_parallel_enable: bool = "ac_parallel_enable", OPT_BIT, "", Model, "streams",
        "dynamic graphs of several streams (ge.x.dynamic_multi_stream): whether AI CPU nodes may run beside others";

    build_mode: BuildMode = "ge.buildMode", Kind::OneOf(BuildMode::TEXTS), "", Model, "pipeline",
        "`tuning` stops the build at ge.buildStep";

    build_step: BuildStep = "ge.buildStep", Kind::OneOf(BuildStep::TEXTS), "", Model, "pipeline",
        "where a tuning build stops";

    deterministic: bool = "ge.deterministic", BIT, "0", Model, "session, engines",
        "same bits whatever the split of work";

    dynamic_dims: String = "ge.dynamicDims", Kind::Text, "", Model, "session",
        "sizes for which the model gets a static plan each, one for each open size: `1,20;4,40` (--dynamic-dims)";

    single_stream: bool = "ge.enableSingleStream", BOOL, "false", Model, "streams",
        "everything on one stream";

    sync_by: SyncBy = "ge.event", Kind::OneOf(SyncBy::TEXTS), "", Model, "sync, split",
        "`notify` synchronises streams by notifies instead of events";

    clean_each: bool = "ge.exec.atomicCleanPolicy", BIT, "0", Model, "streams",
        "0: one clean for all atomic outputs, 1: each engine cleans its own";

    no_reuse: bool = "ge.exec.disableReuseMemory", BIT, "0", Model, "conflict, memory",
        "1 gives every tensor memory of its own";

    exclude_engines: Vec<String> = "ge.exec.exclude_engines", Kind::Names, "", Model, "session",
        "engines that take part in no placement: AiCore|AiVector|Dvpp|AiCpuAscend|AiCpu|HostCpu|Hccl|FftsPlus";

    input_reuse: BTreeSet<u32> = "ge.exec.inputReuseMemIndexes", Kind::Indices, "", Model, "memory",
        "graph inputs whose memory others may take once they are read";

    memory_policy: MemoryPolicy = "ge.exec.memoryOptimizationPolicy", Kind::OneOf(MemoryPolicy::TEXTS), "", Model, "streams, memory",
        "MemoryPriority prefers less memory to more concurrency";

    output_in_input: Vec<(u32, u32)> = "ge.exec.outputReuseInputMemIndexes", Kind::IndexPairs, "", Model, "memory",
        "pairs of graph input and output that have the same address";

    output_reuse: BTreeSet<u32> = "ge.exec.outputReuseMemIndexes", Kind::Indices, "", Model, "memory",
        "graph outputs that may take memory that others have left";

    precision_mode: Precision = "ge.exec.precision_mode", Kind::OneOf(Precision::TEXTS), "", Model, "original",
        "which types may replace the model's own; default: allow_mix_precision on Ascend SoCs, must_keep_origin_dtype on sim";

    precision_mode_v2: PrecisionV2 = "ge.exec.precision_mode_v2", Kind::OneOf(PrecisionV2::TEXTS), "", Model, "original",
        "the same under the newer names; one of the two can be set";

    keep_dtype: String = "ge.exec.keep_dtype", Kind::Path, "", Model, "original",
        "file with a node's name on each line: these keep the model's types";

    keep_names: String = "ge.x.keep_dtype", Kind::Text, "", Model, "original",
        "JSON list of nodes that keep the model's types, as `--calibrate` finds them";

    customize_dtypes: String = "ge.customizeDtypes", Kind::Path, "", Model, "original",
        "file with types of nodes and operators: `NODE::InputDtype:float16,OutputDtype:float16`, `OpType::TYPE:InputDtype:…`";

    modify_mixlist: String = "ge.exec.modify_mixlist", Kind::Path, "", Model, "original",
        "JSON file with the operators that allow_mix_precision may and may not lower";

    static_ops_lower_limit: i64 = "ge.exec.static_model_ops_lower_limit", Kind::Int(-1, 1 << 30), "4", Model, "partition",
        "known-shape parts with fewer nodes join their unknown neighbours; -1: all dynamic";

    host_scheduling: u64 = "ge.exec.hostSchedulingMaxThreshold", Kind::Int(0, 1 << 30), "0", Model, "partition",
        "static graphs with fewer nodes, and without branches and loops, are scheduled by the host";

    hybrid: bool = "ge.compileHybridMode", BIT, "0", Model, "session",
        "1: a model with gears runs sizes of no gear, too, by plans that are made as it runs";

    external_weight: ExternalWeight = "ge.externalWeight", Kind::OneOf(ExternalWeight::TEXTS), "0", Model, "session",
        "weights in the OM (0), one file each (1), one file for all (2)";

    base_refreshable: bool = "ge.featureBaseRefreshable", BIT, "0", Model, "conflict",
        "1: the feature map may move between launches; parts of an input that is split without a task get a copy";

    fusion_switch_file: String = "ge.fusionSwitchFile", Kind::Path, "", Model, "pass",
        "file that switches fusions on and off, in atc's two forms";

    cache_dir: String = "ge.graph_compiler_cache_dir", Kind::Path, "", Process, "session",
        "folder of the model cache";

    hcom_parallel: bool = "ge.hcomParallel", BOOL, "false", Model, "streams",
        "successors of fused AllReduce nodes get a stream of their own";

    input_shape: String = "ge.inputShape", Kind::Text, "", Model, "session",
        "shapes of inputs, as --input-shape has them";

    constant_folding: bool = "ge.oo.constantFolding", BOOL, "true", Model, "prepare",
        "constant folding";

    dead_code_elimination: bool = "ge.oo.deadCodeElimination", BOOL, "true", Model, "stage1",
        "removal of nodes that no output needs";

    level: Level = "ge.oo.level", Kind::OneOf(Level::TEXTS), "O3", Model, "pass",
        "passes of this level and below run";

    optimization_switch: Vec<(String, bool)> = "ge.optimizationSwitch", Kind::Switches, "", Model, "pass",
        "passes by name: `PassA:on;PassB:off`; `ge opt --list` prints them";

    stream_max_parallel_num: BTreeMap<String, u32> = "ge.streamMaxParallelNum", Kind::EngineCounts, "", Model, "streams",
        "streams of an engine: `ENGINE:n,ENGINE:n`, 1 where not given";

    tiling_sink: bool = "ge.tiling_schedule_optimize", OPT_BIT, "", Model, "place",
        "1 sinks tiling that reads values to the device";

    node_order: NodeOrder = "ge.topoSortingMode", Kind::OneOf(NodeOrder::TEXTS), "3", Model, "streams",
        "order of nodes that nothing else decides: breadth first, depth first, reverse depth first, as in the model";

    tuning_path: String = "ge.tuningPath", Kind::Path, "", Process, "session",
        "folder to which a tuning stop writes the graph";

    variable_acc: bool = "ge.exec.variable_acc", BOOL, "true", Model, "stage1",
        "format changes move into variables";

    auto_fusion: bool = "ge.x.auto_fusion", BOOL, "true", Model, "original",
        "element-wise chains become one kernel";

    composite_engines: Vec<String> = "ge.x.composite_engines", Kind::Names, "", Model, "session",
        "engines of subgraphs that take part when named: FftsPlus runs chains of kernels slice by slice";

    core_type: CoreType = "ge.x.core_type", Kind::OneOf(CoreType::TEXTS), "AiCore", Model, "session",
        "which cores vector work goes to";

    dynamic_multi_stream: bool = "ge.x.dynamic_multi_stream", BIT, "0", Model, "streams",
        "several streams for dynamic graphs, by engine and label (ENABLE_DYNAMIC_SHAPE_MULTI_STREAM)";

    event_reuse: EventReuse = "ge.x.event_reuse", Kind::OneOf(EventReuse::TEXTS), "auto", Model, "sync",
        "reuse of event ids: when the SoC's limit would be passed, always, or never";

    known_first: bool = "ge.x.known_first", BIT, "0", Model, "partition",
        "1: of a graph with unknown shapes known parts are joined first; they stay known whatever stands around them";

    memory_effort: Effort = "ge.x.memory_effort", Kind::OneOf(Effort::TEXTS), "default", Model, "memory",
        "how hard the memory planner tries";

    no_reuse_ops: String = "ge.x.no_reuse_ops", Kind::Names, "", Model, "memory",
        "nodes or operator types that keep their memory to themselves (OP_NO_REUSE_MEM)";

    plan: Aim = "ge.x.plan", Kind::OneOf(Aim::TEXTS), "balanced", Model, "streams",
        "what streams of parallel:N aim for";

    plugin_call_warn_s: u64 = "ge.x.plugin_call_warn_s", Kind::Int(0, 86_400), "10", Process, "session",
        "a call into a plugin that takes longer, in seconds, is said on stderr while it lasts; 0: never";

    state: String = "ge.x.state", Kind::Text, "", Model, "session",
        "outputs that are inputs of the next step: `OUT:IN,OUT:IN` (--state)";

    stream_mode: StreamMode = "ge.x.stream_mode", Kind::StreamMode, "engine", Model, "streams",
        "streams by engine, or at most N from the graph's own parallelism";

    stream_profile: String = "ge.x.stream_profile", Kind::Path, "", Model, "streams",
        "run times for streams of parallel:N: what `ge bench --per-node --json` wrote";

    tuning_file: String = "ge.x.tuning_file", Kind::Path, "", Model, "session",
        "how kernels are best divided on processors that were measured: what `ge tune` wrote";
}

impl Options {
    /// Options with the given values by name, and the default of every other option.
    ///
    /// # Errors
    /// Fails if there is no option of a name, or if an option does not accept its value.
    pub fn resolve<'v>(given: impl IntoIterator<Item = (&'v String, &'v String)>) -> Result<Options, SetError> {
        let mut out = Options::default();
        given.into_iter().try_for_each(|(name, value)| out.set(name, value))?;
        Ok(out)
    }
    /// The options for a part of known shape: options about the model's own inputs and outputs, or
    /// about stopping a build early, have their defaults.
    #[must_use]
    pub fn of_part(&self) -> Options {
        let plain = Options::default();
        Options {
            input_reuse: plain.input_reuse,
            output_reuse: plain.output_reuse,
            output_in_input: plain.output_in_input,
            build_mode: plain.build_mode,
            build_step: plain.build_step,
            ..self.clone()
        }
    }
    /// The values that were given, as text by name. They are stored in the OM.
    pub fn given(&self) -> &BTreeMap<String, String> {
        &self.given
    }
}

/// Options of the original that have no meaning here, each with the reason. They are accepted, and
/// the user is told the reason.
pub const FOREIGN: &[(&str, &str)] = &[
    ("ge.aicoreNum", "the SoC's file says how many cores there are"),
    ("ge.debugDir", "no files of debugging are written while a model is compiled; `--dump` writes stages"),
    ("ge.exec.enableDump", "`ge run --dump-tensors` writes tensors"),
    ("ge.exec.opWaitTimeout", "the simulator tells a wait that never ends by its cause, not by time"),
    ("ge.exec.op_timeout", "a kernel of the simulator ends by itself"),
    ("ge.exec.profilingMode", "`ge run --profile` writes a profile"),
    ("ge.exec.rankId", "`ge run --ranks` starts all ranks"),
    ("ge.exec.rankTableFile", "`ge run --ranks` starts all ranks"),
    ("ge.graphMemoryMaxSize", "a model takes what its plan needs; more than the SoC has is refused"),
    ("ge.jobType", "there is one kind of job"),
    ("ge.mdl_bank_path", "builds are not tuned from a bank"),
    ("ge.opSelectImplmode", "each engine has one implementation of an operator for each type"),
    ("ge.op_bank_path", "builds are not tuned from a bank"),
    ("ge.op_compiler_cache_dir", "kernels are made with their model: `ge.graph_compiler_cache_dir` keeps whole models"),
    (
        "ge.op_compiler_cache_mode",
        "kernels are made with their model: `ge.graph_compiler_cache_dir` keeps whole models",
    ),
    ("ge.op_debug_level", "no code is generated that could be debugged"),
    ("ge.session_device_id", "the device is chosen when a model is loaded"),
    ("ge.socVersion", "the SoC is chosen by `--soc`"),
    ("ge.variableMemoryMaxSize", "variables take what they need; more than the SoC has is refused"),
];
