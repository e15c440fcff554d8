//! `.npz` files: ZIP archives of `.npy` files, stored or deflated, read through the central
//! directory.
use crate::npy::NpyError;
use std::io::Read;

fn bad(what: impl Into<String>) -> NpyError {
    NpyError { what: what.into(), damaged: true }
}

fn u16_at(b: &[u8], at: usize) -> Option<usize> {
    Some(usize::from(u16::from_le_bytes(b.get(at..at.checked_add(2)?)?.try_into().ok()?)))
}

fn u32_at(b: &[u8], at: usize) -> Option<usize> {
    Some(u32::from_le_bytes(b.get(at..at.checked_add(4)?)?.try_into().ok()?) as usize)
}

/// An archive: the names and bytes of its arrays.
#[derive(Debug)]
pub struct Npz(Vec<(String, Vec<u8>)>);

/// Whether the bytes begin like a ZIP archive.
pub fn is_npz(bytes: &[u8]) -> bool {
    bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"PK\x05\x06")
}

impl Npz {
    /// Reads an archive.
    ///
    /// # Errors
    /// Fails if the bytes are no archive, are damaged, or use a method other than stored or
    /// deflated.
    pub fn read(bytes: &[u8]) -> Result<Npz, NpyError> {
        let tail = bytes.len().saturating_sub(66_000);
        let end = bytes[tail..]
            .windows(4)
            .rposition(|w| w == b"PK\x05\x06")
            .ok_or_else(|| bad("no .npz file: its directory of entries is missing"))?
            + tail;
        let cut = || bad("the directory of entries is cut off");
        // The end record has 22 bytes, followed by a comment.
        let note = u16_at(bytes, end + 20).ok_or_else(cut)?;
        if bytes.len() < end + 22 + note {
            return Err(cut());
        }
        let count = u16_at(bytes, end + 10).ok_or_else(cut)?;
        let mut at = u32_at(bytes, end + 16).ok_or_else(cut)?;
        let mut out = Vec::new();
        for _ in 0..count {
            if bytes.get(at..).is_none_or(|b| !b.starts_with(b"PK\x01\x02")) {
                return Err(cut());
            }
            let number = |k: usize| u16_at(bytes, at + k).ok_or_else(cut);
            let (method, name, extra, comment) = (number(10)?, number(28)?, number(30)?, number(32)?);
            let wide = |k: usize| u32_at(bytes, at + k).ok_or_else(cut);
            let (sum, packed, size, local) = (wide(16)?, wide(20)?, wide(24)?, wide(42)?);
            let text = bytes.get(at + 46..at + 46 + name).ok_or_else(cut)?;
            let text = String::from_utf8_lossy(text).into_owned();
            let data =
                entry(bytes, local, packed, size, method).map_err(|e| bad(format!("entry `{text}`: {}", e.what)))?;
            if crc(&data) != sum {
                return Err(bad(format!("entry `{text}`: its bytes do not have the checksum (CRC-32) of the file")));
            }
            out.push((text.strip_suffix(".npy").map_or(text.clone(), str::to_owned), data));
            at += 46 + name + extra + comment;
        }
        Ok(Npz(out))
    }

    /// The `.npy` bytes of the array `name`.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, b)| b.as_slice())
    }

    /// Names of the arrays, in file order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(n, _)| n.as_str())
    }
}

/// The CRC-32 of bytes.
fn crc(bytes: &[u8]) -> usize {
    let mut sum = flate2::Crc::new();
    sum.update(bytes);
    sum.sum() as usize
}

fn entry(bytes: &[u8], local: usize, packed: usize, size: usize, method: usize) -> Result<Vec<u8>, NpyError> {
    let cut = || bad("cut off");
    // For sizes of 4 GiB or more NumPy writes an extra field and sets this one to 0xffffffff.
    if packed == u32::MAX as usize || size == u32::MAX as usize {
        return Err(bad("4 GiB or more; save it as .npy"));
    }
    let (name, extra) = (u16_at(bytes, local + 26).ok_or_else(cut)?, u16_at(bytes, local + 28).ok_or_else(cut)?);
    let begin = local + 30 + name + extra;
    let data = bytes.get(begin..begin + packed).ok_or_else(cut)?;
    match method {
        0 => Ok(data.to_vec()),
        8 => {
            // The file's size field is not trusted: memory grows with the data, up to that size.
            let mut out = Vec::new();
            let mut from = flate2::read::DeflateDecoder::new(data).take(size as u64 + 1);
            from.read_to_end(&mut out).map_err(|e| bad(format!("cannot be unpacked: {e}")))?;
            if out.len() == size { Ok(out) } else { Err(bad(format!("has not the {size} bytes that it claims"))) }
        }
        m => Err(bad(format!("packed by method {m}, there are 0 (stored) and 8 (deflated)"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// An archive of one entry, as `numpy.savez` (stored) or `savez_compressed` (deflated) writes
    /// it.
    fn archive(name: &str, data: &[u8], deflate: bool) -> Vec<u8> {
        let packed = if deflate {
            let mut e = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
            e.write_all(data).expect("packed");
            e.finish().expect("packed")
        } else {
            data.to_vec()
        };
        let method = if deflate { 8u16 } else { 0 };
        let sizes = [(packed.len() as u32).to_le_bytes(), (data.len() as u32).to_le_bytes()].concat();
        let sum = (crc(data) as u32).to_le_bytes();
        let lens = [(name.len() as u16).to_le_bytes(), [0, 0]].concat();
        let head = [method.to_le_bytes().as_slice(), &[0; 4], &sum, &sizes, &lens].concat();
        let mut out = [b"PK\x03\x04\x14\0\0\0".as_slice(), &head].concat();
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(&packed);
        let directory = out.len() as u32;
        out.extend([b"PK\x01\x02\x14\0\x14\0\0\0".as_slice(), &head].concat());
        out.extend_from_slice(&[0; 14]);
        out.extend_from_slice(name.as_bytes());
        let length = out.len() as u32 - directory;
        out.extend(
            [b"PK\x05\x06\0\0\0\0\x01\0\x01\0".as_slice(), &length.to_le_bytes(), &directory.to_le_bytes()].concat(),
        );
        out.extend_from_slice(&[0, 0]);
        out
    }

    #[test]
    fn entries_are_read_stored_or_deflated() {
        let data: Vec<u8> = (0..5000u32).map(|i| (i / 7) as u8).collect();
        for deflate in [false, true] {
            let z = Npz::read(&archive("conv1_0.npy", &data, deflate)).expect("an archive");
            assert_eq!(z.names().collect::<Vec<_>>(), ["conv1_0"]);
            assert_eq!(z.get("conv1_0"), Some(data.as_slice()));
            assert_eq!(z.get("conv1_1"), None);
        }
    }

    #[test]
    fn damage_is_an_error() {
        for deflate in [false, true] {
            let good = archive("x.npy", &[7; 300], deflate);
            for n in 0..good.len() {
                assert!(Npz::read(&good[..n]).is_err(), "cut to {n}");
            }
            for bit in 0..good.len() * 8 {
                let mut b = good.clone();
                b[bit / 8] ^= 1 << (bit % 8);
                if let Ok(z) = Npz::read(&b) {
                    assert!(z.names().count() <= 1);
                    assert!(z.names().all(|n| z.get(n) == Some(&[7; 300])), "bit {bit} changes the array");
                }
            }
        }
    }
}
