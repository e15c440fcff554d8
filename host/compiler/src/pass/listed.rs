//! A pass at its place in a list of passes.
use super::{GraphPass, NodePass, PassLevel};
use crate::options::Switch;

/// A pass at its place.
pub struct Listed {
    /// Stage.
    pub stage: &'static str,
    /// 0: in the stage's list; 1: after the engines and custom passes at its end.
    pub part: u8,
    /// The pass.
    pub pass: Kind,
    /// Why it stands here.
    pub why: &'static str,
}

/// How a pass looks at graphs.
#[derive(Clone, Copy)]
pub enum Kind {
    /// Whole graphs.
    Graph(&'static dyn GraphPass),
    /// One node at a time; those that stand side by side in a list run as one group.
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
    /// In a later part of its stage.
    pub(crate) const fn later(mut self, part: u8) -> Listed {
        self.part = part;
        self
    }
}
