//! Opens libraries: the system's loader, the header, version and layout checks, start-up. Each
//! library is opened once per process, forever.
//!
//! A plugin of an older minor version has fewer functions than the host's types. Its layout is
//! checked with the roles swapped (the host must have everything that the plugin has), because the
//! usual check requires the reverse.
use crate::cdoor;
use crate::collect::{Contents, Given};
use crate::manifest::Abi;
use crate::services;
use ge_plugin_api::abi::__loader::{
    AbiHeaderRef, Layout, LibHeader, LibraryError, ROOT_MODULE_LOADER_NAME_WITH_NUL, RootModule, RootModuleError,
    check_layout_compatibility,
};
use ge_plugin_api::abi::StableAbi;
use ge_plugin_api::abi::root::PluginRef;
use ge_plugin_api::diagnostic::Diagnostic;
use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::services::{OptionSpec, OptionValue};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use semver::Version;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

/// An open library whose root module was checked.
pub struct Opened {
    name: String,
    root: Root,
    started: Mutex<Option<Vec<OptionValue>>>,
    contents: OnceLock<Contents>,
}

/// The entry point of a library.
#[derive(Clone, Copy)]
enum Root {
    /// The root module of a Rust library.
    Rust(PluginRef),
    /// The single function of a C library, and what it returned.
    C(cdoor::Entry, &'static OnceLock<cdoor::Table>),
}

type Slot = Mutex<Option<&'static Opened>>;

/// One slot for each canonical path. A library has one set of statics in a process, so it is opened
/// and started once.
fn slot(path: &Path) -> &'static Slot {
    static SLOTS: OnceLock<Mutex<BTreeMap<PathBuf, &'static Slot>>> = OnceLock::new();
    let mut slots = SLOTS.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    slots.entry(path.to_owned()).or_insert_with(|| Box::leak(Box::default()))
}

/// Opens a library that has passed all checks that do not need opening.
///
/// # Errors
/// Returns `GE-E0514` if the system's loader refuses it, `GE-E0506` if it has no root symbol,
/// `GE-E0509` for another major version, `GE-E0515` for another layout, `GE-E0516` if its root
/// function panics. A library that failed stays loaded and can be tried again.
pub fn open(name: &str, path: &Path, abi: Abi) -> Result<&'static Opened> {
    let mut slot = slot(path).lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(o) = *slot {
        return Ok(o);
    }
    let root = match abi {
        Abi::Rust => Root::Rust(root_module(name, path)?),
        Abi::C => Root::C(entry(name, path)?, Box::leak(Box::default())),
    };
    let name = name.to_owned();
    let opened: &'static Opened =
        Box::leak(Box::new(Opened { name, root, started: Mutex::new(None), contents: OnceLock::new() }));
    *slot = Some(opened);
    Ok(opened)
}

/// Opens a library with the system's loader.
fn library(name: &str, path: &Path) -> Result<Library> {
    // SAFETY: this runs constructors of the library. Its manifest says that it is a plugin, and
    // plugins are trusted code (DESIGN 3.1); `elf::inspect` has checked its tables.
    unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map_err(|e| {
        let why = system_reason(&e, path);
        let help = match why.strip_prefix("undefined symbol: ") {
            Some(symbol) => {
                format!("link the library that has `{}` into the plugin", symbol.split(' ').next().unwrap_or(symbol))
            }
            None => "install what it needs, or build it on this system".to_owned(),
        };
        Diagnostic::error(format!("plugin `{name}` (`{}`) cannot be opened: {why}", path.display()))
            .help(help)
            .raise(ge_codes::OPEN)
    })
}

/// Opens a C plugin and finds its single function.
fn entry(name: &str, path: &Path) -> Result<cdoor::Entry> {
    let library = library(name, path)?;
    // SAFETY: the manifest says that the library was built with ge_plugin.h, which declares the
    // symbol as this function.
    let entry = unsafe { library.get::<cdoor::Entry>(cdoor::SYMBOL).map(|s| *s) };
    // Never unloaded, as in `root_module`.
    std::mem::forget(library);
    entry.map_err(|_| {
        Diagnostic::error(format!(
            "`{}` is no plugin of ge: its manifest says C, but it has no ge_c_plugin",
            path.display()
        ))
        .help("write the function `const ge_plugin *ge_c_plugin(const ge_host *host)` of ge_plugin.h, and export it")
        .raise(ge_codes::NOT_A_PLUGIN)
    })
}

fn root_module(name: &str, path: &Path) -> Result<PluginRef> {
    let library = library(name, path)?;
    // SAFETY: the symbol is a static of type LibHeader whose address is an AbiHeaderRef; `upgrade`
    // below checks its magic number before anything else of it is used.
    let header = unsafe { library.get::<AbiHeaderRef>(ROOT_MODULE_LOADER_NAME_WITH_NUL.as_bytes()).map(|s| *s) };
    // Never unloaded: its thread-local destructors, statics and handles stay valid until the
    // process ends.
    std::mem::forget(library);
    let header = header.map_err(|_| {
        Diagnostic::error(format!("`{}` is no plugin of ge: it has a manifest, but no root symbol", path.display()))
            .help("a plugin's crate has one `ge_plugin!` and crate-type = [\"cdylib\"]; do not strip dynamic symbols")
            .raise(ge_codes::NOT_A_PLUGIN)
    })?;
    let header = header.upgrade().map_err(|e| refused(name, path, &e))?;
    // Most plugins are built with exactly this interface and need no comparison that allows for
    // other versions.
    let own = <PluginRef as StableAbi>::LAYOUT;
    static SAYS: OnceLock<Option<Layout>> = OnceLock::new();
    let says = SAYS.get_or_init(|| Layout::of(own));
    if says.as_ref().zip(header.layout()).is_some_and(|(says, theirs)| says.is_of(theirs)) {
        // SAFETY: its types are equal to the host's in every part.
        let root = unsafe { header.init_root_module_with_unchecked_layout::<PluginRef>() };
        return root.map_err(|e| refused(name, path, &e));
    }
    // abi_stable collects everything that it has seen of a type in one table of the process. The
    // host's own types must come first: if an older plugin is checked before a newer one, the newer
    // one appears to have too many fields.
    static OWN: OnceLock<()> = OnceLock::new();
    OWN.get_or_init(|| {
        let _ = check_layout_compatibility(own, own);
    });
    checked_root(name, path, header)
}

fn checked_root(name: &str, path: &Path, header: &'static LibHeader) -> Result<PluginRef> {
    let text = |v: ge_plugin_api::abi::__loader::VersionStrings| Version::parse(v.version.as_str()).ok();
    let (host, plugin) = (text(PluginRef::VERSION_STRINGS), text(header.version_strings()));
    let older = match (&host, &plugin) {
        (Some(h), Some(p)) => h.major == p.major && p.minor < h.minor,
        _ => false,
    };
    if !older {
        return header.init_root_module::<PluginRef>().map_err(|e| refused(name, path, &e));
    }
    let layout_error = |why: String| {
        Diagnostic::error(format!(
            "plugin `{name}` (`{}`) is laid out otherwise than its version {} says: {why}",
            path.display(),
            plugin.as_ref().map_or_else(String::new, Version::to_string)
        ))
        .help("build it with an unchanged ge-plugin-api")
        .raise(ge_codes::LAYOUT)
    };
    let theirs = header.layout().ok_or_else(|| layout_error("it has no layout".into()))?;
    check_layout_compatibility(theirs, <PluginRef as StableAbi>::LAYOUT)
        .map_err(|e| layout_error(condense(&e.to_string())))?;
    // SAFETY: everything that the plugin's types have, the host's types have at the same place
    // (checked above with swapped roles, because the plugin is older). What the plugin lacks comes
    // after the last prefix field and reads as absent.
    unsafe { header.init_root_module_with_unchecked_layout::<PluginRef>() }.map_err(|e| refused(name, path, &e))
}

/// The system loader's message without the path, which the diagnostic already contains.
fn system_reason(e: &libloading::Error, path: &Path) -> String {
    let text = match e {
        libloading::Error::DlOpen { desc } => format!("{desc:?}"),
        other => other.to_string(),
    };
    // The Debug form is `DlDescription("…")`; the text inside starts with the path.
    let text = text.trim_start_matches("DlDescription(").trim_end_matches(')').trim_matches('"').to_owned();
    let shown = path.display().to_string();
    text.strip_prefix(&shown).unwrap_or(&text).trim_start_matches([':', ' ']).to_owned()
}

/// Condenses abi_stable's report, which may have 36 kB, to one line.
fn refused(name: &str, path: &Path, e: &LibraryError) -> ge_plugin_api::Error {
    let path = path.display();
    match e {
        LibraryError::IncompatibleVersionNumber { expected_version, actual_version, .. } => Diagnostic::error(format!(
            "plugin `{name}` (`{path}`) is made for interface {actual_version}, this ge has {expected_version}"
        ))
        .found(actual_version.to_string(), format!("{}.x", expected_version.major))
        .help("build it with this version of ge-plugin-api")
        .raise(ge_codes::API_VERSION),
        LibraryError::AbiInstability(why) => Diagnostic::error(format!(
            "plugin `{name}` (`{path}`) has types of another layout than this ge: {}",
            condense(&why.to_string())
        ))
        .help("build it with an unchanged ge-plugin-api of this version")
        .raise(ge_codes::LAYOUT),
        LibraryError::InvalidAbiHeader(_) | LibraryError::InvalidCAbi { .. } => {
            Diagnostic::error(format!("plugin `{name}` (`{path}`) is damaged, or built with another abi_stable"))
                .help("build it with this version of ge-plugin-api")
                .raise(ge_codes::LAYOUT)
        }
        LibraryError::RootModule { err, .. } => {
            let why = match err {
                RootModuleError::Unwound => "it panicked".to_owned(),
                RootModuleError::Returned(e) => condense(&e.to_string()),
            };
            ge_codes::START.error(format!("plugin `{name}` (`{path}`) failed at start-up: {why}"))
        }
        LibraryError::ParseVersionError(_) => {
            ge_codes::BAD_MANIFEST.error(format!("plugin `{name}` (`{path}`) has a version that is none"))
        }
        other => ge_codes::OPEN.error(format!("plugin `{name}` (`{path}`): {}", condense(&other.to_string()))),
    }
}

/// The first `Error:` of a layout report and the field nearest to it, on one line.
fn condense(report: &str) -> String {
    let lines: Vec<&str> = report.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    let at = lines.iter().position(|l| l.starts_with("Error:"));
    let value = |key: &str, range: &[&str]| {
        range.iter().rev().find_map(|l| l.strip_prefix(key).map(|v| v.trim().trim_end_matches(',').to_owned()))
    };
    let line = match at {
        None => lines.first().copied().unwrap_or("unknown reason").to_owned(),
        Some(at) => {
            let mut s = lines[at].trim_start_matches("Error:").trim().to_owned();
            if let Some(field) = value("field_name:", &lines[..at]) {
                s.push_str(&format!(" (field {field})"));
            }
            s
        }
    };
    let mut short: String = line.chars().take(160).collect();
    if short.len() < line.len() {
        short.push('…');
    }
    short
}

impl Opened {
    /// The schema of its options; may be called before `start`.
    pub fn schema(&self) -> Result<Vec<OptionSpec>> {
        match self.root {
            Root::Rust(root) => (root.options())().into_result().map(Vec::from),
            Root::C(..) => Ok(self.table()?.options()),
        }
    }

    /// The table that the function of a C plugin returns; the function is called once.
    fn table(&self) -> Result<&'static cdoor::Table> {
        static CALLS: Mutex<()> = Mutex::new(());
        let Root::C(entry, table) = self.root else {
            return Err(ge_plugin_api::Error::internal("a plugin in Rust has no table of functions in C"));
        };
        let _one = CALLS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(t) = table.get() {
            return Ok(t);
        }
        // SAFETY: `entry` found the function in a library whose manifest says that it is a C
        // plugin.
        let made = unsafe { cdoor::Table::of(&self.name, entry) }?;
        Ok(table.get_or_init(|| made))
    }

    /// Starts the plugin with checked options, then collects its contents and validates them
    /// against its manifest. This happens once per process: starting it again with other options is
    /// an error.
    pub fn start(
        &'static self,
        manifest: &crate::manifest::Manifest,
        options: Vec<OptionValue>,
    ) -> Result<&'static Contents> {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        match &*started {
            Some(before) if *before == options => {}
            Some(_) => {
                return Err(Diagnostic::error(format!(
                    "plugin `{}` already runs in this process with other options",
                    manifest.name
                ))
                .help("a library is started once a process: use one set of options, or a second process")
                .raise(ge_codes::PLUGIN_OPTION));
            }
            None => {
                let failed = |e: ge_plugin_api::Error| {
                    ge_codes::START
                        .error(format!("plugin `{}` {} failed at start-up: {e}", manifest.name, manifest.version))
                };
                match self.root {
                    Root::Rust(root) => {
                        (root.init())(services::table(), options.clone().into()).into_result().map_err(failed)?
                    }
                    Root::C(..) => self.table()?.start(&options).map_err(failed)?,
                }
                *started = Some(options);
            }
        }
        if let Some(c) = self.contents.get() {
            return Ok(c);
        }
        let given = match self.root {
            Root::Rust(root) => Given::by(root, manifest)?,
            Root::C(..) => self.table()?.given()?,
        };
        let contents = Contents::collect(given, manifest)?;
        Ok(self.contents.get_or_init(|| contents))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn a_long_report_becomes_one_line() {
        let report = "Compared <this>:\n    --- Type Layout ---\n  field_name: a\n  ...\n\n field_name:second\n Error:mismatched type\nExpected:\n u8";
        assert_eq!(condense(report), "mismatched type (field second)");
        assert_eq!(condense(""), "unknown reason");
        assert!(condense(&"x".repeat(40_000)).chars().count() <= 161);
    }
}
