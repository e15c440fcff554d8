//! What can be wrong with a plan: one variant a kind of fault, each under a numbered rule.
use std::fmt;

/// A rule of the proof. `RULES` says what each asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rule(pub u8);

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "P{}", self.0)
    }
}

/// All rules, by number: what holds of every compiled model, and the room of the proof that asks
/// it.
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
    (Rule(10), "tasks", "the SoC has as many streams, tasks, events and notifies as the model needs"),
    (Rule(11), "effects", "a variable is reached in the order of the imported graph"),
    (Rule(12), "parts", "parts, references and runs lie where their wholes say, and tasks stand where their nodes do"),
];

/// Why a plan does not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanFault {
    /// Nothing can go on before the end.
    #[error("the streams wait for each other: {}", waiting.join("; "))]
    Deadlock {
        /// Who waits for what.
        waiting: Vec<String>,
    },
    /// An id is recorded while its last record is not waited for yet.
    #[error("event {id} is recorded again by `{node}` before it was waited for")]
    Recorded {
        /// Id.
        id: u32,
        /// Recorder.
        node: String,
    },
    /// Two waits for one id of which either may take a record.
    #[error("`{first}` and `{second}` may wait for event {id} at the same time, either takes the record")]
    Taken {
        /// Id.
        id: u32,
        /// Who should take it first.
        first: String,
        /// Who may take it instead.
        second: String,
    },
    /// An edge that nothing guarantees.
    #[error("`{to}` may start before `{from}` has ended")]
    Edge {
        /// Producer.
        from: String,
        /// Consumer.
        to: String,
    },
    /// END_GRAPH passes unfinished work.
    #[error("the model may end before stream {stream} has finished")]
    End {
        /// Stream.
        stream: usize,
    },
    /// Two blocks that may live at the same time share addresses.
    #[error("`{second}` may write over the memory of `{first}` at {memory} offset {offset} while it is still in use")]
    Overlap {
        /// Who holds the memory.
        first: String,
        /// Who writes over it.
        second: String,
        /// Memory kind.
        memory: String,
        /// First shared byte.
        offset: u64,
    },
    /// A stream that is woken while it may still be at work.
    #[error("`{node}` wakes stream {stream}, which may still be at work from the time before")]
    Woken {
        /// The stream.
        stream: usize,
        /// Who wakes it.
        node: String,
    },
    /// Jumps that lead round and round.
    #[error("the control flow around `{node}` does not end")]
    Endless {
        /// A node in it.
        node: String,
    },
    /// A record that nobody waits for in the run in which it is made.
    #[error("event {id} may be left recorded when the model ends, for the next run to find")]
    Left {
        /// Id.
        id: u32,
    },
    /// More than the SoC has.
    #[error("{found} {what}, the SoC has {most}")]
    Limit {
        /// Of what.
        what: String,
        /// How many there are.
        found: usize,
        /// How many there may be.
        most: u32,
    },
    /// Two accesses to a variable that may run in another order than that of the imported graph.
    #[error("`{second}` may reach a variable before `{first}` is over, against the order of the imported graph")]
    Effect {
        /// What is first in the graph.
        first: String,
        /// What comes behind it.
        second: String,
    },
    /// A part that does not lie where its whole, its reference or its run says.
    #[error("`{node}`: {what}")]
    Place {
        /// The node.
        node: String,
        /// What lies wrong.
        what: String,
    },
}

impl PlanFault {
    /// The rule that is broken.
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
            PlanFault::Limit { .. } => 10,
            PlanFault::Effect { .. } => 11,
            PlanFault::Place { .. } => 12,
        })
    }
}
