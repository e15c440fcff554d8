//! SoC files: the embedded descriptions of Ascend SoCs and those that users supply (DESIGN 1, "What
//! a device is").
//!
//! A file is TOML with the keys of `KEYS`. Values that it omits come from its `base`, an embedded
//! SoC.
use ge_plugin_api::device::SocSpec;
use ge_plugin_api::{Diagnostic, Error, ErrorKind, Result};

/// Name of the SoC that is used if none is requested.
pub const DEFAULT: &str = "sim";

macro_rules! embed {
    ($($name:literal),+ $(,)?) => { &[$(($name, include_str!(concat!("../socs/", $name, ".toml")))),+] };
}
/// Embedded SoC files, in the order in which they are listed to users.
const FILES: &[(&str, &str)] = embed![
    "sim",
    "Ascend910B",
    "Ascend910B1",
    "Ascend910B2",
    "Ascend910B3",
    "Ascend910B4",
    "Ascend310P",
    "Ascend310P1",
    "Ascend310P3",
];

/// Keys that a SoC file may have.
pub const KEYS: &[&str] = &[
    "name",
    "base",
    "aic_cores",
    "aiv_cores",
    "prefetch_num",
    "memory_bytes",
    "streams_normal",
    "tasks_normal",
    "streams_huge",
    "tasks_huge",
    "unlimited_depth",
    "max_events",
    "max_notifies",
    "model_task_update",
    "task_launch_ns",
    "event_record_ns",
    "event_wait_ns",
];

/// Names of the embedded SoCs.
pub fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|f| f.0)
}

/// The name in `known` that is most similar to `name`, if any is similar enough.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|k| (strsim::jaro_winkler(&name.to_lowercase(), &k.to_lowercase()), k))
        .filter(|(score, _)| *score > 0.6)
        .max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(a.1)))
        .map(|(_, k)| k)
}

/// Returns the embedded SoC with this name.
///
/// # Errors
/// Fails if there is none; the error suggests the nearest name.
pub fn by_name(name: &str) -> Result<SocSpec> {
    match FILES.iter().find(|f| f.0 == name) {
        Some((n, text)) => parse(n, text, 0),
        None => {
            let mut d = Diagnostic::error(format!("there is no SoC `{name}`"))
                .note(format!("known: {}", names().collect::<Vec<_>>().join(", ")));
            if let Some(n) = nearest(name, names()) {
                d = d.help(format!("did you mean `{n}`? A SoC file is given by its path"));
            }
            Err(d.of(ErrorKind::USAGE))
        }
    }
}

/// Parses a user's SoC file; `file` is its name for messages.
pub fn from_text(file: &str, text: &str) -> Result<SocSpec> {
    parse(file, text, 0)
}

fn parse(file: &str, text: &str, depth: u32) -> Result<SocSpec> {
    let bad = |line: u32, m: String| Diagnostic::error(m).at(file, line, u32::from(line != 0)).of(ErrorKind::USAGE);
    let table: toml::Table = text.parse().map_err(|e: toml::de::Error| {
        let line = e.span().map_or(0, |s| text[..s.start.min(text.len())].matches('\n').count() as u32 + 1);
        bad(line, format!("the SoC file is not TOML: {}", e.message()))
    })?;
    let line_of = |key: &str| {
        let at = text
            .lines()
            .position(|l| l.trim_start().strip_prefix(key).is_some_and(|r| r.trim_start().starts_with('=')));
        at.map_or(0, |l| l as u32 + 1)
    };
    if let Some(k) = table.keys().find(|k| !KEYS.contains(&k.as_str())) {
        let help = nearest(k, KEYS.iter().copied()).map(|n| format!("; did you mean `{n}`?")).unwrap_or_default();
        return Err(bad(line_of(k), format!("a SoC file has no key `{k}`{help}")));
    }
    let string = |key: &str| match table.get(key) {
        None => Ok(None),
        Some(toml::Value::String(s)) => Ok(Some(s.as_str())),
        Some(v) => Err(bad(line_of(key), format!("`{key}` is a {}, expected text", v.type_str()))),
    };
    let base = match string("base")? {
        Some(b) if depth > 4 => return Err(bad(line_of("base"), format!("base `{b}` is nested too deeply"))),
        Some(b) => match FILES.iter().find(|f| f.0 == b) {
            Some((n, t)) => Some(parse(n, t, depth + 1)?),
            None => {
                return Err(by_name(b)
                    .err()
                    .unwrap_or_else(|| Error::usage("base"))
                    .with(|d| d.at(file, line_of("base"), 1)));
            }
        },
        None => None,
    };
    let number = |key: &str, base: Option<u64>, min: u64, max: u64| -> Result<u64> {
        let n = match (table.get(key), base) {
            (Some(toml::Value::Integer(n)), _) => u64::try_from(*n).ok(),
            (Some(v), _) => {
                return Err(bad(line_of(key), format!("`{key}` is a {}, expected a whole number", v.type_str())));
            }
            (None, Some(b)) => Some(b),
            (None, None) => return Err(bad(0, format!("the SoC file has no `{key}` and no `base` to take it from"))),
        };
        n.filter(|n| (min..=max).contains(n))
            .ok_or_else(|| bad(line_of(key), format!("`{key}` is out of range, expected {min} to {max}")))
    };
    let truth = |key: &str, base: Option<bool>| match (table.get(key), base) {
        (Some(toml::Value::Boolean(b)), _) => Ok(*b),
        (Some(v), _) => Err(bad(line_of(key), format!("`{key}` is a {}, expected true or false", v.type_str()))),
        (None, Some(b)) => Ok(b),
        (None, None) => Err(bad(0, format!("the SoC file has no `{key}` and no `base` to take it from"))),
    };
    let b = base.as_ref();
    let small =
        |key: &str, base: Option<u32>, min: u64| number(key, base.map(u64::from), min, 1 << 24).map(|n| n as u32);
    const LONG: u64 = 1_000_000_000_000;
    let name = string("name")?.ok_or_else(|| bad(0, "the SoC file has no `name`".into()))?;
    Ok(SocSpec {
        name: name.into(),
        aic_cores: small("aic_cores", b.map(|b| b.aic_cores), 1)?,
        aiv_cores: small("aiv_cores", b.map(|b| b.aiv_cores), 1)?,
        prefetch_num: small("prefetch_num", b.map(|b| b.prefetch_num), 0)?,
        memory_bytes: number("memory_bytes", b.map(|b| b.memory_bytes), 1, 1 << 50)?,
        streams_normal: small("streams_normal", b.map(|b| b.streams_normal), 1)?,
        tasks_normal: small("tasks_normal", b.map(|b| b.tasks_normal), 1)?,
        streams_huge: small("streams_huge", b.map(|b| b.streams_huge), 0)?,
        tasks_huge: small("tasks_huge", b.map(|b| b.tasks_huge), 0)?,
        unlimited_depth: truth("unlimited_depth", b.map(|b| b.unlimited_depth))?,
        max_events: small("max_events", b.map(|b| b.max_events), 0)?,
        max_notifies: small("max_notifies", b.map(|b| b.max_notifies), 0)?,
        model_task_update: truth("model_task_update", b.map(|b| b.model_task_update))?,
        task_launch_ns: number("task_launch_ns", b.map(|b| b.task_launch_ns), 0, LONG)?,
        event_record_ns: number("event_record_ns", b.map(|b| b.event_record_ns), 0, LONG)?,
        event_wait_ns: number("event_wait_ns", b.map(|b| b.event_wait_ns), 0, LONG)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_embedded_soc_is_read_by_its_own_name() {
        for n in names() {
            let s = by_name(n).expect(n);
            assert_eq!(s.name.as_str(), n);
            let prefetch = if n.starts_with("Ascend310P") { 5 } else { 8 };
            assert_eq!(s.prefetch_num, prefetch, "{n}");
        }
        let s = by_name("sim").expect("sim");
        assert_eq!((s.streams_normal, s.tasks_normal, s.streams_huge, s.tasks_huge), (1024, 1024, 8192, 8192));
        assert_eq!((s.max_events, s.max_notifies), (65536, 1024));
        assert_eq!((s.task_launch_ns, s.event_record_ns, s.event_wait_ns), (3000, 500, 500));
    }

    #[test]
    fn an_unknown_soc_names_the_nearest() {
        let e = by_name("Ascend910b3").expect_err("unknown");
        assert_eq!(e.kind, ErrorKind::USAGE);
        assert!(e.diagnostics[0].help.contains("Ascend910B3"), "{:?}", e.diagnostics[0]);
    }

    #[test]
    fn a_file_overrides_its_base_and_is_checked() {
        let s = from_text("my.toml", "name = \"mine\"\nbase = \"Ascend310P\"\ntasks_normal = 7\n").expect("good");
        assert_eq!((s.name.as_str(), s.prefetch_num, s.tasks_normal, s.streams_normal), ("mine", 5, 7, 1024));
        for (text, line, words) in [
            ("name = \"a\"\nbase = \"sim\"\naic_core = 2\n", 3, "did you mean `aic_cores`"),
            ("name = \"a\"\nbase = \"simm\"\n", 2, "no SoC `simm`"),
            ("name = \"a\"\n", 0, "no `aic_cores` and no `base`"),
            ("name = \"a\"\nbase = \"sim\"\naic_cores = -1\n", 3, "out of range"),
            ("name = \"a\"\nbase = \"sim\"\nunlimited_depth = 1\n", 3, "expected true or false"),
            ("name = = 2\n", 1, "not TOML"),
        ] {
            let e = from_text("my.toml", text).expect_err(text);
            assert!(e.message().contains(words), "{text}: {e}");
            let place = e.diagnostics[0].place.as_ref().into_option().expect("place");
            assert_eq!((place.file.as_str(), place.line), ("my.toml", line), "{text}");
        }
    }
}
