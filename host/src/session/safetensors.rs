//! Safetensors files: named tensors, as read and written by PyTorch and others.
//!
//! The file has eight bytes with the header's length, the header as JSON (for each name its
//! `dtype`, `shape` and `data_offsets`), then the data, little-endian and without gaps.
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::DType;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Maximum header length in bytes (a limit of the format).
const MOST: u64 = 100_000_000;

const TYPES: &[(DType, &str)] = &[
    (DType::BOOL, "BOOL"),
    (DType::U8, "U8"),
    (DType::I8, "I8"),
    (DType::I16, "I16"),
    (DType::U16, "U16"),
    (DType::F16, "F16"),
    (DType::BF16, "BF16"),
    (DType::I32, "I32"),
    (DType::U32, "U32"),
    (DType::F32, "F32"),
    (DType::F64, "F64"),
    (DType::I64, "I64"),
    (DType::U64, "U64"),
];

#[derive(Serialize, Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

/// The bytes of a file with these named tensors.
///
/// # Errors
/// Returns the name and type of the first tensor whose type the format does not support.
pub fn write(tensors: &[(String, HostTensor)]) -> Result<Vec<u8>, (String, DType)> {
    let mut header: BTreeMap<&str, Entry> = BTreeMap::new();
    let mut at = 0u64;
    for (name, t) in tensors {
        let known = TYPES.iter().find(|(d, _)| *d == t.dtype).ok_or_else(|| (name.clone(), t.dtype))?;
        let end = at + t.bytes().len() as u64;
        let entry = Entry { dtype: known.1.to_owned(), shape: t.dims.to_vec(), data_offsets: [at, end] };
        header.insert(name, entry);
        at = end;
    }
    let mut text = serde_json::to_vec(&header).unwrap_or_default();
    // The data must begin at a multiple of eight bytes.
    text.resize(text.len().next_multiple_of(8), b' ');
    let mut out = Vec::with_capacity(8 + text.len() + usize::try_from(at).unwrap_or(0));
    out.extend_from_slice(&(text.len() as u64).to_le_bytes());
    out.extend_from_slice(&text);
    tensors.iter().for_each(|(_, t)| out.extend_from_slice(t.bytes()));
    Ok(out)
}

/// The tensors of a file: their names, and each one when it is asked for.
pub struct Tensors<'b> {
    header: BTreeMap<String, serde_json::Value>,
    data: &'b [u8],
}

impl<'b> Tensors<'b> {
    /// Reads the header of a file.
    ///
    /// # Errors
    /// Says what is wrong with the file.
    pub fn open(bytes: &'b [u8]) -> Result<Tensors<'b>, String> {
        let (length, rest) = bytes.split_first_chunk::<8>().ok_or("it is shorter than eight bytes")?;
        let length = u64::from_le_bytes(*length);
        let inside = usize::try_from(length).ok().filter(|n| length <= MOST && *n <= rest.len());
        let length = inside.ok_or_else(|| format!("its header says {length} bytes, which it does not have"))?;
        let (text, data) = rest.split_at(length);
        let mut header: BTreeMap<String, serde_json::Value> =
            serde_json::from_slice(text).map_err(|e| format!("its header is no JSON of the form: {e}"))?;
        header.remove("__metadata__");
        Ok(Tensors { header, data })
    }

    /// The names of the tensors, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.header.keys().map(String::as_str)
    }

    /// Reads one tensor; `None` if the file has no tensor of this name.
    ///
    /// # Errors
    /// Says what is wrong with the tensor.
    pub fn read(&self, name: &str) -> Result<Option<HostTensor>, String> {
        let Some(value) = self.header.get(name) else { return Ok(None) };
        let entry = Entry::deserialize(value).map_err(|e| format!("tensor `{name}`: {e}"))?;
        let known = TYPES.iter().find(|(_, n)| *n == entry.dtype);
        let dtype =
            known.ok_or_else(|| format!("tensor `{name}` is of type {}, which ge does not read", entry.dtype))?.0;
        let [begin, end] = entry.data_offsets.map(|o| usize::try_from(o).unwrap_or(usize::MAX));
        let part = self.data.get(begin..end);
        let part = part.ok_or_else(|| format!("tensor `{name}` lies beyond the end of the file"))?;
        let count = entry.shape.iter().try_fold(1u64, |a, b| a.checked_mul(*b));
        let wanted = count.and_then(|c| c.checked_mul(dtype.bits()? / 8));
        if wanted != Some(part.len() as u64) {
            return Err(format!("tensor `{name}` is {dtype}{:?} and has {} bytes", entry.shape, part.len()));
        }
        HostTensor::from_bytes(dtype, &entry.shape, part).map(Some).map_err(|e| e.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensors() -> Vec<(String, HostTensor)> {
        let one = HostTensor::from_bytes(DType::F32, &[2, 1], &[0, 0, 128, 63, 0, 0, 0, 64]).expect("a tensor");
        let two = HostTensor::from_bytes(DType::I64, &[], &[7, 0, 0, 0, 0, 0, 0, 0]).expect("a tensor");
        vec![("step".into(), two), ("w".into(), one)]
    }

    fn read(bytes: &[u8]) -> Result<Vec<(String, HostTensor)>, String> {
        let file = Tensors::open(bytes)?;
        file.names().map(|n| Ok((n.to_owned(), file.read(n)?.expect("it is named")))).collect()
    }

    #[test]
    fn a_tensor_of_another_type_does_not_concern_the_others() {
        let header = r#"{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"F9","shape":[1],"data_offsets":[2,3]},"c":7}"#;
        let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[5, 6, 7]].concat();
        let file = Tensors::open(&bytes).expect("read");
        assert_eq!(file.names().collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(file.read("a").expect("read").expect("there").bytes(), [5, 6]);
        assert!(file.read("b").is_err_and(|e| e.contains("tensor `b` is of type F9, which ge does not read")));
        assert!(file.read("c").is_err_and(|e| e.contains("tensor `c`")));
        assert!(file.read("d").expect("none").is_none());
    }

    #[test]
    fn what_is_written_reads_back() {
        let bytes = write(&tensors()).expect("written");
        let again = read(&bytes).expect("read");
        let plain = |l: &[(String, HostTensor)]| -> Vec<(String, DType, Vec<u64>, Vec<u8>)> {
            l.iter().map(|(n, t)| (n.clone(), t.dtype, t.dims.to_vec(), t.bytes().to_vec())).collect()
        };
        assert_eq!(plain(&again), plain(&tensors()));
        assert_eq!(&bytes[8..20], br#"{"step":{"dt"#);
    }

    #[test]
    fn damaged_files_are_told_and_never_panic() {
        let bytes = write(&tensors()).expect("written");
        for n in 0..bytes.len() {
            assert!(read(&bytes[..n]).is_err(), "{n} bytes");
        }
        for n in 0..bytes.len() {
            for flip in [1u8, 0x80, 0xff] {
                let mut b = bytes.clone();
                b[n] ^= flip;
                let _ = read(&b);
            }
        }
        let mut long = bytes;
        long[..8].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(read(&long).is_err_and(|e| e.contains("header says")));
    }
}
