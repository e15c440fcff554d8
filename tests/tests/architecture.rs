//! Compares what `docs/ARCHITECTURE.md` says with the code: crates, direction of dependencies,
//! first lines of files, places of `unsafe`, names of tests.
use ge_tests::root;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

fn architecture() -> String {
    std::fs::read_to_string(root().join("docs/ARCHITECTURE.md")).unwrap()
}

/// Text of the section with this heading.
fn section(text: &str, heading: &str) -> String {
    let start = text.find(&format!("## {heading}\n")).unwrap_or_else(|| panic!("no section {heading}"));
    let body = &text[start + 3..];
    body[..body.find("\n## ").unwrap_or(body.len())].to_owned()
}

/// The names in backquotes.
fn quoted(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Crates of the workspace, each with the workspace crates that it depends on.
fn crates() -> BTreeMap<String, BTreeSet<String>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let out = Command::new(cargo)
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let doc: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let packages = doc["packages"].as_array().unwrap();
    let name = |p: &serde_json::Value| p["name"].as_str().unwrap().to_owned();
    let ours: BTreeSet<String> = packages.iter().map(name).collect();
    packages
        .iter()
        .map(|p| {
            let uses = p["dependencies"].as_array().unwrap().iter().filter(|d| d["kind"].is_null()).map(name);
            (name(p), uses.filter(|d| ours.contains(d)).collect())
        })
        .collect()
}

/// All Rust sources of the repository: path relative to its root, and text.
fn sources() -> Vec<(PathBuf, String)> {
    fn walk(dir: &Path, root: &Path, out: &mut Vec<(PathBuf, String)>) {
        let mut entries: Vec<_> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
        entries.sort();
        for p in entries {
            let name = p.file_name().unwrap().to_string_lossy().into_owned();
            if p.is_dir() && name != "target" && !name.starts_with('.') {
                walk(&p, root, out);
            } else if name.ends_with(".rs") {
                out.push((p.strip_prefix(root).unwrap().to_owned(), std::fs::read_to_string(&p).unwrap()));
            }
        }
    }
    let mut out = Vec::new();
    for top in ["plugin-api", "host", "engines", "plugins", "tests", "benches", "examples", "fuzz", "tools", "xtask"] {
        walk(&root().join(top), &root(), &mut out);
    }
    assert!(out.len() > 200, "{} sources found", out.len());
    out
}

/// Whether a word occurs in the code of a line (not in its comment).
fn has_word(line: &str, word: &str) -> bool {
    let code = line.split("//").next().unwrap_or("");
    let part = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).any(|(i, _)| {
        !code[..i].chars().next_back().is_some_and(part) && !code[i + word.len()..].chars().next().is_some_and(part)
    })
}

#[test]
fn the_crate_table_is_what_cargo_says() {
    let table: BTreeMap<String, BTreeSet<String>> = section(&architecture(), "Crates")
        .lines()
        .filter(|l| l.starts_with("| `"))
        .map(|l| {
            let cells: Vec<&str> = l.split('|').collect();
            assert!(!cells[2].trim().is_empty(), "no purpose: {l}");
            (quoted(cells[1])[0].clone(), quoted(cells[3]).into_iter().collect())
        })
        .collect();
    let crates = crates();
    for (name, uses) in &crates {
        assert_eq!(table.get(name), Some(uses), "the row of `{name}`");
    }
    assert_eq!(table.keys().collect::<Vec<_>>(), crates.keys().collect::<Vec<_>>());
}

#[test]
fn dependencies_run_one_way() {
    let crates = crates();
    let uses = |name: &str| crates[name].iter().map(String::as_str).collect::<Vec<_>>();
    assert!(uses("ge-plugin-api").is_empty() && uses("ge-kernels").is_empty() && uses("ge-om").is_empty());
    assert_eq!(uses("ge-codes"), ["ge-plugin-api"]);
    assert_eq!(uses("ge-ir"), ["ge-codes", "ge-plugin-api"]);
    assert!(!crates["ge-runtime"].contains("ge-compiler"));
    let libraries = [
        "ge-nn",
        "ge-cpu",
        "ge-hccl",
        "ge-rts",
        "ge-dvpp",
        "ge-ffts",
        "ge-local",
        "ge-ops",
        "ge-onnx",
        "ge-sim",
        "ge-fusion",
        "ge-onnx-ml",
        "ge-ort-contrib",
    ];
    for l in libraries {
        for d in &crates[l] {
            assert!(d == "ge-plugin-api" || d == "ge-kernels", "{l} depends on {d}");
        }
    }
    for (name, d) in &crates {
        let known: Vec<_> = d.iter().filter(|d| libraries.contains(&d.as_str())).collect();
        assert!(known.is_empty(), "{name} depends on {known:?}");
        assert!(
            name.ends_with("nn")
                || name.ends_with("cpu")
                || !d.contains("ge-kernels")
                || libraries.contains(&name.as_str())
        );
    }
}

#[test]
fn stages_look_back_only() {
    let order = [
        "prepare",
        "original",
        "stage1",
        "place",
        "partition",
        "subgraph",
        "merge",
        "stage2",
        "conflict",
        "params",
        "streams",
        "memory",
        "sync",
        "tasks",
        "split",
        "model",
    ];
    // Known uses of the module of a later stage, with the reason.
    let known = [
        ("streams", "sync"),   // node streams count the events that a choice would need
        ("streams", "memory"), // plans of streams are weighed by the memory that they need
        ("memory", "model"),   // weights are merged before they have places
    ];
    let at = |s: &str| order.iter().position(|o| *o == s);
    let mut seen = BTreeSet::new();
    for (path, text) in sources() {
        let Ok(inner) = path.strip_prefix("host/compiler/src") else { continue };
        let Some(room) = inner.iter().next().map(|r| r.to_string_lossy().trim_end_matches(".rs").to_owned()) else {
            continue;
        };
        let Some(mine) = at(&room) else { continue };
        for line in text.lines().filter(|l| !l.trim_start().starts_with("//")) {
            for (i, _) in line.match_indices("crate::") {
                let used: String = line[i + 7..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                if at(&used).is_some_and(|u| u > mine) {
                    assert!(known.contains(&(&room, &used)), "{}: {line}", path.display());
                    seen.insert((room.clone(), used));
                }
            }
        }
    }
    assert!(seen.len() <= known.len());
}

#[test]
fn every_file_says_what_lives_there() {
    for (path, text) in sources() {
        let first = text.lines().next().unwrap_or("");
        assert!(first.starts_with("//! ") && first.len() >= 8, "{}: {first}", path.display());
    }
}

#[test]
fn nothing_is_left_to_do_and_no_test_is_set_aside() {
    // Written in parts, so that this file does not contain them.
    let words = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("todo", "!"), concat!("unimplemented", "!")];
    let attributes = [concat!("#[", "ignore"), concat!("#[", "should_panic")];
    for (path, text) in sources() {
        for (i, line) in text.lines().enumerate() {
            for w in words.iter().chain(&attributes) {
                assert!(!line.contains(w), "{}:{}: {w}", path.display(), i + 1);
            }
        }
    }
}

#[test]
fn unsafe_stands_where_it_is_allowed() {
    let text = section(&architecture(), "Where `unsafe` is allowed");
    let rows: Vec<&str> = text.lines().filter(|l| l.starts_with("| `")).collect();
    let allowed: Vec<String> = rows.iter().flat_map(|l| quoted(l.split('|').nth(1).unwrap())).collect();
    let mut used = BTreeSet::new();
    for (path, text) in sources() {
        let Some((line, _)) = text.lines().enumerate().find(|(_, l)| has_word(l, "unsafe")) else { continue };
        if path.ends_with("tests/architecture.rs") {
            continue;
        }
        let place = allowed.iter().find(|a| path.starts_with(a));
        let place = place.unwrap_or_else(|| panic!("{}:{} uses unsafe", path.display(), line + 1));
        used.insert(place.clone());
    }
    assert_eq!(used, allowed.iter().cloned().collect(), "places that need no permission any more");
}

#[test]
fn invariants_name_tests_that_exist() {
    let text = section(&architecture(), "Invariants");
    let mut named = BTreeSet::new();
    for part in text.split('(').skip(1) {
        named.extend(quoted(part.split(')').next().unwrap_or("")));
    }
    assert!(named.len() > 20, "{named:?}");
    let all: Vec<String> = sources().into_iter().map(|(_, t)| t).collect();
    for n in named {
        assert!(all.iter().any(|t| t.contains(&format!("fn {n}("))), "no test is called `{n}`");
    }
}

#[test]
fn the_page_is_short() {
    assert!(architecture().lines().count() <= 400);
}
