//! Kernel stores (TBE_KERNELS, CUST_AICPU_KERNELS): sequences of records `{magic, name_len,
//! bin_len, name, bin}` (facts 7.1).

use bytes::Bytes;

use crate::error::{KernelProblem, OmError, WriteProblem};
use crate::partition::PartitionType;

/// First word of every record.
pub const KERNEL_MAGIC: u32 = 0x5D77_6EFD;
/// Number of bytes before the name.
const HEAD: usize = 12;

/// A kernel in a store. `bin` is a slice of the mapped file, not a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelRecord {
    /// The name by which tasks refer to it.
    pub name: String,
    /// The device's binary, or our own description of a host kernel.
    pub bin: Bytes,
}

/// Reads all records of a store; `model` and `kind` are used only in the error.
///
/// # Errors
/// Fails with [`OmError::Kernel`] for the first incomplete or invalid record.
pub fn decode(store: &Bytes, model: usize, kind: PartitionType) -> Result<Vec<KernelRecord>, OmError> {
    let mut records = Vec::new();
    let mut at = 0;
    while at < store.len() {
        let rest = &store[at..];
        let fail = |problem| OmError::Kernel { model, kind, record: records.len(), at: at as u64, problem };
        let cut = |needed: u64| fail(KernelProblem::Truncated { needed, available: rest.len() as u64 });
        let Some(head) = rest.first_chunk::<HEAD>() else {
            return Err(cut(HEAD as u64));
        };
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        if word(0) != KERNEL_MAGIC {
            return Err(fail(KernelProblem::BadMagic { found: word(0) }));
        }
        let needed = HEAD as u64 + u64::from(word(4)) + u64::from(word(8));
        let Some(len) = usize::try_from(needed).ok().filter(|len| *len <= rest.len()) else {
            return Err(cut(needed));
        };
        let name_end = HEAD + word(4) as usize;
        let name = std::str::from_utf8(&rest[HEAD..name_end]).map_err(|_| fail(KernelProblem::BadName))?.to_string();
        let bin = store.slice(at + name_end..at + len);
        records.push(KernelRecord { name, bin });
        at += len;
    }
    Ok(records)
}

/// Encodes the part of a record before `bin`.
pub(crate) fn encode_head(record: &KernelRecord, model: usize) -> Result<Vec<u8>, OmError> {
    let length = |what, len: usize| {
        u32::try_from(len)
            .map_err(|_| OmError::Unwritable { model, problem: WriteProblem::TooLarge { what, size: len as u64 } })
    };
    let name_len = length("a kernel's name", record.name.len())?;
    let bin_len = length("a kernel", record.bin.len())?;
    let mut head = Vec::with_capacity(HEAD + record.name.len());
    head.extend_from_slice(&KERNEL_MAGIC.to_le_bytes());
    head.extend_from_slice(&name_len.to_le_bytes());
    head.extend_from_slice(&bin_len.to_le_bytes());
    head.extend_from_slice(record.name.as_bytes());
    Ok(head)
}

/// Encodes a whole store in memory, for tests and small stores; the writer streams instead.
///
/// # Errors
/// Fails with [`OmError::Unwritable`] for a name or binary of 4 GiB or more.
pub fn encode(records: &[KernelRecord]) -> Result<Vec<u8>, OmError> {
    let mut out = Vec::new();
    for record in records {
        out.extend_from_slice(&encode_head(record, 0)?);
        out.extend_from_slice(&record.bin);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> Vec<KernelRecord> {
        vec![
            KernelRecord { name: "add".into(), bin: Bytes::from_static(b"\x01\x02\x03") },
            KernelRecord { name: String::new(), bin: Bytes::new() },
        ]
    }

    #[test]
    fn records_have_the_published_form() {
        let bytes = encode(&two()).unwrap();
        assert_eq!(&bytes[..18], b"\xFD\x6E\x77\x5D\x03\0\0\0\x03\0\0\0add\x01\x02\x03");
        assert_eq!(decode(&Bytes::from(bytes), 0, PartitionType::TbeKernels).unwrap(), two());
    }

    #[test]
    fn every_cut_is_noticed_except_between_records() {
        let bytes = encode(&two()).unwrap();
        for len in 0..bytes.len() {
            let whole = decode(&Bytes::copy_from_slice(&bytes[..len]), 0, PartitionType::TbeKernels).is_ok();
            assert_eq!(whole, len == 0 || len == 18, "{len}");
        }
    }

    #[test]
    fn hostile_lengths_are_refused() {
        for (name_len, bin_len) in [(u32::MAX, u32::MAX), (4, 0), (0, 5), (u32::MAX, 0)] {
            let mut bytes = KERNEL_MAGIC.to_le_bytes().to_vec();
            bytes.extend_from_slice(&name_len.to_le_bytes());
            bytes.extend_from_slice(&bin_len.to_le_bytes());
            bytes.extend_from_slice(b"abc");
            let error = decode(&Bytes::from(bytes), 2, PartitionType::TbeKernels).unwrap_err();
            let cut = matches!(error, OmError::Kernel { model: 2, problem: KernelProblem::Truncated { .. }, .. });
            assert!(cut, "{error}");
        }
        let error = decode(&Bytes::from_static(&[7; 12]), 0, PartitionType::TbeKernels).unwrap_err();
        assert!(error.to_string().contains("0x07070707"), "{error}");
    }
}
