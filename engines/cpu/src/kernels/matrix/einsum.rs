//! `Einsum(x...) {equation}`: the sum over all letters that are not in the result, computed as
//! matrix products of two tensors at a time. Repeated letters take diagonals; `...` broadcasts.
use super::product::{Mat, Wide, product, widen};
use crate::args::{Arg, all, bad, filled, put_f64, put_i64, room, text, view_error};
use crate::kernels::reduce::walk::Walk;
use crate::op::Op;
use crate::store::types::NUM;
use ge_kernels::view::{Layout, Nest, lines};
use ge_kernels::with_kind;
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;

/// An axis: a letter, or a position of the ellipsis counted from its end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    Dot(usize),
    Letter(char),
}
/// Names of the axes of a term. `rank` is the rank of its tensor; if it is `None`, the ellipsis has
/// `dots` positions.
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
/// A row-major tensor with named axes, none of size one.
struct Term<W> {
    axes: Vec<(Name, usize)>,
    data: Vec<W>,
}

fn layout(axes: &[(Name, usize)]) -> Result<Layout> {
    Layout::contiguous(&axes.iter().map(|a| a.1).collect::<Vec<_>>()).map_err(view_error)
}
/// The elements seen through a layout, in order.
fn seen<T: Copy>(v: &[T], layout: &Layout) -> Result<Vec<T>> {
    let mut o = room(layout.len())?;
    Nest::new(layout.shape(), [layout]).each_run(|[p], n, [s]| match s {
        1 => o.extend_from_slice(&v[p as usize..p as usize + n]),
        _ => o.extend((0..n as isize).map(|i| v[(p + i * s) as usize])),
    });
    Ok(o)
}

impl<W: Wide> Term<W> {
    /// The term of an input. A name that occurs twice takes the diagonal; axes of size one are left
    /// out.
    fn of(x: &Arg<'_>, names: &[Name]) -> Result<Term<W>> {
        let whole = x.layout()?;
        let (mut axes, mut strides): (Vec<(Name, usize)>, Vec<isize>) = (Vec::new(), Vec::new());
        for ((&n, &d), &s) in names.iter().zip(&x.shape).zip(whole.strides()).filter(|((_, d), _)| **d != 1) {
            match axes.iter().position(|a| a.0 == n) {
                Some(at) => strides[at] += s,
                None => {
                    axes.push((n, d));
                    strides.push(s);
                }
            }
        }
        let twice = names.iter().zip(&x.shape).filter(|(_, d)| **d != 1).count() != axes.len();
        if !twice {
            return Ok(Term { axes, data: widen(x)? });
        }
        let data = with_kind!(x.kind()?, T => diagonal(x.values::<T>()?, &axes, &strides, W::of)?);
        Ok(Term { axes, data })
    }
    fn has(&self, name: Name) -> bool {
        self.axes.iter().any(|a| a.0 == name)
    }
    /// Sums over the axes that are not kept.
    fn summed(self, kept: impl Fn(Name) -> bool) -> Result<Term<W>> {
        let over: Vec<usize> = (0..self.axes.len()).filter(|&a| !kept(self.axes[a].0)).collect();
        if over.is_empty() {
            return Ok(self);
        }
        let shape: Vec<usize> = self.axes.iter().map(|a| a.1).collect();
        let axes: Vec<(Name, usize)> = self.axes.into_iter().filter(|a| kept(a.0)).collect();
        let mut data = filled(layout(&axes)?.len(), W::default())?;
        Walk::new(&shape, &over).by(&self.data, &mut data, W::default(), W::plus, W::plus);
        Ok(Term { axes, data })
    }
    /// Reorders all axes.
    fn in_order(self, order: &[Name]) -> Result<Term<W>> {
        let place = |n: &Name| self.axes.iter().position(|a| a.0 == *n);
        let perm: Vec<usize> = order.iter().filter_map(place).collect();
        if perm.is_sorted() {
            return Ok(self);
        }
        let l = layout(&self.axes)?.permute(&perm).map_err(view_error)?;
        Ok(Term { data: seen(&self.data, &l)?, axes: perm.iter().map(|p| self.axes[*p]).collect() })
    }
    /// The product of two tensors, summed over the axes that both have and nothing else needs.
    fn times(self, other: Term<W>, kept: impl Fn(Name) -> bool) -> Result<Term<W>> {
        let (a, b) = (self, other);
        let a = a.summed(|n| kept(n) || b.has(n))?;
        let b = b.summed(|n| kept(n) || a.has(n))?;
        let list = |of: &Term<W>, f: &dyn Fn(Name) -> bool| -> Vec<(Name, usize)> {
            of.axes.iter().copied().filter(|x| f(x.0)).collect()
        };
        let batch = list(&a, &|n| b.has(n) && kept(n));
        let inner = list(&a, &|n| b.has(n) && !kept(n));
        let (rows, cols) = (list(&a, &|n| !b.has(n)), list(&b, &|n| !a.has(n)));
        let named = |parts: [&[(Name, usize)]; 3]| parts.concat().iter().map(|x| x.0).collect::<Vec<_>>();
        let a = a.in_order(&named([&batch, &rows, &inner]))?;
        let b = b.in_order(&named([&batch, &inner, &cols]))?;
        let size = |list: &[(Name, usize)]| list.iter().map(|x| x.1).product::<usize>();
        let (m, n, k) = (size(&rows), size(&cols), size(&inner));
        let axes = [batch, rows, cols].concat();
        let mut data = filled(layout(&axes)?.len(), W::default())?;
        if data.is_empty() || k == 0 {
            return Ok(Term { axes, data });
        }
        if (m, n, k) == (1, 1, 1) {
            lines::zip(&mut data, &a.data, &b.data, |x, y| W::default().mul_add(x, y));
            return Ok(Term { axes, data });
        }
        let parts = data.chunks_exact_mut(m * n).zip(a.data.chunks_exact(m * k)).zip(b.data.chunks_exact(k * n));
        for ((o, a), b) in parts {
            if n == 1 {
                o.iter_mut().zip(a.chunks_exact(k)).for_each(|(o, a)| *o = dot(a, b));
            } else {
                product(Mat { data: a, row: k, col: 1 }, Mat { data: b, row: n, col: 1 }, (m, n, k), None, o)?;
            }
        }
        Ok(Term { axes, data })
    }
    /// Number of elements of the product of two tensors, restricted to the axes that others need.
    fn cost(&self, other: &Term<W>, kept: impl Fn(Name) -> bool) -> usize {
        let own = self.axes.iter().filter(|a| kept(a.0));
        let more = other.axes.iter().filter(|a| kept(a.0) && !self.has(a.0));
        own.chain(more).fold(1, |n, a| n.saturating_mul(a.1))
    }
}

/// The elements at positions given by a stride for each axis.
fn diagonal<T: Copy, W>(v: &[T], axes: &[(Name, usize)], strides: &[isize], of: fn(T) -> W) -> Result<Vec<W>> {
    let n = layout(axes)?.len();
    let mut o = room(n)?;
    let mut index = vec![0usize; axes.len()];
    let mut at = 0isize;
    for _ in 0..n {
        o.push(of(v[at as usize]));
        for d in (0..axes.len()).rev() {
            index[d] += 1;
            at += strides[d];
            if index[d] < axes[d].1 {
                break;
            }
            at -= index[d] as isize * strides[d];
            index[d] = 0;
        }
    }
    Ok(o)
}
/// The sum of products, with eight partial sums.
fn dot<W: Wide>(a: &[W], b: &[W]) -> W {
    let mut sums = [W::default(); 8];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    for (a, b) in a.iter().zip(b) {
        sums.iter_mut().zip(a).zip(b).for_each(|((s, a), b)| *s = s.mul_add(*a, *b));
    }
    let rest = a_rest.iter().zip(b_rest).fold(W::default(), |s, (a, b)| s.mul_add(*a, *b));
    sums.into_iter().fold(rest, W::plus)
}

fn sum<W: Wide>(args: &[Arg<'_>], terms: &[Vec<Name>], result: &[Name]) -> Result<(Vec<usize>, Vec<W>)> {
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
    let mut shape = Vec::with_capacity(result.len());
    for n in result {
        let size = sizes.iter().find(|s| s.0 == *n);
        let size = size.ok_or_else(|| bad("attribute `equation`", "a letter of the result", "letters of the inputs"));
        shape.push(size?.1);
    }
    let mut left = args.iter().zip(terms).map(|(a, t)| Term::<W>::of(a, t)).collect::<Result<Vec<_>>>()?;
    // The two terms with the smallest product come first.
    while left.len() > 1 {
        let kept = |i: usize, j: usize, n: Name| {
            result.contains(&n) || left.iter().enumerate().any(|(k, t)| k != i && k != j && t.has(n))
        };
        let pairs = (0..left.len()).flat_map(|i| (i + 1..left.len()).map(move |j| (i, j)));
        let Some((i, j)) = pairs.min_by_key(|&(i, j)| left[i].cost(&left[j], |n| kept(i, j, n))) else { break };
        let needed: Vec<Name> = sizes.iter().map(|s| s.0).filter(|n| kept(i, j, *n)).collect();
        let b = left.remove(j);
        let a = std::mem::replace(&mut left[i], Term { axes: Vec::new(), data: Vec::new() });
        left[i] = a.times(b, |n| needed.contains(&n))?;
    }
    let Some(last) = left.pop() else { return Ok((shape, Vec::new())) };
    let y = last.summed(|n| result.contains(&n))?.in_order(result)?.data;
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
        let (shape, y) = sum::<f64>(&args, &terms, &result)?;
        return put_f64(ctx, 0, &shape, &y);
    }
    let (shape, y) = sum::<i64>(&args, &terms, &result)?;
    put_i64(ctx, 0, &shape, &y)
}

/// Operator rows of this file.
pub const OPS: &[Op] = &[Op::new("Einsum", run, &[NUM]).gives(&[NUM])];
