//! Calibration: runs given inputs through a model in its own types and in those of its precision
//! mode, and compares them node by node. Nodes for which the narrow type costs too much precision
//! keep their type.
//!
//! Each round compares every node of the current model with the same node in f32. A node is to
//! blame if its own numbers are off by more than [`TOLERANCE`] relative to the greatest of them,
//! while the numbers that it reads are not. The nodes that compute it and its inputs then keep
//! their types. If errors add up without a node to blame, the nodes that contribute most keep their
//! types: first a sixteenth of the nodes, then twice as many in each round. The rounds end when the
//! outputs are right or when nothing is left in a narrow type. Then parts of the kept nodes, halves
//! down to sixteenths, get the narrow type back where the outputs stay right.
use super::Session;
use crate::options::OptionMap;
use crate::{Diagnostic, Result};
use ge_compiler::original::precision::names::KEEP_NAMES;
use ge_compiler::pipeline::Silent;
use ge_ir::Model as GraphModel;
use ge_model::{CompiledModel, NodeInfo};
use ge_plugin_api::fusion::ORIGINALS;
use ge_plugin_api::kernel::{HostTensor, TensorView};
use ge_plugin_api::types::{ConstTensor, DType};
use ge_runtime::{LoadOptions, RunOptions, RunOutcome};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Largest error of an output, and of a node that is not to blame, relative to the greatest number
/// of the tensor.
pub const TOLERANCE: f64 = 1e-2;
/// Lead of a row's greatest number over its second, relative to the tensor's greatest number, from
/// which on its position must not change. Smaller leads are within the allowed error.
const LEAD: f64 = TOLERANCE;
/// In the first round without a node to blame, one node in this many keeps its type.
const PART: usize = 16;
/// The smallest parts tried with the narrow type are one in this many of the kept nodes.
const PARTS: usize = 16;
/// Upper bound of compilations: the model in its own types, a round for nodes to blame, shares that
/// double until they cover all nodes, and all parts (2 + 4 + 8 + 16).
const MOST_COMPILATIONS: u64 = 40;

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

/// Errors of the outputs over all input sets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Errors {
    /// Largest absolute difference to f32.
    pub max_abs: f64,
    /// Largest difference to f32, relative to the greatest number of the output.
    pub max_rel: f64,
    /// Number of rows (of the last axis) whose greatest number is at another position than in f32.
    pub classes: usize,
}

impl Errors {
    fn or(self, e: Errors) -> Errors {
        Errors {
            max_abs: self.max_abs.max(e.max_abs),
            max_rel: self.max_rel.max(e.max_rel),
            classes: self.classes + e.classes,
        }
    }
    /// Whether the errors are within the allowed limits.
    fn is_fine(self) -> bool {
        self.max_rel <= TOLERANCE && self.classes == 0
    }
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

/// The largest error of each node, by graph and node index.
type ByNode = BTreeMap<(u32, u32), f64>;

/// Calibrates a graph on sets of inputs. Adds to `options` what the graph must be compiled with.
///
/// # Errors
/// Fails if compiling or running fails.
pub fn calibrate(
    session: &Session,
    name: &str,
    graph: &GraphModel,
    options: &mut OptionMap,
    sets: &Sets<'_>,
) -> Result<Calibration> {
    let compiled = Cell::new(0);
    let build = |options: &OptionMap| -> Result<CompiledModel> {
        (sets.at)(compiled.get(), MOST_COMPILATIONS);
        compiled.set(compiled.get() + 1);
        let built = session.compile(name, graph.clone(), options, &Silent)?;
        match built.stopped {
            Some(_) => Err(Diagnostic::error("a build that stops for tuning has nothing to calibrate")
                .help("take `ge.buildMode` or `--calibrate` away")
                .raise(ge_codes::OPTION_FORM)),
            None => Ok(built.model),
        }
    };
    let wide = build(&in_own_types(options)?)?;
    let measured = |low: &CompiledModel| -> Result<(Errors, ByNode)> {
        let mut errors = Errors::default();
        let mut nodes = ByNode::new();
        for k in 0..sets.count {
            let (a, b) = (run(session, &wide, (sets.of)(&wide, k)?)?, run(session, low, (sets.of)(low, k)?)?);
            errors = b.outputs.iter().zip(&a.outputs).map(|(l, w)| difference(l, w, true)).fold(errors, Errors::or);
            for (node, e) in by_node((&wide, &a), (low, &b)) {
                let worst = nodes.entry(node).or_default();
                *worst = worst.max(e);
            }
        }
        Ok((errors, nodes))
    };
    let keep = |options: &mut OptionMap, kept: &[String]| {
        let names: BTreeSet<&String> = kept.iter().collect();
        options.set(KEEP_NAMES, &serde_json::json!(names).to_string(), "--calibrate")
    };
    let mut kept: Vec<String> = Vec::new();
    let mut out = Calibration { sets: sets.count, ..Calibration::default() };
    let mut share = 0;
    for round in 0.. {
        let low = build(options)?;
        let (errors, nodes) = measured(&low)?;
        if round == 0 {
            out.before = errors;
        }
        out.after = errors;
        if errors.is_fine() {
            kept = in_order(&low, kept);
            break;
        }
        let found = added(&low, &nodes);
        let known: BTreeSet<&String> = kept.iter().collect();
        let new = |names: BTreeSet<String>| names.into_iter().filter(|n| !known.contains(n)).collect::<Vec<_>>();
        let mut more = new(found.iter().filter(|a| a.to_blame).flat_map(|a| a.names.clone()).collect());
        if more.is_empty() {
            // Each round of this kind doubles the share, so after a few rounds all nodes keep their
            // types.
            share = (share * 2).max(found.len().div_ceil(PART));
            more = new(most(found, share));
        }
        if more.is_empty() {
            break;
        }
        kept.extend(more);
        keep(options, &kept)?;
    }
    // Neighbouring nodes that may be narrow are released together: first halves, then smaller
    // parts.
    let mut parts = 2;
    while out.after.is_fine() && parts <= PARTS.min(kept.len()) {
        let each = kept.len().div_ceil(parts);
        for part in (0..parts).rev() {
            let (from, to) = ((part * each).min(kept.len()), ((part + 1) * each).min(kept.len()));
            let left = [&kept[..from], &kept[to..]].concat();
            keep(options, &left)?;
            let (errors, _) = measured(&build(options)?)?;
            if errors.is_fine() {
                (kept, out.after) = (left, errors);
            }
        }
        parts *= 2;
    }
    if !kept.is_empty() {
        keep(options, &kept)?;
    }
    out.nodes_f32 = kept;
    // Drop names of nodes that passes made, such as casts: the user does not know them.
    let known: BTreeSet<&str> = graph.graphs().iter().flat_map(|g| g.nodes()).map(|n| n.name()).collect();
    out.nodes_f32.retain(|n| known.contains(n.as_str()));
    out.nodes_f32.sort();
    Ok(out)
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

fn run(session: &Session, m: &CompiledModel, inputs: Vec<HostTensor>) -> Result<RunOutcome> {
    let context = session.open_device(&m.soc)?;
    let load = LoadOptions { rank_size: 1, capture: true, ..LoadOptions::default() };
    let model = session.load_on(m.clone(), context, &load)?;
    let views: Vec<TensorView<'_>> = inputs.iter().map(HostTensor::view).collect();
    model.run_views(&views, RunOptions::default())
}

fn numbers(t: &HostTensor) -> Option<Vec<f64>> {
    let float = matches!(t.dtype, DType::F32 | DType::F16 | DType::BF16 | DType::F64);
    let blob = || ge_plugin_api::types::Blob::copy_of(t.bytes());
    if float { ConstTensor::new(t.dtype, &t.dims, blob())?.to_f64(usize::MAX) } else { None }
}

/// How much a tensor differs from its f32 version. Two equal infinities, or two NaNs, count as
/// equal.
fn difference(low: &HostTensor, wide: &HostTensor, rows: bool) -> Errors {
    let (Some(a), Some(b)) = (numbers(low), numbers(wide)) else { return Errors::default() };
    if a.len() != b.len() {
        return Errors::default();
    }
    let most = b.iter().map(|v| v.abs()).filter(|v| v.is_finite()).fold(0.0, f64::max);
    let mut max_abs = 0.0f64;
    for (x, y) in a.iter().zip(&b) {
        let apart = if x == y || (x.is_nan() && y.is_nan()) { 0.0 } else { (x - y).abs() };
        max_abs = max_abs.max(if apart.is_nan() { f64::INFINITY } else { apart });
    }
    let max_rel = if max_abs == 0.0 { 0.0 } else { max_abs / most.max(f64::MIN_POSITIVE) };
    let width = wide.dims.last().and_then(|d| usize::try_from(*d).ok()).filter(|w| rows && *w > 1);
    let classes = width.map_or(0, |w| {
        let pairs = a.chunks_exact(w).zip(b.chunks_exact(w));
        pairs.filter(|(x, y)| leads(y) > LEAD * most && greatest(x) != greatest(y)).count()
    });
    Errors { max_abs, max_rel, classes }
}

fn greatest(row: &[f64]) -> Option<usize> {
    row.iter().enumerate().reduce(|m, v| if v.1 > m.1 { v } else { m }).map(|v| v.0)
}

/// Lead of the greatest number of a row over the second.
fn leads(row: &[f64]) -> f64 {
    let (first, second) = row
        .iter()
        .fold((f64::NEG_INFINITY, f64::NEG_INFINITY), |(a, b), &v| if v > a { (v, a) } else { (a, b.max(v)) });
    first - second
}

/// The error of each node of the narrow model, by place, for nodes whose values both models have.
fn by_node(wide: (&CompiledModel, &RunOutcome), low: (&CompiledModel, &RunOutcome)) -> ByNode {
    let mut of: HashMap<(&str, u32), &HostTensor> = HashMap::new();
    for c in &wide.1.captured {
        if let Some(n) = wide.0.node(c.graph, c.node) {
            of.insert((n.name.as_str(), c.output), &c.tensor);
        }
    }
    let mut out = ByNode::new();
    for c in &low.1.captured {
        let Some(n) = low.0.node(c.graph, c.node) else { continue };
        if let Some(w) = of.get(&(n.name.as_str(), c.output)).filter(|w| w.dims == c.tensor.dims) {
            let worst = out.entry((c.graph, c.node)).or_default();
            *worst = worst.max(difference(&c.tensor, w, false).max_rel);
        }
    }
    out
}

fn is_narrow(t: DType) -> bool {
    matches!(t, DType::F16 | DType::BF16)
}

/// The name of a node and those of the original nodes that it stands for.
fn names(n: &NodeInfo) -> impl Iterator<Item = String> + '_ {
    let originals = n.attrs.strs(ORIGINALS).into_iter().flatten().map(|s| s.to_string());
    std::iter::once(n.name.clone()).chain(originals)
}

/// Whether a node computes in a narrow type.
fn computes_narrow(m: &CompiledModel, g: usize, n: &NodeInfo) -> bool {
    if matches!(n.op.as_str(), "Const" | "Constant" | "Data" | "NetOutput") {
        return false;
    }
    let read = n
        .inputs
        .iter()
        .flatten()
        .filter_map(|v| m.graphs[g].nodes.get(v.node as usize)?.outputs.get(v.output as usize));
    n.outputs.iter().chain(read).any(|t| is_narrow(t.dtype))
}

/// A node that computes in a narrow type or reads the output of such a node.
struct Added {
    /// Its names and, if it is to blame, the names of the nodes that compute its inputs.
    names: BTreeSet<String>,
    /// Its error minus that of its inputs.
    error: f64,
    /// Whether it makes wrong numbers from right inputs.
    to_blame: bool,
}

/// Sorts names by the order of the model's nodes.
fn in_order(m: &CompiledModel, mut kept: Vec<String>) -> Vec<String> {
    let all = m.graphs.iter().flat_map(|g| &g.nodes).flat_map(names).enumerate();
    let mut place: HashMap<String, usize> = HashMap::new();
    all.for_each(|(i, n)| {
        place.entry(n).or_insert(i);
    });
    kept.sort_by_key(|n| place.get(n).copied());
    kept
}

/// The names of the nodes that contribute most to the errors.
fn most(mut found: Vec<Added>, share: usize) -> BTreeSet<String> {
    found.sort_by(|a, b| b.error.total_cmp(&a.error).then_with(|| a.names.cmp(&b.names)));
    found.into_iter().take(share.max(1)).flat_map(|a| a.names).collect()
}

/// What each node in a narrow type adds to the errors, and whether it is to blame.
fn added(m: &CompiledModel, errors: &ByNode) -> Vec<Added> {
    let mut out = Vec::new();
    for (gi, g) in m.graphs.iter().enumerate() {
        // A node that only the narrow model has (a cast) takes over the error of its input.
        let mut off = vec![0.0f64; g.nodes.len()];
        let inputs = |n: &NodeInfo| -> Vec<usize> { n.inputs.iter().flatten().map(|v| v.node as usize).collect() };
        for (i, n) in g.nodes.iter().enumerate() {
            let read = inputs(n).into_iter().filter_map(|k| off.get(k).copied()).fold(0.0, f64::max);
            let own = errors.get(&(gi as u32, i as u32)).copied();
            off[i] = own.unwrap_or(read);
            let narrow = computes_narrow(m, gi, n);
            let to_blame = own.is_some_and(|e| e > TOLERANCE) && read <= TOLERANCE;
            if !narrow && !to_blame {
                continue;
            }
            let mut told: BTreeSet<String> = names(n).filter(|_| narrow).collect();
            // If the error is infinite on both sides, the contribution is unknown and counts as 0.
            let error = if off[i] > read { off[i] - read } else { 0.0 };
            if !to_blame {
                out.push(Added { names: told, error, to_blame });
                continue;
            }
            // Walk back through casts to the nodes that compute.
            let mut behind = inputs(n);
            let mut steps = 0;
            while let Some(k) = behind.pop().filter(|_| steps < 64) {
                steps += 1;
                let Some(p) = g.nodes.get(k) else { continue };
                if errors.contains_key(&(gi as u32, k as u32)) {
                    told.extend(names(p).filter(|_| computes_narrow(m, gi, p)));
                } else {
                    behind.extend(inputs(p));
                }
            }
            out.push(Added { names: told, error, to_blame });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(v: &[f32], dims: &[u64]) -> HostTensor {
        let bytes: Vec<u8> = v.iter().flat_map(|x| x.to_le_bytes()).collect();
        HostTensor::from_bytes(DType::F32, dims, &bytes).expect("a tensor")
    }

    #[test]
    fn errors_are_told_in_parts_of_the_greatest_number() {
        let e = difference(&tensor(&[1.0, -8.0, 3.0], &[3]), &tensor(&[1.5, -10.0, 3.0], &[3]), true);
        assert_eq!((e.max_abs, e.max_rel, e.classes), (2.0, 0.2, 0));
        let e = difference(&tensor(&[f32::NAN, 1.0], &[2]), &tensor(&[2.0, 1.0], &[2]), false);
        assert_eq!((e.max_abs, e.max_rel), (f64::INFINITY, f64::INFINITY));
        let inf = f32::NEG_INFINITY;
        assert_eq!(difference(&tensor(&[inf], &[1]), &tensor(&[inf], &[1]), false), Errors::default());
    }

    #[test]
    fn a_class_changes_where_the_lead_was_clear() {
        let was = tensor(&[0.1, 0.9, 0.5, 0.5001], &[2, 2]);
        assert_eq!(difference(&tensor(&[0.9, 0.1, 0.5, 0.5001], &[2, 2]), &was, true).classes, 1);
        assert_eq!(difference(&tensor(&[0.1, 0.9, 0.5001, 0.5], &[2, 2]), &was, true).classes, 0, "a near tie");
    }
}
