//! Golden files: `tests/golden/<stage>/<pass>/<case>.ge`, run in this process with the real
//! libraries. `UPDATE_EXPECT=1` writes the expectations anew.
use ge::commands::golden::{Runner, files};
use ge_tests::{root, target};

#[test]
fn every_golden_file_is_as_expected() {
    let update = std::env::var_os("UPDATE_EXPECT").is_some_and(|v| v == "1");
    // The libraries are beside the binary, not beside this test.
    let dir = tempfile::tempdir().unwrap();
    let plugins = dir.path().join("plugins.toml");
    let text = std::fs::read_to_string(root().join("plugins.toml")).unwrap();
    std::fs::write(&plugins, text.replacen("schema = 1", &format!("schema = 1\nsearch = [{:?}]", target()), 1))
        .unwrap();
    let mut runner = Runner::new(Some(plugins), update);
    let all = files(&root().join("tests/golden")).unwrap();
    // `GOLDEN=streams/` runs only the files whose path contains these words.
    let wanted = std::env::var("GOLDEN").unwrap_or_default();
    let mut failed = String::new();
    let mut count = 0;
    for f in all.iter().filter(|f| f.to_string_lossy().contains(&wanted)) {
        count += 1;
        if let Err(why) = runner.check(f) {
            failed.push_str(&format!("\n{}\n{why}", f.display()));
        }
    }
    assert!(count > 0, "no golden file is named `{wanted}`");
    assert!(failed.is_empty(), "golden files differ:{failed}");
}
