//! `TopKV2(x, k) {dim, largest, sorted} -> values, indices`: the k largest or smallest elements of
//! each line along an axis. Equal values are ordered by index; NaN counts as larger than
//! everything. f32, f16, bf16, i32, i64.
//!
//! If k is not a constant, the outputs' size along the axis is the maximum of k: the first k
//! elements are the result, the rest is filled with value 0 and index -1.
use crate::kernel::{Io, Kernel, words};
use crate::sig::{Answer, Sig};
use ge_kernels::reduce::top::{Rank, Top};
use ge_kernels::view::layout::resolve_axis;
use ge_kernels::view::{Elem, Kind};
use ge_kernels::with_kind;
use ge_plugin_api::author::tiling_sink;
use ge_plugin_api::{Error, Result};
use std::ops::Range;

/// A unit is one line; consecutive elements of a line are `inner` elements apart.
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

/// The kernel of `TopKV2`.
///
/// # Errors
/// Fails with a reason if types, shapes or values are not supported.
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

/// Maximum number of adjacent lines that are gathered together, and of their elements.
const LINES: usize = 16;
const MOST: usize = 1 << 16;

impl TopK {
    fn lines<T: Rank>(&self, units: Range<usize>, k: usize, io: &Io<'_, '_>) -> Result<()> {
        let (x, inner) = (io.input::<T>(0)?, self.inner);
        let (mut top, mut found) = (Top::new(k, self.largest), Vec::new());
        let group = (MOST / self.len).clamp(1, LINES);
        let mut room = vec![T::default(); if inner > 1 { group * self.len } else { 0 }];
        let mut unit = units.start;
        while unit < units.end {
            let (o, i) = (unit / inner, unit % inner);
            let count = group.min(inner - i).min(units.end - unit);
            let x = &x[o * self.len * inner + i..];
            let lines = if inner == 1 {
                &x[..self.len]
            } else {
                for (p, row) in x.chunks(inner).take(self.len).enumerate() {
                    for (c, v) in row[..count].iter().enumerate() {
                        room[c * self.len + p] = *v;
                    }
                }
                &room[..count * self.len]
            };
            found.clear();
            for line in lines.chunks_exact(self.len) {
                found.extend(top.of(line));
            }
            let each = found.len() / count;
            let place = |r: usize, c: usize| (r < each).then(|| found[c * each + r]);
            let to = (o * self.most * inner + i, count);
            self.write::<T>(0, to, |r, c| place(r, c).map_or(T::default(), |p| lines[c * self.len + p]), io)?;
            match (self.indices, self.wide) {
                (false, _) => {}
                (_, true) => self.write(1, to, |r, c| place(r, c).map_or(-1, |p| p as i64), io)?,
                (_, false) => self.write(1, to, |r, c| place(r, c).map_or(-1, |p| p as i32), io)?,
            }
            unit += count;
        }
        Ok(())
    }
    /// Writes `count` adjacent lines of output `k`, beginning at element `at`; `of(r, c)` is
    /// element `r` of line `c`.
    fn write<T: Elem>(
        &self,
        k: usize,
        (at, count): (usize, usize),
        of: impl Fn(usize, usize) -> T,
        io: &Io<'_, '_>,
    ) -> Result<()> {
        io.output::<T, ()>(k, |out| {
            if self.inner == 1 {
                out.part(at, self.most).iter_mut().enumerate().for_each(|(r, to)| *to = of(r, 0));
                return Ok(());
            }
            for r in 0..self.most {
                let to = out.part(at + r * self.inner, count);
                to.iter_mut().enumerate().for_each(|(c, to)| *to = of(r, c));
            }
            Ok(())
        })
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
