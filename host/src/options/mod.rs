//! Options: each is declared once; values from all sources go into one flat map (DESIGN 6).
mod cores;

use crate::{Diagnostic, Error, ErrorKind, Result};
pub use cores::{CORES, runtime_cores};
pub use ge_compiler::options::{Decl, FOREIGN, Kind, Scope, TABLE, find};
use std::collections::BTreeMap;
use std::path::Path;

/// The key of atc's nested form of an options file.
const NESTED: &str = "compile options";
/// The scopes of that form, the outer ones first.
const SCOPES: [&str; 3] = ["global", "session", "graph"];

/// Values of options by name, before defaults are filled in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OptionMap {
    values: BTreeMap<String, String>,
    foreign: Vec<&'static str>,
}

impl OptionMap {
    /// Checks a value against the table of options and sets it. `source` says in errors where the
    /// value came from.
    ///
    /// # Errors
    /// Fails if the name is unknown, if a short name matches several options, or if the value is
    /// not allowed.
    pub fn set(&mut self, name: &str, value: &str, source: &str) -> Result<()> {
        if let Some((foreign, _)) = FOREIGN.iter().find(|(n, _)| *n == name) {
            self.foreign.push(foreign);
            return Ok(());
        }
        let name = full_name(name, source)?;
        check(name, value, source)?;
        self.values.insert(name.to_owned(), value.to_owned());
        Ok(())
    }
    /// Sets an option from `key=value`, the form that `--set` takes.
    pub fn set_pair(&mut self, pair: &str) -> Result<()> {
        let Some((k, v)) = pair.split_once('=') else {
            return Err(Diagnostic::error(format!("`--set {pair}` has no `=`"))
                .found(pair, "NAME=VALUE")
                .help("for example `--set ge.oo.level=O1`")
                .raise(ge_codes::OPTION_FORM));
        };
        self.set(k.trim(), v.trim(), "--set")
    }
    /// Takes over from `lower`, a source of lower precedence, the values that are not set here yet.
    pub fn under(&mut self, lower: OptionMap) {
        for (k, v) in lower.values {
            self.values.entry(k).or_insert(v);
        }
        self.foreign.extend(lower.foreign);
    }
    /// Reads a JSON file: either one object of names and values, or atc's nested form (`compile
    /// options` with global, session and graph scopes; the inner scope wins).
    pub fn read_json(path: &Path) -> Result<OptionMap> {
        let shown = path.display().to_string();
        let text = crate::files::read(path).map_err(|e| {
            Diagnostic::error(format!("cannot read options file `{shown}`: {e}")).raise(ge_codes::UNREADABLE)
        })?;
        let json: serde_json::Value = serde_json::from_slice(&text).map_err(|e| {
            Diagnostic::error(format!("options file `{shown}` is not JSON: {e}"))
                .atc("E10032")
                .at(shown.clone(), e.line() as u32, e.column() as u32)
                .raise(ge_codes::OPTIONS_FILE)
        })?;
        let mut out = OptionMap::default();
        let Some(object) = json.as_object() else {
            return Err(Diagnostic::error(format!("options file `{shown}` must hold an object of names and values"))
                .raise(ge_codes::OPTIONS_FILE));
        };
        let bad = |what: String, found: &str, expected: &str| {
            Diagnostic::error(format!("options file `{shown}`: {what}"))
                .found(found, expected)
                .raise(ge_codes::OPTIONS_FILE)
        };
        let Some(nested) = object.get(NESTED) else {
            object.iter().try_for_each(|(k, v)| out.set(k, &plain(v), &shown))?;
            return Ok(out);
        };
        if let Some(other) = object.keys().find(|k| *k != NESTED) {
            return Err(bad(
                format!("`{other}` stands beside `{NESTED}`"),
                other,
                "an option within one of the scopes",
            ));
        }
        let scope = |v: &serde_json::Value, name: &str| {
            let what = || bad(format!("`{name}` is no object of names and values"), &v.to_string(), "an object");
            v.as_object().cloned().ok_or_else(what)
        };
        let scopes = scope(nested, NESTED)?;
        if let Some(other) = scopes.keys().find(|k| !SCOPES.contains(&k.as_str())) {
            return Err(bad(format!("unknown scope `{other}`"), other, &format!("one of {}", SCOPES.join(", "))));
        }
        for name in SCOPES {
            let Some(values) = scopes.get(name) else { continue };
            scope(values, name)?.iter().try_for_each(|(k, v)| out.set(k, &plain(v), &shown))?;
        }
        Ok(out)
    }
    /// The values that were given, by option name.
    pub fn given(&self) -> &BTreeMap<String, String> {
        &self.values
    }
    /// The value of an option, or its default.
    pub fn text<'o>(&'o self, of: &'o Decl) -> &'o str {
        self.values.get(of.name).map_or(of.default, String::as_str)
    }
    /// The given option names of the original that have no meaning here, each with the reason.
    pub fn foreign(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        FOREIGN.iter().filter(|(n, _)| self.foreign.contains(n)).copied()
    }
    /// All options with their types, with defaults filled in.
    ///
    /// # Errors
    /// Does not fail for values that [`OptionMap::set`] has accepted.
    pub fn resolved(&self) -> Result<ge_compiler::Options> {
        ge_compiler::Options::resolve(&self.values).map_err(|e| ge_codes::OPTION_VALUE.error(e.to_string()))
    }
    /// Gathers options by precedence: command line, then the `--options` file, then `$GE_OPTIONS`,
    /// then the environment variable of the original.
    pub fn gather(sets: &[String], file: Option<&Path>) -> Result<OptionMap> {
        let mut out = OptionMap::default();
        for s in sets {
            out.set_pair(s)?;
        }
        if let Some(f) = file {
            out.under(OptionMap::read_json(f)?);
        }
        if let Some(f) = std::env::var_os("GE_OPTIONS").filter(|f| !f.is_empty()) {
            out.under(OptionMap::read_json(Path::new(&f))?);
        }
        if std::env::var("ENABLE_DYNAMIC_SHAPE_MULTI_STREAM").is_ok_and(|v| v == "1") {
            let mut env = OptionMap::default();
            env.set("ge.x.dynamic_multi_stream", "1", "ENABLE_DYNAMIC_SHAPE_MULTI_STREAM")?;
            out.under(env);
        }
        if let Some(names) = std::env::var("OP_NO_REUSE_MEM").ok().filter(|v| !v.is_empty()) {
            let mut env = OptionMap::default();
            env.set("ge.x.no_reuse_ops", &names, "OP_NO_REUSE_MEM")?;
            out.under(env);
        }
        Ok(out)
    }
}

fn plain(v: &serde_json::Value) -> String {
    match v {
        serde_json::Value::String(s) => s.clone(),
        other => other.to_string(),
    }
}

/// Expands a name whose last words are given, for example `precision_mode` to
/// `ge.exec.precision_mode`. A known full name is returned unchanged; an unknown name is left to
/// [`check`].
fn full_name<'n>(name: &'n str, source: &str) -> Result<&'n str> {
    if find(name).is_some() || name.is_empty() {
        return Ok(name);
    }
    let plain = |s: &str| s.to_lowercase().replace('-', "_");
    let tail = format!(".{}", plain(name));
    let all: Vec<&'static str> = TABLE.iter().map(|d| d.name).filter(|n| plain(n).ends_with(&tail)).collect();
    match all.as_slice() {
        [] => Ok(name),
        [one] => Ok(one),
        several => Err(Diagnostic::error(format!("`{name}` (from {source}) is the end of several options' names"))
            .subject(name)
            .found(format!("`{name}`"), format!("one of {}", several.join(", ")))
            .help(format!("write it out, for example `{}`", several[0]))
            .raise(ge_codes::UNKNOWN_NAME)),
    }
}

/// Checks one value. The error names the option, the value found, the values expected and the
/// nearest known name.
pub fn check(name: &str, value: &str, source: &str) -> Result<()> {
    let Some(d) = find(name) else {
        // A misspelt short name resembles the end of a full name.
        let last = |n: &'static str| n.rsplit('.').next().unwrap_or(n);
        let short = || nearest(name, TABLE.iter().map(|d| last(d.name)));
        let near = nearest(name, TABLE.iter().map(|d| d.name))
            .or_else(|| short().and_then(|s| TABLE.iter().map(|d| d.name).find(|n| last(n) == s)));
        return Err(Diagnostic::error(format!("unknown option `{name}` (from {source})"))
            .atc("E10016")
            .subject(name)
            .help(near.map_or_else(
                || "`ge compile --help-options` lists all".to_owned(),
                |n| format!("did you mean `{n}`? `ge compile --help-options` lists all"),
            ))
            .raise(ge_codes::UNKNOWN_NAME));
    };
    match d.kind.refuse(value) {
        None => Ok(()),
        Some(expected) => {
            Err(Diagnostic::error(format!("option `{name}` (from {source}) has a value that is not allowed"))
                .atc("E10001")
                .subject(name)
                .found(format!("`{value}`"), expected)
                .help(d.help.to_owned())
                .raise(ge_codes::OPTION_VALUE))
        }
    }
}

/// The known name nearest to the given one, if one is near enough.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_lowercase();
    known
        .map(|k| (strsim::damerau_levenshtein(&lower, &k.to_lowercase()), k))
        .min_by_key(|(d, k)| (*d, *k))
        .filter(|(d, k)| *d <= 2 + k.len() / 4)
        .map(|(_, k)| k)
}

/// The error for constants of a compiled model (name and shape) that are treated as inputs; `given`
/// describes what is given for them.
pub fn constant_inputs(bad: &[(&str, &str)], given: &str) -> Error {
    let entries: Vec<String> = bad.iter().map(|(name, dims)| format!("{name}:{dims}")).collect();
    let names: Vec<String> = bad.iter().map(|(name, _)| format!("`{name}`")).collect();
    Diagnostic::error(format!("{given} is given for {}: a constant of the compiled model", names.join(", ")))
        .subject(bad.first().map_or("", |b| b.0))
        .found(given, "an input of the compiled model")
        .help(format!("compile the model with `--input-shape \"{}\"`: then it is an input", entries.join(";")))
        .note("the model has an initializer for it, which is its value where none is asked for")
        .raise(ge_codes::INPUT)
}

/// Makes the error for an unknown name, with the nearest known name.
pub fn unknown_name<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str> + Clone) -> Error {
    const SHOWN: usize = 40;
    let count = known.clone().count();
    let mut list = known.clone().take(SHOWN).collect::<Vec<_>>().join(", ");
    if count > SHOWN {
        list.push_str(&format!(", … and {} more", count - SHOWN));
    }
    let d = Diagnostic::error(format!("unknown {what} `{name}`"))
        .code(ge_codes::UNKNOWN_NAME)
        .subject(name)
        .found(format!("`{name}`"), format!("one of {list}"));
    match nearest(name, known) {
        Some(n) => d.help(format!("did you mean `{n}`?")),
        None => d,
    }
    .of(ErrorKind::USAGE)
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn values_are_checked_and_unknown_names_answered_with_the_nearest() {
        let mut m = OptionMap::default();
        m.set_pair("ge.oo.level=O1").expect("legal");
        assert_eq!(m.given()["ge.oo.level"], "O1");
        let e = m.set_pair("ge.oo.level=O2").expect_err("O2 is internal");
        assert!(e.diagnostics[0].expected.contains("O3"), "{e}");
        let e = m.set_pair("ge.oo.levle=O1").expect_err("typo");
        assert!(e.diagnostics[0].help.contains("ge.oo.level"), "{:?}", e.diagnostics[0].help);
        assert!(m.set_pair("ge.x.stream_mode=parallel:4").is_ok());
        assert!(m.set_pair("ge.x.stream_mode=parallel:0").is_err());
        assert!(m.set_pair("ge.streamMaxParallelNum=AIcoreEngine:2,DNN_HCCL:1").is_ok());
        assert!(m.set_pair("ge.streamMaxParallelNum=AIcoreEngine").is_err());
        let mut lower = OptionMap::default();
        lower.set_pair("ge.oo.level=O3").expect("legal");
        m.under(lower);
        assert_eq!(m.given()["ge.oo.level"], "O1");
    }
    #[test]
    fn scopes_of_an_options_file_are_known_and_hold_all_options() {
        let read = |text: &str| {
            let file = tempfile::NamedTempFile::new().expect("a file");
            std::fs::write(file.path(), text).expect("written");
            OptionMap::read_json(file.path())
        };
        let both = r#"{"compile options": {"global": {"ge.oo.level": "O1"}, "graph": {"ge.oo.level": "O3"}}}"#;
        assert_eq!(read(both).expect("the inner scope wins").given()["ge.oo.level"], "O3");
        for text in [
            r#"{"compile options": {"graphs": {"ge.oo.level": "O1"}}}"#,
            r#"{"compile options": {"graph": {}}, "ge.oo.level": "O1"}"#,
            r#"{"compile options": {"global": 5}}"#,
            r#"{"compile options": 5}"#,
        ] {
            assert_eq!(read(text).expect_err(text).kind, ErrorKind::USAGE, "{text}");
        }
    }
    #[test]
    fn the_end_of_a_name_is_enough_where_one_option_has_it() {
        let mut m = OptionMap::default();
        m.set_pair("precision_mode=force_fp16").expect("one option ends so");
        m.set_pair("oo.level=O1").expect("one option ends so");
        m.set_pair("stream-mode=parallel:2").expect("`-` is `_`");
        assert_eq!(
            (m.given()["ge.exec.precision_mode"].as_str(), m.given()["ge.oo.level"].as_str()),
            ("force_fp16", "O1")
        );
        assert_eq!(m.given()["ge.x.stream_mode"], "parallel:2");
        m.set_pair("variable_acc=false").expect("the whole name is ge.exec.variable_acc");
        m.set_pair("ge.op_debug_level=1").expect("the original's name is accepted");
        assert!(m.foreign().next().is_some_and(|(n, why)| n == "ge.op_debug_level" && !why.is_empty()));
        assert!(m.resolved().is_ok_and(|o| !o.variable_acc && o.given().len() == 4));
        let e = m.set_pair("precison_mode=force_fp16").expect_err("a typo");
        assert!(e.diagnostics[0].help.contains("ge.exec.precision_mode"), "{:?}", e.diagnostics[0].help);
        let e = unknown_name("thing", "x", (0..50).map(|_| "y"));
        assert!(e.diagnostics[0].expected.ends_with("… and 10 more"), "{e}");
    }
}
