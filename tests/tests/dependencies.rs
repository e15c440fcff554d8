//! Compares the manifests with the sources and with `deny.toml`: every dependency is used, licences
//! are allowed, and programs and tests have the same set of features.
use ge_tests::root;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

fn cargo(args: &[&str]) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let out = Command::new(cargo).args(args).arg("--offline").current_dir(root()).output().unwrap();
    assert!(out.status.success(), "cargo {}: {}", args.join(" "), String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

fn packages(args: &[&str]) -> Vec<Value> {
    let all = [&["metadata", "--format-version", "1"], args].concat();
    let mut doc: Value = serde_json::from_str(&cargo(&all)).unwrap();
    doc["packages"].as_array_mut().unwrap().drain(..).collect()
}

fn text<'a>(v: &'a Value, key: &str) -> &'a str {
    v[key].as_str().unwrap_or("")
}

/// Appends the code of a file, or of all Rust files below a folder, without comments.
fn code(path: &Path, out: &mut String) {
    if path.is_dir() {
        for e in std::fs::read_dir(path).unwrap() {
            code(&e.unwrap().path(), out);
        }
    } else if path.extension().is_some_and(|e| e == "rs") {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().for_each(|l| {
            out.push_str(l.split("//").next().unwrap_or(""));
            out.push('\n');
        });
    }
}

fn has_word(code: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).any(|(i, _)| {
        !code[..i].chars().next_back().is_some_and(part) && !code[i + word.len()..].chars().next().is_some_and(part)
    })
}

#[test]
fn no_crate_names_a_dependency_that_it_does_not_use() {
    let mut named = BTreeSet::new();
    let mut idle = Vec::new();
    for p in packages(&["--no-deps"]) {
        let folder = Path::new(text(&p, "manifest_path")).parent().unwrap().to_owned();
        let read = |parts: &[&str]| {
            let mut all = String::new();
            parts.iter().for_each(|part| code(&folder.join(part), &mut all));
            all
        };
        for d in p["dependencies"].as_array().unwrap() {
            let (kind, name) = (text(d, "kind"), text(d, "name"));
            named.insert(name.to_owned());
            let places: &[&str] = match kind {
                "dev" if text(&p, "name") == "ge-tests" => &["tests", "../fuzz"],
                "dev" => &["src", "tests", "examples", "benches"],
                "build" => &["build.rs"],
                _ => &["src"],
            };
            if !has_word(&read(places), &name.replace('-', "_")) {
                idle.push(format!("{} names {name} ({kind}) and does not use it", text(&p, "name")));
            }
        }
    }
    let manifest: toml::Table = std::fs::read_to_string(root().join("Cargo.toml")).unwrap().parse().unwrap();
    for name in manifest["workspace"]["dependencies"].as_table().unwrap().keys() {
        if !named.contains(name) {
            idle.push(format!("the workspace names {name} and no crate uses it"));
        }
    }
    assert!(idle.is_empty(), "{}", idle.join("\n"));
}

/// If tests give a library other features than programs do, cargo builds the library and everything
/// that depends on it twice.
#[test]
fn tests_and_programs_are_built_from_the_same_libraries() {
    let features = |edges: &str| -> BTreeMap<String, BTreeSet<String>> {
        let tree = cargo(&["tree", "--workspace", "--prefix", "none", "-e", edges, "--format", "{p}\t{f}"]);
        let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for line in tree.lines().map(|l| l.trim_end_matches(" (*)")) {
            // Empty lines separate the workspace members.
            let Some((package, features)) = line.split_once('\t') else { continue };
            all.entry(package.to_owned()).or_default().insert(features.to_owned());
        }
        all
    };
    let (programs, tests) = (features("normal,build"), features("normal,build,dev"));
    assert!(programs.len() > 100, "{} packages", programs.len());
    for (package, sets) in &programs {
        assert_eq!(Some(sets), tests.get(package), "features of {package} in programs and in tests");
    }
}

/// Whether the allowed licences satisfy an SPDX expression. Old packages write `/` for `OR`.
fn allowed(expression: &str, allow: &BTreeSet<&str>) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let (met, rest) = any_of(&words, allow);
    met && rest.is_empty()
}

fn any_of<'a>(words: &'a [&'a str], allow: &BTreeSet<&str>) -> (bool, &'a [&'a str]) {
    let (mut met, mut rest) = all_of(words, allow);
    while rest.first() == Some(&"OR") {
        let (one, after) = all_of(&rest[1..], allow);
        (met, rest) = (met | one, after);
    }
    (met, rest)
}

fn all_of<'a>(words: &'a [&'a str], allow: &BTreeSet<&str>) -> (bool, &'a [&'a str]) {
    let (mut met, mut rest) = one_of(words, allow);
    while rest.first() == Some(&"AND") {
        let (one, after) = one_of(&rest[1..], allow);
        (met, rest) = (met & one, after);
    }
    (met, rest)
}

fn one_of<'a>(words: &'a [&'a str], allow: &BTreeSet<&str>) -> (bool, &'a [&'a str]) {
    match words {
        ["(", inner @ ..] => {
            let (met, rest) = any_of(inner, allow);
            if rest.first() == Some(&")") { (met, &rest[1..]) } else { (false, rest) }
        }
        [id, "WITH", exception, rest @ ..] => (allow.contains(format!("{id} WITH {exception}").as_str()), rest),
        [id, rest @ ..] => (allow.contains(id), rest),
        [] => (false, words),
    }
}

#[test]
fn licences_are_read_as_they_are_meant() {
    let allow = BTreeSet::from(["MIT", "Apache-2.0", "Unicode-3.0"]);
    for good in
        ["MIT", "MIT/Apache-2.0", "GPL-3.0 OR MIT", "(MIT OR GPL-2.0) AND Unicode-3.0", "GPL-2.0 AND GPL-3.0 OR MIT"]
    {
        assert!(allowed(good, &allow), "{good}");
    }
    for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT OR Apache-2.0", "MIT WITH something", "MIT)", "MIT GPL-3.0"] {
        assert!(!allowed(bad, &allow), "{bad}");
    }
}

#[test]
fn licences_sources_and_versions_are_those_of_deny_toml() {
    let rules: toml::Table = std::fs::read_to_string(root().join("deny.toml")).unwrap().parse().unwrap();
    let strings = |v: &toml::Value| -> Vec<String> {
        v.as_array().unwrap().iter().map(|s| s.as_str().or_else(|| s["crate"].as_str()).unwrap().to_owned()).collect()
    };
    let platform = &strings(&rules["graph"]["targets"])[0];
    let allow = strings(&rules["licenses"]["allow"]);
    let allow: BTreeSet<&str> = allow.iter().map(String::as_str).collect();
    let banned = strings(&rules["bans"]["deny"]);
    let skipped: BTreeSet<String> = strings(&rules["bans"]["skip"]).into_iter().collect();
    let (mut faults, mut used) = (Vec::new(), BTreeSet::new());
    let mut versions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for p in packages(&["--filter-platform", platform]) {
        let (name, licence, source) = (text(&p, "name"), text(&p, "license"), text(&p, "source"));
        versions
            .entry(name.to_owned())
            .or_default()
            .push(text(&p, "version").split('+').next().unwrap_or("").to_owned());
        if !allowed(licence, &allow) {
            faults.push(format!("{name}: licence `{licence}`"));
        }
        used.extend(allow.iter().filter(|a| licence.contains(**a)));
        if !source.is_empty() && source != "registry+https://github.com/rust-lang/crates.io-index" {
            faults.push(format!("{name}: comes from {source}"));
        }
        if banned.iter().any(|b| b == name) {
            faults.push(format!("{name}: is denied"));
        }
    }
    for (name, mut versions) in versions {
        versions.sort();
        versions.pop();
        faults.extend(
            versions
                .iter()
                .map(|v| format!("{name}@{v}"))
                .filter(|v| !skipped.contains(v))
                .map(|v| format!("{v}: a second version")),
        );
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert_eq!(used, allow, "licences that no package has need no permission");
}

/// Each advisory that `deny.toml` accepts is for a crate of the lock file, and its reason names
/// every crate that depends on that crate.
#[test]
fn advisories_that_are_accepted_hold_and_have_one_reason() {
    let rules: toml::Table = std::fs::read_to_string(root().join("deny.toml")).unwrap().parse().unwrap();
    let lock: toml::Table = std::fs::read_to_string(root().join("Cargo.lock")).unwrap().parse().unwrap();
    let packages = lock["package"].as_array().unwrap();
    let asks = |of: &str| -> Vec<&str> {
        let names = |p: &&toml::Value| {
            let list = p.get("dependencies").and_then(toml::Value::as_array);
            list.is_some_and(|l| l.iter().any(|d| d.as_str().is_some_and(|d| d.split(' ').next() == Some(of))))
        };
        packages.iter().filter(names).filter_map(|p| p["name"].as_str()).collect()
    };
    let accepted = rules["advisories"]["ignore"].as_array().unwrap();
    assert!(!accepted.is_empty());
    for a in accepted {
        let reason = a["reason"].as_str().unwrap();
        let (of, by) = (reason.split(' ').next().unwrap(), asks(reason.split(' ').next().unwrap()));
        assert!(a["id"].as_str().unwrap().starts_with("RUSTSEC-") && !by.is_empty(), "{of} is asked for by nobody");
        assert!(by.iter().all(|b| reason.contains(&format!("; {b} asks for it"))), "{of} is asked for by {by:?}");
    }
}
