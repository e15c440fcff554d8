//! Moving of elements of any width: sources as arrays of bytes, where packed types are expanded to
//! one byte per element, and the copy through a layout, which serves to transpose, slice, tile and
//! broadcast.
use crate::args::{Arg, bad, filled, out_bytes, view_error};
use crate::par;
use ge_kernels::layout::take_apart;
use ge_kernels::view::{Layout, Nest};
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;
use std::borrow::Cow;

/// Evaluates an expression with a constant bound to a width of 1, 2, 4, 8 or 16 bytes.
macro_rules! with_width {
    ($width:expr, $n:ident => $body:expr) => {
        match $width {
            1 => {
                const $n: usize = 1;
                $body
            }
            2 => {
                const $n: usize = 2;
                $body
            }
            4 => {
                const $n: usize = 4;
                $body
            }
            8 => {
                const $n: usize = 8;
                $body
            }
            _ => {
                const $n: usize = 16;
                $body
            }
        }
    };
}
pub(crate) use with_width;

/// Expands elements of `bits` bits (4 or 2, the first in the low bits) to one byte each.
pub fn unpack(bytes: &[u8], bits: usize, count: usize) -> Result<Vec<u8>> {
    let per = 8 / bits;
    let mut v = filled(count, 0u8)?;
    for (i, o) in v.iter_mut().enumerate() {
        *o = (bytes[i / per] >> (i % per * bits)) & ((1 << bits) - 1);
    }
    Ok(v)
}

/// The inverse of [`unpack`]; unused bits are zero.
pub fn pack(codes: &[u8], bits: usize, bytes: &mut [u8]) {
    let per = 8 / bits;
    for (o, c) in bytes.iter_mut().zip(codes.chunks(per)) {
        *o = c.iter().enumerate().fold(0, |b, (i, &v)| b | (v << (i * bits)));
    }
}

/// An input's elements as arrays of bytes.
pub struct Source<'a> {
    bytes: Cow<'a, [u8]>,
    /// Number of bits of one element.
    pub bits: usize,
    /// Number of bytes of one element here: at least one.
    pub width: usize,
}

impl<'a> Source<'a> {
    /// The elements of an input.
    pub fn of(a: &'a Arg<'_>) -> Result<Source<'a>> {
        let bits = a.dtype.bits().and_then(|b| usize::try_from(b).ok()).unwrap_or(0);
        let bytes = match bits {
            0 => return a.refused(),
            1..8 => Cow::Owned(unpack(a.bytes(), bits, a.len)?),
            _ => Cow::Borrowed(a.bytes()),
        };
        Ok(Source { bytes, bits, width: bits.div_ceil(8) })
    }
    /// Elements of whole bytes in an owned buffer.
    pub fn owned(bytes: Vec<u8>, width: usize) -> Source<'static> {
        Source { bytes: Cow::Owned(bytes), bits: width * 8, width }
    }
    /// The elements as arrays of `N` bytes; `N` must be the width.
    pub fn items<const N: usize>(&self) -> &[[u8; N]] {
        self.bytes.as_chunks::<N>().0
    }
    /// The bytes, unpacked.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Lets `write` fill output `i` as unpacked bytes (whole bytes per element), then packs them if the
/// type is packed.
pub fn write_moved(
    ctx: &mut KernelCtx<'_>,
    i: usize,
    shape: &[usize],
    bits: usize,
    write: impl FnOnce(&mut [u8]) -> Result<()>,
) -> Result<()> {
    let has = ctx.output_dtype(i).and_then(|d| d.bits()).unwrap_or(0);
    if has != bits as u64 {
        return Err(bad(
            format!("type of output {i}"),
            ctx.output_dtype(i).unwrap_or_default(),
            format!("a type of {bits} bits"),
        ));
    }
    if bits >= 8 {
        return write(out_bytes(ctx, i, shape)?);
    }
    let mut codes = filled(crate::args::count(shape)?, 0u8)?;
    write(&mut codes)?;
    pack(&codes, bits, out_bytes(ctx, i, shape)?);
    Ok(())
}

/// Writes to output `i`, row-major, the elements that a layout selects from a source.
pub fn copy_through(
    ctx: &mut KernelCtx<'_>,
    i: usize,
    shape: &[usize],
    src: &Source<'_>,
    layout: &Layout,
) -> Result<()> {
    layout.check(src.bytes.len() / src.width).map_err(view_error)?;
    let nest = Nest::new(layout.shape(), [layout]);
    write_moved(ctx, i, shape, src.bits, |bytes| {
        with_width!(src.width, N => {
            let from = src.items::<N>();
            par::chunks(bytes.as_chunks_mut::<N>().0, par::GRAIN, |start, part| {
                let mut at = 0;
                if let ([step @ 2..=4], 16..) = (nest.run_strides(), nest.run()) {
                    nest.each_run_in(start..start + part.len(), |[p], n, _| {
                        take_apart(&from[p as usize..], step as usize, &mut part[at..at + n]);
                        at += n;
                    });
                    return Ok(());
                }
                nest.each_run_in(start..start + part.len(), |[p], n, [s]| {
                    let o = &mut part[at..at + n];
                    at += n;
                    match s {
                        1 => o.copy_from_slice(&from[p as usize..p as usize + n]),
                        0 => o.fill(from[p as usize]),
                        _ => o.iter_mut().enumerate().for_each(|(i, o)| *o = from[(p + i as isize * s) as usize]),
                    }
                });
                Ok(())
            })
        })
    })
}

/// Copies input `x` through a layout to output 0.
pub fn copy_input(ctx: &mut KernelCtx<'_>, x: &Arg<'_>, layout: &Layout) -> Result<()> {
    copy_through(ctx, 0, layout.shape(), &Source::of(x)?, layout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_elements_stand_low_bits_first() {
        assert_eq!(unpack(&[0x21, 0x03], 4, 3).unwrap(), [1, 2, 3]);
        let mut b = [0u8; 2];
        pack(&[1, 2, 3], 4, &mut b);
        assert_eq!(b, [0x21, 0x03]);
        pack(&[1, 2, 3, 0, 1], 2, &mut b);
        assert_eq!(b, [0b0011_1001, 1]);
        assert_eq!(unpack(&b, 2, 5).unwrap(), [1, 2, 3, 0, 1]);
    }
}
