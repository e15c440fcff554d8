//! The pipeline: the stages in order, the state of one compilation, and the loops over the stages.
//!
//! A `Compilation` runs one stage at a time (`Compilation::step`) and returns the next one; a stage
//! runs again if a later stage asks for it. A compilation, `ge opt`, and a build that resumes from
//! a tuning stop are loops over `step`. The front end does the `import`; the `import` stage here
//! only verifies the incoming graph.

/// The state of one compilation, and the work of its stages.
pub mod compilation;
/// The interface through which the host observes a compilation.
pub mod observer;
/// The list of passes.
pub mod passes;
/// Names and order of the stages.
pub mod stage;
/// Stops a tuning build and resumes it.
pub mod tuning;

/// The work of the stages from placement to the conflicts.
mod cut;
/// Models of unknown shape, and their parts of known shape.
mod known;
/// The work of the stages from streams to the model.
mod build;

use crate::error::OptionFault;
pub use compilation::{Compilation, Goal};
pub use observer::{Observer, Silent};
pub use stage::{STAGES, Stage};

use crate::error::Result;
use crate::model::GeRootModel;
use crate::options::Options;
use crate::output_names;
use crate::pass::Records;
use crate::toolbox::Toolbox;
use ge_ir::Model;
use ge_model::CompiledModel;
use tuning::Step;

/// Result of a compilation.
pub enum Outcome {
    /// The compiled model.
    Built(Box<GeRootModel>),
    /// A model of unknown shapes whose graphs executor v2 runs, its parts of known shape, and
    /// warnings for the user.
    Dynamic(Box<CompiledModel>, Vec<GeRootModel>, Vec<String>),
    /// The graph at a tuning stop.
    Stopped(Step, Model),
}

/// Compiles a model through all stages, or up to a tuning stop. The graph of an earlier tuning stop
/// resumes at the stage where it stopped.
pub fn compile(
    name: &str,
    mut model: Model,
    toolbox: &Toolbox,
    options: &Options,
    observer: &dyn Observer,
) -> Result<Outcome> {
    toolbox.born.begin();
    let mut records = Records::default();
    let stop = Step::of(options)?;
    let resumed = tuning::take(&mut model, &mut records)?;
    output_names::keep(&mut model);
    let mut c = Compilation::new(model, toolbox, options, observer, Goal::Model, records)?;
    let mut at = c.enter(resumed.map_or(Stage::Import, Step::entry))?;
    let mut stopped = None;
    loop {
        if let Some(step) = stop.filter(|s| s.entry() == at && stopped.is_none() && c.is_last_round()) {
            let mut graph = c.text()?;
            tuning::put(&mut graph, step, c.records());
            if step != Step::AfterBuilder {
                return Ok(Outcome::Stopped(step, graph));
            }
            // The build still runs to the end, because the graph of a model that cannot be built is
            // no valid result.
            stopped = Some(Outcome::Stopped(step, graph));
        }
        // If shapes are unknown, only the parts of known shape can be placed and planned before a
        // run.
        if at == Stage::Place {
            if let Some((m, parts)) = c.dynamic(name)? {
                return Ok(Outcome::Dynamic(Box::new(m), parts, c.records().warnings.clone()));
            }
        }
        let next = c.step(at)?;
        if at == Stage::Model {
            break;
        }
        at = next;
    }
    match stopped {
        Some(stopped) => Ok(stopped),
        None => Ok(Outcome::Built(Box::new(c.finish(name)?))),
    }
}

/// Runs the stages `from` to `until`, both included. The graph may carry the decisions of earlier
/// stages as attributes; new decisions are written back as attributes (DESIGN 7, "Names of
/// decisions").
///
/// # Errors
/// Fails if a stage fails, or if `until` is after `sync`, because the results of later stages
/// cannot be written as text.
pub fn run_range(
    model: Model,
    toolbox: &Toolbox,
    options: &Options,
    from: Stage,
    until: Stage,
    records: &mut Records,
) -> Result<Model> {
    if until > Stage::LAST_TEXT {
        return Err(OptionFault::Value {
            option: "--until",
            what: format!("names stage `{}`, which leaves no text", until.name()),
            help: "use `ge compile`, or `--until sync`".into(),
        }
        .into());
    }
    let mut c = Compilation::new(model, toolbox, options, &Silent, Goal::Text, std::mem::take(records))?;
    let mut run = || -> Result<()> {
        let mut at = c.enter(from)?;
        while at <= until {
            at = c.step(at)?;
        }
        Ok(())
    };
    let out = run();
    let text = out.and_then(|()| c.text());
    *records = c.into_records();
    text
}
