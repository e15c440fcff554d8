//! Finds and reads `plugins.toml`. Every error states the file, line and column.
use crate::manifest::is_name;
use crate::trust;
use ge_plugin_api::diagnostic::{Diagnostic, ErrorKind};
use ge_plugin_api::{Error, Result};
use semver::VersionReq;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// A position in `plugins.toml`; lines and columns count from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct At {
    /// Line number.
    pub line: u32,
    /// Column number, in characters.
    pub column: u32,
}

/// A parsed configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// Path of the file.
    pub file: PathBuf,
    /// Folders that are searched for libraries, in order: those that the file lists (relative to
    /// the file), then those of the executable.
    pub search: Vec<PathBuf>,
    /// Trusted public keys (minisign's form). A library with `signature` must be signed by one of
    /// them.
    pub trusted_keys: Vec<String>,
    /// Entries, in file order.
    pub entries: Vec<Entry>,
}

/// One `[[plugin]]` entry.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Name; must equal the name in the manifest.
    pub name: String,
    /// Position where the entry starts.
    pub at: At,
    /// Path of the library; `None` to use the search path.
    pub path: Option<PathBuf>,
    /// Requirement on the version of the plugin.
    pub version: VersionReq,
    /// Whether the plugin is used.
    pub enabled: bool,
    /// Whether a failure to load is only a warning.
    pub optional: bool,
    /// Engines that must not be given any nodes.
    pub exclude_engines: Vec<(String, At)>,
    /// Names (of engines, passes, operators …) for which this plugin replaces another plugin.
    pub overrides: Vec<(String, At)>,
    /// SHA-256 digest that the library must have, in hex.
    pub sha256: Option<String>,
    /// File with the signature that the library must have.
    pub signature: Option<PathBuf>,
    /// Values for the plugin's options.
    pub options: Vec<(String, toml::Value, At)>,
}

impl Entry {
    /// An entry for a single library, without further requirements.
    pub fn of(name: &str, path: &Path) -> Entry {
        Entry {
            name: name.to_owned(),
            at: At::default(),
            path: Some(path.to_owned()),
            version: VersionReq::STAR,
            enabled: true,
            optional: false,
            exclude_engines: Vec::new(),
            overrides: Vec::new(),
            sha256: None,
            signature: None,
            options: Vec::new(),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    schema: Spanned<i64>,
    #[serde(default)]
    search: Vec<String>,
    #[serde(default)]
    trusted_keys: Vec<Spanned<String>>,
    #[serde(default)]
    plugin: Vec<Spanned<RawEntry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEntry {
    name: Spanned<String>,
    path: Option<String>,
    version: Option<Spanned<String>>,
    #[serde(default = "yes")]
    enabled: bool,
    #[serde(default)]
    optional: bool,
    #[serde(default)]
    exclude_engines: Vec<Spanned<String>>,
    #[serde(default)]
    overrides: Vec<Spanned<String>>,
    sha256: Option<Spanned<String>>,
    signature: Option<Spanned<String>>,
    #[serde(default)]
    options: BTreeMap<Spanned<String>, toml::Value>,
}
fn yes() -> bool {
    true
}

/// Folder of the running executable.
fn exe_folder() -> Option<PathBuf> {
    std::env::current_exe().ok()?.parent().map(Path::to_owned)
}

/// Finds the configuration file: the given one, otherwise `$GE_PLUGINS`, otherwise `plugins.toml`
/// in the working folder if it is trusted, otherwise `<exe>/../etc/ge/plugins.toml`, otherwise the
/// one beside the executable.
///
/// # Errors
/// Returns `GE-E0305` if a file that was named does not exist, `GE-E0501` if there is no file at
/// all.
pub fn find(given: Option<&Path>) -> Result<PathBuf> {
    let named = |p: PathBuf, by: &str| {
        if p.is_file() {
            Ok(p)
        } else {
            Err(Diagnostic::error(format!("cannot read `{}` ({by})", p.display()))
                .help("name a plugins.toml that exists")
                .raise(ge_codes::UNREADABLE))
        }
    };
    if let Some(p) = given {
        return named(p.to_owned(), "--plugins");
    }
    if let Some(p) = std::env::var_os("GE_PLUGINS").filter(|v| !v.is_empty()) {
        return named(p.into(), "$GE_PLUGINS");
    }
    let here = PathBuf::from("plugins.toml");
    let mut own = Vec::new();
    if let Some(exe) = exe_folder() {
        own.push(exe.join("../etc/ge/plugins.toml"));
        own.push(exe.join("plugins.toml"));
        // If the executable was built by cargo and not installed: the repository's file, two
        // folders above target/PROFILE. Examples and tests are one folder deeper.
        let inner = exe.file_name().is_some_and(|n| n == "examples" || n == "deps");
        own.push(exe.join(if inner { "../../../plugins.toml" } else { "../../plugins.toml" }));
    }
    let skipped = here.is_file() && !trust::trusted(&here, &own);
    if skipped {
        trust::say_skipped(&here);
    } else if here.is_file() {
        return Ok(here);
    }
    if let Some(p) = own.iter().find(|p| p.is_file()) {
        return Ok(p.clone());
    }
    let mut d = ge_codes::NO_CONFIG.say("found no plugins.toml: ge has no plugins to work with");
    d = d.note(if skipped { trust::note(&here) } else { format!("looked at {}", here.display()) });
    for p in &own {
        d = d.note(format!("looked at {}", p.display()));
    }
    Err(d.help("give one by `--plugins FILE` or $GE_PLUGINS").of(ErrorKind::PLUGIN))
}

/// Line and column of a byte position in a text.
fn place_of(text: &str, span: Range<usize>) -> At {
    let before = text.get(..span.start.min(text.len())).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |l| l.chars().count()) + 1;
    At { line: u32::try_from(line).unwrap_or(u32::MAX), column: u32::try_from(column).unwrap_or(u32::MAX) }
}

impl Config {
    /// Reads and parses a file.
    ///
    /// # Errors
    /// Returns `GE-E0502` with everything that is wrong and where, or `GE-E0305` if the file cannot
    /// be read.
    pub fn read(file: &Path) -> Result<Config> {
        let text = std::fs::read_to_string(file).map_err(|e| {
            Diagnostic::error(format!("cannot read `{}`: {e}", file.display()))
                .help("name a plugins.toml that can be read")
                .raise(ge_codes::UNREADABLE)
        })?;
        Config::parse(file, &text)
    }

    /// Parses the text of a file.
    pub fn parse(file: &Path, text: &str) -> Result<Config> {
        let shown = file.display().to_string();
        let raw: RawFile = toml::from_str(text).map_err(|e| {
            let at = place_of(text, e.span().unwrap_or(0..0));
            let message = e.message().replace('\n', " ");
            let mut d = ge_codes::BAD_CONFIG.say(format!("cannot use `{shown}`: {message}")).at(
                shown.clone(),
                at.line,
                at.column,
            );
            if let Some(known) = nearest_field(&message) {
                d = d.help(format!("did you mean `{known}`?"));
            }
            d.of(ErrorKind::PLUGIN)
        })?;
        let mut wrong: Vec<Diagnostic> = Vec::new();
        let mut say = |span: Range<usize>, message: String, help: &str| {
            let at = place_of(text, span);
            let d = ge_codes::BAD_CONFIG.say(message).at(shown.clone(), at.line, at.column);
            wrong.push(if help.is_empty() { d } else { d.help(help) });
        };
        if *raw.schema.get_ref() != 1 {
            say(raw.schema.span(), format!("schema {} is unknown", raw.schema.get_ref()), "write `schema = 1`");
        }
        let folder = file.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut search: Vec<PathBuf> = raw.search.iter().map(|s| folder.join(s)).collect();
        if let Some(exe) = exe_folder() {
            search.push(exe.join("../lib/ge"));
            // Tests and examples built by cargo are one folder below the libraries.
            let built = exe.file_name().is_some_and(|n| n == "deps" || n == "examples");
            let above = exe.parent().filter(|_| built).map(Path::to_owned);
            search.push(exe);
            search.extend(above);
        }
        for k in raw.trusted_keys.iter().filter(|k| !crate::signature::is_key(k.get_ref())) {
            let what = format!("`{}` is no key", k.get_ref().escape_debug());
            say(k.span(), what, "the line of 56 letters that `minisign -G` writes to the .pub file");
        }
        let trusted_keys: Vec<String> = raw.trusted_keys.into_iter().map(Spanned::into_inner).collect();
        let mut entries: Vec<Entry> = Vec::new();
        for e in raw.plugin {
            let span = e.span();
            let e = e.into_inner();
            let name = e.name.get_ref().clone();
            if !is_name(&name) {
                say(
                    e.name.span(),
                    format!("`{}` is no plugin name", name.escape_debug()),
                    "letters, digits, `-` and `_`",
                );
            }
            if let Some(first) = entries.iter().find(|o| o.name == name) {
                say(
                    e.name.span(),
                    format!("plugin `{name}` is named twice, first in line {}", first.at.line),
                    "take one of the two entries out",
                );
            }
            let version = match &e.version {
                None => VersionReq::STAR,
                Some(v) => VersionReq::parse(v.get_ref()).unwrap_or_else(|why| {
                    say(
                        v.span(),
                        format!("`{}` is no version requirement: {why}", v.get_ref()),
                        "for example \"^0.1\"",
                    );
                    VersionReq::STAR
                }),
            };
            if let Some(d) = e
                .sha256
                .as_ref()
                .filter(|d| d.get_ref().len() != 64 || !d.get_ref().bytes().all(|b| b.is_ascii_hexdigit()))
            {
                say(d.span(), "`sha256` takes 64 hex digits".into(), "as `sha256sum` prints them");
            }
            if let Some(s) = e.signature.as_ref().filter(|_| trusted_keys.is_empty()) {
                let help = "write `trusted_keys = [\"RW…\"]` above the entries";
                say(s.span(), "`signature` without a key that is trusted".into(), help);
            }
            let placed = |v: Vec<Spanned<String>>| {
                v.into_iter().map(|s| (s.get_ref().clone(), place_of(text, s.span()))).collect::<Vec<_>>()
            };
            entries.push(Entry {
                name,
                at: place_of(text, span),
                path: e.path.map(|p| folder.join(p)),
                version,
                enabled: e.enabled,
                optional: e.optional,
                exclude_engines: placed(e.exclude_engines),
                overrides: placed(e.overrides),
                signature: e.signature.as_ref().map(|s| folder.join(s.get_ref())),
                sha256: e.sha256.map(|s| s.into_inner().to_ascii_lowercase()),
                options: e
                    .options
                    .into_iter()
                    .map(|(k, v)| {
                        let at = place_of(text, k.span());
                        (k.into_inner(), v, at)
                    })
                    .collect(),
            });
        }
        if wrong.is_empty() {
            Ok(Config { file: file.to_owned(), search, trusted_keys, entries })
        } else {
            Err(Error::all(ErrorKind::PLUGIN, wrong))
        }
    }

    /// The library of an entry: its `path`, otherwise the first `libge_<name>.so` on the search
    /// path.
    ///
    /// # Errors
    /// Returns `GE-E0503` with the searched folders if there is no such library.
    pub fn locate(&self, entry: &Entry) -> Result<PathBuf> {
        let missing = |d: Diagnostic| {
            d.at(self.file.display().to_string(), entry.at.line, entry.at.column)
                .help("build or copy the library, or set `enabled = false` or `optional = true` for the entry")
                .of(ErrorKind::PLUGIN)
        };
        if let Some(p) = &entry.path {
            return std::fs::canonicalize(p).map_err(|e| {
                missing(ge_codes::NOT_FOUND.say(format!(
                    "the library of plugin `{}` cannot be read: `{}` ({e})",
                    entry.name,
                    p.display()
                )))
            });
        }
        let mut files = vec![format!("libge_{}.so", entry.name)];
        let plain = entry.name.replace('-', "_");
        if plain != entry.name {
            files.push(format!("libge_{plain}.so"));
        }
        for folder in &self.search {
            for f in &files {
                if let Ok(p) = std::fs::canonicalize(folder.join(f)) {
                    return Ok(p);
                }
            }
        }
        let mut d = ge_codes::NOT_FOUND
            .say(format!("the library of plugin `{}` is missing: found no `{}`", entry.name, files[0]));
        for folder in &self.search {
            d = d.note(format!("looked in {}", folder.display()));
        }
        Err(missing(d))
    }
}

/// The known key that is nearest to the key that a TOML error message calls unknown.
fn nearest_field(message: &str) -> Option<String> {
    let mut quoted = message.split('`').skip(1).step_by(2);
    if !message.starts_with("unknown field") {
        return None;
    }
    let unknown = quoted.next()?;
    nearest(unknown, quoted).map(str::to_owned)
}

/// The known name that is nearest to an unknown one, if one is close enough.
pub(crate) fn nearest<'a>(unknown: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|k| (strsim::damerau_levenshtein(unknown, k), k))
        .filter(|(d, k)| *d <= 1 + k.len().max(unknown.len()) / 3)
        .min_by_key(|(d, _)| *d)
        .map(|(_, k)| k)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fails(text: &str) -> Diagnostic {
        let e = Config::parse(Path::new("dir/plugins.toml"), text).unwrap_err();
        assert_eq!(e.kind, ErrorKind::PLUGIN);
        e.diagnostics[0].clone()
    }
    fn place(d: &Diagnostic) -> (u32, u32) {
        let p = d.place.as_ref().into_option().unwrap();
        assert_eq!(p.file.as_str(), "dir/plugins.toml");
        (p.line, p.column)
    }

    #[test]
    fn reads_everything_that_the_design_names() {
        let c = Config::parse(
            Path::new("dir/plugins.toml"),
            "schema = 1\nsearch = [\"a\", \"/b\"]\n[[plugin]]\nname = \"nn\"\nversion = \"^0.1\"\noptional = true\nexclude_engines = [\"V\"]\noverrides = [\"P\"]\n[plugin.options]\nwinograd = true\n[[plugin]]\nname = \"x\"\npath = \"p/libx.so\"\nenabled = false\n",
        )
        .unwrap();
        assert_eq!(c.search[..2], [PathBuf::from("dir/a"), PathBuf::from("/b")]);
        let (a, b) = (&c.entries[0], &c.entries[1]);
        assert!(a.enabled && a.optional && !b.enabled && !b.optional);
        assert_eq!(a.exclude_engines, [("V".to_owned(), At { line: 7, column: 20 })]);
        assert_eq!(a.options, [("winograd".to_owned(), toml::Value::Boolean(true), At { line: 10, column: 1 })]);
        assert_eq!(b.path.as_deref(), Some(Path::new("dir/p/libx.so")));
        assert_eq!(a.at.line, 3);
    }
    #[test]
    fn faults_have_line_and_column() {
        let d = fails("schema = 1\n[[plugin]]\nname = \"nn\"\nenabeld = true\n");
        assert_eq!(place(&d), (4, 1));
        assert!(d.message.contains("enabeld"), "{}", d.message);
        assert_eq!(d.help.as_str(), "did you mean `enabled`?");
        assert_eq!(place(&fails("schema = 1\nsearch = [\n[[plugin]]")).0, 3);
        assert_eq!(place(&fails("schema = 2\n")), (1, 10));
        assert_eq!(place(&fails("schema = 1\n[[plugin]]\nname = \"nn\"\nversion = \"^^1\"\n")), (4, 11));
        assert_eq!(place(&fails("schema = 1\n[[plugin]]\nname = \"nn\"\n[[plugin]]\nname = \"nn\"\n")), (5, 8));
        assert_eq!(place(&fails("schema = 1\n[[plugin]]\nname = \"../x\"\n")), (3, 8));
        assert_eq!(place(&fails("schema = 1\n[[plugin]]\nname = \"nn\"\noptional = 1\n")), (4, 12));
        assert!(fails("search = []\n").message.contains("schema"));
    }
    #[test]
    fn a_missing_library_says_where_it_was_looked_for() {
        let c = Config::parse(
            Path::new("d/plugins.toml"),
            "schema = 1\nsearch = [\"lib\"]\n[[plugin]]\nname = \"no-such\"\n",
        )
        .unwrap();
        let e = c.locate(&c.entries[0]).unwrap_err();
        let d = &e.diagnostics[0];
        assert!(d.message.contains("no-such") && d.message.contains("libge_no-such.so"), "{}", d.message);
        assert!(d.notes.iter().any(|n| n.contains("d/lib")));
        assert_eq!(place_line(d), 3);
    }
    fn place_line(d: &Diagnostic) -> u32 {
        d.place.as_ref().into_option().unwrap().line
    }
}
