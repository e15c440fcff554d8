//! `CommonRNN`, `CommonGRU`, `CommonLSTM`: ONNX's recurrences with all directions, layouts,
//! peepholes, clipping and lengths per sequence (`plugins/ops/src/rnn.rs`), with packed or plain
//! weights. Everything is computed in doubles, and outputs are rounded once.
use crate::args::{Arg, bad, count, filled, int_attr, put_f64, text};
use crate::kernels::math::special::{sigmoid, softplus};
use crate::op::Op;
use crate::store::types::FLOAT;
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;
use ge_plugin_api::types::DType;

type Act = Box<dyn Fn(f64) -> f64>;

/// Activations in ONNX's order, with their alpha and beta.
fn activations(ctx: &KernelCtx<'_>, dirs: usize, each: &[&str]) -> Result<Vec<Act>> {
    let names: Vec<String> = match ctx.attrs.strs("activations").filter(|v| !v.is_empty()) {
        Some(v) => v.into_iter().map(str::to_owned).collect(),
        None => (0..dirs).flat_map(|_| each.iter().map(|s| (*s).to_owned())).collect(),
    };
    if names.len() != dirs * each.len() {
        return Err(bad(
            "attribute `activations`",
            format!("{} names", names.len()),
            format!("{} names", dirs * each.len()),
        ));
    }
    let (alphas, betas) = (
        ctx.attrs.floats("activation_alpha").unwrap_or_default(),
        ctx.attrs.floats("activation_beta").unwrap_or_default(),
    );
    // Alphas and betas are listed only for functions that have them.
    let (mut na, mut nb) = (alphas.iter(), betas.iter());
    let mut out: Vec<Act> = Vec::new();
    for name in names {
        let mut a = |d: f64| na.next().copied().unwrap_or(d);
        out.push(match name.to_ascii_lowercase().as_str() {
            "relu" => Box::new(|x| if x < 0.0 { 0.0 } else { x }),
            "tanh" => Box::new(f64::tanh),
            "sigmoid" => Box::new(sigmoid),
            "softsign" => Box::new(|x| x / (1.0 + x.abs())),
            "softplus" => Box::new(softplus),
            "affine" => {
                let (a, b) = (a(1.0), nb.next().copied().unwrap_or(0.0));
                Box::new(move |x| a * x + b)
            }
            "leakyrelu" => {
                let a = a(0.01);
                Box::new(move |x| if x < 0.0 { a * x } else { x })
            }
            "thresholdedrelu" => {
                let a = a(1.0);
                Box::new(move |x| if x > a { x } else { 0.0 })
            }
            "scaledtanh" => {
                let (a, b) = (a(1.0), nb.next().copied().unwrap_or(1.0));
                Box::new(move |x| a * (b * x).tanh())
            }
            "hardsigmoid" => {
                let (a, b) = (a(0.2), nb.next().copied().unwrap_or(0.5));
                Box::new(move |x| (a * x + b).clamp(0.0, 1.0))
            }
            "elu" => {
                let a = a(1.0);
                Box::new(move |x| if x < 0.0 { a * x.exp_m1() } else { x })
            }
            _ => return Err(bad("attribute `activations`", name, "an activation of ONNX")),
        });
    }
    Ok(out)
}
/// `out[j] += sum over k of v[k] * m[j][k]`.
fn add_product(out: &mut [f64], v: &[f64], m: &[f64]) {
    if !v.is_empty() {
        out.iter_mut()
            .zip(m.chunks_exact(v.len()))
            .for_each(|(o, row)| *o += row.iter().zip(v).map(|(a, b)| a * b).sum::<f64>());
    }
}
fn shaped(a: Option<Arg<'_>>, shape: &[usize]) -> Result<Option<Vec<f64>>> {
    a.map(|a| a.need_shape(shape).and_then(|()| a.f64s())).transpose()
}
/// Hidden units per block of packed weights.
const BLOCK: usize = 16;

/// Weights `[dirs, gates * h, k]` from their packed form. `sections` lists the first gate and the
/// number of gates of each section. If `woven`, each row holds the gates of a block side by side.
fn unpacked(
    a: &Arg<'_>,
    [dirs, gates, h, k]: [usize; 4],
    sections: &[(usize, usize)],
    woven: bool,
) -> Result<Vec<f64>> {
    let padded = h.next_multiple_of(BLOCK);
    let own = count(&[padded, gates, k])?;
    a.need_shape(&[dirs, own])?;
    let from = a.f64s()?;
    let mut w = filled(count(&[dirs, gates, h, k])?, 0f64)?;
    for d in 0..dirs {
        let mut start = d * own;
        for &(first, many) in sections {
            for (g, j) in (0..many).flat_map(|g| (0..h).map(move |j| (g, j))) {
                for x in 0..k {
                    let block = j / BLOCK;
                    let row = if woven { (block * k + x) * many + g } else { (block * many + g) * k + x };
                    w[((d * gates + first + g) * h + j) * k + x] = from[start + row * BLOCK + j % BLOCK];
                }
            }
            start += padded * many * k;
        }
    }
    Ok(w)
}
fn run(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (gates, each): (usize, &[&str]) = match ctx.op {
        "CommonLSTM" => (4, &["sigmoid", "tanh", "tanh"]),
        "CommonGRU" => (3, &["sigmoid", "tanh"]),
        _ => (1, &["tanh"]),
    };
    let (x, w, r) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?, Arg::of(ctx, 2)?);
    x.need_rank(3, 3)?;
    let packed = ctx.attrs.flag("packed");
    let rank = if packed { 2 } else { 3 };
    r.need_rank(rank, rank)?;
    let batch_first = int_attr(ctx, "layout", 0) == 1;
    let (s, b, i) =
        if batch_first { (x.shape[1], x.shape[0], x.shape[2]) } else { (x.shape[0], x.shape[1], x.shape[2]) };
    let direction = text(ctx, "direction", "forward");
    let dirs = if direction == "bidirectional" { 2 } else { 1 };
    let (h, vw, vr) = if packed {
        let h = usize::try_from(int_attr(ctx, "hidden_size", -1))
            .map_err(|_| bad("attribute `hidden_size`", "none", "the size of a state, for weights are packed"))?;
        let vw = unpacked(&w, [dirs, gates, h, i], &[(0, gates)], false)?;
        let apart: &[_] = if gates == 3 { &[(0, 2), (2, 1)] } else { &[(0, gates)] };
        (h, vw, unpacked(&r, [dirs, gates, h, h], apart, true)?)
    } else {
        let h = r.shape[2];
        w.need_shape(&[dirs, gates * h, i])?;
        r.need_shape(&[dirs, gates * h, h])?;
        (h, w.f64s()?, r.f64s()?)
    };
    let act = activations(ctx, dirs, each)?;
    let bias = shaped(Arg::opt(ctx, 3)?, &[dirs, 2 * gates * h])?;
    let state = if batch_first { [b, dirs, h] } else { [dirs, b, h] };
    let (h0, c0) =
        (shaped(Arg::opt(ctx, 5)?, &state)?, if gates == 4 { shaped(Arg::opt(ctx, 6)?, &state)? } else { None });
    let peep = if gates == 4 { shaped(Arg::opt(ctx, 7)?, &[dirs, 3 * h])? } else { None };
    let lens = match Arg::opt(ctx, 4)? {
        Some(l) => {
            l.need_shape(&[b])?;
            let v = l.i64s()?;
            if let Some(n) = v.iter().find(|&&n| n < 0 || n > s as i64) {
                return Err(bad("input 4 `sequence_lens`", n, format!("0 to {s}")));
            }
            v.into_iter().map(|n| n as usize).collect()
        }
        None => vec![s; b],
    };
    let clip = ctx.attrs.float("clip").filter(|c| *c > 0.0).unwrap_or(f64::INFINITY);
    let cut = |v: f64| v.clamp(-clip, clip);
    let (before, forget) = (int_attr(ctx, "linear_before_reset", 0) != 0, int_attr(ctx, "input_forget", 0) != 0);
    let vx = x.f64s()?;
    let y_shape = if batch_first { [b, s, dirs, h] } else { [s, dirs, b, h] };
    let mut y = filled(count(&y_shape)?, 0f64)?;
    let (mut yh, mut yc) = (filled(count(&state)?, 0f64)?, filled(count(&state)?, 0f64)?);
    let place = |d: usize, n: usize| if batch_first { (n * dirs + d) * h } else { (d * b + n) * h };
    for d in 0..dirs {
        let reverse = d == 1 || direction == "reverse";
        let f = &act[d * each.len()..];
        let (wd, rd) = (&vw[d * gates * h * i..][..gates * h * i], &vr[d * gates * h * h..][..gates * h * h]);
        let zero = vec![0.0; 2 * gates * h];
        let bd = bias.as_ref().map_or(zero.as_slice(), |v| &v[d * 2 * gates * h..][..2 * gates * h]);
        let (wb, rb) = bd.split_at(gates * h);
        for (n, &len) in lens.iter().enumerate() {
            let at = place(d, n);
            let mut hs = h0.as_ref().map_or(vec![0.0; h], |v| v[at..at + h].to_vec());
            let mut cs = c0.as_ref().map_or(vec![0.0; h], |v| v[at..at + h].to_vec());
            let mut g = vec![0.0; gates * h];
            for step in 0..len {
                let t = if reverse { len - 1 - step } else { step };
                let from = if batch_first { (n * s + t) * i } else { (t * b + n) * i };
                let xt = &vx[from..from + i];
                g.copy_from_slice(wb);
                add_product(&mut g, xt, wd);
                match gates {
                    1 => {
                        g.iter_mut().zip(rb).for_each(|(g, b)| *g += b);
                        add_product(&mut g, &hs, rd);
                        hs.iter_mut().zip(&g).for_each(|(o, v)| *o = f[0](cut(*v)));
                    }
                    3 => {
                        let (zr, hidden) = g.split_at_mut(2 * h);
                        zr.iter_mut().zip(rb).for_each(|(g, b)| *g += b);
                        add_product(zr, &hs, &rd[..2 * h * h]);
                        zr.iter_mut().for_each(|v| *v = f[0](cut(*v)));
                        let mut rec = vec![0.0; h];
                        if before {
                            rec.copy_from_slice(&rb[2 * h..]);
                            add_product(&mut rec, &hs, &rd[2 * h * h..]);
                            rec.iter_mut().zip(&zr[h..]).for_each(|(v, r)| *v *= r);
                        } else {
                            let rh: Vec<f64> = hs.iter().zip(&zr[h..]).map(|(a, r)| a * r).collect();
                            rec.copy_from_slice(&rb[2 * h..]);
                            add_product(&mut rec, &rh, &rd[2 * h * h..]);
                        }
                        for k in 0..h {
                            let new = f[1](cut(hidden[k] + rec[k]));
                            hs[k] = (1.0 - zr[k]) * new + zr[k] * hs[k];
                        }
                    }
                    _ => {
                        g.iter_mut().zip(rb).for_each(|(g, b)| *g += b);
                        add_product(&mut g, &hs, rd);
                        let p = peep.as_ref().map(|p| &p[d * 3 * h..][..3 * h]);
                        for k in 0..h {
                            let via = |j: usize, c: f64| p.map_or(0.0, |p| p[j * h + k] * c);
                            let input = f[0](cut(g[k] + via(0, cs[k])));
                            let keep = if forget { 1.0 - input } else { f[0](cut(g[2 * h + k] + via(2, cs[k]))) };
                            let c = keep * cs[k] + input * f[1](cut(g[3 * h + k]));
                            let output = f[0](cut(g[h + k] + via(1, c)));
                            cs[k] = c;
                            hs[k] = output * f[2](c);
                        }
                    }
                }
                let to = if batch_first { ((n * s + t) * dirs + d) * h } else { ((t * dirs + d) * b + n) * h };
                y[to..to + h].copy_from_slice(&hs);
            }
            yh[at..at + h].copy_from_slice(&hs);
            yc[at..at + h].copy_from_slice(&cs);
        }
    }
    put_f64(ctx, 0, &y_shape, &y)?;
    put_f64(ctx, 1, &state, &yh)?;
    if gates == 4 {
        put_f64(ctx, 2, &state, &yc)?;
    }
    Ok(())
}

const TYPES: &[&[DType]] = &[FLOAT, FLOAT, FLOAT, FLOAT, &[DType::I32], FLOAT];
/// Operator rows of this file.
pub const OPS: &[Op] = &[
    Op::new("CommonRNN", run, TYPES).gives(&[FLOAT]),
    Op::new("CommonGRU", run, TYPES).gives(&[FLOAT]),
    Op::new("CommonLSTM", run, TYPES).gives(&[FLOAT]),
];
