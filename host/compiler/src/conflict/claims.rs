//! What a class of values that share memory is claimed for, and how two classes meet.
use crate::feature::shared_memory::JoinKind;
use crate::feature::shared_memory::memory_type::memory_of;
use crate::feature::shared_memory::rules::atomic_outputs;
use ge_ir::Node;

/// What the memory of a class is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// A graph input: the caller's memory, for reading.
    pub user_input: bool,
    /// A graph input that may be written (`RefData`).
    pub user_reference: bool,
    /// A graph output: the caller's memory.
    pub user_output: bool,
    /// For a graph output: whether the value is all that lies there.
    pub whole: bool,
    /// A constant.
    pub immutable: bool,
    /// A variable.
    pub variable: bool,
    /// Cleared beforehand.
    pub cleared: bool,
    /// Part of a run without padding.
    pub no_padding: bool,
    /// Part of a run with padding.
    pub padded: bool,
    /// Memory type, where one is asked for.
    pub memory: Option<String>,
}

/// Two classes that one join would make one.
#[derive(Clone, Copy)]
pub struct Meeting<'m> {
    /// The class of the value that comes in.
    pub claims: &'m Claims,
    /// The class that it meets.
    pub other: &'m Claims,
    /// The join; None where the value is given out as a graph output.
    pub kind: Option<JoinKind>,
    /// The node that joins.
    pub reader: &'m Node,
    /// Its input.
    pub input: u32,
    /// Readers of the value that comes in, the joining node included.
    pub readers: usize,
    /// Whether inputs of the caller are refreshed where inner offsets are not.
    pub refresh: bool,
}

impl Claims {
    /// Of an output of a node, by itself.
    pub fn of_output(n: &Node, k: usize) -> Claims {
        Claims {
            user_input: matches!(n.op(), "Data" | "AippData" | "AnnData"),
            user_reference: n.op() == "RefData",
            immutable: matches!(n.op(), "Const" | "Constant" | "FileConstant"),
            variable: n.op() == "Variable",
            cleared: atomic_outputs(n).contains(&(k as u32)),
            memory: memory_of(n, k),
            ..Claims::default()
        }
    }
    /// Of a graph output; `whole`: nothing else lies in its memory.
    pub fn user_output(whole: bool) -> Claims {
        Claims { user_output: true, whole, ..Claims::default() }
    }
    /// What a join of this kind adds.
    pub fn by(&mut self, kind: JoinKind) {
        match kind {
            JoinKind::NoPaddingInput | JoinKind::NoPaddingOutput => self.no_padding = true,
            JoinKind::PaddedInput | JoinKind::PaddedOutput => self.padded = true,
            JoinKind::View | JoinKind::Reference | JoinKind::Held | JoinKind::Clean => {}
        }
    }
    /// Both classes as one.
    pub fn merge(&mut self, o: &Claims) {
        self.user_input |= o.user_input;
        self.user_reference |= o.user_reference;
        self.user_output |= o.user_output;
        self.immutable |= o.immutable;
        self.variable |= o.variable;
        self.cleared |= o.cleared;
        self.no_padding |= o.no_padding;
        self.padded |= o.padded;
        if self.memory.is_none() {
            self.memory.clone_from(&o.memory);
        }
    }
    /// Whether the memory is not the plan's to arrange: the caller's, a constant's, a variable's.
    pub fn arranged(&self) -> Option<&'static str> {
        if self.user_input || self.user_reference {
            Some("a graph input")
        } else if self.immutable {
            Some("a constant")
        } else if self.variable {
            Some("a variable")
        } else {
            None
        }
    }
}

/// Memory type that a node wants its input in, if it is one that joins inputs with a type of its
/// own.
pub fn wanted_memory(n: &Node) -> Option<String> {
    memory_of(n, 0).filter(|m| m != "HBM")
}
