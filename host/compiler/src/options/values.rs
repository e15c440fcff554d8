//! Typed values of options, and how each is read from text that its kind has let pass.
use std::collections::{BTreeMap, BTreeSet};

/// A value that text stands for.
pub trait Value {
    /// From text that the option's kind has checked.
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
    /// `A|B`.
    fn of(text: &str) -> Vec<String> {
        text.split('|').filter(|s| !s.is_empty()).map(str::to_owned).collect()
    }
}
impl Value for Vec<(String, bool)> {
    /// `A:on;B:off`.
    fn of(text: &str) -> Vec<(String, bool)> {
        let one = |s: &str| s.split_once(':').map(|(n, v)| (n.trim().to_owned(), v.trim() == "on"));
        text.split(';').filter(|s| !s.trim().is_empty()).filter_map(one).collect()
    }
}
impl Value for BTreeMap<String, u32> {
    /// `A:2,B:1`.
    fn of(text: &str) -> BTreeMap<String, u32> {
        let one = |s: &str| s.split_once(':').and_then(|(n, c)| Some((n.trim().to_owned(), c.trim().parse().ok()?)));
        text.split(',').filter_map(one).collect()
    }
}
impl Value for BTreeSet<u32> {
    /// `0,2`.
    fn of(text: &str) -> BTreeSet<u32> {
        text.split(',').filter_map(|s| s.trim().parse().ok()).collect()
    }
}
impl Value for Vec<(u32, u32)> {
    /// `0,1|2,0`.
    fn of(text: &str) -> Vec<(u32, u32)> {
        let one = |p: &str| p.split_once(',').and_then(|(a, b)| Some((a.trim().parse().ok()?, b.trim().parse().ok()?)));
        text.split('|').filter_map(one).collect()
    }
}

/// Declares an enumeration by the texts of its values; the first is what empty text means.
macro_rules! choices {
    ($($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $value:ident = $text:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$vdoc])* $value,)*
        }
        impl $name {
            /// The texts, in order.
            pub const TEXTS: &'static [&'static str] = &[$($text),*];
            const ALL: &'static [$name] = &[$($name::$value),*];
            /// As the option has it.
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
    /// `ge.buildMode`.
    BuildMode {
        /// Nothing was said.
        Unset = "",
        /// A build to the end.
        Normal = "normal",
        /// A build that stops at a step.
        Tuning = "tuning",
    }
    /// `ge.buildStep`.
    BuildStep {
        /// Nothing was said.
        Unset = "",
        /// The graph is cut into subgraphs; no engine has seen them.
        BeforeUbMatch = "before_ub_match",
        /// Each engine has changed its subgraphs.
        AfterUbMatch = "after_ub_match",
        /// The build is done.
        AfterBuilder = "after_builder",
    }
    /// `ge.event`.
    SyncBy {
        /// Events.
        Event = "",
        /// Notifies.
        Notify = "notify",
    }
    /// `ge.exec.memoryOptimizationPolicy`.
    MemoryPolicy {
        /// Nothing was said.
        Unset = "",
        /// Less memory before more concurrency.
        MemoryPriority = "MemoryPriority",
        /// Both.
        BalancePriority = "BalancePriority",
    }
    /// `ge.exec.precision_mode`.
    Precision {
        /// The SoC's default.
        Unset = "",
        /// f32 becomes f16 wherever an engine takes it.
        ForceF16 = "force_fp16",
        /// Half types become f32.
        ForceF32 = "force_fp32",
        /// Matrix products read f16 and give f32.
        CubeF16 = "cube_fp16in_fp32out",
        /// f16 where the operator can hold its numbers.
        Mix = "allow_mix_precision",
        /// The same.
        MixF16 = "allow_mix_precision_fp16",
        /// bf16 where the operator can hold its numbers.
        MixBf16 = "allow_mix_precision_bf16",
        /// f16 where no engine takes f32.
        ToF16 = "allow_fp32_to_fp16",
        /// bf16 where no engine takes f32.
        ToBf16 = "allow_fp32_to_bf16",
        /// The model's own types.
        Keep = "must_keep_origin_dtype",
    }
    /// `ge.exec.precision_mode_v2`.
    PrecisionV2 {
        /// Nothing was said.
        Unset = "",
        /// `force_fp16`.
        F16 = "fp16",
        /// `must_keep_origin_dtype`.
        Origin = "origin",
        /// `cube_fp16in_fp32out`.
        CubeF16 = "cube_fp16in_fp32out",
        /// `allow_mix_precision_fp16`.
        MixedF16 = "mixed_float16",
        /// `allow_mix_precision_bf16`.
        MixedBf16 = "mixed_bfloat16",
    }
    /// `ge.externalWeight`.
    ExternalWeight {
        /// In the OM.
        Inside = "0",
        /// One file each.
        Each = "1",
        /// One file for all.
        One = "2",
    }
    /// `ge.oo.level`.
    Level {
        /// Passes that many models need.
        O1 = "O1",
        /// All passes.
        O3 = "O3",
    }
    /// `ge.topoSortingMode`.
    NodeOrder {
        /// Breadth first from the inputs.
        Breadth = "0",
        /// Depth first from the inputs.
        Depth = "1",
        /// Depth first from the outputs.
        ReverseDepth = "2",
        /// As the model has it.
        Stable = "3",
    }
    /// `ge.x.core_type`.
    CoreType {
        /// All AI cores.
        AiCore = "AiCore",
        /// Vector cores alone.
        VectorCore = "VectorCore",
    }
    /// `ge.x.event_reuse`.
    EventReuse {
        /// Where the SoC's limit would be passed.
        Auto = "auto",
        /// Always.
        Always = "always",
        /// Never.
        Off = "off",
    }
    /// `ge.x.memory_effort`.
    Effort {
        /// First fit alone.
        Fast = "fast",
        /// First fit and small searches.
        Default = "default",
        /// All searches.
        Max = "max",
    }
    /// `ge.x.plan`.
    Aim {
        /// Least time.
        Speed = "speed",
        /// Time and memory.
        Balanced = "balanced",
        /// Least memory.
        Memory = "memory",
    }
}

/// `ge.x.stream_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamMode {
    /// Streams by engine.
    Engine,
    /// At most so many streams from the graph's own parallelism.
    Parallel(usize),
}
impl Value for StreamMode {
    fn of(text: &str) -> StreamMode {
        let width = text.strip_prefix("parallel:").and_then(|n| n.parse().ok()).filter(|n| *n > 0);
        width.map_or(StreamMode::Engine, StreamMode::Parallel)
    }
}
