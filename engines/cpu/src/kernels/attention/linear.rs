//! `LinearAttention`: keeps a state of keys by values. At each position the state is decayed,
//! corrected, updated and then read by the queries (`plugins/ops/src/attention.rs`).
use crate::args::{Arg, bad, filled, float_attr, int_attr, put_f64, size, text};
use crate::op::Op;
use crate::store::types::FLOAT;
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;

/// Sizes of a call.
struct Sizes {
    batch: usize,
    length: usize,
    /// Number of heads of queries, and of keys and values.
    heads: (usize, usize),
    /// Size of a key and of a value.
    each: (usize, usize),
}

impl Sizes {
    fn of(ctx: &KernelCtx<'_>, q: &Arg<'_>, k: &Arg<'_>, v: &Arg<'_>) -> Result<Sizes> {
        let heads = |key: &str| size(&format!("attribute `{key}`"), int_attr(ctx, key, 0));
        let (hq, hk) = (heads("q_num_heads")?, heads("kv_num_heads")?);
        if hq == 0 || hk == 0 || !hq.is_multiple_of(hk) {
            return Err(bad("attribute `q_num_heads`", hq, format!("a multiple of `kv_num_heads`, {hk}")));
        }
        for a in [q, k, v] {
            a.need_rank(3, 3)?;
        }
        let s =
            Sizes { batch: q.shape[0], length: q.shape[1], heads: (hq, hk), each: (q.shape[2] / hq, v.shape[2] / hk) };
        if !q.shape[2].is_multiple_of(hq) || !v.shape[2].is_multiple_of(hk) {
            return Err(bad(
                "sizes of query and value",
                format!("{} and {}", q.shape[2], v.shape[2]),
                format!("multiples of their heads, {hq} and {hk}"),
            ));
        }
        k.need_shape(&[s.batch, s.length, hk * s.each.0])?;
        v.need_shape(&[s.batch, s.length, hk * s.each.1])?;
        Ok(s)
    }

    /// An input `[B, T, n]` that the update rule either requires or forbids.
    fn gate(
        &self,
        ctx: &KernelCtx<'_>,
        i: usize,
        wanted: bool,
        widths: [usize; 2],
    ) -> Result<Option<(Vec<f64>, usize)>> {
        let rule = text(ctx, "update_rule", "gated_delta");
        match (Arg::opt(ctx, i)?, wanted) {
            (None, false) => Ok(None),
            (Some(_), false) => Err(bad(format!("input {i}"), "a tensor", format!("none for the rule `{rule}`"))),
            (None, true) => Err(bad(format!("input {i}"), "nothing", format!("a tensor for the rule `{rule}`"))),
            (Some(a), true) => {
                a.need_rank(3, 3)?;
                let n = a.shape[2];
                if a.shape[..2] != [self.batch, self.length] || !widths.contains(&n) {
                    let want = format!("[{}, {}, {} or {}]", self.batch, self.length, widths[0], widths[1]);
                    return Err(bad(format!("input {i}"), format!("{:?}", a.shape), want));
                }
                Ok(Some((a.f64s()?, n)))
            }
        }
    }
}

fn run(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (q, k, v) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?, Arg::of(ctx, 2)?);
    let s = Sizes::of(ctx, &q, &k, &v)?;
    let ((hq, hk), (dk, dv)) = (s.heads, s.each);
    let rule = text(ctx, "update_rule", "gated_delta");
    let (gated, delta) = (rule.starts_with("gated"), rule.ends_with("delta"));
    let decay = s.gate(ctx, 4, gated, [hk, hk * dk])?;
    let beta = s.gate(ctx, 5, delta, [hk, 1])?;
    let shape = [s.batch, hk, dk, dv];
    let mut state = match Arg::opt(ctx, 3)? {
        Some(past) => past.need_shape(&shape).and_then(|()| past.f64s())?,
        None => filled(crate::args::count(&shape)?, 0f64)?,
    };
    let scale = match float_attr(ctx, "scale", 0.0) {
        0.0 => 1.0 / (dk as f64).sqrt(),
        given => given,
    };
    let (qs, ks, vs) = (q.f64s()?, k.f64s()?, v.f64s()?);
    let mut y = filled(crate::args::count(&[s.batch, s.length, hq * dv])?, 0f64)?;
    let mut add = filled(dv, 0f64)?;
    for head in 0..s.batch * hk {
        let (b, h) = (head / hk, head % hk);
        let own = &mut state[head * dk * dv..][..dk * dv];
        for row in (0..s.length).map(|t| b * s.length + t) {
            let key = &ks[(row * hk + h) * dk..][..dk];
            if let Some((g, n)) = &decay {
                // One factor per head, or one for each number of its keys.
                for i in 0..dk {
                    let f = if *n == hk { g[row * hk + h] } else { g[(row * hk + h) * dk + i] }.exp();
                    own[i * dv..][..dv].iter_mut().for_each(|x| *x *= f);
                }
            }
            add.copy_from_slice(&vs[(row * hk + h) * dv..][..dv]);
            if let Some((r, n)) = &beta {
                // The value that the state already returns for this key is not added again.
                for (i, k) in key.iter().enumerate() {
                    add.iter_mut().zip(&own[i * dv..][..dv]).for_each(|(a, x)| *a -= k * x);
                }
                let rate = r[if *n == 1 { row } else { row * hk + h }];
                add.iter_mut().for_each(|a| *a *= rate);
            }
            for (i, k) in key.iter().enumerate() {
                own[i * dv..][..dv].iter_mut().zip(&add).for_each(|(x, a)| *x += k * a);
            }
            for n in (0..hq / hk).map(|j| h * (hq / hk) + j) {
                let out = &mut y[(row * hq + n) * dv..][..dv];
                for (i, q) in qs[(row * hq + n) * dk..][..dk].iter().enumerate() {
                    out.iter_mut().zip(&own[i * dv..][..dv]).for_each(|(o, x)| *o += q * scale * x);
                }
            }
        }
    }
    put_f64(ctx, 0, &[s.batch, s.length, hq * dv], &y)?;
    put_f64(ctx, 1, &shape, &state)
}

/// Operator rows of this file.
pub const OPS: &[Op] =
    &[Op::new("LinearAttention", run, &[FLOAT, FLOAT, FLOAT, FLOAT, FLOAT, FLOAT]).gives(&[FLOAT, FLOAT])];
