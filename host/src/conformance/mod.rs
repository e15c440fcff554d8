//! The part of `ge plugin check` that compiles and runs: it loads the plugin together with those of
//! the configuration in use. It runs nodes of the plugin's engines under guard, compares them with
//! another engine, and checks that small graphs give the same numbers with and without the plugin.

/// Checks of kernels that engines run on the host.
mod hosts;
/// Checks of the nodes that mappings make.
mod mappings;
/// Sample nodes of one operator, with many shapes and types.
mod samples;
/// Running and comparing samples and graphs.
mod runs;

use crate::session::{Session, SessionOptions};
use crate::{Error, Result};
use ge_plugin::config::{Config, Entry};
use ge_plugin::conformance::{Found, Probe, Rule, alone};
use ge_plugin::{EngineHandle, OpHandle, PluginSet, Registry, Want};
use ge_plugin_api::engine::flags;
use ge_plugin_api::ops::flags as op_flags;
use runs::{Runs, Tried};
use samples::Sample;
use std::collections::BTreeMap;
use std::path::Path;

/// Maximum number of samples of one operator on one engine.
const SAMPLES: usize = 5;
/// Maximum number of candidates examined for them, and of those compiled without success.
const CANDIDATES: usize = 600;
const IN_VAIN: usize = 40;

/// Runs the checks for the library `path` of plugin `name`. `config`: the configuration file, if
/// one was named.
pub fn probe(name: &str, path: &Path, config: Option<&Path>, probe: &mut Probe) {
    let beside = match beside(name, path, config) {
        Ok(b) => b,
        // Errors of the other plugins are not the fault of the plugin under check.
        Err(e) => {
            probe.item(Rule::C11, "beside the plugins in use", || Ok(format!("not run: {e}")));
            return;
        }
    };
    for (info, mapping) in alone(name, path).iter().flat_map(Registry::all_mappings) {
        let subject = format!("mapping {} of {}, what it makes", info.op, info.domain);
        probe.item(Rule::C8, &subject, || mappings::made(&beside.with, info, *mapping));
    }
    let engines = beside.with.engines().iter().filter(|e| e.owner().name == name);
    let runs = Runs::new(&beside, name);
    for e in engines.filter(|e| runs_alone(e)) {
        for op in e.op_types().unwrap_or_default() {
            let takes = beside.with.op(&op).is_some_and(|o| comparable(o.proto.flags));
            if takes {
                let mut ran = None;
                let name = format!("kernels of {} for {op}", e.name());
                let right = probe.item(Rule::C11, &name, || one(&runs, e, &op, &mut ran));
                if let (true, Some((handle, sample))) = (right, ran) {
                    let stop = || runs.cancelled(e, handle, &sample).map(|()| String::new());
                    probe.item(Rule::C10, &format!("{name}, cancelled"), stop);
                }
            }
        }
    }
    for e in beside.with.engines().iter().filter(|e| e.owner().name == name) {
        let ops = beside.with.ops().iter().filter(|o| comparable(o.proto.flags) && e.has_host_kernel(o.name()));
        for op in ops {
            let subject = format!("host kernel of {} for {}", e.name(), op.name());
            probe.item(Rule::C16, &subject, || several(op, |sample, _| hosts::sample(&runs, e, op, sample)));
        }
    }
    if beside.with.passes().iter().any(|p| p.owner().name == name)
        || beside.with.engines().iter().any(|e| e.owner().name == name)
    {
        for (what, graph) in runs::GRAPHS {
            probe.item(Rule::C12, &format!("graph {what}"), || runs.graph(graph).map(|()| String::new()));
        }
    }
}

/// Whether the engine launches tasks that need nothing but their node.
fn runs_alone(e: &EngineHandle) -> bool {
    let apart = [flags::NO_TASK, flags::STRUCTURAL, flags::COMPOSITE, flags::INDEPENDENT, flags::HOST_RUNTIME];
    !apart.iter().any(|f| e.has(*f))
}

/// Whether an operator gives the same numbers each time and has no side effects.
fn comparable(op: u64) -> bool {
    let apart = op_flags::RANDOM
        | op_flags::STATEFUL
        | op_flags::REFERENCE
        | op_flags::REFERENCE_1
        | op_flags::REFERENCE_2
        | op_flags::COMMUNICATION
        | op_flags::NAMES_INPUT;
    op & apart == 0
}

/// Runs samples of one operator on one engine. `ran` receives the first sample that ran.
fn one<'r>(runs: &Runs<'r>, e: &EngineHandle, op: &str, ran: &mut Option<(&'r OpHandle, Sample)>) -> Found {
    let Some(handle) = runs.beside.with.op(op) else { return Ok(String::new()) };
    several(handle, |sample, first| {
        let tried = runs.sample(e, handle, sample, first)?;
        if matches!(tried, Tried::Alone | Tried::Against(_)) {
            ran.get_or_insert_with(|| (handle, sample.clone()));
        }
        Ok(tried)
    })
}

/// Tries samples of an operator until enough have run, and reports what they were compared with.
/// `tried` is also told whether no sample has run yet.
fn several(op: &OpHandle, mut tried: impl FnMut(&Sample, bool) -> core::result::Result<Tried, String>) -> Found {
    let (mut ran, mut in_vain) = (0, 0);
    let mut against: BTreeMap<String, usize> = BTreeMap::new();
    for sample in samples::of(&op.proto).take(CANDIDATES) {
        match tried(&sample, ran == 0)? {
            Tried::NotTaken => continue,
            Tried::InVain => {
                in_vain += 1;
                if in_vain == IN_VAIN {
                    break;
                }
                continue;
            }
            Tried::Alone => *against.entry("nothing".to_owned()).or_default() += 1,
            Tried::Against(engine) => *against.entry(engine).or_default() += 1,
        }
        ran += 1;
        if ran == SAMPLES {
            break;
        }
    }
    let list: Vec<String> = against.iter().map(|(e, n)| format!("{n} against {e}")).collect();
    Ok(if ran == 0 { "no sample is one that it takes".to_owned() } else { list.join(", ") })
}

/// The plugins of a configuration, with and without the plugin under check.
pub(crate) struct Beside {
    /// The registry that includes the plugin.
    pub with: Registry,
    /// The configuration of `with`.
    config: Config,
    without: Config,
}

impl Beside {
    /// Opens a session for a SoC. If `guarded`, blocks run one at a time, between guard pages.
    pub fn session(&self, with: bool, soc: Option<&str>, guarded: bool) -> Result<Session> {
        let registry = PluginSet::load_config(if with { &self.config } else { &self.without }, &Want::All)?;
        let device_options = if guarded { vec![("check_races".to_owned(), "full".to_owned())] } else { Vec::new() };
        let options = SessionOptions {
            soc: soc.map(str::to_owned),
            device: Some(("sim".to_owned(), 0)),
            device_options,
            ..SessionOptions::default()
        };
        Ok(Session::with(registry, options))
    }
}

/// The configuration in use, with the library in place of the plugin's own entry.
fn beside(name: &str, path: &Path, config: Option<&Path>) -> Result<Beside> {
    let mut config = Config::read(&ge_plugin::config::find(config)?)?;
    let mut without = config.clone();
    // A plugin that is part of the configuration is needed by the others, so it stays in `without`.
    if let Some(e) = config.entries.iter_mut().find(|e| e.name == name) {
        e.path = Some(path.to_owned());
        (e.sha256, e.enabled) = (None, true);
        e.options.clear();
        without = config.clone();
    } else {
        config.entries.push(Entry::of(name, path));
    }
    let with = PluginSet::load_config(&config, &Want::All)?;
    if with.device("sim").is_none() {
        return Err(Error::failed("no plugin brings the device `sim`, on which samples run"));
    }
    Ok(Beside { with, config, without })
}
