//! Typed values of options, and how each is read from text that the option's kind has accepted.
use std::collections::{BTreeMap, BTreeSet};

/// A typed value that is read from text.
pub trait Value {
    /// Reads a value from text that the option's kind has accepted.
    fn of(text: &str) -> Self;
}

impl Value for bool {
    fn of(text: &str) -> bool {
        matches!(text, "1" | "true")
    }
}
impl Value for i64 {
    fn of(text: &str) -> i64 {
        text.parse().unwrap_or(0)
    }
}
impl Value for u64 {
    fn of(text: &str) -> u64 {
        text.parse().unwrap_or(0)
    }
}
impl Value for String {
    fn of(text: &str) -> String {
        text.to_owned()
    }
}
impl Value for Vec<String> {
    /// Reads `A|B`.
    fn of(text: &str) -> Vec<String> {
        text.split('|').filter(|s| !s.is_empty()).map(str::to_owned).collect()
    }
}
impl Value for Vec<(String, bool)> {
    /// Reads `A:on;B:off`.
    fn of(text: &str) -> Vec<(String, bool)> {
        let one = |s: &str| s.split_once(':').map(|(n, v)| (n.trim().to_owned(), v.trim() == "on"));
        text.split(';').filter(|s| !s.trim().is_empty()).filter_map(one).collect()
    }
}
impl Value for BTreeMap<String, u32> {
    /// Reads `A:2,B:1`.
    fn of(text: &str) -> BTreeMap<String, u32> {
        let one = |s: &str| s.split_once(':').and_then(|(n, c)| Some((n.trim().to_owned(), c.trim().parse().ok()?)));
        text.split(',').filter_map(one).collect()
    }
}
impl Value for BTreeSet<u32> {
    /// Reads `0,2`.
    fn of(text: &str) -> BTreeSet<u32> {
        text.split(',').filter_map(|s| s.trim().parse().ok()).collect()
    }
}
impl Value for Vec<(u32, u32)> {
    /// Reads `0,1|2,0`.
    fn of(text: &str) -> Vec<(u32, u32)> {
        let one = |p: &str| p.split_once(',').and_then(|(a, b)| Some((a.trim().parse().ok()?, b.trim().parse().ok()?)));
        text.split('|').filter_map(one).collect()
    }
}

/// Declares an enumeration by the texts of its values. A text that is not among them, such as an
/// empty one, means the first value.
macro_rules! choices {
    ($($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $value:ident = $text:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$vdoc])* $value,)*
        }
        impl $name {
            /// The texts of the values, in order.
            pub const TEXTS: &'static [&'static str] = &[$($text),*];
            const ALL: &'static [$name] = &[$($name::$value),*];
            /// The text of this value in the option.
            pub fn text(self) -> &'static str {
                $name::TEXTS[self as usize]
            }
        }
        impl Value for $name {
            fn of(text: &str) -> $name {
                let at = $name::TEXTS.iter().position(|t| *t == text).unwrap_or(0);
                $name::ALL[at]
            }
        }
    )*};
}

choices! {
    /// Value of `ge.buildMode`.
    BuildMode {
        /// The option is not set.
        Unset = "",
        /// A complete build.
        Normal = "normal",
        /// A build that stops at a step.
        Tuning = "tuning",
    }
    /// Value of `ge.buildStep`.
    BuildStep {
        /// The option is not set.
        Unset = "",
        /// Stop after the graph was cut into subgraphs, before any engine has seen them.
        BeforeUbMatch = "before_ub_match",
        /// Stop after each engine has changed its subgraphs.
        AfterUbMatch = "after_ub_match",
        /// Stop after the build.
        AfterBuilder = "after_builder",
    }
    /// Value of `ge.event`.
    SyncBy {
        /// Streams are synchronised by events.
        Event = "",
        /// Streams are synchronised by notifies.
        Notify = "notify",
    }
    /// Value of `ge.exec.memoryOptimizationPolicy`.
    MemoryPolicy {
        /// The option is not set.
        Unset = "",
        /// Less memory takes precedence over more concurrency.
        MemoryPriority = "MemoryPriority",
        /// Memory and concurrency are balanced.
        BalancePriority = "BalancePriority",
    }
    /// Value of `ge.exec.precision_mode`.
    Precision {
        /// The default of the SoC.
        Unset = "",
        /// f32 becomes f16 wherever an engine supports it.
        ForceF16 = "force_fp16",
        /// Half-precision types become f32.
        ForceF32 = "force_fp32",
        /// Matrix products read f16 and return f32.
        CubeF16 = "cube_fp16in_fp32out",
        /// f16 where the operator can represent its values in it.
        Mix = "allow_mix_precision",
        /// The same as `Mix`.
        MixF16 = "allow_mix_precision_fp16",
        /// bf16 where the operator can represent its values in it.
        MixBf16 = "allow_mix_precision_bf16",
        /// f16 where no engine supports f32.
        ToF16 = "allow_fp32_to_fp16",
        /// bf16 where no engine supports f32.
        ToBf16 = "allow_fp32_to_bf16",
        /// The model's own types are kept.
        Keep = "must_keep_origin_dtype",
    }
    /// Value of `ge.exec.precision_mode_v2`.
    PrecisionV2 {
        /// The option is not set.
        Unset = "",
        /// Same as `force_fp16`.
        F16 = "fp16",
        /// Same as `must_keep_origin_dtype`.
        Origin = "origin",
        /// Same as `cube_fp16in_fp32out`.
        CubeF16 = "cube_fp16in_fp32out",
        /// Same as `allow_mix_precision_fp16`.
        MixedF16 = "mixed_float16",
        /// Same as `allow_mix_precision_bf16`.
        MixedBf16 = "mixed_bfloat16",
    }
    /// Value of `ge.externalWeight`.
    ExternalWeight {
        /// Weights are stored in the OM.
        Inside = "0",
        /// Each weight is stored in a file of its own.
        Each = "1",
        /// All weights are stored in one file.
        One = "2",
    }
    /// Value of `ge.oo.level`.
    Level {
        /// Only passes that many models need.
        O1 = "O1",
        /// All passes.
        O3 = "O3",
    }
    /// Value of `ge.topoSortingMode`.
    NodeOrder {
        /// Breadth first from the inputs.
        Breadth = "0",
        /// Depth first from the inputs.
        Depth = "1",
        /// Depth first from the outputs.
        ReverseDepth = "2",
        /// The order of the model.
        Stable = "3",
    }
    /// Value of `ge.x.core_type`.
    CoreType {
        /// All AI cores.
        AiCore = "AiCore",
        /// Only vector cores.
        VectorCore = "VectorCore",
    }
    /// Value of `ge.x.event_reuse`.
    EventReuse {
        /// Ids are reused only if the SoC's limit would be exceeded.
        Auto = "auto",
        /// Ids are always reused.
        Always = "always",
        /// Ids are never reused.
        Off = "off",
    }
    /// Value of `ge.x.memory_effort`.
    Effort {
        /// First fit only.
        Fast = "fast",
        /// First fit and small searches.
        Default = "default",
        /// All searches.
        Max = "max",
    }
    /// Value of `ge.x.plan`.
    Aim {
        /// Shortest run time.
        Speed = "speed",
        /// A balance of time and memory.
        Balanced = "balanced",
        /// Least memory.
        Memory = "memory",
    }
}

/// Value of `ge.x.stream_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamMode {
    /// Streams are assigned by engine.
    Engine,
    /// At most this many streams, taken from the parallelism of the graph itself.
    Parallel(usize),
}
impl Value for StreamMode {
    fn of(text: &str) -> StreamMode {
        let width = text.strip_prefix("parallel:").and_then(|n| n.parse().ok()).filter(|n| *n > 0);
        width.map_or(StreamMode::Engine, StreamMode::Parallel)
    }
}
