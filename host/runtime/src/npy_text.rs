//! Strings in `.npy` files: NumPy's `U` has a fixed number of UTF-32 characters per element, `S` a
//! fixed number of bytes. Zeros at the end of an element are padding.
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::{DType, bytes_of_strings, strings_in};

/// Storage of an array's strings in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Text {
    /// `true`: UTF-32 characters; `false`: bytes.
    wide: bool,
    big_endian: bool,
    /// Characters or bytes per element.
    len: usize,
}

impl Text {
    /// Parses the type in a header; `None` if it is not a string type.
    pub(crate) fn of(descr: &str) -> Option<Text> {
        let (order, rest) = descr.split_at_checked(1)?;
        let (kind, len) = rest.split_at_checked(1)?;
        let wide = match (order, kind) {
            ("<" | ">" | "=", "U") => true,
            ("|" | "<" | ">" | "=", "S") => false,
            _ => return None,
        };
        Some(Text { wide, big_endian: order == ">", len: len.parse().ok()? })
    }
    /// Bytes per element in the file.
    pub(crate) fn unit(self) -> u64 {
        (self.len as u64).saturating_mul(if self.wide { 4 } else { 1 })
    }

    /// Reads the strings in a file's data.
    ///
    /// # Errors
    /// Fails if the data is too short or contains an invalid character, or if there is too much of
    /// it. Strings without room for a character are refused, because a file of a few bytes could
    /// claim any number of them.
    pub(crate) fn read(self, dims: &[u64], count: u64, data: &[u8]) -> Result<HostTensor, String> {
        if self.len == 0 && count > 0 {
            return Err(format!(
                "it claims {count} strings and has room for no character; save them as `x.astype(\"U1\")`"
            ));
        }
        let mut texts: Vec<Vec<u8>> = Vec::new();
        let unit = usize::try_from(self.unit()).map_err(|_| "the strings are too long")?;
        let count = usize::try_from(count).map_err(|_| "there are too many strings")?;
        for k in 0..count {
            let one = data.get(k * unit..(k + 1) * unit).ok_or("truncated in a string")?;
            texts.push(if self.wide { self.letters(one)? } else { until_zeros(one).to_vec() });
        }
        tensor(dims, &texts)
    }

    fn letters(self, bytes: &[u8]) -> Result<Vec<u8>, String> {
        let number = |b: &[u8; 4]| if self.big_endian { u32::from_be_bytes(*b) } else { u32::from_le_bytes(*b) };
        let (letters, _) = bytes.as_chunks::<4>();
        let used = letters.iter().rposition(|b| number(b) != 0).map_or(0, |k| k + 1);
        let letter = |b: &[u8; 4]| char::from_u32(number(b)).ok_or_else(|| format!("{:#x} is no letter", number(b)));
        let text: String = letters[..used].iter().map(letter).collect::<Result<_, _>>()?;
        Ok(text.into_bytes())
    }
}

fn until_zeros(bytes: &[u8]) -> &[u8] {
    let used = bytes.iter().rposition(|b| *b != 0).map_or(0, |k| k + 1);
    &bytes[..used]
}

/// Makes a tensor of strings.
fn tensor(dims: &[u64], texts: &[Vec<u8>]) -> Result<HostTensor, String> {
    HostTensor::from_bytes(DType::STRING, dims, &bytes_of_strings(texts)).map_err(|e| e.to_string())
}

/// The strings of a tensor; `None` if its offsets are invalid.
pub fn texts(t: &HostTensor) -> Option<Vec<&[u8]>> {
    strings_in(t.bytes(), t.dims.iter().product())
}

/// NumPy's type name for a tensor's strings, and their bytes in a file; `None` if one of them is
/// not UTF-8 text.
pub(crate) fn write(t: &HostTensor) -> Option<(String, Vec<u8>)> {
    let texts: Vec<&str> = texts(t)?.into_iter().map(|b| std::str::from_utf8(b).ok()).collect::<Option<_>>()?;
    let len = texts.iter().map(|t| t.chars().count()).max().unwrap_or(0).max(1);
    let mut out = Vec::with_capacity(texts.len() * len * 4);
    for t in &texts {
        let end = out.len() + len * 4;
        t.chars().for_each(|c| out.extend_from_slice(&u32::from(c).to_le_bytes()));
        out.resize(end, 0);
    }
    Some((format!("<U{len}"), out))
}

#[cfg(test)]
mod tests {
    use crate::npy;
    use ge_plugin_api::types::DType;

    /// `numpy.save` of `numpy.array(["ab", "", "ü\u{1F600}"])` and of the same as `S6`, shortened.
    #[test]
    fn strings_round_trip_and_those_of_bytes_are_read() {
        let file = |descr: &str, shape: &str, data: &[u8]| {
            let mut head = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}").into_bytes();
            head.push(b'\n');
            let mut out = b"\x93NUMPY\x01\x00".to_vec();
            out.extend_from_slice(&(head.len() as u16).to_le_bytes());
            out.extend_from_slice(&head);
            out.extend_from_slice(data);
            out
        };
        let words = ["ab", "", "ü\u{1F600}"];
        let wide = |order: fn(u32) -> [u8; 4]| -> Vec<u8> {
            let letters = |w: &str| [w.chars().map(u32::from).collect::<Vec<_>>(), vec![0; 3]].concat()[..3].to_vec();
            words.iter().flat_map(|w| letters(w)).flat_map(order).collect()
        };
        let want: Vec<&[u8]> = words.iter().map(|w| w.as_bytes()).collect();
        for (descr, data) in [("<U3", wide(u32::to_le_bytes)), (">U3", wide(u32::to_be_bytes))] {
            let bytes = file(descr, "(3,)", &data);
            assert_eq!(npy::dtype_of(&bytes), Some(DType::STRING));
            let t = npy::read(&bytes, DType::STRING).unwrap();
            assert_eq!((t.dims.as_slice(), super::texts(&t).unwrap()), (&[3][..], want.clone()));
            let back = npy::read(&npy::write(&t).unwrap(), DType::STRING).unwrap();
            assert_eq!((back.dims.as_slice(), back.bytes()), (t.dims.as_slice(), t.bytes()));
            for cut in 0..bytes.len() {
                assert!(npy::read(&bytes[..cut], DType::STRING).is_err(), "cut at {cut}");
            }
        }
        let t = npy::read(&file("|S2", "(2,)", b"a\0bc"), DType::STRING).unwrap();
        assert_eq!(super::texts(&t).unwrap(), [&b"a"[..], b"bc"]);
        // An invalid character, and a type that is not a string.
        assert!(npy::read(&file("<U1", "(1,)", &[0, 0, 0x11, 0]), DType::STRING).unwrap_err().damaged);
        assert!(!npy::read(&file("<f4", "(1,)", &[0; 4]), DType::STRING).unwrap_err().damaged);
        // Strings that take no bytes of the file.
        for descr in ["<U0", "|S0"] {
            assert!(npy::read(&file(descr, "(1152921504606846976,)", &[]), DType::STRING).unwrap_err().damaged);
            assert!(npy::read(&file(descr, "(0,)", &[]), DType::STRING).is_ok());
        }
    }
}
