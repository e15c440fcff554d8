//! The values of kernel functions between rows and support vectors: one product of the two matrices
//! in single precision, followed by a map of its numbers. The product, the exponential, the power
//! and the hyperbolic tangent are those of `ge-kernels`, the same on every instruction set.
use crate::rows::Block;
use crate::sums::distances;
use ge_kernels::gemm::{BMatrix, Epilogue, Gemm, Matrix};
use ge_kernels::scratch::with_scratch;
use ge_kernels::simd::{math, power};
use ge_kernels::view::Out;
use ge_plugin_api::kernel::KernelCtx;
use ge_plugin_api::{Error, Result};

/// The kernel function.
#[derive(Clone, Copy)]
enum Kernel {
    Linear,
    Poly { gamma: f32, coef0: f32, degree: f32 },
    Rbf { gamma: f32 },
    Sigmoid { gamma: f32, coef0: f32 },
}

/// Degrees up to this one are computed by multiplications.
const FEW: f32 = 4.0;

/// Support vectors with their kernel function.
pub struct Vectors {
    table: Vec<f32>,
    count: usize,
    kernel: Kernel,
}

impl Vectors {
    /// The `count` vectors of `table`, with the kernel function of the node's attributes. The
    /// standard has both in single precision.
    pub fn of(ctx: &KernelCtx<'_>, table: &[f64], count: usize) -> Vectors {
        let p = ctx.attrs.floats("params").unwrap_or_default();
        let at = |i: usize| p.get(i).copied().unwrap_or(0.0) as f32;
        let (gamma, coef0, degree) = (at(0), at(1), at(2));
        let kernel = match ctx.attrs.str("kernel").unwrap_or("LINEAR") {
            "POLY" => Kernel::Poly { gamma, coef0, degree },
            "SIGMOID" => Kernel::Sigmoid { gamma, coef0 },
            "RBF" => Kernel::Rbf { gamma },
            _ => Kernel::Linear,
        };
        Vectors { table: table.iter().map(|v| *v as f32).collect(), count, kernel }
    }

    /// Number of rows to compute together, so that their values stay in the second-level cache.
    pub fn rows(&self) -> usize {
        const VALUES: usize = 1 << 16;
        (VALUES / self.count.max(1)).clamp(8, 256)
    }

    /// Calls `f` with the values of all rows: one line of `count` numbers for each.
    ///
    /// # Errors
    /// Fails if the vectors have another number of features than the rows, and if `f` fails.
    pub fn values(&self, rows: &Block<'_, f32>, f: impl FnOnce(&[f32]) -> Result<()>) -> Result<()> {
        with_scratch(rows.count * self.count, |values| {
            if let Kernel::Rbf { gamma } = self.kernel {
                distances(rows.values, &self.table, rows.width, values);
                gauss(values, gamma);
                return f(values);
            }
            let (a, b) = (Matrix::rows(rows.width), BMatrix::Plain(Matrix::transposed(rows.width)));
            let plan = Gemm::new([rows.count, self.count, rows.width], a, b, vec![[0, 0]]);
            let done = plan.and_then(|plan| {
                let mut out = Out::new(values);
                plan.run(0..plan.units(), rows.values, &self.table, &Epilogue::default(), &mut out)
            });
            done.map_err(|e| Error::failed(e.to_string()))?;
            match self.kernel {
                Kernel::Poly { gamma, coef0, degree } if degree.fract() == 0.0 && (1.0..=FEW).contains(&degree) => {
                    whole_power(values, gamma, coef0, degree as u32);
                }
                Kernel::Poly { gamma, coef0, degree } => any_power(values, gamma, coef0, degree),
                Kernel::Sigmoid { gamma, coef0 } => tanh(values, gamma, coef0),
                Kernel::Rbf { .. } | Kernel::Linear => {}
            }
            f(values)
        })
    }
}

ge_kernels::multiversion! {
    fn gauss(values: &mut [f32], gamma: f32) {
        for v in values.iter_mut() {
            *v = math::exp(-gamma * *v);
        }
    }
}
ge_kernels::multiversion! {
    fn whole_power(values: &mut [f32], gamma: f32, coef0: f32, degree: u32) {
        for v in values.iter_mut() {
            let base = gamma.mul_add(*v, coef0);
            let square = base * base;
            *v = match degree {
                1 => base,
                2 => square,
                3 => square * base,
                _ => square * square,
            };
        }
    }
}
ge_kernels::multiversion! {
    fn any_power(values: &mut [f32], gamma: f32, coef0: f32, degree: f32) {
        for v in values.iter_mut() {
            *v = power::pow(gamma.mul_add(*v, coef0), degree);
        }
    }
}
ge_kernels::multiversion! {
    fn tanh(values: &mut [f32], gamma: f32, coef0: f32) {
        for v in values.iter_mut() {
            *v = math::tanh(gamma.mul_add(*v, coef0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_the_definitions() {
        // 29 rows and 21 vectors of 7 features.
        let number = |i: usize| ((i * 37 % 101) as f32 - 50.0) / 64.0;
        let x: Vec<f32> = (0..29 * 7).map(number).collect();
        let table: Vec<f32> = (0..21 * 7).map(|i| number(i + 13)).collect();
        let (g, c) = (0.5f32, 0.25f32);
        let wide = f64::from;
        let kernels: [(Kernel, &dyn Fn(f64, f64) -> f64); 6] = [
            (Kernel::Linear, &|dot, _| dot),
            (Kernel::Poly { gamma: g, coef0: c, degree: 3.0 }, &|dot, _| (0.5 * dot + 0.25).powi(3)),
            (Kernel::Poly { gamma: g, coef0: c, degree: 4.0 }, &|dot, _| (0.5 * dot + 0.25).powi(4)),
            (Kernel::Poly { gamma: g, coef0: 9.0, degree: 2.5 }, &|dot, _| (0.5 * dot + 9.0).powf(2.5)),
            (Kernel::Rbf { gamma: g }, &|_, far| (-0.5 * far).exp()),
            (Kernel::Sigmoid { gamma: g, coef0: c }, &|dot, _| (0.5 * dot + 0.25).tanh()),
        ];
        for (kernel, of) in kernels {
            let vectors = Vectors { table: table.clone(), count: 21, kernel };
            let rows = Block { values: &x[..], count: 29, width: 7 };
            let checked = vectors.values(&rows, |values| {
                for (at, v) in values.iter().enumerate() {
                    let pairs = x[at / 21 * 7..][..7].iter().zip(&table[at % 21 * 7..][..7]);
                    let dot: f64 = pairs.clone().map(|(a, b)| wide(*a) * wide(*b)).sum();
                    let far: f64 = pairs.map(|(a, b)| (wide(*a) - wide(*b)).powi(2)).sum();
                    let want = of(dot, far);
                    assert!((wide(*v) - want).abs() <= 2e-6 * want.abs().max(1.0), "{at}: {v}, {want}");
                }
                Ok(())
            });
            assert!(checked.is_ok());
        }
    }
}
