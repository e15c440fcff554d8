//! Outputs in the memory of an input: a node may overwrite a value only when all its readers are
//! over, in the order in which tasks are known to run.
//!
//! Nodes without tasks are names for values of other nodes: whoever reads the name reads the value.
//! What control flow shares on purpose (`_ref_input`) and references to `RefData` are left out,
//! because edges alone do not determine the order of their writes.
use super::PlanFault;
use super::stand::Stand;
use ge_model::{CompiledModel, GraphInfo, SlotInfo};
use std::collections::HashSet;

/// Checks all graphs. Cost: linear in the readers of overwritten values.
pub(crate) fn check(m: &CompiledModel, stands: &[Vec<Vec<Stand>>]) -> Result<(), PlanFault> {
    for (g, stands) in m.graphs.iter().zip(stands) {
        let over = Over { g, stands, readers: readers(g) };
        for i in 0..g.nodes.len() {
            over.node(i)?;
        }
    }
    Ok(())
}

/// For each node, its readers with the output that they read.
fn readers(g: &GraphInfo) -> Vec<Vec<(u32, u32)>> {
    let mut out = vec![Vec::new(); g.nodes.len()];
    for (i, n) in g.nodes.iter().enumerate() {
        n.inputs.iter().flatten().for_each(|v| out[v.node as usize].push((v.output, i as u32)));
    }
    out
}

struct Over<'a> {
    g: &'a GraphInfo,
    stands: &'a [Vec<Stand>],
    readers: Vec<Vec<(u32, u32)>>,
}

impl Over<'_> {
    fn node(&self, i: usize) -> Result<(), PlanFault> {
        let n = &self.g.nodes[i];
        let own = |s: &&Stand| Some(s.stream as u32) == n.stream;
        let Some(writer) = self.stands[i].iter().find(own).filter(|_| n.attrs.get("_ref_input").is_none()) else {
            return Ok(());
        };
        for s in n.slots.iter().filter(|s| s.space == SlotInfo::FEATURE) {
            let Some(v) = s.ref_input.and_then(|k| n.inputs.get(k as usize).copied().flatten()) else { continue };
            if self.g.nodes[v.node as usize].op == "RefData" {
                continue;
            }
            let fault = |reader: u32| {
                let name = |k: usize| self.g.nodes[k].name.clone();
                let memory = ge_plugin_api::device::MemoryKind(s.memory).name().to_owned();
                PlanFault::Overlap { first: name(reader as usize), second: name(i), memory, offset: s.offset }
            };
            let over = |r: &Stand| writer.start[r.stream] > r.last;
            if !self.stands[i].iter().filter(|r| r.stream != writer.stream).all(over) {
                return Err(fault(i as u32));
            }
            let mut todo = vec![(v.node, v.output)];
            let mut named: HashSet<(u32, u32)> = HashSet::new();
            while let Some((p, k)) = todo.pop() {
                for &(_, u) in self.readers[p as usize].iter().filter(|r| r.0 == k && r.1 as usize != i) {
                    let reader = &self.stands[u as usize];
                    if reader.is_empty() {
                        let outputs = (0..self.g.nodes[u as usize].outputs.len() as u32).map(|k| (u, k));
                        todo.extend(outputs.filter(|o| named.insert(*o)));
                    }
                    if !reader.iter().all(over) {
                        return Err(fault(u));
                    }
                }
            }
        }
        Ok(())
    }
}
