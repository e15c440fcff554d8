//! `Fill(dims, value)`: a tensor filled with one value.
use super::layout::by_width;
use crate::kernel::{CHUNK, Io, Kernel, chunk};
use crate::sig::{Answer, Sig};
use ge_plugin_api::{Error, Result};
use std::ops::Range;

struct Fill {
    width: usize,
    n: usize,
}

/// The kernel of `Fill`.
///
/// # Errors
/// Fails with a reason if types are not supported.
pub fn build(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let (value, y) = (sig.input(1)?, sig.output(0)?);
    let kind = value.kind.ok_or_else(|| format!("input 1 is {}", value.dtype))?;
    if value.count() != 1 || y.kind != Some(kind) {
        return Err(format!("input 1 is {} {:?}, output 0 {}", value.dtype, value.shape, y.dtype));
    }
    Ok(Box::new(Fill { width: kind.size(), n: y.count() }))
}

impl Kernel for Fill {
    fn units(&self) -> usize {
        self.n.div_ceil(CHUNK)
    }

    fn operations(&self) -> u64 {
        0
    }

    fn work(&self) -> u64 {
        self.n as u64
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        let part = chunk(&units, self.n);
        by_width!(self.width, T => {
            let value = io.input::<T>(1)?[0];
            io.output::<T, ()>(0, |out| {
                out.part(part.start, part.len()).fill(value);
                Ok(())
            })
        })
    }
}
