//! `ForPass`: converts a `For` loop to a `While` loop with a counter.
//!
//! Before: `%y = For(%start, %limit, %delta, %x) {body = @b}`, `@b(i, x)`
//! After: `%i, %l, %y = While(%start, %limit, %x) {cond = @for_cond, body = @b}`, `@b(i, limit, x)`
//! gives `i + delta, limit, y`
//! When: step and limit are constants of one element, and the step is not 0; its sign says whether
//! the loop counts up or down.
//! Refuses: a step that is computed, or 0; a limit that is computed, or so great that the counter
//! would overflow its type (the device counts those in 64 bits); a body without outputs.
//! Keeps: the node's name, the names within the body.
//! Source: facts 4.3 (NormalizeGraph). Cost: the inputs of the body.
use crate::error::Result;
use crate::pass::declare::{At, node_pass};
use crate::pass::{PassContext, Rewriter};
use ge_ir::{AttrValue, ConstTensor, DType, Graph, NodeId, Shape, TensorDesc, ValueRef};
use ge_plugin_api::patch::Edit;
use ge_plugin_api::types::AttrMap;

node_pass!(
    ForPass,
    O0,
    ["For"],
    "`For(start, limit, delta, x) {body}` -> `While(start, limit, x) {cond, body}`",
    needs "a constant limit and a constant step that is not 0",
    keeps "the node's name, the names within the body",
    visit,
);

struct Match<'m> {
    body: &'m Graph,
    step: ConstTensor,
    down: bool,
    counter: TensorDesc,
    limit: TensorDesc,
}

fn matches<'m>(at: &At<'m>) -> Result<Match<'m>, &'static str> {
    let Some(AttrValue::Graph(name)) = at.n.attr("body") else { return Err("it names no body") };
    let body = at.model.graph(name).ok_or("its body is not there")?;
    body.net_output().ok_or("its body has no outputs")?;
    let step = at.n.input(2).and_then(|v| at.g.constant(v)).ok_or("its step is computed")?;
    let value = step.to_i64(1).and_then(|v| v.first().copied()).ok_or("its step is no whole number")?;
    if value == 0 {
        return Err("its step is 0");
    }
    let counter = at.input_desc(0).cloned().ok_or("it has no start")?;
    let limit = at.input_desc(1).cloned().ok_or("it has no limit")?;
    // The counter passes the limit by less than one step; both numbers must fit its type.
    let end = at.n.input(1).and_then(|v| at.g.constant(v)).and_then(|t| t.to_i64(1)).and_then(|v| v.first().copied());
    let end = end.ok_or("its limit is computed: the device counts it in 64 bits")?;
    let most = if counter.dtype == DType::I32 { i64::from(i32::MAX) } else { i64::MAX };
    if end.checked_add(value).is_none_or(|past| past > most || past < -most) {
        return Err("its counter would leave its type");
    }
    Ok(Match { body, step: step.clone(), down: value < 0, counter, limit })
}

fn data(r: &mut Rewriter<'_>, name: &str, index: i64, desc: &TensorDesc) -> ValueRef {
    let mut attrs = AttrMap::default();
    attrs.set("index", index);
    ValueRef::new(r.patch.add("Data", name, &[], vec![desc.clone()], attrs), 0)
}

fn visit(cx: &mut PassContext<'_>, at: &At<'_>, r: &mut Rewriter<'_>) -> Result<()> {
    let (n, g) = (at.n, at.g);
    let m = match matches(at) {
        Ok(m) => m,
        Err(why) => {
            cx.refuse(n.name(), why);
            return Ok(());
        }
    };
    let name = n.name().to_owned();
    let cond_name = format!("{name}_cond");
    if at.model.graph(&cond_name).is_some() {
        cx.refuse(n.name(), format!("there is a graph `{cond_name}` already"));
        return Ok(());
    }
    // Insert the loop next to the old node.
    let mut inputs = vec![n.inputs()[0], n.inputs()[1]];
    inputs.extend_from_slice(n.inputs().get(3..).unwrap_or(&[]));
    let carried: Vec<TensorDesc> =
        inputs.iter().map(|v| g.desc(*v).cloned().unwrap_or_else(TensorDesc::unknown)).collect();
    let mut outputs = vec![m.counter.clone(), m.limit.clone()];
    outputs.extend_from_slice(n.outputs());
    let mut attrs = n.attrs().to_map();
    attrs.set("cond", AttrValue::Graph(cond_name.as_str().into()));
    r.patch.push(Edit::SetName(n.id(), format!("{name}__for").into()));
    let w = r.patch.add("While", &name, &inputs, outputs, attrs);
    for c in n.controls() {
        r.patch.push(Edit::AddControl(*c, w));
    }
    for u in n.control_users() {
        r.patch.push(Edit::AddControl(w, *u));
    }
    for k in 0..n.outputs().len() as u32 {
        r.patch.replace_uses(n.value(k), ValueRef::new(w, k + 2));
    }
    r.remove(n.id());
    body(r, &m, &name);
    cond(r, &m, &cond_name, &carried);
    r.patch.push(Edit::InGraph(g.name().into()));
    Ok(())
}

/// Makes the body take and return the limit as well, and increment the counter.
fn body(r: &mut Rewriter<'_>, m: &Match<'_>, name: &str) {
    r.patch.in_graph(m.body.name(), m.body.next_id());
    let mut counter = None;
    for d in m.body.data_nodes() {
        match d.attrs().int("index").unwrap_or(0) {
            0 => counter = Some(d.value(0)),
            k => r.patch.set_attr(d.id(), "index", k + 1),
        }
    }
    let counter = match counter {
        Some(c) => c,
        None => data(r, &format!("{name}_i"), 0, &m.counter),
    };
    let limit = data(r, &format!("{name}_limit"), 1, &m.limit);
    let step = r.patch.constant(&format!("{name}_step"), m.step.clone());
    let next =
        r.patch.add("Add", &format!("{name}_next"), &[counter, step], vec![m.counter.clone()], AttrMap::default());
    let mut outs = vec![ValueRef::new(next, 0), limit];
    outs.extend(m.body.net_output().map(|o| o.inputs().to_vec()).unwrap_or_default());
    if let Some(o) = m.body.net_output() {
        r.patch.push(Edit::SetInputs(o.id(), outs.into()));
    }
}

/// Builds the condition graph: whether the counter has not reached the limit yet.
fn cond(r: &mut Rewriter<'_>, m: &Match<'_>, name: &str, carried: &[TensorDesc]) {
    r.patch.in_graph(name, NodeId(0));
    let ins: Vec<ValueRef> =
        carried.iter().enumerate().map(|(k, d)| data(r, &format!("{name}_{k}"), k as i64, d)).collect();
    let op = if m.down { "Greater" } else { "Less" };
    let out = TensorDesc::new(DType::BOOL, Shape::scalar());
    let inputs: Vec<ValueRef> = ins.into_iter().take(2).collect();
    let c = r.patch.add(op, &format!("{name}_goes_on"), &inputs, vec![out], AttrMap::default());
    r.patch.add("NetOutput", &format!("{name}/NetOutput"), &[ValueRef::new(c, 0)], Vec::new(), AttrMap::default());
}
