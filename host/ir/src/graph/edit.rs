//! Applies recorded edits, completely or not at all. The cost of an edit is proportional to what it
//! touches; the order is checked once for each patch.
use super::journal::Journal;
use super::names::Names;
use super::origin::Moves;
use super::{Graph, Model, Node};
use ge_plugin_api::patch::{Edit, NewNode};
use ge_plugin_api::types::{AttrValue, DType, Key, NodeId, TensorDesc, Use, ValueRef};
use smallvec::SmallVec;

/// The operator whose nodes may share a name.
const VARIABLE: &str = "Variable";

/// Why a patch was refused. Nothing of the patch was applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// An edit names a node that does not exist.
    #[error("the patch names node {id:?} of graph `{graph}`, which is not there")]
    NoNode {
        /// Name of the graph.
        graph: String,
        /// Id that the edit names.
        id: NodeId,
    },
    /// An edit reads an output that does not exist.
    #[error("the patch reads output {output} of `{node}` in graph `{graph}`, which has {count}")]
    NoOutput {
        /// Name of the graph.
        graph: String,
        /// Name of the producer.
        node: String,
        /// Output index that the edit reads.
        output: u32,
        /// Number of outputs of the producer.
        count: usize,
    },
    /// A removed node or a removed output still has readers.
    #[error("the patch removes `{node}` in graph `{graph}`, which `{reader}` still needs")]
    StillUsed {
        /// Name of the graph.
        graph: String,
        /// Name of the node that is removed or loses outputs.
        node: String,
        /// Name of one reader.
        reader: String,
    },
    /// The patched graph has a cycle.
    #[error("the patch makes a cycle in graph `{graph}`: {}", nodes.join(" -> "))]
    Cycle {
        /// Name of the graph.
        graph: String,
        /// Names of nodes on the cycle, at most 20.
        nodes: Vec<String>,
    },
    /// A value is replaced by one of an incompatible type.
    #[error("the patch replaces `{from}` ({found}) by `{to}` ({other}) in graph `{graph}`: types do not fit")]
    TypeMismatch {
        /// Name of the graph.
        graph: String,
        /// Replaced value.
        from: String,
        /// Type of the replaced value.
        found: String,
        /// New value.
        to: String,
        /// Type of the new value.
        other: String,
    },
    /// The id of a new node is not the next id of the graph.
    #[error("the patch adds a node with id {id:?} to graph `{graph}`, whose next id is {next:?}")]
    WrongId {
        /// Name of the graph.
        graph: String,
        /// The id that the patch gives.
        id: NodeId,
        /// The id that the graph expects.
        next: NodeId,
    },
    /// The graph to remove does not exist, is the root, or is still named by a node.
    #[error("the patch cannot remove graph `{graph}`: {reason}")]
    Graph {
        /// Name of the graph.
        graph: String,
        /// Why it cannot be removed.
        reason: String,
    },
    /// An input position is out of range.
    #[error("the patch sets input {index} of `{node}`, which has {count}")]
    InputIndex {
        /// Name of the node.
        node: String,
        /// Position that the edit sets.
        index: u32,
        /// Number of inputs of the node.
        count: usize,
    },
}

/// Summary of an applied patch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Number of edits applied.
    pub edits: usize,
    /// Nodes added, as (graph index, node id).
    pub added: Vec<(usize, NodeId)>,
    /// Number of nodes removed.
    pub removed: usize,
    /// Nodes whose inputs, attributes or descriptors changed, as (graph index, node id), each once,
    /// in order of first change ([`Model::apply`]) or sorted ([`Model::apply_in`]).
    pub touched: Vec<(usize, NodeId)>,
}

/// State of a series of small patches ([`Model::apply_in`]): the work that [`Model::close`] still
/// has to do for them.
#[derive(Default)]
pub struct EditSession {
    /// Graphs whose order must be recomputed.
    structure: Vec<usize>,
    /// Names of the model's nodes, gathered when the first new node needs them.
    taken: Option<Names>,
}

impl EditSession {
    /// Forgets the cached names of the model. Call this after an edit outside the session adds or
    /// renames nodes.
    pub fn forget_names(&mut self) {
        self.taken = None;
    }
    /// Whether a patch has changed the structure of any graph.
    pub fn changed(&self) -> bool {
        !self.structure.is_empty()
    }
}

/// A removed node and the readers that it had when it was removed.
struct Removed {
    graph: usize,
    id: NodeId,
    name: String,
    readers: Vec<Use>,
}

impl Model {
    /// Applies edits to a graph (by index) and to the graphs that the edits name.
    ///
    /// # Errors
    /// Fails if an edit is invalid; the model is then as it was before.
    pub fn apply(&mut self, graph: usize, edits: Vec<Edit>) -> Result<Applied, EditError> {
        let mut j = Journal::new(self.graphs.len());
        let mut done = Applied { edits: edits.len(), ..Applied::default() };
        let mut open = EditSession { taken: self.names.take(&self.graphs), ..EditSession::default() };
        let ended =
            self.run_edits(graph, edits, &mut j, &mut done, &mut open).and_then(|()| self.reorder_all(&open, &mut j));
        match ended {
            Ok(()) => {
                // The set still holds the names of nodes of removed graphs.
                if let Some(names) = open.taken.filter(|_| j.removed_graphs.is_empty()) {
                    self.names.put(names, &mut self.graphs);
                }
                done.touched = std::mem::take(&mut j.touched);
                Ok(done)
            }
            Err(e) => {
                self.roll_back(j);
                Err(e)
            }
        }
    }

    /// Applies a small patch of a session; the cost is proportional to what it touches.
    /// [`Model::close`] restores the order of the graphs and detects cycles.
    ///
    /// # Errors
    /// Fails if an edit is invalid; the model must then be discarded.
    pub fn apply_in(
        &mut self,
        session: &mut EditSession,
        graph: usize,
        edits: Vec<Edit>,
    ) -> Result<Applied, EditError> {
        let mut j = Journal::forgetful(self.graphs.len());
        let mut done = Applied { edits: edits.len(), ..Applied::default() };
        self.run_edits(graph, edits, &mut j, &mut done, session)?;
        done.touched = j.touched;
        done.touched.sort_unstable();
        done.touched.dedup();
        Ok(done)
    }

    /// Ends a session and restores the order of every graph that it changed.
    ///
    /// # Errors
    /// Fails if the patches of the session have made a cycle.
    pub fn close(&mut self, session: EditSession) -> Result<(), EditError> {
        self.reorder_all(&session, &mut Journal::forgetful(self.graphs.len()))
    }

    fn reorder_all(&mut self, session: &EditSession, j: &mut Journal) -> Result<(), EditError> {
        for &g in &session.structure {
            let Some(graph) = self.graphs.get_mut(g) else { continue };
            if !j.forget {
                j.orders.push((g, graph.order.clone()));
            }
            if let Err(cycle) = graph.reorder() {
                let nodes = cycle.iter().filter_map(|id| graph.get(*id)).map(|n| n.name.to_string()).take(20).collect();
                return Err(EditError::Cycle { graph: graph.name.clone(), nodes });
            }
        }
        Ok(())
    }

    fn run_edits(
        &mut self,
        graph: usize,
        edits: Vec<Edit>,
        j: &mut Journal,
        done: &mut Applied,
        open: &mut EditSession,
    ) -> Result<(), EditError> {
        let mut gi = graph;
        if let Some(g) = self.graphs.get_mut(gi).filter(|g| g.nodes.is_empty()) {
            // This is a graph that a front end builds: almost every edit adds a node.
            g.nodes.reserve_exact(edits.len());
        }
        let EditSession { structure, taken } = open;
        let mut removed: Vec<Removed> = Vec::new();
        let mut shrunk: Vec<(usize, NodeId)> = Vec::new();
        let mut moves = Moves::default();
        for e in edits {
            if let Edit::InGraph(name) = &e {
                gi = match self.graph_index(name) {
                    Some(i) => i,
                    None => {
                        self.graphs.push(Graph::new(name));
                        self.graphs.len() - 1
                    }
                };
                continue;
            }
            if let Edit::RemoveGraph(name) = &e {
                let at = self.graph_index(name).filter(|i| *i != 0);
                let Some(at) = at else {
                    return Err(EditError::Graph {
                        graph: name.to_string(),
                        reason: "there is no such subgraph".into(),
                    });
                };
                if at < j.graphs && j.knows_from(at) {
                    return Err(EditError::Graph {
                        graph: name.to_string(),
                        reason: "a graph is removed after edits of later graphs".into(),
                    });
                }
                let g = self.graphs.remove(at);
                moves.forget(at);
                j.removed_graphs.push((at, g));
                structure.retain(|s| *s != at);
                structure.iter_mut().filter(|s| **s > at).for_each(|s| *s -= 1);
                if gi >= at {
                    gi = 0;
                }
                continue;
            }
            let changes_order = !matches!(
                e,
                Edit::SetAttr(..)
                    | Edit::RemoveAttr(..)
                    | Edit::SetOutput(..)
                    | Edit::SetGraphAttr(..)
                    | Edit::SetOp(..)
                    | Edit::SetName(..)
            );
            if changes_order && !structure.contains(&gi) {
                structure.push(gi);
            }
            match e {
                Edit::AddNode(n) => {
                    let names = taken.get_or_insert_with(|| Names::of(&self.graphs));
                    let id = self.add_node(gi, n, names, j)?;
                    done.added.push((gi, id));
                }
                Edit::RemoveNode(id) => {
                    let gone = self.remove_node(gi, id, j)?;
                    if let Some(t) = taken.as_mut() {
                        t.remove(&gone.name);
                    }
                    removed.push(gone);
                    done.removed += 1;
                }
                Edit::SetOp(id, op) => {
                    moves.remake(&self.graphs[gi], gi, id);
                    self.content(gi, id, j)?.op = op;
                }
                Edit::SetName(id, name) => {
                    self.graphs[gi].names = 0;
                    let n = self.content(gi, id, j)?;
                    if let Some(t) = taken.as_mut() {
                        t.remove(&n.name);
                        t.add(&name);
                    }
                    n.name = name.into_string().into_boxed_str();
                }
                Edit::SetInput(id, i, v) => {
                    moves.remake(&self.graphs[gi], gi, id);
                    self.set_input(gi, id, i, v, j)?;
                }
                Edit::SetInputs(id, v) => {
                    moves.remake(&self.graphs[gi], gi, id);
                    self.set_inputs(gi, id, v.into(), j)?;
                }
                Edit::AddControl(a, b) => self.add_control(gi, a, b, j)?,
                Edit::RemoveControl(a, b) => self.remove_control(gi, a, b, j)?,
                Edit::ReplaceUses(a, b) => {
                    moves.replace(&self.graphs[gi], gi, a, b);
                    self.replace_uses(gi, a, b, j)?;
                }
                Edit::SetOutput(id, k, d) => {
                    let n = self.content(gi, id, j)?;
                    let count = n.outputs.len();
                    match n.outputs.get_mut(k as usize) {
                        Some(o) => *o = d,
                        None => {
                            let node = n.name.to_string();
                            let graph = self.graphs[gi].name.clone();
                            return Err(EditError::NoOutput { graph, node, output: k, count });
                        }
                    }
                }
                Edit::SetOutputs(id, d) => {
                    self.links(gi, id, j)?;
                    let n = self.content(gi, id, j)?;
                    let keep = d.len();
                    n.outputs = d.into();
                    if n.uses.len() < keep {
                        n.uses.resize_with(keep, SmallVec::new);
                    } else if n.uses.len() > keep {
                        shrunk.push((gi, id));
                    }
                }
                Edit::SetAttr(id, a) => {
                    if !a.key.as_str().starts_with('_') {
                        moves.remake(&self.graphs[gi], gi, id);
                    }
                    let n = self.content(gi, id, j)?;
                    // A node that takes over all attributes of another node does not compute that
                    // node's tensors.
                    if a.key != super::ORIGIN_TENSORS || j.added(gi, id) {
                        n.attrs.set(a.key, a.value);
                    }
                }
                Edit::RemoveAttr(id, k) => {
                    self.content(gi, id, j)?.attrs.remove(k);
                }
                Edit::SetGraphAttr(a) => {
                    let g = &mut self.graphs[gi];
                    j.keep_attrs(gi, &g.attrs);
                    g.attrs.set(a.key, a.value);
                }
                Edit::SetGraphOutputs(outs) => {
                    let values: Vec<ValueRef> = outs.iter().map(|o| o.value).collect();
                    let names = AttrValue::Strs(outs.iter().map(|o| o.name.clone()).collect());
                    let id = match self.graphs[gi].net_output_slow() {
                        Some(id) => id,
                        None => {
                            let id = self.graphs[gi].next_id();
                            let gname = &self.graphs[gi].name;
                            let base = if gi == 0 { "NetOutput".to_owned() } else { format!("{gname}/NetOutput") };
                            let names = taken.get_or_insert_with(|| Names::of(&self.graphs));
                            let new = NewNode {
                                id,
                                op: Key::new("NetOutput"),
                                name: base.as_str().into(),
                                inputs: Default::default(),
                                controls: Default::default(),
                                outputs: Default::default(),
                                attrs: Default::default(),
                            };
                            let id = self.add_node(gi, new, names, j)?;
                            done.added.push((gi, id));
                            id
                        }
                    };
                    self.set_inputs(gi, id, values, j)?;
                    self.content(gi, id, j)?.attrs.set("_output_names", names);
                }
                Edit::InGraph(_) | Edit::RemoveGraph(_) => {}
            }
        }
        for r in removed {
            // Readers that were changed or removed later in the patch are no error, so check only
            // now that all edits are applied.
            let g = &self.graphs[r.graph];
            let reads = |n: &Node, i: u32| n.inputs.get(i as usize).is_some_and(|v| !v.is_absent() && v.node == r.id);
            if let Some(n) = r.readers.iter().find_map(|u| g.get(u.node).filter(|n| reads(n, u.input))) {
                return Err(EditError::StillUsed { graph: g.name.clone(), node: r.name, reader: n.name.to_string() });
            }
        }
        for (g, id) in shrunk {
            let graph = &mut self.graphs[g];
            if let Some(Some(n)) = graph.nodes.get_mut(id.index()) {
                let keep = n.outputs.len();
                if let Some(u) = n.uses.get(keep..).and_then(|rest| rest.iter().flatten().next()).copied() {
                    let node = n.name.to_string();
                    let reader = graph.get(u.node).map(|r| r.name.to_string()).unwrap_or_default();
                    return Err(EditError::StillUsed { graph: graph.name.clone(), node, reader });
                }
                n.uses.truncate(keep);
            }
        }
        for (_, removed) in &j.removed_graphs {
            let named = self
                .graphs
                .iter()
                .flat_map(|g| g.nodes.iter().flatten())
                .find(|n| n.subgraphs().contains(&removed.name.as_str()));
            if let Some(n) = named {
                return Err(EditError::Graph { graph: removed.name.clone(), reason: format!("`{}` names it", n.name) });
            }
        }
        self.move_names(moves, j)
    }

    /// Turns a node into the constant that it was found to be. It keeps its id, name and place in
    /// the order and has no inputs. Nothing else in the model changes, so the cost is that of the
    /// node alone. Returns false and changes nothing if there is no such node with exactly one
    /// output and without control inputs.
    pub fn make_constant(&mut self, gi: usize, id: NodeId, value: ge_plugin_api::types::ConstTensor) -> bool {
        let one = self
            .graphs
            .get(gi)
            .and_then(|g| g.get(id))
            .is_some_and(|n| n.outputs.len() == 1 && n.controls().is_empty());
        let mut journal = Journal::forgetful(self.graphs.len());
        if !one || self.set_inputs(gi, id, Vec::new(), &mut journal).is_err() {
            return false;
        }
        let Some(n) = self.graphs[gi].nodes.get_mut(id.index()).and_then(Option::as_mut) else { return false };
        n.op = Key::new("Const");
        // A constant with the same shape keeps the format in which it was laid out.
        let mut desc = value.desc();
        if let Some(old) = n.outputs.first().filter(|d| d.shape == desc.shape) {
            (desc.format, desc.origin) = (old.format, old.origin.clone());
        }
        n.outputs = vec![desc];
        let names = n.attrs.get(super::ORIGIN_TENSORS).cloned();
        n.attrs = super::attrs::NodeAttrs::default();
        n.attrs.set("value", value);
        if let Some(names) = names {
            n.attrs.set(super::ORIGIN_TENSORS, names);
        }
        true
    }

    /// Returns a node whose edges are about to change, after saving the old edges.
    fn links(&mut self, gi: usize, id: NodeId, j: &mut Journal) -> Result<&mut Node, EditError> {
        let n = node_mut(&mut self.graphs[gi], id)?;
        j.keep_links(gi, n);
        Ok(n)
    }

    /// Returns a node about to change in anything but its edges, after saving the old state.
    pub(super) fn content(&mut self, gi: usize, id: NodeId, j: &mut Journal) -> Result<&mut Node, EditError> {
        let n = node_mut(&mut self.graphs[gi], id)?;
        j.keep_content(gi, n);
        Ok(n)
    }

    fn check_value(&self, gi: usize, v: ValueRef) -> Result<(), EditError> {
        if v.is_absent() {
            return Ok(());
        }
        let g = &self.graphs[gi];
        let Some(n) = g.get(v.node) else {
            return Err(EditError::NoNode { graph: g.name.clone(), id: v.node });
        };
        if v.output as usize >= n.outputs.len() {
            return Err(EditError::NoOutput {
                graph: g.name.clone(),
                node: n.name.to_string(),
                output: v.output,
                count: n.outputs.len(),
            });
        }
        Ok(())
    }

    /// Whether a graph has a Variable of this name.
    fn has_variable(&self, name: &str) -> bool {
        self.graphs.iter().any(|g| g.has_now(name, |n| n.op() == VARIABLE))
    }

    fn add_node(&mut self, gi: usize, n: NewNode, taken: &mut Names, j: &mut Journal) -> Result<NodeId, EditError> {
        let g = &mut self.graphs[gi];
        let next = g.next_id();
        if n.id != next {
            return Err(EditError::WrongId { graph: g.name.clone(), id: n.id, next });
        }
        j.keep_len(gi, g.nodes.len(), g.live);
        let mut name = if n.name.is_empty() { format!("{}_{}", n.op.as_str(), next.0) } else { n.name.into_string() };
        // Variables with the same name are one variable, in whatever graphs they stand.
        let share = |m: &Model, name: &str| {
            n.op.as_str() == VARIABLE && !m.graphs[gi].has_now(name, |_| true) && m.has_variable(name)
        };
        if !taken.insert(&name) {
            if share(self, &name) {
                taken.add(&name);
            } else {
                let free = (1u32..).map(|k| format!("{name}_{k}")).find(|n| taken.insert(n));
                name = free.unwrap_or(name);
            }
        }
        let g = &mut self.graphs[gi];
        let mut node = Node::unlinked(next, n.op, name, n.outputs.into(), n.attrs.into());
        node.kept = j.of_new_node();
        g.nodes.push(Some(node));
        g.live += 1;
        g.names = 0;
        self.set_inputs(gi, next, n.inputs.into(), j)?;
        for c in n.controls {
            self.add_control(gi, c, next, j)?;
        }
        Ok(next)
    }

    fn remove_node(&mut self, gi: usize, id: NodeId, j: &mut Journal) -> Result<Removed, EditError> {
        self.set_inputs(gi, id, Vec::new(), j)?;
        let controls = self.links(gi, id, j)?.controls().to_vec();
        for c in controls {
            self.remove_control(gi, c, id, j)?;
        }
        let followers = self.links(gi, id, j)?.control_users().to_vec();
        for f in followers {
            self.remove_control(gi, id, f, j)?;
        }
        let g = &mut self.graphs[gi];
        j.keep_len(gi, g.nodes.len(), g.live);
        let Some(mut n) = g.nodes[id.index()].take() else {
            return Err(EditError::NoNode { graph: g.name.clone(), id });
        };
        g.live -= 1;
        g.names = 0;
        let gone = Removed {
            graph: gi,
            id,
            name: n.name.to_string(),
            readers: std::mem::take(&mut n.uses).into_iter().flatten().collect(),
        };
        j.keep_removed(gi, n);
        Ok(gone)
    }

    fn unlink_input(&mut self, gi: usize, id: NodeId, i: usize, j: &mut Journal) -> Result<(), EditError> {
        let n = self.links(gi, id, j)?;
        let (v, pos) = (n.inputs[i], n.input_pos[i] as usize);
        if v.is_absent() || self.graphs[gi].get(v.node).is_none() {
            return Ok(());
        }
        let p = self.links(gi, v.node, j)?;
        let list = &mut p.uses[v.output as usize];
        list.swap_remove(pos);
        if let Some(moved) = list.get(pos).copied() {
            self.links(gi, moved.node, j)?.input_pos[moved.input as usize] = pos as u32;
        }
        Ok(())
    }

    fn link_input(&mut self, gi: usize, id: NodeId, i: usize, v: ValueRef, j: &mut Journal) -> Result<(), EditError> {
        self.check_value(gi, v)?;
        let mut pos = 0;
        if !v.is_absent() {
            let p = self.links(gi, v.node, j)?;
            let list = &mut p.uses[v.output as usize];
            pos = list.len() as u32;
            list.push(Use { node: id, input: i as u32 });
        }
        let n = self.links(gi, id, j)?;
        n.inputs[i] = v;
        n.input_pos[i] = pos;
        Ok(())
    }

    fn set_input(&mut self, gi: usize, id: NodeId, i: u32, v: ValueRef, j: &mut Journal) -> Result<(), EditError> {
        let n = self.links(gi, id, j)?;
        let count = n.inputs.len();
        let i = i as usize;
        if i > count {
            return Err(EditError::InputIndex { node: n.name.to_string(), index: i as u32, count });
        }
        if i == count {
            n.inputs.push(ValueRef::ABSENT);
            n.input_pos.push(0);
        } else {
            self.unlink_input(gi, id, i, j)?;
        }
        self.link_input(gi, id, i, v, j)
    }

    fn set_inputs(&mut self, gi: usize, id: NodeId, values: Vec<ValueRef>, j: &mut Journal) -> Result<(), EditError> {
        let count = self.links(gi, id, j)?.inputs.len();
        for i in (0..count).rev() {
            self.unlink_input(gi, id, i, j)?;
            let n = self.links(gi, id, j)?;
            n.inputs.pop();
            n.input_pos.pop();
        }
        for (i, v) in values.into_iter().enumerate() {
            let n = self.links(gi, id, j)?;
            n.inputs.push(ValueRef::ABSENT);
            n.input_pos.push(0);
            self.link_input(gi, id, i, v, j)?;
        }
        Ok(())
    }

    fn add_control(&mut self, gi: usize, from: NodeId, to: NodeId, j: &mut Journal) -> Result<(), EditError> {
        self.links(gi, from, j)?;
        if self.links(gi, to, j)?.controls().contains(&from) {
            return Ok(());
        }
        let f = self.links(gi, from, j)?.control_mut();
        let pos = f.users.len() as u32;
        f.users.push(to);
        let t = self.links(gi, to, j)?.control_mut();
        t.sources.push(from);
        t.pos.push(pos);
        Ok(())
    }

    fn remove_control(&mut self, gi: usize, from: NodeId, to: NodeId, j: &mut Journal) -> Result<(), EditError> {
        let t = self.links(gi, to, j)?;
        let Some(i) = t.controls().iter().position(|c| *c == from) else {
            return Ok(());
        };
        let t = t.control_mut();
        t.sources.remove(i);
        let pos = t.pos.remove(i) as usize;
        if self.graphs[gi].get(from).is_none() {
            return Ok(());
        }
        let f = self.links(gi, from, j)?.control_mut();
        f.users.swap_remove(pos);
        if let Some(moved) = f.users.get(pos).copied() {
            let m = self.links(gi, moved, j)?.control_mut();
            if let Some(k) = m.sources.iter().position(|c| *c == from) {
                m.pos[k] = pos as u32;
            }
        }
        Ok(())
    }

    fn replace_uses(&mut self, gi: usize, from: ValueRef, to: ValueRef, j: &mut Journal) -> Result<(), EditError> {
        self.check_value(gi, from)?;
        self.check_value(gi, to)?;
        if from == to {
            return Ok(());
        }
        let g = &self.graphs[gi];
        if let (Some(a), Some(b)) = (g.desc(from), g.desc(to))
            && !fits(a, b)
        {
            let name = |v: ValueRef| g.get(v.node).map(|n| format!("{}:{}", n.name, v.output)).unwrap_or_default();
            return Err(EditError::TypeMismatch {
                graph: g.name.clone(),
                from: name(from),
                found: format!("{}{}", a.dtype, a.shape),
                to: name(to),
                other: format!("{}{}", b.dtype, b.shape),
            });
        }
        let mut users = self.links(gi, from.node, j)?.uses[from.output as usize].clone();
        users.sort();
        for u in users {
            self.set_input(gi, u.node, u.input, to, j)?;
        }
        Ok(())
    }
}

/// Whether a reader of `a` may read `b` instead: the types are equal where both are known, and no
/// known sizes contradict each other. Shapes are not compared across formats.
fn fits(a: &TensorDesc, b: &TensorDesc) -> bool {
    if a.dtype != b.dtype && a.dtype != DType::UNKNOWN && b.dtype != DType::UNKNOWN {
        return false;
    }
    let (Some(x), Some(y)) = (a.shape.rank(), b.shape.rank()) else { return true };
    if a.format != b.format {
        return true;
    }
    x == y && a.shape.dims().iter().zip(b.shape.dims()).all(|(p, q)| !p.is_known() || !q.is_known() || p == q)
}

fn node_mut(g: &mut Graph, id: NodeId) -> Result<&mut Node, EditError> {
    match g.nodes.get_mut(id.index()) {
        Some(Some(n)) => Ok(n),
        _ => Err(EditError::NoNode { graph: g.name.clone(), id }),
    }
}

impl Graph {
    /// Whether a node has this name and satisfies `is`. It also finds nodes that are not in the
    /// order yet.
    fn has_now(&self, name: &str, is: impl Fn(&Node) -> bool) -> bool {
        self.nodes.iter().flatten().any(|n| *n.name == *name && is(n))
    }

    fn net_output_slow(&self) -> Option<NodeId> {
        let key = Key::new("NetOutput");
        self.nodes.iter().rev().flatten().find(|n| n.op == key).map(|n| n.id)
    }
}
