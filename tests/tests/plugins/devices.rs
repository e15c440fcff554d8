//! Devices that misbehave, which device a SoC belongs to, models of other versions of an engine,
//! and what `ge check` says without opening a library.
use super::behaviour::refusing;
use super::support::patched;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn command(d: &Path, args: &[&str]) -> Command {
    let mut c = Command::new(ge_tests::target().join("ge"));
    c.current_dir(d).args(args).args(["--plugins", "plugins.toml"]).env_remove("RUST_BACKTRACE").stdin(Stdio::null());
    c
}

/// Runs a command that must end with `code`; returns what it printed.
#[track_caller]
fn ge(d: &Path, code: i32, args: &[&str]) -> String {
    let out: Output = command(d, args).output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert_eq!(out.status.code(), Some(code), "{args:?}: {said}");
    said
}

/// Nodes with memory between them, and a weight.
const MODEL: &str = "graph @main(%x: f32[4]) {
  %y = BadOp(%x) : f32[4]
  %c = Const() {value = dense<f32[4]: 1 2 3 4>} : f32[4]
  %d = BadOp(%c) : f32[4]
  %z = BadOp(%y) : f32[4]
  return %z, %d
}
";

fn compile(d: &Path, soc: &str) {
    std::fs::write(d.join("m.ge"), MODEL).unwrap();
    ge(d, 0, &["compile", "m.ge", "-o", "m.om", "-q", "--soc", soc]);
}

/// How the plugin fails in a call, and what is reported.
const WAYS: &[(&str, &str)] = &[
    ("panic", "error[GE-E0518]: plugin `bad` 0.1.0 panicked in baddev.CALL: out of mind"),
    ("error", "error[GE-E0518]: plugin `bad` 0.1.0 failed in baddev.CALL: the board is on fire"),
    ("segv", "error[GE-E0518]: plugin `bad` took the process down (SIGSEGV) in baddev.CALL"),
    ("abort", "error[GE-E0518]: plugin `bad` took the process down (SIGABRT) in baddev.CALL"),
    ("exit", "error[GE-E0518]: plugin `bad` took the process down (exit) in baddev.CALL"),
];

/// Every call of an open device and its models fails in every way: plugin, device and call are
/// named.
#[test]
fn a_device_that_fails_or_dies_in_a_call_is_named() {
    let calls = [
        "open",
        "create_model",
        "register",
        "bind",
        "seal",
        "register_host_memory",
        "alloc",
        "copy_in",
        "execute",
        "copy_out",
    ];
    let right = refusing("good");
    compile(right.path(), "bad");
    let run = ["run", "m.om", "--random", "1", "--dump-tensors", "dump"];
    ge(right.path(), 0, &run);
    for call in calls {
        for (how, words) in WAYS {
            let dir = refusing(&format!("dev_{how}_{call}"));
            std::fs::copy(right.path().join("m.om"), dir.path().join("m.om")).unwrap();
            let said = ge(dir.path(), 5, &run);
            let words = words.replace("CALL", call);
            assert!(said.contains(&words) && said.contains("help: "), "{how} {call}: no `{words}` in {said}");
        }
    }
    // A failure while the device is closed cannot make a run wrong, but it must not pass for the
    // regular end.
    let dir = refusing("dev_exit_close");
    std::fs::copy(right.path().join("m.om"), dir.path().join("m.om")).unwrap();
    assert!(ge(dir.path(), 5, &run).contains("(exit) in baddev.close"));
}

#[test]
fn ctrl_c_names_the_device_that_does_not_come_back() {
    for (call, about) in [("execute", " of `m`"), ("alloc", "")] {
        let dir = refusing(&format!("dev_hang_{call}"));
        compile(dir.path(), "bad");
        let child = command(dir.path(), &["run", "m.om", "--random", "1"]).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_secs(2));
        let begin = Instant::now();
        assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
        let out = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(130), "{said}");
        assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
        let line = format!("interrupted: plugin `bad` in baddev.{call}{about} did not come back, after ");
        assert!(said.contains(&line), "{call}: {said}");
    }
}

#[test]
fn a_device_with_addresses_of_its_own_is_refused_before_anything_runs() {
    let dir = refusing("own_addresses");
    compile(dir.path(), "bad");
    let said = ge(dir.path(), 3, &["run", "m.om", "--random", "1"]);
    for words in ["GE-E0605", "device `baddev` of plugin `bad` 0.1.0", "`unified_address` is false", "help: "] {
        assert!(said.contains(words), "no `{words}` in {said}");
    }
}

/// `baddev` comes before `sim` here. The SoC finds its device by names that devices list, by names
/// that they only know, and by files.
#[test]
fn a_soc_is_looked_for_in_every_device() {
    let dir = refusing("good");
    let d = dir.path();
    std::fs::write(d.join("relu.ge"), "graph @main(%x: f32[4]) {\n  %y = Relu(%x) : f32[4]\n  return %y\n}\n").unwrap();
    std::fs::write(d.join("mine.toml"), "name = \"mine\"\nbase = \"sim\"\n").unwrap();
    std::fs::write(d.join("theirs.toml"), "name = \"bad\"\n").unwrap();
    for (soc, found) in [
        ("sim", "sim"),
        ("Ascend910B3", "Ascend910B3"),
        ("bad", "bad"),
        ("bad1", "bad1"),
        ("mine.toml", "mine"),
        ("theirs.toml", "bad"),
    ] {
        ge(d, 0, &["compile", "relu.ge", "-o", "m.om", "-q", "--soc", soc]);
        let doc: serde_json::Value = serde_json::from_str(&ge(d, 0, &["inspect", "m.om", "--json"])).unwrap();
        assert_eq!(doc["soc"], found, "{soc}");
    }
    let said = ge(d, 2, &["compile", "relu.ge", "-o", "m.om", "--soc", "Ascend910B9"]);
    for words in ["unknown SoC `Ascend910B9`", "did you mean `Ascend910B", "asked: baddev, sim"] {
        assert!(said.contains(words), "no `{words}` in {said}");
    }
    // An OM runs on the device that describes its SoC; for a SoC from a file, the user has to name
    // the device.
    ge(d, 0, &["compile", "relu.ge", "-o", "m.om", "-q", "--soc", "Ascend910B3"]);
    ge(d, 0, &["run", "m.om", "--random", "1"]);
    ge(d, 0, &["compile", "relu.ge", "-o", "m.om", "-q", "--soc", "mine.toml"]);
    let said = ge(d, 2, &["run", "m.om", "--random", "1"]);
    assert!(said.contains("unknown SoC `mine`") && said.contains("`--device NAME`"), "{said}");
    ge(d, 0, &["run", "m.om", "--random", "1", "--device", "sim"]);
}

#[test]
fn options_of_a_device_are_held_against_what_it_says_it_has() {
    let dir = refusing("good");
    let d = dir.path();
    compile(d, "bad");
    let run = |code: i32, option: &str, more: &[&str]| {
        ge(d, code, &[&["run", "m.om", "--random", "1", "--device-option", option], more].concat())
    };
    run(0, "speed=3", &[]);
    let said = run(2, "sped=3", &[]);
    for words in ["device `baddev` has no option `sped`", "known: speed", "did you mean `speed`?"] {
        assert!(said.contains(words), "no `{words}` in {said}");
    }
    // An option of one device is unknown to another.
    assert!(run(2, "check_races=true", &[]).contains("device `baddev` has no option `check_races`"));
    compile(d, "sim");
    run(0, "check_races=true", &[]);
    let said = run(2, "check_races=perhaps", &[]);
    assert!(said.contains("check_races") && said.contains("perhaps"), "{said}");
}

/// Installs the fixture with another version.
fn version(d: &Path, v: &str) {
    std::fs::write(d.join("libge_bad.so"), patched("version = \"0.1.0\"", &format!("version = \"{v}\""))).unwrap();
}

/// A plugin runs what an older version of the same major version compiled (before 1.0, of the same
/// minor version); `ge run` and `ge check` say the same.
#[test]
fn an_om_of_another_version_of_its_engine_is_to_be_built_again() {
    for (then, now, runs) in [
        ("0.1.0", "0.1.7", true),
        ("0.1.7", "0.1.0", false),
        ("0.1.7", "0.2.0", false),
        ("1.2.0", "1.9.0", true),
        ("1.9.0", "1.2.0", false),
        ("1.2.0", "2.0.0", false),
    ] {
        let dir = refusing("good");
        let d = dir.path();
        version(d, then);
        compile(d, "sim");
        version(d, now);
        let run = ["run", "m.om", "--random", "1"];
        let changed = format!("plugin `bad` was {then} then and is {now} now");
        if runs {
            ge(d, 0, &run);
            assert!(ge(d, 0, &["check", "m.om"]).starts_with("yes"), "{then} {now}");
            continue;
        }
        let said = ge(d, 3, &run);
        for words in
            ["error[GE-E0604]: the model must be compiled again: ", &changed, "help: `ge compile` the model again"]
        {
            assert!(said.contains(words), "{then} {now}: no `{words}` in {said}");
        }
        let said = ge(d, 1, &["check", "m.om"]);
        assert!(said.starts_with("rebuild") && said.contains(&changed), "{then} {now}: {said}");
        compile(d, "sim");
        ge(d, 0, &run);
    }
}

/// For `ge check` the manifests are enough: a library that dies when it is opened is not opened. An
/// engine that is excluded takes no nodes, but runs those that it already has.
#[test]
fn check_opens_no_library_and_says_what_run_does() {
    let dir = refusing("good");
    let d = dir.path();
    compile(d, "sim");
    let right = std::fs::read_to_string(d.join("plugins.toml")).unwrap();
    let with = |from: &str, to: &str| {
        assert!(right.contains(from), "{from}");
        std::fs::write(d.join("plugins.toml"), right.replacen(from, to, 1)).unwrap();
    };
    let run = ["run", "m.om", "--random", "1"];
    with("mode = \"good\"", "mode = \"exit_init\"");
    assert!(ge(d, 0, &["check", "m.om"]).starts_with("yes"));
    assert!(ge(d, 5, &run).contains("`bad`"));
    with("name = \"bad\"\n", "name = \"bad\"\nexclude_engines = [\"BadEngine\"]\n");
    assert!(ge(d, 0, &["check", "m.om"]).starts_with("yes"));
    ge(d, 0, &run);
    with("name = \"bad\"\n", "name = \"bad\"\nenabled = false\n");
    let said = ge(d, 1, &["check", "m.om"]);
    assert!(said.starts_with("no: it needs engine BadEngine (`y`, BadOp), which no enabled plugin brings"), "{said}");
    assert!(ge(d, 3, &run).contains("GE-E0601"));
}
