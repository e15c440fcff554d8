//! Outputs in the place of an input: a node writes over a value only when all that read it are
//! over. By the order in which its tasks are known to run.
//!
//! Nodes without tasks name values of others: who reads the name reads the value. What control flow
//! holds on purpose (`_ref_input`) and references to `RefData` are written in an order that edges
//! alone do not say, and are left out.
use super::PlanFault;
use super::stand::Stand;
use ge_model::{CompiledModel, GraphInfo, SlotInfo};
use std::collections::HashSet;

/// Proves it for all graphs. Cost: the readers of what is written over.
pub(crate) fn check(m: &CompiledModel, stands: &[Vec<Vec<Stand>>]) -> Result<(), PlanFault> {
    for (g, stands) in m.graphs.iter().zip(stands) {
        let over = Over { g, stands, readers: readers(g) };
        for i in 0..g.nodes.len() {
            over.node(i)?;
        }
    }
    Ok(())
}

/// Who reads each node's outputs, with the output that is read.
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
