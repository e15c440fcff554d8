//! The table: name, kind, default, one line of help. Names are the original's (facts 9.2, 9.4), ours begin with `ge.x.`.

/// What values an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One of these.
    OneOf(&'static [&'static str]),
    /// A whole number within bounds, or empty where the default is empty.
    Int(i64, i64),
    /// Any text.
    Text,
    /// A path.
    Path,
    /// `Name:on;Name:off`.
    Switches,
    /// `ENGINE:n,ENGINE:n`.
    EngineCounts,
    /// `engine` or `parallel:N` with N from 1 to 64.
    StreamMode,
    /// Whole numbers separated by commas.
    Indices,
    /// `i,o|i,o`.
    IndexPairs,
    /// `A|B`: users' names of engines.
    Names,
}

impl Kind {
    /// None if the value is legal, else what is expected.
    pub fn refuse(self, v: &str) -> Option<String> {
        let number = |s: &str| s.trim().parse::<u32>().is_ok();
        let ok = match self {
            Kind::OneOf(list) => {
                return if list.contains(&v) {
                    None
                } else {
                    Some(format!(
                        "one of {}",
                        list.iter()
                            .map(|l| if l.is_empty() { "\"\"".to_owned() } else { format!("`{l}`") })
                            .collect::<Vec<_>>()
                            .join(", ")
                    ))
                };
            }
            Kind::Int(min, max) => {
                return if v.is_empty() || v.parse::<i64>().is_ok_and(|n| (min..=max).contains(&n)) {
                    None
                } else {
                    Some(format!("a whole number from {min} to {max}"))
                };
            }
            Kind::Text | Kind::Path | Kind::Names => true,
            Kind::Switches => v.split(';').filter(|s| !s.trim().is_empty()).all(|s| {
                s.split_once(':').is_some_and(|(n, o)| !n.trim().is_empty() && matches!(o.trim(), "on" | "off"))
            }),
            Kind::EngineCounts => {
                v.is_empty()
                    || v.split(',').all(|s| {
                        s.split_once(':')
                            .is_some_and(|(n, c)| !n.trim().is_empty() && c.trim().parse::<u32>().is_ok_and(|c| c > 0))
                    })
            }
            Kind::StreamMode => {
                v == "engine"
                    || v.strip_prefix("parallel:")
                        .is_some_and(|n| n.parse::<u32>().is_ok_and(|n| (1..=64).contains(&n)))
            }
            Kind::Indices => v.is_empty() || v.split(',').all(number),
            Kind::IndexPairs => {
                v.is_empty() || v.split('|').all(|p| p.split_once(',').is_some_and(|(a, b)| number(a) && number(b)))
            }
        };
        if ok {
            return None;
        }
        Some(
            match self {
                Kind::Switches => "`PassA:on;PassB:off`",
                Kind::EngineCounts => "`ENGINE:n,ENGINE:n` with n of at least 1",
                Kind::StreamMode => "`engine` or `parallel:N` with N from 1 to 64",
                Kind::Indices => "whole numbers separated by commas",
                _ => "`in,out|in,out`",
            }
            .to_owned(),
        )
    }
}

/// One option.
#[derive(Clone, Copy, Debug)]
pub struct Decl {
    /// Name.
    pub name: &'static str,
    /// Values.
    pub kind: Kind,
    /// Default.
    pub default: &'static str,
    /// One line of help.
    pub help: &'static str,
}

const BOOL: Kind = Kind::OneOf(&["true", "false"]);
const BIT: Kind = Kind::OneOf(&["0", "1"]);
const OPT_BIT: Kind = Kind::OneOf(&["", "0", "1"]);

const fn d(name: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Decl {
    Decl { name, kind, default, help }
}

/// All options, by name.
pub const TABLE: &[Decl] = &[
    d("ac_parallel_enable", OPT_BIT, "", "dynamic graphs: whether AI CPU nodes may run beside others"),
    d("ge.buildMode", Kind::OneOf(&["", "normal", "tuning"]), "", "`tuning` stops the build at ge.buildStep"),
    d(
        "ge.buildStep",
        Kind::OneOf(&["", "before_ub_match", "after_ub_match", "after_builder"]),
        "",
        "where a tuning build stops",
    ),
    d("ge.deterministic", BIT, "0", "same bits whatever the split of work"),
    d(
        "ge.dynamicDims",
        Kind::Text,
        "",
        "sizes for which the model gets a static plan each, one for each open size: `1,20;4,40` (--dynamic-dims)",
    ),
    d("ge.enableSingleStream", BOOL, "false", "everything on one stream"),
    d("ge.event", Kind::OneOf(&["", "notify"]), "", "`notify` synchronises streams by notifies instead of events"),
    d("ge.exec.atomicCleanPolicy", BIT, "0", "0: one clean for all atomic outputs, 1: each engine cleans its own"),
    d("ge.exec.disableReuseMemory", BIT, "0", "1 gives every tensor memory of its own"),
    d(
        "ge.exec.exclude_engines",
        Kind::Names,
        "",
        "engines that take part in no placement: AiCore|AiVector|Dvpp|AiCpuAscend|AiCpu|HostCpu|Hccl|FftsPlus",
    ),
    d(
        "ge.exec.inputReuseMemIndexes",
        Kind::Indices,
        "",
        "graph inputs whose memory others may take once they are read",
    ),
    d(
        "ge.exec.memoryOptimizationPolicy",
        Kind::OneOf(&["", "MemoryPriority", "BalancePriority"]),
        "",
        "MemoryPriority prefers less memory to more concurrency",
    ),
    d(
        "ge.exec.outputReuseInputMemIndexes",
        Kind::IndexPairs,
        "",
        "pairs of graph input and output that have the same address",
    ),
    d("ge.exec.outputReuseMemIndexes", Kind::Indices, "", "graph outputs that may take memory that others have left"),
    d(
        "ge.exec.precision_mode",
        Kind::OneOf(&[
            "",
            "force_fp16",
            "force_fp32",
            "cube_fp16in_fp32out",
            "allow_mix_precision",
            "allow_mix_precision_fp16",
            "allow_mix_precision_bf16",
            "allow_fp32_to_fp16",
            "allow_fp32_to_bf16",
            "must_keep_origin_dtype",
        ]),
        "",
        "which types may replace the model's own; default: allow_mix_precision on Ascend SoCs, must_keep_origin_dtype on sim",
    ),
    d(
        "ge.exec.precision_mode_v2",
        Kind::OneOf(&["", "fp16", "origin", "cube_fp16in_fp32out", "mixed_float16", "mixed_bfloat16"]),
        "",
        "the same under the newer names; one of the two can be set",
    ),
    d("ge.exec.keep_dtype", Kind::Path, "", "file with a node's name on each line: these keep the model's types"),
    d("ge.x.keep_dtype", Kind::Text, "", "JSON list of nodes that keep the model's types, as `--calibrate` finds them"),
    d(
        "ge.customizeDtypes",
        Kind::Path,
        "",
        "file with types of nodes and operators: `NODE::InputDtype:float16,OutputDtype:float16`, `OpType::TYPE:InputDtype:…`",
    ),
    d(
        "ge.exec.modify_mixlist",
        Kind::Path,
        "",
        "JSON file with the operators that allow_mix_precision may and may not lower",
    ),
    d(
        "ge.exec.static_model_ops_lower_limit",
        Kind::Int(-1, 1 << 30),
        "4",
        "known-shape parts with fewer nodes join their unknown neighbours; -1: all dynamic",
    ),
    d(
        "ge.exec.hostSchedulingMaxThreshold",
        Kind::Int(0, 1 << 30),
        "0",
        "static graphs with fewer nodes are scheduled by the host",
    ),
    d(
        "ge.externalWeight",
        Kind::OneOf(&["0", "1", "2"]),
        "0",
        "weights in the OM (0), one file each (1), one file for all (2)",
    ),
    d(
        "ge.featureBaseRefreshable",
        BIT,
        "0",
        "1: the feature map may move between launches; parts of an input that is split without a task get a copy",
    ),
    d("ge.fusionSwitchFile", Kind::Path, "", "file that switches fusions on and off, in atc's two forms"),
    d("ge.graph_compiler_cache_dir", Kind::Path, "", "folder of the model cache"),
    d("ge.hcomParallel", BOOL, "false", "successors of fused AllReduce nodes get a stream of their own"),
    d("ge.inputShape", Kind::Text, "", "shapes of inputs, as --input-shape has them"),
    d("ge.oo.constantFolding", BOOL, "true", "constant folding"),
    d("ge.oo.deadCodeElimination", BOOL, "true", "removal of nodes that no output needs"),
    d("ge.oo.level", Kind::OneOf(&["O1", "O3"]), "O3", "passes of this level and below run"),
    d("ge.optimizationSwitch", Kind::Switches, "", "passes by name: `PassA:on;PassB:off`; `ge opt --list` prints them"),
    d(
        "ge.streamMaxParallelNum",
        Kind::EngineCounts,
        "",
        "streams of an engine: `ENGINE:n,ENGINE:n`, 1 where not given",
    ),
    d("ge.tiling_schedule_optimize", OPT_BIT, "", "1 sinks tiling that reads values to the device"),
    d(
        "ge.topoSortingMode",
        Kind::OneOf(&["0", "1", "2", "3"]),
        "1",
        "order of nodes: breadth first, depth first, reverse depth first, stable",
    ),
    d("ge.tuningPath", Kind::Path, "", "folder to which a tuning stop writes the graph"),
    d("ge.variable_acc", BOOL, "true", "format changes move into variables"),
    d("ge.x.auto_fusion", BOOL, "true", "element-wise chains become one kernel"),
    d(
        "ge.x.composite_engines",
        Kind::Names,
        "",
        "engines of subgraphs that take part when named: FftsPlus runs chains of kernels slice by slice",
    ),
    d("ge.x.core_type", Kind::OneOf(&["AiCore", "VectorCore"]), "AiCore", "which cores vector work goes to"),
    d("ge.x.dynamic_multi_stream", BIT, "0", "several streams for dynamic graphs (ENABLE_DYNAMIC_SHAPE_MULTI_STREAM)"),
    d(
        "ge.x.event_reuse",
        Kind::OneOf(&["auto", "always", "off"]),
        "auto",
        "reuse of event ids: when the SoC's limit would be passed, always, or never",
    ),
    d("ge.x.memory_effort", Kind::OneOf(&["fast", "default", "max"]), "default", "how hard the memory planner tries"),
    d(
        "ge.x.no_reuse_ops",
        Kind::Names,
        "",
        "nodes or operator types that keep their memory to themselves (OP_NO_REUSE_MEM)",
    ),
    d("ge.x.plan", Kind::OneOf(&["speed", "balanced", "memory"]), "balanced", "what streams of parallel:N aim for"),
    d(
        "ge.x.plugin_call_warn_s",
        Kind::Int(0, 86_400),
        "10",
        "a call into a plugin that takes longer, in seconds, is said on stderr while it lasts; 0: never",
    ),
    d("ge.x.state", Kind::Text, "", "outputs that are inputs of the next step: `OUT:IN,OUT:IN` (--state)"),
    d(
        "ge.x.stream_mode",
        Kind::StreamMode,
        "engine",
        "streams by engine, or at most N from the graph's own parallelism",
    ),
    d(
        "ge.x.stream_profile",
        Kind::Path,
        "",
        "run times for streams of parallel:N: what `ge bench --per-node --json` wrote",
    ),
];

/// An option by name.
pub fn find(name: &str) -> Option<&'static Decl> {
    TABLE.iter().find(|d| d.name == name)
}
