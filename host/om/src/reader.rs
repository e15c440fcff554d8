//! `OmFile`: opens and checks an OM file and gives access to its models.

use std::ops::Range;
use std::path::Path;

use bytes::Bytes;

use crate::checksum::{self, CHUNK};
use crate::error::OmError;
use crate::guard::{self, Budget, Payload, UnknownField};
use crate::header::{HEADER_LEN, Header, ModelType, VERSION_1};
use crate::kernel_store::{self, KernelRecord};
use crate::map;
use crate::proto::{ir, task};
use crate::table::{self, Partition, PartitionType, Table, TableForm};
use crate::{ATTR_FORMAT_VERSION, ATTR_WEIGHTS_XXH3, FORMAT_VERSION, OWN_ATTR_PREFIX, WEIGHTS_ALIGN};

/// The largest accepted number of models in a file.
pub const MAX_MODELS: u32 = 65_536;

/// Who wrote a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// We did; its digests were verified.
    Ours {
        /// Version of the format inside the container.
        format_version: u32,
    },
    /// Another producer, such as the original `atc`. Such files are for inspection only; their
    /// digests are not verified.
    Foreign,
}

/// When the weights of our own files are compared with their digests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WeightCheck {
    /// While the file is opened, in parallel.
    #[default]
    AtOpen,
    /// When [`OmModel::verify_weights`] is called; for inspection, or to do it in parallel with
    /// other work.
    Later,
}

/// An open OM file.
#[derive(Debug, Clone)]
pub struct OmFile {
    header: Header,
    origin: Origin,
    file: Bytes,
    models: Vec<OmModel>,
}

/// One model of a file. Its bytes (weights, kernels, constants in attributes) are slices of the
/// mapped file.
#[derive(Debug, Clone)]
pub struct OmModel {
    index: usize,
    file: Bytes,
    partitions: Vec<Partition>,
    model_def: ir::ModelDef,
    tasks: task::ModelTaskDef,
    kernels: Vec<KernelRecord>,
    cust_aicpu_kernels: Vec<KernelRecord>,
    weights: Bytes,
    problems: Vec<String>,
}

impl OmFile {
    /// Maps and checks a file: bounds first, then the digests, then the payloads.
    ///
    /// # Errors
    /// Fails with [`OmError::Read`], or with the error found in the file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OmError> {
        Self::open_with(path, WeightCheck::AtOpen)
    }

    /// Like [`OmFile::open`], but lets the caller choose when the weights are checked.
    ///
    /// # Errors
    /// Fails as [`OmFile::open`] does.
    pub fn open_with(path: impl AsRef<Path>, weights: WeightCheck) -> Result<Self, OmError> {
        let path = path.as_ref();
        let file = map::map_file(path).map_err(|source| OmError::Read { path: path.to_path_buf(), source })?;
        Self::from_bytes_with(file, weights)
    }

    /// Like [`OmFile::open`], for bytes in memory.
    ///
    /// # Errors
    /// Fails with the error found in the bytes.
    pub fn from_bytes(file: impl Into<Bytes>) -> Result<Self, OmError> {
        Self::from_bytes_with(file.into(), WeightCheck::AtOpen)
    }

    fn from_bytes_with(file: Bytes, weights: WeightCheck) -> Result<Self, OmError> {
        let header = Header::decode(&file)?;
        let mark = header.mark();
        if let Some(Some(found)) = mark
            && found != FORMAT_VERSION
        {
            return Err(OmError::UnsupportedFormat { found, supported: FORMAT_VERSION });
        }
        let tables = tables(&file, &header)?;
        if mark.is_some() {
            check_own(&file, &header, &tables)?;
        }
        let mut models = Vec::with_capacity(tables.len());
        let mut budget = Budget::default();
        for (index, table) in tables.into_iter().enumerate() {
            models.push(OmModel::decode(&file, index, table, mark.is_some(), &mut budget)?);
        }
        let origin = match mark {
            Some(_) => {
                for model in &models {
                    model.check_own(weights)?;
                }
                Origin::Ours { format_version: FORMAT_VERSION }
            }
            None => {
                // Our attributes are present without our mark, so the mark was damaged.
                if let Some(model) = models.iter().find(|model| model.has_own_attributes()) {
                    return Err(OmError::Mark { model: model.index, attribute: ATTR_FORMAT_VERSION });
                }
                Origin::Foreign
            }
        };
        Ok(Self { header, origin, file, models })
    }

    /// The header of the file.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Who wrote the file.
    #[must_use]
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// The models, the root model first; at least one.
    #[must_use]
    pub fn models(&self) -> &[OmModel] {
        &self.models
    }

    /// Returns the models by value, so that they can be taken apart without a copy.
    #[must_use]
    pub fn into_models(self) -> Vec<OmModel> {
        self.models
    }

    /// All bytes of the file.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.file
    }
}

/// Reads the tables of all models.
fn tables(file: &[u8], header: &Header) -> Result<Vec<Table>, OmError> {
    let behind = (file.len() - HEADER_LEN) as u64;
    let announced = if header.version == VERSION_1 || header.model_length == 0 {
        header.length.into()
    } else {
        header.model_length
    };
    if announced > behind {
        let needed = announced.saturating_add(HEADER_LEN as u64);
        return Err(OmError::Truncated { what: "the file", needed, available: file.len() as u64 });
    }
    if header.is_encrypt != 0 && header.mark().is_none() {
        return Err(OmError::Encrypted);
    }
    if header.model_num > MAX_MODELS {
        let count = header.model_num.into();
        return Err(OmError::TooMany { what: "models", count, limit: MAX_MODELS.into() });
    }
    let first = if header.model_type == ModelType::Tiny { TableForm::Small } else { TableForm::Standard };
    let read = |form| -> Result<Vec<Table>, OmError> {
        let mut at = HEADER_LEN;
        let mut tables = Vec::new();
        for model in 0..header.model_num.max(1) as usize {
            let table = table::decode(file, at, model, form)?;
            at = table.end;
            tables.push(table);
        }
        Ok(tables)
    };
    match read(first) {
        // Files of old producers have the small form, whatever their type says.
        Err(error) if first == TableForm::Standard && header.mark().is_none() => match read(TableForm::Small) {
            Ok(tables) if tables.iter().all(Table::has_model) => Ok(tables),
            _ => Err(error),
        },
        result => result,
    }
}

impl Table {
    fn find(&self, kind: PartitionType) -> Option<Range<usize>> {
        self.entries.iter().find(|entry| entry.kind == kind).map(|entry| entry.range.clone())
    }

    fn has_model(&self) -> bool {
        self.find(PartitionType::ModelDef).is_some_and(|range| !range.is_empty())
    }
}

/// Checks what holds for our own files before their payloads are read.
fn check_own(file: &Bytes, header: &Header, tables: &[Table]) -> Result<(), OmError> {
    let announced = header.model_length.saturating_add(HEADER_LEN as u64);
    let end = tables.last().map_or(HEADER_LEN, |table| table.end) as u64;
    if announced != file.len() as u64 || end != announced {
        return Err(OmError::Length { file: file.len() as u64, announced: announced.min(end) });
    }
    let mut weights = Vec::new();
    for (model, table) in tables.iter().enumerate() {
        for (at, entry) in table.entries.iter().enumerate() {
            let kind = entry.kind;
            if kind != PartitionType::FlowSubmodel && table.entries[..at].iter().any(|other| other.kind == kind) {
                return Err(OmError::DuplicatePartition { model, kind });
            }
            if kind == PartitionType::WeightsData {
                let start = entry.range.start as u64;
                if !start.is_multiple_of(WEIGHTS_ALIGN) {
                    return Err(OmError::Misaligned { model, kind, start, align: WEIGHTS_ALIGN });
                }
                weights.push(entry.range.start as u64..entry.range.end as u64);
            }
        }
        for kind in [PartitionType::ModelDef, PartitionType::TaskInfo] {
            if table.find(kind).is_none() {
                return Err(OmError::MissingPartition { model, kind });
            }
        }
    }
    let found = checksum::of_bytes(file, &weights);
    if found.as_bytes() != header.checksum {
        return Err(OmError::ChecksumMismatch { found, expected: header.checksum() });
    }
    Ok(())
}

impl OmModel {
    fn decode(file: &Bytes, index: usize, table: Table, own: bool, budget: &mut Budget) -> Result<Self, OmError> {
        let slice = |kind| table.find(kind).map(|range| file.slice(range));
        let mut problems = Vec::new();
        // A foreign file may have parts in its own form; whatever can be read is shown.
        let mut tolerate = |error: OmError| {
            if own {
                return Err(error);
            }
            problems.push(error.to_string());
            Ok(())
        };
        let model_def = match slice(PartitionType::ModelDef) {
            Some(bytes) => decode_payload(bytes, Payload::ModelDef, PartitionType::ModelDef, index, budget)?,
            None => ir::ModelDef::default(),
        };
        let mut tasks = task::ModelTaskDef::default();
        if let Some(bytes) = slice(PartitionType::TaskInfo) {
            match decode_payload(bytes, Payload::TaskInfo, PartitionType::TaskInfo, index, budget) {
                Ok(decoded) => tasks = decoded,
                Err(error) => tolerate(error)?,
            }
        }
        let mut store = |kind| -> Result<Vec<KernelRecord>, OmError> {
            match slice(kind).map_or(Ok(Vec::new()), |bytes| kernel_store::decode(&bytes, index, kind)) {
                Ok(records) => Ok(records),
                Err(error) => tolerate(error).map(|()| Vec::new()),
            }
        };
        let kernels = store(PartitionType::TbeKernels)?;
        let cust_aicpu_kernels = store(PartitionType::CustAicpuKernels)?;
        let weights = slice(PartitionType::WeightsData).unwrap_or_default();
        let partitions = table.entries;
        let file = file.clone();
        Ok(Self { index, file, partitions, model_def, tasks, kernels, cust_aicpu_kernels, weights, problems })
    }

    fn has_own_attributes(&self) -> bool {
        self.model_def.attr.keys().any(|name| name.starts_with(OWN_ATTR_PREFIX))
    }

    /// Checks what holds for a model of our own files after decoding.
    fn check_own(&self, weights: WeightCheck) -> Result<(), OmError> {
        let format = self.model_def.attr.get(ATTR_FORMAT_VERSION).and_then(|attr| attr.value.as_ref());
        if format != Some(&ir::attr_def::Value::I(FORMAT_VERSION.into())) {
            return Err(OmError::Mark { model: self.index, attribute: ATTR_FORMAT_VERSION });
        }
        self.digests()?;
        match weights {
            WeightCheck::AtOpen => self.verify_weights(),
            WeightCheck::Later => Ok(()),
        }
    }

    fn digests(&self) -> Result<&[u8], OmError> {
        match self.model_def.attr.get(ATTR_WEIGHTS_XXH3).and_then(|attr| attr.value.as_ref()) {
            Some(ir::attr_def::Value::Bt(digests))
                if Some(digests.len()) == checksum::digests_len(self.weights.len() as u64) =>
            {
                Ok(digests)
            }
            _ => Err(OmError::Mark { model: self.index, attribute: ATTR_WEIGHTS_XXH3 }),
        }
    }

    /// Compares the weights with their digests, in parallel, reading each byte once.
    /// [`OmFile::open`] has already done this.
    ///
    /// # Errors
    /// Fails with [`OmError::WeightsMismatch`] for the first damaged chunk, or with
    /// [`OmError::Mark`] if the model has no digests, as in a foreign file.
    pub fn verify_weights(&self) -> Result<(), OmError> {
        let Some(chunk) = checksum::first_bad_chunk(&self.weights, self.digests()?) else {
            return Ok(());
        };
        let start = chunk as u64 * CHUNK as u64;
        let end = (start + CHUNK as u64).min(self.weights.len() as u64);
        Err(OmError::WeightsMismatch { model: self.index, start, end })
    }

    /// The graph; empty if the model has no MODEL_DEF (a flow).
    #[must_use]
    pub fn model_def(&self) -> &ir::ModelDef {
        &self.model_def
    }

    /// The tasks; empty if the model has no TASK_INFO.
    #[must_use]
    pub fn task_info(&self) -> &task::ModelTaskDef {
        &self.tasks
    }

    /// Moves the graph and the tasks out of the model without a copy.
    #[must_use]
    pub fn take_messages(&mut self) -> (ir::ModelDef, task::ModelTaskDef) {
        (std::mem::take(&mut self.model_def), std::mem::take(&mut self.tasks))
    }

    /// Kernels of the partition TBE_KERNELS.
    #[must_use]
    pub fn kernels(&self) -> &[KernelRecord] {
        &self.kernels
    }

    /// Kernels of the partition CUST_AICPU_KERNELS.
    #[must_use]
    pub fn cust_aicpu_kernels(&self) -> &[KernelRecord] {
        &self.cust_aicpu_kernels
    }

    /// WEIGHTS_DATA, mapped; in our files its position is a multiple of [`WEIGHTS_ALIGN`]. A clone
    /// shares the mapping.
    #[must_use]
    pub fn weights(&self) -> &Bytes {
        &self.weights
    }

    /// The partitions, in the order of the table.
    #[must_use]
    pub fn partitions(&self) -> &[Partition] {
        &self.partitions
    }

    /// The bytes of the first partition of a type; `None` if there is none.
    #[must_use]
    pub fn partition(&self, kind: PartitionType) -> Option<Bytes> {
        self.partitions_of(kind).next()
    }

    /// The bytes of all partitions of a type. A FLOW_SUBMODEL is itself a complete file for
    /// [`OmFile::from_bytes`].
    pub fn partitions_of(&self, kind: PartitionType) -> impl Iterator<Item = Bytes> + '_ {
        let entries = self.partitions.iter().filter(move |entry| entry.kind == kind);
        entries.map(|entry| self.file.slice(entry.range.clone()))
    }

    /// Describes the parts of a foreign file that could not be read; always empty for our files.
    #[must_use]
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Fields of MODEL_DEF and TASK_INFO that are not in our schema, at most `limit` for each, with
    /// the range of their bytes in the partition.
    #[must_use]
    pub fn unknown_fields(&self, limit: usize) -> Vec<(PartitionType, UnknownField)> {
        let mut found = Vec::new();
        for (kind, payload) in
            [(PartitionType::ModelDef, Payload::ModelDef), (PartitionType::TaskInfo, Payload::TaskInfo)]
        {
            let bytes = self.partition(kind).unwrap_or_default();
            // `problems` already reports a damaged payload.
            let fields = guard::unknown_fields(&bytes, payload, limit).unwrap_or_default();
            found.extend(fields.into_iter().map(|field| (kind, field)));
        }
        found
    }
}

/// Checks and decodes a payload; `bytes` fields of the result are slices of the input.
fn decode_payload<M: prost::Message + Default>(
    bytes: Bytes,
    payload: Payload,
    kind: PartitionType,
    model: usize,
    budget: &mut Budget,
) -> Result<M, OmError> {
    guard::check(&bytes, payload, budget).map_err(|problem| OmError::Payload { model, kind, problem })?;
    M::decode(bytes).map_err(|source| OmError::Decode { model, kind, source })
}

/// Recomputes the checksum of a modified file, so that tests and fuzzers get past it.
///
/// # Errors
/// Fails if the header or the tables are incomplete.
pub fn reseal(file: &mut [u8]) -> Result<(), OmError> {
    let mut header = Header::decode(file)?;
    let weights: Vec<Range<u64>> = tables(file, &header)?
        .iter()
        .flat_map(|table| &table.entries)
        .filter(|entry| entry.kind == PartitionType::WeightsData)
        .map(|entry| entry.range.start as u64..entry.range.end as u64)
        .collect();
    header.checksum.copy_from_slice(checksum::of_bytes(file, &weights).as_bytes());
    file[..HEADER_LEN].copy_from_slice(&header.encode());
    Ok(())
}
