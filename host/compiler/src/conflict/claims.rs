//! What the memory of a class of values is claimed for. A class is a set of values that share
//! memory.
use crate::feature::shared_memory::JoinKind;
use crate::feature::shared_memory::memory_type::memory_of;
use crate::feature::shared_memory::rules::atomic_outputs;
use ge_ir::Node;

/// What holds for the memory of a class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// It holds a graph input: the caller's memory, for reading only.
    pub user_input: bool,
    /// It holds a graph input that may be written (`RefData`).
    pub user_reference: bool,
    /// It holds a graph output: the caller's memory.
    pub user_output: bool,
    /// For a graph output: whether nothing but the value lies there.
    pub whole: bool,
    /// It holds a constant.
    pub immutable: bool,
    /// It holds a variable.
    pub variable: bool,
    /// It is cleared beforehand.
    pub cleared: bool,
    /// It is part of a contiguous run without padding.
    pub no_padding: bool,
    /// It is part of a contiguous run with padding.
    pub padded: bool,
    /// Memory type, if one is asked for.
    pub memory: Option<String>,
}

/// Two classes that a join would make one.
#[derive(Clone, Copy)]
pub struct Meeting<'m> {
    /// Claims on the class of the incoming value.
    pub claims: &'m Claims,
    /// Claims on the class that it meets.
    pub other: &'m Claims,
    /// The kind of join; `None` where the value becomes a graph output.
    pub kind: Option<JoinKind>,
    /// The node that joins the two.
    pub reader: &'m Node,
    /// Index of the joining input of `reader`.
    pub input: u32,
    /// Whether another node may still read the bytes of the incoming value that the joining node
    /// writes over.
    pub read_later: bool,
    /// Whether addresses of the caller's inputs are refreshed while inner offsets are not.
    pub refresh: bool,
}

impl Claims {
    /// Claims of output `k` of a node, taken alone.
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
    /// Claims of a graph output. `whole`: nothing else lies in its memory.
    pub fn user_output(whole: bool) -> Claims {
        Claims { user_output: true, whole, ..Claims::default() }
    }
    /// Adds the claims that a join of this kind makes.
    pub fn by(&mut self, kind: JoinKind) {
        match kind {
            JoinKind::NoPaddingInput | JoinKind::NoPaddingOutput => self.no_padding = true,
            JoinKind::PaddedInput | JoinKind::PaddedOutput => self.padded = true,
            JoinKind::View | JoinKind::Reference | JoinKind::Held | JoinKind::Clean => {}
        }
    }
    /// Adds the claims of the other class, after the two became one.
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
    /// What the memory holds if the plan may not place it: a graph input, a constant or a variable.
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

/// Memory type that a copy before an input of the node gets: the type of the node's output 0, if it
/// is stated and not HBM.
pub fn wanted_memory(n: &Node) -> Option<String> {
    memory_of(n, 0).filter(|m| m != "HBM")
}
