//! The pipeline: the stages in order, the state of one compilation, and the loops over them.
//!
//! A `Compilation` does one stage at a time (`Compilation::step`) and says which is next: a stage
//! is run again where a later one asks for it. A compilation, `ge opt`, and a build that goes on
//! from a tuning stop are loops over it. `import` is the front end's; here it only holds the graph
//! that came in against the verifier.

/// The state of one compilation, and what its stages do.
pub mod compilation;
/// What the host sees of it.
pub mod observer;
/// The list of passes.
pub mod passes;
/// The stages by name.
pub mod stage;
/// Stops and resumes of a tuning build.
pub mod tuning;

/// What the stages from placement to the conflicts do.
mod cut;
/// Models of unknown shapes, and their known parts.
mod known;
/// What the stages from streams to the model do.
mod build;

use crate::error::OptionFault;
pub use compilation::{Compilation, Goal};
pub use known::keep_output_names;
pub use observer::{Observer, Silent};
pub use stage::{STAGES, Stage};

use crate::error::Result;
use crate::model::GeRootModel;
use crate::options::Options;
use crate::pass::Records;
use crate::toolbox::Toolbox;
use ge_ir::Model;
use ge_model::CompiledModel;
use tuning::Step;

/// What came of a compilation.
pub enum Outcome {
    /// The model.
    Built(Box<GeRootModel>),
    /// A model of unknown shapes, whose graphs executor v2 runs, its parts of known shape, and what
    /// the user should know of it.
    Dynamic(Box<CompiledModel>, Vec<GeRootModel>, Vec<String>),
    /// The graph of a tuning stop.
    Stopped(Step, Model),
}

/// Compiles a model through all stages, or up to a tuning stop; the graph of one goes on where it
/// stopped.
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
            // The build itself is done to the end: a graph that cannot be built is no result.
            stopped = Some(Outcome::Stopped(step, graph));
        }
        // Where a shape is open there is nothing to place and to plan before a run but parts that
        // are known.
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

/// Runs the stages `from` to `until`, both included, on a graph that may carry the decisions of
/// earlier stages as attributes, and writes what is decided back as attributes (DESIGN 7, "Names of
/// decisions").
///
/// # Errors
/// What a stage fails with; `until` beyond `sync`: later stages leave nothing that text can hold.
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
