//! Plugins of several versions of the interface in hosts of several versions, and engines of one
//! version on devices of another.
use super::support::Dir;
use ge_tests::fixtures::versions;
use std::process::Command;

/// What a host prints about libraries, each in an entry of the given name.
fn host(name: &str, libraries: &[(&str, &str)]) -> String {
    let dir = Dir::new();
    let entries: String = libraries
        .iter()
        .map(|(plugin, lib)| {
            format!("[[plugin]]\nname = \"{plugin}\"\npath = \"{}\"\n", versions().join(lib).display())
        })
        .collect();
    let out = Command::new(versions().join(name)).arg(dir.config(&entries)).output().unwrap();
    assert!(out.status.success(), "{out:?}");
    String::from_utf8(out.stdout).unwrap()
}

#[test]
fn minors_of_one_major_work_in_both_directions() {
    let both = [("older", "libv10.so"), ("newer", "libv11.so")];
    for order in [both, [both[1], both[0]]] {
        let said = host("host10", &order);
        assert!(said.contains("older 1.2.0 loaded") && said.contains("newer 1.3.0 loaded"), "{said}");
        // A newer engine sees what the host and an older device lack, and that a newer device has
        // it.
        assert!(said.contains("NewerEngine on olderdev: bound 3 answer None now None"), "{said}");
        assert!(said.contains("NewerEngine on newerdev: bound 3 answer Some(43) now None"), "{said}");
        assert!(said.contains("OlderEngine on newerdev: bound 3"), "{said}");
        let said = host("host11", &order);
        assert!(said.contains("older 1.2.0 loaded") && said.contains("newer 1.3.0 loaded"), "{said}");
        assert!(said.contains("OlderEngine colour 7") && said.contains("NewerEngine colour 42"), "{said}");
        assert!(said.contains("NewerEngine on olderdev: bound 3 answer None now Some(1234)"), "{said}");
        assert!(said.contains("OlderEngine on olderdev: bound 3"), "{said}");
    }
}

/// Ranges of an operator, which 1.1 appended, and the cost of a node, which 1.2 appended: every
/// released version of a library runs in every version of the host, and what either side lacks
/// counts as if the plugin had not said it.
#[test]
fn what_a_minor_appended_is_heard_where_both_sides_have_it() {
    let hosts = [("host08", 0), ("host09", 1), ("host10", 2), ("host11", 3)];
    let libraries = [("libv08.so", "1.0.0", 0), ("libv09.so", "1.1.0", 1), ("libv10.so", "1.2.0", 2)];
    for (h, host_minor) in hosts {
        for (lib, api, minor) in libraries {
            let both = host_minor.min(minor);
            let cost = if both >= 2 { 9 } else { 1 };
            let range = if both >= 1 { "Some(6.0)" } else { "None" };
            let said = host(h, &[("older", lib)]);
            for words in [
                format!("older {api} loaded"),
                format!("OlderOp gives Ok({range}) at most"),
                format!("OlderEngine takes it at Some({cost})"),
                "OlderEngine on olderdev: bound 3".to_owned(),
            ] {
                assert!(said.contains(&words), "{h} {lib}: no `{words}` in {said}");
            }
        }
    }
    for h in ["host08", "host09"] {
        assert!(host(h, &[("newer", "libv11.so")]).contains("NewerEngine takes it at Some(1)"));
    }
}

#[test]
fn other_majors_and_broken_minors_are_refused_in_one_line() {
    for h in ["host10", "host11"] {
        for (lib, api, code) in
            [("libv20.so", "2.0.0", "GE-E0509"), ("libv12.so", "1.4.0", "GE-E0515"), ("libv13.so", "1.5.0", "GE-E0515")]
        {
            let said = host(h, &[("older", lib)]);
            let line = format!("older {api} refused {code}: ");
            assert!(said.starts_with(&line) && said.lines().count() == 1 && said.len() < 500, "{h} {lib}: {said}");
        }
    }
}

/// The layout of a library is checked against the host's at every start, whichever library was
/// there before, and no result is kept.
#[test]
fn every_start_looks_at_the_layout_of_the_library_that_is_there() {
    let dir = Dir::new();
    let library = dir.path().join("libge_older.so");
    let config = dir.config("[[plugin]]\nname = \"older\"\noptional = true\n");
    let cache = dir.path().join("cache");
    let list = || {
        let out = Command::new(ge_tests::target().join("ge"))
            .args(["plugin", "list", "--plugins"])
            .arg(&config)
            .env("XDG_CACHE_HOME", &cache)
            .output()
            .unwrap();
        format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr))
    };
    for (right, wrong) in [("libv10.so", "libv12.so"), ("libv09.so", "libv13.so")] {
        std::fs::copy(versions().join(right), &library).unwrap();
        let said = list();
        assert!(said.contains("loaded") && !said.contains("GE-E"), "{right}: {said}");
        std::fs::copy(versions().join(wrong), &library).unwrap();
        let said = list();
        assert!(said.contains("  refused ") && said.contains("layout"), "{wrong}: {said}");
    }
    assert!(!cache.exists());
}
