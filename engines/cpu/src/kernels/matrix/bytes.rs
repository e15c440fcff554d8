//! Products of 8-bit integers: `MatMulInteger`, `QLinearMatMul`, and which elements their scales
//! and zero points belong to.
use super::matmul::batched;
use crate::args::{Arg, bad, put_i64, room, view_error};
use crate::kernels::math::cast::{doubles, put_nums};
use crate::op::Op;
use crate::store::types::{BYTE, BYTE_F8, FLOAT};
use ge_kernels::view::{Layout, Nest, Num, broadcast_shapes};
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;
use ge_plugin_api::types::DType;
use std::ops::SubAssign;

/// The matrices of a product that a scale or zero point describes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The first factor `[..., M, K]`; a vector is one row.
    A,
    /// The second factor `[..., K, N]`; a vector is one column.
    B,
    /// The result `[..., M, N]`.
    Y,
}

impl Part {
    /// The sizes of a factor with both axes of its matrices.
    fn matrices(self, shape: &[usize]) -> Vec<usize> {
        match shape {
            [] => vec![1, 1],
            &[k] if self == Part::B => vec![k, 1],
            &[k] => vec![1, k],
            _ => shape.to_vec(),
        }
    }

    /// The layout of a scale or zero point over matrices of the sizes `of`. It is one number, one
    /// per row (per column of b), or a tensor that broadcasts to the sizes and does not vary along
    /// the axis K. In the layout, that axis has size one.
    ///
    /// # Errors
    /// Fails if the shape of `p` does not fit.
    fn parameter(self, p: &Arg<'_>, of: &[usize]) -> Result<Layout> {
        let (mut sizes, rows, columns) = (of.to_vec(), of.len() - 2, of.len() - 1);
        match self {
            Part::A => sizes[columns] = 1,
            Part::B => sizes[rows] = 1,
            Part::Y => {}
        }
        let own = match p.shape.as_slice() {
            _ if p.len == 1 => vec![],
            &[n] if self != Part::B => vec![n, 1],
            shape => shape.to_vec(),
        };
        Layout::contiguous(&own).and_then(|l| l.broadcast_to(&sizes)).map_err(|_| {
            let vector = sizes[if self == Part::B { columns } else { rows }];
            let expected = format!("one number, shape [{vector}] or a shape that broadcasts to {sizes:?}");
            bad(format!("input {}", p.index), format!("shape {:?}", p.shape), expected)
        })
    }
}

/// The elements of the factor `part` minus their zero points, in the order of the elements. `turned`
/// means that the factor's matrices are stored transposed; the zero points are those of the product.
///
/// # Errors
/// Fails if the shape of the zero points does not fit.
pub fn less_zero(x: &Arg<'_>, zero: Option<&Arg<'_>>, part: Part, turned: bool) -> Result<Vec<i64>> {
    minus(x, zero, part, turned, |x| x.i64s())
}

/// As [`less_zero`], with elements read by `read`.
fn minus<W: Copy + SubAssign>(
    x: &Arg<'_>,
    zero: Option<&Arg<'_>>,
    part: Part,
    turned: bool,
    read: fn(&Arg<'_>) -> Result<Vec<W>>,
) -> Result<Vec<W>> {
    let mut v = read(x)?;
    let Some(z) = zero else { return Ok(v) };
    let mut sizes = part.matrices(&x.shape);
    let mut axes: Vec<usize> = (0..sizes.len()).collect();
    if turned && x.rank() > 1 {
        axes[x.rank() - 2..].reverse();
        sizes.swap(x.rank() - 2, x.rank() - 1);
    }
    let l = part.parameter(z, &sizes)?.broadcast_to(&sizes).and_then(|l| l.permute(&axes)).map_err(view_error)?;
    let zeros = read(z)?;
    let mut at = 0;
    Nest::new(l.shape(), [&l]).each_run(|[p], len, [step]| {
        for (i, e) in v[at..at + len].iter_mut().enumerate() {
            *e -= zeros[(p + i as isize * step) as usize];
        }
        at += len;
    });
    Ok(v)
}

/// Rounds half to even, adds the zero point and saturates to an 8-bit type.
pub fn saturate(v: f64, zero: i64, d: DType) -> i64 {
    let (lo, hi) = if d == DType::I8 { (-128.0, 127.0) } else { (0.0, 255.0) };
    (v.round_ties_even() + zero as f64).clamp(lo, hi) as i64
}

fn run_integer(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (a, b) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?);
    let (za, zb) = (Arg::opt(ctx, 2)?, Arg::opt(ctx, 3)?);
    let va = less_zero(&a, za.as_ref(), Part::A, false)?;
    let vb = less_zero(&b, zb.as_ref(), Part::B, false)?;
    let (shape, y) = batched(&va, &a.shape, &vb, &b.shape, (false, false), None)?;
    put_i64(ctx, 0, &shape, &y)
}

/// The product of two factors less their zero points: exact for integers, in double precision if a
/// factor has a floating-point type of 8 bits.
fn sums(a: [&Arg<'_>; 2], b: [&Arg<'_>; 2]) -> Result<(Vec<usize>, Vec<f64>)> {
    let ([a, za], [b, zb]) = (a, b);
    if [a, b].iter().any(|x| !BYTE.contains(&x.dtype)) {
        let va = minus(a, Some(za), Part::A, false, doubles)?;
        let vb = minus(b, Some(zb), Part::B, false, doubles)?;
        return batched(&va, &a.shape, &vb, &b.shape, (false, false), None);
    }
    let (va, vb) = (less_zero(a, Some(za), Part::A, false)?, less_zero(b, Some(zb), Part::B, false)?);
    let (shape, y) = batched(&va, &a.shape, &vb, &b.shape, (false, false), None)?;
    Ok((shape, y.into_iter().map(|v| v as f64).collect()))
}

/// The factor of each sum is computed in single precision, as in onnxruntime. A result of a
/// floating-point type of 8 bits is rounded to it once.
fn run_linear(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let given = |i| Arg::of(ctx, i);
    let (a, sa, za, b) = (given(0)?, given(1)?, given(2)?, given(3)?);
    let (sb, zb, sy, zy) = (given(4)?, given(5)?, given(6)?, given(7)?);
    let (shape, sums) = sums([&a, &za], [&b, &zb])?;
    let (of_a, of_b) = (Part::A.matrices(&a.shape), Part::B.matrices(&b.shape));
    let [lead_a, lead_b] = [&of_a, &of_b].map(|s| &s[..s.len() - 2]);
    let mut whole = broadcast_shapes(lead_a, lead_b).map_err(view_error)?;
    whole.extend([of_a[of_a.len() - 2], of_b[of_b.len() - 1]]);
    let over = |part: Part, p: &Arg<'_>, of: &[usize]| part.parameter(p, of)?.broadcast_to(&whole).map_err(view_error);
    let (la, lb) = (over(Part::A, &sa, &of_a)?, over(Part::B, &sb, &of_b)?);
    let (ly, lz) = (over(Part::Y, &sy, &whole)?, over(Part::Y, &zy, &whole)?);
    let (sa, sb, sy, zy) = (sa.f64s()?, sb.f64s()?, sy.f64s()?, doubles(&zy)?);
    let d = ctx.output_dtype(0).unwrap_or_default();
    let mut q = room(sums.len())?;
    Nest::new(&whole, [&la, &lb, &ly, &lz]).each_run(|from, len, step| {
        let at = q.len();
        for (i, sum) in sums[at..at + len].iter().enumerate() {
            let [a, b, y, z] = std::array::from_fn(|k| (from[k] + i as isize * step[k]) as usize);
            let factor = (sa[a] * sb[b]) as f32 / sy[y] as f32;
            let v = sum * f64::from(factor);
            q.push(if BYTE.contains(&d) { Num::I(saturate(v, zy[z] as i64, d)) } else { Num::F(v + zy[z]) });
        }
    });
    put_nums(ctx, 0, &shape, &q, true, "up")
}

/// Operator rows of this file.
pub const OPS: &[Op] = &[
    Op::new("MatMulInteger", run_integer, &[BYTE]).gives(&[&[DType::I32]]),
    Op::new("QLinearMatMul", run_linear, &[BYTE_F8, FLOAT, BYTE_F8, BYTE_F8, FLOAT, BYTE_F8, FLOAT, BYTE_F8])
        .gives(&[BYTE_F8]),
];

#[cfg(test)]
mod tests {
    use crate::testing::{attrs, call, refusal, t};
    use ge_plugin_api::kernel::HostTensor;
    use ge_plugin_api::types::DType;

    /// The product of two matrices of ones by matrices of ones, with the given scales and zero
    /// points of a and b.
    fn linear(a: [&HostTensor; 2], b: [&HostTensor; 2]) -> Vec<u8> {
        let (x, y) = (t(&[2, 2, 3], &[1u8; 12]), t(&[2, 3, 2], &[1i8; 12]));
        let (one, zero) = (t(&[], &[1f32]), t(&[], &[0u8]));
        let inputs = [&x, a[0], a[1], &y, b[0], b[1], &one, &zero].map(Some);
        let made = call("QLinearMatMul", &inputs, &attrs(&[]), &[DType::U8]).unwrap();
        assert_eq!(made[0].view().dims, [2, 2, 2]);
        made[0].bytes().to_vec()
    }

    #[test]
    fn scales_and_zero_points_belong_to_what_their_shape_says() {
        let (one, za, zb) = (t(&[], &[1f32]), t(&[], &[0u8]), t(&[], &[0i8]));
        // Each sum is 3. One scale per column and row of each matrix, of all matrices, of a matrix.
        let each = [1f32, 2.0, 3.0, 4.0];
        assert_eq!(linear([&one, &za], [&t(&[2, 1, 2], &each), &zb]), [3, 6, 3, 6, 9, 12, 9, 12]);
        assert_eq!(linear([&t(&[2, 2, 1], &each), &za], [&one, &zb]), [3, 3, 6, 6, 9, 9, 12, 12]);
        assert_eq!(linear([&t(&[2], &each[..2]), &za], [&one, &zb]), [3, 3, 6, 6, 3, 3, 6, 6]);
        assert_eq!(linear([&one, &za], [&t(&[2], &each[..2]), &zb]), [3, 6, 3, 6, 3, 6, 3, 6]);
        assert_eq!(linear([&t(&[2, 1, 1], &each[1..3]), &za], [&one, &zb]), [6, 6, 6, 6, 9, 9, 9, 9]);
        // The same for zero points.
        assert_eq!(linear([&one, &za], [&one, &t(&[2, 1, 2], &[0i8, -1, -2, -3])]), [3, 6, 3, 6, 9, 12, 9, 12]);
        assert_eq!(linear([&one, &t(&[2, 2, 1], &[1u8, 0, 0, 1])], [&one, &zb]), [0, 0, 3, 3, 3, 3, 0, 0]);
    }

    #[test]
    fn factors_and_results_may_be_floating_point_numbers_of_8_bits() {
        // 1.5 and -2 (E4M3FN), by 3 and 4 of 8-bit integers.
        let f8 = |dims: &[u64], v: &[u8]| HostTensor::from_bytes(DType::F8E4M3FN, dims, v).unwrap();
        let (a, za) = (f8(&[1, 2], &[0x3c, 0xc0]), f8(&[], &[0]));
        let (b, zb, s) = (t(&[2, 1], &[3i8, 4]), t(&[], &[0i8]), t(&[], &[0.5f32]));
        let product = |zy: &HostTensor, to| {
            let inputs = [&a, &s, &za, &b, &s, &zb, &s, zy].map(Some);
            call("QLinearMatMul", &inputs, &attrs(&[]), &[to]).unwrap()[0].bytes().to_vec()
        };
        // (4.5 - 8) / 2 = -1.75; rounded to even in whole numbers.
        assert_eq!(product(&za, DType::F8E4M3FN), [0xbe]);
        assert_eq!(product(&t(&[], &[10u8]), DType::U8), [8]);
    }

    #[test]
    fn a_parameter_that_fits_no_axis_is_refused() {
        let (a, b, za) = (t(&[2, 3], &[1u8; 6]), t(&[3, 2], &[1i8; 6]), t(&[], &[0u8]));
        let e = refusal("MatMulInteger", &[&a, &b, &za, &t(&[3, 1], &[0i8; 3])], &[]);
        assert!(e.contains("input 3") && e.contains("[1, 2]"), "{e}");
        let e = refusal("MatMulInteger", &[&a, &b, &t(&[3], &[0u8; 3])], &[]);
        assert_eq!(
            e,
            "input 2 does not fit: found shape [3], expected one number, shape [2] or a shape that broadcasts to [2, 1]"
        );
    }

    #[test]
    fn vectors_are_one_row_and_one_column() {
        let (a, b) = (t(&[3], &[1u8; 3]), t(&[2, 3, 2], &[1i8; 12]));
        let zb = t(&[2, 1, 2], &[0i8, 1, 2, 3]);
        let inputs = [Some(&a), Some(&b), Some(&t(&[1], &[0u8])), Some(&zb)];
        let y = call("MatMulInteger", &inputs, &attrs(&[]), &[DType::I32]).unwrap();
        assert_eq!((y[0].view().dims, y[0].view().values::<i32>().unwrap()), (&[2, 2][..], &[3, 0, -3, -6][..]));
    }
}
