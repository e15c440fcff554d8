//! The caller's memory that a model may reuse, according to the model's options only.
use super::blocks::Block;
use ge_model::CompiledModel;

/// What the caller lends, according to the model's options only.
#[derive(Default)]
pub(super) struct Lent {
    inputs: Vec<u32>,
    outputs: Vec<u32>,
    pairs: Vec<(u32, u32)>,
}

impl Lent {
    /// Reads the options.
    pub fn of(m: &CompiledModel) -> Lent {
        let text = |name: &str| m.options.get(name).map_or("", String::as_str);
        let list = |t: &str| t.split(',').filter_map(|i| i.trim().parse().ok()).collect();
        let pair =
            |p: &str| p.split_once(',').and_then(|(a, b)| Some((a.trim().parse().ok()?, b.trim().parse().ok()?)));
        Lent {
            inputs: list(text("ge.exec.inputReuseMemIndexes")),
            outputs: list(text("ge.exec.outputReuseMemIndexes")),
            pairs: text("ge.exec.outputReuseInputMemIndexes").split('|').filter_map(pair).collect(),
        }
    }
    /// Whether `new` may use the memory of `old` after `old` is over. The caller's memory may only
    /// be used for its own purpose, unless it is lent.
    pub fn allows(&self, old: &Block, new: &Block) -> bool {
        let paired = |i: &u32| self.pairs.iter().any(|p| p.0 == *i);
        let leaves = |i: &u32| match new.outputs.as_slice() {
            [k] => self.pairs.contains(&(*i, *k)),
            _ => self.inputs.contains(i) && !paired(i),
        };
        let follows = |k: &u32| self.outputs.contains(k) || old.inputs.iter().any(|i| self.pairs.contains(&(*i, *k)));
        old.outputs.is_empty() && old.inputs.iter().all(leaves) && new.outputs.iter().all(follows)
    }
}
