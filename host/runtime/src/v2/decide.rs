//! Decides how one node is executed: computed by the plan, a view of other memory, launched (and
//! how), or executed by the host. This does not change the plan, so a plan for other sizes can
//! decide again for just the nodes that are affected (`amend.rs`).
use super::graph::{Kind, Node, SIZES};
use super::growth::Reader;
use super::held::{self, Given, Held};
use super::launch::{self, Launch};
use super::pieces::{self, Cut, Pieced};
use super::plan::{Home, Planner, infer, nobody};
use super::tiling::{self, By, Tiled};
use super::value::Tensor;
use super::view::OneNode;
use crate::error::RuntimeError;
use crate::several::Bound;
use ge_plugin_api::kernel::{HostTensor, TensorView};
use ge_plugin_api::ops::{IN_PLACE, flags};
use ge_plugin_api::types::{Attr, AttrMap, Blob, ConstTensor, DType, Key, Shape, TensorDesc};
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

/// Maximum size in bytes of results that are computed while planning.
pub(crate) const FOLD_BYTES: u64 = 4096;

/// How a node is executed.
pub(crate) enum Found {
    /// It needs neither a launch nor the host.
    Plain(Vec<Plain>),
    /// It is launched.
    Launch(Box<Task>),
    /// The host executes it.
    Host,
    /// It waits until these values are known.
    Asks(Vec<u32>),
    /// A state cannot grow in place here.
    Refused,
}

/// A value that needs no launch: the plan knows it, or it is a view of another value's memory.
pub(crate) struct Plain {
    pub(crate) home: Home,
    pub(crate) desc: TensorDesc,
    /// Its contents, if known.
    pub(crate) known: Option<ConstTensor>,
}

impl Found {
    /// Values that the plan knows.
    pub(crate) fn known(values: Vec<ConstTensor>) -> Found {
        Found::Plain(values.into_iter().map(Plain::known).collect())
    }
}

impl Plain {
    /// A value that the plan knows.
    pub(crate) fn known(t: ConstTensor) -> Plain {
        Plain { home: Home::Known, desc: t.desc(), known: Some(t) }
    }
    /// A view of another value's memory.
    fn view(root: u32, desc: TensorDesc, known: Option<ConstTensor>) -> Plain {
        Plain { home: Home::ViewOf(root), desc, known }
    }
}

/// How a node is launched.
pub(crate) struct Task {
    pub(crate) launch: Arc<Launch>,
    /// Its tasks, as its executor has bound them.
    pub(crate) bound: Arc<[OnceLock<Bound>]>,
    /// How it runs piece by piece, if it does.
    pub(crate) pieces: Option<Box<Pieced>>,
    /// By input number: the launches that copy the inputs that it overwrites.
    pub(crate) copies: Vec<(usize, Arc<Launch>)>,
    /// Its outputs, and where they are.
    pub(crate) outs: Arc<[TensorDesc]>,
    pub(crate) home: Home,
}

/// The output descriptors of a node without their sizes.
fn opened(n: &Node) -> Vec<TensorDesc> {
    n.descs.iter().map(|d| TensorDesc { shape: Shape::unranked(), ..d.clone() }).collect()
}

/// The attributes of a node, with a mark if it writes in place.
pub(crate) fn attrs_of(n: &Node, in_place: bool) -> Cow<'_, AttrMap> {
    if !in_place {
        return Cow::Borrowed(&n.attrs);
    }
    let mut attrs = n.attrs.clone();
    attrs.set(IN_PLACE, true);
    Cow::Owned(attrs)
}

impl Planner<'_> {
    /// Decides how an operator is executed with the values at hand.
    ///
    /// # Errors
    /// Fails if its inputs do not fit, or if nothing can compute it.
    pub(crate) fn find(&self, i: usize) -> Result<Found, RuntimeError> {
        if let Some(found) = self.of_state(i)? {
            return Ok(found);
        }
        if let Some(found) = self.at_position(i)? {
            return Ok(found);
        }
        let n = &self.graph.nodes[i];
        if let Some(t) = self.sizes(n) {
            return Ok(Found::known(vec![t]));
        }
        if self.is_before_a_write(i) {
            let from = n.inputs[0].unwrap_or_default();
            let d = self.d.desc(self.graph, from).cloned().unwrap_or_default();
            return Ok(Found::Plain(vec![Plain::view(self.root(from), d, None)]));
        }
        let over = self.writes_over(i);
        let key = |by| tiling::key(self.graph, n, &self.d.desc, &self.d.known, (over.is_some(), by));
        let kept = |key: &Option<Vec<u8>>| self.tilings.of(self.graph, i as u32, key.as_ref()?);
        let for_any = key(By::Deciding);
        if let Some(t) = kept(&for_any) {
            return self.launched(n, t, over);
        }
        let for_these = key(By::All);
        if let Some(t) = kept(&for_these) {
            return self.launched(n, t, over);
        }
        let attrs = attrs_of(n, over.is_some());
        let mut veils = self.tilings.veils(i as u32) == Some(true);
        let mut one = self.one(n, attrs.as_slice(), veils);
        let outs = match self.infer(n, &one) {
            Ok(outs) if outs.iter().all(TensorDesc::is_static) => outs,
            // What needs the constants after all is asked for with them, and not shared.
            _ if veils => {
                (veils, one) = (false, self.one(n, attrs.as_slice(), false));
                self.infer(n, &one)?
            }
            other => other?,
        };
        let is_static = outs.iter().all(TensorDesc::is_static);
        if !is_static || n.flags & flags::DATA_DEPENDENT_SHAPE != 0 {
            let asked = n.value_inputs.iter().filter_map(|i| *n.inputs.get(*i)?);
            let asked: Vec<u32> = asked.filter(|v| self.is_made(*v)).collect();
            return Ok(if asked.is_empty() || is_static { Found::Host } else { Found::Asks(asked) });
        }
        if let Some(values) = self.fold(n, &outs)? {
            return Ok(Found::known(values));
        }
        let given = n.inputs.iter().flatten().filter_map(|v| self.d.desc(self.graph, *v));
        if outs.iter().chain(given).any(|d| d.dtype == DType::STRING) {
            return Ok(Found::Host);
        }
        let input = n.inputs.first().copied().flatten();
        let shows = n.flags & flags::VIEW != 0 || self.moves_nothing(n);
        if let Some((from, d)) = input.zip(outs.first()).filter(|_| shows && outs.len() == 1) {
            let bytes = self.d.desc(self.graph, from).and_then(TensorDesc::data_bytes);
            if bytes.is_some() && bytes == d.data_bytes() {
                let dims = d.shape.sizes().unwrap_or_default();
                let known = self.d.known(self.graph, from).and_then(ConstTensor::bytes);
                let known = known.and_then(|b| ConstTensor::new(d.dtype, &dims, b));
                return Ok(Found::Plain(vec![Plain::view(self.root(from), d.clone(), known)]));
            }
        }
        one.outputs = outs.clone();
        let mut answer = self.asked(i, &one)?;
        if answer.is_err() && veils {
            (veils, one) = (false, self.one(n, attrs.as_slice(), false));
            one.outputs = outs.clone();
            answer = self.asked(i, &one)?;
        }
        match answer {
            Ok(launch) => {
                veils = veils || self.settles_veil(i, &outs, &attrs, &launch);
                let for_any = match for_any {
                    Some(key) => self.for_any(i, &outs, (&attrs, veils), &launch)?.map(|launch| (Some(key), launch)),
                    None => None,
                };
                let (key, launch) = for_any.unwrap_or((for_these, launch));
                let tiled = Tiled::new(outs.into(), Arc::new(launch));
                if let Some(key) = key {
                    self.tilings.found(self.graph, i as u32, key, &tiled, veils);
                }
                self.launched(n, tiled, over)
            }
            Err(_) if self.tools.host(n.op.as_str()).is_some() => Ok(Found::Host),
            Err(why) => Err(nobody(n, &why)),
        }
    }

    /// The launch of a node when input values that determine no sizes are treated as unknown; it
    /// then serves all values. `None` if the engine that takes the node for the present values does
    /// not take it like this, or not with a launch that is at least as fast.
    fn for_any(
        &self,
        i: usize,
        outs: &[TensorDesc],
        (attrs, veils): (&AttrMap, bool),
        these: &Launch,
    ) -> Result<Option<Launch>, RuntimeError> {
        let n = &self.graph.nodes[i];
        let mut given = self.given(n, veils);
        for (_, given) in given.iter_mut().enumerate().filter(|(k, _)| tiling::may_be_any(self.graph, n, *k)) {
            if let Some((_, _, known)) = given {
                *known = None;
            }
        }
        let one = OneNode::new(&n.name, (n.op, n.flags), attrs.as_slice(), &given, outs.to_vec());
        let time = |l: &Launch| l.tasks.iter().map(|t| t.time_ns).sum::<u64>();
        let found = self.asked(i, &one)?;
        Ok(found.ok().filter(|any| any.engine == these.engine && time(any) <= time(these)))
    }

    /// Finds out, once for all nodes that are like this one but for large constants, whether they may
    /// share launches: whether an engine that does not know the constants gives this same launch.
    fn settles_veil(&self, i: usize, outs: &[TensorDesc], attrs: &AttrMap, these: &Launch) -> bool {
        if self.tilings.veils(i as u32).is_some() {
            return false;
        }
        let n = &self.graph.nodes[i];
        let mut one = self.one(n, attrs.as_slice(), true);
        let mut same = self.infer(n, &one).is_ok_and(|all| all == outs);
        one.outputs = outs.to_vec();
        same = same && matches!(self.asked(i, &one), Ok(Ok(launch)) if launch == *these);
        self.tilings.veil(i as u32, same);
        same
    }

    /// Asks the engines for a launch of a node, the compiler's engine first.
    pub(crate) fn asked(&self, i: usize, one: &OneNode<'_>) -> Result<Result<Launch, Vec<String>>, RuntimeError> {
        launch::find(self.tools, &one.node(&one.graph()), self.engine(i), &self.graph.read(&self.graph.nodes[i]))
    }

    /// The engine that the compiler chose for a node.
    fn engine(&self, i: usize) -> &str {
        self.engines.get(i).map_or("", String::as_str)
    }

    /// The value that owns the memory of `v`.
    pub(crate) fn root(&self, v: u32) -> u32 {
        if let Home::ViewOf(root) = self.d.home[v as usize] { root } else { v }
    }

    /// Decides on a node that extends a state, or reads it piece by piece; `None` if it does
    /// neither.
    fn of_state(&self, i: usize) -> Result<Option<Found>, RuntimeError> {
        if self.d.held.is_empty() {
            return Ok(None);
        }
        let n = &self.graph.nodes[i];
        let at = i as u32;
        let grown = |h: &&Held| self.d.home[h.of.result as usize] == Home::InPlace(h.of.value);
        if let Some(h) = self.d.held.iter().find(|h| h.of.concat == at) {
            let one = self.given(n, false);
            let outs = self.infer(n, &self.node(n, &one))?;
            let rows = outs.first().and_then(|d| d.shape.sizes()?.get(h.of.axis).copied());
            if rows.is_none_or(|r| r > h.room[1]) {
                return Ok(None);
            }
            let cut = outs.first().and_then(|d| h.extend(n, &one, d));
            let made = self.cut(i, cut.as_ref(), &outs, Home::InPlace(h.of.value))?;
            return Ok(Some(made.unwrap_or(Found::Refused)));
        }
        let through = |h: &&Held| h.of.by_pieces && h.of.readers.iter().any(|r| r.through == Some(at));
        if let Some(result) = self.d.held.iter().filter(grown).find(through).map(|h| h.of.result) {
            let outs = self.infer(n, &self.one(n, n.attrs.as_slice(), false))?;
            return Ok(Some(Found::Plain(outs.into_iter().map(|d| Plain::view(result, d, None)).collect())));
        }
        let by_pieces = self.d.held.iter().filter(grown).filter(|h| h.of.by_pieces);
        let readers = |h: &'_ Held| h.of.readers.iter().filter(|r| r.node == at).cloned().collect::<Vec<_>>();
        let states: Vec<(Held, Reader)> =
            by_pieces.flat_map(|h| readers(h).into_iter().map(|r| (h.clone(), r))).collect();
        if states.is_empty() {
            return Ok(None);
        }
        let one = self.given(n, false);
        let outs = self.infer(n, &self.node(n, &one))?;
        let cut = outs.first().and_then(|d| held::reading(&states, n, &one, d));
        Ok(Some(self.cut(i, cut.as_ref(), &outs, Home::Made)?.unwrap_or(Found::Refused)))
    }

    /// The launch of a node piece by piece, if an engine can do it.
    fn cut(
        &self,
        i: usize,
        cut: Option<&Cut<'_>>,
        outs: &[TensorDesc],
        home: Home,
    ) -> Result<Option<Found>, RuntimeError> {
        let Some(cut) = cut.filter(|_| outs.len() == 1) else { return Ok(None) };
        let Some(one) = self.piece(i, cut)? else { return Ok(None) };
        let Some((launch, pieces)) = pieces::find(self.tools, cut, one) else { return Ok(None) };
        let (launch, bound, pieces) = (Arc::new(launch), Arc::from([]), Some(Box::new(pieces)));
        let task = Task { launch, bound, pieces, copies: Vec::new(), outs: outs.into(), home };
        Ok(Some(Found::Launch(Box::new(task))))
    }

    /// The launch of one piece of a node; it is often the same as in the previous step.
    fn piece(&self, i: usize, cut: &Cut<'_>) -> Result<Option<Tiled>, RuntimeError> {
        let key = tiling::key_of_piece(cut);
        if let Some(t) = key.as_ref().and_then(|k| self.tilings.of(self.graph, i as u32, k)) {
            return Ok(Some(t));
        }
        let Some(launch) = pieces::ask(self.tools, cut, self.engine(i))? else { return Ok(None) };
        let tiled = Tiled::new(Arc::new([]), Arc::new(launch));
        if let Some(key) = key {
            self.tilings.found(self.graph, i as u32, key, &tiled, false);
        }
        Ok(Some(tiled))
    }

    /// The value whose memory a node's output takes over because the node replaces only some
    /// elements of it. The value must exist before the round and have no reader after the node. The
    /// node reads the value itself, or what another such node has made of it. Other holders of the
    /// same memory are known only when the round runs; the nodes then work on a copy.
    fn writes_over(&self, i: usize) -> Option<u32> {
        let n = &self.graph.nodes[i];
        let v = n.inputs.first().copied().flatten()?;
        let &[y] = n.outputs.as_slice() else { return None };
        let over = |r: u32| self.d.over.iter().find(|o| o.0 == r).map(|o| o.1);
        let root = match self.d.home[v as usize] {
            Home::Before => v,
            Home::InPlace(r) if over(r).is_some() => r,
            _ => return None,
        };
        // Nobody has overwritten it before, or the node reads the latest result. In a plan made
        // from another one, the node itself may have done so.
        let is_next = over(root).map_or(v == root, |last| last == v);
        let fits = self.basis.owns && n.flags & flags::REPLACES != 0;
        let fits = fits && (is_next || self.d.home[y as usize] == Home::InPlace(root));
        let once = n.inputs.iter().filter(|o| **o == Some(v)).count() == 1;
        let free = |v: u32| !self.graph.outputs.contains(&v) && !self.graph.wanted[v as usize];
        if !fits || !once || !free(v) || self.graph.wanted[y as usize] || self.graph.streams.iter().any(|s| *s != 0) {
            return None;
        }
        let before = |r: &u32| (*r as usize) < i && (self.planned[*r as usize] || self.d.done.contains(r));
        let others = self.graph.readers[v as usize].iter().filter(|r| **r as usize != i);
        let seen = self.d.home.contains(&Home::ViewOf(v));
        let bytes = self.d.desc(self.graph, v).and_then(TensorDesc::data_bytes);
        (others.clone().all(before) && !seen && bytes.is_some_and(|b| b > 0)).then_some(root)
    }

    /// Whether a node permutes only axes of size 1, so that no element moves.
    fn moves_nothing(&self, n: &Node) -> bool {
        let perm = n.attrs.ints("perm").filter(|_| n.op.as_str() == "TransposeD");
        let dims = n.inputs.first().copied().flatten().and_then(|v| self.d.desc(self.graph, v)?.shape.sizes());
        let Some((perm, dims)) = perm.zip(dims) else { return false };
        let size = |axis: &usize| dims.get(*axis).is_some_and(|d| *d != 1);
        let axes = perm.iter().filter_map(|p| usize::try_from(*p).ok()).filter(size);
        perm.len() == dims.len() && axes.is_sorted()
    }

    /// Whether a node is a copy for a single reader that overwrites it and makes its own copy
    /// anyway.
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

    /// The launch of a whole node.
    pub(crate) fn launched(&self, n: &Node, tiled: Tiled, over: Option<u32>) -> Result<Found, RuntimeError> {
        let mut copies = Vec::with_capacity(n.written.len());
        for k in &n.written {
            let Some(copy) = self.copy_of(n, *k)? else {
                if self.tools.host(n.op.as_str()).is_none() {
                    return Err(nobody(n, &["no engine copies what it writes over".to_owned()]));
                }
                return Ok(Found::Host);
            };
            copies.push((*k, Arc::new(copy)));
        }
        let Tiled { outs, launch, bound } = tiled;
        let home = over.map_or(Home::Made, Home::InPlace);
        Ok(Found::Launch(Box::new(Task { launch, bound, pieces: None, copies, outs, home })))
    }

    /// The launch that copies an input of a node; `None` if no engine does it with a single task
    /// and no workspace.
    fn copy_of(&self, n: &Node, k: usize) -> Result<Option<Launch>, RuntimeError> {
        let given = self.given(n, false).into_iter().skip(k).take(1).map(|g| g.map(|(v, d, _)| (v, d, None)));
        let given: Vec<Option<(u32, TensorDesc, Option<ConstTensor>)>> = given.collect();
        let out = given.iter().flatten().map(|g| g.1.clone()).collect();
        let one = OneNode::new(&n.name, (Key::new("Identity"), 0), &[], &given, out);
        let view = one.graph();
        let found = launch::find(self.tools, &one.node(&view), "", &[true])?;
        Ok(found.ok().filter(|l| l.workspaces.is_empty() && l.tasks.len() == 1))
    }

    /// Whether a launch of this round computes a value.
    fn is_made(&self, v: u32) -> bool {
        match self.d.home[v as usize] {
            Home::Made | Home::InPlace(_) => true,
            Home::ViewOf(root) => matches!(self.d.home[root as usize], Home::Made | Home::InPlace(_)),
            _ => false,
        }
    }
    /// A node as plugins see it now; with `veils`, without the contents of its large constants.
    pub(crate) fn one<'n>(&self, n: &'n Node, attrs: &'n [Attr], veils: bool) -> OneNode<'n> {
        OneNode::new(&n.name, (n.op, n.flags), attrs, &self.given(n, veils), opened(n))
    }
    /// The inputs of a node: value, descriptor and known contents.
    fn given(&self, n: &Node, veils: bool) -> Vec<Option<(u32, TensorDesc, Option<ConstTensor>)>> {
        let input = |v: &Option<u32>| {
            let v = (*v)?;
            let desc = self.d.desc(self.graph, v).cloned().unwrap_or_default();
            let known = self.d.known(self.graph, v).filter(|_| !(veils && tiling::is_large(self.graph, v)));
            Some((v, desc, known.cloned()))
        };
        n.inputs.iter().map(input).collect()
    }
    fn node<'n>(&self, n: &'n Node, inputs: &Given) -> OneNode<'n> {
        OneNode::new(&n.name, (n.op, n.flags), n.attrs.as_slice(), inputs, opened(n))
    }
    fn infer(&self, n: &Node, one: &OneNode<'_>) -> Result<Vec<TensorDesc>, RuntimeError> {
        infer(self.tools, n, one)
    }

    /// The result of an operator that reads only sizes.
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

    /// Computes a node while planning if its results are small and all its inputs are known.
    pub(crate) fn fold(&self, n: &Node, outs: &[TensorDesc]) -> Result<Option<Vec<ConstTensor>>, RuntimeError> {
        let bytes: u64 = outs.iter().map(|d| d.data_bytes().unwrap_or(u64::MAX)).fold(0, u64::saturating_add);
        let empty = |d: &TensorDesc| ConstTensor::new(d.dtype, &d.shape.sizes()?, Blob::empty());
        if bytes == 0 && (n.flags & flags::STATEFUL == 0 || n.flags & flags::REFERENCE != 0) {
            return Ok(outs.iter().map(empty).collect());
        }
        let known = n.inputs.iter().flatten().all(|v| self.d.known(self.graph, *v).is_some());
        let fixed = n.flags & (flags::RANDOM | flags::STATEFUL | flags::COMMUNICATION) == 0;
        // Floating-point results are left to the kernels that compute them in a static model,
        // unless they determine shapes.
        let wanted = n.outputs.iter().any(|v| self.graph.wanted[*v as usize]);
        let whole = outs.iter().all(|d| d.dtype.is_int() || d.dtype == DType::BOOL);
        let plain = !self.graph.reads_packed(n);
        if !known || !plain || !fixed || bytes > FOLD_BYTES || !(wanted || whole) {
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
