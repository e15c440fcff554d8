//! Tensor formats: aligned shapes, shape transfer and axis mapping, as pure functions for the host
//! and the engines. Source: facts 6, 2.1; the layouts are those of the public CANN documentation.
use crate::open_code;
use crate::types::{DType, Dim, Shape};

open_code! {
    /// A tensor format.
    pub struct Format: u8 {
        /// Any layout, row major.
        ND = 0 "ND",
        /// Batch, channel, height, width.
        NCHW = 1 "NCHW",
        /// Batch, height, width, channel.
        NHWC = 2 "NHWC",
        /// Filters: height, width, input channel, output channel.
        HWCN = 3 "HWCN",
        /// Batch, depth, channel, height, width.
        NCDHW = 4 "NCDHW",
        /// Batch, depth, height, width, channel.
        NDHWC = 5 "NDHWC",
        /// 3-D filters: depth, height, width, input channel, output channel.
        DHWCN = 6 "DHWCN",
        /// Channels in groups of C0, with the group innermost.
        NC1HWC0 = 7 "NC1HWC0",
        /// Filters for the cube unit: C1·H·W, N1, N0, C0.
        FRACTAL_Z = 8 "FRACTAL_Z",
        /// Matrices for the cube unit: …, N1, M1, M0, N0.
        FRACTAL_NZ = 9 "FRACTAL_NZ",
        /// Batch, depth, C1, height, width, C0.
        NDC1HWC0 = 10 "NDC1HWC0",
        /// 3-D filters for the cube unit.
        FRACTAL_Z_3D = 11 "FRACTAL_Z_3D",
        /// NC1HWC0 with channels in groups of four.
        NC1HWC0_C04 = 12 "NC1HWC0_C04",
        /// Batch, channel, width (1-D convolutions).
        NCL = 13 "NCL",
    }
}
impl Default for Format {
    fn default() -> Self {
        Format::ND
    }
}

/// Cube size of the matrix unit along M and N.
pub const CUBE: u64 = 16;

/// Number of elements in C0 for an element type: one row of the cube unit, 32 bytes. That is 64 for
/// 4-bit types, 32 for i8, 16 for f16, 8 for f32 (as CANN does for NC1HWC0 of f32) and 4 for 64-bit
/// types; every other type gets 16.
pub const fn c0(dtype: DType) -> u64 {
    match dtype.bits() {
        Some(4) => 64,
        Some(8) => 32,
        Some(32) => 8,
        Some(64) => 4,
        _ => 16,
    }
}

/// Whether a format only orders the axes of the original shape; the others divide them into blocks.
pub fn is_plain(format: Format) -> bool {
    format == Format::ND || channel_axis(format).is_some()
}

/// Position of the channel axis of a plain format (the input channel of filters); `None` for other
/// formats.
pub fn channel_axis(format: Format) -> Option<usize> {
    Some(match format {
        Format::NCHW | Format::NCL => 1,
        Format::NHWC => 3,
        Format::HWCN => 2,
        Format::NCDHW => 1,
        Format::NDHWC => 4,
        Format::DHWCN => 3,
        _ => return None,
    })
}

fn div_up(d: Dim, by: u64) -> Dim {
    match d.size() {
        Some(v) => Dim::known(v.div_ceil(by)),
        None => Dim::UNKNOWN,
    }
}
fn mul(a: Dim, b: Dim) -> Dim {
    match (a.size(), b.size()) {
        (Some(x), Some(y)) => x.checked_mul(y).map_or(Dim::UNKNOWN, Dim::known),
        _ => Dim::UNKNOWN,
    }
}

/// The sizes N, C, H, W of a four-dimensional shape in a plain format; ND is read as NCHW.
pub fn nchw(format: Format, shape: &Shape) -> Option<[Dim; 4]> {
    let d = shape.dims();
    if d.len() != 4 {
        return None;
    }
    Some(match format {
        Format::NCHW | Format::ND => [d[0], d[1], d[2], d[3]],
        Format::NHWC => [d[0], d[3], d[1], d[2]],
        Format::HWCN => [d[3], d[2], d[0], d[1]],
        _ => return None,
    })
}

/// The run-time shape that an original shape has in another format; `None` if that conversion is
/// not defined.
pub fn transfer_shape(origin: Format, shape: &Shape, to: Format, dtype: DType) -> Option<Shape> {
    if origin == to || to == Format::ND {
        return Some(shape.clone());
    }
    let c0v = Dim::known(c0(dtype));
    match to {
        Format::NC1HWC0 => {
            let [n, c, h, w] = nchw(origin, shape)?;
            Some(Shape::new([n, div_up(c, c0(dtype)), h, w, c0v]))
        }
        Format::NC1HWC0_C04 => {
            let [n, c, h, w] = nchw(origin, shape)?;
            Some(Shape::new([n, div_up(c, 4), h, w, Dim::known(4)]))
        }
        Format::FRACTAL_Z => {
            let [n, c, h, w] = nchw(origin, shape)?;
            Some(Shape::new([mul(mul(div_up(c, c0(dtype)), h), w), div_up(n, CUBE), Dim::known(CUBE), c0v]))
        }
        Format::FRACTAL_NZ => {
            let d = shape.dims();
            if d.len() < 2 {
                return None;
            }
            let (m, n) = (d[d.len() - 2], d[d.len() - 1]);
            let mut out: Vec<Dim> = d[..d.len() - 2].to_vec();
            out.extend([div_up(n, c0(dtype)), div_up(m, CUBE), Dim::known(CUBE), c0v]);
            Some(Shape::new(out))
        }
        Format::NCHW | Format::NHWC | Format::HWCN => {
            let [n, c, h, w] = nchw(origin, shape)?;
            Some(Shape::new(match to {
                Format::NCHW => [n, c, h, w],
                Format::NHWC => [n, h, w, c],
                _ => [h, w, c, n],
            }))
        }
        _ => None,
    }
}

/// The unit to which a run-time format pads each original axis, one number per axis. An axis is
/// stored without padding if its length is a multiple of its unit (facts 6, CheckDim:
/// `dim % aligned == 0`). `None` if the conversion is not defined.
pub fn axis_alignment(origin: Format, rank: usize, to: Format, dtype: DType) -> Option<Vec<u64>> {
    let mut unit = vec![1u64; rank];
    match to {
        Format::NC1HWC0 | Format::NC1HWC0_C04 => {
            let c = if origin == Format::ND { 1 } else { channel_axis(origin)? };
            *unit.get_mut(c)? = if to == Format::NC1HWC0 { c0(dtype) } else { 4 };
        }
        Format::FRACTAL_Z => {
            let (n, c) = match origin {
                Format::NCHW | Format::ND => (0, 1),
                Format::NHWC => (0, 3),
                Format::HWCN => (3, 2),
                _ => return None,
            };
            *unit.get_mut(n)? = CUBE;
            *unit.get_mut(c)? = c0(dtype);
        }
        Format::FRACTAL_NZ => {
            if rank < 2 {
                return None;
            }
            unit[rank - 2] = CUBE;
            unit[rank - 1] = c0(dtype);
        }
        _ => {}
    }
    Some(unit)
}

/// The run-time axes that an original axis maps to, outermost first; `None` if the conversion is
/// not defined or the axis is out of range.
pub fn axis_mapping(origin: Format, rank: usize, axis: usize, to: Format) -> Option<Vec<usize>> {
    if axis >= rank {
        return None;
    }
    if origin == to
        || to == Format::ND
        || (origin == Format::ND && matches!(to, Format::NCHW | Format::NHWC | Format::HWCN))
    {
        return Some(vec![axis]);
    }
    // The letter of the original axis; only for four-dimensional formats.
    let letter = |axis: usize| -> Option<char> {
        let s = match origin {
            Format::NCHW | Format::ND => "NCHW",
            Format::NHWC => "NHWC",
            Format::HWCN => "HWCN",
            _ => return None,
        };
        if rank == 4 { s.chars().nth(axis) } else { None }
    };
    match to {
        Format::NC1HWC0 | Format::NC1HWC0_C04 => Some(match letter(axis)? {
            'N' => vec![0],
            'C' => vec![1, 4],
            'H' => vec![2],
            _ => vec![3],
        }),
        Format::FRACTAL_Z => Some(match letter(axis)? {
            'N' => vec![1, 2],
            'C' => vec![0, 3],
            _ => vec![0],
        }),
        Format::FRACTAL_NZ => {
            if rank < 2 {
                return None;
            }
            Some(if axis + 2 == rank {
                vec![rank - 1, rank]
            } else if axis + 1 == rank {
                vec![rank - 2, rank + 1]
            } else {
                vec![axis]
            })
        }
        Format::NCHW | Format::NHWC | Format::HWCN => {
            let l = letter(axis)?;
            let s = match to {
                Format::NCHW => "NCHW",
                Format::NHWC => "NHWC",
                _ => "HWCN",
            };
            s.find(l).map(|p| vec![p])
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn five_d_and_fractal_shapes() {
        let s = Shape::of(&[2, 33, 7, 5]);
        assert_eq!(transfer_shape(Format::NCHW, &s, Format::NC1HWC0, DType::F16), Some(Shape::of(&[2, 3, 7, 5, 16])));
        assert_eq!(
            transfer_shape(Format::NHWC, &Shape::of(&[2, 7, 5, 33]), Format::NC1HWC0, DType::F16),
            Some(Shape::of(&[2, 3, 7, 5, 16]))
        );
        assert_eq!(transfer_shape(Format::NCHW, &s, Format::FRACTAL_Z, DType::F16), Some(Shape::of(&[105, 1, 16, 16])));
        assert_eq!(
            transfer_shape(Format::ND, &Shape::of(&[3, 40, 20]), Format::FRACTAL_NZ, DType::F16),
            Some(Shape::of(&[3, 2, 3, 16, 16]))
        );
        assert_eq!(axis_mapping(Format::NCHW, 4, 1, Format::NC1HWC0), Some(vec![1, 4]));
        assert_eq!(axis_mapping(Format::ND, 3, 2, Format::FRACTAL_NZ), Some(vec![1, 4]));
        assert_eq!(axis_alignment(Format::NCHW, 4, Format::NC1HWC0, DType::F16), Some(vec![1, 16, 1, 1]));
    }
}
