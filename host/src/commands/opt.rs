//! `ge opt IN.ge`: runs passes or stages on a graph in text form.
use crate::commands::flags::{CompileFlags, Global};
use crate::commands::talk::{print, print_json, say, say_warnings};
use crate::render::Progress;
use crate::session::bundle::Bundle;
use crate::session::{Session, SessionOptions, import};
use crate::{Diagnostic, Error, Result};
use clap::Args;
use ge_compiler::pass::{PassManager, Records};
use ge_compiler::pipeline::passes::{self, PASSES};
use ge_compiler::pipeline::{STAGES, Stage, run_range};
use ge_plugin::Want;
use ge_plugin_api::pass::PassStage;
use std::path::{Path, PathBuf};

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  ge opt graph.ge --from streams --until streams")]
pub struct OptArgs {
    /// A graph in text form
    #[arg(required_unless_present_any = ["list", "check", "repro"])]
    input: Option<PathBuf>,
    /// Where the result is written [default: stdout]
    #[arg(short, long, value_name = "OUT.ge")]
    output: Option<PathBuf>,
    #[command(flatten)]
    flags: CompileFlags,
    /// First stage
    #[arg(long, value_name = "STAGE")]
    from: Option<String>,
    /// Last stage
    #[arg(long, value_name = "STAGE")]
    until: Option<String>,
    /// Only these passes, in this order, whatever their level
    #[arg(long, value_name = "A,B", value_delimiter = ',', conflicts_with_all = ["from", "until"])]
    passes: Vec<String>,
    /// Lists stages and passes in their order
    #[arg(long)]
    list: bool,
    /// With --list: as the page docs/passes.md
    #[arg(long, requires = "list")]
    markdown: bool,
    /// Verifies the graph after each of --passes
    #[arg(long)]
    verify_each: bool,
    /// Only the refusals of one node, one a line
    #[arg(long, value_name = "NODE")]
    why: Option<String>,
    /// Time and changes of each pass, on stderr
    #[arg(long)]
    stats: bool,
    /// Runs golden files (a file or a folder of them) and compares; UPDATE_EXPECT=1 writes the
    /// expectations anew
    #[arg(long, value_name = "FILE", conflicts_with_all = ["output", "from", "until", "passes", "why"])]
    check: Option<PathBuf>,
    /// Runs what a bundle holds, and says whether it fails as it did
    #[arg(long, value_name = "BUNDLE", conflicts_with_all = ["input", "output", "from", "until", "passes", "why", "check"])]
    repro: Option<PathBuf>,
}

/// Runs the command.
pub fn run(global: &Global, a: &OptArgs) -> Result<u8> {
    if a.list {
        return list(global, a);
    }
    if let Some(path) = &a.check {
        return super::golden::run(global, path);
    }
    if let Some(path) = &a.repro {
        return repro(global, a, path);
    }
    let Some(input) = &a.input else { return Err(Error::usage("a graph in text form is needed")) };
    let bytes = import::map(input)?;
    if import::kind_of(&bytes) != import::FileKind::Text && std::str::from_utf8(&bytes).is_err() {
        let shown = input.display();
        let om = import::kind_of(&bytes) == import::FileKind::Om;
        let help = if om {
            format!("`ge inspect {shown} --what graph` shows its graph")
        } else {
            format!("`ge compile {shown} --dump prepare` writes its graph as text, which `ge opt` reads")
        };
        return Err(Diagnostic::error(format!("`{shown}` is no graph in text form"))
            .found(if om { "an OM file" } else { "a binary file" }, "a `.ge` file: `graph @main(…) {`")
            .help(help)
            .raise(ge_codes::TEXT_FORM));
    }
    let model = import::parse_text(input, &bytes)?;
    let mut records = Records::default();
    let result = if a.changes_nothing() {
        model
    } else {
        let session = a.session(global.plugins.clone())?;
        say_warnings(global, session.registry());
        let progress = Progress::new(global.progress, global.quiet, 1);
        progress.stage("passes", 0);
        let made = a.apply(&session, model, &mut records);
        progress.finish();
        made.map_err(|e| import::placed(input, e))?
    };
    finish(global, a, &result, &records)
}

/// Lists the stages with their passes in order: ge's own, then those of plugins, which run at the
/// place that they ask for.
fn list(global: &Global, a: &OptArgs) -> Result<u8> {
    // If the plugins cannot be loaded, ge's own passes are still listed.
    let session = match a.session(global.plugins.clone()) {
        Ok(s) => Some(s),
        Err(e) => {
            say(global, &format!("warning: passes of plugins are not listed: {}", e.message()));
            None
        }
    };
    let of_plugins: Vec<_> = session.iter().flat_map(|s| s.registry().passes()).collect();
    let ours = |stage: &'static str| PASSES.iter().filter(move |p| p.stage == stage).map(|p| p.pass);
    let theirs = |stage: &'static str| of_plugins.iter().filter(move |p| stage_of(p.info.stage) == stage);
    if a.markdown && global.json {
        return Err(Error::usage("`--markdown` and `--json` are two forms of one list: give one of them"));
    }
    if a.markdown {
        let mut page = passes::markdown();
        page.push_str(
            "\n## Passes of plugins\n\nThose of the libraries that come with `ge`, in the order in which they run at one place; another library in \
             plugins.toml adds its own. They have levels and switches as ours have.\n\n| stage | pass | level | plugin | place | what it does |\n\
             |---|---|---|---|---|---|\n",
        );
        for (s, p) in STAGES.iter().flat_map(|s| theirs(s).map(move |p| (s, p))) {
            let (level, place) = (p.info.level.name(), p.info.stage.name());
            let (plugin, help) = (&p.owner().name, p.info.help.as_str());
            page.push_str(&format!("| {s} | {} | {level} | {plugin} | {place} | {help} |\n", p.name()));
        }
        print(&page)?;
        return Ok(0);
    }
    if global.json {
        let stages: Vec<serde_json::Value> = STAGES
            .iter()
            .map(|s| {
                let mut list: Vec<_> =
                    ours(s).map(|p| serde_json::json!({"name": p.name(), "level": p.level().name()})).collect();
                list.extend(theirs(s).map(|p| {
                    serde_json::json!({"name": p.name(), "level": p.info.level.name(), "plugin": p.owner().name,
                        "at": p.info.stage.name(), "help": p.info.help.as_str()})
                }));
                serde_json::json!({"stage": s, "passes": list})
            })
            .collect();
        print_json(&serde_json::json!({"schema": 1, "stages": stages}))?;
        return Ok(0);
    }
    let mut text = String::new();
    for s in STAGES {
        text.push_str(&format!("{s}\n"));
        for p in ours(s) {
            text.push_str(&format!("  {:<40} {}\n", p.name(), p.level().name()));
        }
        for p in theirs(s) {
            let (level, plugin, at) = (p.info.level.name(), &p.owner().name, p.info.stage.name());
            text.push_str(&format!("  {:<40} {level}  plugin {plugin}, {at}\n", p.name()));
        }
    }
    print(&text)?;
    Ok(0)
}

/// The stage in which a plugin's pass runs.
fn stage_of(at: PassStage) -> &'static str {
    match at {
        PassStage::BEFORE_INFER_SHAPE | PassStage::AFTER_INFER_SHAPE => "prepare",
        PassStage::AFTER_ORIGIN_GRAPH_OPTIMIZE => "stage1",
        PassStage::OPTIMIZE_FUSED_GRAPH => "subgraph",
        PassStage::OPTIMIZE_WHOLE_GRAPH => "stage2",
        PassStage::AFTER_ASSIGN_LOGIC_STREAM => "streams",
        _ => "original",
    }
}

impl OptArgs {
    /// Whether neither passes nor stages are requested.
    pub fn changes_nothing(&self) -> bool {
        self.from.is_none() && self.until.is_none() && self.passes.is_empty()
    }
    /// The requested SoC.
    pub fn soc(&self) -> Option<&str> {
        self.flags.soc.as_deref()
    }
    /// Opens a session with all plugins for this command.
    pub fn session(&self, plugins: Option<PathBuf>) -> Result<Session> {
        Session::new(SessionOptions {
            plugins,
            options: self.flags.gather()?,
            soc: self.flags.soc.clone(),
            want: Want::All,
            ..SessionOptions::default()
        })
    }
    /// Runs the requested passes or stages on a model.
    pub fn apply(&self, session: &Session, mut model: ge_ir::Model, records: &mut Records) -> Result<ge_ir::Model> {
        let (from, until) = (stage(self.from.as_deref())?, stage(self.until.as_deref())?);
        let options = self.flags.gather()?;
        let toolbox = session.toolbox(&options, false)?;
        if !self.passes.is_empty() {
            let resolved = options.resolved()?;
            let names: Vec<&str> = self.passes.iter().map(String::as_str).collect();
            PassManager::new(PASSES, &toolbox, &resolved)
                .and_then(|m| m.verify_each(self.verify_each).named(&names, &mut model, records))
                .map_err(|e| e.into_error())?;
            model.compact();
            return Ok(model);
        }
        let (from, until) = (from.unwrap_or(Stage::Import), until.unwrap_or(Stage::LAST_TEXT));
        if from > until {
            return Err(Error::usage(format!("stage `{}` comes after `{}`", from.name(), until.name())));
        }
        run_range(model, &toolbox, &options.resolved()?, from, until, records).map_err(|e| e.into_error())
    }
}

/// Runs a bundle: its stage on its graph, or the whole compilation. Returns the failure unchanged,
/// or 0 if nothing fails.
fn repro(global: &Global, a: &OptArgs, path: &Path) -> Result<u8> {
    let b = Bundle::read(path)?;
    let mut options = a.flags.gather()?;
    crate::commands::talk::say_foreign(global, &options);
    let mut given = crate::options::OptionMap::default();
    for (k, v) in &b.options {
        given.set(k, v, "the bundle")?;
    }
    options.under(given);
    let session = Session::new(SessionOptions {
        plugins: global.plugins.clone(),
        options: options.clone(),
        soc: a.flags.soc.clone().or(b.soc.clone()),
        want: Want::All,
        ..SessionOptions::default()
    })?;
    say_warnings(global, session.registry());
    if b.version != env!("CARGO_PKG_VERSION") {
        say(global, &format!("warning: the bundle was written by ge {}", b.version));
    }
    for (name, version) in &b.plugins {
        match session.registry().plugin(name) {
            Some(p) if p.version == *version => {}
            Some(p) => say(global, &format!("warning: plugin {name} is {}, the bundle has {version}", p.version)),
            None => say(global, &format!("warning: plugin {name} {version} of the bundle is not enabled")),
        }
    }
    if !b.error.is_empty() {
        say(global, &format!("the bundle's error: {}", b.error.trim_end()));
        say(global, &b.what());
    }
    b.run(&session, &options)?;
    say(global, if b.error.is_empty() { "the bundle compiles" } else { "it does not fail here" });
    Ok(0)
}

fn finish(global: &Global, a: &OptArgs, result: &ge_ir::Model, records: &Records) -> Result<u8> {
    if a.stats {
        for r in &records.runs {
            say(
                global,
                &format!(
                    "{:<10} {:<32} {:>9} us {:>9} visits {:>6} changes",
                    r.stage, r.pass, r.micros, r.visits, r.changes
                ),
            );
        }
    }
    if let Some(node) = &a.why {
        return why(result, records, node);
    }
    let text =
        ge_ir::text::to_string(result).map_err(|e| Error::failed(format!("the graph cannot be printed: {e}")))?;
    match &a.output {
        Some(path) => crate::files::write_atomic(path, text.as_bytes())?,
        None => print(&text)?,
    }
    Ok(0)
}

fn why(model: &ge_ir::Model, records: &Records, node: &str) -> Result<u8> {
    let names = || model.graphs().iter().flat_map(|g| g.nodes()).map(|n| n.name());
    if !names().any(|n| n == node) && !records.refusals.contains_key(node) {
        let all: Vec<&str> = names().collect();
        return Err(crate::options::unknown_name("node", node, all.iter().copied()));
    }
    let mut text = String::new();
    for (pass, reason) in records.refusals.get(node).map_or(&[][..], |v| v) {
        text.push_str(&format!("{pass}: {reason}\n"));
    }
    print(&text)?;
    Ok(0)
}

fn stage(name: Option<&str>) -> Result<Option<Stage>> {
    let Some(name) = name else { return Ok(None) };
    match Stage::named(name) {
        Some(stage) => Ok(Some(stage)),
        None => Err(crate::options::unknown_name("stage", name, STAGES.iter().copied())),
    }
}
