//! Calibration: runs given inputs through a model in its own types and in those of its precision
//! mode, and compares them node by node. Nodes for which the narrow type costs too much precision
//! keep their type.
//!
//! Each round compares every node of the current model with the same node in f32. A node is to
//! blame if its own numbers are off by more than [`TOLERANCE`] relative to the greatest of them, or
//! of another count, while the numbers that it reads are not. The nodes that compute it and its
//! inputs then keep their types. If errors add up without a node to blame, the nodes that
//! contribute most keep their types: first a sixteenth of the nodes, then twice as many in each
//! round. The rounds end when the outputs are right or when nothing is left in a narrow type. Then
//! parts of the kept nodes, halves down to sixteenths, get the narrow type back where the outputs
//! stay right.
//!
//! Every run starts with the variables as they were when the calibration began.
mod blame;
mod errors;

pub use errors::{Errors, TOLERANCE};

use super::model::Item;
use super::{Model, Session};
use crate::options::OptionMap;
use crate::{Diagnostic, Error, Result};
use blame::{ByNode, added, in_order, most};
use ge_compiler::original::precision::names::KEEP_NAMES;
use ge_compiler::pipeline::Observer;
use ge_ir::Model as GraphModel;
use ge_model::CompiledModel;
use ge_plugin_api::kernel::HostTensor;
use ge_runtime::{LoadOptions, RunOptions, RunOutcome, Snapshot};
use std::cell::Cell;
use std::collections::BTreeSet;

/// In the first round without a node to blame, one node in this many keeps its type.
const PART: usize = 16;
/// The smallest parts tried with the narrow type are one in this many of the kept nodes.
const PARTS: usize = 16;
/// Upper bound of compilations: the model in its own types, a round for nodes to blame, shares that
/// double until they cover all nodes, and all parts (2 + 4 + 8 + 16).
const MOST_COMPILATIONS: u64 = 40;
/// Upper bound of rounds, should each of them find nodes to blame.
const MOST_ROUNDS: u64 = 100;

/// Result of a calibration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Calibration {
    /// Names of the nodes that must keep f32 for these inputs.
    pub nodes_f32: Vec<String>,
    /// Number of input sets.
    pub sets: usize,
    /// Errors of the outputs before any node kept its type.
    pub before: Errors,
    /// Errors of the outputs of the resulting model.
    pub after: Errors,
}

/// The input sets for a calibration.
pub struct Sets<'a> {
    /// Number of sets.
    pub count: usize,
    /// Returns set `k` for a model.
    pub of: &'a dyn Fn(&CompiledModel, usize) -> Result<Vec<HostTensor>>,
    /// Called before each compilation with the number done so far and the maximum.
    pub at: &'a dyn Fn(u64, u64),
}

/// Calibrates a graph on sets of inputs. Adds to `options` what the graph must be compiled with.
///
/// # Errors
/// Fails if compiling or running fails, or if the user cancels.
pub fn calibrate(
    session: &Session,
    name: &str,
    graph: &GraphModel,
    options: &mut OptionMap,
    sets: &Sets<'_>,
) -> Result<Calibration> {
    let start = session.variables().snapshot().map_err(|e| e.into_error())?;
    let bench = Bench { session, name, graph, sets, start, compiled: Cell::new(0) };
    let out = bench.calibrate(options);
    session.variables().restore(&bench.start);
    out
}

/// An observer that only stops the compilation on Ctrl-C.
struct Quietly;
impl Observer for Quietly {
    fn cancelled(&self) -> bool {
        ge_plugin::services::is_cancelled()
    }
}

/// A run of a model.
struct Ran {
    model: Model,
    outcome: RunOutcome,
    outputs: Vec<Item>,
}

/// Compiles and runs a graph in several ways.
struct Bench<'a> {
    session: &'a Session,
    name: &'a str,
    graph: &'a GraphModel,
    sets: &'a Sets<'a>,
    /// The variables at the start of each run.
    start: Snapshot,
    compiled: Cell<u64>,
}

impl Bench<'_> {
    fn calibrate(&self, options: &mut OptionMap) -> Result<Calibration> {
        let wide = self.build(&in_own_types(options)?)?;
        let mut out = Calibration { sets: self.sets.count, ..Calibration::default() };
        let mut kept = self.keep_until_fine(&wide, options, &mut out)?;
        self.release(&wide, options, &mut kept, &mut out)?;
        if !kept.is_empty() {
            keep(options, &kept)?;
        }
        out.nodes_f32 = kept;
        // Drop names of nodes that passes made, such as casts: the user does not know them.
        let known: BTreeSet<&str> = self.graph.graphs().iter().flat_map(|g| g.nodes()).map(|n| n.name()).collect();
        out.nodes_f32.retain(|n| known.contains(n.as_str()));
        out.nodes_f32.sort();
        Ok(out)
    }

    fn build(&self, options: &OptionMap) -> Result<CompiledModel> {
        (self.sets.at)(self.compiled.get().min(MOST_COMPILATIONS), MOST_COMPILATIONS);
        self.compiled.set(self.compiled.get() + 1);
        let built = self.session.compile(self.name, self.graph.clone(), options, &Quietly)?;
        match built.stopped {
            Some(_) => Err(Diagnostic::error("a build that stops for tuning has nothing to calibrate")
                .help("take `ge.buildMode` or `--calibrate` away")
                .raise(ge_codes::OPTION_FORM)),
            None => Ok(built.model),
        }
    }

    fn run(&self, m: &CompiledModel, set: usize) -> Result<Ran> {
        if ge_plugin::services::is_cancelled() {
            return Err(Error::cancelled());
        }
        let inputs: Vec<Item> = (self.sets.of)(m, set)?.into_iter().map(Item::Tensor).collect();
        self.session.variables().restore(&self.start);
        let context = self.session.open_device(&m.soc)?;
        let load = LoadOptions { rank_size: 1, capture: true, ..LoadOptions::default() };
        let model = self.session.load_on(m.clone(), context, &load)?;
        let (outcome, outputs) = model.run_items(&inputs, RunOptions::default())?;
        Ok(Ran { model, outcome, outputs })
    }

    /// The errors of the outputs of a model, and of its nodes.
    fn measured(&self, wide: &CompiledModel, low: &CompiledModel) -> Result<(Errors, ByNode)> {
        let mut errors = Errors::default();
        let mut nodes = ByNode::new();
        for k in 0..self.sets.count {
            let (a, b) = (self.run(wide, k)?, self.run(low, k)?);
            errors = b.outputs.iter().zip(&a.outputs).map(|(l, w)| errors::of_items(l, w)).fold(errors, Errors::or);
            for (node, e) in blame::by_node(&a, &b) {
                let worst = nodes.entry(node).or_default();
                *worst = worst.max(e);
            }
        }
        Ok((errors, nodes))
    }

    /// Lets more and more nodes keep their types until the outputs are right, or until nothing is
    /// left in a narrow type. Returns their names in the order of the model.
    fn keep_until_fine(
        &self,
        wide: &CompiledModel,
        options: &mut OptionMap,
        out: &mut Calibration,
    ) -> Result<Vec<String>> {
        let mut kept: Vec<String> = Vec::new();
        let mut share = 0;
        for round in 0..MOST_ROUNDS {
            let low = self.build(options)?;
            let (errors, nodes) = self.measured(wide, &low)?;
            if round == 0 {
                out.before = errors;
            }
            out.after = errors;
            if errors.is_fine() {
                return Ok(in_order(&low, kept));
            }
            let known: BTreeSet<&String> = kept.iter().collect();
            let found: Vec<_> = added(&low, &nodes).into_iter().filter_map(|a| a.beside(&known)).collect();
            if found.is_empty() {
                break;
            }
            let mut more: BTreeSet<String> =
                found.iter().filter(|a| a.to_blame).flat_map(|a| a.names.iter().cloned()).collect();
            if more.is_empty() {
                // Each round of this kind doubles the share, so after a few rounds all nodes keep
                // their types.
                share = (share * 2).max(found.len().div_ceil(PART));
                more = most(found, share);
            }
            kept.extend(more);
            keep(options, &kept)?;
        }
        Ok(kept)
    }

    /// Gives the narrow type back to parts of the kept nodes, as long as the outputs stay right.
    /// Neighbouring nodes that may be narrow are released together: first halves, then smaller
    /// parts.
    fn release(
        &self,
        wide: &CompiledModel,
        options: &mut OptionMap,
        kept: &mut Vec<String>,
        out: &mut Calibration,
    ) -> Result<()> {
        let mut parts = 2;
        while out.after.is_fine() && parts <= PARTS.min(kept.len()) {
            let each = kept.len().div_ceil(parts);
            for part in (0..parts).rev() {
                let (from, to) = ((part * each).min(kept.len()), ((part + 1) * each).min(kept.len()));
                let left = [&kept[..from], &kept[to..]].concat();
                keep(options, &left)?;
                let (errors, _) = self.measured(wide, &self.build(options)?)?;
                if errors.is_fine() {
                    (*kept, out.after) = (left, errors);
                }
            }
            parts *= 2;
        }
        Ok(())
    }
}

/// Sets the option that names the nodes that keep their types.
fn keep(options: &mut OptionMap, kept: &[String]) -> Result<()> {
    let names: BTreeSet<&String> = kept.iter().collect();
    options.set(KEEP_NAMES, &serde_json::json!(names).to_string(), "--calibrate")
}

/// The options for compiling the same model in its own types.
fn in_own_types(options: &OptionMap) -> Result<OptionMap> {
    let mut own = OptionMap::default();
    own.set("ge.exec.precision_mode", "must_keep_origin_dtype", "--calibrate")?;
    let left = |k: &&String| {
        !k.starts_with("ge.exec.precision_mode") && *k != "ge.exec.modify_mixlist" && *k != "ge.customizeDtypes"
    };
    for (k, v) in options.given().iter().filter(|(k, _)| left(k)) {
        own.set(k, v, "--calibrate")?;
    }
    Ok(own)
}
