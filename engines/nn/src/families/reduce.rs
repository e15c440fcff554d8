//! `ReduceSum`, `ReduceMean`, `ReduceMax`, `ReduceMin`, `ReduceProd`, `ReduceLogSumExp` with axes
//! as a constant input or an attribute (`...D`), for f32, f16, bf16 in single precision; `ArgMax`
//! and `ArgMin` for these types, i32 and i64.
use crate::kernel::{Io, Kernel};
use crate::sig::{Answer, FLOATS, Sig};
use ge_kernels::reduce::arg::Arg;
use ge_kernels::reduce::{Reduce, Reduction};
use ge_kernels::view::layout::resolve_axis;
use ge_kernels::view::{Elem, Kind};
use ge_kernels::with_kind;
use ge_plugin_api::{Error, Result};
use std::ops::Range;

struct Reduced {
    kind: Kind,
    plan: Reduction,
}

/// The kernel of a planned reduction from input 0 to output 0.
///
/// # Errors
/// Fails with a reason if the output has another size.
pub fn kernel(kind: Kind, plan: Reduction, sig: &Sig) -> Answer<Box<dyn Kernel>> {
    sig.holds_lines(plan.count())?;
    if plan.units() != sig.output(0)?.count() {
        return Err(format!("output 0 is {:?}, the reduction gives {} elements", sig.output(0)?.shape, plan.units()));
    }
    Ok(Box::new(Reduced { kind, plan }))
}

/// The kernel of a reduction.
///
/// # Errors
/// Fails with a reason if types, shapes or axes are not supported.
pub fn build(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let kind = sig.kind_in(0, FLOATS)?;
    let x = sig.input(0)?;
    let op = match sig.op.trim_end_matches('D') {
        "ReduceSum" => Reduce::Sum,
        "ReduceMean" => Reduce::Mean,
        "ReduceMax" => Reduce::Max,
        "ReduceMin" => Reduce::Min,
        "ReduceLogSumExp" => Reduce::LogSumExp,
        _ => Reduce::Prod,
    };
    let given = sig.opt_input(1).is_some() || sig.attrs.ints("axes").is_some();
    let list = if given { sig.ints_or("axes", 1)? } else { Vec::new() };
    let all = || (0..x.rank()).collect();
    let axes: Vec<usize> = match list.is_empty() {
        true if given && sig.attrs.bool("noop_with_empty_axes").unwrap_or(true) => Vec::new(),
        true => all(),
        false => list
            .iter()
            .map(|&a| resolve_axis(a, x.rank()))
            .collect::<std::result::Result<_, _>>()
            .map_err(|e| e.to_string())?,
    };
    kernel(kind, Reduction::new(op, &x.shape, &axes).map_err(|e| e.to_string())?, sig)
}

/// Fixed cost of each result, expressed as a number of elements.
const EACH: u64 = 24;

impl Kernel for Reduced {
    fn units(&self) -> usize {
        self.plan.units()
    }

    fn work(&self) -> u64 {
        (self.plan.units() as u64).saturating_mul((self.plan.count() as u64).saturating_add(EACH))
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        with_kind!(self.kind, [F32, F16, Bf16], T => {
            let x = io.input::<T>(0)?;
            io.output::<T, ()>(0, |out| {
                self.plan.run(units, x, out);
                Ok(())
            })
        }, else Err(Error::internal("type of a reduction")))
    }
}

struct Search {
    kind: Kind,
    wide: bool,
    plan: Arg,
}

/// The kernel of `ArgMax` or `ArgMin`.
///
/// # Errors
/// Fails with a reason if types, shapes or axis are not supported.
pub fn arg(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let kind = sig.kind_in(0, &[Kind::F32, Kind::F16, Kind::Bf16, Kind::I32, Kind::I64])?;
    let x = sig.input(0)?;
    let wide = match sig.output(0)?.kind {
        Some(Kind::I64) => true,
        Some(Kind::I32) => false,
        _ => return Err(format!("output 0 is {}, it gives i32, i64", sig.output(0)?.dtype)),
    };
    let axis = sig.ints_or("dimension", 1)?.first().copied().ok_or("there is no axis")?;
    let axis = resolve_axis(axis, x.rank()).map_err(|e| e.to_string())?;
    let plan = Arg {
        outer: x.shape[..axis].iter().product(),
        len: x.shape[axis],
        inner: x.shape[axis + 1..].iter().product(),
        smallest: sig.op.starts_with("ArgMin"),
        last: sig.attrs.flag("select_last_index"),
    };
    if plan.len == 0 || plan.units() != sig.output(0)?.count() {
        return Err(format!("output 0 is {:?}, the search gives {} elements", sig.output(0)?.shape, plan.units()));
    }
    Ok(Box::new(Search { kind, wide, plan }))
}

impl Search {
    fn index<T: Elem, I: Elem>(&self, units: Range<usize>, io: &Io<'_, '_>, make: impl Fn(usize) -> I) -> Result<()> {
        let x = io.input::<T>(0)?;
        io.output::<I, ()>(0, |out| {
            self.plan.run(units, x, make, out);
            Ok(())
        })
    }
}

impl Kernel for Search {
    fn units(&self) -> usize {
        self.plan.units()
    }

    fn work(&self) -> u64 {
        (self.plan.units() as u64).saturating_mul(self.plan.len as u64)
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        with_kind!(self.kind, [F32, F16, Bf16, I32, I64], T => {
            if self.wide {
                self.index::<T, i64>(units, io, |i| i as i64)
            } else {
                self.index::<T, i32>(units, io, |i| i as i32)
            }
        }, else Err(Error::internal("type of a search")))
    }
}
