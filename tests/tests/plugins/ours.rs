//! `ge plugin check` of every library of ours. The kernels of the two libraries with hundreds of
//! operators are run by the long form only (`GE_LONG=1`).
use ge_tests::{ge, long, root, target};

#[test]
fn every_library_of_ours_passes_the_conformance_suite() {
    let text = std::fs::read_to_string(root().join("plugins.toml")).expect("the default set");
    let names: Vec<&str> = text.lines().filter_map(|l| l.strip_prefix("name = \"")?.split('"').next()).collect();
    assert!(names.len() >= 11, "{names:?}");
    let dir = tempfile::tempdir().expect("a folder");
    let mut bad = Vec::new();
    for n in names {
        let library = target().join(format!("libge_{n}.so")).display().to_string();
        let large = ["nn", "cpu"].contains(&n) && !long();
        let more: &[&str] = if large { &["--no-run"] } else { &[] };
        let out = ge(dir.path(), &[&["plugin", "check", &library], more].concat());
        if out.status.code() != Some(0) {
            let said = String::from_utf8_lossy(&out.stderr).into_owned();
            bad.push(format!("{n}: {:?}: {}", out.status.code(), said.lines().last().unwrap_or_default()));
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}
