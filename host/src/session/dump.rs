//! `--dump STAGE,pass:NAME,…` and `--dump-passes`: writes the graph as text, with what was decided,
//! at the end of stages and of passes that changed it (DESIGN 5, Dumps). Constants over 1 KiB go to
//! `dump.weights` beside the texts.
use super::bundle::Failed;
use super::constants::Constants;
use crate::render::Progress;
use crate::{Diagnostic, Error, Result};
use ge_compiler::pass::Blamed;
use ge_compiler::pipeline::passes::PASSES;
use ge_compiler::pipeline::{Observer, STAGES, Stage};
use ge_ir::text::{PrintOptions, print};
use ge_plugin::Registry;
use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Mutex;

/// An observer that shows progress, stops on Ctrl-C and writes dumps.
pub struct Dumps<'a> {
    progress: &'a Progress,
    wanted: Wanted,
    dir: PathBuf,
    state: Mutex<(usize, Option<Error>)>,
    constants: Mutex<Constants>,
    failed: Mutex<Option<Failed>>,
    times: Mutex<Vec<StageTime>>,
}

/// Time of one stage, summed over its rounds and parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageTime {
    /// Name of the stage.
    pub stage: &'static str,
    /// Time in microseconds.
    pub micros: u64,
}

/// The stages and passes to dump.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    stages: Vec<Stage>,
    passes: Vec<String>,
    each_pass: bool,
}

/// Prefix of a pass name in `--dump`.
const PASS: &str = "pass:";

impl Wanted {
    /// Parses the names of `--dump`: stages, `all` for every stage, or `pass:NAME`. `each_pass`:
    /// whether `--dump-passes` was given.
    ///
    /// # Errors
    /// Fails if there is no such stage.
    pub fn parse(names: &[String], each_pass: bool) -> Result<Wanted> {
        let mut out = Wanted { each_pass, ..Wanted::default() };
        for n in names.iter().map(|n| n.trim()).filter(|n| !n.is_empty()) {
            match (n.strip_prefix(PASS), Stage::named(n)) {
                (Some(pass), _) => out.passes.push(pass.to_owned()),
                (None, Some(stage)) => out.stages.push(stage),
                (None, None) if n == "all" => out.stages = Stage::ALL.to_vec(),
                (None, None) => return Err(crate::options::unknown_name("stage", n, STAGES.iter().copied())),
            }
        }
        Ok(out)
    }
    /// Checks that the named passes exist.
    ///
    /// # Errors
    /// Fails if a pass does not exist.
    pub fn check(&self, registry: &Registry) -> Result<()> {
        let own = PASSES.iter().map(|p| p.pass.name()).chain(["InferShapePass", "HostcpuEngineUpdatePass"]);
        let all: Vec<&str> = own.chain(registry.passes().iter().map(|p| p.name())).collect();
        match self.passes.iter().find(|p| !all.contains(&p.as_str())) {
            Some(p) => Err(crate::options::unknown_name("pass", p, all.iter().copied())),
            None => Ok(()),
        }
    }
    fn is_empty(&self) -> bool {
        self.stages.is_empty() && self.passes.is_empty() && !self.each_pass
    }
    fn has_stage(&self, stage: &str) -> bool {
        self.stages.iter().any(|s| s.name() == stage)
    }
    fn has_pass(&self, pass: &str) -> bool {
        self.each_pass || self.passes.iter().any(|p| p == pass)
    }
}

impl<'a> Dumps<'a> {
    /// Dumps into a folder, which is created if anything is to be dumped.
    pub fn new(progress: &'a Progress, wanted: Wanted, dir: PathBuf) -> Result<Dumps<'a>> {
        if !wanted.is_empty() {
            std::fs::create_dir_all(&dir).map_err(|e| {
                Diagnostic::error(format!("cannot make folder `{}`: {e}", dir.display())).raise(ge_codes::UNWRITABLE)
            })?;
        }
        let constants = Mutex::new(Constants::new(&dir, "dump.weights"));
        let (state, failed, times) = (Mutex::new((0, None)), Mutex::default(), Mutex::default());
        Ok(Dumps { progress, wanted, dir, state, constants, failed, times })
    }
    /// Writes the graph at the end of a stage or a pass.
    fn write<'m>(&self, stage: &str, part: &str, wanted: bool, graph: &dyn Fn() -> Cow<'m, ge_ir::Model>) {
        let mut state = self.state.lock().unwrap_or_else(|e| e.into_inner());
        let number = state.0;
        state.0 += 1;
        if state.1.is_some() || !wanted {
            return;
        }
        let part = if part.is_empty() { String::new() } else { format!("_{}", part.replace(['/', '\\'], "_")) };
        let path = self.dir.join(format!("{number:03}_{stage}{part}.ge"));
        // Large constants of all texts share one side file.
        let mut constants = self.constants.lock().unwrap_or_else(|e| e.into_inner());
        let mut text = Vec::new();
        let mut options = PrintOptions { side_files: Some(&mut *constants), ..PrintOptions::default() };
        let written = print(&graph(), &mut text, &mut options)
            .and_then(|()| constants.publish())
            .map_err(|e| Error::failed(format!("the graph after `{stage}` cannot be printed: {e}")))
            .and_then(|()| crate::files::write_atomic(&path, &text));
        state.1 = written.err();
    }
    /// Takes the stage that failed through a fault, and its graph.
    pub fn take_failed(&self) -> Option<Failed> {
        self.failed.lock().unwrap_or_else(|e| e.into_inner()).take()
    }
    /// The times of the stages that were run, in order. Fails with the first dump that could not be
    /// written.
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
        self.write(name, part, self.wanted.has_stage(name), graph);
    }
    fn passed(&self, stage: &'static str, pass: &str, graph: &ge_ir::Model) {
        if self.wanted.has_pass(pass) {
            self.write(stage, pass, true, &|| Cow::Borrowed(graph));
        }
    }
    fn failed(&self, stage: &'static str, pass: Option<&Blamed>, graph: &ge_ir::Model) {
        let failed = Failed { stage, pass: pass.cloned(), graph: graph.clone() };
        *self.failed.lock().unwrap_or_else(|e| e.into_inner()) = Some(failed);
    }
    fn cached(&self) -> bool {
        self.wanted.is_empty()
    }
    fn cancelled(&self) -> bool {
        ge_plugin::services::is_cancelled()
    }
}
