//! Loads the plugins of a configuration into a registry: find, inspect, check, open, start, join.
use crate::collect::{ByOperator, Contents};
use crate::config::{At, Config, Entry, find};
use crate::crash::{self, Call};
use crate::digest::hex;
use crate::elf;
use crate::handle::{DeviceHandle, EngineHandle, FrontendHandle, OpHandle, PassHandle};
use crate::manifest::{Abi, Manifest};
use crate::open::open;
use crate::options;
use crate::owner::Owner;
use crate::registry::{PluginRecord, Registry, Status};
use crate::services::{self, Offer};
use ge_plugin_api::diagnostic::{Diagnostic, ErrorKind, Severity};
use ge_plugin_api::types::Key;
use ge_plugin_api::view::Node;
use ge_plugin_api::{Error, Result};
use rayon::prelude::*;
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Which plugins are opened. All of them are inspected.
#[derive(Clone, Debug, Default)]
pub enum Want {
    /// All enabled plugins.
    #[default]
    All,
    /// Plugins that have one of the kinds, provide one of the names, or are listed by name.
    Only {
        /// Kinds (`ops`, `frontend`, `pass` …).
        kinds: Vec<String>,
        /// Names of engines, front ends and devices.
        provides: Vec<String>,
        /// Names of plugins.
        plugins: Vec<String>,
    },
    /// No plugin; only manifests are read.
    Nothing,
}

impl Want {
    /// Plugins of these kinds.
    pub fn kinds(kinds: &[&str]) -> Want {
        Want::Only { kinds: kinds.iter().map(|k| (*k).to_owned()).collect(), provides: Vec::new(), plugins: Vec::new() }
    }
    /// Plugins that provide one of these names (engines, front ends, devices).
    pub fn providers<S: AsRef<str>>(names: &[S]) -> Want {
        Want::Only {
            kinds: Vec::new(),
            provides: names.iter().map(|k| k.as_ref().to_owned()).collect(),
            plugins: Vec::new(),
        }
    }
    /// Plugins with these names.
    pub fn plugins<S: AsRef<str>>(names: &[S]) -> Want {
        Want::Only {
            kinds: Vec::new(),
            provides: Vec::new(),
            plugins: names.iter().map(|k| k.as_ref().to_owned()).collect(),
        }
    }
    /// Plugins that either of the two wants.
    pub fn and(self, other: Want) -> Want {
        match (self, other) {
            (Want::All, _) | (_, Want::All) => Want::All,
            (Want::Nothing, w) | (w, Want::Nothing) => w,
            (Want::Only { mut kinds, mut provides, mut plugins }, Want::Only { kinds: k, provides: e, plugins: p }) => {
                kinds.extend(k);
                provides.extend(e);
                plugins.extend(p);
                Want::Only { kinds, provides, plugins }
            }
        }
    }
    fn takes(&self, m: &Manifest) -> bool {
        match self {
            Want::All => true,
            Want::Nothing => false,
            Want::Only { kinds, provides, plugins } => {
                m.kinds.iter().any(|k| kinds.contains(k))
                    || m.provides.iter().any(|p| provides.contains(p))
                    || plugins.contains(&m.name)
            }
        }
    }
}

/// What to load.
#[derive(Clone, Debug, Default)]
pub struct LoadRequest {
    /// The configuration file that the user names (`--plugins`); `None` to search for one.
    pub config: Option<PathBuf>,
    /// Which plugins are opened.
    pub want: Want,
}

/// Loads the plugins of a configuration.
#[derive(Clone, Copy, Debug)]
pub struct PluginSet;

impl PluginSet {
    /// Finds the configuration and loads the wanted plugins. All enabled entries that are not
    /// optional must be valid.
    ///
    /// # Errors
    /// Returns every refusal of such an entry in one error of kind PLUGIN (exit 5). A named
    /// configuration that does not exist is a usage error (exit 2).
    pub fn load(request: &LoadRequest) -> Result<Registry> {
        let registry = PluginSet::load_lenient(request)?;
        let fatal: Vec<Diagnostic> = refusals(&registry.plugins, false).collect();
        if fatal.is_empty() { Ok(registry) } else { Err(Error::all(ErrorKind::PLUGIN, fatal)) }
    }

    /// Like [`load`](PluginSet::load), but a refused entry that is not optional is only reported in
    /// its record (`ge plugin list`).
    ///
    /// # Errors
    /// Fails if the configuration cannot be found or read.
    pub fn load_lenient(request: &LoadRequest) -> Result<Registry> {
        let config = Config::read(&find(request.config.as_deref())?)?;
        Ok(Set::new(&config).run(&request.want))
    }

    /// Like [`load`](PluginSet::load), from a configuration that was already read.
    ///
    /// # Errors
    /// Fails like `load`.
    pub fn load_config(config: &Config, want: &Want) -> Result<Registry> {
        let registry = Set::new(config).run(want);
        let fatal: Vec<Diagnostic> = refusals(&registry.plugins, false).collect();
        if fatal.is_empty() { Ok(registry) } else { Err(Error::all(ErrorKind::PLUGIN, fatal)) }
    }
}

/// Diagnostics of the refused entries: of the optional ones, or of the others.
pub(crate) fn refusals(plugins: &[PluginRecord], optional: bool) -> impl Iterator<Item = Diagnostic> + '_ {
    plugins.iter().filter(move |p| p.optional == optional).flat_map(|p| match &p.status {
        Status::Refused(e) => e.diagnostics.to_vec(),
        _ => Vec::new(),
    })
}

/// An entry while it is being loaded.
struct Candidate<'a> {
    entry: &'a Entry,
    record: PluginRecord,
    manifest: Option<Manifest>,
    contents: Option<&'static Contents>,
}

impl Candidate<'_> {
    fn refuse(&mut self, e: Error) {
        self.record.status = Status::Refused(e);
    }
    fn alive(&self) -> bool {
        self.record.usable()
    }
}

/// A name that plugins provide. Names of opened plugins live forever and are borrowed.
type Name = Cow<'static, str>;

struct Set<'a> {
    config: &'a Config,
    file: String,
}

impl<'a> Set<'a> {
    fn new(config: &'a Config) -> Set<'a> {
        Set { config, file: config.file.display().to_string() }
    }

    /// Adds the entry to a refusal: its position in `plugins.toml`, and a remedy if there is none.
    fn of_entry(&self, entry: &Entry, library: &Path, e: Error) -> Error {
        let (file, at) = (&self.file, entry.at);
        let mut e = e;
        for d in e.diagnostics.iter_mut() {
            let mut n = std::mem::take(d);
            if n.place.is_none() {
                n = n.at(file.clone(), at.line, at.column);
            }
            n = n.note(format!("entry `{}` in {file}:{}, library {}", entry.name, at.line, library.display()));
            if n.help.is_empty() {
                n = n.help("set `enabled = false` or `optional = true` for the entry");
            }
            *d = n;
        }
        e.kind = ErrorKind::PLUGIN;
        e
    }

    fn run(&self, want: &Want) -> Registry {
        let mut all: Vec<Candidate<'a>> = self.config.entries.par_iter().map(|e| self.look(e)).collect();
        self.refuse_twice(&mut all);
        self.refuse_same_provides(&mut all);
        let watch = crash::Watch::start();
        all.par_iter_mut().for_each(|c| {
            if c.alive() && c.manifest.as_ref().is_some_and(|m| want.takes(m)) {
                match self.start(c) {
                    Ok(contents) => {
                        c.contents = Some(contents);
                        c.record.status = Status::Loaded;
                    }
                    Err(e) => c.refuse(self.of_entry(c.entry, &c.record.path.clone(), e)),
                }
            }
        });
        drop(watch);
        self.refuse_same_contents(&mut all);
        self.join(all)
    }

    /// Finds the library of an entry and inspects it without opening it.
    fn look(&self, entry: &'a Entry) -> Candidate<'a> {
        let mut c = Candidate {
            entry,
            record: PluginRecord {
                name: entry.name.clone(),
                version: String::new(),
                kinds: Vec::new(),
                provides: Vec::new(),
                api: String::new(),
                path: entry.path.clone().unwrap_or_else(|| PathBuf::from(format!("libge_{}.so", entry.name))),
                build_id: String::new(),
                optional: entry.optional,
                options: entry.options.iter().map(|(k, v, _)| (k.clone(), v.to_string())).collect(),
                at: entry.at,
                status: if entry.enabled { Status::Ready } else { Status::Disabled },
            },
            manifest: None,
            contents: None,
        };
        if let Err(e) = self.look_into(entry, &mut c) {
            // A disabled entry is listed as disabled whatever its library is like.
            if entry.enabled {
                c.refuse(self.of_entry(entry, &c.record.path.clone(), e));
            }
        }
        c
    }

    fn look_into(&self, entry: &Entry, c: &mut Candidate<'_>) -> Result<()> {
        c.record.path = self.config.locate(entry)?;
        let looked = look_at(&c.record.path)?;
        if let Some(want) = &entry.sha256 {
            let found = looked.sha256()?;
            if *want != found {
                return Err(Diagnostic::error(format!(
                    "`{}` is not the library that {} names",
                    c.record.path.display(),
                    self.file
                ))
                .found(found, want.clone())
                .help("install it again, or take `sha256` out of the entry")
                .raise(ge_codes::DIGEST));
            }
        }
        if let Some(signature) = &entry.signature {
            crate::signature::check(&c.record.path, &looked.map, signature, &self.config.trusted_keys)?;
        }
        let m = looked.manifest;
        c.record.build_id = looked.build_id;
        c.record.version = m.version.to_string();
        c.record.kinds = m.kinds.clone();
        c.record.provides = m.provides.clone();
        c.record.api = m.api.to_string();
        let path = c.record.path.display();
        if m.name != entry.name {
            return Err(Diagnostic::error(format!("`{path}` is plugin `{}`, not `{}`", m.name, entry.name))
                .found(m.name.clone(), entry.name.clone())
                .help(format!("write `name = \"{}\"`, or name another library", m.name))
                .raise(ge_codes::BAD_MANIFEST));
        }
        if !entry.version.matches(&m.version) {
            return Err(Diagnostic::error(format!("plugin `{}` (`{path}`) has version {}", m.name, m.version))
                .found(m.version.to_string(), entry.version.to_string())
                .help("install a version that fits, or change `version` of the entry")
                .raise(ge_codes::PLUGIN_VERSION));
        }
        m.gate(&c.record.path)?;
        for (name, at) in &entry.exclude_engines {
            if m.kinds.iter().any(|k| k == "engine") && !m.provides.contains(name) {
                return Err(self.unknown_name("exclude_engines", name, *at, &m));
            }
        }
        c.manifest = Some(m);
        Ok(())
    }

    fn unknown_name(&self, key: &str, name: &str, at: At, m: &Manifest) -> Error {
        let d = ge_codes::BAD_CONFIG
            .say(format!("`{key}` names `{name}`, which plugin `{}` does not give", m.name))
            .at(self.file.clone(), at.line, at.column);
        match crate::config::nearest(name, m.provides.iter().map(String::as_str)) {
            Some(n) => d.help(format!("did you mean `{n}`?")),
            None => d.help(format!("it gives {}", m.provides.join(", "))),
        }
        .of(ErrorKind::PLUGIN)
    }

    /// Refuses the same library (by path or build id) and the same plugin (by name) a second time.
    fn refuse_twice(&self, all: &mut [Candidate<'a>]) {
        for i in 0..all.len() {
            let Some(m) = all[i].manifest.as_ref().filter(|_| all[i].alive()) else { continue };
            let same = all[..i].iter().find_map(|o| {
                let om = o.manifest.as_ref().filter(|_| o.alive())?;
                if o.record.path == all[i].record.path {
                    Some((o, "the same library"))
                } else if om.name == m.name {
                    Some((o, "a plugin of the same name"))
                } else if !o.record.build_id.is_empty() && o.record.build_id == all[i].record.build_id {
                    Some((o, "a copy of the same library (by its build id)"))
                } else {
                    None
                }
            });
            if let Some((o, how)) = same {
                let e = Diagnostic::error(format!(
                    "plugin `{}` (`{}`) is {how} as entry `{}` (`{}`)",
                    m.name,
                    all[i].record.path.display(),
                    o.record.name,
                    o.record.path.display()
                ))
                .help("take one of the two entries out")
                .raise(ge_codes::TWICE);
                let e = self.of_entry(all[i].entry, &all[i].record.path, e);
                all[i].refuse(e);
            }
        }
    }

    /// Refuses engines, front ends and devices that two plugins provide, according to their
    /// manifests.
    fn refuse_same_provides(&self, all: &mut [Candidate<'a>]) {
        let names = |c: &Candidate<'_>| {
            let provides = c.manifest.as_ref().filter(|_| c.alive()).map(|m| m.provides.iter().cloned());
            provides.into_iter().flatten().map(Cow::Owned).collect()
        };
        self.refuse_same(all, "an engine, front end or device", &names);
    }

    /// Refuses passes and operators that two opened plugins provide.
    fn refuse_same_contents(&self, all: &mut [Candidate<'a>]) {
        let loaded = |c: &Candidate<'_>| c.contents.filter(|_| c.alive());
        self.refuse_same(all, "an operator", &|c| {
            loaded(c).map_or_else(Vec::new, |x| x.ops.iter().map(|o| Cow::Borrowed(o.0.name.as_str())).collect())
        });
        self.refuse_same(all, "a pass", &|c| {
            loaded(c).map_or_else(Vec::new, |x| x.passes.iter().map(|o| Cow::Borrowed(o.0.name.as_str())).collect())
        });
    }

    /// Refuses the later of two plugins that provide the same name, unless exactly one of them
    /// lists it in `overrides`.
    fn refuse_same(&self, all: &mut [Candidate<'a>], what: &str, names: &dyn Fn(&Candidate<'_>) -> Vec<Name>) {
        let mut first: HashMap<Name, usize> = HashMap::new();
        for i in 0..all.len() {
            let mut clash = Vec::new();
            for n in names(&all[i]) {
                match first.get(&n).copied() {
                    None => {
                        first.insert(n, i);
                    }
                    Some(f) => match (overrides(all[f].entry, &n), overrides(all[i].entry, &n)) {
                        (true, false) => {}
                        (false, true) => {
                            first.insert(n, i);
                        }
                        _ => clash.push((n, f)),
                    },
                }
            }
            if clash.is_empty() {
                continue;
            }
            let said = clash
                .iter()
                .map(|(n, f)| {
                    ge_codes::SAME_NAME
                        .say(format!(
                            "two plugins give {what} `{n}`: `{}` ({}) and `{}` ({})",
                            all[*f].record.name,
                            all[*f].record.path.display(),
                            all[i].record.name,
                            all[i].record.path.display()
                        ))
                        .help(format!("write `overrides = [\"{n}\"]` in the entry that is to win, or disable one"))
                })
                .collect();
            let e = self.of_entry(all[i].entry, &all[i].record.path, Error::all(ErrorKind::PLUGIN, said));
            first.retain(|_, p| *p != i);
            all[i].refuse(e);
        }
    }

    fn start(&self, c: &Candidate<'_>) -> Result<&'static Contents> {
        let m = c.manifest.as_ref().ok_or_else(|| Error::internal("a plugin without a manifest is started"))?;
        if let Some((_, signal)) = crash::crashed().iter().find(|(n, _)| *n == m.name) {
            return Err(Diagnostic::error(format!(
                "plugin `{}` (`{}`) took ge down by {signal} while it was loaded",
                m.name,
                c.record.path.display()
            ))
            .help("install or build it again")
            .raise(ge_codes::PROBE));
        }
        let at = Call { plugin: &m.name, call: "loading", ..Call::default() };
        crash::within(&at, true, || self.start_within(c, m))
    }

    fn start_within(&self, c: &Candidate<'_>, m: &Manifest) -> Result<&'static Contents> {
        let opened = open(&m.name, &c.record.path, m.abi)?;
        let owner = Owner { name: m.name.clone(), version: m.version.to_string() };
        // The contents of a C plugin are already checked here, so its errors have their code.
        let named = |e| if m.abi == Abi::C { e } else { owner.failed("options", e) };
        let schema = opened.schema().map_err(named)?;
        let values = options::check(&m.name, &self.file, &schema, &c.entry.options)?;
        opened.start(m, values.into())
    }

    /// Makes the handles of all remaining contents, in order.
    fn join(&self, all: Vec<Candidate<'a>>) -> Registry {
        let wins = |i: usize, n: &str, others: &dyn Fn(&Contents) -> bool| {
            overrides(all[i].entry, n)
                || !all
                    .iter()
                    .enumerate()
                    .any(|(k, o)| k != i && o.alive() && overrides(o.entry, n) && o.contents.is_some_and(others))
        };
        let mut r = Registry {
            config: self.config.file.clone(),
            plugins: Vec::new(),
            warnings: Vec::new(),
            engines: Vec::new(),
            ops: Vec::new(),
            op_index: HashMap::new(),
            frontends: Vec::new(),
            offer: Arc::default(),
            passes: Vec::new(),
            devices: Vec::new(),
        };
        let mut mappings: Vec<(ge_plugin_api::frontend::MappingInfo, ge_plugin_api::frontend::MappingRef)> = Vec::new();
        let mut mapped = ByOperator::default();
        for c in all.iter().filter(|c| c.alive()) {
            let Some(x) = c.contents else { continue };
            let owner = Arc::new(Owner { name: c.record.name.clone(), version: c.record.version.clone() });
            for (info, of) in &x.mappings {
                // If two plugins map the same operator and version, the earlier plugin wins.
                if !mapped.has_one_like(info) {
                    mapped.add(info);
                    // A front end's own mappings need no other owner in their errors.
                    let own = x.frontends.iter().any(|(framework, _)| info.framework == framework.as_str());
                    let of = if own { *of } else { crate::mappings::owned(&owner, info, *of) };
                    mappings.push((info.clone(), of));
                }
            }
        }
        for (i, c) in all.iter().enumerate() {
            let Some(x) = c.contents.filter(|_| c.alive()) else { continue };
            let owner = Arc::new(Owner { name: c.record.name.clone(), version: c.record.version.clone() });
            for (info, object) in &x.engines {
                if wins(i, &info.name, &|o| o.engines.iter().any(|e| e.0.name == info.name)) {
                    let excluded = c.entry.exclude_engines.iter().any(|(n, _)| info.name == n.as_str());
                    r.engines.push(EngineHandle {
                        owner: owner.clone(),
                        plugin: i,
                        info: info.clone(),
                        excluded,
                        object,
                    });
                }
            }
            for (proto, set, index) in &x.ops {
                if wins(i, &proto.name, &|o| o.ops.iter().any(|p| p.0.name == proto.name)) {
                    r.op_index.insert(proto.name.to_string(), r.ops.len());
                    r.ops.push(OpHandle { owner: owner.clone(), plugin: i, proto: proto.clone(), set, index: *index });
                }
            }
            for (framework, object) in &x.frontends {
                if wins(i, framework, &|o| o.frontends.iter().any(|f| f.0 == *framework)) {
                    r.frontends.push(FrontendHandle {
                        owner: owner.clone(),
                        plugin: i,
                        framework: framework.clone(),
                        object,
                        offer: Arc::default(),
                    });
                }
            }
            for (info, object) in &x.passes {
                if wins(i, &info.name, &|o| o.passes.iter().any(|p| p.0.name == info.name)) {
                    r.passes.push(PassHandle { owner: owner.clone(), plugin: i, info: info.clone(), object });
                }
            }
            for (info, object) in &x.devices {
                if wins(i, &info.name, &|o| o.devices.iter().any(|d| d.0.name == info.name)) {
                    r.devices.push(DeviceHandle { owner: owner.clone(), plugin: i, info: info.clone(), object });
                }
            }
        }
        let ops: HashMap<Key, OpHandle> = r.ops.iter().map(|o| (Key::new(o.name()), o.clone())).collect();
        let infer = move |n: &Node<'_>| ops.get(&n.op_key())?.infer(n).ok();
        r.offer = Arc::new(Offer { mappings, infer: Some(Box::new(infer)) });
        r.frontends.iter_mut().for_each(|f| f.offer = r.offer.clone());
        services::set_latest_offer(r.offer.clone());
        r.plugins = all.into_iter().map(|c| c.record).collect();
        r.warnings = refusals(&r.plugins, true)
            .map(|mut d| {
                d.severity = Severity::WARNING;
                d
            })
            .collect();
        r
    }
}

fn overrides(entry: &Entry, name: &str) -> bool {
    entry.overrides.iter().any(|(n, _)| n == name)
}

/// A library that was inspected without opening it.
pub(crate) struct Looked {
    pub(crate) manifest: Manifest,
    pub(crate) build_id: String,
    map: memmap2::Mmap,
}

impl Looked {
    fn sha256(&self) -> Result<String> {
        Ok(hex(&Sha256::digest(&self.map)))
    }
}

/// Reads the manifest of a library without opening it, and checks it against this interface.
///
/// # Errors
/// Returns `GE-E0503` to `GE-E0510`.
pub fn look(path: &Path) -> Result<Manifest> {
    let manifest = look_at(path)?.manifest;
    manifest.gate(path)?;
    Ok(manifest)
}

/// Reads everything that can be known of a library without opening it.
///
/// # Errors
/// Returns `GE-E0503` to `GE-E0507`.
pub(crate) fn look_at(path: &Path) -> Result<Looked> {
    let unreadable = |e: std::io::Error| {
        Diagnostic::error(format!("`{}` cannot be read: {e}", path.display()))
            .help("name a library that can be read")
            .raise(ge_codes::NOT_FOUND)
    };
    let file = std::fs::File::open(path).map_err(unreadable)?;
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err(Diagnostic::error(format!("`{}` is not a file", path.display()))
            .help("let `path` name the library itself")
            .raise(ge_codes::NOT_A_LIBRARY));
    }
    // SAFETY: the map is read-only and lives only during this inspection. If a library is changed
    // while ge starts, the system's loader would not survive that either.
    let map = unsafe { memmap2::Mmap::map(&file) }.map_err(unreadable)?;
    let looked = elf::inspect(path, &map)?;
    let manifest = Manifest::parse(path, looked.manifest)?;
    let build_id = looked.build_id;
    Ok(Looked { manifest, build_id, map })
}
