//! The model cache through the real binary: hits, misses that give the reason, damage, several
//! processes at once, and killed processes.
use ge_tests::{expect_code, fixtures, ge, root, target};
use std::path::Path;
use std::process::{Command, Stdio};

const MODEL: &str = "graph @main(%x: f32[4,8]) {
  %w = Const() {value = dense<f32[8,8]: splat 0.5>} : f32[8,8]
  %m = MatMul(%x, %w) : f32[4,8]
  %y = Relu(%m) : f32[4,8]
  return %y
}
";

/// Compiles with a cache; returns the line that the cache printed.
fn compile(dir: &Path, model: &str, om: &str, more: &[&str]) -> String {
    let mut args = vec!["compile", model, "-o", om, "--set", "ge.graph_compiler_cache_dir=cache"];
    args.extend(more);
    let out = expect_code(dir, 0, &args);
    let err = String::from_utf8_lossy(&out.stderr).into_owned();
    let lines: Vec<&str> = err.lines().filter(|l| l.starts_with("cache ")).collect();
    assert_eq!(lines.len(), 1, "{err}");
    lines[0].to_owned()
}

fn read(dir: &Path, name: &str) -> Vec<u8> {
    std::fs::read(dir.join(name)).unwrap()
}

/// The files of the cache with this ending.
fn files(dir: &Path, ending: &str) -> Vec<std::path::PathBuf> {
    let mut v: Vec<_> = std::fs::read_dir(dir.join("cache")).unwrap().map(|e| e.unwrap().path()).collect();
    v.retain(|p| p.to_string_lossy().ends_with(ending));
    v.sort();
    v
}

#[test]
fn a_hit_gives_the_same_file_and_a_miss_says_what_differs() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    std::fs::write(d.join("m.ge"), MODEL).unwrap();
    expect_code(d, 0, &["compile", "m.ge", "-o", "plain.om"]);
    assert_eq!(compile(d, "m.ge", "a.om", &[]), "cache miss: graph");
    let hit = compile(d, "m.ge", "b.om", &["--jobs", "1"]);
    assert!(hit.starts_with("cache hit ") && hit.len() == 10 + 64, "{hit}");
    assert!(read(d, "a.om") == read(d, "plain.om"), "the cache's folder is no part of the model");
    // Names come from the file: another file with the same graph is a hit, and gives what a build
    // of its own would give.
    std::fs::write(d.join("other.ge"), MODEL.replace("@main", "@renamed")).unwrap();
    expect_code(d, 0, &["compile", "other.ge", "-o", "other_plain.om"]);
    assert_eq!(compile(d, "other.ge", "other.om", &[]), hit);
    assert!(read(d, "other.om") == read(d, "other_plain.om"));
    // A miss names the part that differs.
    assert_eq!(compile(d, "m.ge", "c.om", &["--set", "ge.oo.level=O1"]), "cache miss: option ge.oo.level");
    std::fs::write(d.join("k.ge"), MODEL.replace("0.5", "0.25")).unwrap();
    assert_eq!(compile(d, "k.ge", "k.om", &[]), "cache miss: constants");
    std::fs::write(d.join("g.ge"), MODEL.replace("Relu", "Neg")).unwrap();
    assert_eq!(compile(d, "g.ge", "g.om", &[]), "cache miss: graph");
    assert_eq!(compile(d, "m.ge", "s.om", &["--soc", "Ascend910B"]), "cache miss: option soc");
    let plugins = std::fs::read_to_string(root().join("plugins.toml")).unwrap();
    let cut = plugins.find("name = \"dvpp\"").unwrap();
    let changed = format!("{}enabled = false\n{}", &plugins[..cut], &plugins[cut..]);
    let changed = changed.replacen("schema = 1", &format!("schema = 1\nsearch = [{:?}]", target()), 1);
    std::fs::write(d.join("plugins.toml"), changed).unwrap();
    let said = compile(d, "m.ge", "p.om", &["--plugins", "plugins.toml"]);
    assert!(said.starts_with("cache miss: plugin "), "{said}");
    assert!(compile(d, "m.ge", "b.om", &[]).starts_with("cache hit "));
    assert!(read(d, "b.om") == read(d, "plain.om"));
    let listed = expect_code(d, 0, &["cache", "list", "cache", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(json["entries"].as_array().unwrap().len(), 6);
    // A compilation with dumps shows what the stages do, so the model is built.
    let out = expect_code(
        d,
        0,
        &["compile", "m.ge", "-o", "b.om", "--dump", "merge", "--set", "ge.graph_compiler_cache_dir=cache"],
    );
    assert!(!String::from_utf8_lossy(&out.stderr).contains("cache"), "{out:?}");
}

/// The content of a file decides, not its name; options of a plugin decide too.
#[test]
fn files_that_options_name_count_by_their_content() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    std::fs::write(d.join("m.ge"), MODEL).unwrap();
    compile(d, "m.ge", "m.om", &[]);
    expect_code(d, 0, &["compile", "m.ge", "-o", "m.om", "-q"]);
    let bench = expect_code(d, 0, &["bench", "m.om", "--iterations", "3", "--per-node", "--json"]).stdout;
    let mut slower: serde_json::Value = serde_json::from_slice(&bench).unwrap();
    slower["nodes"][0]["us"] = 1e6.into();
    let tuned =
        br#"{"schema": 1, "entries": [{"cpu": "c", "kernel": "k", "schedule": "s", "us": 1.0, "default_us": 2.0}]}"#;
    let files: [(&str, &[u8], Vec<u8>); 4] = [
        ("ge.x.tuning_file", b"{\"schema\": 1, \"entries\": []}", tuned.to_vec()),
        ("ge.fusionSwitchFile", b"MatMulEpilogueFusionPass:on\n", b"MatMulEpilogueFusionPass:off\n".to_vec()),
        ("ge.exec.modify_mixlist", b"{\"black-list\": {\"to-add\": [\"Relu\"]}}", b"{}".to_vec()),
        ("ge.x.stream_profile", &bench, slower.to_string().into_bytes()),
    ];
    let mode = ["--set", "ge.exec.precision_mode=allow_mix_precision", "--set", "ge.x.stream_mode=parallel:2"];
    for (option, first, second) in files {
        let run = |name: &str| {
            let set = format!("{option}={name}");
            compile(d, "m.ge", "a.om", &[&mode[..], &["--set", &set]].concat())
        };
        std::fs::write(d.join("a.txt"), first).unwrap();
        std::fs::write(d.join("b.txt"), first).unwrap();
        assert!(run("a.txt").starts_with("cache miss: "));
        assert!(run("a.txt").starts_with("cache hit "), "{option}");
        assert!(run("b.txt").starts_with("cache hit "), "{option}: another path, the same file");
        std::fs::write(d.join("a.txt"), second).unwrap();
        assert_eq!(run("a.txt"), format!("cache miss: option {option}"));
    }
    std::fs::copy(fixtures::bad_plugin(), d.join("libge_bad.so")).unwrap();
    let plugins = std::fs::read_to_string(root().join("plugins.toml")).unwrap();
    let plugins = plugins.replacen("schema = 1", &format!("schema = 1\nsearch = [{:?}, {d:?}]", target()), 1);
    let run = |level: u32| {
        let more = format!("\n[[plugin]]\nname = \"bad\"\n[plugin.options]\nmode = \"good\"\nlevel = {level}\n");
        std::fs::write(d.join("p.toml"), format!("{plugins}{more}")).unwrap();
        compile(d, "m.ge", "a.om", &["--plugins", "p.toml"])
    };
    assert!(run(1).starts_with("cache miss: plugin "));
    assert!(run(1).starts_with("cache hit "));
    assert_eq!(run(2), "cache miss: plugin bad option level");
}

/// Libraries are read once, and again when they change: the key is made of the digests that the
/// folder keeps of them. `ge run` of a model finds what `ge compile` has stored.
#[test]
fn libraries_are_not_read_again_and_a_run_hits_what_a_compile_stored() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    std::fs::write(d.join("m.ge"), MODEL).unwrap();
    compile(d, "m.ge", "a.om", &[]);
    let kept = d.join("cache/libraries.digests");
    let text = std::fs::read_to_string(&kept).expect("digests of libraries that were built long ago");
    let book: serde_json::Value = serde_json::from_str(&text).unwrap();
    let nn = target().join("libge_nn.so").canonicalize().unwrap();
    let digest =
        book["libraries"][nn.to_str().unwrap()]["sha256"].as_str().expect("a digest of libge_nn.so").to_owned();
    assert!(compile(d, "m.ge", "b.om", &[]).starts_with("cache hit "));
    let hit = ["run", "m.ge", "--random", "1", "--set", "ge.graph_compiler_cache_dir=cache"];
    let said = String::from_utf8_lossy(&expect_code(d, 0, &hit).stderr).into_owned();
    assert!(said.contains("cache hit "), "{said}");
    // The device that is asked for cannot do what the model might need. The key does not cover
    // this, so the user is told.
    std::fs::write(d.join("old.toml"), "name = \"Old\"\nbase = \"Ascend910B\"\nmodel_task_update = false\n").unwrap();
    let said =
        String::from_utf8_lossy(&expect_code(d, 0, &[&hit[..], &["--soc", "old.toml"]].concat()).stderr).into_owned();
    assert!(said.contains("cache miss: Old cannot update tasks"), "{said}");
    // If the library were read, its true digest would be found.
    std::fs::write(&kept, text.replace(&digest, &digest.chars().rev().collect::<String>())).unwrap();
    assert_eq!(compile(d, "m.ge", "c.om", &[]), "cache miss: plugin nn");
    expect_code(d, 0, &["cache", "verify", "cache"]);
    std::fs::remove_file(&kept).unwrap();
    assert!(compile(d, "m.ge", "b.om", &[]).starts_with("cache hit "));
    assert!(read(d, "b.om") == read(d, "a.om"));
}

#[test]
fn torn_foreign_and_older_entries_are_built_anew() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    std::fs::write(d.join("m.ge"), MODEL).unwrap();
    std::fs::write(d.join("n.ge"), MODEL.replace("Relu", "Neg")).unwrap();
    compile(d, "n.ge", "n.om", &[]);
    let of_n = files(d, ".om").remove(0);
    compile(d, "m.ge", "a.om", &[]);
    let om = files(d, ".om").into_iter().find(|p| *p != of_n).unwrap();
    let list = om.with_extension("json");
    let (good_om, good_list) = (std::fs::read(&om).unwrap(), std::fs::read_to_string(&list).unwrap());
    let mut flipped = good_om.clone();
    flipped[good_om.len() / 2] ^= 1;
    let version = format!("\"version\": \"{}\"", env!("CARGO_PKG_VERSION"));
    assert!(good_list.contains(&version), "{good_list}");
    let damages: Vec<(Vec<u8>, String, i32)> = vec![
        (good_om[..good_om.len() / 2].to_vec(), good_list.clone(), 1),
        (Vec::new(), good_list.clone(), 1),
        (b"no model at all".to_vec(), good_list.clone(), 1),
        (flipped, good_list.clone(), 1),
        (std::fs::read(&of_n).unwrap(), good_list.clone(), 1),
        (good_om.clone(), good_list[..good_list.len() / 2].to_owned(), 1),
        (good_om.clone(), "{}".to_owned(), 1),
        (good_om.clone(), std::fs::read_to_string(of_n.with_extension("json")).unwrap(), 1),
        (good_om.clone(), good_list.replace(&version, "\"version\": \"0.0.9\""), 0),
    ];
    for (i, (bytes, text, verify)) in damages.into_iter().enumerate() {
        std::fs::write(&om, bytes).unwrap();
        std::fs::write(&list, text).unwrap();
        expect_code(d, verify, &["cache", "verify", "cache"]);
        let said = compile(d, "m.ge", "b.om", &[]);
        assert!(said.starts_with("cache miss: "), "{i}: {said}");
        assert!(read(d, "a.om") == read(d, "b.om"), "{i}");
        expect_code(d, 0, &["cache", "verify", "cache"]);
        assert!(compile(d, "m.ge", "b.om", &[]).starts_with("cache hit "), "{i}");
    }
    std::fs::write(&om, b"x").unwrap();
    std::fs::write(d.join("cache/lonely.om"), b"x").unwrap();
    expect_code(d, 0, &["cache", "prune", "cache"]);
    assert!(!om.exists() && !list.exists() && of_n.exists());
    expect_code(d, 0, &["cache", "prune", "cache", "--max-bytes", "10"]);
    assert!(files(d, "n").is_empty() && !of_n.exists());
    expect_code(d, 2, &["cache", "list", "nowhere"]);
    expect_code(d, 2, &["compile", "m.ge", "-o", "b.om", "--set", "ge.graph_compiler_cache_dir=m.ge"]);
}

/// A folder may hold more than a cache: other files are not listed, not taken for damaged entries,
/// and not removed.
#[test]
fn files_of_others_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    std::fs::write(d.join("m.ge"), MODEL).unwrap();
    compile(d, "m.ge", "a.om", &[]);
    let mine = ["package.json", "model.om", ".my_tmp_notes", "x.tmp", "0123.json"];
    for f in mine {
        std::fs::write(d.join("cache").join(f), "mine").unwrap();
        let old = std::time::SystemTime::now() - std::time::Duration::from_secs(7200);
        std::fs::File::options().append(true).open(d.join("cache").join(f)).unwrap().set_modified(old).unwrap();
    }
    let listed = String::from_utf8(expect_code(d, 0, &["cache", "list", "cache"]).stdout).unwrap();
    assert_eq!(listed.lines().count(), 1, "{listed}");
    expect_code(d, 0, &["cache", "verify", "cache"]);
    // A new entry sweeps away what ended processes have left, and so does `prune`.
    std::fs::write(d.join("n.ge"), MODEL.replace("Relu", "Neg")).unwrap();
    compile(d, "n.ge", "b.om", &[]);
    expect_code(d, 0, &["cache", "prune", "cache", "--max-bytes", "1"]);
    let mut left = std::fs::read_dir(d.join("cache"))
        .unwrap()
        .map(|f| f.unwrap().file_name().into_string().unwrap())
        .collect::<Vec<_>>();
    left.sort();
    let mut all = mine.map(str::to_owned).to_vec();
    all.sort();
    assert_eq!(left, all);
}

fn start(dir: &Path, om: &str) -> std::process::Child {
    Command::new(target().join("ge"))
        .args(["compile", "m.ge", "-o", om, "-q", "--set", "ge.graph_compiler_cache_dir=cache"])
        .current_dir(dir)
        .env("GE_PLUGINS", root().join("plugins.toml"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn processes_at_once_and_processes_killed_leave_a_good_cache() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    std::fs::write(d.join("m.ge"), MODEL).unwrap();
    let begun = std::time::Instant::now();
    expect_code(d, 0, &["compile", "m.ge", "-o", "plain.om"]);
    let whole = begun.elapsed();
    let all: Vec<_> = (0..4).map(|i| start(d, &format!("{i}.om"))).collect();
    for (i, mut c) in all.into_iter().enumerate() {
        assert!(c.wait().unwrap().success());
        assert!(read(d, &format!("{i}.om")) == read(d, "plain.om"), "{i}");
    }
    assert_eq!(files(d, ".json").len(), 1);
    let long = std::env::var("GE_LONG").is_ok_and(|v| v == "1");
    let rounds = if long { 200 } else { 16 };
    for k in 0..rounds {
        // Half of them run with an entry in the cache, half without one.
        if k % 2 == 0 {
            std::fs::remove_dir_all(d.join("cache")).unwrap();
        }
        let mut c = start(d, "killed.om");
        std::thread::sleep(whole.mul_f64(1.2 * f64::from(k) / f64::from(rounds)));
        let _ = c.kill();
        c.wait().unwrap();
        if d.join("cache").exists() {
            expect_code(d, 0, &["cache", "verify", "cache"]);
        }
        let out = ge(d, &["compile", "m.ge", "-o", "after.om", "--set", "ge.graph_compiler_cache_dir=cache"]);
        assert_eq!(out.status.code(), Some(0), "{out:?}");
        assert!(read(d, "after.om") == read(d, "plain.om"), "{k}");
    }
}
