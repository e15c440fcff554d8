//! Operators on sequences and optionals. Host kernels do the concatenating and splitting.
use super::graph::Node;
use super::tools::Tools;
use super::value::{List, Tensor, Value};
use crate::error::RuntimeError;
use ge_plugin_api::Error;
use ge_plugin_api::kernel::{HostTensor, TensorView};
use ge_plugin_api::types::{AttrMap, ConstTensor, DType};
use std::sync::Arc;

/// Whether this module computes the operator.
pub(crate) fn handles(op: &str) -> bool {
    matches!(
        op,
        "SequenceEmpty"
            | "SequenceConstruct"
            | "SequenceInsert"
            | "SequenceErase"
            | "SequenceAt"
            | "SequenceLength"
            | "SplitToSequence"
            | "ConcatFromSequence"
            | "Optional"
            | "OptionalHasElement"
            | "OptionalGetElement"
    )
}

fn bad(n: &Node, what: impl Into<String>) -> RuntimeError {
    Error::failed(what.into()).at_node(&n.name, n.op.as_str()).into()
}

/// Computes such a node.
///
/// # Errors
/// Fails if a position is outside the sequence, tensors do not fit together, or an optional is
/// empty.
pub(crate) fn run<'a>(tools: &Tools, n: &Node, given: Vec<Option<Value<'a>>>) -> Result<Vec<Value<'a>>, RuntimeError> {
    let stated = n.descs.first().map_or(DType::UNKNOWN, |d| d.dtype);
    let tensor = |i: usize| match given.get(i) {
        Some(Some(Value::Tensor(t))) => Ok(t.clone()),
        _ => Err(bad(n, format!("input {i} is no tensor"))),
    };
    let list = || match given.first() {
        Some(Some(Value::List(l))) => Ok(l.clone()),
        _ => Err(bad(n, "input 0 is no sequence")),
    };
    // A negative position counts from the end; `limit` is the first invalid position.
    let position = |i: usize, len: usize, limit: usize| -> Result<Option<usize>, RuntimeError> {
        let Some(Some(Value::Tensor(t))) = given.get(i) else { return Ok(None) };
        let at = t.int().ok_or_else(|| bad(n, "the position is no whole number"))?;
        let from = if at < 0 { at + len as i64 } else { at };
        let found = usize::try_from(from).ok().filter(|p| *p < limit);
        found.map(Some).ok_or_else(|| bad(n, format!("position {at} of a sequence of {len} tensors")))
    };
    let out = match n.op.as_str() {
        "SequenceEmpty" => {
            let declared = n.attrs.ints("element").map(Into::into);
            Value::List(List { dtype: stated, declared, ..List::default() })
        }
        "SequenceConstruct" => {
            let all = (0..given.len()).map(tensor).collect::<Result<Vec<_>, _>>()?;
            let dtype = all.first().map_or(stated, |t| t.dtype);
            Value::List(List { items: Arc::new(all), dtype, ..List::default() })
        }
        "SequenceInsert" => {
            let mut l = list()?;
            let t = tensor(1)?;
            if l.dtype != DType::UNKNOWN && l.dtype != t.dtype {
                return Err(bad(n, format!("a {} goes into a sequence of {}", t.dtype, l.dtype)));
            }
            let len = l.items.len();
            let at = position(2, len, len + 1)?.unwrap_or(len);
            l.dtype = t.dtype;
            drop(given);
            Arc::make_mut(&mut l.items).insert(at, t);
            return Ok(vec![Value::List(l)]);
        }
        "SequenceErase" => {
            let mut l = list()?;
            let len = l.items.len();
            let last = || len.checked_sub(1).ok_or_else(|| bad(n, "nothing can be taken from an empty sequence"));
            let at = match position(1, len, len)? {
                Some(p) => p,
                None => last()?,
            };
            Arc::make_mut(&mut l.items).remove(at);
            Value::List(l)
        }
        "SequenceAt" => {
            let l = list()?.items;
            let at = position(1, l.len(), l.len())?.ok_or_else(|| bad(n, "the position is missing"))?;
            Value::Tensor(l[at].clone())
        }
        "SequenceLength" => {
            let len = ConstTensor::of(&[], &[list()?.items.len() as i64]);
            Value::Tensor(len.as_ref().and_then(Tensor::constant).ok_or_else(|| bad(n, "no memory for a number"))?)
        }
        "ConcatFromSequence" => {
            let mut l = list()?;
            l.dtype = if l.dtype == DType::UNKNOWN { stated } else { l.dtype };
            Value::Tensor(concat(tools, n, &l)?)
        }
        "SplitToSequence" => {
            let x = tensor(0)?;
            let parts = split(tools, n, &x, given.get(1).and_then(|v| v.as_ref()?.tensor()))?;
            Value::List(List { items: Arc::new(parts), dtype: x.dtype, ..List::default() })
        }
        "Optional" => match given.into_iter().next().flatten() {
            Some(v) => v,
            None => Value::Nothing,
        },
        "OptionalHasElement" => {
            let has = !matches!(given.first(), None | Some(None | Some(Value::Nothing)));
            let t = ConstTensor::of(&[], &[has]);
            Value::Tensor(t.as_ref().and_then(Tensor::constant).ok_or_else(|| bad(n, "no memory for a truth value"))?)
        }
        "OptionalGetElement" => match given.into_iter().next().flatten() {
            None | Some(Value::Nothing) => return Err(bad(n, "the optional holds nothing")),
            Some(v) => v,
        },
        _ => return Err(bad(n, "it is no operator on sequences")),
    };
    Ok(vec![out])
}

/// Runs the host kernel of an operator that does part of the node's work.
fn kernel<'a>(
    tools: &Tools,
    n: &Node,
    op: &str,
    attrs: &AttrMap,
    inputs: &[TensorView<'_>],
    outputs: &[DType],
) -> Result<Vec<Tensor<'a>>, RuntimeError> {
    let host = tools.host(op).ok_or_else(|| bad(n, format!("no enabled engine has a host kernel for {op}")))?;
    let views: Vec<Option<TensorView<'_>>> = inputs.iter().copied().map(Some).collect();
    let made = host.run_host_kernel(op, &n.name, attrs, &views, outputs)?;
    Ok(made.into_iter().map(Tensor::made).collect())
}

fn concat<'a>(tools: &Tools, n: &Node, list: &List<'a>) -> Result<Tensor<'a>, RuntimeError> {
    let new_axis = n.attrs.int("new_axis").unwrap_or(0) != 0;
    let axis = n.attrs.int("axis").unwrap_or(0);
    let (dtype, list, dims) = (list.dtype, list.items.as_slice(), list.dims.as_deref());
    if list.is_empty() {
        // Without tensors, the shape is known only after a loop without iterations.
        let Some(dims) = dims.filter(|_| dtype != DType::UNKNOWN) else {
            return Err(bad(n, "the sequence is empty: nothing tells the shape of what it joins to"));
        };
        let mut dims = dims.to_vec();
        let rank = dims.len() as i64 + i64::from(new_axis);
        let at = usize::try_from(if axis < 0 { axis + rank } else { axis }).ok().filter(|a| (*a as i64) < rank);
        let at = at.ok_or_else(|| bad(n, format!("axis {axis} of a tensor of rank {rank}")))?;
        if new_axis {
            dims.insert(at, 0);
        } else {
            dims[at] = 0;
        }
        return Ok(Tensor::made(HostTensor::zeroed(dtype, &dims)?));
    }
    let (op, key) = if new_axis { ("Pack", "axis") } else { ("ConcatD", "concat_dim") };
    let mut attrs = AttrMap::default();
    attrs.set(key, axis);
    attrs.set("N", list.len() as i64);
    let views: Vec<TensorView<'_>> = list.iter().map(Tensor::view).collect();
    let made = kernel(tools, n, op, &attrs, &views, &[list[0].dtype])?;
    made.into_iter().next().ok_or_else(|| bad(n, format!("{op} made nothing")))
}

fn split<'a>(
    tools: &Tools,
    n: &Node,
    x: &Tensor<'a>,
    sizes: Option<&Tensor<'a>>,
) -> Result<Vec<Tensor<'a>>, RuntimeError> {
    let rank = x.dims.len() as i64;
    let axis = n.attrs.int("axis").unwrap_or(0);
    let axis = if axis < 0 { axis + rank } else { axis };
    let at = usize::try_from(axis).ok().filter(|a| *a < x.dims.len());
    let at = at.ok_or_else(|| bad(n, format!("axis {axis} of a tensor of rank {rank}")))?;
    let length = x.dims[at] as i64;
    let wrong = || bad(n, format!("its sizes are no whole numbers that add up to {length}"));
    let list: Vec<i64> = match sizes {
        None => vec![1; x.dims[at] as usize],
        Some(s) => {
            let values = s.to_constant().and_then(|t| t.to_i64(1 << 20)).ok_or_else(wrong)?;
            match (s.dims.len(), values.as_slice()) {
                (0, [each]) if *each > 0 => {
                    (0..length).step_by(*each as usize).map(|i| (*each).min(length - i)).collect()
                }
                (0, [each]) => return Err(bad(n, format!("it splits into parts of {each}; a part has at least one"))),
                _ => values,
            }
        }
    };
    let sum = list.iter().try_fold(0i64, |sum, s| sum.checked_add(*s).filter(|_| *s >= 0));
    if sum != Some(length) {
        return Err(bad(n, format!("its sizes {list:?} do not add up to {length}")));
    }
    if list.is_empty() {
        return Ok(Vec::new());
    }
    let mut attrs = AttrMap::default();
    attrs.set("size_splits", list.as_slice());
    attrs.set("split_dim", axis);
    attrs.set("num_split", list.len() as i64);
    let parts = kernel(tools, n, "SplitVD", &attrs, &[x.view()], &vec![x.dtype; list.len()])?;
    if sizes.is_some() || n.attrs.int("keepdims").unwrap_or(1) != 0 {
        return Ok(parts);
    }
    let without = |t: Tensor<'a>| {
        let mut dims = t.dims.to_vec();
        dims.remove(at);
        t.viewed(t.dtype, &dims)
    };
    Ok(parts.into_iter().map(without).collect())
}
