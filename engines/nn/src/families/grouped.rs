//! `GroupedMatmul`: the rows of `x[M, K]` in E groups, each multiplied by its own matrix of
//! `weight[E, K, N]`. f32, f16, bf16, summed in single precision in ascending order of k.
//! `group_list[E]` assigns rows to groups: rows per group (`group_list_type` 1) or cumulative ends
//! (0). If it is not a constant, the tiling runs on the device.
use crate::kernel::{Io, Kernel, words};
use crate::sig::{Answer, FLOATS, Sig};
use ge_kernels::view::{Elem, Kind};
use ge_kernels::with_kind;
use ge_plugin_api::author::tiling_sink;
use ge_plugin_api::{Error, Result};
use std::ops::Range;

/// The input whose values the tiling reads.
pub const VALUES_OF: u32 = 2;

struct Grouped {
    kind: Kind,
    m: usize,
    k: usize,
    n: usize,
    groups: usize,
    /// First row of each group, and the end of the last; empty if the device's tiling computes
    /// them.
    starts: Vec<usize>,
    bias: bool,
    list_type: i64,
}

/// The kernel of a grouped product.
///
/// # Errors
/// Fails with a reason if types, shapes or values are not supported.
pub fn build(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let kind = sig.kind_in(0, FLOATS)?;
    let (x, w, list) = (sig.input(0)?, sig.input(1)?, sig.input(VALUES_OF as usize)?);
    if w.kind != Some(kind) || sig.output(0)?.kind != Some(kind) {
        return Err(format!("`weight` is {}, output 0 {}, `x` {}", w.dtype, sig.output(0)?.dtype, x.dtype));
    }
    let (&[m, k], &[groups, kw, n]) = (x.shape.as_slice(), w.shape.as_slice()) else {
        return Err(format!("x is {:?} and weight {:?}, it takes [M, K] and [E, K, N]", x.shape, w.shape));
    };
    if k != kw || sig.output(0)?.shape != [m, n] || list.shape != [groups] {
        return Err(format!("x {:?}, weight {:?} and group_list {:?} do not fit", x.shape, w.shape, list.shape));
    }
    let bias = match sig.opt_input(3) {
        None => false,
        Some(b) if b.kind == Some(kind) && b.shape == [groups, n] => true,
        Some(b) => return Err(format!("input 3 `bias` is {} {:?}, it takes [{groups}, {n}]", b.dtype, b.shape)),
    };
    let list_type = sig.int("group_list_type", 0);
    let starts = match &list.values {
        Some(v) => starts_of(v, m, list_type).map_err(|e| e.to_string())?,
        None if sig.attrs.flag(tiling_sink::SINK) => Vec::new(),
        None => {
            return Err(
                "its tiling reads the values of input 2 `group_list`, which is no constant, and is not sunk".into()
            );
        }
    };
    Ok(Box::new(Grouped { kind, m, k, n, groups, starts, bias, list_type }))
}

/// First row of each group, and the end of the last.
pub fn starts_of(list: &[i64], m: usize, list_type: i64) -> Result<Vec<usize>> {
    let mut starts = vec![0usize];
    let mut at = 0i64;
    for &v in list {
        let next = if list_type == 1 { at.checked_add(v) } else { Some(v) };
        match next.filter(|n| *n >= at) {
            Some(n) => at = n,
            None => {
                return Err(Error::failed(format!("group_list {:?} has a group of less than no rows", short(list))));
            }
        }
        starts.push(usize::try_from(at).unwrap_or(usize::MAX));
    }
    if starts.last() != Some(&m) {
        let total = starts.last().copied().unwrap_or(0);
        return Err(Error::failed(format!("group_list sums to {total} rows, x has {m}")));
    }
    Ok(starts)
}

fn short(list: &[i64]) -> &[i64] {
    &list[..list.len().min(16)]
}

impl Grouped {
    fn rows<T: Elem>(&self, rows: Range<usize>, starts: &[usize], io: &Io<'_, '_>) -> Result<()> {
        let (x, w, b) = (io.input::<T>(0)?, io.input::<T>(1)?, if self.bias { io.input::<T>(3)? } else { &[] });
        let mut sum = vec![0f32; self.n];
        io.output::<T, ()>(0, |out| {
            for r in rows.clone() {
                // The group of a row is the last non-empty one that starts at or before the row.
                let g = starts.partition_point(|s| *s <= r).saturating_sub(1);
                if g >= self.groups {
                    return Err(Error::failed(format!("row {r} is in no group")));
                }
                match b.get(g * self.n..(g + 1) * self.n) {
                    Some(b) => sum.iter_mut().zip(b).for_each(|(s, b)| *s = b.to_f32()),
                    None => sum.fill(0.0),
                }
                let matrix = &w[g * self.k * self.n..(g + 1) * self.k * self.n];
                for (x, row) in x[r * self.k..(r + 1) * self.k].iter().zip(matrix.chunks_exact(self.n.max(1))) {
                    let x = x.to_f32();
                    sum.iter_mut().zip(row).for_each(|(s, w)| *s += x * w.to_f32());
                }
                for (y, s) in out.part(r * self.n, self.n).iter_mut().zip(&sum) {
                    *y = T::from_num(ge_kernels::view::Num::F(f64::from(*s)));
                }
            }
            Ok(())
        })
    }
}

impl Kernel for Grouped {
    fn units(&self) -> usize {
        self.m
    }
    fn work(&self) -> u64 {
        self.products()
    }
    fn products(&self) -> u64 {
        (self.m as u64).saturating_mul(self.k as u64).saturating_mul(self.n as u64)
    }
    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        with_kind!(self.kind, [F32, F16, Bf16], T => self.rows::<T>(units, &self.starts, io),
            else Err(Error::internal("type of a grouped product")))
    }
    fn tile(&self, values: &[Option<Vec<i64>>]) -> Result<Vec<u64>> {
        let [Some(list)] = values else { return Err(Error::internal("a grouped product without its group_list")) };
        Ok(starts_of(list, self.m, self.list_type)?.into_iter().map(|s| s as u64).collect())
    }
    /// Holds the first row of each group.
    fn workspaces(&self) -> Vec<u64> {
        vec![(self.groups as u64 + 1) * 8]
    }
    fn run_tiled(&self, units: Range<usize>, io: &Io<'_, '_>, data: &[u8]) -> Result<()> {
        let starts: Vec<usize> = words(data).into_iter().map(|w| usize::try_from(w).unwrap_or(usize::MAX)).collect();
        if starts.len() != self.groups + 1 {
            return Err(Error::failed("tiling data is of another number of groups"));
        }
        with_kind!(self.kind, [F32, F16, Bf16], T => self.rows::<T>(units, &starts, io),
            else Err(Error::internal("type of a grouped product")))
    }
}
