//! `cargo xtask demo`: from a trained model to correct answers, on the simulator.
use crate::process::{Result, cargo, root, run_with, target};
use crate::progress::Steps;
use std::path::Path;

pub(crate) fn demo() -> Result<()> {
    let mut steps = Steps::new("demo", 4);
    steps.next("build `ge`, its plugins and the example `digits`");
    cargo(&["build", "--workspace", "--lib", "--bins", "--example", "digits"])?;
    let out = target().join("demo");
    std::fs::create_dir_all(&out).map_err(|e| format!("cannot make {}: {e}", out.display()))?;
    let data = root().join("tests/models/digits");
    let (om, timeline) = (out.join("digits.om"), out.join("timeline.json"));
    let path = |p: &Path| p.display().to_string();
    let ge = target().join("debug/ge");
    // The configuration is given explicitly, so that a build folder elsewhere also works.
    let config = path(&root().join("plugins.toml"));
    let run = |program: &Path, args: &[&str]| run_with(program, args, &[("GE_PLUGINS", &config)]);
    steps.next("compile a trained classifier of digits to an OM file");
    run(&ge, &["compile", &path(&data.join("digits.onnx")), "-o", &path(&om)])?;
    steps.next("run it on 200 images that it was not trained on");
    run(&target().join("debug/examples/digits"), &[&path(&om), &path(&data)])?;
    steps.next("write the timeline of one run");
    run(&ge, &["run", &path(&om), "--random", "1", "--quiet", "--json", "--profile", &path(&timeline)])?;
    println!("timeline of one run: {} (open it in https://ui.perfetto.dev)", timeline.display());
    steps.end();
    Ok(())
}
