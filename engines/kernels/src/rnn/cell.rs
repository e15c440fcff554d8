//! Activations of recurrent cells, and the computation of new states from gates. For each block of
//! sixteen units, a row of gates holds sixteen numbers of each gate.
use crate::rnn::pack::LANES;
use crate::simd::act::{HardSigmoid, LeakyRelu, Map, Relu, Sigmoid, Tanh, at_least, at_most};
use crate::simd::math;

/// An activation of ONNX's recurrent operators, with its alpha and beta.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activation {
    /// `1 / (1 + e^-x)`.
    Sigmoid,
    /// Hyperbolic tangent.
    Tanh,
    /// `max(x, 0)`.
    Relu,
    /// `alpha x + beta`.
    Affine(f32, f32),
    /// `x` for `x >= 0`, `alpha x` for `x < 0`.
    LeakyRelu(f32),
    /// `x` for `x > alpha`, otherwise zero.
    ThresholdedRelu(f32),
    /// `alpha tanh(beta x)`.
    ScaledTanh(f32, f32),
    /// `max(0, min(1, alpha x + beta))`.
    HardSigmoid(f32, f32),
    /// `x` for `x >= 0`, `alpha (e^x - 1)` for `x < 0`.
    Elu(f32),
    /// `x / (1 + |x|)`.
    Softsign,
    /// `ln(1 + e^x)`.
    Softplus,
}

impl Map for Activation {
    #[inline(always)]
    fn at(self, x: f32) -> f32 {
        match self {
            Activation::Sigmoid => Sigmoid.at(x),
            Activation::Tanh => Tanh.at(x),
            Activation::Relu => Relu.at(x),
            Activation::Affine(a, b) => a.mul_add(x, b),
            Activation::LeakyRelu(a) => LeakyRelu(a).at(x),
            Activation::ThresholdedRelu(a) => {
                if x > a {
                    x
                } else {
                    0.0
                }
            }
            Activation::ScaledTanh(a, b) => a * math::tanh(b * x),
            Activation::HardSigmoid(a, b) => HardSigmoid(a, b).at(x),
            Activation::Elu(a) => {
                if x < 0.0 {
                    a * math::expm1(x)
                } else {
                    x
                }
            }
            Activation::Softsign => x / (1.0 + x.abs()),
            Activation::Softplus => math::softplus(x),
        }
    }
}

#[inline(always)]
fn cut(x: f32, clip: f32) -> f32 {
    at_most(at_least(x, -clip), clip)
}

type Lanes = [f32; LANES];

/// Applies a function to sixteen clipped numbers.
#[inline(always)]
fn map<M: Map>(f: M, clip: f32, x: &Lanes) -> Lanes {
    let mut y = [0.0; LANES];
    for (y, x) in y.iter_mut().zip(x) {
        *y = f.at(cut(*x, clip));
    }
    y
}

/// `x + p c` if there is a peephole, otherwise `x`.
#[inline(always)]
fn peeped(x: &Lanes, p: Option<&Lanes>, c: &Lanes) -> Lanes {
    let mut y = *x;
    if let Some(p) = p {
        for i in 0..LANES {
            y[i] = p[i].mul_add(c[i], y[i]);
        }
    }
    y
}

crate::multiversion! {
    /// Computes the new state of a plain RNN cell.
    pub(crate) fn rnn<F: Map>(row: &[f32], f: F, clip: f32, h: &mut [f32]) {
        for (h, g) in h.as_chunks_mut::<LANES>().0.iter_mut().zip(row.as_chunks::<LANES>().0) {
            *h = map(f, clip, g);
        }
    }
}

crate::multiversion! {
    /// Computes, in place, the two gates of a GRU that the third one needs.
    pub(crate) fn gru_gates<F: Map>(row: &mut [f32], f: F, clip: f32) {
        for [z, r, _] in row.as_chunks_mut::<LANES>().0.as_chunks_mut::<3>().0 {
            *z = map(f, clip, z);
            *r = map(f, clip, r);
        }
    }
}

crate::multiversion! {
    /// The state of a GRU times its reset gate.
    pub(crate) fn gru_reset(row: &[f32], h: &[f32], out: &mut [f32]) {
        let (h, out) = (h.as_chunks::<LANES>().0, out.as_chunks_mut::<LANES>().0);
        for (([_, r, _], h), o) in row.as_chunks::<LANES>().0.as_chunks::<3>().0.iter().zip(h).zip(out) {
            for i in 0..LANES {
                o[i] = r[i] * h[i];
            }
        }
    }
}

crate::multiversion! {
    /// Computes the new state of a GRU. `late` is the state's part of the third gate if the reset
    /// gate is applied after the product, otherwise empty.
    pub(crate) fn gru_state<G: Map>(row: &[f32], late: &[f32], g: G, clip: f32, h: &mut [f32]) {
        let rows = row.as_chunks::<LANES>().0.as_chunks::<3>().0;
        for (b, ([z, r, n], h)) in rows.iter().zip(h.as_chunks_mut::<LANES>().0).enumerate() {
            let n = match late.as_chunks::<LANES>().0.get(b) {
                Some(late) => peeped(n, Some(r), late),
                None => *n,
            };
            let new = map(g, clip, &n);
            for i in 0..LANES {
                h[i] = (1.0 - z[i]) * new[i] + z[i] * h[i];
            }
        }
    }
}

crate::multiversion! {
    /// Computes the new states of an LSTM. `peep` holds the peepholes of the input, output and
    /// forget gate, or is empty.
    pub(crate) fn lstm<F: Map, G: Map, H: Map>(row: &[f32], peep: &[f32], f: F, g: G, last: H, forget: bool, clip: f32, h: &mut [f32], c: &mut [f32]) {
        let blocks = h.len() / LANES;
        let peep = peep.as_chunks::<LANES>().0;
        let rows = row.as_chunks::<LANES>().0.as_chunks::<4>().0;
        let (h, c) = (h.as_chunks_mut::<LANES>().0, c.as_chunks_mut::<LANES>().0);
        for (b, (([i, o, k, n], h), c)) in rows.iter().zip(h).zip(c).enumerate() {
            let input = map(f, clip, &peeped(i, peep.get(b), c));
            let mut keep = [0.0; LANES];
            if forget {
                for (k, i) in keep.iter_mut().zip(&input) {
                    *k = 1.0 - i;
                }
            } else {
                keep = map(f, clip, &peeped(k, peep.get(2 * blocks + b), c));
            }
            let new = map(g, clip, n);
            for x in 0..LANES {
                c[x] = keep[x].mul_add(c[x], input[x] * new[x]);
            }
            let output = map(f, clip, &peeped(o, peep.get(blocks + b), c));
            for x in 0..LANES {
                h[x] = output[x] * last.at(c[x]);
            }
        }
    }
}
