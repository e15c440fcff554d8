//! Logical operators: `LogicalAnd`, `LogicalOr`, `LogicalXor` with broadcasting, `LogicalNot`, and
//! `IsNan` of f32, f16, bf16.
use super::elementwise::{broadcast, same_shape};
use crate::kernel::{CHUNK, Io, Kernel, chunk};
use crate::sig::{Answer, FLOATS, Sig};
use ge_kernels::elementwise::{Join, join};
use ge_kernels::simd::isa::PanelElem;
use ge_kernels::view::{Bool, Kind, Nest};
use ge_kernels::with_kind;
use ge_plugin_api::{Error, Result};
use std::ops::Range;

struct Pair {
    join: Join,
    nest: Nest<2>,
}

fn gives_truth(sig: &Sig) -> Answer<()> {
    let y = sig.output(0)?;
    if y.kind == Some(Kind::Bool) { Ok(()) } else { Err(format!("output 0 is {}, it gives bool", y.dtype)) }
}

/// The kernel of a logical operator with two operands.
///
/// # Errors
/// Fails with a reason if types or shapes are not supported.
pub fn pair(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    sig.one_kind(&[Kind::Bool])?;
    let join = match sig.op.as_str() {
        "LogicalAnd" => Join::And,
        "LogicalOr" => Join::Or,
        _ => Join::Xor,
    };
    Ok(Box::new(Pair { join, nest: broadcast(sig)? }))
}

impl Kernel for Pair {
    fn units(&self) -> usize {
        self.nest.len().div_ceil(CHUNK)
    }

    fn work(&self) -> u64 {
        self.nest.len() as u64
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        let (a, b) = (io.input::<Bool>(0)?, io.input::<Bool>(1)?);
        io.output::<Bool, ()>(0, |out| {
            join(self.join, &self.nest, chunk(&units, self.nest.len()), a, b, out);
            Ok(())
        })
    }
}

struct Single {
    kind: Kind,
    n: usize,
}

/// The kernel of `LogicalNot` and of `IsNan`.
///
/// # Errors
/// Fails with a reason if types or shapes are not supported.
pub fn single(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    gives_truth(sig)?;
    let kind = sig.kind_in(0, if sig.op == "IsNan" { FLOATS } else { &[Kind::Bool] })?;
    Ok(Box::new(Single { kind, n: same_shape(sig)? }))
}

impl Kernel for Single {
    fn units(&self) -> usize {
        self.n.div_ceil(CHUNK)
    }

    fn work(&self) -> u64 {
        self.n as u64
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        let part = chunk(&units, self.n);
        if self.kind == Kind::Bool {
            let x = &io.input::<Bool>(0)?[part.clone()];
            return io.output::<Bool, ()>(0, |out| {
                let to = out.part(part.start, part.len());
                to.iter_mut().zip(x).for_each(|(y, x)| *y = Bool::from(!x.get()));
                Ok(())
            });
        }
        with_kind!(self.kind, [F32, F16, Bf16], T => {
            let x = &io.input::<T>(0)?[part.clone()];
            io.output::<Bool, ()>(0, |out| {
                let to = out.part(part.start, part.len());
                to.iter_mut().zip(x).for_each(|(y, x)| *y = Bool::from(PanelElem::wide(*x).is_nan()));
                Ok(())
            })
        }, else Err(Error::internal("type of a test")))
    }
}
