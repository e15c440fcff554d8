//! What decoders give: pixels as a file has them, or why there are none.

/// Largest width and height.
pub const MOST_SIDE: u32 = 1 << 15;
/// Most bytes that a decoder may take.
pub const MOST_BYTES: u64 = 1 << 30;

/// Pixels as a file has them: one number a pixel (grey) or three (red, green, blue), without alpha.
pub struct Decoded {
    /// Rows.
    pub height: u64,
    /// Pixels of a row.
    pub width: u64,
    /// Whether a pixel is one number.
    pub grey: bool,
    /// The numbers.
    pub bytes: Vec<u8>,
}

/// Why a file gives no pixels.
#[derive(Debug)]
pub enum Fault {
    /// It is not what it claims.
    Damaged(String),
    /// It may be sound, in a form that is not read.
    Unsupported(String),
}

impl From<String> for Fault {
    fn from(text: String) -> Fault {
        Fault::Damaged(text)
    }
}

/// Refuses sizes beyond the bounds, before memory is taken for pixels of `channels` bytes.
pub fn bounded(width: u64, height: u64, channels: u64) -> std::result::Result<(), String> {
    let side = u64::from(MOST_SIDE);
    if width > side || height > side {
        return Err(format!("it is {width} by {height} pixels, the most is {side} by {side}"));
    }
    let bytes = width * height * channels;
    if bytes > MOST_BYTES { Err(format!("it takes {bytes} bytes, the most is {MOST_BYTES}")) } else { Ok(()) }
}
