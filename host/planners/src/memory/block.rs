//! Input and output of an assigner: buffers, blocks, options, plans and errors.

/// A buffer that lives over one half-open interval of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buffer {
    /// The caller's id of the buffer; assigners use it only in errors.
    pub id: u64,
    /// First instant of its lifetime.
    pub lower: u64,
    /// First instant after its lifetime.
    pub upper: u64,
    /// Size in bytes.
    pub size: u64,
    /// Alignment in bytes: the offset is a multiple of it, and the size is rounded up to it.
    pub align: u64,
}

/// A block of a graph: everything that shares one address range and is placed together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// The caller's id of the block; used only in errors.
    pub id: u64,
    /// First instant of its lifetime in a linear order of the nodes.
    pub lower: u64,
    /// First instant after its lifetime in that order.
    pub upper: u64,
    /// Size in bytes.
    pub size: u64,
    /// Alignment in bytes: the offset is a multiple of it, and the size is rounded up to it.
    pub align: u64,
    /// The stream on which it is allocated: [`crate::memory::MaxBlockMemAssigner`] and
    /// [`crate::memory::BinaryBlockMemAssigner`] keep one pool for each stream (facts 2.4).
    pub stream: u32,
    /// If `false`, no other block may use its memory, before or after it.
    pub reuse: bool,
    /// A prescribed offset (pinned block); `None`: the assigner chooses.
    pub fixed: Option<u64>,
}

impl From<&Buffer> for Block {
    fn from(buffer: &Buffer) -> Self {
        Self {
            id: buffer.id,
            lower: buffer.lower,
            upper: buffer.upper,
            size: buffer.size,
            align: buffer.align,
            stream: 0,
            reuse: true,
            fixed: None,
        }
    }
}

/// The result of an assigner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Offset of each block in bytes, in the order of the input. A block of size 0 that is not
    /// pinned is at 0.
    pub offsets: Vec<u64>,
    /// Size of the arena in bytes: the highest end of a block whose size is rounded up to its
    /// alignment.
    pub arena: u64,
    /// Greatest sum of sizes (rounded up to their alignment) that are live at once; no plan can be
    /// smaller.
    pub lower_bound: u64,
    /// Name of the assigner that made it, as `ge inspect` prints it: `max-block`, `binary-block`,
    /// ….
    pub assigner: &'static str,
}

/// How much effort to spend on the search (`ge.x.memory_effort`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MemoryEffort {
    /// Only near-linear assigners.
    Fast,
    /// Adds short searches; meant for compilation.
    #[default]
    Default,
    /// Searches until the lower bound or the capacity is reached or the step budget is spent.
    Max,
}

/// Options of one assigner call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AssignOptions {
    /// How much effort to spend.
    pub effort: MemoryEffort,
    /// Stop as soon as the arena is at most this many bytes. This is not a limit: a larger plan is
    /// still returned, and the caller decides.
    pub capacity: Option<u64>,
    /// Adds the four `binary-block` variants with ranges that the original runs if
    /// `ge.exec.memoryOptimizationPolicy` is `MemoryPriority` (facts 2.3).
    pub memory_priority: bool,
}

/// Callbacks to watch and stop a long run. Both are called from several threads.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// Called with the steps done and the steps allowed.
    pub progress: &'a (dyn Fn(u64, u64) + Sync),
    /// Returns `true` when the caller wants to cancel.
    pub cancel: &'a (dyn Fn() -> bool + Sync),
}

impl Watch<'static> {
    /// Reports nothing and never cancels.
    #[must_use]
    pub fn none() -> Self {
        Self { progress: &|_, _| {}, cancel: &|| false }
    }
}

impl std::fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Watch")
    }
}

/// Why no plan could be returned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AssignError {
    /// A lifetime ends before it begins, or contains no instant.
    #[error("block {id} lives over [{lower}, {upper}), which holds no instant")]
    EmptyLife {
        /// Id of the block.
        id: u64,
        /// First instant of its lifetime.
        lower: u64,
        /// First instant after its lifetime.
        upper: u64,
    },
    /// An alignment is 0.
    #[error("block {id} has alignment 0")]
    ZeroAlign {
        /// Id of the block.
        id: u64,
    },
    /// The sum of all sizes does not fit into 63 bits.
    #[error("the sizes up to block {id} sum to more than 2^63 bytes")]
    TooLarge {
        /// Id of the first block at which the sum is too large.
        id: u64,
    },
    /// There are more blocks, or more pairs that are live together, than the planner can hold.
    #[error("{count} {what} are more than the planner holds")]
    TooMany {
        /// What there are too many of.
        what: &'static str,
        /// Their number.
        count: usize,
    },
    /// A pinned offset is not a multiple of the block's alignment.
    #[error("block {id} is pinned to {offset}, no multiple of {align}")]
    PinnedUnaligned {
        /// Id of the block.
        id: u64,
        /// Its pinned offset.
        offset: u64,
        /// Its alignment.
        align: u64,
    },
    /// Two pinned blocks are live together and overlap.
    #[error("blocks {first} and {second} are pinned over each other while both live")]
    PinnedOverlap {
        /// Id of one block.
        first: u64,
        /// Id of the other block.
        second: u64,
    },
    /// The conflict relation covers a different number of blocks.
    #[error("the relation of conflicts has {relation} blocks, {blocks} were given")]
    RelationSize {
        /// Number of blocks in the relation.
        relation: usize,
        /// Number of blocks given.
        blocks: usize,
    },
    /// The caller cancelled the run.
    #[error("memory planning was cancelled")]
    Cancelled,
    /// The checker rejected the planner's result. This is a defect of the planner; such a plan is
    /// never returned.
    #[error("assigner {assigner} made a wrong plan: {error}")]
    Refused {
        /// Name of the assigner that made the plan.
        assigner: &'static str,
        /// What is wrong with the plan.
        error: crate::memory::check_offsets::OffsetError,
    },
}
