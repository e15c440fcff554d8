//! The partition table in front of the partitions of each model (facts 7.1).
//!
//! Standard form: `{u32 num, u32 pad}`, then `num` times `{u32 type, u32 pad, u64 offset, u64
//! size}`. Small form: `{u32 num}`, then `num` times `{u32 type, u32 offset, u32 size}`. Offsets
//! are relative to the end of the table.

use std::ops::Range;

use crate::error::OmError;
pub use crate::partition::PartitionType;

/// The largest accepted number of partitions of a model; real files have fewer than twenty.
pub const MAX_PARTITIONS: u64 = 4_096;

/// One entry of a table, with its range in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// Type of the partition.
    pub kind: PartitionType,
    /// Range of its bytes, from the start of the file.
    pub range: Range<usize>,
}

/// The layout of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TableForm {
    /// 64-bit offsets with native alignment.
    Standard,
    /// 32-bit offsets.
    Small,
}

/// The table of one model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    /// Entries in the order of the table.
    pub(crate) entries: Vec<Partition>,
    /// Position in the file after the last partition.
    pub(crate) end: usize,
}

/// Size in bytes of a standard table.
pub(crate) fn table_len(entries: usize) -> u64 {
    8 + 24 * entries as u64
}

/// Encodes a standard table with the given `(type, offset, size)` entries.
pub(crate) fn encode(entries: &[(PartitionType, u64, u64)]) -> Result<Vec<u8>, OmError> {
    let count = u32::try_from(entries.len()).ok().filter(|count| u64::from(*count) <= MAX_PARTITIONS);
    let Some(count) = count else {
        return Err(OmError::TooMany { what: "partitions", count: entries.len() as u64, limit: MAX_PARTITIONS });
    };
    let mut out = Vec::with_capacity(8 + 24 * entries.len());
    out.extend_from_slice(&count.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    for (kind, offset, size) in entries {
        out.extend_from_slice(&kind.number().to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&offset.to_le_bytes());
        out.extend_from_slice(&size.to_le_bytes());
    }
    Ok(out)
}

/// The `N` bytes at `at`, or `None` past the end.
fn number<const N: usize>(file: &[u8], at: usize) -> Option<[u8; N]> {
    file.get(at..at.checked_add(N)?)?.first_chunk().copied()
}

/// Reads the table of model `model`, which starts at byte `at`, and checks each entry against the
/// file.
///
/// # Errors
/// Fails with [`OmError::Truncated`], [`OmError::TooMany`], [`OmError::PartitionOutOfBounds`] or
/// [`OmError::Overlap`].
pub(crate) fn decode(file: &[u8], at: usize, model: usize, form: TableForm) -> Result<Table, OmError> {
    let cut = |needed: u64| OmError::Truncated { what: "a partition table", needed, available: file.len() as u64 };
    let (head, entry) = match form {
        TableForm::Standard => (8_u64, 24_u64),
        TableForm::Small => (4, 12),
    };
    let start = at as u64;
    let count = number::<4>(file, at).map(u32::from_le_bytes).ok_or_else(|| cut(start.saturating_add(head)))?;
    if u64::from(count) > MAX_PARTITIONS {
        return Err(OmError::TooMany { what: "partitions", count: count.into(), limit: MAX_PARTITIONS });
    }
    let end = start.saturating_add(head).saturating_add(entry * u64::from(count));
    let base = usize::try_from(end).ok().filter(|end| *end <= file.len()).ok_or_else(|| cut(end))?;
    let rows = file.get(at + head as usize..base).ok_or_else(|| cut(end))?;
    let mut entries = Vec::with_capacity(count as usize);
    for row in rows.chunks_exact(entry as usize) {
        let word = |at| number::<4>(row, at).map_or(0, u32::from_le_bytes);
        let long = |at| number::<8>(row, at).map_or(0, u64::from_le_bytes);
        let (offset, size) = match form {
            TableForm::Standard => (long(8), long(16)),
            TableForm::Small => (u64::from(word(4)), u64::from(word(8))),
        };
        let kind = PartitionType::from_number(word(0));
        let outside = |start| OmError::PartitionOutOfBounds { model, kind, start, size, file: file.len() as u64 };
        let first = end.checked_add(offset).ok_or_else(|| outside(offset))?;
        let last = first.checked_add(size).ok_or_else(|| outside(first))?;
        match (usize::try_from(first), usize::try_from(last)) {
            (Ok(first), Ok(last)) if last <= file.len() => entries.push(Partition { kind, range: first..last }),
            _ => return Err(outside(first)),
        }
    }
    let end = check_overlap(&entries, model)?.unwrap_or(base);
    Ok(Table { entries, end })
}

/// Refuses partitions that overlap; returns the end of the last one, or `None` if there are no
/// partitions.
fn check_overlap(entries: &[Partition], model: usize) -> Result<Option<usize>, OmError> {
    let mut sorted: Vec<&Partition> = entries.iter().filter(|entry| !entry.range.is_empty()).collect();
    sorted.sort_by_key(|entry| entry.range.start);
    for pair in sorted.windows(2) {
        if let [first, second] = pair
            && second.range.start < first.range.end
        {
            let at = second.range.start as u64;
            return Err(OmError::Overlap { model, first: first.kind, second: second.kind, at });
        }
    }
    Ok(entries.iter().map(|entry| entry.range.end).max())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(entries: &[(PartitionType, u64, u64)], payload: usize) -> Vec<u8> {
        let mut bytes = encode(entries).unwrap();
        bytes.resize(bytes.len() + payload, 0xAA);
        bytes
    }

    #[test]
    fn a_table_gives_back_its_entries() {
        let bytes = file(&[(PartitionType::ModelInoutInfo, 0, 3), (PartitionType::ModelDef, 3, 5)], 8);
        let table = decode(&bytes, 0, 0, TableForm::Standard).unwrap();
        assert_eq!(table.entries[1], Partition { kind: PartitionType::ModelDef, range: 59..64 });
        assert_eq!(table.end, 64);
    }

    #[test]
    fn small_tables_are_read() {
        let mut bytes = Vec::new();
        for word in [2_u32, 0, 0, 3, 77, 3, 2] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(b"abcde");
        let table = decode(&bytes, 0, 0, TableForm::Small).unwrap();
        assert_eq!(&bytes[table.entries[0].range.clone()], b"abc");
        assert_eq!(table.entries[1].kind, PartitionType::Other(77));
    }

    #[test]
    fn entries_outside_the_file_are_refused() {
        for (offset, size) in [(0, 9), (9, 0), (u64::MAX, 1), (1, u64::MAX), (u64::MAX, u64::MAX), (8, 1)] {
            let bytes = file(&[(PartitionType::ModelDef, offset, size)], 8);
            let error = decode(&bytes, 0, 0, TableForm::Standard).unwrap_err();
            assert!(matches!(error, OmError::PartitionOutOfBounds { .. }), "{offset} {size}: {error}");
        }
    }

    #[test]
    fn overlaps_are_refused_and_empty_entries_are_not() {
        let bytes = file(&[(PartitionType::TaskInfo, 4, 4), (PartitionType::ModelDef, 0, 5)], 8);
        let error = decode(&bytes, 0, 3, TableForm::Standard).unwrap_err();
        assert!(matches!(error, OmError::Overlap { model: 3, first: PartitionType::ModelDef, at: 60, .. }), "{error}");
        let bytes = file(&[(PartitionType::TaskInfo, 0, 4), (PartitionType::ModelDef, 2, 0)], 4);
        assert!(decode(&bytes, 0, 0, TableForm::Standard).is_ok());
    }

    #[test]
    fn huge_counts_are_refused_before_any_allocation() {
        let mut bytes = vec![0xFF; 64];
        assert!(matches!(decode(&bytes, 0, 0, TableForm::Standard), Err(OmError::TooMany { .. })));
        bytes[..4].copy_from_slice(&4_000_u32.to_le_bytes());
        assert!(matches!(decode(&bytes, 0, 0, TableForm::Standard), Err(OmError::Truncated { .. })));
        assert!(matches!(decode(&bytes, 63, 0, TableForm::Standard), Err(OmError::Truncated { .. })));
    }
}
