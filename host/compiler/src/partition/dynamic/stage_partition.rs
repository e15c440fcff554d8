//! `StagePartition` (facts 3.6): the nodes of each `_stage_level` become one PartitionedCall
//! `Subgraph_Level_<n>`. A node without a level joins the first level that needs it, or an
//! additional last level if none needs it. If no node has the attribute, nothing happens.
use super::{Calls, Merge, Part, call_parts};
use crate::error::{CompileError, Result};
use ge_ir::{AttrValue, Model};
use ge_plugin_api::diagnostic::Diagnostic;
use std::collections::BTreeMap;

/// Node attribute that holds the level.
pub const LEVEL: &str = "_stage_level";

/// Partitions the root graph. Returns whether any node had a level.
///
/// # Errors
/// Fails if a level needs a node of a later level.
pub fn run(model: &mut Model, merge: Merge<'_>) -> Result<bool> {
    let g = model.root();
    let mut levels: Vec<Option<i64>> = g.nodes().map(|n| n.attrs().int(LEVEL)).collect();
    let Some(last) = levels.iter().flatten().max().copied() else { return Ok(false) };
    let mut at = vec![0usize; g.id_bound()];
    g.order().iter().enumerate().for_each(|(i, id)| at[id.index()] = i);
    let stays = |op: &str| matches!(op, "Data" | "RefData" | "AippData" | "AnnData" | "NetOutput");
    for n in g.nodes().rev() {
        let Some(level) = levels[at[n.id().index()]] else { continue };
        let data = n.inputs().iter().filter(|v| !v.is_absent()).map(|v| v.node);
        for s in data.chain(n.controls().iter().copied()) {
            // A given level is kept; an inherited level is the lowest one that needs the node.
            let Some(p) = g.get(s).filter(|p| p.attrs().int(LEVEL).is_none()) else { continue };
            let own = &mut levels[at[p.id().index()]];
            *own = Some(own.map_or(level, |l: i64| l.min(level)));
        }
    }
    let mut wrong = Vec::new();
    for n in g.nodes().filter(|n| !stays(n.op())) {
        let level = *levels[at[n.id().index()]].get_or_insert(last + 1);
        let data = n.inputs().iter().filter(|v| !v.is_absent()).map(|v| v.node);
        for p in data.chain(n.controls().iter().copied()).filter_map(|s| g.get(s)) {
            if let Some(other) = levels[at[p.id().index()]].filter(|o| *o > level && !stays(p.op())) {
                let text = format!("`{}` of stage level {level} needs `{}` of level {other}", n.name(), p.name());
                wrong.push(Diagnostic::error(text).code(ge_codes::STAGE_LEVELS).node(n.name(), n.op()).subject(LEVEL));
            }
        }
    }
    if !wrong.is_empty() {
        return Err(CompileError::Model { code: ge_codes::STAGE_LEVELS, all: wrong });
    }
    let mut numbers: BTreeMap<i64, u32> = BTreeMap::new();
    for (n, level) in g.nodes().zip(&levels) {
        if let (false, Some(l)) = (stays(n.op()), level) {
            numbers.insert(*l, 0);
        }
    }
    (0u32..).zip(numbers.values_mut()).for_each(|(k, v)| *v = k);
    let of = g
        .nodes()
        .zip(&levels)
        .map(|(n, l)| l.filter(|_| !stays(n.op())).and_then(|l| numbers.get(&l).copied()).unwrap_or(u32::MAX));
    let of: Vec<u32> = of.collect();
    let parts: Vec<Part> = numbers
        .keys()
        .map(|l| Part {
            name: format!("Subgraph_Level_{l}"),
            attrs: vec![("_is_unknown_shape", AttrValue::Bool(false))],
        })
        .collect();
    let names: Vec<String> = parts.iter().map(|p| p.name.clone()).collect();
    call_parts(model, vec![Calls { graph: 0, of, parts: &parts }], merge)?;
    // The host runs the levels one after the other.
    let calls: Vec<_> = model.root().nodes().filter(|n| names.iter().any(|p| p == n.name())).map(|n| n.id()).collect();
    calls.into_iter().for_each(|id| model.root_mut().set_attr(id, "_force_unknown_shape", true));
    Ok(true)
}
