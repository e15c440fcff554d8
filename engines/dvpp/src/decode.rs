//! Image files (JPEG, PNG, told by their first bytes) to interleaved 8-bit pixels. Bytes come from anywhere: every fault in
//! them is an error, and what a header claims is bounded before memory is taken.
use ge_plugin_api::{Error, Result};
use image::{DynamicImage, ImageReader, Limits};
use std::io::Cursor;

/// Largest width and height.
pub const MOST_SIDE: u32 = 1 << 15;
/// Most bytes that a decoder may take.
const MOST_BYTES: u64 = 1 << 30;

/// Order of an image's channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PixelFormat {
    /// Red, green, blue.
    Rgb,
    /// Blue, green, red.
    Bgr,
    /// Luma by ITU-R BT.601.
    Gray,
}

impl PixelFormat {
    /// From the attribute `pixel_format`.
    ///
    /// # Errors
    /// In words, where it is none of the three.
    pub fn parse(name: &str) -> std::result::Result<PixelFormat, String> {
        match name {
            "RGB" => Ok(PixelFormat::Rgb),
            "BGR" => Ok(PixelFormat::Bgr),
            "Grayscale" => Ok(PixelFormat::Gray),
            other => Err(format!("pixel_format is `{other}`, it takes RGB, BGR, Grayscale")),
        }
    }
    /// Numbers of a pixel.
    pub fn channels(self) -> u64 {
        if self == PixelFormat::Gray { 1 } else { 3 }
    }
}

/// An image: rows from the top, pixels interleaved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pixels {
    /// Rows.
    pub height: u64,
    /// Pixels of a row.
    pub width: u64,
    /// `height · width · channels` numbers.
    pub bytes: Vec<u8>,
}

/// Decodes an image file.
///
/// # Errors
/// `failed` where the bytes are no image that it knows, are damaged, or claim more than the bounds.
pub fn decode(contents: &[u8], format: PixelFormat) -> Result<Pixels> {
    let bad = |e: String| Error::failed(format!("input 0 is no readable image: {e}"));
    let mut reader = ImageReader::new(Cursor::new(contents)).with_guessed_format().map_err(|e| bad(e.to_string()))?;
    if reader.format().is_none() {
        return Err(bad("it is neither JPEG nor PNG".into()));
    }
    let mut limits = Limits::default();
    limits.max_image_width = Some(MOST_SIDE);
    limits.max_image_height = Some(MOST_SIDE);
    limits.max_alloc = Some(MOST_BYTES);
    reader.limits(limits);
    let image = reader.decode().map_err(|e| bad(e.to_string()))?;
    let (width, height) = (u64::from(image.width()), u64::from(image.height()));
    let bytes = match (format, image) {
        (PixelFormat::Gray, DynamicImage::ImageLuma8(g)) => g.into_raw(),
        (PixelFormat::Gray, other) => other.into_rgb8().as_raw().chunks_exact(3).map(luma).collect(),
        (PixelFormat::Rgb, other) => other.into_rgb8().into_raw(),
        (PixelFormat::Bgr, other) => {
            let mut b = other.into_rgb8().into_raw();
            b.chunks_exact_mut(3).for_each(|p| p.swap(0, 2));
            b
        }
    };
    Ok(Pixels { height, width, bytes })
}

/// BT.601 luma in 16-bit fixed point, rounded to nearest.
fn luma(p: &[u8]) -> u8 {
    let v = u32::from(p[0]) * 19_595 + u32::from(p[1]) * 38_470 + u32::from(p[2]) * 7_471;
    ((v + 0x8000) >> 16) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use image::{ImageFormat, RgbImage};

    fn picture() -> RgbImage {
        RgbImage::from_fn(5, 3, |x, y| image::Rgb([x as u8 * 50, y as u8 * 100, 255 - x as u8]))
    }
    fn file(format: ImageFormat) -> Vec<u8> {
        let mut b = Cursor::new(Vec::new());
        picture().write_to(&mut b, format).expect("encodes");
        b.into_inner()
    }

    #[test]
    fn png_comes_back_in_every_pixel_format() {
        let rgb = decode(&file(ImageFormat::Png), PixelFormat::Rgb).expect("decodes");
        assert_eq!((rgb.height, rgb.width), (3, 5));
        assert_eq!(rgb.bytes, *picture().as_raw());
        let bgr = decode(&file(ImageFormat::Png), PixelFormat::Bgr).expect("decodes");
        assert_eq!(bgr.bytes[..3], [rgb.bytes[2], rgb.bytes[1], rgb.bytes[0]]);
        let gray = decode(&file(ImageFormat::Png), PixelFormat::Gray).expect("decodes");
        // Pixel (4, 2) is (200, 200, 251): 0.299·200 + 0.587·200 + 0.114·251 = 205.8.
        assert_eq!(gray.bytes.last(), Some(&206));
    }

    #[test]
    fn jpeg_is_near() {
        let p = decode(&file(ImageFormat::Jpeg), PixelFormat::Rgb).expect("decodes");
        assert_eq!((p.height, p.width, p.bytes.len()), (3, 5, 45));
    }

    #[test]
    fn hostile_bytes_are_errors() {
        for format in [ImageFormat::Png, ImageFormat::Jpeg] {
            let whole = file(format);
            for n in 0..whole.len().min(60) {
                assert!(decode(&whole[..n], PixelFormat::Rgb).is_err(), "{format:?} cut to {n}");
            }
            let mut state = 7u64;
            for _ in 0..300 {
                let mut b = whole.clone();
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let at = (state >> 33) as usize % b.len();
                b[at] ^= (state >> 20) as u8 | 1;
                // Either answer is right; it must not panic or take memory without bound.
                if let Ok(p) = decode(&b, PixelFormat::Rgb) {
                    assert_eq!(p.bytes.len() as u64, p.height * p.width * 3);
                }
            }
        }
        assert!(decode(b"", PixelFormat::Gray).is_err());
        assert!(decode(b"GIF89a, or so it says", PixelFormat::Gray).is_err());
    }

    #[test]
    fn a_header_that_claims_too_much_is_refused() {
        let mut b = file(ImageFormat::Png);
        b[16..24].copy_from_slice(&[0x7f, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff]);
        assert!(decode(&b, PixelFormat::Rgb).is_err());
    }
}
