//! `OmError`: all errors of reading or writing an OM file, with the numbers involved.

use std::io;
use std::path::PathBuf;

use crate::partition::PartitionType;

/// Why a file could not be read or written.
///
/// [`OmError::is_damage`] distinguishes a damaged file from a failure of the system.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OmError {
    /// The file could not be opened, mapped or read.
    #[error("cannot read {path}: {source}", path = .path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file could not be written; no part of it is left on disk.
    #[error("cannot write {path}: {source}", path = .path.display())]
    Write {
        /// Path of the file to write.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file ends before a part that it declares.
    #[error("the file is cut short: {what} needs {needed} bytes, {available} are there")]
    Truncated {
        /// The part that is incomplete.
        what: &'static str,
        /// Bytes needed from the start of the file to the end of that part.
        needed: u64,
        /// Size of the file in bytes.
        available: u64,
    },
    /// The file has bytes after its last part.
    #[error("the file has {file} bytes, its header announces {announced}")]
    Length {
        /// Size of the file in bytes.
        file: u64,
        /// Size that the header declares, in bytes.
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
    /// A header field has a value that is not valid in an OM file.
    #[error("header field {field}: found {found}, expected {expected}")]
    BadHeader {
        /// Name of the field.
        field: &'static str,
        /// The value found.
        found: u64,
        /// The values that are valid.
        expected: &'static str,
    },
    /// The container version is not supported.
    #[error("container version {found:#010x} is not supported")]
    UnsupportedVersion {
        /// The version of the file.
        found: u32,
    },
    /// The file was written by another release of ours, with another format.
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
    /// A table or store has more entries than the file can hold or than is plausible.
    #[error("{what}: count {count} is above the limit {limit}")]
    TooMany {
        /// What the count refers to.
        what: &'static str,
        /// The count found in the file.
        count: u64,
        /// The largest accepted count.
        limit: u64,
    },
    /// A partition extends outside the file.
    #[error("model {model}: partition {kind} at {start} with {size} bytes lies outside the file of {file} bytes")]
    PartitionOutOfBounds {
        /// Index of the model in the file.
        model: usize,
        /// Type of the partition.
        kind: PartitionType,
        /// Its start; relative to its table if the absolute position does not fit into 64 bits.
        start: u64,
        /// Its size in bytes.
        size: u64,
        /// Size of the file in bytes.
        file: u64,
    },
    /// Two partitions overlap.
    #[error("model {model}: partitions {first} and {second} overlap at byte {at}")]
    Overlap {
        /// Index of the model in the file.
        model: usize,
        /// The partition that starts first.
        first: PartitionType,
        /// The partition that starts inside it.
        second: PartitionType,
        /// Position in the file of the first shared byte.
        at: u64,
    },
    /// A partition is not aligned so that a device can use it directly from the mapped file.
    #[error("model {model}: partition {kind} starts at byte {start}, which is no multiple of {align}")]
    Misaligned {
        /// Index of the model in the file.
        model: usize,
        /// Type of the partition.
        kind: PartitionType,
        /// Its start.
        start: u64,
        /// The alignment that all our files have.
        align: u64,
    },
    /// A partition type occurs twice in a table.
    #[error("model {model}: partition {kind} stands twice in the table")]
    DuplicatePartition {
        /// Index of the model in the file.
        model: usize,
        /// Type of the partition.
        kind: PartitionType,
    },
    /// A model lacks a partition that every model of our files has.
    #[error("model {model}: partition {kind} is missing")]
    MissingPartition {
        /// Index of the model in the file.
        model: usize,
        /// Type of the partition.
        kind: PartitionType,
    },
    /// The digest of the file differs from the one in its header.
    #[error("checksum mismatch: found {found}, expected {expected}")]
    ChecksumMismatch {
        /// Digest of the file, 64 hex digits.
        found: String,
        /// Digest in the header.
        expected: String,
    },
    /// A chunk of the weights does not have the digest stored in the model.
    #[error("model {model}: weights are damaged between byte {start} and {end}")]
    WeightsMismatch {
        /// Index of the model in the file.
        model: usize,
        /// Start of the chunk in the weights, in bytes.
        start: u64,
        /// End of the chunk in the weights, in bytes.
        end: u64,
    },
    /// One of the two marks of our files is missing or they differ.
    #[error("model {model}: attribute {attribute} is missing or damaged")]
    Mark {
        /// Index of the model in the file.
        model: usize,
        /// Name of the model attribute.
        attribute: &'static str,
    },
    /// A payload is not a valid protobuf message.
    #[error("model {model}: partition {kind} cannot be decoded: {source}")]
    Decode {
        /// Index of the model in the file.
        model: usize,
        /// Type of the partition.
        kind: PartitionType,
        /// The decoder's error.
        source: prost::DecodeError,
    },
    /// A payload violates the schema, or would take far more memory than its size justifies.
    #[error("model {model}: partition {kind}: {problem}")]
    Payload {
        /// Index of the model in the file.
        model: usize,
        /// Type of the partition.
        kind: PartitionType,
        /// What is wrong.
        problem: PayloadProblem,
    },
    /// A kernel store has an incomplete or invalid record.
    #[error("model {model}: partition {kind}: kernel record {record} at byte {at}: {problem}")]
    Kernel {
        /// Index of the model in the file.
        model: usize,
        /// Type of the partition.
        kind: PartitionType,
        /// Index of the record.
        record: usize,
        /// Position of the record in the partition, in bytes.
        at: u64,
        /// What is wrong.
        problem: KernelProblem,
    },
    /// The writer was given data that no OM file can hold.
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
    /// A field extends past the end of its message, or its key is not valid.
    #[error("message {message}: damaged field at byte {at}")]
    Malformed {
        /// Full name of the message.
        message: &'static str,
        /// Position in the partition, in bytes.
        at: u64,
    },
    /// Messages are nested deeper than the decoder allows.
    #[error("messages nest deeper than {limit}")]
    TooDeep {
        /// The greatest accepted depth.
        limit: usize,
    },
    /// Decoding would take more memory than the limit for a payload of this size.
    #[error("{bytes} bytes would need about {needed} bytes of memory, the limit is {limit}")]
    TooLarge {
        /// Size of the payload in bytes.
        bytes: u64,
        /// Upper estimate of the memory needed up to the place where it exceeded the limit.
        needed: u64,
        /// The memory limit in bytes.
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
        /// The word found in its place.
        found: u32,
    },
    /// The record extends past the end of the store.
    #[error("it needs {needed} bytes, {available} are there")]
    Truncated {
        /// Size of the record in bytes.
        needed: u64,
        /// Bytes left in the store.
        available: u64,
    },
    /// The name is not valid UTF-8.
    #[error("its name is not UTF-8")]
    BadName,
}

/// Why something cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteProblem {
    /// The file would contain no model.
    #[error("a file holds at least one model")]
    NoModel,
    /// A weight starts before the end of the one before it.
    #[error("weight {index} starts at {offset}, the weight before it ends at {end}")]
    WeightOrder {
        /// Index of the weight segment.
        index: usize,
        /// Its start offset.
        offset: u64,
        /// End offset of the segment before it.
        end: u64,
    },
    /// A size does not fit its field.
    #[error("{what} of {size} bytes does not fit its field")]
    TooLarge {
        /// What does not fit.
        what: &'static str,
        /// Its size.
        size: u64,
    },
    /// An extra partition has a type that the writer fills itself or that was given twice.
    #[error("partition {kind} is written by the writer or given twice")]
    ReservedPartition {
        /// Type of the partition.
        kind: PartitionType,
    },
}

impl OmError {
    /// Whether the file itself is damaged. False if reading or writing failed, or the file is
    /// encrypted or has an unsupported version.
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
