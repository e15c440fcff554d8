//! Layouts of values for one permutation: layout 0 is the one before its transposes, layout 1 the
//! one after them. Each value has one of the two layouts in the graph. Operators that are
//! connected, directly or by transposes, form a group.
use super::member::Member;
use super::{amount, inverse};
use ge_plugin_api::types::{NodeId, ValueRef};
use ge_plugin_api::view::Graph;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Most operators of a group.
const MOST: usize = 4096;

/// A permutation and its inverse, in a fixed order, so that both give the same `Perm`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Perm {
    /// From layout 0 to layout 1.
    pub(super) there: Vec<usize>,
    /// From layout 1 to layout 0.
    pub(super) back: Vec<usize>,
}

impl Perm {
    pub(super) fn of(perm: &[usize]) -> Perm {
        let (there, back) = (perm.to_vec(), inverse(perm));
        if there <= back { Perm { there, back } } else { Perm { there: back, back: there } }
    }

    /// The permutation that turns a value of the other layout into one of layout `to`.
    pub(super) fn into(&self, to: bool) -> &[usize] {
        if to { &self.there } else { &self.back }
    }
}

/// A union-find structure: each number has the same layout as the root of its set, or the other
/// one.
struct Joined {
    parent: Vec<usize>,
    flipped: Vec<bool>,
}

impl Joined {
    fn new(n: usize) -> Joined {
        Joined { parent: (0..n).collect(), flipped: vec![false; n] }
    }

    /// The root of a number's set, and whether the number has the other layout.
    fn find(&mut self, x: usize) -> (usize, bool) {
        let (mut at, mut way) = (x, false);
        while self.parent[at] != at {
            way ^= self.flipped[at];
            at = self.parent[at];
        }
        // Path compression.
        let (root, mut from, mut rest) = (at, x, way);
        while self.parent[from] != root && from != root {
            let (next, own) = (self.parent[from], self.flipped[from]);
            (self.parent[from], self.flipped[from]) = (root, rest);
            (from, rest) = (next, rest ^ own);
        }
        (root, way)
    }

    /// Joins the sets of two numbers; false if they already are in one set with the opposite
    /// relation.
    fn join(&mut self, a: usize, b: usize, differ: bool) -> bool {
        let ((ra, fa), (rb, fb)) = (self.find(a), self.find(b));
        if ra == rb {
            return fa ^ fb == differ;
        }
        let (low, high) = if ra < rb { (ra, rb) } else { (rb, ra) };
        (self.parent[high], self.flipped[high]) = (low, fa ^ fb ^ differ);
        true
    }
}

/// All groups of a graph for one permutation.
pub(super) struct Frames<'m, 'a> {
    g: Graph<'a>,
    perm: &'m Perm,
    members: Vec<&'m Member<'a>>,
    transposes: Vec<NodeId>,
    others: &'m HashMap<NodeId, Vec<usize>>,
    values: HashMap<ValueRef, usize>,
    /// The position of each transpose and operator in the graph's order.
    place: HashMap<NodeId, usize>,
    /// Layouts of the values; number 0 stands for layout 0.
    layouts: Joined,
    together: Joined,
}

impl<'m, 'a> Frames<'m, 'a> {
    pub(super) fn new(
        g: Graph<'a>,
        transposes: &'m HashMap<NodeId, Vec<usize>>,
        members: &'m [Member<'a>],
        perm: &'m Perm,
    ) -> Frames<'m, 'a> {
        let rank = perm.there.len();
        let members: Vec<&Member<'a>> = members.iter().filter(|m| m.rank == rank).collect();
        let ours = |id: &NodeId| transposes.get(id).is_some_and(|p| Perm::of(p) == *perm);
        let turns: Vec<NodeId> = g.order().iter().filter(|id| ours(id)).copied().collect();
        let mut values: HashMap<ValueRef, usize> = HashMap::new();
        let mut number = |v: ValueRef| {
            let next = values.len() + 1;
            *values.entry(v).or_insert(next)
        };
        let ends: Vec<[usize; 2]> =
            turns.iter().map(|id| g.node(*id)).map(|n| [number(n.inputs()[0]), number(n.value(0))]).collect();
        let of_member = |m: &&Member<'a>, number: &mut dyn FnMut(ValueRef) -> usize| {
            let given = (0..m.node.outputs().len()).map(|k| m.node.value(k as u32));
            m.framed().chain(given).map(number).collect::<Vec<usize>>()
        };
        let lists: Vec<Vec<usize>> = members.iter().map(|m| of_member(m, &mut number)).collect();
        let n = values.len() + 1;
        let (mut layouts, mut together) = (Joined::new(n), Joined::new(n));
        for list in &lists {
            for pair in list.windows(2) {
                layouts.join(pair[0], pair[1], false);
                together.join(pair[0], pair[1], false);
            }
        }
        let swaps = perm.there == perm.back;
        let mut by_size: Vec<usize> = (0..turns.len()).collect();
        let size = |k: usize| g.node(turns[k]).outputs().first().map_or(0, amount);
        by_size.sort_by_key(|k| (std::cmp::Reverse(size(*k)), *k));
        let mut usable = vec![false; turns.len()];
        for k in by_size {
            let [x, y] = ends[k];
            let forward = transposes.get(&turns[k]) == Some(&perm.there);
            usable[k] = if swaps {
                layouts.join(x, y, true)
            } else {
                layouts.join(x, 0, !forward) && layouts.join(y, 0, forward)
            };
            if usable[k] {
                together.join(x, y, false);
            }
        }
        let others = transposes;
        let transposes = turns.iter().zip(&usable).filter(|(_, u)| **u).map(|(id, _)| *id).collect();
        let place = g.order().iter().enumerate().map(|(i, id)| (*id, i)).collect();
        Frames { g, perm, members, transposes, others, values, place, layouts, together }
    }

    /// The groups with at least two transposes and at most [`MOST`] operators.
    pub(super) fn groups(mut self) -> Vec<Group<'m, 'a>> {
        let mut all: BTreeMap<usize, (Vec<NodeId>, Vec<&'m Member<'a>>)> = BTreeMap::new();
        for id in std::mem::take(&mut self.transposes) {
            let root = self.root(self.g.node(id).value(0));
            all.entry(root).or_default().0.push(id);
        }
        for m in std::mem::take(&mut self.members) {
            let root = self.root(m.node.value(0));
            if let Some((_, members)) = all.get_mut(&root) {
                members.push(m);
            }
        }
        let many = all.into_values().filter(|(turns, members)| turns.len() > 1 && members.len() <= MOST);
        many.map(|(turns, members)| self.group(turns, members)).collect()
    }

    fn root(&mut self, v: ValueRef) -> usize {
        self.values.get(&v).map_or(0, |n| self.together.find(*n).0)
    }

    fn layout(&mut self, v: ValueRef) -> bool {
        self.values.get(&v).is_some_and(|n| self.layouts.find(*n).1)
    }

    fn group(&mut self, turns: Vec<NodeId>, members: Vec<&'m Member<'a>>) -> Group<'m, 'a> {
        let of: HashMap<NodeId, usize> = members.iter().enumerate().map(|(i, m)| (m.node.id(), i)).collect();
        let own: BTreeSet<NodeId> = turns.iter().copied().collect();
        // In topological order, so that the input of a transpose already has its class.
        let mut class: HashMap<ValueRef, usize> = HashMap::new();
        let mut classes: Vec<Class> = Vec::new();
        let given = members.iter().flat_map(|m| {
            let outs = (0..m.node.outputs().len()).map(|k| m.node.value(k as u32));
            m.framed().chain(outs).collect::<Vec<_>>()
        });
        let sources = turns.iter().map(|id| self.g.node(*id).inputs()[0]);
        let roots: BTreeSet<ValueRef> = given.chain(sources).filter(|v| !own.contains(&v.node)).collect();
        for v in roots {
            class.insert(v, classes.len());
            let producer = match of.get(&v.node) {
                Some(m) => Producer::Member(*m),
                None if self.g.constant(v).is_some() => Producer::Constant,
                None => Producer::Other,
            };
            let amount = self.g.desc(v).map_or(1, amount);
            classes.push(Class {
                values: vec![(v, self.layout(v))],
                producer,
                amount,
                wants: Vec::new(),
                turned: Vec::new(),
            });
        }
        for id in &turns {
            let n = self.g.node(*id);
            let Some(c) = class.get(&n.inputs()[0]).copied() else { continue };
            class.insert(n.value(0), c);
            let layout = self.layout(n.value(0));
            classes[c].values.push((n.value(0), layout));
        }
        for c in &mut classes {
            for (v, layout) in &c.values {
                for u in self.g.users(*v).iter().filter(|u| !own.contains(&u.node)) {
                    if self.others.contains_key(&u.node) {
                        c.turned.push((u.node, *layout));
                        continue;
                    }
                    let framed = of.get(&u.node).copied().filter(|m| {
                        let operand = members[*m].operands.get(u.input as usize);
                        operand == Some(&super::member::Operand::Framed)
                    });
                    c.wants.push(framed.map_or(Want::Layout(*layout), Want::Member));
                }
            }
            c.wants.sort_unstable();
            c.wants.dedup();
        }
        let natural = members.iter().map(|m| self.layout(m.node.value(0))).collect();
        let mut order: Vec<NodeId> = turns.iter().copied().chain(of.keys().copied()).collect();
        order.sort_unstable_by_key(|id| self.place.get(id).copied());
        Group { g: self.g, perm: self.perm, order, transposes: own, members, natural, class, classes }
    }
}

/// What produces a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Producer {
    Member(usize),
    /// The value is constant, so it can be had in either layout.
    Constant,
    Other,
}

/// The layout in which a value is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Want {
    Layout(bool),
    /// The layout that this operator gets.
    Member(usize),
}

/// A value and its transposed versions.
pub(super) struct Class {
    /// The value itself comes first; each version has its layout in the graph.
    pub(super) values: Vec<(ValueRef, bool)>,
    pub(super) producer: Producer,
    pub(super) amount: u64,
    pub(super) wants: Vec<Want>,
    /// Transposes with other permutations, and the layout of what they read; they can read either
    /// layout.
    pub(super) turned: Vec<(NodeId, bool)>,
}

/// Connected operators and transposes.
pub(super) struct Group<'m, 'a> {
    pub(super) g: Graph<'a>,
    pub(super) perm: &'m Perm,
    /// All nodes of the group in topological order.
    pub(super) order: Vec<NodeId>,
    pub(super) transposes: BTreeSet<NodeId>,
    /// In topological order.
    pub(super) members: Vec<&'m Member<'a>>,
    /// The layout in which each operator works in the original graph.
    pub(super) natural: Vec<bool>,
    pub(super) class: HashMap<ValueRef, usize>,
    pub(super) classes: Vec<Class>,
}

impl Group<'_, '_> {
    /// All nodes of the group, and the transposes with other permutations that read its values.
    pub(super) fn own(&self) -> BTreeSet<NodeId> {
        let others = self.classes.iter().flat_map(|c| &c.turned).map(|(id, _)| *id);
        self.order.iter().copied().chain(others).collect()
    }

    /// The nodes that produce what they read.
    pub(super) fn reads(&self) -> BTreeSet<NodeId> {
        self.own().into_iter().flat_map(|id| self.g.node(id).inputs().iter().map(|v| v.node)).collect()
    }
}
