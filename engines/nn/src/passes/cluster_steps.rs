//! Nodes as parts of a cluster: what they read, and their steps as text.
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
    /// What it gives.
    pub out: &'g TensorDesc,
    /// What it reads, without the numbers that its step has in it.
    pub reads: Vec<ValueRef>,
    /// Of a reduction, how many axes, and whether they are kept.
    pub reduces: Option<(usize, bool)>,
    pub cluster: usize,
    /// It is no step of a chain: a comparison, a choice, a cast, or one of whole numbers.
    pub typed: bool,
    /// No step can read what it gives.
    pub given_alone: bool,
    /// Of a cast from a type that lanes do not hold, the lanes in which that comes in.
    pub casts_to: Option<Lanes>,
}

/// The last axes that a reduction is over, and whether they are kept; None where it is none of them.
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

/// The type of a value as lanes have it.
fn type_of(d: DType) -> Option<Type> {
    let kind = kind_of(d)?;
    Some(Type { kind, lanes: lanes_of(kind)? })
}

/// How a cast can be a step: as what its operand comes in, where lanes do not hold that.
fn cast(n: &Node<'_>) -> Option<Option<Lanes>> {
    let (from, to) = (kind_of(n.input_desc(0)?.dtype)?, kind_of(n.outputs()[0].dtype)?);
    match lanes_of(from) {
        Some(lanes) => conversion(Type { kind: from, lanes }, to).map(|_| None),
        None => read_for(from, to).map(Some),
    }
}

/// Whether a node that chains do not take can be a step by its types.
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

/// The node as a part of a cluster, where it can be one.
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
        // A value of one axis or none may be a size, which is computed without a kernel.
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
    // A number written into a step is of no axes, though a constant of one element may have some.
    for v in &reads {
        let d = g.desc(*v).filter(|d| typed || d.dtype == out.dtype)?;
        shape = broadcast_shapes(&shape, &d.shape).ok()?;
    }
    let fits = !reads.is_empty() && open::same(&shape, &out.shape);
    fits.then_some(Member { reads, typed, casts_to, ..plain })
}

/// A step's text over operands by name, as `FusedCluster` has it; None where the node is no step.
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
