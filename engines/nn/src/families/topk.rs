//! `TopKV2(x, k) {dim, largest, sorted} -> values, indices`: the k greatest or least of each line
//! along an axis, equal values by lower index, NaN above all. f32, f16, bf16, i32, i64.
//!
//! Where k is no constant, the outputs' size along the axis is the most that k may be: the first k
//! are the answer, what is behind them is value 0 and index -1.
use crate::kernel::{Io, Kernel, words};
use crate::sig::{Answer, Sig};
use ge_kernels::view::layout::resolve_axis;
use ge_kernels::view::{Elem, Kind};
use ge_kernels::with_kind;
use ge_plugin_api::author::tiling_sink;
use ge_plugin_api::{Error, Result};
use std::cmp::Ordering;
use std::ops::Range;

/// Elements of the same line are this many units apart; a unit is one line.
struct TopK {
    kind: Kind,
    wide: bool,
    outer: usize,
    len: usize,
    inner: usize,
    /// Size of the outputs along the axis.
    most: usize,
    largest: bool,
    indices: bool,
}

const KINDS: &[Kind] = &[Kind::F32, Kind::F16, Kind::Bf16, Kind::I32, Kind::I64];

/// The kernel of a search.
///
/// # Errors
/// Types, shapes or values that it does not take, in words.
pub fn build(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let kind = sig.kind_in(0, KINDS)?;
    let (x, y) = (sig.input(0)?, sig.output(0)?);
    let axis = resolve_axis(sig.int("dim", -1), x.rank()).map_err(|e| e.to_string())?;
    let same =
        |s: &[usize]| s.len() == x.rank() && s.iter().zip(&x.shape).enumerate().all(|(i, (a, b))| i == axis || a == b);
    if y.kind != Some(kind) || !same(&y.shape) || y.shape[axis] > x.shape[axis] {
        return Err(format!("output 0 is {} {:?}, x {} {:?}", y.dtype, y.shape, x.dtype, x.shape));
    }
    let most = y.shape[axis];
    sig.holds_lines(x.shape[axis])?;
    let wide = match sig.outputs.get(1).map(|t| (t.kind, t.shape == y.shape)) {
        None => false,
        Some((Some(Kind::I32), true)) => false,
        Some((Some(Kind::I64), true)) => true,
        Some(_) => return Err("output 1 is no list of indices of i32 or i64".into()),
    };
    match &sig.input(1)?.values {
        Some(v) if v.as_slice() == [most as i64] => {}
        Some(v) => return Err(format!("k is {v:?}, output 0 has {most} along the axis")),
        None if sig.attrs.flag(tiling_sink::SINK) => {}
        None => return Err("its tiling reads the value of input 1 `k`, which is no constant, and is not sunk".into()),
    }
    Ok(Box::new(TopK {
        kind,
        wide,
        outer: x.shape[..axis].iter().product(),
        len: x.shape[axis],
        inner: x.shape[axis + 1..].iter().product(),
        most,
        largest: sig.attrs.flag("largest") || sig.attrs.get("largest").is_none(),
        indices: sig.outputs.len() > 1,
    }))
}

/// NaN above all.
fn order<T: Elem>(a: &T, b: &T) -> Ordering {
    let nan = |v: &T| v.partial_cmp(v).is_none();
    a.partial_cmp(b).unwrap_or_else(|| nan(a).cmp(&nan(b)))
}

impl TopK {
    fn lines<T: Elem>(&self, units: Range<usize>, k: usize, io: &Io<'_, '_>) -> Result<()> {
        let x = io.input::<T>(0)?;
        let mut found: Vec<usize> = Vec::with_capacity(self.len);
        for unit in units {
            let (o, i) = (unit / self.inner, unit % self.inner);
            let at = |p: usize| &x[(o * self.len + p) * self.inner + i];
            let by = |p: &usize, q: &usize| {
                let values = order(at(*p), at(*q));
                if self.largest { values.reverse() } else { values }.then(p.cmp(q))
            };
            found.clear();
            found.extend(0..self.len);
            if k > 0 && k < self.len {
                found.select_nth_unstable_by(k - 1, by);
            }
            found.truncate(k);
            found.sort_unstable_by(by);
            let to = |r: usize| (o * self.most + r) * self.inner + i;
            io.output::<T, ()>(0, |out| {
                for r in 0..self.most {
                    out.part(to(r), 1)[0] = found.get(r).map_or_else(T::default, |p| *at(*p));
                }
                Ok(())
            })?;
            if self.indices {
                let index = |r: usize| found.get(r).map_or(-1, |p| *p as i64);
                match self.wide {
                    true => io.output::<i64, ()>(1, |out| {
                        (0..self.most).for_each(|r| out.part(to(r), 1)[0] = index(r));
                        Ok(())
                    })?,
                    false => io.output::<i32, ()>(1, |out| {
                        (0..self.most).for_each(|r| out.part(to(r), 1)[0] = index(r) as i32);
                        Ok(())
                    })?,
                }
            }
        }
        Ok(())
    }
    fn search(&self, units: Range<usize>, k: usize, io: &Io<'_, '_>) -> Result<()> {
        with_kind!(self.kind, [F32, F16, Bf16, I32, I64], T => self.lines::<T>(units, k, io),
            else Err(Error::internal("type of a search")))
    }
}

impl Kernel for TopK {
    fn units(&self) -> usize {
        if self.len == 0 { 0 } else { self.outer * self.inner }
    }
    fn work(&self) -> u64 {
        (self.units() as u64).saturating_mul(self.len as u64).saturating_mul(4)
    }
    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        self.search(units, self.most, io)
    }
    fn tile(&self, values: &[Option<Vec<i64>>]) -> Result<Vec<u64>> {
        let [Some(k)] = values else { return Err(Error::internal("a search without its k")) };
        match k.as_slice() {
            [k] if (0..=self.most as i64).contains(k) => Ok(vec![*k as u64]),
            k => Err(Error::failed(format!("k is {k:?}, expected one number from 0 to {}", self.most))),
        }
    }
    fn run_tiled(&self, units: Range<usize>, io: &Io<'_, '_>, data: &[u8]) -> Result<()> {
        match words(data).as_slice() {
            [k] if *k <= self.most as u64 => self.search(units, *k as usize, io),
            _ => Err(Error::failed("tiling data of another search")),
        }
    }
}
