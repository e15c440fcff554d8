//! `NoEffectOpRemoveFusionPass`: removes slices, paddings, tilings and expansions that return their
//! input unchanged.
//!
//! Before: `%y = StridedSliceV2(%x : f32[2,3], …) : f32[2,3]`   After: reads of `%x`
//! When: input and output have the same type, shape and format, and all sizes are known or named; a
//! slice has steps of one, a padding is zero.
//! Refuses: steps and paddings that are not constant; sizes without a name; nodes with control
//! edges.
//! Keeps: everything else. Cost: each node is visited once.
use crate::edit;
use ge_plugin_api::Result;
use ge_plugin_api::pass::{Pass, PassInfo, PassLevel, PassStage};
use ge_plugin_api::patch::Patch;
use ge_plugin_api::types::{Dim, ValueRef};
use ge_plugin_api::view::{Graph, Node};
use std::collections::BTreeMap;

/// Operators that may return their input unchanged.
const OPS: [&str; 9] = ["Slice", "SliceD", "BroadcastTo", "Expand", "TileD", "Tile", "StridedSliceV2", "PadV3", "PadD"];

/// The pass that this module describes.
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

/// Integers of an attribute or of a constant input; `None` if they are not known.
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
        // If the shape stays the same and has elements, every slice begins at the first one and
        // every repetition count is one.
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
