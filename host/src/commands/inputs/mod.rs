//! The inputs and devices of commands that run a model: the shared flags and what they lead to.
//! Arrays come from `.npy` and `.npz` files, from images, or from the command line itself.
mod array;
/// Inputs with a default value.
pub mod defaults;
mod image;
/// Inputs that are sequences or optionals.
pub mod items;
mod kernels;
/// Sizes of random inputs.
pub mod shapes;
mod value;

use crate::commands::flags::{CompileFlags, Global};
use crate::commands::talk::say;
use crate::session::model::{Item, fixed_value, random_inputs, range_of};
use crate::{Diagnostic, Error, ErrorKind, Result};
use array::Folder;
use clap::Args;
use ge_model::CompiledModel;
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::tensor::Container;
use ge_plugin_api::types::{ConstTensor, DType, TensorDesc};
use kernels::Kernels;
use shapes::Sizes;
use std::path::{Path, PathBuf};

/// Where inputs come from.
#[derive(Args, Clone, Debug, Default)]
pub struct InputFlags {
    /// Folder with input_0.npy, input_1.npy … in graph-input order, or a .npz file of arrays by
    /// name
    #[arg(long = "inputs", value_name = "DIR|FILE.npz")]
    pub dir: Option<PathBuf>,
    #[command(flatten)]
    pub by_name: NamedInputs,
    /// Random inputs of a seed
    #[arg(long, value_name = "SEED", conflicts_with_all = ["dir", "named"])]
    pub random: Option<u64>,
}

/// Inputs by name, and how they become what the model takes.
#[derive(Args, Clone, Debug, Default)]
pub struct NamedInputs {
    /// One input by name: a .npy file, an image, a number or a list like [1,2]
    #[arg(id = "named", long = "input", value_name = "NAME=FILE|VALUE")]
    pub named: Vec<String>,
    /// Converts arrays to the types that the model takes; values that do not fit are told
    #[arg(long)]
    pub cast: bool,
    /// Subtracted from images of 0 to 1, one number or one a channel
    #[arg(long, value_name = "MEAN,…", value_delimiter = ',', allow_hyphen_values = true)]
    pub image_mean: Vec<f64>,
    /// What images are divided by then
    #[arg(long, value_name = "STD,…", value_delimiter = ',')]
    pub image_std: Vec<f64>,
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

/// Name and number of a device, if one was requested.
pub type Named = Option<(String, u32)>;

impl DeviceFlags {
    /// Parses the device and its options (name and value).
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
    /// The given files and values, or `None` if there are none.
    pub fn given<'a>(&'a self, global: &'a Global) -> Option<Given<'a>> {
        Some(Given { dir: self.dir.as_deref(), ..self.by_name.given(global) }).filter(Given::any)
    }
    /// For a run that failed on random inputs: adds to the error which integer inputs had no known
    /// range, and how to give them.
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
    /// Inputs of a rank, including sequences and optionals.
    pub fn items(
        &self,
        global: &Global,
        flags: &CompileFlags,
        m: &CompiledModel,
        (rank, ranks): (u32, u32),
    ) -> Result<Vec<Item>> {
        if m.inputs.iter().all(|i| i.desc.container == Container::TENSOR) {
            let all = self.tensors(global, flags, m, (rank, ranks))?;
            return Ok(all.into_iter().map(Item::Tensor).collect());
        }
        if let Some(seed) = self.random {
            // This fails with the name of an input for which no random value can be made.
            return Ok(random_inputs(m, seed)?.into_iter().map(Item::Tensor).collect());
        }
        let dir = self.dir.as_ref().map(|d| input_dir(d, rank, ranks));
        items::gather(m, &Given { dir: dir.as_deref(), ..self.by_name.given(global) })
    }
    /// Inputs of a rank. Where the model leaves sizes open, random inputs have those of
    /// `--input-shape`.
    pub fn tensors(
        &self,
        global: &Global,
        flags: &CompileFlags,
        m: &CompiledModel,
        (rank, ranks): (u32, u32),
    ) -> Result<Vec<HostTensor>> {
        if let Some(seed) = self.random {
            return Sizes::asked(flags)?.inputs(m, seed.wrapping_add(u64::from(rank)));
        }
        let dir = self.dir.as_ref().map(|d| input_dir(d, rank, ranks));
        let beyond = dir.as_ref().map(|d| d.join(format!("input_{}.npy", m.inputs.len())));
        if let Some(file) = beyond.filter(|f| f.exists()) {
            let (file, count) = (file.display(), m.inputs.len());
            say(global, &format!("note: `{file}` is not read: the model has {count} inputs, initializers are none"));
        }
        gather(m, &Given { dir: dir.as_deref(), ..self.by_name.given(global) })
    }
}

impl NamedInputs {
    /// What is given by name, without a folder.
    pub fn given<'a>(&'a self, global: &'a Global) -> Given<'a> {
        Given { dir: None, by_name: self, plugins: global.plugins.as_deref() }
    }
}

/// The folder from which a rank reads its inputs. A single rank reads `rank0` where the folder has
/// no inputs of its own.
fn input_dir(dir: &Path, rank: u32, ranks: u32) -> PathBuf {
    let own = dir.join("rank0");
    if ranks == 1 && own.is_dir() && !dir.join("input_0.npy").exists() { own } else { rank_dir(dir, rank, ranks) }
}

/// The folder of a rank.
pub fn rank_dir(dir: &Path, rank: u32, ranks: u32) -> PathBuf {
    if ranks == 1 { dir.to_path_buf() } else { dir.join(format!("rank{rank}")) }
}

/// Inputs given as files and values.
#[derive(Clone, Copy)]
pub struct Given<'a> {
    /// Folder with `input_0.npy` …, a `.npz` file, or the one `.npy` file of a model with one
    /// input.
    pub dir: Option<&'a Path>,
    /// Inputs given by name; they take precedence over those of the folder.
    pub by_name: &'a NamedInputs,
    /// Configuration of the plugins whose kernels decode images and convert types.
    pub plugins: Option<&'a Path>,
}

/// An input that a model needs.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// Name of the input.
    pub name: &'a str,
    /// Type and shape, as far as they are known.
    pub desc: &'a TensorDesc,
    /// Number of its file in a folder, if it has one.
    pub file: Option<usize>,
}

/// Reads a tensor of this type from a `.npy` file.
pub fn read_npy(path: &Path, want: DType) -> Result<HostTensor> {
    array::read(&path.display().to_string(), &array::bytes(path)?, want)
}

/// Reads inputs from a folder and from files and values given by name. Inputs whose value was fixed
/// at compilation, or that have a default, may be left out. All problems are reported together.
pub fn gather(m: &CompiledModel, given: &Given<'_>) -> Result<Vec<HostTensor>> {
    let own: Vec<_> = m.fixed_inputs().into_iter().chain(m.default_inputs()).collect();
    let value = |k: usize| own.iter().find(|f| f.0 == k).map(|f| f.1);
    given.read_or(&defaults::wanted(m, given)?, &value)
}

fn not_given(name: &str, expected: &str) -> Diagnostic {
    Diagnostic::error(format!("input `{name}` is not given"))
        .code(ge_codes::INPUT)
        .subject(name)
        .found("nothing", expected)
        .help(format!("give all by `--inputs DIR` or `--random SEED`, or this one by `--input {name}=FILE.npy` or `--input {name}=VALUE`"))
}

impl Given<'_> {
    /// Whether any input is given.
    pub fn any(&self) -> bool {
        self.dir.is_some() || !self.by_name.named.is_empty()
    }

    /// Reads the inputs in order, with `None` for those that are not given.
    pub fn some(&self, wanted: &[Wanted<'_>]) -> Result<Vec<Option<HostTensor>>> {
        self.collect(wanted, &|_| true)
    }

    /// Reads the inputs in order; an input that is not given gets the value that `value` returns
    /// for it.
    pub fn read_or<'v>(
        &self,
        wanted: &[Wanted<'_>],
        value: &dyn Fn(usize) -> Option<&'v ConstTensor>,
    ) -> Result<Vec<HostTensor>> {
        let one = |(k, t): (usize, Option<HostTensor>)| match (t, value(k)) {
            (Some(t), _) => Ok(t),
            (None, Some(v)) => fixed_value(v),
            (None, None) => Err(Error::internal("an input that was not given passed")),
        };
        self.collect(wanted, &|k| value(k).is_some())?.into_iter().enumerate().map(one).collect()
    }

    fn collect(&self, wanted: &[Wanted<'_>], optional: &dyn Fn(usize) -> bool) -> Result<Vec<Option<HostTensor>>> {
        let named = self.named(wanted)?;
        let folder = Folder::open(self.dir, wanted)?;
        let kernels = Kernels::new(self.plugins);
        let mut out = Vec::with_capacity(wanted.len());
        let mut bad: Vec<Diagnostic> = Vec::new();
        let mut damaged = false;
        for (k, w) in wanted.iter().enumerate() {
            if w.desc.container != Container::TENSOR {
                // Sequences and optionals are read elsewhere, by commands that accept them.
                if !optional(k) {
                    bad.push(not_given(w.name, "a sequence or an optional, which `ge run` takes"));
                }
                out.push(None);
                continue;
            }
            let text = named.iter().find(|n| n.0 == w.name).map(|n| n.1);
            let read = match text {
                Some(text) => self.of_text(&kernels, w, text).map(Some),
                None => match folder.tensor(w) {
                    Ok(Some((shown, bytes))) => self.of_array(&kernels, w, &shown, &bytes).map(Some),
                    Ok(None) if optional(k) => Ok(None),
                    Ok(None) => {
                        let form = format!("{}{}{}", w.desc.dtype, w.desc.shape, folder.place(w));
                        Err(not_given(w.name, &form).of(ErrorKind::USAGE))
                    }
                    Err(e) => Err(e),
                },
            };
            let fit = read.and_then(|t| t.map(|t| fits(w, t)).transpose());
            match fit {
                Ok(t) => out.push(t),
                Err(e) if matches!(e.kind, ErrorKind::USAGE | ErrorKind::DAMAGED) => {
                    damaged |= e.kind == ErrorKind::DAMAGED;
                    bad.extend(e.diagnostics);
                }
                Err(e) => return Err(e),
            }
        }
        match (bad.is_empty(), damaged) {
            (true, _) => Ok(out),
            (false, true) => Err(Error::all(ErrorKind::DAMAGED, bad)),
            (false, false) => Err(Error::all(ErrorKind::USAGE, bad)),
        }
    }

    /// Name and text of each `--input`. Each must name an existing input, and only once.
    fn named(&self, wanted: &[Wanted<'_>]) -> Result<Vec<(&str, &str)>> {
        let mut out: Vec<(&str, &str)> = Vec::new();
        for i in &self.by_name.named {
            let (name, text) = name_and_text(i, wanted.iter().map(|w| w.name))
                .ok_or_else(|| Error::usage(format!("`--input {i}`: expected NAME=FILE.npy or NAME=VALUE")))?;
            if !wanted.iter().any(|w| w.name == name) {
                return Err(crate::options::unknown_name("input", name, wanted.iter().map(|w| w.name)));
            }
            if out.iter().any(|o| o.0 == name) {
                return Err(Error::usage(format!("`--input {name}=…` is given twice")));
            }
            out.push((name, text));
        }
        Ok(out)
    }

    fn of_text(&self, kernels: &Kernels<'_>, w: &Wanted<'_>, text: &str) -> Result<HostTensor> {
        if let Some(v) = value::parse(text) {
            return v.tensor(kernels, w);
        }
        let path = Path::new(text);
        if !path.exists() && !array::is_file_name(text) {
            return Err(Diagnostic::error(format!("input `{}`: `{text}` is neither a file nor a value", w.name))
                .subject(w.name)
                .found(format!("`{text}`"), "a .npy file, an image, a number, or a list like [1,2,3]")
                .raise(ge_codes::INPUT));
        }
        let bytes = array::bytes(path)?;
        if image::is_image(&bytes) {
            return image::read(kernels, w, text, &bytes, self.by_name);
        }
        self.of_array(kernels, w, text, &bytes)
    }

    fn of_array(&self, kernels: &Kernels<'_>, w: &Wanted<'_>, shown: &str, bytes: &[u8]) -> Result<HostTensor> {
        let own = ge_runtime::npy::dtype_of(bytes);
        let name = ge_runtime::npy::descr;
        let same = own.is_none_or(|o| o == w.desc.dtype || name(o).is_some() && name(o) == name(w.desc.dtype));
        match own {
            Some(own) if !same && self.by_name.cast => {
                let t = array::read(shown, bytes, own)?;
                kernels.cast(&t, w.desc.dtype, &format!("input `{}`, {shown}", w.name))
            }
            Some(own) if !same => Err(array::other_type(w, shown, own)),
            _ => array::read(shown, bytes, w.desc.dtype),
        }
    }
}

/// Splits `NAME=TEXT`; `None` if there is no `=`. A name may contain `=`: of the known names that
/// fit, the longest one is meant.
fn name_and_text<'g, 'k>(given: &'g str, known: impl Iterator<Item = &'k str>) -> Option<(&'g str, &'g str)> {
    let cut = |name: &str| {
        let text = given.strip_prefix(name)?.strip_prefix('=')?;
        Some((&given[..name.len()], text))
    };
    known.filter_map(cut).max_by_key(|(name, _)| name.len()).or_else(|| given.split_once('='))
}

/// Checks that a tensor has the wanted sizes, as far as they are known.
fn fits(w: &Wanted<'_>, t: HostTensor) -> Result<HostTensor> {
    let (have, want) = (&t.dims, &w.desc.shape);
    let same = want.rank() == Some(have.len())
        && want.dims().iter().zip(have.iter()).all(|(d, n)| d.size().is_none_or(|s| s == *n));
    if want.is_unranked() || same {
        return Ok(t);
    }
    let count: u64 = have.iter().product();
    let help = match want.sizes() {
        Some(s) if s.iter().product::<u64>() == count => {
            let dims: Vec<String> = s.iter().map(u64::to_string).collect();
            format!("it has as many elements: `x.reshape({})`", dims.join(", "))
        }
        _ => "give an array of these sizes; `ge inspect` lists the inputs".to_owned(),
    };
    Err(Diagnostic::error(format!("input `{}` has another shape than the model takes", w.name))
        .subject(w.name)
        .found(format!("{}{:?}", t.dtype, have.as_slice()), format!("{}{want}", w.desc.dtype))
        .help(help)
        .raise(ge_codes::INPUT))
}

#[cfg(test)]
mod tests {
    use super::name_and_text;

    #[test]
    fn the_longest_known_name_is_meant() {
        let of = |given| name_and_text(given, ["a", "a=b"].into_iter());
        assert_eq!(of("a=b=5"), Some(("a=b", "5")));
        assert_eq!(of("a=5"), Some(("a", "5")));
        assert_eq!(of("a=c=5"), Some(("a", "c=5")));
        assert_eq!((of("x=5"), of("x")), (Some(("x", "5")), None));
    }
}
