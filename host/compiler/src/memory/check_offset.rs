//! `CheckOffset`: the last check of a plan within its stage, which uses only the graph and the
//! slots (facts 2.2). Every output lies within its memory; references lie where their inputs lie;
//! parts lie one after the other in their whole; zero-copy slots lie in their ranges.
use super::plan::{MemoryPlan, Slot, Space};
use crate::error::{CompileError, Result};
use crate::ids::NodeKey;
use ge_ir::{Model, Node, ValueRef};

struct Check<'a> {
    model: &'a Model,
    plan: &'a MemoryPlan,
}

/// Checks the offsets of a plan.
///
/// # Errors
/// Fails with an internal error that names the node whose offset is wrong.
pub fn check(model: &Model, plan: &MemoryPlan) -> Result<()> {
    let c = Check { model, plan };
    for (gi, g) in model.graphs().iter().enumerate() {
        for n in g.nodes() {
            let key = NodeKey::new(gi, n.id());
            c.within(key, n)?;
            c.references(key, n)?;
            c.parts(key, n)?;
        }
    }
    Ok(())
}

fn fault(n: &Node, what: impl std::fmt::Display) -> CompileError {
    CompileError::internal("memory", format!("CheckOffset: `{}` ({}): {what}", n.name(), n.op()))
}

impl Check<'_> {
    fn slot(&self, key: NodeKey, v: ValueRef) -> Slot {
        let up = NodeKey { graph: key.graph, node: v.node };
        self.plan.outputs[up].get(v.output as usize).copied().unwrap_or(Slot::NONE)
    }

    /// Checks that every slot lies within its memory, and a zero-copy slot within a range.
    fn within(&self, key: NodeKey, n: &Node) -> Result<()> {
        for (k, s) in self.plan.outputs[key].iter().chain(&self.plan.workspaces[key]).enumerate() {
            let data = n.outputs().get(k).and_then(|d| d.data_bytes()).filter(|_| k < n.outputs().len()).unwrap_or(0);
            let end = s.offset.checked_add(data.max(if k < n.outputs().len() { 0 } else { s.size }));
            let room = match s.space {
                Space::Feature(kind) => self.plan.spaces.iter().find(|r| r.memory == kind).map(|r| r.size),
                Space::Weights => Some(self.plan.weight_bytes),
                Space::Variables => Some(self.plan.variable_bytes),
                Space::None => Some(u64::MAX),
            };
            let fits = matches!((end, room), (Some(end), Some(room)) if end <= room);
            if !fits && data > 0 {
                return Err(fault(n, format!("slot {k} at {} ends beyond its memory", s.offset)));
            }
            if s.zero_copy && data > 0 {
                let inside = |z: &super::plan::ZeroCopyRange| {
                    s.space == Space::Feature(z.memory)
                        && s.offset >= z.offset
                        && end.is_some_and(|e| e <= z.offset + z.size)
                };
                if !self.plan.zero_copy.iter().any(inside) {
                    return Err(fault(n, format!("slot {k} lies in no zero-copy range")));
                }
            }
        }
        Ok(())
    }

    /// Checks that output 0 in place of an input lies where the input lies, and that other outputs
    /// that share an input's memory do not lie before it.
    fn references(&self, key: NodeKey, n: &Node) -> Result<()> {
        for (k, s) in self.plan.outputs[key].iter().enumerate() {
            let Some(v) = s.ref_input.and_then(|i| n.input(i as usize)) else { continue };
            let up = self.slot(key, v);
            let same = if k == 0 { s.offset == up.offset } else { s.offset >= up.offset };
            if up.space != s.space || !same {
                return Err(fault(n, format!("output {k} at {}, its input at {}", s.offset, up.offset)));
            }
        }
        Ok(())
    }

    /// Checks that the parts of a whole without padding lie one after the other.
    fn parts(&self, key: NodeKey, n: &Node) -> Result<()> {
        use crate::feature::shared_memory::Rules;
        let bytes = |d: Option<&ge_ir::TensorDesc>| d.and_then(|d| d.data_bytes()).unwrap_or(0);
        if n.attrs().int("_reuse_input_on_dim_index").is_some_and(|d| d != 0) {
            return Ok(());
        }
        let g = key.graph_of(self.model);
        let (mut at, from) = (0u64, self.plan.outputs[key].first().copied().unwrap_or(Slot::NONE));
        if Rules::joins_inputs(n) {
            for (i, v) in n.inputs().iter().enumerate().filter(|(_, v)| !v.is_absent()) {
                let s = self.slot(key, *v);
                if s.offset != from.offset + at || s.space != from.space {
                    return Err(fault(n, format!("input {i} at {}, wanted {}", s.offset, from.offset + at)));
                }
                at += bytes(g.desc(*v));
            }
        } else if Rules::splits_input(n) {
            let Some(v) = n.input(0) else { return Ok(()) };
            let whole = self.slot(key, v);
            for (k, s) in self.plan.outputs[key].iter().enumerate() {
                if s.offset != whole.offset + at || s.space != whole.space {
                    return Err(fault(n, format!("output {k} at {}, wanted {}", s.offset, whole.offset + at)));
                }
                at += bytes(n.outputs().get(k));
            }
        }
        Ok(())
    }
}
