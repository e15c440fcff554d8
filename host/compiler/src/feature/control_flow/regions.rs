//! Regions of v1 control flow: for each node of a graph, the sides of `Switch` nodes under which it
//! runs and the loops in which it runs.
//!
//! A `Switch` passes its value to one of two sides; a `Merge` ends the sides. A loop goes from the
//! `Merge`s of its `Enter`s through `LoopCond` and its `Switch`es to `NextIteration`, or leaves by
//! `Exit`. The `Merge` names the `NextIteration` in `_next_iteration_node`, since edges in a graph
//! never point back. A node stands in the innermost region of its inputs. If the regions of a graph
//! are not properly nested, it is refused, and the error names the node.
//!
//! Cost: nodes and edges, times the nesting depth.
use super::lower::refused;
use crate::error::{CompileError, Result};
use ge_ir::{Graph, Node, NodeId, ValueRef};
use std::collections::{BTreeMap, HashMap};

/// Attribute of a loop's `Merge`: name of the `NextIteration` that supplies its value in every turn
/// but the first.
pub const NEXT: &str = "_next_iteration_node";
/// Attribute of the `StreamActive` nodes of a loop: the border of the loop at which the node
/// stands.
pub const BORDER: &str = "_loop_border";
/// Attribute of a `StreamSwitch` that wakes the streams of what follows a loop.
pub const LOOP_EXIT: &str = "_loop_exit";

/// Whether a node is a `Switch`.
pub fn is_switch(n: &Node) -> bool {
    matches!(n.op(), "Switch" | "RefSwitch")
}
/// Whether a node joins two ways, before or after it became a `StreamMerge`.
pub fn is_merge(n: &Node) -> bool {
    matches!(n.op(), "Merge" | "RefMerge" | "StreamMerge")
}
/// Whether a node has a value or a place whichever way is taken: it has no task and belongs to no
/// region.
pub fn is_outside(n: &Node) -> bool {
    n.is_const() || matches!(n.op(), "Data" | "RefData" | "AippData" | "Variable" | "NetOutput")
}
fn is_exit(n: &Node) -> bool {
    matches!(n.op(), "Exit" | "RefExit")
}

/// The region in which a node stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Region {
    /// The node always runs, once.
    Root,
    /// The node runs on one side of a group of switches: 0 is false, 1 is true.
    Side(u32, u8),
    /// The node runs in every turn of a loop. The nodes of its test are in this region too.
    Loop(u32),
}

/// Switches with one predicate in one region.
#[derive(Clone, Debug)]
pub struct Group {
    /// The predicate of the switches.
    pub pred: ValueRef,
    /// The region in which the switches stand.
    pub base: Region,
    /// The loop whose test the switches are, if any.
    pub of_loop: Option<u32>,
    /// Ids of the switches.
    pub switches: Vec<NodeId>,
    /// The merges that end the sides, with the side of each of their inputs.
    pub merges: Vec<(NodeId, [u8; 2])>,
    /// The group that this one was united with; its own number if it was not.
    same: u32,
    level: u32,
}

/// A loop of v1 control flow.
#[derive(Clone, Debug)]
pub struct Loop {
    /// The loop's `LoopCond`.
    pub cond: NodeId,
    /// The loop's `Merge`s, each with its `Enter` and `NextIteration`.
    pub carried: Vec<Carried>,
    /// The loop's `Exit` nodes.
    pub exits: Vec<NodeId>,
    /// The region in which the loop stands.
    pub base: Region,
    /// The group of the loop's switches.
    pub group: Option<u32>,
    /// The `StreamActive` that begins the loop, once there is one.
    pub enter: Option<NodeId>,
    /// The `StreamActive` that ends the loop, once there is one.
    pub exit: Option<NodeId>,
}

/// A value that a loop carries from turn to turn.
#[derive(Clone, Copy, Debug)]
pub struct Carried {
    /// The `Merge` at which a turn begins.
    pub merge: NodeId,
    /// The value of the first turn.
    pub enter: ValueRef,
    /// The `NextIteration` that supplies the value of the next turn.
    pub next: NodeId,
}

/// The regions of a graph.
pub struct Regions {
    at: Vec<Region>,
    /// Groups of switches, united ones included; use [`Regions::groups`] to skip those.
    groups: Vec<Group>,
    of_switch: HashMap<NodeId, u32>,
    /// The loops of the graph.
    pub loops: Vec<Loop>,
}

/// Whether a graph has any v1 control flow.
pub fn any(g: &Graph) -> bool {
    g.nodes().any(|n| is_switch(n) || n.op() == "LoopCond" || matches!(n.op(), "Merge" | "RefMerge"))
}

impl Regions {
    /// The regions of a graph; `None` if it has no v1 control flow.
    ///
    /// # Errors
    /// Fails if the region of some node cannot be determined, for example because its inputs come
    /// from two sides of a `Switch`.
    pub fn of(g: &Graph) -> Result<Option<Regions>> {
        if !any(g) {
            return Ok(None);
        }
        let mut walk = Walk {
            g,
            r: Regions {
                at: vec![Region::Root; g.id_bound()],
                groups: Vec::new(),
                of_switch: HashMap::new(),
                loops: Vec::new(),
            },
            by_pred: HashMap::new(),
            level: vec![0; g.id_bound()],
            ended: BTreeMap::new(),
        };
        walk.find_loops()?;
        for id in walk.line()? {
            if let Some(n) = g.get(id) {
                walk.visit(n)?;
            }
        }
        walk.check()?;
        Ok(Some(walk.r))
    }
    /// The region in which a node stands.
    pub fn at(&self, id: NodeId) -> Region {
        self.at.get(id.index()).map_or(Region::Root, |r| self.real(*r))
    }
    /// The groups of switches with their numbers; united groups appear once.
    pub fn groups(&self) -> impl Iterator<Item = (u32, &Group)> {
        self.groups.iter().enumerate().map(|(i, g)| (i as u32, g)).filter(|(i, g)| g.same == *i)
    }
    /// The group with this number, or the group that it was united with.
    pub fn group(&self, k: u32) -> &Group {
        &self.groups[self.root(k) as usize]
    }
    /// The region directly around a region; `None` for the root.
    pub fn around(&self, r: Region) -> Option<Region> {
        match r {
            Region::Root => None,
            Region::Side(k, _) => Some(self.real(self.group(k).base)),
            Region::Loop(l) => Some(self.real(self.loops[l as usize].base)),
        }
    }
    /// A region and all regions around it except the root, innermost first.
    pub fn path(&self, r: Region) -> Vec<Region> {
        let mut out = Vec::new();
        let mut at = Some(self.real(r));
        while let Some(r) = at.filter(|r| *r != Region::Root) {
            out.push(r);
            at = self.around(r);
        }
        out
    }
    /// Whether `inner` equals `outer` or lies within it.
    pub fn within(&self, inner: Region, outer: Region) -> bool {
        outer == Region::Root || self.path(inner).contains(&self.real(outer))
    }
    /// The region into which a value brings its readers: for an output of a `Switch`, the side.
    pub fn of_value(&self, v: ValueRef) -> Region {
        match self.of_switch.get(&v.node) {
            Some(k) => Region::Side(self.root(*k), v.output.min(1) as u8),
            None => self.at(v.node),
        }
    }
    /// The nodes directly in a region that no other node of the region follows: the region has
    /// ended once they have ended. A node that begins a loop does not count; the node that ends the
    /// loop does.
    pub fn last<'g>(&self, g: &'g Graph, region: Region) -> Vec<&'g Node> {
        let here = |n: &Node| !is_outside(n) && !is_switch(n) && self.at(n.id()) == region;
        let read = |n: &Node| {
            let data = (0..n.outputs().len()).flat_map(|k| n.uses(k)).map(|u| u.node);
            data.chain(n.control_users().iter().copied()).any(|u| g.get(u).is_some_and(here))
        };
        let begins = |n: &Node| n.attrs().str(BORDER) == Some("enter");
        g.nodes().filter(|n| here(n) && !begins(n) && !read(n)).collect()
    }
    fn root(&self, mut k: u32) -> u32 {
        while self.groups[k as usize].same != k {
            k = self.groups[k as usize].same;
        }
        k
    }
    fn real(&self, r: Region) -> Region {
        match r {
            Region::Side(k, s) => Region::Side(self.root(k), s),
            other => other,
        }
    }
    /// The inner of two regions, if one lies within the other.
    fn inner(&self, a: Region, b: Region) -> Option<Region> {
        if self.within(a, b) {
            Some(self.real(a))
        } else if self.within(b, a) {
            Some(self.real(b))
        } else {
            None
        }
    }
    /// The innermost region that contains both.
    fn common(&self, a: Region, b: Region) -> Region {
        let around = self.path(b);
        self.path(a).into_iter().find(|r| around.contains(r)).unwrap_or(Region::Root)
    }
}

struct Walk<'g> {
    g: &'g Graph,
    r: Regions,
    by_pred: HashMap<ValueRef, Vec<u32>>,
    level: Vec<u32>,
    /// Loops by their merges.
    ended: BTreeMap<NodeId, u32>,
}

fn odd(n: &Node, why: &str) -> CompileError {
    refused(n, why)
}

impl<'g> Walk<'g> {
    fn find_loops(&mut self) -> Result<()> {
        let g = self.g;
        let carried: Vec<&Node> = g.nodes().filter(|n| is_merge(n) && n.attr(NEXT).is_some()).collect();
        let wanted: HashMap<&str, NodeId> = {
            let names: std::collections::HashSet<&str> = carried.iter().filter_map(|m| m.attrs().str(NEXT)).collect();
            g.nodes().filter(|n| names.contains(n.name())).map(|n| (n.name(), n.id())).collect()
        };
        let mut by_frame: HashMap<&str, u32> = HashMap::new();
        let mut borders: HashMap<(&str, &str), NodeId> = HashMap::new();
        for n in g.nodes() {
            if let (Some(of), Some(border)) = (n.attrs().str("_loop_name"), n.attrs().str(BORDER)) {
                borders.entry((of, border)).or_insert(n.id());
            }
        }
        for cond in g.nodes().filter(|n| n.op() == "LoopCond") {
            let l = self.r.loops.len() as u32;
            self.r.loops.push(Loop {
                cond: cond.id(),
                carried: vec![],
                exits: vec![],
                base: Region::Root,
                group: None,
                enter: borders.get(&(cond.name(), "enter")).copied(),
                exit: borders.get(&(cond.name(), "exit")).copied(),
            });
            for s in cond.uses(0).iter().filter(|u| u.input == 1).filter_map(|u| g.get(u.node)).filter(|n| is_switch(n))
            {
                let merge = g.producer(s, 0).filter(|m| is_merge(m) && m.attr(NEXT).is_some());
                let merge = merge.ok_or_else(|| {
                    odd(
                        s,
                        &format!("it takes its side from `{}`, but its value is no `Merge` with `{NEXT}`", cond.name()),
                    )
                })?;
                self.ended.insert(merge.id(), l);
                if let Some(frame) = g.producer(merge, 0).and_then(|e| e.attrs().str("frame_name")) {
                    by_frame.insert(frame, l);
                }
            }
        }
        // After `NextIterationPass` a `NextIteration` has a second input: the memory of the first
        // value, into which it writes.
        for m in carried {
            let frame = || g.producer(m, 0).and_then(|e| e.attrs().str("frame_name")).and_then(|f| by_frame.get(f));
            let l = self.ended.get(&m.id()).or_else(frame).copied();
            let l = l.ok_or_else(|| odd(m, "it belongs to no loop: no `Switch` over a `LoopCond` reads it"))?;
            self.ended.insert(m.id(), l);
            let next = m.attrs().str(NEXT).and_then(|n| wanted.get(n)).and_then(|n| g.get(*n));
            let next = next.filter(|n| matches!(n.op(), "NextIteration" | "RefNextIteration")).ok_or_else(|| {
                odd(m, &format!("`{}` is no `NextIteration` of this graph", m.attrs().str(NEXT).unwrap_or("")))
            })?;
            let enter = m.input(0).filter(|v| !v.is_absent()).ok_or_else(|| odd(m, "it has no first value"))?;
            self.r.loops[l as usize].carried.push(Carried { merge: m.id(), enter, next: next.id() });
        }
        Ok(())
    }

    /// The nodes in an order in which a loop's merges come after everything that enters the loop.
    fn line(&self) -> Result<Vec<NodeId>> {
        let g = self.g;
        let mut waits = vec![0u32; g.id_bound()];
        let mut then: Vec<Vec<NodeId>> = vec![Vec::new(); g.id_bound()];
        let mut edge = |a: NodeId, b: NodeId| {
            then[a.index()].push(b);
            waits[b.index()] += 1;
        };
        for n in g.nodes() {
            n.inputs().iter().filter(|v| !v.is_absent()).for_each(|v| edge(v.node, n.id()));
            n.controls().iter().for_each(|c| edge(*c, n.id()));
        }
        for l in &self.r.loops {
            // The region of a loop's exit is known only after the loop's merges have been visited.
            if let Some(exit) = l.exit {
                l.carried.iter().for_each(|c| edge(c.merge, exit));
            }
            for m in &l.carried {
                l.carried.iter().filter(|c| c.merge != m.merge).for_each(|c| edge(c.enter.node, m.merge));
            }
            // Whether a value is made inside the loop is known only after the loop's test has its
            // sides.
            let test = g.get(l.cond).and_then(|c| c.uses(0).iter().find(|u| u.input == 1));
            test.into_iter().for_each(|s| l.carried.iter().for_each(|c| edge(s.node, c.next)));
        }
        let mut ready: std::collections::VecDeque<NodeId> =
            g.nodes().map(Node::id).filter(|n| waits[n.index()] == 0).collect();
        let mut out = Vec::with_capacity(g.len());
        while let Some(id) = ready.pop_front() {
            out.push(id);
            for t in &then[id.index()] {
                waits[t.index()] -= 1;
                if waits[t.index()] == 0 {
                    ready.push_back(*t);
                }
            }
        }
        match g.nodes().find(|n| waits[n.id().index()] > 0) {
            Some(n) => Err(odd(n, "what enters its loop depends on the loop itself")),
            None => Ok(out),
        }
    }

    /// The innermost of the regions of a node's inputs and of the nodes that it waits for.
    fn gather(&mut self, n: &Node) -> Result<Region> {
        let mut at = Region::Root;
        let data = n.inputs().iter().filter(|v| !v.is_absent()).map(|v| (self.r.of_value(*v), v.node));
        let waits = n.controls().iter().map(|c| (self.r.at(*c), *c));
        for (region, from) in data.chain(waits).collect::<Vec<_>>() {
            at = self.meet(at, region).ok_or_else(|| {
                let from = self.g.get(from).map_or("", Node::name);
                odd(n, &format!("it takes `{from}` and other values of which only one side of a `Switch` ever comes"))
            })?;
        }
        Ok(at)
    }
    /// The inner of two regions. Groups with the same predicate are united if their sides meet in
    /// one node.
    fn meet(&mut self, a: Region, b: Region) -> Option<Region> {
        for _ in 0..=self.r.groups.len() {
            if let Some(inner) = self.r.inner(a, b) {
                return Some(inner);
            }
            let (pa, pb) = (self.r.path(a), self.r.path(b));
            let twin = pa.iter().find_map(|x| {
                let Region::Side(i, s) = *x else { return None };
                let same = |y: &&Region| {
                    matches!(**y, Region::Side(j, t)
                    if j != i && t == s && self.r.group(i).pred == self.r.group(j).pred)
                };
                pb.iter().find(same).and_then(|y| if let Region::Side(j, _) = *y { Some((i, j)) } else { None })
            });
            let (i, j) = twin?;
            self.unite(i, j)?;
        }
        None
    }
    fn unite(&mut self, i: u32, j: u32) -> Option<u32> {
        let (i, j) = (self.r.root(i), self.r.root(j));
        if i == j {
            return Some(i);
        }
        let base = self.r.inner(self.r.group(i).base, self.r.group(j).base)?;
        let other = self.r.groups[j as usize].clone();
        self.r.groups[j as usize].same = i;
        let g = &mut self.r.groups[i as usize];
        g.base = base;
        g.level = g.level.max(other.level);
        g.switches.extend(other.switches);
        g.merges.extend(other.merges);
        Some(i)
    }

    fn visit(&mut self, n: &Node) -> Result<()> {
        let id = n.id();
        let preds = n.inputs().iter().filter(|v| !v.is_absent()).map(|v| v.node).chain(n.controls().iter().copied());
        let level = preds.map(|p| self.level[p.index()]).max().unwrap_or(0);
        self.level[id.index()] = level;
        let at = if let Some(l) = self.ended.get(&id).copied() {
            let entries: Vec<Region> =
                self.r.loops[l as usize].carried.iter().map(|c| self.r.of_value(c.enter)).collect();
            let mut base = Region::Root;
            for e in entries {
                base = self.meet(base, e).ok_or_else(|| odd(n, "its loop is entered from two sides of a `Switch`"))?;
            }
            self.r.loops[l as usize].base = base;
            Region::Loop(l)
        } else if is_merge(n) {
            self.merge(n)?
        } else if is_switch(n) {
            self.switch(n, level)?
        } else if is_exit(n) || n.attrs().str(BORDER) == Some("exit") {
            self.exit(n)?
        } else if n.op() == "ControlTrigger" {
            // The node is reached whichever side was taken: it stands in a turn of the loop, or at
            // the root.
            let all: Vec<Region> = n.controls().iter().map(|c| self.r.at(*c)).collect();
            let at = all.iter().copied().reduce(|a, b| self.r.common(a, b)).unwrap_or(Region::Root);
            let turn = |r: &Region| matches!(*r, Region::Side(k, _) if self.r.group(k).of_loop.is_some());
            self.r.path(at).into_iter().find(turn).unwrap_or(Region::Root)
        } else if n.op() == "NextIteration" || n.op() == "RefNextIteration" {
            self.next(n)?
        } else {
            self.gather(n)?
        };
        if n.op() == "NetOutput" && at != Region::Root {
            return Err(odd(n, "the graph gives out a value that comes only on one side of a `Switch`"));
        }
        self.r.at[id.index()] = at;
        Ok(())
    }

    fn switch(&mut self, n: &Node, level: u32) -> Result<Region> {
        let (Some(x), Some(p)) = (n.input(0), n.input(1)) else {
            return Err(odd(n, "it has no value or no predicate"));
        };
        if x.is_absent() || p.is_absent() || n.outputs().len() != 2 {
            return Err(odd(n, "it takes a value and a predicate and has two outputs"));
        }
        let base = self.gather(n)?;
        let of_loop = self.r.loops.iter().position(|l| l.cond == p.node).map(|l| l as u32);
        let all = self.by_pred.get(&p).cloned().unwrap_or_default();
        let fits = all.into_iter().map(|k| self.r.root(k)).find(|k| {
            let g = self.r.group(*k);
            g.of_loop.is_some() || (g.level == level && self.r.inner(g.base, base).is_some())
        });
        let k = match fits {
            Some(k) => k,
            None => {
                let k = self.r.groups.len() as u32;
                let group = Group { pred: p, base, of_loop, switches: vec![], merges: vec![], same: k, level };
                self.r.groups.push(group);
                self.by_pred.entry(p).or_default().push(k);
                k
            }
        };
        let inner = self.r.inner(self.r.group(k).base, base).unwrap_or(base);
        let g = &mut self.r.groups[k as usize];
        g.base = inner;
        g.switches.push(n.id());
        self.r.of_switch.insert(n.id(), k);
        if let Some(l) = of_loop {
            self.r.loops[l as usize].group = Some(k);
        }
        Ok(base)
    }

    /// Ends the sides that a `Merge` joins. Returns the region in which the merge itself stands.
    fn merge(&mut self, n: &Node) -> Result<Region> {
        let why = "it joins two values, one of each side of one `Switch`";
        let &[a, b] = n.inputs() else { return Err(odd(n, &format!("{why}; it has {} inputs", n.inputs().len()))) };
        let ends = [self.r.of_value(a), self.r.of_value(b)];
        let side = |r: Region| if let Region::Side(k, s) = r { Some((k, s)) } else { None };
        let sides = match (side(ends[0]), side(ends[1])) {
            (Some((i, s)), Some((j, t))) if s != t && self.r.group(i).pred == self.r.group(j).pred => {
                let k = self.unite(i, j).ok_or_else(|| odd(n, why))?;
                Some((k, [s, t]))
            }
            // A value that exists in either case stands for the other side.
            (Some((k, s)), _) if self.r.within(self.r.group(k).base, ends[1]) => Some((k, [s, 1 - s])),
            (_, Some((k, s))) if self.r.within(self.r.group(k).base, ends[0]) => Some((k, [1 - s, s])),
            _ => None,
        };
        let (k, sides) = sides.ok_or_else(|| odd(n, why))?;
        let k = self.r.root(k);
        if self.r.group(k).of_loop.is_some() {
            return Err(odd(n, "it joins the sides of a loop's test, which ends by `Exit` and `NextIteration`"));
        }
        self.r.groups[k as usize].merges.push((n.id(), sides));
        self.level[n.id().index()] = self.level[n.id().index()].max(self.r.group(k).level + 1);
        Ok(self.r.group(k).base)
    }

    fn exit(&mut self, n: &Node) -> Result<Region> {
        let border = n.attrs().str("_loop_name").is_some();
        let of = match n.input(0).map(|v| self.r.of_value(v)) {
            _ if border => self.r.loops.iter().position(|l| l.exit == Some(n.id())),
            Some(Region::Side(k, 0)) => self.r.group(k).of_loop.map(|l| l as usize),
            _ => None,
        };
        let l = of.ok_or_else(|| odd(n, "it does not read output 0 of a loop's `Switch`"))?;
        if !border {
            self.r.loops[l].exits.push(n.id());
        }
        self.level[n.id().index()] += 1;
        Ok(self.r.loops[l].base)
    }

    fn next(&mut self, n: &Node) -> Result<Region> {
        let l = self.r.loops.iter().find(|l| l.carried.iter().any(|c| c.next == n.id()));
        let group = l.and_then(|l| l.group).ok_or_else(|| odd(n, "no `Merge` of a loop takes its value"))?;
        let own = Region::Side(group, 1);
        let at = self.gather(n)?;
        if self.r.within(own, at) { Ok(own) } else { Err(odd(n, "its value is not made in every turn of its loop")) }
    }

    /// Checks what can only be seen after the walk.
    fn check(&self) -> Result<()> {
        for (_, g) in self.r.groups() {
            let first = g.merges.iter().map(|(m, _)| self.level[m.index()]).min();
            if let (Some(first), Some(s)) = (first, g.switches.iter().find(|s| Some(self.level[s.index()]) >= first)) {
                if let Some(n) = self.g.get(*s).filter(|_| first > 0) {
                    return Err(odd(n, "its sides are joined with those of a switch on whose outcome it depends"));
                }
            }
        }
        for l in &self.r.loops {
            if let Some(n) = self.g.get(l.cond).filter(|_| l.carried.is_empty() || l.group.is_none()) {
                return Err(odd(n, "no `Switch` reads it: its loop has no body and no way out"));
            }
        }
        for n in self.g.nodes().filter(|n| !is_outside(n) && !is_exit(n) && n.attrs().str(BORDER).is_none()) {
            if let Region::Side(k, 0) = self.r.at(n.id()) {
                if self.r.group(k).of_loop.is_some() {
                    return Err(odd(n, "it reads what leaves a loop without an `Exit`"));
                }
            }
        }
        Ok(())
    }
}
