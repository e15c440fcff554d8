//! `RotaryEmbedding(X, cos_cache, sin_cache, position_ids?)`: rotates each pair of numbers of a
//! head by the angle of its position. `X` is `[B, N, S, D]`, or `[B, S, N * D]` with `num_heads`.
//! The tables have a row for each position that the ids refer to or, without ids, for each of `[B,
//! S]` or of `[1, S]`, as PyTorch writes them. Only the first `rotary_embedding_dim` numbers of a
//! head are rotated (all if it is 0). f32, f16, bf16, computed in single precision. A negative id
//! counts from the end; an id out of range makes the run fail.
use crate::kernel::{CHUNK, Io, Kernel};
use crate::sig::{Answer, FLOATS, Sig};
use ge_kernels::simd::isa::PanelElem;
use ge_kernels::view::{Elem, Kind};
use ge_kernels::with_kind;
use ge_plugin_api::{Error, Result};
use std::ops::Range;

struct Rotary {
    kind: Kind,
    /// Number of rows, each of which is one head at one position, in memory order.
    rows: usize,
    size: usize,
    heads: usize,
    positions: usize,
    /// Whether positions are inside heads in memory (else heads are inside positions).
    by_head: bool,
    /// Number of pairs that are rotated.
    half: usize,
    /// Whether the two numbers of a pair are adjacent (else they are half a head apart).
    interleaved: bool,
    /// Number of rows of the tables.
    angles: usize,
    ids: Option<Kind>,
}

/// The kernel of `RotaryEmbedding`.
///
/// # Errors
/// Fails with a reason if types or shapes are not supported.
pub fn build(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let kind = sig.kind_in(0, FLOATS)?;
    let (x, cos, sin, y) = (sig.input(0)?, sig.input(1)?, sig.input(2)?, sig.output(0)?);
    if let Some(t) = [cos, sin, y].iter().find(|t| t.kind != Some(kind)) {
        return Err(format!("{} beside an input of {}", t.dtype, kind.name()));
    }
    let number = |key: &str| usize::try_from(sig.int(key, 0)).map_err(|_| format!("attribute `{key}` is negative"));
    let (batch, heads, positions, size, by_head) = match (x.shape.as_slice(), number("num_heads")?) {
        (&[b, n, s, d], _) => (b, n, s, d, true),
        (&[b, s, w], n) if n > 0 && w % n == 0 => (b, n, s, w / n, false),
        (shape, n) => return Err(format!("shape {shape:?} with {n} heads")),
    };
    let turned = match number("rotary_embedding_dim")? {
        0 => size,
        n => n,
    };
    let half = turned / 2;
    let ids = match sig.opt_input(3) {
        None => None,
        Some(t) if t.shape == [batch, positions] => Some(sig.kind_in(3, &[Kind::I64, Kind::I32])?),
        Some(t) => return Err(format!("input 3 is {:?}, expected [{batch}, {positions}]", t.shape)),
    };
    let angles = match cos.shape.as_slice() {
        &[rows, width] if ids.is_some() && width == half => rows,
        &[of, s, width] if ids.is_none() && (of == batch || of == 1) && s == positions && width == half => of * s,
        &[rows, width] if rows == batch * positions && width == half => rows,
        shape => return Err(format!("tables {shape:?} for {batch} x {positions} positions of {half} pairs")),
    };
    if turned > size || cos.shape != sin.shape || y.shape != x.shape {
        return Err(format!("tables {:?} and {:?} for heads of {size}", cos.shape, sin.shape));
    }
    let rows = batch * heads * positions;
    let interleaved = sig.int("interleaved", 0) != 0;
    Ok(Box::new(Rotary { kind, rows, size, heads, positions, by_head, half, interleaved, angles, ids }))
}

impl Rotary {
    /// Number of rows per unit.
    fn grain(&self) -> usize {
        (CHUNK / self.size.max(1)).max(1)
    }

    /// The index of a row's position in `[B, S]`.
    fn place(&self, row: usize) -> usize {
        if self.by_head {
            row / (self.heads * self.positions) * self.positions + row % self.positions
        } else {
            row / self.heads
        }
    }

    fn turn<T: PanelElem>(&self, x: &[T], (cos, sin): (&[T], &[T]), y: &mut [T]) {
        let (x, rest) = x.split_at(2 * self.half);
        let (y, left) = y.split_at_mut(2 * self.half);
        left.copy_from_slice(rest);
        if self.interleaved {
            for (k, (x, y)) in x.chunks_exact(2).zip(y.chunks_exact_mut(2)).enumerate() {
                let ([a, b], [c, s]) = ([x[0].wide(), x[1].wide()], [cos[k].wide(), sin[k].wide()]);
                y[0] = T::narrow(a * c - b * s);
                y[1] = T::narrow(a * s + b * c);
            }
            return;
        }
        let ((x0, x1), (y0, y1)) = (x.split_at(self.half), y.split_at_mut(self.half));
        for (k, (y0, y1)) in y0.iter_mut().zip(y1).enumerate() {
            let ([a, b], [c, s]) = ([x0[k].wide(), x1[k].wide()], [cos[k].wide(), sin[k].wide()]);
            *y0 = T::narrow(a * c - b * s);
            *y1 = T::narrow(a * s + b * c);
        }
    }

    fn turned<T: PanelElem, I: Elem>(&self, units: &Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        let (x, cos, sin) = (io.input::<T>(0)?, io.input::<T>(1)?, io.input::<T>(2)?);
        let ids = io.opt_input::<I>(3)?;
        let [start, end] = [units.start, units.end].map(|u| (u * self.grain()).min(self.rows));
        io.output::<T, ()>(0, |out| {
            let to = out.part(start * self.size, (end - start) * self.size);
            for (row, y) in (start..end).zip(to.chunks_exact_mut(self.size)) {
                let place = self.place(row);
                let angle = match ids.get(place) {
                    Some(id) => self.angle(id.to_i64())?,
                    // Tables of one image serve all.
                    None => place % self.angles,
                };
                let table = angle * self.half..(angle + 1) * self.half;
                self.turn(&x[row * self.size..][..self.size], (&cos[table.clone()], &sin[table]), y);
            }
            Ok(())
        })
    }

    /// The table row for an id.
    fn angle(&self, id: i64) -> Result<usize> {
        let at = if id < 0 { id.saturating_add(self.angles as i64) } else { id };
        let found = usize::try_from(at).ok().filter(|at| *at < self.angles);
        found.ok_or_else(|| Error::failed(format!("position {id} is out of range for {} rows", self.angles)))
    }
}

impl Kernel for Rotary {
    fn units(&self) -> usize {
        if self.size == 0 { 0 } else { self.rows.div_ceil(self.grain()) }
    }

    fn work(&self) -> u64 {
        (self.rows as u64).saturating_mul(self.size as u64).saturating_mul(2)
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        with_kind!(self.kind, [F32, F16, Bf16], T => match self.ids {
            Some(Kind::I32) => self.turned::<T, i32>(&units, io),
            _ => self.turned::<T, i64>(&units, io),
        }, else Err(Error::internal("type of a rotary embedding")))
    }
}
