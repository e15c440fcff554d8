//! Nodes as parts of a cluster: which values they read, and their steps as text.
use super::elementwise::{Step, step};
use super::{number, open};
use crate::families::cluster::reduction_named;
use crate::families::maps::pair_named;
use crate::families::typed::{Lanes, Type, compare_named, conversion, is_whole_map, lanes_of, read_for};
use crate::sig::kind_of;
use ge_kernels::view::Kind;
use ge_plugin_api::ops::infer::broadcast_shapes;
use ge_plugin_api::types::{DType, Shape, TensorDesc, ValueRef};
use ge_plugin_api::view::Node;

/// A node that can be part of a cluster.
pub struct Member<'g> {
    /// Descriptor of its output.
    pub out: &'g TensorDesc,
    /// The values it reads, without constants that are written into its step.
    pub reads: Vec<ValueRef>,
    /// For a reduction, the number of axes, and whether they are kept.
    pub reduces: Option<(usize, bool)>,
    pub cluster: usize,
    /// It cannot be a step of a chain: a comparison, a selection, a cast, or integer arithmetic.
    pub typed: bool,
    /// Its output can only be an output of the cluster: no step can read it.
    pub given_alone: bool,
    /// For a cast from a type without lanes, the lanes into which its input is loaded.
    pub casts_to: Option<Lanes>,
}

/// The number of last axes that a reduction covers, and whether they are kept; `None` if the node
/// is not such a reduction.
fn reduction(n: &Node<'_>) -> Option<(usize, bool)> {
    reduction_named(n.op().trim_end_matches('D'))?;
    let rank = n.input_desc(0)?.shape.rank()?;
    let axes = match n.ints("axes") {
        Some(axes) => axes.to_vec(),
        None => n.const_input(1)?.to_i64(8)?,
    };
    let of = |a: &i64| usize::try_from(if *a < 0 { *a + rank as i64 } else { *a }).ok().filter(|a| *a < rank);
    let mut axes = axes.iter().map(of).collect::<Option<Vec<_>>>()?;
    axes.sort_unstable();
    axes.dedup();
    let last = !axes.is_empty() && axes.iter().rev().enumerate().all(|(i, a)| *a == rank - 1 - i);
    last.then_some((axes.len(), n.flag("keep_dims")))
}

/// The lane type of a value.
fn type_of(d: DType) -> Option<Type> {
    let kind = kind_of(d)?;
    Some(Type { kind, lanes: lanes_of(kind)? })
}

/// Whether a cast can be a step; the inner value gives the lanes into which an operand without
/// lanes is loaded.
fn cast(n: &Node<'_>) -> Option<Option<Lanes>> {
    let (from, to) = (kind_of(n.input_desc(0)?.dtype)?, kind_of(n.outputs()[0].dtype)?);
    match lanes_of(from) {
        Some(lanes) => conversion(Type { kind: from, lanes }, to).map(|_| None),
        None => read_for(from, to).map(Some),
    }
}

/// Whether the types allow a node to be a step although chains do not take it.
fn is_typed(n: &Node<'_>) -> bool {
    let of = |i: usize| n.input_desc(i).and_then(|d| type_of(d.dtype));
    let half = |t: Type| matches!(t.kind, Kind::F16 | Kind::Bf16);
    let both = || of(0).filter(|t| of(1) == Some(*t));
    match n.op() {
        "LogicalAnd" | "LogicalOr" | "LogicalXor" | "LogicalNot" => true,
        "IsNan" => of(0).is_some_and(|t| t.lanes == Lanes::Single && !half(t)),
        "Select" | "SelectV2" => of(1).is_some_and(|t| of(2) == Some(t)),
        op if compare_named(op).is_some() => both().is_some_and(|t| !half(t)),
        op => pair_named(op).is_some_and(is_whole_map) && both().is_some_and(|t| t.lanes == Lanes::Whole),
    }
}

/// The node as a part of a cluster, if it can be one.
pub fn member<'g>(n: &Node<'g>, cluster: usize) -> Option<Member<'g>> {
    let g = n.graph();
    let [out] = n.outputs() else { return None };
    if !open::is_named(&out.shape) || !n.controls().is_empty() || !g.control_users(n.id()).is_empty() {
        return None;
    }
    let plain = Member {
        out,
        reads: Vec::new(),
        reduces: None,
        cluster,
        typed: false,
        given_alone: type_of(out.dtype).is_none(),
        casts_to: None,
    };
    let float = type_of(out.dtype).is_some_and(|t| t.lanes == Lanes::Single);
    if let Some(reduces) = reduction(n) {
        let x = n.input_desc(0)?;
        let fits = float && x.dtype == out.dtype && open::is_named(&x.shape);
        return fits.then(|| Member { reads: vec![n.inputs()[0]], reduces: Some(reduces), ..plain });
    }
    if matches!(n.op(), "QuantizeLinear" | "DequantizeLinear") {
        return None;
    }
    let step = step(n);
    let typed = step.is_none();
    let mut casts_to = None;
    if typed {
        // A value with at most one axis may be a size, which is computed without a kernel.
        if out.shape.rank().is_none_or(|r| r < 2) {
            return None;
        }
        match n.op() {
            "Cast" => casts_to = cast(n)?,
            _ if is_typed(n) => {}
            _ => return None,
        }
    }
    let (mut reads, mut shape) = (Vec::new(), Shape::of(&[]));
    match &step {
        Some(s) => reads.extend(s.operands()),
        None => {
            op_named(n, &mut |v| {
                reads.push(v);
                String::new()
            })?;
        }
    }
    // A number written into a step has no axes, although its constant may have some with one
    // element.
    for v in &reads {
        let d = g.desc(*v).filter(|d| typed || d.dtype == out.dtype)?;
        shape = broadcast_shapes(&shape, &d.shape).ok()?;
    }
    let fits = !reads.is_empty() && open::same(&shape, &out.shape);
    fits.then_some(Member { reads, typed, casts_to, ..plain })
}

/// The text of a step with operands by name, as used by `FusedCluster`; `None` if the node is not a
/// step.
pub fn op_named(n: &Node<'_>, name: &mut dyn FnMut(ValueRef) -> String) -> Option<String> {
    let g = n.graph();
    let mut of = |v: ValueRef| match number(&g, v) {
        Some(c) => c.to_string(),
        None => name(v),
    };
    let kind = || n.outputs().first().and_then(|d| kind_of(d.dtype)).map(Kind::name);
    match (n.op(), n.inputs()) {
        ("Cast", [x]) => Some(format!("Cast:{} {}", kind()?, name(*x))),
        ("Select" | "SelectV2", [c, a, b]) => {
            let (a, b) = (of(*a), of(*b));
            Some(format!("Select:{} {} {a} {b}", kind()?, name(*c)))
        }
        (op @ ("LogicalNot" | "IsNan"), [x]) => Some(format!("{op} {}", name(*x))),
        (op, [a, b]) if compare_named(op).is_some() || matches!(op, "LogicalAnd" | "LogicalOr" | "LogicalXor") => {
            let a = of(*a);
            Some(format!("{op} {a} {}", of(*b)))
        }
        _ => Step::of(n).map(|s| s.text(name)),
    }
}
