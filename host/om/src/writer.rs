//! `OmWriter`: writes an OM file as a stream; the file appears complete or not at all.

use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::checksum::{self, WeightHasher};
use crate::error::{OmError, WriteProblem};
use crate::header::{HEADER_LEN, Header};
use crate::kernel_store::{self, KernelRecord};
use crate::proto::{ir, task};
use crate::stream::{self, Counted, Encoded};
use crate::table::{self, PartitionType};
use crate::{ATTR_FORMAT_VERSION, ATTR_WEIGHTS_XXH3, FORMAT_VERSION, WEIGHTS_ALIGN};

/// Creates a temporary file in `folder`, to be renamed when it is complete. Its permissions follow
/// the process's umask, as for any other new file.
///
/// # Errors
/// Fails if the file cannot be created.
pub fn temporary_in(folder: &Path, prefix: &str) -> io::Result<tempfile::NamedTempFile> {
    let mode = Permissions::from_mode(0o666);
    tempfile::Builder::new().prefix(prefix).suffix(".tmp").permissions(mode).tempfile_in(folder)
}

/// Number of bytes that are hashed and written at a time.
const PIECE: usize = 1 << 20;
/// Partitions that are written before MODEL_DEF, if present (facts 7.1).
const FIRST: [PartitionType; 4] =
    [PartitionType::SoBins, PartitionType::CustomOps, PartitionType::TilingData, PartitionType::ModelInoutInfo];
/// Partitions that the writer fills itself.
const OWN: [PartitionType; 5] = [
    PartitionType::ModelDef,
    PartitionType::WeightsData,
    PartitionType::TbeKernels,
    PartitionType::CustAicpuKernels,
    PartitionType::TaskInfo,
];

/// A piece of WEIGHTS_DATA; bytes between pieces are zero.
#[derive(Debug, Clone)]
pub struct WeightSegment {
    /// Byte offset in WEIGHTS_DATA; not less than the end of the previous segment.
    pub offset: u64,
    /// The bytes; with `Bytes::from_owner` they may be shared or mapped memory, without a copy.
    pub data: Bytes,
}

/// The content of one model of a file.
#[derive(Debug, Clone, Default)]
pub struct ModelParts {
    /// The graph. The writer sets the attributes [`ATTR_FORMAT_VERSION`] and [`ATTR_WEIGHTS_XXH3`].
    pub model_def: ir::ModelDef,
    /// Encoded operators that follow those of `model_def`, one entry for each graph.
    pub ops: Vec<Encoded>,
    /// WEIGHTS_DATA, by rising offset; if empty, there is no such partition.
    pub weights: Vec<WeightSegment>,
    /// TBE_KERNELS; if empty, there is no such partition.
    pub kernels: Vec<KernelRecord>,
    /// CUST_AICPU_KERNELS; if empty, there is no such partition.
    pub cust_aicpu_kernels: Vec<KernelRecord>,
    /// TASK_INFO; an empty `version` becomes `1`, because a partition must not be empty.
    pub tasks: task::ModelTaskDef,
    /// Encoded tasks that follow those of `tasks`.
    pub more_tasks: Encoded,
    /// Further partitions. Each type may occur once, FLOW_SUBMODEL any number of times; empty
    /// partitions are omitted.
    pub extra: Vec<(PartitionType, Bytes)>,
}

/// Result of writing a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteReport {
    /// Size of the file in bytes.
    pub file_len: u64,
    /// SHA-256 that was written to the header.
    pub checksum: String,
    /// For each model its partitions, with their ranges in the file.
    pub models: Vec<Vec<(PartitionType, Range<u64>)>>,
}

/// Collects the models of a file and writes it.
///
/// The same models give the same bytes.
#[derive(Debug, Clone, Default)]
pub struct OmWriter {
    header: Header,
    models: Vec<ModelParts>,
}

impl OmWriter {
    /// Makes a writer for a model of this name; the header keeps the first 32 bytes of the name.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let mut header = Header::default();
        header.set_name(name);
        Self { header, models: Vec::new() }
    }

    /// Adds a model; the root model must be added first.
    #[must_use]
    pub fn model(mut self, parts: ModelParts) -> Self {
        self.models.push(parts);
        self
    }

    /// Mutable access to the header, to set the free fields. Name, lengths, counts, mark and
    /// checksum are set when the file is written.
    pub fn header_mut(&mut self) -> &mut Header {
        &mut self.header
    }

    /// Marks the file as a model of unknown shapes.
    #[must_use]
    pub fn unknown_shapes(mut self) -> Self {
        self.header.is_unknow_model = 1;
        self
    }

    /// Writes a temporary file beside `path`, syncs it and renames it to `path`. Symbolic links are
    /// followed. If `path` is not a regular file (a pipe or a device), it is not replaced; the
    /// finished bytes are copied into it.
    ///
    /// # Errors
    /// Fails with [`OmError::Unwritable`] before anything is written, or with [`OmError::Write`]
    /// and `path` if the system fails. The temporary file is then removed, and an old file at
    /// `path` is unchanged.
    pub fn write_atomic(self, path: impl AsRef<Path>) -> Result<WriteReport, OmError> {
        let path = path.as_ref();
        self.check()?;
        let failed = |source| OmError::Write { path: path.to_path_buf(), source };
        let target = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let there = target.metadata().ok();
        if target.file_name().is_none() || there.as_ref().is_some_and(Metadata::is_dir) {
            return Err(failed(io::Error::from(io::ErrorKind::IsADirectory)));
        }
        if there.is_some_and(|metadata| !metadata.is_file()) {
            return self.copy_into(&target, path);
        }
        let folder = match target.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_path_buf(),
            _ => PathBuf::from("."),
        };
        let mut file = temporary_in(&folder, ".ge-om-").map_err(|error| failed(plain(error)))?;
        let report = self.write(file.as_file_mut(), path)?;
        file.as_file().sync_all().map_err(failed)?;
        file.persist(&target).map_err(|error| failed(error.error))?;
        // The file is complete and in place; failing to sync the folder does not make the write a
        // failure.
        let _ = File::open(&folder).and_then(|folder| folder.sync_all());
        Ok(report)
    }

    /// Writes to an unnamed temporary file and copies it to `target`.
    fn copy_into(self, target: &Path, path: &Path) -> Result<WriteReport, OmError> {
        let failed = |source| OmError::Write { path: path.to_path_buf(), source };
        let mut file = tempfile::tempfile().map_err(|error| failed(plain(error)))?;
        let report = self.write(&mut file, path)?;
        let mut to = OpenOptions::new().write(true).open(target).map_err(failed)?;
        file.seek(SeekFrom::Start(0)).map_err(failed)?;
        io::copy(&mut file, &mut to).map_err(failed)?;
        to.flush().map_err(failed)?;
        Ok(report)
    }

    /// Writes the whole file into memory, for tests and small models.
    ///
    /// # Errors
    /// Fails with [`OmError::Unwritable`], or with [`OmError::Write`] if memory cannot be written.
    pub fn to_vec(self) -> Result<Vec<u8>, OmError> {
        self.check()?;
        let mut file = io::Cursor::new(Vec::new());
        self.write(&mut file, Path::new("memory"))?;
        Ok(file.into_inner())
    }

    /// Refuses models that no file can hold, before anything is written.
    fn check(&self) -> Result<(), OmError> {
        if self.models.is_empty() {
            return Err(OmError::Unwritable { model: 0, problem: WriteProblem::NoModel });
        }
        for (model, parts) in self.models.iter().enumerate() {
            let unwritable = |problem| OmError::Unwritable { model, problem };
            let mut end = 0_u64;
            for (index, segment) in parts.weights.iter().enumerate() {
                let offset = segment.offset;
                if offset < end {
                    return Err(unwritable(WriteProblem::WeightOrder { index, offset, end }));
                }
                end = offset
                    .checked_add(segment.data.len() as u64)
                    .filter(|end| *end <= i64::MAX as u64)
                    .ok_or_else(|| unwritable(WriteProblem::TooLarge { what: "the weights", size: offset }))?;
            }
            for (at, (kind, _)) in parts.extra.iter().enumerate() {
                let again =
                    *kind != PartitionType::FlowSubmodel && parts.extra[..at].iter().any(|(other, _)| other == kind);
                if again || OWN.contains(kind) {
                    return Err(unwritable(WriteProblem::ReservedPartition { kind: *kind }));
                }
            }
            for record in parts.kernels.iter().chain(&parts.cust_aicpu_kernels) {
                kernel_store::encode_head(record, model)?;
            }
        }
        Ok(())
    }

    fn write<F: Write + io::Read + Seek>(self, file: &mut F, path: &Path) -> Result<WriteReport, OmError> {
        let failed = |source| OmError::Write { path: path.to_path_buf(), source };
        let Self { mut header, models } = self;
        header.set_mark(FORMAT_VERSION);
        header.checksum = [0; 64];
        header.model_num = u32::try_from(models.len()).map_err(|_| OmError::TooMany {
            what: "models",
            count: models.len() as u64,
            limit: u32::MAX.into(),
        })?;
        let mut out = Counted::new(BufWriter::with_capacity(PIECE, &mut *file));
        out.zeros(HEADER_LEN as u64).map_err(failed)?;
        let mut patches: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut report = WriteReport { file_len: 0, checksum: String::new(), models: Vec::new() };
        for (index, parts) in models.into_iter().enumerate() {
            let written = write_model(&mut out, index, parts, &mut patches, &failed)?;
            report.models.push(written);
        }
        report.file_len = out.written();
        out.into_inner().into_inner().map_err(|error| failed(error.into_error()))?;
        header.model_length = report.file_len - HEADER_LEN as u64;
        header.length = u32::try_from(header.model_length).unwrap_or(u32::MAX);
        patches.push((0, header.encode().to_vec()));
        put_patches(file, &patches).map_err(failed)?;
        let weights: Vec<Range<u64>> = report
            .models
            .iter()
            .flatten()
            .filter(|(kind, _)| *kind == PartitionType::WeightsData)
            .map(|(_, range)| range.clone())
            .collect();
        report.checksum = checksum::of_file(file, report.file_len, &weights).map_err(failed)?;
        header.checksum.copy_from_slice(report.checksum.as_bytes());
        put_patches(file, &[(0, header.encode().to_vec())]).map_err(failed)?;
        Ok(report)
    }
}

/// The system's error without the name of the temporary file, which means nothing to the user.
fn plain(error: io::Error) -> io::Error {
    let text = error.to_string();
    match text.split_once(" at path ") {
        Some((words, _)) => io::Error::new(error.kind(), words),
        None => error,
    }
}

fn put_patches<F: Write + Seek>(file: &mut F, patches: &[(u64, Vec<u8>)]) -> io::Result<()> {
    for (at, bytes) in patches {
        file.seek(SeekFrom::Start(*at))?;
        file.write_all(bytes)?;
    }
    file.flush()
}

/// Writes one model with a table of zeros; `patches` collects what must be filled in later.
fn write_model<W: Write>(
    out: &mut Counted<W>,
    model: usize,
    parts: ModelParts,
    patches: &mut Vec<(u64, Vec<u8>)>,
    failed: &dyn Fn(io::Error) -> OmError,
) -> Result<Vec<(PartitionType, Range<u64>)>, OmError> {
    let ModelParts { mut model_def, ops, weights, kernels, cust_aicpu_kernels, mut tasks, more_tasks, mut extra } =
        parts;
    extra.retain(|(_, bytes)| !bytes.is_empty());
    extra.sort_by_key(|(kind, _)| (FIRST.iter().position(|first| first == kind).unwrap_or(FIRST.len()), *kind));
    let split = extra.iter().position(|(kind, _)| !FIRST.contains(kind)).unwrap_or(extra.len());
    let last = extra.split_off(split);
    let weights_len = weights.last().map_or(0, |segment| segment.offset + segment.data.len() as u64);
    let present = [true, weights_len > 0, !kernels.is_empty(), !cust_aicpu_kernels.is_empty(), true];
    let count = extra.len() + present.iter().filter(|present| **present).count() + last.len();

    let table_at = out.written();
    let base = table_at + table::table_len(count);
    out.zeros(base - table_at).map_err(failed)?;
    let mut done: Vec<(PartitionType, Range<u64>)> = Vec::with_capacity(count);
    for (kind, bytes) in &extra {
        let start = out.written();
        out.put(bytes).map_err(failed)?;
        done.push((*kind, start..out.written()));
    }

    let digests = checksum::digests_len(weights_len).ok_or(OmError::Unwritable {
        model,
        problem: WriteProblem::TooLarge { what: "the weights", size: weights_len },
    })?;
    model_def.attr.remove(ATTR_WEIGHTS_XXH3);
    let format = ir::AttrDef { value: Some(ir::attr_def::Value::I(FORMAT_VERSION.into())) };
    model_def.attr.insert(ATTR_FORMAT_VERSION.to_string(), format);
    let start = out.written();
    let digests_at = stream::write_model_def(out, model_def, ops, ATTR_WEIGHTS_XXH3, digests).map_err(failed)?;
    done.push((PartitionType::ModelDef, start..out.written()));

    if weights_len > 0 {
        let gap = out.written().next_multiple_of(WEIGHTS_ALIGN) - out.written();
        out.zeros(gap).map_err(failed)?;
        let start = out.written();
        let digests = write_weights(out, &weights).map_err(failed)?;
        drop(weights);
        patches.push((digests_at, digests));
        done.push((PartitionType::WeightsData, start..out.written()));
    }
    for (kind, records) in [(PartitionType::TbeKernels, kernels), (PartitionType::CustAicpuKernels, cust_aicpu_kernels)]
    {
        let start = out.written();
        for record in &records {
            out.put(&kernel_store::encode_head(record, model)?).map_err(failed)?;
            out.put(&record.bin).map_err(failed)?;
        }
        if !records.is_empty() {
            done.push((kind, start..out.written()));
        }
    }
    if tasks.version.is_empty() {
        tasks.version = FORMAT_VERSION.to_string();
    }
    let start = out.written();
    stream::write_tasks(out, tasks, more_tasks).map_err(failed)?;
    done.push((PartitionType::TaskInfo, start..out.written()));
    for (kind, bytes) in &last {
        let start = out.written();
        out.put(bytes).map_err(failed)?;
        done.push((*kind, start..out.written()));
    }
    let rows: Vec<_> = done.iter().map(|(kind, range)| (*kind, range.start - base, range.end - range.start)).collect();
    patches.push((table_at, table::encode(&rows)?));
    Ok(done)
}

/// Writes the segments with zeros between them and returns their digests.
fn write_weights<W: Write>(out: &mut Counted<W>, weights: &[WeightSegment]) -> io::Result<Vec<u8>> {
    static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
    let mut hasher = WeightHasher::default();
    let mut at = 0;
    for segment in weights {
        while at < segment.offset {
            let now = (segment.offset - at).min(ZEROS.len() as u64);
            hasher.update(&ZEROS[..now as usize]);
            out.put(&ZEROS[..now as usize])?;
            at += now;
        }
        for piece in segment.data.chunks(PIECE) {
            hasher.update(piece);
            out.put(piece)?;
        }
        at += segment.data.len() as u64;
    }
    Ok(hasher.finish())
}
