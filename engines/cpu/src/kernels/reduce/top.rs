//! `TopKV2`: the greatest or smallest elements along an axis, in order. Equal elements are ordered
//! by position; NaN is above all numbers.
use crate::args::{Arg, axis, bad, count, filled, flag, int_attr, out_bytes, put_i64, room, size};
use crate::kernels::shape::moving::with_width;
use crate::op::Op;
use crate::store::types::{INDEX, NUM};
use ge_kernels::view::{Elem, Num};
use ge_kernels::with_kind;
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;

/// An integer that sorts like the element; equal elements have equal keys.
#[inline(always)]
pub fn key<T: Elem>(v: T) -> i64 {
    match v.to_num() {
        Num::I(v) => v,
        Num::U(v) => (v ^ 1 << 63) as i64,
        Num::F(v) if v.is_nan() => i64::MAX,
        Num::F(v) => {
            // Both zeros are equal; for negative numbers the order of the bits is reversed.
            let bits = (v + 0.0).to_bits() as i64;
            if bits < 0 { bits ^ i64::MAX } else { bits }
        }
    }
}

ge_kernels::multiversion! {
    /// The keys of some elements, complemented if `turned` is -1.
    fn keys_of<T: Elem>(elements: &[T], turned: i64, keys: &mut [i64]) {
        for (to, v) in keys.iter_mut().zip(elements) {
            *to = key(*v) ^ turned;
        }
    }
}

/// Up to this many elements are kept sorted during a single pass over all elements.
const FEW: usize = 64;

/// Finds the `k` smallest of `keys` with their positions, in order.
fn least(keys: &[i64], k: usize, found: &mut Vec<(i64, usize)>) {
    found.clear();
    if k == 0 {
        return;
    }
    if k > FEW || k * 4 > keys.len() {
        found.extend(keys.iter().copied().zip(0..));
        if k < keys.len() {
            found.select_nth_unstable(k - 1);
            found.truncate(k);
        }
        found.sort_unstable();
        return;
    }
    scan(keys, k, found);
}

ge_kernels::multiversion! {
    /// Passes over `keys` once and keeps the `k` smallest in `found`, sorted.
    fn scan(keys: &[i64], k: usize, found: &mut Vec<(i64, usize)>) {
        const TOGETHER: usize = 32;
        for (block, keys) in keys.chunks(TOGETHER).enumerate() {
            let limit = if found.len() == k { found[k - 1].0 } else { i64::MAX };
            if found.len() == k && !keys.iter().fold(false, |any, key| any | (*key < limit)) {
                continue;
            }
            for (i, &key) in keys.iter().enumerate() {
                if found.len() == k {
                    if found[k - 1].0 <= key {
                        continue;
                    }
                    found.pop();
                }
                // Equal keys that are already in the list have lower positions.
                let mut at = found.len();
                while at > 0 && found[at - 1].0 > key {
                    at -= 1;
                }
                found.insert(at, (key, block * TOGETHER + i));
            }
        }
    }
}

fn run(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (x, k) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?.int()?);
    let a = axis("attribute `dim`", int_attr(ctx, "dim", -1), x.rank())?;
    let n = x.shape[a];
    let k = size("input 1 `k`", k)?;
    if k > n {
        return Err(bad("input 1 `k`", k, format!("0 to {n}")));
    }
    // The greatest elements are those with the smallest complements.
    let turned = if flag(ctx, "largest", true) { -1 } else { 0 };
    let mut shape = x.shape.clone();
    shape[a] = k;
    let inner: usize = x.shape[a + 1..].iter().product();
    let outer: usize = x.shape[..a].iter().product();
    let mut places = filled(count(&shape)?, 0usize)?;
    let (mut keys, mut found) = (filled(n, 0i64)?, room(n)?);
    with_kind!(x.kind()?, T => {
        let v = x.values::<T>()?;
        for o in 0..outer {
            for i in 0..inner {
                let lane = &v[o * n * inner..(o + 1) * n * inner];
                if inner == 1 {
                    keys_of(lane, turned, &mut keys);
                } else {
                    let lane = lane.iter().skip(i).step_by(inner);
                    keys.iter_mut().zip(lane).for_each(|(to, v)| *to = key(*v) ^ turned);
                }
                least(&keys, k, &mut found);
                found.iter().enumerate().for_each(|(r, p)| places[(o * k + r) * inner + i] = p.1);
            }
        }
    });
    let width = x.kind()?.size();
    let o = out_bytes(ctx, 0, &shape)?;
    if k * inner > 0 {
        with_width!(width, N => {
            let (from, to) = (x.bytes().as_chunks::<N>().0, o.as_chunks_mut::<N>().0);
            let parts = to.chunks_exact_mut(k * inner).zip(places.chunks_exact(k * inner));
            for ((to, places), from) in parts.zip(from.chunks_exact(n * inner)) {
                for (to, places) in to.chunks_exact_mut(inner).zip(places.chunks_exact(inner)) {
                    for (i, (o, p)) in to.iter_mut().zip(places).enumerate() {
                        *o = from[p * inner + i];
                    }
                }
            }
        });
    }
    if ctx.output_count() > 1 {
        let v: Vec<i64> = places.into_iter().map(|p| p as i64).collect();
        put_i64(ctx, 1, &shape, &v)?;
    }
    Ok(())
}

/// Operator rows of this file.
pub const OPS: &[Op] = &[Op::new("TopKV2", run, &[NUM, INDEX]).gives(&[NUM, INDEX])];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_ordered_as_the_elements_are() {
        let floats = [f32::NEG_INFINITY, -3.0, -1e-40, 0.0, 1e-40, 2.5, f32::INFINITY, f32::NAN];
        assert!(floats.windows(2).all(|w| key(w[0]) < key(w[1])));
        assert_eq!(key(-0.0f64), key(0.0f64));
        assert_eq!(key(f32::NAN), key(-f32::NAN));
        assert!(key(u64::MAX) > key(1u64 << 63) && key(1u64 << 63) > key(0u64));
        assert!(key(i64::MIN) < key(-1i64) && key(-1i8) < key(0i8));
    }

    #[test]
    fn both_ways_of_choosing_agree() {
        let keys: Vec<i64> = (0..300).map(|i| i * 37 % 50).collect();
        let mut want: Vec<(i64, usize)> = keys.iter().copied().zip(0..).collect();
        want.sort();
        for k in [0, 1, 7, 64, 65, 299, 300] {
            let mut found = Vec::new();
            least(&keys, k, &mut found);
            assert_eq!(found, want[..k], "{k}");
        }
    }
}
