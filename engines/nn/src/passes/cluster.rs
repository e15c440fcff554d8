//! `ClusterAutoFusionPass`: element-wise operators (including comparisons, selections, casts and
//! i32 arithmetic) and reductions over the last axes that read each other become one
//! `FusedCluster`, whose inner values are not stored in memory. Inner values that other nodes need
//! become further outputs. Softmax, the normalisations and log-sum-exp are fused this way without
//! special patterns.
//!
//! Clusters grow in the order of the graph: a node joins the clusters of its producers one by one,
//! if the result has one row shape (each value is full or a column of it, so nothing is computed
//! twice), if no path leaves it and comes back, and if the rows fit the cache. A cluster of one
//! shape with a single result is left to `ElementwiseAutoFusionPass`.
use super::cluster_steps::{Member, member, op_named};
use super::elementwise::agree;
use super::reach::Reach;
use super::{has_kernel_for, open};
use crate::families::typed::Lanes;
use ge_plugin_api::Result;
use ge_plugin_api::fusion::{Boundary, Replacement, SubgraphRewriter, Verdict};
use ge_plugin_api::ops::infer::broadcast_shapes;
use ge_plugin_api::pass::{Pass, PassInfo, PassLevel, PassStage};
use ge_plugin_api::patch::Patch;
use ge_plugin_api::types::{AttrMap, DType, Dim, NodeId, Shape, TensorDesc, ValueRef};
use ge_plugin_api::view::{Graph, Node};

/// Maximum number of steps of a cluster.
const MOST_STEPS: usize = 40;
/// Maximum number of inputs of a cluster.
const MOST_INPUTS: usize = 12;
/// Maximum number of outputs of a cluster.
const MOST_OUTPUTS: usize = 8;
/// Maximum number of elements in a row that is reduced, so that the values of a row stay in the
/// cache.
pub const MOST_ROW: u64 = 16 * 1024;
const NAME: &str = "ClusterAutoFusionPass";

/// The pass `ClusterAutoFusionPass`.
pub struct ClusterFusion;

/// Properties of the cluster that a set of nodes would form.
struct Form {
    /// Whether it contains reductions.
    reduces: bool,
    /// Whether each value has the full shape.
    one_shape: bool,
}

/// The clusters so far. Nodes are identified by their place in the order of the graph.
struct Sets<'g> {
    g: Graph<'g>,
    reach: Reach<'g>,
    /// The member at each place, if the node there can be part of a cluster.
    members: Vec<Option<Member<'g>>>,
    /// The nodes of each cluster in order; empty if another cluster has taken it over.
    clusters: Vec<Vec<u32>>,
    /// For each cluster without reductions whose values all have one shape, the values it reads. A
    /// node of that shape can join it without further shape checks.
    plain: Vec<Option<Vec<ValueRef>>>,
}

impl<'g> Sets<'g> {
    fn member(&self, place: u32) -> Option<&Member<'g>> {
        self.members.get(place as usize)?.as_ref()
    }

    /// The node at a place.
    fn node(&self, place: u32) -> Node<'g> {
        self.g.node(self.reach.id(place))
    }

    fn out(&self, place: u32) -> ValueRef {
        ValueRef::new(self.reach.id(place), 0)
    }

    fn cluster(&self, node: NodeId) -> Option<usize> {
        Some(self.member(self.reach.place(node)?)?.cluster)
    }

    fn shape(&self, v: ValueRef) -> Option<&'g Shape> {
        let own = || self.member(self.reach.place(v.node)?).filter(|_| v.output == 0);
        own().map(|m| m.out).or_else(|| self.g.desc(v)).map(|d| &d.shape)
    }

    /// The form of a set of nodes in graph order; `None` if it cannot be a cluster.
    fn form(&self, nodes: &[u32]) -> Option<Form> {
        let own = |n: u32| self.member(n).map(|m| &m.out.shape);
        let within = |set: &[u32], v: &ValueRef| self.reach.place(v.node).is_some_and(|p| set.contains(&p));
        if !self.types_fit(nodes) {
            return None;
        }
        let mut dropped: Vec<u32> = Vec::new();
        let mut outside: Vec<ValueRef> = Vec::new();
        let (mut axes, mut whole) = (None, Shape::of(&[]));
        for n in nodes {
            let m = self.member(*n)?;
            let gone = m.reads.iter().filter(|v| within(&dropped, v)).count();
            if gone > 0 && (gone != m.reads.len() || m.reduces.is_some()) {
                return None;
            }
            if let Some((count, keep)) = m.reduces {
                if axes.is_some_and(|a| a != count) {
                    return None;
                }
                axes = Some(count);
                if !keep {
                    dropped.push(*n);
                }
            }
            if gone > 0 {
                dropped.push(*n);
            }
            for v in m.reads.iter().filter(|v| !within(nodes, v)) {
                if !outside.contains(v) {
                    outside.push(*v);
                    whole = broadcast_shapes(&whole, self.shape(*v)?).ok()?;
                }
            }
        }
        if outside.is_empty() || outside.len() > MOST_INPUTS || !open::is_named(&whole) {
            return None;
        }
        let rank = whole.rank()?;
        let one = Dim::known(1);
        // A shape with fewer axes counts as having leading ones.
        let at = |s: &Shape, k: usize| (k + s.dims().len()).checked_sub(rank).map_or(one, |k| s.dims()[k]);
        let is_whole = |s: &Shape| (0..rank).all(|k| at(s, k).same(whole.dims()[k]));
        let column =
            |s: &Shape, n: usize| (0..rank).all(|k| at(s, k).same(if k < rank - n { whole.dims()[k] } else { one }));
        let kept = || nodes.iter().filter(|n| !dropped.contains(n));
        let fits = |n: usize| kept().all(|k| own(*k).is_some_and(|s| is_whole(s) || column(s, n)));
        let n = match axes {
            Some(n) => Some(n).filter(|n| *n <= rank && fits(*n))?,
            None => (0..=rank).find(|n| fits(*n))?,
        };
        let over = Shape::new(whole.dims()[..rank - n].iter().copied());
        let rows = nodes.iter().filter(|n| dropped.contains(n)).all(|n| own(*n).is_some_and(|s| open::same(s, &over)));
        let of_whole = |n: &u32| {
            let reduced = self.member(*n).filter(|m| m.reduces.is_some());
            reduced.is_none_or(|m| self.shape(m.reads[0]).is_some_and(is_whole))
        };
        if !rows || !nodes.iter().all(of_whole) {
            return None;
        }
        let len = whole.dims()[rank - n..].iter().try_fold(1u64, |a, d| a.checked_mul(d.size().unwrap_or(1)));
        if axes.is_some() && len.is_none_or(|len| len > MOST_ROW) {
            return None;
        }
        let one_shape = dropped.is_empty() && kept().all(|k| own(*k).is_some_and(is_whole));
        Some(Form { reduces: axes.is_some(), one_shape })
    }

    /// Whether every value read inside has a lane type, and whether all casts that read the same
    /// value of another type agree on its lanes.
    fn types_fit(&self, nodes: &[u32]) -> bool {
        let mut casts: Vec<(ValueRef, Lanes)> = Vec::new();
        for m in nodes.iter().filter_map(|n| self.member(*n)).filter(|m| m.typed) {
            for v in &m.reads {
                let made = self.reach.place(v.node).filter(|p| nodes.contains(p)).and_then(|p| self.member(p));
                if made.is_some_and(|m| m.given_alone) {
                    return false;
                }
                if let Some(lanes) = m.casts_to {
                    if casts.iter().any(|(of, as_of)| of == v && *as_of != lanes) {
                        return false;
                    }
                    casts.push((*v, lanes));
                }
            }
        }
        true
    }

    /// Whether no path leaves these nodes and comes back through an input of one of `from`.
    fn convex(&mut self, nodes: &[u32], from: &[u32]) -> bool {
        let (members, clusters) = (&self.members, &self.clusters);
        // Every node of a cluster waits for everything that the cluster waits for.
        let group = |n: u32| match members.get(n as usize) {
            Some(Some(m)) => clusters[m.cluster].as_slice(),
            _ => &[],
        };
        self.reach.convex(nodes, from, group)
    }

    /// Joins two clusters, if they can be one.
    fn join(&mut self, a: usize, b: usize) {
        let (Some(&x), Some(&y)) = (self.clusters[a].first(), self.clusters[b].first()) else { return };
        let (Some(first), Some(second)) = (self.member(x), self.member(y)) else { return };
        let count = self.clusters[a].len() + self.clusters[b].len();
        let same_shape = open::same(&first.out.shape, &second.out.shape);
        if count > MOST_STEPS || !agree(&self.node(x), &self.node(y)) {
            return;
        }
        let typed = |c: usize| self.clusters[c].iter().any(|n| self.member(*n).is_some_and(|m| m.typed));
        if first.out.dtype != second.out.dtype && !typed(a) && !typed(b) {
            return;
        }
        if let (Some(reads), Some(more), [new]) = (&self.plain[a], &self.plain[b], self.clusters[b].as_slice())
            && same_shape
        {
            let mut reads = reads.clone();
            for v in more {
                let inside = self.cluster(v.node) == Some(a);
                if !inside && !reads.contains(v) {
                    reads.push(*v);
                }
            }
            // The new node is the last so far, so a path can come back only through its inputs.
            let new = *new;
            let all = [self.clusters[a].as_slice(), &[new]].concat();
            if reads.len() <= MOST_INPUTS && self.convex(&all, &[new]) {
                self.plain[a] = Some(reads);
                self.put(a, b, all);
            }
            return;
        }
        let mut all = [self.clusters[a].as_slice(), &self.clusters[b]].concat();
        all.sort_unstable();
        if self.form(&all).is_some() && self.convex(&all, &all) {
            self.plain[a] = None;
            self.put(a, b, all);
        }
    }

    /// Moves the nodes of both clusters, in order, into the first.
    fn put(&mut self, a: usize, b: usize, all: Vec<u32>) {
        for n in &self.clusters[b] {
            if let Some(Some(m)) = self.members.get_mut(*n as usize) {
                m.cluster = a;
            }
        }
        self.clusters[b].clear();
        self.clusters[a] = all;
    }

    /// Values of a cluster that are read outside of it.
    fn outputs(&self, nodes: &[u32]) -> Vec<ValueRef> {
        let inside = |n: NodeId| self.reach.place(n).is_some_and(|p| nodes.contains(&p));
        let given = |v: &ValueRef| self.g.users(*v).iter().any(|u| !inside(u.node));
        nodes.iter().map(|n| self.out(*n)).filter(given).collect()
    }

    /// Whether a cluster is more than a chain of one shape and saves memory traffic: each value
    /// that is read inside does not have to be read from memory.
    fn pays(&self, nodes: &[u32]) -> bool {
        let Some(form) = self.form(nodes).filter(|_| nodes.len() > 1) else { return false };
        let outputs = self.outputs(nodes);
        let typed = nodes.iter().any(|n| self.member(*n).is_some_and(|m| m.typed));
        let chain = !form.reduces && form.one_shape && outputs.len() == 1 && !typed;
        if outputs.is_empty() || outputs.len() > MOST_OUTPUTS || chain {
            return false;
        }
        if form.reduces {
            return true;
        }
        // Chains also fuse adjacent 8-bit quantisation and support the cube unit's layouts.
        let reads = || nodes.iter().filter_map(|n| self.member(*n)).flat_map(|m| &m.reads);
        let op = |n: NodeId| self.g.find(n).map_or("", |n| n.op());
        let bytes = reads().any(|v| op(v.node) == "DequantizeLinear")
            || outputs.iter().any(|v| self.g.users(*v).iter().any(|u| op(u.node) == "QuantizeLinear"));
        let half = |d: DType| matches!(d, DType::F16 | DType::BF16);
        let cube = |v: &ValueRef| self.g.desc(*v).is_some_and(|d| half(d.dtype) && d.shape.rank() == Some(4));
        !bytes && !outputs.iter().any(cube)
    }

    fn replacement(&self, nodes: &[u32], outputs: &[ValueRef], r: &Replacement<'_>) -> Verdict<Vec<ValueRef>> {
        let inside = |v: ValueRef| {
            let place = self.reach.place(v.node)?;
            nodes.iter().position(|n| *n == place)
        };
        let members = || nodes.iter().filter_map(|n| Some((*n, self.member(*n)?)));
        let mut inputs: Vec<ValueRef> = Vec::new();
        for v in members().flat_map(|(_, m)| &m.reads) {
            if inside(*v).is_none() && !inputs.contains(v) {
                inputs.push(*v);
            }
        }
        let mut steps = Vec::new();
        for (n, m) in members() {
            let mut name = |v: ValueRef| match inside(v) {
                Some(k) => format!("%{}", inputs.len() + k),
                None => format!("%{}", inputs.iter().position(|i| *i == v).unwrap_or(0)),
            };
            let node = self.node(n);
            steps.push(match m.reduces {
                Some((axes, keep)) => {
                    let op = node.op().trim_end_matches('D');
                    format!("{op} {} {axes} {}", name(m.reads[0]), u8::from(keep))
                }
                None => op_named(&node, &mut name).ok_or("a node is no step")?,
            });
        }
        let place = |v: &ValueRef| inside(*v).map(|k| (inputs.len() + k) as i64).ok_or("an output is no step");
        let gives = outputs.iter().map(place).collect::<std::result::Result<Vec<i64>, _>>()?;
        let mut attrs = AttrMap::default();
        attrs.set("steps", steps);
        attrs.set("gives", gives);
        let descs: Vec<&TensorDesc> = outputs.iter().filter_map(|v| self.g.desc(*v)).collect();
        let given: Vec<Option<&TensorDesc>> =
            inputs.iter().map(|v| self.g.desc(*v)).chain(descs.iter().map(|d| Some(*d))).collect();
        has_kernel_for("FusedCluster", &given, descs.len(), &attrs)?;
        let mut made = r.op("FusedCluster", inputs.iter().copied());
        for a in &attrs {
            made = made.attr(a.key.as_str(), a.value.clone());
        }
        for (k, d) in descs.into_iter().enumerate() {
            made = made.desc(k as u32, TensorDesc { attrs: AttrMap::default(), ..d.clone() });
        }
        Ok((0..outputs.len() as u32).map(|k| made.value(k)).collect())
    }
}

impl Pass for ClusterFusion {
    fn info(&self) -> PassInfo {
        let help = "makes one kernel of element-wise operators and reductions that read each other";
        PassInfo::new(NAME, PassStage::AFTER_PRECISION_REFINE, PassLevel::O3, help)
    }
    fn run(&self, graph: &Graph<'_>, patch: &mut Patch) -> Result<()> {
        let reach = Reach::new(graph);
        let members = Vec::with_capacity(graph.order().len());
        let mut sets = Sets { g: *graph, reach, members, clusters: Vec::new(), plain: Vec::new() };
        for (place, n) in (0u32..).zip(graph.nodes()) {
            let own = sets.clusters.len();
            sets.members.push(member(&n, own));
            let Some(Some(m)) = sets.members.last() else { continue };
            let reads = m.reads.clone();
            sets.plain.push((m.reduces.is_none() && !m.typed).then(|| reads.clone()));
            sets.clusters.push(vec![place]);
            for v in reads {
                if let (Some(own), Some(before)) = (sets.cluster(n.id()), sets.cluster(v.node))
                    && own != before
                {
                    sets.join(before, own);
                }
            }
        }
        let mut rewriter = SubgraphRewriter::new(NAME, graph, patch);
        for nodes in sets.clusters.iter().filter(|c| sets.pays(c)) {
            let outputs = sets.outputs(nodes);
            let all = nodes.iter().map(|n| sets.reach.id(*n)).collect();
            let b = Boundary { nodes: all, outputs: outputs.clone() };
            rewriter.replace(&b, |r| sets.replacement(nodes, &outputs, r));
        }
        Ok(())
    }
}
