//! `PadV3(x, paddings, constant_values?, axes?) {mode, paddings_contiguous}` and `PadD`, in every
//! mode; negative paddings crop.
use super::layout::{by_width, width};
use crate::kernel::{Io, Kernel};
use crate::sig::{Answer, Sig};
use ge_kernels::layout::pad::{Border, Padding};
use ge_kernels::view::layout::resolve_axis;
use ge_plugin_api::{Error, Result};
use std::ops::Range;

struct Padded {
    width: usize,
    plan: Padding,
    fill: bool,
}

/// The kernel of `PadV3` and `PadD`.
///
/// # Errors
/// Fails with a reason if types, shapes, modes or pads are not supported.
pub fn build(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let width = width(sig)?;
    sig.plain(0)?;
    let (x, y) = (sig.input(0)?, sig.output(0)?);
    let border = match sig.text("mode", "constant") {
        "constant" => Border::Constant,
        "edge" => Border::Edge,
        "reflect" => Border::Reflect,
        "wrap" => Border::Wrap,
        mode => return Err(format!("attribute `mode` is {mode}")),
    };
    let rank = x.rank();
    let axes: Vec<usize> = match sig.opt_input(3) {
        Some(_) => {
            let axes = sig.values(3)?.iter().map(|&a| resolve_axis(a, rank).map_err(|e| e.to_string()));
            axes.collect::<Answer<_>>()?
        }
        None => (0..rank).collect(),
    };
    let list = sig.ints_or("paddings", 1)?;
    if list.len() != 2 * axes.len() || y.rank() != rank {
        return Err(format!("{} paddings for {} axes", list.len(), axes.len()));
    }
    let in_turn = sig.attrs.bool("paddings_contiguous").unwrap_or(true);
    let mut pads = vec![[0; 2]; rank];
    for (i, &d) in axes.iter().enumerate() {
        pads[d] = if in_turn { [list[2 * i], list[2 * i + 1]] } else { [list[i], list[axes.len() + i]] };
    }
    let padded = |(n, [before, after]): (&usize, &[i64; 2])| {
        let to = i64::try_from(*n).ok()?.checked_add(*before)?.checked_add(*after)?;
        Some((*n, isize::try_from(*before).ok()?, usize::try_from(to).ok()?))
    };
    let plan: Option<Vec<_>> = x.shape.iter().zip(&pads).map(padded).collect();
    let plan = plan.ok_or_else(|| format!("paddings {list:?} of {:?}", x.shape))?;
    let gives: Vec<usize> = plan.iter().map(|a| a.2).collect();
    if gives != y.shape {
        return Err(format!("output 0 is {:?}, paddings {list:?} of {:?} give {gives:?}", y.shape, x.shape));
    }
    if border != Border::Constant && x.count() == 0 && y.count() > 0 {
        return Err(format!("input 0 is {:?}, which has no border", x.shape));
    }
    let fill = match sig.opt_input(2) {
        None => false,
        Some(t) if t.count() == 1 && t.kind == x.kind => true,
        Some(t) => return Err(format!("input 2 is {} {:?}, it takes one {}", t.dtype, t.shape, x.dtype)),
    };
    Ok(Box::new(Padded { width, plan: Padding::new(border, &plan), fill }))
}

impl Kernel for Padded {
    /// One unit per row of the output.
    fn units(&self) -> usize {
        if self.plan.width() == 0 { 0 } else { self.plan.rows() }
    }

    fn operations(&self) -> u64 {
        0
    }

    fn work(&self) -> u64 {
        (self.plan.rows() as u64).saturating_mul(self.plan.width() as u64)
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        by_width!(self.width, T => {
            let x = io.input::<T>(0)?;
            let fill = if self.fill { io.input::<T>(2)?[0] } else { T::default() };
            io.output::<T, ()>(0, |out| {
                self.plan.run(units, x, fill, out);
                Ok(())
            })
        })
    }
}
