//! `InputRangePass`: notes the range of the integers that a graph input may have, as far as its
//! readers determine it.
//!
//! Before: `%i = Data()  %y = GatherV2(%x : f32[7,4], %i, 0)`
//! After: `%i = Data() {_value_range = [0, 6]}`
//! When: an integer input, directly or through changes of shape and type, is an index into an axis
//! (gather, scatter, one-hot), the k of a top-k, a sequence length, a position to write to, or a
//! mask (cast to bool, or subtracted from one).
//! Refuses: axes of unknown size. If readers differ, the range is what all of them accept; if there
//! is no such number, the first reader's range stays.
//! Keeps: everything; the attribute is for whoever makes up inputs (`--random`). Cost: each reader
//! of an input is visited once.
use ge_plugin_api::Result;
use ge_plugin_api::pass::{Pass, PassInfo, PassLevel, PassStage};
use ge_plugin_api::patch::Patch;
use ge_plugin_api::register_pass;
use ge_plugin_api::types::{DType, Use, ValueRef};
use ge_plugin_api::view::{Graph, Node};
use std::collections::BTreeSet;

/// Attribute of a Data node: its least and greatest value.
const RANGE: &str = "_value_range";

/// The pass that this module describes.
struct InputRange;

impl Pass for InputRange {
    fn info(&self) -> PassInfo {
        PassInfo {
            name: "InputRangePass".into(),
            stage: PassStage::AFTER_INFER_SHAPE,
            level: PassLevel::O1,
            help: "notes which whole numbers the readers of an input take".into(),
        }
    }
    fn run(&self, graph: &Graph<'_>, patch: &mut Patch) -> Result<()> {
        for n in graph.nodes().filter(|n| n.op() == "Data" && n.outputs().len() == 1 && n.outputs()[0].dtype.is_int()) {
            let mut found = Found::default();
            found.follow(graph, n.value(0));
            if let Some((low, high)) = found.range {
                patch.set_attr(n.id(), RANGE, vec![low, high]);
            }
        }
        Ok(())
    }
}
register_pass!(InputRange);

#[derive(Default)]
struct Found {
    range: Option<(i64, i64)>,
    seen: BTreeSet<ValueRef>,
}

impl Found {
    fn take(&mut self, own: Option<(i64, i64)>) {
        let Some((low, high)) = own.filter(|(l, h)| l <= h) else { return };
        let (a, b) = self.range.unwrap_or((low, high));
        let both = (a.max(low), b.min(high));
        self.range = Some(if both.0 <= both.1 { both } else { (a, b) });
    }

    /// Collects the ranges that readers of a value accept, also through nodes that pass the numbers
    /// on.
    fn follow(&mut self, g: &Graph<'_>, v: ValueRef) {
        let mut open = vec![v];
        while let Some(v) = open.pop() {
            if !self.seen.insert(v) {
                continue;
            }
            for u in g.users(v) {
                let Some(n) = g.find(u.node) else { continue };
                self.take(taken(&n, u));
                if passes_on(&n, u) {
                    open.extend((0..n.outputs().len() as u32).map(|k| n.value(k)));
                }
            }
        }
    }
}

/// Size of an axis of an input; `None` if it is not known or zero.
fn axis(n: &Node<'_>, input: usize, axis: i64) -> Option<i64> {
    let shape = &n.input_desc(input)?.shape;
    let rank = i64::try_from(shape.rank()?).ok()?;
    let at = usize::try_from(if axis < 0 { axis + rank } else { axis }).ok()?;
    i64::try_from(shape.dims().get(at)?.size()?).ok().filter(|n| *n > 0)
}

fn places(size: Option<i64>) -> Option<(i64, i64)> {
    size.map(|n| (0, n - 1))
}

fn one(n: &Node<'_>, input: usize) -> Option<i64> {
    n.const_input(input)?.to_i64(1)?.first().copied()
}

/// The range that a reader accepts at one of its inputs; `None` if it does not limit the input.
fn taken(n: &Node<'_>, u: &Use) -> Option<(i64, i64)> {
    let int = |key: &str, default: i64| n.int(key).unwrap_or(default);
    match (n.op(), u.input) {
        ("GatherV2", 1) => places(axis(n, 0, one(n, 2)?)),
        ("Gather", 1) => places(axis(n, 0, int("axis", 0))),
        ("GatherElements", 1) => places(axis(n, 0, int("dim", 0))),
        ("ScatterElements", 1) => places(axis(n, 0, int("axis", 0))),
        ("GatherNd", 1) => {
            // Each index has one number for each of these axes, so the shortest axis decides.
            let first = int("batch_dims", 0);
            let many = axis(n, 1, -1)?;
            places(
                (first..first.checked_add(many)?).map(|a| axis(n, 0, a)).collect::<Option<Vec<_>>>()?.into_iter().min(),
            )
        }
        ("TensorScatterUpdate", 1) => {
            let many = axis(n, 1, -1)?;
            places((0..many).map(|a| axis(n, 0, a)).collect::<Option<Vec<_>>>()?.into_iter().min())
        }
        ("ScatterNd", 0) => {
            let many = usize::try_from(axis(n, 0, -1)?).ok()?;
            let sizes = n.const_input(2)?.to_i64(64)?;
            places(sizes.get(..many)?.iter().copied().min().filter(|n| *n > 0))
        }
        ("TensorScatter", 2) => {
            let along = int("axis", -2);
            Some((0, axis(n, 0, along)?.checked_sub(axis(n, 1, along)?)?))
        }
        ("OneHot", 0) => places(one(n, 1)),
        ("TopKV2", 1) => Some((1, axis(n, 0, int("dim", -1))?)),
        ("ReverseSequence", 1) => Some((1, axis(n, 0, int("seq_dim", 0))?)),
        ("CommonRNN" | "CommonGRU" | "CommonLSTM", 4) => {
            // With layout 1 the batch comes first, so the sequence is axis 1.
            Some((1, axis(n, 0, int("layout", 0))?))
        }
        ("PromptFlashAttention", 5..=7) => {
            let of = if u.input == 5 { 0 } else { 1 };
            let along = if n.str("input_layout") == Some("BNSD") { 2 } else { 1 };
            Some((1, axis(n, of, along)?))
        }
        ("Cast", 0) => (n.outputs().first()?.dtype == DType::BOOL).then_some((0, 1)),
        // `1 - mask`, as masks are turned into what is added to attention scores.
        ("Sub", 1) => {
            let c = n.const_input(0)?;
            (c.to_f64(1)?.first() == Some(&1.0)).then_some((0, 1))
        }
        _ => None,
    }
}

/// Whether the outputs of a reader contain the numbers of this input.
fn passes_on(n: &Node<'_>, u: &Use) -> bool {
    match n.op() {
        "Identity" | "Reshape" | "SameSize" | "Flatten" | "Squeeze" | "SqueezeV3" | "Unsqueeze" | "UnsqueezeV3"
        | "ExpandDims" | "Transpose" | "TransposeD" | "BroadcastTo" | "Expand" | "Tile" | "TileD" | "SplitD"
        | "SplitVD" | "Unpack" | "StridedSliceV2" | "StridedSliceD" | "Slice" | "SliceD" | "GatherElements" => {
            u.input == 0
        }
        "GatherV2" | "Gather" => u.input == 0,
        "Cast" => n.outputs().first().is_some_and(|d| d.dtype != DType::BOOL),
        "ConcatD" | "ConcatV2D" | "Pack" => true,
        "Select" | "SelectV2" => u.input > 0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_narrow_each_other_and_the_first_wins_where_they_disagree() {
        let mut f = Found::default();
        f.take(None);
        assert_eq!(f.range, None);
        f.take(Some((0, 6)));
        f.take(Some((1, 9)));
        assert_eq!(f.range, Some((1, 6)));
        f.take(Some((20, 30)));
        f.take(Some((4, 2)));
        assert_eq!(f.range, Some((1, 6)));
    }
}
