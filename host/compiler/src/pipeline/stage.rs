//! Names and order of the stages (DESIGN 2).

/// A stage of a compilation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// The graph as the front end gives it.
    Import,
    /// Type and shape inference, constant folding.
    Prepare,
    /// Fusions, precision and formats of the original graph.
    Original,
    /// Removal of redundant nodes.
    Stage1,
    /// Choice of an engine for each node.
    Place,
    /// Cutting of the graph into subgraphs of one engine each.
    Partition,
    /// Work of each engine on its subgraphs.
    Subgraph,
    /// Merging of the subgraphs into one graph.
    Merge,
    /// Preparation of the whole graph for the build.
    Stage2,
    /// Resolution of conflicts between memory rules that apply to one value.
    Conflict,
    /// Logical streams and the execution order that they imply.
    Streams,
    /// Memory offsets.
    Memory,
    /// Synchronisation by events.
    Sync,
    /// Tasks and kernels.
    Tasks,
    /// Physical streams.
    Split,
    /// The compiled model.
    Model,
}

impl Stage {
    /// All stages, in order.
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
    /// The last stage whose result can be written as text.
    pub const LAST_TEXT: Stage = Stage::Sync;

    /// Name of the stage, as used in commands, dumps and golden files.
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
    /// The stage with this name, if any.
    pub fn named(name: &str) -> Option<Stage> {
        Stage::ALL.into_iter().find(|s| s.name() == name)
    }
    /// The next stage in the list; the last stage returns itself.
    pub fn next(self) -> Stage {
        Stage::ALL.get(self as usize + 1).copied().unwrap_or(self)
    }
}

/// Names of the stages, in order.
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
