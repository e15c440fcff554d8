//! The flags of an engine that the stream rules need, and their values for engines known by name
//! (facts 1.3).

/// Flags that the stream rules need. Engines provide them themselves; files can name only known
/// engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineFlags {
    /// Whether streams of the engine hold no nodes of other engines.
    pub independent: bool,
    /// Whether nodes of the engine have no task and need no stream of their own.
    pub skip_assign_stream: bool,
    /// Whether nodes of the engine may go to a predecessor's stream, whatever its engine.
    pub attach: bool,
    /// Decides between candidate streams; lower is better.
    pub compute_cost: u32,
}

impl EngineFlags {
    /// The flags of an engine by name. An unknown engine has no flags and the cost of the core
    /// engine.
    pub fn of(name: &str) -> EngineFlags {
        let row = TABLE.iter().find(|r| r.0 == name).map_or((false, false, false, 1), |r| (r.1, r.2, r.3, r.4));
        EngineFlags { independent: row.0, skip_assign_stream: row.1, attach: row.2, compute_cost: row.3 }
    }
}

/// Name, independent, skip_assign_stream, attach, compute_cost.
const TABLE: &[(&str, bool, bool, bool, u32)] = &[
    ("AIcoreEngine", false, false, false, 1),
    ("VectorEngine", false, false, false, 2),
    ("DSAEngine", false, false, false, 2),
    ("DNN_VM_CUSTOM", false, false, false, 0),
    ("DNN_VM_AICPU", false, false, true, 4),
    ("DNN_VM_AICPU_ASCEND", false, false, true, 3),
    ("DNN_VM_AICPU_FFTS_PLUS", false, false, true, 2),
    ("DNN_VM_AICPU_ASCEND_FFTS_PLUS", false, false, true, 2),
    ("DNN_VM_DVPP", false, false, true, 5),
    ("DNN_VM_RTS", false, false, true, 2),
    ("DNN_VM_RTS_FFTS_PLUS", false, false, true, 2),
    ("DNN_HCCL", true, false, false, 2),
    ("DNN_VM_GE_LOCAL", false, true, true, 9),
    ("DNN_VM_HOST_CPU", false, true, true, 10),
    ("ffts_plus", false, true, true, 1),
];
