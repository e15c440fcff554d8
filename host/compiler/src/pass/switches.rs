//! Decides which passes run, from `ge.oo.level`, `ge.optimizationSwitch`, `ge.fusionSwitchFile` and
//! the options bound to passes.
use super::PassLevel;
use super::listed::Listed;
use crate::error::OptionFault;
use crate::error::{CompileError, Result};
use crate::fusion::FusionSwitches;
use crate::options::{Level, Options, Switch};
use crate::toolbox::Toolbox;
use std::collections::BTreeMap;

/// The levels and switches of one compilation.
pub struct Switches<'a> {
    list: &'static [Listed],
    pub(super) toolbox: &'a Toolbox,
    pub(super) options: &'a Options,
    named: BTreeMap<String, bool>,
    file: FusionSwitches,
    highest: PassLevel,
}

impl<'a> Switches<'a> {
    /// Reads levels and switches.
    ///
    /// # Errors
    /// Fails if a name belongs to no pass of the list or of a plugin, if it belongs to a pass of
    /// level O0, or if the switch file cannot be read.
    pub(super) fn checked(list: &'static [Listed], toolbox: &'a Toolbox, options: &'a Options) -> Result<Switches<'a>> {
        let mut out = Switches {
            list,
            toolbox,
            options,
            named: BTreeMap::new(),
            file: FusionSwitches::default(),
            highest: highest(options),
        };
        for (name, is_on) in &options.optimization_switch {
            match out.level_of(name) {
                None => return Err(out.unknown(name)),
                Some(PassLevel::O0) => {
                    return Err(OptionFault::FixedPass { name: name.clone(), file: None }.into());
                }
                Some(_) => out.named.insert(name.clone(), *is_on),
            };
        }
        out.file = fusion_switches(&out)?;
        Ok(out)
    }
    /// Reads switches for passes of plugins only; other names have been checked before.
    ///
    /// # Errors
    /// Fails if the switch file cannot be read.
    pub fn of_plugins(toolbox: &'a Toolbox, options: &'a Options) -> Result<Switches<'a>> {
        let file = match options.fusion_switch_file.as_str() {
            "" => FusionSwitches::default(),
            path => read(path)?,
        };
        let named = options.optimization_switch.iter().map(|(n, on)| (n.clone(), *on)).collect();
        Ok(Switches { list: &[], toolbox, options, named, file, highest: highest(options) })
    }
    /// What the plugins provide.
    pub fn toolbox(&self) -> &'a Toolbox {
        self.toolbox
    }

    /// Whether a pass runs. Its own switch decides first, then the option bound to it, then the
    /// level. A pass of level O0 always runs.
    pub fn enabled(&self, name: &str, level: PassLevel, bound: Option<Switch>) -> bool {
        if level == PassLevel::O0 {
            return true;
        }
        if let Some(on) = self.named.get(name) {
            return *on;
        }
        // ALL covers the fusions of plugins; the host's own passes are switched only by name.
        let foreign = self.toolbox.passes.iter().any(|p| p.name() == name);
        if let Some(on) = if foreign { self.file.of(name) } else { self.file.named.get(name).copied() } {
            return on;
        }
        if bound.is_some_and(|o| !(o.is_on)(self.options)) {
            return false;
        }
        level.code() <= self.highest.code()
    }

    /// The level of a pass of the list or of a plugin; `None` if the name is unknown.
    pub(super) fn level_of(&self, name: &str) -> Option<PassLevel> {
        let ours = self.list.iter().find(|p| p.pass.name() == name).map(|p| p.pass.level());
        ours.or_else(|| self.toolbox.passes.iter().find(|p| p.name() == name).map(|p| p.info.level))
    }

    /// The known pass whose name is closest to `name`.
    fn nearest(&self, name: &str) -> Option<&str> {
        let known = self.list.iter().map(|p| p.pass.name()).chain(self.toolbox.passes.iter().map(|p| p.name()));
        known.min_by_key(|k| strsim::levenshtein(name, k))
    }

    /// The error for a name that belongs to no pass.
    pub(super) fn unknown(&self, name: &str) -> CompileError {
        OptionFault::UnknownPass { name: name.into(), nearest: self.nearest(name).map(str::to_owned) }.into()
    }
}

fn highest(options: &Options) -> PassLevel {
    match options.level {
        Level::O1 => PassLevel::O1,
        Level::O3 => PassLevel::O3,
    }
}

const FILE: &str = "ge.fusionSwitchFile";

fn bad(path: &str, why: String) -> OptionFault {
    let form = "lines `Name:on` or `Name:off`, or {\"Switch\": {\"GraphFusion\": {\"Name\": \"off\"}}}; `ge opt --list` \
                shows the names";
    OptionFault::File { option: FILE, path: path.into(), why, form }
}

/// Reads a switch file.
fn read(path: &str) -> Result<FusionSwitches> {
    let unreadable =
        |e: std::io::Error| OptionFault::Unreadable { option: FILE, path: path.into(), why: e.to_string() };
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    Ok(FusionSwitches::parse(&text).map_err(|why| bad(path, why))?)
}

/// Reads the file of `ge.fusionSwitchFile` and checks that its names are known and that it switches
/// no pass of level O0 off.
fn fusion_switches(known: &Switches<'_>) -> Result<FusionSwitches> {
    let path = known.options.fusion_switch_file.as_str();
    if path.is_empty() {
        return Ok(FusionSwitches::default());
    }
    let file = read(path)?;
    let unknown: Vec<String> = file
        .named
        .keys()
        .filter(|name| known.level_of(name).is_none())
        .map(|name| match known.nearest(name) {
            Some(n) => format!("`{name}` (did you mean `{n}`?)"),
            None => format!("`{name}`"),
        })
        .collect();
    if !unknown.is_empty() {
        return Err(bad(path, format!("no pass is named {}", unknown.join(", "))).into());
    }
    match file.named.iter().find(|(name, on)| !**on && known.level_of(name) == Some(PassLevel::O0)) {
        Some((name, _)) => Err(OptionFault::FixedPass { name: name.clone(), file: Some(path.to_owned()) }.into()),
        None => Ok(file),
    }
}
