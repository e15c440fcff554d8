//! Faults of a plan: one variant for each kind of fault, each under a numbered rule.
use std::fmt;

/// A rule of the proof; [`RULES`] says what each requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rule(pub u8);

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "P{}", self.0)
    }
}

/// All rules by number: the part of the proof that checks the rule, and what it requires of every
/// compiled model.
pub const RULES: &[(Rule, &str, &str)] = &[
    (Rule(1), "order", "the streams come to their end: nothing waits for what never comes"),
    (Rule(2), "order", "an event is waited for before it is recorded again"),
    (Rule(3), "order", "one wait at a time can take a record"),
    (Rule(4), "order", "a node starts after all that its edges say"),
    (Rule(5), "order", "the model ends after all of its work"),
    (Rule(6), "memory", "a range is written anew after every use of what lay there"),
    (Rule(7), "flow", "a stream is woken after all that it did is over"),
    (Rule(8), "flow", "jumps come to an end"),
    (Rule(9), "order", "no record is left for the next run to find"),
    (Rule(10), "tasks", "the SoC has the streams, tasks, events and notifies that are needed; each stream has a task"),
    (Rule(11), "effects", "a variable is reached in the order of the imported graph"),
    (Rule(12), "parts", "parts, references and runs lie where their wholes say, and tasks stand where their nodes do"),
];

/// Why a plan is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanFault {
    /// The streams cannot go on before they have reached their end.
    #[error("the streams wait for each other: {}", waiting.join("; "))]
    Deadlock {
        /// The blocked streams, and what each of them waits for.
        waiting: Vec<String>,
    },
    /// An id is recorded while nothing has waited for its last record yet.
    #[error("event {id} is recorded again by `{node}` before it was waited for")]
    Recorded {
        /// Event or notify id.
        id: u32,
        /// Node that records it again.
        node: String,
    },
    /// Two waits for the same id, either of which may take a record.
    #[error("`{first}` and `{second}` may wait for event {id} at the same time, either takes the record")]
    Taken {
        /// Event or notify id.
        id: u32,
        /// Node that should take the record first.
        first: String,
        /// Node that may take it instead.
        second: String,
    },
    /// An edge of the graph that nothing guarantees.
    #[error("`{to}` may start before `{from}` has ended")]
    Edge {
        /// Node that must end first.
        from: String,
        /// Node that may start too early.
        to: String,
    },
    /// END_GRAPH may be reached before all work is done.
    #[error("the model may end before stream {stream} has finished")]
    End {
        /// Index of the stream with unfinished work.
        stream: usize,
    },
    /// Two blocks that share addresses may be in use at the same time.
    #[error("`{second}` may write over the memory of `{first}` at {memory} offset {offset} while it is still in use")]
    Overlap {
        /// Node that first touches the memory.
        first: String,
        /// Node that may overwrite it.
        second: String,
        /// Name of the memory kind.
        memory: String,
        /// Offset of the first shared byte.
        offset: u64,
    },
    /// A stream is woken while it may still be running.
    #[error("`{node}` wakes stream {stream}, which may still be at work from the time before")]
    Woken {
        /// Index of the stream.
        stream: usize,
        /// Node that wakes it.
        node: String,
    },
    /// Jumps that form an endless loop.
    #[error("the control flow around `{node}` does not end")]
    Endless {
        /// A node in the loop.
        node: String,
    },
    /// A record that nothing waits for in the same run.
    #[error("event {id} may be left recorded when the model ends, for the next run to find")]
    Left {
        /// Event or notify id.
        id: u32,
    },
    /// The model needs more of a resource than the SoC has.
    #[error("{found} {what}, the SoC has {most}")]
    Limit {
        /// Name of the resource.
        what: String,
        /// How many the model needs.
        found: usize,
        /// How many the SoC has.
        most: u32,
    },
    /// A stream on which nothing runs; no device can load it.
    #[error("stream {stream} has no task")]
    Idle {
        /// Index of the stream.
        stream: usize,
    },
    /// Two accesses to a variable may run in another order than in the imported graph.
    #[error("`{second}` may reach a variable before `{first}` is over, against the order of the imported graph")]
    Effect {
        /// Node of the access that comes first in the graph.
        first: String,
        /// Node of the access that must follow.
        second: String,
    },
    /// A part does not lie where its whole, its reference or its run of parts requires, or a task
    /// does not match its node.
    #[error("`{node}`: {what}")]
    Place {
        /// The node.
        node: String,
        /// What is wrong.
        what: String,
    },
}

impl PlanFault {
    /// The rule that this fault breaks.
    pub fn rule(&self) -> Rule {
        Rule(match self {
            PlanFault::Deadlock { .. } => 1,
            PlanFault::Recorded { .. } => 2,
            PlanFault::Taken { .. } => 3,
            PlanFault::Edge { .. } => 4,
            PlanFault::End { .. } => 5,
            PlanFault::Overlap { .. } => 6,
            PlanFault::Woken { .. } => 7,
            PlanFault::Endless { .. } => 8,
            PlanFault::Left { .. } => 9,
            PlanFault::Limit { .. } | PlanFault::Idle { .. } => 10,
            PlanFault::Effect { .. } => 11,
            PlanFault::Place { .. } => 12,
        })
    }
}
