//! `OmError`: everything that can be wrong with an OM file, with the numbers that show it.

use std::io;
use std::path::PathBuf;

use crate::partition::PartitionType;

/// Why a file could not be read or written.
///
/// [`OmError::is_damage`] tells a damaged file from a failure of the machine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OmError {
    /// The file could not be opened, mapped or read.
    #[error("cannot read {path}: {source}", path = .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file could not be written; nothing of it is left.
    #[error("cannot write {path}: {source}", path = .path.display())]
    Write {
        /// The file that was to be written.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file ends before a part that it announces.
    #[error("the file is cut short: {what} needs {needed} bytes, {available} are there")]
    Truncated {
        /// The part that is missing.
        what: &'static str,
        /// Bytes from the start of the file up to the end of that part.
        needed: u64,
        /// Bytes of the file.
        available: u64,
    },
    /// The file has bytes behind its last part.
    #[error("the file has {file} bytes, its header announces {announced}")]
    Length {
        /// Bytes of the file.
        file: u64,
        /// Bytes that the header announces.
        announced: u64,
    },
    /// The first four bytes are not `IMOD`.
    #[error("no OM file: it starts with {found:#010x}, expected {expected:#010x}")]
    BadMagic {
        /// The magic number of the file.
        found: u32,
        /// The magic number of an OM file.
        expected: u32,
    },
    /// A header field has a value that no OM file has.
    #[error("header field {field}: found {found}, expected {expected}")]
    BadHeader {
        /// Name of the field.
        field: &'static str,
        /// Its value.
        found: u64,
        /// What it may be.
        expected: &'static str,
    },
    /// The container has a version that is not known here.
    #[error("container version {found:#010x} is not supported")]
    UnsupportedVersion {
        /// The version of the file.
        found: u32,
    },
    /// The file was written by another release of ours with another format.
    #[error("format version {found} is not supported (this release reads {supported}): compile the model again")]
    UnsupportedFormat {
        /// The format version of the file.
        found: u32,
        /// The format version that this release reads and writes.
        supported: u32,
    },
    /// The file is encrypted.
    #[error("the file is encrypted")]
    Encrypted,
    /// A table or store has more entries than the file could hold or than is sensible.
    #[error("{what}: count {count} is above the limit {limit}")]
    TooMany {
        /// What is counted.
        what: &'static str,
        /// The count in the file.
        count: u64,
        /// The largest count that is accepted.
        limit: u64,
    },
    /// A partition does not lie inside the file.
    #[error("model {model}: partition {kind} at {start} with {size} bytes lies outside the file of {file} bytes")]
    PartitionOutOfBounds {
        /// Index of the model in the file.
        model: usize,
        /// Type of the partition.
        kind: PartitionType,
        /// Its start; relative to its table where the sum is too large for 64 bits.
        start: u64,
        /// Its size in bytes.
        size: u64,
        /// Bytes of the file.
        file: u64,
    },
    /// Two partitions share bytes.
    #[error("model {model}: partitions {first} and {second} overlap at byte {at}")]
    Overlap {
        /// Index of the model in the file.
        model: usize,
        /// The partition that starts first.
        first: PartitionType,
        /// The partition that starts inside it.
        second: PartitionType,
        /// First shared byte of the file.
        at: u64,
    },
    /// A partition does not start where a device can take it from the map.
    #[error("model {model}: partition {kind} starts at byte {start}, which is no multiple of {align}")]
    Misaligned {
        /// Index of the model in the file.
        model: usize,
        /// Type of the partition.
        kind: PartitionType,
        /// Its start.
        start: u64,
        /// The alignment that every file of ours has.
        align: u64,
    },
    /// A partition type stands twice in a table.
    #[error("model {model}: partition {kind} stands twice in the table")]
    DuplicatePartition {
        /// Index of the model in the file.
        model: usize,
        /// Type of the partition.
        kind: PartitionType,
    },
    /// A model lacks a partition that every model of ours has.
    #[error("model {model}: partition {kind} is missing")]
    MissingPartition {
        /// Index of the model in the file.
        model: usize,
        /// Type of the partition.
        kind: PartitionType,
    },
    /// The digest of the file is not the one in its header.
    #[error("checksum mismatch: found {found}, expected {expected}")]
    ChecksumMismatch {
        /// Digest of the bytes, 64 hex digits.
        found: String,
        /// Digest in the header.
        expected: String,
    },
    /// A piece of the weights does not have the digest that stands in the model.
    #[error("model {model}: weights are damaged between byte {start} and {end}")]
    WeightsMismatch {
        /// Index of the model in the file.
        model: usize,
        /// First byte of the piece, in the weights.
        start: u64,
        /// End of the piece, in the weights.
        end: u64,
    },
    /// One of the two marks of our files is missing or differs from the other.
    #[error("model {model}: attribute {attribute} is missing or damaged")]
    Mark {
        /// Index of the model in the file.
        model: usize,
        /// Name of the model attribute.
        attribute: &'static str,
    },
    /// A payload is no valid protobuf message.
    #[error("model {model}: partition {kind} cannot be decoded: {source}")]
    Decode {
        /// Index of the model in the file.
        model: usize,
        /// Type of the partition.
        kind: PartitionType,
        /// What the decoder said.
        source: prost::DecodeError,
    },
    /// A payload has a form that the schema forbids, or would take far more memory than its size
    /// warrants.
    #[error("model {model}: partition {kind}: {problem}")]
    Payload {
        /// Index of the model in the file.
        model: usize,
        /// Type of the partition.
        kind: PartitionType,
        /// What is wrong.
        problem: PayloadProblem,
    },
    /// A kernel store has a record that is not whole.
    #[error("model {model}: partition {kind}: kernel record {record} at byte {at}: {problem}")]
    Kernel {
        /// Index of the model in the file.
        model: usize,
        /// Type of the partition.
        kind: PartitionType,
        /// Index of the record.
        record: usize,
        /// First byte of the record in the partition.
        at: u64,
        /// What is wrong.
        problem: KernelProblem,
    },
    /// The writer was given something that no OM file can hold.
    #[error("cannot write model {model}: {problem}")]
    Unwritable {
        /// Index of the model.
        model: usize,
        /// What is wrong.
        problem: WriteProblem,
    },
}

/// What is wrong with a protobuf payload.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PayloadProblem {
    /// A field runs past the end of its message, or its key is not valid.
    #[error("message {message}: damaged field at byte {at}")]
    Malformed {
        /// Full name of the message.
        message: &'static str,
        /// Place in the partition.
        at: u64,
    },
    /// Messages are nested deeper than the decoder goes.
    #[error("messages nest deeper than {limit}")]
    TooDeep {
        /// The deepest accepted level.
        limit: usize,
    },
    /// Decoding would take more memory than the limit for a payload of this size.
    #[error("{bytes} bytes would need about {needed} bytes of memory, the limit is {limit}")]
    TooLarge {
        /// Bytes of the payload.
        bytes: u64,
        /// Upper estimate of the memory up to the place where the limit was passed.
        needed: u64,
        /// The limit.
        limit: u64,
    },
}

/// What is wrong with a kernel record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KernelProblem {
    /// The record does not start with the magic number.
    #[error("it starts with {found:#010x}")]
    BadMagic {
        /// What stands there.
        found: u32,
    },
    /// The record runs past the end of the store.
    #[error("it needs {needed} bytes, {available} are there")]
    Truncated {
        /// Bytes of the record.
        needed: u64,
        /// Bytes up to the end of the store.
        available: u64,
    },
    /// The name is not valid UTF-8.
    #[error("its name is not UTF-8")]
    BadName,
}

/// What cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteProblem {
    /// The file would hold no model at all.
    #[error("a file holds at least one model")]
    NoModel,
    /// A weight starts before the end of the one before it.
    #[error("weight {index} starts at {offset}, the weight before it ends at {end}")]
    WeightOrder {
        /// Index of the weight.
        index: usize,
        /// Its start.
        offset: u64,
        /// End of the weight before it.
        end: u64,
    },
    /// A size does not fit its field.
    #[error("{what} of {size} bytes does not fit its field")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// Its size.
        size: u64,
    },
    /// An extra partition has a type that the writer fills by itself.
    #[error("partition {kind} is written by the writer or given twice")]
    ReservedPartition {
        /// Its type.
        kind: PartitionType,
    },
}

impl OmError {
    /// True where the file itself is wrong, false where reading or writing failed or its version is
    /// not ours.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        !matches!(
            self,
            OmError::Read { .. }
                | OmError::Write { .. }
                | OmError::Unwritable { .. }
                | OmError::UnsupportedVersion { .. }
                | OmError::UnsupportedFormat { .. }
                | OmError::Encrypted
        )
    }
}
