//! The result of a decoder: pixels as stored in a file, or the reason why there are none.

/// Largest allowed width and height in pixels.
pub const MOST_SIDE: u32 = 1 << 15;
/// Largest number of bytes that a decoder may allocate.
pub const MOST_BYTES: u64 = 1 << 30;

/// Pixels as stored in a file: one value per pixel (grey) or three (red, green, blue), without
/// alpha.
pub struct Decoded {
    /// Number of rows.
    pub height: u64,
    /// Pixels per row.
    pub width: u64,
    /// Whether a pixel has a single value.
    pub grey: bool,
    /// The values of all pixels.
    pub bytes: Vec<u8>,
}

/// Why a file cannot be decoded.
#[derive(Debug)]
pub enum Fault {
    /// The file is damaged or not of the format that it claims to be.
    Damaged(String),
    /// The file may be valid, but its format is not supported.
    Unsupported(String),
}

impl From<String> for Fault {
    fn from(text: String) -> Fault {
        Fault::Damaged(text)
    }
}

/// Fails if sizes exceed the limits. It is called before memory is allocated for pixels of
/// `channels` bytes.
pub fn bounded(width: u64, height: u64, channels: u64) -> std::result::Result<(), String> {
    let side = u64::from(MOST_SIDE);
    if width > side || height > side {
        return Err(format!("it is {width} by {height} pixels, the most is {side} by {side}"));
    }
    let bytes = width * height * channels;
    if bytes > MOST_BYTES { Err(format!("it takes {bytes} bytes, the most is {MOST_BYTES}")) } else { Ok(()) }
}
