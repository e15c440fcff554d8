//! `Flow`: the structure that labels and jumps give the root graph's node order, and its
//! consequences for the order of execution.
//!
//! `feature/control_flow` writes each If, Case, While and For as a *scope*: label nodes with one
//! `_label_scope`, from its entry (the switch of branches, or the first label of a loop) to its
//! last label. Between a label and the next jump lies a *region*: a branch, a condition, a body. A
//! region may run never, once or often, but a node outside of it runs once, so no event may cross
//! its border. Values that enter a scope are waited for at its entry; nodes that use its results
//! follow its last label. Within a region streams are free: streams other than the scope's own are
//! woken when the region begins and joined before it ends.
use crate::feature::control_flow::lower::REF_INPUT;
use crate::ids::NodeKey;
use crate::streams::StreamPlan;
use ge_ir::{Key, Model, Node, NodeId};
use ge_plugin_api::types::AttrMap;
use std::collections::{BTreeMap, HashMap, HashSet};

pub use crate::feature::control_flow::lower::SCOPE;
/// Attribute of a StreamActive that wakes the streams of its region.
pub const FIRST_ACTIVE: &str = "subgraph_first_active";

/// The nodes between a label and the next jump of its scope. Region 0 holds the nodes outside of
/// all scopes.
#[derive(Clone, Debug)]
struct Region {
    /// The scope that it belongs to; `None` for region 0.
    scope: Option<usize>,
    /// The region that contains the scope.
    parent: usize,
    depth: usize,
    /// The label that opens the region.
    open: NodeId,
    /// The node before which all streams of the region are over: the jump that ends it, or the
    /// first copy into a value that the next iteration reads, if that comes earlier.
    join: NodeId,
}

/// The label nodes of one control node.
#[derive(Clone, Debug)]
struct Scope {
    entry: NodeId,
    end: NodeId,
    /// Whether only one of its regions runs, so that it opens with a switch. A loop opens with a
    /// label.
    branches: bool,
}

/// Scopes and regions of the root graph.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Region of each node of the root, by node id.
    region: Vec<usize>,
    regions: Vec<Region>,
    scopes: Vec<Scope>,
    /// Nodes that must be over before each node; no such edge crosses the border of a scope.
    before: Vec<Vec<NodeId>>,
    joins: HashMap<NodeId, usize>,
    /// Entry of the outermost scope around each node of the root, by node id.
    around: Vec<Option<NodeId>>,
    frame: HashSet<NodeId>,
    /// Scopes by their entries and last labels.
    at_ends: HashMap<NodeId, usize>,
}

/// The scope number of a label or jump of a scope; `None` for other nodes.
pub fn scope_of(n: &Node) -> Option<i64> {
    n.attrs().int(SCOPE).filter(|_| matches!(n.op(), "LabelSet" | "LabelGotoEx" | "LabelSwitchByIndex"))
}

impl Flow {
    /// Finds the scopes of a model whose control flow is expressed by labels. `None` if there are
    /// no scopes, or they do not nest.
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
        // For each label node: its scope, its index in the scope, and the number of label nodes of
        // the scope.
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
                // The label or jump that ends a region. The last label belongs to the region around
                // the scope.
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
        // Values that the next iteration reads are written after everything of this iteration is
        // over.
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

    /// The edge that stands for `a` before `b`, with each end moved out of all scopes that do not
    /// contain the other end. `None` if the scope itself orders the two, from region to region.
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
        // A value that passes through a loop unchanged is read only at the last label, and must be
        // ready at the entry like all others.
        let through =
            self.at_ends.get(&b).map(|s| &self.scopes[*s]).filter(|s| s.end == b && s.entry != a && s.end != a);
        let entry = through.map_or(b, |s| s.entry);
        (a != b).then_some((a, entry))
    }

    /// Nodes that must be over before a node of the root starts.
    pub fn before(&self, n: NodeId) -> &[NodeId] {
        self.before.get(n.index()).map_or(&[], Vec::as_slice)
    }
    /// The region that contains a node; 0 if it is in no scope.
    pub fn region(&self, key: NodeKey) -> usize {
        if key.graph == 0 { self.region.get(key.node.index()).copied().unwrap_or(0) } else { 0 }
    }
    /// Whether a node is a label or jump of a scope.
    pub fn is_label(&self, n: NodeId) -> bool {
        self.frame.contains(&n)
    }
    /// The region whose streams are all joined before this node starts.
    pub fn joined_at(&self, key: NodeKey) -> Option<usize> {
        if key.graph == 0 { self.joins.get(&key.node).copied() } else { None }
    }
    /// Number of the outermost scope around a region; `None` for region 0.
    pub fn outermost(&self, mut region: usize) -> Option<usize> {
        while self.regions[region].depth > 1 {
            region = self.regions[region].parent;
        }
        self.regions[region].scope
    }
    /// The entry of the outermost scope that contains a node of the root or that the node is an end
    /// of.
    pub fn around(&self, n: NodeId) -> Option<NodeId> {
        self.around.get(n.index()).copied().flatten()
    }
    /// Entry and number of the scope whose entry or last label the node is.
    pub fn scope_at(&self, n: NodeId) -> Option<(NodeId, usize)> {
        self.at_ends.get(&n).map(|s| (self.scopes[*s].entry, *s))
    }
    /// All scopes around a region, innermost first.
    pub fn scopes_around(&self, region: usize) -> impl Iterator<Item = usize> + '_ {
        let up = |r: &usize| Some(self.regions[*r].parent);
        std::iter::successors(Some(region), up).take_while(|r| *r > 0).filter_map(|r| self.regions[r].scope)
    }
    /// The branches around each region: the scope, and the index of the region among the scope's
    /// branches. Loops have no branches.
    pub fn branches(&self) -> Vec<Vec<(u32, u32)>> {
        let mut out: Vec<Vec<(u32, u32)>> = Vec::with_capacity(self.regions.len());
        let mut count = vec![0u32; self.scopes.len()];
        for r in &self.regions {
            // Each region comes after the one around it.
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
    /// Number of scopes.
    pub fn scope_count(&self) -> usize {
        self.scopes.len()
    }
    /// Number of regions, including region 0.
    pub fn region_count(&self) -> usize {
        self.regions.len()
    }
    /// The node before which all streams of a region are over.
    pub fn join(&self, region: usize) -> NodeId {
        self.regions[region].join
    }

    /// For each stream, the region that contains all its nodes; 0 if there is none.
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

    /// Labels of regions that have streams of their own but no StreamActive that wakes them.
    pub fn without_active(&self, model: &Model, plan: &StreamPlan) -> Vec<NodeId> {
        let mut has = vec![true; self.regions.len()];
        self.of_streams(model, plan).into_iter().filter(|r| *r > 0).for_each(|r| has[r] = false);
        for n in model.root().nodes().filter(|n| n.op() == "StreamActive" && n.attrs().flag(FIRST_ACTIVE)) {
            has[self.region(NodeKey::new(0, n.id()))] = true;
        }
        (1..has.len()).filter(|r| !has[*r]).map(|r| self.regions[r].open).collect()
    }
}

/// Inserts a StreamActive directly after each of these labels. It wakes the streams of the region
/// that the label opens.
///
/// # Errors
/// Fails if the insertion would break the graph (a bug).
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
