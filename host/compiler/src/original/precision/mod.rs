//! `RefineRunningPrecision`: puts nodes into the types that `ge.exec.precision_mode` asks for, with
//! as few and as small casts as possible.
//!
//! Before: `%y = MatMulV2(%x, %w) : f32  %z = Relu(%y) : f32`   After: `%a = Cast(%x) : f16  %b = Cast(%w) : f16
//! %y = MatMulV2(%a, %b) : f16  %z = Relu(%y) : f16  %z_f32 = Cast(%z) : f32`
//! When: the mode changes types, and an engine that is no worse takes the node in the other type.
//! In mixed precision, the numbers that the node reads and returns must also fit the type
//! (`values`), and no logarithm may need the digits of its results (`digits`). If another mode puts
//! numbers that may not fit into the type, the user is warned.
//! Refuses: nodes whose prototype or engines do not take the type, each with the engine's reason;
//! values that are shared or nodes with effects.
//! Keeps: types of graph inputs and outputs, of variables, and of values that enter or leave
//! subgraphs; all names.
//! Source: 003 §1.2 (D1i), facts 4.2 (JudgePrecisionInsert), 9.2. Cost: each node is asked once, in
//! parallel; the choice is a minimum cut over what the mode leaves open (`choice`).
//!
//! The mode alone decides about some nodes. The others (gray operators of mixed precision, and
//! operators that only move values) take the type that costs least. A cast costs a launch plus its
//! elements, a cast of a constant costs nothing, and one cast serves all readers.
pub mod customize_dtypes_pass;
pub mod digits;
pub mod lower;
mod params;
pub mod mix_list;
pub mod mode;
pub mod names;
pub mod values;

use crate::error::Result;
use crate::pass::PassContext;
use crate::pass::declare::graph_pass;
use crate::prepare::constant_clip_pass::CLIPS;
use digits::Digits;
use ge_ir::{DType, Graph, Model, Node, NodeId, NodeMap, TensorDesc, ValueRef};
use ge_planners::choice::{Chosen, End, Item, Passed, choose};
use ge_plugin_api::patch::{Edit, Patch};
use ge_plugin_api::types::AttrMap;
use lower::{Asked, Asker, Lowered, retyped};
use mix_list::Colour;
use mode::{Mode, Rule};
use rayon::prelude::*;
use values::Ranges;

graph_pass!(
    RefineRunningPrecision,
    O0,
    "nodes in the types that `ge.exec.precision_mode` asks for, `Cast` at their borders",
    needs "a mode that changes types; an engine as good that takes the other type",
    keeps "types of graph inputs and outputs and of variables; names",
    run,
);

/// Elements that a cast handles per nanosecond.
const ELEMENTS_A_NS: u64 = 16;
/// Number of elements assumed for a value whose shape is not known.
const UNKNOWN_SIZE: u64 = 1 << 16;

/// Whether the options or the SoC ask for types other than the model's.
///
/// # Errors
/// Fails as [`mode::mode`] and [`names::custom`] do.
pub fn wanted(passes: &crate::pass::PassManager<'_>) -> Result<bool> {
    let custom = names::custom(passes.options())? != names::Custom::default();
    Ok(mode::mode(passes.options(), &passes.toolbox().target.soc)?.is_some() || custom)
}

fn run(cx: &mut PassContext<'_>, model: &Model, gi: usize) -> Result<Vec<Edit>> {
    let Some(mode) = mode::mode(cx.options, &cx.toolbox.target.soc)? else { return Ok(Vec::new()) };
    if gi == 0 {
        warn_of_absent(cx, model, &mode.rule);
    }
    let g = &model.graphs()[gi];
    let ranks = cx.toolbox.ranks()?;
    let limits = values::limits(mode.to).filter(|_| mode.from.contains(&DType::F32));
    let ranges = match limits {
        Some(limits) => Some((Ranges::of(model, gi, cx.toolbox, limits)?, limits)),
        None => None,
    };
    let mut asker = Asker::new(cx.toolbox, ranks, &mode);
    let digits;
    if matches!(mode.rule, Rule::Mixed(_)) {
        let known = ranges.as_ref().map(|(ranges, limits)| (ranges, *limits));
        digits = Digits::of(g, cx.toolbox, known.map(|(ranges, _)| ranges), |d| asker.replaced(d));
        asker = asker.holding(known, &digits);
    }
    let order: Vec<NodeId> = g.order().to_vec();
    cx.visits += order.len() as u64;
    let asked: Vec<Result<Asked>> =
        order.par_iter().map(|id| g.get(*id).map_or(Ok(Asked::Bound), |n| asker.ask(g, n))).collect();
    let mut items = Vec::new();
    let mut lowered: Vec<Lowered> = Vec::new();
    let mut at: NodeMap<Option<usize>> = NodeMap::new(g, None);
    for (id, asked) in order.iter().zip(asked) {
        let Some(n) = g.get(*id) else { continue };
        match asked? {
            Asked::Bound => {}
            Asked::No(why) => cx.refuse(n.name(), why),
            Asked::Can(l) => {
                let item = item(&mode, n, cx.op_flags(n), &l);
                if item == Item::Stays {
                    cx.refuse(n.name(), "black in mixed precision");
                    continue;
                }
                at[*id] = Some(items.len());
                items.push(item);
                lowered.push(l);
            }
        }
    }
    let launch = cx.toolbox.target.soc.task_launch_ns.max(1);
    let values = values(g, &asker, &at, &lowered, launch);
    let passed: Vec<Passed> = values.iter().map(|(_, p)| p.clone()).collect();
    // If a node is left open and both types cost the same, it changes its type; in mixed precision
    // it keeps its type, since the other type may lose digits.
    let Chosen { goes, .. } = choose(&items, &passed, !matches!(mode.rule, Rule::Mixed(_)));
    for (i, id) in order.iter().filter_map(|id| Some((at[*id]?, *id))) {
        if let (false, Some(n)) = (goes[i], g.get(id)) {
            cx.refuse(n.name(), "left as it is: that takes fewer casts");
        }
    }
    let choice = Choice { at, lowered, goes, to: mode.to };
    if let (Some((ranges, limits)), false) = (&ranges, matches!(mode.rule, Rule::Mixed(_))) {
        warn(cx, g, &choice, |v| ranges.refusal(v, *limits, mode.to));
    }
    Ok(edits(cx, model, gi, &choice, values))
}

/// Warns about operators in the user's list of colours of which the model has none.
fn warn_of_absent(cx: &mut PassContext<'_>, model: &Model, rule: &Rule) {
    let has = |op: &&String| model.graphs().iter().flat_map(|g| g.nodes()).any(|n| n.op() == op.as_str());
    let absent: Vec<String> = rule.named().filter(|op| !has(op)).map(|op| format!("`{op}`")).collect();
    if !absent.is_empty() {
        let (option, list) = (mode::MIX_LIST, absent.join(", "));
        cx.warn(format!("{option} names operators of which the model has none where types are chosen: {list}"));
    }
}

/// Warns about nodes that the mode puts into the other type although their numbers may not fit it.
fn warn(cx: &mut PassContext<'_>, g: &Graph, choice: &Choice, beyond: impl Fn(ValueRef) -> Option<String>) {
    let mut found: Vec<String> = Vec::new();
    for n in g.nodes() {
        let Some(l) = choice.of(n.id()).filter(|l| !l.moves || n.op() == "Cast") else { continue };
        let read = n.inputs().iter().enumerate().filter(|(i, _)| l.inputs.get(*i) == Some(&true));
        let own = n.outputs().iter().zip(&l.outputs).enumerate().filter(|(_, (d, t))| d.dtype != **t);
        let why = read.filter_map(|(i, v)| Some(format!("its input {i} {}", beyond(*v)?))).next().or_else(|| {
            own.map(|(k, _)| k).find_map(|k| Some(format!("its output {k} {}", beyond(n.value(k as u32))?)))
        });
        if let Some(why) = why {
            found.push(format!("`{}` ({}): {why}", n.name(), n.op()));
        }
    }
    if found.is_empty() {
        return;
    }
    let more = found.len().saturating_sub(3);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    cx.warn(format!(
        "{} node(s) are computed in {} though their numbers may not fit it: {}{more}; `--set ge.exec.precision_mode=allow_mix_precision` \
         keeps such nodes in f32",
        found.len(),
        choice.to,
        found[..found.len().min(3)].join("; ")
    ));
}

/// What the mode decides for a node that can be lowered.
fn item(mode: &Mode, n: &Node, proto_flags: u64, l: &Lowered) -> Item {
    let open = Item::Open(0, 0);
    match &mode.rule {
        // The model's own cast reads another type than the model's only where that saves a cast, or
        // where it makes that type anyway.
        _ if n.op() == "Cast" && n.outputs().iter().all(|d| d.dtype != mode.to) => Item::Open(0, 1),
        _ if l.moves => open,
        Rule::All | Rule::Needed | Rule::CubeOnly => Item::Goes,
        Rule::Mixed(list) => match list.colour(n.op(), proto_flags) {
            Colour::White => Item::Goes,
            Colour::Gray => open,
            Colour::Black => Item::Stays,
        },
    }
}

/// All values of a replaced type that a node that can be lowered produces or reads.
fn values(
    g: &Graph,
    asker: &Asker<'_>,
    at: &NodeMap<Option<usize>>,
    lowered: &[Lowered],
    launch: u64,
) -> Vec<(ValueRef, Passed)> {
    let mut out = Vec::new();
    for n in g.nodes() {
        for (k, d) in n.outputs().iter().enumerate().filter(|(_, d)| asker.replaced(d)) {
            let made = at[n.id()].filter(|i| lowered[*i].outputs.get(k).is_some_and(|t| *t != d.dtype));
            let maker = made.map_or(End::Own, End::Item);
            let reads = |u: &ge_ir::Use| {
                let low = |i: &usize| lowered[*i].inputs.get(u.input as usize) == Some(&true);
                at[u.node].filter(low).map_or(End::Own, End::Item)
            };
            let readers: Vec<End> = n.uses(k).iter().map(reads).collect();
            if maker == End::Own && readers.iter().all(|r| *r == End::Own) {
                continue;
            }
            // Constants are cast at compile time.
            let cost = if n.is_const() { 0 } else { launch + d.shape.count().unwrap_or(UNKNOWN_SIZE) / ELEMENTS_A_NS };
            out.push((n.value(k as u32), Passed { maker, readers, cost }));
        }
    }
    out
}

struct Choice {
    at: NodeMap<Option<usize>>,
    lowered: Vec<Lowered>,
    goes: Vec<bool>,
    to: DType,
}

impl Choice {
    fn of(&self, id: NodeId) -> Option<&Lowered> {
        let i = self.at[id]?;
        self.goes[i].then(|| &self.lowered[i])
    }
}

fn edits(
    cx: &mut PassContext<'_>,
    model: &Model,
    gi: usize,
    choice: &Choice,
    values: Vec<(ValueRef, Passed)>,
) -> Vec<Edit> {
    let toolbox = cx.toolbox;
    let context = toolbox.lend(model, gi);
    let g = &model.graphs()[gi];
    let mut patch = Patch::new(&context.graph());
    for n in g.nodes() {
        if let Some(l) = choice.of(n.id()) {
            cx.changes += 1;
            if let (true, Some(t)) = (l.own_output, l.outputs.first()) {
                patch.set_attr(n.id(), lower::Y_DTYPE, *t);
            }
            for (k, d) in retyped(n, &l.outputs).into_iter().enumerate() {
                if Some(&d) != n.outputs().get(k) {
                    patch.push(Edit::SetOutput(n.id(), k as u32, d));
                }
            }
        }
    }
    for (v, _) in values {
        let (Some(n), Some(own)) = (g.get(v.node), g.desc(v)) else { continue };
        let made = choice.of(v.node).and_then(|l| l.outputs.get(v.output as usize)).copied().unwrap_or(own.dtype);
        let read = |u: &ge_ir::Use| match choice.of(u.node) {
            Some(l) if l.inputs.get(u.input as usize) == Some(&true) => choice.to,
            _ => own.dtype,
        };
        let other: Vec<_> = g.users(v).iter().filter(|u| read(u) != made).collect();
        if other.is_empty() {
            continue;
        }
        let to = if made == own.dtype { choice.to } else { own.dtype };
        let place = if v.output == 0 { String::new() } else { format!("_{}", v.output) };
        let cast = cast(&mut patch, g, &format!("{}{place}_{to}", n.name()), v, own, to);
        cx.changes += 1;
        for u in other {
            patch.set_input(u.node, u.input, cast);
        }
    }
    patch.into_edits().into()
}

/// Adds a cast of a value with descriptor `of`. The cast of a constant is marked, so that
/// `ConstantClipPass` knows it from the model's own.
fn cast(patch: &mut Patch, g: &Graph, name: &str, v: ValueRef, of: &TensorDesc, to: DType) -> ValueRef {
    let mut attrs = AttrMap::default();
    attrs.set("dst_type", to);
    if g.get(v.node).is_some_and(Node::is_const) {
        attrs.set(CLIPS, 1i64);
    }
    let desc = TensorDesc { dtype: to, attrs: AttrMap::default(), ..of.clone() };
    ValueRef::new(patch.add("Cast", name, &[v], vec![desc], attrs), 0)
}
