//! `TransData`: converts a tensor between a plain layout (ND, NCHW, NHWC, HWCN) and another plain
//! or a blocked one (NC1HWC0, NC1HWC0_C04, FRACTAL_Z, FRACTAL_NZ). Blocks are padded with zeros.
//! Elements have one, two, four or eight bytes.
use super::layout::{by_width, width};
use crate::kernel::{Io, Kernel};
use crate::sig::{Answer, Sig, Tensor};
use ge_kernels::layout::blocked::{Blocked, Part};
use ge_plugin_api::types::format::{CUBE, c0, transfer_shape};
use ge_plugin_api::types::{DType, Format, Shape};
use ge_plugin_api::{Error, Result};
use std::ops::Range;

struct TransData {
    width: usize,
    plan: Blocked,
    /// Whether the conversion is from plain to blocked.
    packs: bool,
}

/// Minimum number of elements of a unit of work.
const UNIT: usize = 4096;

fn plain(f: Format) -> bool {
    matches!(f, Format::ND | Format::NCHW | Format::NHWC | Format::HWCN)
}

/// The blocked axes of a plain tensor in another format.
fn parts(from: Format, shape: &[usize], to: Format, dtype: DType) -> Option<Vec<Part>> {
    let (cube, c0) = (CUBE as usize, c0(dtype) as usize);
    let whole = |axis: usize| Part { axis, step: 1, size: shape[axis] };
    let outer = |axis: usize, block: usize| Part { axis, step: block, size: shape[axis].div_ceil(block) };
    let inner = |axis: usize, block: usize| Part { axis, step: 1, size: block };
    if to == Format::FRACTAL_NZ {
        let (m, n) = (shape.len().checked_sub(2)?, shape.len() - 1);
        let lead = (0..m).map(whole);
        return Some(lead.chain([outer(n, c0), outer(m, cube), inner(m, cube), inner(n, c0)]).collect());
    }
    let letters = if from == Format::ND { "NCHW" } else { from.name() };
    let at = |letter: char| letters.find(letter).filter(|_| shape.len() == 4);
    let (n, c, h, w) = (at('N')?, at('C')?, at('H')?, at('W')?);
    Some(match to {
        Format::NC1HWC0 => vec![whole(n), outer(c, c0), whole(h), whole(w), inner(c, c0)],
        Format::NC1HWC0_C04 => vec![whole(n), outer(c, 4), whole(h), whole(w), inner(c, 4)],
        Format::FRACTAL_Z => vec![outer(c, c0), whole(h), whole(w), outer(n, cube), inner(n, cube), inner(c, c0)],
        Format::NCHW | Format::NHWC | Format::HWCN => to.name().chars().filter_map(at).map(whole).collect(),
        _ => return None,
    })
}

fn format_of(sig: &Sig, key: &str, t: &Tensor) -> Answer<Format> {
    match sig.attrs.str(key) {
        None => Ok(t.format),
        Some(name) => Format::from_name(name).ok_or_else(|| format!("attribute `{key}` is {name}")),
    }
}

/// The kernel of `TransData`.
///
/// # Errors
/// Fails with a reason if types, formats or shapes are not supported.
pub fn build(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let (x, y) = (sig.input(0)?, sig.output(0)?);
    let (from, to) = (format_of(sig, "src_format", x)?, format_of(sig, "dst_format", y)?);
    if sig.int("groups", 1) != 1 {
        return Err(format!("attribute `groups` is {}, it takes 1", sig.int("groups", 1)));
    }
    let packs = plain(from);
    let ((own, shape), (other, blocked)) = match (packs, plain(to)) {
        (true, _) => ((from, &x.shape), (to, &y.shape)),
        (false, true) => ((to, &y.shape), (from, &x.shape)),
        (false, false) => return Err(format!("from {from} to {to}: one of the two must be plain")),
    };
    let sizes = |s: &[usize]| Shape::new(s.iter().map(|&d| ge_plugin_api::types::Dim::known(d as u64)));
    let want = transfer_shape(own, &sizes(shape), other, x.dtype);
    let parts = parts(own, shape, other, x.dtype).filter(|_| want == Some(sizes(blocked)));
    let parts = parts.ok_or_else(|| format!("{from} {:?} is not {to} {:?}", x.shape, y.shape))?;
    let plan = Blocked::new(shape, &parts).ok_or("sizes overflow")?;
    Ok(Box::new(TransData { width: width(sig)?, plan, packs }))
}

impl TransData {
    /// Number of rows, and number of rows per unit.
    fn rows(&self) -> (usize, usize) {
        let rows = if self.packs { self.plan.packed_rows() } else { self.plan.plain_rows() };
        (rows, (UNIT * rows / self.plan.len().max(1)).max(1))
    }
}

impl Kernel for TransData {
    fn units(&self) -> usize {
        let (rows, each) = self.rows();
        rows.div_ceil(each)
    }

    fn operations(&self) -> u64 {
        0
    }

    fn work(&self) -> u64 {
        self.plan.len() as u64
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        let (rows, each) = self.rows();
        let part = units.start * each..(units.end * each).min(rows);
        by_width!(self.width, T => {
            let x = io.input::<T>(0)?;
            io.output::<T, ()>(0, |out| {
                match self.packs {
                    true => self.plan.pack(part, x, out),
                    false => self.plan.unpack(part, x, out),
                }
                Ok(())
            })
        })
    }
}
