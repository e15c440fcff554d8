//! `ge plugin new` and what it makes, `ge plugin add`, the lists of contents, and `ge plugin why`.
use ge_tests::{models, root, target};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder in which commands run, with its own record of what is trusted.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }
    fn path(&self) -> &Path {
        self.0.path()
    }
    fn ge(&self, args: &[&str]) -> Output {
        Command::new(target().join("ge"))
            .args(args)
            .current_dir(self.path())
            .env_remove("GE_PLUGINS")
            .env("XDG_CONFIG_HOME", self.path().join("config"))
            .output()
            .unwrap()
    }
    #[track_caller]
    fn ok(&self, args: &[&str]) -> String {
        let out = self.ge(args);
        assert_eq!(out.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }
    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.ok(&[args, &["--json"]].concat())).unwrap()
    }
    #[track_caller]
    fn refused(&self, args: &[&str], code: i32) -> String {
        let out = self.ge(args);
        let said = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(code), "{args:?}: {said}");
        said
    }
    /// Runs cargo in a crate of the folder; build results are shared with the other vendors'
    /// crates.
    fn cargo(&self, name: &str, command: &str) -> PathBuf {
        let to = target().join("../vendor/good");
        std::fs::copy(root().join("examples/vendor/Cargo.lock"), self.path().join(name).join("Cargo.lock")).unwrap();
        let out = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args([command, "--quiet", "--target-dir"])
            .arg(&to)
            .current_dir(self.path().join(name))
            .env_remove("CARGO_TARGET_DIR")
            .env("RUSTFLAGS", "")
            .envs([("CARGO_PROFILE_DEV_OPT_LEVEL", "2"), ("CARGO_PROFILE_DEV_DEBUG", "false")])
            .output()
            .unwrap();
        let said = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        assert!(out.status.success(), "cargo {command} of {name}: {said}");
        to.join("debug").join(format!("libge_{name}.so"))
    }
    /// Makes, tests, builds and checks a crate with these parts; returns its library.
    fn kit(&self, name: &str, parts: &[&str]) -> String {
        let api = root().join("plugin-api").display().to_string();
        self.ok(&[&["plugin", "new", name, "--api", &api], parts].concat());
        self.cargo(name, "test");
        let library = self.cargo(name, "build").display().to_string();
        self.ok(&["plugin", "check", &library]);
        library
    }
}

fn long() -> bool {
    std::env::var("GE_LONG").is_ok_and(|v| v == "1")
}

#[test]
fn a_new_plugin_builds_passes_and_runs_its_model() {
    let dir = Folder::new();
    let library = dir.kit("sample_kit", &["--engine", "--ops", "--pass", "--frontend"]);
    dir.ok(&["plugin", "add", &library]);
    // The configuration in use is kept, and the new one is trusted where it is.
    let text = std::fs::read_to_string(dir.path().join("plugins.toml")).unwrap();
    assert!(text.contains("name = \"onnx\"") && text.contains("name = \"sample_kit\"\npath = "), "{text}");
    let python = models().parent().unwrap().join("venv/bin/python");
    let made = Command::new(python).arg("sample_kit/reference/make.py").current_dir(dir.path()).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let model = "sample_kit/reference/model.onnx";
    let run = ["run", model, "--inputs", "sample_kit/reference/in", "--expect", "sample_kit/reference/want"];
    dir.ok(&run);
    dir.ok(&[&run[..], &["--device-option", "check_races=full"]].concat());
    // A wrong answer is told from a right one.
    dir.refused(&["run", model, "--inputs", "sample_kit/reference/in", "--expect", "sample_kit/reference/in"], 2);
    let why = dir.json(&["plugin", "why", model, "scale"]);
    assert_eq!((why["op"].as_str(), why["chosen"].as_str()), (Some("SampleKitScale"), Some("SampleKitEngine")));
    assert_eq!(why["engines"][1]["engine"], "SampleKitPlain");
    assert!(dir.refused(&["plugin", "why", model, "scole"], 2).contains("did you mean `scale`?"));
    // The pass took one of two equal nodes; the other one stands for both names.
    assert!(dir.ok(&["plugin", "why", model, "first"]).contains("`first` is Abs(f32[2,3,500])"));
    std::fs::write(dir.path().join("m.kit"), "sample_kit 1\ninput x 2 3\ny = Abs x\noutput y\n").unwrap();
    dir.ok(&["run", "m.kit", "--random", "1"]);
    // A library that no longer has the digest of its entry is refused, and `add` brings the entry
    // up to date.
    let copy = dir.path().join("libge_sample_kit.so");
    std::fs::copy(&library, &copy).unwrap();
    dir.ok(&["plugin", "add", "libge_sample_kit.so"]);
    std::fs::OpenOptions::new()
        .append(true)
        .open(&copy)
        .and_then(|mut f| std::io::Write::write_all(&mut f, b"more"))
        .unwrap();
    assert!(dir.refused(&run, 5).contains("GE-E0519"));
    dir.ok(&["plugin", "add", "libge_sample_kit.so"]);
    dir.ok(&run);
    if long() {
        for (name, parts) in [
            ("kit_engine", &["--engine"][..]),
            ("kit_ops", &["--ops"]),
            ("kit_pass", &["--pass"]),
            ("kit_frontend", &["--frontend"]),
            ("kit_all", &[]),
            ("kit_whole", &["--engine", "--ops", "--pass", "--frontend", "--device"]),
        ] {
            dir.kit(name, parts);
        }
    }
}

#[test]
fn a_new_plugin_in_c_builds_passes_and_runs_its_model() {
    let dir = Folder::new();
    dir.ok(&["plugin", "new", "wave_c", "--c"]);
    let folder = dir.path().join("wave_c");
    let made = Command::new("make").arg("CFLAGS=-O2 -Wall -Wextra -Werror").current_dir(folder).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    dir.ok(&["plugin", "check", "wave_c/libge_wave_c.so"]);
    dir.ok(&["plugin", "add", "wave_c/libge_wave_c.so"]);
    let python = models().parent().unwrap().join("venv/bin/python");
    let made = Command::new(python).arg("wave_c/reference/make.py").current_dir(dir.path()).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let model = "wave_c/reference/model.onnx";
    dir.ok(&["run", model, "--inputs", "wave_c/reference/in", "--expect", "wave_c/reference/want"]);
    assert_eq!(dir.json(&["plugin", "why", model, "swish"])["chosen"], "WaveCEngine");
}

#[test]
fn a_new_device_builds_passes_and_runs_models() {
    let dir = Folder::new();
    let library = dir.kit("kit_device", &["--device"]);
    dir.ok(&["plugin", "add", &library]);
    let python = models().parent().unwrap().join("venv/bin/python");
    let made = Command::new(python).arg("kit_device/reference/make.py").current_dir(dir.path()).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let (model, on) = ("kit_device/reference/model.onnx", "kit_device_board");
    let given = ["--inputs", "kit_device/reference/in", "--expect", "kit_device/reference/want"];
    dir.ok(&[&["run", model, "--device", on], &given[..]].concat());
    // Streams, events, workspaces, weights: a model of many nodes gives what it gives elsewhere,
    // and is compiled for this device's SoC.
    let (net, at) = (models().join("lenet.onnx"), models().join("lenet/s0"));
    let (net, at) = (net.display().to_string(), at.display().to_string());
    let expect = format!("{at}/expect");
    let out = dir.ge(&[
        "run",
        &net,
        "--inputs",
        &at,
        "--expect",
        &expect,
        "--device",
        on,
        "--device-option",
        "log=true",
        "-v",
    ]);
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(0), "{said}");
    assert!(said.contains(&format!("ran lenet on {on}")) && said.contains("KERNEL of"), "{said}");
    // This device refuses what was compiled for another SoC.
    dir.ok(&["compile", &net, "-o", "m.om", "--soc", "sim"]);
    assert!(dir.refused(&["run", "m.om", "--random", "1", "--device", on], 2).contains("compiled for sim"));
}

#[test]
fn what_cannot_be_made_or_added_is_refused_in_words() {
    let dir = Folder::new();
    let api = root().join("plugin-api").display().to_string();
    for name in ["Acme", "9lives", "a-b", "", "a/b"] {
        assert!(dir.refused(&["plugin", "new", name, "--api", &api], 2).contains("is no name of a plugin"), "{name}");
    }
    assert!(dir.refused(&["plugin", "new", "acme", "--api", "nowhere"], 2).contains("looked at nowhere"));
    std::fs::create_dir(dir.path().join("acme")).unwrap();
    let said = dir.refused(&["plugin", "new", "acme", "--api", &api], 1);
    assert!(said.contains("`acme` exists already") && said.contains("--dir"), "{said}");
    std::fs::write(dir.path().join("libge_text.so"), "text").unwrap();
    dir.refused(&["plugin", "add", "libge_text.so"], 5);
    assert!(!dir.path().join("plugins.toml").exists(), "nothing is written for a library that is none");
}

#[test]
fn contents_of_plugins_are_listed_as_text_and_json() {
    let dir = Folder::new();
    let engines = dir.json(&["plugin", "engines"]);
    let costs: Vec<u64> = engines["engines"].as_array().unwrap().iter().map(|e| e["cost"].as_u64().unwrap()).collect();
    assert!(costs.len() > 8 && costs.is_sorted(), "{costs:?}");
    let ops = dir.json(&["plugin", "ops", "--of", "ops"]);
    let find = |name: &str| ops["operators"].as_array().unwrap().iter().find(|o| o["name"] == name).cloned().unwrap();
    assert_eq!(find("Add")["inputs"].as_array().unwrap().len(), 2);
    assert!(dir.ok(&["plugin", "ops"]).contains("\n  attr "));
    assert!(dir.ok(&["plugin", "passes"]).contains("AttentionFusionPass"));
    assert_eq!(dir.json(&["plugin", "passes", "--of", "onnx"])["passes"].as_array().unwrap().len(), 0);
    dir.ok(&["plugin", "options"]);
    assert!(dir.refused(&["plugin", "ops", "--of", "onx"], 2).contains("did you mean `onnx`?"));
}

/// The page of operators is the one that the plugins give.
#[test]
fn the_catalogue_of_operators_is_what_the_prototypes_say() {
    let made = Folder::new().ok(&["plugin", "ops", "--markdown"]);
    let page = std::fs::read_to_string(root().join("docs/operators.md")).unwrap();
    assert!(made == page, "docs/operators.md is stale: `ge plugin ops --markdown > docs/operators.md`");
    assert!(page.matches("\n## ").count() > 300 && page.contains("\n## MatMulV2\n"));
}

/// The reference has every task type, kernel type and item of args formats.
#[test]
fn the_reference_has_every_task_type_and_argument() {
    use ge_plugin_api::task::{KernelType, TaskType};
    let page = std::fs::read_to_string(root().join("docs/plugins-reference.md")).unwrap();
    for t in TaskType::ALL {
        let line = format!("| {} | `{}` |", t.code(), t.name());
        assert!(page.contains(&line), "docs/plugins-reference.md lacks: {line}");
    }
    for t in KernelType::ALL {
        let line = format!("| {} | `{}` |", t.code(), t.name());
        assert!(page.contains(&line), "docs/plugins-reference.md lacks: {line}");
    }
    // Each item that the page names is a valid one.
    let chapter = page.split("## Args formats").nth(1).and_then(|c| c.split("\n## ").next()).unwrap();
    let items: Vec<&str> = chapter.lines().filter_map(|l| l.strip_prefix("| `")?.split('`').next()).collect();
    assert!(items.len() >= 20, "{items:?}");
    for i in items {
        let sample = i.replace("<n>", "0").replace("<type>", "hcom").replace("<value>", "7");
        let parsed = ge_plugin::tasks::args_format::parse(&sample).unwrap_or_else(|e| panic!("{i}: {e}"));
        assert_eq!(ge_plugin::tasks::args_format::print(&parsed), sample);
    }
}
