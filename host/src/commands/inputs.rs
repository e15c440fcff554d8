//! Inputs and devices of the commands that run a model: the flags that they share, and what these give.
use crate::session::model::{fixed_value, random_inputs, range_of};
use crate::{Diagnostic, Error, ErrorKind, Result};
use clap::Args;
use ge_model::CompiledModel;
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::DType;
use std::path::{Path, PathBuf};

/// Where inputs come from.
#[derive(Args, Clone, Debug, Default)]
pub struct InputFlags {
    /// Folder with input_0.npy, input_1.npy … in graph-input order
    #[arg(long = "inputs", value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// One input by name
    #[arg(long = "input", value_name = "NAME=FILE.npy")]
    pub named: Vec<String>,
    /// Random inputs of a seed
    #[arg(long, value_name = "SEED", conflicts_with_all = ["dir", "named"])]
    pub random: Option<u64>,
}

/// What a model runs on.
#[derive(Args, Clone, Debug, Default)]
pub struct DeviceFlags {
    /// Device, with its number
    #[arg(long, value_name = "NAME[:ID]")]
    pub device: Option<String>,
    /// An option of the device
    #[arg(long, value_name = "K=V")]
    pub device_option: Vec<String>,
}

/// A device by name, with its number.
pub type Named = Option<(String, u32)>;

impl DeviceFlags {
    /// The device, and its options by name.
    pub fn parse(&self) -> Result<(Named, Vec<(String, String)>)> {
        let device = match self.device.as_deref() {
            None => None,
            Some(d) => Some(match d.split_once(':') {
                None => (d.to_owned(), 0),
                Some((n, id)) => (
                    n.to_owned(),
                    id.parse().map_err(|_| Error::usage(format!("`--device {d}`: expected NAME or NAME:NUMBER")))?,
                ),
            }),
        };
        let mut options = Vec::new();
        for o in &self.device_option {
            let (k, v) =
                o.split_once('=').ok_or_else(|| Error::usage(format!("`--device-option {o}`: expected NAME=VALUE")))?;
            options.push((k.to_owned(), v.to_owned()));
        }
        Ok((device, options))
    }
}

impl InputFlags {
    /// The files, if any are named.
    pub fn given(&self) -> Option<Given<'_>> {
        Some(Given { dir: self.dir.as_deref(), named: &self.named }).filter(Given::any)
    }
    /// A failed run on random inputs: which whole numbers were made up without a range, and how to give them.
    pub fn made_up(&self, m: &CompiledModel, e: Error) -> Error {
        let unknown = |i: &&ge_model::IoInfo| i.desc.dtype.is_int() && range_of(m, &i.name).is_none();
        let list: Vec<&ge_model::IoInfo> = m.inputs.iter().filter(unknown).collect();
        if self.random.is_none() || e.kind != ErrorKind::FAILED || list.is_empty() {
            return e;
        }
        let named: Vec<String> =
            list.iter().map(|i| format!("`{}` {}{}", i.name, i.desc.dtype, i.desc.shape)).collect();
        let flags: Vec<String> = list.iter().map(|i| format!("--input {}=FILE.npy", i.name)).collect();
        e.with(|mut d| {
            d.help = format!("give the right numbers: {} (and the other inputs)", flags.join(" ")).into();
            d.note(format!(
                "`--random` made up whole numbers from 0 to 3 whose range the model does not tell: {}",
                named.join(", ")
            ))
        })
    }
    /// Inputs of a rank.
    pub fn tensors(&self, m: &CompiledModel, rank: u32, ranks: u32) -> Result<Vec<HostTensor>> {
        if let Some(seed) = self.random {
            return random_inputs(m, seed.wrapping_add(u64::from(rank)));
        }
        let dir = self.dir.as_ref().map(|d| rank_dir(d, rank, ranks));
        gather(m, dir.as_deref(), &self.named)
    }
}

/// The folder of a rank.
pub fn rank_dir(dir: &Path, rank: u32, ranks: u32) -> PathBuf {
    if ranks == 1 { dir.to_path_buf() } else { dir.join(format!("rank{rank}")) }
}

/// Inputs as files.
#[derive(Clone, Copy)]
pub struct Given<'a> {
    /// Folder with `input_0.npy` ….
    pub dir: Option<&'a Path>,
    /// `NAME=FILE.npy`, before those of the folder.
    pub named: &'a [String],
}

/// A tensor of a `.npy` file, as this type.
pub fn read_npy(path: &Path, want: DType) -> Result<HostTensor> {
    let shown = path.display().to_string();
    let bytes = std::fs::read(path)
        .map_err(|e| Diagnostic::error(format!("cannot read `{shown}`: {e}")).code("GE-E0305").of(ErrorKind::USAGE))?;
    ge_runtime::npy::read(&bytes, want).map_err(|e| {
        let kind = if e.damaged { ErrorKind::DAMAGED } else { ErrorKind::USAGE };
        Diagnostic::error(format!("`{shown}`: {e}")).code("GE-E0405").at(shown.clone(), 0, 0).of(kind)
    })
}

/// Inputs from a folder and from files by name; one whose value the model was compiled for need not be given.
pub fn gather(m: &CompiledModel, dir: Option<&Path>, named: &[String]) -> Result<Vec<HostTensor>> {
    let given = Given { dir, named };
    let fixed = m.fixed_inputs();
    let value = |k: usize| fixed.iter().find(|f| f.0 == k).map(|f| f.1);
    let names: Vec<&str> = m.inputs.iter().map(|i| i.name.as_str()).collect();
    let files = given.files(&names)?;
    let one = |(k, (i, file)): (usize, (&ge_model::IoInfo, Option<PathBuf>))| match (file, value(k)) {
        (Some(f), Some(t)) if !f.exists() && !files_named(named, &i.name) => fixed_value(t),
        (Some(f), _) => read_npy(&f, i.desc.dtype),
        (None, Some(t)) => fixed_value(t),
        (None, None) => Err(not_given(&i.name, &format!("{}{}", i.desc.dtype, i.desc.shape))),
    };
    m.inputs.iter().zip(files).enumerate().map(one).collect()
}

fn files_named(named: &[String], name: &str) -> bool {
    named.iter().any(|i| i.split_once('=').is_some_and(|(n, _)| n == name))
}

fn not_given(name: &str, expected: &str) -> Error {
    Diagnostic::error(format!("input `{name}` is not given"))
        .code("GE-E0302")
        .subject(name)
        .found("nothing", expected)
        .help("give a folder with `--inputs DIR`, the file with `--input NAME=FILE.npy`, or `--random SEED`")
        .of(ErrorKind::USAGE)
}

impl Given<'_> {
    /// Whether anything is given.
    pub fn any(&self) -> bool {
        self.dir.is_some() || !self.named.is_empty()
    }

    /// The file of each input of these names, in order.
    fn files(&self, inputs: &[&str]) -> Result<Vec<Option<PathBuf>>> {
        let mut by_name: Vec<(&str, &str)> = Vec::new();
        for i in self.named {
            let (n, f) =
                i.split_once('=').ok_or_else(|| Error::usage(format!("`--input {i}`: expected NAME=FILE.npy")))?;
            if !inputs.contains(&n) {
                return Err(crate::options::unknown_name("input", n, inputs.iter().copied()));
            }
            by_name.push((n, f));
        }
        let in_dir = |k: usize| self.dir.map(|d| d.join(format!("input_{k}.npy")));
        let by_name = |name: &str| by_name.iter().find(|n| n.0 == name).map(|n| PathBuf::from(n.1));
        Ok(inputs.iter().enumerate().map(|(k, name)| by_name(name).or_else(|| in_dir(k))).collect())
    }

    /// Reads inputs of these names and types, in order; None where none is given.
    pub fn some(&self, inputs: &[(&str, DType)]) -> Result<Vec<Option<HostTensor>>> {
        let names: Vec<&str> = inputs.iter().map(|i| i.0).collect();
        let files = self.files(&names)?;
        files.into_iter().zip(inputs).map(|(f, (_, dtype))| f.map(|f| read_npy(&f, *dtype)).transpose()).collect()
    }

    /// Reads inputs of these names and types, in order.
    pub fn read(&self, inputs: &[(&str, DType)]) -> Result<Vec<HostTensor>> {
        let read = self.some(inputs)?;
        let one =
            |(t, (name, dtype)): (Option<HostTensor>, &(&str, DType))| t.ok_or_else(|| not_given(name, dtype.name()));
        read.into_iter().zip(inputs).map(one).collect()
    }
}
