//! `ge plan memory`: reads a CSV of buffers (`id,lower,upper,size`, optionally `.gz`) and writes a
//! CSV with offsets. Format: DESIGN 4, `planning/README.md`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

use super::{AssignError, AssignOptions, Block, Buffer, MemoryEffort, Plan, Watch, assign, peak_holders};

/// Greatest unpacked size of a file in bytes.
const MOST_BYTES: u64 = 1 << 30;
/// Greatest number of buffers in a file.
const MOST_BUFFERS: usize = 10_000_000;
/// Greatest length of a line in bytes.
const LONGEST_LINE: u64 = 4096;
/// Number of live buffers at the peak that an error lists.
const LISTED_HOLDERS: usize = 10;

/// Options for planning a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanMemoryOptions {
    /// How much effort to spend; the command's default is [`MemoryEffort::Max`].
    pub effort: MemoryEffort,
    /// Size in bytes that the plan must fit into; `None`: no limit.
    pub capacity: Option<u64>,
}

impl Default for PlanMemoryOptions {
    fn default() -> Self {
        Self { effort: MemoryEffort::Max, capacity: None }
    }
}

/// The result of planning a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanMemoryReport {
    /// Number of buffers in the file.
    pub buffers: usize,
    /// Size in bytes that the plan needs.
    pub arena: u64,
    /// Greatest live sum in bytes.
    pub lower_bound: u64,
    /// Name of the assigner that made the plan.
    pub assigner: &'static str,
}

/// A buffer that is live at the peak, for the error about what does not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Its `id` in the file.
    pub id: String,
    /// Its size in bytes.
    pub size: u64,
}

/// Errors of planning a file. Lines and columns count from 1; a column is a field of the line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanFileError {
    /// The input cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The output cannot be written; an older file of that name is unchanged.
    #[error("{}: {source}", path.display())]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The input does not have the expected format.
    #[error("{}:{line}:{column}: expected {expected}, found {found}", path.display())]
    Form {
        /// Path of the file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Field of the line, from 1.
        column: usize,
        /// What was expected there.
        expected: String,
        /// What was found there.
        found: String,
    },
    /// The input exceeds a limit of the reader.
    #[error("{}: more than {limit} {what}", path.display())]
    Limit {
        /// Path of the file.
        path: PathBuf,
        /// What there is too much of.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// No plan within the capacity was found, and nothing was written.
    #[error("{}", does_not_fit(*arena, *capacity, *lower_bound, holders, *more_holders))]
    Capacity {
        /// Size in bytes of the smallest arena found.
        arena: u64,
        /// The capacity in bytes.
        capacity: u64,
        /// Greatest live sum in bytes; if it exceeds the capacity, no plan can fit.
        lower_bound: u64,
        /// The buffers that are live at the peak, largest first; at most ten.
        holders: Vec<Holder>,
        /// Number of further buffers that are live then.
        more_holders: usize,
    },
    /// The sizes add up to more than the planner can compute with.
    #[error("{}: the sizes up to buffer {id} add up to more than 2^63 bytes", path.display())]
    Sum {
        /// Path of the file.
        path: PathBuf,
        /// The `id` in the file of the first buffer at which the sum is too large.
        id: String,
    },
    /// The planner rejected the buffers or was cancelled.
    #[error(transparent)]
    Assign(#[from] AssignError),
}

fn does_not_fit(arena: u64, capacity: u64, lower_bound: u64, holders: &[Holder], more: usize) -> String {
    use std::fmt::Write as _;
    let mut text = format!("the smallest plan found needs {arena} bytes, the capacity is {capacity}");
    if lower_bound > capacity {
        let _ = write!(text, "; {lower_bound} bytes live at once, so that no plan fits");
    }
    text.push_str("; alive at the peak:");
    for Holder { id, size } in holders {
        let _ = write!(text, " {id} ({size})");
    }
    if more > 0 {
        let _ = write!(text, " and {more} more");
    }
    text
}

/// The buffers of a file, with their ids as written there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BufferFile {
    /// The `id` column of each buffer.
    pub ids: Vec<String>,
    /// The buffers; [`Buffer::id`] is the index in the file.
    pub buffers: Vec<Buffer>,
}

/// Plans the buffers of `input` and writes the result to `output`. A name that ends in `.gz` means
/// a compressed file. The output is written to a temporary file beside `output`, which is then
/// renamed.
///
/// # Errors
/// Fails with a [`PlanFileError`]; `output` is then unchanged.
pub fn plan_memory_file(
    input: &Path,
    output: &Path,
    options: &PlanMemoryOptions,
    progress: &(dyn Fn(u64, u64) + Sync),
    cancel: &(dyn Fn() -> bool + Sync),
) -> Result<PlanMemoryReport, PlanFileError> {
    let file = read_buffer_file(input)?;
    let assign_options = AssignOptions { effort: options.effort, capacity: options.capacity, memory_priority: false };
    let plan = assign(&file.buffers, &assign_options, &Watch { progress, cancel }).map_err(|e| match e {
        AssignError::TooLarge { id } => {
            let id = usize::try_from(id).ok().and_then(|k| file.ids.get(k)).cloned().unwrap_or_default();
            PlanFileError::Sum { path: input.to_owned(), id }
        }
        other => other.into(),
    })?;
    if let Some(capacity) = options.capacity.filter(|&capacity| plan.arena > capacity) {
        return Err(capacity_error(&file, &plan, capacity)?);
    }
    write_plan_file(output, &file, &plan.offsets)?;
    Ok(PlanMemoryReport {
        buffers: file.buffers.len(),
        arena: plan.arena,
        lower_bound: plan.lower_bound,
        assigner: plan.assigner,
    })
}

fn capacity_error(file: &BufferFile, plan: &Plan, capacity: u64) -> Result<PlanFileError, AssignError> {
    let blocks: Vec<Block> = file.buffers.iter().map(Block::from).collect();
    let all = peak_holders(&blocks)?;
    let named = all.iter().take(LISTED_HOLDERS);
    let holders = named.map(|holder| Holder { id: file.ids[holder.index].clone(), size: holder.size });
    Ok(PlanFileError::Capacity {
        arena: plan.arena,
        capacity,
        lower_bound: plan.lower_bound,
        holders: holders.collect(),
        more_holders: all.len().saturating_sub(LISTED_HOLDERS),
    })
}

fn packed(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gz"))
}

/// Reads `id,lower,upper,size`. The columns may be in any order, and others are ignored.
///
/// # Errors
/// Fails with [`PlanFileError::Read`], [`PlanFileError::Form`] or [`PlanFileError::Limit`].
pub fn read_buffer_file(path: &Path) -> Result<BufferFile, PlanFileError> {
    let read = |source| PlanFileError::Read { path: path.to_owned(), source };
    let file = File::open(path).map_err(read)?;
    let plain: Box<dyn Read> =
        if packed(path) { Box::new(MultiGzDecoder::new(BufReader::new(file))) } else { Box::new(file) };
    let mut lines = BufReader::with_capacity(1 << 16, plain.take(MOST_BYTES + 1));
    let mut reader = LineReader { path, line: 0, text: String::new(), bytes: 0 };
    if !reader.next(&mut lines)? {
        return Err(reader.form(1, "the columns id,lower,upper,size", "an empty file"));
    }
    let columns = reader.columns()?;
    let mut found = BufferFile::default();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    while reader.next(&mut lines)? {
        if reader.text.trim().is_empty() {
            continue;
        }
        if found.ids.len() == MOST_BUFFERS {
            let limit = u64::try_from(MOST_BUFFERS).unwrap_or(u64::MAX);
            return Err(PlanFileError::Limit { path: path.to_owned(), what: "buffers", limit });
        }
        let (id, buffer) = reader.buffer(&columns, found.ids.len())?;
        if let Some(&earlier) = seen.get(&id) {
            let found = format!("'{id}' again (first in line {earlier})");
            return Err(reader.form(columns.id + 1, "an id of its own", &found));
        }
        seen.insert(id.clone(), reader.line);
        found.ids.push(id);
        found.buffers.push(buffer);
    }
    Ok(found)
}

/// Index of each column in a line, from 0.
struct Columns {
    id: usize,
    lower: usize,
    upper: usize,
    size: usize,
    count: usize,
}

struct LineReader<'a> {
    path: &'a Path,
    line: usize,
    text: String,
    bytes: u64,
}

impl LineReader<'_> {
    fn form(&self, column: usize, expected: &str, found: &str) -> PlanFileError {
        PlanFileError::Form {
            path: self.path.to_owned(),
            line: self.line.max(1),
            column,
            expected: expected.to_owned(),
            found: found.to_owned(),
        }
    }

    fn next(&mut self, lines: &mut impl BufRead) -> Result<bool, PlanFileError> {
        self.text.clear();
        let mut raw = Vec::new();
        let count = lines.by_ref().take(LONGEST_LINE + 1).read_until(b'\n', &mut raw);
        let count = count.map_err(|source| PlanFileError::Read { path: self.path.to_owned(), source })?;
        if count == 0 {
            return Ok(false);
        }
        self.line += 1;
        self.bytes += u64::try_from(count).unwrap_or(u64::MAX);
        if self.bytes > MOST_BYTES {
            return Err(PlanFileError::Limit { path: self.path.to_owned(), what: "bytes", limit: MOST_BYTES });
        }
        if u64::try_from(count).is_ok_and(|count| count > LONGEST_LINE) {
            return Err(self.form(1, &format!("a line of at most {LONGEST_LINE} bytes"), "a longer one"));
        }
        match std::str::from_utf8(&raw) {
            Ok(text) => {
                let text = text.trim_end_matches(['\n', '\r']);
                let text = if self.line == 1 { text.trim_start_matches('\u{feff}') } else { text };
                self.text.push_str(text);
                Ok(true)
            }
            Err(_) => Err(self.form(1, "text in UTF-8", "other bytes")),
        }
    }

    fn columns(&self) -> Result<Columns, PlanFileError> {
        let names: Vec<&str> = self.text.split(',').map(str::trim).collect();
        let place = |name: &str| {
            let mut places = (0..names.len()).filter(|&at| names[at] == name);
            match (places.next(), places.next()) {
                (Some(at), None) => Ok(at),
                (Some(_), Some(again)) => Err(self.form(again + 1, &format!("one column '{name}'"), "two")),
                _ => {
                    let found: String = self.text.chars().take(60).collect();
                    Err(self.form(1, &format!("a column '{name}'"), &format!("the columns '{found}'")))
                }
            }
        };
        Ok(Columns {
            id: place("id")?,
            lower: place("lower")?,
            upper: place("upper")?,
            size: place("size")?,
            count: names.len(),
        })
    }

    fn buffer(&self, columns: &Columns, at: usize) -> Result<(String, Buffer), PlanFileError> {
        let fields: Vec<&str> = self.text.split(',').map(str::trim).collect();
        if fields.len() != columns.count {
            let expected = format!("{} fields", columns.count);
            return Err(self.form(fields.len().min(columns.count), &expected, &fields.len().to_string()));
        }
        let id = fields[columns.id];
        if id.is_empty() {
            return Err(self.form(columns.id + 1, "an id", "nothing"));
        }
        let lower = self.number(fields[columns.lower], columns.lower, "lower")?;
        let upper = self.number(fields[columns.upper], columns.upper, "upper")?;
        let size = self.number(fields[columns.size], columns.size, "size")?;
        if upper <= lower {
            let expected = format!("an upper above lower ({lower})");
            return Err(self.form(columns.upper + 1, &expected, &upper.to_string()));
        }
        let id_number = u64::try_from(at).unwrap_or(u64::MAX);
        Ok((id.to_owned(), Buffer { id: id_number, lower, upper, size, align: 1 }))
    }

    fn number(&self, text: &str, column: usize, name: &str) -> Result<u64, PlanFileError> {
        let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let value = if plain { text.parse().ok() } else { None };
        value.filter(|&value: &u64| i64::try_from(value).is_ok()).ok_or_else(|| {
            let found: String = text.chars().take(40).collect();
            let expected = format!("a whole number from 0 to {} for '{name}'", i64::MAX);
            self.form(column + 1, &expected, &format!("'{found}'"))
        })
    }
}

/// Writes `id,lower,upper,size,offset`, one line for each buffer in the order of the file.
///
/// # Errors
/// Fails with [`PlanFileError::Write`]; an existing file is then unchanged.
pub fn write_plan_file(path: &Path, file: &BufferFile, offsets: &[u64]) -> Result<(), PlanFileError> {
    write_atomically(path, file, offsets).map_err(|source| PlanFileError::Write { path: path.to_owned(), source })
}

fn write_atomically(path: &Path, file: &BufferFile, offsets: &[u64]) -> std::io::Result<()> {
    let name = path.file_name().ok_or_else(|| std::io::Error::other("not the name of a file"))?;
    let mut beside = std::ffi::OsString::from(".");
    beside.push(name);
    beside.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(beside);
    let written = (|| {
        let raw = File::options().write(true).create_new(true).open(&temporary)?;
        if packed(path) {
            let mut encoder = GzEncoder::new(BufWriter::new(&raw), Compression::default());
            write_lines(&mut encoder, file, offsets)?;
            encoder.finish()?.flush()?;
        } else {
            let mut writer = BufWriter::new(&raw);
            write_lines(&mut writer, file, offsets)?;
            writer.flush()?;
        }
        raw.sync_all()?;
        std::fs::rename(&temporary, path)
    })();
    if written.is_err() {
        // Report the error of the write, not one of the removal.
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

fn write_lines(to: &mut impl Write, file: &BufferFile, offsets: &[u64]) -> std::io::Result<()> {
    writeln!(to, "id,lower,upper,size,offset")?;
    for ((id, buffer), offset) in file.ids.iter().zip(&file.buffers).zip(offsets) {
        let Buffer { lower, upper, size, .. } = buffer;
        writeln!(to, "{id},{lower},{upper},{size},{offset}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{PlanFileError, PlanMemoryOptions, plan_memory_file, read_buffer_file};
    use std::path::Path;

    fn file(text: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("in.csv");
        std::fs::write(&path, text).expect("write");
        (folder, path)
    }

    fn message(text: &str) -> String {
        let (_folder, path) = file(text);
        let error = read_buffer_file(&path).expect_err("refused").to_string();
        error.split_once("in.csv").expect("names the file").1.to_owned()
    }

    fn run(input: &Path, output: &Path, capacity: Option<u64>) -> Result<u64, PlanFileError> {
        let options = PlanMemoryOptions { capacity, ..PlanMemoryOptions::default() };
        plan_memory_file(input, output, &options, &|_, _| {}, &|| false).map(|report| report.arena)
    }

    #[test]
    fn errors_name_line_column_and_what_was_expected() {
        let head = "id,lower,upper,size\n";
        let number = "expected a whole number from 0 to 9223372036854775807 for";
        assert_eq!(message(""), ":1:1: expected the columns id,lower,upper,size, found an empty file");
        assert_eq!(message("id,lower,size\n"), ":1:1: expected a column 'upper', found the columns 'id,lower,size'");
        assert_eq!(message(&format!("{head}a,0,-1,5\n")), format!(":2:3: {number} 'upper', found '-1'"));
        assert_eq!(
            message(&format!("{head}a,0,1,9223372036854775808\n")),
            format!(":2:4: {number} 'size', found '9223372036854775808'")
        );
        assert_eq!(message(&format!("{head}a,4,4,5\n")), ":2:3: expected an upper above lower (4), found 4");
        assert_eq!(message(&format!("{head}a,0,4\n")), ":2:3: expected 4 fields, found 3");
        assert_eq!(
            message(&format!("{head}a,0,4,1\n\na,1,2,3\n")),
            ":4:1: expected an id of its own, found 'a' again (first in line 2)"
        );
        assert_eq!(message(&format!("{head},0,4,1\n")), ":2:1: expected an id, found nothing");
    }

    #[test]
    fn columns_stand_in_any_order_and_both_sides_may_be_packed() {
        let (folder, path) = file("size,id,upper,lower\n8,x,2,0\n4,y,3,1\n");
        let out = folder.path().join("out.csv.gz");
        assert_eq!(run(&path, &out, None).expect("plan"), 12);
        let again = read_buffer_file(&out).expect("reads its own");
        assert_eq!(again.ids, ["x", "y"]);
        assert_eq!(again, read_buffer_file(&path).expect("input"));
    }

    #[test]
    fn a_plan_over_capacity_names_the_holders_and_writes_nothing() {
        let (folder, path) = file("id,lower,upper,size\nbig,0,2,800\nmid,1,3,60\nlow,2,4,7\n");
        let out = folder.path().join("out.csv");
        let error = run(&path, &out, Some(859)).expect_err("does not fit").to_string();
        assert_eq!(
            error,
            "the smallest plan found needs 860 bytes, the capacity is 859; 860 bytes live at once, so that no plan fits; alive at the peak: big (800) mid (60)"
        );
        assert_eq!(std::fs::read_dir(folder.path()).expect("folder").count(), 1);
        assert_eq!(run(&path, &out, Some(860)).expect("fits"), 860);
    }

    #[test]
    fn a_cancelled_run_leaves_the_old_file() {
        let (folder, path) = file("id,lower,upper,size\na,0,2,8\n");
        let out = folder.path().join("out.csv");
        std::fs::write(&out, "old").expect("write");
        let error = plan_memory_file(&path, &out, &PlanMemoryOptions::default(), &|_, _| {}, &|| true);
        assert!(matches!(error, Err(PlanFileError::Assign(_))));
        assert_eq!(std::fs::read_to_string(&out).expect("old"), "old");
    }
}
