//! What an assigner takes and gives: buffers, blocks, options, plans and errors.

/// A buffer that lives over one half-open interval of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buffer {
    /// The caller's name of the buffer; assigners use it in errors only.
    pub id: u64,
    /// First instant of its life.
    pub lower: u64,
    /// First instant after its life.
    pub upper: u64,
    /// Bytes.
    pub size: u64,
    /// Its offset is a multiple of this; sizes are rounded up to it.
    pub align: u64,
}

/// A block of a graph: what shares one address range, placed as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// The caller's name of the block; used in errors only.
    pub id: u64,
    /// First instant of its life in a linear order of the nodes.
    pub lower: u64,
    /// First instant after its life in that order.
    pub upper: u64,
    /// Bytes.
    pub size: u64,
    /// Its offset is a multiple of this; sizes are rounded up to it.
    pub align: u64,
    /// The stream it is taken on: [`crate::memory::MaxBlockMemAssigner`] and
    /// [`crate::memory::BinaryBlockMemAssigner`] keep one pool a stream (facts 2.4).
    pub stream: u32,
    /// `false`: no other block may take its memory, before or after it.
    pub reuse: bool,
    /// An offset given beforehand (pinned).
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

/// Where everything lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Offset of each block in bytes, in the order they were given. A block of size 0 lies at 0.
    pub offsets: Vec<u64>,
    /// Bytes the plan needs: the highest end of a block, its size rounded up to its alignment.
    pub arena: u64,
    /// Greatest sum of sizes (rounded up to alignment) that live at once: no plan is smaller.
    pub lower_bound: u64,
    /// Who made it, in the names that `ge inspect` prints: `max-block`, `binary-block`, ….
    pub assigner: &'static str,
}

/// How hard to search (`ge.x.memory_effort`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MemoryEffort {
    /// Near-linear assigners only.
    Fast,
    /// Adds short searches; for compile.
    #[default]
    Default,
    /// Searches until the bound or the capacity is met or the budget of steps is spent.
    Max,
}

/// What a call of an assigner may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AssignOptions {
    /// How hard to search.
    pub effort: MemoryEffort,
    /// Stop as soon as the arena is within this many bytes. Not a limit: a larger plan is
    /// given out all the same, and the caller decides.
    pub capacity: Option<u64>,
    /// Adds the four binary-block variants with ranges that the original runs when
    /// `ge.exec.memoryOptimizationPolicy` is `MemoryPriority` (facts 2.3).
    pub memory_priority: bool,
}

/// How a long run is watched and stopped. Both are called from several threads.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// Steps done and steps allowed.
    pub progress: &'a (dyn Fn(u64, u64) + Sync),
    /// `true` once the caller wants out.
    pub cancel: &'a (dyn Fn() -> bool + Sync),
}

impl Watch<'static> {
    /// Reports nothing and never stops.
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

/// Why no plan came out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AssignError {
    /// A life that ends before it begins, or has no instant.
    #[error("block {id} lives over [{lower}, {upper}), which holds no instant")]
    EmptyLife {
        /// The block.
        id: u64,
        /// Its lower end.
        lower: u64,
        /// Its upper end.
        upper: u64,
    },
    /// An alignment of 0.
    #[error("block {id} has alignment 0")]
    ZeroAlign {
        /// The block.
        id: u64,
    },
    /// The sizes do not fit in 63 bits, all together.
    #[error("the sizes up to block {id} sum to more than 2^63 bytes")]
    TooLarge {
        /// The first block beyond.
        id: u64,
    },
    /// More blocks, or more pairs that live together, than the planner can hold.
    #[error("{count} {what} are more than the planner holds")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many.
        count: usize,
    },
    /// A pinned offset that is no multiple of the block's alignment.
    #[error("block {id} is pinned to {offset}, no multiple of {align}")]
    PinnedUnaligned {
        /// The block.
        id: u64,
        /// Where it is pinned.
        offset: u64,
        /// What must divide it.
        align: u64,
    },
    /// Two pinned blocks live together and overlap.
    #[error("blocks {first} and {second} are pinned over each other while both live")]
    PinnedOverlap {
        /// One.
        first: u64,
        /// The other.
        second: u64,
    },
    /// The relation speaks of another number of blocks.
    #[error("the relation of conflicts has {relation} blocks, {blocks} were given")]
    RelationSize {
        /// In the relation.
        relation: usize,
        /// Given.
        blocks: usize,
    },
    /// The caller cancelled.
    #[error("memory planning was cancelled")]
    Cancelled,
    /// The checker refused what the planner made: a defect of the planner, never given out.
    #[error("assigner {assigner} made a wrong plan: {error}")]
    Refused {
        /// Whose plan.
        assigner: &'static str,
        /// What is wrong with it.
        error: crate::memory::check_offsets::OffsetError,
    },
}
