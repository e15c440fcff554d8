//! The guide: every command in it is run, in the order of its pages, and prints what the page
//! shows. Also the JSON Schemas that the guide names.
use ge_tests::{expect_code, models, root, target};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One command of a page.
struct Step {
    page: String,
    line: usize,
    command: String,
    code: i32,
    /// Expected lines of output; `…` stands for any text.
    shown: Vec<String>,
}

fn source() -> PathBuf {
    root().join("docs/guide/src")
}

/// The pages, in the order of `SUMMARY.md`.
fn pages() -> Vec<String> {
    let summary = std::fs::read_to_string(source().join("SUMMARY.md")).unwrap();
    let link = |l: &str| l.split_once("](").and_then(|(_, r)| r.split_once(')')).map(|(page, _)| page.to_owned());
    summary.lines().filter_map(link).collect()
}

/// The commands of a text's `console` blocks: lines that begin with `$ `, each with the output
/// shown below it.
fn steps(page: &str, text: &str) -> Vec<Step> {
    let mut out: Vec<Step> = Vec::new();
    let mut inside = false;
    for (i, l) in text.lines().enumerate() {
        if let Some(fence) = l.strip_prefix("```") {
            inside = !inside && fence == "console";
            continue;
        }
        if !inside {
            continue;
        }
        match l.strip_prefix("$ ") {
            Some(c) => {
                let (command, code) = match c.split_once("  # exits with ") {
                    Some((c, code)) => (c, code.trim().parse().expect("an exit code")),
                    None => (c, 0),
                };
                let (page, command) = (page.to_owned(), command.to_owned());
                out.push(Step { page, line: i + 1, command, code, shown: Vec::new() });
            }
            None => out.last_mut().expect("output stands below a command").shown.push(l.to_owned()),
        }
    }
    out
}

/// Whether a printed line matches a line of a page.
fn like(shown: &str, line: &str) -> bool {
    let mut parts = shown.split('…');
    let first = parts.next().unwrap_or("");
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    let parts: Vec<&str> = parts.collect();
    for (i, p) in parts.iter().enumerate() {
        if i + 1 == parts.len() {
            return rest.ends_with(p);
        }
        match rest.find(p) {
            Some(at) => rest = &rest[at + p.len()..],
            None => return false,
        }
    }
    rest.is_empty()
}

/// Checks that all shown lines were printed, in order; a line that is only `…` stands for any
/// number of lines.
fn printed(shown: &[String], lines: &[&str]) -> Result<(), String> {
    let mut at = 0;
    let mut any = false;
    for s in shown {
        if s.trim() == "…" {
            any = true;
            continue;
        }
        let found = lines[at..].iter().position(|l| like(s, l)).filter(|k| any || *k == 0);
        at += found.ok_or_else(|| format!("no line `{s}`"))? + 1;
        any = false;
    }
    if any || at == lines.len() { Ok(()) } else { Err(format!("`{}` is not shown", lines[at])) }
}

fn run(d: &Path, s: &Step) {
    let path = format!("{}:{}", target().display(), std::env::var("PATH").unwrap_or_default());
    let out = Command::new("sh")
        // Both output streams, as a terminal would show them.
        .args(["-c", &format!("{} 2>&1", s.command)])
        .current_dir(d)
        .env("PATH", path)
        .env("GE_PLUGINS", root().join("plugins.toml"))
        .env_remove("GE_OPTIONS")
        .output()
        .expect("a shell");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let at = format!("{}:{}: {}", s.page, s.line, s.command);
    assert_eq!(out.status.code(), Some(s.code), "{at}\n{text}");
    // Lines of progress depend on the clock, so they are left out.
    let lines: Vec<&str> =
        text.lines().filter(|l| !(l.starts_with('[') && l.contains('/') && l.ends_with('s'))).collect();
    if let Err(why) = printed(&s.shown, &lines) {
        panic!("{at}: {why}, it printed\n{text}");
    }
}

fn workplace() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for folder in ["tests/models/digits", "docs/guide/files"] {
        for f in std::fs::read_dir(root().join(folder)).unwrap().flatten() {
            std::fs::copy(f.path(), dir.path().join(f.file_name())).unwrap();
        }
    }
    dir
}

#[test]
fn every_command_of_the_guide_runs_and_prints_what_is_shown() {
    let dir = workplace();
    let mut all = 0;
    for page in pages() {
        let text = std::fs::read_to_string(source().join(&page)).unwrap();
        let steps = steps(&page, &text);
        assert!(!steps.is_empty(), "{page} has no command");
        all += steps.len();
        steps.iter().for_each(|s| run(dir.path(), s));
    }
    assert!(all > 50, "{all} commands were found");
    let files = std::fs::read_dir(source()).unwrap().flatten().filter(|f| f.path().is_file()).count();
    assert_eq!(files, pages().len() + 1, "a page is not in the summary");
}

#[test]
fn the_transcript_of_the_readme_is_what_is_printed() {
    let dir = workplace();
    let text = std::fs::read_to_string(root().join("README.md")).unwrap();
    let steps = steps("README.md", &text);
    assert!(steps.len() >= 4, "the first screen shows what comes out");
    steps.iter().for_each(|s| run(dir.path(), s));
}

/// Collects what is wrong with a document by a schema. Known keys are `type`, `properties`,
/// `required`, `additionalProperties`, `items`, `enum`, `const` and `$ref` to `#/$defs`. Every key
/// that is printed must be in the schema.
fn faults(schema: &Value, whole: &Value, v: &Value, at: &str, out: &mut Vec<String>) {
    if let Some(name) = schema["$ref"].as_str() {
        let def = name.strip_prefix("#/$defs/").map(|n| &whole["$defs"][n]).filter(|d| d.is_object());
        return faults(def.expect("a definition"), whole, v, at, out);
    }
    let is = |t: &str| match t {
        "object" => v.is_object(),
        "array" => v.is_array(),
        "string" => v.is_string(),
        "integer" => v.is_i64() || v.is_u64(),
        "number" => v.is_number(),
        "boolean" => v.is_boolean(),
        "null" => v.is_null(),
        other => panic!("{at}: type {other} of the schema is not known"),
    };
    let types: Vec<&str> = match &schema["type"] {
        Value::String(t) => vec![t],
        Value::Array(l) => l.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if !types.is_empty() && !types.iter().any(|t| is(t)) {
        out.push(format!("{at}: {v} is no {}", types.join(" or ")));
        return;
    }
    if !schema["const"].is_null() && schema["const"] != *v {
        out.push(format!("{at}: {v} is not {}", schema["const"]));
    }
    if let Some(list) = schema["enum"].as_array().filter(|l| !l.contains(v)) {
        out.push(format!("{at}: {v} is none of {list:?}"));
    }
    if let Value::Object(o) = v {
        for r in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !o.contains_key(r) {
                out.push(format!("{at}: `{r}` is missing"));
            }
        }
        for (k, x) in o {
            match (&schema["properties"][k], &schema["additionalProperties"]) {
                (p, _) if p.is_object() => faults(p, whole, x, &format!("{at}.{k}"), out),
                (_, p) if p.is_object() => faults(p, whole, x, &format!("{at}.{k}"), out),
                (_, Value::Bool(true)) => {}
                _ => out.push(format!("{at}: `{k}` is not in the schema")),
            }
        }
    }
    if let Value::Array(l) = v {
        l.iter().enumerate().for_each(|(i, x)| faults(&schema["items"], whole, x, &format!("{at}[{i}]"), out));
    }
}

fn hold(name: &str, document: &[u8]) {
    let path = root().join(format!("docs/guide/schemas/{name}.schema.json"));
    let schema: Value =
        serde_json::from_slice(&std::fs::read(&path).unwrap_or_else(|e| panic!("{name}: {e}"))).unwrap();
    let v: Value = serde_json::from_slice(document).unwrap_or_else(|e| panic!("{name}: {e}"));
    let mut out = Vec::new();
    faults(&schema, &schema, &v, name, &mut out);
    assert!(out.is_empty(), "{}", out.join("\n"));
}

#[test]
fn what_commands_print_is_what_the_schemas_say() {
    let dir = workplace();
    let d = dir.path();
    let bert = models().join("bert_l4_h256_s128.onnx").display().to_string();
    let json = |name: &str, code: i32, args: &[&str]| {
        hold(name, &expect_code(d, code, &[args, &["--json", "-q"]].concat()).stdout);
    };
    json("compile", 0, &["compile", "digits.onnx", "-o", "d.om"]);
    json("compile", 0, &["compile", &bert, "-o", "b.om", "--set", "ge.x.stream_mode=parallel:2"]);
    json("options", 0, &["compile", "--help-options"]);
    json("run", 0, &["run", "d.om", "--random", "1"]);
    let sum = "graph @main(%x: f32[2], %s: f32[2]) {\n  %n = Add(%x, %s) : f32[2]\n  return %n\n}\n";
    std::fs::write(d.join("sum.ge"), sum).unwrap();
    json("compile", 0, &["compile", "sum.ge", "-o", "sum.om", "--state", "n:s"]);
    json("run", 0, &["run", "sum.om", "--steps", "2", "--input", "x=[1,2]"]);
    // The state of a model that is compiled now starts with zeros, too.
    json("run", 0, &["run", "sum.ge", "--set", "ge.x.state=n:s", "--steps", "2", "--input", "x=[1,2]"]);
    // Open sizes, and a difference that is not finite.
    for op in ["Log", "Neg"] {
        let text = format!("graph @main(%x: f32[n]) {{\n  %y = {op}(%x) : f32[n]\n  return %y\n}}\n");
        std::fs::write(d.join(format!("{op}.ge")), text).unwrap();
        json("compile", 0, &["compile", &format!("{op}.ge"), "-o", &format!("{op}.om")]);
    }
    json("inspect", 0, &["inspect", "Log.om"]);
    json("compare", 1, &["compare", "Log.om", "Neg.om", "--input", "x=[-1,2]"]);
    let parts = "graph @main(%s: seq<f32[...]>) {\n  %p = Identity(%s) : seq<f32[...]>\n  return %p\n}\n";
    std::fs::write(d.join("parts.ge"), parts).unwrap();
    std::fs::create_dir_all(d.join("parts/input_0")).unwrap();
    json("model", 0, &["inspect", "parts.ge"]);
    json("run", 0, &["run", "parts.ge", "--inputs", "parts"]);
    let stop = ["--set", "ge.buildMode=tuning", "--set", "ge.buildStep=before_ub_match", "--set", "ge.tuningPath=t"];
    json("stopped", 0, &[&["compile", "sum.ge", "-o", "never.om"][..], &stop].concat());
    json("bench", 0, &["bench", "d.om", "--iterations", "2", "--per-node"]);
    json("bench", 0, &["bench", "d.om", "--compare", "b.om", "--iterations", "2"]);
    json("model", 0, &["inspect", "digits.onnx"]);
    for om in ["d.om", "b.om"] {
        json("inspect", 0, &["inspect", om]);
    }
    json("support", 0, &["inspect", "digits.onnx", "--support"]);
    json("compare", 0, &["compare", "d.om", "d.om", "--random", "1"]);
    json("check", 0, &["check", "d.om"]);
    json("explain", 0, &["explain", "GE-E0207"]);
    json("plugin-list", 0, &["plugin", "list"]);
    json("compile", 0, &["compile", "digits.onnx", "-o", "d.om", "--set", "ge.graph_compiler_cache_dir=cache"]);
    json("cache", 0, &["cache", "list", "cache"]);
    json("passes", 0, &["opt", "--list"]);
    json("error", 2, &["compile", "missing.onnx", "-o", "d.om"]);
    json("error", 2, &["bench", "d.om", "--iterations", "0"]);
    json("error", 2, &["run", "d.om", "--nope"]);
    // The check does find faults.
    let schema = serde_json::json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["b"]});
    let mut out = Vec::new();
    faults(&schema, &schema, &serde_json::json!({"a": "x", "c": 1}), "t", &mut out);
    assert_eq!(out.len(), 3, "{out:?}");
}
