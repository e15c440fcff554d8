//! Images as inputs: plugin kernels (`DecodeImage`, `ResizeImage`) decode and resize them; then
//! they are converted to the input's type and axis order. Integer types get 0 to 255; real types
//! get 0 to 1, minus `--image-mean`, divided by `--image-std`.
use super::kernels::Kernels;
use super::{NamedInputs, Wanted};
use crate::{Diagnostic, Result};
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::{AttrMap, DType};

/// Whether a file is an image, judged by its first bytes.
pub fn is_image(b: &[u8]) -> bool {
    let webp = b.starts_with(b"RIFF") && b.get(8..12) == Some(b"WEBP");
    webp || [&b"\x89PNG"[..], b"\xff\xd8\xff", b"BM", b"GIF8"].iter().any(|m| b.starts_with(m))
}

/// How an input arranges the axes of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    height: Option<u64>,
    width: Option<u64>,
    channels: u64,
    /// Whether the channel axis comes before rows and columns.
    planar: bool,
    rank: usize,
}

impl Layout {
    /// Derives the layout from an input's sizes (open ones are `None`). Returns `None` if no image
    /// fits.
    fn of(dims: &[Option<u64>]) -> Option<Layout> {
        let one = |d: Option<u64>| d.is_none_or(|n| n == 1);
        let colour = |d: Option<u64>| matches!(d, Some(1 | 3));
        let channels = |d: Option<u64>| d.unwrap_or(3);
        let l = |height, width, c: Option<u64>, planar| {
            Some(Layout { height, width, channels: channels(c), planar, rank: dims.len() })
        };
        match *dims {
            [n, c, h, w] if one(n) && colour(c) => l(h, w, c, true),
            [n, h, w, c] if one(n) && colour(c) => l(h, w, c, false),
            [c, h, w] if colour(c) => l(h, w, c, true),
            [h, w, c] if colour(c) => l(h, w, c, false),
            [h, w] => l(h, w, Some(1), false),
            [n, None, h, w] if one(n) => l(h, w, None, true),
            _ => None,
        }
    }
    fn dims(&self, h: u64, w: u64) -> Vec<u64> {
        let c = self.channels;
        match (self.rank, self.planar) {
            (4, true) => vec![1, c, h, w],
            (4, false) => vec![1, h, w, c],
            (3, true) => vec![c, h, w],
            (3, false) => vec![h, w, c],
            _ => vec![h, w],
        }
    }
}

/// Converts an image to the tensor for an input.
///
/// # Errors
/// `usage` if the input cannot take an image; `damaged` if the image cannot be decoded.
pub fn read(kernels: &Kernels<'_>, w: &Wanted<'_>, shown: &str, bytes: &[u8], how: &NamedInputs) -> Result<HostTensor> {
    let usage = |what: String, expected: &str| {
        Diagnostic::error(format!("input `{}` cannot be the image `{shown}`", w.name))
            .subject(w.name)
            .found(what, expected.to_owned())
            .raise(ge_codes::INPUT)
    };
    let file = HostTensor::from_bytes(DType::U8, &[bytes.len() as u64], bytes)?;
    let dims: Vec<Option<u64>> = w.desc.shape.dims().iter().map(|d| d.size()).collect();
    // A model that decodes images itself gets the bytes of the file.
    if w.desc.dtype == DType::U8 && dims.len() == 1 && !w.desc.shape.is_unranked() {
        return Ok(file);
    }
    let Some(layout) = Layout::of(&dims).filter(|_| !w.desc.shape.is_unranked()) else {
        let takes = "one image: [1,3,H,W], [1,H,W,3], [3,H,W], [H,W,3] or [H,W], with 1 or 3 channels";
        return Err(usage(format!("{}{}", w.desc.dtype, w.desc.shape), takes));
    };
    let mut attrs = AttrMap::default();
    attrs.set("pixel_format", if layout.channels == 1 { "Grayscale" } else { "RGB" });
    let mut picture = kernels.run("DecodeImage", &attrs, &[file.view()], DType::U8).map_err(|e| {
        let why = e.message().to_string();
        Diagnostic::error(format!("`{shown}` cannot be decoded: {why}"))
            .at(shown.to_owned(), 0, 0)
            .raise(ge_codes::DAMAGED_FILE)
    })?;
    let &[h, w0, _] = picture.dims.as_slice() else {
        return Err(usage("no picture".into(), "rows, columns, channels"));
    };
    let (height, width) = (layout.height.unwrap_or(h), layout.width.unwrap_or(w0));
    if (height, width) != (h, w0) {
        let mut attrs = AttrMap::default();
        attrs.set("height", height as i64);
        attrs.set("width", width as i64);
        picture = kernels.run("ResizeImage", &attrs, &[picture.view()], DType::U8)?;
    }
    let to = w.desc.dtype;
    let real = !to.is_int() && to != DType::BOOL;
    if !real && (!how.image_mean.is_empty() || !how.image_std.is_empty()) {
        return Err(usage(format!("`--image-mean` or `--image-std` for {to}"), "an input of a real type"));
    }
    if real {
        picture = scaled(kernels, &picture, layout.channels, how)?;
    }
    let t = kernels.cast(&picture, to, &format!("input `{}`", w.name))?;
    order(&t, layout, height, width)
}

/// Scales values from 0..255 to 0..1, subtracts the mean and divides by the deviation.
fn scaled(kernels: &Kernels<'_>, picture: &HostTensor, channels: u64, how: &NamedInputs) -> Result<HostTensor> {
    let list = |v: &[f64], flag: &str, default: f64| -> Result<Vec<f64>> {
        match v.len() as u64 {
            0 => Ok(vec![default; channels as usize]),
            1 => Ok(vec![v[0]; channels as usize]),
            n if n == channels => Ok(v.to_vec()),
            n => Err(Diagnostic::error(format!("`{flag}` has {n} numbers, the image {channels} channels"))
                .raise(ge_codes::INPUT)),
        }
    };
    let (mean, std) = (list(&how.image_mean, "--image-mean", 0.0)?, list(&how.image_std, "--image-std", 1.0)?);
    if std.contains(&0.0) {
        return Err(Diagnostic::error("`--image-std` is 0").raise(ge_codes::INPUT));
    }
    // Computes (v / 255 - mean) / std as one product and one difference in f64, so that it rounds
    // once.
    let row = |f: &dyn Fn(usize) -> f64| -> Result<HostTensor> {
        let bytes: Vec<u8> = (0..channels as usize).flat_map(|c| f(c).to_le_bytes()).collect();
        HostTensor::from_bytes(DType::F64, &[1, 1, channels], &bytes)
    };
    let factor = row(&|c| 1.0 / (255.0 * std[c]))?;
    let shift = row(&|c| mean[c] / std[c])?;
    let none = AttrMap::default();
    let wide = kernels.cast(picture, DType::F64, "the image")?;
    let product = kernels.run("Mul", &none, &[wide.view(), factor.view()], DType::F64)?;
    kernels.run("Sub", &none, &[product.view(), shift.view()], DType::F64)
}

/// Moves rows, columns and channels into the axis order of the input.
fn order(t: &HostTensor, layout: Layout, h: u64, w: u64) -> Result<HostTensor> {
    let dims = layout.dims(h, w);
    if !layout.planar || layout.channels == 1 {
        return HostTensor::from_bytes(t.dtype, &dims, t.bytes());
    }
    let unit = (t.dtype.bits().unwrap_or(8) / 8).max(1) as usize;
    let (places, channels) = ((h * w) as usize, layout.channels as usize);
    let mut bytes = Vec::with_capacity(t.bytes().len());
    for c in 0..channels {
        for p in 0..places {
            let at = (p * channels + c) * unit;
            bytes.extend_from_slice(&t.bytes()[at..at + unit]);
        }
    }
    HostTensor::from_bytes(t.dtype, &dims, &bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_told_by_where_the_channels_stand() {
        let of = |d: &[i64]| Layout::of(&d.iter().map(|n| u64::try_from(*n).ok()).collect::<Vec<_>>());
        let planar = |d: &[i64]| of(d).map(|l| (l.planar, l.channels, l.height, l.width));
        assert_eq!(planar(&[1, 3, 20, 30]), Some((true, 3, Some(20), Some(30))));
        assert_eq!(planar(&[-1, 20, 30, 3]), Some((false, 3, Some(20), Some(30))));
        assert_eq!(planar(&[1, 3, -1, -1]), Some((true, 3, None, None)));
        assert_eq!(planar(&[28, 28]), Some((false, 1, Some(28), Some(28))));
        assert_eq!(planar(&[1, 1, 28, 28]), Some((true, 1, Some(28), Some(28))));
        assert_eq!(of(&[2, 3, 4, 4]), None);
        assert_eq!(of(&[16]), None);
    }
}
