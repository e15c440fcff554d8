//! Collects everything that a plugin provides, once after it starts, and validates it against the
//! manifest.
//!
//! The objects live as long as the process (libraries are never unloaded), so they are kept by
//! reference.
use crate::manifest::Manifest;
use ge_plugin_api::abi::root::PluginRef;
use ge_plugin_api::device::{DeviceInfo, DeviceObject};
use ge_plugin_api::diagnostic::{Diagnostic, ErrorKind};
use ge_plugin_api::engine::{EngineInfo, EngineObject};
use ge_plugin_api::frontend::{FrontendObject, MappingInfo, MappingObject, MappingRef};
use ge_plugin_api::ops::{OpProto, OpSetObject, ParamKind};
use ge_plugin_api::pass::{PassInfo, PassLevel, PassObject, PassStage};
use ge_plugin_api::{Error, Result};
use std::collections::{BTreeSet, HashMap};
use std::fmt::Arguments;
use std::sync::Arc;

/// Everything that a plugin provides.
pub struct Contents {
    /// Engines with their descriptions. Plugins in Rust give them sorted by name.
    pub engines: Vec<(EngineInfo, &'static EngineObject)>,
    /// Prototypes, each with its set and its index in the set.
    pub ops: Vec<(Arc<OpProto>, &'static OpSetObject, usize)>,
    /// Front ends, with their frameworks.
    pub frontends: Vec<(String, &'static FrontendObject)>,
    /// Mappings, with their descriptions.
    pub mappings: Vec<(MappingInfo, MappingRef)>,
    /// Passes, with their descriptions.
    pub passes: Vec<(PassInfo, &'static PassObject)>,
    /// Devices, with their descriptions.
    pub devices: Vec<(DeviceInfo, &'static DeviceObject)>,
}

/// What a library returned, not yet validated.
#[derive(Default)]
pub(crate) struct Given {
    pub engines: Vec<EngineObject>,
    pub ops: Vec<OpSetObject>,
    pub frontends: Vec<FrontendObject>,
    pub mappings: Vec<MappingObject>,
    pub passes: Vec<PassObject>,
    pub devices: Vec<DeviceObject>,
}

/// The error for a started plugin that failed to return a part of its contents.
fn failed(m: &Manifest, what: &'static str) -> impl Fn(Error) -> Error {
    move |e| ge_codes::START.error(format!("plugin `{}` {} failed to give its {what}: {e}", m.name, m.version))
}

impl Given {
    /// Asks the root module for everything.
    ///
    /// # Errors
    /// Returns `GE-E0516` if a call fails or panics.
    pub(crate) fn by(root: PluginRef, m: &Manifest) -> Result<Given> {
        Ok(Given {
            engines: (root.engines())().into_result().map_err(failed(m, "engines"))?.into(),
            ops: (root.ops())().into_result().map_err(failed(m, "operators"))?.into(),
            frontends: (root.frontends())().into_result().map_err(failed(m, "front ends"))?.into(),
            mappings: (root.mappings())().into_result().map_err(failed(m, "mappings"))?.into(),
            passes: (root.passes())().into_result().map_err(failed(m, "passes"))?.into(),
            devices: (root.devices())().into_result().map_err(failed(m, "devices"))?.into(),
        })
    }
}

/// Number of names up to which they are compared one by one.
const FEW: usize = 16;

fn forever<T>(x: T) -> &'static T {
    Box::leak(Box::new(x))
}

impl Contents {
    /// Takes everything that a started plugin returned.
    ///
    /// # Errors
    /// Returns `GE-E0516` if a call fails or panics, `GE-E0517` with every contradiction between
    /// the manifest and the contents.
    pub(crate) fn collect(given: Given, m: &Manifest) -> Result<Contents> {
        let failed = |what: &'static str| failed(m, what);
        let mut c = Contents {
            engines: Vec::new(),
            ops: Vec::new(),
            frontends: Vec::new(),
            mappings: Vec::new(),
            passes: Vec::new(),
            devices: Vec::new(),
        };
        for e in given.engines {
            let e = forever(e);
            c.engines.push((e.info().map_err(failed("engines"))?, e));
        }
        for set in given.ops {
            let set = forever(set);
            let protos = set.protos().map_err(failed("operators"))?;
            c.ops.extend(protos.into_iter().enumerate().map(|(i, p)| (Arc::new(p), set, i)));
        }
        for f in given.frontends {
            let f = forever(f);
            c.frontends.push((f.framework().map_err(failed("front ends"))?, f));
        }
        for x in given.mappings {
            let x = x.leak();
            c.mappings.push((x.info().map_err(failed("mappings"))?, x));
        }
        for p in given.passes {
            let p = forever(p);
            c.passes.push((p.info().map_err(failed("passes"))?, p));
        }
        for d in given.devices {
            let d = forever(d);
            c.devices.push((d.info().map_err(failed("devices"))?, d));
        }
        c.validate(m)?;
        Ok(c)
    }

    /// Checks the contents against the manifest.
    fn validate(&self, m: &Manifest) -> Result<()> {
        let mut lies: Vec<Diagnostic> = Vec::new();
        let who = format!("plugin `{}` {}", m.name, m.version);
        let mut say = |what: String, found: String, expected: String| {
            let d = ge_codes::LIES.say(format!("{who} {what}"));
            let d = if found.is_empty() { d } else { d.found(found, expected) };
            lies.push(d.help("rebuild it, or ask its maker"));
        };
        let mut gives: BTreeSet<&str> = BTreeSet::new();
        for (what, names) in [
            ("engine", self.engines.iter().map(|e| e.0.name.as_str()).collect::<Vec<_>>()),
            ("front end", self.frontends.iter().map(|f| f.0.as_str()).collect()),
            ("device", self.devices.iter().map(|d| d.0.name.as_str()).collect()),
        ] {
            for n in names {
                if n.is_empty() {
                    say(format!("gives {what} without a name"), String::new(), String::new());
                } else if !gives.insert(n) {
                    say(format!("gives {what} `{n}` twice"), String::new(), String::new());
                } else if !m.provides.iter().any(|p| p == n) {
                    say(format!("gives {what} `{n}`, which its manifest does not name"), n.into(), list(&m.provides));
                }
            }
        }
        // A manifest may name passes but need not: no command looks for a library by its passes.
        for pass in &self.passes {
            gives.insert(pass.0.name.as_str());
        }
        for p in &m.provides {
            if !gives.contains(p.as_str()) {
                let found: Vec<&str> = gives.iter().copied().collect();
                say(format!("does not give `{p}`, which its manifest names"), list(&found), p.clone());
            }
        }
        for (kind, count) in [
            ("engine", self.engines.len()),
            ("ops", self.ops.len()),
            ("frontend", self.frontends.len() + self.mappings.len()),
            ("pass", self.passes.len()),
            ("device", self.devices.len()),
        ] {
            match (m.kinds.iter().any(|k| k == kind), count) {
                (true, 0) => say(
                    format!("says it is of kind `{kind}`, but registers nothing of it"),
                    String::new(),
                    String::new(),
                ),
                (false, n) if n > 0 => say(
                    format!("gives {n} of kind `{kind}`, which its manifest does not name"),
                    kind.into(),
                    list(&m.kinds),
                ),
                _ => {}
            }
        }
        let unnamed = |names: Vec<&str>, what: Arguments<'_>, say: &mut dyn FnMut(String, String, String)| {
            let mut seen = BTreeSet::new();
            for (i, n) in names.iter().enumerate() {
                // A few names are compared faster than they are sorted.
                let again = if names.len() <= FEW { names[..i].contains(n) } else { !seen.insert(*n) };
                if n.is_empty() {
                    say(format!("gives {what} without a name"), String::new(), String::new());
                } else if again {
                    say(format!("gives {what} `{n}` twice"), String::new(), String::new());
                }
            }
        };
        unnamed(self.ops.iter().map(|o| o.0.name.as_str()).collect(), format_args!("an operator"), &mut say);
        unnamed(self.passes.iter().map(|o| o.0.name.as_str()).collect(), format_args!("a pass"), &mut say);
        for (p, ..) in &self.ops {
            let op = p.name.as_str();
            for (names, what) in [
                (p.inputs.iter().map(|i| i.name.as_str()).collect::<Vec<_>>(), "input"),
                (p.outputs.iter().map(|i| i.name.as_str()).collect(), "output"),
                (p.attrs.iter().map(|i| i.name.as_str()).collect(), "attribute"),
            ] {
                unnamed(names, format_args!("an {what} of operator `{op}`"), &mut say);
            }
        }
        let stages: Vec<&str> = PassStage::ALL.iter().map(|s| s.name()).collect();
        let levels: Vec<&str> = PassLevel::ALL.iter().map(|l| l.name()).collect();
        for (p, _) in &self.passes {
            if p.stage.known_name().is_none() {
                say(
                    format!("gives pass `{}` for a stage that there is not", p.name),
                    p.stage.to_string(),
                    list(&stages),
                );
            }
            if p.level.known_name().is_none() {
                say(format!("gives pass `{}` a level that there is not", p.name), p.level.to_string(), list(&levels));
            }
        }
        for (p, ..) in self.ops.iter().filter(|o| o.0.inputs.iter().all(|i| i.kind != ParamKind::DYNAMIC)) {
            if let Some(k) = p.value_inputs.iter().find(|k| **k as usize >= p.inputs.len()) {
                let what = format!("says that operator `{}` reads the value of an input that it does not have", p.name);
                say(what, format!("input {k}"), format!("below {}", p.inputs.len()));
            }
        }
        let mut before = ByOperator::default();
        for (a, _) in &self.mappings {
            if a.framework.is_empty() || a.op.is_empty() || a.since > a.until {
                say(format!("gives a mapping of `{}` that holds for nothing", a.op), String::new(), String::new());
            }
            if before.has_one_like(a) {
                say(format!("maps `{}` of {} twice", a.op, a.domain), String::new(), String::new());
            }
            before.add(a);
        }
        for (d, _) in &self.devices {
            if !d.socs.contains(&d.default_soc) {
                say(
                    format!("gives device `{}` whose default SoC it does not describe", d.name),
                    d.default_soc.to_string(),
                    list(&d.socs),
                );
            }
        }
        if lies.is_empty() { Ok(()) } else { Err(Error::all(ErrorKind::PLUGIN, lies)) }
    }
}

fn list<S: AsRef<str>>(names: &[S]) -> String {
    if names.is_empty() {
        return "nothing".into();
    }
    names.iter().map(|n| n.as_ref().to_owned()).collect::<Vec<_>>().join(", ")
}

/// Mappings, grouped by operator.
#[derive(Default)]
pub(crate) struct ByOperator<'a>(HashMap<&'a str, Vec<&'a MappingInfo>>);

impl<'a> ByOperator<'a> {
    /// Whether one of them has the same operator and a version in common.
    pub fn has_one_like(&self, m: &MappingInfo) -> bool {
        self.0.get(m.op.as_str()).is_some_and(|of| of.iter().any(|b| overlap(m, b)))
    }
    pub fn add(&mut self, m: &'a MappingInfo) {
        self.0.entry(m.op.as_str()).or_default().push(m);
    }
}

/// Whether two mappings have the same operator and a version in common.
fn overlap(a: &MappingInfo, b: &MappingInfo) -> bool {
    a.framework == b.framework && a.domain == b.domain && a.op == b.op && a.since <= b.until && b.since <= a.until
}
