//! Functions of two tensors of half types. Blocks of numbers are widened by the machine's
//! instruction, mapped in single precision and rounded. The bits are the same as for single
//! elements.
use super::binary::{Arith, Binary, run};
use crate::simd::isa::PanelElem;
use crate::simd::lines::{round_to, widen};
use crate::view::{Kind, seen_as, seen_as_mut};
use half::{bf16, f16};

/// Numbers that are widened at a time.
const BLOCK: usize = 256;
/// Minimum length of a run for which this is worthwhile.
const LEAST: usize = 32;

/// Maps two runs, each of which is a single number or contiguous. Returns false, without writing,
/// unless the type is a half type and the run is long enough.
pub(super) fn map<T: Arith>(op: Binary, a: (&[T], usize), b: (&[T], usize), out: &mut [T]) -> bool {
    let takes = a.1 <= 1 && b.1 <= 1 && out.len() >= LEAST;
    match T::KIND {
        Kind::F16 if takes => blocks::<T, f16>(op, a, b, out),
        Kind::Bf16 if takes => blocks::<T, bf16>(op, a, b, out),
        _ => false,
    }
}

fn blocks<T: Arith, H: PanelElem>(op: Binary, a: (&[T], usize), b: (&[T], usize), out: &mut [T]) -> bool {
    let (Ok(x), Ok(y), Ok(out)) = (seen_as::<H, _>(a.0), seen_as::<H, _>(b.0), seen_as_mut::<H, _>(out)) else {
        return false;
    };
    let (mut wide_a, mut wide_b, mut to) = ([0.0; BLOCK], [0.0; BLOCK], [0.0; BLOCK]);
    if a.1 == 0 {
        wide_a[0] = x[0].wide();
    }
    if b.1 == 0 {
        wide_b[0] = y[0].wide();
    }
    for (k, out) in out.chunks_mut(BLOCK).enumerate() {
        let own = k * BLOCK..k * BLOCK + out.len();
        if a.1 == 1 {
            widen(&x[own.clone()], &mut wide_a);
        }
        if b.1 == 1 {
            widen(&y[own], &mut wide_b);
        }
        let to = &mut to[..out.len()];
        run(op, &wide_a, a.1, &wide_b, b.1, to);
        round_to(to, out);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{Level, with_level};
    use crate::view::{Layout, Nest, Out};

    #[test]
    fn long_runs_of_halves_are_what_their_numbers_give_rounded() {
        for (n, level) in
            [31, 32, 256, 300, 777].into_iter().flat_map(|n| Level::available().into_iter().map(move |l| (n, l)))
        {
            let x: Vec<f16> = (0..n).map(|i| f16::from_f32((i * 37 % 101) as f32 / 8.0 - 6.0)).collect();
            let z: Vec<f16> = x.iter().rev().map(|v| f16::from_f32(v.to_f32() * 1.7)).collect();
            let ops = [Binary::Add, Binary::Sub, Binary::Mul, Binary::Div, Binary::Max, Binary::SquaredDifference];
            for (op, one) in
                ops.into_iter().flat_map(|op| [(false, false), (true, false), (false, true)].map(|one| (op, one)))
            {
                let own = |v: &[f16], one: bool| if one { v[..1].to_vec() } else { v.to_vec() };
                let (a, b) = (own(&x, one.0), own(&z, one.1));
                let of = |v: &[f16]| Layout::contiguous(&[v.len()]).unwrap().broadcast_to(&[n]).unwrap();
                let nest = Nest::new(&[n], [&of(&a), &of(&b)]);
                let mut y = vec![f16::ZERO; n];
                with_level(level, || super::super::binary(op, &nest, 0..n, &a, &b, &mut Out::new(&mut y)));
                for (i, y) in y.iter().enumerate() {
                    let want = f16::map(op, a[i % a.len()], b[i % b.len()]);
                    assert_eq!(y.to_bits(), want.to_bits(), "{op:?} {n} {i} {level:?}");
                }
            }
        }
    }
}
