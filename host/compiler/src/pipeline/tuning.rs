//! Tuning mode (003 §1.4): a build stops before or after the engines' OptimizeFusedGraph, or when
//! it is done, and leaves its graph. Compiling that graph resumes where the build stopped and gives
//! the same model.
//!
//! The records of the earlier stages (passes, refusals, fusions) travel as attributes of the root
//! graph.
use crate::error::OptionFault;
use crate::error::{CompileError, Result};
use crate::fusion::FusionRecord;
use crate::options::{BuildMode, BuildStep, Options};
use crate::pass::{PassRecord, Records};
use crate::pipeline::Stage;
use ge_ir::{AttrValue, Key, Model};
use ge_plugin_api::diagnostic::Diagnostic;

/// The point at which a tuning build stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The graph is cut into subgraphs, and no engine has processed them yet.
    BeforeUbMatch,
    /// Each engine has changed its subgraphs.
    AfterUbMatch,
    /// The build is done.
    AfterBuilder,
}

const STEPS: [(Step, &str); 3] = [
    (Step::BeforeUbMatch, "before_ub_match"),
    (Step::AfterUbMatch, "after_ub_match"),
    (Step::AfterBuilder, "after_builder"),
];

impl Step {
    /// Name of the step, as a value of `ge.buildStep`.
    pub fn name(self) -> &'static str {
        STEPS.iter().find(|(s, _)| *s == self).map_or("", |(_, n)| n)
    }
    /// The stage after which the build stops.
    pub fn exit(self) -> Stage {
        match self {
            Step::BeforeUbMatch => Stage::Partition,
            Step::AfterUbMatch => Stage::Subgraph,
            Step::AfterBuilder => Stage::Conflict,
        }
    }
    /// The stage at which a compilation of the graph resumes.
    pub fn entry(self) -> Stage {
        self.exit().next()
    }
    fn of_option(step: BuildStep) -> Option<Step> {
        match step {
            BuildStep::Unset => None,
            BuildStep::BeforeUbMatch => Some(Step::BeforeUbMatch),
            BuildStep::AfterUbMatch => Some(Step::AfterUbMatch),
            BuildStep::AfterBuilder => Some(Step::AfterBuilder),
        }
    }
    fn named(name: &str) -> Option<Step> {
        STEPS.iter().find(|(_, n)| *n == name).map(|(s, _)| *s)
    }
    /// The step that the options ask for; `None` outside of tuning mode.
    ///
    /// # Errors
    /// Fails if tuning mode has no step or no folder, or if a step is given outside of tuning mode.
    pub fn of(options: &Options) -> Result<Option<Step>> {
        let wrong = |what, help| CompileError::from(OptionFault::Contradiction { what, help });
        let step = Step::of_option(options.build_step);
        match (options.build_mode, step) {
            (BuildMode::Tuning, None) => Err(wrong(
                "`ge.buildMode=tuning` needs `ge.buildStep`",
                "`--set ge.buildStep=before_ub_match`, `after_ub_match` or `after_builder`",
            )),
            (BuildMode::Tuning, Some(_)) if options.tuning_path.is_empty() => {
                Err(wrong("`ge.buildMode=tuning` needs `ge.tuningPath`", "`--set ge.tuningPath=DIR`"))
            }
            (BuildMode::Tuning, step) => Ok(step),
            (_, None) => Ok(None),
            (_, Some(_)) => Err(wrong(
                "`ge.buildStep` is given outside of tuning mode",
                "add `--set ge.buildMode=tuning`, or leave `ge.buildStep` out",
            )),
        }
    }
}

const STEP: &str = "_tuning_step";
const PASSES: &str = "_tuning_passes";
const REFUSALS: &str = "_tuning_refusals";
const FUSIONS: &str = "_tuning_fusions";

/// Writes the attributes that [`take`] reads to the root graph.
pub fn put(model: &mut Model, at: Step, records: &Records) {
    let strs = |v: Vec<String>| AttrValue::Strs(v.into_iter().map(Into::into).collect());
    let attrs = model.root_mut().attrs_mut();
    attrs.set(STEP, at.name());
    let runs = records
        .runs
        .iter()
        .flat_map(|r| [r.stage.to_owned(), r.pass.clone(), r.visits.to_string(), r.changes.to_string()]);
    attrs.set(PASSES, strs(runs.collect()));
    let all =
        records.refusals.iter().flat_map(|(n, l)| l.iter().map(move |(p, why)| [n.clone(), p.clone(), why.clone()]));
    attrs.set(REFUSALS, strs(all.flatten().collect()));
    // A nested list is written as the number of names, followed by the names.
    let names = |l: &[String]| std::iter::once(l.len().to_string()).chain(l.iter().cloned()).collect::<Vec<_>>();
    let fusions = records.fusions.iter().flat_map(|f| {
        let mut row = vec![f.pass.clone()];
        row.extend(names(&f.before));
        row.extend(names(&f.after));
        row
    });
    attrs.set(FUSIONS, strs(fusions.collect()));
}

/// Removes the attributes that [`put`] wrote from the root graph and fills `records`. Returns
/// `None` if the graph does not come from a tuning stop.
///
/// # Errors
/// Fails if an attribute does not have the form that [`put`] writes.
pub fn take(model: &mut Model, records: &mut Records) -> Result<Option<Step>> {
    let attrs = model.root_mut().attrs_mut();
    let Some(step) = attrs.remove(Key::new(STEP)) else { return Ok(None) };
    let damaged = |what: &str| {
        CompileError::model(
            ge_codes::TEXT_FORM,
            Diagnostic::error(format!("the graph of a tuning stop has an attribute that cannot be read: `{what}`"))
                .help("write it anew with `ge compile --set ge.buildMode=tuning`"),
        )
    };
    let step = step.as_str().and_then(Step::named).ok_or_else(|| damaged(STEP))?;
    let mut list = |key: &str, row: usize| -> Result<Vec<String>> {
        let value = attrs.remove(Key::new(key)).ok_or_else(|| damaged(key))?;
        let texts = value.as_strs().filter(|l| l.len() % row == 0).ok_or_else(|| damaged(key))?;
        Ok(texts.into_iter().map(str::to_owned).collect())
    };
    let fusions = list(FUSIONS, 1)?;
    let mut rest = fusions.into_iter();
    while let Some(pass) = rest.next() {
        let mut names = || {
            let n = rest.next().and_then(|n| n.parse::<usize>().ok()).ok_or_else(|| damaged(FUSIONS))?;
            let l: Vec<String> = rest.by_ref().take(n).collect();
            if l.len() == n { Ok(l) } else { Err(damaged(FUSIONS)) }
        };
        let (before, after) = (names()?, names()?);
        records.fusions.push(FusionRecord { pass, before, after });
    }
    for c in list(PASSES, 4)?.chunks_exact(4) {
        let stage = Stage::named(&c[0]).map_or("custom", Stage::name);
        let (Ok(visits), Ok(changes)) = (c[2].parse(), c[3].parse()) else { return Err(damaged(PASSES)) };
        records.runs.push(PassRecord { stage, pass: c[1].clone(), micros: 0, visits, changes });
    }
    for c in list(REFUSALS, 3)?.chunks_exact(3) {
        records.refuse(&c[0], &c[1], c[2].clone());
    }
    Ok(Some(step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_travels_with_the_graph_comes_back() {
        let mut records = Records::default();
        records.refuse("a b", "P", "two \"readers\"\n");
        records.refuse("a b", "Q", "");
        let run = |stage, pass: &str| PassRecord { stage, pass: pass.into(), micros: 0, visits: 3, changes: 1 };
        records.runs = vec![run("prepare", "X"), run("custom", "Y")];
        let at = Step::AfterUbMatch;
        let names = |l: &[&str]| l.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        records.fusions = vec![
            FusionRecord { pass: "F".into(), before: names(&["a", "b"]), after: names(&["b"]) },
            FusionRecord { pass: "G".into(), before: names(&["3"]), after: names(&[]) },
        ];
        let mut m = Model::new("g");
        put(&mut m, at, &records);
        let text = ge_ir::text::to_string(&m).expect("prints");
        let mut again = ge_ir::text::parse(&text, "t.ge", &ge_ir::text::NoFiles).expect("reads");
        let mut back = Records::default();
        assert_eq!(take(&mut again, &mut back).expect("sound"), Some(at));
        assert_eq!(back, records);
        assert!(again.root().attrs().is_empty());
        assert_eq!(take(&mut again, &mut back).expect("none"), None);
    }

    #[test]
    fn options_that_do_not_fit_together_are_refused() {
        let of = |pairs: &[(&str, &str)]| {
            let mut o = Options::default();
            pairs.iter().for_each(|(k, v)| o.set(k, v).unwrap());
            Step::of(&o)
        };
        assert!(matches!(of(&[]), Ok(None)) && matches!(of(&[("ge.buildMode", "normal")]), Ok(None)));
        assert!(of(&[("ge.buildMode", "tuning"), ("ge.tuningPath", "d")]).is_err());
        assert!(of(&[("ge.buildMode", "tuning"), ("ge.buildStep", "after_builder")]).is_err());
        assert!(of(&[("ge.buildStep", "after_builder")]).is_err());
        let all = [("ge.buildMode", "tuning"), ("ge.buildStep", "after_builder"), ("ge.tuningPath", "d")];
        assert!(matches!(of(&all), Ok(Some(Step::AfterBuilder))));
    }
}
