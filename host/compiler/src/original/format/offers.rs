//! What engines offer for a node: the node as it is, followed by other formats.
use crate::error::{CompileError, Result};
use crate::toolbox::{EngineEntry, EngineRanks, Toolbox};
use ge_ir::verify::STRUCTURE;
use ge_ir::{DType, Graph, Key, Node};
use ge_plugin_api::engine::Variant;
use ge_plugin_api::ops::flags;
use ge_plugin_api::view;

/// Asks the engines for their offers.
pub struct Offers<'t> {
    toolbox: &'t Toolbox,
    ranks: &'t EngineRanks,
    structural: Vec<Key>,
}

impl<'t> Offers<'t> {
    /// Creates the asker of one compilation.
    pub fn new(toolbox: &'t Toolbox, ranks: &'t EngineRanks) -> Offers<'t> {
        Offers { toolbox, ranks, structural: STRUCTURE.iter().map(|s| Key::new(s)).collect() }
    }

    /// The offers of the engine that takes a node as it is: first the offer that keeps formats and
    /// types, then those with other formats. At most one entry if there are no offers in other
    /// formats.
    ///
    /// # Errors
    /// Fails if a call into a plugin fails.
    pub fn of(&self, view: &view::Graph<'_>, g: &Graph, n: &Node) -> Result<Vec<Variant>> {
        let shared = flags::STATEFUL | flags::REFERENCE | flags::COMMUNICATION;
        if self.structural.contains(&n.op_key()) || self.toolbox.op_flags(n.op_key()) & shared != 0 {
            return Ok(Vec::new());
        }
        let node = view.node(n.id());
        let bound = n.attrs().str("_engine").and_then(|e| self.toolbox.engine_named(e));
        let mut before = Vec::new();
        for id in self.ranks.of(n.op_key()) {
            let e = self.toolbox.engine(*id);
            if e.excluded.is_some() || bound.is_some_and(|b| b != *id) {
                continue;
            }
            let offered = e.object.variants(&node, &self.toolbox.target)?;
            if offered.is_empty() {
                before.push(e);
                continue;
            }
            // An earlier engine would take the node as it is.
            let least = |e: &EngineEntry| Ok::<_, CompileError>(e.object.supports(&node)?.cost(e.info.cost));
            let own = if before.is_empty() { None } else { least(e)? };
            for b in before {
                if least(b)?.is_some_and(|cost| own.is_none_or(|own| cost <= own)) {
                    return Ok(Vec::new());
                }
            }
            return Ok(sorted(g, n, offered));
        }
        Ok(Vec::new())
    }
}

/// Puts the offer for the node as it is first, followed by those that keep its types but change
/// formats. Empty if there is no offer for the node as it is.
fn sorted(g: &Graph, n: &Node, offered: Vec<Variant>) -> Vec<Variant> {
    let types = |v: &Variant| {
        let ins = v
            .input_types
            .iter()
            .enumerate()
            .all(|(i, t)| *t == DType::UNKNOWN || n.input(i).and_then(|x| g.desc(x)).is_none_or(|d| d.dtype == *t));
        let outs = v.output_types.iter().zip(n.outputs()).all(|(t, d)| *t == DType::UNKNOWN || *t == d.dtype);
        ins && outs
    };
    let own = |v: &Variant| {
        let ins = v
            .input_formats
            .iter()
            .enumerate()
            .all(|(i, f)| n.input(i).and_then(|x| g.desc(x)).is_none_or(|d| d.format == *f));
        ins && v.output_formats.iter().zip(n.outputs()).all(|(f, d)| d.format == *f)
    };
    let (mut as_it_is, others): (Vec<Variant>, Vec<Variant>) = offered.into_iter().filter(types).partition(own);
    as_it_is.sort_by_key(|v| v.cost);
    as_it_is.truncate(1);
    if as_it_is.is_empty() {
        return Vec::new();
    }
    as_it_is.extend(others);
    as_it_is
}
