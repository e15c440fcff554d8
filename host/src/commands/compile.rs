//! `ge compile MODEL -o OUT.om`: compiles, writes the OM, says what became of the model.
use super::inputs::{self, Given, NamedInputs};
use super::specialise::{self, Input};
use super::{CompileFlags, Global, calibration, print_json, say, say_warnings};
use crate::render::Progress;
use crate::render::progress::group;
use crate::session::bundle::{Bundle, Failure, Weights};
use crate::session::dump::{Dumps, Wanted};
use crate::session::import::{self, FileKind, Imported};
use crate::session::{Compiled, Session, SessionOptions, survey, symbols};
use crate::{Diagnostic, ErrorKind, Result};
use clap::Args;
use ge_compiler::pipeline::Observer;
use ge_plugin::Want;
use ge_plugin_api::engine::flags;
use ge_plugin_api::fusion::ORIGINALS;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  ge compile model.onnx -o model.om --input-shape \"x:1,3,224,224\"")]
pub struct CompileArgs {
    /// The model: ONNX, or ge's text form; `-` reads it from stdin
    #[arg(required_unless_present = "help_options")]
    model: Option<PathBuf>,
    /// The OM file to write [default: the model's name with .om, in the working folder]
    #[arg(short, long, value_name = "OUT.om")]
    output: Option<PathBuf>,
    #[command(flatten)]
    flags: CompileFlags,
    /// The model is compiled for values of inputs, which are then constants
    #[command(flatten)]
    input: NamedInputs,
    /// Runs these inputs (a folder as `ge run --inputs` takes it, or one of such folders) in the model's types and in the reduced
    /// ones, and keeps in f32 what differs too much
    #[arg(long, value_name = "DIR")]
    calibrate: Option<PathBuf>,
    /// Fail if a node with a task falls back to an AI CPU engine; with names: only for these operators
    #[arg(long, value_name = "OP,…", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    fail_on_fallback: Option<String>,
    /// Writes the graph as text after these stages (or `all`) and passes, with what the stages have decided
    #[arg(long, value_name = "STAGE|pass:NAME,…", value_delimiter = ',')]
    dump: Vec<String>,
    /// Writes the graph as text after each pass that has changed it
    #[arg(long)]
    dump_passes: bool,
    /// Folder of the dumps
    #[arg(long, value_name = "DIR", default_value = ".")]
    dump_dir: PathBuf,
    /// Threads [default: cores, at most 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Writes what reproduces this compilation into one file
    #[arg(long, value_name = "FILE")]
    bundle: Option<PathBuf>,
    /// With --bundle, and for the bundle of an internal error: constants become zeros
    #[arg(long)]
    no_weights: bool,
    /// Lists every option with its values and default
    #[arg(long)]
    help_options: bool,
}

/// Runs it.
pub fn run(global: &Global, a: &CompileArgs) -> Result<u8> {
    if a.help_options {
        if global.json {
            print_json(&options_json())?;
        } else {
            super::print(&help_options())?;
        }
        return Ok(0);
    }
    let Some(model) = &a.model else { return Err(crate::Error::usage("a model is needed")) };
    let piped = super::stdin::spool(model)?;
    let model = piped.as_ref().map_or(model.as_path(), |p| p.path());
    // As with other compilers: the result lies in the working folder, named after its source.
    let beside = model.file_stem().map_or_else(|| "main".into(), |s| PathBuf::from(s).with_extension("om"));
    let output = a.output.as_ref().unwrap_or(&beside);
    apart(model, output, a.bundle.as_deref())?;
    let start = Instant::now();
    if let Some(j) = a.jobs {
        ge_plugin::services::set_jobs(usize::from(j));
    }
    let (session, compiled) = compile_with(global, model, a)?;
    if let Some(stop) = &compiled.stopped {
        say(global, &format!("stopped at {}: the graph is in {}", stop.step, stop.path.display()));
        if global.json {
            print_json(
                &serde_json::json!({"schema": 1, "stopped": stop.step, "graph": stop.path.display().to_string()}),
            )?;
        }
        return Ok(0);
    }
    let fallbacks = fallbacks(&session, &compiled);
    refuse_fallbacks(a.fail_on_fallback.as_deref(), &fallbacks)?;
    let report = compiled.write_om(output)?;
    let summary = summary(&compiled, &fallbacks, output, report.file_len, start);
    say(global, &summary.0);
    if global.json {
        print_json(&summary.1)?;
    }
    Ok(0)
}

/// Files that are written lie apart from each other and from the model.
fn apart(model: &Path, output: &Path, bundle: Option<&Path>) -> Result<()> {
    // A file that is not there yet is known by its folder.
    let at = |p: &Path| match (p.canonicalize(), p.parent(), p.file_name()) {
        (Ok(p), ..) => Some(p),
        (_, Some(dir), Some(name)) => {
            let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
            Some(dir.canonicalize().ok()?.join(name))
        }
        _ => None,
    };
    let same = |a: &Path, b: &Path| a == b || at(a).is_some_and(|a| at(b) == Some(a));
    let pairs = [
        (Some(output), model, "-o", "is the model itself"),
        (bundle, model, "--bundle", "is the model itself"),
        (bundle, output, "--bundle", "is where the OM goes"),
    ];
    for (written, other, flag, what) in pairs {
        if let Some(w) = written.filter(|w| same(w, other)) {
            return Err(crate::Diagnostic::error(format!("`{flag} {}` {what}: it would be written over", w.display()))
                .code("GE-E0300")
                .help(format!("give `{flag}` a file of its own"))
                .of(ErrorKind::USAGE));
        }
    }
    Ok(())
}

/// What beside the model itself is wanted of a compilation.
#[derive(Default)]
struct Wishes<'a> {
    dump: Wanted,
    dump_dir: PathBuf,
    bundle: Option<&'a Path>,
    no_weights: bool,
    /// For the device that it will run on at once.
    online: bool,
    /// Inputs that settle what the model leaves open.
    given: Option<&'a Given<'a>>,
    /// Inputs that are constants.
    fixed: Option<&'a Given<'a>>,
    /// `--fail-on-fallback`.
    gate: Option<&'a str>,
    /// Inputs that say which nodes keep their types.
    calibrate: Option<&'a Path>,
}

fn compile_with(global: &Global, model: &Path, a: &CompileArgs) -> Result<(Session, Compiled)> {
    let fixed = a.input.given(global);
    let wishes = Wishes {
        dump: Wanted::parse(&a.dump, a.dump_passes)?,
        dump_dir: a.dump_dir.clone(),
        bundle: a.bundle.as_deref(),
        no_weights: a.no_weights,
        fixed: Some(&fixed),
        gate: a.fail_on_fallback.as_deref(),
        calibrate: a.calibrate.as_deref(),
        ..Wishes::default()
    };
    compile_as(global, model, &a.flags, &wishes).map_err(|e| import::placed(model, e))
}

/// Loads plugins, imports and compiles for the device that it will run on at once; `given`: inputs that settle what the model
/// leaves open.
pub fn compile_to_run(
    global: &Global,
    model: &Path,
    flags: &CompileFlags,
    given: Option<&Given<'_>>,
) -> Result<(Session, Compiled)> {
    compile_as(global, model, flags, &Wishes { online: true, given, ..Wishes::default() })
        .map_err(|e| import::placed(model, e))
}

/// The model as its file has it; nodes without a mapping are told beside it.
pub fn import_model(session: &Session, model: &Path, flags: &CompileFlags) -> Result<Imported> {
    let bytes = import::map(model)?;
    let shapes = flags.input_shape.as_deref().unwrap_or("");
    let imports = import::parse_input_shapes(shapes)?;
    let mut imported = match import::kind_of(&bytes) {
        FileKind::Om => Err(Diagnostic::error(format!("`{}` is an OM file: it is compiled already", model.display()))
            .code("GE-E0308")
            .help("run it with `ge run`, or look into it with `ge inspect`")
            .of(ErrorKind::USAGE)),
        FileKind::Text => {
            let mut graph = import::parse_text(model, &bytes)?;
            import::give_shapes(&mut graph, &imports)?;
            Ok(Imported { model: graph, origins: BTreeMap::new(), refused: Vec::new() })
        }
        FileKind::Foreign => import::import_whole(session.registry(), model, bytes, &imports),
    }?;
    symbols::apply(&mut imported.model, shapes)?;
    Ok(imported)
}

/// Makes constants of the inputs that `--input` gives.
fn fix(graph: &mut ge_ir::Model, given: Option<&Given<'_>>) -> Result<()> {
    let Some(given) = given.filter(|g| g.any()) else { return Ok(()) };
    let inputs = specialise::inputs(graph);
    let values = given.some(&wanted(&inputs))?;
    for (i, t) in inputs.iter().zip(values) {
        if let Some(t) = t {
            import::fix_input(graph, i.1, &t)?;
        }
    }
    Ok(())
}

fn wanted(list: &[Input]) -> Vec<inputs::Wanted<'_>> {
    list.iter().map(|(name, _, desc)| inputs::Wanted { name, desc }).collect()
}

fn compile_as(global: &Global, model: &Path, flags: &CompileFlags, wishes: &Wishes<'_>) -> Result<(Session, Compiled)> {
    let mut options = flags.gather()?;
    let sets = wishes.calibrate.map(calibration::folders).transpose()?;
    import::map(model)?;
    import::parse_input_shapes(flags.input_shape.as_deref().unwrap_or(""))?;
    let session = Session::new(SessionOptions {
        plugins: global.plugins.clone(),
        options: options.clone(),
        soc: flags.soc.clone(),
        want: Want::All,
        online: wishes.online,
        ..SessionOptions::default()
    })?;
    wishes.dump.check(session.registry())?;
    say_warnings(global, session.registry());
    known_operators(&session, wishes.gate)?;
    let progress = Progress::new(global.progress, global.quiet, ge_compiler::pipeline::STAGES.len());
    progress.stage("import", 0);
    let whole = || -> Result<Imported> {
        let mut i = import_model(&session, model, flags)?;
        fix(&mut i.model, wishes.fixed)?;
        Ok(i)
    };
    let import = || whole().map(|i| i.model);
    let begin = Instant::now();
    let imported = whole()?;
    if !imported.refused.is_empty() {
        progress.finish();
        let e = crate::Error::all(ErrorKind::UNSUPPORTED, imported.refused.clone());
        return Err(survey::complete(e, imported, &session.toolbox(&options, wishes.online)?));
    }
    let Imported { model: graph, origins, .. } = imported;
    let imported = begin.elapsed().as_micros() as u64;
    let name = model.file_stem().map_or_else(|| "main".to_owned(), |s| s.to_string_lossy().into_owned());
    let weights = if wishes.no_weights { Weights::Zeroed } else { Weights::Kept };
    if let Some(path) = wishes.bundle {
        Bundle::new(&session, &name, &graph, &options, weights)?.write(path)?;
    }
    let calibration = match &sets {
        Some(sets) => Some(calibration::run(&session, &name, &graph, &mut options, sets)?),
        None => None,
    };
    let dumps = Dumps::new(&progress, wishes.dump.clone(), wishes.dump_dir.clone())?;
    dumps.done("import", "", &|| std::borrow::Cow::Borrowed(&graph), imported);
    let run = || {
        let typed = |i: &Input| i.2.dtype != ge_plugin_api::types::DType::UNKNOWN;
        match (wishes.given, specialise::inputs(&graph)) {
            (Some(given), inputs) if inputs.iter().all(typed) => given
                .read(&wanted(&inputs))
                .and_then(|t| specialise::compile(global, &session, &name, graph, &options, &t, &dumps)),
            _ => session.compile(&name, graph, &options, &dumps),
        }
    };
    let compiled = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).unwrap_or_else(|payload| {
        let what = ge_plugin_api::abi::guard::panic_error("ge", payload);
        let text = format!("ge has failed in a way it should not: {}", what.message());
        Err(crate::Error::new(ErrorKind::INTERNAL, text))
    });
    progress.finish();
    let failed = dumps.take_failed();
    let times = dumps.finish()?;
    let mut compiled = match compiled {
        Err(e) if e.kind == ErrorKind::INTERNAL || wishes.bundle.is_some() => {
            let of = Failure { name: &name, failed, options: &options, weights, path: wishes.bundle };
            return Err(of.bundled(e, &session, &import));
        }
        // What else of the model is not supported is told with it.
        Err(e) if survey::concerns(&e) => {
            let toolbox = session.toolbox(&options, wishes.online)?;
            return Err(match whole() {
                Ok(again) => survey::complete(e, again, &toolbox),
                Err(_) => e,
            });
        }
        other => other?,
    };
    compiled.times = times;
    compiled.calibration = calibration;
    compiled.origins = origins;
    if let Some(path) = wishes.bundle {
        say(global, &format!("wrote the bundle {0}; `ge opt --repro {0}` runs it", path.display()));
    }
    if let Some(outcome) = &compiled.cache {
        say(global, &outcome.to_string());
    }
    if let Some(why) = &compiled.warning {
        say(global, &format!("warning: the model cache did not keep the model: {why}"));
    }
    for w in &compiled.warnings {
        say(global, &format!("warning: {w}"));
    }
    Ok((session, compiled))
}

/// A node with a task on an AI CPU engine that is not bound there.
pub struct Fallback {
    node: String,
    op: String,
    /// The model's own type of it, where that is another.
    origin: Option<String>,
    engine: String,
    reasons: Vec<String>,
}

impl Fallback {
    /// Its type, and the model's own where that is another.
    fn types(&self) -> String {
        self.origin.as_ref().map_or_else(|| self.op.clone(), |o| format!("{}, {o} in the model", self.op))
    }
}

/// Operators of `--fail-on-fallback` are names of CANN's or of a framework: a gate that names nothing could never fail.
fn known_operators(session: &Session, wanted: Option<&str>) -> Result<()> {
    let registry = session.registry();
    let mut known: Vec<&str> = registry.ops().iter().map(|o| o.proto.name.as_str()).collect();
    for f in registry.frontends() {
        known.extend(registry.mappings(&f.framework).map(|(i, _)| i.op.as_str()));
    }
    known.extend(["If", "Loop", "Scan"]);
    known.sort_unstable();
    known.dedup();
    for name in wanted.unwrap_or("").split(',').map(str::trim).filter(|n| !n.is_empty()) {
        if !known.contains(&name) {
            return Err(crate::options::unknown_name("operator of --fail-on-fallback", name, known.iter().copied()));
        }
    }
    Ok(())
}

fn fallbacks(session: &Session, c: &Compiled) -> Vec<Fallback> {
    let aicpu = |name: &str| session.registry().engine(name).is_some_and(|e| e.has(flags::AICPU));
    let kernels = c.model.tasks.iter().filter(|t| !t.kernel_name.is_empty());
    let with_task: std::collections::HashSet<(u32, u32)> = kernels.map(|t| (t.graph, t.node)).collect();
    let mut out = Vec::new();
    for (gi, g) in c.model.graphs.iter().enumerate() {
        for (i, n) in g.nodes.iter().enumerate() {
            let has_task = with_task.contains(&(gi as u32, i as u32));
            if has_task && aicpu(&n.engine) {
                let reasons = n
                    .refusals
                    .iter()
                    .filter_map(|(who, why)| who.strip_prefix("EnginePlacer/").map(|e| format!("{e}: {why}")))
                    .collect();
                let originals = n.attrs.strs(ORIGINALS).into_iter().flatten();
                let origin = std::iter::once(n.name.as_str()).chain(originals).find_map(|name| c.origins.get(name));
                let origin = origin.and_then(|o| o.split(',').next()).filter(|o| *o != n.op).map(str::to_owned);
                let (node, op, engine) = (n.name.clone(), n.op.clone(), n.engine.clone());
                out.push(Fallback { node, op, origin, engine, reasons });
            }
        }
    }
    out
}

fn refuse_fallbacks(wanted: Option<&str>, fallbacks: &[Fallback]) -> Result<()> {
    let Some(wanted) = wanted else { return Ok(()) };
    let names: Vec<&str> = wanted.split(',').map(str::trim).filter(|s| !s.is_empty()).collect();
    let bad: Vec<Diagnostic> = fallbacks
        .iter()
        .filter(|f| {
            let named = |n: &str| f.op == n || f.origin.as_deref() == Some(n);
            names.is_empty() || names.iter().any(|n| named(n))
        })
        .map(|f| {
            let mut d = Diagnostic::error(format!("`{}` ({}) falls back to {}", f.node, f.types(), f.engine))
                .code("GE-E0209")
                .node(f.node.clone(), f.op.clone());
            for r in &f.reasons {
                d = d.note(format!("asked: {r}"));
            }
            d
        })
        .collect();
    if bad.is_empty() { Ok(()) } else { Err(crate::Error::all(ErrorKind::FAILED, bad)) }
}

fn summary(
    c: &Compiled,
    fallbacks: &[Fallback],
    output: &Path,
    bytes: u64,
    start: Instant,
) -> (String, serde_json::Value) {
    let m = &c.model;
    let mut engines: Vec<(String, usize, u64)> = Vec::new();
    for t in m.tasks.iter().filter(|t| !t.kernel_name.is_empty()) {
        let Some(n) = m.node(t.graph, t.node) else { continue };
        let at = engines.iter().position(|e| e.0 == n.engine).unwrap_or_else(|| {
            engines.push((n.engine.clone(), 0, 0));
            engines.len() - 1
        });
        engines[at].1 += 1;
        engines[at].2 += t.time_ns;
    }
    let total: u64 = engines.iter().map(|e| e.2).sum();
    let share = |ns: u64| if total == 0 { 0.0 } else { ns as f64 * 100.0 / total as f64 };
    let nodes: usize = m.graphs.iter().map(|g| g.nodes.len()).sum();
    let mut text = format!(
        "compiled {} ({} nodes, {} tasks) to {} ({} bytes) for {}\n",
        m.name,
        group(nodes as u64),
        group(m.tasks.len() as u64),
        output.display(),
        group(bytes),
        m.soc.name
    );
    for (e, n, ns) in &engines {
        text.push_str(&format!("  {e}: {n} nodes, {:.0} % of the cost\n", share(*ns)));
    }
    if !fallbacks.is_empty() {
        let mut by: std::collections::BTreeMap<String, usize> = std::collections::BTreeMap::new();
        for f in fallbacks {
            *by.entry(format!(
                "{} on {}{}",
                f.types(),
                f.engine,
                f.reasons.first().map_or(String::new(), |r| format!(" ({r})"))
            ))
            .or_default() += 1;
        }
        text.push_str(&format!("  fallbacks: {}\n", fallbacks.len()));
        for (what, n) in by {
            text.push_str(&format!("    {n} x {what}\n"));
        }
    }
    if m.is_dynamic() {
        let open: Vec<String> =
            m.inputs.iter().filter(|i| !i.desc.is_static()).map(|i| format!("{}{}", i.name, i.desc.shape)).collect();
        let of = if open.is_empty() { "hang on values".to_owned() } else { format!("open in {}", open.join(", ")) };
        text.push_str(&format!("  sizes: {of}; engines are asked, memory and tasks planned by each run\n"));
    } else {
        text.push_str(&format!(
            "  streams: {} logical, {} physical; events: {}\n",
            m.streams.logical.len(),
            m.streams.physical.len(),
            m.event_num
        ));
    }
    if let Some(mode) = super::reduced::by_default(m) {
        text.push_str(&format!(
            "  types: f32 as f16 where its numbers allow it, for {mode} is the default on {}; --set ge.exec.precision_mode=must_keep_origin_dtype keeps the model's own\n",
            m.soc.name
        ));
    }
    if let Some(found) = &c.calibration {
        text.push_str(&format!("  {}\n", calibration::line(found)));
    }
    for s in &m.memory.spaces {
        let own = s.size - s.zero_copy;
        let ratio = if s.lower_bound == 0 { 1.0 } else { own as f64 / s.lower_bound as f64 };
        text.push_str(&format!(
            "  memory {}: {} bytes, {} zero copy; {} over {} lower bound = {ratio:.3}\n",
            s.memory,
            group(s.size),
            group(s.zero_copy),
            group(own),
            group(s.lower_bound)
        ));
    }
    text.push_str(&format!(
        "  weights: {} bytes\n  kernels: {} compiled with their subgraphs, {} alone, {} times one that was there\n  {:.2} s, peak {} MiB",
        group(m.memory.weights),
        c.kernels.fused_graph,
        c.kernels.single_op,
        c.kernels.hits,
        start.elapsed().as_secs_f32(),
        peak_mib()
    ));
    let mut json = serde_json::json!({
        "schema": 1, "model": m.name, "output": output.display().to_string(), "bytes": bytes, "soc": m.soc.name.as_str(), "nodes": nodes, "tasks": m.tasks.len(),
        "shape": if m.is_dynamic() { "unknown" } else { "known" },
        "engines": engines.iter().map(|(e, n, ns)| serde_json::json!({"name": e, "nodes": n, "cost_share": share(*ns)})).collect::<Vec<_>>(),
        "fallbacks": fallbacks.iter().map(|f| serde_json::json!({"node": f.node, "op": f.op, "engine": f.engine, "reasons": f.reasons})).collect::<Vec<_>>(),
        "streams": {"logical": m.streams.logical.len(), "physical": m.streams.physical.len()}, "event_num": m.event_num,
        "memory": m.memory.spaces.iter().map(|s| (s.memory.clone(), serde_json::json!({"size": s.size, "lower_bound": s.lower_bound, "zero_copy": s.zero_copy, "assigner": s.assigner}))).collect::<serde_json::Map<_, _>>(),
        "kernels": {"fused_graph": c.kernels.fused_graph, "single_op": c.kernels.single_op, "hits": c.kernels.hits},
        "weights": m.memory.weights, "seconds": start.elapsed().as_secs_f64(), "peak_rss_bytes": peak_bytes(),
        "stages": c.times.iter().map(|t| serde_json::json!({"stage": t.stage, "seconds": t.micros as f64 / 1e6})).collect::<Vec<_>>(),
    });
    if let Some(found) = &c.calibration {
        json["calibration"] = calibration::document(found);
    }
    (text, json)
}

/// Greatest resident memory of this process so far, in bytes; 0 where the system does not say.
pub fn peak_bytes() -> u64 {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return 0 };
    let kib = status
        .lines()
        .find_map(|l| l.strip_prefix("VmHWM:"))
        .and_then(|l| l.trim().split(' ').next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
fn peak_mib() -> u64 {
    peak_bytes() >> 20
}

fn options_json() -> serde_json::Value {
    let one = |d: &crate::options::Decl| {
        let mut v = serde_json::json!({"name": d.name, "default": d.default, "help": d.help});
        if let crate::options::Kind::OneOf(list) = d.kind {
            v["values"] = serde_json::json!(list);
        }
        v["expected"] = serde_json::json!(d.kind.refuse("\u{1}").unwrap_or_else(|| "text".into()));
        v
    };
    serde_json::json!({"schema": 1, "options": crate::options::TABLE.iter().map(one).collect::<Vec<_>>()})
}

fn help_options() -> String {
    let mut out = String::new();
    for d in crate::options::TABLE {
        let values = d.kind.refuse("\u{1}").unwrap_or_else(|| "text".into());
        let default = if d.default.is_empty() { "\"\"" } else { d.default };
        out.push_str(&format!("{}\n    {}\n    {values} [default: {default}]\n", d.name, d.help));
    }
    out
}
