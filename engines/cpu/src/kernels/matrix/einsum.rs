//! `Einsum(x...) {equation}`: the sum over all letters that the result lacks, by one loop nest over
//! all letters. Repeated letters take diagonals; `...` broadcasts.
use super::product::{Wide, widen};
use crate::args::{Arg, all, bad, count, filled, put_f64, put_i64, text};
use crate::op::Op;
use crate::store::types::NUM;
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;

/// An axis: a letter, or a place of the ellipsis counted from its end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    Dot(usize),
    Letter(char),
}
/// Names of the axes of a term over a tensor of some rank (None: the ellipsis has `dots` places).
fn names(term: &str, rank: Option<usize>, dots: usize) -> Result<Vec<Name>> {
    let letters = term.chars().filter(|c| *c != '.').count();
    let extra = match (term.contains("..."), rank) {
        (true, Some(r)) => r.checked_sub(letters),
        (true, None) => Some(dots),
        (false, Some(r)) if r != letters => None,
        (false, _) => Some(0),
    };
    let extra =
        extra.ok_or_else(|| bad("attribute `equation`", format!("term `{term}`"), "letters as the input has axes"))?;
    let mut out = Vec::new();
    let mut rest = term;
    while let Some(c) = rest.chars().next() {
        if let Some(r) = rest.strip_prefix("...") {
            out.extend((0..extra).rev().map(Name::Dot));
            rest = r;
        } else if c.is_ascii_alphabetic() {
            out.push(Name::Letter(c));
            rest = &rest[1..];
        } else {
            return Err(bad("attribute `equation`", format!("`{c}`"), "letters and at most one `...` a term"));
        }
    }
    Ok(out)
}
fn sum<W: Wide>(args: &[Arg<'_>], one: W, terms: &[Vec<Name>], result: &[Name]) -> Result<(Vec<usize>, Vec<W>)> {
    let mut sizes: Vec<(Name, usize)> = Vec::new();
    for (a, t) in args.iter().zip(terms) {
        for (&n, &d) in t.iter().zip(&a.shape) {
            match sizes.iter_mut().find(|s| s.0 == n) {
                None => sizes.push((n, d)),
                Some(s) if s.1 == 1 => s.1 = d,
                Some(s) if d != 1 && d != s.1 => return Err(bad(format!("shape of input {}", a.index), d, s.1)),
                Some(_) => {}
            }
        }
    }
    // Result letters first, then those that are summed; strides of each operand by letter.
    let mut order: Vec<(Name, usize)> = Vec::new();
    for n in result {
        order.push(
            *sizes
                .iter()
                .find(|s| s.0 == *n)
                .ok_or_else(|| bad("attribute `equation`", "a letter of the result", "letters of the inputs"))?,
        );
    }
    let shape: Vec<usize> = order.iter().map(|o| o.1).collect();
    order.extend(sizes.iter().filter(|s| !result.contains(&s.0)));
    let inner: Vec<(Name, usize)> = order[shape.len()..].to_vec();
    let strides = args.iter().zip(terms).map(|(a, t)| {
        let l = a.layout()?;
        Ok(order
            .iter()
            .map(|o| {
                t.iter()
                    .zip(&a.shape)
                    .zip(l.strides())
                    .filter(|((n, d), _)| **n == o.0 && **d != 1)
                    .map(|(_, s)| *s as usize)
                    .sum()
            })
            .collect::<Vec<usize>>())
    });
    let strides = strides.collect::<Result<Vec<Vec<usize>>>>()?;
    let data = args.iter().map(widen::<W>).collect::<Result<Vec<_>>>()?;
    let reps = count(&inner.iter().map(|o| o.1).collect::<Vec<_>>())?;
    let mut y = filled(count(&shape)?, W::default())?;
    let r = shape.len();
    crate::par::rows(&mut y, 1, reps.saturating_mul(args.len()), |i, o| {
        let mut base = vec![0usize; args.len()];
        let mut rest = i;
        for d in (0..r).rev() {
            let p = rest % shape[d];
            rest /= shape[d];
            base.iter_mut().zip(&strides).for_each(|(b, s)| *b += p * s[d]);
        }
        let mut index = vec![0usize; inner.len()];
        let mut total = W::default();
        for _ in 0..reps {
            let mut f = one;
            base.iter().zip(&data).for_each(|(b, v)| f = W::default().mul_add(f, v[*b]));
            total = total.plus(f);
            for d in (0..inner.len()).rev() {
                index[d] += 1;
                base.iter_mut().zip(&strides).for_each(|(b, s)| *b += s[r + d]);
                if index[d] < inner[d].1 {
                    break;
                }
                base.iter_mut().zip(&strides).for_each(|(b, s)| *b -= inner[d].1 * s[r + d]);
                index[d] = 0;
            }
        }
        o[0] = total;
        Ok(())
    })?;
    Ok((shape, y))
}
fn run(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let args = all(ctx, 0)?;
    let eq: String = text(ctx, "equation", "").chars().filter(|c| !c.is_whitespace()).collect();
    let (left, right) = eq.split_once("->").map_or((eq.as_str(), None), |(l, r)| (l, Some(r)));
    let list: Vec<&str> = left.split(',').collect();
    if list.len() != args.len() || args.is_empty() {
        return Err(bad("attribute `equation`", format!("{} terms", list.len()), format!("{} terms", args.len())));
    }
    let terms = list.iter().zip(&args).map(|(t, a)| names(t, Some(a.rank()), 0)).collect::<Result<Vec<_>>>()?;
    let dots =
        terms.iter().flatten().filter_map(|n| if let Name::Dot(k) = n { Some(k + 1) } else { None }).max().unwrap_or(0);
    let result = match right {
        Some(r) => names(r, None, dots)?,
        None => {
            let mut v: Vec<Name> = (0..dots).rev().map(Name::Dot).collect();
            let mut once: Vec<Name> =
                terms.iter().flatten().filter(|n| matches!(n, Name::Letter(_))).copied().collect();
            once.sort_unstable();
            v.extend(once.chunk_by(|a, b| a == b).filter(|c| c.len() == 1).map(|c| c[0]));
            v
        }
    };
    if args[0].kind()?.is_float() {
        let (shape, y) = sum(&args, 1f64, &terms, &result)?;
        return put_f64(ctx, 0, &shape, &y);
    }
    let (shape, y) = sum(&args, 1i64, &terms, &result)?;
    put_i64(ctx, 0, &shape, &y)
}

/// The rows of this file.
pub const OPS: &[Op] = &[Op::new("Einsum", run, &[NUM]).gives(&[NUM])];
