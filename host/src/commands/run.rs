//! `ge run MODEL_OR_OM`: loads and runs a model, and writes and compares its outputs.
use super::compile::BuildFlags;
use super::inputs::shapes::Sizes;
use super::inputs::{DeviceFlags, Given, InputFlags, rank_dir, read_npy};
use super::numbers::{Element, Elements, place, words};
use super::{outputs, reduced, steps, tensors};
use crate::commands::flags::{CompileFlags, Global};
use crate::commands::talk::{print, print_json, say};
use crate::render::timeline::{self, Lane};
use crate::session::fresh;
use crate::session::import::{self, FileKind};
use crate::session::model::Item;
use crate::session::{Session, SessionOptions, read_om};
use crate::{Diagnostic, Error, ErrorKind, Result};
use clap::Args;
use ge_model::CompiledModel;
use ge_plugin::{Status, Want};
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::DType;
use ge_runtime::{LoadOptions, RunOptions, RunOutcome, Snapshot};
use std::path::{Path, PathBuf};
use std::time::Instant;

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  ge run model.om --inputs in --outputs out")]
pub struct RunArgs {
    /// A model or an OM file
    model: PathBuf,
    #[command(flatten)]
    flags: CompileFlags,
    #[command(flatten)]
    build: BuildFlags,
    #[command(flatten)]
    inputs: InputFlags,
    /// Folder for output_0.npy …
    #[arg(long, value_name = "DIR")]
    outputs: Option<PathBuf>,
    /// Folder with the outputs expected; differences are exit 1
    #[arg(long, value_name = "DIR")]
    expect: Option<PathBuf>,
    /// Relative tolerance of --expect [default: 1e-3, of whole numbers 0]
    #[arg(long)]
    rtol: Option<f64>,
    /// Absolute tolerance of --expect [default: 1e-5, of whole numbers 0]
    #[arg(long)]
    atol: Option<f64>,
    /// Ranks in this process; inputs in DIR/rank<k>
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    ranks: u32,
    #[command(flatten)]
    device: DeviceFlags,
    /// Priority of the model's streams on the device, 0 first
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=7))]
    stream_priority: Option<u32>,
    /// Variables start with the values of this file (safetensors)
    #[arg(long, value_name = "FILE")]
    restore_variables: Option<PathBuf>,
    /// Writes what variables hold after the run (safetensors)
    #[arg(long, value_name = "FILE")]
    save_variables: Option<PathBuf>,
    /// Runs so many steps, each on what the last one left (`ge compile --state`); DIR/step<k> may
    /// hold the inputs of one step
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with_all = ["expect", "profile", "dump_tensors", "check_numerics"])]
    steps: Option<u64>,
    /// Threads of the pool
    #[arg(long, visible_alias = "jobs", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Writes the timeline as Chrome trace JSON (open it in Perfetto)
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Writes what every node computed, as TENSOR.npy by the model's names, else as NODE_OUTPUT.npy
    #[arg(long, value_name = "DIR")]
    dump_tensors: Option<PathBuf>,
    /// Fails at the first node that computes a NaN or an infinity
    #[arg(long)]
    check_numerics: bool,
}

/// Runs the command.
pub fn run(global: &Global, a: &RunArgs) -> Result<u8> {
    super::stdin::with(&a.model, |model| run_model(global, a, model))
}

fn run_model(global: &Global, a: &RunArgs, model: &Path) -> Result<u8> {
    if let Some(n) = a.threads {
        ge_plugin::services::set_jobs(usize::from(n));
    }
    let ranks = a.ranks;
    // Ranks and steps share one compiled model but may have different inputs, so inputs cannot
    // specialise it.
    let given = a.inputs.given(global).filter(|_| ranks == 1 && a.steps.is_none());
    let target = Target { model, flags: &a.flags, build: &a.build, device: &a.device, given };
    let (session, compiled, _) = open(global, &target)?;
    crate::session::fits_group(&compiled, ranks)?;
    if let Some(steps) = a.steps {
        if ranks > 1 {
            return Err(Error::usage("--steps takes one rank"));
        }
        let asked = steps::Asked {
            steps,
            given: a.inputs.given(global),
            random: a.inputs.random,
            sizes: Sizes::asked(&a.flags)?,
            outputs: a.outputs.as_deref(),
            load: LoadOptions { rank_size: 1, priority: a.stream_priority, ..LoadOptions::default() },
            restore: a.restore_variables.as_deref(),
            save: a.save_variables.as_deref(),
        };
        return steps::run(global, &session, compiled, &asked, &write_some);
    }
    let mut models = Vec::new();
    let soc = compiled.soc.clone();
    let context = session.open_device(&soc)?;
    let group = std::process::id().into();
    let capture = a.check_numerics || a.dump_tensors.is_some();
    let options = RunOptions { profile: a.profile.is_some() };
    let start = Instant::now();
    for rank in 0..ranks {
        models.push(session.load_on(
            compiled.clone(),
            context.clone(),
            &LoadOptions {
                rank,
                rank_size: ranks,
                group,
                capture,
                priority: a.stream_priority,
                ..LoadOptions::default()
            },
        )?);
    }
    let loaded = start.elapsed();
    if ranks > 1 && (a.restore_variables.is_some() || a.save_variables.is_some()) {
        return Err(Error::usage(
            "--save-variables and --restore-variables take one rank: each rank has variables of its own",
        ));
    }
    if let Some(file) = &a.restore_variables {
        session.restore_all_variables(file)?;
    }
    let inputs: Vec<Vec<Item>> =
        (0..ranks).map(|r| a.inputs.items(global, &a.flags, &compiled, (r, ranks))).collect::<Result<_>>()?;
    let before = reduced::variables(&session, &compiled)?;
    let start = Instant::now();
    let results: Vec<Result<(RunOutcome, Vec<Item>)>> = if ranks == 1 {
        vec![models[0].run_items(&inputs[0], options)]
    } else {
        std::thread::scope(|s| {
            let handles: Vec<_> =
                models.iter().zip(&inputs).map(|(m, i)| s.spawn(move || m.run_items(i, options))).collect();
            handles
                .into_iter()
                .map(|h| h.join().unwrap_or_else(|_| Err(Error::internal("a rank's thread failed"))))
                .collect()
        })
    };
    let took = start.elapsed();
    let mut all = Vec::new();
    let mut reports = Vec::new();
    let mut parts = Vec::new();
    let mut hosted = Vec::new();
    let mut gear = None;
    for (rank, r) in results.into_iter().enumerate() {
        let (r, outputs) = r.map_err(|e| a.inputs.made_up(&compiled, e))?;
        let ran = models[rank].ran(&r);
        let finite = if a.check_numerics { tensors::check(ran, &r.captured) } else { Ok(()) };
        if let Some(dir) = &a.dump_tensors {
            tensors::dump(&rank_dir(dir, rank as u32, ranks), ran, r.captured, &outputs)?;
        }
        finite?;
        gear = r.gear.or(gear);
        all.push(outputs);
        reports.push(r.report);
        parts.extend(r.parts);
        hosted.extend(r.hosted);
    }
    if let Some(file) = &a.profile {
        let launch = |(k, p): (usize, &'_ ge_runtime::Part)| format!("launch {k} of `{}`", p.graph);
        let lanes: Vec<Lane<'_>> = if !parts.is_empty() || compiled.is_dynamic() {
            let named = parts.iter().enumerate().map(|(k, p)| (launch((k, p)), p));
            named.map(|(name, p)| Lane { name, model: p.model(), report: &p.report }).collect()
        } else {
            timeline::ranks(&compiled, &reports)
        };
        let mut trace = timeline::trace(&lanes);
        timeline::add_host(&mut trace, &hosted);
        if let Some(ran) = gear_json(&compiled, gear) {
            trace["otherData"]["gear"] = ran;
        }
        crate::files::write_atomic(file, format!("{trace}\n").as_bytes())?;
    }
    if let Some(file) = &a.save_variables {
        session.save_variables(file)?;
    }
    for (rank, outputs) in all.iter().enumerate() {
        if let Some(dir) = &a.outputs {
            write_outputs(&rank_dir(dir, rank as u32, ranks), outputs, &compiled)?;
        }
        if let Some(dir) = &a.expect {
            expect(&rank_dir(dir, rank as u32, ranks), outputs, &compiled, (a.rtol, a.atol))?;
        }
    }
    let warnings = warnings(global, (&session, &before), &compiled, &inputs, &all)?;
    // Number of streams of all ranks, and the device objects that they share.
    let asked: usize = models.iter().map(|m| m.device_streams().len()).sum();
    let pool = session.stream_pool();
    let streams = serde_json::json!({"of_models": asked, "objects": pool.len(), "created": pool.created(), "priority": a.stream_priority.unwrap_or(0)});
    let mut json = serde_json::json!({
        "schema": 1, "streams": streams, "model": compiled.name, "ranks": ranks, "warnings": warnings, "ext_attrs": ext_attrs(models.first())?, "load_ms": loaded.as_secs_f64() * 1e3, "run_ms": took.as_secs_f64() * 1e3,
        "outputs": compiled.outputs.iter().enumerate().map(|(k, o)| {
            // Sizes that the model leaves open are reported as in this run.
            let made = all.first().and_then(|r| r.get(k));
            outputs::output(o, made)
        }).collect::<Vec<_>>(),
    });
    if let Some(ran) = gear_json(&compiled, gear) {
        json["gear"] = ran;
    }
    if global.json {
        print_json(&json)?;
    } else if a.outputs.is_none() && a.expect.is_none() {
        print(&show_outputs(&all, &compiled))?;
    }
    say(
        global,
        &format!(
            "ran {}{} on {}: load {:.1} ms, run {:.2} ms",
            compiled.name,
            match (&compiled.gears, gear) {
                (Some(g), Some(k)) => format!(" ({})", g.shown(k)),
                (Some(_), None) =>
                    compiled.outside().map_or_else(String::new, |o| format!(" (sizes of no gear, by {})", o.name)),
                (None, _) => String::new(),
            },
            compiled.soc.name,
            loaded.as_secs_f64() * 1e3,
            took.as_secs_f64() * 1e3
        ),
    );
    Ok(0)
}

/// The gear that ran (index, sizes and graph), or the model for sizes outside the gears.
fn gear_json(m: &CompiledModel, gear: Option<usize>) -> Option<serde_json::Value> {
    let gears = m.gears.as_ref()?;
    let Some(k) = gear else {
        return m.outside().map(|o| serde_json::json!({"outside": o.name}));
    };
    let g = gears.list.get(k)?;
    let dims: serde_json::Map<String, serde_json::Value> =
        gears.dims.iter().zip(&g.sizes).map(|(d, n)| (d.clone(), serde_json::json!(n))).collect();
    Some(serde_json::json!({"index": k, "dims": dims, "graph": g.graph}))
}

/// Warns about outputs of a model in reduced types that are not finite although the inputs are, and
/// names the node to blame.
fn warnings(
    global: &Global,
    (session, before): (&Session, &Snapshot),
    m: &CompiledModel,
    inputs: &[Vec<Item>],
    outputs: &[Vec<Item>],
) -> Result<Vec<String>> {
    let mut told = Vec::new();
    if reduced::reason(m).is_none() {
        return Ok(told);
    }
    for (inputs, outputs) in inputs.iter().zip(outputs) {
        let tensors = |l: &[Item]| l.iter().map(|i| Some(copy_of(i.tensor()?))).collect::<Option<Result<Vec<_>>>>();
        // Only models that compute on the host have sequences.
        let (Some(inputs), Some(outputs)) = (tensors(inputs), tensors(outputs)) else { continue };
        let (inputs, outputs) = (&inputs?, &outputs?);
        let bad = reduced::not_finite(m, inputs, outputs);
        if bad.is_empty() {
            continue;
        }
        // A model of several ranks cannot be run again with one rank, so no node is blamed.
        let first =
            if told.is_empty() && m.rank_size <= 1 { reduced::blame(session, m, inputs, before)? } else { None };
        told.extend(reduced::warning(m, &bad, first.as_ref()));
    }
    told.dedup();
    told.iter().for_each(|w| say(global, &format!("warning: {w}")));
    Ok(told)
}

/// Extended attributes of nodes, as kept by the first rank's loader.
pub(super) fn ext_attrs(model: Option<&crate::session::Model>) -> Result<serde_json::Map<String, serde_json::Value>> {
    let all = model.map(crate::session::Model::ext_attrs).transpose()?.unwrap_or_default();
    let value = |attrs: ge_plugin_api::types::AttrMap| {
        attrs.sorted().into_iter().map(|a| (a.key.as_str().to_owned(), super::inspect::attr(&a.value))).collect()
    };
    Ok(all.into_iter().map(|(node, attrs)| (node, serde_json::Value::Object(value(attrs)))).collect())
}

/// What to run, and where.
pub struct Target<'a> {
    /// Path of a model or an OM file.
    pub model: &'a Path,
    /// Compilation options, used for a model.
    pub flags: &'a CompileFlags,
    /// Additional results of that compilation (dumps, bundle, checks).
    pub build: &'a BuildFlags,
    /// The device and its options.
    pub device: &'a DeviceFlags,
    /// Inputs that a model is compiled for.
    pub given: Option<Given<'a>>,
}

/// Opens a session and the compiled model; the flag tells whether it was compiled now. An OM is
/// used as it is, a model is compiled.
pub fn open(global: &Global, a: &Target<'_>) -> Result<(Session, CompiledModel, bool)> {
    let (device, device_options) = a.device.parse()?;
    let is_om = import::kind_of(&import::map(a.model)?) == FileKind::Om;
    if !is_om {
        let (_, compiled) =
            super::compile::compile_to_run(global, a.model, a.flags, a.build, device.clone(), a.given.as_ref())?;
        stops_nowhere(&compiled)?;
        let options = SessionOptions {
            plugins: global.plugins.clone(),
            device,
            device_options,
            want: Want::All,
            ..SessionOptions::default()
        };
        return Ok((Session::new(options)?, compiled.model, true));
    }
    let compiled = read_om(a.model)?;
    super::unused::check(global, a.model, (a.flags, a.build), &compiled)?;
    // Only the plugins that the OM needs are loaded: its engines, the run-time engine and devices.
    let mut names: Vec<String> = compiled.engines_needed().into_iter().map(str::to_owned).collect();
    names.push("DNN_VM_RTS".to_owned());
    // If the run settles sizes, every engine and every prototype may be asked.
    let open = compiled.is_dynamic() || compiled.outside().is_some();
    let want = if open { Want::All } else { Want::kinds(&["device"]).and(Want::providers(&names)) };
    let options =
        SessionOptions { plugins: global.plugins.clone(), device, device_options, want, ..SessionOptions::default() };
    let session = Session::new(options)?;
    engines_there(&session, &compiled)?;
    fresh::check(&compiled, session.registry())?;
    Ok((session, compiled, false))
}

/// If an engine is missing because its plugin was refused, fails with that refusal: this is what
/// the user must fix.
fn engines_there(session: &Session, m: &CompiledModel) -> Result<()> {
    let registry = session.registry();
    let needed = m.engines_needed();
    let Some(engine) = needed.iter().find(|e| !e.is_empty() && registry.engine(e).is_none()) else { return Ok(()) };
    let of_model = |name: &str| m.plugins.iter().any(|p| p.name == name);
    let refused = registry.plugins().iter().filter(|p| of_model(&p.name)).filter_map(|p| match &p.status {
        Status::Refused(e) => Some(e.diagnostics.to_vec()),
        _ => None,
    });
    let node = m.graphs.iter().flat_map(|g| &g.nodes).find(|n| n.engine == *engine);
    let who = node.map_or_else(String::new, |n| format!(" for `{}` ({})", n.name, n.op));
    let told: Vec<Diagnostic> =
        refused.flatten().map(|d| d.note(format!("the model needs engine {engine}{who}"))).collect();
    if told.is_empty() { Ok(()) } else { Err(Error::all(ErrorKind::PLUGIN, told)) }
}

/// A build that stops for tuning gives no model to run.
fn stops_nowhere(c: &crate::session::Compiled) -> Result<()> {
    match &c.stopped {
        None => Ok(()),
        Some(s) => Err(Error::usage(format!("`ge.buildMode=tuning` stopped at {}: there is no model to run", s.step))),
    }
}

fn copy_of(t: &HostTensor) -> Result<HostTensor> {
    HostTensor::from_bytes(t.dtype, &t.dims, t.bytes())
}

fn write_outputs(dir: &Path, outputs: &[Item], m: &CompiledModel) -> Result<()> {
    let tensors = outputs.iter().enumerate().filter_map(|(k, i)| Some((k, i.tensor()?)));
    write_some(dir, &tensors.collect::<Vec<_>>(), m)?;
    outputs::write(dir, outputs)
}

/// Writes outputs, named by their index.
fn write_some(dir: &Path, outputs: &[(usize, &HostTensor)], m: &CompiledModel) -> Result<()> {
    let fail = |p: &Path, e: std::io::Error| Error::failed(format!("cannot write `{}`: {e}", p.display()));
    std::fs::create_dir_all(dir).map_err(|e| fail(dir, e))?;
    for (k, t) in outputs {
        let Some(o) = m.outputs.get(*k) else { continue };
        let path = dir.join(format!("output_{k}.npy"));
        let bytes = ge_runtime::npy::write(t).ok_or_else(|| outputs::no_form(&format!("output `{}`", o.name), t))?;
        std::fs::write(&path, bytes).map_err(|e| {
            let _ = std::fs::remove_file(&path);
            fail(&path, e)
        })?;
    }
    Ok(())
}

fn expect(dir: &Path, outputs: &[Item], m: &CompiledModel, given: (Option<f64>, Option<f64>)) -> Result<()> {
    let mut bad = Vec::new();
    let mut all: Vec<(String, &HostTensor, HostTensor)> = Vec::new();
    for (k, (i, o)) in outputs.iter().zip(&m.outputs).enumerate() {
        match i {
            Item::Tensor(t) => {
                all.push((o.name.clone(), t, read_npy(&dir.join(format!("output_{k}.npy")), t.dtype)?));
            }
            other => match outputs::expected(dir, k, other, o)? {
                Ok(list) => all.extend(list),
                Err(d) => bad.push(d),
            },
        }
    }
    for (name, t, want) in &all {
        if want.dims != t.dims {
            bad.push(
                Diagnostic::error(format!("output `{name}` has another shape"))
                    .code(ge_codes::OTHER_SHAPE)
                    .found(format!("{:?}", t.dims), format!("{:?}", want.dims)),
            );
            continue;
        }
        if t.dtype == DType::STRING {
            bad.extend(outputs::other_text(name, t, want));
            continue;
        }
        // Integers must match exactly: a token id that is off by one is another token.
        let (near, least) = if t.dtype.is_int() || t.dtype == DType::BOOL { (0.0, 0.0) } else { (1e-3, 1e-5) };
        let (rtol, atol) = (given.0.unwrap_or(near), given.1.unwrap_or(least));
        if let Some((at, found, expected)) = worst(t, want, rtol, atol) {
            bad.push(
                Diagnostic::error(format!("output `{name}` differs most at {}", place(t.dtype, at)))
                    .code(ge_codes::OTHER_VALUES)
                    .found(found.word(t.dtype), format!("{0} within {atol} + {rtol} * |{0}|", expected.word(t.dtype))),
            );
        }
    }
    if bad.is_empty() { Ok(()) } else { Err(Error::all(ErrorKind::FAILED, bad)) }
}

/// The number that exceeds its tolerance most, if any does.
fn worst(t: &HostTensor, want: &HostTensor, rtol: f64, atol: f64) -> Option<(usize, Element, Element)> {
    let (a, b) = (Elements::of(t), Elements::of(want));
    let mut out: Option<(usize, Element, Element)> = None;
    let mut most = 0.0;
    for (i, (x, y)) in a.iter().zip(b.iter()).enumerate() {
        let over = x.apart(y) - (atol + rtol * y.real().abs());
        let over = if over.is_nan() { f64::INFINITY } else { over };
        if !x.is(y) && over > most {
            most = over;
            out = Some((i, x, y));
        }
    }
    out
}

fn show_outputs(all: &[Vec<Item>], m: &CompiledModel) -> String {
    let mut text = String::new();
    for (rank, outputs) in all.iter().enumerate() {
        let who = if all.len() > 1 { format!("rank {rank} ") } else { String::new() };
        for (i, o) in outputs.iter().zip(&m.outputs) {
            match i {
                Item::Tensor(t) => text.push_str(&format!("{who}{}: {}\n", o.name, shown(t))),
                Item::Nothing => text.push_str(&format!("{who}{}: nothing\n", o.name)),
                Item::Sequence(l) => {
                    text.push_str(&format!("{who}{}: a sequence of {}\n", o.name, l.len()));
                    let lines = l.iter().enumerate().map(|(k, t)| format!("{who}{}[{k}]: {}\n", o.name, shown(t)));
                    text.extend(lines);
                }
            }
        }
    }
    text
}

/// Type, sizes and first elements of a tensor.
fn shown(t: &HostTensor) -> String {
    const MOST: usize = 8;
    let (all, count) = match ge_runtime::npy_text::texts(t).filter(|_| t.dtype == DType::STRING) {
        Some(texts) => {
            let word = |b: &&[u8]| format!("{:?}", String::from_utf8_lossy(b));
            (texts.iter().take(MOST).map(word).collect(), texts.len())
        }
        None => (words(t, MOST), usize::try_from(t.dims.iter().product::<u64>()).unwrap_or(usize::MAX)),
    };
    let more = if count > MOST { format!(" … {} more", count - MOST) } else { String::new() };
    // Sizes that the model leaves open are shown as in this run.
    let shape = ge_plugin_api::types::Shape::of(&t.dims);
    format!("{}{shape} = {}{more}", t.dtype, all.join(" "))
}
