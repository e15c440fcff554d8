//! `DynamicShapePartition` (facts 3.5): the root graph becomes parts of known and of unknown shape,
//! each a PartitionedCall.
//!
//! Nodes of one control flow group form one part, together with everything on a path between them.
//! So do adjacent unknown nodes. Adjacent known nodes form one part if no other path connects them.
//! Known parts smaller than `ge.exec.static_model_ops_lower_limit` become unknown, and unknown
//! parts are then joined again.
//!
//! With `ge.x.known_first`, known nodes are joined before unknown ones, and a known part that is
//! large enough never becomes unknown because of its surroundings. A graph without an unknown node
//! stays unchanged.
use super::{Calls, Merge, Part, call_parts, unknown};
use crate::error::Result;
use crate::options::Options;
use crate::place::Placement;
use crate::toolbox::Toolbox;
use ge_ir::{AttrValue, Graph, Model};
use ge_planners::cluster::{self, Fit};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// Attribute set on a root graph that has been partitioned.
pub const DONE: &str = "_dynamic_shape_partitioned";
/// Node attribute: number of the control flow group whose nodes stay together.
pub const GROUP: &str = "_control_flow_group";
/// Default of the size limit if known parts are joined first.
const KNOWN_FIRST_LIMIT: i64 = 6;
pub(super) const REST: u32 = u32::MAX;

/// The parts of a graph.
pub struct Parts {
    /// The part of each node, by its place in the order; `u32::MAX` for nodes that belong to none:
    /// parameters, results, shared constants.
    pub of: Vec<u32>,
    /// Whether each part is of known shape.
    pub known: Vec<bool>,
}

/// Partitions the root graph. Returns whether anything was unknown, so that the graph was
/// partitioned.
pub fn run(
    model: &mut Model,
    placement: &Placement,
    toolbox: &Toolbox,
    options: &Options,
    merge: Merge<'_>,
) -> Result<bool> {
    let g = model.root();
    let marks = unknown::nodes(model, 0, placement, toolbox);
    if g.attrs().get(DONE).is_some() || !marks.contains(&true) {
        return Ok(false);
    }
    let found = parts(g, &marks, options);
    let named = |(k, known): (usize, &bool)| Part {
        name: name(g.name(), k, *known),
        attrs: vec![("_is_unknown_shape", AttrValue::Bool(!known))],
    };
    let list: Vec<Part> = found.known.iter().enumerate().map(named).collect();
    call_parts(model, vec![Calls { graph: 0, of: found.of, parts: &list }], merge)?;
    model.root_mut().attrs_mut().set(DONE, true);
    Ok(true)
}

/// The name of a part.
pub fn name(graph: &str, part: usize, known: bool) -> String {
    format!("{graph}_sub_{part}_{}", if known { "know" } else { "unknow" })
}

/// Minimum number of nodes for a known part to become a model of its own; if negative, none does.
pub fn limit(options: &Options) -> i64 {
    const LIMIT: &str = "ge.exec.static_model_ops_lower_limit";
    if options.known_first && !options.given().contains_key(LIMIT) {
        return KNOWN_FIRST_LIMIT;
    }
    options.static_ops_lower_limit
}

/// Finds the parts of a graph. `marks` says which nodes are unknown, by place in the order.
pub fn parts(g: &Graph, marks: &[bool], options: &Options) -> Parts {
    let limit = limit(options);
    // Items are the nodes that run, by place in the order. Sources that wait for nothing are
    // assigned with their readers below.
    let mut at = vec![REST; g.id_bound()];
    let mut items: Vec<u32> = Vec::new();
    for (place, n) in (0u32..).zip(g.nodes()) {
        let source = n.inputs().is_empty() && n.controls().is_empty();
        let stays = (source && (n.is_const() || matches!(n.op(), "Variable" | "FileConstant")))
            || matches!(n.op(), "Data" | "RefData" | "AippData" | "AnnData" | "NetOutput")
            || n.attrs().flag(ge_model::KEPT);
        if !stays {
            at[n.id().index()] = items.len() as u32;
            items.push(place);
        }
    }
    let mut edges: Vec<(u32, u32)> = Vec::new();
    let mut groups: HashMap<i64, u32> = HashMap::new();
    let mut of: Vec<u32> = (0..items.len() as u32).collect();
    for n in g.nodes().filter(|n| at[n.id().index()] != REST) {
        let own = at[n.id().index()];
        let data = n.inputs().iter().filter(|v| !v.is_absent()).map(|v| v.node);
        let from = data.chain(n.controls().iter().copied()).map(|s| at[s.index()]).filter(|s| *s != REST);
        edges.extend(from.map(|s| (s, own)));
        if let Some(group) = n.attrs().int(GROUP) {
            of[own as usize] = *groups.entry(group).or_insert(own);
        }
    }
    let mut dark: Vec<bool> = items.iter().map(|p| marks[*p as usize] || limit < 0).collect();
    close(&mut of, &edges, &mut dark);
    if !options.known_first {
        contract(&mut of, &edges, &mut dark);
    }
    of = together(&of, &edges, &dark, false);
    // Known parts that are too small for a model of their own become unknown.
    let mut size = vec![0i64; items.len()];
    of.iter().for_each(|c| size[*c as usize] += 1);
    let mut small = false;
    for (i, c) in of.iter().enumerate() {
        if !dark[i] && size[*c as usize] < limit {
            dark[i] = true;
            small = true;
        }
    }
    if options.known_first {
        of = together(&of, &edges, &dark, true);
    } else if small {
        contract(&mut of, &edges, &mut dark);
    }
    let (of, known) = numbered(&of, &edges, &dark);
    let mut places = vec![REST; g.len()];
    items.iter().zip(&of).for_each(|(p, c)| places[*p as usize] = *c);
    // A constant that only one part reads belongs to that part.
    let part_of = |id: ge_ir::NodeId| if at[id.index()] == REST { REST } else { of[at[id.index()] as usize] };
    for (place, n) in g.nodes().enumerate().filter(|(_, n)| n.is_const() && at[n.id().index()] == REST) {
        let mut readers = n.uses(0).iter().map(|u| u.node).chain(n.control_users().iter().copied()).map(part_of);
        if let Some(first) = readers.next() {
            if readers.all(|r| r == first) {
                places[place] = first;
            }
        }
    }
    Parts { of: places, known }
}

fn find(of: &mut [u32], mut i: u32) -> u32 {
    while of[i as usize] != i {
        of[i as usize] = of[of[i as usize] as usize];
        i = of[i as usize];
    }
    i
}

/// Joins dark (unknown) neighbours, and everything on a path between joined items, until nothing
/// changes. `of` is a union-find forest over items; a root is the first item of its part.
fn contract(of: &mut [u32], edges: &[(u32, u32)], dark: &mut [bool]) {
    loop {
        let mut changed = false;
        for &(a, b) in edges {
            if dark[a as usize] && dark[b as usize] {
                let (a, b) = (find(of, a), find(of, b));
                if a != b {
                    of[a.max(b) as usize] = a.min(b);
                    changed = true;
                }
            }
        }
        changed |= close(of, edges, dark);
        if !changed {
            return;
        }
    }
}

/// Merges parts that reach each other in both directions. The merged part is dark if any of them
/// is. Returns whether there were such parts.
fn close(of: &mut [u32], edges: &[(u32, u32)], dark: &mut [bool]) -> bool {
    let roots: Vec<u32> = (0..of.len() as u32).map(|i| find(of, i)).collect();
    let mut outs: Vec<Vec<u32>> = vec![Vec::new(); of.len()];
    for &(a, b) in edges {
        let (a, b) = (roots[a as usize], roots[b as usize]);
        if a != b {
            outs[a as usize].push(b);
        }
    }
    let mut changed = false;
    for ring in rings(&outs) {
        let first = ring.iter().copied().min().unwrap_or(0);
        for c in ring {
            of[c as usize] = first;
            changed = true;
        }
    }
    let mut is_dark = vec![false; of.len()];
    for i in 0..of.len() as u32 {
        let root = find(of, i);
        of[i as usize] = root;
        is_dark[root as usize] |= dark[i as usize];
    }
    for (i, root) in of.iter().enumerate() {
        dark[i] = is_dark[*root as usize];
    }
    changed
}

/// Strongly connected sets of more than one node (Tarjan's algorithm, without recursion).
fn rings(outs: &[Vec<u32>]) -> Vec<Vec<u32>> {
    const NEW: u32 = u32::MAX;
    let n = outs.len();
    let (mut index, mut low) = (vec![NEW; n], vec![0u32; n]);
    let mut on = vec![false; n];
    let (mut stack, mut path): (Vec<u32>, Vec<(u32, usize)>) = (Vec::new(), Vec::new());
    let mut next = 0;
    let mut out = Vec::new();
    for start in 0..n as u32 {
        if index[start as usize] != NEW {
            continue;
        }
        path.push((start, 0));
        while let Some((v, k)) = path.pop() {
            let i = v as usize;
            if k == 0 {
                index[i] = next;
                low[i] = next;
                next += 1;
                stack.push(v);
                on[i] = true;
            }
            match outs[i].get(k) {
                Some(&w) => {
                    path.push((v, k + 1));
                    if index[w as usize] == NEW {
                        path.push((w, 0));
                    } else if on[w as usize] {
                        low[i] = low[i].min(index[w as usize]);
                    }
                }
                None => {
                    if low[i] == index[i] {
                        let from = stack.iter().rposition(|s| *s == v).unwrap_or(0);
                        let ring = stack.split_off(from);
                        ring.iter().for_each(|c| on[*c as usize] = false);
                        if ring.len() > 1 {
                            out.push(ring);
                        }
                    }
                    if let Some((parent, _)) = path.last() {
                        let p = *parent as usize;
                        low[p] = low[p].min(low[i]);
                    }
                }
            }
        }
    }
    out
}

/// Parts in topological order. Among those that are ready, the one with the lowest first item comes
/// first.
fn sorted(of: &[u32], edges: &[(u32, u32)]) -> Vec<u32> {
    let n = of.len();
    let mut outs: Vec<Vec<u32>> = vec![Vec::new(); n];
    let mut waits = vec![0usize; n];
    for &(a, b) in edges {
        let (a, b) = (of[a as usize], of[b as usize]);
        if a != b {
            outs[a as usize].push(b);
            waits[b as usize] += 1;
        }
    }
    let is_part = |c: &u32| of[*c as usize] == *c;
    let mut ready: BinaryHeap<Reverse<u32>> =
        (0..n as u32).filter(is_part).filter(|c| waits[*c as usize] == 0).map(Reverse).collect();
    let mut out = Vec::new();
    while let Some(Reverse(c)) = ready.pop() {
        out.push(c);
        for &next in &outs[c as usize] {
            waits[next as usize] -= 1;
            if waits[next as usize] == 0 {
                ready.push(Reverse(next));
            }
        }
    }
    out
}

/// Joins adjacent parts whose darkness equals `which` (false: known, true: unknown) if no other
/// path connects them.
fn together(of: &[u32], edges: &[(u32, u32)], dark: &[bool], which: bool) -> Vec<u32> {
    let order = sorted(of, edges);
    let mut rank = vec![0u32; of.len()];
    (0u32..).zip(&order).for_each(|(r, c)| rank[*c as usize] = r);
    let item = |i: u32| rank[of[i as usize] as usize];
    let fits = |r: u32| dark[order[r as usize] as usize] == which;
    let found = cluster::partition(order.len(), edges.iter().map(|(a, b)| (item(*a), item(*b))), &|a, b| {
        if fits(a) && fits(b) { Fit::IfDirect } else { Fit::Never }
    });
    let mut first = vec![u32::MAX; found.members.len()];
    let mut out = vec![0; of.len()];
    for i in 0..of.len() as u32 {
        let c = found.of[item(i) as usize] as usize;
        if first[c] == u32::MAX {
            first[c] = i;
        }
        out[i as usize] = first[c];
    }
    out
}

/// Numbers the parts in topological order and says for each whether it is known.
fn numbered(of: &[u32], edges: &[(u32, u32)], dark: &[bool]) -> (Vec<u32>, Vec<bool>) {
    let order = sorted(of, edges);
    let mut number = vec![0u32; of.len()];
    let mut known = Vec::new();
    for (k, c) in (0u32..).zip(&order) {
        number[*c as usize] = k;
        known.push(!dark[*c as usize]);
    }
    (of.iter().map(|c| number[*c as usize]).collect(), known)
}
