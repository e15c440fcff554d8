//! `ge run OM --steps N`: runs a model with state or variables several times, each run on what the
//! previous one left (`ge compile --state`).
use super::inputs::shapes::Sizes;
use super::inputs::{Given, defaults, gather};
use super::run::ext_attrs;
use crate::commands::flags::Global;
use crate::commands::talk::{print_json, say};
use crate::session::model::fixed_value;
use crate::session::steps::{Steps, of};
use crate::session::{Model, Session};
use crate::{Error, Result};
use ge_model::CompiledModel;
use ge_plugin_api::kernel::HostTensor;
use ge_runtime::{LoadOptions, RunOptions};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Parameters of the steps.
pub struct Asked<'a> {
    /// Number of steps.
    pub steps: u64,
    /// Inputs of all steps, and initial values of the state. The folder may have subfolders
    /// `step<k>` with inputs of one step; what they lack comes from the folder itself.
    pub given: Option<Given<'a>>,
    /// Sizes of random inputs where the model leaves them open.
    pub sizes: Sizes,
    /// Seed of random inputs; `None`: the inputs are given.
    pub random: Option<u64>,
    /// Folder for the outputs of each step: `step<k>/output_<i>.npy`.
    pub outputs: Option<&'a Path>,
    /// Options for loading the model.
    pub load: LoadOptions,
    /// File with the values of variables before the first step.
    pub restore: Option<&'a Path>,
    /// File to write the values of variables to after the last step.
    pub save: Option<&'a Path>,
}

/// Runs the steps and reports the result. `write` stores the outputs of one step in a folder.
///
/// # Errors
/// Fails if the model has no state, if inputs are missing, or if a run fails.
pub fn run(
    global: &Global,
    session: &Session,
    compiled: CompiledModel,
    a: &Asked<'_>,
    write: &dyn Fn(&Path, &[(usize, &HostTensor)], &CompiledModel) -> Result<()>,
) -> Result<u8> {
    of(&compiled)?;
    let context = session.open_device(&compiled.soc.clone())?;
    let start = Instant::now();
    let model = session.load_on(compiled, context, &a.load)?;
    let loaded = start.elapsed();
    let info = model.info();
    if let Some(file) = a.restore {
        session.restore_all_variables(file)?;
    }
    let mut steps = Steps::new(&model)?;
    let start = Instant::now();
    let mut last: Vec<Option<HostTensor>> = Vec::new();
    for k in 0..a.steps {
        let others = inputs(&model, &mut steps, a, k)?;
        let (outputs, _) = steps.step(others, RunOptions::default())?;
        if let Some(dir) = a.outputs {
            let held = steps.state()?;
            let state = steps.pairs().iter().map(|p| p.output).zip(&held);
            let mut all: Vec<(usize, &HostTensor)> =
                outputs.iter().enumerate().filter_map(|(i, t)| Some((i, t.as_ref()?))).chain(state).collect();
            all.sort_by_key(|o| o.0);
            write(&dir.join(format!("step{k}")), &all, info)?;
        }
        last = outputs;
    }
    let took = start.elapsed().as_secs_f64() * 1e3;
    if let Some(file) = a.save {
        session.save_variables(file)?;
    }
    let held = steps.info();
    let state: Vec<serde_json::Value> = steps
        .pairs()
        .iter()
        .zip(&held)
        .map(|(p, t)| {
            let (o, i) = (&info.outputs[p.output].name, &info.inputs[p.input].name);
            let bytes = t.dtype.bytes_of(t.dims.iter().product());
            serde_json::json!({"output": o, "input": i, "shape": t.dims, "bytes": bytes, "room": t.room})
        })
        .collect();
    let outputs: Vec<serde_json::Value> = last
        .iter()
        .enumerate()
        .filter_map(|(k, t)| {
            let t = t.as_ref()?;
            Some(serde_json::json!({"name": info.outputs[k].name, "dtype": t.dtype.name(), "shape": t.dims.to_vec()}))
        })
        .collect();
    if global.json {
        print_json(&serde_json::json!({
            "schema": 1, "model": info.name, "ranks": 1, "ext_attrs": ext_attrs(Some(&model))?,
            "load_ms": loaded.as_secs_f64() * 1e3, "steps": steps.taken(), "run_ms": took, "copied_inputs": steps.copied_inputs(),
            "copied_state_bytes": steps.copied_state_bytes(),
            "plans": model.plans(), "state": state, "outputs": outputs,
        }))?;
    }
    let (taken, inputs, bytes) = (steps.taken(), steps.copied_inputs(), steps.copied_state_bytes());
    let mut text = format!("ran {taken} steps of {}: {took:.2} ms, {inputs} inputs copied", info.name);
    let grown = held.iter().filter(|t| t.room.is_some()).count();
    if grown > 0 {
        text += &format!(", {grown} of {} states grow in place: {bytes} bytes of them copied", held.len());
    }
    say(global, &text);
    Ok(0)
}

/// The inputs of a step that are not state. Before the first step, given state is set.
fn inputs(model: &Model, steps: &mut Steps<'_>, a: &Asked<'_>, step: u64) -> Result<Vec<HostTensor>> {
    let info = model.info();
    let whole: Vec<Option<HostTensor>> = if let Some(seed) = a.random {
        let all = a.sizes.inputs(info, seed.wrapping_add(step))?;
        all.into_iter().enumerate().map(|(k, t)| (!steps.carries(k)).then_some(t)).collect()
    } else {
        let own: Option<PathBuf> =
            a.given.and_then(|g| Some(g.dir?.join(format!("step{step}")))).filter(|d| d.is_dir());
        match (&a.given, own) {
            (Some(g), own) => {
                let dir = own.as_deref().or(g.dir);
                let given = Given { dir, ..*g };
                let mut all = given.some(&defaults::wanted(info, &given)?)?;
                // What the step's own folder lacks comes from the folder of all steps.
                let lacks = |(k, t): (usize, &Option<HostTensor>)| t.is_none() && (step == 0 || !steps.carries(k));
                if own.is_some() && all.iter().enumerate().any(lacks) {
                    let of_all = g.some(&defaults::wanted(info, g)?)?;
                    all.iter_mut().zip(of_all).for_each(|(t, of_all)| *t = t.take().or(of_all));
                }
                for (k, value) in info.default_inputs() {
                    if let Some(t) = all.get_mut(k).filter(|t| t.is_none() && !steps.carries(k)) {
                        *t = Some(fixed_value(value)?);
                    }
                }
                all
            }
            (None, _) if (0..info.inputs.len()).all(|k| steps.carries(k)) => vec![None; 0],
            (None, _) => {
                // This reports which inputs are missing, as a single run does.
                return gather(info, &Given { dir: None, by_name: &Default::default(), plugins: None });
            }
        }
    };
    let mut others = Vec::new();
    for (k, t) in whole.into_iter().enumerate() {
        match t {
            Some(t) if steps.carries(k) => {
                if step == 0 {
                    steps.set(k, t)?;
                }
            }
            Some(t) => others.push(t),
            None if steps.carries(k) => {}
            None => {
                let name = &info.inputs[k].name;
                return Err(Error::usage(format!("step {step}: input `{name}` is not given")));
            }
        }
    }
    Ok(others)
}
