//! `cargo xtask onnx-backend [FILTER]`: runs the ONNX package's own backend tests through `ge
//! compile` and `ge run` of the OM, each in separate processes, and evaluates them with
//! `tests/reference/checks/onnx_backend.py`. The OM is compiled without the values that it is run
//! with.
use crate::models::python;
use crate::process::{Result, cargo, root, run, target};
use std::collections::BTreeMap;

/// Number of cases that must pass; fewer are a regression.
const PASS: usize = 1852;
/// Cases that differ from the expected values by one or two units because of rounding: sums that
/// the reference rounds to f16 at every step and ours only once; and JPEG files, for which the
/// standard leaves the accuracy of the inverse transform to the decoder.
const BESIDE: [&str; 4] = [
    "test_attention_4d_causal_fp16_expanded",
    "test_image_decoder_decode_jpeg_bgr",
    "test_image_decoder_decode_jpeg_grayscale",
    "test_image_decoder_decode_jpeg_rgb",
];

/// Builds and runs the suite, or the cases whose names match a regular expression; fails if there
/// is a wrong answer, a crash or a hang.
pub(crate) fn measure(filter: Option<&str>) -> Result<()> {
    cargo(&["build", "--workspace"])?;
    suite(filter)
}

/// Like [`measure`], without building.
pub(crate) fn suite(filter: Option<&str>) -> Result<()> {
    let python = python(&root().join("tests/reference"))?;
    let text = |p: std::path::PathBuf| p.display().to_string();
    let csv = target().join("onnx_backend.csv");
    let (ge, plugins) = (text(target().join("debug/ge")), text(root().join("plugins.toml")));
    let compile = format!("{ge} compile {{model}} -o {{om}} -q --plugins {plugins}");
    let command = format!("{ge} run {{om}} --inputs {{inputs_dir}} --outputs {{outputs_dir}} -q --plugins {plugins}");
    let script = text(root().join("tests/reference/checks/onnx_backend.py"));
    let (cache, table) = (text(target().join("onnx_backend")), text(csv.clone()));
    let mut args = vec![script.as_str(), "run", "--compile", &compile, "--cmd", &command, "--cache", &cache];
    args.extend(["--csv", &table, "--quiet-paths"]);
    if let Some(f) = filter {
        args.extend(["--filter", f]);
    }
    run(&python, &args)?;
    let rows = std::fs::read_to_string(&csv).map_err(|e| format!("cannot read {table}: {e}"))?;
    let mut count: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for row in rows.lines().skip(1) {
        // suite, case, op, opset, ir, nodes, status; of the first fields only the operator sets, in
        // quotes, contain commas.
        let status = ["passed", "failed", "error", "unsupported", "crash", "timeout"];
        let found = status.into_iter().find(|s| row.contains(&format!(",{s},")));
        let case = row.split(',').nth(1).unwrap_or(row);
        if !(found == Some("failed") && BESIDE.contains(&case)) {
            count.entry(found.unwrap_or("skipped")).or_default().push(case);
        }
    }
    let of = |s: &str| count.get(s).cloned().unwrap_or_default();
    for bad in ["failed", "crash", "timeout"] {
        if !of(bad).is_empty() {
            return Err(format!("{} cases of the ONNX backend suite: {bad}: {}", of(bad).len(), of(bad).join(", ")));
        }
    }
    let passed = of("passed").len();
    if filter.is_none() && passed < PASS {
        return Err(format!("{passed} cases of the ONNX backend suite pass, {PASS} did before"));
    }
    Ok(())
}
