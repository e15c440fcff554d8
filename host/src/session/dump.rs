//! `--dump STAGE,…`: the graph as text after stages, written when the stage ends (DESIGN 5, Dumps); constants over 1 KiB stand in
//! `dump.weights` beside the texts.
use super::bundle::Failed;
use super::constants::Constants;
use crate::render::Progress;
use crate::{Diagnostic, Error, ErrorKind, Result};
use ge_compiler::pass::Blamed;
use ge_compiler::stages::{Observer, STAGES};
use ge_ir::text::{PrintOptions, print};
use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Mutex;

/// An observer that shows progress, asks for Ctrl-C and writes dumps.
pub struct Dumps<'a> {
    progress: &'a Progress,
    stages: Vec<String>,
    dir: PathBuf,
    state: Mutex<(usize, Option<Error>)>,
    constants: Mutex<Constants>,
    failed: Mutex<Option<Failed>>,
    times: Mutex<Vec<StageTime>>,
}

/// What a stage took, its rounds and parts together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageTime {
    /// Stage.
    pub stage: &'static str,
    /// Microseconds.
    pub micros: u64,
}

/// Checks the names of stages; `all` stands for every one.
pub fn stages(names: &[String]) -> Result<Vec<String>> {
    let mut out = Vec::new();
    for n in names.iter().map(|n| n.trim()).filter(|n| !n.is_empty()) {
        if n == "all" {
            return Ok(STAGES.iter().map(|s| (*s).to_owned()).collect());
        }
        if !STAGES.contains(&n) {
            return Err(crate::options::unknown_name("stage", n, STAGES.iter().copied()));
        }
        out.push(n.to_owned());
    }
    Ok(out)
}

impl<'a> Dumps<'a> {
    /// Dumps of these stages (names from [`stages`]) into a folder, which is made.
    pub fn new(progress: &'a Progress, stages: Vec<String>, dir: PathBuf) -> Result<Dumps<'a>> {
        if !stages.is_empty() {
            std::fs::create_dir_all(&dir).map_err(|e| {
                Diagnostic::error(format!("cannot make folder `{}`: {e}", dir.display()))
                    .code("GE-E0403")
                    .of(ErrorKind::FAILED)
            })?;
        }
        let constants = Mutex::new(Constants::new(&dir, "dump.weights"));
        let (state, failed, times) = (Mutex::new((0, None)), Mutex::default(), Mutex::default());
        Ok(Dumps { progress, stages, dir, state, constants, failed, times })
    }
    /// Writes the graph as it stands when a stage has ended.
    fn write<'m>(&self, stage: &str, part: &str, graph: &dyn Fn() -> Cow<'m, ge_ir::Model>) {
        let mut state = self.state.lock().unwrap_or_else(|e| e.into_inner());
        let number = state.0;
        state.0 += 1;
        if state.1.is_some() || !self.stages.iter().any(|s| s == stage) {
            return;
        }
        let part = if part.is_empty() { String::new() } else { format!("_{part}") };
        let path = self.dir.join(format!("{number:03}_{stage}{part}.ge"));
        // Large constants lie beside the texts, in one file for all of them.
        let mut constants = self.constants.lock().unwrap_or_else(|e| e.into_inner());
        let mut text = Vec::new();
        let mut options = PrintOptions { side_files: Some(&mut *constants), ..PrintOptions::default() };
        let written = print(&graph(), &mut text, &mut options)
            .and_then(|()| constants.publish())
            .map_err(|e| Error::failed(format!("the graph after `{stage}` cannot be printed: {e}")))
            .and_then(|()| crate::commands::write_atomic(&path, &text));
        state.1 = written.err();
    }
    /// The stage that failed by a fault, and its graph.
    pub fn take_failed(&self) -> Option<Failed> {
        self.failed.lock().unwrap_or_else(|e| e.into_inner()).take()
    }
    /// The times of the stages that were run, in order. Errors: the first dump that could not be written.
    pub fn finish(self) -> Result<Vec<StageTime>> {
        match self.state.into_inner().unwrap_or_else(|e| e.into_inner()).1 {
            Some(e) => Err(e),
            None => Ok(self.times.into_inner().unwrap_or_else(|e| e.into_inner())),
        }
    }
}

impl Observer for Dumps<'_> {
    fn stage(&self, name: &'static str, nodes: usize) {
        self.progress.stage(name, nodes);
    }
    fn done<'m>(&self, name: &'static str, part: &'static str, graph: &dyn Fn() -> Cow<'m, ge_ir::Model>, micros: u64) {
        let mut times = self.times.lock().unwrap_or_else(|e| e.into_inner());
        match times.iter_mut().find(|t| t.stage == name) {
            Some(before) => before.micros += micros,
            None => times.push(StageTime { stage: name, micros }),
        }
        drop(times);
        self.write(name, part, graph);
    }
    fn failed(&self, stage: &'static str, pass: Option<&Blamed>, graph: &ge_ir::Model) {
        let failed = Failed { stage, pass: pass.cloned(), graph: graph.clone() };
        *self.failed.lock().unwrap_or_else(|e| e.into_inner()) = Some(failed);
    }
    fn cached(&self) -> bool {
        self.stages.is_empty()
    }
    fn cancelled(&self) -> bool {
        ge_plugin::services::is_cancelled()
    }
}
