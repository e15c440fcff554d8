//! `MatrixInverse(x [..., n, n]) -> y`: the inverse of each matrix, by elimination with row
//! exchanges in f64; a singular matrix is an error that names it.
use ge_plugin_api::kernel::{KernelCtx, TensorMut, TensorView};
use ge_plugin_api::ops::flags::MAY_FAIL;
use ge_plugin_api::ops::{InferCtx, OpDef, infer};
use ge_plugin_api::services::parallel_for;
use ge_plugin_api::types::dtype::FLOATS;
use ge_plugin_api::types::{DType, TensorDesc};
use ge_plugin_api::{Error, Result, map_op, register_kernel, register_op};
use std::sync::Mutex;

map_op!("onnx", "com.microsoft", "Inverse", 1..=u32::MAX, |n, b| {
    Ok(vec![b.node("MatrixInverse").name(&n.name).input(n.input(0)?).build()])
});

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
register_op!(|| OpDef::new("MatrixInverse", square).input("x", FLOATS, "T").output("y", FLOATS, "T").flags(MAY_FAIL));

/// The inverse of an `n` by `n` matrix, or the column in which no pivot is left.
pub fn inverse(matrix: &[f64], n: usize) -> Result<Vec<f64>, usize> {
    let mut a = matrix.to_vec();
    let mut y = vec![0.0; n * n];
    (0..n).for_each(|i| y[i * n + i] = 1.0);
    for column in 0..n {
        let pivot = (column..n)
            .max_by(|&i, &k| a[i * n + column].abs().total_cmp(&a[k * n + column].abs()))
            .filter(|&i| a[i * n + column] != 0.0 && a[i * n + column].is_finite())
            .ok_or(column)?;
        for k in 0..n {
            a.swap(pivot * n + k, column * n + k);
            y.swap(pivot * n + k, column * n + k);
        }
        let p = a[column * n + column];
        for k in 0..n {
            a[column * n + k] /= p;
            y[column * n + k] /= p;
        }
        for row in (0..n).filter(|&r| r != column) {
            let f = a[row * n + column];
            if f != 0.0 {
                for k in 0..n {
                    a[row * n + k] -= f * a[column * n + k];
                    y[row * n + k] -= f * y[column * n + k];
                }
            }
        }
    }
    Ok(y)
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
            let y = inverse(matrices[i], n).map_err(|c| {
                Error::failed(format!("matrix {i} has no inverse: column {c} depends on those before it"))
            })?;
            *done[i].lock().unwrap_or_else(|p| p.into_inner()) = y;
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
    fn rows_are_exchanged_and_a_dependent_column_is_named() {
        assert_eq!(inverse(&[0.0, 2.0, 4.0, 0.0], 2), Ok(vec![0.0, 0.25, 0.5, 0.0]));
        assert_eq!(inverse(&[1.0, 2.0, 2.0, 4.0], 2), Err(1));
        assert_eq!(inverse(&[], 0), Ok(vec![]));
    }
}
