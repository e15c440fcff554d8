//! `ge plugin why MODEL NODE`: which engines take a node, at what cost, and why the others do not.
use crate::Result;
use crate::commands::flags::{CompileFlags, Global};
use crate::commands::talk::{print, print_json, say_warnings};
use crate::session::{Session, SessionOptions};
use clap::Args;
use ge_compiler::pipeline::{Stage, run_range};
use ge_ir::Model;
use ge_plugin::Want;
use ge_plugin_api::engine::Support;
use ge_plugin_api::types::NodeId;
use serde_json::json;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub struct WhyArgs {
    /// The model
    model: PathBuf,
    /// The node's name, as the model or `ge inspect` has it
    node: String,
    #[command(flatten)]
    flags: CompileFlags,
}

/// Asks every engine that knows the operator, with the node as it is at placement.
pub fn run(global: &Global, a: &WhyArgs) -> Result<u8> {
    let options = a.flags.gather()?;
    let session = Session::new(SessionOptions {
        plugins: global.plugins.clone(),
        options: options.clone(),
        soc: a.flags.soc.clone(),
        want: Want::All,
        ..SessionOptions::default()
    })?;
    say_warnings(global, session.registry());
    let toolbox = session.toolbox(&options, false)?;
    let model = session.import(&a.model, &a.flags.shapes()?)?;
    let mut records = ge_compiler::pass::Records::default();
    let model = run_range(model, &toolbox, &options.resolved()?, Stage::Import, Stage::Original, &mut records)
        .map_err(|e| e.into_error())?;
    let (graph, id) = find(&model, &a.node)?;
    let context = toolbox.lend(&model, graph);
    let view = context.graph();
    let node = view.node(id);
    let ranks = toolbox.ranks().map_err(|e| e.into_error())?;
    let mut answers = Vec::new();
    for id in ranks.of(node.op_key()) {
        let e = toolbox.engine(*id);
        answers.push((
            e,
            match &e.excluded {
                Some(why) => Support::no(why.clone()),
                None => e.object.supports(&node)?,
            },
        ));
    }
    let costs = answers.iter().enumerate().filter_map(|(i, (e, answer))| Some((answer.cost(e.info.cost)?, i)));
    let chosen = costs.min().map(|(_, i)| answers[i].0.info.name.as_str());
    let (mut rows, mut text) = (Vec::new(), String::new());
    for (e, answer) in &answers {
        let (name, cost) = (e.info.name.as_str(), answer.cost(e.info.cost).unwrap_or(e.info.cost));
        let refusal = if let Support::No(why) = answer { Some(why.to_string()) } else { None };
        let time = if refusal.is_none() { e.object.time_ns(&node, &toolbox.target.soc) } else { 0 };
        let said = match &refusal {
            Some(why) => format!("no: {why}"),
            None if chosen == Some(name) => "yes, and gets it: the cheapest that takes it".to_owned(),
            None => "yes, dearer".to_owned(),
        };
        let estimate =
            if time == 0 { String::new() } else { format!(" ({:.1} us by its estimate)", time as f64 / 1e3) };
        text.push_str(&format!("  {name:<24} {:<10} cost {cost:<4} {said}{estimate}\n", e.plugin));
        rows.push(json!({"engine": name, "plugin": e.plugin, "cost": cost, "takes": refusal.is_none(), "refusal": refusal, "time_ns": time}));
    }
    let desc = |d: &ge_plugin_api::types::TensorDesc| format!("{}{}", d.dtype, d.shape);
    let inputs: Vec<String> =
        (0..node.inputs().len()).map(|i| node.input_desc(i).map_or("-".to_owned(), desc)).collect();
    if global.json {
        print_json(
            &json!({"schema": 1, "node": node.name(), "op": node.op(), "inputs": inputs, "chosen": chosen, "engines": rows}),
        )?;
        return Ok(0);
    }
    let head = format!("`{}` is {}({}) when it is placed\n", node.name(), node.op(), inputs.join(", "));
    if rows.is_empty() {
        text.push_str("  no enabled engine has this operator type\n");
    }
    print(&(head + &text))?;
    Ok(0)
}

/// The node with this name, or the one that replaced it after fusions.
fn find(model: &Model, name: &str) -> Result<(usize, NodeId)> {
    let mut known = Vec::new();
    for (gi, g) in model.graphs().iter().enumerate() {
        for n in g.nodes() {
            let stands_for = || match n.attrs().get("_datadump_original_op_names") {
                Some(ge_plugin_api::types::AttrValue::Strs(all)) => all.iter().any(|o| o.as_str() == name),
                _ => false,
            };
            if n.name() == name || stands_for() {
                return Ok((gi, n.id()));
            }
            known.push(n.name());
        }
    }
    let e = crate::options::unknown_name("node", name, known.iter().copied());
    Err(e.with(|d| d.note("a node that was folded, or found equal to another, is not there when nodes are placed")))
}
