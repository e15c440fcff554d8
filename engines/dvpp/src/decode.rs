//! Decoding of image files (JPEG, PNG, bitmaps, Netpbm maps, recognised by their first bytes) to
//! interleaved 8-bit pixels. The bytes are not trusted: every defect is an error, and the sizes in
//! a header are checked before memory is allocated.
use crate::picture::{Decoded, Fault, MOST_BYTES, MOST_SIDE, bounded};
use crate::plain::{self, BMP};
use ge_plugin_api::{Diagnostic, Error, ErrorKind, Result};
use std::io::Cursor;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

/// First bytes of a JPEG file.
const JPEG: &[u8] = &[0xff, 0xd8, 0xff];
/// First bytes of a PNG file.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

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
    /// Parses the attribute `pixel_format`.
    ///
    /// # Errors
    /// Returns a message if the name is none of `RGB`, `BGR` and `Grayscale`.
    pub fn parse(name: &str) -> std::result::Result<PixelFormat, String> {
        match name {
            "RGB" => Ok(PixelFormat::Rgb),
            "BGR" => Ok(PixelFormat::Bgr),
            "Grayscale" => Ok(PixelFormat::Gray),
            other => Err(format!("pixel_format is `{other}`, it takes RGB, BGR, Grayscale")),
        }
    }
    /// Number of channels of a pixel.
    pub fn channels(self) -> u64 {
        if self == PixelFormat::Gray { 1 } else { 3 }
    }
}

/// An image: rows from the top, pixels interleaved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pixels {
    /// Number of rows.
    pub height: u64,
    /// Pixels per row.
    pub width: u64,
    /// The `height · width · channels` values.
    pub bytes: Vec<u8>,
}

/// Formats that are recognised but not decoded: first bytes, their offset, and the name.
const OTHERS: &[(&[u8], usize, &str)] = &[
    (b"GIF8", 0, "GIF"),
    (b"II*\0", 0, "TIFF"),
    (b"MM\0*", 0, "TIFF"),
    (b"WEBP", 8, "WebP"),
    (b"\0\0\0\x0cjP  ", 0, "JPEG 2000"),
    (b"\xff\x4f\xff\x51", 0, "JPEG 2000"),
    (b"ftypavif", 4, "AVIF"),
    (b"ftypheic", 4, "HEIF"),
];

/// Decodes an image file.
///
/// # Errors
/// Returns an error of kind `FAILED` if the bytes are not an image, are damaged, or exceed the size
/// limits; of kind `UNSUPPORTED` if they are an image in another format.
pub fn decode(contents: &[u8], format: PixelFormat) -> Result<Pixels> {
    let decoded = if contents.starts_with(JPEG) {
        jpeg(contents).map_err(Fault::from)
    } else if contents.starts_with(PNG) {
        png(contents).map_err(Fault::from)
    } else if contents.starts_with(BMP) {
        plain::bmp(contents)
    } else if plain::is_netpbm(contents) {
        plain::netpbm(contents)
    } else {
        let is = |(magic, at, _): &&(&[u8], usize, &str)| contents.get(*at..).is_some_and(|c| c.starts_with(magic));
        Err(match OTHERS.iter().find(is) {
            Some((.., name)) => Fault::Unsupported(format!("a {name} file")),
            None => Fault::Damaged("it is neither JPEG, PNG, BMP nor PNM".into()),
        })
    };
    let Decoded { height, width, grey, mut bytes } = decoded.map_err(|e| match e {
        Fault::Damaged(why) => Error::failed(format!("input 0 is no readable image: {why}")),
        Fault::Unsupported(what) => {
            Diagnostic::error(format!("input 0 is {what}, which is not decoded: JPEG, PNG, BMP and PNM are"))
                .help("convert the file, for example to PNG, which loses nothing")
                .of(ErrorKind::UNSUPPORTED)
        }
    })?;
    match (format, grey) {
        (PixelFormat::Gray, true) | (PixelFormat::Rgb, false) => {}
        (PixelFormat::Gray, false) => bytes = bytes.chunks_exact(3).map(luma).collect(),
        (PixelFormat::Rgb | PixelFormat::Bgr, true) => bytes = bytes.iter().flat_map(|v| [*v; 3]).collect(),
        (PixelFormat::Bgr, false) => bytes.chunks_exact_mut(3).for_each(|p| p.swap(0, 2)),
    }
    Ok(Pixels { height, width, bytes })
}

fn jpeg(contents: &[u8]) -> std::result::Result<Decoded, String> {
    let said = |e: zune_jpeg::errors::DecodeErrors| e.to_string();
    let side = MOST_SIDE as usize;
    let options = DecoderOptions::default().set_strict_mode(false).set_max_width(side).set_max_height(side);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(contents), options);
    decoder.decode_headers().map_err(said)?;
    let (width, height) = decoder.dimensions().ok_or("it has no size")?;
    let (width, height) = (width as u64, height as u64);
    // The decoder converts other colour spaces (CMYK, YCCK, YCbCr).
    let grey = decoder.input_colorspace() == Some(ColorSpace::Luma);
    let wanted = if grey { ColorSpace::Luma } else { ColorSpace::RGB };
    bounded(width, height, if grey { 1 } else { 3 })?;
    decoder.set_options(options.jpeg_set_out_colorspace(wanted));
    Ok(Decoded { height, width, grey, bytes: decoder.decode().map_err(said)? })
}

fn png(contents: &[u8]) -> std::result::Result<Decoded, String> {
    let said = |e: png::DecodingError| e.to_string();
    let limits = png::Limits { bytes: MOST_BYTES as usize };
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(contents), limits);
    decoder.set_ignore_text_chunk(true);
    // Palettes and pixels of less than a byte are expanded to whole bytes.
    decoder.set_transformations(png::Transformations::EXPAND);
    let header = decoder.read_header_info().map_err(said)?;
    let (width, height) = (u64::from(header.width), u64::from(header.height));
    bounded(width, height, 1)?;
    let mut reader = decoder.read_info().map_err(said)?;
    let (color, depth) = reader.output_color_type();
    let samples = color.samples();
    let sample_bytes = if depth == png::BitDepth::Sixteen { 2 } else { 1 };
    bounded(width, height, (samples * sample_bytes) as u64)?;
    let mut bytes = vec![0; reader.output_buffer_size().ok_or("its size does not fit into memory")?];
    reader.next_frame(&mut bytes).map_err(said)?;
    if sample_bytes == 2 {
        bytes = bytes.chunks_exact(2).map(|s| high_byte(u16::from_be_bytes([s[0], s[1]]))).collect();
    }
    let grey = samples < 3;
    let (kept, of) = (if grey { 1 } else { 3 }, samples);
    if kept < of {
        bytes = bytes.chunks_exact(of).flat_map(|p| p[..kept].iter().copied()).collect();
    }
    Ok(Decoded { height, width, grey, bytes })
}

/// Scales a value of 0 to 65535 to the nearest of 0 to 255.
fn high_byte(v: u16) -> u8 {
    ((u32::from(v) + 128) / 257) as u8
}

/// BT.601 luma in 16-bit fixed point, rounded to nearest.
fn luma(p: &[u8]) -> u8 {
    let v = u32::from(p[0]) * 19_595 + u32::from(p[1]) * 38_470 + u32::from(p[2]) * 7_471;
    ((v + 0x8000) >> 16) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::{Path, PathBuf};

    fn file(name: &str) -> Vec<u8> {
        let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests/pictures", name].iter().collect();
        std::fs::read(path).expect("a file of tests/pictures")
    }

    /// The files and the expected pixels were written by other software (Pillow; the `image`
    /// crate): JPEG with each chroma subsampling, progressive, grey and CMYK; PNG of 1 to 16 bits
    /// with palettes, alpha and interlacing.
    #[test]
    fn every_kind_of_file_gives_the_bytes_that_others_decoded() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pictures");
        let mut seen = 0;
        for entry in std::fs::read_dir(folder).expect("the folder") {
            let name = entry.expect("an entry").file_name().into_string().expect("a name");
            if !name.ends_with(".png") && !name.ends_with(".jpg") {
                continue;
            }
            seen += 1;
            let decoded = |format| {
                let p = decode(&file(&name), format).unwrap_or_else(|e| panic!("{name}: {e}"));
                assert_eq!((p.height, p.width), (13, 17), "{name}");
                p.bytes
            };
            let rgb = decoded(PixelFormat::Rgb);
            assert!(rgb == file(&format!("{name}.rgb")), "{name} in colour");
            assert!(decoded(PixelFormat::Gray) == file(&format!("{name}.gray")), "{name} in grey");
            let swapped: Vec<u8> = rgb.chunks_exact(3).flat_map(|p| [p[2], p[1], p[0]]).collect();
            assert!(decoded(PixelFormat::Bgr) == swapped, "{name} in BGR");
        }
        assert_eq!(seen, 16);
    }

    #[test]
    fn hostile_bytes_are_errors() {
        for name in ["rgb.png", "rgb420.jpg"] {
            let whole = file(name);
            for n in 0..whole.len().min(60) {
                assert!(decode(&whole[..n], PixelFormat::Rgb).is_err(), "{name} cut to {n}");
            }
            let mut state = 7u64;
            for _ in 0..300 {
                let mut b = whole.clone();
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let at = (state >> 33) as usize % b.len();
                b[at] ^= (state >> 20) as u8 | 1;
                // Success and failure are both acceptable; it must not panic or allocate unbounded
                // memory.
                if let Ok(p) = decode(&b, PixelFormat::Rgb) {
                    assert_eq!(p.bytes.len() as u64, p.height * p.width * 3);
                }
            }
        }
        assert!(decode(b"", PixelFormat::Gray).is_err());
        let kind = |b: &[u8]| decode(b, PixelFormat::Gray).expect_err("no image").kind;
        assert_eq!(kind(b"GIF89a, or so it says"), ErrorKind::UNSUPPORTED);
        assert_eq!(kind(b"RIFF\x20\0\0\0WEBPVP8 "), ErrorKind::UNSUPPORTED);
        assert_eq!(kind(b"II*\0\x08\0\0\0"), ErrorKind::UNSUPPORTED);
        assert_eq!(kind(b"nothing of the kind"), ErrorKind::FAILED);
    }

    #[test]
    fn a_header_that_claims_too_much_is_refused() {
        let mut b = file("rgb.png");
        b[16..24].copy_from_slice(&[0x7f, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff]);
        assert!(decode(&b, PixelFormat::Rgb).is_err());
    }
}
