//! Parts of tensors: slices, gathers, scatters.
//!
//! * `StridedSliceV2(x, begin, end, axes?, strides?)` is ONNX's Slice: negative positions count
//!   from the end, positions are clamped, negative steps go backwards (from the first element if
//!   they begin before it); without axes the first axes are sliced in order. `Slice(x, offsets,
//!   size)` and `SliceD {offsets, size}` (size -1: to the end). `StridedSliceD(x) {begin, end,
//!   strides}`.
//! * `GatherV2(x, indices, axis) {batch_dims}` and `Gather(x, indices) {axis = 0}`: y = x[..axis] ++
//!   indices ++ x[axis+1..]; negative indices count from the end. `GatherElements(x, index) {dim}`,
//!   `GatherNd(x, indices) {batch_dims}`.
//! * `ScatterElements(data, indices, updates) {axis, reduction = none|add|mul|min|max}`;
//!   `TensorScatterUpdate(x, indices, updates) {reduction}` (ONNX ScatterND);
//!   `TensorScatter(past_cache, update, write_indices?) {axis = -2, mode = linear|circular}`.
//! * `ReverseSequence(x, seq_lengths) {seq_dim, batch_dim}`.
use crate::dims;
use crate::read::{self, bad};
use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::ops::flags::{INDEXES, MAY_FAIL, REPLACES};
use ge_plugin_api::ops::{AttrKind, InferCtx, OpDef, infer};
use ge_plugin_api::register_ops;
use ge_plugin_api::types::dtype::{ANY, INDEX};
use ge_plugin_api::types::{DType, Dim, Expr, Shape, TensorDesc};

fn strided(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let by_attr = c.node.op() == "StridedSliceD";
    let list = |key: &str, i: usize| if by_attr { read::ints(c, key).map(<[i64]>::to_vec) } else { c.const_ints(i) };
    let x = &c.input(0)?.shape;
    let Some(r) = x.rank() else { return read::one(c, Shape::unranked()) };
    let (begin, end) = (list("begin", 1), list("end", 2));
    let given = |i: usize| !by_attr && c.opt_input(i).is_some();
    let axes =
        if given(3) { c.const_ints(3) } else { begin.as_ref().or(end.as_ref()).map(|v| (0..v.len() as i64).collect()) };
    let steps = if given(4) || by_attr {
        list("strides", 4).or(if by_attr { begin.as_ref().map(|v| vec![1; v.len()]) } else { None })
    } else {
        axes.as_ref().map(|a| vec![1; a.len()])
    };
    let Some(axes) = axes else {
        // The rank is known even if the positions are not.
        return read::one(c, dims::unknown(r));
    };
    let mut d = x.dims().to_vec();
    let values = |k: usize| if by_attr { None } else { c.values(k) };
    let (begins, ends) = (values(1), values(2));
    for (i, &a) in axes.iter().enumerate() {
        let a = read::axis("axes", a, r)?;
        let pick = |v: &Option<Vec<i64>>| v.as_ref().and_then(|v| v.get(i).copied());
        d[a] = match (pick(&begin), pick(&end), pick(&steps)) {
            (_, _, Some(0)) => return Err(bad("strides", 0, "a step other than zero")),
            (Some(b), Some(e), Some(s)) => match dims::size(d[a]) {
                Some(n) => dims::from_i64(infer::slice_of_axis(n, b, e, s).1),
                // A slice of the whole axis keeps its dimension.
                None if b == 0 && e >= i64::from(i32::MAX) && s == 1 => d[a],
                None if s > 0 && b >= 0 && e >= 0 && e <= b => Dim::known(0),
                None if s == 1 => cut(d[a], &Expr::from(b), &Expr::from(e)),
                None => Dim::UNKNOWN,
            },
            (_, _, Some(1)) => {
                let at = |list: &Option<Vec<Option<Expr>>>| list.as_ref().and_then(|v| v.get(i).cloned()).flatten();
                match (at(&begins), at(&ends)) {
                    (Some(b), Some(e)) => cut(d[a], &b, &e),
                    _ => Dim::UNKNOWN,
                }
            }
            _ => Dim::UNKNOWN,
        };
    }
    read::one(c, Shape::new(d))
}
/// Length of the part of a dimension from `begin` to `end`. It is unknown if it is not clear
/// whether a position counts from the front or from the back. For an `end` that counts from the
/// front, the smaller of it and the dimension counts.
fn cut(d: Dim, begin: &Expr, end: &Expr) -> Dim {
    let whole = Expr::of(d);
    let place = |p: &Expr| {
        let n = whole.as_ref()?;
        match p.bounds() {
            // Counted from the front, at most the end of the axis.
            (Some(low), _) if low >= 0 => match n.sub(p)?.bounds().0 {
                Some(room) if room >= 0 => Some(p.clone()),
                _ if p.constant().is_some_and(|p| p >= i64::from(i32::MAX)) => Some(n.clone()),
                _ => n.lesser(p),
            },
            // Counted from the back, not before the front of the axis.
            (_, Some(high)) if high < 0 => n.add(p)?.greater(&Expr::from(0)),
            _ => None,
        }
    };
    // A part that begins behind the end of the axis is empty, like one that ends before it begins.
    let from = if begin.constant().is_some_and(|b| b >= 0) { Some(begin.clone()) } else { place(begin) };
    let length = from.zip(place(end)).and_then(|(b, e)| e.sub(&b)?.greater(&Expr::from(0)));
    dims::of_value(length.as_ref())
}
fn slice(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let x = &c.input(0)?.shape;
    let Some(r) = x.rank() else { return read::one(c, Shape::unranked()) };
    let (Some(o), Some(s)) = (read::ints_or_input(c, "offsets", 1), read::ints_or_input(c, "size", 2)) else {
        let sizes = c.values(2).filter(|v| v.len() == r && read::ints(c, "size").is_none());
        let known = |v: Vec<Option<Expr>>| Shape::new(v.iter().map(|v| dims::of_value(v.as_ref())));
        return read::one(c, sizes.map_or_else(|| dims::unknown(r), known));
    };
    if o.len() != r || s.len() != r {
        return Err(bad("offsets and size", format!("{} and {} numbers", o.len(), s.len()), format!("{r} each")));
    }
    let d = (0..r).map(|i| match (dims::size(x.dims()[i]), s[i]) {
        (Some(n), -1) => Ok(dims::from_i64((n - o[i]).max(0))),
        (Some(n), k) if o[i] < 0 || k < 0 || o[i].checked_add(k).is_none_or(|e| e > n) => {
            Err(bad(format!("slice of dimension {i}"), format!("{k} from {}", o[i]), format!("a part of {n}")))
        }
        (_, -1) => Ok(Dim::UNKNOWN),
        (_, k) => Ok(dims::from_i64(k)),
    });
    let d = d.collect::<Result<Vec<_>>>()?;
    read::one(c, Shape::new(d))
}
fn gather(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let (x, i) = (&c.input(0)?.shape, &c.input(1)?.shape);
    let (Some(r), Some(ri)) = (x.rank(), i.rank()) else { return read::one(c, Shape::unranked()) };
    let a = if c.node.op() == "GatherV2" {
        c.const_ints(2).and_then(|v| v.first().copied())
    } else {
        Some(read::int(c, "axis", 0))
    };
    let b = usize::try_from(read::int(c, "batch_dims", 0)).unwrap_or(0);
    let Some(a) = a else { return read::one(c, dims::unknown((r + ri).saturating_sub(1 + b))) };
    let a = read::axis("axis", a, r)?;
    if b > ri || b > a {
        return Err(bad("attribute `batch_dims`", b, format!("at most {}", ri.min(a))));
    }
    let mut d = x.dims()[..a].to_vec();
    d.extend_from_slice(&i.dims()[b..]);
    d.extend_from_slice(&x.dims()[a + 1..]);
    read::one(c, Shape::new(d))
}
fn gather_elements(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    if let Some(r) = c.input(0)?.shape.rank() {
        read::axis("attribute `dim`", read::int(c, "dim", 0), r)?;
        read::rank_in(c, 1, "index", r, r)?;
    }
    let s = c.input(1)?.shape.clone();
    read::one(c, s)
}
fn gather_nd(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let (x, i) = (&c.input(0)?.shape, &c.input(1)?.shape);
    let b = usize::try_from(read::int(c, "batch_dims", 0)).unwrap_or(0);
    let (Some(r), Some(ri), Some(k)) = (x.rank(), i.rank(), i.dims().last().and_then(|d| dims::size(*d))) else {
        return read::one(c, Shape::unranked());
    };
    let k = usize::try_from(k).unwrap_or(usize::MAX);
    if ri == 0 || b >= ri || k.checked_add(b).is_none_or(|n| n > r) {
        return Err(bad("input 1 `indices`", i, format!("a last dimension of at most {}", r.saturating_sub(b))));
    }
    let mut d = i.dims()[..ri - 1].to_vec();
    d.extend_from_slice(&x.dims()[b + k..]);
    read::one(c, Shape::new(d))
}

fn defs() -> Vec<OpDef> {
    let i = AttrKind::INT;
    let reduction =
        |d: OpDef| d.attr("reduction", AttrKind::STRING, "none").choices(&["none", "add", "mul", "min", "max"]);
    let x = |name: &str, f| OpDef::new(name, f).input("x", ANY, "T");
    let gathers = |name: &str, f| x(name, f).input("indices", INDEX, "").output("y", ANY, "T").flags(INDEXES);
    let scatter = |name: &str| {
        reduction(
            OpDef::new(name, infer::same)
                .input("data", ANY, "T")
                .input("indices", INDEX, "")
                .input("updates", ANY, "T")
                .output("y", ANY, "T"),
        )
        .flags(REPLACES | INDEXES)
    };
    vec![
        x("StridedSliceV2", strided)
            .input("begin", INDEX, "")
            .input("end", INDEX, "")
            .opt("axes", INDEX, "")
            .opt("strides", INDEX, "")
            .output("y", ANY, "T")
            .value_inputs(&[1, 2, 3, 4]),
        x("StridedSliceD", strided)
            .output("y", ANY, "T")
            .required_attr("begin", AttrKind::INTS)
            .required_attr("end", AttrKind::INTS)
            .opt_attr("strides", AttrKind::INTS),
        x("Slice", slice)
            .input("offsets", INDEX, "")
            .input("size", INDEX, "")
            .output("y", ANY, "T")
            .value_inputs(&[1, 2]),
        x("SliceD", slice)
            .output("y", ANY, "T")
            .required_attr("offsets", AttrKind::INTS)
            .required_attr("size", AttrKind::INTS),
        x("GatherV2", gather)
            .input("indices", INDEX, "")
            .input("axis", INDEX, "")
            .output("y", ANY, "T")
            .attr("batch_dims", i, 0i64)
            .value_inputs(&[2])
            .flags(INDEXES),
        gathers("Gather", gather).attr("axis", i, 0i64).attr("batch_dims", i, 0i64),
        x("GatherElements", gather_elements)
            .input("index", INDEX, "")
            .output("y", ANY, "T")
            .attr("dim", i, 0i64)
            .flags(INDEXES),
        gathers("GatherNd", gather_nd).attr("batch_dims", i, 0i64),
        scatter("ScatterElements").attr("axis", i, 0i64),
        scatter("TensorScatterUpdate"),
        OpDef::new("TensorScatter", infer::same)
            .input("past_cache", ANY, "T")
            .input("update", ANY, "T")
            .opt("write_indices", INDEX, "")
            .output("present_cache", ANY, "T")
            .flags(REPLACES | MAY_FAIL)
            .attr("axis", i, -2i64)
            .attr("mode", AttrKind::STRING, "linear")
            .choices(&["linear", "circular"]),
        x("ReverseSequence", infer::same)
            .input("seq_lengths", INDEX, "")
            .output("y", ANY, "T")
            .attr("seq_dim", i, 0i64)
            .attr("batch_dim", i, 1i64)
            .flags(MAY_FAIL),
        // The type list keeps the documentation tables exact about the index type of scatters.
        OpDef::new("ScatterNd", scatter_nd)
            .input("indices", INDEX, "")
            .input("x", ANY, "T")
            .input("shape", INDEX, "")
            .output("y", ANY, "T")
            .value_inputs(&[2])
            .flags(MAY_FAIL),
    ]
}
fn scatter_nd(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let t: DType = c.input(1)?.dtype;
    let computed = || c.values(2).map(|v| Shape::new(v.iter().map(|v| dims::of_value(v.as_ref()))));
    Ok(vec![TensorDesc::new(t, c.const_ints(2).map(|v| Shape::from_i64(&v)).or_else(computed).unwrap_or_default())])
}
register_ops!(defs);
