//! `NoEffectOpRemoveFusionPass`: slices, paddings, tilings and expansions that give what they read
//! are removed.
//!
//! Before: `%y = StridedSliceV2(%x : f32[2,3], …) : f32[2,3]`   After: reads of `%x`
//! When: type, shape and format of input and output are the same, all sizes known or named; a slice goes forward by ones, a padding is zero.
//! Refuses: steps and paddings that are no constants; sizes without a name; nodes with control edges.
//! Keeps: all else. Cost: each node once.
use crate::edit;
use ge_plugin_api::Result;
use ge_plugin_api::pass::{Pass, PassInfo, PassLevel, PassStage};
use ge_plugin_api::patch::Patch;
use ge_plugin_api::types::{Dim, ValueRef};
use ge_plugin_api::view::{Graph, Node};
use std::collections::BTreeMap;

/// What may give what it reads.
const OPS: [&str; 9] = ["Slice", "SliceD", "BroadcastTo", "Expand", "TileD", "Tile", "StridedSliceV2", "PadV3", "PadD"];

/// The pass.
pub struct NoEffectOpRemove;

impl Pass for NoEffectOpRemove {
    fn info(&self) -> PassInfo {
        PassInfo {
            name: "NoEffectOpRemoveFusionPass".into(),
            stage: PassStage::AFTER_INFER_SHAPE,
            level: PassLevel::O3,
            help: "removes slices, paddings, tilings and expansions that give what they read".into(),
        }
    }
    fn run(&self, graph: &Graph<'_>, patch: &mut Patch) -> Result<()> {
        let mut same: BTreeMap<ValueRef, ValueRef> = BTreeMap::new();
        for n in graph.nodes_of(&OPS) {
            if gives_its_input(&n) && edit::is_free(&n) {
                let x = n.inputs()[0];
                let x = same.get(&x).copied().unwrap_or(x);
                for u in graph.users(n.value(0)) {
                    patch.set_input(u.node, u.input, x);
                }
                same.insert(n.value(0), x);
            }
        }
        same.keys().for_each(|v| patch.remove(v.node));
        Ok(())
    }
}

/// Whole numbers of an attribute or of a constant input; None where they are not known.
fn ints(n: &Node<'_>, key: &str, input: usize) -> Option<Vec<i64>> {
    match n.ints(key) {
        Some(v) => Some(v.to_vec()),
        None => n.const_input(input)?.to_i64(64),
    }
}

fn gives_its_input(n: &Node<'_>) -> bool {
    let ([y], Some(x)) = (n.outputs(), n.input_desc(0)) else { return false };
    let alike = x.dtype == y.dtype && x.shape == y.shape && x.format == y.format && x.origin == y.origin;
    let named = !x.shape.is_unranked() && !x.shape.dims().contains(&Dim::UNKNOWN);
    if !alike || !named || n.input(0).is_some_and(|v| n.graph().constant(v).is_some()) {
        return false;
    }
    match n.op() {
        // Of a full shape every slice begins at its first element, and every repetition is one.
        "Slice" | "SliceD" | "BroadcastTo" | "Expand" | "TileD" | "Tile" => {
            x.shape.dims().iter().all(|d| d.size() != Some(0))
        }
        "StridedSliceV2" => match n.input(4).filter(|v| !v.is_absent()) {
            None => true,
            Some(_) => ints(n, "strides", 4).is_some_and(|s| s.iter().all(|s| *s == 1)),
        },
        "PadV3" => ints(n, "paddings", 1).is_some_and(|p| p.iter().all(|p| *p == 0)),
        "PadD" => n.ints("paddings").is_some_and(|p| p.iter().all(|p| *p == 0)),
        _ => false,
    }
}
