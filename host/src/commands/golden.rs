//! `ge opt --check`: runs golden files in this process and compares the results with what they
//! expect (DESIGN 7, "Golden tests").
//!
//! The graphs of a file are separate cases: each graph that no other graph refers to runs alone,
//! with the graphs that it refers to. If there are several `# RUN:` lines, all must give the
//! expected result.
use super::opt::OptArgs;
use super::parse_opt;
use crate::commands::flags::Global;
use crate::commands::talk::{print, print_json};
use crate::session::{Session, import};
use crate::{Diagnostic, Result};
use ge_compiler::pass::Records;
use ge_ir::text::golden::{Golden, Outcome, cases, join};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Runs `ge opt --check PATH`. Returns 0 if everything is as expected, else 1.
pub fn run(global: &Global, path: &Path) -> Result<u8> {
    let mut runner = Runner::new(global.plugins.clone(), std::env::var_os("UPDATE_EXPECT").is_some_and(|v| v == "1"));
    let files = files(path)?;
    if files.is_empty() {
        return Err(Diagnostic::error(format!("`{}` has no golden file: nothing would be checked", path.display()))
            .help("a golden file is a `.ge` file with a first line `# RUN: ge opt …`")
            .raise(ge_codes::UNREADABLE));
    }
    let mut failed = Vec::new();
    for f in &files {
        if let Err(why) = runner.check(f) {
            failed.push((f.display().to_string(), why));
        }
    }
    if global.json {
        let list: Vec<_> = failed.iter().map(|(f, w)| serde_json::json!({"file": f, "difference": w})).collect();
        print_json(&serde_json::json!({"schema": 1, "files": files.len(), "failed": list}))?;
    } else {
        let mut text: String = failed.iter().map(|(f, why)| format!("{f}: not as expected\n{why}")).collect();
        text.push_str(&format!("{} of {} golden files as expected\n", files.len() - failed.len(), files.len()));
        print(&text)?;
    }
    Ok(u8::from(!failed.is_empty()))
}

/// The golden files of a path: the file itself, or all `.ge` files below a folder that have a `#
/// RUN:` line, sorted by name.
///
/// # Errors
/// Fails if a path cannot be read.
pub fn files(path: &Path) -> Result<Vec<PathBuf>> {
    let bad = |e: std::io::Error| {
        Diagnostic::error(format!("cannot read `{}`: {e}", path.display())).raise(ge_codes::UNREADABLE)
    };
    if !std::fs::metadata(path).map_err(bad)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut out = Vec::new();
    let mut todo = vec![path.to_owned()];
    while let Some(dir) = todo.pop() {
        for entry in std::fs::read_dir(&dir).map_err(bad)? {
            let p = entry.map_err(bad)?.path();
            if p.is_dir() {
                todo.push(p);
            } else if p.extension().is_some_and(|e| e == "ge")
                && std::fs::read_to_string(&p).is_ok_and(|t| t.contains("# RUN:"))
            {
                out.push(p);
            }
        }
    }
    out.sort();
    Ok(out)
}

/// Runs golden files with one set of plugins, which is loaded once per SoC that a file asks for.
pub struct Runner {
    plugins: Option<PathBuf>,
    update: bool,
    sessions: BTreeMap<String, Session>,
}

impl Runner {
    /// Creates a runner for a plugin configuration. `update`: rewrite the expectations instead of
    /// comparing.
    pub fn new(plugins: Option<PathBuf>, update: bool) -> Runner {
        Runner { plugins, update, sessions: BTreeMap::new() }
    }

    /// Checks one file.
    ///
    /// # Errors
    /// Returns the differences as text for the user.
    pub fn check(&mut self, path: &Path) -> std::result::Result<(), String> {
        let text = std::fs::read_to_string(path).map_err(|e| format!("cannot be read: {e}\n"))?;
        let shown = path.display().to_string();
        let golden = Golden::read(&text, &shown).map_err(|d| told(&d))?;
        let beside = path.parent().map_or_else(String::new, |d| d.display().to_string());
        for line in &golden.run {
            // `%S` stands for the folder of the golden file, so that options can name files there.
            let args = parse_opt(&line.replace("%S", &beside))?;
            let outcome = self.outcome(&args, golden.input, path);
            if self.update {
                let new = golden.update(&outcome)?;
                if new != text {
                    crate::files::write_atomic(path, new.as_bytes()).map_err(|e| told(&e.diagnostics))?;
                }
            } else {
                golden.check(&outcome).map_err(|why| format!("# RUN: {line}\n{why}"))?;
            }
        }
        Ok(())
    }

    fn outcome(&mut self, args: &OptArgs, input: &str, path: &Path) -> Outcome {
        let mut refused = Vec::new();
        let result = import::parse_text(path, input.as_bytes()).and_then(|model| self.apply(args, model, &mut refused));
        Outcome { result: result.map_err(|e| e.diagnostics.iter().cloned().collect()), refused }
    }

    fn apply(&mut self, args: &OptArgs, model: ge_ir::Model, refused: &mut Vec<String>) -> Result<ge_ir::Model> {
        if args.changes_nothing() {
            return Ok(model);
        }
        let soc = args.soc().unwrap_or("").to_owned();
        if !self.sessions.contains_key(&soc) {
            self.sessions.insert(soc.clone(), args.session(self.plugins.clone())?);
        }
        let Some(session) = self.sessions.get(&soc) else {
            return Err(crate::Error::internal("no session"));
        };
        let mut done = Vec::new();
        for case in cases(&model) {
            // Different cases may use the same node names.
            let mut records = Records::default();
            done.push(args.apply(session, case, &mut records)?);
            let told = records.refusals.values().flatten().map(|(pass, reason)| format!("{pass}: {reason}"));
            for line in told.collect::<Vec<_>>() {
                if !refused.contains(&line) {
                    refused.push(line);
                }
            }
        }
        join(done).ok_or_else(|| crate::Error::internal("a golden file without graphs"))
    }
}

fn told(d: &[Diagnostic]) -> String {
    d.iter().map(|d| format!("{}\n", d.message)).collect()
}
