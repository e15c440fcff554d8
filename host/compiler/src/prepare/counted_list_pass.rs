//! `CountedListPass`: a loop with a known number of iterations writes what it collects in a
//! sequence into one tensor instead.
//!
//! Before: `%l = SequenceEmpty()  %i, %n, %s = While(0, 4, %l) {cond = @less, body = @b}  %y =
//! ConcatFromSequence(%s) {new_axis = 1}`, where `@b` gives `SequenceInsert(%l, %v : f32[3])`
//! After: `%i, %n, %y = While(0, 4, Fill([4,3], 0)) {cond = @less, body = @b}`, where `@b` gives
//! `TensorScatterUpdate(%l, [%i], %v)`
//! When: the loop counts from 0 by 1 up to a constant, nothing else ends it, and the body adds one
//! tensor of known type and shape to the sequence in each iteration, at its end or at its front. A
//! scan of known length is such a loop, also in each gear.
//! Refuses: a number of iterations that is computed or zero; a condition computed by the body;
//! sequences that are read otherwise; tensors of unknown size, strings.
//! Keeps: the loop, the position of the value among its values, everything else that it carries.
//! Source: ours; facts 8.7 (gears are static). Cost: the nodes of the loop's graphs.
use crate::error::Result;
use crate::pass::declare::{At, node_pass};
use crate::pass::subgraph::{called, original};
use crate::pass::{PassContext, Rewriter};
use ge_ir::{ConstTensor, DType, Graph, Node, Shape, TensorDesc, ValueRef};
use ge_plugin_api::patch::Edit;
use ge_plugin_api::types::AttrMap;
use ge_plugin_api::types::tensor::Container;

node_pass!(
    CountedListPass,
    O0,
    ["While", "StatelessWhile"],
    "`While` over a sequence that each turn adds a tensor to, `ConcatFromSequence` -> `While` over the tensor of all of them",
    needs "a known number of turns, one tensor of known shape in each",
    keeps "the loop and what else it carries",
    visit,
);

/// A sequence that a loop carries.
struct List<'m> {
    /// Its index among the values of the loop.
    place: usize,
    /// The node of the body that adds to it.
    insert: &'m Node,
    /// The value that each iteration adds.
    slice: ValueRef,
    /// Whether it is added at the front.
    front: bool,
    /// Descriptor of the tensor of all iterations.
    desc: TensorDesc,
    /// The sizes of this tensor.
    sizes: ConstTensor,
    /// An element of this tensor before it is written.
    zero: ConstTensor,
    /// Readers after the loop that join the sequence.
    joins: Vec<&'m Node>,
}

struct Match<'m> {
    cond: &'m Graph,
    body: &'m Graph,
    /// The body's counter.
    counter: ValueRef,
    /// Value of the counter in the last iteration.
    last: ConstTensor,
    lists: Vec<List<'m>>,
}

fn visit(cx: &mut PassContext<'_>, at: &At<'_>, r: &mut Rewriter<'_>) -> Result<()> {
    let places = sequences(at);
    if places.is_empty() {
        return Ok(());
    }
    match matches(at, &places) {
        Ok(m) => rewrite(at, r, &m),
        Err(why) => cx.refuse(at.n.name(), why),
    }
    Ok(())
}

/// Indices of the values that the loop carries as sequences.
fn sequences(at: &At<'_>) -> Vec<usize> {
    let is = |k: &usize| at.input_desc(*k).is_some_and(|d| d.container == Container::SEQ);
    (0..at.n.inputs().len()).filter(is).collect()
}

fn matches<'m>(at: &At<'m>, places: &[usize]) -> Result<Match<'m>, &'static str> {
    let (cond, body) = (called(at, "cond")?, called(at, "body")?);
    let ends = body.net_output().ok_or("its body has no outputs")?;
    let (place, turns) = count(at, cond, body)?;
    let counter = data(body, place).ok_or("its body does not take its counter")?.value(0);
    let list = |place: &usize| list(at, (cond, body, ends), *place, turns);
    let lists = places.iter().map(list).collect::<Result<Vec<_>, _>>()?;
    let last = match body.desc(counter).map(|d| d.dtype) {
        Some(DType::I32) => i32::try_from(turns - 1).ok().and_then(|k| ConstTensor::of(&[1], &[k])),
        _ => i64::try_from(turns - 1).ok().and_then(|k| ConstTensor::of(&[1], &[k])),
    };
    Ok(Match { cond, body, counter, last: last.ok_or("its turns are too many")?, lists })
}

/// The input of a graph with index `place`.
fn data(g: &Graph, place: usize) -> Option<&Node> {
    let own = |d: &&Node| d.attrs().int("index").and_then(|i| usize::try_from(i).ok()) == Some(place);
    g.data_nodes().into_iter().find(own)
}

/// The index of the graph input that a value is or copies; `None` if it is no input.
fn place_of(g: &Graph, v: ValueRef) -> Option<usize> {
    let n = g.get(original(g, v).node).filter(|n| n.op() == "Data")?;
    usize::try_from(n.attrs().int("index")?).ok()
}

fn number(g: &Graph, v: Option<ValueRef>) -> Option<i64> {
    g.constant(original(g, v?))?.to_i64(1)?.first().copied()
}

/// The index of the loop's counter and the number of iterations.
fn count(at: &At<'_>, cond: &Graph, body: &Graph) -> Result<(usize, u64), &'static str> {
    let test = cond.net_output().and_then(|o| o.input(0)).ok_or("its condition has no output")?;
    let other = "its condition does not compare a counter with its limit";
    let mut pending = vec![test];
    let mut counted = None;
    while let Some(v) = pending.pop() {
        let v = original(cond, v);
        let Some(n) = cond.get(v.node) else { return Err(other) };
        match n.op() {
            "LogicalAnd" => pending.extend_from_slice(n.inputs()),
            "Less" if counted.is_none() => counted = Some(n),
            _ if number(cond, Some(v)) == Some(1) => {}
            _ => stays_true(at, body, place_of(cond, v).ok_or(other)?)?,
        }
    }
    let less = counted.ok_or(other)?;
    let counter = less.input(0).and_then(|v| place_of(cond, v)).ok_or(other)?;
    let limit = match number(cond, less.input(1)) {
        Some(limit) => limit,
        None => {
            let place = less.input(1).and_then(|v| place_of(cond, v)).ok_or(other)?;
            if given_back(body, place).and_then(|v| place_of(body, v)) != Some(place) {
                return Err("its limit changes from turn to turn");
            }
            number(at.g, at.n.input(place)).ok_or("the number of its turns is computed")?
        }
    };
    if number(at.g, at.n.input(counter)) != Some(0) {
        return Err("its counter does not begin at 0");
    }
    if !steps_by_one(body, counter) {
        return Err("its counter does not go on by 1");
    }
    // The result of a loop without iterations has the shape that the model declares, not that of
    // the body.
    let turns = u64::try_from(limit).ok().filter(|t| *t > 0).ok_or("it makes no turn")?;
    Ok((counter, turns))
}

/// The value that a body gives for the next iteration at index `place`.
fn given_back(body: &Graph, place: usize) -> Option<ValueRef> {
    body.net_output()?.input(place)
}

/// Fails unless a flag of the condition is true when the loop begins and after each iteration.
fn stays_true(at: &At<'_>, body: &Graph, place: usize) -> Result<(), &'static str> {
    if number(at.g, at.n.input(place)) != Some(1) {
        return Err("its condition is computed ahead of it");
    }
    let next = given_back(body, place);
    let same = next.and_then(|v| place_of(body, v)) == Some(place);
    if same || number(body, next) == Some(1) { Ok(()) } else { Err("its body may end it before its limit") }
}

fn steps_by_one(body: &Graph, counter: usize) -> bool {
    let next = given_back(body, counter).map(|v| original(body, v));
    let Some(add) = next.and_then(|v| body.get(v.node)).filter(|n| n.op() == "Add") else { return false };
    let is = |a: usize, b: usize| {
        add.input(a).and_then(|v| place_of(body, v)) == Some(counter) && number(body, add.input(b)) == Some(1)
    };
    is(0, 1) || is(1, 0)
}

fn list<'m>(
    at: &At<'m>,
    (cond, body, ends): (&'m Graph, &'m Graph, &'m Node),
    place: usize,
    turns: u64,
) -> Result<List<'m>, &'static str> {
    if at.producer(place).is_none_or(|n| n.op() != "SequenceEmpty") {
        return Err("a sequence that it carries does not begin empty");
    }
    let insert = given_back(body, place).and_then(|v| body.get(v.node)).filter(|n| n.op() == "SequenceInsert");
    let insert = insert.ok_or("a sequence that it carries is not one that each turn adds a tensor to")?;
    let carried = data(body, place).filter(|d| insert.input(0) == Some(d.value(0)));
    let alone = |n: &Node| n.uses(0).len() == 1 && n.control_users().is_empty();
    let in_cond = data(cond, place).is_some_and(|d| !d.is_dead_end());
    if in_cond || !alone(insert) || !carried.is_some_and(alone) || insert.uses(0)[0].node != ends.id() {
        return Err("a sequence that it carries is read within it");
    }
    let position = insert.input(2).filter(|v| !v.is_absent());
    let front = position.is_some();
    if front && number(body, position) != Some(0) {
        return Err("a tensor is added in the midst of a sequence");
    }
    let slice = insert.input(1).ok_or("nothing is added to a sequence")?;
    let one = body.desc(slice).filter(|d| d.container == Container::TENSOR && d.is_static());
    let one = one.ok_or("what is added to a sequence has no known type and shape")?;
    let sizes = one.shape.sizes().ok_or("what is added to a sequence has no known shape")?;
    let dims: Vec<u64> = std::iter::once(turns).chain(sizes.iter().copied()).collect();
    let desc = TensorDesc::new(one.dtype, Shape::of(&dims));
    let sizes: Option<Vec<i64>> = dims.iter().map(|n| i64::try_from(*n).ok()).collect();
    let sizes = sizes.and_then(|s| ConstTensor::of(&[s.len() as u64], &s)).ok_or("its turns are too many")?;
    let element = one.dtype.bytes_of(1).and_then(|n| ConstTensor::splat(one.dtype, &[], &vec![0; n as usize]));
    let zero = element.ok_or("what is added to a sequence has no elements of known bytes")?;
    let joins: Option<Vec<&Node>> = at.n.uses(place).iter().map(|u| at.g.get(u.node).filter(|n| is_join(n))).collect();
    let joins = joins.ok_or("a sequence that it gives is not joined along a new axis")?;
    Ok(List { place, insert, slice, front, desc, sizes, zero, joins })
}

fn is_join(n: &Node) -> bool {
    n.op() == "ConcatFromSequence" && n.attrs().int("new_axis") == Some(1)
}

fn rewrite(at: &At<'_>, r: &mut Rewriter<'_>, m: &Match<'_>) {
    let name = at.n.name();
    for l in &m.lists {
        let own = |what: &str| format!("{name}/list{}/{what}", l.place);
        let dims = r.patch.constant(&own("sizes"), l.sizes.clone());
        let zero = r.patch.constant(&own("zero"), l.zero.clone());
        let start = r.patch.add("Fill", &own("start"), &[dims, zero], vec![l.desc.clone()], AttrMap::default());
        r.patch.set_input(at.n.id(), l.place as u32, ValueRef::new(start, 0));
        r.patch.set_output(at.n.id(), l.place as u32, l.desc.clone());
        for join in &l.joins {
            joined(r, join, at.n.value(l.place as u32), &l.desc);
        }
    }
    body(r, m, name);
    r.patch.in_graph(m.cond.name(), m.cond.next_id());
    for l in &m.lists {
        if let Some(d) = data(m.cond, l.place) {
            r.patch.set_output(d.id(), 0, l.desc.clone());
        }
    }
    r.patch.push(Edit::InGraph(at.g.name().into()));
    r.count();
}

/// Redirects the readers of a joined sequence to the tensor, transposed if the join is not along
/// axis 0.
fn joined(r: &mut Rewriter<'_>, join: &Node, all: ValueRef, desc: &TensorDesc) {
    let rank = desc.shape.dims().len() as i64;
    let axis = join.attrs().int("axis").unwrap_or(0);
    let axis = if axis < 0 { axis + rank } else { axis };
    if axis == 0 {
        r.bypass(join, all);
        return;
    }
    let mut perm: Vec<i64> = (1..rank).collect();
    perm.insert((axis.max(0) as usize).min(perm.len()), 0);
    let dims = perm.iter().filter_map(|k| desc.shape.dims().get(*k as usize).copied());
    let out = TensorDesc::new(desc.dtype, Shape::new(dims.collect::<Vec<_>>()));
    r.patch.set_op(join.id(), "TransposeD");
    r.patch.push(Edit::SetInputs(join.id(), vec![all].into()));
    for a in join.attrs().iter() {
        r.patch.push(Edit::RemoveAttr(join.id(), a.key));
    }
    r.patch.set_attr(join.id(), "perm", perm);
    r.patch.set_output(join.id(), 0, out);
}

/// Makes each iteration write the value that it adds to its own place in the tensor.
fn body(r: &mut Rewriter<'_>, m: &Match<'_>, name: &str) {
    r.patch.in_graph(m.body.name(), m.body.next_id());
    let desc = vec![TensorDesc::new(m.last.dtype, Shape::of(&[1]))];
    let mut shape = AttrMap::default();
    shape.set("shape", vec![1i64]);
    let turn = r.patch.add("Reshape", &format!("{name}/turn"), &[m.counter], desc, shape);
    let turn = ValueRef::new(turn, 0);
    let mut back = None;
    for l in &m.lists {
        let index = if l.front { *back.get_or_insert_with(|| from_the_end(r, m, name, turn)) } else { turn };
        if let Some(d) = data(m.body, l.place) {
            r.patch.set_output(d.id(), 0, l.desc.clone());
        }
        let Some(list) = l.insert.input(0) else { continue };
        r.patch.set_op(l.insert.id(), "TensorScatterUpdate");
        r.patch.push(Edit::SetInputs(l.insert.id(), vec![list, index, l.slice].into()));
        r.patch.set_output(l.insert.id(), 0, l.desc.clone());
    }
}

/// The index of an iteration counted from the last one, in the body.
fn from_the_end(r: &mut Rewriter<'_>, m: &Match<'_>, name: &str, turn: ValueRef) -> ValueRef {
    let last = r.patch.constant(&format!("{name}/last"), m.last.clone());
    let desc = TensorDesc::new(m.last.dtype, Shape::of(&[1]));
    ValueRef::new(r.patch.add("Sub", &format!("{name}/back"), &[last, turn], vec![desc], AttrMap::default()), 0)
}
