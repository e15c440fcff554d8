//! `StridedSliceMergeFusionPass`: merges a slice of a slice into one slice.
//!
//! Before: `%a = StridedSliceV2(%x, …)  %y = StridedSliceV2(%a, …)`   After: `%y = StridedSliceV2(%x, begin, end, axes)`
//! When: both have steps of one and constant positions, all sizes are known, and only such slices
//! read the first.
//! Refuses: other steps, unknown positions, control edges.
//! Keeps: names and values of what is read. Cost: each node is visited once.
use crate::edit;
use ge_plugin_api::Result;
use ge_plugin_api::pass::{Pass, PassInfo, PassLevel, PassStage};
use ge_plugin_api::patch::{Edit, Patch};
use ge_plugin_api::types::{ConstTensor, NodeId, ValueRef};
use ge_plugin_api::view::{Graph, Node};
use std::collections::{BTreeMap, BTreeSet};

/// The pass that this module describes.
pub struct StridedSliceMerge;

impl Pass for StridedSliceMerge {
    fn info(&self) -> PassInfo {
        PassInfo {
            name: "StridedSliceMergeFusionPass".into(),
            stage: PassStage::AFTER_INFER_SHAPE,
            level: PassLevel::O3,
            help: "makes one slice of a slice of a slice".into(),
        }
    }
    fn run(&self, graph: &Graph<'_>, patch: &mut Patch) -> Result<()> {
        let slices = || graph.nodes_of(&["StridedSliceV2"]);
        let cuts: BTreeMap<NodeId, Vec<i64>> = slices().filter_map(|n| Some((n.id(), begins(&n)?))).collect();
        let mut names: Option<BTreeSet<&str>> = None;
        // What a slice reads and where it begins, once the slices before it are merged into it.
        let mut whole: BTreeMap<NodeId, (ValueRef, Vec<i64>)> = BTreeMap::new();
        let mut gone: Vec<NodeId> = Vec::new();
        for n in slices() {
            let Some(own) = cuts.get(&n.id()) else { continue };
            let x = n.inputs()[0];
            let before = whole.get(&x.node).cloned().filter(|_| x.output == 0);
            let from = match &before {
                None => (x, own.clone()),
                Some((base, first)) => (*base, first.iter().zip(own).map(|(a, b)| a + b).collect()),
            };
            let readers = graph.users(n.value(0));
            if !readers.is_empty() && readers.iter().all(|u| u.input == 0 && cuts.contains_key(&u.node)) {
                gone.push(n.id());
                whole.insert(n.id(), from);
            } else if before.is_some() {
                let names = names.get_or_insert_with(|| graph.nodes().map(|n| n.name()).collect());
                write(patch, &n, from, names);
            }
        }
        gone.iter().rev().for_each(|id| patch.remove(*id));
        Ok(())
    }
}

/// Where a slice begins on each axis; `None` if it cannot be merged.
fn begins(n: &Node<'_>) -> Option<Vec<i64>> {
    let (Some(x), [y]) = (n.input_desc(0)?.shape.sizes(), n.outputs()) else { return None };
    let given = |i: usize| n.input(i).is_some_and(|v| !v.is_absent());
    let ints = |i: usize| n.const_input(i)?.to_i64(64);
    if n.op() != "StridedSliceV2" || !edit::is_free(n) || n.graph().constant(n.inputs()[0]).is_some() {
        return None;
    }
    if given(4) && ints(4)?.iter().any(|s| *s != 1) {
        return None;
    }
    let begin = ints(1)?;
    let axes = if given(3) { ints(3)? } else { (0..i64::try_from(begin.len()).ok()?).collect() };
    let rank = i64::try_from(x.len()).ok()?;
    let mut out = vec![0; x.len()];
    for (a, b) in axes.iter().zip(&begin) {
        let axis = usize::try_from(if *a < 0 { a + rank } else { *a }).ok()?;
        let size = i64::try_from(*x.get(axis)?).ok()?;
        out[axis] = if *b < 0 { b.saturating_add(size) } else { *b }.clamp(0, size);
    }
    let y = y.shape.sizes().filter(|y| y.len() == x.len())?;
    let inside = out.iter().zip(&y).zip(&x).all(|((b, y), x)| b.unsigned_abs().saturating_add(*y) <= *x);
    (axes.len() == begin.len() && inside).then_some(out)
}

/// Makes the slice read from `base` at the position of all merged slices together.
fn write(patch: &mut Patch, n: &Node<'_>, (base, begin): (ValueRef, Vec<i64>), names: &BTreeSet<&str>) {
    let Some(sizes) = n.outputs()[0].shape.sizes() else { return };
    let rank = begin.len() as u64;
    let end: Vec<i64> = begin.iter().zip(&sizes).map(|(b, n)| b.saturating_add_unsigned(*n)).collect();
    let axes: Vec<i64> = (0..begin.len() as i64).collect();
    let mut inputs = vec![base];
    for (what, v) in [("begin", &begin), ("end", &end), ("axes", &axes)] {
        let name = edit::fresh_name(names, n.name(), what);
        let Some(c) = ConstTensor::of(&[rank], v) else { return };
        inputs.push(patch.constant(&name, c));
    }
    patch.push(Edit::SetInputs(n.id(), inputs.as_slice().into()));
}
