//! Gather and scatter by index: `GatherNd`, `GatherElements`, `TensorScatterUpdate` (ONNX's
//! ScatterND) and `ScatterElements`. A negative index counts from the end; an index out of range
//! makes the run fail. Updates are applied in order, so the last of several updates of one element
//! wins. In place (`_in_place`), only the updates are written.
use super::layout::{by_width, width};
use crate::kernel::{CHUNK, Io, Kernel, chunk};
use crate::sig::{Answer, Sig, Tensor};
use ge_kernels::elementwise::Binary;
use ge_kernels::elementwise::binary::Arith;
use ge_kernels::layout::copy_run;
use ge_kernels::layout::places::{Beyond, Elements, Places, Tuples};
use ge_kernels::layout::scatter::{By, Join, Replace, scatter};
use ge_kernels::view::layout::resolve_axis;
use ge_kernels::view::{Elem, Kind};
use ge_kernels::with_kind;
use ge_plugin_api::ops::IN_PLACE;
use ge_plugin_api::{Error, Result};
use std::ops::Range;

const INDEX: &[Kind] = &[Kind::I32, Kind::I64];
/// Types for which updates can be combined with the existing values.
const JOINED: &[Kind] = &[Kind::F32, Kind::I32, Kind::I64];

/// Number of elements that can be copied in the time needed to find the place of one update.
const FINDING: u64 = 8;

/// What the indices refer to.
enum Named {
    Tuples(Tuples),
    Elements(Elements),
}

fn beyond((index, size): Beyond) -> Error {
    Error::failed(format!("index {index} is out of range for size {size}"))
}

/// Index tuples into `x` after the first `shared` axes, and the number of tuples.
fn tuples(x: &Tensor, index: &Tensor, shared: usize) -> Answer<(Tuples, usize)> {
    let wrong = || format!("indices are {:?}, for {:?} with {shared} shared axes", index.shape, x.shape);
    let (len, lead) = index.shape.split_last().ok_or_else(wrong)?;
    if shared > lead.len() || shared + len > x.rank() || lead[..shared] != x.shape[..shared] {
        return Err(wrong());
    }
    let count = lead.iter().product();
    let per = lead[shared..].iter().product();
    Ok((Tuples::new(&x.shape, shared, *len, per), count))
}

/// Indices of single elements of `x` along an axis.
fn elements(x: &Tensor, index: &Tensor, axis: i64) -> Answer<Elements> {
    let axis = resolve_axis(axis, x.rank()).map_err(|e| e.to_string())?;
    let fits = |d: usize| d == axis || index.shape[d] <= x.shape[d];
    if index.rank() != x.rank() || !(0..x.rank()).all(fits) {
        return Err(format!("indices are {:?}, for {:?} along axis {axis}", index.shape, x.shape));
    }
    Ok(Elements::new(&index.shape, &x.shape, axis))
}

struct Gather {
    width: usize,
    index: Kind,
    named: Named,
    /// Number of blocks that are gathered: one per tuple or element.
    blocks: usize,
    /// Number of elements of a block.
    inner: usize,
}

fn gather(sig: &Sig, named: Named, blocks: usize, inner: usize) -> Answer<Box<dyn Kernel>> {
    let y = sig.output(0)?;
    if blocks * inner != y.count() {
        return Err(format!("output 0 is {:?}, {blocks} x {inner} elements are gathered", y.shape));
    }
    Ok(Box::new(Gather { width: width(sig)?, index: sig.kind_in(1, INDEX)?, named, blocks, inner }))
}

/// The kernel of `GatherNd`.
///
/// # Errors
/// Fails with a reason if types or shapes are not supported.
pub fn gather_nd(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let shared = usize::try_from(sig.int("batch_dims", 0)).map_err(|_| "attribute `batch_dims` is below zero")?;
    let (tuples, count) = tuples(sig.input(0)?, sig.input(1)?, shared)?;
    let inner = tuples.inner();
    gather(sig, Named::Tuples(tuples), count, inner)
}

/// The kernel of `GatherElements`.
///
/// # Errors
/// Fails with a reason if types, shapes or axis are not supported.
pub fn gather_elements(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let e = elements(sig.input(0)?, sig.input(1)?, sig.int("dim", 0))?;
    let count = e.count();
    gather(sig, Named::Elements(e), count, 1)
}

impl Gather {
    /// Number of blocks per unit.
    fn grain(&self) -> usize {
        (CHUNK / self.inner.max(1)).max(1)
    }

    fn gathered<T: Elem, I: Elem>(&self, units: &Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        let (x, index, inner) = (io.input::<T>(0)?, io.input::<I>(1)?, self.inner);
        let [start, end] = [units.start, units.end].map(|u| (u * self.grain()).min(self.blocks));
        io.output::<T, ()>(0, |out| {
            let to = out.part(start * inner, (end - start) * inner);
            let found = match &self.named {
                Named::Elements(e) => e.gather(x, index, start..end, to),
                Named::Tuples(t) => t.each(index, start..end, |i, at| {
                    let to = &mut to[(i - start) * inner..];
                    match inner {
                        1 => to[0] = x[at],
                        _ => copy_run(&x[at..at + inner], &mut to[..inner]),
                    }
                }),
            };
            found.map_err(beyond)
        })
    }
}

impl Kernel for Gather {
    fn units(&self) -> usize {
        if self.inner == 0 { 0 } else { self.blocks.div_ceil(self.grain()) }
    }

    fn operations(&self) -> u64 {
        0
    }

    fn work(&self) -> u64 {
        (self.blocks as u64).saturating_mul(self.inner as u64)
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        by_width!(self.width, T => match self.index {
            Kind::I64 => self.gathered::<T, i64>(&units, io),
            _ => self.gathered::<T, i32>(&units, io),
        })
    }
}

struct Scatter {
    kind: Kind,
    index: Kind,
    named: Named,
    /// Number of elements of the data.
    count: usize,
    join: Option<Binary>,
    /// Whether the output holds the data already, in the same memory.
    in_place: bool,
    /// Number of elements of all updates.
    updates: usize,
}

fn scattered(sig: &Sig, named: Named, updates: usize) -> Answer<Box<dyn Kernel>> {
    width(sig)?;
    let join = match sig.text("reduction", "none") {
        "none" => None,
        "add" => Some(Binary::Add),
        "mul" => Some(Binary::Mul),
        "max" => Some(Binary::Max),
        "min" => Some(Binary::Min),
        other => return Err(format!("attribute `reduction` is {other}")),
    };
    let (x, new, y) = (sig.input(0)?, sig.input(2)?, sig.output(0)?);
    let kind = sig.kind_in(0, if join.is_some() { JOINED } else { &Kind::ALL })?;
    if new.kind != x.kind || new.count() != updates || y.shape != x.shape {
        return Err(format!(
            "updates are {} {:?} for {updates} elements of {}, output 0 is {:?}, input 0 {:?}",
            new.dtype, new.shape, x.dtype, y.shape, x.shape
        ));
    }
    let (index, count, in_place) = (sig.kind_in(1, INDEX)?, x.count(), sig.attrs.flag(IN_PLACE));
    Ok(Box::new(Scatter { kind, index, named, count, join, in_place, updates }))
}

/// The kernel of `TensorScatterUpdate`.
///
/// # Errors
/// Fails with a reason if types, shapes or reduction are not supported.
pub fn scatter_nd(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let (tuples, count) = tuples(sig.input(0)?, sig.input(1)?, 0)?;
    let updates = count * tuples.inner();
    scattered(sig, Named::Tuples(tuples), updates)
}

/// The kernel of `ScatterElements`.
///
/// # Errors
/// Fails with a reason if types, shapes, axis or reduction are not supported.
pub fn scatter_elements(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let e = elements(sig.input(0)?, sig.input(1)?, sig.int("axis", 0))?;
    let updates = e.count();
    scattered(sig, Named::Elements(e), updates)
}

impl Scatter {
    fn by_index<T: Elem>(&self, units: &Range<usize>, join: impl Join<T>, io: &Io<'_, '_>) -> Result<()> {
        match (&self.named, self.index) {
            (Named::Tuples(t), Kind::I64) => self.scattered::<T, i64>(units, t, join, io),
            (Named::Tuples(t), _) => self.scattered::<T, i32>(units, t, join, io),
            (Named::Elements(e), Kind::I64) => self.scattered::<T, i64>(units, e, join, io),
            (Named::Elements(e), _) => self.scattered::<T, i32>(units, e, join, io),
        }
    }

    fn scattered<T: Elem, I: Elem>(
        &self,
        units: &Range<usize>,
        places: &impl Places,
        join: impl Join<T>,
        io: &Io<'_, '_>,
    ) -> Result<()> {
        let x = if self.in_place { None } else { Some(io.input::<T>(0)?) };
        let given = (x, io.input::<I>(1)?, io.input::<T>(2)?);
        io.output::<T, ()>(0, |out| scatter(chunk(units, self.count), given, places, join, out).map_err(beyond))
    }

    /// Number of updates that a unit looks at.
    fn near(&self) -> usize {
        let part = 0..CHUNK.min(self.count);
        match &self.named {
            Named::Tuples(t) => t.near(&part, self.updates.checked_div(t.inner()).unwrap_or(0)).len(),
            Named::Elements(e) => e.near(&part, self.updates).len(),
        }
    }
}

impl Kernel for Scatter {
    fn units(&self) -> usize {
        self.count.div_ceil(CHUNK)
    }

    fn operations(&self) -> u64 {
        0
    }

    fn work(&self) -> u64 {
        if self.in_place { self.updates as u64 } else { self.count as u64 }
    }

    fn updates(&self) -> bool {
        self.in_place
    }

    fn scanned(&self) -> u64 {
        (self.near() as u64).saturating_mul(FINDING)
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        let Some(op) = self.join else {
            return by_width!(self.kind.size(), T => self.by_index::<T>(&units, Replace, io));
        };
        with_kind!(self.kind, [F32, I32, I64], T => match op {
            Binary::Add => self.by_index::<T>(&units, By(|a, b| T::map(Binary::Add, a, b)), io),
            Binary::Mul => self.by_index::<T>(&units, By(|a, b| T::map(Binary::Mul, a, b)), io),
            Binary::Max => self.by_index::<T>(&units, By(|a, b| T::map(Binary::Max, a, b)), io),
            _ => self.by_index::<T>(&units, By(|a, b| T::map(Binary::Min, a, b)), io),
        }, else Err(Error::internal("type of updates")))
    }
}
