//! Recurrences compared with their definition in double precision, on every instruction set and for
//! any order of units.
use super::*;
use crate::simd::{Level, with_level};
use crate::view::Out;

/// Deterministic numbers in -1..1.
fn noise(n: usize, seed: usize) -> Vec<f32> {
    (0..n).map(|i| ((i + seed * 7919) * 2_654_435_761 % 65_521) as f32 / 32_760.5 - 1.0).collect()
}

struct Case {
    plan: Recurrent,
    x: Vec<f32>,
    w: Vec<f32>,
    r: Vec<f32>,
    bias: Vec<f32>,
    lens: Vec<i32>,
    h0: Vec<f32>,
    c0: Vec<f32>,
    peep: Vec<f32>,
}

/// Initial contents of outputs: a number that no output takes.
const EMPTY: f32 = 7777.0;
const USUAL: [Activation; 3] = [Activation::Sigmoid, Activation::Tanh, Activation::Tanh];

fn case(cell: Cell, [steps, batch, input, hidden]: [usize; 4], directions: &[bool]) -> Case {
    let d = directions.len();
    let acts = if cell == Cell::Rnn { [Activation::Tanh; 3] } else { USUAL };
    let plan = Recurrent {
        cell,
        steps,
        batch,
        input,
        hidden,
        directions: directions.iter().map(|r| Direction { reverse: *r, acts }).collect(),
        clip: f32::INFINITY,
        batch_first: false,
    };
    let g = cell.gates();
    Case {
        x: noise(steps * batch * input, 1),
        w: noise(d * g * hidden * input, 2),
        r: noise(d * g * hidden * hidden, 3),
        bias: noise(d * 2 * g * hidden, 4),
        lens: vec![],
        h0: vec![],
        c0: vec![],
        peep: vec![],
        plan,
    }
}

/// An activation in double precision.
fn act(a: Activation, x: f64) -> f64 {
    let f = f64::from;
    match a {
        Activation::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Activation::Tanh => x.tanh(),
        Activation::Relu => x.max(0.0),
        Activation::Affine(a, b) => f(a) * x + f(b),
        Activation::LeakyRelu(a) => x.max(0.0) + f(a) * x.min(0.0),
        Activation::ThresholdedRelu(a) if x > f(a) => x,
        Activation::ThresholdedRelu(_) => 0.0,
        Activation::ScaledTanh(a, b) => f(a) * (f(b) * x).tanh(),
        Activation::HardSigmoid(a, b) => (f(a) * x + f(b)).clamp(0.0, 1.0),
        Activation::Elu(a) => x.max(0.0) + f(a) * x.min(0.0).exp_m1(),
        Activation::Softsign => x / (1.0 + x.abs()),
        Activation::Softplus => x.exp().ln_1p(),
    }
}

impl Case {
    /// The weights of input and state, packed.
    fn packed(&self) -> (Vec<f32>, Vec<f32>) {
        let p = &self.plan;
        let (g, d) = (p.cell.gates(), p.directions.len());
        let mut w = vec![9.0; d * packed_input_len(g, p.hidden, p.input)];
        let mut r = vec![9.0; d * packed_recurrent_len(g, p.hidden)];
        let (pw, pr) = (w.len() / d, r.len() / d);
        for k in 0..d {
            let (own_w, own_r) = (g * p.hidden * p.input, g * p.hidden * p.hidden);
            pack_input(&self.w[k * own_w..][..own_w], [g, p.hidden, p.input], &mut w[k * pw..][..pw]);
            pack_recurrent(&self.r[k * own_r..][..own_r], [g, p.hidden], &mut r[k * pr..][..pr]);
        }
        (w, r)
    }

    fn operands<'a>(&'a self, w: &'a [f32], r: &'a [f32]) -> Operands<'a, f32> {
        Operands { x: &self.x, w, r, bias: &self.bias, lens: &self.lens, h0: &self.h0, c0: &self.c0, peep: &self.peep }
    }

    fn run(&self, level: Level, blocks: usize) -> [Vec<f32>; 3] {
        let p = &self.plan;
        let (w, r) = self.packed();
        let ops = self.operands(&w, &r);
        let mut out = self.empty();
        let [y, h, c] = &mut out;
        let (mut y, mut h, mut c) = (Out::new(y), Out::new(h), Out::new(c));
        let mut results = Results { y: &mut y, h: &mut h, c: (p.cell.gates() == 4).then_some(&mut c) };
        with_level(level, || {
            for k in (0..blocks).rev() {
                let units = crate::view::block_range(p.units(), k, blocks);
                p.run(units, &ops, &mut results);
            }
        });
        out
    }

    /// The same results computed by `threads` threads that process each unit together. Thread `k`
    /// arrives after `k * late`.
    fn run_together(&self, threads: u32, late: std::time::Duration) -> [Vec<f32>; 3] {
        let p = &self.plan;
        let (w, r) = self.packed();
        let ops = self.operands(&w, &r);
        let mut out = self.empty();
        let all: Vec<Team> = (0..p.units()).map(|u| p.team_of(u, 2 + u % 3)).collect();
        let each: Vec<[Vec<f32>; 3]> = std::thread::scope(|s| {
            let one = |k: u32| {
                let (all, ops) = (&all, &ops);
                move || {
                    std::thread::sleep(late * k);
                    let mut out = self.empty();
                    let [y, h, c] = &mut out;
                    let (mut y, mut h, mut c) = (Out::new(y), Out::new(h), Out::new(c));
                    let mut results = Results { y: &mut y, h: &mut h, c: (p.cell.gates() == 4).then_some(&mut c) };
                    for (u, team) in all.iter().enumerate() {
                        let member = if k == 0 { team.lead() } else { team.join() };
                        p.run_unit(u, member, ops, &mut results).expect("nobody fails");
                    }
                    out
                }
            };
            let threads: Vec<_> = (0..threads).map(|k| s.spawn(one(k))).collect();
            threads.into_iter().map(|t| t.join().expect("a thread ends")).collect()
        });
        // Each number is written by exactly one of them.
        for k in 0..3 {
            for (i, to) in out[k].iter_mut().enumerate() {
                let mut written = each.iter().map(|e| e[k][i]).filter(|v| v.to_bits() != EMPTY.to_bits());
                *to = written.next().unwrap_or(EMPTY);
                assert!(written.next().is_none(), "output {k} [{i}] is written twice");
            }
        }
        out
    }

    fn empty(&self) -> [Vec<f32>; 3] {
        let p = &self.plan;
        let state = p.directions.len() * p.batch * p.hidden;
        [vec![EMPTY; p.steps * state], vec![EMPTY; state], vec![EMPTY; state]]
    }

    /// The results by definition.
    fn want(&self) -> [Vec<f64>; 3] {
        let p = &self.plan;
        let (g, d, hs, b) = (p.cell.gates(), p.directions.len(), p.hidden, p.batch);
        let state = d * b * hs;
        let [mut y, mut yh, mut yc] = [vec![0.0; p.steps * state], vec![0.0; state], vec![0.0; state]];
        let cut = |v: f64| v.clamp(-f64::from(p.clip), f64::from(p.clip));
        let of = |v: &[f32], i: usize| v.get(i).map_or(0.0, |v| f64::from(*v));
        for k in 0..d {
            let dir = p.directions[k];
            let [f, gg, last] = dir.acts;
            for n in 0..b {
                let at = if p.batch_first { (n * d + k) * hs } else { (k * b + n) * hs };
                let mut h: Vec<f64> = (0..hs).map(|j| of(&self.h0, at + j)).collect();
                let mut c: Vec<f64> = (0..hs).map(|j| of(&self.c0, at + j)).collect();
                let len = self.lens.get(n).map_or(p.steps, |n| *n as usize);
                for step in 0..len {
                    let t = if dir.reverse { len - 1 - step } else { step };
                    let x_at = if p.batch_first { n * p.steps + t } else { t * b + n } * p.input;
                    let from_x = |gate: usize, j: usize| {
                        let row = ((k * g + gate) * hs + j) * p.input;
                        let sum: f64 = (0..p.input).map(|i| of(&self.w, row + i) * of(&self.x, x_at + i)).sum();
                        sum + of(&self.bias, (k * 2 * g + gate) * hs + j)
                    };
                    let from_h = |gate: usize, j: usize, h: &[f64]| {
                        let row = ((k * g + gate) * hs + j) * hs;
                        (0..hs).map(|i| of(&self.r, row + i) * h[i]).sum::<f64>()
                    };
                    let bias_h = |gate: usize, j: usize| of(&self.bias, ((k * 2 + 1) * g + gate) * hs + j);
                    let all = |gate: usize, j: usize| from_x(gate, j) + from_h(gate, j, &h) + bias_h(gate, j);
                    let (mut new_h, mut new_c) = (h.clone(), c.clone());
                    let resets: Vec<f64> =
                        (0..hs * usize::from(g == 3)).map(|j| act(f, cut(all(1, j))) * h[j]).collect();
                    for j in 0..hs {
                        match p.cell {
                            Cell::Rnn => new_h[j] = act(f, cut(all(0, j))),
                            Cell::Gru { linear_before_reset } => {
                                let (z, r) = (act(f, cut(all(0, j))), act(f, cut(all(1, j))));
                                let state = match linear_before_reset {
                                    true => r * (from_h(2, j, &h) + bias_h(2, j)),
                                    false => from_h(2, j, &resets) + bias_h(2, j),
                                };
                                new_h[j] = (1.0 - z) * act(gg, cut(from_x(2, j) + state)) + z * h[j];
                            }
                            Cell::Lstm { input_forget } => {
                                let peep = |i: usize, c: f64| of(&self.peep, (k * 3 + i) * hs + j) * c;
                                let i = act(f, cut(all(0, j) + peep(0, c[j])));
                                let keep = act(f, cut(all(2, j) + peep(2, c[j])));
                                let keep = if input_forget { 1.0 - i } else { keep };
                                new_c[j] = keep * c[j] + i * act(gg, cut(all(3, j)));
                                new_h[j] = act(f, cut(all(1, j) + peep(1, new_c[j]))) * act(last, new_c[j]);
                            }
                        }
                    }
                    (h, c) = (new_h, new_c);
                    let row = if p.batch_first { (n * p.steps + t) * d + k } else { (t * d + k) * b + n };
                    y[row * hs..][..hs].copy_from_slice(&h);
                }
                yh[at..at + hs].copy_from_slice(&h);
                yc[at..at + hs].copy_from_slice(&c);
            }
        }
        [y, yh, yc]
    }

    /// Every level and number of blocks gives the same bits, close to the definition.
    fn check(&self, what: &str) {
        let bits = |o: &[Vec<f32>; 3]| o.iter().flatten().map(|v| v.to_bits()).collect::<Vec<_>>();
        let got = self.run(Level::Scalar, 1);
        for level in Level::available() {
            for blocks in [1, 3] {
                assert!(bits(&self.run(level, blocks)) == bits(&got), "{what}: {level:?}, {blocks} blocks");
            }
        }
        let outputs = if self.plan.cell.gates() == 4 { 3 } else { 2 };
        for (k, (got, want)) in got.iter().zip(self.want()).take(outputs).enumerate() {
            for (i, (g, w)) in got.iter().zip(&want).enumerate() {
                assert!((f64::from(*g) - w).abs() <= 2e-5 * w.abs().max(1.0), "{what}: output {k} [{i}] {g} for {w}");
            }
        }
    }
}

const CELLS: [Cell; 5] = [
    Cell::Rnn,
    Cell::Gru { linear_before_reset: false },
    Cell::Gru { linear_before_reset: true },
    Cell::Lstm { input_forget: false },
    Cell::Lstm { input_forget: true },
];

#[test]
fn every_cell_of_every_size_is_what_it_is_defined_to_be() {
    // Sizes of one, remainders of every kind, rows for each register tile, several parts of the
    // steps and of the input's sums.
    let sizes = [
        [1, 1, 1, 1],
        [3, 1, 5, 16],
        [4, 2, 7, 17],
        [2, 3, 3, 33],
        [2, 19, 9, 15],
        [5, 13, 2, 20],
        [100, 1, 4, 5],
        [2, 1, 300, 18],
        [2, 7, 1, 130],
        [0, 2, 3, 4],
        [2, 0, 3, 4],
        [2, 3, 0, 4],
        [2, 3, 4, 0],
    ];
    for cell in CELLS {
        for size in sizes {
            for directions in [&[false][..], &[true], &[false, true]] {
                case(cell, size, directions).check(&format!("{cell:?} {size:?} {directions:?}"));
            }
        }
    }
}

#[test]
fn lengths_states_peepholes_and_clips() {
    for cell in CELLS {
        for batch_first in [false, true] {
            let mut c = case(cell, [6, 5, 3, 19], &[false, true]);
            c.plan.batch_first = batch_first;
            c.lens = vec![6, 0, 3, 1, 5];
            c.h0 = noise(2 * 5 * 19, 5);
            c.check(&format!("{cell:?}: lengths, batch first {batch_first}"));
            c.plan.clip = 0.4;
            if cell.gates() == 4 {
                c.c0 = noise(2 * 5 * 19, 6);
                c.peep = noise(2 * 3 * 19, 7);
            }
            c.bias.clear();
            c.check(&format!("{cell:?}: clip, no bias, batch first {batch_first}"));
        }
    }
}

#[test]
fn threads_that_do_a_unit_together_give_its_bits_whenever_they_come() {
    let bits = |o: &[Vec<f32>; 3]| o.iter().flatten().map(|v| v.to_bits()).collect::<Vec<_>>();
    let micros = std::time::Duration::from_micros;
    for cell in CELLS {
        for (size, lens) in [
            ([300, 1, 9, 130], vec![]),
            ([0, 1, 3, 64], vec![]),
            ([1, 2, 3, 64], vec![0, 1]),
            ([40, 17, 5, 48], (0..17).map(|n| n * 2).collect()),
            ([500, 3, 7, 33], vec![500, 0, 111]),
        ] {
            let mut c = case(cell, size, &[false, true]);
            (c.lens, c.h0) = (lens, noise(2 * size[1] * size[3], 5));
            if cell.gates() == 4 {
                (c.c0, c.peep) = (noise(2 * size[1] * size[3], 6), noise(2 * 3 * size[3], 7));
            }
            let alone = c.run(Level::Scalar, 1);
            for threads in [1, 2, 3] {
                for late in [0, 30, 400] {
                    let got = c.run_together(threads, micros(late));
                    assert!(bits(&got) == bits(&alone), "{cell:?} {size:?}: {threads} threads, {late} us apart");
                }
            }
        }
    }
}

#[test]
fn a_unit_whose_team_breaks_ends_for_all() {
    let c = case(Cell::Lstm { input_forget: false }, [100_000, 1, 1, 32], &[false]);
    let (w, r) = c.packed();
    let (ops, team) = (c.operands(&w, &r), c.plan.team_of(0, 3));
    let worker = |member: Member<'_>| {
        let mut out = c.empty();
        let [y, h, cell] = &mut out;
        let (mut y, mut h, mut cell) = (Out::new(y), Out::new(h), Out::new(cell));
        let mut results = Results { y: &mut y, h: &mut h, c: Some(&mut cell) };
        c.plan.run_unit(0, member, &ops, &mut results)
    };
    std::thread::scope(|s| {
        let leader = s.spawn(|| worker(team.lead()));
        drop(team.join());
        assert_eq!(leader.join().expect("it ends"), Err(Broken));
        assert_eq!(worker(team.join()), Ok(()), "who comes late has nothing to tell");
    });
}

#[test]
fn small_units_and_many_of_them_are_done_by_one_thread() {
    let seats = |cell, size, directions: &[bool]| case(cell, size, directions).plan.seats();
    let lstm = Cell::Lstm { input_forget: false };
    assert_eq!(seats(lstm, [64, 1, 256, 256], &[false]), 8);
    assert_eq!(seats(lstm, [64, 1, 256, 256], &[false, true]), 4);
    assert_eq!(seats(lstm, [64, 1, 8, 64], &[false]), 1);
    assert_eq!(seats(Cell::Rnn, [64, 1, 8, 48], &[false]), 1);
    assert_eq!(seats(Cell::Rnn, [64, 1, 8, 256], &[false]), 2);
    assert_eq!(seats(lstm, [4, 200, 256, 256], &[false]), 1);
    assert_eq!(seats(lstm, [4, 0, 256, 256], &[false]), 1);
    assert_eq!(seats(lstm, [4, 3, 4, 0], &[false]), 1);
}

#[test]
fn every_activation_in_every_place() {
    let acts = [
        Activation::Relu,
        Activation::Affine(0.5, 0.1),
        Activation::LeakyRelu(0.2),
        Activation::ThresholdedRelu(0.3),
        Activation::ScaledTanh(1.5, 0.6),
        Activation::HardSigmoid(0.2, 0.5),
        Activation::Elu(0.7),
        Activation::Softsign,
        Activation::Softplus,
        Activation::Sigmoid,
        Activation::Tanh,
    ];
    for cell in CELLS {
        for (i, a) in acts.into_iter().enumerate() {
            let mut c = case(cell, [3, 2, 3, 18], &[false]);
            // Small weights, so that unbounded activations do not diverge.
            c.r.iter_mut().for_each(|v| *v *= 0.1);
            c.plan.directions[0].acts = [a, acts[(i + 3) % acts.len()], acts[(i + 5) % acts.len()]];
            c.check(&format!("{cell:?} with {:?}", c.plan.directions[0].acts));
        }
    }
}

#[test]
fn what_is_no_number_stays_in_its_sequence() {
    for cell in CELLS {
        let mut c = case(cell, [3, 3, 2, 5], &[false]);
        // The second element of the second sequence.
        c.x[(3 + 1) * 2] = f32::NAN;
        for level in Level::available() {
            let [y, h, _] = c.run(level, 1);
            let nan = |n: usize, t: usize| y[(t * 3 + n) * 5..][..5].iter().all(|v| v.is_nan());
            let none = |n: usize, t: usize| y[(t * 3 + n) * 5..][..5].iter().all(|v| v.is_finite());
            assert!(nan(1, 1) && nan(1, 2) && none(1, 0), "{cell:?} {level:?} {y:?}");
            assert!((0..3).all(|t| none(0, t) && none(2, t)), "{cell:?} {level:?}");
            assert!(h[5..10].iter().all(|v| v.is_nan()) && h[..5].iter().all(|v| v.is_finite()));
        }
    }
}
