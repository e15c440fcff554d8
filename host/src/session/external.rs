//! Weights in files beside the OM (`ge.externalWeight`, DESIGN 5): either one
//! `weight/weight_<sha256>` per distinct weight, which models in the same folder share, or
//! `weight/<om>_weight_combined`, by the whole name of the OM. Each file is checked by its digest:
//! a changed file is an error, and a missing file is named.
use super::import;
use crate::{Diagnostic, Result};
use bytes::Bytes;
use ge_model::{CompiledModel, ExternalWeight};
use rayon::prelude::*;
use sha2::{Digest, Sha256};
use std::path::{Component, Path, PathBuf};

/// Name of the folder beside the OM.
const FOLDER: &str = "weight";

/// Where weights are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Inside the OM.
    Inside,
    /// In one file per weight.
    Each,
    /// In one file for all weights.
    Combined,
}

impl Mode {
    /// The mode that the option's value selects.
    pub fn of(option: &str) -> Mode {
        match option {
            "1" => Mode::Each,
            "2" => Mode::Combined,
            _ => Mode::Inside,
        }
    }
}

/// Writes the weights of a model whose OM will be at `om`; `part` is the name of the model's part,
/// if any. Returns the parts in ascending order; empty for [`Mode::Inside`].
///
/// # Errors
/// Fails if a file cannot be written.
pub fn write(m: &CompiledModel, om: &Path, mode: Mode, part: &str) -> Result<Vec<ExternalWeight>> {
    if mode == Mode::Inside || m.weights.is_empty() {
        return Ok(Vec::new());
    }
    let folder = folder_of(om).join(FOLDER);
    std::fs::create_dir_all(&folder).map_err(|e| unwritten(&folder, &e))?;
    if mode == Mode::Combined {
        let name = combined(om, part);
        let mut file = ge_om::temporary_in(&folder, ".ge-weights-").map_err(|e| unwritten(&folder, &e))?;
        let mut sha = Sha256::new();
        let mut at = 0u64;
        let mut put = |bytes: &[u8]| {
            sha.update(bytes);
            std::io::Write::write_all(&mut file, bytes).map_err(|e| unwritten(&folder.join(&name), &e))
        };
        for (offset, data) in &m.weights {
            put(&vec![0; (offset - at) as usize])?;
            put(data)?;
            at = offset + data.len() as u64;
        }
        put(&vec![0; m.memory.weights.saturating_sub(at) as usize])?;
        let to = folder.join(&name);
        file.as_file().sync_all().map_err(|e| unwritten(&to, &e))?;
        file.persist(&to).map_err(|e| unwritten(&to, &e.error))?;
        let bytes = m.memory.weights.max(at);
        return Ok(vec![ExternalWeight { file: format!("{FOLDER}/{name}"), offset: 0, bytes, sha256: hex(sha) }]);
    }
    let digests: Vec<String> = m.weights.par_iter().map(|(_, b)| digest(b)).collect();
    let mut parts = Vec::with_capacity(m.weights.len());
    for ((offset, data), sha256) in m.weights.iter().zip(digests) {
        let name = format!("weight_{sha256}");
        let to = folder.join(&name);
        // The name is the digest of the content, so an existing intact file is shared.
        let there = ge_om::map_file(&to).is_ok_and(|b| b.len() == data.len() && digest(&b) == sha256);
        if !there {
            crate::files::write_atomic(&to, data)?;
        }
        let bytes = data.len() as u64;
        parts.push(ExternalWeight { file: format!("{FOLDER}/{name}"), offset: *offset, bytes, sha256 });
    }
    Ok(parts)
}

/// Name of the file for all weights: by the whole name of the OM, so that two files of a folder
/// (`m.om`, `m.bin`) never share one.
fn combined(om: &Path, part: &str) -> String {
    let name = om.file_name().map_or_else(|| "model".into(), |n| n.to_string_lossy());
    let part = if part.is_empty() { String::new() } else { format!("_{part}") };
    format!("{name}{part}_weight_combined")
}

/// Fetches the external weights of a model that was read from `om`: a single file is mapped,
/// several are joined.
///
/// # Errors
/// Fails if a file is missing (exit 2) or is not the one that was written (exit 4).
pub fn fetch(m: &mut CompiledModel, om: &Path) -> Result<()> {
    if m.external.is_empty() {
        return Ok(());
    }
    let home = folder_of(om);
    let files: Vec<Bytes> = m.external.par_iter().map(|e| one(e, &home)).collect::<Result<_>>()?;
    if let ([only], [part]) = (files.as_slice(), m.external.as_slice()) {
        if part.offset == 0 && part.bytes == m.memory.weights {
            m.weights = vec![(0, only.clone())];
            return Ok(());
        }
    }
    let parts = m.external.iter().map(|e| e.offset).zip(files);
    m.weights = vec![(0, super::weights::join(m.memory.weights, parts)?)];
    Ok(())
}

fn one(e: &ExternalWeight, home: &Path) -> Result<Bytes> {
    let relative = Path::new(&e.file);
    let damaged = |why: String| {
        Diagnostic::error(format!("the weights in `{}` {why}", home.join(relative).display()))
            .help("compile the model again, or put the file back that was written with it")
            .raise(ge_codes::WEIGHTS_CHANGED)
    };
    if !relative.components().all(|c| matches!(c, Component::Normal(_))) {
        return Err(damaged("are not beside the OM".into()));
    }
    let path = home.join(relative);
    let bytes = import::map(&path).map_err(|_| {
        Diagnostic::error(format!("the OM keeps weights in `{}`, which cannot be read", path.display()))
            .help("copy the folder `weight` along with the OM")
            .raise(ge_codes::WEIGHTS_MISSING)
    })?;
    if bytes.len() as u64 != e.bytes {
        return Err(damaged(format!("have {} bytes, the OM was written with {}", bytes.len(), e.bytes)));
    }
    if digest(&bytes) != e.sha256 {
        return Err(damaged("are not those that the OM was written with".into()));
    }
    Ok(Bytes::from_owner(bytes))
}

fn folder_of(om: &Path) -> PathBuf {
    om.parent().filter(|p| !p.as_os_str().is_empty()).map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}
fn unwritten(path: &Path, e: &std::io::Error) -> crate::Error {
    Diagnostic::error(format!("cannot write `{}`: {e}", path.display())).raise(ge_codes::UNWRITABLE)
}
fn digest(bytes: &[u8]) -> String {
    let mut sha = Sha256::new();
    sha.update(bytes);
    hex(sha)
}
fn hex(sha: Sha256) -> String {
    sha.finalize().iter().map(|b| format!("{b:02x}")).collect()
}
