//! `.npy` files, versions 1 to 3. Types without a NumPy name are stored as raw bits (DESIGN 4):
//! bfloat16 as uint16; float8, float4 and integers below one byte as uint8, one element per byte.
//! Arrays of `ml_dtypes`, which NumPy saves as `V2` and `V1` (float8_e5m2: `f1`), can be read too.
//! Strings use NumPy's `U`. Files may be in C or Fortran order and in either byte order when read;
//! C order and little-endian are written.
use crate::npy_order::Order;
use crate::npy_text::{self, Text};
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::DType;

/// Why bytes cannot be read as the wanted `.npy` array.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct NpyError {
    /// Description of the problem.
    pub what: String,
    /// `true` if the file itself is damaged, `false` if it only does not fit the wanted type.
    pub damaged: bool,
}

fn bad(what: impl Into<String>) -> NpyError {
    NpyError { what: what.into(), damaged: true }
}

/// NumPy's name of a type; `None` if the type cannot be stored.
pub fn descr(dtype: DType) -> Option<&'static str> {
    Some(match dtype {
        DType::F32 => "<f4",
        DType::F64 => "<f8",
        DType::F16 => "<f2",
        DType::I8 => "|i1",
        DType::I16 => "<i2",
        DType::I32 => "<i4",
        DType::I64 => "<i8",
        DType::U8 => "|u1",
        DType::U16 | DType::BF16 => "<u2",
        DType::U32 => "<u4",
        DType::U64 => "<u8",
        DType::BOOL => "|b1",
        DType::COMPLEX64 => "<c8",
        DType::COMPLEX128 => "<c16",
        d if d.bits().is_some_and(|b| b <= 8) => "|u1",
        _ => return None,
    })
}

/// NumPy's name of `float8_e5m2` of `ml_dtypes`, without the byte order. The other float8 types have
/// none.
const E5M2: &str = "f1";

/// The type that a file's header names. A type without a NumPy name appears as the integer type
/// that stores its bits.
pub fn dtype_of(bytes: &[u8]) -> Option<DType> {
    let begin = if bytes.get(6).is_some_and(|v| *v > 1) { 12 } else { 10 };
    let header = bytes.get(begin..bytes.len().min(begin + 4096)).filter(|_| bytes.starts_with(b"\x93NUMPY"))?;
    let end = header.iter().position(|b| *b == b'\n').unwrap_or(header.len());
    let found = quoted(std::str::from_utf8(&header[..end]).ok()?, "descr")?.replace(['=', '>'], "<");
    if Text::of(&found).is_some() {
        return Some(DType::STRING);
    }
    if found.trim_start_matches(['<', '|']) == E5M2 {
        return Some(DType::F8E5M2);
    }
    const NAMED: [DType; 14] = [
        DType::F32,
        DType::F64,
        DType::F16,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::U8,
        DType::U16,
        DType::U32,
        DType::U64,
        DType::BOOL,
        DType::COMPLEX64,
        DType::COMPLEX128,
    ];
    NAMED.into_iter().find(|d| descr(*d) == Some(found.as_str()))
}

/// Reads the bytes of a file as a tensor of type `want`.
pub fn read(bytes: &[u8], want: DType) -> Result<HostTensor, NpyError> {
    let rest =
        bytes.strip_prefix(b"\x93NUMPY").ok_or_else(|| bad("no .npy file: it does not begin with \\x93NUMPY"))?;
    let (&[major, _minor], rest) = rest.split_first_chunk::<2>().ok_or_else(|| bad("truncated after the magic"))?;
    let (len, rest) = match major {
        1 => rest.split_first_chunk::<2>().map(|(l, r)| (u32::from(u16::from_le_bytes(*l)), r)),
        2 | 3 => rest.split_first_chunk::<4>().map(|(l, r)| (u32::from_le_bytes(*l), r)),
        v => return Err(bad(format!("version {v} of .npy is not known"))),
    }
    .ok_or_else(|| bad("truncated in the header's length"))?;
    let len = len as usize;
    if len > rest.len() || len > 1 << 20 {
        return Err(bad("truncated in the header"));
    }
    let header = std::str::from_utf8(&rest[..len]).map_err(|_| bad("the header is not text"))?;
    let data = &rest[len..];
    let found = quoted(header, "descr").ok_or_else(|| bad("the header has no 'descr'"))?;
    let fortran = field(header, "fortran_order").is_some_and(|v| v.starts_with("True"));
    let dims = shape(header).ok_or_else(|| bad("the header has no readable 'shape'"))?;
    if want == DType::STRING {
        let text = Text::of(found).ok_or_else(|| NpyError {
            what: format!("found type {found}, expected strings, as in numpy.array([\"a\", \"b\"])"),
            damaged: false,
        })?;
        let count = dims.iter().try_fold(1u64, |a, d| a.checked_mul(*d)).ok_or_else(|| bad("the shape overflows"))?;
        if count.checked_mul(text.unit()) != Some(data.len() as u64) {
            let unit = text.unit();
            return Err(bad(format!(
                "shape {dims:?} needs {count} strings of {unit} bytes, the file has {}",
                data.len()
            )));
        }
        let order = Order { unit: text.unit() as usize, swapped: 0, fortran };
        return text.read(&dims, count, &order.straight(&dims, data)).map_err(bad);
    }
    let expected =
        descr(want).ok_or_else(|| NpyError { what: format!("{want} has no form in .npy"), damaged: false })?;
    // Compare the kinds without the byte-order mark, which is handled below.
    let kind = |s: &str| s.trim_start_matches(['=', '|', '<', '>']).to_owned();
    let nameless = kind(expected).starts_with('u') && !matches!(want, DType::U8 | DType::U16 | DType::U32 | DType::U64);
    let of_ml_dtypes = match kind(found).as_str() {
        E5M2 => want == DType::F8E5M2,
        found => nameless && found == kind(expected).replace('u', "V"),
    };
    if kind(found) != kind(expected) && !of_ml_dtypes {
        return Err(NpyError { what: format!("found type {found}, expected {expected} ({want})"), damaged: false });
    }
    let packed = want.bits().is_some_and(|b| b < 8);
    let count = dims.iter().try_fold(1u64, |a, d| a.checked_mul(*d)).ok_or_else(|| bad("the shape overflows"))?;
    let unit = if packed { 1 } else { want.bits().unwrap_or(8) / 8 };
    if count.checked_mul(unit) != Some(data.len() as u64) {
        return Err(bad(format!(
            "shape {dims:?} needs {count} elements of {unit} bytes, the file has {} bytes of data",
            data.len()
        )));
    }
    let numbers = if matches!(want, DType::COMPLEX64 | DType::COMPLEX128) { 2 } else { 1 };
    let swapped = if found.starts_with('>') { unit as usize / numbers } else { 0 };
    let data = Order { unit: unit as usize, swapped, fortran }.straight(&dims, data);
    let fail = |e: ge_plugin_api::Error| bad(e.to_string());
    if !packed {
        return HostTensor::from_bytes(want, &dims, &data).map_err(fail);
    }
    let mut t = HostTensor::zeroed(want, &dims).map_err(fail)?;
    let (bits, per) = (want.bits().unwrap_or(4) as usize, 8 / want.bits().unwrap_or(4) as usize);
    let mask = (1u8 << bits) - 1;
    let out = t.bytes_mut();
    for (i, v) in data.iter().enumerate() {
        out[i / per] |= (v & mask) << ((i % per) * bits);
    }
    Ok(t)
}

/// Encodes a tensor as a `.npy` file; `None` if its type or its strings cannot be stored.
pub fn write(t: &HostTensor) -> Option<Vec<u8>> {
    let dims: Vec<String> = t.dims.iter().map(u64::to_string).collect();
    let shape = if dims.len() == 1 { format!("({},)", dims[0]) } else { format!("({})", dims.join(", ")) };
    let (descr, text) = match t.dtype {
        DType::STRING => npy_text::write(t).map(|(descr, data)| (descr, Some(data)))?,
        d => (descr(d)?.to_owned(), None),
    };
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut out = Vec::with_capacity(header.len() + 10 + t.bytes().len());
    out.extend_from_slice(b"\x93NUMPY\x01\x00");
    out.extend_from_slice(&(u16::try_from(header.len()).ok()?).to_le_bytes());
    out.extend_from_slice(header.as_bytes());
    if let Some(data) = text {
        out.extend_from_slice(&data);
        return Some(out);
    }
    match t.dtype.bits() {
        Some(bits) if bits < 8 => {
            let (bits, per) = (bits as usize, 8 / bits as usize);
            let count = t.dims.iter().product::<u64>() as usize;
            let signed = matches!(t.dtype, DType::I4 | DType::I2);
            for i in 0..count {
                let v = (t.bytes()[i / per] >> ((i % per) * bits)) & ((1u8 << bits) - 1);
                let negative = signed && v >> (bits - 1) == 1;
                out.push(if negative { v | !((1u8 << bits) - 1) } else { v });
            }
        }
        _ => out.extend_from_slice(t.bytes()),
    }
    Some(out)
}

fn field<'a>(header: &'a str, key: &str) -> Option<&'a str> {
    let at = header.find(&format!("'{key}'"))?;
    header[at + key.len() + 2..].trim_start().strip_prefix(':').map(str::trim_start)
}
fn quoted<'a>(header: &'a str, key: &str) -> Option<&'a str> {
    let v = field(header, key)?.strip_prefix('\'')?;
    v.split('\'').next()
}
fn shape(header: &str) -> Option<Vec<u64>> {
    let v = field(header, "shape")?.strip_prefix('(')?;
    let inner = &v[..v.find(')')?];
    inner.split(',').map(str::trim).filter(|s| !s.is_empty()).map(|s| s.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn arrays_round_trip_also_under_a_byte() {
        for dims in [&[][..], &[3], &[2, 5], &[0, 4]] {
            let mut t = HostTensor::zeroed(DType::F32, dims).expect("small");
            for (i, b) in t.bytes_mut().iter_mut().enumerate() {
                *b = i as u8;
            }
            let bytes = write(&t).expect("f32");
            let back = read(&bytes, DType::F32).expect("reads");
            assert_eq!((back.dims.as_slice(), back.bytes()), (dims, t.bytes()));
            for cut in 0..bytes.len() {
                assert!(read(&bytes[..cut], DType::F32).is_err(), "cut at {cut}");
            }
        }
        let mut t = HostTensor::zeroed(DType::I4, &[3]).expect("small");
        t.bytes_mut().copy_from_slice(&[0x7f, 0x08]);
        let bytes = write(&t).expect("i4");
        assert_eq!(&bytes[bytes.len() - 3..], &[0xff, 7, 0xf8]);
        assert_eq!(read(&bytes, DType::I4).expect("reads").bytes(), t.bytes());
        assert!(!read(&bytes, DType::F32).expect_err("type").damaged);
    }

    /// A file with the given header fields, as NumPy 2 writes it.
    fn file(descr: &str, fortran: &str, shape: &str, data: &[u8]) -> Vec<u8> {
        let header = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n");
        let len = u16::try_from(header.len()).expect("short").to_le_bytes();
        [&b"\x93NUMPY\x01\x00"[..], &len, header.as_bytes(), data].concat()
    }

    #[test]
    fn arrays_of_the_other_order_and_the_other_end_are_read() {
        let data: Vec<u8> = [0f32, 3.0, 1.0, 4.0, 2.0, 5.0].iter().flat_map(|v| v.to_be_bytes()).collect();
        let t = read(&file(">f4", "True", "(2, 3)", &data), DType::F32).expect("reads");
        assert_eq!(
            (t.dims.as_slice(), t.view().values::<f32>().expect("f32")),
            (&[2, 3][..], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0][..])
        );
        let halves: Vec<u8> = [1f32, 2.0].iter().flat_map(|v| v.to_be_bytes()).collect();
        let t = read(&file(">c8", "False", "(1,)", &halves), DType::COMPLEX64).expect("reads");
        assert_eq!(t.bytes(), [1f32.to_le_bytes(), 2f32.to_le_bytes()].concat());
        assert_eq!(dtype_of(&file(">i8", "False", "()", &[0; 8])), Some(DType::I64));
        let wrong = read(&file(">f4", "True", "(2, 3)", &data), DType::I32).expect_err("type");
        assert!(!wrong.damaged && wrong.what.contains(">f4"), "{}", wrong.what);
        assert!(read(&file(">f4", "True", "(2, 4)", &data), DType::F32).expect_err("short").damaged);
    }

    #[test]
    fn types_of_ml_dtypes_are_read_as_numpy_saves_them() {
        let t = read(&file("<V2", "False", "(2,)", &[0x80, 0x3f, 0, 0x40]), DType::BF16).expect("reads");
        assert_eq!(t.bytes(), [0x80, 0x3f, 0, 0x40]);
        let t = read(&file("|V1", "False", "(3,)", &[0xff, 7, 0xf8]), DType::I4).expect("reads");
        assert_eq!(t.bytes(), [0x7f, 0x08]);
        let float8 = file("<f1", "False", "(3,)", &[0x3c, 0x40, 0xbc]);
        assert_eq!(read(&float8, DType::F8E5M2).expect("reads").bytes(), [0x3c, 0x40, 0xbc]);
        assert_eq!(dtype_of(&float8), Some(DType::F8E5M2));
        for want in [DType::F8E4M3FN, DType::U8, DType::I8] {
            assert!(!read(&float8, want).expect_err("another type").damaged);
        }
        for want in [DType::F16, DType::U16, DType::I16] {
            assert!(!read(&file("<V2", "False", "(2,)", &[0; 4]), want).expect_err("no number").damaged);
        }
    }
}
