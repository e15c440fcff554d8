//! Calibration: given inputs run through a model in its own types and in those of its precision
//! mode, node by node; what the narrow type costs too much stays as it is.
//!
//! Each round compares every node of the model so far with the same node in f32. A node is to blame
//! where its own numbers are off by more than [`TOLERANCE`] of the greatest of them and those that
//! it reads are not; what computes it, and what it reads, then keeps its type. Where errors add up
//! with no node to blame, those keep their types that add most to them: a sixteenth of the nodes,
//! then twice as many. Rounds end when the outputs are right, or when nothing is left in a narrow
//! type. Then parts of what is kept, halves to sixteenths, get the narrow type back where the
//! outputs stay right.
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

/// Greatest error of an output, and of a node that is not to blame, in parts of the greatest number
/// of the tensor.
pub const TOLERANCE: f64 = 1e-2;
/// Lead of a row's greatest number over its second, in parts of the tensor's greatest, from which
/// on it must not change: a smaller one is within the error that is allowed.
const LEAD: f64 = TOLERANCE;
/// Part of the nodes that keep their types in the first round in which no node is to blame.
const PART: usize = 16;
/// Smallest parts that are tried without.
const PARTS: usize = 16;
/// The model in its own types, a round of those to blame, shares that double until they are all,
/// and all parts (2 + 4 + 8 + 16).
const MOST_COMPILATIONS: u64 = 40;

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Calibration {
    /// Nodes that keep f32 for these inputs, by name.
    pub nodes_f32: Vec<String>,
    /// Sets of inputs.
    pub sets: usize,
    /// Errors of the outputs before any node was kept.
    pub before: Errors,
    /// Errors of the outputs of the model that came out.
    pub after: Errors,
}

/// Errors of outputs over all sets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Errors {
    /// Greatest difference to f32.
    pub max_abs: f64,
    /// Greatest difference to f32, in parts of the greatest number of the output.
    pub max_rel: f64,
    /// Rows (of the last axis) whose greatest number stands elsewhere than in f32.
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
    /// Whether outputs are as good as they should be.
    fn is_fine(self) -> bool {
        self.max_rel <= TOLERANCE && self.classes == 0
    }
}

/// The inputs to calibrate on.
pub struct Sets<'a> {
    /// How many sets there are.
    pub count: usize,
    /// Set `k` for a model.
    pub of: &'a dyn Fn(&CompiledModel, usize) -> Result<Vec<HostTensor>>,
    /// Told before each compilation: how many there were, of at most how many.
    pub at: &'a dyn Fn(u64, u64),
}

/// The greatest error of each node, by graph and place.
type ByNode = BTreeMap<(u32, u32), f64>;

/// Calibrates a graph on sets of inputs; the options that it is to be compiled with are those given
/// and what is added to them.
///
/// # Errors
/// Those of compiling and running.
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
            // A round of this kind doubles the share: after a few all keep their types.
            share = (share * 2).max(found.len().div_ceil(PART));
            more = new(most(found, share));
        }
        if more.is_empty() {
            break;
        }
        kept.extend(more);
        keep(options, &kept)?;
    }
    // Neighbours that can do without are let go together: halves first, then ever smaller parts.
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
    // Nodes that passes made, changes of type among them, are no names of the user's.
    let known: BTreeSet<&str> = graph.graphs().iter().flat_map(|g| g.nodes()).map(|n| n.name()).collect();
    out.nodes_f32.retain(|n| known.contains(n.as_str()));
    out.nodes_f32.sort();
    Ok(out)
}

/// The options of the same model in its own types.
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

/// By how much a tensor differs from the same in f32. Numbers that are the same infinity, or both
/// no number, do not.
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

/// By how much the greatest number of a row leads.
fn leads(row: &[f64]) -> f64 {
    let (first, second) = row
        .iter()
        .fold((f64::NEG_INFINITY, f64::NEG_INFINITY), |(a, b), &v| if v > a { (v, a) } else { (a, b.max(v)) });
    first - second
}

/// The error of each node of the narrow model whose values both have, by place.
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

/// A node's name and those of the nodes that it stands for.
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

/// A node that computes in a narrow type, or reads what does.
struct Added {
    /// Its names and, where it is to blame, those of what makes what it reads.
    names: BTreeSet<String>,
    /// Its error beyond that of what it reads.
    error: f64,
    /// It gives wrong numbers of right ones.
    to_blame: bool,
}

/// Names in the order of the model's nodes.
fn in_order(m: &CompiledModel, mut kept: Vec<String>) -> Vec<String> {
    let all = m.graphs.iter().flat_map(|g| &g.nodes).flat_map(names).enumerate();
    let mut place: HashMap<String, usize> = HashMap::new();
    all.for_each(|(i, n)| {
        place.entry(n).or_insert(i);
    });
    kept.sort_by_key(|n| place.get(n).copied());
    kept
}

/// The names of those that add most.
fn most(mut found: Vec<Added>, share: usize) -> BTreeSet<String> {
    found.sort_by(|a, b| b.error.total_cmp(&a.error).then_with(|| a.names.cmp(&b.names)));
    found.into_iter().take(share.max(1)).flat_map(|a| a.names).collect()
}

/// What each node in a narrow type adds to the errors, and each that is to blame.
fn added(m: &CompiledModel, errors: &ByNode) -> Vec<Added> {
    let mut out = Vec::new();
    for (gi, g) in m.graphs.iter().enumerate() {
        // A node that only the narrow model has (a change of type) is off as what it reads.
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
            // What is infinite on both sides adds nothing that can be told.
            let error = if off[i] > read { off[i] - read } else { 0.0 };
            if !to_blame {
                out.push(Added { names: told, error, to_blame });
                continue;
            }
            // Through changes of type to what computes.
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
