//! `PatternMatcher`: finds a pattern from its outputs and checks the boundary of what it found. It
//! backtracks where operands may stand in either order and where several readers are candidates.
use super::inspector;
use super::pattern::{At, Pattern, Place};
use crate::types::{ConstTensor, Key, NodeId, ValueRef};
use crate::view::{Graph, Node};

/// Most steps that the search from one start may take; beyond that it gives up at this start.
const STEPS: u32 = 20_000;

/// A match of a pattern: the nodes and values where it was found.
#[derive(Clone, Debug)]
pub struct Match<'g> {
    graph: Shown<'g>,
    captures: Vec<(String, Option<ValueRef>)>,
    nodes: Vec<NodeId>,
    outputs: Vec<ValueRef>,
}

/// A graph whose debug output is just its name.
#[derive(Clone, Copy)]
struct Shown<'g>(Graph<'g>);
impl core::fmt::Debug for Shown<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.0.name())
    }
}

impl<'g> Match<'g> {
    /// The graph in which the pattern was found.
    pub fn graph(&self) -> Graph<'g> {
        self.graph.0
    }
    /// A captured value; [`ValueRef::ABSENT`] if the optional input is not given or nothing has
    /// that name.
    pub fn value(&self, name: &str) -> ValueRef {
        self.maybe(name).unwrap_or(ValueRef::ABSENT)
    }
    /// A captured value, if it is present.
    pub fn maybe(&self, name: &str) -> Option<ValueRef> {
        self.captures.iter().find(|(n, _)| n == name).and_then(|(_, v)| *v)
    }
    /// The node that produces a captured value; an empty node if nothing has that name.
    pub fn node(&self, name: &str) -> Node<'g> {
        self.graph.0.node(self.value(name).node)
    }
    /// The tensor of a captured constant.
    pub fn constant(&self, name: &str) -> Option<&'g ConstTensor> {
        self.graph.0.constant(self.maybe(name)?)
    }
    /// Operators of the match in topological order.
    pub fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }
    /// The values that match the pattern's outputs.
    pub fn outputs(&self) -> &[ValueRef] {
        &self.outputs
    }
    /// The node that produces output 0.
    pub fn root(&self) -> Node<'g> {
        self.graph.0.node(self.outputs.first().map_or(NodeId(u32::MAX), |v| v.node))
    }
}

/// Returns the matches of a pattern one after the other, in topological order of output 0. No match
/// shares a node with an earlier one.
pub struct PatternMatcher<'g, 'p> {
    graph: Graph<'g>,
    pattern: &'p Pattern,
    /// For each place, whether an output depends on it.
    needed: Vec<bool>,
    /// Operator types by node id, if the host keeps such a list.
    types: Option<&'g [Key]>,
    /// Nodes that may produce output 0; set by the first search.
    starts: Option<&'g [NodeId]>,
    at: usize,
    taken: Taken,
    /// Buffer for the bindings of a search, kept for reuse.
    bound: Vec<Option<ValueRef>>,
    refusals: Vec<(NodeId, String)>,
}

/// A set of nodes, one bit per node.
#[derive(Default)]
struct Taken(Vec<u64>);

impl Taken {
    fn contains(&self, id: NodeId) -> bool {
        self.0.get(id.index() / 64).is_some_and(|w| w >> (id.index() % 64) & 1 == 1)
    }
    fn insert(&mut self, id: NodeId) {
        let word = id.index() / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (id.index() % 64);
    }
    fn remove(&mut self, id: NodeId) {
        if let Some(w) = self.0.get_mut(id.index() / 64) {
            *w &= !(1 << (id.index() % 64));
        }
    }
}

/// What is still to be matched, on the stack of the search: the inputs of one operator from `at`
/// on, then the rest.
#[derive(Clone, Copy)]
struct Goals<'a> {
    places: &'a [At],
    values: &'a [ValueRef],
    /// Whether the first two values are swapped.
    turned: bool,
    at: usize,
    rest: Option<&'a Goals<'a>>,
}

impl<'a> Goals<'a> {
    fn new(places: &'a [At], values: &'a [ValueRef]) -> Goals<'a> {
        Goals { places, values, turned: false, at: 0, rest: None }
    }
    /// The next goal (this place must match that value) and the goals after it.
    fn next(&self) -> Option<(At, ValueRef, Goals<'a>)> {
        let mut now = *self;
        loop {
            if let Some(place) = now.places.get(now.at) {
                let i = if now.turned && now.at < 2 { 1 - now.at } else { now.at };
                now.at += 1;
                return Some((*place, now.values.get(i).copied().unwrap_or(ValueRef::ABSENT), now));
            }
            now = *now.rest?;
        }
    }
}

struct Search<'m, 'g> {
    graph: Graph<'g>,
    pattern: &'m Pattern,
    needed: &'m [bool],
    types: Option<&'g [Key]>,
    taken: &'m Taken,
    /// For each place: the node of an operator (as its output), or the value of an input or a
    /// constant.
    bound: Vec<Option<ValueRef>>,
    steps: u32,
    refusal: Option<String>,
}

impl<'g, 'p> PatternMatcher<'g, 'p> {
    /// A matcher for one pattern on one graph.
    pub fn new(graph: &Graph<'g>, pattern: &'p Pattern) -> Self {
        PatternMatcher {
            graph: *graph,
            pattern,
            needed: pattern.needed(),
            types: None,
            starts: None,
            at: 0,
            taken: Taken::default(),
            bound: Vec::new(),
            refusals: Vec::new(),
        }
    }
    /// Excludes nodes from further matches.
    pub fn take(&mut self, nodes: impl IntoIterator<Item = NodeId>) {
        nodes.into_iter().for_each(|n| self.taken.insert(n));
    }
    /// Lets the nodes of a match that was not used be matched again, from a later start.
    pub fn give_back(&mut self, m: &Match<'_>) {
        for n in m.nodes() {
            self.taken.remove(*n);
        }
    }
    /// Starts where everything but the boundary matched, or the search gave up: the node of output
    /// 0, and why it is not a match. Later calls do not return them again.
    pub fn refusals(&mut self) -> Vec<(NodeId, String)> {
        core::mem::take(&mut self.refusals)
    }
    /// Searches for the next match.
    pub fn next_match(&mut self) -> Option<Match<'g>> {
        let types = self.pattern.root_types();
        let order = match self.starts {
            Some(order) => order,
            None => self.begin(types),
        };
        let out = *self.pattern.outputs.first()?;
        while let Some(&id) = order.get(self.at) {
            self.at += 1;
            if self.taken.contains(id) || !types.contains(&self.graph.type_in(self.types, id)) {
                continue;
            }
            let mut bound = core::mem::take(&mut self.bound);
            bound.clear();
            bound.resize(self.pattern.places.len(), None);
            let mut s = Search {
                graph: self.graph,
                pattern: self.pattern,
                needed: &self.needed,
                types: self.types,
                taken: &self.taken,
                bound,
                steps: 0,
                refusal: None,
            };
            let found = s.solve(&Goals::new(&[out], &[ValueRef::new(id, out.output)])).then(|| s.found());
            let Search { bound, refusal, .. } = s;
            self.bound = bound;
            if let Some(m) = found {
                m.nodes.iter().for_each(|n| self.taken.insert(*n));
                return Some(m);
            }
            if let Some(why) = refusal {
                self.refusals.push((id, why));
            }
        }
        None
    }

    /// The nodes that may produce output 0: none if the graph has no node of a type that the
    /// pattern needs.
    fn begin(&mut self, types: &[Key]) -> &'g [NodeId] {
        let is_there = |(place, needed): (&Place, &bool)| match place {
            Place::Op { types, .. } if *needed => !self.graph.among(types).is_empty(),
            _ => true,
        };
        let all = self.pattern.places.iter().zip(&self.needed).all(is_there);
        let starts = if all { self.graph.among(types) } else { &[] };
        self.types = if all { self.graph.op_types() } else { None };
        self.starts = Some(starts);
        starts
    }
}

impl<'g> Search<'_, 'g> {
    /// Whether all goals (this place must match that value) can be met and the boundary then holds.
    /// On success the bindings are kept.
    fn solve(&mut self, goals: &Goals<'_>) -> bool {
        self.steps += 1;
        if self.steps > STEPS {
            self.refusal = Some(format!("the pattern has more than {STEPS} ways to be tried here"));
            return false;
        }
        let Some((at, v, rest)) = goals.next() else { return self.further() };
        let pattern = self.pattern;
        let places = &pattern.places;
        let Some(place) = places.get(at.node) else { return false };
        if let Some(old) = self.bound[at.node] {
            let same = match place {
                Place::Op { .. } => !v.is_absent() && old.node == v.node && at.output == v.output,
                _ => old == v,
            };
            return same && self.solve(&rest);
        }
        match place {
            Place::Input { optional } => (*optional || !v.is_absent()) && self.bind(at.node, v, &rest),
            Place::Constant(test) => {
                let fits = self.graph.constant(v).is_some_and(|c| test.as_ref().is_none_or(|t| t(c)));
                fits && self.bind(at.node, v, &rest)
            }
            Place::Op { types, inputs, commutative, tests } => {
                if v.output != at.output || v.is_absent() || !types.contains(&self.graph.type_in(self.types, v.node)) {
                    return false;
                }
                let Some(n) = self.graph.find(v.node) else { return false };
                let given = n.inputs().iter().rposition(|v| !v.is_absent()).map_or(0, |i| i + 1);
                let fits = given <= inputs.len()
                    && !self.taken.contains(n.id())
                    && !self.is_bound(n.id())
                    && tests.iter().all(|t| t(&n));
                if !fits {
                    return false;
                }
                let turns: &[bool] = if *commutative && inputs.len() == 2 { &[false, true] } else { &[false] };
                for &turned in turns {
                    // The place of the first operand is matched first.
                    let next = Goals { places: inputs, values: n.inputs(), turned, at: 0, rest: Some(&rest) };
                    if self.bind(at.node, ValueRef::new(n.id(), at.output), &next) {
                        return true;
                    }
                }
                false
            }
        }
    }

    fn bind(&mut self, place: usize, v: ValueRef, goals: &Goals<'_>) -> bool {
        self.bound[place] = Some(v);
        let done = self.solve(goals);
        if !done {
            self.bound[place] = None;
        }
        done
    }

    fn is_op(&self, place: usize) -> bool {
        matches!(self.pattern.places.get(place), Some(Place::Op { .. }))
    }

    fn is_bound(&self, id: NodeId) -> bool {
        self.bound.iter().enumerate().any(|(p, b)| self.is_op(p) && b.is_some_and(|v| v.node == id))
    }

    /// The graph's value at a bound place.
    fn actual(&self, at: At) -> Option<ValueRef> {
        let b = (*self.bound.get(at.node)?)?;
        Some(if self.is_op(at.node) { ValueRef::new(b.node, at.output) } else { b })
    }

    /// All goals are met: continues with an unbound operator of another output that reads a bound
    /// value, if there is one.
    fn further(&mut self) -> bool {
        let pattern = self.pattern;
        let mut open = false;
        for (p, place) in pattern.places.iter().enumerate() {
            let Place::Op { inputs, types, .. } = place else { continue };
            if self.bound[p].is_some() || !self.needed[p] {
                continue;
            }
            open = true;
            // Tries the value with the fewest readers: a weight that many nodes share may have as
            // many readers as the graph has nodes.
            let known = inputs.iter().filter_map(|i| self.actual(*i)).filter(|v| !v.is_absent());
            let Some(v) = known.min_by_key(|v| self.graph.users(*v).len()) else { continue };
            let mut readers: Vec<NodeId> = self.graph.users(v).iter().map(|u| u.node).collect();
            readers.sort_unstable();
            readers.dedup();
            for r in readers {
                if types.contains(&self.graph.type_in(self.types, r))
                    && self.solve(&Goals::new(&[At { node: p, output: 0 }], &[ValueRef::new(r, 0)]))
                {
                    return true;
                }
            }
            return false;
        }
        !open && self.is_flat() && self.border()
    }

    /// Whether no node of the match holds a subgraph. It is checked last, because everything else
    /// seldom matches.
    fn is_flat(&self) -> bool {
        self.pattern.places.iter().zip(&self.bound).all(|(place, v)| match (place, v) {
            (Place::Op { .. }, Some(v)) => self.graph.find(v.node).is_some_and(|n| !inspector::has_subgraph(&n)),
            _ => true,
        })
    }

    /// Operators of the match. The inputs of a place are made before it, so the order of places is
    /// topological.
    fn nodes(&self) -> Vec<NodeId> {
        (0..self.bound.len()).filter(|p| self.is_op(*p)).filter_map(|p| self.bound[p].map(|v| v.node)).collect()
    }

    fn outputs(&self) -> Vec<ValueRef> {
        self.pattern.outputs.iter().filter_map(|o| self.actual(*o)).collect()
    }

    fn found(&self) -> Match<'g> {
        let captures = self.pattern.names.iter();
        Match {
            graph: Shown(self.graph),
            captures: captures.map(|(n, at)| (n.clone(), self.actual(*at).filter(|v| !v.is_absent()))).collect(),
            nodes: self.nodes(),
            outputs: self.outputs(),
        }
    }

    fn border(&mut self) -> bool {
        match inspector::border(&self.graph, &self.nodes(), &self.outputs()) {
            Ok(()) => true,
            Err(why) => {
                self.refusal.get_or_insert(why);
                false
            }
        }
    }
}
