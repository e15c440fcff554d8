//! `ge compile --calibrate DIR`: finds the folders of inputs, runs the calibration and reports it.
use super::inputs::{Given, NamedInputs, gather};
use super::reduced::is_finite;
use crate::options::OptionMap;
use crate::render::Progress;
use crate::session::Session;
use crate::session::calibrate::{Calibration, Errors, Sets, calibrate};
use crate::{Diagnostic, Result};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The folders of inputs: `dir` itself if it holds inputs, else those of its subfolders that do.
pub fn folders(dir: &Path) -> Result<Vec<PathBuf>> {
    let fail = |what: String| {
        let help = "give a folder with input_0.npy …, or a folder of such folders";
        Diagnostic::error(format!("`--calibrate {}`: {what}", dir.display())).help(help).raise(ge_codes::UNREADABLE)
    };
    let has_inputs = |d: &Path| d.join("input_0.npy").is_file();
    if has_inputs(dir) {
        return Ok(vec![dir.to_path_buf()]);
    }
    let entries = std::fs::read_dir(dir).map_err(|e| fail(e.to_string()))?;
    let mut all: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).filter(|p| has_inputs(p)).collect();
    all.sort();
    if all.is_empty() { Err(fail("no folder in it has an input_0.npy".into())) } else { Ok(all) }
}

/// Runs the calibration on these folders.
pub fn run(
    session: &Session,
    name: &str,
    graph: &ge_ir::Model,
    options: &mut OptionMap,
    folders: &[PathBuf],
    progress: &Progress,
) -> Result<Calibration> {
    progress.stage("calibrate", 0);
    let of = |m: &ge_model::CompiledModel, k: usize| {
        let none = NamedInputs::default();
        let inputs = gather(m, &Given { dir: Some(&folders[k]), by_name: &none, plugins: None })?;
        match inputs.iter().position(|t| !is_finite(t)) {
            None => Ok(inputs),
            Some(i) => Err(Diagnostic::error(format!("input_{i}.npy has numbers that are not finite"))
                .at(folders[k].display().to_string(), 0, 0)
                .help("calibration measures errors: take this folder away")
                .raise(ge_codes::INPUT)),
        }
    };
    calibrate(session, name, graph, options, &Sets { count: folders.len(), of: &of, at: &|n, of| progress.at(n, of) })
}

fn shown(e: &Errors) -> String {
    let counts = [
        (e.classes, "row(s) of another class"),
        (e.unequal, "other integer(s), boolean(s) or string(s)"),
        (e.sizes, "output(s) of another size"),
    ];
    let counts = counts.iter().filter(|c| c.0 > 0).map(|(n, what)| format!(", {n} {what}")).collect::<String>();
    format!("{:.2e} ({:.2e} of the output's greatest number{counts})", e.max_abs, e.max_rel)
}

/// The line in the summary.
pub fn line(c: &Calibration) -> String {
    let kept = match c.nodes_f32.len() {
        0 => "no node kept in f32".to_owned(),
        n => format!("{n} node(s) kept in f32 (before: {})", shown(&c.before)),
    };
    format!(
        "calibration on {} set(s) of inputs: {kept}; outputs differ from f32 by at most {}",
        c.sets,
        shown(&c.after)
    )
}

/// The result as JSON. Errors that are not a number (a NaN where f32 has a number) are null.
pub fn document(c: &Calibration) -> Value {
    let errors = |e: &Errors| {
        json!({
            "max_abs": e.max_abs, "max_rel": e.max_rel, "classes_changed": e.classes, "values_changed": e.unequal,
            "sizes_changed": e.sizes,
        })
    };
    let mut out = errors(&c.after);
    out["nodes_f32"] = json!(c.nodes_f32);
    out["sets"] = json!(c.sets);
    out["before"] = errors(&c.before);
    out
}
