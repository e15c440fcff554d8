//! `MatrixInverse(x [..., n, n]) -> y`: the inverse of each matrix, by elimination with row
//! exchanges in f64. A singular matrix gives infinities and NaN, as in onnxruntime.
use crate::declare::ort_op;
use ge_plugin_api::kernel::{KernelCtx, TensorMut, TensorView};
use ge_plugin_api::ops::{InferCtx, OpDef, infer};
use ge_plugin_api::services::parallel_for;
use ge_plugin_api::types::dtype::FLOATS;
use ge_plugin_api::types::{DType, TensorDesc};
use ge_plugin_api::{Error, Result, register_kernel, register_op};
use std::sync::Mutex;

ort_op!("Inverse", 1, [], |n, b| { Ok(vec![b.node("MatrixInverse").name(&n.name).input(n.input(0)?).build()]) });

fn square(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let shape = &c.input(0)?.shape;
    if let Some(r) = shape.rank() {
        let sizes = |i: usize| shape.dims().get(i).and_then(|d| d.size());
        if r < 2 || matches!((sizes(r - 2), sizes(r - 1)), (Some(a), Some(b)) if a != b) {
            return Err(Error::failed(format!("input 0: found {shape}, expected square matrices [..., n, n]")));
        }
    }
    infer::same(c)
}
register_op!(|| OpDef::new("MatrixInverse", square).input("x", FLOATS, "T").output("y", FLOATS, "T"));

/// The inverse of an `n` by `n` matrix. If the matrix is singular, divisions by zero make the
/// numbers infinite or NaN.
pub fn inverse(matrix: &[f64], n: usize) -> Vec<f64> {
    // Lower and upper triangle in one matrix, and the row that each row was taken from.
    let (mut a, mut from) = (matrix.to_vec(), (0..n).collect::<Vec<_>>());
    for column in 0..n {
        let larger = |best: usize, i: usize| {
            if a[i * n + column].abs() > a[best * n + column].abs() { i } else { best }
        };
        let pivot = (column..n).reduce(larger).unwrap_or(column);
        (0..n).for_each(|k| a.swap(pivot * n + k, column * n + k));
        from.swap(pivot, column);
        let p = a[column * n + column];
        for row in column + 1..n {
            let f = if p == 0.0 { a[row * n + column] } else { a[row * n + column] / p };
            a[row * n + column] = f;
            for k in column + 1..n {
                a[row * n + k] -= f * a[column * n + k];
            }
        }
    }
    let mut y = vec![0.0; n * n];
    (0..n).for_each(|i| y[i * n + from[i]] = 1.0);
    for row in 0..n {
        for (k, c) in (0..row).flat_map(|k| (0..n).map(move |c| (k, c))) {
            y[row * n + c] -= a[row * n + k] * y[k * n + c];
        }
    }
    for row in (0..n).rev() {
        for (k, c) in (row + 1..n).flat_map(|k| (0..n).map(move |c| (k, c))) {
            y[row * n + c] -= a[row * n + k] * y[k * n + c];
        }
        (0..n).for_each(|c| y[row * n + c] /= a[row * n + row]);
    }
    y
}

/// All elements of a real tensor, as f64.
fn numbers(x: &TensorView<'_>) -> Result<Vec<f64>> {
    Ok(match x.dtype {
        DType::F64 => x.values::<f64>()?.to_vec(),
        DType::F16 => x.values::<half::f16>()?.iter().map(|v| v.to_f64()).collect(),
        DType::BF16 => x.values::<half::bf16>()?.iter().map(|v| v.to_f64()).collect(),
        _ => x.values::<f32>()?.iter().map(|v| f64::from(*v)).collect(),
    })
}

fn put(y: &mut TensorMut<'_>, v: &[f64]) -> Result<()> {
    match y.dtype {
        DType::F64 => y.values::<f64>()?.copy_from_slice(v),
        DType::F16 => y.values::<half::f16>()?.iter_mut().zip(v).for_each(|(y, v)| *y = half::f16::from_f64(*v)),
        DType::BF16 => y.values::<half::bf16>()?.iter_mut().zip(v).for_each(|(y, v)| *y = half::bf16::from_f64(*v)),
        _ => y.values::<f32>()?.iter_mut().zip(v).for_each(|(y, v)| *y = *v as f32),
    }
    Ok(())
}

fn run(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = ctx.input(0)?;
    let [.., rows, n] = *x.dims else {
        return Err(Error::failed(format!("input 0: found shape {:?}, expected [..., n, n]", x.dims)));
    };
    if rows != n {
        return Err(Error::failed(format!("input 0: found shape {:?}, expected [..., n, n]", x.dims)));
    }
    let n = n as usize;
    let values = numbers(&x)?;
    let matrices: Vec<&[f64]> = if n == 0 { Vec::new() } else { values.chunks_exact(n * n).collect() };
    let done: Vec<Mutex<Vec<f64>>> = matrices.iter().map(|_| Mutex::default()).collect();
    parallel_for(matrices.len(), 1, |range| {
        for i in range {
            *done[i].lock().unwrap_or_else(|p| p.into_inner()) = inverse(matrices[i], n);
        }
        Ok(())
    })?;
    let all: Vec<f64> = done.into_iter().flat_map(|m| m.into_inner().unwrap_or_else(|p| p.into_inner())).collect();
    put(&mut ctx.alloc_output(0, x.dims)?, &all)
}
register_kernel!("OrtContribEngine", "MatrixInverse", [DType::F32, DType::F16, DType::BF16, DType::F64], run);

#[cfg(test)]
mod tests {
    use super::inverse;

    #[test]
    fn rows_are_exchanged_and_singular_matrices_have_no_finite_inverse() {
        assert_eq!(inverse(&[0.0, 2.0, 4.0, 0.0], 2), [0.0, 0.25, 0.5, 0.0]);
        assert_eq!(inverse(&[2.0, 0.0, 1.0, 0.0, 4.0, 0.0, 0.0, 0.0, 1.0], 3)[..3], [0.5, 0.0, -0.5]);
        let inf = f64::INFINITY;
        assert_eq!(inverse(&[1.0, 2.0, 2.0, 4.0], 2), [-inf, inf, inf, -inf]);
        assert!(inverse(&[f64::NAN, 0.0, 0.0, 1.0], 2)[0].is_nan());
        assert_eq!(inverse(&[], 0), []);
    }
}
