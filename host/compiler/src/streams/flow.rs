//! `Flow`: what labels and jumps make of the root graph's line, and what that means for order.
//!
//! `feature/control_flow` writes each If, Case, While and For as a *scope*: label nodes with one `_label_scope`,
//! from its entry (the switch of branches, the first label of a loop) to its last label. Between a
//! label and the next jump lies a *region*: a branch, a condition, a body. A region runs never,
//! once or often, a node outside of it once, so no event may cross its border. What comes into a
//! scope is waited for at its entry, what leaves it goes on from its last label. Within a region
//! streams are free: those beside the scope's own are woken when it begins and joined before it
//! ends.
use crate::feature::control_flow::lower::REF_INPUT;
use crate::ids::NodeKey;
use crate::streams::StreamPlan;
use ge_ir::{Key, Model, Node, NodeId};
use ge_plugin_api::types::AttrMap;
use std::collections::{BTreeMap, HashMap, HashSet};

pub use crate::feature::control_flow::lower::SCOPE;
/// A StreamActive that wakes the streams of its region.
pub const FIRST_ACTIVE: &str = "subgraph_first_active";

/// A stretch between a label and the next jump of its scope. Region 0 is what stands in no scope.
#[derive(Clone, Debug)]
struct Region {
    /// The scope that it is a part of; none for region 0.
    scope: Option<usize>,
    /// The region in which the scope stands.
    parent: usize,
    depth: usize,
    /// Its label.
    open: NodeId,
    /// Where all its streams are over: the jump that ends it, or before that the first copy into
    /// what the next turn reads.
    join: NodeId,
}

/// The label nodes of one control node.
#[derive(Clone, Debug)]
struct Scope {
    entry: NodeId,
    end: NodeId,
    /// Whether one of its regions is taken: a switch opens it. A loop opens with a label.
    branches: bool,
}

/// Scopes and regions of the root graph.
#[derive(Clone, Debug)]
pub struct Flow {
    /// By node of the root.
    region: Vec<usize>,
    regions: Vec<Region>,
    scopes: Vec<Scope>,
    /// What must be over before each node, none of it across the border of a scope.
    before: Vec<Vec<NodeId>>,
    joins: HashMap<NodeId, usize>,
    /// By node of the root: the entry of the outermost scope around it.
    around: Vec<Option<NodeId>>,
    frame: HashSet<NodeId>,
    /// Scopes by their entries and last labels.
    at_ends: HashMap<NodeId, usize>,
}

/// Whether a node belongs to a scope's frame.
pub fn scope_of(n: &Node) -> Option<i64> {
    n.attrs().int(SCOPE).filter(|_| matches!(n.op(), "LabelSet" | "LabelGotoEx" | "LabelSwitchByIndex"))
}

impl Flow {
    /// Of a model whose control flow stands as labels; None where there are no scopes, or they do
    /// not nest.
    pub fn of(model: &Model) -> Option<Flow> {
        let g = model.root();
        let mut frames: BTreeMap<i64, Vec<(usize, &Node)>> = BTreeMap::new();
        for (at, n) in g.nodes().enumerate() {
            if let Some(s) = scope_of(n) {
                frames.entry(s).or_default().push((at, n));
            }
        }
        if frames.is_empty() {
            return None;
        }
        let none = NodeId::NONE;
        let outside = Region { scope: None, parent: 0, depth: 0, open: none, join: none };
        let mut f = Flow {
            region: vec![0; g.id_bound()],
            regions: vec![outside],
            scopes: Vec::new(),
            before: vec![Vec::new(); g.id_bound()],
            joins: HashMap::new(),
            around: vec![None; g.id_bound()],
            frame: HashSet::new(),
            at_ends: HashMap::new(),
        };
        let mut first: Vec<usize> = Vec::new();
        // For each label node its scope, its place among the scope's, and how many those are.
        let mut frame: HashMap<NodeId, (usize, usize, usize)> = HashMap::new();
        for nodes in frames.values() {
            let ((at, entry), (_, end)) = (nodes.first()?, nodes.last()?);
            if nodes.len() < 2 || end.op() != "LabelSet" {
                return None;
            }
            nodes.iter().enumerate().for_each(|(k, (_, n))| {
                frame.insert(n.id(), (f.scopes.len(), k, nodes.len()));
            });
            let branches = entry.op() == "LabelSwitchByIndex";
            f.scopes.push(Scope { entry: entry.id(), end: end.id(), branches });
            first.push(*at);
        }
        let mut stack = vec![0usize];
        let mut at = vec![usize::MAX; g.id_bound()];
        for (pos, n) in g.nodes().enumerate() {
            at[n.id().index()] = pos;
            let top = *stack.last()?;
            f.region[n.id().index()] = top;
            let Some(&(scope, k, count)) = frame.get(&n.id()) else { continue };
            let inside = f.regions[top].scope == Some(scope);
            let last = k + 1 == count;
            if inside {
                // The label or jump that ends a region; the last label stands where the scope does.
                f.regions[top].join = n.id();
                stack.pop();
                if last {
                    f.region[n.id().index()] = f.regions[top].parent;
                    continue;
                }
            }
            if n.op() == "LabelSet" && !last {
                let parent = *stack.last()?;
                let depth = f.regions[parent].depth + 1;
                let r = f.regions.len();
                f.regions.push(Region { scope: Some(scope), parent, depth, open: n.id(), join: none });
                stack.push(r);
                f.region[n.id().index()] = if k == 0 { parent } else { r };
            }
        }
        if stack.len() != 1 {
            return None;
        }
        // What the next turn reads is written once all of this turn is over.
        for n in g.nodes() {
            let r = f.region[n.id().index()];
            let Some(scope) = f.regions[r].scope else { continue };
            let Some(into) = n.attrs().int(REF_INPUT).and_then(|k| n.input(usize::try_from(k).ok()?)) else { continue };
            let join = f.regions[r].join;
            if !into.is_absent() && at[into.node.index()] < first[scope] && at[n.id().index()] < at[join.index()] {
                f.regions[r].join = n.id();
            }
        }
        f.at_ends = f.scopes.iter().enumerate().flat_map(|(k, s)| [(s.entry, k), (s.end, k)]).collect();
        f.frame = frame.into_keys().collect();
        f.joins = f.regions.iter().enumerate().skip(1).map(|(r, region)| (region.join, r)).collect();
        for n in g.nodes() {
            f.around[n.id().index()] = f.outermost(f.region[n.id().index()]).map(|s| f.scopes[s].entry);
        }
        for s in f.scopes.iter().filter(|s| f.region[s.entry.index()] == 0) {
            f.around[s.entry.index()] = Some(s.entry);
            f.around[s.end.index()] = Some(s.entry);
        }
        for n in g.nodes() {
            let all = n.inputs().iter().filter(|v| !v.is_absent()).map(|v| v.node).chain(n.controls().iter().copied());
            for (a, b) in all.filter_map(|a| f.edge(a, n.id())).collect::<Vec<_>>() {
                f.before[b.index()].push(a);
            }
        }
        for list in &mut f.before {
            list.sort_unstable_by_key(|a| at[a.index()]);
            list.dedup();
        }
        Some(f)
    }

    /// The edge that stands for `a` before `b`, none of whose ends is within a scope that the other
    /// is not in. None: order that the scope itself gives, from region to region.
    fn edge(&self, mut a: NodeId, mut b: NodeId) -> Option<(NodeId, NodeId)> {
        let (mut ra, mut rb) = (self.region[a.index()], self.region[b.index()]);
        while ra != rb {
            let (da, db) = (self.regions[ra].depth, self.regions[rb].depth);
            if da == db && self.regions[ra].scope == self.regions[rb].scope {
                return None;
            }
            if da >= db {
                a = self.scopes[self.regions[ra].scope?].end;
                ra = self.regions[ra].parent;
            }
            if db >= da {
                b = self.scopes[self.regions[rb].scope?].entry;
                rb = self.regions[rb].parent;
            }
        }
        // A value that goes through a loop as it is stands at the last label alone, and comes in at
        // the entry like all others.
        let through =
            self.at_ends.get(&b).map(|s| &self.scopes[*s]).filter(|s| s.end == b && s.entry != a && s.end != a);
        let entry = through.map_or(b, |s| s.entry);
        (a != b).then_some((a, entry))
    }

    /// What must be over before a node of the root starts.
    pub fn before(&self, n: NodeId) -> &[NodeId] {
        self.before.get(n.index()).map_or(&[], Vec::as_slice)
    }
    /// The region in which a node stands; 0: none.
    pub fn region(&self, key: NodeKey) -> usize {
        if key.graph == 0 { self.region.get(key.node.index()).copied().unwrap_or(0) } else { 0 }
    }
    /// Whether a node is a label or jump of a scope.
    pub fn is_label(&self, n: NodeId) -> bool {
        self.frame.contains(&n)
    }
    /// The region that is over where this node starts, its streams joined.
    pub fn joined_at(&self, key: NodeKey) -> Option<usize> {
        if key.graph == 0 { self.joins.get(&key.node).copied() } else { None }
    }
    /// The outermost scope around a region, by number; None for region 0.
    pub fn outermost(&self, mut region: usize) -> Option<usize> {
        while self.regions[region].depth > 1 {
            region = self.regions[region].parent;
        }
        self.regions[region].scope
    }
    /// The entry of the outermost scope that a node of the root stands in or belongs to.
    pub fn around(&self, n: NodeId) -> Option<NodeId> {
        self.around.get(n.index()).copied().flatten()
    }
    /// The scope whose entry or last label a node is: its entry and its number.
    pub fn scope_at(&self, n: NodeId) -> Option<(NodeId, usize)> {
        self.at_ends.get(&n).map(|s| (self.scopes[*s].entry, *s))
    }
    /// All scopes around a region, from the inmost on.
    pub fn scopes_around(&self, region: usize) -> impl Iterator<Item = usize> + '_ {
        let up = |r: &usize| Some(self.regions[*r].parent);
        std::iter::successors(Some(region), up).take_while(|r| *r > 0).filter_map(|r| self.regions[r].scope)
    }
    /// The branches around each region: the scope, and the place of its region among the branches.
    /// Loops have none.
    pub fn branches(&self) -> Vec<Vec<(u32, u32)>> {
        let mut out: Vec<Vec<(u32, u32)>> = Vec::with_capacity(self.regions.len());
        let mut count = vec![0u32; self.scopes.len()];
        for r in &self.regions {
            // A region stands behind the one around it.
            let mut at = out.get(r.parent).cloned().unwrap_or_default();
            if let Some(scope) = r.scope.filter(|s| self.scopes[*s].branches) {
                at.push((scope as u32, count[scope]));
                count[scope] += 1;
            }
            out.push(at);
        }
        out
    }
    /// Entry and last label of a scope.
    pub fn ends(&self, scope: usize) -> (NodeId, NodeId) {
        (self.scopes[scope].entry, self.scopes[scope].end)
    }
    /// How many scopes there are.
    pub fn scope_count(&self) -> usize {
        self.scopes.len()
    }
    /// How many regions there are, region 0 included.
    pub fn region_count(&self) -> usize {
        self.regions.len()
    }
    /// The node before which all streams of a region are over.
    pub fn join(&self, region: usize) -> NodeId {
        self.regions[region].join
    }

    /// For each stream the region that it belongs to: all its nodes stand there. 0: it runs outside
    /// of any.
    pub fn of_streams(&self, model: &Model, plan: &StreamPlan) -> Vec<usize> {
        let mut out: Vec<Option<usize>> = vec![None; plan.streams.len()];
        for n in model.root().nodes() {
            let key = NodeKey::new(0, n.id());
            let r = self.region(key);
            for s in plan.of[key].iter().filter(|_| !plan.taskless[key]).chain(&plan.attached[key]) {
                if let Some(o) = out.get_mut(s.0 as usize) {
                    *o = Some(if o.is_none_or(|o| o == r) { r } else { 0 });
                }
            }
        }
        out.into_iter().map(Option::unwrap_or_default).collect()
    }

    /// Labels of regions that have streams of their own and no StreamActive that wakes them.
    pub fn without_active(&self, model: &Model, plan: &StreamPlan) -> Vec<NodeId> {
        let mut has = vec![true; self.regions.len()];
        self.of_streams(model, plan).into_iter().filter(|r| *r > 0).for_each(|r| has[r] = false);
        for n in model.root().nodes().filter(|n| n.op() == "StreamActive" && n.attrs().flag(FIRST_ACTIVE)) {
            has[self.region(NodeKey::new(0, n.id()))] = true;
        }
        (1..has.len()).filter(|r| !has[*r]).map(|r| self.regions[r].open).collect()
    }
}

/// Puts a StreamActive directly behind each of these labels: it wakes the streams of the region
/// that the label opens.
///
/// # Errors
/// A graph that would break (a bug).
pub fn insert_actives(model: &mut Model, labels: &[NodeId]) -> crate::error::Result<()> {
    let broken = || crate::error::CompileError::internal("streams", "a StreamActive cannot be put behind its label");
    let g = model.root_mut();
    let mut behind: HashMap<NodeId, NodeId> = HashMap::new();
    let old = g.order().to_vec();
    for label in labels {
        let name = format!("{}_StreamActive", g.get(*label).ok_or_else(broken)?.name());
        let mut attrs = AttrMap::default();
        attrs.set(FIRST_ACTIVE, true);
        let id = g.push_node(Key::new("StreamActive"), name, vec![], vec![*label], vec![], attrs).ok_or_else(broken)?;
        behind.insert(*label, id);
    }
    let order: Vec<NodeId> = old.iter().flat_map(|id| std::iter::once(*id).chain(behind.get(id).copied())).collect();
    if g.set_order(&order) { Ok(()) } else { Err(broken()) }
}
