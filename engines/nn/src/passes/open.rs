//! Open sizes: whether two of them are equal for every possible value, and trial sizes that replace
//! them when the op store is asked. A symbol gets the same number everywhere; an expression gets
//! its value for these numbers. The numbers grow until no open size is zero, which kernels may
//! refuse. If an expression is the minimum of a size and a number and occurs together with that
//! size, only trials in which both are equal are used: they are equal in every run.
//!
//! A yes for every trial does not guarantee a yes for every size. If the store refuses the sizes of
//! a run, the executor uses the kernel of the AI CPU, which has every operator that the fusions
//! make.
use ge_plugin_api::types::expr::Expr;
use ge_plugin_api::types::{Dim, Shape, TensorDesc};
use std::collections::BTreeSet;

/// The number of symbol k in each trial: sizes that divide well, small sizes, odd sizes, and ones.
const TRIALS: [fn(u64) -> u64; 4] = [|k| 96 * (k + 1), |k| 4 + 2 * k, |k| 7 + 2 * k, |_| 1];

/// Maximum number of times that the numbers of a trial are doubled.
const DOUBLINGS: u32 = 16;

/// Whether two shapes are equal: each pair of sizes is known, or is the same expression.
pub fn same(a: &Shape, b: &Shape) -> bool {
    a.rank().is_some() && a.rank() == b.rank() && a.dims().iter().zip(b.dims()).all(|(a, b)| a.same(*b))
}

/// Whether every size is known or has a name.
pub fn is_named(s: &Shape) -> bool {
    !s.is_unranked() && s.dims().iter().all(|d| *d != Dim::UNKNOWN)
}

/// The descriptors of a node in each trial, without trials that contradict its expressions; the
/// descriptors unchanged if no size is open. `None` if a size has no name.
pub fn trials(descs: &[Option<&TensorDesc>]) -> Option<Vec<Vec<Option<TensorDesc>>>> {
    let given = || descs.iter().flatten();
    if given().any(|d| !is_named(&d.shape)) {
        return None;
    }
    let mut names = BTreeSet::new();
    let dims = || given().flat_map(|d| d.shape.dims());
    for name in dims().filter_map(|d| d.symbol_name()) {
        match Expr::parse(name) {
            Some(e) => names.extend(e.symbols().into_iter().map(str::to_owned)),
            None => drop(names.insert(name.to_owned())),
        }
    }
    if names.is_empty() {
        return Some(vec![descs.iter().map(|d| d.cloned()).collect()]);
    }
    let names: Vec<String> = names.into_iter().collect();
    let scaled = |of: &fn(u64) -> u64, scale: u64| {
        let number = |name: &str| names.iter().position(|n| n == name).map(|k| scale * of(k as u64));
        let size = |d: &Dim| match d.symbol_name() {
            None => Some(*d),
            Some(name) => number(name).map(Dim::known).or_else(|| {
                let value = Expr::parse(name)?.value(&|s| i64::try_from(number(s)?).ok())?;
                u64::try_from(value).ok().map(Dim::known)
            }),
        };
        let desc = |d: &TensorDesc| {
            let dims = d.shape.dims().iter().map(size).collect::<Option<Vec<_>>>()?;
            Some(TensorDesc { shape: Shape::new(dims), ..d.clone() })
        };
        descs.iter().map(|d| d.map_or(Some(None), |d| desc(d).map(Some))).collect::<Option<Vec<_>>>()
    };
    let open = dims().map(|d| !d.is_known()).collect::<Vec<_>>();
    let is_empty = |trial: &[Option<TensorDesc>]| {
        let sizes = trial.iter().flatten().flat_map(|d| d.shape.dims());
        sizes.zip(&open).any(|(d, open)| *open && d.size() == Some(0))
    };
    // Pairs of sizes, the first of which is the minimum of the second and a number.
    let exprs: Vec<Option<Expr>> = dims().map(|d| Expr::of(*d).filter(|_| !d.is_known())).collect();
    let of_both = |a: usize, b: usize| exprs[a].as_ref().zip(exprs[b].as_ref()).is_some_and(|(a, b)| a.is_lesser_of(b));
    let pairs = (0..exprs.len()).flat_map(|a| (0..exprs.len()).map(move |b| (a, b)));
    let lesser: Vec<(usize, usize)> = pairs.filter(|(a, b)| of_both(*a, *b)).collect();
    let agrees = |trial: &[Option<TensorDesc>]| {
        let sizes: Vec<Dim> = trial.iter().flatten().flat_map(|d| d.shape.dims()).copied().collect();
        lesser.iter().all(|(a, b)| sizes[*a] == sizes[*b])
    };
    let trial = |of: &fn(u64) -> u64| {
        let all = (0..=DOUBLINGS).map(|k| scaled(of, 1 << k));
        all.map_while(|t| t).find(|t| !is_empty(t)).filter(|t| agrees(t))
    };
    Some(TRIALS.iter().filter_map(trial).collect())
}
