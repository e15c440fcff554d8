//! Replaces a call node by the nodes of the subgraph that it calls.
use super::Rewriter;
use ge_ir::{Graph, Node, NodeId, ValueRef};
use ge_model::effects;
use ge_plugin_api::patch::Edit;
use std::collections::HashMap;

/// Copies the nodes of `sub`, whose inputs are `args`, next to `call`, and redirects the readers of
/// `call` to the values that the subgraph returns. `call` is removed, so no node refers to its
/// subgraphs any more. The copies keep the names of the nodes; the order set by the call's control
/// edges is kept.
///
/// # Errors
/// Returns the reason as text; no edit is recorded in that case.
pub fn inline(r: &mut Rewriter<'_>, call: &Node, sub: &Graph, args: &[ValueRef]) -> Result<(), String> {
    let out = sub.net_output().ok_or("the subgraph has no outputs")?;
    if out.inputs().len() != call.outputs().len() {
        return Err(format!("the subgraph gives {} values, not {}", out.inputs().len(), call.outputs().len()));
    }
    for (k, d) in call.outputs().iter().enumerate() {
        let given = sub.input_desc(out, k).ok_or("the subgraph leaves an output out")?;
        if given.dtype != d.dtype && d.dtype != ge_ir::DType::UNKNOWN {
            return Err(format!("output {k} is {} outside and {} inside", d.dtype, given.dtype));
        }
    }
    if !out.controls().is_empty() {
        return Err("control edges end at the subgraph's output".into());
    }
    let values = copy(r, sub, args, Some(call))?;
    for (k, v) in out.inputs().iter().enumerate() {
        let to = values.get(v).copied().unwrap_or(ValueRef::ABSENT);
        r.patch.replace_uses(call.value(k as u32), to);
    }
    // Whatever waited for the call now waits for what the call waited for, even if no node of the
    // subgraph remains.
    for c in call.controls() {
        for u in call.control_users() {
            r.patch.push(Edit::AddControl(*c, *u));
        }
    }
    r.patch.remove(call.id());
    r.count();
    Ok(())
}

/// Copies the nodes of `sub`, whose inputs are `args`, into the graph. If `call` is given, the
/// copies are ordered after everything that `call` waits for and before everything that waits for
/// `call`. Returns a map from the values of `sub` to the new values. The copies take over the names
/// of the originals.
///
/// # Errors
/// Returns the reason as text; no edit is recorded in that case.
pub fn copy(
    r: &mut Rewriter<'_>,
    sub: &Graph,
    args: &[ValueRef],
    call: Option<&Node>,
) -> Result<HashMap<ValueRef, ValueRef>, String> {
    let (before, after) = call.map_or((&[][..], &[][..]), |c| (c.controls(), c.control_users()));
    let mut values: HashMap<ValueRef, ValueRef> = HashMap::new();
    for n in sub.nodes().filter(|n| n.op() == "Data") {
        let k = n.attrs().int("index").and_then(|i| usize::try_from(i).ok()).ok_or("an input has no index")?;
        let arg = args.get(k).filter(|v| !v.is_absent()).ok_or("an input of the subgraph is not given")?;
        if !n.controls().is_empty() || !n.control_users().is_empty() {
            return Err("control edges hang on an input of the subgraph".into());
        }
        values.insert(n.value(0), *arg);
    }
    // If the target graph has a variable of the same name, that variable is used instead of a copy.
    let mut nodes: HashMap<NodeId, NodeId> = HashMap::new();
    for n in sub.nodes().filter(|n| n.op() == "Variable") {
        if let Some(own) = r.graph().find(n.name()).filter(|v| v.op() == "Variable") {
            let descs = own.outputs().first().zip(n.outputs().first());
            if !descs.is_some_and(|(a, b)| (a.dtype, &a.shape) == (b.dtype, &b.shape)) {
                return Err(format!("variable `{}` has another type or shape in the subgraph", n.name()));
            }
            nodes.insert(n.id(), own.id());
            values.insert(n.value(0), own.value(0));
        }
    }
    let inner: Vec<&Node> =
        sub.nodes().filter(|n| !matches!(n.op(), "Data" | "NetOutput") && !nodes.contains_key(&n.id())).collect();
    // Rename the originals so that the copies can take their names.
    let host = r.graph().name().to_owned();
    r.patch.push(Edit::InGraph(sub.name().into()));
    for n in &inner {
        r.patch.push(Edit::SetName(n.id(), format!("{}/{}", sub.name(), n.name()).into()));
    }
    r.patch.push(Edit::InGraph(host.as_str().into()));
    for n in inner {
        let inputs: Vec<ValueRef> =
            n.inputs().iter().map(|v| values.get(v).copied().unwrap_or(ValueRef::ABSENT)).collect();
        let mut controls: Vec<NodeId> = n.controls().iter().filter_map(|c| nodes.get(c).copied()).collect();
        if !n.is_const() {
            controls.extend_from_slice(before);
        }
        let mut attrs = n.attrs().to_map();
        if let Some(call) = call {
            effects::go_into(&mut attrs, call.attrs());
        }
        let made = r.patch.add(n.op(), n.name(), &inputs, n.outputs().to_vec(), attrs);
        for c in controls {
            r.patch.push(Edit::AddControl(c, made));
        }
        if !n.is_const() {
            for u in after {
                r.patch.push(Edit::AddControl(made, *u));
            }
        }
        nodes.insert(n.id(), made);
        values.extend((0..n.outputs().len() as u32).map(|k| (n.value(k), ValueRef::new(made, k))));
    }
    Ok(values)
}
