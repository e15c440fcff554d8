//! Matrix products.
//!
//! * `MatMulV2(x1, x2, bias?, offset_w?) {transpose_x1, transpose_x2, y_dtype?}`: product of
//!   matrices; `bias [N]` is added to each row; `y_dtype` is the output type if it differs from
//!   that of the factors.
//! * `BatchMatMulV2(x1, x2, bias?, offset_w?) {adj_x1, adj_x2}`: NumPy's matmul. Leading dimensions
//!   broadcast; a vector is treated as a row (x1) or a column (x2), and that axis is not in the
//!   result. `adj_*` swaps the last two axes (ignored for vectors).
//! * `MatMulInteger(a, b, a_zero_point?, b_zero_point?) -> i32` and
//!   `QLinearMatMul(a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point)` as
//!   in ONNX: matmul of 8-bit numbers minus their zero points. A scale or zero point is one number,
//!   one per row of a or y `[M]` or per column of b `[N]`, or one per row `[..., M, 1]` or column
//!   `[..., 1, N]` of each matrix.
//! * `GroupedMatmul(x [M,K], weight [E,K,N], group_list i64[E], bias? [E,N]) {group_list_type}`:
//!   the rows of x form E groups, each of which is multiplied by its own matrix. `group_list` holds
//!   cumulative ends (type 0) or the number of rows in each group (type 1).
//! * `Einsum(x...) {equation, N}`; `MatrixDeterminant(x [...,n,n]) -> [...]`.
use crate::dims;
use crate::elementwise::INTEGERS;
use crate::read;
use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::ops::{
    AttrKind, InferCtx, OpDef,
    flags::{FULL_PRECISION, LOW_PRECISION, PRODUCT},
    infer,
};
use ge_plugin_api::register_ops;
use ge_plugin_api::types::dtype::{FLOATS, INDEX, NUMERIC};
use ge_plugin_api::types::{DType, Dim, Shape, TensorDesc};

const BYTE: &[DType] = &[DType::I8, DType::U8];
const F8: &[DType] = &[DType::I8, DType::U8, DType::F8E4M3FN, DType::F8E4M3FNUZ, DType::F8E5M2, DType::F8E5M2FNUZ];

/// The result shape of NumPy's matmul; `swap_*` swaps the last two axes of a factor.
pub fn matmul_shape(a: &Shape, b: &Shape, swap_a: bool, swap_b: bool) -> Result<Shape> {
    let (Some(ra), Some(rb)) = (a.rank(), b.rank()) else { return Ok(Shape::unranked()) };
    if ra == 0 || rb == 0 {
        return Err(read::bad("input of the product", "a scalar", "a vector or a matrix"));
    }
    let (da, db) = (a.dims(), b.dims());
    let (m, ka) = match (ra, swap_a) {
        (1, _) => (None, da[0]),
        (_, false) => (Some(da[ra - 2]), da[ra - 1]),
        (_, true) => (Some(da[ra - 1]), da[ra - 2]),
    };
    let (kb, n) = match (rb, swap_b) {
        (1, _) => (db[0], None),
        (_, false) => (db[rb - 2], Some(db[rb - 1])),
        (_, true) => (db[rb - 1], Some(db[rb - 2])),
    };
    if dims::meet(ka, kb).is_none() {
        return Err(read::bad("inner dimensions of the product", format!("{ka} and {kb} ({a} by {b})"), "equal ones"));
    }
    let lead_a = Shape::new(da[..ra.saturating_sub(2)].iter().copied());
    let lead_b = Shape::new(db[..rb.saturating_sub(2)].iter().copied());
    let mut out: Vec<Dim> = infer::broadcast_shapes(&lead_a, &lead_b)?.dims().to_vec();
    out.extend(m);
    out.extend(n);
    Ok(Shape::new(out))
}
fn bias_fits(c: &InferCtx<'_>, y: &Shape) -> Result<()> {
    if let (Some(b), Some(&n)) = (c.opt_input(2), y.dims().last()) {
        if let (Some(r), Some(&last)) = (b.shape.rank(), b.shape.dims().last()) {
            if r == 1 && dims::meet(last, n).is_none() {
                return Err(read::bad("input 2 `bias`", &b.shape, format!("[{n}]")));
            }
        }
    }
    Ok(())
}
fn mat_mul(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    read::rank_in(c, 0, "x1", 2, 2)?;
    if c.input(1)?.origin.is_none() {
        read::rank_in(c, 1, "x2", 2, 2)?;
    }
    let s = matmul_shape(
        &c.input(0)?.shape,
        c.input(1)?.origin_shape(),
        read::flag(c, "transpose_x1", false),
        read::flag(c, "transpose_x2", false),
    )?;
    let s = if s.is_unranked() { dims::unknown(2) } else { s };
    bias_fits(c, &s)?;
    read::product(c, s)
}
fn batch_mat_mul(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let s = matmul_shape(
        &c.input(0)?.shape,
        c.input(1)?.origin_shape(),
        read::flag(c, "adj_x1", false),
        read::flag(c, "adj_x2", false),
    )?;
    bias_fits(c, &s)?;
    read::product(c, s)
}
/// Refuses scales and zero points (the inputs `given`) of a factor of the shape `of` that are
/// neither one number, nor one per row (per column if `by_column`), nor a tensor that broadcasts to
/// the factor without varying along the axis that is summed.
fn parameters_fit(c: &InferCtx<'_>, given: &[(usize, &str)], of: &Shape, by_column: bool) -> Result<()> {
    let one = Dim::known(1);
    let mut sizes = match (of.rank(), by_column) {
        (None | Some(0), _) => return Ok(()),
        (Some(1), true) => vec![of.dims()[0], one],
        (Some(1), false) => vec![one, of.dims()[0]],
        _ => of.dims().to_vec(),
    };
    let (rows, columns) = (sizes.len() - 2, sizes.len() - 1);
    let (each, summed) = if by_column { (columns, rows) } else { (rows, columns) };
    sizes[summed] = one;
    for &(i, name) in given {
        let Some(p) = c.opt_input(i).map(|d| &d.shape).filter(|s| !s.is_unranked() && s.count() != Some(1)) else {
            continue;
        };
        let mut own = p.dims().to_vec();
        if own.len() == 1 && !by_column {
            own.push(one);
        }
        let fits = |(p, size): (&Dim, &Dim)| p.size() == Some(1) || dims::meet(*p, *size).is_some();
        if own.len() > sizes.len() || !own.iter().rev().zip(sizes.iter().rev()).all(fits) {
            let (vector, whole) = (Shape::new([sizes[each]]), Shape::new(sizes));
            let expected = format!("one number, {vector} or a shape that broadcasts to {whole}");
            return Err(read::bad(format!("input {i} `{name}`"), p, expected));
        }
    }
    Ok(())
}
fn mat_mul_integer(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let (a, b) = (&c.input(0)?.shape, c.input(1)?.origin_shape());
    let s = matmul_shape(a, b, false, false)?;
    parameters_fit(c, &[(2, "a_zero_point")], a, false)?;
    parameters_fit(c, &[(3, "b_zero_point")], b, true)?;
    Ok(vec![TensorDesc::new(DType::I32, s)])
}
fn qlinear_mat_mul(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let (a, b) = (&c.input(0)?.shape, c.input(3)?.origin_shape());
    let s = matmul_shape(a, b, false, false)?;
    parameters_fit(c, &[(1, "a_scale"), (2, "a_zero_point")], a, false)?;
    parameters_fit(c, &[(4, "b_scale"), (5, "b_zero_point")], b, true)?;
    Ok(vec![TensorDesc::new(c.input(7)?.dtype, s)])
}
fn grouped(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    read::rank_in(c, 0, "x", 2, 2)?;
    read::rank_in(c, 1, "weight", 3, 3)?;
    read::rank_in(c, 2, "group_list", 1, 1)?;
    let (x, w, g) = (&c.input(0)?.shape, &c.input(1)?.shape, &c.input(2)?.shape);
    let at = |s: &Shape, i: usize| s.dims().get(i).copied().unwrap_or(Dim::UNKNOWN);
    dims::equal("inner dimension of `weight`", at(x, 1), at(w, 1))?;
    dims::equal("length of `group_list`", at(w, 0), at(g, 0))?;
    if let (Some(m), Some(v)) = (dims::size(at(x, 0)), c.const_ints(2)) {
        let sum = if read::int(c, "group_list_type", 0) == 1 { v.iter().sum() } else { v.last().copied().unwrap_or(0) };
        if sum != m || v.iter().any(|&r| r < 0) {
            return Err(read::bad("input 2 `group_list`", format!("{sum} rows"), format!("{m} rows, as `x` has")));
        }
    }
    read::one(c, Shape::new([at(x, 0), at(w, 2)]))
}
fn einsum(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let eq: String = read::text(c, "equation", "").chars().filter(|ch| !ch.is_whitespace()).collect();
    let (left, right) = match eq.split_once("->") {
        Some((l, r)) => (l, Some(r)),
        None => (eq.as_str(), None),
    };
    let terms: Vec<&str> = left.split(',').collect();
    if terms.len() != c.input_count() {
        return Err(read::bad(
            "attribute `equation`",
            format!("{} terms in `{eq}`", terms.len()),
            format!("{} terms", c.input_count()),
        ));
    }
    let mut sizes: std::collections::BTreeMap<char, Dim> = Default::default();
    let mut count: std::collections::BTreeMap<char, usize> = Default::default();
    let mut dots = Shape::scalar();
    for (i, term) in terms.iter().enumerate() {
        let shape = &c.input(i)?.shape;
        let Some(rank) = shape.rank() else { return read::one(c, Shape::unranked()) };
        let letters: Vec<char> = term.replace("...", "").chars().collect();
        if !letters.iter().all(|l| l.is_ascii_alphabetic()) {
            return Err(read::bad("attribute `equation`", format!("term `{term}`"), "letters and at most one `...`"));
        }
        let before = term.find("...").map(|p| term[..p].chars().count());
        let extra = match (before, rank.checked_sub(letters.len())) {
            (None, Some(0)) => 0,
            (Some(_), Some(n)) => n,
            _ => {
                return Err(read::bad(
                    format!("input {i} `x`"),
                    format!("rank {rank}"),
                    format!("the rank of `{term}`"),
                ));
            }
        };
        let d = shape.dims();
        let start = before.unwrap_or(letters.len());
        let lead = Shape::new(d[start..start + extra].iter().copied());
        dots = infer::broadcast_shapes(&dots, &lead)?;
        for (k, &l) in letters.iter().enumerate() {
            let dim = d[if k < start { k } else { k + extra }];
            *count.entry(l).or_default() += 1;
            let known = sizes.get(&l).copied();
            let merged = match known {
                None => dim,
                Some(old) if old.size() == Some(1) => dim,
                Some(old) if dim.size() == Some(1) => old,
                Some(old) => dims::equal(&format!("size of `{l}` in input {i}"), old, dim)?,
            };
            sizes.insert(l, merged);
        }
    }
    let out: Vec<Dim> = match right {
        Some(r) => {
            let mut v = Vec::new();
            let mut rest = r;
            while let Some(ch) = rest.chars().next() {
                if let Some(r) = rest.strip_prefix("...") {
                    v.extend_from_slice(dots.dims());
                    rest = r;
                } else {
                    v.push(*sizes.get(&ch).ok_or_else(|| {
                        read::bad("attribute `equation`", format!("output letter `{ch}`"), "letters of the inputs")
                    })?);
                    rest = &rest[ch.len_utf8()..];
                }
            }
            v
        }
        None => {
            let mut v = dots.dims().to_vec();
            v.extend(count.iter().filter(|(_, n)| **n == 1).filter_map(|(l, _)| sizes.get(l).copied()));
            v
        }
    };
    read::one(c, Shape::new(out))
}
fn determinant(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let Some(r) = read::rank_in(c, 0, "x", 2, usize::MAX)? else { return read::one(c, Shape::unranked()) };
    let d = c.input(0)?.shape.dims();
    dims::equal("input 0 `x`: columns", d[r - 2], d[r - 1])?;
    read::one(c, Shape::new(d[..r - 2].iter().copied()))
}

fn defs() -> Vec<OpDef> {
    let b = AttrKind::BOOL;
    let product = |name: &str, f, t1: &str, t2: &str| {
        OpDef::new(name, f)
            .input("x1", NUMERIC, "T")
            .input("x2", NUMERIC, "T")
            .opt("bias", NUMERIC, "")
            .opt("offset_w", BYTE, "")
            .output("y", NUMERIC, "")
            .attr(t1, b, false)
            .attr(t2, b, false)
            .opt_attr("y_dtype", AttrKind::TYPE)
            .attr("offset_x", AttrKind::INT, 0i64)
            .flags(LOW_PRECISION | PRODUCT)
    };
    vec![
        product("MatMulV2", mat_mul, "transpose_x1", "transpose_x2"),
        product("MatMul", mat_mul, "transpose_x1", "transpose_x2"),
        product("BatchMatMulV2", batch_mat_mul, "adj_x1", "adj_x2"),
        product("BatchMatMul", batch_mat_mul, "adj_x1", "adj_x2"),
        OpDef::new("MatMulInteger", mat_mul_integer)
            .input("a", BYTE, "")
            .input("b", BYTE, "")
            .opt("a_zero_point", BYTE, "")
            .opt("b_zero_point", BYTE, "")
            .output("y", &[DType::I32], ""),
        OpDef::new("QLinearMatMul", qlinear_mat_mul)
            .input("a", F8, "")
            .input("a_scale", FLOATS, "")
            .input("a_zero_point", F8, "")
            .input("b", F8, "")
            .input("b_scale", FLOATS, "")
            .input("b_zero_point", F8, "")
            .input("y_scale", FLOATS, "")
            .input("y_zero_point", F8, "")
            .output("y", F8, ""),
        OpDef::new("GroupedMatmul", grouped)
            .input("x", FLOATS, "T")
            .input("weight", FLOATS, "T")
            .input("group_list", INDEX, "")
            .opt("bias", FLOATS, "")
            .output("y", FLOATS, "T")
            .attr("group_list_type", AttrKind::INT, 0i64)
            .range(0.0, 1.0)
            .value_inputs(&[2])
            .flags(LOW_PRECISION),
        OpDef::new("Einsum", einsum)
            .dynamic("x", NUMERIC, "T")
            .output("y", NUMERIC, "T")
            .required_attr("equation", AttrKind::STRING)
            .opt_attr("N", AttrKind::INT)
            .flags(LOW_PRECISION),
        OpDef::new("MatrixDeterminant", determinant)
            .input("x", FLOATS, "T")
            .output("y", FLOATS, "T")
            .flags(FULL_PRECISION),
        OpDef::new("Gcd", infer::broadcast)
            .input("x1", INTEGERS, "T")
            .input("x2", INTEGERS, "T")
            .output("y", INTEGERS, "T"),
    ]
}
register_ops!(|| crate::value_ranges::given(defs()));
