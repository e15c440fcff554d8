//! An engine's answer whether it supports a node: yes, yes at a given cost, or no with a reason.
use crate::abi::{RString, StableAbi};

/// Whether an engine supports a node, and if not, why.
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
    /// The engine supports the node at its own compute cost.
    Yes,
    /// The engine does not support the node; the reason is shown to the user.
    No(RString),
    /// The engine supports the node at this compute cost. Another engine that supports the node at
    /// a lower cost is chosen instead. A cost below the engine's own
    /// ([`EngineInfo::cost`](crate::engine::EngineInfo)) counts as the engine's own. Hosts older
    /// than interface 1.2 read this as `Yes`.
    YesAt(u32),
}

impl Support {
    /// A refusal with its reason.
    pub fn no(reason: impl Into<String>) -> Support {
        Support::No(reason.into().into())
    }
    /// Whether the engine supports the node.
    pub fn takes(&self) -> bool {
        !matches!(self, Support::No(_))
    }
    /// The cost of the node on an engine with compute cost `engine`; `None` if it is not supported.
    pub fn cost(&self, engine: u32) -> Option<u32> {
        match self {
            Support::Yes => Some(engine),
            Support::YesAt(cost) => Some(engine.max(*cost)),
            Support::No(_) => None,
        }
    }
}

/// The answer in interface versions 1.0 and 1.1.
pub mod first {
    use crate::abi::{RString, StableAbi};

    /// Whether an engine supports a node, and if not, why.
    #[repr(u8)]
    #[derive(Clone, Debug, PartialEq, StableAbi)]
    pub enum Support {
        /// The engine supports the node.
        Yes,
        /// The engine does not support the node; the reason is shown to the user.
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
