//! Integers that are not constant, as an expression over sizes or as a range, and the arithmetic of
//! both.
use crate::pass::declare::At;
use ge_ir::{AttrValue, DType};
use ge_plugin_api::ops::VALUE;
use ge_plugin_api::types::Expr;
use std::fmt;

/// One number. Without an expression only its range is known; if both bounds are missing too,
/// nothing is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Value {
    /// The value as an expression.
    pub expr: Option<Expr>,
    /// Minimum value.
    pub low: Option<i64>,
    /// Maximum value.
    pub high: Option<i64>,
}

/// The least and the greatest i32.
const I32: (i64, i64) = (i32::MIN as i64, i32::MAX as i64);

/// The numbers of a tensor, in order.
pub type Values = Vec<Value>;

impl Value {
    /// A value known exactly.
    pub fn number(v: i64) -> Value {
        Value::of(Some(Expr::from(v)))
    }
    /// An expression with its bounds.
    pub fn of(expr: Option<Expr>) -> Value {
        let (low, high) = expr.as_ref().map_or((None, None), Expr::bounds);
        Value { expr, low, high }
    }
    /// An expression with its own or the given bounds, whichever are tighter.
    fn within(expr: Option<Expr>, low: Option<i64>, high: Option<i64>) -> Value {
        Value::of(expr).tightened((low, high))
    }
    /// The same with these bounds where they are tighter.
    fn tightened(self, (low, high): (Option<i64>, Option<i64>)) -> Value {
        let most = |a: Option<i64>, b: Option<i64>| a.zip(b).map(|(x, y)| x.max(y)).or(a).or(b);
        let least = |a: Option<i64>, b: Option<i64>| a.zip(b).map(|(x, y)| x.min(y)).or(a).or(b);
        Value { low: most(self.low, low), high: least(self.high, high), expr: self.expr }
    }
    /// What an operator makes of this number in i32, where numbers wrap: the number itself if it
    /// certainly fits, else nothing is known. No size is greater than the greatest i32. Bounds that
    /// every i32 has are left out.
    pub fn wrapped(self) -> Value {
        let sizes = self.expr.as_ref().map_or((None, None), |e| e.bounds_up_to(I32.1));
        let v = self.tightened(sizes);
        match (v.low, v.high) {
            (Some(low), Some(high)) if low >= I32.0 && high <= I32.1 => {
                Value { low: v.low.filter(|l| *l > I32.0), high: v.high.filter(|h| *h < I32.1), expr: v.expr }
            }
            _ => Value::default(),
        }
    }
    /// The number, if only one is possible.
    pub fn settled(&self) -> Option<i64> {
        let one = self.low.filter(|l| self.high == Some(*l));
        self.expr.as_ref().and_then(Expr::constant).or(one)
    }
    /// Whether anything is known.
    pub fn says_something(&self) -> bool {
        self.expr.is_some() || self.low.is_some() || self.high.is_some()
    }
    fn parse(text: &str) -> Value {
        match text.split_once("..") {
            Some((l, h)) => Value { expr: None, low: l.parse().ok(), high: h.parse().ok() },
            None => Value::of(Expr::parse(text)),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let border = |v: Option<i64>| v.map_or(String::new(), |v| v.to_string());
        match &self.expr {
            Some(e) => write!(f, "{e}"),
            None if self.says_something() => write!(f, "{}..{}", border(self.low), border(self.high)),
            None => f.write_str("?"),
        }
    }
}

/// What is known about the numbers of an input: constants exactly, others from their mark. Integers
/// without a mark get empty values, if their count is known and at most 64.
pub fn read(at: &At<'_>, i: usize) -> Option<Values> {
    let v = at.n.input(i).filter(|v| !v.is_absent())?;
    let d = at.g.desc(v)?;
    if !matches!(d.dtype, DType::I64 | DType::I32) {
        return None;
    }
    if let Some(t) = at.g.constant(v) {
        return Some(t.to_i64(64)?.into_iter().map(Value::number).collect());
    }
    if let Some(AttrValue::Strs(list)) = d.attrs.get(VALUE) {
        return Some(list.iter().map(|s| Value::parse(s)).collect());
    }
    let count = d.shape.count().filter(|c| *c <= 64)?;
    Some(vec![Value::default(); usize::try_from(count).ok()?])
}

/// What is known about the numbers of an input that an operator computes with: also the bounds of
/// their type, if it is i32.
pub fn operand(at: &At<'_>, i: usize) -> Option<Values> {
    let values = read(at, i)?;
    Some(match at.input_desc(i)?.dtype {
        DType::I32 => values.into_iter().map(|v| v.tightened((Some(I32.0), Some(I32.1)))).collect(),
        _ => values,
    })
}

/// Computes `a op b`. The empty value means that nothing is known about the result, `None` that the
/// operator is not tracked.
pub fn arithmetic(op: &str, a: &Value, b: &Value) -> Option<Value> {
    let (x, y) = (a.expr.as_ref(), b.expr.as_ref());
    let e = |f: fn(&Expr, &Expr) -> Option<Expr>| f(x?, y?);
    let plus = |p: Option<i64>, q: Option<i64>| p?.checked_add(q?);
    let minus = |p: Option<i64>, q: Option<i64>| p?.checked_sub(q?);
    let times = |p: Option<i64>, q: Option<i64>| p?.checked_mul(q?);
    let positive = |v: &Value| v.low.is_some_and(|l| l >= 0);
    let divisor = b.settled().filter(|d| *d > 0);
    Some(match op {
        "Add" => Value::within(e(Expr::add), plus(a.low, b.low), plus(a.high, b.high)),
        "Sub" => Value::within(e(Expr::sub), minus(a.low, b.high), minus(a.high, b.low)),
        "Mul" if positive(a) && positive(b) => Value::within(e(Expr::mul), times(a.low, b.low), times(a.high, b.high)),
        "Mul" => Value::of(e(Expr::mul)),
        // `Div` rounds toward zero, which equals rounding down for values that are not negative.
        "Div" | "FloorDiv" if op == "FloorDiv" || positive(a) => match divisor {
            Some(d) => Value::within(
                x.and_then(|x| x.div_floor(d)),
                a.low.map(|v| v.div_euclid(d)),
                a.high.map(|v| v.div_euclid(d)),
            ),
            // A product divided by one of its factors; in any valid run the factor is not zero.
            None if positive(a) && positive(b) => Value::within(x.and_then(|x| x.div_exact(y?)), Some(0), a.high),
            None => Value::default(),
        },
        "Mod" | "FloorMod" if op == "FloorMod" || positive(a) => match divisor {
            Some(d) => {
                let whole = x.and_then(|x| Expr::from(d).mul(&x.div_floor(d)?));
                Value::within(x.and_then(|x| x.sub(&whole?)), Some(0), Some(d - 1))
            }
            None => Value::default(),
        },
        "Maximum" => {
            let low = a.low.zip(b.low).map(|(p, q)| p.max(q)).or(a.low).or(b.low);
            Value::within(e(Expr::greater), low, a.high.zip(b.high).map(|(p, q)| p.max(q)))
        }
        "Minimum" => {
            let high = a.high.zip(b.high).map(|(p, q)| p.min(q)).or(a.high).or(b.high);
            let least = || {
                // -max(-a, -b)
                let zero = Expr::default();
                zero.sub(&zero.sub(x?)?.greater(&zero.sub(y?)?)?)
            };
            Value::within(least(), a.low.zip(b.low).map(|(p, q)| p.min(q)), high)
        }
        "Div" | "FloorDiv" | "Mod" | "FloorMod" => Value::default(),
        _ => return None,
    })
}

/// The result of a comparison, if the numbers determine it.
pub fn compare(op: &str, a: &Value, b: &Value) -> Option<bool> {
    let of_expr = a.expr.as_ref().zip(b.expr.as_ref()).and_then(|(x, y)| x.sub(y)).map(|d| d.bounds());
    let apart = |p: Option<i64>, q: Option<i64>| p?.checked_sub(q?);
    let (low, high) = (apart(a.low, b.high), apart(a.high, b.low));
    let low = of_expr.and_then(|e| e.0).max(low);
    let high = match (of_expr.and_then(|e| e.1), high) {
        (Some(p), Some(q)) => Some(p.min(q)),
        (p, q) => p.or(q),
    };
    // a - b is between `low` and `high`.
    let (never_less, never_more) = (low.is_some_and(|l| l >= 0), high.is_some_and(|h| h <= 0));
    let (more, less) = (low.is_some_and(|l| l > 0), high.is_some_and(|h| h < 0));
    let when = |yes: bool, no: bool| if yes { Some(true) } else { no.then_some(false) };
    match op {
        "Equal" => when(never_less && never_more, more || less),
        "NotEqual" => when(more || less, never_less && never_more),
        "Less" => when(less, never_less),
        "LessEqual" => when(never_more, more),
        "Greater" => when(more, never_more),
        "GreaterEqual" => when(never_less, less),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_expressions_settle_comparisons() {
        let v = |t: &str| Value::parse(t);
        assert_eq!(compare("GreaterEqual", &v("n"), &v("0")), Some(true));
        assert_eq!(compare("Greater", &v("n"), &v("0")), None);
        assert_eq!(compare("Less", &v("n"), &v("n+1")), Some(true));
        assert_eq!(compare("Equal", &v("2*n"), &v("n*2")), Some(true));
        assert_eq!(compare("Equal", &v("0..3"), &v("7")), Some(false));
        assert_eq!(compare("NotEqual", &v("0.."), &v("-1")), Some(true));
        assert_eq!(compare("Less", &v("?"), &v("7")), None);
        assert_eq!(compare("LessEqual", &v("..4"), &v("4")), Some(true));
    }

    #[test]
    fn arithmetic_keeps_to_what_is_certain() {
        let two =
            |op: &str, a: &str, b: &str| arithmetic(op, &Value::parse(a), &Value::parse(b)).map(|v| v.to_string());
        let is = |s: &str| Some(s.to_owned());
        assert_eq!(two("Mul", "n", "2"), is("2*n"));
        assert_eq!(two("Div", "4*n", "2"), is("2*n"));
        assert_eq!(two("Div", "n-3", "2"), is("?"), "toward zero");
        assert_eq!(
            two("FloorDiv", "n-3", "2"),
            is("((n-3)/2)".replace("n-3", "n+1").as_str()).map(|s| format!("{s}-2"))
        );
        assert_eq!(two("Add", "0..3", "2"), is("2..5"));
        assert_eq!(two("Mod", "0..", "4"), is("0..3"));
        assert_eq!(two("Mod", "4*n", "4"), is("0"));
        assert_eq!(two("Minimum", "?", "8"), is("..8"));
        assert_eq!(two("Minimum", "n", "n+4"), is("n"));
        assert_eq!(two("Maximum", "?", "1"), is("1.."));
        assert_eq!(two("Atan2", "n", "1"), None);
    }

    #[test]
    fn numbers_that_may_wrap_in_i32_are_forgotten() {
        let of = |text: &str| Value::parse(text).wrapped().to_string();
        for kept in ["n", "n-1", "-m+n", "(n/2)", "((n+1)/2)", "max(n,7)", "2147483647", "0..3", "5.."] {
            let most = if kept == "5.." { "5..2147483647" } else { kept };
            assert_eq!(of(most), kept);
        }
        for lost in ["n+1", "2*n", "n*m", "n+m", "2147483648", "5..", "..5", "0..2147483648", "?"] {
            assert_eq!(of(lost), "?", "{lost}");
        }
    }
}
