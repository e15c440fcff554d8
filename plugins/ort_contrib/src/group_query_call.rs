//! The inputs of one GroupQueryAttention, checked and read.
use crate::numbers::reals;
use crate::rotary_embedding::{Turn, indices};
use ge_plugin_api::kernel::{KernelCtx, TensorView};
use ge_plugin_api::{Error, Result};

/// Length of the present keys: past and new positions, or the past's own length if it has room for
/// the new positions.
///
/// # Errors
/// Fails for any other total.
pub(crate) fn present(past: u64, steps: u64, total: i64) -> Result<u64> {
    let longer = past.saturating_add(steps);
    match u64::try_from(total) {
        Ok(total) if total == longer => Ok(total),
        Ok(total) if total <= past && steps <= total => Ok(past),
        _ => Err(Error::failed(format!(
            "input 6 `total_sequence_length` is {total} for a past of {past} and {steps} new positions: expected \
             {longer}, or at most {past} if the past has room for the new positions"
        ))),
    }
}

/// Sizes and settings of a call.
pub(crate) struct Call {
    pub(crate) batch: usize,
    pub(crate) steps: usize,
    pub(crate) heads: usize,
    pub(crate) kv: usize,
    pub(crate) size: usize,
    pub(crate) past: usize,
    pub(crate) present: usize,
    pub(crate) scale: f32,
    window: Option<usize>,
    causal: bool,
    /// Length of the longest row that the caller states.
    total: usize,
    /// Number of valid positions of each row, including the new ones.
    lengths: Vec<usize>,
    /// Whether no row has a past.
    first: bool,
}

impl Call {
    /// The positions that query `step` of a row sees.
    pub(crate) fn seen(&self, row: usize, step: usize) -> std::ops::Range<usize> {
        if !self.causal {
            return 0..self.lengths[row];
        }
        let end = (self.before(row) + step + 1).min(self.present);
        self.window.map_or(0, |w| end.saturating_sub(w))..end
    }
    /// Number of positions before the new ones of a row.
    pub(crate) fn before(&self, row: usize) -> usize {
        if self.first { 0 } else { self.lengths[row] - self.steps }
    }
    /// The number of keys of a row. Causal queries do not see the padding after the end of a first
    /// row, so it counts there.
    pub(crate) fn keys(&self, row: usize) -> usize {
        if self.causal { self.before(row) + self.steps } else { self.lengths[row] }
    }
}

fn wrong(what: &str, found: &[u64], expected: &str) -> Error {
    Error::failed(format!("{what}: found shape {found:?}, expected {expected}"))
}

/// The new heads `[B, heads, S, H]` from rows of `width` numbers, starting at number `offset`.
fn heads_of(x: &[f32], c: &Call, width: usize, offset: usize, heads: usize) -> Vec<f32> {
    let mut out = Vec::with_capacity(c.batch * heads * c.steps * c.size);
    for b in 0..c.batch {
        for n in 0..heads {
            for s in 0..c.steps {
                let at = (b * c.steps + s) * width + offset + n * c.size;
                out.extend_from_slice(&x[at..at + c.size]);
            }
        }
    }
    out
}

/// Rotates every new head by its position.
fn rotate(x: &mut [f32], c: &Call, heads: usize, turn: &Turn, ids: Option<&[i64]>) -> Result<()> {
    if c.size == 0 {
        return Ok(());
    }
    for (i, head) in x.chunks_exact_mut(c.size).enumerate() {
        let (s, b) = (i % c.steps, i / (c.steps * heads));
        // Padding steps after the end of a row use an arbitrary position of the table.
        let padded = c.first && s >= c.lengths[b];
        let position = match ids {
            Some(ids) => ids[b * c.steps + s],
            None if padded => 1,
            None => (c.before(b) + s) as i64,
        };
        turn.apply(head, position)?;
    }
    Ok(())
}

/// A bias `[B or 1, N or 1, S, T]` that is added to the scores.
pub(crate) struct Bias {
    values: Vec<f32>,
    pub(crate) dims: [usize; 4],
}
impl Bias {
    pub(crate) fn of(x: &TensorView<'_>, c: &Call) -> Result<Bias> {
        let [b, n, s, t] = *x.dims else { return Err(wrong("input 10 `attention_bias`", x.dims, "four axes")) };
        let dims = [b as usize, n as usize, s as usize, t as usize];
        let fits = |d: usize, to: usize| d == 1 || d == to;
        if !fits(dims[0], c.batch) || !fits(dims[1], c.heads) || dims[2] != c.steps || dims[3] < c.total {
            let expected = format!("[{} or 1, {} or 1, {}, {} (the total)]", c.batch, c.heads, c.steps, c.total);
            return Err(wrong("input 10 `attention_bias`", x.dims, &expected));
        }
        Ok(Bias { values: reals(x)?, dims })
    }
    pub(crate) fn row(&self, b: usize, n: usize, s: usize) -> &[f32] {
        let [db, dn, ds, dt] = self.dims;
        let at = ((b % db * dn + n % dn) * ds + s) * dt;
        &self.values[at..at + dt]
    }
}

/// Length of the past; keys and values are given together, with equal shapes.
fn past_of(ctx: &KernelCtx<'_>, [batch, kv, size]: [usize; 3]) -> Result<usize> {
    let expected = format!("[{batch}, {kv}, past, {size}]");
    match (ctx.opt_input(3), ctx.opt_input(4)) {
        (None, None) => Ok(0),
        (Some(k), Some(v)) => match *k.dims {
            [b, n, p, h] if [b, n, h] == [batch as u64, kv as u64, size as u64] => match v.dims == k.dims {
                true => Ok(p as usize),
                false => Err(wrong("input 4 `past_value`", v.dims, &format!("that of `past_key`, {:?}", k.dims))),
            },
            _ => Err(wrong("input 3 `past_key`", k.dims, &expected)),
        },
        _ => Err(Error::failed("inputs 3 `past_key` and 4 `past_value` must be given together or not at all")),
    }
}

fn call(ctx: &KernelCtx<'_>) -> Result<(Call, usize)> {
    let q = ctx.input(0)?;
    let attr = |key: &str| ctx.attrs.int(key).and_then(|v| usize::try_from(v).ok()).unwrap_or(0);
    let (heads, kv) = (attr("num_heads"), attr("kv_num_heads"));
    let [batch, steps, width] = *q.dims else { return Err(wrong("input 0 `query`", q.dims, "three axes")) };
    let (batch, steps, width) = (batch as usize, steps as usize, width as usize);
    let parts = if ctx.opt_input(1).is_none() { heads + 2 * kv } else { heads };
    if kv == 0 || heads == 0 || heads % kv != 0 || width % parts != 0 {
        return Err(Error::failed(format!("a width of {width} is not {heads} heads over {kv} key heads")));
    }
    let size = width / parts;
    let past = past_of(ctx, [batch, kv, size])?;
    let total = i64::from(ctx.input(6)?.values::<i32>()?.first().copied().unwrap_or(0));
    let present = present(past as u64, steps as u64, total)? as usize;
    let total = total as usize;
    let first = total == steps;
    let last = ctx.input(5)?.values::<i32>()?;
    let lengths: Vec<usize> = last.iter().filter_map(|l| usize::try_from(i64::from(*l) + 1).ok()).collect();
    let fits = |l: &usize| *l <= total && (first || *l >= steps);
    if lengths.len() != last.len() || lengths.len() != batch || !lengths.iter().all(fits) {
        return Err(Error::failed(format!(
            "input 5 `seqlens_k`: found {last:?} with {steps} new positions and a total of {total}: expected {batch} \
             last positions below the total"
        )));
    }
    let scale = match ctx.attrs.float("scale").unwrap_or(0.0) {
        0.0 => 1.0 / (size.max(1) as f32).sqrt(),
        s => s as f32,
    };
    let window = ctx.attrs.int("local_window_size").and_then(|w| usize::try_from(w).ok());
    let causal = ctx.attrs.int("causal").unwrap_or(1) != 0;
    Ok((Call { batch, steps, heads, kv, size, past, present, scale, window, causal, total, lengths, first }, width))
}

/// A call with its new heads, rotated by their positions: `[B, N, S, H]` and twice `[B, KV, S, H]`.
pub(crate) struct Prepared {
    pub(crate) call: Call,
    pub(crate) q: Vec<f32>,
    pub(crate) k: Vec<f32>,
    pub(crate) v: Vec<f32>,
}

/// Reads a call.
///
/// # Errors
/// Fails if shapes or values do not match each other.
pub(crate) fn prepared(ctx: &KernelCtx<'_>) -> Result<Prepared> {
    let (c, width) = call(ctx)?;
    let x = reals(&ctx.input(0)?)?;
    let mut q = heads_of(&x, &c, width, 0, c.heads);
    let (mut k, v) = match (ctx.opt_input(1), ctx.opt_input(2)) {
        (Some(k), Some(v)) => {
            let wide = c.kv * c.size;
            let expected = [c.batch, c.steps, wide].map(|n| n as u64);
            for (what, t) in [("input 1 `key`", &k), ("input 2 `value`", &v)] {
                if t.dims != expected {
                    return Err(wrong(what, t.dims, &format!("{expected:?}")));
                }
            }
            (heads_of(&reals(&k)?, &c, wide, 0, c.kv), heads_of(&reals(&v)?, &c, wide, 0, c.kv))
        }
        (None, None) => {
            let at = c.heads * c.size;
            (heads_of(&x, &c, width, at, c.kv), heads_of(&x, &c, width, at + c.kv * c.size, c.kv))
        }
        _ => return Err(Error::failed("inputs 1 `key` and 2 `value` must be given together or not at all")),
    };
    if ctx.attrs.int("do_rotary").unwrap_or(0) != 0 {
        let turn = Turn::of(&ctx.input(7)?, &ctx.input(8)?, ctx.attrs.int("rotary_interleaved").unwrap_or(0) != 0)?;
        if turn.width() > c.size {
            return Err(Error::failed(format!("tables turn {} numbers of heads of {}", turn.width(), c.size)));
        }
        let ids = ctx.opt_input(9).map(|i| indices(&i)).transpose()?;
        if ids.as_ref().is_some_and(|i| i.len() != c.batch * c.steps) {
            return Err(Error::failed(format!("input 9 `position_ids`: expected {} numbers", c.batch * c.steps)));
        }
        rotate(&mut q, &c, c.heads, &turn, ids.as_deref())?;
        rotate(&mut k, &c, c.kv, &turn, ids.as_deref())?;
    }
    Ok(Prepared { call: c, q, k, v })
}

#[cfg(test)]
mod tests {
    use super::present;

    #[test]
    fn the_total_is_past_and_new_positions_or_lies_within_the_past() {
        assert_eq!(present(0, 4, 4), Ok(4));
        assert_eq!(present(3, 1, 4), Ok(4));
        assert_eq!(present(8, 2, 5), Ok(8));
        for (past, steps, total) in [(0, 4, 1_000_000), (3, 1, 5), (3, 4, 4), (8, 4, 3), (8, 1, -1)] {
            let said = present(past, steps, total).unwrap_err().to_string();
            assert!(said.contains(&format!("is {total} for a past of {past}")), "{said}");
        }
    }
}
