//! Uncompressed image files: Windows bitmaps (8, 24 and 32 bits per pixel) and Netpbm grey and
//! colour maps, as text and as bytes. Other variants of the two formats are reported as
//! unsupported.
use crate::picture::{Decoded, Fault, bounded};

/// First bytes of a bitmap.
pub const BMP: &[u8] = b"BM";

type Result<T> = std::result::Result<T, Fault>;

fn short() -> Fault {
    Fault::Damaged("it ends before its pixels do".into())
}

fn u16_at(b: &[u8], at: usize) -> Result<u16> {
    let two = b.get(at..at + 2).ok_or_else(short)?;
    Ok(u16::from_le_bytes([two[0], two[1]]))
}

fn u32_at(b: &[u8], at: usize) -> Result<u32> {
    Ok(u32::from(u16_at(b, at)?) | u32::from(u16_at(b, at + 2)?) << 16)
}

/// An empty buffer for `n` bytes.
fn room(n: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(n).map_err(|_| Fault::Unsupported(format!("{n} bytes, which no memory holds")))?;
    Ok(bytes)
}

/// Decodes a bitmap. Rows are stored from the bottom, or from the top if the height is negative,
/// and each is padded to a multiple of 4 bytes.
pub fn bmp(b: &[u8]) -> Result<Decoded> {
    let (pixels, header) = (u32_at(b, 10)? as usize, u32_at(b, 14)? as usize);
    if header < 40 {
        return Err(Fault::Unsupported(format!("a bitmap whose header has {header} bytes")));
    }
    let (width, height) = (u32_at(b, 18)? as i32, u32_at(b, 22)? as i32);
    let (depth, compression) = (u16_at(b, 28)?, u32_at(b, 30)?);
    // Compression 3: masks tell where the colours are. Only the usual masks are accepted, which
    // mean the same order as without masks.
    let usual =
        || -> Result<bool> { Ok([u32_at(b, 54)?, u32_at(b, 58)?, u32_at(b, 62)?] == [0xff_0000, 0xff00, 0xff]) };
    if !matches!(depth, 8 | 24 | 32) || !(compression == 0 || (compression == 3 && depth == 32 && usual()?)) {
        return Err(Fault::Unsupported(format!("a bitmap of {depth} bits a pixel, compression {compression}")));
    }
    let (rows, from_top) = (height.unsigned_abs(), height < 0);
    let width = u32::try_from(width)
        .ok()
        .filter(|w| *w > 0)
        .ok_or_else(|| Fault::Damaged("its width is negative or 0".into()))?;
    bounded(u64::from(width), u64::from(rows), 3)?;
    let (width, rows, each) = (width as usize, rows as usize, usize::from(depth / 8));
    let stride = (width * each).next_multiple_of(4);
    let used = match u32_at(b, 46)? {
        0 => 256,
        n => n.min(256) as usize,
    };
    let palette = if depth == 8 { b.get(14 + header..14 + header + used * 4).ok_or_else(short)? } else { &[] };
    // All rows must be in the file before their memory is taken. The padding of the last one may
    // be missing.
    let before_last = stride.saturating_mul(rows.saturating_sub(1));
    let end = pixels.saturating_add(before_last).saturating_add(width * each);
    if rows > 0 && end > b.len() {
        return Err(short());
    }
    let mut bytes = room(width * rows * 3)?;
    for y in 0..rows {
        let row = if from_top { y } else { rows - 1 - y };
        let from = row.checked_mul(stride).and_then(|r| r.checked_add(pixels)).ok_or_else(short)?;
        let line = b.get(from..from.saturating_add(width * each)).ok_or_else(short)?;
        for p in line.chunks_exact(each) {
            let bgr = if each == 1 {
                let at = usize::from(p[0]) * 4;
                palette
                    .get(at..at + 3)
                    .ok_or_else(|| Fault::Damaged("a pixel has a colour beyond the palette".into()))?
            } else {
                &p[..3]
            };
            bytes.extend([bgr[2], bgr[1], bgr[0]]);
        }
    }
    Ok(Decoded { height: rows as u64, width: width as u64, grey: false, bytes })
}

/// Whether a file is in a Netpbm format.
pub fn is_netpbm(b: &[u8]) -> bool {
    matches!(b, [b'P', b'1'..=b'7', c, ..] if c.is_ascii_whitespace())
}

/// The next number after white space and comments, and the position where it ends.
fn number(b: &[u8], mut at: usize) -> Result<(u32, usize)> {
    loop {
        match b.get(at) {
            Some(b'#') => at += b[at..].iter().position(|c| *c == b'\n').unwrap_or(b.len() - at),
            Some(c) if c.is_ascii_whitespace() => at += 1,
            Some(c) if c.is_ascii_digit() => break,
            Some(_) => return Err(Fault::Damaged("a number is no number".into())),
            None => return Err(short()),
        }
    }
    let mut n = 0u32;
    while let Some(c) = b.get(at).filter(|c| c.is_ascii_digit()) {
        let next = n.checked_mul(10).and_then(|n| n.checked_add(u32::from(c - b'0')));
        n = next.ok_or_else(|| Fault::Damaged("a number is too large".into()))?;
        at += 1;
    }
    Ok((n, at))
}

/// Decodes a Netpbm map: P2 and P3 as text, P5 and P6 as bytes, with samples of up to 16 bits.
pub fn netpbm(b: &[u8]) -> Result<Decoded> {
    let (grey, text) = match b.get(1) {
        Some(b'2') => (true, true),
        Some(b'3') => (false, true),
        Some(b'5') => (true, false),
        Some(b'6') => (false, false),
        _ => return Err(Fault::Unsupported("a bitmap of one bit a pixel, or an arbitrary map, of Netpbm".into())),
    };
    let (width, at) = number(b, 2)?;
    let (height, at) = number(b, at)?;
    let (most, mut at) = number(b, at)?;
    if !(1..=0xffff).contains(&most) {
        return Err(Fault::Damaged(format!("its largest value is {most}")));
    }
    bounded(u64::from(width), u64::from(height), if grey { 1 } else { 3 })?;
    let count = width as usize * height as usize * if grey { 1 } else { 3 };
    let scaled = |v: u32| if most == 255 { v.min(255) as u8 } else { ((v.min(most) * 255 + most / 2) / most) as u8 };
    let mut bytes = Vec::new();
    if text {
        for _ in 0..count {
            let (v, end) = number(b, at)?;
            bytes.push(scaled(v));
            at = end;
        }
    } else {
        let wide = if most > 255 { 2 } else { 1 };
        let from = at + 1;
        let samples = b.get(from..from.saturating_add(count * wide)).ok_or_else(short)?;
        bytes.extend(samples.chunks_exact(wide).map(|s| scaled(s.iter().fold(0, |a, v| a << 8 | u32::from(*v)))));
    }
    Ok(Decoded { height: u64::from(height), width: u64::from(width), grey, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(e: Fault) -> (bool, String) {
        match e {
            Fault::Damaged(t) => (false, t),
            Fault::Unsupported(t) => (true, t),
        }
    }

    /// A bitmap of 3 by 2 pixels.
    fn bitmap(depth: u16, height: i32, rows: &[&[u8]], palette: &[u8]) -> Vec<u8> {
        let mut b = b"BM".to_vec();
        b.extend([0; 8]);
        b.extend((54 + palette.len() as u32).to_le_bytes());
        b.extend(40u32.to_le_bytes());
        b.extend(3i32.to_le_bytes());
        b.extend(height.to_le_bytes());
        b.extend(1u16.to_le_bytes());
        b.extend(depth.to_le_bytes());
        b.extend([0; 16]);
        b.extend((palette.len() as u32 / 4).to_le_bytes());
        b.extend([0; 4]);
        b.extend(palette);
        rows.iter().for_each(|r| b.extend(*r));
        b
    }

    #[test]
    fn bitmaps_of_each_depth_from_both_ends() {
        let rows: [&[u8]; 2] = [&[1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0, 0], &[11, 12, 13, 14, 15, 16, 17, 18, 19, 0, 0, 0]];
        let (low, high) = ([3u8, 2, 1, 6, 5, 4, 9, 8, 7], [13u8, 12, 11, 16, 15, 14, 19, 18, 17]);
        let d = bmp(&bitmap(24, 2, &rows, &[])).expect("24 bits");
        assert_eq!((d.height, d.width, d.bytes), (2, 3, [high, low].concat()));
        assert_eq!(bmp(&bitmap(24, -2, &rows, &[])).expect("from the top").bytes, [low, high].concat());
        let wide: Vec<Vec<u8>> =
            rows.iter().map(|r| r[..9].chunks(3).flat_map(|p| [p[0], p[1], p[2], 255]).collect()).collect();
        let wide: Vec<&[u8]> = wide.iter().map(Vec::as_slice).collect();
        assert_eq!(bmp(&bitmap(32, 2, &wide, &[])).expect("32 bits").bytes, [high, low].concat());
        let palette = [1, 2, 3, 0, 9, 8, 7, 0];
        let d = bmp(&bitmap(8, 2, &[&[0, 1, 0, 0], &[1, 1, 0, 0]], &palette)).expect("8 bits");
        assert_eq!(d.bytes, [7, 8, 9, 7, 8, 9, 3, 2, 1, 3, 2, 1, 7, 8, 9, 3, 2, 1]);
        let beyond = bmp(&bitmap(8, 2, &[&[0, 2, 0, 0], &[1, 1, 0, 0]], &palette));
        assert!(!told(beyond.err().expect("no colour")).0);
        let whole = bitmap(24, 2, &rows, &[]);
        for n in 0..whole.len() - 3 {
            assert!(!told(bmp(&whole[..n]).err().expect("cut")).0, "cut to {n}");
        }
        assert!(told(bmp(&bitmap(16, 2, &rows, &[])).err().expect("16 bits")).0);
        // More rows than the file has, and more than any memory holds.
        assert!(!told(bmp(&bitmap(24, 3, &rows, &[])).err().expect("a row too many")).0);
        assert!(told(room(usize::MAX).expect_err("no memory")).0);
    }

    #[test]
    fn maps_as_text_and_as_bytes() {
        let d = netpbm(b"P6 2 1 255\n\x01\x02\x03\x04\x05\x06").expect("colour");
        assert_eq!((d.height, d.width, d.grey, d.bytes), (1, 2, false, vec![1, 2, 3, 4, 5, 6]));
        let d = netpbm(b"P5\n# said by someone\n1 2\n# and more\n255\n\x07\x08").expect("grey");
        assert_eq!((d.height, d.width, d.grey, d.bytes), (2, 1, true, vec![7, 8]));
        assert_eq!(netpbm(b"P3\n1 1 15\n0 15 8\n").expect("text").bytes, [0, 255, 136]);
        assert_eq!(netpbm(b"P5 1 1 65535 \xff\xff").expect("16 bits").bytes, [255]);
        assert_eq!(netpbm(b"P2 2 1 255 3 300").expect("text").bytes, [3, 255]);
        for bad in [&b"P6 2 1 255\n\x01"[..], b"P5 2", b"P5 x", b"P5 1 1 0 \x00", b"P5 99999999999 1 255 \x00"] {
            assert!(!told(netpbm(bad).err().expect("bad")).0);
        }
        assert!(told(netpbm(b"P4 8 1\n\xff").err().expect("bits")).0);
        assert!(is_netpbm(b"P6\n") && !is_netpbm(b"P9\n") && !is_netpbm(b"PNG"));
    }
}
