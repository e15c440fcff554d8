//! `ge plugin ops|options|passes|engines`: lists what the plugins of a configuration offer, as text
//! and JSON.
use crate::Result;
use crate::commands::flags::Global;
use crate::commands::talk::{print, print_json, say_warnings};
use clap::Args;
use ge_plugin::{LoadRequest, PluginSet, Registry, Want};
use ge_plugin_api::engine::flags;
use ge_plugin_api::ops::{AttrSpec, OpProto, ParamKind, ParamSpec};
use ge_plugin_api::services::{OptionKind, OptionSpec};
use serde_json::{Value, json};

#[derive(Args, Debug)]
pub struct ListArgs {
    /// Of this plugin alone
    #[arg(long, value_name = "PLUGIN")]
    of: Option<String>,
}

#[derive(Args, Debug)]
pub struct OpsArgs {
    #[command(flatten)]
    list: ListArgs,
    /// As the page docs/operators.md
    #[arg(long)]
    markdown: bool,
}

impl ListArgs {
    fn takes(&self, plugin: &str) -> bool {
        self.of.as_ref().is_none_or(|p| p == plugin)
    }
    fn registry(&self, global: &Global) -> Result<Registry> {
        let registry = PluginSet::load(&LoadRequest { config: global.plugins.clone(), want: Want::All })?;
        say_warnings(global, &registry);
        if let Some(name) = self.of.as_ref().filter(|n| registry.plugin(n).is_none()) {
            let known = registry.plugins().iter().map(|p| p.name.as_str());
            return Err(crate::options::unknown_name("plugin", name, known));
        }
        Ok(registry)
    }
}

fn show(global: &Global, key: &str, rows: Vec<Value>, text: String) -> Result<u8> {
    if global.json {
        print_json(&json!({"schema": 1, key: rows}))?;
    } else {
        print(&text)?;
    }
    Ok(0)
}

/// Lists operators with parameters and attributes.
pub fn ops(global: &Global, args: &OpsArgs) -> Result<u8> {
    let a = &args.list;
    let registry = a.registry(global)?;
    let mut all: Vec<_> = registry.ops().iter().filter(|o| a.takes(&o.owner().name)).collect();
    all.sort_by(|a, b| a.name().cmp(b.name()));
    if args.markdown {
        print(&catalogue(&all))?;
        return Ok(0);
    }
    let mut text = String::new();
    let mut rows = Vec::new();
    for op in all {
        let (p, plugin) = (&op.proto, &op.owner().name);
        text.push_str(&format!("{} ({plugin})\n{}", p.name, signature(p)));
        rows.push(json!({
            "name": p.name.as_str(), "plugin": plugin,
            "inputs": p.inputs.iter().map(param_json).collect::<Vec<_>>(),
            "outputs": p.outputs.iter().map(param_json).collect::<Vec<_>>(),
            "attributes": p.attrs.iter().map(attr_json).collect::<Vec<_>>(),
        }));
    }
    show(global, "operators", rows, text)
}

/// The documentation page of all operators: each with its plugin, parameters and attributes.
fn catalogue(all: &[&ge_plugin::OpHandle]) -> String {
    let mut page = "# Operators\n\nThe prototypes of the plugins that come with `ge`, by name. This page is made: `ge plugin ops --markdown > docs/operators.md`.\n\n\
        `?` behind a parameter: it may be left out; `..`: any number of it. Parameters with one letter have one type. `attr` lines are attributes with kind and\n\
        default. An operator of these names is yours to compute (docs/plugins.md, an engine) or to produce (a mapping, a pass).\n"
        .to_owned();
    for op in all {
        page.push_str(&format!(
            "\n## {}\n\nOf plugin `{}`.\n\n```text\n{}```\n",
            op.name(),
            op.owner().name,
            signature(&op.proto)
        ));
    }
    page
}

fn types(p: &ParamSpec) -> String {
    let names: Vec<&str> = p.types.iter().map(|t| t.name()).collect();
    match names.is_empty() {
        true => "any".to_owned(),
        false => names.join(" "),
    }
}
fn param_json(p: &ParamSpec) -> Value {
    let types: Vec<&str> = p.types.iter().map(|t| t.name()).collect();
    json!({"name": p.name.as_str(), "kind": p.kind.name(), "types": types, "group": p.type_group.as_str()})
}
fn attr_json(a: &AttrSpec) -> Value {
    let choices: Vec<&str> = a.choices.iter().map(|c| c.as_str()).collect();
    json!({"name": a.name.as_str(), "kind": a.kind.name(), "required": a.required, "default": a.default.as_ref().into_option().map(shown), "choices": choices})
}
fn shown(v: &ge_plugin_api::types::AttrValue) -> String {
    use ge_plugin_api::types::AttrValue as V;
    match v {
        V::Int(i) => i.to_string(),
        V::Float(x) => format!("{x:?}"),
        V::Bool(b) => b.to_string(),
        V::Str(s) => format!("{:?}", s.as_str()),
        V::Type(t) => t.name().to_owned(),
        V::Ints(l) => format!("{l:?}"),
        V::Floats(l) => format!("{l:?}"),
        V::Strs(l) => format!("{:?}", l.iter().map(|s| s.as_str()).collect::<Vec<_>>()),
        other => format!("{other:?}"),
    }
}

/// Inputs, outputs and attributes of an operator, one per line.
fn signature(p: &OpProto) -> String {
    let mut out = String::new();
    let mark = |k: ParamKind| match k {
        ParamKind::OPTIONAL => "?",
        ParamKind::DYNAMIC => "..",
        _ => "",
    };
    for (what, list) in [("in ", &p.inputs), ("out", &p.outputs)] {
        for x in list.iter() {
            let tie = if x.type_group.is_empty() { String::new() } else { format!("{}: ", x.type_group) };
            out.push_str(&format!("  {what}  {}{}  {tie}{}\n", x.name, mark(x.kind), types(x)));
        }
    }
    for a in &p.attrs {
        let default = match a.default.as_ref().into_option() {
            Some(v) => format!(" = {}", shown(v)),
            None if a.required => ", required".to_owned(),
            None => String::new(),
        };
        out.push_str(&format!("  attr {}: {}{default}\n", a.name, a.kind.name()));
    }
    out
}

/// Lists options by plugin, with type, default and configured value.
pub fn options(global: &Global, a: &ListArgs) -> Result<u8> {
    let registry = a.registry(global)?;
    let (mut text, mut rows) = (String::new(), Vec::new());
    for p in registry.plugins().iter().filter(|p| p.usable() && a.takes(&p.name)) {
        let abi = ge_plugin::set::look(&p.path)?.abi;
        for s in ge_plugin::open::open(&p.name, &p.path, abi)?.schema()? {
            let given = p.options.get(s.key.as_str());
            let (kind, default) = (takes(&s), shown(&s.default));
            let set = given.map_or(String::new(), |v| format!(", set to {v}"));
            text.push_str(&format!("{:<10} {:<24} {kind}, default {default}{set}\n", p.name, s.key));
            if !s.help.is_empty() {
                text.push_str(&format!("{:<10} {:<24} {}\n", "", "", s.help));
            }
            rows.push(json!({"plugin": p.name, "name": s.key.as_str(), "kind": s.kind.name(), "takes": kind, "default": default, "value": given, "help": s.help.as_str()}));
        }
    }
    show(global, "options", rows, text)
}

fn takes(s: &OptionSpec) -> String {
    match s.kind {
        OptionKind::CHOICE => s.choices.iter().map(|c| c.as_str()).collect::<Vec<_>>().join("|"),
        OptionKind::INT if s.min != i64::MIN || s.max != i64::MAX => format!("integer {} to {}", s.min, s.max),
        k => k.name().to_owned(),
    }
}

/// Lists passes, in the order in which they run at each place.
pub fn passes(global: &Global, a: &ListArgs) -> Result<u8> {
    let registry = a.registry(global)?;
    let (mut text, mut rows) = (String::new(), Vec::new());
    for p in registry.passes().iter().filter(|p| a.takes(&p.owner().name)) {
        let (plugin, i) = (&p.owner().name, &p.info);
        let (stage, level) = (i.stage.name(), i.level.name());
        text.push_str(&format!("{:<44} {plugin:<10} {stage:<28} {level}  {}\n", i.name, i.help));
        rows.push(
            json!({"name": i.name.as_str(), "plugin": plugin, "stage": stage, "level": level, "help": i.help.as_str()}),
        );
    }
    show(global, "passes", rows, text)
}

/// Flags of an engine and their descriptions.
const FLAGS: &[(u64, &str)] = &[
    (flags::INDEPENDENT, "own streams"),
    (flags::AICPU, "AI CPU"),
    (flags::COMPOSITE, "composite"),
    (flags::HOST_RUNTIME, "on the host"),
    (flags::NO_TASK, "no tasks"),
    (flags::FOLDS_CONSTANTS, "folds constants"),
    (flags::STRUCTURAL, "structural nodes"),
    (flags::RUNTIME_TASKS, "run-time tasks"),
    (flags::ON_DEMAND, "on demand"),
];

/// Lists engines, the cheapest first: it gets a node that several engines accept.
pub fn engines(global: &Global, a: &ListArgs) -> Result<u8> {
    let registry = a.registry(global)?;
    let mut all: Vec<_> = registry.engines().iter().filter(|e| a.takes(&e.owner().name)).collect();
    all.sort_by_key(|e| e.info.cost);
    let (mut text, mut rows) = (String::new(), Vec::new());
    for e in all {
        let plugin = &e.owner().name;
        let ops = e.op_types()?;
        let mut words: Vec<&str> = FLAGS.iter().filter(|(f, _)| e.has(*f)).map(|(_, w)| *w).collect();
        if e.excluded {
            words.push("excluded");
        }
        let (name, cost, n) = (e.name(), e.info.cost, ops.len());
        text.push_str(&format!("{name:<24} {plugin:<10} cost {cost:<4} {n:>4} operators  {}\n", words.join(", ")));
        rows.push(json!({"name": name, "plugin": plugin, "cost": cost, "ops": ops, "flags": words, "excluded": e.excluded, "user_name": e.info.user_name.as_str()}));
    }
    show(global, "engines", rows, text)
}
