//! `AssignAttachedStreamPass`: assigns attached streams, with ids after those of the main streams.
//! Nodes of one main stream with the same key share an attached stream; with force reuse, nodes of
//! any main stream do. Sharing stops at the borders of control flow regions, because the streams of
//! a region are woken when it begins and joined before it ends. Source: 004 §4.1.2, 002, facts 1.7.
//!
//! Two forms are read: `_attached_stream_info_list` (a list of dictionaries with
//! `_attached_resource_name`, `_attached_resource_reuse_key`, `_attached_resource_required_flag`,
//! `_attached_resource_force_reuse`) and `_attached_stream_info` (one dictionary, policy "group").
use crate::error::{CompileError, Result};
use crate::ids::{NodeKey, StreamId};
use crate::streams::flow::Flow;
use crate::streams::{LogicalStream, StreamPlan};
use ge_ir::{AttrValue, Model, Node};
use ge_plugin_api::diagnostic::Diagnostic;
use std::collections::HashMap;

/// A request of one node for an attached stream.
struct Wish {
    key: String,
    force: bool,
}

/// Assigns attached streams of all graphs. `flow` is the control flow by labels, if there is any.
///
/// # Errors
/// Fails if the attributes cannot be read, if a node asks for more than one attached stream, or if
/// it is on no main stream.
pub fn assign(model: &Model, plan: &mut StreamPlan, flow: Option<&Flow>) -> Result<()> {
    let mut of: HashMap<(usize, String), StreamId> = HashMap::new();
    let mut failures = Vec::new();
    for (gi, g) in model.graphs().iter().enumerate() {
        for n in g.nodes() {
            let key = NodeKey::new(gi, n.id());
            let wishes = match wishes(n) {
                Ok(w) => w,
                Err(d) => {
                    failures.push(d);
                    continue;
                }
            };
            if wishes.len() > 1 {
                failures.push(
                    Diagnostic::error(format!(
                        "`{}` asks for {} attached streams, a node has at most one",
                        n.name(),
                        wishes.len()
                    ))
                    .code(ge_codes::ATTACHED_TWICE)
                    .node(n.name(), n.op())
                    .help("split the node's work over several nodes"),
                );
                continue;
            }
            for w in wishes {
                let Some(main) = plan.of[key] else {
                    failures.push(
                        Diagnostic::error(format!(
                            "`{}` asks for an attached stream but stands on no stream itself",
                            n.name()
                        ))
                        .code(ge_codes::NO_MAIN_STREAM)
                        .node(n.name(), n.op()),
                    );
                    continue;
                };
                let name = if w.force { w.key.clone() } else { format!("{}_stream_{}", w.key, main.0) };
                let id = (flow.map_or(0, |f| f.region(key)), name);
                let s = match of.get(&id) {
                    Some(s) => *s,
                    None => {
                        let s = StreamId(plan.streams.len() as u32);
                        plan.streams.push(LogicalStream { attached: true, ..LogicalStream::default() });
                        of.insert(id, s);
                        s
                    }
                };
                plan.attached[key].push(s);
            }
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(CompileError::Model { code: ge_codes::ATTACHED_FORM, all: failures }) }
}

/// Positions of the inputs whose values a node's attached work reads. `None` if they are not
/// specified; the work may then read any input.
pub fn value_inputs(n: &Node) -> Option<Vec<usize>> {
    let AttrValue::List(list) = n.attr("_attached_stream_info_list")? else { return None };
    let required =
        |d: &&AttrValue| field(d, "_attached_resource_required_flag").and_then(AttrValue::as_bool).unwrap_or(false);
    let mut out = Vec::new();
    for d in list.iter().filter(required) {
        let said = field(d, "_attached_resource_depend_value_list_int")?.as_ints()?;
        out.extend(said.iter().filter_map(|i| usize::try_from(*i).ok()));
    }
    Some(out)
}

/// Whether a node's own tasks make its own stream wait for its attached work before anything else.
/// This is so if its engine asks for an event or notify with the name of the attached stream (001
/// §4.3). What follows the node then also follows its attached work.
pub fn waits_itself(n: &Node) -> bool {
    let named = |attr: &str| match n.attr(attr) {
        Some(AttrValue::List(list)) => {
            let name =
                |d: &AttrValue| field(d, "_attached_resource_name").and_then(AttrValue::as_str).map(str::to_owned);
            let given =
                |d: &&AttrValue| field(d, "_attached_resource_required_flag").is_none_or(|v| v.as_bool() == Some(true));
            list.iter().filter(given).filter_map(name).collect::<Vec<_>>()
        }
        _ => Vec::new(),
    };
    let streams = named("_attached_stream_info_list");
    let signals = named("_attached_sync_res_info_list");
    !streams.is_empty() && streams.iter().all(|s| signals.contains(s))
}

fn field<'a>(d: &'a AttrValue, name: &str) -> Option<&'a AttrValue> {
    d.as_dict()?.iter().find(|e| e.key.as_str() == name).map(|e| &e.value)
}

fn wishes(n: &Node) -> std::result::Result<Vec<Wish>, Diagnostic> {
    if n.attrs().flag("_disable_attached_resource") {
        return Ok(Vec::new());
    }
    let bad = |what: &str| {
        Diagnostic::error(format!("`{}` has an attached-stream attribute that cannot be read: {what}", n.name()))
            .code(ge_codes::ATTACHED_FORM)
            .node(n.name(), n.op())
    };
    let mut out = Vec::new();
    match n.attr("_attached_stream_info_list") {
        Some(AttrValue::List(list)) => {
            for d in list.iter() {
                let name = field(d, "_attached_resource_name").and_then(AttrValue::as_str).filter(|s| !s.is_empty());
                let name = name.ok_or_else(|| bad("an entry without _attached_resource_name"))?;
                let required =
                    field(d, "_attached_resource_required_flag").and_then(AttrValue::as_bool).unwrap_or(false);
                if !required {
                    continue;
                }
                let reuse = field(d, "_attached_resource_reuse_key").and_then(AttrValue::as_str).unwrap_or("");
                let force = field(d, "_attached_resource_force_reuse").and_then(AttrValue::as_bool).unwrap_or(false);
                out.push(Wish { key: format!("{name}{reuse}"), force });
            }
        }
        Some(v) if !matches!(v, AttrValue::Ints(l) if l.is_empty()) => {
            return Err(bad("it is not a list of dictionaries"));
        }
        _ => {}
    }
    if let (true, Some(d)) = (out.is_empty(), n.attr("_attached_stream_info")) {
        let entries = d.as_dict().ok_or_else(|| bad("it is not a dictionary"))?;
        if !entries.is_empty() {
            let policy = field(d, "_attached_stream_policy")
                .or_else(|| field(d, "policy"))
                .and_then(AttrValue::as_str)
                .unwrap_or("group");
            if policy != "group" {
                return Err(bad("its policy is not \"group\""));
            }
            let key =
                field(d, "_attached_stream_key").or_else(|| field(d, "key")).and_then(AttrValue::as_str).unwrap_or("");
            out.push(Wish { key: format!("group{key}"), force: false });
        }
    }
    Ok(out)
}
