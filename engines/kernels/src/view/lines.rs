//! Loops over neighbouring elements, compiled for each instruction set. The caller supplies the
//! function of one element; the loops here apply it to many elements at a time.
//!
//! A function of a few operations without a branch becomes vector instructions. Nothing is
//! contracted or reordered: every element has the bits of the plain loop. For slices of different
//! lengths, the loop stops at the end of the shortest.
use crate::multiversion;

multiversion! {
    /// `y[i] = f(x[i])`.
    pub fn map<S: Copy, D: Copy, F: Fn(S) -> D>(y: &mut [D], x: &[S], f: F) {
        for (y, x) in y.iter_mut().zip(x) {
            *y = f(*x);
        }
    }
}

multiversion! {
    /// `y[i] = f(a[i], b[i])`.
    pub fn zip<S: Copy, Q: Copy, D: Copy, F: Fn(S, Q) -> D>(y: &mut [D], a: &[S], b: &[Q], f: F) {
        for ((y, a), b) in y.iter_mut().zip(a).zip(b) {
            *y = f(*a, *b);
        }
    }
}

multiversion! {
    /// `y[i] = f(y[i], x[i])`.
    pub fn update<S: Copy, D: Copy, F: Fn(D, S) -> D>(y: &mut [D], x: &[S], f: F) {
        for (y, x) in y.iter_mut().zip(x) {
            *y = f(*y, *x);
        }
    }
}

multiversion! {
    /// `y[i] = f(y[i], a[i], b[i])`.
    pub fn update_by<S: Copy, Q: Copy, D: Copy, F: Fn(D, S, Q) -> D>(y: &mut [D], a: &[S], b: &[Q], f: F) {
        for ((y, a), b) in y.iter_mut().zip(a).zip(b) {
            *y = f(*y, *a, *b);
        }
    }
}

multiversion! {
    /// Applies `state = f(state, x[i])` to every element in order, from `start`, and returns the
    /// last state. For a sum, product or extreme of integers the compiler takes several elements at
    /// a time.
    pub fn fold<S: Copy, A: Copy, F: Fn(A, S) -> A>(x: &[S], start: A, f: F) -> A {
        let mut state = start;
        for x in x {
            state = f(state, *x);
        }
        state
    }
}

/// Number of parallel states of [`fold_lanes`].
pub const LANES: usize = 16;

multiversion! {
    /// Like [`fold`], with sixteen states: state `l` takes elements `l`, `l + 16`, .... At the end
    /// `join` halves the number of states until one is left. The order is the same on every
    /// machine.
    pub fn fold_lanes<S: Copy, A: Copy, F: Fn(A, S) -> A, J: Fn(A, A) -> A>(x: &[S], start: A, f: F, join: J) -> A {
        let mut states = [start; LANES];
        let (blocks, rest) = x.as_chunks::<LANES>();
        for block in blocks {
            for (s, x) in states.iter_mut().zip(block) {
                *s = f(*s, *x);
            }
        }
        for (s, x) in states.iter_mut().zip(rest) {
            *s = f(*s, *x);
        }
        let mut half = LANES / 2;
        while half > 0 {
            for l in 0..half {
                states[l] = join(states[l], states[l + half]);
            }
            half /= 2;
        }
        states[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{Level, with_level};

    #[test]
    fn every_instruction_set_gives_the_bits_of_the_plain_loop() {
        let a: Vec<f64> = (0..77).map(|i| f64::from(i * 37 % 77) / 7.0 - 5.0).collect();
        let b: Vec<f64> = a.iter().rev().copied().collect();
        let plain = with_level(Level::Scalar, || each(&a, &b));
        for level in Level::available() {
            assert_eq!(with_level(level, || each(&a, &b)), plain, "{level:?}");
        }
        assert_eq!(plain.0[3], (a[3] * b[3] + 1.0).to_bits());
        assert_eq!(plain.1, a.iter().fold(0.0, |s, v| s + v).to_bits());
    }

    fn each(a: &[f64], b: &[f64]) -> (Vec<u64>, u64, u64, i64) {
        let mut y = vec![0.0; a.len()];
        zip(&mut y, a, b, |a, b| a * b + 1.0);
        let mut z = vec![0i64; a.len()];
        map(&mut z, a, |v| (v * 3.0) as i64);
        update(&mut z, a, |z, v| z.wrapping_mul(v as i64));
        update_by(&mut z, a, b, |z, a, b| if a < b { z } else { -z });
        let sum = fold(a, 0.0, |s, v| s + v);
        let lanes = fold_lanes(a, 0.0, |s, v| s + v, |a, b| a + b);
        let bits = y.iter().map(|v: &f64| v.to_bits()).collect();
        (bits, sum.to_bits(), lanes.to_bits(), fold(&z, i64::MIN, i64::max))
    }

    #[test]
    fn lanes_take_every_element_once() {
        for n in [0, 1, 15, 16, 17, 100] {
            let x: Vec<i64> = (1..=n).collect();
            assert_eq!(fold_lanes(&x, 0, |s, v| s + v, |a, b| a + b), n * (n + 1) / 2);
        }
    }
}
