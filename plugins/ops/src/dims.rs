//! Arithmetic of dimensions: exact for known numbers, expressions for symbols (`2*batch`); anything
//! else is unknown unless it cannot matter.
use crate::read::bad;
use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::types::{Dim, Expr, Shape};

/// A shape of this rank whose dimensions are all unknown.
pub fn unknown(rank: usize) -> Shape {
    Shape::new(std::iter::repeat_n(Dim::UNKNOWN, rank))
}
/// The dimension for a computed number; a negative number gives an unknown dimension.
pub fn from_i64(v: i64) -> Dim {
    u64::try_from(v).map_or(Dim::UNKNOWN, Dim::known)
}
/// The size as i64, if it is known.
pub fn size(d: Dim) -> Option<i64> {
    i64::try_from(d.size()?).ok()
}
/// The sum of two dimensions.
pub fn add(a: Dim, b: Dim) -> Dim {
    match (a.size(), b.size()) {
        (Some(x), Some(y)) => x.checked_add(y).map_or(Dim::UNKNOWN, Dim::known),
        (Some(0), _) => b,
        (_, Some(0)) => a,
        _ => of_both(a, b, Expr::add),
    }
}
fn of_both(a: Dim, b: Dim, f: fn(&Expr, &Expr) -> Option<Expr>) -> Dim {
    let e = Expr::of(a).and_then(|a| f(&a, &Expr::of(b)?));
    e.map_or(Dim::UNKNOWN, |e| e.dim())
}
/// The sum of a dimension and a number that may be negative; the result is at least zero.
pub fn plus(d: Dim, n: i64) -> Dim {
    if n == 0 {
        return d;
    }
    let e = Expr::of(d).and_then(|e| e.add(&Expr::from(n))?.greater(&Expr::from(0)));
    e.map_or(Dim::UNKNOWN, |e| e.dim())
}
/// The quotient by a number, rounded down.
pub fn over(d: Dim, by: i64) -> Dim {
    Expr::of(d).and_then(|e| e.div_floor(by)).map_or(Dim::UNKNOWN, |e| e.dim())
}
/// The dimension for a computed value; unknown if the value may be negative.
pub fn of_value(e: Option<&Expr>) -> Dim {
    e.map_or(Dim::UNKNOWN, Expr::dim)
}
/// The product of two dimensions.
pub fn mul(a: Dim, b: Dim) -> Dim {
    match (a.size(), b.size()) {
        (Some(x), Some(y)) => x.checked_mul(y).map_or(Dim::UNKNOWN, Dim::known),
        (Some(0), _) | (_, Some(0)) => Dim::known(0),
        (Some(1), _) => b,
        (_, Some(1)) => a,
        _ => of_both(a, b, Expr::mul),
    }
}
/// The product of several dimensions.
pub fn product(dims: &[Dim]) -> Dim {
    dims.iter().fold(Dim::known(1), |a, &d| mul(a, d))
}
/// The more precise of two dimensions that must be equal (a size before a symbol before an unknown
/// one); `None` if they cannot be equal.
pub fn meet(a: Dim, b: Dim) -> Option<Dim> {
    match (a.size(), b.size()) {
        (Some(x), Some(y)) if x != y => None,
        (Some(_), _) => Some(a),
        (_, Some(_)) => Some(b),
        _ if a.symbol_name().is_some() => Some(a),
        _ => Some(b),
    }
}
/// The same as [`meet`], with an error that names both dimensions.
pub fn equal(subject: &str, a: Dim, b: Dim) -> Result<Dim> {
    meet(a, b).ok_or_else(|| bad(subject, b, a))
}
/// The more precise shape of two that must be equal, dimension by dimension; an error if they
/// cannot be equal.
pub fn equal_shapes(subject: &str, a: &Shape, b: &Shape) -> Result<Shape> {
    let (Some(ra), Some(rb)) = (a.rank(), b.rank()) else {
        return Ok(if a.is_unranked() { b.clone() } else { a.clone() });
    };
    if ra != rb {
        return Err(bad(subject, b, a));
    }
    a.dims()
        .iter()
        .zip(b.dims())
        .map(|(&x, &y)| meet(x, y).ok_or_else(|| bad(subject, b, a)))
        .collect::<Result<Vec<_>>>()
        .map(Shape::new)
}
/// Output size of one window axis with the pads `begin` and `end`. `ceil` rounds the size up, but
/// no window starts beyond the input and the begin pad. `None` if no window fits.
pub fn window(input: Dim, kernel: i64, stride: i64, dilation: i64, begin: i64, end: i64, ceil: bool) -> Option<Dim> {
    let Some(n) = size(input) else {
        // If the window does not fit, that is an error at run time, so the dividend is taken to be
        // at least zero.
        let open = |e: Expr| {
            let span = kernel.checked_sub(1)?.checked_mul(dilation)?.checked_add(1)?;
            let room = begin.checked_add(end)?.checked_sub(span)?;
            e.add(&Expr::from(room))?.div_floor(stride)?.add(&Expr::from(1))?.greater(&Expr::from(0))
        };
        return Some(Expr::of(input).filter(|_| !ceil).and_then(open).map_or(Dim::UNKNOWN, |e| e.dim()));
    };
    let span = kernel.checked_sub(1)?.checked_mul(dilation)?.checked_add(1)?;
    let room = n.checked_add(begin)?.checked_add(end)?.checked_sub(span)?;
    if stride < 1 {
        return None;
    }
    // With `ceil`, padded input that is shorter than a window still gets one window, which reaches
    // beyond it.
    if room < 0 {
        return (ceil && room > -stride && n.checked_add(begin)? > 0).then_some(Dim::known(1));
    }
    let mut out = room / stride + 1;
    if ceil && room % stride != 0 {
        out += 1;
        if (out - 1).checked_mul(stride)? >= n.checked_add(begin)? {
            out -= 1;
        }
    }
    Some(from_i64(out))
}
/// Output size of an axis of a transposed window,
/// `(n - 1) * stride + reach * dilation + 1 + extra - begin - end`; `None` if it is negative. If
/// `n` is not known, the result is taken to be at least zero.
pub fn steps(input: Dim, stride: i64, [reach, dilation]: [i64; 2], [extra, begin, end]: [i64; 3]) -> Option<Dim> {
    let ends = i128::from(reach) * i128::from(dilation) + 1 + i128::from(extra) - i128::from(begin) - i128::from(end);
    match size(input) {
        Some(n) => {
            let all = i64::try_from(i128::from(n - 1) * i128::from(stride) + ends).unwrap_or(-1);
            (all >= 0).then(|| from_i64(all))
        }
        None => {
            let less = i64::try_from(ends - i128::from(stride)).ok();
            Some(less.map_or(Dim::UNKNOWN, |less| plus(mul(input, from_i64(stride)), less)))
        }
    }
}
/// Output size of a window axis with automatic padding: `ceil(n / stride)`.
pub fn window_same(input: Dim, stride: i64) -> Dim {
    match size(input) {
        Some(n) if stride > 0 => from_i64((n + stride - 1) / stride),
        None if stride > 0 => over(plus(input, stride - 1), stride),
        _ => Dim::UNKNOWN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn windows_round_as_onnx_does() {
        let k = |n| Dim::known(n);
        assert_eq!(window(k(7), 3, 2, 1, 0, 0, false), Some(k(3)));
        assert_eq!(window(k(4), 3, 2, 1, 0, 0, true), Some(k(2)));
        assert_eq!(window(k(1), 2, 2, 1, 0, 0, true), Some(k(1)));
        assert_eq!(window(k(1), 3, 2, 1, 0, 0, true), None);
        // A last window that would start in the end padding is left out.
        assert_eq!(window(k(3), 1, 2, 1, 0, 1, true), Some(k(2)));
        assert_eq!(window(k(2), 5, 1, 1, 0, 0, false), None);
        assert_eq!(window(Dim::UNKNOWN, 5, 1, 1, 0, 0, false), Some(Dim::UNKNOWN));
        assert_eq!(window_same(k(5), 2), k(3));
        assert_eq!(steps(k(5), 2, [3, 1], [0, 1, 1]), Some(k(10)));
        assert_eq!(steps(k(1), 2, [0, 1], [0, 1, 1]), None);
        assert_eq!(steps(Dim::symbol("n"), 2, [1, 1], [0, 0, 0]), Some(mul(Dim::symbol("n"), k(2))));
        assert_eq!(steps(Dim::UNKNOWN, 2, [1, 1], [0, 0, 0]), Some(Dim::UNKNOWN));
        assert_eq!(mul(Dim::symbol("b"), k(1)), Dim::symbol("b"));
        assert_eq!(mul(Dim::symbol("b"), k(2)), Dim::symbol("2*b"));
        assert_eq!(window(Dim::symbol("b"), 3, 1, 1, 1, 1, false), Some(Dim::symbol("b")));
        assert_eq!(window(Dim::symbol("b"), 2, 2, 1, 0, 0, false), Some(Dim::symbol("(b/2)")));
        assert_eq!(window_same(Dim::symbol("b"), 2), Dim::symbol("((b+1)/2)"));
    }
}
