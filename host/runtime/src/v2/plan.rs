//! A round of a graph: what can be launched with the sizes that are known, as one sealed model of
//! the device.
//!
//! Shapes are inferred node by node from those of the values at hand; small arithmetic on shapes is
//! computed while planning. What hangs on a value that the device has yet to compute waits for the
//! next round. A plan depends on nothing but shapes, and the values that decide shapes, so that it
//! serves every run that has the same.
use super::graph::{Graph, Kind, Node, SIZES};
use super::growth::{Growing, Reader};
use super::held::{self, Given, Held};
use super::launch::{self, Launch};
use super::pieces::{self, Cut, Pieced};
use super::sequence;
use super::streams::{Behind, Limits, Streams};
use super::tiling::{self, Tiled, Tilings};
use super::tools::Tools;
use super::value::{Store, Tensor, Value};
use super::view::OneNode;
use crate::error::RuntimeError;
use crate::several::Bound;
use ge_plugin_api::diagnostic::{Diagnostic, ErrorKind};
use ge_plugin_api::kernel::{HostTensor, TensorView};
use ge_plugin_api::ops::flags;
use ge_plugin_api::types::{Blob, ConstTensor, DType, Key, Shape, TensorDesc};
use std::sync::{Arc, OnceLock};

/// Values that decide shapes are read up to this size.
pub(crate) const KEY_BYTES: usize = 16 * 1024;
/// Results that are computed while planning are at most this large.
const FOLD_BYTES: u64 = 4096;

/// Where a value is while a round is planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    /// Not computed yet.
    Nowhere,
    /// An earlier round made it, or it is a parameter.
    Before,
    /// Its bytes are known to the plan.
    Known,
    /// A launch of this round makes it.
    Made,
    /// It is another value's memory.
    ViewOf(u32),
    /// A launch of this round makes it of a state, in the memory of that.
    InPlace(u32),
}

/// A node that is launched.
pub(crate) struct Launched {
    pub(crate) node: u32,
    pub(crate) launch: Arc<Launch>,
    /// Its tasks as its executor has bound them.
    pub(crate) bound: Arc<[OnceLock<Bound>]>,
    /// How it runs piece by piece, if it does.
    pub(crate) pieces: Option<Box<Pieced>>,
    /// What copies the inputs that it writes over to where its outputs lie, by the input's number.
    pub(crate) copies: Vec<(usize, Arc<Launch>)>,
}

/// What a round is to do.
pub(crate) struct Draft {
    pub(crate) launches: Vec<Launched>,
    /// Where the launches stand.
    pub(crate) streams: Streams,
    /// Nodes that the host executes behind the launches.
    pub(crate) host: Vec<u32>,
    /// Nodes that are done with the launches, those without a task included.
    pub(crate) done: Vec<u32>,
    pub(crate) home: Vec<Home>,
    /// What values are, and what is known of them; constants of the graph are not among them.
    pub(crate) desc: Vec<Option<TensorDesc>>,
    pub(crate) known: Vec<Option<ConstTensor>>,
    /// Values that the next round needs to know.
    pub(crate) asked: Vec<u32>,
    /// States that grow in place.
    pub(crate) held: Vec<Held>,
    /// A state cannot grow in place here, for who reads it: the round has to be planned without.
    pub(crate) refused: bool,
}

/// What a plan of a graph is made with.
pub(crate) struct Basis<'p> {
    pub(crate) tools: &'p Tools,
    pub(crate) graph: &'p Graph,
    /// The engine that the compiler named for each node.
    pub(crate) engines: &'p [String],
    /// What its nodes ran as in plans before.
    pub(crate) tilings: &'p Tilings,
}

/// Plans the next round of a graph. `vals`: what is there; `done`: nodes of earlier rounds;
/// `growing`: which states may grow in place.
///
/// # Errors
/// A node whose inputs do not fit, or that nothing can compute.
pub(crate) fn draft(
    basis: &Basis<'_>,
    vals: &[Option<Value<'_>>],
    done: &[bool],
    growing: &[Growing],
) -> Result<Draft, RuntimeError> {
    let &Basis { tools, graph, engines, tilings } = basis;
    let n = graph.values();
    let mut p = Planner {
        tools,
        graph,
        engines,
        tilings,
        planned: done.to_vec(),
        full: false,
        behind: Behind::new(graph),
        d: Draft {
            launches: Vec::with_capacity(graph.nodes.len()),
            streams: Streams::new(Limits::of(&tools.target.soc)),
            host: Vec::new(),
            done: Vec::new(),
            home: vec![Home::Nowhere; n],
            desc: vec![None; n],
            known: vec![None; n],
            asked: Vec::new(),
            held: Vec::new(),
            refused: false,
        },
    };
    for (v, value) in vals.iter().enumerate() {
        let Some(value) = value else { continue };
        p.d.home[v] = Home::Before;
        if let Some(t) = value.tensor() {
            p.d.desc[v] = Some(t.desc());
            if keyed(graph, v, t.dtype, || t.bytes()).is_some() {
                p.d.known[v] = t.to_constant();
            }
            p.d.held.extend(held_of(t, v as u32, growing));
        }
    }
    // Constants are at hand in every round.
    for (v, t) in graph.constants.iter().enumerate() {
        if t.is_some() {
            p.d.home[v] = Home::Known;
        }
    }
    for (i, node) in graph.nodes.iter().enumerate() {
        if done[i] {
            continue;
        }
        if p.full {
            break;
        }
        match node.kind {
            Kind::Data | Kind::Constant => p.finish(i, None),
            Kind::Output => {}
            _ if !p.ready(node) => {}
            // An optional may hold a tensor, and its operators are no kernels' all the same.
            Kind::Operator if p.tensors(node) && !sequence::handles(node.op.as_str()) => p.operator(i)?,
            _ => p.d.host.push(i as u32),
        }
    }
    p.d.held.retain(|h| p.d.home[h.of.result as usize] == Home::InPlace(h.of.value));
    p.d.refused |= p.d.held.iter().flat_map(|h| &h.of.readers).any(|r| !p.planned[r.node as usize]);
    Ok(p.d)
}

/// What a state is that may grow in place.
fn held_of(t: &Tensor<'_>, value: u32, growing: &[Growing]) -> Option<Held> {
    let Store::State(s) = &t.store else { return None };
    let of = growing.iter().find(|g| g.value == value && g.axis == s.axis())?;
    let fits = s.is_newest() && s.dims() == &t.dims[..] && (of.by_pieces || s.pieces() == 1);
    fits.then(|| Held { of: of.clone(), room: s.room_dims(), rows: s.rows(), row_bytes: s.row_bytes() })
}

/// The bytes of a value where they are part of what a plan is known by. Those of a state are put
/// together when they are asked for.
pub(crate) fn keyed<'b>(
    graph: &Graph,
    value: usize,
    dtype: DType,
    bytes: impl FnOnce() -> &'b [u8],
) -> Option<&'b [u8]> {
    let wanted = graph.wanted[value] && dtype != DType::STRING;
    wanted.then(bytes).filter(|b| b.len() <= KEY_BYTES)
}

struct Planner<'p> {
    tools: &'p Tools,
    graph: &'p Graph,
    /// The engine that the compiler named for each node.
    engines: &'p [String],
    tilings: &'p Tilings,
    /// Nodes that are done with the launches of this round.
    planned: Vec<bool>,
    /// Whether the round has as many tasks or events as it may: what is left is the next one's.
    full: bool,
    /// What stands behind which launches.
    behind: Behind,
    d: Draft,
}

impl Draft {
    /// What a value is.
    pub(crate) fn desc<'d>(&'d self, graph: &'d Graph, v: u32) -> Option<&'d TensorDesc> {
        self.desc[v as usize].as_ref().or(graph.fixed[v as usize].as_ref())
    }
    /// What is known of a value.
    fn known<'d>(&'d self, graph: &'d Graph, v: u32) -> Option<&'d ConstTensor> {
        self.known[v as usize].as_ref().or(graph.constants[v as usize].as_ref().map(|c| &c.0))
    }
}

impl Planner<'_> {
    /// A node is done without a launch; `shows`: the value that its output is a view of.
    fn finish(&mut self, node: usize, shows: Option<u32>) {
        self.behind.done(self.graph, node as u32, shows);
        self.planned[node] = true;
        self.d.done.push(node as u32);
    }
    /// Whether everything that a node waits for is there, or will be with the launches of this
    /// round.
    fn ready(&self, n: &Node) -> bool {
        n.inputs.iter().flatten().all(|v| self.d.home[*v as usize] != Home::Nowhere)
            && n.controls.iter().all(|c| self.planned[*c as usize])
    }
    /// Whether its inputs are tensors that kernels of a device can take.
    fn tensors(&self, n: &Node) -> bool {
        let plain = |v: &u32| self.d.desc(self.graph, *v).is_some_and(|d| d.dtype != DType::STRING);
        n.inputs.iter().flatten().all(plain) && n.descs.iter().all(|d| d.container == Default::default())
    }

    /// A node that writes behind a state, or reads it piece by piece; false: it is none.
    fn of_state(&mut self, i: usize) -> Result<bool, RuntimeError> {
        let n = &self.graph.nodes[i];
        let at = i as u32;
        let grown = |h: &&Held| self.d.home[h.of.result as usize] == Home::InPlace(h.of.value);
        if let Some(h) = self.d.held.iter().find(|h| h.of.concat == at) {
            let one = self.given(n);
            let outs = self.infer(n, &self.node(n, &one))?;
            let rows = outs.first().and_then(|d| d.shape.sizes()?.get(h.of.axis).copied());
            let room = rows.is_some_and(|r| r <= h.room[1]);
            let cut = outs.first().filter(|_| room).and_then(|d| h.extend(n, &one, d));
            let home = Home::InPlace(h.of.value);
            let made = self.cut(i, cut.as_ref(), &outs, home)?;
            self.d.refused |= room && !made;
            return Ok(made);
        }
        let through = |h: &&Held| h.of.by_pieces && h.of.readers.iter().any(|r| r.through == Some(at));
        if let Some(result) = self.d.held.iter().filter(grown).find(through).map(|h| h.of.result) {
            let outs = self.infer(n, &self.one(n))?;
            for (v, d) in n.outputs.iter().zip(outs) {
                self.d.home[*v as usize] = Home::ViewOf(result);
                self.d.desc[*v as usize] = Some(d);
            }
            self.finish(i, Some(result));
            return Ok(true);
        }
        let by_pieces = self.d.held.iter().filter(grown).filter(|h| h.of.by_pieces);
        let readers = |h: &'_ Held| h.of.readers.iter().filter(|r| r.node == at).cloned().collect::<Vec<_>>();
        let states: Vec<(Held, Reader)> =
            by_pieces.flat_map(|h| readers(h).into_iter().map(|r| (h.clone(), r))).collect();
        if states.is_empty() {
            return Ok(false);
        }
        let one = self.given(n);
        let outs = self.infer(n, &self.node(n, &one))?;
        let cut = outs.first().and_then(|d| held::reading(&states, n, &one, d));
        if !self.cut(i, cut.as_ref(), &outs, Home::Made)? {
            self.d.refused = true;
        }
        Ok(true)
    }

    /// Launches a node piece by piece, where an engine can.
    fn cut(&mut self, i: usize, cut: Option<&Cut<'_>>, outs: &[TensorDesc], home: Home) -> Result<bool, RuntimeError> {
        let Some(cut) = cut.filter(|_| outs.len() == 1) else { return Ok(false) };
        let Some(one) = self.piece(i, cut)? else { return Ok(false) };
        let Some((launch, pieces)) = pieces::find(self.tools, cut, one) else { return Ok(false) };
        self.place(i, (Arc::new(launch), Arc::new([])), Some(Box::new(pieces)), outs, home);
        Ok(true)
    }

    /// What one piece of a node runs as, which is often what it ran as in the step before.
    fn piece(&self, i: usize, cut: &Cut<'_>) -> Result<Option<Tiled>, RuntimeError> {
        let key = tiling::key_of_piece(cut);
        if let Some(t) = key.as_ref().and_then(|k| self.tilings.of(self.graph, i as u32, k)) {
            return Ok(Some(t));
        }
        let engine = self.engines.get(i).map_or("", String::as_str);
        let Some(launch) = pieces::ask(self.tools, cut, engine)? else { return Ok(None) };
        let tiled = Tiled::new(Arc::new([]), Arc::new(launch));
        if let Some(key) = key {
            self.tilings.found(self.graph, i as u32, key, &tiled);
        }
        Ok(Some(tiled))
    }

    fn operator(&mut self, i: usize) -> Result<(), RuntimeError> {
        if self.of_state(i)? {
            return Ok(());
        }
        let n = &self.graph.nodes[i];
        if let Some(t) = self.sizes(n) {
            self.knows(n.outputs[0], t);
            self.finish(i, None);
            return Ok(());
        }
        let key = tiling::key(self.graph, n, &self.d.desc, &self.d.known);
        if self.is_before_a_write(i) {
            let from = n.inputs[0].unwrap_or_default();
            let root = if let Home::ViewOf(root) = self.d.home[from as usize] { root } else { from };
            let v = n.outputs[0] as usize;
            self.d.desc[v] = self.d.desc(self.graph, from).cloned();
            self.d.home[v] = Home::ViewOf(root);
            self.finish(i, Some(root));
            return Ok(());
        }
        if let Some(t) = key.as_ref().and_then(|k| self.tilings.of(self.graph, i as u32, k)) {
            return self.launch(i, t);
        }
        let mut one = self.one(n);
        let outs = self.infer(n, &one)?;
        let is_static = outs.iter().all(TensorDesc::is_static);
        if !is_static || n.flags & flags::DATA_DEPENDENT_SHAPE != 0 {
            let asked: Vec<u32> = n.value_inputs.iter().filter_map(|i| *n.inputs.get(*i)?).collect();
            let asked = asked.into_iter().filter(|v| self.is_made(*v));
            let asked: Vec<u32> = asked.collect();
            if asked.is_empty() || is_static {
                self.d.host.push(i as u32);
            } else {
                self.d.asked.extend(asked);
            }
            return Ok(());
        }
        if let Some(values) = self.fold(n, &outs)? {
            for (v, t) in n.outputs.iter().zip(values) {
                self.knows(*v, t);
            }
            self.finish(i, None);
            return Ok(());
        }
        if outs.iter().any(|d| d.dtype == DType::STRING) {
            self.d.host.push(i as u32);
            return Ok(());
        }
        let input = n.inputs.first().copied().flatten();
        let shows = n.flags & flags::VIEW != 0 || self.moves_nothing(n);
        if let Some((from, d)) = input.zip(outs.first()).filter(|_| shows && outs.len() == 1) {
            let bytes = self.d.desc(self.graph, from).and_then(TensorDesc::data_bytes);
            if bytes.is_some() && bytes == d.data_bytes() {
                let root = match self.d.home[from as usize] {
                    Home::ViewOf(root) => root,
                    _ => from,
                };
                let v = n.outputs[0] as usize;
                if let Some(t) = self.d.known(self.graph, from) {
                    let dims = d.shape.sizes().unwrap_or_default();
                    self.d.known[v] = t.bytes().and_then(|b| ConstTensor::new(d.dtype, &dims, b));
                }
                self.d.home[v] = Home::ViewOf(root);
                self.d.desc[v] = Some(d.clone());
                self.finish(i, Some(root));
                return Ok(());
            }
        }
        one.outputs = outs.clone();
        let view = one.graph();
        let engine = self.engines.get(i).map_or("", String::as_str);
        let found = launch::find(self.tools, &one.node(&view), engine, &self.graph.read(n))?;
        match found {
            Ok(launch) => {
                let tiled = Tiled::new(outs.into(), Arc::new(launch));
                if let Some(key) = key {
                    self.tilings.found(self.graph, i as u32, key, &tiled);
                }
                self.launch(i, tiled)?;
            }
            Err(_) if self.tools.host(n.op.as_str()).is_some() => self.d.host.push(i as u32),
            Err(why) => return Err(nobody(n, &why)),
        }
        Ok(())
    }

    /// Whether a node moves axes of one place alone, so that nothing lies elsewhere behind it.
    fn moves_nothing(&self, n: &Node) -> bool {
        let perm = n.attrs.ints("perm").filter(|_| n.op.as_str() == "TransposeD");
        let dims = n.inputs.first().copied().flatten().and_then(|v| self.d.desc(self.graph, v)?.shape.sizes());
        let Some((perm, dims)) = perm.zip(dims) else { return false };
        let size = |axis: &usize| dims.get(*axis).is_some_and(|d| *d != 1);
        let axes = perm.iter().filter_map(|p| usize::try_from(*p).ok()).filter(size);
        perm.len() == dims.len() && axes.is_sorted()
    }

    /// Whether a node copies what its one reader writes over: that has a copy of its own.
    fn is_before_a_write(&self, i: usize) -> bool {
        let n = &self.graph.nodes[i];
        let (&[Some(_)], &[out]) = (&n.inputs[..], &n.outputs[..]) else { return false };
        let &[reader] = &self.graph.readers[out as usize][..] else { return false };
        let reader = &self.graph.nodes[reader as usize];
        n.op.as_str() == "Identity"
            && reader.kind == Kind::Operator
            && reader.written.iter().any(|k| reader.inputs.get(*k) == Some(&Some(out)))
            && !self.graph.outputs.contains(&out)
    }

    /// Launches a node.
    fn launch(&mut self, i: usize, tiled: Tiled) -> Result<(), RuntimeError> {
        let n = &self.graph.nodes[i];
        let mut copies = Vec::with_capacity(n.written.len());
        for k in &n.written {
            let Some(copy) = self.copy_of(n, *k)? else {
                if self.tools.host(n.op.as_str()).is_none() {
                    return Err(nobody(n, &["no engine copies what it writes over".to_owned()]));
                }
                self.d.host.push(i as u32);
                return Ok(());
            };
            copies.push((*k, Arc::new(copy)));
        }
        self.place(i, (tiled.launch, tiled.bound), None, &tiled.outs, Home::Made);
        if let Some(l) = self.d.launches.last_mut().filter(|l| l.node == i as u32) {
            l.copies = copies;
        }
        Ok(())
    }

    /// What copies an input of a node; None: no engine does, with tasks alone.
    fn copy_of(&self, n: &Node, k: usize) -> Result<Option<Launch>, RuntimeError> {
        let given = self.given(n).into_iter().skip(k).take(1).map(|g| g.map(|(v, d, _)| (v, d, None)));
        let given: Vec<Option<(u32, TensorDesc, Option<ConstTensor>)>> = given.collect();
        let out = given.iter().flatten().map(|g| g.1.clone()).collect();
        let one = OneNode::new(&n.name, (Key::new("Identity"), 0), &[], &given, out);
        let view = one.graph();
        let found = launch::find(self.tools, &one.node(&view), "", &[true])?;
        Ok(found.ok().filter(|l| l.workspaces.is_empty() && l.tasks.len() == 1))
    }

    /// Launches a node on its stream, if the round has room.
    fn place(
        &mut self,
        i: usize,
        (launch, bound): (Arc<Launch>, Arc<[OnceLock<Bound>]>),
        pieces: Option<Box<Pieced>>,
        outs: &[TensorDesc],
        home: Home,
    ) {
        let node = i as u32;
        let behind = self.behind.of(self.graph, node);
        // A copy is a task at most.
        let tasks = launch.tasks.len().max(1) + self.graph.nodes[i].written.len();
        if !self.d.streams.add(self.graph.streams[i], tasks, &behind) {
            self.full = true;
            return;
        }
        self.behind.launched(self.graph, node);
        for (v, d) in self.graph.nodes[i].outputs.iter().zip(outs) {
            self.d.home[*v as usize] = home;
            self.d.desc[*v as usize] = Some(d.clone());
        }
        self.d.launches.push(Launched { node, launch, bound, pieces, copies: Vec::new() });
        self.planned[i] = true;
        self.d.done.push(node);
    }

    /// Whether a launch of this round computes a value.
    fn is_made(&self, v: u32) -> bool {
        match self.d.home[v as usize] {
            Home::Made | Home::InPlace(_) => true,
            Home::ViewOf(root) => matches!(self.d.home[root as usize], Home::Made | Home::InPlace(_)),
            _ => false,
        }
    }
    fn knows(&mut self, v: u32, t: ConstTensor) {
        self.d.desc[v as usize] = Some(t.desc());
        self.d.known[v as usize] = Some(t);
        self.d.home[v as usize] = Home::Known;
    }
    /// A node as plugins see it now.
    fn one<'n>(&self, n: &'n Node) -> OneNode<'n> {
        self.node(n, &self.given(n))
    }
    /// What a node reads.
    fn given(&self, n: &Node) -> Vec<Option<(u32, TensorDesc, Option<ConstTensor>)>> {
        let input = |v: &Option<u32>| {
            let v = (*v)?;
            let desc = self.d.desc(self.graph, v).cloned().unwrap_or_default();
            Some((v, desc, self.d.known(self.graph, v).cloned()))
        };
        n.inputs.iter().map(input).collect()
    }
    fn node<'n>(&self, n: &'n Node, inputs: &Given) -> OneNode<'n> {
        let open = |d: &TensorDesc| TensorDesc { shape: Shape::unranked(), ..d.clone() };
        OneNode::new(&n.name, (n.op, n.flags), n.attrs.as_slice(), inputs, n.descs.iter().map(open).collect())
    }
    fn infer(&self, n: &Node, one: &OneNode<'_>) -> Result<Vec<TensorDesc>, RuntimeError> {
        infer(self.tools, n, one)
    }

    /// What an operator that reads sizes alone gives.
    fn sizes(&self, n: &Node) -> Option<ConstTensor> {
        if !SIZES.contains(&n.op.as_str()) || n.outputs.len() != 1 {
            return None;
        }
        let d = self.d.desc(self.graph, n.inputs.first().copied().flatten()?)?;
        let sizes = d.shape.sizes_i64()?;
        let rank = sizes.len() as i64;
        let clamp = |v: i64| usize::try_from((if v < 0 { v + rank } else { v }).clamp(0, rank)).unwrap_or(0);
        let (dims, values) = match n.op.as_str() {
            "Shape" => {
                let start = clamp(n.attrs.int("start").unwrap_or(0));
                let end = clamp(n.attrs.int("end").unwrap_or(rank)).max(start);
                (vec![(end - start) as u64], sizes[start..end].to_vec())
            }
            "Rank" => (Vec::new(), vec![rank]),
            "Size" => (Vec::new(), vec![i64::try_from(d.shape.count()?).ok()?]),
            _ => return None,
        };
        match n.descs.first()?.dtype {
            DType::I32 => {
                let v = values.iter().map(|v| i32::try_from(*v).ok()).collect::<Option<Vec<_>>>()?;
                ConstTensor::of(&dims, &v)
            }
            DType::I64 => ConstTensor::of(&dims, &values),
            _ => None,
        }
    }

    /// Computes a node while planning, where it is small and all that it reads is known.
    fn fold(&self, n: &Node, outs: &[TensorDesc]) -> Result<Option<Vec<ConstTensor>>, RuntimeError> {
        let bytes: u64 = outs.iter().map(|d| d.data_bytes().unwrap_or(u64::MAX)).fold(0, u64::saturating_add);
        let empty = |d: &TensorDesc| ConstTensor::new(d.dtype, &d.shape.sizes()?, Blob::empty());
        if bytes == 0 && (n.flags & flags::STATEFUL == 0 || n.flags & flags::REFERENCE != 0) {
            return Ok(outs.iter().map(empty).collect());
        }
        let known = n.inputs.iter().flatten().all(|v| self.d.known(self.graph, *v).is_some());
        let fixed = n.flags & (flags::RANDOM | flags::STATEFUL | flags::COMMUNICATION) == 0;
        // Reals are left to the kernels that compute them in a static model, unless a shape hangs
        // on them.
        let wanted = n.outputs.iter().any(|v| self.graph.wanted[*v as usize]);
        let whole = outs.iter().all(|d| d.dtype.is_int() || d.dtype == DType::BOOL);
        if !known || !fixed || bytes > FOLD_BYTES || !(wanted || whole) {
            return Ok(None);
        }
        let Some(host) = self.tools.host(n.op.as_str()) else { return Ok(None) };
        let mut inputs = Vec::with_capacity(n.inputs.len());
        for v in &n.inputs {
            let tensor = v.and_then(|v| self.d.known(self.graph, v));
            let t = tensor.map(|t| (t, t.bytes().unwrap_or(Blob::empty())));
            inputs.push(t);
        }
        let copies: Vec<Option<HostTensor>> = inputs
            .iter()
            .map(|i| i.as_ref().map(|(t, b)| HostTensor::from_bytes(t.dtype, &t.dims, b)).transpose())
            .collect::<Result<_, _>>()?;
        let views: Vec<Option<TensorView<'_>>> = copies.iter().map(|t| t.as_ref().map(HostTensor::view)).collect();
        let types: Vec<DType> = outs.iter().map(|d| d.dtype).collect();
        let made = host.run_host_kernel(n.op.as_str(), &n.name, &n.attrs, &views, &types)?;
        Ok(made.into_iter().map(|t| Tensor::made(t).to_constant()).collect())
    }
}

/// The outputs of a node by its prototype. A type that it leaves open is the one that the compiler
/// knew.
pub(crate) fn infer(tools: &Tools, n: &Node, one: &OneNode<'_>) -> Result<Vec<TensorDesc>, RuntimeError> {
    let proto = tools.op(n.op).ok_or_else(|| nobody(n, &[]))?;
    let view = one.graph();
    let mut outs = proto.infer(&one.node(&view))?;
    outs.truncate(n.outputs.len());
    for (o, d) in outs.iter_mut().zip(&n.descs) {
        if o.dtype == DType::UNKNOWN {
            o.dtype = d.dtype;
        }
        o.attrs = Default::default();
    }
    Ok(outs)
}

/// Nothing computes a node.
fn nobody(n: &Node, refusals: &[String]) -> RuntimeError {
    let text = format!("no enabled engine can run `{}` ({})", n.name, n.op.as_str());
    let mut d = Diagnostic::error(text).code(ge_codes::NO_ENGINE).node(n.name.clone(), n.op.as_str());
    for r in refusals {
        d = d.note(format!("asked: {r}"));
    }
    d.of(ErrorKind::UNSUPPORTED).into()
}
