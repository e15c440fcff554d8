//! Operators that can work in another layout: what they read and return in it, and which of their
//! attributes and constants name axes.
use super::is_plain;
use crate::edit;
use ge_plugin_api::types::{AttrMap, ConstTensor, DType, Dim, TensorDesc, ValueRef};
use ge_plugin_api::view::Node;

/// Attribute in which the host keeps the model's names for a node's outputs. A tensor in another
/// layout must not have these names.
const NAMES: &str = "_origin_tensors";
/// Reductions whose axes are an attribute or the second input.
const REDUCTIONS: [&str; 10] = [
    "ReduceSum",
    "ReduceMean",
    "ReduceMax",
    "ReduceMin",
    "ReduceProd",
    "ReduceSumD",
    "ReduceMeanD",
    "ReduceMaxD",
    "ReduceMinD",
    "ReduceProdD",
];
/// Most entries of a list of axes or paddings.
const LISTED: usize = 64;

/// The role of an input in an operator that works in another layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operand {
    /// It has the operator's axes and the same layout as the operator.
    Framed,
    /// It has a single long axis, which is this axis of the operator; it is reshaped.
    Along(usize),
    /// It stays as it is: a single number, or a list of sizes or axes.
    Aside,
}

enum Kind {
    Map,
    /// The axes that are reduced.
    Reduce(Vec<usize>),
    /// Paddings before and behind each axis, and whether the two of each axis are adjacent.
    Pad(Vec<i64>, bool),
    /// The attribute that names an axis, and the axis.
    Axis(&'static str, usize),
}

/// An operator that can work in another layout.
pub(super) struct Member<'a> {
    pub(super) node: Node<'a>,
    pub(super) rank: usize,
    pub(super) operands: Vec<Operand>,
    kind: Kind,
}

impl<'a> Member<'a> {
    /// The operator, if it is one that can.
    pub(super) fn of(node: Node<'a>) -> Option<Member<'a>> {
        let first = node.outputs().first()?;
        let rank = first.shape.rank().filter(|r| *r > 1)?;
        let of_rank = |d: &TensorDesc| is_plain(d, rank);
        if !node.outputs().iter().all(of_rank) || node.inputs().is_empty() || !edit::is_free(&node) {
            return None;
        }
        let axis = |key: &str| first.shape.axis(node.int(key)?);
        let framed = |i: usize| node.input_desc(i).is_some_and(of_rank);
        let (kind, data) = match node.op() {
            op if REDUCTIONS.contains(&op) => (Kind::Reduce(reduced(&node, rank)?), 1),
            "PadV3" => {
                let pairs = node.attr("paddings_contiguous").and_then(|a| a.as_bool()).unwrap_or(true);
                let list = node.const_input(1)?.to_i64(LISTED).filter(|v| v.len() == 2 * rank)?;
                node.input(3).is_none_or(|v| v.is_absent()).then_some(())?;
                (Kind::Pad(list, pairs), 1)
            }
            "ConcatD" | "ConcatV2D" => (Kind::Axis("concat_dim", axis("concat_dim")?), node.inputs().len()),
            "SplitD" | "SplitVD" => (Kind::Axis("split_dim", axis("split_dim")?), 1),
            _ if node.is_elementwise() && node.outputs().len() == 1 => (Kind::Map, 0),
            _ => return None,
        };
        let operands: Option<Vec<Operand>> = match kind {
            Kind::Map => (0..node.inputs().len()).map(|i| operand(node.input_desc(i)?, first.shape.dims())).collect(),
            _ => (0..node.inputs().len())
                .map(|i| if i >= data { Some(Operand::Aside) } else { framed(i).then_some(Operand::Framed) })
                .collect(),
        };
        let operands = operands.filter(|o| o.contains(&Operand::Framed))?;
        Some(Member { node, rank, operands, kind })
    }

    /// The inputs that have the operator's layout.
    pub(super) fn framed(&self) -> impl Iterator<Item = ValueRef> {
        let inputs = self.node.inputs().iter().zip(&self.operands);
        inputs.filter(|(_, o)| **o == Operand::Framed).map(|(v, _)| *v)
    }

    /// The attributes in the layout where axis `a` becomes axis `to[a]`.
    pub(super) fn attrs(&self, to: &[usize]) -> AttrMap {
        let mut attrs = AttrMap::default();
        for a in self.node.attrs().iter().filter(|a| a.key.as_str() != NAMES) {
            attrs.set(a.key, a.value.clone());
        }
        match &self.kind {
            Kind::Axis(key, axis) => attrs.set(*key, to[*axis] as i64),
            Kind::Reduce(axes) if self.node.ints("axes").is_some() => attrs.set("axes", moved(axes, to)),
            _ => {}
        }
        attrs
    }

    /// The constant that replaces input `i` in that layout; `None` if the input stays.
    pub(super) fn constant(&self, i: usize, to: &[usize]) -> Option<ConstTensor> {
        let given = self.node.const_input(i)?;
        let list = match (&self.kind, i) {
            (Kind::Reduce(axes), 1) => moved(axes, to),
            (Kind::Pad(list, pairs), 1) => {
                let mut out = list.clone();
                for (axis, inner) in to.iter().enumerate() {
                    for end in 0..2 {
                        let at = |axis: usize| if *pairs { 2 * axis + end } else { axis + end * self.rank };
                        out[at(*inner)] = list[at(axis)];
                    }
                }
                out
            }
            _ => return None,
        };
        let dims = given.shape().sizes()?;
        match given.dtype {
            DType::I32 => ConstTensor::of(&dims, &list.iter().map(|v| *v as i32).collect::<Vec<i32>>()),
            _ => ConstTensor::of(&dims, &list),
        }
    }
}

/// Axes in another layout, sorted.
fn moved(axes: &[usize], to: &[usize]) -> Vec<i64> {
    let mut all: Vec<i64> = axes.iter().map(|a| to[*a] as i64).collect();
    all.sort_unstable();
    all
}

/// The axes of a reduction; `None` if it does not keep them.
fn reduced(n: &Node<'_>, rank: usize) -> Option<Vec<usize>> {
    let list = match n.ints("axes") {
        Some(list) => list.to_vec(),
        None => n.const_input(1).filter(|c| matches!(c.dtype, DType::I32 | DType::I64))?.to_i64(LISTED)?,
    };
    let x = n.input_desc(0)?;
    let axes: Vec<usize> = list.iter().map(|a| x.shape.axis(*a)).collect::<Option<_>>()?;
    (n.flag("keep_dims") && !axes.is_empty() && x.shape.rank() == Some(rank)).then_some(axes)
}

/// The role of an operand of an element-wise operator whose result has the sizes `own`; `None` if
/// the operator cannot work in another layout.
fn operand(d: &TensorDesc, own: &[Dim]) -> Option<Operand> {
    if d.origin.is_some() {
        return None;
    }
    let dims = d.shape.dims();
    let lead = own.len().checked_sub(d.shape.rank()?)?;
    let mut long = dims.iter().enumerate().filter(|(_, n)| n.size() != Some(1)).map(|(i, _)| i + lead);
    match (long.next(), long.next()) {
        (None, _) => Some(Operand::Aside),
        // An axis of unknown size may have length one.
        (Some(axis), None) if dims[axis - lead].is_known() && dims[axis - lead].same(own[axis]) => {
            let whole = lead == 0 && own.iter().enumerate().all(|(i, n)| i == axis || n.size() == Some(1));
            Some(if whole { Operand::Framed } else { Operand::Along(axis) })
        }
        _ if lead == 0 => Some(Operand::Framed),
        _ => None,
    }
}
