//! `FusedWeightMatMul(x1, x2, x2_scale, bias?, x3?, x2_offset?)`: real numbers times weights of
//! eight or four bits, in panels of sixteen columns. Each column has one scale and one offset, or
//! one for each `group_size` rows.
use crate::families::fused::act_named;
use crate::kernel::{Io, Kernel};
use crate::sig::{Answer, Sig};
use ge_kernels::gemm::weights::{Bits, PANEL, WeightProduct, Weights};
use ge_kernels::gemm::{Bias, Epilogue};
use ge_kernels::simd::Act;
use ge_kernels::simd::isa::PanelElem;
use ge_kernels::view::{Kind, as_bytes};
use ge_kernels::with_kind;
use ge_plugin_api::{Error, Result};
use std::ops::Range;

const BIAS: usize = 3;
const RESIDUAL: usize = 4;
const OFFSET: usize = 5;

struct Product {
    plan: WeightProduct,
    kind: Kind,
    bits: Bits,
    /// Number of elements read and written.
    moved: u64,
    bias: bool,
    residual: bool,
    offset: bool,
    act: Act,
}

/// The kernel of `FusedWeightMatMul`.
///
/// # Errors
/// Fails with a reason if types or shapes are not supported.
pub fn build(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let (x1, x2, scale, y) = (sig.input(0)?, sig.input(1)?, sig.input(2)?, sig.output(0)?);
    let kind = sig.kind_in(0, &[Kind::F32, Kind::F16, Kind::Bf16])?;
    for (i, allowed) in [(BIAS, kind), (RESIDUAL, kind), (2, Kind::F32), (OFFSET, Kind::F32)] {
        if sig.opt_input(i).is_some() {
            sig.kind_in(i, &[allowed])?;
        }
    }
    let bits = if sig.kind_in(1, &[Kind::I8, Kind::U8])? == Kind::I8 { Bits::Eight } else { Bits::Four };
    sig.plain(0)?;
    let Some((&k, lead)) = x1.shape.split_last() else { return Err("input 0 is a scalar".into()) };
    let (m, n) = (lead.iter().product::<usize>(), scale.shape.last().copied().unwrap_or(0));
    let panels = [n.div_ceil(PANEL), bits.lines(k), PANEL];
    if x2.shape != panels {
        return Err(format!("input 1 is {:?}, it takes {panels:?}", x2.shape));
    }
    let group = sig.int("group_size", 0);
    let group = usize::try_from(group).map_err(|_| format!("attribute `group_size` is {group}"))?;
    let plan = WeightProduct::new([m, n, k], group, bits);
    let plan = plan.ok_or_else(|| format!("groups of {group} rows of four bits begin within a byte"))?;
    let grouped = [plan.groups(), n];
    for (i, t) in [(2, Some(scale)), (OFFSET, sig.opt_input(OFFSET))] {
        if let Some(t) = t.filter(|t| t.shape != grouped && (plan.groups() > 1 || t.shape != [n])) {
            return Err(format!("input {i} is {:?}, it takes {grouped:?}", t.shape));
        }
    }
    if y.kind != Some(kind) || y.shape.split_last() != Some((&n, lead)) {
        return Err(format!("output 0 is {} {:?}, the product {lead:?} by {n}", y.dtype, y.shape));
    }
    match (sig.opt_input(BIAS), sig.opt_input(RESIDUAL)) {
        (Some(b), _) if b.count() != n => return Err(format!("input 3 `bias` is {:?}, it takes [{n}]", b.shape)),
        (_, Some(r)) if r.shape != y.shape => return Err(format!("input 4 is {:?}, output 0 {:?}", r.shape, y.shape)),
        _ => {}
    }
    let act = act_named(sig.text("activation", "none"), sig.attrs.floats("activation_params").unwrap_or(&[]))?;
    Ok(Box::new(Product {
        plan,
        kind,
        bits,
        moved: (x1.count() as u64).saturating_add(x2.count() as u64 / 4).saturating_add(y.count() as u64),
        bias: sig.opt_input(BIAS).is_some(),
        residual: sig.opt_input(RESIDUAL).is_some(),
        offset: sig.opt_input(OFFSET).is_some(),
        act,
    }))
}

impl Product {
    fn run_in<T: PanelElem>(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        let panels = match self.bits {
            Bits::Eight => as_bytes(io.input::<i8>(1)?),
            Bits::Four => io.input::<u8>(1)?,
        };
        let offset = if self.offset { Some(io.input::<f32>(OFFSET)?) } else { None };
        let weights = Weights { panels, scale: io.input::<f32>(2)?, offset };
        let bias = if self.bias { Bias::PerColumn(io.input::<T>(BIAS)?) } else { Bias::None };
        let residual = if self.residual { Some((io.input::<T>(RESIDUAL)?, 1.0)) } else { None };
        let follow = Epilogue { alpha: 1.0, bias, residual, act: self.act };
        let x1 = io.input::<T>(0)?;
        io.output::<T, ()>(0, |out| {
            self.plan.run(units, x1, &weights, &follow, out);
            Ok(())
        })
    }
}

impl Kernel for Product {
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
        let unknown = || Err(Error::internal("type of a product by weights"));
        with_kind!(self.kind, [F32, F16, Bf16], T => self.run_in::<T>(units, io), else unknown())
    }
}
