//! What an engine says of a node: that it takes it, at which cost, or why not.
use crate::abi::{RString, StableAbi};

/// Whether an engine takes a node, and why not.
/// # Examples
/// ```
/// use ge_plugin_api::engine::Support;
///
/// // An engine of compute cost 2 that says so takes a node of few elements where no other does
/// // below 20.
/// let answer = |elements: u64| if elements < 4096 { Support::YesAt(20) } else { Support::Yes };
/// assert_eq!(answer(100).cost(2), Some(20));
/// assert_eq!(answer(1 << 20).cost(2), Some(2));
/// assert_eq!(Support::no("the rank is not 4").cost(2), None);
/// ```
#[repr(u8)]
#[derive(Clone, Debug, PartialEq, StableAbi)]
pub enum Support {
    /// It does, at the engine's own compute cost.
    Yes,
    /// It does not, in words for the user.
    No(RString),
    /// It does, at a compute cost of this node's: the node goes to another engine that takes it at
    /// less. No node costs less than its engine ([`EngineInfo::cost`](crate::engine::EngineInfo)):
    /// a cost below that is the engine's. Hosts of the interface before 1.2 read it as `Yes`.
    YesAt(u32),
}

impl Support {
    /// A refusal in words.
    pub fn no(reason: impl Into<String>) -> Support {
        Support::No(reason.into().into())
    }
    /// Whether it takes the node.
    pub fn takes(&self) -> bool {
        !matches!(self, Support::No(_))
    }
    /// At which cost an engine of this compute cost takes the node; None: it does not.
    pub fn cost(&self, engine: u32) -> Option<u32> {
        match self {
            Support::Yes => Some(engine),
            Support::YesAt(cost) => Some(engine.max(*cost)),
            Support::No(_) => None,
        }
    }
}

/// The answer as versions 1.0 and 1.1 of the interface have it.
pub mod first {
    use crate::abi::{RString, StableAbi};

    /// Whether an engine takes a node, and why not.
    #[repr(u8)]
    #[derive(Clone, Debug, PartialEq, StableAbi)]
    pub enum Support {
        /// It does.
        Yes,
        /// It does not, in words for the user.
        No(RString),
    }
}

impl From<Support> for first::Support {
    fn from(s: Support) -> Self {
        match s {
            Support::No(why) => first::Support::No(why),
            Support::Yes | Support::YesAt(_) => first::Support::Yes,
        }
    }
}
impl From<first::Support> for Support {
    fn from(s: first::Support) -> Self {
        match s {
            first::Support::No(why) => Support::No(why),
            first::Support::Yes => Support::Yes,
        }
    }
}
