//! Operators that change or create shapes.
//!
//! * `Reshape(x, shape) {allowzero = 0}`: 0 copies the dimension of x (with allowzero 1 it means
//!   zero), and one -1 is computed. A list attribute `shape` may replace the input; with `what`, x
//!   is one number, which the attribute names in the error.
//!   `Flatten(x) {axis = 1}` gives a matrix; `Squeeze(x) {axis = []}` (empty: all dimensions of
//!   size 1), `Unsqueeze(x) {axes}` (positions in the result), `SqueezeV3(x, axes?)`,
//!   `UnsqueezeV3(x, axes)`, `ExpandDims(x, axis)`.
//! * `TransposeD(x) {perm}` and `Transpose(x, perm?) {perm}`: without perm the axes are reversed.
//!   The result's format is the one that the permutation turns the format's letters into (NHWC by
//!   0, 3, 1, 2 is NCHW). `TransData(x) {src_format, dst_format, groups}`: a change of layout.
//!   `TransShape(x) {outShape}`: the same elements with another shape.
//!   `SameSize(x, like) {axis = 0, like_axis = 0, what}`: x, whose size along an axis must be that of
//!   `like` along another one; `what` names this size in the error.
//! * `Shape(x) {dtype = i64, start = 0, end}`, `Size(x) {dtype = i64}`, `Rank(x)` (i32): they do
//!   not read the data.
//! * `BroadcastTo(x, shape)`; `Expand(x, shape)`: x and shape are broadcast against each other
//!   (ONNX). `Tile(x, multiples)`, `TileD {multiples}`.
//! * `PadV3(x, paddings, constant_values?, axes?) {mode = "constant" | "reflect" | "edge" | "wrap", paddings_contiguous = true}`:
//!   if `paddings_contiguous` is true, begin and end of each axis in turn; otherwise all begins,
//!   then all ends (ONNX). Negative pads crop. `PadD {paddings}`.
//! * `DepthToSpace(x [N,C,H,W]) {block_size, mode = "DCR" | "CRD"}`, `SpaceToDepth(x)
//!   {block_size, mode}`, both NCHW.
//! * `Fill(dims, value)`, `Range(start, limit, delta)`, `EyeLike(x) {dtype, k}`,
//!   `Trilu(x, k?) {upper = true}`.
//! * `CenterCropPad(x, shape) {axes}`: crops or pads (with zeros) around the middle, as in ONNX.
use crate::dims;
use crate::read::{self, bad};
use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::ops::{AttrKind, InferCtx, OpDef, flags::*, infer};
use ge_plugin_api::register_ops;
use ge_plugin_api::types::dtype::{ANY, INDEX, NUMERIC};
use ge_plugin_api::types::{DType, Dim, Expr, Format, Shape, TensorDesc, format};

/// Most dimensions that a shape tensor may ask for.
const MOST_DIMS: u64 = 64;

fn length(s: &Shape) -> Option<usize> {
    s.dims().first().and_then(|d| d.size()).filter(|&n| n <= MOST_DIMS).and_then(|n| usize::try_from(n).ok())
}
/// The shape that a Reshape to `wanted` gives.
pub fn reshaped(x: &Shape, wanted: &[i64], allow_zero: bool) -> Result<Shape> {
    let wanted: Vec<Wanted> = wanted.iter().map(|&v| Wanted { number: v, size: None }).collect();
    reshaped_to(x, &wanted, allow_zero)
}
/// One entry of a wanted shape: a number, where 0 and -1 have their special meanings, or a computed
/// size.
struct Wanted {
    number: i64,
    size: Option<Dim>,
}
fn reshaped_to(x: &Shape, wanted: &[Wanted], allow_zero: bool) -> Result<Shape> {
    let xd = x.dims();
    let mut out = Vec::with_capacity(wanted.len());
    let mut hole = None;
    let told = || format!("{:?}", wanted.iter().map(|w| w.number).collect::<Vec<_>>());
    for (i, w) in wanted.iter().enumerate() {
        if let Some(d) = w.size {
            out.push(d);
            continue;
        }
        out.push(match w.number {
            -1 if hole.is_none() => {
                hole = Some(i);
                Dim::UNKNOWN
            }
            0 if !allow_zero => match x.rank() {
                Some(_) => {
                    *xd.get(i).ok_or_else(|| bad("shape", format!("0 at {i}"), format!("a place within {x}")))?
                }
                None => Dim::UNKNOWN,
            },
            v if v >= 0 => dims::from_i64(v),
            _ => return Err(bad("shape", told(), "sizes, and at most one -1")),
        });
    }
    if let (Some(h), Some(_)) = (hole, x.rank()) {
        // Unknown dimensions that occur on both sides cancel.
        let mut from: Vec<Dim> = xd.to_vec();
        let mut known: u64 = 1;
        let mut open = false;
        for (i, &d) in out.iter().enumerate().filter(|(i, _)| *i != h) {
            match d.size() {
                Some(s) => known = known.saturating_mul(s),
                None => {
                    // A copied unknown dimension (0 in the shape) cancels with the dimension that
                    // it was copied from.
                    let at = if d == Dim::UNKNOWN && wanted[i].number == 0 && wanted[i].size.is_none() {
                        Some(i).filter(|&i| i < from.len())
                    } else {
                        from.iter().position(|f| f.same(d))
                    };
                    match at {
                        Some(p) => from[p] = Dim::known(1),
                        None => open = true,
                    }
                }
            }
        }
        let rest: Vec<Dim> = from.iter().copied().filter(|d| !d.is_known()).collect();
        let total = from.iter().filter_map(|d| d.size()).fold(1u64, u64::saturating_mul);
        if !open && rest.is_empty() {
            if known == 0 || total % known != 0 {
                if !(known == 0 && total == 0) {
                    return Err(bad("shape", told(), format!("sizes that {total} elements of {x} can take")));
                }
                out[h] = Dim::known(0);
            } else {
                out[h] = Dim::known(total / known);
            }
        } else if !open && rest.len() == 1 && total == known {
            out[h] = rest[0];
        } else if known > 0 {
            // The quotient of the whole product by the other sizes.
            let others: Vec<Dim> = out.iter().enumerate().filter(|(i, _)| *i != h).map(|(_, d)| *d).collect();
            let all = |dims: &[Dim]| dims.iter().try_fold(Expr::from(1), |a, d| a.mul(&Expr::of(*d)?));
            out[h] = dims::of_value(all(xd).and_then(|a| a.div_exact(&all(&others)?)).as_ref());
        }
    }
    let s = Shape::new(out);
    if let (Some(a), Some(b)) = (x.count(), s.count()) {
        if a != b {
            return Err(bad("shape", format!("{s} ({b} elements)"), format!("{a} elements as in {x}")));
        }
    }
    Ok(s)
}
fn reshape(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let x = c.input(0)?;
    // A value that must be one number says what it is.
    if let (Some(what), Some(n)) = (c.node.str("what"), x.shape.count())
        && n != 1
    {
        return Err(bad(what, format!("{n} elements ({}{})", x.dtype, x.shape), "one element"));
    }
    let s = match read::ints_or_input(c, "shape", 1) {
        Some(v) => reshaped(&x.shape, &v, read::int(c, "allowzero", 0) != 0)?,
        None => match c.values(1) {
            Some(v) => {
                reshaped_to(&x.shape, &v.iter().map(wanted).collect::<Vec<_>>(), read::int(c, "allowzero", 0) != 0)?
            }
            None => c.opt_input(1).and_then(|d| length(&d.shape)).map_or_else(Shape::unranked, dims::unknown),
        },
    };
    Ok(vec![TensorDesc::new(x.dtype, s)])
}
/// An entry of a wanted shape. A value that may be negative at run time stays unknown, because -1
/// has a special meaning.
fn wanted(v: &Option<Expr>) -> Wanted {
    match v {
        Some(e) => match e.constant() {
            Some(number) => Wanted { number, size: None },
            None => Wanted { number: 1, size: Some(e.dim()) },
        },
        None => Wanted { number: 1, size: Some(Dim::UNKNOWN) },
    }
}
fn flatten(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let x = c.input(0)?;
    let Some(r) = x.shape.rank() else { return Ok(vec![TensorDesc::new(x.dtype, dims::unknown(2))]) };
    let a = read::int(c, "axis", 1);
    let at = usize::try_from(if a < 0 { a + r as i64 } else { a }).ok().filter(|&a| a <= r);
    let at = at.ok_or_else(|| bad("attribute `axis`", a, format!("-{r} to {r}")))?;
    let d = x.shape.dims();
    Ok(vec![TensorDesc::new(x.dtype, Shape::new([dims::product(&d[..at]), dims::product(&d[at..])]))])
}
fn squeeze(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let x = c.input(0)?;
    let given = read::ints(c, "axis").is_some_and(|v| !v.is_empty()) || c.opt_input(1).is_some();
    let list = if given { read::ints_or_input(c, "axis", 1).filter(|v| !v.is_empty()) } else { None };
    let s = match (x.shape.rank(), given, list) {
        (Some(r), _, Some(v)) => {
            let axes = read::axes("axes", &v, r)?;
            if let Some(&a) = axes.iter().find(|&&a| x.shape.dims()[a].size().is_some_and(|s| s != 1)) {
                return Err(bad(format!("dimension {a} of {}", x.shape), x.shape.dims()[a], "1"));
            }
            crate::reduce::reduced(&x.shape, &axes, false)
        }
        (Some(_), false, _) if x.shape.is_static() => {
            Shape::new(x.shape.dims().iter().copied().filter(|d| d.size() != Some(1)))
        }
        _ => Shape::unranked(),
    };
    Ok(vec![TensorDesc::new(x.dtype, s)])
}
fn unsqueeze(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let x = c.input(0)?;
    let list = match c.node.op() {
        "ExpandDims" => c.node.int("axis").map(|a| vec![a]).or_else(|| c.const_ints(1)),
        _ => read::ints_or_input(c, "axes", 1),
    };
    let s =
        match (x.shape.rank(), list) {
            (Some(r), Some(v)) => {
                let axes = read::axes("axes", &v, r + v.len())?;
                let mut rest = x.shape.dims().iter();
                Shape::new((0..r + v.len()).map(|i| {
                    if axes.contains(&i) { Dim::known(1) } else { rest.next().copied().unwrap_or(Dim::UNKNOWN) }
                }))
            }
            _ => Shape::unranked(),
        };
    Ok(vec![TensorDesc::new(x.dtype, s)])
}
fn transpose(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let x = c.input(0)?;
    let Some(r) = x.shape.rank() else { return Ok(vec![TensorDesc::new(x.dtype, Shape::unranked())]) };
    let perm = match (read::ints(c, "perm").filter(|v| !v.is_empty() || r == 0), c.opt_input(1)) {
        (Some(v), _) => Some(v.to_vec()),
        (None, Some(_)) => c.const_ints(1),
        (None, None) => Some((0..r as i64).rev().collect()),
    };
    let Some(p) = perm else { return Ok(vec![TensorDesc::new(x.dtype, dims::unknown(r))]) };
    if p.len() != r || read::axes("perm", &p, r)?.len() != r {
        return Err(bad("perm", format!("{p:?}"), format!("a permutation of {r} axes")));
    }
    let from: Vec<usize> = p.iter().map(|&a| read::axis("perm", a, r).unwrap_or(0)).collect();
    let s = Shape::new(from.iter().map(|&a| x.shape.dims()[a]));
    Ok(vec![TensorDesc::new(x.dtype, s).with_format(permuted(x.format, &from))])
}
/// The format whose letters are those of `format` in a new order: NHWC by 0, 3, 1, 2 is NCHW. ND if
/// there is no format of that name.
fn permuted(format: Format, from: &[usize]) -> Format {
    let letters = format.name().as_bytes();
    if letters.len() != from.len() || !letters.iter().all(u8::is_ascii_uppercase) {
        return Format::ND;
    }
    let name: String = from.iter().map(|&a| char::from(letters[a])).collect();
    Format::from_name(&name).unwrap_or(Format::ND)
}
/// `TransShape`: the shape in its attribute, or else the one that the graph states.
fn trans_shape(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let x = c.input(0)?;
    match read::ints(c, "outShape").filter(|v| !v.is_empty()) {
        Some(v) => Ok(vec![TensorDesc::new(x.dtype, Shape::from_i64(v))]),
        None => Ok(vec![c.node.outputs().first().cloned().unwrap_or_else(TensorDesc::unknown)]),
    }
}
fn trans_data(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let x = c.input(0)?;
    let to = c.node.str("dst_format").and_then(Format::from_name);
    let from = c.node.str("src_format").and_then(Format::from_name).unwrap_or(x.format);
    // The result is inferred only if the layouts determine it; otherwise what the graph states
    // stays.
    let Some(to) = to else {
        return Ok(vec![c.node.outputs().first().cloned().unwrap_or_else(TensorDesc::unknown)]);
    };
    if format::is_plain(from) {
        if let Some(s) = format::transfer_shape(from, &x.shape, to, x.dtype) {
            let mut d = TensorDesc::new(x.dtype, s).with_format(to);
            d.origin = x.origin.clone();
            if x.origin.is_none() && !format::is_plain(to) {
                d.origin = ge_plugin_api::abi::ROption::RSome(ge_plugin_api::types::Origin {
                    format: from,
                    shape: x.shape.clone(),
                });
            }
            return Ok(vec![d]);
        }
    }
    let mut d = c.node.outputs().first().cloned().unwrap_or_else(TensorDesc::unknown);
    if d.shape.is_unranked() && format::is_plain(to) {
        d = TensorDesc::new(x.dtype, Shape::unranked());
        if x.origin_format() == to {
            d.shape = x.origin_shape().clone();
        }
    }
    d.dtype = x.dtype;
    d.format = to;
    Ok(vec![d])
}
fn shape_of(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let n = match c.input(0)?.shape.rank() {
        Some(r) => {
            let r = r as i64;
            let clamp = |v: i64| (if v < 0 { v + r } else { v }).clamp(0, r);
            let (b, e) = (clamp(read::int(c, "start", 0)), clamp(c.node.int("end").unwrap_or(r)));
            dims::from_i64((e - b).max(0))
        }
        None => Dim::UNKNOWN,
    };
    Ok(vec![TensorDesc::new(read::dtype(c, "dtype").unwrap_or(DType::I64), Shape::new([n]))])
}
fn size_of(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let t = if c.node.op() == "Rank" { DType::I32 } else { DType::I64 };
    Ok(vec![TensorDesc::new(read::dtype(c, "dtype").unwrap_or(t), Shape::scalar())])
}
fn from_values(c: &InferCtx<'_>, i: usize) -> Result<Shape> {
    Ok(match c.const_ints(i) {
        Some(v) => match v.iter().find(|&&d| d < 0) {
            Some(d) => return Err(bad(format!("input {i}"), d, "sizes of zero or more")),
            None => Shape::from_i64(&v),
        },
        None => match c.values(i) {
            Some(v) => Shape::new(v.iter().map(|v| dims::of_value(v.as_ref()))),
            None => c.opt_input(i).and_then(|d| length(&d.shape)).map_or_else(Shape::unranked, dims::unknown),
        },
    })
}
fn expand(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let s = from_values(c, 1)?;
    let x = &c.input(0)?.shape;
    let known = c.const_ints(1).is_some() || c.values(1).is_some();
    let s = match (x.rank(), s.rank()) {
        (Some(a), Some(b)) if !known => dims::unknown(a.max(b)),
        _ => infer::broadcast_shapes(x, &s)?,
    };
    read::one(c, s)
}
fn broadcast_to(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let s = from_values(c, 1)?;
    if c.const_ints(1).is_some() {
        let b = infer::broadcast_shapes(&c.input(0)?.shape, &s)?;
        if let (Some(x), Some(y)) = (b.sizes(), s.sizes()) {
            if x != y {
                return Err(bad("input 1 `shape`", &s, format!("a shape that {} broadcasts to", c.input(0)?.shape)));
            }
        }
    }
    read::one(c, s)
}
fn tile(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let x = &c.input(0)?.shape;
    let Some(r) = x.rank() else { return read::one(c, Shape::unranked()) };
    let s = match read::ints_or_input(c, "multiples", 1) {
        Some(m) if m.len() == r && m.iter().all(|&v| v >= 0) => {
            Shape::new(x.dims().iter().zip(&m).map(|(&d, &k)| dims::mul(d, dims::from_i64(k))))
        }
        Some(m) => return Err(bad("multiples", format!("{m:?}"), format!("{r} numbers of zero or more"))),
        None => match c.values(1).filter(|m| m.len() == r) {
            Some(m) => Shape::new(x.dims().iter().zip(&m).map(|(&d, k)| dims::mul(d, dims::of_value(k.as_ref())))),
            None => dims::unknown(r),
        },
    };
    read::one(c, s)
}
fn pad(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let x = &c.input(0)?.shape;
    let Some(r) = x.rank() else { return read::one(c, Shape::unranked()) };
    let axes = match c.opt_input(3) {
        Some(_) => match c.const_ints(3) {
            Some(v) => v.iter().map(|&a| read::axis("input 3 `axes`", a, r)).collect::<Result<Vec<_>>>()?,
            None => return read::one(c, dims::unknown(r)),
        },
        None => (0..r).collect(),
    };
    let Some(p) = read::ints_or_input(c, "paddings", 1) else { return read::one(c, dims::unknown(r)) };
    let n = axes.len();
    if p.len() != 2 * n {
        return Err(bad("paddings", format!("{} numbers", p.len()), format!("{} numbers", 2 * n)));
    }
    let pairs = read::flag(c, "paddings_contiguous", true);
    let mut d = x.dims().to_vec();
    for (i, &a) in axes.iter().enumerate() {
        let (b, e) = if pairs { (p[2 * i], p[2 * i + 1]) } else { (p[i], p[n + i]) };
        d[a] = match dims::size(d[a]).map(|s| i128::from(s) + i128::from(b) + i128::from(e)) {
            Some(v) if v < 0 => {
                return Err(bad("paddings", format!("{b} and {e}"), format!("pads that leave something of {}", d[a])));
            }
            Some(v) => i64::try_from(v).map_or(Dim::UNKNOWN, dims::from_i64),
            None => dims::plus(d[a], b.saturating_add(e)),
        };
    }
    read::one(c, Shape::new(d))
}
fn depth_to_space(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    block(c, true)
}
fn space_to_depth(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    block(c, false)
}
fn block(c: &InferCtx<'_>, out: bool) -> Result<Vec<TensorDesc>> {
    if read::rank_in(c, 0, "x", 4, 4)?.is_none() {
        return read::one(c, dims::unknown(4));
    }
    let d = c.input(0)?.shape.dims();
    let b = read::int(c, "block_size", 0);
    let up = |d: Dim, k: i64| dims::mul(d, dims::from_i64(k));
    let down = |d: Dim, k: i64, what: &str| match dims::size(d) {
        Some(v) if k < 1 || v % k != 0 => Err(bad(what, v, format!("a multiple of {k}"))),
        Some(v) => Ok(dims::from_i64(v / k)),
        None => Ok(dims::over(d, k)),
    };
    let s = if out {
        [d[0], down(d[1], b.saturating_mul(b), "channels")?, up(d[2], b), up(d[3], b)]
    } else {
        [d[0], up(d[1], b.saturating_mul(b)), down(d[2], b, "height")?, down(d[3], b, "width")?]
    };
    read::one(c, Shape::new(s))
}
fn fill(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    Ok(vec![TensorDesc::new(c.input(1)?.dtype, from_values(c, 0)?)])
}
fn range(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let at = |i: usize| c.constant(i).and_then(|t| t.to_f64(1)).and_then(|v| v.first().copied());
    let n = match (at(0), at(1), at(2)) {
        (Some(_), Some(_), Some(0.0)) => return Err(bad("input 2 `delta`", 0, "a step other than zero")),
        (Some(a), Some(b), Some(s)) => {
            let n = ((b - a) / s).ceil();
            if n.is_finite() && n < 1e15 {
                Dim::known(n.max(0.0) as u64)
            } else {
                return Err(bad("length of the range", n, "a finite number below 1e15"));
            }
        }
        _ => steps(c).as_ref().map_or(Dim::UNKNOWN, Expr::dim),
    };
    read::one(c, Shape::new([n]))
}
/// The number of elements of an integer range whose bounds are expressions of sizes: max(0,
/// ceil((limit - start) / delta)).
fn steps(c: &InferCtx<'_>) -> Option<Expr> {
    if !(0..3).all(|i| c.opt_input(i).is_some_and(|d| d.dtype.is_int())) {
        return None;
    }
    let one = |i: usize| match c.values(i)?.as_slice() {
        [v] => v.clone(),
        _ => None,
    };
    let (start, limit, delta) = (one(0)?, one(1)?, one(2)?.constant()?);
    let way = if delta > 0 { limit.sub(&start)? } else { start.sub(&limit)? };
    let by = i64::try_from(delta.unsigned_abs()).ok().filter(|d| *d > 0)?;
    way.add(&Expr::from(by - 1))?.div_floor(by)?.greater(&Expr::default())
}
/// x as it is. Its size has the name or number that `like` gives it, so that the node goes where
/// both are certain to be equal, and only there.
fn same_size(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let (x, like) = (c.like(0)?, c.like(1)?);
    let at = |d: &TensorDesc, key: &str| match d.shape.rank() {
        Some(r) => read::axis(&format!("attribute `{key}`"), read::int(c, key, 0), r).map(Some),
        None => Ok(None),
    };
    let (here, there) = (at(&x, "axis")?, at(&like, "like_axis")?);
    let Some(here) = here else { return Ok(vec![x]) };
    let want = there.map_or(Dim::UNKNOWN, |k| like.shape.dims()[k]);
    let found = x.shape.dims()[here];
    if let (Some(found), Some(wanted)) = (found.size(), want.size())
        && found != wanted
    {
        let what = c.node.str("what").unwrap_or("size");
        return Err(bad(what, format!("{found} ({})", x.shape), format!("{wanted} as in {}", like.shape)));
    }
    let mut y = x;
    y.shape.dims_mut()[here] = want;
    Ok(vec![y])
}
fn eye_like(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let mut d = c.like(0)?;
    d.dtype = read::dtype(c, "dtype").unwrap_or(d.dtype);
    Ok(vec![d])
}
fn center_crop_pad(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let x = &c.input(0)?.shape;
    let Some(r) = x.rank() else { return read::one(c, Shape::unranked()) };
    let axes = match read::ints(c, "axes").filter(|v| !v.is_empty()) {
        Some(v) => v.iter().map(|&a| read::axis("attribute `axes`", a, r)).collect::<Result<Vec<_>>>()?,
        None => (0..r).collect(),
    };
    let mut d = x.dims().to_vec();
    let v = c.const_ints(1);
    for (i, &a) in axes.iter().enumerate() {
        d[a] = v.as_ref().and_then(|v| v.get(i)).map_or(Dim::UNKNOWN, |&n| dims::from_i64(n));
    }
    read::one(c, Shape::new(d))
}

fn defs() -> Vec<OpDef> {
    let i = AttrKind::INT;
    let view = |name: &str, f| OpDef::new(name, f).input("x", ANY, "T").flags(VIEW);
    let layout = |name: &str, f| OpDef::new(name, f).input("x", ANY, "T").flags(TRANS_OP);
    let like = |name: &str, f| OpDef::new(name, f).input("x", ANY, "T");
    vec![
        view("Reshape", reshape)
            .opt("shape", INDEX, "")
            .output("y", ANY, "T")
            .attr("allowzero", i, 0i64)
            .opt_attr("shape", AttrKind::INTS)
            .opt_attr("what", AttrKind::STRING)
            .value_inputs(&[1])
            .flags(TRANS_OP),
        view("Flatten", flatten).output("y", ANY, "T").attr("axis", i, 1i64),
        view("Squeeze", squeeze).output("y", ANY, "T").attr("axis", AttrKind::INTS, Vec::<i64>::new()).flags(TRANS_OP),
        view("SqueezeV3", squeeze).opt("axes", INDEX, "").output("y", ANY, "T").value_inputs(&[1]),
        view("Unsqueeze", unsqueeze).output("y", ANY, "T").required_attr("axes", AttrKind::INTS).flags(TRANS_OP),
        view("UnsqueezeV3", unsqueeze).input("axes", INDEX, "").output("y", ANY, "T").value_inputs(&[1]),
        view("ExpandDims", unsqueeze)
            .opt("axis", INDEX, "")
            .output("y", ANY, "T")
            .opt_attr("axis", i)
            .value_inputs(&[1]),
        view("SameSize", same_size)
            .input("like", ANY, "")
            .output("y", ANY, "T")
            .attr("axis", i, 0i64)
            .attr("like_axis", i, 0i64)
            .opt_attr("what", AttrKind::STRING),
        layout("TransposeD", transpose).output("y", ANY, "T").opt_attr("perm", AttrKind::INTS),
        layout("Transpose", transpose)
            .opt("perm", INDEX, "")
            .output("y", ANY, "T")
            .opt_attr("perm", AttrKind::INTS)
            .value_inputs(&[1]),
        view("TransShape", trans_shape).output("y", ANY, "T").attr("outShape", AttrKind::INTS, Vec::<i64>::new()),
        layout("TransData", trans_data)
            .output("dst", ANY, "T")
            .opt_attr("src_format", AttrKind::STRING)
            .opt_attr("dst_format", AttrKind::STRING)
            .attr("groups", i, 1i64),
        like("Shape", shape_of)
            .output("y", INDEX, "")
            .attr("dtype", AttrKind::TYPE, DType::I64)
            .attr("start", i, 0i64)
            .opt_attr("end", i),
        like("Size", size_of).output("y", INDEX, "").attr("dtype", AttrKind::TYPE, DType::I64),
        like("Rank", size_of).output("y", INDEX, ""),
        like("BroadcastTo", broadcast_to).input("shape", INDEX, "").output("y", ANY, "T").value_inputs(&[1]),
        like("Expand", expand).input("shape", INDEX, "").output("y", ANY, "T").value_inputs(&[1]),
        like("Tile", tile).input("multiples", INDEX, "").output("y", ANY, "T").value_inputs(&[1]),
        like("TileD", tile).output("y", ANY, "T").required_attr("multiples", AttrKind::INTS),
        like("PadV3", pad)
            .input("paddings", INDEX, "")
            .opt("constant_values", ANY, "T")
            .opt("axes", INDEX, "")
            .output("y", ANY, "T")
            .attr("mode", AttrKind::STRING, "constant")
            .choices(&["constant", "reflect", "edge", "wrap"])
            .attr("paddings_contiguous", AttrKind::BOOL, true)
            .value_inputs(&[1, 3]),
        like("PadD", pad).output("y", ANY, "T").required_attr("paddings", AttrKind::INTS),
        like("DepthToSpace", depth_to_space)
            .output("y", ANY, "T")
            .required_attr("block_size", i)
            .range(1.0, f64::INFINITY)
            .attr("mode", AttrKind::STRING, "DCR")
            .choices(&["DCR", "CRD"])
            .attr("data_format", AttrKind::STRING, "NCHW"),
        like("SpaceToDepth", space_to_depth)
            .output("y", ANY, "T")
            .required_attr("block_size", i)
            .range(1.0, f64::INFINITY)
            .attr("mode", AttrKind::STRING, "DCR")
            .choices(&["DCR", "CRD"])
            .attr("data_format", AttrKind::STRING, "NCHW"),
        OpDef::new("Fill", fill)
            .input("dims", INDEX, "")
            .input("value", ANY, "T")
            .output("y", ANY, "T")
            .value_inputs(&[0]),
        OpDef::new("Range", range)
            .input("start", NUMERIC, "T")
            .input("limit", NUMERIC, "T")
            .input("delta", NUMERIC, "T")
            .output("y", NUMERIC, "T")
            .value_inputs(&[0, 1, 2]),
        like("EyeLike", eye_like).output("y", ANY, "").opt_attr("dtype", AttrKind::TYPE).attr("k", i, 0i64),
        like("Trilu", infer::same).opt("k", INDEX, "").output("y", ANY, "T").attr("upper", AttrKind::BOOL, true),
        like("CenterCropPad", center_crop_pad)
            .input("shape", INDEX, "")
            .output("y", ANY, "T")
            .attr("axes", AttrKind::INTS, Vec::<i64>::new())
            .value_inputs(&[1]),
    ]
}
register_ops!(defs);
