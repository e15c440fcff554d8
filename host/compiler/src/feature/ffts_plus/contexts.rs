//! The context graph of one slice. Inputs are brought near (FLUSH_DATA) before the first node that
//! reads them; kernels wait for what they read; results are written back; values that nobody reads
//! any more are dropped, and a value that takes their place waits for that. AT_START begins a
//! slice, AT_END ends it and begins the next one of its window.
use super::arena::{Arena, Value};
use super::slices::{From, Sliced};
use ge_model::context_graph::{ContextInfo, SliceInfo};
use ge_plugin_api::task::ContextType;
use std::collections::{BTreeSet, HashMap};

/// Maximum number of successors of a context; further ones are attached through a LABEL.
const SUCCESSORS: usize = 26;

/// Where the operands lie among the arguments of the task.
pub struct Spots<'a> {
    /// Place of an input, or of an output of a node.
    pub of: &'a dyn Fn(From) -> SliceInfo,
    /// The values in the arena, keyed by the producing node's position and output.
    pub values: &'a [((u32, u32), Value)],
    /// Placement of these values.
    pub arena: &'a Arena,
    /// Kind of cores on which each node runs.
    pub cores: &'a [ContextType],
}

#[derive(Default)]
struct Build {
    contexts: Vec<ContextInfo>,
    edges: BTreeSet<(u32, u32)>,
}

impl Build {
    fn add(&mut self, kind: ContextType, name: &str, args: Vec<SliceInfo>) -> u32 {
        let c = ContextInfo { kind: kind.code(), name: name.to_owned(), args, ..ContextInfo::default() };
        self.contexts.push(c);
        self.contexts.len() as u32 - 1
    }
}

/// Returns the contexts, in which kernels still lack launches and arguments, and the context index
/// of each node.
pub fn graph(sliced: &Sliced, spots: &Spots<'_>) -> (Vec<ContextInfo>, Vec<u32>) {
    let mut b = Build::default();
    let start = b.add(ContextType::AT_START, "", Vec::new());
    let mut near: HashMap<From, u32> = HashMap::new();
    let mut kernels: Vec<u32> = Vec::new();
    let mut readers: HashMap<(u32, u32), Vec<u32>> = HashMap::new();
    let mut dropped: Vec<u32> = vec![0; spots.values.len()];
    let mut ends: HashMap<u32, Vec<usize>> = HashMap::new();
    for (k, (_, v)) in spots.values.iter().enumerate() {
        ends.entry(v.to).or_default().push(k);
    }
    let mut takes: HashMap<u32, Vec<usize>> = HashMap::new();
    for (left, k) in &spots.arena.follows {
        takes.entry(spots.values[*k].1.from).or_default().push(*left);
    }
    for (m, member) in (0u32..).zip(&sliced.members) {
        let mut before: Vec<u32> = member.after.iter().map(|a| kernels[*a as usize]).collect();
        for from in member.inputs.iter().flatten() {
            before.push(match from {
                From::Node { member, output } => {
                    readers.entry((*member, *output)).or_default().push(m);
                    kernels[*member as usize]
                }
                From::Input { index, .. } => *near.entry(*from).or_insert_with(|| {
                    let flush = b.add(ContextType::FLUSH_DATA, &format!("input {index}"), vec![(spots.of)(*from)]);
                    b.edges.insert((start, flush));
                    flush
                }),
            });
        }
        before.extend(takes.get(&m).into_iter().flatten().map(|left| dropped[*left]));
        let kernel = b.add(spots.cores[m as usize], &member.name, Vec::new());
        kernels.push(kernel);
        if before.is_empty() {
            before.push(start);
        }
        b.edges.extend(before.into_iter().map(|p| (p, kernel)));
        for (_, output) in sliced.outputs.iter().filter(|(of, _)| *of == m) {
            let spot = (spots.of)(From::Node { member: m, output: *output });
            let back = b.add(ContextType::WRITEBACK_DATA, &member.name, vec![spot]);
            b.edges.insert((kernel, back));
        }
        for k in ends.get(&m).into_iter().flatten() {
            let (key, _) = spots.values[*k];
            let name = &sliced.members[key.0 as usize].name;
            let spot = (spots.of)(From::Node { member: key.0, output: key.1 });
            let drop = b.add(ContextType::INVALIDATE_DATA, name, vec![spot]);
            dropped[*k] = drop;
            let all = readers.get(&key).cloned().unwrap_or_else(|| vec![key.0]);
            b.edges.extend(all.into_iter().map(|r| (kernels[r as usize], drop)));
        }
    }
    let waited: BTreeSet<u32> = b.edges.iter().map(|e| e.0).collect();
    let last: Vec<u32> = (0..b.contexts.len() as u32).filter(|c| !waited.contains(c)).collect();
    let end = b.add(ContextType::AT_END, "", Vec::new());
    b.edges.extend(last.into_iter().map(|c| (c, end)));
    (linked(b), kernels)
}

/// Turns edges into successor lists and predecessor counts. Long lists continue behind labels.
fn linked(b: Build) -> Vec<ContextInfo> {
    let Build { mut contexts, edges } = b;
    for (from, to) in edges {
        contexts[from as usize].successors.push(to);
        contexts[to as usize].pred_cnt += 1;
    }
    let mut k = 0;
    while k < contexts.len() {
        if contexts[k].successors.len() > SUCCESSORS {
            let rest = contexts[k].successors.split_off(SUCCESSORS - 1);
            let label = contexts.len() as u32;
            contexts[k].successors.push(label);
            contexts.push(ContextInfo {
                kind: ContextType::LABEL.code(),
                successors: rest,
                pred_cnt: 1,
                ..ContextInfo::default()
            });
        }
        k += 1;
    }
    contexts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_with_many_successors_hands_on_through_labels() {
        let mut b = Build::default();
        for _ in 0..61 {
            b.add(ContextType::AIV, "", Vec::new());
        }
        b.edges.extend((1..61).map(|k| (0, k)));
        let c = linked(b);
        assert!(c.iter().all(|c| c.successors.len() <= SUCCESSORS));
        let labels: Vec<u32> = c.iter().filter(|c| c.kind == 0x302).map(|c| c.successors.len() as u32).collect();
        assert_eq!(labels, [26, 10]);
        let mut woken = vec![0; c.len()];
        c.iter().flat_map(|c| &c.successors).for_each(|s| woken[*s as usize] += 1);
        assert!(c.iter().zip(woken).all(|(c, w)| c.pred_cnt == w));
    }
}
