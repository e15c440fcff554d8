//! Entries of `plugins.toml` that contradict each other or the libraries.
use super::support::{Dir, good, patched, refusal};
use ge_plugin::{LoadRequest, PluginSet, Status, Want};
use ge_plugin_api::ErrorKind;

fn two() -> Dir {
    let dir = Dir::new();
    dir.file("libge_bad.so", &good());
    // A plugin with another name and build id that gives the same engine, device, operator and
    // pass.
    let mut other = patched("name = \"bad\"", "name = \"bed\"");
    if let Some(id) = other.windows(4).position(|w| w == b"GNU\0") {
        other[id + 8] ^= 0xff;
    }
    dir.file("libge_bed.so", &other);
    dir
}
const TWO: &str = "[[plugin]]\nname = \"bad\"\n[[plugin]]\nname = \"bed\"\n";

#[test]
fn two_plugins_with_one_engine_name_are_refused_with_both_paths() {
    let m = refusal(two().load(TWO), "GE-E0512");
    assert!(m.contains("BadEngine") && m.contains("libge_bad.so") && m.contains("libge_bed.so"), "{m}");
}

#[test]
fn an_override_says_which_wins() {
    for (winner, overrides) in [("bad", [true, false]), ("bed", [false, true])] {
        let names = "overrides = [\"BadEngine\", \"baddev\", \"BadOp\", \"BadPass\"]\n";
        let line = |i: usize| if overrides[i] { names } else { "" };
        let dir = two();
        let r = dir
            .load(&format!("[[plugin]]\nname = \"bad\"\n{}[[plugin]]\nname = \"bed\"\n{}", line(0), line(1)))
            .unwrap();
        assert_eq!(r.engines().len(), 1);
        assert_eq!(r.engine("BadEngine").unwrap().owner().name, winner);
        assert_eq!(r.op("BadOp").unwrap().owner().name, winner);
        assert_eq!((r.passes().len(), r.passes()[0].owner().name.as_str()), (1, winner));
        assert_eq!(r.devices().len(), 1);
    }
    let both = "overrides = [\"BadEngine\", \"baddev\"]\n";
    refusal(two().load(&format!("[[plugin]]\nname = \"bad\"\n{both}[[plugin]]\nname = \"bed\"\n{both}")), "GE-E0512");
}

#[test]
fn the_same_library_twice() {
    let dir = two();
    std::os::unix::fs::symlink(dir.path().join("libge_bad.so"), dir.path().join("link.so")).unwrap();
    let m =
        refusal(dir.load("[[plugin]]\nname = \"bad\"\n[[plugin]]\nname = \"bed\"\npath = \"link.so\"\n"), "GE-E0507");
    assert!(m.contains("is plugin `bad`, not `bed`"), "{m}");
    // The same name twice is detected in plugins.toml itself.
    let e = dir.load("[[plugin]]\nname = \"bad\"\n[[plugin]]\nname = \"bad\"\npath = \"link.so\"\n").unwrap_err();
    assert_eq!(e.diagnostics[0].code.as_str(), "GE-E0502");
    // A copy under another name has the same build id, if the linker writes one.
    dir.file("libge_bed.so", &patched("name = \"bad\"", "name = \"bed\""));
    let e = dir.load(TWO).unwrap_err();
    assert!(["GE-E0511", "GE-E0512"].contains(&e.diagnostics[0].code.as_str()), "{e}");
}

#[test]
fn versions_options_and_excluded_engines() {
    let dir = two();
    let bad = |more: &str| dir.load(&format!("[[plugin]]\nname = \"bad\"\n{more}"));
    let m = refusal(bad("version = \"^0.2\"\n"), "GE-E0508");
    assert!(m.contains("0.1.0"), "{m}");
    let m = refusal(bad("[plugin.options]\nlevl = 3\n"), "GE-E0513");
    assert!(m.contains("`levl`"), "{m}");
    refusal(bad("[plugin.options]\nlevel = 9\n"), "GE-E0513");
    refusal(bad("[plugin.options]\nlevel = true\n"), "GE-E0513");
    let m = refusal(bad("exclude_engines = [\"BadEngin\"]\n"), "GE-E0502");
    assert!(m.contains("BadEngin"), "{m}");
    let r = bad("version = \"^0.1\"\nexclude_engines = [\"BadEngine\"]\n").unwrap();
    assert!(r.engine("BadEngine").unwrap().excluded);
}

#[test]
fn disabled_and_unwanted_plugins_are_not_opened() {
    let dir = two();
    let config = Some(dir.config("[[plugin]]\nname = \"bad\"\n[[plugin]]\nname = \"bed\"\nenabled = false\n"));
    let status = |want: Want| {
        let r = PluginSet::load(&LoadRequest { config: config.clone(), want }).unwrap();
        let all: Vec<&str> = r.plugins().iter().map(|p| p.status.name()).collect();
        (all.join(" "), r.engines().len())
    };
    assert_eq!(status(Want::All), ("loaded disabled".into(), 1));
    assert_eq!(status(Want::Nothing), ("ready disabled".into(), 0));
    assert_eq!(status(Want::kinds(&["other"])), ("ready disabled".into(), 0));
    assert_eq!(status(Want::providers(&["BadEngine"])), ("loaded disabled".into(), 1));
    assert_eq!(status(Want::kinds(&["other"]).and(Want::plugins(&["bad"]))), ("loaded disabled".into(), 1));
}

#[test]
fn list_has_every_entry_with_its_refusal() {
    let dir = two();
    let config = Some(dir.config(&format!("{TWO}[[plugin]]\nname = \"gone\"\noptional = true\n")));
    let r = PluginSet::load_lenient(&LoadRequest { config, want: Want::All }).unwrap();
    let all: Vec<&str> = r.plugins().iter().map(|p| p.status.name()).collect();
    assert_eq!(all, ["loaded", "refused", "refused"]);
    assert!(matches!(&r.plugins()[2].status, Status::Refused(e) if e.message().contains("gone")));
    assert_eq!(r.engines().len(), 1);
}

#[test]
fn a_configuration_that_is_named_and_missing_is_a_usage_error() {
    let e = PluginSet::load(&LoadRequest { config: Some("no/such/plugins.toml".into()), want: Want::All }).unwrap_err();
    assert_eq!((e.kind, e.diagnostics[0].code.as_str()), (ErrorKind::USAGE, "GE-E0305"));
}
