//! The stages by name, in order (DESIGN 2).

/// A stage of a compilation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// The graph as the front end gives it.
    Import,
    /// Types, shapes, folding.
    Prepare,
    /// Fusions, precision and formats of the original graph.
    Original,
    /// What is redundant goes.
    Stage1,
    /// An engine for each node.
    Place,
    /// The graph cut into subgraphs of one engine.
    Partition,
    /// Each engine on its subgraphs.
    Subgraph,
    /// The subgraphs put together again.
    Merge,
    /// The whole graph made ready for the build.
    Stage2,
    /// Memory rules that meet in one value.
    Conflict,
    /// Logical streams and the order that they give.
    Streams,
    /// Offsets.
    Memory,
    /// Events.
    Sync,
    /// Tasks and kernels.
    Tasks,
    /// Physical streams.
    Split,
    /// The compiled model.
    Model,
}

impl Stage {
    /// All, in order.
    pub const ALL: [Stage; 16] = [
        Stage::Import,
        Stage::Prepare,
        Stage::Original,
        Stage::Stage1,
        Stage::Place,
        Stage::Partition,
        Stage::Subgraph,
        Stage::Merge,
        Stage::Stage2,
        Stage::Conflict,
        Stage::Streams,
        Stage::Memory,
        Stage::Sync,
        Stage::Tasks,
        Stage::Split,
        Stage::Model,
    ];
    /// The last stage whose result a text holds.
    pub const LAST_TEXT: Stage = Stage::Sync;

    /// Its name, as commands, dumps and golden files have it.
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Import => "import",
            Stage::Prepare => "prepare",
            Stage::Original => "original",
            Stage::Stage1 => "stage1",
            Stage::Place => "place",
            Stage::Partition => "partition",
            Stage::Subgraph => "subgraph",
            Stage::Merge => "merge",
            Stage::Stage2 => "stage2",
            Stage::Conflict => "conflict",
            Stage::Streams => "streams",
            Stage::Memory => "memory",
            Stage::Sync => "sync",
            Stage::Tasks => "tasks",
            Stage::Split => "split",
            Stage::Model => "model",
        }
    }
    /// The stage of a name.
    pub fn named(name: &str) -> Option<Stage> {
        Stage::ALL.into_iter().find(|s| s.name() == name)
    }
    /// The stage behind it in the list; the last one for itself.
    pub fn next(self) -> Stage {
        Stage::ALL.get(self as usize + 1).copied().unwrap_or(self)
    }
}

/// Names of the stages in order.
pub const STAGES: &[&str] = &{
    let mut names = [""; Stage::ALL.len()];
    let mut i = 0;
    while i < names.len() {
        names[i] = Stage::ALL[i].name();
        i += 1;
    }
    names
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_stand_in_their_order_and_are_found_by_name() {
        for (i, s) in Stage::ALL.into_iter().enumerate() {
            assert_eq!(s as usize, i);
            assert_eq!(Stage::named(s.name()), Some(s));
            assert_eq!(STAGES[i], s.name());
            assert!(s.next() > s || s == Stage::Model);
        }
        assert_eq!(Stage::named("nowhere"), None);
    }
}
