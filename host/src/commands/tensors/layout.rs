//! Converts a tensor that a kernel keeps in a blocked layout back to the layout of the source
//! model.
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::format::nchw;
use ge_plugin_api::types::{Format, TensorDesc};

/// The value in its original format. It is returned unchanged if it is in that format already, or
/// if the conversion cannot be reversed here.
pub fn plain(desc: &TensorDesc, t: HostTensor) -> HostTensor {
    let (to, shape) = (desc.origin_format(), desc.origin_shape());
    let (Some(dims), Some(bits)) = (shape.sizes(), t.dtype.bits()) else { return t };
    if desc.format == to || bits % 8 != 0 {
        return t;
    }
    let from: Vec<usize> = t.dims.iter().map(|d| *d as usize).collect();
    let unit = (bits / 8) as usize;
    let places: Option<Vec<usize>> = match (desc.format, from.as_slice()) {
        (Format::NC1HWC0 | Format::NC1HWC0_C04, &[_, c1, h, w, c0]) => nchw(to, shape).and_then(|sizes| {
            let [n, c, height, width] = sizes.map(|d| d.size().unwrap_or(0) as usize);
            let at = |n: usize, c: usize, y: usize, x: usize| (((n * c1 + c / c0) * h + y) * w + x) * c0 + c % c0;
            let fits = c <= c1 * c0 && height == h && width == w;
            let order = |axes: [usize; 4], pick: &dyn Fn([usize; 4]) -> usize| -> Vec<usize> {
                let mut out = Vec::with_capacity(axes.iter().product());
                for a in 0..axes[0] {
                    for b in 0..axes[1] {
                        for c in 0..axes[2] {
                            out.extend((0..axes[3]).map(|d| pick([a, b, c, d])));
                        }
                    }
                }
                out
            };
            match to {
                _ if !fits => None,
                Format::NHWC => Some(order([n, height, width, c], &|[n, y, x, c]| at(n, c, y, x))),
                Format::NCHW | Format::ND => Some(order([n, c, height, width], &|[n, c, y, x]| at(n, c, y, x))),
                _ => None,
            }
        }),
        (Format::FRACTAL_NZ, &[.., n1, m1, m0, n0]) if dims.len() >= 2 => {
            let (rows, columns) = (dims[dims.len() - 2] as usize, dims[dims.len() - 1] as usize);
            let batch: usize = dims[..dims.len() - 2].iter().map(|d| *d as usize).product();
            let one = |b: usize, m: usize, n: usize| (((b * n1 + n / n0) * m1 + m / m0) * m0 + m % m0) * n0 + n % n0;
            let places = (0..batch).flat_map(|b| (0..rows).flat_map(move |m| (0..columns).map(move |n| (b, m, n))));
            Some(places.map(|(b, m, n)| one(b, m, n)).collect()).filter(|_| rows <= m1 * m0 && columns <= n1 * n0)
        }
        _ => None,
    };
    let Some(places) = places else { return t };
    let mut bytes = Vec::with_capacity(places.len() * unit);
    for at in places {
        match t.bytes().get(at * unit..(at + 1) * unit) {
            Some(b) => bytes.extend_from_slice(b),
            None => return t,
        }
    }
    HostTensor::from_bytes(t.dtype, &dims, &bytes).unwrap_or(t)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ge_plugin_api::types::{DType, Shape};

    fn tensor(dims: &[u64]) -> HostTensor {
        let count: u64 = dims.iter().product();
        let bytes: Vec<u8> = (0..count).flat_map(|i| (i as u16).to_le_bytes()).collect();
        HostTensor::from_bytes(DType::U16, dims, &bytes).expect("fits")
    }
    fn desc(format: Format, dims: &[u64], origin: (Format, &[u64])) -> TensorDesc {
        let mut d = TensorDesc::new(DType::U16, Shape::of(dims));
        d.format = format;
        d.origin = Some(ge_plugin_api::types::Origin { format: origin.0, shape: Shape::of(origin.1) }).into();
        d
    }
    fn words(t: &HostTensor) -> Vec<u16> {
        t.bytes().chunks(2).map(|b| u16::from_le_bytes([b[0], b[1]])).collect()
    }

    #[test]
    fn blocks_of_channels_come_back_in_order() {
        // Two channels in one block of four: channel c of position p is at p * 4 + c.
        let d = desc(Format::NC1HWC0, &[1, 1, 1, 3, 4], (Format::NCHW, &[1, 2, 1, 3]));
        assert_eq!(words(&plain(&d, tensor(&[1, 1, 1, 3, 4]))), [0, 4, 8, 1, 5, 9]);
        let d = desc(Format::NC1HWC0, &[1, 1, 1, 3, 4], (Format::NHWC, &[1, 1, 3, 2]));
        assert_eq!(words(&plain(&d, tensor(&[1, 1, 1, 3, 4]))), [0, 1, 4, 5, 8, 9]);
    }
    #[test]
    fn fractals_come_back_as_rows() {
        let d = desc(Format::FRACTAL_NZ, &[2, 1, 2, 2], (Format::ND, &[2, 3]));
        assert_eq!(words(&plain(&d, tensor(&[2, 1, 2, 2]))), [0, 1, 4, 2, 3, 6]);
    }
    #[test]
    fn what_has_no_inverse_here_stays() {
        let d = desc(Format::FRACTAL_Z, &[1, 1, 2, 2], (Format::NCHW, &[1, 1, 1, 1]));
        assert_eq!(plain(&d, tensor(&[1, 1, 2, 2])).dims.as_slice(), [1, 1, 2, 2]);
    }
}
