//! Plugins that take long in a call: the progress line, a warning and Ctrl-C name plugin, engine,
//! call and node.
use super::behaviour::refusing;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const CALL: &str = "plugin `bad` in BadEngine.supports of `y` (Relu)";

fn start(d: &Path, args: &[&str]) -> Child {
    std::fs::write(d.join("m.ge"), "graph @main(%x: f32[4]) {\n  %y = Relu(%x) : f32[4]\n  return %y\n}\n").unwrap();
    Command::new(ge_tests::target().join("ge"))
        .current_dir(d)
        .args(args)
        .args(["--plugins", "plugins.toml", "--set", "ge.x.plugin_call_warn_s=1"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn said(child: Child, code: i32) -> String {
    let out = child.wait_with_output().unwrap();
    let text = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(code), "{text}");
    text
}

/// The warning is printed while the call lasts, and again each time its duration has doubled; with
/// `-q` nothing is printed.
#[test]
fn a_slow_call_is_told_while_it_lasts() {
    let dir = refusing("slow_supports");
    let text = said(start(dir.path(), &["compile", "m.ge", "-o", "m.om"]), 0);
    let warnings = text.lines().filter(|l| l.starts_with(&format!("warning: {CALL} has taken "))).count();
    assert!(warnings >= 2, "{text}");
    assert!(text.lines().any(|l| l.starts_with('[') && l.ends_with(CALL)), "no line of progress names it: {text}");
    let quiet = said(start(dir.path(), &["compile", "m.ge", "-o", "m.om", "-q"]), 0);
    assert_eq!(quiet, "");
    let text = said(start(dir.path(), &["inspect", "m.ge", "--support"]), 0);
    assert!(text.contains(&format!("warning: {CALL} has taken ")), "{text}");
}

/// A call that never ends: Ctrl-C ends the command, names the call that did not come back, and
/// leaves nothing behind.
#[test]
fn ctrl_c_names_the_call_that_does_not_come_back() {
    for args in [&["compile", "m.ge", "-o", "m.om"][..], &["inspect", "m.ge", "--support"]] {
        let dir = refusing("stuck_supports");
        let mut child = start(dir.path(), args);
        let mut err = BufReader::new(child.stderr.take().unwrap());
        let (mut line, mut text) = (String::new(), String::new());
        while !line.starts_with("warning: ") {
            line.clear();
            assert!(err.read_line(&mut line).unwrap() > 0, "{args:?} ended: {text}");
            text.push_str(&line);
        }
        let begin = Instant::now();
        let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        assert!(kill.success());
        let status = child.wait().unwrap();
        err.read_to_string(&mut text).unwrap();
        assert_eq!(status.code(), Some(130), "{args:?}: {text}");
        assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
        assert!(text.contains(&format!("interrupted: {CALL} did not come back, after ")), "{args:?}: {text}");
        assert!(!dir.path().join("m.om").exists());
    }
}
