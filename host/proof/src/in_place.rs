//! Outputs in the memory of an input: a node may overwrite a value only when all readers of its
//! bytes are over, in the order in which tasks are known to run.
//!
//! Nodes without tasks are names for the bytes of other nodes: whoever reads the name reads the
//! bytes. The names of what is overwritten are found by addresses alone: from the overwritten value
//! up through nodes without tasks, and down again, to all that lies in the same bytes.
//! What control flow shares on purpose (`_ref_input`) and references to `RefData` and variables are
//! left out, because edges alone do not determine the order of their writes.
use super::PlanFault;
use super::stand::Stand;
use ge_model::{CompiledModel, GraphInfo, NodeInfo, SlotInfo};
use std::collections::HashSet;

/// Checks all graphs. Cost: linear in the readers of overwritten values and of what shares their
/// bytes.
pub(crate) fn check(m: &CompiledModel, stands: &[Vec<Vec<Stand>>]) -> Result<(), PlanFault> {
    for (g, stands) in m.graphs.iter().zip(stands) {
        let over = Over { g, stands, readers: readers(g) };
        for i in 0..g.nodes.len() {
            over.node(i)?;
        }
    }
    Ok(())
}

/// For each node, its readers: the output that they read, the reader, and the input by which it
/// reads.
fn readers(g: &GraphInfo) -> Vec<Vec<(u32, u32, usize)>> {
    let mut out = vec![Vec::new(); g.nodes.len()];
    for (i, n) in g.nodes.iter().enumerate() {
        for (k, v) in n.inputs.iter().enumerate() {
            v.iter().for_each(|v| out[v.node as usize].push((v.output, i as u32, k)));
        }
    }
    out
}

/// Bytes of a memory.
#[derive(Clone, Copy)]
struct Bytes {
    space: u8,
    memory: u8,
    from: u64,
    to: u64,
}

impl Bytes {
    /// The bytes of the data of a node's output.
    fn of(n: &NodeInfo, output: u32) -> Option<Bytes> {
        let s: &SlotInfo = n.slots.get(output as usize)?;
        let data = n.outputs.get(output as usize).and_then(|d| d.data_bytes()).unwrap_or(s.size).min(s.size);
        Some(Bytes { space: s.space, memory: s.memory, from: s.offset, to: s.offset.saturating_add(data) })
    }
    fn meets(self, o: Bytes) -> bool {
        (self.space, self.memory) == (o.space, o.memory) && self.from < o.to && o.from < self.to
    }
}

struct Over<'a> {
    g: &'a GraphInfo,
    stands: &'a [Vec<Stand>],
    readers: Vec<Vec<(u32, u32, usize)>>,
}

/// The names of overwritten bytes.
#[derive(Default)]
struct Found {
    /// Node, output, and whether the way to it went up from the overwritten value.
    names: Vec<(u32, u32, bool)>,
    /// Whether one of them is memory that is meant to be written.
    kept: bool,
}

impl Over<'_> {
    fn node(&self, i: usize) -> Result<(), PlanFault> {
        let n = &self.g.nodes[i];
        let own = |s: &&Stand| Some(s.stream as u32) == n.stream;
        let Some(writer) = self.stands[i].iter().find(own).filter(|_| n.attrs.get("_ref_input").is_none()) else {
            return Ok(());
        };
        let over = |r: &Stand| writer.start[r.stream] > r.last;
        for (k, s) in n.slots.iter().enumerate().filter(|(_, s)| s.space == SlotInfo::FEATURE) {
            let Some(v) = s.ref_input.and_then(|k| n.inputs.get(k as usize).copied().flatten()) else { continue };
            let Some(bytes) = Bytes::of(n, k as u32) else { continue };
            let found = self.names((v.node, v.output), bytes);
            if found.kept {
                continue;
            }
            let fault = |reader: u32| {
                let name = |k: usize| self.g.nodes[k].name.clone();
                let memory = ge_plugin_api::device::MemoryKind(s.memory).name().to_owned();
                PlanFault::Overlap { first: name(reader as usize), second: name(i), memory, offset: s.offset }
            };
            if !self.stands[i].iter().filter(|r| r.stream != writer.stream).all(over) {
                return Err(fault(i as u32));
            }
            if let Some(late) = found.names.iter().find_map(|name| self.late(*name, i, &over)) {
                return Err(fault(late));
            }
        }
        Ok(())
    }

    /// A reader of a name other than `writer` that may not be over.
    fn late(&self, (p, k, up): (u32, u32, bool), writer: usize, over: &dyn Fn(&Stand) -> bool) -> Option<u32> {
        let reads = |r: &&(u32, u32, usize)| r.0 == k && r.1 as usize != writer;
        let mut all = self.readers[p as usize].iter().filter(reads);
        let late = all.find(|(_, u, input)| {
            let n = &self.g.nodes[*u as usize];
            // A copy of control flow only names the memory into which it goes.
            let named = up && n.attrs.int("_ref_input").is_some_and(|k| usize::try_from(k) == Ok(*input));
            n.op == "NetOutput" || !(named || self.stands[*u as usize].iter().all(over))
        });
        late.map(|r| r.1)
    }

    /// The names of the bytes that are overwritten when `start` is.
    fn names(&self, start: (u32, u32), bytes: Bytes) -> Found {
        let mut found = Found::default();
        let mut seen: HashSet<(u32, u32)> = HashSet::from([start]);
        let mut todo = vec![(start.0, start.1, false)];
        while let Some((p, k, up)) = todo.pop() {
            found.names.push((p, k, up));
            let n = &self.g.nodes[p as usize];
            found.kept |= matches!(n.op.as_str(), "RefData" | "Variable");
            let meets = |(p, k): (u32, u32)| Bytes::of(&self.g.nodes[p as usize], k).is_some_and(|b| b.meets(bytes));
            if self.stands[p as usize].is_empty() {
                let above = n.inputs.iter().flatten().map(|v| (v.node, v.output));
                todo.extend(above.filter(|a| meets(*a) && seen.insert(*a)).map(|(p, k)| (p, k, true)));
            }
            let silent = |r: &&(u32, u32, usize)| r.0 == k && self.stands[r.1 as usize].is_empty();
            for (_, u, _) in self.readers[p as usize].iter().filter(silent) {
                let below = (0..self.g.nodes[*u as usize].outputs.len() as u32).map(|k| (*u, k));
                todo.extend(below.filter(|b| meets(*b) && seen.insert(*b)).map(|(p, k)| (p, k, up)));
            }
        }
        found
    }
}
