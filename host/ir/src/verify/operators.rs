//! Rules V7 to V12, V16 and V17: compares nodes with their prototypes.
use super::{Faults, OpTable, STRUCTURE, TASK_STRUCTURE, UnknownOps, type_of};
use crate::graph::{Graph, Model, Node};
use ge_plugin_api::diagnostic::Diagnostic;
use ge_plugin_api::ops::{AttrKind, AttrSpec, OpProto, ParamKind, ParamSpec};
use ge_plugin_api::types::{AttrValue, DType, Key, TensorDesc};
use std::collections::HashMap;

/// A prototype with the interned keys of its attributes.
struct Known<'p> {
    proto: &'p OpProto,
    keys: Vec<Key>,
}

/// Checks every node and returns the number of nodes whose operator type is unknown.
pub(super) fn check(model: &Model, protos: &dyn OpTable, unknown: UnknownOps, faults: &mut Faults) -> usize {
    let mut known: HashMap<Key, Option<Known<'_>>> = HashMap::new();
    let structural: Vec<Key> = STRUCTURE.iter().chain(TASK_STRUCTURE).map(|s| Key::new(s)).collect();
    let constants = [Key::new("Const"), Key::new("Constant")];
    let value = Key::new("value");
    let mut strange = 0;
    for g in model.graphs() {
        for n in g.nodes() {
            let k = known.entry(n.op_key()).or_insert_with(|| {
                protos
                    .proto(n.op())
                    .map(|proto| Known { proto, keys: proto.attrs.iter().map(|a| Key::new(&a.name)).collect() })
            });
            match k {
                Some(k) => against(k, g, n, faults),
                None if structural.contains(&n.op_key()) => {}
                None => {
                    strange += 1;
                    if unknown == UnknownOps::Refuse {
                        let text = format!("the operator type `{}` of `{}` is not known", n.op(), n.name());
                        faults.node("V16", g, n, |d| d.help("enable the plugin that brings its prototype"), text);
                    }
                }
            }
            if constants.contains(&n.op_key()) {
                constant(g, n, value, faults);
            }
        }
    }
    strange
}

/// Rule V17.
fn constant(g: &Graph, n: &Node, value: Key, faults: &mut Faults) {
    let Some(AttrValue::Tensor(t)) = n.attr(value) else {
        let text = format!("the constant `{}` has no tensor `value`", n.name());
        return faults.node("V17", g, n, |d| d.subject("value"), text);
    };
    let [d] = n.outputs() else {
        return faults.node(
            "V17",
            g,
            n,
            |d| d,
            format!("the constant `{}` has {} outputs", n.name(), n.outputs().len()),
        );
    };
    let shape = t.shape();
    let same = |s: &ge_plugin_api::types::Shape| {
        s.is_unranked()
            || (s.dims().len() == shape.dims().len()
                && s.dims().iter().zip(shape.dims()).all(|(a, b)| !a.is_known() || a == b))
    };
    if (d.dtype != t.dtype && d.dtype != DType::UNKNOWN) || !(same(&d.shape) || same(d.origin_shape())) {
        let found = type_of(d);
        let text = format!("the constant `{}` is {}{shape} and says {found}", n.name(), t.dtype);
        faults.node("V17", g, n, |d| d.found(found.clone(), format!("{}{shape}", t.dtype)), text);
    }
}

fn against(k: &Known<'_>, g: &Graph, n: &Node, faults: &mut Faults) {
    let p = k.proto;
    count("V7", "input", &p.inputs, n.inputs().len(), g, n, faults);
    count("V8", "output", &p.outputs, n.outputs().len(), g, n, faults);
    let mut groups = Groups::default();
    for (i, v) in n.inputs().iter().enumerate() {
        let Some(spec) = param_at(&p.inputs, n.inputs().len(), i) else { continue };
        match g.desc(*v) {
            Some(d) => types("input", i, spec, d, &mut groups, g, n, faults),
            None if spec.kind == ParamKind::REQUIRED => {
                let text = format!("input {i} (`{}`) of `{}` must be given", spec.name, n.name());
                faults.node("V7", g, n, |d| d.subject(format!("input {i}")), text);
            }
            None => {}
        }
    }
    for (i, d) in n.outputs().iter().enumerate() {
        if let Some(spec) = param_at(&p.outputs, n.outputs().len(), i) {
            types("output", i, spec, d, &mut groups, g, n, faults);
        }
    }
    for (spec, key) in p.attrs.iter().zip(&k.keys) {
        match n.attrs().get(*key) {
            Some(v) => attribute(spec, v, g, n, faults),
            None if spec.required => {
                let text = format!("`{}` needs the attribute `{}` ({})", n.name(), spec.name, spec.kind);
                faults.node("V11", g, n, |d| d.subject(spec.name.as_str()), text);
            }
            None => {}
        }
    }
}

/// The least and greatest number of values that a list of parameters takes; `None`: no upper limit.
fn bounds(specs: &[ParamSpec]) -> (usize, Option<usize>) {
    let dynamic = specs.iter().any(|s| s.kind == ParamKind::DYNAMIC);
    if dynamic {
        return (specs.iter().filter(|s| s.kind == ParamKind::REQUIRED).count(), None);
    }
    (specs.iter().rposition(|s| s.kind == ParamKind::REQUIRED).map_or(0, |i| i + 1), Some(specs.len()))
}

/// The parameter that value `i` of `count` belongs to; `None` if several dynamic parameters make it
/// ambiguous or there is none.
fn param_at(specs: &[ParamSpec], count: usize, i: usize) -> Option<&ParamSpec> {
    let Some(d) = specs.iter().position(|s| s.kind == ParamKind::DYNAMIC) else { return specs.get(i) };
    if i < d {
        return specs.get(i);
    }
    let behind = specs.get(d + 1..)?;
    if behind.iter().any(|s| s.kind == ParamKind::DYNAMIC) {
        return None;
    }
    let tail = behind.len().min(count.saturating_sub(d));
    let from = count - tail;
    if i < from { specs.get(d) } else { behind.get(i - from) }
}

fn count(rule: &str, what: &str, specs: &[ParamSpec], found: usize, g: &Graph, n: &Node, faults: &mut Faults) {
    let (least, most) = bounds(specs);
    if found >= least && most.is_none_or(|m| found <= m) {
        return;
    }
    let expected = match most {
        Some(m) if m == least => m.to_string(),
        Some(m) => format!("{least} to {m}"),
        None => format!("at least {least}"),
    };
    let names: Vec<&str> = specs.iter().map(|s| s.name.as_str()).collect();
    let text = format!("`{}` has {found} {what}s, {} has {expected} ({})", n.name(), n.op(), names.join(", "));
    faults.node(rule, g, n, |d| d.found(found.to_string(), expected.clone()), text);
}

/// The inputs of a node whose types differ from the first of their type group (the part of rule V9
/// that must hold before the outputs are inferred).
pub fn mixed_inputs(g: &Graph, n: &Node, proto: &OpProto) -> Vec<Diagnostic> {
    let (mut groups, mut faults) = (Groups::default(), Faults::default());
    for (i, d) in n.inputs().iter().enumerate().filter_map(|(i, v)| Some((i, g.desc(*v)?))) {
        if let Some(spec) = param_at(&proto.inputs, n.inputs().len(), i).filter(|_| d.dtype != DType::UNKNOWN) {
            groups.add(("input", i), spec, d.dtype, g, n, &mut faults);
        }
    }
    faults.list
}

/// The type of each type group of a node, and the parameter that it was taken from.
#[derive(Default)]
struct Groups<'p>(Vec<(&'p str, DType, (&'static str, usize))>);

impl<'p> Groups<'p> {
    /// Adds the type of a parameter to its group.
    fn add(
        &mut self,
        (what, i): (&'static str, usize),
        spec: &'p ParamSpec,
        t: DType,
        g: &Graph,
        n: &Node,
        faults: &mut Faults,
    ) {
        if spec.type_group.is_empty() {
            return;
        }
        match self.0.iter().find(|(name, ..)| *name == spec.type_group.as_str()) {
            None => self.0.push((&spec.type_group, t, (what, i))),
            Some((_, first, (of, k))) if *first != t => {
                let (name, node) = (&spec.name, n.name());
                let text =
                    format!("{what} {i} (`{name}`) of `{node}` is {t}, {of} {k} is {first}: they must be one type");
                let (found, want) = (t.to_string(), first.to_string());
                faults.node("V9", g, n, |x| x.subject(format!("{what} {i}")).found(found, want), text);
            }
            Some(_) => {}
        }
    }
}

/// Rule V9.
#[expect(clippy::too_many_arguments, reason = "one call a parameter, all of it context for the message")]
fn types<'p>(
    what: &'static str,
    i: usize,
    spec: &'p ParamSpec,
    d: &TensorDesc,
    groups: &mut Groups<'p>,
    g: &Graph,
    n: &Node,
    faults: &mut Faults,
) {
    if d.dtype == DType::UNKNOWN {
        return;
    }
    if !spec.types.is_empty() && !spec.types.contains(&d.dtype) {
        let allowed: Vec<&str> = spec.types.iter().map(|t| t.name()).collect();
        let text = format!("{what} {i} (`{}`) of `{}` is {}", spec.name, n.name(), d.dtype);
        let say = |x: ge_plugin_api::Diagnostic| {
            x.subject(format!("{what} {i}")).found(d.dtype.to_string(), allowed.join(", "))
        };
        return faults.node("V9", g, n, say, text);
    }
    groups.add((what, i), spec, d.dtype, g, n, faults);
}

/// Rules V10 and V12.
fn attribute(spec: &AttrSpec, v: &AttrValue, g: &Graph, n: &Node, faults: &mut Faults) {
    if !is_of(spec.kind, v) {
        let text = format!("attribute `{}` of `{}` is a {}", spec.name, n.name(), v.kind());
        return faults.node("V10", g, n, |d| d.subject(spec.name.as_str()).found(v.kind(), spec.kind.name()), text);
    }
    let out = |x: f64| x < spec.min || x > spec.max;
    let number = match v {
        AttrValue::Ints(l) => l.iter().map(|i| *i as f64).find(|x| out(*x)),
        AttrValue::Floats(l) => l.iter().copied().find(|x| out(*x)),
        v => v.as_float().filter(|x| out(*x)),
    };
    if let Some(x) = number {
        let range = format!("{} to {}", spec.min, spec.max);
        let text = format!("attribute `{}` of `{}` is {x}, out of its range {range}", spec.name, n.name());
        faults.node("V12", g, n, |d| d.subject(spec.name.as_str()).found(x.to_string(), range.clone()), text);
    }
    if !spec.choices.is_empty() {
        let given = match v {
            AttrValue::Str(s) => vec![s.as_str()],
            v => v.as_strs().unwrap_or_default(),
        };
        if let Some(s) = given.into_iter().find(|s| !spec.choices.iter().any(|c| c == s)) {
            let all: Vec<&str> = spec.choices.iter().map(|c| c.as_str()).collect();
            let text = format!("attribute `{}` of `{}` is \"{s}\", which is none of its values", spec.name, n.name());
            faults.node("V12", g, n, |d| d.subject(spec.name.as_str()).found(format!("\"{s}\""), all.join(", ")), text);
        }
    }
}

fn is_of(kind: AttrKind, v: &AttrValue) -> bool {
    let empty = matches!(v, AttrValue::Ints(l) if l.is_empty());
    match kind {
        AttrKind::INT => matches!(v, AttrValue::Int(_)),
        AttrKind::FLOAT => v.as_float().is_some(),
        AttrKind::BOOL => v.as_bool().is_some(),
        AttrKind::STRING => matches!(v, AttrValue::Str(_)),
        // A type may also be given as its number in the field's enumeration.
        AttrKind::TYPE => matches!(v, AttrValue::Type(_) | AttrValue::Int(_)),
        AttrKind::INTS => matches!(v, AttrValue::Ints(_)),
        AttrKind::FLOATS => matches!(v, AttrValue::Floats(_) | AttrValue::Ints(_)) || mixed_numbers(v),
        AttrKind::STRINGS => empty || matches!(v, AttrValue::Strs(_)),
        AttrKind::TENSOR => matches!(v, AttrValue::Tensor(_)),
        AttrKind::GRAPH => {
            empty
                || matches!(v, AttrValue::Graph(_))
                || matches!(v, AttrValue::List(l) if l.iter().all(|v| matches!(v, AttrValue::Graph(_))))
        }
        _ => true,
    }
}

fn mixed_numbers(v: &AttrValue) -> bool {
    matches!(v, AttrValue::List(l) if l.iter().all(|v| v.as_float().is_some()))
}
