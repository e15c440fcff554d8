//! `DynamicQuantizeLSTM(X [S,B,I], W [D,I,4H], R [D,H,4H], B?, sequence_lens?, initial_h?,
//! initial_c?, P?, W_scale, W_zero_point, R_scale, R_zero_point) -> Y [S,D,B,H], Y_h, Y_c [D,B,H]`:
//! an LSTM (gates i, o, f, c) with 8-bit integer weights.
//!
//! Inputs and states are quantised to u8 during the run: X once, over all steps that any sequence
//! has; the state at each step, over all sequences that have not ended. This is what onnxruntime
//! does on one thread (with several threads, each gets some rows of the batch and a scale of its
//! own). The products are exact; scales and zero points are per direction or per column. A gate is
//! the product of the input, plus that of the state, plus the bias.
//!
//! With `packed`, W and R are `[D, P]`, one direction after the other, in the form described in
//! `engines/kernels/src/rnn/bytes/product.rs`; `hidden_size` must then be given.
use crate::declare::ort_op;
use crate::numbers::reals;
use crate::recurrent_activation::Activation;
use crate::shared::Outs;
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::kernel::{KernelCtx, TensorView};
use ge_plugin_api::ops::flags::MAY_FAIL;
use ge_plugin_api::ops::{AttrKind, InferCtx, OpDef};
use ge_plugin_api::services::parallel_for;
use ge_plugin_api::types::{DType, Dim, Shape, TensorDesc};
use ge_plugin_api::{Error, Result, register_kernel, register_op};
use std::sync::Mutex;

const WHOLE: &[DType] = &[DType::I8, DType::U8];
const REAL: &[DType] = &[DType::F32];

fn map(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    for i in 8..12 {
        n.input(i)?;
    }
    if let Some(list) = n.attrs.strs("activations")
        && let Some(other) = list.iter().find(|a| !Activation::NAMES.iter().any(|k| k.eq_ignore_ascii_case(a)))
    {
        return Err(n.refuse(format!("activation {other} is not computed; {} are", Activation::NAMES.join(", "))));
    }
    let mut d = b.node("DynamicQuantizeLSTM").name(&n.name).inputs(&n.inputs);
    let kept = ["hidden_size", "direction", "activations", "activation_alpha", "activation_beta"];
    for key in kept.into_iter().chain(["clip", "input_forget"]) {
        if let Some(v) = n.attrs.get(key) {
            d = d.attr(key, v.clone());
        }
    }
    Ok(d.build_n(3))
}
ort_op!(
    "DynamicQuantizeLSTM",
    12,
    ["hidden_size", "direction", "activations", "activation_alpha", "activation_beta", "clip", "input_forget"],
    map
);

fn infer(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let at = |i: usize, k: usize| c.opt_input(i).and_then(|d| d.shape.dims().get(k).copied()).unwrap_or(Dim::UNKNOWN);
    let packed = c.node.flag("packed");
    let rank = if packed { 2 } else { 3 };
    for (i, name, rank) in [(0, "X", 3), (1, "W", rank), (2, "R", rank)] {
        let shape = &c.input(i)?.shape;
        if shape.rank().is_some_and(|r| r != rank) {
            return Err(Error::failed(format!("input {i} `{name}`: found {shape}, expected {rank} axes")));
        }
    }
    let (s, b, d) = (at(0, 0), at(0, 1), at(2, 0));
    let h = match c.node.int("hidden_size").and_then(|h| u64::try_from(h).ok()) {
        Some(given) if packed => Dim::known(given),
        _ if packed => Dim::UNKNOWN,
        _ => at(2, 1),
    };
    if let (Some(gates), Some(hidden)) = (at(2, 2).size(), h.size())
        && hidden.checked_mul(4) != Some(gates)
    {
        return Err(Error::failed(format!("input 2 `R`: found {}, expected [D, H, 4H]", c.input(2)?.shape)));
    }
    let y = TensorDesc::new(DType::F32, Shape::new([s, d, b, h]));
    let state = TensorDesc::new(DType::F32, Shape::new([d, b, h]));
    Ok(vec![y, state.clone(), state])
}
register_op!(|| OpDef::new("DynamicQuantizeLSTM", infer)
    .input("X", REAL, "T")
    .input("W", WHOLE, "")
    .input("R", WHOLE, "")
    .opt("B", REAL, "T")
    .opt("sequence_lens", &[DType::I32], "")
    .opt("initial_h", REAL, "T")
    .opt("initial_c", REAL, "T")
    .opt("P", REAL, "T")
    .input("W_scale", REAL, "")
    .input("W_zero_point", WHOLE, "")
    .input("R_scale", REAL, "")
    .input("R_zero_point", WHOLE, "")
    .output("Y", REAL, "T")
    .output("Y_h", REAL, "T")
    .output("Y_c", REAL, "T")
    .flags(MAY_FAIL)
    .opt_attr("hidden_size", AttrKind::INT)
    .attr("direction", AttrKind::STRING, "forward")
    .choices(&["forward", "reverse", "bidirectional"])
    .opt_attr("activations", AttrKind::STRINGS)
    .opt_attr("activation_alpha", AttrKind::FLOATS)
    .opt_attr("activation_beta", AttrKind::FLOATS)
    .opt_attr("clip", AttrKind::FLOAT)
    .attr("input_forget", AttrKind::INT, 0i64)
    .attr("packed", AttrKind::BOOL, false));

/// Scale and zero point for numbers in this range.
fn by(low: f32, high: f32) -> (f32, f32) {
    let scale = (high - low) / 255.0;
    if scale == 0.0 {
        return (1.0, 0.0);
    }
    let zero = (-low / scale).clamp(0.0, 255.0).round_ties_even();
    (scale, if zero.is_nan() { 0.0 } else { zero })
}

/// Quantises real numbers and subtracts the zero point; NaN becomes 0.
fn whole_of(x: &[f32], scale: f32, zero: f32, out: &mut [f32]) {
    for (o, v) in out.iter_mut().zip(x) {
        let q = (v / scale).round_ties_even() + zero;
        *o = if q.is_nan() { 0.0 } else { q.clamp(0.0, 255.0) - zero };
    }
}

/// The smallest and the greatest of the numbers and 0.
fn range<'x>(x: impl IntoIterator<Item = &'x f32>) -> (f32, f32) {
    x.into_iter().fold((0f32, 0f32), |(l, h), v| (l.min(*v), h.max(*v)))
}

/// Quantises real numbers to u8 by their own range, extended to include 0. Writes the integers
/// minus their zero point as f32, and returns the scale.
fn quantised(x: &[f32], out: &mut [f32]) -> f32 {
    let (low, high) = range(x);
    let (scale, zero) = by(low, high);
    whole_of(x, scale, zero, out);
    scale
}

/// Integers as f32.
fn whole(x: &TensorView<'_>) -> Result<Vec<f32>> {
    Ok(match x.dtype {
        DType::I8 => x.plain::<i8>()?.iter().map(|v| f32::from(*v)).collect(),
        _ => x.plain::<u8>()?.iter().map(|v| f32::from(*v)).collect(),
    })
}

/// Unpacks the weights of one direction.
fn unpacked(w: &TensorView<'_>, direction: usize, [d, rows, h]: [usize; 3]) -> Result<Vec<f32>> {
    let (signed, groups) = (w.dtype == DType::I8, rows.div_ceil(4) + 1);
    let each = h.div_ceil(16) * 4 * groups * 64;
    let bytes: Vec<u8> = match signed {
        true => w.plain::<i8>()?.iter().map(|v| *v as u8).collect(),
        false => w.plain::<u8>()?.to_vec(),
    };
    if bytes.len() != d * each {
        return Err(Error::failed(format!("packed weights: found {} bytes, expected {}", bytes.len(), d * each)));
    }
    let mut out = Vec::with_capacity(rows * 4 * h);
    for k in 0..rows {
        for (gate, j) in (0..4).flat_map(|gate| (0..h).map(move |j| (gate, j))) {
            let panel = (j / 16 * 4 + gate) * groups;
            let v = bytes[direction * each + (panel + k / 4) * 64 + j % 16 * 4 + k % 4];
            out.push(f32::from(v as i8) + if signed { 0.0 } else { 128.0 });
        }
    }
    Ok(out)
}

/// The weights of one direction, `[rows, columns]`, minus their zero points, and the scale of each
/// column.
struct Weights {
    columns: usize,
    values: Vec<f32>,
    scales: Vec<f32>,
}

/// This many products of numbers below 256 are summed exactly in f32.
const EXACT: usize = 256;

impl Weights {
    /// Reads weights with `rows` rows; `input` is the index of the weights, `scale` that of their
    /// scales, which the zero points follow.
    fn of(
        ctx: &KernelCtx<'_>,
        [input, scale]: [usize; 2],
        direction: usize,
        [d, rows, h]: [usize; 3],
    ) -> Result<Weights> {
        let w = ctx.input(input)?;
        let columns = 4 * h;
        let all = |x: Vec<f32>, at: usize| -> Result<Vec<f32>> {
            match x.len() {
                n if n == d => Ok(vec![x[direction]; columns]),
                n if n == d * columns => Ok(x[direction * columns..(direction + 1) * columns].to_vec()),
                n => Err(Error::failed(format!("input {at}: found {n} numbers, expected {d} or {}", d * columns))),
            }
        };
        let scales = all(reals(&ctx.input(scale)?)?, scale)?;
        let zeros = all(whole(&ctx.input(scale + 1)?)?, scale + 1)?;
        let mut values = if ctx.attrs.flag("packed") {
            unpacked(&w, direction, [d, rows, h])?
        } else {
            whole(&w)?[direction * rows * columns..][..rows * columns].to_vec()
        };
        if columns > 0 {
            values.chunks_exact_mut(columns).for_each(|r| r.iter_mut().zip(&zeros).for_each(|(v, z)| *v -= z));
        }
        Ok(Weights { columns, values, scales })
    }
    /// Adds `scale` times the product of a row of integers with the weights.
    fn add_product(&self, row: &[f32], scale: f32, out: &mut [f32], sums: &mut [f32], part: &mut [f32]) {
        if self.columns == 0 {
            return;
        }
        sums.fill(0.0);
        for (x, w) in row.chunks(EXACT).zip(self.values.chunks(EXACT * self.columns)) {
            part.fill(0.0);
            for (x, w) in x.iter().zip(w.chunks_exact(self.columns)) {
                if *x != 0.0 {
                    part.iter_mut().zip(w).for_each(|(p, w)| *p += x * w);
                }
            }
            sums.iter_mut().zip(&*part).for_each(|(s, p)| *s += p);
        }
        for ((o, s), scales) in out.iter_mut().zip(&*sums).zip(&self.scales) {
            *o += s * (scale * scales);
        }
    }
}

/// Sizes: steps, batch, inputs, hidden units, directions.
#[derive(Clone, Copy)]
struct Sizes {
    s: usize,
    b: usize,
    i: usize,
    h: usize,
    d: usize,
}

/// Inputs that all directions share.
struct Inputs {
    x: Vec<f32>,
    x_scale: f32,
    /// Number of steps of the longest sequence.
    longest: usize,
    bias: Option<Vec<f32>>,
    lengths: Vec<usize>,
    h: Option<Vec<f32>>,
    c: Option<Vec<f32>>,
    peep: Option<Vec<f32>>,
    activations: Vec<Activation>,
    clip: f32,
    coupled: bool,
}

/// The three activations of each of `d` directions.
fn activations(ctx: &KernelCtx<'_>, d: usize) -> Result<Vec<Activation>> {
    let names = ctx.attrs.strs("activations").filter(|v| !v.is_empty());
    let names = names.unwrap_or_else(|| ["Sigmoid", "Tanh", "Tanh"].repeat(d));
    if names.len() != 3 * d {
        return Err(Error::failed(format!("{} activations for {d} directions, expected 3 each", names.len())));
    }
    let numbers = |key: &str| ctx.attrs.floats(key).unwrap_or_default().iter().map(|v| *v as f32);
    let (mut alphas, mut betas) = (numbers("activation_alpha"), numbers("activation_beta"));
    names.into_iter().map(|a| Activation::of(a, &mut alphas, &mut betas)).collect()
}

fn floats(ctx: &KernelCtx<'_>, i: usize, count: usize) -> Result<Option<Vec<f32>>> {
    let Some(x) = ctx.opt_input(i) else { return Ok(None) };
    let v = reals(&x)?;
    if v.len() != count {
        return Err(Error::failed(format!("input {i}: found shape {:?}, expected {count} numbers", x.dims)));
    }
    Ok(Some(v))
}

/// The results of one direction: `[S, B, H]`, `[B, H]`, `[B, H]`.
fn direction(ctx: &KernelCtx<'_>, of: &Inputs, z: Sizes, k: usize, back: bool) -> Result<[Vec<f32>; 3]> {
    let (w, r) = (Weights::of(ctx, [1, 8], k, [z.d, z.i, z.h])?, Weights::of(ctx, [2, 10], k, [z.d, z.h, z.h])?);
    let gates = 4 * z.h;
    let part = |v: &Option<Vec<f32>>, each: usize| v.as_ref().map(|v| v[k * each..(k + 1) * each].to_vec());
    let bias = part(&of.bias, 8 * z.h);
    let mut start = vec![0f32; gates];
    if let Some(b) = &bias {
        start.iter_mut().zip(b.iter().zip(&b[gates..])).for_each(|(s, (x, y))| *s = x + y);
    }
    // The input's part of all gates, for all steps at once.
    let longest = of.longest;
    let rows: Vec<Mutex<Vec<f32>>> = (0..longest * z.b).map(|_| Mutex::default()).collect();
    parallel_for(longest * z.b, 4, |range| {
        let (mut sums, mut part) = (vec![0f32; gates], vec![0f32; gates]);
        for row in range {
            let mut out = vec![0f32; gates];
            w.add_product(&of.x[row * z.i..(row + 1) * z.i], of.x_scale, &mut out, &mut sums, &mut part);
            *rows[row].lock().unwrap_or_else(|p| p.into_inner()) = out;
        }
        Ok(())
    })?;
    let inputs: Vec<Vec<f32>> = rows.into_iter().map(|m| m.into_inner().unwrap_or_else(|p| p.into_inner())).collect();
    let mut h = part(&of.h, z.b * z.h).unwrap_or_else(|| vec![0.0; z.b * z.h]);
    let mut c = part(&of.c, z.b * z.h).unwrap_or_else(|| vec![0.0; z.b * z.h]);
    let peep = part(&of.peep, 3 * z.h);
    let [f, g, o] = [0, 1, 2].map(|i| of.activations[3 * k + i]);
    let mut y = vec![0f32; z.s * z.b * z.h];
    let mut state = vec![0f32; z.h];
    let (mut sums, mut part) = (vec![0f32; gates], vec![0f32; gates]);
    let clip = |v: f32| if of.clip > 0.0 { v.clamp(-of.clip, of.clip) } else { v };
    for step in 0..longest {
        let runs = |b: &usize| step < of.lengths[*b];
        let (low, high) = range((0..z.b).filter(runs).flat_map(|b| &h[b * z.h..(b + 1) * z.h]));
        let (scale, zero) = by(low, high);
        for b in (0..z.b).filter(runs) {
            whole_of(&h[b * z.h..(b + 1) * z.h], scale, zero, &mut state);
            let t = if back { of.lengths[b] - 1 - step } else { step };
            let mut gate = inputs[t * z.b + b].clone();
            r.add_product(&state, scale, &mut gate, &mut sums, &mut part);
            gate.iter_mut().zip(&start).for_each(|(g, b)| *g += b);
            for u in 0..z.h {
                let at = b * z.h + u;
                let add = |i: usize, c: f32| peep.as_ref().map_or(0.0, |p| p[i * z.h + u] * c);
                let input = f.apply(clip(gate[u] + add(0, c[at])));
                let forget = match of.coupled {
                    true => 1.0 - input,
                    false => f.apply(clip(gate[2 * z.h + u] + add(2, c[at]))),
                };
                c[at] = forget * c[at] + input * g.apply(clip(gate[3 * z.h + u]));
                let output = f.apply(clip(gate[z.h + u] + add(1, c[at])));
                h[at] = output * o.apply(c[at]);
                y[(t * z.b + b) * z.h + u] = h[at];
            }
        }
    }
    Ok([y, h, c])
}

fn run(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (x, w, r) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
    let names = match ctx.attrs.str("direction").unwrap_or("forward") {
        "forward" => vec![false],
        "reverse" => vec![true],
        _ => vec![false, true],
    };
    let d = names.len() as u64;
    let given = ctx.attrs.int("hidden_size").and_then(|h| u64::try_from(h).ok());
    let sizes = match (x.dims, w.dims, r.dims, given) {
        (&[s, b, i], &[wd, wi, wg], &[rd, h, rg], _)
            if wi == i && wd == d && rd == d && h.checked_mul(4) == Some(wg) && rg == wg =>
        {
            Some([s, b, i, h])
        }
        (&[s, b, i], &[_, _], &[_, _], Some(h)) if ctx.attrs.flag("packed") => Some([s, b, i, h]),
        _ => None,
    };
    let Some([s, b, i, h]) = sizes.map(|s| s.map(|v| v as usize)) else {
        return Err(Error::failed(format!(
            "X {:?}, W {:?}, R {:?} with {d} directions: expected [S,B,I], [D,I,4H], [D,H,4H]",
            x.dims, w.dims, r.dims
        )));
    };
    let z = Sizes { s, b, i, h, d: names.len() };
    let lengths = match ctx.opt_input(4) {
        None => vec![z.s; z.b],
        Some(l) => l
            .values::<i32>()?
            .iter()
            .map(|v| usize::try_from(*v).ok().filter(|v| *v <= z.s))
            .collect::<Option<Vec<_>>>()
            .filter(|v| v.len() == z.b)
            .ok_or_else(|| Error::failed(format!("input 4 `sequence_lens`: expected {} lengths up to {}", z.b, z.s)))?,
    };
    let activations = activations(ctx, z.d)?;
    let real = reals(&x)?;
    let longest = lengths.iter().copied().max().unwrap_or(0);
    let mut whole = vec![0f32; longest * z.b * z.i];
    let x_scale = quantised(&real[..whole.len()], &mut whole);
    let of = Inputs {
        x: whole,
        x_scale,
        longest,
        bias: floats(ctx, 3, z.d * 8 * z.h)?,
        lengths,
        h: floats(ctx, 5, z.d * z.b * z.h)?,
        c: floats(ctx, 6, z.d * z.b * z.h)?,
        peep: floats(ctx, 7, z.d * 3 * z.h)?,
        activations,
        clip: ctx.attrs.float("clip").unwrap_or(0.0) as f32,
        coupled: ctx.attrs.int("input_forget").unwrap_or(0) != 0,
    };
    let each = z.b * z.h;
    let mut y = vec![0f32; z.s * z.d * each];
    let (mut last_h, mut last_c) = (Vec::new(), Vec::new());
    for (k, back) in names.into_iter().enumerate() {
        let [steps, h, c] = direction(ctx, &of, z, k, back)?;
        for t in 0..z.s {
            y[(t * z.d + k) * each..][..each].copy_from_slice(&steps[t * each..(t + 1) * each]);
        }
        last_h.extend(h);
        last_c.extend(c);
    }
    let [s, b, h, d] = [z.s, z.b, z.h, z.d].map(|v| v as u64);
    ctx.alloc_output(0, &[s, d, b, h])?.values::<f32>()?.copy_from_slice(&y);
    ctx.alloc_output(1, &[d, b, h])?.values::<f32>()?.copy_from_slice(&last_h);
    ctx.alloc_output(2, &[d, b, h])?.values::<f32>()?.copy_from_slice(&last_c);
    Ok(())
}
register_kernel!("OrtContribEngine", "DynamicQuantizeLSTM", [], run);

#[cfg(test)]
mod tests {
    use super::quantised;

    #[test]
    fn a_range_holds_zero_and_its_ends_are_kept() {
        let mut out = [0f32; 3];
        let scale = quantised(&[1.0, 2.0, 2.55], &mut out);
        assert!((scale - 0.01).abs() < 1e-9);
        assert_eq!(out, [100.0, 200.0, 255.0]);
        assert_eq!(quantised(&[0.0, 0.0, 0.0], &mut out), 1.0);
        assert_eq!(out, [0.0; 3]);
    }
}
