//! Slices of one node: the axis along which its result divides into independent parts, and what
//! each part reads of every input.
//!
//! A value is cut along its leading axis, the first one with more than one element: there its
//! slices are consecutive in memory. The rules follow the operators' definitions (CANN's names):
//! element-wise operators with broadcasting; rows of norms, of softmax and of reductions that leave
//! the axis alone; batches or rows of matrix products.
use ge_plugin_api::types::TensorDesc;
use ge_plugin_api::view::Node;

/// How a node is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sliced {
    /// Number of elements along the axis, the same for everything that is cut.
    pub extent: u64,
    /// Axis along which each input is cut; `None` if each slice reads it whole or it is absent.
    pub inputs: Vec<Option<usize>>,
    /// Axis along which each output is cut.
    pub outputs: Vec<usize>,
}

type Answer<T> = Result<T, String>;

/// Softmax operators, which must not be cut along their axes.
const SOFTMAX: &[&str] = &["SoftmaxV2", "LogSoftmaxV2"];
/// Normalisations over all axes from a given one on.
const NORM: &[&str] = &["LayerNorm", "LayerNormV3", "RmsNorm"];
/// Matrix products.
const PRODUCT: &[&str] = &["MatMul", "MatMulV2", "BatchMatMul", "BatchMatMulV2", "FusedMatMul"];
/// Reductions over axes given by an attribute.
const REDUCE: &[&str] = &["ReduceSumD", "ReduceMeanD", "ReduceMaxD", "ReduceMinD", "ReduceProdD"];

/// Determines how a node can be cut.
///
/// # Errors
/// Returns the reason if it cannot be cut.
pub fn sliced(node: &Node<'_>) -> Answer<Sliced> {
    let op = node.op();
    let family = |list: &[&str]| list.contains(&op);
    if node.is_elementwise() {
        elementwise(node, &[])
    } else if family(SOFTMAX) {
        let rank = sizes(node.input_desc(0), "input 0")?.len();
        let axes = node.ints("axes").unwrap_or(&[-1]);
        elementwise(node, &axes.iter().map(|a| axis(*a, rank)).collect::<Answer<Vec<_>>>()?)
    } else if op == "ScaledMaskedSoftmax" {
        let rank = sizes(node.outputs().first(), "output 0")?.len();
        elementwise(node, &[rank.saturating_sub(1)])
    } else if family(NORM) {
        norm(node)
    } else if family(PRODUCT) {
        product(node)
    } else if family(REDUCE) {
        reduce(node)
    } else {
        Err(format!("no rule cuts {op} into slices"))
    }
}

fn sizes(d: Option<&TensorDesc>, what: &str) -> Answer<Vec<u64>> {
    let d = d.ok_or_else(|| format!("{what} is missing"))?;
    if d.dtype.bits().is_none_or(|b| b < 8) {
        return Err(format!("{what} is {}, whose elements are no whole bytes", d.dtype));
    }
    if d.origin_shape() != &d.shape {
        return Err(format!("{what} has the format {}", d.format));
    }
    d.shape.sizes().ok_or_else(|| format!("shape {} of {what} is not known", d.shape))
}
fn axis(a: i64, rank: usize) -> Answer<usize> {
    let at = if a < 0 { a + rank as i64 } else { a };
    usize::try_from(at).ok().filter(|a| *a < rank).ok_or_else(|| format!("axis {a} is none of {rank}"))
}
/// The leading axis of a shape and its number of elements.
fn leading(shape: &[u64], what: &str) -> Answer<(usize, u64)> {
    let found = shape.iter().enumerate().find(|(_, d)| **d != 1);
    let (at, n) = found.filter(|(_, d)| **d > 1).ok_or_else(|| format!("{what} has no axis to cut"))?;
    Ok((at, *n))
}
/// The axis of an input that corresponds to axis `at` of the shape of `rank` axes that it is
/// broadcast to; `None` if the input is read whole.
fn broadcast(input: &[u64], rank: usize, at: usize, extent: u64) -> Answer<Option<usize>> {
    let Some(own) = (at + input.len()).checked_sub(rank) else { return Ok(None) };
    match input.get(own) {
        Some(1) => Ok(None),
        Some(n) if *n == extent && input[..own].iter().all(|d| *d == 1) => Ok(Some(own)),
        other => Err(format!("axis {own} of an input has {} elements, not {extent}", other.unwrap_or(&0))),
    }
}

fn all_inputs(node: &Node<'_>, rule: impl Fn(usize, &[u64]) -> Answer<Option<usize>>) -> Answer<Vec<Option<usize>>> {
    let one = |i: usize| match node.input_desc(i) {
        None => Ok(None),
        d => rule(i, &sizes(d, &format!("input {i}"))?),
    };
    (0..node.inputs().len()).map(one).collect()
}

/// The axes along which outputs are cut. Fails if an output has another extent there.
fn like_first(node: &Node<'_>, extent: u64) -> Answer<Vec<usize>> {
    let each = |(k, d): (usize, &TensorDesc)| {
        let what = format!("output {k}");
        let (at, n) = leading(&sizes(Some(d), &what)?, &what)?;
        if n == extent { Ok(at) } else { Err(format!("{what} is cut into {n}, not {extent}")) }
    };
    node.outputs().iter().enumerate().map(each).collect()
}

fn elementwise(node: &Node<'_>, kept: &[usize]) -> Answer<Sliced> {
    let y = sizes(node.outputs().first(), "output 0")?;
    let (at, extent) = leading(&y, "output 0")?;
    if kept.contains(&at) {
        return Err(format!("axis {at} of {y:?} is worked along"));
    }
    let inputs = all_inputs(node, |_, x| broadcast(x, y.len(), at, extent))?;
    if inputs.iter().all(Option::is_none) {
        return Err("no input is cut".into());
    }
    Ok(Sliced { extent, inputs, outputs: like_first(node, extent)? })
}

fn norm(node: &Node<'_>) -> Answer<Sliced> {
    let x = sizes(node.input_desc(0), "input 0")?;
    let (at, extent) = leading(&x, "input 0")?;
    let begin = match node.op() {
        "RmsNorm" => {
            x.len().checked_sub(sizes(node.input_desc(1), "input 1")?.len()).ok_or("gamma has more axes than x")?
        }
        _ => axis(node.int("begin_norm_axis").unwrap_or(-1), x.len())?,
    };
    if at >= begin {
        return Err(format!("axis {at} of {x:?} is normalised"));
    }
    let inputs = all_inputs(node, |i, _| Ok((i == 0).then_some(at)))?;
    Ok(Sliced { extent, inputs, outputs: like_first(node, extent)? })
}

fn reduce(node: &Node<'_>) -> Answer<Sliced> {
    let x = sizes(node.input_desc(0), "input 0")?;
    let (at, extent) = leading(&x, "input 0")?;
    let axes = node.ints("axes").filter(|a| !a.is_empty()).ok_or("all axes are reduced")?;
    let axes = axes.iter().map(|a| axis(*a, x.len())).collect::<Answer<Vec<_>>>()?;
    if axes.contains(&at) {
        return Err(format!("axis {at} of {x:?} is reduced"));
    }
    let inputs = all_inputs(node, |i, _| Ok((i == 0).then_some(at)))?;
    Ok(Sliced { extent, inputs, outputs: like_first(node, extent)? })
}

fn product(node: &Node<'_>) -> Answer<Sliced> {
    let y = sizes(node.outputs().first(), "output 0")?;
    let (a, b) = (sizes(node.input_desc(0), "x1")?, sizes(node.input_desc(1), "x2")?);
    let (at, extent) = leading(&y, "output 0")?;
    let rank = y.len();
    if rank < 2 || a.len() < 2 || b.len() < 2 || at + 1 >= rank {
        return Err(format!("{a:?} by {b:?} has no batch and no rows to cut"));
    }
    let inputs = if at + 2 < rank {
        // Along a batch axis, the products are independent.
        all_inputs(node, |i, x| match i {
            0 | 1 => broadcast(&x[..x.len() - 2], rank - 2, at, extent),
            2 => Ok(None),
            _ => broadcast(x, rank, at, extent),
        })?
    } else {
        if ["transpose_x1", "adj_x1"].iter().any(|k| node.flag(*k)) {
            return Err("the rows of x1 stand in columns".into());
        }
        all_inputs(node, |i, x| match i {
            0 if x[..x.len() - 2].iter().all(|d| *d == 1) => Ok(Some(x.len() - 2)),
            0 => Err("x1 has batches that x2 has not".into()),
            1 | 2 => Ok(None),
            _ => broadcast(x, rank, at, extent),
        })?
    };
    if inputs.iter().all(Option::is_none) {
        return Err("no input is cut".into());
    }
    Ok(Sliced { extent, inputs, outputs: like_first(node, extent)? })
}
