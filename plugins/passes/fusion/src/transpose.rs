//! `TransposeMotionFusionPass`: element-wise operators between transposes work on the tensors as
//! they lie in front of them, and transposes that then meet their inverse are gone.
//!
//! Before: `%a = TransposeD(%x) {perm = [0,2,3,1]}  %b = Tanh(%a)  %c = Neg(%b)  %y = TransposeD(%c) {perm = [0,3,1,2]}`
//! After: `%b = Tanh(%x)  %y = Neg(%b)`
//! When: of element-wise operators of one shape that read each other, more transposes go than are needed at their rim: one goes where an
//! operand was transposed for them alone and where a result is transposed back; one is needed for each other operand of that shape, and for each
//! result that something else reads. Operands along one axis are reshaped, single numbers stay.
//! Refuses: open or empty shapes, operators with control edges, operands with several long axes that are broadcast.
//! Keeps: the values of all that reads the operators. Cost: each node and edge once, and once more for each of at most four permutations.
use ge_plugin_api::Result;
use ge_plugin_api::pass::{Pass, PassInfo, PassLevel, PassStage};
use ge_plugin_api::patch::Patch;
use ge_plugin_api::types::{AttrMap, NodeId, Shape, TensorDesc, Use, ValueRef};
use ge_plugin_api::view::{Graph, Node};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The pass.
pub struct TransposeMotion;

/// Permutations of a region that are tried at most.
const TRIED: usize = 4;
/// Attribute in which the host keeps the names that the model has for a node's outputs: a tensor
/// that lies otherwise has none of them.
const NAMES: &str = "_origin_tensors";

impl Pass for TransposeMotion {
    fn info(&self) -> PassInfo {
        PassInfo {
            name: "TransposeMotionFusionPass".into(),
            stage: PassStage::AFTER_INFER_SHAPE,
            level: PassLevel::O3,
            help: "element-wise operators between a transpose and its inverse work without both".into(),
        }
    }
    fn run(&self, graph: &Graph<'_>, patch: &mut Patch) -> Result<()> {
        let perms: HashMap<NodeId, Vec<usize>> =
            graph.nodes_of(&["TransposeD"]).filter_map(|n| Some((n.id(), permutation(&n)?))).collect();
        if perms.len() < 2 {
            return Ok(());
        }
        let plan = Plan { g: *graph, perms, names: graph.nodes().map(|n| n.name()).collect() };
        // What one region changes another is not planned with: it stays.
        let mut changed: BTreeSet<NodeId> = BTreeSet::new();
        for region in plan.regions() {
            let Some(perm) = plan.best(&region) else { continue };
            let near = plan.near(&region);
            if near.is_disjoint(&changed) {
                plan.write(&region, &perm, patch);
                changed.extend(near);
            }
        }
        Ok(())
    }
}

/// The sizes of a tensor that is known and has elements.
fn sizes(d: &TensorDesc) -> Option<Vec<u64>> {
    d.shape.sizes().filter(|s| d.origin.is_none() && s.iter().all(|n| *n > 0))
}

fn free(n: &Node<'_>) -> bool {
    n.controls().is_empty() && n.graph().control_users(n.id()).is_empty()
}

/// The permutation of a transpose that may go.
fn permutation(n: &Node<'_>) -> Option<Vec<usize>> {
    let ([_], [y]) = (n.inputs(), n.outputs()) else { return None };
    let (x, y) = (sizes(n.input_desc(0)?)?, sizes(y)?);
    let perm = n.ints("perm")?.iter().map(|p| usize::try_from(*p).ok()).collect::<Option<Vec<usize>>>()?;
    let all: BTreeSet<usize> = perm.iter().copied().collect();
    let whole = all.len() == x.len() && perm.len() == x.len() && all.last().is_none_or(|l| *l < x.len());
    (whole && free(n) && perm.iter().zip(&y).all(|(p, d)| x[*p] == *d)).then_some(perm)
}

fn inverse(perm: &[usize]) -> Vec<usize> {
    let mut out = vec![0; perm.len()];
    perm.iter().enumerate().for_each(|(i, p)| out[*p] = i);
    out
}

/// First `a`, then `b`.
fn both(a: &[usize], b: &[usize]) -> Vec<usize> {
    b.iter().map(|p| a[*p]).collect()
}

/// What an operand from outside is to a region.
enum Operand {
    /// A single number: it stays.
    Number,
    /// It has one long axis, this one of the region's: it is reshaped.
    Along(usize),
    /// As large as the region.
    Whole,
}

struct Plan<'a> {
    g: Graph<'a>,
    perms: HashMap<NodeId, Vec<usize>>,
    names: BTreeSet<&'a str>,
}

/// Element-wise operators of one shape that read each other, in order.
struct Region {
    sizes: Vec<u64>,
    nodes: Vec<NodeId>,
    own: BTreeSet<NodeId>,
}

impl<'a> Plan<'a> {
    /// The sizes of an operator that may be in a region.
    fn member(&self, n: &Node<'_>) -> Option<Vec<u64>> {
        let [y] = n.outputs() else { return None };
        let own = sizes(y).filter(|s| s.len() > 1 && n.is_elementwise() && free(n))?;
        let fits = |i: usize| n.input_desc(i).is_some_and(|d| operand(d, &own).is_some());
        (!n.inputs().is_empty() && (0..n.inputs().len()).all(fits)).then_some(own)
    }

    /// All regions that a transpose touches.
    fn regions(&self) -> Vec<Region> {
        let mut of: HashMap<NodeId, usize> = HashMap::new();
        let mut all: Vec<Option<Region>> = Vec::new();
        for n in self.g.nodes() {
            let Some(own) = self.member(&n) else { continue };
            let mut at: Vec<usize> = n.inputs().iter().filter_map(|v| of.get(&v.node).copied()).collect();
            at.retain(|k| all[*k].as_ref().is_some_and(|r| r.sizes == own));
            at.sort_unstable();
            at.dedup();
            // The largest takes in the others, so that a node changes hands seldom.
            let len = |k: &usize| all[*k].as_ref().map_or(0, |r| r.nodes.len());
            let into = at.iter().copied().max_by_key(len).unwrap_or_else(|| {
                all.push(Some(Region { sizes: own, nodes: Vec::new(), own: BTreeSet::new() }));
                all.len() - 1
            });
            let mut joined: Vec<NodeId> = vec![n.id()];
            for k in at.into_iter().filter(|k| *k != into) {
                joined.extend(all[k].take().map(|r| r.nodes).unwrap_or_default());
            }
            if let Some(r) = &mut all[into] {
                for id in joined {
                    of.insert(id, into);
                    r.nodes.push(id);
                }
            }
        }
        let place: HashMap<NodeId, usize> = self.g.order().iter().enumerate().map(|(i, id)| (*id, i)).collect();
        let mut out: Vec<Region> = all.into_iter().flatten().collect();
        for r in &mut out {
            r.nodes.sort_by_key(|id| place.get(id).copied());
            r.own = r.nodes.iter().copied().collect();
        }
        out
    }

    /// The distinct values that a region reads from outside.
    fn reads(&self, r: &Region) -> BTreeSet<ValueRef> {
        let all = r.nodes.iter().flat_map(|id| self.g.node(*id).inputs().iter().copied());
        all.filter(|v| !r.own.contains(&v.node)).collect()
    }

    /// A region, what it reads, what that was transposed from, and what reads it.
    fn near(&self, r: &Region) -> BTreeSet<NodeId> {
        let mut all = r.own.clone();
        for v in self.reads(r) {
            all.insert(v.node);
            if self.perms.contains_key(&v.node) {
                all.insert(self.g.node(v.node).inputs()[0].node);
            }
        }
        all.extend(r.nodes.iter().flat_map(|id| self.g.users(ValueRef::new(*id, 0))).map(|u| u.node));
        all
    }

    /// The permutation before which the region is best computed; None where it is best as it is.
    fn best(&self, r: &Region) -> Option<Vec<usize>> {
        let mut seen: BTreeMap<Vec<usize>, usize> = BTreeMap::new();
        let reads = self.reads(r);
        for v in &reads {
            if let Some(p) = self.perms.get(&v.node).filter(|_| self.is_whole(*v, r)) {
                *seen.entry(p.clone()).or_default() += 1;
            }
        }
        for id in &r.nodes {
            for u in self.g.users(ValueRef::new(*id, 0)) {
                if let Some(q) = self.perms.get(&u.node) {
                    *seen.entry(inverse(q)).or_default() += 1;
                }
            }
        }
        let mut tried: Vec<_> = seen.into_iter().collect();
        tried.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let worth = tried.into_iter().take(TRIED).map(|(p, _)| (self.gain(r, &reads, &p), p));
        worth.filter(|(gain, _)| *gain > 0).max_by(|a, b| a.0.cmp(&b.0).then_with(|| b.1.cmp(&a.1))).map(|(_, p)| p)
    }

    fn is_whole(&self, v: ValueRef, r: &Region) -> bool {
        self.g.desc(v).and_then(sizes).is_some_and(|s| s == r.sizes)
    }

    /// Whether nothing but the region reads a value.
    fn ours(&self, v: ValueRef, r: &Region) -> bool {
        self.g.users(v).iter().all(|u| r.own.contains(&u.node))
    }

    /// Transposes that go less those that come.
    fn gain(&self, r: &Region, reads: &BTreeSet<ValueRef>, perm: &[usize]) -> i64 {
        let mut gain = 0;
        let mut seen: BTreeSet<(ValueRef, &Vec<usize>)> = BTreeSet::new();
        for v in reads.iter().filter(|v| self.is_whole(**v, r)) {
            let known = self.perms.get(&v.node);
            // A transpose between operators of the region itself stays, and they with it; so does one of
            // what is transposed back.
            let source = self.g.node(v.node).inputs().first().map(|s| s.node);
            let of_region = |s: NodeId| {
                let turned = self.perms.contains_key(&s) && r.own.contains(&self.g.node(s).inputs()[0].node);
                turned || r.own.contains(&s)
            };
            if known.is_some() && source.is_some_and(of_region) {
                return i64::MIN;
            }
            let first = known.is_some_and(|p| seen.insert((self.g.node(v.node).inputs()[0], p)));
            gain += i64::from(first && self.ours(*v, r));
            // What is known beforehand is transposed beforehand.
            let stays = known.is_some_and(|p| p == perm) || self.g.constant(*v).is_some();
            gain -= i64::from(!stays && (first || known.is_none()));
        }
        for id in &r.nodes {
            let outside = self.g.users(ValueRef::new(*id, 0)).iter().filter(|u| !r.own.contains(&u.node));
            let (turned, others): (Vec<&Use>, Vec<&Use>) = outside.partition(|u| self.perms.contains_key(&u.node));
            // Several that do the same are one.
            let back = |q: &Vec<usize>| both(perm, q).is_sorted();
            gain += i64::from(turned.iter().any(|u| self.perms.get(&u.node).is_some_and(back)));
            gain -= i64::from(!others.is_empty());
        }
        gain
    }

    fn name(&self, of: &str, what: &str) -> String {
        let mut name = format!("{of}_{what}");
        while self.names.contains(name.as_str()) {
            name.push('_');
        }
        name
    }

    /// Computes a region in front of `perm`.
    fn write(&self, r: &Region, perm: &[usize], patch: &mut Patch) {
        let back = inverse(perm);
        let mut inner: HashMap<ValueRef, ValueRef> = HashMap::new();
        let reads = self.reads(r);
        for (k, v) in reads.iter().enumerate() {
            let Some(d) = self.g.desc(*v) else { continue };
            let first = r.nodes.first().map_or("", |id| self.g.node(*id).name());
            let name = |what: &str| self.name(first, &format!("{what}{k}"));
            let at = match operand(d, &r.sizes) {
                Some(Operand::Along(axis)) => {
                    let mut to = vec![1; r.sizes.len()];
                    to[perm[axis]] = r.sizes[axis];
                    let mut attrs = AttrMap::default();
                    attrs.set("shape", to.iter().map(|n| *n as i64).collect::<Vec<i64>>());
                    ValueRef::new(patch.add("Reshape", &name("along"), &[*v], vec![shaped(d, &to)], attrs), 0)
                }
                Some(Operand::Whole) => match self.perms.get(&v.node) {
                    Some(p) if p == perm => self.g.node(v.node).inputs()[0],
                    Some(p) => {
                        turned(patch, &name("turned"), self.g.node(v.node).inputs()[0], d, &both(p, &back), &back)
                    }
                    None => turned(patch, &name("turned"), *v, d, &back, &back),
                },
                _ => *v,
            };
            inner.insert(*v, at);
        }
        for id in &r.nodes {
            let n = self.g.node(*id);
            let inputs: Vec<ValueRef> = n.inputs().iter().map(|v| inner.get(v).copied().unwrap_or(*v)).collect();
            let mut attrs = AttrMap::default();
            for a in n.attrs().iter().filter(|a| a.key.as_str() != NAMES) {
                attrs.set(a.key, a.value.clone());
            }
            let y = &n.outputs()[0];
            let within = permuted(&r.sizes, &back);
            let new = patch.add(n.op(), &self.name(n.name(), "inner"), &inputs, vec![shaped(y, &within)], attrs);
            let (old, new) = (n.value(0), ValueRef::new(new, 0));
            inner.insert(old, new);
            let outside: Vec<_> = self.g.users(old).iter().filter(|u| !r.own.contains(&u.node)).copied().collect();
            let (turns, others): (Vec<_>, Vec<_>) = outside.into_iter().partition(|u| self.perms.contains_key(&u.node));
            if !others.is_empty() {
                let mut attrs = AttrMap::default();
                attrs.set("perm", perm.iter().map(|p| *p as i64).collect::<Vec<i64>>());
                let outer = patch.add("TransposeD", &self.name(n.name(), "outer"), &[new], vec![y.clone()], attrs);
                patch.replace_uses(old, ValueRef::new(outer, 0));
            }
            for u in turns {
                let own = both(perm, &self.perms[&u.node]);
                if own.is_sorted() {
                    patch.replace_uses(ValueRef::new(u.node, 0), new);
                    patch.remove(u.node);
                } else {
                    patch.set_input(u.node, u.input, new);
                    patch.set_attr(u.node, "perm", own.iter().map(|p| *p as i64).collect::<Vec<i64>>());
                }
            }
        }
        // Readers first: a node that is read is not removed.
        r.nodes.iter().rev().for_each(|id| patch.remove(*id));
        for v in reads.iter().filter(|v| self.perms.contains_key(&v.node) && self.is_whole(**v, r) && self.ours(**v, r))
        {
            patch.remove(v.node);
        }
    }
}

/// Sizes as a transpose gives them.
fn permuted(sizes: &[u64], perm: &[usize]) -> Vec<u64> {
    perm.iter().map(|p| sizes[*p]).collect()
}

fn shaped(d: &TensorDesc, sizes: &[u64]) -> TensorDesc {
    TensorDesc { shape: Shape::of(sizes), ..d.clone() }
}

/// A new transpose of a value; `d`: what the region read, `back`: from the region's axes to those in
/// front of it.
fn turned(patch: &mut Patch, name: &str, v: ValueRef, d: &TensorDesc, perm: &[usize], back: &[usize]) -> ValueRef {
    let to = permuted(&sizes(d).unwrap_or_default(), back);
    let mut attrs = AttrMap::default();
    attrs.set("perm", perm.iter().map(|p| *p as i64).collect::<Vec<i64>>());
    ValueRef::new(patch.add("TransposeD", name, &[v], vec![shaped(d, &to)], attrs), 0)
}

/// What an operand is to operators of these sizes; None: a region cannot have it.
fn operand(d: &TensorDesc, own: &[u64]) -> Option<Operand> {
    let s = sizes(d)?;
    if s == own {
        return Some(Operand::Whole);
    }
    let lead = own.len().checked_sub(s.len())?;
    let mut long = s.iter().enumerate().filter(|(_, n)| **n > 1).map(|(i, _)| i + lead);
    match (long.next(), long.next()) {
        (None, _) => Some(Operand::Number),
        (Some(axis), None) if s[axis - lead] == own[axis] => Some(Operand::Along(axis)),
        _ => None,
    }
}
