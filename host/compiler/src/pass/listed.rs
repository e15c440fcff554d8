//! Entries of the lists of passes.
use super::{GraphPass, NodePass, PassLevel};
use crate::options::Switch;

/// A pass at its position in a list.
pub struct Listed {
    /// Stage in which the pass runs.
    pub stage: &'static str,
    /// Part of the stage's list: 0 is the main list; `stage1` and `stage2` run part 1 after the
    /// engines and custom passes at their end; `prepare` and `original` define parts of their own.
    pub part: u8,
    /// The pass.
    pub pass: Kind,
    /// Why the pass stands at this position.
    pub why: &'static str,
}

/// Whether a pass handles whole graphs or single nodes.
#[derive(Clone, Copy)]
pub enum Kind {
    /// A pass over whole graphs.
    Graph(&'static dyn GraphPass),
    /// A pass over one node at a time. Adjacent node passes in a list run as one group.
    Node(&'static dyn NodePass),
}

macro_rules! told {
    ($($f:ident -> $t:ty, $doc:literal;)*) => {$(
        #[doc = $doc]
        pub fn $f(&self) -> $t {
            match self {
                Kind::Graph(p) => p.$f(),
                Kind::Node(p) => p.$f(),
            }
        }
    )*};
}
impl Kind {
    told! {
        name -> &'static str, "Name.";
        level -> PassLevel, "Level.";
        effect -> &'static str, "What it does, as `before -> after`.";
        needs -> &'static str, "What must be so for it to act.";
        keeps -> &'static str, "What stays as it was.";
        switch -> Option<Switch>, "The option bound to it.";
    }
}

/// A pass over whole graphs in a stage's list.
pub(crate) const fn at(stage: &'static str, pass: &'static dyn GraphPass, why: &'static str) -> Listed {
    Listed { stage, part: 0, pass: Kind::Graph(pass), why }
}
/// A pass over nodes in a stage's list.
pub(crate) const fn node(stage: &'static str, pass: &'static dyn NodePass, why: &'static str) -> Listed {
    Listed { stage, part: 0, pass: Kind::Node(pass), why }
}
impl Listed {
    /// Moves the entry to another part of its stage.
    pub(crate) const fn later(mut self, part: u8) -> Listed {
        self.part = part;
        self
    }
}
