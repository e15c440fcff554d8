//! `ge inspect OM --what exec`: what the executor decides about a model of unknown shapes, as text
//! and as JSON.
use crate::commands::flags::Global;
use crate::session::{Session, SessionOptions};
use crate::{Error, Result};
use ge_model::CompiledModel;
use ge_runtime::v2::describe::{Exec, Step};
use serde_json::{Value, json};

/// Determines it with the plugins that the model was compiled with.
///
/// # Errors
/// Fails if all sizes of the model are known: its tasks are then its plan.
pub fn of(global: &Global, m: &CompiledModel) -> Result<Exec> {
    // Of a model with gears, describe the part that runs sizes outside the gears.
    let outside = m.outside().and_then(|_| m.clone().take_outside());
    let m = outside.as_ref().unwrap_or(m);
    if !m.is_dynamic() {
        let text = "every size of this model is known: it is launched as a whole, as `--what tasks` shows";
        return Err(Error::usage(text));
    }
    let options = SessionOptions {
        plugins: global.plugins.clone(),
        soc: Some(m.soc.name.to_string()),
        ..SessionOptions::default()
    };
    Session::new(options)?.exec_of(m)
}

/// Formats it as text.
pub fn text(e: &Exec) -> String {
    let mut out = format!("executor: {} ({})\n", e.executor.name(), e.because);
    out.push_str(&format!("init: {} constants, {} bytes of weights\n", e.init.constants, e.init.weights));
    for (name, tasks) in &e.init.parts {
        out.push_str(&format!("  seals {name}: {tasks} tasks\n"));
    }
    for v in &e.init.variables {
        let kept = v.kept.as_ref().map_or_else(|| "runs read it".to_owned(), |k| format!("a run keeps `{k}` in it"));
        out.push_str(&format!("variable {}: {}, {kept}\n", v.name, v.desc));
    }
    for s in &e.symbols {
        let range = s.range.map_or_else(|| "any size".to_owned(), |(low, high)| format!("{low} to {high}"));
        out.push_str(&format!("symbol {}: {} in {}\n", s.name, range, s.places.join(", ")));
    }
    for g in &e.guards {
        out.push_str(&format!("guard: {g}\n"));
    }
    let several = e.streams.len() > 1;
    if several {
        out.push_str(&format!(
            "streams: {}, by engine and stream label; events order what depends on another stream\n",
            e.streams.len()
        ));
        for (k, who) in e.streams.iter().enumerate() {
            out.push_str(&format!("  stream {k}: {}\n", who.join(", ")));
        }
    }
    for g in &e.main {
        let listed = |what: &str, names: &[String]| match names {
            [] => String::new(),
            _ => format!(", and the {what} of {}", names.join(", ")),
        };
        let (values, lengths) = (listed("values", &g.by_value), listed("lengths", &g.by_length));
        let by = format!("types and shapes of its inputs{values}{lengths}");
        let more = match g.turned {
            true => format!(" (of a graph that a loop turns more, up to {} launches)", e.plans.turned_nodes),
            false => String::new(),
        };
        out.push_str(&format!(
            "main {}: plans by {by}; {} are kept{more}, the {} least recently used go first\n",
            g.graph, e.plans.kept, e.plans.dropped
        ));
        if g.told {
            out.push_str("  a run tells this condition by itself; with a profile or captures it is launched:\n");
        }
        for (k, r) in g.rounds.iter().enumerate() {
            let on = match r.streams.len() {
                0 | 1 => String::new(),
                n => format!(": {n} streams, {} events", r.events),
            };
            out.push_str(&format!("  round {k}{on}\n"));
            let lists = [("while planning", &r.planned), ("views", &r.views), ("device", &r.device), ("host", &r.host)];
            for (what, list) in lists.into_iter().filter(|l| !l.1.is_empty()) {
                out.push_str(&format!("    {what}\n"));
                for s in list {
                    let waits = if s.waits { ", behind the launches" } else { "" };
                    let stream = s.stream.filter(|_| several).map(|s| format!(", stream {s}")).unwrap_or_default();
                    out.push_str(&format!("      {:<40} {:<20} {}{stream}{waits}\n", s.node, s.op, s.by));
                }
            }
        }
    }
    out.push_str(&format!("de-init: {}\n", e.deinit.join(", ")));
    out
}

/// Formats it as JSON.
pub fn json(e: &Exec) -> Value {
    let one = |s: &Step| json!({"node": s.node, "type": s.op, "by": s.by});
    let steps = |l: &[Step]| -> Vec<Value> { l.iter().map(one).collect() };
    let hosted = |s: &Step| json!({"node": s.node, "type": s.op, "by": s.by, "waits": s.waits});
    let host = |l: &[Step]| -> Vec<Value> { l.iter().map(hosted).collect() };
    let launched = |s: &Step| json!({"node": s.node, "type": s.op, "by": s.by, "stream": s.stream});
    let device = |l: &[Step]| -> Vec<Value> { l.iter().map(launched).collect() };
    let rounds = |g: &ge_runtime::v2::describe::Rounds| {
        let one = |r: &ge_runtime::v2::describe::Round| json!({"planned": steps(&r.planned), "views": steps(&r.views), "device": device(&r.device), "host": host(&r.host), "streams": r.streams, "events": r.events});
        let all = g.rounds.iter().map(one).collect::<Vec<_>>();
        json!({"graph": g.graph, "by_value": g.by_value, "by_length": g.by_length, "told": g.told, "turned": g.turned, "rounds": all})
    };
    json!({
        "executor": {"name": e.executor.name(), "threads": e.executor.threads(), "because": e.because},
        "init": {"constants": e.init.constants, "weights": e.init.weights, "parts": e.init.parts.iter().map(|(n, t)| json!({"name": n, "tasks": t})).collect::<Vec<_>>(),
            "variables": e.init.variables.iter().map(|v| json!({"name": v.name, "type": v.desc, "kept": v.kept})).collect::<Vec<_>>()},
        "symbols": e.symbols.iter().map(|s| json!({"name": s.name, "places": s.places, "range": s.range})).collect::<Vec<_>>(),
        "streams": e.streams, "guards": e.guards, "main": e.main.iter().map(rounds).collect::<Vec<_>>(),
        "plans": {"kept": e.plans.kept, "turned_nodes": e.plans.turned_nodes, "dropped": e.plans.dropped},
        "deinit": e.deinit,
    })
}
