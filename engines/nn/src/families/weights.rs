//! `FusedWeightMatMul(x1, x2, x2_scale, bias?, x3?)`: f32 times 8-bit weights with one scale per
//! column, in panels of sixteen columns.
use crate::families::fused::act_named;
use crate::kernel::{Io, Kernel};
use crate::sig::{Answer, Sig};
use ge_kernels::gemm::weights::{PANEL, WeightProduct};
use ge_kernels::gemm::{Bias, Epilogue};
use ge_kernels::simd::Act;
use ge_kernels::view::Kind;
use ge_plugin_api::Result;
use std::ops::Range;

struct Weights {
    plan: WeightProduct,
    /// Number of elements read and written.
    moved: u64,
    bias: bool,
    residual: bool,
    act: Act,
}

/// The kernel of `FusedWeightMatMul`.
///
/// # Errors
/// Fails with a reason if types or shapes are not supported.
pub fn build(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let (x1, x2, scale, y) = (sig.input(0)?, sig.input(1)?, sig.input(2)?, sig.output(0)?);
    for i in [0, 2, 3, 4] {
        if sig.opt_input(i).is_some() {
            sig.kind_in(i, &[Kind::F32])?;
        }
    }
    sig.kind_in(1, &[Kind::I8])?;
    sig.plain(0)?;
    let Some((&k, lead)) = x1.shape.split_last() else { return Err("input 0 is a scalar".into()) };
    let (m, n) = (lead.iter().product::<usize>(), scale.count());
    if x2.shape != [n.div_ceil(PANEL), k, PANEL] {
        return Err(format!("input 1 is {:?}, it takes {:?}", x2.shape, [n.div_ceil(PANEL), k, PANEL]));
    }
    if y.kind != Some(Kind::F32) || y.shape.split_last() != Some((&n, lead)) {
        return Err(format!("output 0 is {} {:?}, the product {lead:?} by {n}", y.dtype, y.shape));
    }
    match (sig.opt_input(3), sig.opt_input(4)) {
        (Some(b), _) if b.count() != n => return Err(format!("input 3 `bias` is {:?}, it takes [{n}]", b.shape)),
        (_, Some(r)) if r.shape != y.shape => return Err(format!("input 4 is {:?}, output 0 {:?}", r.shape, y.shape)),
        _ => {}
    }
    let act = act_named(sig.text("activation", "none"), sig.attrs.floats("activation_params").unwrap_or(&[]))?;
    Ok(Box::new(Weights {
        plan: WeightProduct::new(m, n, k),
        moved: (x1.count() as u64).saturating_add(x2.count() as u64 / 4).saturating_add(y.count() as u64),
        bias: sig.opt_input(3).is_some(),
        residual: sig.opt_input(4).is_some(),
        act,
    }))
}

impl Kernel for Weights {
    fn units(&self) -> usize {
        self.plan.units()
    }

    fn work(&self) -> u64 {
        self.products() / 16
    }

    fn products(&self) -> u64 {
        self.plan.work()
    }

    fn moved(&self) -> u64 {
        self.moved
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        let given = (io.input::<f32>(0)?, io.input::<i8>(1)?, io.input::<f32>(2)?);
        let bias = if self.bias { Bias::PerColumn(io.input::<f32>(3)?) } else { Bias::None };
        let residual = if self.residual { Some((io.input::<f32>(4)?, 1.0)) } else { None };
        let follow = Epilogue { alpha: 1.0, bias, residual, act: self.act };
        io.output::<f32, ()>(0, |out| {
            self.plan.run(units, given, &follow, out);
            Ok(())
        })
    }
}
