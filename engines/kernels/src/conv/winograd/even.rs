//! Numbers of one tile share their digits: its transforms add and subtract all of them, also for
//! outputs that read only some. What is far greater than its neighbours would spoil them.
use crate::simd::isa::Isa;

/// Bound for the squares of numbers: 2^80.
const LIMIT: f32 = 1.2e24;
/// A number is of the size of the greatest if it is at least 2^-8 of it, its square thus at least
/// this part of the greatest square. Beside the greatest number it then keeps all but eight bits.
const NEAR: f32 = 1.0 / 65536.0;
/// A channel with fewer numbers other than zero than this part of all does not tell what size is
/// common.
const SPARSE: f32 = 1.0 / 16.0;

/// Whether all numbers are small enough. False if one is NaN.
#[inline(always)]
pub(super) fn is_small<I: Isa>(isa: I, v: &[f32]) -> bool {
    let mut most = Greatest::new(isa);
    most.see(isa, v);
    most.square(isa) < LIMIT
}

/// Whether all numbers of all channels are small enough, and the greatest of them is of a size that
/// is common in some channel.
#[inline(always)]
pub(super) fn are_even<'x, I: Isa>(isa: I, channels: impl Iterator<Item = &'x [f32]> + Clone) -> bool {
    let mut most = Greatest::new(isa);
    for x in channels.clone() {
        most.see(isa, x);
    }
    let most = most.square(isa);
    if most.is_nan() || most >= LIMIT {
        return false;
    }
    let near = most * NEAR;
    // Numbers without digits cannot spoil any.
    if near == 0.0 {
        return true;
    }
    // A loop, because a closure would not be compiled for the instruction set.
    for x in channels {
        if is_common(isa, x, near) {
            return true;
        }
    }
    false
}

/// The greatest square so far; NaN if a number was NaN.
struct Greatest<V> {
    /// Several, because with only one each comparison would wait for the one before.
    lanes: [V; 4],
    rest: f32,
}

impl<V: Copy> Greatest<V> {
    #[inline(always)]
    fn new<I: Isa<V = V>>(isa: I) -> Greatest<V> {
        Greatest { lanes: [isa.splat(0.0); 4], rest: 0.0 }
    }
    #[inline(always)]
    fn see<I: Isa<V = V>>(&mut self, isa: I, v: &[f32]) {
        let (vectors, rest) = v.as_chunks::<16>();
        for four in vectors.chunks(4) {
            for (most, v) in self.lanes.iter_mut().zip(four) {
                let v = isa.load(v);
                *most = isa.larger(*most, isa.mul(v, v));
            }
        }
        for v in rest {
            self.rest = larger(self.rest, v * v);
        }
    }
    #[inline(always)]
    fn square<I: Isa<V = V>>(&self, isa: I) -> f32 {
        let [a, b, c, d] = self.lanes;
        let mut lanes = [0.0; 16];
        isa.store(isa.larger(isa.larger(a, b), isa.larger(c, d)), &mut lanes);
        lanes.into_iter().fold(self.rest, larger)
    }
}

/// The larger of two numbers, or NaN if one is.
fn larger(a: f32, b: f32) -> f32 {
    if b > a || b.is_nan() { b } else { a }
}

/// Whether most of the numbers other than zero have squares of at least `near`, and there are
/// enough of them.
#[inline(always)]
fn is_common<I: Isa>(isa: I, v: &[f32], near: f32) -> bool {
    // Turns the square of anything but zero into a number of at least one.
    const UP: f32 = f32::MAX;
    let (vectors, rest) = v.as_chunks::<16>();
    let (mut large, mut all) = ([isa.splat(0.0); 2], [isa.splat(0.0); 2]);
    let (bound, one, up) = (isa.splat(near), isa.splat(1.0), isa.splat(UP));
    for two in vectors.chunks(2) {
        for ((v, large), all) in two.iter().zip(&mut large).zip(&mut all) {
            let v = isa.load(v);
            let v = isa.mul(v, v);
            *large = isa.add(isa.at_most(v, bound), *large);
            *all = isa.add(isa.at_most(isa.mul(v, up), one), *all);
        }
    }
    let squares = rest.iter().map(|v| v * v);
    let large = sum(isa, large) + squares.clone().map(|v| v.min(near)).sum::<f32>();
    let all = sum(isa, all) + squares.map(|v| (v * UP).min(1.0)).sum::<f32>();
    all >= SPARSE * v.len() as f32 && large >= near / 2.0 * all
}

#[inline(always)]
fn sum<I: Isa>(isa: I, of: [I::V; 2]) -> f32 {
    let mut lanes = [0.0; 16];
    isa.store(isa.add(of[0], of[1]), &mut lanes);
    lanes.iter().sum()
}
