//! Finds splits and slices whose parts are contiguous in their input.
use super::graph::{Graph, Node};
use super::plan::Draft;
use ge_plugin_api::types::TensorDesc;

/// The offset and size in bytes, within the input, of each output of a split or slice. `None` if
/// the node is neither, or if a part is not contiguous.
pub(crate) fn taken(graph: &Graph, d: &Draft, n: &Node) -> Option<Vec<(u64, u64)>> {
    let x = d.desc(graph, n.inputs.first().copied()??)?;
    let of = |v: &u32| plain(d.desc(graph, *v)?);
    match n.op.as_str() {
        "SplitD" | "SplitVD" => {
            one_before(x, n.attrs.int("split_dim")?)?;
            let mut at = 0u64;
            let mut out = Vec::with_capacity(n.outputs.len());
            for v in &n.outputs {
                let bytes = of(v)?;
                out.push((at, bytes));
                at = at.checked_add(bytes)?;
            }
            (Some(at) == plain(x)).then_some(out)
        }
        "SliceD" | "Slice" | "StridedSliceD" | "StridedSliceV2" => {
            let &[v] = n.outputs.as_slice() else { return None };
            let bytes = of(&v)?;
            let (dims, cut) = (x.shape.sizes()?, d.desc(graph, v)?.shape.sizes()?);
            let begin = begins(graph, d, n, &dims, &cut)?;
            let first = first_element(&dims, &cut, &begin)?;
            let elements = cut.iter().product::<u64>();
            // Elements smaller than a byte cannot be addressed by multiplying with a size.
            let size = bytes.checked_div(elements).filter(|s| s.checked_mul(elements) == Some(bytes))?;
            let at = first.checked_mul(size)?;
            (at.checked_add(bytes)? <= plain(x)?).then_some(vec![(at, bytes)])
        }
        _ => None,
    }
}

/// The size in bytes of a tensor in the plain layout of its dimensions; otherwise `None`.
pub(crate) fn plain(d: &TensorDesc) -> Option<u64> {
    if d.origin.is_some() { None } else { d.data_bytes() }
}

/// `Some` if each axis before `axis` has size 1.
pub(crate) fn one_before(d: &TensorDesc, axis: i64) -> Option<()> {
    let dims = d.shape.sizes()?;
    let axis = usize::try_from(if axis < 0 { axis.checked_add(dims.len() as i64)? } else { axis }).ok()?;
    dims.get(..axis)?.iter().all(|d| *d == 1).then_some(())
}

/// The index of the first element of a part, if its elements are contiguous: before the axis that
/// is cut, the part has size 1; after it, everything is taken.
fn first_element(dims: &[u64], cut: &[u64], begin: &[u64]) -> Option<u64> {
    let whole = dims.iter().zip(cut).rev().take_while(|(d, c)| d == c).count();
    let before = dims.len().checked_sub(whole + 1);
    if cut.len() != dims.len() || cut.get(..before.unwrap_or(0))?.iter().any(|c| *c != 1) {
        return None;
    }
    let place = |at: Option<u64>, (d, b): (&u64, &u64)| at?.checked_mul(*d)?.checked_add(*b);
    dims.iter().zip(begin).fold(Some(0), place)
}

/// Where a slice begins on each axis, if it takes consecutive elements.
fn begins(graph: &Graph, d: &Draft, n: &Node, dims: &[u64], cut: &[u64]) -> Option<Vec<u64>> {
    let given = |k: usize| n.inputs.get(k).copied().flatten();
    let known = |k: usize| d.known(graph, given(k)?)?.to_i64(dims.len());
    let list = |key: &str, k: usize| match n.attrs.ints(key) {
        Some(own) => Some(own.to_vec()),
        None => known(k),
    };
    let optional = |list: Option<Vec<i64>>, is_there: bool| if is_there { list.map(Some) } else { Some(None) };
    let by_attr = n.op.as_str() == "StridedSliceD";
    let (from, axes, steps) = match n.op.as_str() {
        "SliceD" | "Slice" => (list("offsets", 1)?, None, None),
        _ if by_attr => (n.attrs.ints("begin")?.to_vec(), None, n.attrs.ints("strides").map(<[i64]>::to_vec)),
        _ => (known(1)?, optional(known(3), given(3).is_some())?, optional(known(4), given(4).is_some())?),
    };
    let axes = axes.unwrap_or_else(|| (0..from.len() as i64).collect());
    if axes.len() != from.len() || steps.as_ref().is_some_and(|s| s.len() != from.len()) {
        return None;
    }
    let mut out = vec![0u64; dims.len()];
    for (k, (axis, from)) in axes.iter().zip(&from).enumerate() {
        let axis = usize::try_from(if *axis < 0 { axis.checked_add(dims.len() as i64)? } else { *axis }).ok()?;
        let size = i64::try_from(*dims.get(axis)?).ok()?;
        let step = steps.as_ref().map_or(Some(1), |s| s.get(k).copied())?;
        if step != 1 && *cut.get(axis)? > 1 {
            return None;
        }
        // A backward step begins at the last position at most.
        let last = if step > 0 { size } else { size.checked_sub(1)? };
        let from = if *from < 0 { from.saturating_add(size) } else { *from };
        out[axis] = u64::try_from(from.clamp(0, last.max(0))).ok()?;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_each_other_is_found_and_nothing_else() {
        let first = |dims: &[u64], cut: &[u64], begin: &[u64]| first_element(dims, cut, begin);
        assert_eq!(first(&[6, 4, 2], &[2, 4, 2], &[3, 0, 0]), Some(24));
        assert_eq!(first(&[6, 4, 2], &[1, 3, 2], &[5, 1, 0]), Some(42));
        assert_eq!(first(&[6, 4, 2], &[1, 1, 1], &[5, 3, 1]), Some(47));
        assert_eq!(first(&[6, 4, 2], &[6, 4, 2], &[0, 0, 0]), Some(0));
        assert_eq!(first(&[1, 4], &[1, 2], &[0, 2]), Some(2));
        // A part of each row, or parts of several rows.
        assert_eq!(first(&[6, 4], &[6, 2], &[0, 0]), None);
        assert_eq!(first(&[6, 4], &[2, 2], &[0, 0]), None);
        assert_eq!(first(&[6, 4, 2], &[2, 4, 1], &[0, 0, 0]), None);
        assert_eq!(first(&[], &[], &[]), Some(0));
    }
}
