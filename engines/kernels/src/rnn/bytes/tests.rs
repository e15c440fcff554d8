//! Byte LSTMs compared with a second implementation of the same arithmetic, number by number and in
//! the same order: all bits must be equal, on every instruction set and for any order of units.
use super::*;
use crate::simd::act::Map;
use crate::simd::{Level, with_level};
use crate::view::Out;

/// Deterministic numbers in -1..1.
fn noise(n: usize, seed: usize) -> Vec<f32> {
    (0..n).map(|i| ((i + seed * 7919) * 2_654_435_761 % 65_521) as f32 / 32_760.5 - 1.0).collect()
}

struct Case {
    plan: ByteLstm,
    x: Vec<f32>,
    /// Weights of input and state in the layout of ONNX, with scales and zero points.
    weights: [Vec<i8>; 2],
    scales: [Vec<f32>; 2],
    zeros: [Vec<i32>; 2],
    bias: Vec<f32>,
    lens: Vec<i32>,
    h0: Vec<f32>,
    c0: Vec<f32>,
    peep: Vec<f32>,
}

const USUAL: [Activation; 3] = [Activation::Sigmoid, Activation::Tanh, Activation::Tanh];

fn case([steps, batch, input, hidden]: [usize; 4], directions: &[bool]) -> Case {
    let d = directions.len();
    let directions = directions.iter().map(|r| Direction { reverse: *r, acts: USUAL }).collect();
    // Weights of the input are spread evenly, and few of those of the state are large.
    let whole = |n: usize, seed: usize, power: i32| -> Vec<i8> {
        noise(n, seed).iter().map(|v| (v.powi(power) * 128.0).round() as i8).collect()
    };
    let scales = |seed: usize| noise(d, seed).iter().map(|v| 0.008 + 0.002 * v).collect();
    Case {
        plan: ByteLstm { steps, batch, input, hidden, directions, clip: f32::INFINITY, input_forget: false },
        x: noise(steps * batch * input, 1),
        weights: [whole(d * input * 4 * hidden, 2, 1), whole(d * hidden * 4 * hidden, 3, 9)],
        scales: [scales(8), scales(9)],
        zeros: [vec![0; d], vec![0; d]],
        bias: noise(d * 8 * hidden, 4),
        lens: vec![],
        h0: vec![],
        c0: vec![],
        peep: vec![],
    }
}

/// Quantised numbers, their scale and zero point.
fn quantised(x: &[f32]) -> (Vec<i64>, f32, i64) {
    let (low, high) = x.iter().fold((0f32, 0f32), |(l, h), v| (l.min(*v), h.max(*v)));
    let scale = if (high - low) / 255.0 == 0.0 { 1.0 } else { (high - low) / 255.0 };
    let zero = (-low / scale).clamp(0.0, 255.0).round_ties_even();
    let zero = if zero.is_nan() { 0.0 } else { zero };
    let of = |v: &f32| (v / scale).round_ties_even() + zero;
    let q = x.iter().map(|v| if of(v).is_nan() { zero } else { of(v).clamp(0.0, 255.0) } as i64);
    (q.collect(), scale, zero as i64)
}

impl Case {
    fn run(&self, level: Level, blocks: usize) -> [Vec<f32>; 3] {
        let p = &self.plan;
        let (d, each) = (p.directions.len(), [p.input, p.hidden]);
        let packed = [0, 1].map(|m| {
            let (k, len) = (each[m], packed_bytes_len(each[m], p.hidden));
            let mut out = vec![77i8; d * len];
            for n in 0..d {
                let own = &self.weights[m][n * k * 4 * p.hidden..(n + 1) * k * 4 * p.hidden];
                pack_bytes(own, k, p.hidden, &mut out[n * len..(n + 1) * len]);
            }
            out
        });
        let of = |m: usize| ByteWeights { packed: &packed[m], scales: &self.scales[m], zeros: &self.zeros[m] };
        let ops = ByteOperands {
            x: &self.x,
            w: of(0),
            r: of(1),
            bias: &self.bias,
            lens: &self.lens,
            h0: &self.h0,
            c0: &self.c0,
            peep: &self.peep,
        };
        let state = d * p.batch * p.hidden;
        let mut out = [vec![7.0; p.steps * state], vec![7.0; state], vec![7.0; state]];
        let [y, h, c] = &mut out;
        let (mut y, mut h, mut c) = (Out::new(y), Out::new(h), Out::new(c));
        let mut results = Results { y: &mut y, h: &mut h, c: Some(&mut c) };
        with_level(level, || {
            for k in (0..blocks).rev() {
                p.run(crate::view::block_range(p.units(), k, blocks), &ops, &mut results);
            }
        });
        out
    }

    /// Gates from a row of numbers and the weights of a direction.
    fn product(&self, m: usize, d: usize, q: &[i64], scale: f32, zero: i64) -> Vec<f32> {
        let (dirs, columns) = (self.plan.directions.len(), 4 * self.plan.hidden);
        let own = |len: usize, j: usize| if len == dirs { d } else { d * columns + j };
        let column = |j: usize| {
            let less = i64::from(self.zeros[m][own(self.zeros[m].len(), j)]);
            let w = |k: usize| i64::from(self.weights[m][(d * q.len() + k) * columns + j]) - less;
            let sum: i64 = q.iter().enumerate().map(|(k, q)| (q - zero) * w(k)).sum();
            sum as f32 * (scale * self.scales[m][own(self.scales[m].len(), j)])
        };
        (0..columns).map(column).collect()
    }

    fn want(&self) -> [Vec<f32>; 3] {
        let p = &self.plan;
        let (d, hs, b) = (p.directions.len(), p.hidden, p.batch);
        let state = d * b * hs;
        let [mut y, mut yh, mut yc] = [vec![0.0; p.steps * state], vec![0.0; state], vec![0.0; state]];
        let len = |n: usize| self.lens.get(n).map_or(p.steps, |v| *v as usize);
        let longest = (0..b).map(len).max().unwrap_or(0);
        let (qx, x_scale, x_zero) = quantised(&self.x[..longest * b * p.input]);
        let cut = |v: f32| {
            if v < -p.clip {
                -p.clip
            } else if v > p.clip {
                p.clip
            } else {
                v
            }
        };
        for k in 0..d {
            let [f, g, last] = p.directions[k].acts;
            let of =
                |v: &[f32]| if v.is_empty() { vec![0.0; b * hs] } else { v[k * b * hs..(k + 1) * b * hs].to_vec() };
            let (mut h, mut c) = (of(&self.h0), of(&self.c0));
            for step in 0..longest {
                let runs = |n: &usize| step < len(*n);
                let alive: Vec<f32> = (0..b).filter(runs).flat_map(|n| h[n * hs..][..hs].to_vec()).collect();
                let (qh, scale, zero) = quantised(&alive);
                for (row, n) in (0..b).filter(runs).enumerate() {
                    let t = if p.directions[k].reverse { len(n) - 1 - step } else { step };
                    let from_x = self.product(0, k, &qx[(t * b + n) * p.input..][..p.input], x_scale, x_zero);
                    let from_h = self.product(1, k, &qh[row * hs..][..hs], scale, zero);
                    for j in 0..hs {
                        let at = n * hs + j;
                        let gate = |i: usize| {
                            let bias =
                                |half: usize| self.bias.get(((k * 2 + half) * 4 + i) * hs + j).copied().unwrap_or(0.0);
                            (from_x[i * hs + j] + from_h[i * hs + j]) + (bias(0) + bias(1))
                        };
                        let peep = |i: usize, v: f32, c: f32| match self.peep.get((k * 3 + i) * hs + j) {
                            Some(w) => w.mul_add(c, v),
                            None => v,
                        };
                        let i = f.at(cut(peep(0, gate(0), c[at])));
                        let keep = if p.input_forget { 1.0 - i } else { f.at(cut(peep(2, gate(2), c[at]))) };
                        c[at] = keep.mul_add(c[at], i * g.at(cut(gate(3))));
                        h[at] = f.at(cut(peep(1, gate(1), c[at]))) * last.at(c[at]);
                        y[((t * d + k) * b + n) * hs + j] = h[at];
                    }
                }
            }
            yh[k * b * hs..][..b * hs].copy_from_slice(&h);
            yc[k * b * hs..][..b * hs].copy_from_slice(&c);
        }
        [y, yh, yc]
    }

    fn check(&self, what: &str) {
        // NaN has many bit patterns, which are treated as equal.
        let bits = |o: &[Vec<f32>; 3]| {
            o.iter().flatten().map(|v| if v.is_nan() { u32::MAX } else { v.to_bits() }).collect::<Vec<_>>()
        };
        let want = bits(&self.want());
        for level in Level::available() {
            for blocks in [1, 3] {
                let got = bits(&self.run(level, blocks));
                let wrong = got.iter().zip(&want).position(|(g, w)| g != w);
                if let Some(i) = wrong {
                    let [g, w] = [got[i], want[i]].map(f32::from_bits);
                    panic!("{what}: {level:?}, {blocks} blocks: number {i} of {} is {g} for {w}", got.len());
                }
            }
        }
    }
}

#[test]
fn every_size_gives_the_bits_of_its_definition() {
    // Sizes of one, remainders of every kind, rows for each register tile, several parts of the
    // steps.
    let sizes = [
        [1, 1, 1, 1],
        [3, 1, 5, 16],
        [4, 2, 7, 17],
        [2, 3, 4, 33],
        [2, 19, 9, 15],
        [5, 4, 2, 20],
        [3, 5, 3, 32],
        [3, 7, 12, 48],
        [100, 1, 4, 5],
        [2, 1, 300, 18],
        [2, 6, 1, 130],
        [40, 5, 6, 3],
        [0, 2, 3, 4],
        [2, 0, 3, 4],
        [2, 3, 0, 4],
        [2, 3, 4, 0],
    ];
    for size in sizes {
        for directions in [&[false][..], &[true], &[false, true]] {
            case(size, directions).check(&format!("{size:?} {directions:?}"));
        }
    }
}

#[test]
fn zero_points_and_scales_of_directions_and_of_columns() {
    for batch in [1, 3, 9] {
        let mut c = case([3, batch, 5, 19], &[false, true]);
        c.zeros = [vec![-128, 127], vec![3, 0]];
        c.check("of directions");
        let numbers = |seed: usize| noise(2 * 4 * 19, seed);
        c.zeros = [6, 7].map(|s| numbers(s).iter().map(|v| (v * 200.0) as i32).collect());
        c.check("zero points of columns");
        c.scales = [8, 9].map(|s| numbers(s).iter().map(|v| v * 0.01).collect());
        c.check("both of columns");
    }
}

#[test]
fn the_greatest_bytes_do_not_saturate() {
    let mut c = case([2, 9, 301, 18], &[false]);
    c.x.fill(1.0);
    for w in &mut c.weights {
        w.iter_mut().enumerate().for_each(|(i, v)| *v = if i % 3 == 0 { -128 } else { 127 });
    }
    c.scales = [vec![1e-4], vec![1e-4]];
    c.check("greatest bytes");
}

#[test]
fn lengths_states_peepholes_clips_and_coupled_gates() {
    for forget in [false, true] {
        let mut c = case([6, 5, 3, 19], &[false, true]);
        c.plan.input_forget = forget;
        // The longest sequence is shorter than the steps: elements after it do not affect the
        // scale.
        c.lens = vec![5, 0, 3, 1, 5];
        c.x[5 * 5 * 3..].fill(100.0);
        c.h0 = noise(2 * 5 * 19, 5);
        c.check("lengths");
        c.plan.clip = 0.4;
        c.c0 = noise(2 * 5 * 19, 6);
        c.peep = noise(2 * 3 * 19, 7);
        c.bias.clear();
        c.check("clip, no bias");
        c.plan.directions[0].acts = [Activation::HardSigmoid(0.2, 0.5), Activation::Relu, Activation::Affine(0.5, 0.3)];
        c.check("other activations");
    }
}

#[test]
fn what_is_no_number_or_has_no_end() {
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MIN_POSITIVE / 64.0] {
        let mut c = case([3, 3, 2, 5], &[false]);
        c.x[(3 + 1) * 2] = bad;
        c.check("in the input");
        let mut c = case([3, 3, 2, 5], &[false]);
        c.h0 = noise(15, 5);
        c.h0[7] = bad;
        c.check("in the first state");
        let mut c = case([3, 3, 2, 5], &[false]);
        (c.h0, c.c0) = (vec![0.0; 15], noise(15, 5));
        c.c0[7] = bad;
        c.check("in the first cell state");
    }
    let mut c = case([3, 2, 2, 5], &[true]);
    (c.x, c.bias) = (vec![0.0; 12], vec![0.0; 40]);
    c.check("nothing but zeros");
}
