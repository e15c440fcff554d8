//! A `plugins.toml` in the working folder names libraries whose code would run, so it is used only
//! after the user has trusted it.
use super::support::good;
use std::path::Path;
use std::process::{Command, Output};

fn ge(d: &Path, args: &[&str]) -> Output {
    Command::new(ge_tests::target().join("ge"))
        .current_dir(d)
        .args(args)
        .env_remove("GE_PLUGINS")
        .env("XDG_CONFIG_HOME", d.join("home"))
        .output()
        .unwrap()
}

fn said(o: &Output) -> (Option<i32>, String, String) {
    let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
    (o.status.code(), text(&o.stdout), text(&o.stderr))
}

#[test]
fn a_configuration_of_the_working_folder_is_skipped_until_it_is_trusted_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    std::fs::write(d.join("libge_bad.so"), good()).unwrap();
    let entry = "schema = 1\nsearch = [\".\"]\n[[plugin]]\nname = \"bad\"\n";
    std::fs::write(d.join("plugins.toml"), entry).unwrap();
    let list = ["plugin", "list"];
    let skipped = |o: &Output| {
        let (code, out, err) = said(o);
        assert_eq!(code, Some(0), "{err}");
        assert!(!out.contains("BadEngine") && out.contains("AIcoreEngine"), "{out}");
        assert!(err.contains("is not trusted and is skipped: `ge plugin trust plugins.toml`"), "{err}");
    };
    let taken = |o: &Output| {
        let (code, out, err) = said(o);
        assert_eq!(code, Some(0), "{err}");
        assert!(out.contains("BadEngine") && !err.contains("skipped"), "{out}{err}");
    };
    skipped(&ge(d, &list));
    // Naming the file trusts it for this one command.
    taken(&ge(d, &["plugin", "list", "--plugins", "plugins.toml"]));
    skipped(&ge(d, &list));
    assert_eq!(ge(d, &["plugin", "trust", "plugins.toml"]).status.code(), Some(0));
    taken(&ge(d, &list));
    // A changed file is no longer trusted.
    std::fs::write(d.join("plugins.toml"), format!("{entry}optional = true\n")).unwrap();
    skipped(&ge(d, &list));
    assert_eq!(ge(d, &["plugin", "trust", "missing.toml"]).status.code(), Some(2));
    let (code, _, err) = said(&ge(d, &["plugin", "trust", "libge_bad.so"]));
    assert!(code != Some(0) && err.contains("libge_bad.so"), "{code:?} {err}");
}
