//! Parallel loops over disjoint parts of an output. Parts have a fixed size, so the result does not
//! depend on the number of threads.
use ge_plugin_api::{Error, Result, services};
use std::sync::Mutex;

/// Elements per part of a plain element-wise loop; smaller outputs are not split.
pub const GRAIN: usize = 1 << 15;

/// Calls `f(start, part)` for parts of `grain` elements of `out` (the last may be shorter), in
/// parallel. Fails if a call fails or the work is cancelled.
pub fn chunks<T: Send>(out: &mut [T], grain: usize, f: impl Fn(usize, &mut [T]) -> Result<()> + Sync) -> Result<()> {
    chunks_by(out, grain, &f)
}

/// The function that a loop calls for its parts.
type Part<'f, T> = &'f (dyn Fn(usize, &mut [T]) -> Result<()> + Sync);

/// Like [`chunks`], compiled only once per element type.
fn chunks_by<T: Send>(out: &mut [T], grain: usize, f: Part<'_, T>) -> Result<()> {
    let grain = grain.max(1);
    if out.len() <= grain {
        return if out.is_empty() { Ok(()) } else { f(0, out) };
    }
    let parts: Vec<Mutex<&mut [T]>> = out.chunks_mut(grain).map(Mutex::new).collect();
    services::parallel_for(parts.len(), 1, |range| {
        for k in range {
            if services::cancelled() {
                return Err(Error::cancelled());
            }
            let mut part = parts[k].lock().unwrap_or_else(|p| p.into_inner());
            f(k * grain, &mut part)?;
        }
        Ok(())
    })
}

/// Calls `f(row, elements)` for each row of `width` elements, in parallel. A part consists of as
/// many rows as cost about [`GRAIN`] units of work, where one row costs `cost` units.
pub fn rows<T: Send>(
    out: &mut [T],
    width: usize,
    cost: usize,
    f: impl Fn(usize, &mut [T]) -> Result<()> + Sync,
) -> Result<()> {
    let width = width.max(1);
    let each = (GRAIN / cost.max(1)).max(1);
    chunks(out, width.saturating_mul(each), |start, part| {
        for (i, row) in part.chunks_mut(width).enumerate() {
            f(start / width + i, row)?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_rows_cover_the_output_once() {
        let mut v = vec![0usize; 10];
        chunks(&mut v, 4, |s, p| {
            p.iter_mut().enumerate().for_each(|(i, x)| *x += s + i + 1);
            Ok(())
        })
        .unwrap();
        assert_eq!(v, (1..=10).collect::<Vec<_>>());
        rows(&mut v, 5, GRAIN, |r, row| {
            row.fill(r);
            Ok(())
        })
        .unwrap();
        assert_eq!(v, [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]);
    }
}
